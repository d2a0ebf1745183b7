"""Two texts side by side: the places where they differ, each with a few words around it.

Promises: what is not marked is in both texts, in the same order; what is left out becomes a gap and is never
marked; at most `SHOWN_WORDS` words of either text are shown, whatever the texts are.
Cost: equal beginnings and ends are skipped word by word; of the rest at most `COMPARED_WORDS` words a side are
compared. The longest runs of words that both have are searched first, as a reader would. In a long text a run is not
searched from words that are more than a hundredth of it, which bounds the time for texts that repeat themselves.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise, takewhile

READ_CHARACTERS = 200_000
COMPARED_WORDS = 1_000
CONTEXT_WORDS = 8  # on either side of a difference
OWN_WORDS = 40  # of one difference
SHOWN_WORDS = 110

# A letter of a script that is written without spaces is a word; a longer run of letters than forty is several.
_SPACELESS = "\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f"
_WORD = re.compile(rf"(?:[{_SPACELESS}]|[^\s{_SPACELESS}]{{1,40}})\s*")  # with the white space after it


_Run = tuple[bool, int, int, int, int]  # whether words are alike; the first and the end in one text, and in the other


@dataclass(frozen=True, slots=True)
class Piece:
    """Words of one text, unchanged.

    kind: both (the other text has them too), own (it does not) or gap (left out: no text)
    """

    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDifferences:
    """Two texts side by side.

    own:     how many words of each the other has not
    partial: the texts continue beyond what was compared
    """

    left: tuple[Piece, ...]
    right: tuple[Piece, ...]
    own: tuple[int, int]
    partial: bool

    @property
    def is_same(self) -> bool:
        """Return whether no word differs."""
        return self.own == (0, 0) and not self.partial


def compare(left: str, right: str) -> TextDifferences:
    """Return the differences of two texts, word by word; words are what white space separates.

    >>> compare("a small grey stone", "a large grey stone").left[1]
    Piece(kind='own', text='small')
    """
    ours, theirs = (_WORD.findall(text[:READ_CHARACTERS]) for text in (left, right))
    runs, cut = _runs([word.rstrip() for word in ours], [word.rstrip() for word in theirs])
    partial = cut or max(len(left), len(right)) > READ_CHARACTERS
    own = [run for run in runs if not run[0]]
    return TextDifferences(
        left=tuple(_pieces(ours, [(alike, first, end) for alike, first, end, *_ in runs], partial)),
        right=tuple(_pieces(theirs, [(alike, first, end) for alike, _, _, first, end in runs], partial)),
        own=(sum(end - first for _, first, end, *_ in own), sum(end - first for *_, first, end in own)),
        partial=partial,
    )


def _runs(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[_Run], bool]:
    """Return both texts as runs, alike and not, in order; and whether they continue beyond what was compared."""
    head = _num_alike(ours, theirs)
    tail = _num_alike(ours[head:][::-1], theirs[head:][::-1])
    left, right = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    cut = max(len(left), len(right)) > COMPARED_WORDS
    compared = SequenceMatcher(None, left[:COMPARED_WORDS], right[:COMPARED_WORDS]).get_opcodes()
    runs = [(True, 0, head, 0, head)]
    runs += [(tag == "equal", head + a, head + b, head + c, head + d) for tag, a, b, c, d in compared]
    runs += [] if cut else [(True, len(ours) - tail, len(ours), len(theirs) - tail, len(theirs))]
    return [run for run in runs if run[1] < run[2] or run[3] < run[4]], cut


def _num_alike(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return the number of equal words at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))


def _pieces(words: Sequence[str], runs: Sequence[tuple[bool, int, int]], partial: bool) -> Iterator[Piece]:
    """Yield the visible pieces of one text: its differences with their neighbourhood, up to SHOWN_WORDS, and gaps."""
    room, pieces = SHOWN_WORDS, [Piece("")]
    for kind, first, end in _spans(runs):
        shown = first if kind == "gap" else min(end, first + room)
        room -= shown - first
        if first < shown:
            pieces.append(Piece(kind, " ".join("".join(words[first:shown]).split())))
        if shown < end:
            pieces.append(Piece("gap"))
    if partial:
        pieces.append(Piece("gap"))
    return (piece for before, piece in pairwise(pieces) if (before.kind, piece.kind) != ("gap", "gap"))


def _spans(runs: Sequence[tuple[bool, int, int]]) -> Iterator[tuple[str, int, int]]:
    """Yield the visible part of every run, (kind, first word, end): ends of common runs, the beginning of the rest."""
    last = len(runs) - 1
    for number, (alike, first, end) in enumerate(runs):
        if not alike:
            shown = min(end, first + OWN_WORDS)
            yield "own", first, shown
            if shown < end:
                yield "gap", shown, end
            continue
        before = CONTEXT_WORDS if number else SHOWN_WORDS // 2 * (last == 0)
        after = CONTEXT_WORDS if number < last else 0
        if end - first <= before + after + 1:
            yield "both", first, end
            continue
        yield "both", first, first + before
        yield "gap", first + before, end - after
        yield "both", end - after, end
