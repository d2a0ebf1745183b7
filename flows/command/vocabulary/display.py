"""Vocabularies on the terminal: rich renderables, made from values.

Promises: those of `display`: text acts on nothing, outputs are bounded, and what color shows is also shown by signs.
Pieces of one word have a dot between them (token·izer), an unknown one is in angle brackets (⟨naïf⟩).
"""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from flows.command.terminal.tables import plain_table
from flows.command.vocabulary.figures import LONGEST, VocabularyComparison, special_tokens
from flows.recipes.settings.privacy import visible
from flows.report.drawing.pieces import MORE, UNKNOWN, WHOLE, ShownPiece, shown_pieces
from tokenizers_train.measures.measure import Overlap, longest_pieces, ordinary_ids
from tokenizers_train.measures.texts import TextMeasures
from tokenizers_train.vocabularies.vocabulary import Vocabulary

MOST_PIECES = 512
MOST_RANKS = 100  # thousands of ids
NAME = 40  # characters of a piece
FILES = ("vocab.txt", "tokenizer.json", "vocab.json", "encoder.json")  # say little by themselves
COLOURS = ("cyan", "yellow")


def show_vocabulary(name: str, vocabulary: Vocabulary) -> RenderableType:
    """Return a vocabulary in a few lines."""
    ids = ordinary_ids(vocabulary)
    specials = ", ".join(f"{token} {vocabulary.id_of(token)}" for token in special_tokens(vocabulary)) or "none"
    longest = "  ".join(visible(vocabulary.display(id), NAME) for id in longest_pieces(vocabulary, LONGEST))
    rows = {
        "tokens": f"{vocabulary.size:,}, of which {len(ids):,} stand for text",
        "begin words": f"{sum(map(vocabulary.begins_word, ids)):,}",
        "algorithm": vocabulary.algorithm,
        "words": rules(vocabulary),
        "special": specials,
        "longest": longest,
    }
    text = Text(visible(name, 3 * NAME), "bold")
    for title, value in rows.items():
        text.append(f"\n  {title:12}", "dim").append(value)
    return text


def rules(vocabulary: Vocabulary) -> str:
    """Return how texts become words, as its settings name it."""
    rule = vocabulary.word_rule
    if rule is None:
        return "those of its tokenizer.json, which only the library tokenizers can read"
    return ", ".join(f"{key} {str(value).lower()}" for key, value in rule.settings.items())


def show_pieces(pieces: Sequence[ShownPiece]) -> Text:
    """Return a text as pieces: whole words plain, the pieces of others in two colors by turns."""
    text = Text()
    for piece in pieces[:MOST_PIECES]:
        text.append(piece.gap)
        if piece.kind == MORE or (piece.kind == UNKNOWN and piece.colour):
            text.append("·", "dim")
        text.append(f"⟨{piece.text}⟩" if piece.kind == UNKNOWN else piece.text, _style(piece))
    if len(pieces) > MOST_PIECES:
        text.append(f" … {len(pieces) - MOST_PIECES:,} more pieces", "dim")
    return text


def _style(piece: ShownPiece) -> str:
    if piece.kind == UNKNOWN:
        return "bold red"
    return "" if piece.kind == WHOLE else COLOURS[piece.colour]


def show_ids(pieces: Sequence[ShownPiece]) -> Text:
    """Return the same pieces as the vocabulary writes them, each with its id."""
    text = Text()
    for piece in pieces[:MOST_PIECES]:
        text.append(visible(piece.name, NAME), _style(piece)).append(f" {piece.id}  ", "dim")
    return text


def show_figures(columns: Mapping[str, TextMeasures]) -> RenderableType:
    """Return the figures of vocabularies for one text, a column each."""
    table = plain_table("", *(visible(name, NAME) for name in columns))
    rows = {
        "words": [f"{measures.words:,}" for measures in columns.values()],
        "tokens": [f"{measures.tokens:,}" for measures in columns.values()],
        "tokens a word": [decimals(measures.fertility) for measures in columns.values()],
        "bytes a token": [decimals(measures.bytes_a_token) for measures in columns.values()],
        "unknown tokens": [f"{measures.unknown_tokens:,}" for measures in columns.values()],
    }
    for title, values in rows.items():
        table.add_row(Text(title), *map(Text, values))
    return table


def show_comparison(comparison: VocabularyComparison) -> RenderableType:
    """Return two vocabularies side by side: pieces shared, figures of a text, a paragraph cut by each."""
    names, apart = short_names(comparison.names), comparison.disagreement
    first, second = (visible(name, NAME) for name in names)
    heads = [show_vocabulary(name, each) for name, each in zip(comparison.names, comparison.vocabularies, strict=True)]
    cuts = [
        Group(Text(visible(name, NAME), "bold"), show_pieces(shown_pieces(each, cut)))
        for name, each, cut in zip(names, comparison.vocabularies, comparison.cuts, strict=True)
    ]
    differences = Text(f"{apart.both:,} places where both cut, {apart.first:,} where only {first} does, ")
    differences.append(f"{apart.second:,} where only {second} does: they differ in {apart.share:.1%}")
    figures = show_figures(dict(zip(names, comparison.figures, strict=True)))
    sections = [*heads, show_overlap(names, comparison.overlap), figures, *cuts, differences, _apart(comparison)]
    return Group(*(line for section in sections for line in (section, Text())))


def short_names(names: Sequence[str]) -> list[str]:
    """Return the last parts of addresses, numbered where they are the same.

    >>> short_names(["models/bert/vocab.txt", "news"]), short_names(["a/x", "b/x/"])
    (['bert/vocab.txt', 'news'], ['x (1)', 'x (2)'])
    """
    ends = [name.rstrip("/").split("/") for name in names]
    short = ["/".join(parts[-2:] if parts[-1] in FILES else parts[-1:]) for parts in ends]
    return short if len({*short}) == len(short) else [f"{name} ({n})" for n, name in enumerate(short, 1)]


def _apart(comparison: VocabularyComparison) -> Text:
    """Return the words that the two cut in other places."""
    lines = [
        Text.assemble((" · ".join(ours), COLOURS[0]), "  |  ", (" · ".join(theirs), COLOURS[1]))
        for ours, theirs in comparison.cut_apart.values()
    ]
    return Text("\n").join([Text("words cut in other places:", "dim"), *lines]) if lines else Text()


def show_overlap(names: Sequence[str], overlap: Overlap) -> Text:
    """Return how many pieces two vocabularies share, in all and by thousands of the first's."""
    shares = (
        f"{percent(overlap.shared, size)} of the {size:,} of {visible(name, NAME)}"
        for name, size in zip(names, (overlap.first, overlap.second), strict=True)
    )
    text = Text(f"{overlap.shared:,} pieces in both: {', '.join(shares)}")
    text.append("\nof each thousand of the first's pieces, in the order of ids, the second has\n  ", "dim")
    text.append(" ".join(f"{count:,}" for count in overlap.by_rank[:MOST_RANKS]))
    rest = len(overlap.by_rank) - MOST_RANKS
    return text.append(f" … and of {rest:,} thousand more" if rest > 0 else "", "dim")


def percent(part: int, whole: int) -> str:
    """Return a share in percent; a dash where the whole is nothing.

    >>> percent(1, 3), percent(0, 0)
    ('33.3%', '-')
    """
    return f"{100 * part / whole:.1f}%" if whole else "-"


def decimals(value: float | None) -> str:
    """Return a figure with three decimals; a dash where there is none.

    >>> decimals(1.23456), decimals(None)
    ('1.235', '-')
    """
    return "-" if value is None else f"{value:,.3f}"
