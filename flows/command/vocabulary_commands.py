"""`cloze vocabulary`: shows one vocabulary, or two side by side.

A vocabulary is named as `named_vocabularies` reads names. Each command imports what it needs when it runs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from corpora.errors import InputError
from flows.command.arguments import AsJson, Count, NamesStore, Shown, VocabularyName
from flows.command.terminal.output import console, print_json, say

vocabulary_app = App(
    name="vocabulary", help="Show a vocabulary, compare two, or fit one to a domain.", default_parameter=Shown
)

SAMPLE_CHARACTERS = 50_000  # of a file, in which words are looked for that two vocabularies cut in other places


@vocabulary_app.command
def show(
    vocabulary: VocabularyName,
    sentence: Annotated[str | None, Parameter(help="A text to cut into pieces.")] = None,
    *,
    store: NamesStore = "store",
    as_json: AsJson = False,
) -> None:
    """Show a vocabulary, and how it cuts a text."""
    from flows.command.vocabulary_display import (
        find_vocabulary,
        pieces_text,
        text_facts,
        vocabulary_facts,
        vocabulary_table,
    )

    chosen = find_vocabulary(vocabulary, store)
    facts = vocabulary_facts(chosen)
    if sentence is not None:
        facts |= text_facts(chosen, sentence)
    if as_json:
        print_json(facts)
        return
    console.print(vocabulary_table([vocabulary], [facts]))
    if sentence is not None:
        console.print("", pieces_text(facts["pieces"]), sep="\n")


@vocabulary_app.command
def compare(
    first: VocabularyName,
    second: VocabularyName,
    sentence: Annotated[str | None, Parameter(help="A text to compare them on; default: a story.")] = None,
    *,
    text: Annotated[Path | None, Parameter(help="A text file to compare them on, instead.")] = None,
    store: NamesStore = "store",
    as_json: AsJson = False,
) -> None:
    """Compare two vocabularies, by their pieces and on a text."""
    from flows.command.vocabulary_display import comparison_display, comparison_facts, find_vocabulary

    if sentence is not None and text is not None:
        raise InputError("Give a text to compare on, or --text FILE (one of the two).")
    vocabularies = (find_vocabulary(first, store), find_vocabulary(second, store))
    with _opened(sentence, text) as (beginning, lines):
        facts = comparison_facts((first, second), vocabularies, lines, beginning)
    if as_json:
        print_json(facts)
    else:
        console.print(comparison_display(facts))


@contextmanager
def _opened(sentence: str | None, path: Path | None) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the beginning of the text to compare on, and all its lines. Raises InputError if it cannot be read."""
    if sentence is not None:
        yield sentence, iter(sentence.splitlines())
        return
    from importlib.resources import files

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
    """Add tokens for the words of a domain, to a model as well.

    What the new tokens save is reported.
    """
    from corpora.errors import InputError
    from flows.command.trainer_process import model_folder
    from flows.command.vocabulary_adapt import adapt_vocabulary, count_domain, number_wanted
    from flows.command.vocabulary_display import adaptation_display, find_vocabulary
    from flows.export.exported import open_new_folder
    from tokenizers_train.adapting import LETTERS, LETTERS_AND_DIGITS, AdaptSettings
    from trainer.huggingface.vocabulary_rows import adapt_checkpoint, checked_config

    if append and fill:
        raise InputError("--append leaves unused slots as they are, and --fill fills them: give one of the two.")
    old = find_vocabulary(vocabulary, store)
    wanted = number_wanted(old, tokens, fill)
    characters = LETTERS_AND_DIGITS if digits else LETTERS
    settings = AdaptSettings(min_count=min_count, characters=characters)
    with ExitStack() as stack:
        folder = stack.enter_context(open_new_folder(output))
        model = stack.enter_context(model_folder(checkpoint)) if checkpoint else None
        if model is not None:
            checked_config(model, old)
        domain = count_domain(corpus, old, store, text, (lambda line: None) if as_json else say)
        new, facts = adapt_vocabulary(old, domain, wanted, settings, append)
        if model is None:
            new.save(folder)
        else:
            facts["model_rows"] = adapt_checkpoint(model, old, new, folder)
    if as_json:
        print_json(facts)
    else:
        console.print(adaptation_display(vocabulary, facts, output))


vocabulary_app.command(adapt)
