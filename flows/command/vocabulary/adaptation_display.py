"""An adaptation on the terminal: figures before and after, words split most, the tokens added."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.command.terminal.tables import plain_table
from flows.command.vocabulary.adaptation import Adaptation, Added, Split, unknown_rate
from flows.recipes.settings.privacy import visible
from tokenizers_train.measures.measure import Measures

NAME, WORD, PIECES = 40, 30, 70  # characters
SOURCES, FIRST = 20, 8
ALL = "all"


def show_adaptation(name: str, adaptation: Adaptation, output: Path) -> RenderableType:
    """Return an adaptation on one screen."""
    return Group(
        _table(adaptation),
        *_split("words split most before", adaptation.before.split_most),
        *_split("words split most after", adaptation.after.split_most),
        _tokens(adaptation.added),
        _outcome(name, adaptation, output),
    )


def _table(adaptation: Adaptation) -> Table:
    """Return a row for each source, and one for all; numbers before and after with an arrow between."""
    table = plain_table("source", "words", "tokens a word", "words of one token", "words unknown")
    before, after = adaptation.before.sources, adaptation.after.sources
    for source in list(before)[:SOURCES] if len(before) > 1 else []:
        table.add_row(Text(visible(source, NAME)), *_cells(before[source], after[source]))
    if len(before) > SOURCES:
        table.add_row(Text(f"… {len(before) - SOURCES:,} more sources", "dim"))
    table.add_row(Text(ALL, "bold"), *_cells(adaptation.before.together, adaptation.after.together))
    return table


def _cells(before: Measures, after: Measures) -> list[Text]:
    pairs = (
        f"{before.fertility or 0:.3f} → {after.fertility or 0:.3f}",
        f"{before.whole_share or 0:.2%} → {after.whole_share or 0:.2%}",
        f"{unknown_rate(before) or 0:.3%} → {unknown_rate(after) or 0:.3%}",
    )
    return [Text(f"{before.words:,}"), *map(Text, pairs)]


def _split(title: str, words: Sequence[Split]) -> list[Text]:
    """Return the words on which most tokens are spent."""
    return [_listed(title, [(word.count, word.word, " ".join(word.pieces)) for word in words])] if words else []


def _tokens(added: Sequence[Added]) -> Text:
    """Return the first of the tokens added, with the tokens that each saves."""
    rows = [(token.saved, token.token, f"was {' '.join(token.pieces)}") for token in added[:FIRST]]
    text = _listed("tokens added, with what each saves", rows)
    return text.append(f"\n  … {len(added) - FIRST:,} more" if len(added) > FIRST else "", "dim")


def _listed(title: str, rows: Sequence[tuple[int, str, str]]) -> Text:
    text = Text(f"\n{title}", "dim")
    for number, word, pieces in rows:
        text.append(f"\n  {number:>9,}  ", "dim").append(visible(word, WORD))
        text.append(f"  {visible(pieces, PIECES)}", "dim")
    return text


def _outcome(name: str, adaptation: Adaptation, output: Path) -> Text:
    before, after = adaptation.sizes
    counted = (
        f"{len(adaptation.added):,} tokens added to {visible(name, NAME)}: {adaptation.filled:,} in unused slots, "
    )
    text = Text(f"\n{counted}{after - before:,} after the last one ({before:,} → {after:,} tokens)")
    if len(adaptation.added) < adaptation.wanted:
        text.append(f"\n{adaptation.wanted:,} were asked for: no more words occur often enough and are cut.")
    if adaptation.rows is not None:
        text.append(
            f"\nThe model has {adaptation.rows:,} rows; those of the new tokens are means of their old pieces'."
        )
    return text.append(f"\n{output}", "bold")
