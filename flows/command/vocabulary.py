"""`cloze vocabulary`: shows one vocabulary, or two side by side, or fits one to a domain.

A text acts on nothing, and outputs are bounded.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command.arguments import DEFAULT_PARAMETER, AsJson, Count, NamesStore, VocabularyName
from flows.command.help import format_examples
from flows.command.terminal import build_table, console, print_json, print_lines
from flows.command.trainer_process import open_model_folder
from flows.command.vocabulary_adapt import (
    NAME_WIDTH,
    Facts,
    adapt_vocabulary,
    count_domain,
    render_adaptation,
    resolve_token_count,
)
from flows.export.exported import open_new_folder
from flows.recipes.privacy import to_one_line
from flows.run.addresses import find_artifacts, has_short_fingerprint, pick_newest
from flows.run.record.releases import parse_release_address
from tokenizers_train.adapting import (
    LETTERS,
    LETTERS_AND_DIGITS,
    AdaptSettings,
)
from tokenizers_train.build import read_vocabulary
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import (
    compute_overlap,
    list_longest_pieces,
    list_ordinary_ids,
)
from tokenizers_train.measures.texts import TextMeasures, cut_text, find_cut_differences, measure_lines
from tokenizers_train.vocabularies.files import read_bounded_bytes
from tokenizers_train.vocabularies.vocabulary import Vocabulary, load_vocabulary
from trainer.huggingface.vocabulary_rows import adapt_checkpoint, read_checked_config

VOCABULARY_FILES = ("tokenizer.json", "vocab.json", "vocab.txt")


MAX_PIECES = 512
MAX_WORDS_APART, MAX_LONGEST_PIECES = 12, 8
SAMPLE_CHARACTERS = 50_000  # of a file, in which words are looked for that two vocabularies cut in other places


vocabulary = App(
    name="vocabulary",
    help="Show a vocabulary, compare two, or fit one to a domain.",
    default_parameter=DEFAULT_PARAMETER,
)


@vocabulary.command(help_epilogue=format_examples("vocabulary show"))
def show(
    vocabulary: VocabularyName,
    sentence: Annotated[str | None, Parameter(help="A text to cut into pieces.")] = None,
    *,
    store: NamesStore = "store",
    as_json: AsJson = False,
) -> None:
    """Show a vocabulary, and how it splits a text."""
    chosen = find_vocabulary(vocabulary, store)
    facts = build_vocabulary_json(chosen)
    if sentence is not None:
        facts |= build_text_json(chosen, sentence)
    if as_json:
        print_json(facts)
        return
    console.print(build_vocabulary_table([vocabulary], [facts]))
    if sentence is not None:
        console.print("", format_pieces(facts["pieces"]), sep="\n")


@vocabulary.command(help_epilogue=format_examples("vocabulary compare"))
def compare(
    first: VocabularyName,
    second: VocabularyName,
    sentence: Annotated[str | None, Parameter(help="A text to compare them on; default: a story.")] = None,
    *,
    text: Annotated[Path | None, Parameter(help="A text file to compare them on, instead.")] = None,
    store: NamesStore = "store",
    as_json: AsJson = False,
) -> None:
    """Compare the pieces of two vocabularies, and how they tokenize a sample text."""
    if sentence is not None and text is not None:
        raise InputError("Give a text to compare on, or --text FILE (one of the two).")
    vocabularies = (find_vocabulary(first, store), find_vocabulary(second, store))
    with _open_text(sentence, text) as (beginning, lines):
        facts = build_comparison_json((first, second), vocabularies, lines, beginning)
    if as_json:
        print_json(facts)
    else:
        console.print(render_comparison(facts))


@vocabulary.command(help_epilogue=format_examples("vocabulary adapt"))
def adapt(
    vocabulary: VocabularyName,
    *,
    corpus: Annotated[
        list[str], Parameter(help="Files, a folder or a corpus of the store; may be given again.", negative=())
    ],
    output: Annotated[Path, Parameter(help="Folder for the new vocabulary; it must be empty or not exist.")],
    tokens: Annotated[Count | None, Parameter(help="How many tokens to add, in unused slots first.")] = None,
    fill: Annotated[bool, Parameter(help="Add as many as there are [unusedN] slots.", negative=())] = False,
    append: Annotated[bool, Parameter(help="Leave unused slots as they are.", negative=())] = False,
    checkpoint: Annotated[
        str | None, Parameter(help="A model that was trained with the vocabulary: give it rows for the new tokens.")
    ] = None,
    min_count: Annotated[Count, Parameter(help="Ignore words that occur less often.")] = 5,
    digits: Annotated[bool, Parameter(help="Also take words with digits.", negative=())] = False,
    text: Annotated[str, Parameter(help="The field or column that holds the text.")] = "text",
    store: NamesStore = "store",
    as_json: AsJson = False,
) -> None:
    """Add tokens for the words of a domain to a vocabulary.

    They can also be added to a model. The number of tokens that this saves is reported.
    """
    if append and fill:
        raise InputError("--append leaves unused slots as they are, and --fill fills them: give one of the two.")
    old = find_vocabulary(vocabulary, store)
    wanted = resolve_token_count(old, tokens, fill)
    characters = LETTERS_AND_DIGITS if digits else LETTERS
    settings = AdaptSettings(min_count=min_count, characters=characters)
    with ExitStack() as stack:
        folder = stack.enter_context(open_new_folder(output))
        model = stack.enter_context(open_model_folder(checkpoint)) if checkpoint else None
        if model is not None:
            read_checked_config(model, old)
        domain = count_domain(corpus, old, store, text, (lambda line: None) if as_json else print_lines)
        new, facts = adapt_vocabulary(old, domain, wanted, settings, append)
        if model is None:
            new.save(folder)
        else:
            facts["model_rows"] = adapt_checkpoint(model, old, new, folder)
    if as_json:
        print_json(facts)
    else:
        console.print(render_adaptation(vocabulary, facts, output))


def build_vocabulary_table(names: Sequence[str], facts: Sequence[Facts]) -> Table:
    """Build a terminal table that shows vocabularies side by side.

    Args:
        names: The column headers.
        facts: The objects that `build_vocabulary_json` returns, possibly with statistics of a tokenized text under
            "text" (`build_measures_json`).
    """
    heads = [to_one_line(name, 3 * NAME_WIDTH) for name in names]
    table = build_table("", *heads, texts=["", *heads])
    for title, values in zip(
        _build_rows(facts[0]), zip(*(_build_rows(each).values() for each in facts), strict=True), strict=True
    ):
        table.add_row(Text(title), *map(Text, values))
    return table


def _build_rows(facts: Facts) -> dict[str, str]:
    """Build a vocabulary's column of the table: formatted values by row title.

    Args:
        facts: The object that `build_vocabulary_json` returns, possibly with the key "text".
    """
    rule = "those of its tokenizer.json, which only the library tokenizers can read"
    if facts["words"] is not None:
        rule = ", ".join(f"{key} {str(value).lower()}" for key, value in facts["words"].items())
    rows = {
        "tokens": f"{facts['size']:,}, of which {facts['ordinary']:,} stand for text",
        "algorithm": facts["algorithm"],
        "words": rule,
        "special": ", ".join(f"{token} {id}" for token, id in facts["special_tokens"].items()) or "none",
        "longest": "  ".join(to_one_line(token, NAME_WIDTH) for token in facts["longest"]),
    }
    if "text" in facts:
        text = facts["text"]
        rows |= {f"{key} of the text": f"{text[key]:,}" for key in ("words", "tokens")}
        rows |= {
            "tokens a word": format_decimals(text["tokens_a_word"]),
            "bytes a token": format_decimals(text["bytes_a_token"]),
        }
        rows["unknown tokens"] = f"{text['unknown_tokens']:,}"
    return rows


def format_pieces(pieces: Sequence[dict[str, Any]]) -> Text:
    """Format the pieces (tokens) of a tokenized text with their ids. At most MAX_PIECES are shown.

    Args:
        pieces: Dicts with the keys "token" and "id", as under "pieces" in the result of `build_text_json`.
    """
    shown = [f"{to_one_line(piece['token'], NAME_WIDTH)} {piece['id']}" for piece in pieces[:MAX_PIECES]]
    if len(pieces) > MAX_PIECES:
        shown.append(f"… {len(pieces) - MAX_PIECES:,} more pieces")
    return Text("  ".join(shown))


def render_comparison(facts: Facts) -> RenderableType:
    """Render two vocabularies side by side, the number of shared tokens, and words that they split differently.

    Args:
        facts: The object that `build_comparison_json` returns.
    """
    sides, shared = facts["vocabularies"], facts["overlap"]
    names = [to_one_line(side["name"], NAME_WIDTH) for side in sides]
    apart = build_table("cut in other places", *names, texts=["cut in other places", *names])
    for word in facts["cut_apart"]:
        apart.add_row(
            *(Text(to_one_line(text, NAME_WIDTH)) for text in (word["word"], *map(" · ".join, word["pieces"])))
        )
    first, second = (f"{shared[side]:,} of {name}" for side, name in zip(("first", "second"), names, strict=True))
    pieces = Text(f"{shared['shared']:,} pieces in both, of {first} and {second}")
    return Group(build_vocabulary_table([side["name"] for side in sides], sides), Text(), pieces, Text(), apart)


def format_decimals(value: float | None) -> str:
    """Format a number with three decimals, or None as a dash.

    >>> format_decimals(1.23456), format_decimals(None)
    ('1.235', '-')
    """
    return "-" if value is None else f"{value:,.3f}"


def build_vocabulary_json(vocabulary: Vocabulary) -> Facts:
    """Build the JSON object that describes a vocabulary.

    Returns:
        A dict with the keys "size", "algorithm", "words" (the settings for splitting text into words; None if unknown),
        "special_tokens" (ids by token), "ordinary" (number of tokens that represent text) and "longest" (the longest
        tokens).
    """
    special = [*vocabulary.special_tokens.values(), *vocabulary.additional_special_tokens]
    return {
        "size": vocabulary.size,
        "algorithm": vocabulary.algorithm,
        "words": vocabulary.word_rule.settings if vocabulary.word_rule is not None else None,
        "special_tokens": {token: vocabulary.find_id(token) for token in special},
        "ordinary": len(list_ordinary_ids(vocabulary)),
        "longest": [vocabulary.tokens[id] for id in list_longest_pieces(vocabulary, MAX_LONGEST_PIECES)],
    }


def build_text_json(vocabulary: Vocabulary, text: str) -> Facts:
    """Tokenize a text, and build the JSON object of the result.

    Args:
        vocabulary: The vocabulary.
        text: The text.

    Returns:
        A dict with the keys "text" (statistics such as tokens per word) and "pieces" (dicts with "id", "token", "start"
        and "end", the character positions in the text).
    """
    cut = cut_text(vocabulary, text)
    pieces = [
        {"id": piece.id, "token": vocabulary.tokens[piece.id], "start": piece.start, "end": piece.end}
        for piece in cut.pieces
    ]
    return {"text": build_measures_json(cut.measures), "pieces": pieces}


def build_measures_json(measures: TextMeasures) -> Facts:
    """Build the JSON object of the statistics of a tokenized text.

    Returns:
        The fields of `TextMeasures` by name, and the ratios "tokens_a_word", "bytes_a_token" and "unknown_share".
    """
    return {
        **asdict(measures),
        "tokens_a_word": measures.fertility,
        "bytes_a_token": measures.bytes_per_token,
        "unknown_share": measures.unknown_share,
    }


def build_comparison_json(
    names: tuple[str, str], vocabularies: tuple[Vocabulary, Vocabulary], lines: Iterable[str], beginning: str
) -> Facts:
    """Compare two vocabularies on a text, and build the JSON object of the result.

    Args:
        names: The names of the vocabularies.
        vocabularies: The vocabularies.
        lines: The lines of the text, which are read once.
        beginning: The beginning of the text. Only this is searched for words that the vocabularies split differently.

    Returns:
        A dict with the keys "vocabularies" (their descriptions, each with "name" and "text"), "overlap" (numbers of
        tokens: "shared", "first", "second"), and "cut_apart" (dicts with a "word" that they split differently and its
        two "pieces").
    """
    figures = measure_lines(*map(Encoder, vocabularies), lines=lines)
    first, second = (cut_text(each, beginning) for each in vocabularies)
    return {
        "vocabularies": [
            {"name": name, **build_vocabulary_json(each), "text": build_measures_json(measures)}
            for name, each, measures in zip(names, vocabularies, figures, strict=True)
        ],
        "overlap": asdict(compute_overlap(*vocabularies)),
        "cut_apart": [
            {"word": word, "pieces": [[*ours], [*theirs]]}
            for word, (ours, theirs) in find_cut_differences(first, second, MAX_WORDS_APART).items()
        ],
    }


@contextmanager
def _open_text(sentence: str | None, path: Path | None) -> Iterator[tuple[str, Iterator[str]]]:
    """Open the text on which vocabularies are compared. It is closed at the end of the block.

    Args:
        sentence: The text itself, or None.
        path: A text file. If both are None, a built-in story is used.

    Yields:
        The beginning of the text, and an iterator of all its lines.

    Raises:
        InputError: If the file cannot be read, or is not UTF-8.
    """
    if sentence is not None:
        yield sentence, iter(sentence.splitlines())
        return

    source = path if path is not None else Path(str(files("corpora") / "samples" / "stories" / "stories.txt"))
    try:
        with source.open(encoding="utf-8") as file:
            beginning = file.read(SAMPLE_CHARACTERS)
            file.seek(0)
            yield beginning, file
    except OSError as error:
        raise InputError(f"--text {source} cannot be read ({error.strerror}): name a file of plain text.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--text {source} is not UTF-8 ({error}): convert it to UTF-8 first.") from error


def find_vocabulary(address: str, store: str = "store") -> Vocabulary:
    """Load the vocabulary at an address.

    Args:
        address: A tokenizer's folder or file, a vocabulary's folder or name in a store, or a release.
        store: The store in which names and short ids are looked up.

    Raises:
        InputError: If there is no such vocabulary, or the address is ambiguous.
    """
    path = Path(address)
    if path.is_file():
        return _read_from_file(path)
    if any((path / name).is_file() for name in VOCABULARY_FILES):
        return load_vocabulary(path)
    if "/" in address or path.exists() or parse_release_address(address) is not None:
        return _read_from_store(address)
    held = list_vocabulary_names(store)
    if address not in held and has_short_fingerprint(address):
        return _read_from_store(Place(store).to_address(address))
    if address not in held:
        has = f"which has {', '.join(held)}" if held else "which has none"
        raise InputError(
            f"There is no vocabulary {address!r} in the store {store!r}, {has}. Name a vocabulary of the store "
            "(--store names another store), a tokenizer's folder or a vocab.txt."
        )
    return _read_from_store(Place(store).to_address(f"vocabularies/{address}"))


def list_vocabulary_names(store: str) -> list[str]:
    """Return the sorted names of the vocabularies in a store."""
    return sorted({path.split("/")[1] for path in Place(store).list_files("vocabularies") if path.count("/") >= 2})


def _read_from_store(address: str) -> Vocabulary:
    """Read the newest vocabulary at an address in a store.

    Args:
        address: The address of a vocabulary, of all vocabularies with one name, of a store, or of a release.

    Raises:
        InputError: If there is no vocabulary, or there are vocabularies with different names.
    """
    artifacts = find_artifacts(address, "vocabularies")
    names = sorted({artifact.manifest.name for artifact in artifacts})
    if len(names) > 1:
        raise InputError(
            f"{address} holds {len(names)} vocabularies, {', '.join(names)}: name one of them, as in "
            f"{artifacts[0].place.to_address(f'vocabularies/{names[0]}')}."
        )
    artifact = pick_newest(artifacts)
    return read_vocabulary(artifact.place, artifact.manifest)


def _read_from_file(path: Path) -> Vocabulary:
    """Read a vocabulary from one file. The file's name determines the format.

    Raises:
        InputError: If the name is unknown, the file cannot be read, or the merges of a byte-level BPE are missing.
    """
    merges = path.with_name(path.name.replace("encoder.json", "vocab.bpe"))
    if merges != path and merges.is_file():
        files = {"vocab.json": read_bounded_bytes(path), "merges.txt": read_bounded_bytes(merges)}
        return Vocabulary.from_files(files, origin=str(path))
    if merges != path:
        raise InputError(f"{path}: its merges are missing. They belong next to it, in {merges.name} of {path.parent}.")
    if path.name == "vocab.json":
        return load_vocabulary(path.parent)
    if path.suffix in (".json", ".txt"):
        return load_vocabulary(path)
    raise InputError(
        f"{path} is no vocabulary: name a tokenizer's folder, its tokenizer.json, a vocab.txt of one WordPiece token a "
        "line, or the encoder.json of a byte-level BPE with its vocab.bpe next to it."
    )
