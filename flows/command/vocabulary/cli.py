"""`cloze vocabulary`: shows one vocabulary, or two side by side.

A vocabulary is named as `named_vocabularies` reads names. Each command imports what it needs when it runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from corpora.errors import InputError
from flows.command.arguments import AsJson, NamesStore, Shown, VocabularyName
from flows.command.terminal.output import console, print_json
from flows.command.vocabulary.adapt import adapt

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
    from flows.command.vocabulary.display import pieces_text, vocabulary_table
    from flows.command.vocabulary.figures import text_facts, vocabulary_facts
    from flows.command.vocabulary.named import find_vocabulary

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
    from flows.command.vocabulary.display import comparison_display
    from flows.command.vocabulary.figures import comparison_facts
    from flows.command.vocabulary.named import find_vocabulary

    if sentence is not None and text is not None:
        raise InputError("Give a text to compare on, or --text FILE (one of the two).")
    vocabularies = (find_vocabulary(first, store), find_vocabulary(second, store))
    with _opened(sentence, text) as (beginning, lines):
        facts = comparison_facts((first, second), vocabularies, lines, beginning)
    if as_json:
        print_json(facts)
    else:
        console.print(comparison_display(facts))


vocabulary_app.command(adapt)


@contextmanager
def _opened(sentence: str | None, path: Path | None) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the beginning of the text to compare on, and all its lines. Raises InputError where it cannot be read."""
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
