"""A text too long for a model as windows that overlap, and the best spans of them.

Promise: every token of the text is in a window, and exactly one window decides of each: that in which it has most
tokens on its poorer side (the longer window of two such, the earlier of two equals: `_check_is_max_context` of BERT's
run_squad.py). A span is a slice of the text as it is; no letter is separated from its marks.
Cost: of windows of 320 tokens 7,000 a second are made; the best 20 of all spans of up to 30 tokens take 0.2 ms each
(one x86-64 core, 2026-11-23).

Shapes: W windows, C tokens of a text or of the part of it that a window has, L tokens of the longest span.

Sentences of words as windows of pieces that a model reads, with the place of each word's first piece.

A sentence is cut into pieces as the text that its words make with a space between each: so pieces are those of
pre-training, also where a tokenizer treats the begin of a text differently. A piece is of the word in which it ends.
A word of control characters alone has no piece.

Promise: each word that has pieces is read once, however long its sentence is: what does not fit is read in windows that
overlap, and a word in the one of them that has most before and after it. Cost: 150,000 words a second (one x86-64 core,
2026-11-23, most of it the tokenizer).
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding

from corpora.kernels.arrays import Bools, Float32s, Int32s, Int64s
from tokenizers_train.vocabularies.borders import find_piece_offsets
from trainer.families.contract import SpecialIds
from trainer.tasks.formats.question_layouts import Span
from trainer.tasks.task import Tokens
from trainer.tasks.text_encoder import TextEncoder, to_ids, to_segment_ids

# Jamo of vowels and ends, and the marks of half-width Japanese: NFKC joins them with the letter before.
PARTS_OF_LETTERS = frozenset(map(chr, (*range(0x1160, 0x1200), *range(0xD7B0, 0xD7FC), 0xFF9E, 0xFF9F)))


class Window(NamedTuple):
    """The part of a text that a sequence holds.

    place:   of its first token in the sequence
    first:   which token of the text that is
    offsets: int32 [C, 2], the characters of each token in the text
    decides: bool [C], whether spans that begin there are taken of this window
    """

    place: int
    first: int
    offsets: Int32s
    decides: Bools


class Candidate(NamedTuple):
    """A span. begin: its first character; score: the sum of its two logits"""

    text: str
    begin: int
    score: float


class TokenizedText(NamedTuple):
    """The tokens of a text. begun: the first of them, as the tokenizer holds them; offsets: int32 [C, 2]"""

    start: Encoding
    ids: Int32s
    offsets: Int32s

    @staticmethod
    def from_text(text: str, encoder: TextEncoder) -> "TokenizedText":
        """All of them."""
        [pieces] = encoder.tokenize([text])
        ids, offsets = to_ids(pieces), np.array(find_piece_offsets(text, pieces), np.int32).reshape(-1, 2)
        pieces.truncate(encoder.count_room(2))
        return TokenizedText(pieces, ids, offsets)


def cut_windows(encoder: TextEncoder, first: Encoding, text: TokenizedText, step: int) -> list[tuple[Tokens, Window]]:
    """Return the sequences of a first text with each window of the other.

    Each window begins `step` tokens after the one before, or where that ends if that is sooner; the last holds the end
    of the text. (The overflowing parts that tokenizers 0.23 makes have wrong segments.)
    """
    room = encoder.count_room(2) - len(first)
    assert room > 0, "the first text leaves no room"
    step, length = min(step, room), len(text.ids)
    firsts = np.arange(1 + max(0, -(-(length - room) // step)), dtype=np.int64) * step
    sizes = np.minimum(length - firsts, room)
    begun = encoder.encode_start(first, text.start)
    ids, segments, sides = to_ids(begun), to_segment_ids(begun), begun.sequence_ids
    place = sides.index(1) if length else len(ids)
    end = place + sides.count(1)
    windows = []
    for start, size, decides in zip(firsts.tolist(), sizes.tolist(), find_deciding_tokens(firsts, sizes), strict=True):
        own = np.full(size, segments[place] if size else 0, np.int32)
        tokens = Tokens(
            np.concatenate([ids[:place], text.ids[start : start + size], ids[end:]]),
            np.concatenate([segments[:place], own, segments[end:]]),
        )
        windows.append((tokens, Window(place, start, text.offsets[start : start + size], decides)))
    return windows


def find_deciding_tokens(firsts: Int64s, sizes: Int64s) -> list[Bools]:
    """Return for each window which tokens it decides: bool [C]. firsts, sizes: int64 [W], in ascending order"""
    if len(firsts) == 1:
        return [np.ones(sizes[0], np.bool_)]
    inside_C, windows_W1 = np.arange(sizes.max()), np.arange(len(firsts))[:, None]
    there_WC = inside_C < sizes[:, None]
    tokens_WC = np.where(there_WC, firsts[:, None] + inside_C, 0)
    poorer_WC = np.minimum(inside_C, sizes[:, None] - 1 - inside_C)
    context_WC = np.where(there_WC, 100 * poorer_WC + sizes[:, None], -1)
    most = np.zeros(firsts[-1] + sizes[-1], np.int64)
    np.maximum.at(most, tokens_WC, context_WC)
    equal_WC = there_WC & (context_WC == most[tokens_WC])
    earliest = np.full(len(most), len(firsts))
    np.minimum.at(earliest, tokens_WC, np.where(equal_WC, windows_W1, len(firsts)))
    decides_WC = equal_WC & (earliest[tokens_WC] == windows_W1)
    return [row[:size] for row, size in zip(decides_WC, sizes, strict=True)]


def find_token_span(offsets: Int32s, span: Span) -> tuple[int, int] | None:
    """Return the first and the last token that hold a part of a span of the text; None if none does."""
    begin = span[0] + len(span[1]) - len(span[1].lstrip())
    end = span[0] + len(span[1].rstrip())
    first = int(np.searchsorted(offsets[:, 1], begin, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return (first, last) if first <= last else None


def locate_span(window: Window, span: tuple[int, int] | None) -> tuple[int, int]:
    """Return the place of a span of tokens in a sequence; 0, 0 ([CLS]) where it does not hold the whole span."""
    if span is None or span[0] < window.first or span[1] >= window.first + len(window.offsets):
        return 0, 0
    move = window.place - window.first
    return span[0] + move, span[1] + move


def find_best_spans(
    begins_C: Float32s, ends_C: Float32s, max_tokens: int, max_spans: int
) -> tuple[Int64s, Int64s, npt.NDArray[np.float64]]:
    """First tokens, last tokens and scores of the spans with the highest sums, best first.

    begins_C: a span begins nowhere where this is -inf, and ends nowhere where `ends_C` is. most: so many spans at most
    """
    length = min(max_tokens, len(begins_C))
    if not length:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    after = np.concatenate([ends_C.astype(np.float64), np.full(length - 1, -np.inf)])
    sums = (begins_C.astype(np.float64)[:, None] + np.lib.stride_tricks.sliding_window_view(after, length)).ravel()
    some = np.argpartition(-sums, min(max_spans, len(sums)) - 1)[:max_spans]
    some = some[np.isfinite(sums[some])]
    some = some[np.lexsort((some, -sums[some]))]
    return some // length, some // length + some % length, sums[some]


def iter_candidates(
    text: str, window: Window, logits: npt.NDArray[Any], max_tokens: int, max_spans: int
) -> Iterable[Candidate]:
    """The best spans of a window. logits: [T, 2] of all tokens of its sequence"""
    own = logits[window.place : window.place + len(window.offsets)]
    something = window.offsets[:, 0] < window.offsets[:, 1]
    begins = np.where(window.decides & something, own[:, 0], -np.inf)
    ends = np.where(something, own[:, 1], -np.inf)
    for first, last, score in zip(
        *(each.tolist() for each in find_best_spans(begins, ends, max_tokens, max_spans)), strict=True
    ):
        begin, end = trim_slice(text, int(window.offsets[first, 0]), int(window.offsets[last, 1]))
        if begin < end:
            yield Candidate(text[begin:end], begin, score)


def trim_slice(text: str, begin: int, end: int) -> tuple[int, int]:
    """A slice without space around it, and with all the marks of its letters.

    >>> trim_slice("cafe\\u0301 au lait", 0, 4), trim_slice(" a b ", 0, 5)
    ((0, 5), (1, 4))
    """
    begin += len(text[begin:end]) - len(text[begin:end].lstrip())
    end = max(begin, begin + len(text[begin:end].rstrip()))
    while 0 < begin < end and _is_mark(text[begin]):
        begin -= 1
    while begin < end < len(text) and _is_mark(text[end]):
        end += 1
    return begin, end


def _is_mark(letter: str) -> bool:
    """Tells whether a letter is a part of the one before: a mark, or a vowel or end of a Korean syllable in parts."""
    return unicodedata.category(letter).startswith("M") or letter in PARTS_OF_LETTERS


def keep_distinct(candidates: Iterable[Candidate], max_candidates: int) -> list[Candidate]:
    """Return the best candidates with different texts, best first."""
    kept = dict[str, Candidate]()
    for candidate in sorted(candidates, key=lambda each: (-each.score, each.begin, len(each.text))):
        kept.setdefault(candidate.text, candidate)
    return list(kept.values())[:max_candidates]


def group_windows(
    items: Sequence[Any], answers: Sequence[npt.NDArray[Any]]
) -> Iterable[list[tuple[Window, npt.NDArray[Any]]]]:
    """Yield the windows of each example with the answers on their tokens."""
    for _, some in groupby(zip(items, answers, strict=True), key=lambda both: both[0].example):
        yield [(item.origin, answer) for item, answer in some]


MAX_WINDOWS = 8  # that are learnt from at once: longer sentences are several items

# Shapes: T pieces, W words that have any.


class Pieces(NamedTuple):
    """A sentence. ids: [T]; words: [W], their numbers; firsts: [W], where the first piece of each is"""

    ids: Int32s
    words: Int64s
    firsts: Int64s


class PieceWindows(NamedTuple):
    """The part of a text that one item reads: windows, from begin to end, and the place and window of each point.

    places: [W], in the text; windows: begins and ends; window_of: [W]
    """

    windows: Sequence[tuple[int, int]]
    places: Int64s
    window_of: Int64s

    def build_sequences(self, ids: Int32s, special: SpecialIds) -> tuple[Tokens, ...]:
        """The windows with their special tokens. ids: of the text"""
        rows = [
            np.concatenate([[special.cls], ids[begin:end], [special.sep]]).astype(np.int32)
            for begin, end in self.windows
        ]
        return tuple(Tokens(row, np.zeros(len(row), np.int32)) for row in rows)

    def locate_points(self) -> Int64s:
        """Return the places among the tokens of all its sequences."""
        begins = np.array([begin for begin, _ in self.windows], np.int64)
        lengths = np.array([end - begin + 2 for begin, end in self.windows], np.int64)
        offsets = np.cumsum(lengths) - lengths
        points: Int64s = offsets[self.window_of] + 1 + self.places - begins[self.window_of]
        return points


def split_into_pieces(encoder: TextEncoder, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
    """Sentences of words as pieces."""
    texts = [" ".join(words) for words in sentences]
    return [
        _locate_words(to_ids(encoding), find_piece_offsets(text, encoding), words)
        for encoding, text, words in zip(encoder.tokenize(texts), texts, sentences, strict=True)
    ]


def _locate_words(ids: Int32s, offsets: Sequence[tuple[int, int]], words: Sequence[str]) -> Pieces:
    lengths = np.array([len(word) for word in words], np.int64)
    befores = np.cumsum(lengths + 1) - lengths - 2  # the space before each word
    ends = np.array(offsets, np.int64).reshape(-1, 2)[:, 1]
    word_T = np.maximum(np.searchsorted(befores, ends - 1, side="right") - 1, 0)
    numbers, firsts = np.unique(word_T, return_index=True)
    return Pieces(ids, numbers.astype(np.int64), firsts.astype(np.int64))


def iter_parts(places: Int64s, begin: int, end: int, total: int, room: int, overlap: int) -> Iterator[PieceWindows]:
    """Yield windows over the pieces from begin to end of a text, with as much before and after as there is room for.

    places: of points among them; total: pieces of the text; room: pieces of a window; overlap: of two windows
    """
    windows = _plan_windows(begin, end, total, room, min(overlap, room // 2))
    centers = np.array([first + last - 1 for first, last in windows])  # twice: all windows are of one length
    best = np.searchsorted((centers[:-1] + centers[1:]) / 2, 2 * places)
    for first in range(0, len(windows), MAX_WINDOWS):
        some = windows[first : first + MAX_WINDOWS]
        mine = (best >= first) & (best < first + len(some))
        if mine.any():
            yield PieceWindows(some, places[mine], best[mine] - first)


def _plan_windows(begin: int, end: int, total: int, room: int, overlap: int) -> list[tuple[int, int]]:
    """Begins and ends.

    >>> _plan_windows(4, 6, 20, 8, 2), _plan_windows(0, 20, 20, 8, 2)
    ([(1, 9)], [(0, 8), (6, 14), (12, 20)])
    """
    spare = room - (end - begin)
    if spare >= 0:
        start = begin - min(begin, max(spare // 2, spare - (total - end)))
        return [(start, min(start + room, total))]
    starts = [min(start, end - room) for start in range(begin, end - overlap, room - overlap)]
    return [(start, start + room) for start in starts]
