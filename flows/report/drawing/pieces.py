"""A text as the pieces of a vocabulary, for terminal and page alike: the visible form of each, and its kind.

Promise: the end of one piece and the start of the next are visible without colour, because whoever draws the pieces
puts a mark between those of one word, and another around an unknown one.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from flows.recipes.settings.privacy import printable
from tokenizers_train.measures.measure import piece_key
from tokenizers_train.measures.texts import CutText, TextPiece
from tokenizers_train.vocabularies.vocabulary import Vocabulary

WHOLE, FIRST, MORE, UNKNOWN = "whole", "first", "more", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPiece:
    """One piece.

    text: its part of the text; for a part of a character its bytes (`\\xc3`), for a space alone its picture
    name: the piece as the vocabulary displays it
    kind: whole (a word's only piece), first (of several), more (a further one) or unknown
    colour: 0 or 1, the other for each further piece of a word, so that neighbours can be coloured unlike
    gap:  what is before it and belongs to no piece, white space as one space
    """

    id: int
    text: str
    name: str
    kind: str
    colour: int
    gap: str


def shown_pieces(vocabulary: Vocabulary, cut: CutText) -> list[ShownPiece]:
    """Return the pieces of a text in order."""
    edges = [TextPiece(-1, 0, 0, True, True), *cut.pieces, TextPiece(-1, len(cut.text), len(cut.text), True, True)]
    shown, colour = [], 0
    for (before, piece), (_, after) in zip(pairwise(edges[:-1]), pairwise(edges[1:]), strict=True):
        parted = piece.start < before.end or after.start < piece.end
        colour = 0 if piece.begins else 1 - colour
        name = printable(vocabulary.display(piece.id))
        spelt = printable(piece_key(vocabulary, piece.id)[1]) or name
        shown.append(
            ShownPiece(
                id=piece.id,
                text=spelt if parted or piece.start == piece.end else printable(cut.text[piece.start : piece.end]),
                name=name,
                kind=_kind(piece, cut.unknown),
                colour=colour,
                gap=_gap(cut.text[before.end : piece.start]),
            )
        )
    return shown


def _kind(piece: TextPiece, unknown: int) -> str:
    if piece.id == unknown:
        return UNKNOWN
    return WHOLE if piece.whole else FIRST if piece.begins else MORE


def _gap(text: str) -> str:
    """Return the text that no piece stands for: white space becomes one space, anything else is shown.

    >>> _gap("  \\n"), _gap("\\x00"), _gap("")
    (' ', '\ufffd', '')
    """
    return printable(" ".join(text.split())) or (" " if text else "")


def paragraphs_of(text: str, least: int = 200, most: int = 600) -> list[str]:
    """Return the paragraphs of a text that have some length and are mostly letters, each cut between words to a bound.

    Blank lines divide paragraphs; where there are none, line ends do.

    least, most: characters; where no paragraph fits, the longest is taken
    >>> paragraphs_of("one\\ntwo\\n\\nthree four five", least=9, most=12), paragraphs_of("a\\nbc")
    (['three four …'], ['bc'])
    """
    parts = re.split(r"\n\s*\n", text) if re.search(r"\n\s*\n", text) else text.split("\n")
    paragraphs = [" ".join(part.split()) for part in parts]
    long = [part for part in paragraphs if len(part) >= least and 2 * sum(map(str.isalpha, part)) > len(part)]
    bounded = long or [max(paragraphs, key=len)]
    return [part if len(part) <= most else part[: most - 1].rsplit(" ", 1)[0] + " …" for part in bounded]
