"""The figures of vocabularies on the terminal, as plain tables. A text acts on nothing, and outputs are bounded."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command.terminal.tables import plain_table
from flows.recipes.privacy import to_one_line
from flows.run.addresses import find_artifacts, has_short_fingerprint, pick_newest
from flows.run.record.releases import parse_release_address
from tokenizers_train.build import read_vocabulary
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import compute_overlap, list_longest_pieces, list_ordinary_ids
from tokenizers_train.measures.texts import TextMeasures, cut_text, find_cut_differences, measure_lines
from tokenizers_train.vocabularies.files import read_bounded_bytes
from tokenizers_train.vocabularies.vocabulary import Vocabulary, load_vocabulary

Facts = dict[str, Any]
NAME, MOST_PIECES, MOST_TOKENS = 40, 512, 12


def vocabulary_table(names: Sequence[str], facts: Sequence[Facts]) -> Table:
    """Return vocabularies side by side, with the figures of a text if they have some."""
    heads = [to_one_line(name, 3 * NAME) for name in names]
    table = plain_table("", *heads, texts=["", *heads])
    for title, values in zip(_rows(facts[0]), zip(*(_rows(each).values() for each in facts), strict=True), strict=True):
        table.add_row(Text(title), *map(Text, values))
    return table


def _rows(facts: Facts) -> dict[str, str]:
    rule = "those of its tokenizer.json, which only the library tokenizers can read"
    if facts["words"] is not None:
        rule = ", ".join(f"{key} {str(value).lower()}" for key, value in facts["words"].items())
    rows = {
        "tokens": f"{facts['size']:,}, of which {facts['ordinary']:,} stand for text",
        "algorithm": facts["algorithm"],
        "words": rule,
        "special": ", ".join(f"{token} {id}" for token, id in facts["special_tokens"].items()) or "none",
        "longest": "  ".join(to_one_line(token, NAME) for token in facts["longest"]),
    }
    if "text" in facts:
        text = facts["text"]
        rows |= {f"{key} of the text": f"{text[key]:,}" for key in ("words", "tokens")}
        rows |= {"tokens a word": decimals(text["tokens_a_word"]), "bytes a token": decimals(text["bytes_a_token"])}
        rows["unknown tokens"] = f"{text['unknown_tokens']:,}"
    return rows


def pieces_text(pieces: Sequence[dict[str, Any]]) -> Text:
    """Return the pieces of a text as the vocabulary writes them, each with its id."""
    shown = [f"{to_one_line(piece['token'], NAME)} {piece['id']}" for piece in pieces[:MOST_PIECES]]
    if len(pieces) > MOST_PIECES:
        shown.append(f"… {len(pieces) - MOST_PIECES:,} more pieces")
    return Text("  ".join(shown))


def comparison_display(facts: Facts) -> RenderableType:
    """Return two vocabularies side by side, the pieces that they share, and words that they cut in other places."""
    sides, shared = facts["vocabularies"], facts["overlap"]
    names = [to_one_line(side["name"], NAME) for side in sides]
    apart = plain_table("cut in other places", *names, texts=["cut in other places", *names])
    for word in facts["cut_apart"]:
        apart.add_row(*(Text(to_one_line(text, NAME)) for text in (word["word"], *map(" · ".join, word["pieces"]))))
    first, second = (f"{shared[side]:,} of {name}" for side, name in zip(("first", "second"), names, strict=True))
    pieces = Text(f"{shared['shared']:,} pieces in both, of {first} and {second}")
    return Group(vocabulary_table([side["name"] for side in sides], sides), Text(), pieces, Text(), apart)


def adaptation_display(name: str, facts: Facts, output: Path) -> RenderableType:
    """Return what new tokens gain, the first of them, and how the vocabulary has grown."""
    table = plain_table("source", "words", "tokens a word", "words of one token", "words unknown")
    before, after = facts["before"], facts["after"]
    sources = before["sources"] if len(before["sources"]) > 1 else {}
    for source in sources:
        table.add_row(Text(to_one_line(source, NAME)), *_gains(before["sources"][source], after["sources"][source]))
    table.add_row("all", *_gains(before, after))
    added = plain_table("token added", "saves", "was", texts=["token added", "was"])
    for token in facts["tokens"][:MOST_TOKENS]:
        was = Text(to_one_line(" ".join(token["pieces"]), 2 * NAME))
        added.add_row(Text(to_one_line(token["token"], NAME)), f"{token['saved']:,}", was)
    return Group(table, Text(), added, Text(), *map(Text, _outcome(name, facts)), Text(str(output)))


def _gains(before: Facts, after: Facts) -> list[str]:
    shown = {"fertility": ".3f", "whole_share": ".2%", "unknown_rate": ".3%"}
    return [f"{before['words']:,}", *(f"{before[k] or 0:{form}} → {after[k] or 0:{form}}" for k, form in shown.items())]


def _outcome(name: str, facts: Facts) -> Iterator[str]:
    size, number = facts["size"], len(facts["tokens"])
    yield (
        f"{number:,} tokens added to {to_one_line(name, NAME)}: {facts['filled']:,} in unused slots, "
        f"{facts['appended']:,} after the last one ({size['before']:,} → {size['after']:,} tokens)"
    )
    if number < facts["wanted"]:
        yield f"{facts['wanted']:,} were asked for: no more words occur often enough and are cut."
    if facts["model_rows"] is not None:
        yield f"The model has {facts['model_rows']:,} rows; those of the new tokens are means of their old pieces'."


def decimals(value: float | None) -> str:
    """Return a figure with three decimals; a dash if there is none.

    >>> decimals(1.23456), decimals(None)
    ('1.235', '-')
    """
    return "-" if value is None else f"{value:,.3f}"


WORDS_APART, LONGEST = 12, 8


def vocabulary_facts(vocabulary: Vocabulary) -> Facts:
    """Return the facts of a vocabulary."""
    special = [*vocabulary.special_tokens.values(), *vocabulary.additional_special_tokens]
    return {
        "size": vocabulary.size,
        "algorithm": vocabulary.algorithm,
        "words": vocabulary.word_rule.settings if vocabulary.word_rule is not None else None,
        "special_tokens": {token: vocabulary.find_id(token) for token in special},
        "ordinary": len(list_ordinary_ids(vocabulary)),
        "longest": [vocabulary.tokens[id] for id in list_longest_pieces(vocabulary, LONGEST)],
    }


def text_facts(vocabulary: Vocabulary, text: str) -> Facts:
    """Return the figures of a text and its pieces."""
    cut = cut_text(vocabulary, text)
    pieces = [
        {"id": piece.id, "token": vocabulary.tokens[piece.id], "start": piece.start, "end": piece.end}
        for piece in cut.pieces
    ]
    return {"text": measures_facts(cut.measures), "pieces": pieces}


def measures_facts(measures: TextMeasures) -> Facts:
    """Return the figures of a text, with their quotients."""
    return {
        **asdict(measures),
        "tokens_a_word": measures.fertility,
        "bytes_a_token": measures.bytes_per_token,
        "unknown_share": measures.unknown_share,
    }


def comparison_facts(
    names: tuple[str, str], vocabularies: tuple[Vocabulary, Vocabulary], lines: Iterable[str], beginning: str
) -> Facts:
    """Compare two vocabularies on the lines of one text. beginning: of the text, for words cut in other places"""
    figures = measure_lines(*map(Encoder, vocabularies), lines=lines)
    first, second = (cut_text(each, beginning) for each in vocabularies)
    return {
        "vocabularies": [
            {"name": name, **vocabulary_facts(each), "text": measures_facts(measures)}
            for name, each, measures in zip(names, vocabularies, figures, strict=True)
        ],
        "overlap": asdict(compute_overlap(*vocabularies)),
        "cut_apart": [
            {"word": word, "pieces": [[*ours], [*theirs]]}
            for word, (ours, theirs) in find_cut_differences(first, second, WORDS_APART).items()
        ],
    }


READABLE = ("tokenizer.json", "vocab.json", "vocab.txt")


def find_vocabulary(address: str, store: str = "store") -> Vocabulary:
    """Return the vocabulary at an address. store: where a mere name is looked up. Raises InputError if none."""
    path = Path(address)
    if path.is_file():
        return _from_file(path)
    if any((path / name).is_file() for name in READABLE):
        return load_vocabulary(path)
    if "/" in address or path.exists() or parse_release_address(address) is not None:
        return _from_store(address)
    held = names_in(store)
    if address not in held and has_short_fingerprint(address):
        return _from_store(Place(store).to_address(address))
    if address not in held:
        has = f"which has {', '.join(held)}" if held else "which has none"
        raise InputError(
            f"There is no vocabulary {address!r} in the store {store!r}, {has}. Name a vocabulary of the store "
            "(--store names another store), a tokenizer's folder or a vocab.txt."
        )
    return _from_store(Place(store).to_address(f"vocabularies/{address}"))


def names_in(store: str) -> list[str]:
    """Return the names of the vocabularies that a store holds."""
    return sorted({path.split("/")[1] for path in Place(store).list_files("vocabularies") if path.count("/") >= 2})


def _from_store(address: str) -> Vocabulary:
    artifacts = find_artifacts(address, "vocabularies")
    names = sorted({artifact.manifest.name for artifact in artifacts})
    if len(names) > 1:
        raise InputError(
            f"{address} holds {len(names)} vocabularies, {', '.join(names)}: name one of them, as in "
            f"{artifacts[0].place.to_address(f'vocabularies/{names[0]}')}."
        )
    artifact = pick_newest(artifacts)
    return read_vocabulary(artifact.place, artifact.manifest)


def _from_file(path: Path) -> Vocabulary:
    """Return the vocabulary of one file, whose name tells its form."""
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
