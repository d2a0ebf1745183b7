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

SAMPLE_CHARACTERS, PARAGRAPHS = 50_000, 60  # of a file, from which the paragraph to show is chosen


@vocabulary_app.command
def show(
    vocabulary: VocabularyName,
    sentence: Annotated[str | None, Parameter(help="A text to cut into pieces.")] = None,
    *,
    store: NamesStore = "store",
    as_json: AsJson = False,
) -> None:
    """Show a vocabulary, and how it cuts a text."""
    from flows.command.vocabulary.display import show_figures, show_ids, show_pieces, show_vocabulary
    from flows.command.vocabulary.figures import text_figures, vocabulary_facts
    from flows.command.vocabulary.named import find_vocabulary
    from flows.report.drawing.pieces import shown_pieces
    from tokenizers_train.measures.texts import cut_text

    chosen = find_vocabulary(vocabulary, store)
    cut = cut_text(chosen, sentence) if sentence is not None else None
    if as_json:
        facts = vocabulary_facts(chosen)
        print_json(facts if cut is None else {**facts, **text_figures(chosen, cut)})
        return
    console.print(show_vocabulary(vocabulary, chosen))
    if cut is not None:
        pieces = shown_pieces(chosen, cut)
        console.print(show_pieces(pieces), show_ids(pieces), show_figures({"in all": cut.measures}), sep="\n\n")


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
    from flows.command.vocabulary.display import show_comparison
    from flows.command.vocabulary.figures import compare_vocabularies, comparison_facts
    from flows.command.vocabulary.named import find_vocabulary
    from flows.report.drawing.pieces import paragraphs_of

    if sentence is not None and text is not None:
        raise InputError("Give a text to compare on, or --text FILE (one of the two).")
    vocabularies = (find_vocabulary(first, store), find_vocabulary(second, store))
    with _opened(sentence, text) as (beginning, lines):
        paragraphs = [sentence] if sentence is not None else paragraphs_of(beginning)[:PARAGRAPHS]
        comparison = compare_vocabularies((first, second), vocabularies, lines, paragraphs)
    if as_json:
        print_json(comparison_facts(comparison))
    else:
        console.print(show_comparison(comparison))


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
