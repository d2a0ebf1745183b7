"""Splits texts and sentences that are too long for a model into overlapping windows.

**Spans of a text.** Every token of the text is in a window, and spans that start at a token are taken from exactly one
window: the one in which the smaller of the token's left and right contexts is largest (if several are equal, the longer
window, then the earlier one: `_check_is_max_context` of BERT's run_squad.py). A span is an unchanged slice of the text,
and letters are not separated from their combining marks. Cost: 7,000 windows of 320 tokens are built per second;
finding the best 20 of all spans of up to 30 tokens takes 0.2 ms per window (one x86-64 core, 2026-11-23).

**Words of a sentence.** The words of a sentence are joined by spaces and then tokenized, so the tokens are the same as
in pre-training. A token belongs to the word in which it ends. A word of control characters has no token. Each word that
has tokens is tagged once, in the window with the most text before and after it. Cost: 150,000 words per second (one
x86-64 core, 2026-11-23, most of it in the tokenizer).

Shapes: W windows, C tokens of a text or of its part in a window, L tokens of the longest span.
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
    """The part of a text that one sequence contains.

    place:   index of the part's first token in the sequence
    first:   index of the part's first token in the text
    offsets: int32 [C, 2], start and end of each token, in characters of the text
    decides: bool [C], True for tokens at which a span may start in this window
    """

    place: int
    first: int
    offsets: Int32s
    decides: Bools


class Candidate(NamedTuple):
    """A candidate span of a text. `begin` is its character offset, `score` the sum of its start and end logits."""

    text: str
    begin: int
    score: float


class TokenizedText(NamedTuple):
    """The tokens of a text.

    start:   encoding of as many of the first tokens as fit into a sequence
    ids:     int32 [C], all token ids
    offsets: int32 [C, 2], start and end of each token in characters
    """

    start: Encoding
    ids: Int32s
    offsets: Int32s

    @staticmethod
    def from_text(text: str, encoder: TextEncoder) -> "TokenizedText":
        """Tokenize a text of any length, without truncation."""
        [pieces] = encoder.tokenize([text])
        ids, offsets = to_ids(pieces), np.array(find_piece_offsets(text, pieces), np.int32).reshape(-1, 2)
        pieces.truncate(encoder.count_room(2))
        return TokenizedText(pieces, ids, offsets)


def cut_windows(encoder: TextEncoder, first: Encoding, text: TokenizedText, step: int) -> list[tuple[Tokens, Window]]:
    """Build sequences of a first text and each window of a second text.

    Args:
        encoder: The encoder, which determines the length of sequences.
        first: The tokens of the first text, which must leave room for the second.
        text: The second text.
        step: The number of tokens between the starts of two windows; capped at the length of a window.

    Returns:
        The tokens of each sequence with a description of its window. The last window ends at the end of the text.
        (Windows that are cut by tokenizers 0.23 have wrong segments.)
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
    """Find the tokens at which a span may start in each window: bool [C] for each window.

    Args:
        firsts: int64 [W], the index in the text of each window's first token, ascending.
        sizes: int64 [W], the number of tokens of each window.
    """
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
    """Return the indices of the first and the last token that overlap a span of the text, or None if there are none.

    Args:
        offsets: int32 [C, 2], start and end of each token in characters.
        span: The character offset of the span, and its text.
    """
    begin = span[0] + len(span[1]) - len(span[1].lstrip())
    end = span[0] + len(span[1].rstrip())
    first = int(np.searchsorted(offsets[:, 1], begin, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return (first, last) if first <= last else None


def locate_span(window: Window, span: tuple[int, int] | None) -> tuple[int, int]:
    """Convert a span of tokens of the text to the indices of its first and last token in a window's sequence.

    Args:
        window: The window.
        span: The indices of the span's first and last token in the text, or None.

    Returns:
        The two indices. They are (0, 0), the index of [CLS], if `span` is None or not completely inside the window.
    """
    if span is None or span[0] < window.first or span[1] >= window.first + len(window.offsets):
        return 0, 0
    move = window.place - window.first
    return span[0] + move, span[1] + move


def find_best_spans(
    begins_C: Float32s, ends_C: Float32s, max_tokens: int, max_spans: int
) -> tuple[Int64s, Int64s, npt.NDArray[np.float64]]:
    """Find the spans with the highest sum of start logit and end logit.

    Args:
        begins_C: The start logits; -inf where no span may start.
        ends_C: The end logits; -inf where no span may end.
        max_tokens: The maximum number of tokens of a span.
        max_spans: The maximum number of spans to return.

    Returns:
        The first tokens, last tokens and scores of the spans, with the best span first.
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
    """Yield the best spans of a window as candidates. Spans that consist of white space are left out.

    Args:
        text: The whole text.
        window: The window.
        logits: [T, 2], start and end logits of all tokens of the window's sequence.
        max_tokens: The maximum number of tokens of a span.
        max_spans: The maximum number of spans to yield.
    """
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
    r"""Trim white space from a slice of a text, and extend the slice so that no letter is separated from its marks.

    Args:
        text: The text.
        begin: The start of the slice, in characters.
        end: The end of the slice, exclusive.

    Returns:
        The new start and end.

    >>> trim_slice("cafe\u0301 au lait", 0, 4), trim_slice(" a b ", 0, 5)
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
    """Return True if a character belongs to the previous one, as a combining mark or part of a decomposed syllable."""
    return unicodedata.category(letter).startswith("M") or letter in PARTS_OF_LETTERS


def keep_distinct(candidates: Iterable[Candidate], max_candidates: int) -> list[Candidate]:
    """Return at most `max_candidates` of the best candidates, with distinct texts, the best one first."""
    kept = dict[str, Candidate]()
    for candidate in sorted(candidates, key=lambda each: (-each.score, each.begin, len(each.text))):
        kept.setdefault(candidate.text, candidate)
    return list(kept.values())[:max_candidates]


def group_windows(
    items: Sequence[Any], answers: Sequence[npt.NDArray[Any]]
) -> Iterable[list[tuple[Window, npt.NDArray[Any]]]]:
    """Yield the windows of each example, as a list of pairs of window and the model's outputs for it.

    The items of an example must follow one another. `answers` has the outputs of each item.
    """
    for _, some in groupby(zip(items, answers, strict=True), key=lambda both: both[0].example):
        yield [(item.origin, answer) for item, answer in some]


MAX_WINDOWS = 8  # that are learnt from at once: longer sentences are several items

# Shapes: T pieces, W words that have any.


class Pieces(NamedTuple):
    """The tokens of a sentence of words.

    ids:    int32 [T], the token ids
    words:  int64 [W], the indices of the words that have tokens
    firsts: int64 [W], the index of the first token of each of these words
    """

    ids: Int32s
    words: Int64s
    firsts: Int64s


class PieceWindows(NamedTuple):
    """The windows over a text that are read by one item.

    windows:   start and end of each window, in tokens of the text
    places:    int64 [W], the first tokens of the words to tag, as indices into the text
    window_of: int64 [W], the index of the window in which each of these tokens is read
    """

    windows: Sequence[tuple[int, int]]
    places: Int64s
    window_of: Int64s

    def build_sequences(self, ids: Int32s, special: SpecialIds) -> tuple[Tokens, ...]:
        """Build a sequence with special tokens for each window. `ids` are the token ids of the whole text."""
        rows = [
            np.concatenate([[special.cls], ids[begin:end], [special.sep]]).astype(np.int32)
            for begin, end in self.windows
        ]
        return tuple(Tokens(row, np.zeros(len(row), np.int32)) for row in rows)

    def locate_points(self) -> Int64s:
        """Compute the position of each tagged word's first token among the tokens of all sequences: int64 [W]."""
        begins = np.array([begin for begin, _ in self.windows], np.int64)
        lengths = np.array([end - begin + 2 for begin, end in self.windows], np.int64)
        offsets = np.cumsum(lengths) - lengths
        points: Int64s = offsets[self.window_of] + 1 + self.places - begins[self.window_of]
        return points


def split_into_pieces(encoder: TextEncoder, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
    """Join the words of each sentence by spaces, tokenize the sentence, and find the first token of each word."""
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
    """Yield groups of at most MAX_WINDOWS windows that cover part of a text, with as much context as fits.

    Args:
        places: int64, the first tokens of the words to tag, as indices into the text.
        begin: The index of the first token of the part.
        end: The end of the part, exclusive.
        total: The number of tokens of the text.
        room: The number of tokens of a window.
        overlap: The number of tokens that two neighboring windows share; capped at half a window.
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
    """Plan windows of at most `room` tokens that cover the tokens from `begin` to `end`, as pairs of start and end.

    Args:
        begin: The index of the first token to cover.
        end: The end of the tokens to cover, exclusive.
        total: The number of tokens of the text. A single window also includes context from the rest of it.
        room: The number of tokens of a window.
        overlap: The number of tokens that two neighboring windows share.

    >>> _plan_windows(4, 6, 20, 8, 2), _plan_windows(0, 20, 20, 8, 2)
    ([(1, 9)], [(0, 8), (6, 14), (12, 20)])
    """
    spare = room - (end - begin)
    if spare >= 0:
        start = begin - min(begin, max(spare // 2, spare - (total - end)))
        return [(start, min(start + room, total))]
    starts = [min(start, end - room) for start in range(begin, end - overlap, room - overlap)]
    return [(start, start + room) for start in starts]
