"""Sentences of words as windows of pieces that a model reads, with the place of each word's first piece.

A sentence is cut into pieces as the text that its words make with a space between each: so pieces are those of
pre-training, also where a tokenizer treats the begin of a text differently. A piece is of the word in which it ends.
A word of control characters alone has no piece.

Promise: each word that has pieces is read once, however long its sentence is: what does not fit is read in windows that
overlap, and a word in the one of them that has most before and after it. Cost: 150,000 words a second (one x86-64 core,
2026-11-23, most of it the tokenizer).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Int32s, Int64s
from tokenizers_train.vocabularies.borders import find_piece_offsets
from trainer.families.contract import SpecialIds
from trainer.tasks.contract import Tokens
from trainer.tasks.text_encoder import TextEncoder, ids_of

MOST_WINDOWS = 8  # that are learnt from at once: longer sentences are several items

# Shapes: T pieces, W words that have any.


class Pieces(NamedTuple):
    """A sentence. ids: [T]; words: [W], their numbers; firsts: [W], where the first piece of each is"""

    ids: Int32s
    words: Int64s
    firsts: Int64s


class ReadPieces(NamedTuple):
    """The part of a text that one item reads: windows, from begin to end, and the place and window of each point.

    places: [W], in the text; windows: begins and ends; window_of: [W]
    """

    windows: Sequence[tuple[int, int]]
    places: Int64s
    window_of: Int64s

    def sequences(self, ids: Int32s, special: SpecialIds) -> tuple[Tokens, ...]:
        """The windows with their special tokens. ids: of the text"""
        rows = [
            np.concatenate([[special.cls], ids[begin:end], [special.sep]]).astype(np.int32)
            for begin, end in self.windows
        ]
        return tuple(Tokens(row, np.zeros(len(row), np.int32)) for row in rows)

    def points(self) -> Int64s:
        """Return the places among the tokens of all its sequences."""
        begins = np.array([begin for begin, _ in self.windows], np.int64)
        lengths = np.array([end - begin + 2 for begin, end in self.windows], np.int64)
        offsets = np.cumsum(lengths) - lengths
        points: Int64s = offsets[self.window_of] + 1 + self.places - begins[self.window_of]
        return points


def pieces_of(encoder: TextEncoder, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
    """Sentences of words as pieces."""
    texts = [" ".join(words) for words in sentences]
    return [
        _with_words(ids_of(encoding), find_piece_offsets(text, encoding), words)
        for encoding, text, words in zip(encoder.pieces(texts), texts, sentences, strict=True)
    ]


def _with_words(ids: Int32s, offsets: Sequence[tuple[int, int]], words: Sequence[str]) -> Pieces:
    lengths = np.array([len(word) for word in words], np.int64)
    befores = np.cumsum(lengths + 1) - lengths - 2  # the space before each word
    ends = np.array(offsets, np.int64).reshape(-1, 2)[:, 1]
    word_T = np.maximum(np.searchsorted(befores, ends - 1, side="right") - 1, 0)
    numbers, firsts = np.unique(word_T, return_index=True)
    return Pieces(ids, numbers.astype(np.int64), firsts.astype(np.int64))


def parts_of(places: Int64s, begin: int, end: int, total: int, room: int, overlap: int) -> Iterator[ReadPieces]:
    """Yield windows over the pieces from begin to end of a text, with as much before and after as there is room for.

    places: of points among them; total: pieces of the text; room: pieces of a window; overlap: of two windows
    """
    windows = _windows(begin, end, total, room, min(overlap, room // 2))
    centers = np.array([first + last - 1 for first, last in windows])  # twice: all windows are of one length
    best = np.searchsorted((centers[:-1] + centers[1:]) / 2, 2 * places)
    for first in range(0, len(windows), MOST_WINDOWS):
        some = windows[first : first + MOST_WINDOWS]
        mine = (best >= first) & (best < first + len(some))
        if mine.any():
            yield ReadPieces(some, places[mine], best[mine] - first)


def _windows(begin: int, end: int, total: int, room: int, overlap: int) -> list[tuple[int, int]]:
    """Begins and ends.

    >>> _windows(4, 6, 20, 8, 2), _windows(0, 20, 20, 8, 2)
    ([(1, 9)], [(0, 8), (6, 14), (12, 20)])
    """
    spare = room - (end - begin)
    if spare >= 0:
        start = begin - min(begin, max(spare // 2, spare - (total - end)))
        return [(start, min(start + room, total))]
    starts = [min(start, end - room) for start in range(begin, end - overlap, room - overlap)]
    return [(start, start + room) for start in starts]
