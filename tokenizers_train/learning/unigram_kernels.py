"""The kernels of training Unigram: all ways to cut a word weighed, the best one found, and the worth of each piece
computed.

Promise: what `unigram_plainly` says. Words are gone through in their order and every sum is taken in that order, so the
result is a function of the arguments. Weighing works on probabilities, not on their logarithms: those of a long word
are kept from vanishing by whole powers of two, which rounds nothing. They are right as long as probability does not
fall by more than 2^-800 within the length of the longest piece.

Logarithm, exponential and digamma are made of only sums, products and quotients, so they give the same bits for the
same number on all machines with doubles of IEEE 754: a system's own functions may differ in the last bit. Nothing is
fused or reordered, for numba leaves floats as they are written. Logarithm and exponential are within 4e-16 of the true
value, relative to the larger of it and 1 (the exponential: to itself); digamma is within 1e-10.

Cost: see `tokenizers_train.learning.unigram`. The places of pieces are known from the seeds on and only thinned out
afterwards. The logarithm takes some 15 ns, the exponential some 50 ns: each is taken once for a piece, not for a word.
"""

import math
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Float64s, Int32s, Int64s
from corpora.kernels.compiling import kernel

_LN2_HIGH = 0.6931471803691238  # ln 2 cut off after 32 bits: exact when multiplied by an exponent
_LN2_LOW = 1.9082149292705877e-10  # and what is missing
_HALF_ROOT = 0.7071067811865476


@kernel
def logarithm(x: float) -> float:
    """Compute the natural logarithm of a positive normal number.

    x is written as m 2^e with m close to 1, and ln m is computed as 2 artanh(s) = 2 (s + s^3/3 + s^5/5 + ...) with s =
    (m - 1) / (m + 1).
    """
    mantissa, exponent = math.frexp(x)
    if mantissa < _HALF_ROOT:
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = 0.0
    for odd in range(25, 1, -2):
        series = (series + 1.0 / odd) * square
    return exponent * _LN2_HIGH + (2.0 * s + (2.0 * s * series + exponent * _LN2_LOW))


@kernel
def exponential(x: float) -> float:
    """Compute exp(x) for -700 <= x <= 700.

    x is written as k ln 2 + r with |r| <= ln(2) / 2, and exp(r) is computed by its Taylor series.
    """
    k = math.floor(x / _LN2_HIGH + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    series = 1.0
    for term in range(14, 0, -1):
        series = 1.0 + series * r / term
    return math.ldexp(series, int(k))


@kernel
def digamma(x: float) -> float:
    """Compute the digamma function, the derivative of ln(gamma(x)), for x > 0.

    The recurrence is used up to 7, and above that the asymptotic expansion around x - 1/2 up to the eighth power.
    """
    total = 0.0
    while x < 7.0:
        total -= 1.0 / x
        x += 1.0
    x -= 0.5
    inverse = 1.0 / (x * x)
    fourth = inverse * inverse
    total += logarithm(x) + inverse / 24.0 - 7.0 / 960.0 * fourth + 31.0 / 8064.0 * fourth * inverse
    return total - 127.0 / 30720.0 * fourth * fourth


_LIFT_BELOW = 2.0**-200  # a probability below this is lifted
_LIFT_FACTOR = 2.0**200
_MAX_PIECES_HERE = 256  # pieces that begin at a place: none is longer
_MIN_EXPECTED = 0.5  # a piece expected less often is dropped
DROP, KEEP, WEIGH = 0, 1, 2  # the outcomes of a piece: see `judge_pieces`


class Lattice(NamedTuple):
    """The occurrences of all pieces in the words.

    The pieces at a position are the longest one and its parents, i.e. all pieces that it begins with.

    Attributes:
        starts: int64, the start of each word in the text, and the length of the text. Each word is followed by one
            separator.
        counts: int64, how often each word occurs.
        longest: int32, the longest piece at each position of the text, or -1 if there is none.
        parents: int32, the longest other piece that each piece begins with, or -1 if there is none.
        sizes: uint8, the number of characters in each piece.
    """

    starts: Int64s
    counts: Int64s
    longest: Int32s
    parents: Int32s
    sizes: Bytes


class WordScratch(NamedTuple):
    """Scratch space for one word.

    Attributes:
        forward: float64, the probability (or best score) of the part of the word before each position.
        backward: float64, the probability of the part of the word after each position.
        lifts: int64, how often `forward` had been rescaled at each position.
        values: float64, how often each piece of a segmentation occurs.
        ids: int32, the last piece of the best segmentation up to each position, or -1 for an unknown character.
        lengths: int64, the length of that piece.
        pieces_here: int32, the pieces that begin at the current position, longest first.
    """

    forward: Float64s
    backward: Float64s
    lifts: Int64s
    values: Float64s
    ids: Int32s
    lengths: Int64s
    pieces_here: Int32s


@kernel
def _list_pieces(lattice: Lattice, place: int | np.int64, scratch: WordScratch) -> int:
    """Write the pieces that begin at a position of the text to `scratch.pieces_here`, longest first.

    Args:
        lattice: The pieces in the text.
        place: The position.
        scratch: Scratch space. Its `pieces_here` is overwritten.

    Returns:
        Number of pieces written.
    """
    number, piece = 0, lattice.longest[place]
    while piece >= 0:
        scratch.pieces_here[number] = piece
        number += 1
        piece = lattice.parents[piece]
    return number


@kernel
def _has_character(lattice: Lattice, number: int, scratch: WordScratch) -> bool:
    """Return whether the last of the first `number` pieces in `scratch.pieces_here` is a single character.

    `number` is the result of `_list_pieces`, so the last piece is the shortest.
    """
    return number > 0 and lattice.sizes[scratch.pieces_here[number - 1]] == 1


@kernel
def _lift_values(values: Float64s) -> int:
    """Multiply all values by 2^200, in place, and return 1.

    If a value is above 2^200, leave them unchanged and return 0.
    """
    if values.max() > _LIFT_FACTOR:
        return 0
    for i in range(len(values)):
        values[i] *= _LIFT_FACTOR
    return 1


@kernel
def _compute_forward(
    lattice: Lattice,
    word: int,
    probabilities: Float64s,
    unknown_probability: float,
    max_length: int,
    scratch: WordScratch,
) -> int:
    """Compute the probability of each prefix of a word, summed over all segmentations, in `scratch.forward`.

    Args:
        lattice: The occurrences of the pieces.
        word: Index of the word.
        probabilities: float64, the probability of each piece.
        unknown_probability: The probability of a character that is not a piece.
        max_length: Maximum length of a piece in characters.
        scratch: `forward` and `lifts` are overwritten.

    Returns:
        How often `forward` was rescaled.
    """
    start, size = lattice.starts[word], lattice.starts[word + 1] - lattice.starts[word] - 1
    forward, lifts = scratch.forward, 0
    forward[0] = 1.0
    forward[1 : size + 1] = 0.0
    for i in range(size):
        if forward[i] < _LIFT_BELOW:
            lifts += _lift_values(forward[i : min(i + max_length, size) + 1])
        scratch.lifts[i] = lifts
        number = _list_pieces(lattice, start + i, scratch)
        if not _has_character(lattice, number, scratch):
            forward[i + 1] += forward[i] * unknown_probability
        for k in range(number - 1, -1, -1):
            piece = scratch.pieces_here[k]
            forward[i + lattice.sizes[piece]] += forward[i] * probabilities[piece]
    return lifts


@kernel
def _compute_backward(
    lattice: Lattice,
    word: int,
    probabilities: Float64s,
    unknown_probability: float,
    max_length: int,
    lifts: int,
    scratch: WordScratch,
    expected: Float64s,
) -> None:
    """Compute the probability of each suffix of a word, and add the expected count of each piece to `expected`.

    Args:
        lattice: The occurrences of the pieces.
        word: Index of the word.
        probabilities: float64, the probability of each piece.
        unknown_probability: The probability of a character that is not a piece.
        max_length: Maximum length of a piece in characters.
        lifts: The result of `_compute_forward` for the same word.
        scratch: Has `forward` and `lifts` from `_compute_forward`. `backward` is overwritten.
        expected: float64, the expected count of each piece, weighted by word counts. Incremented in place.
    """
    start, size = lattice.starts[word], lattice.starts[word + 1] - lattice.starts[word] - 1
    backward = scratch.backward
    backward[size] = 1.0
    missing = lifts  # by how many lifts ahead[i] * behind[i] / ahead[size] is too small, less those of ahead[i]
    for i in range(size - 1, -1, -1):
        weight = scratch.forward[i] / scratch.forward[size] * lattice.counts[word]
        for _ in range(missing - scratch.lifts[i]):
            weight *= _LIFT_FACTOR
        for _ in range(scratch.lifts[i] - missing):
            weight *= _LIFT_BELOW
        number = _list_pieces(lattice, start + i, scratch)
        total = 0.0
        if not _has_character(lattice, number, scratch):
            total = unknown_probability * backward[i + 1]
        for k in range(number - 1, -1, -1):
            piece = scratch.pieces_here[k]
            rest = probabilities[piece] * backward[i + lattice.sizes[piece]]
            total += rest
            expected[piece] += weight * rest
        backward[i] = total
        if total < _LIFT_BELOW:
            missing -= _lift_values(backward[i : min(i + max_length, size) + 1])


@kernel
def _build_scratch(lattice: Lattice) -> WordScratch:
    """Allocate scratch space for the longest word of a lattice."""
    places = 1
    for word in range(len(lattice.counts)):
        places = max(places, lattice.starts[word + 1] - lattice.starts[word])
    return WordScratch(
        np.empty(places, np.float64),
        np.empty(places, np.float64),
        np.empty(places, np.int64),
        np.empty(places, np.float64),
        np.empty(places, np.int32),
        np.empty(places, np.int64),
        np.empty(_MAX_PIECES_HERE, np.int32),
    )


@kernel
def compute_log_shares(values: Int64s) -> Float64s:
    """Return the logarithm of each value divided by the sum of all values. Values must be positive."""
    scores = np.empty(len(values), np.float64)
    of_all = logarithm(float(values.sum()))
    for i in range(len(values)):
        scores[i] = logarithm(float(values[i])) - of_all
    return scores


@kernel
def count_expected_pieces(lattice: Lattice, scores: Float64s, unknown_score: float, max_length: int) -> Float64s:
    """Return the expected count of each piece in all words: float64 [pieces].

    It is the mean over all segmentations, weighted by their probability and by word counts.

    Args:
        lattice: The occurrences of the pieces.
        scores: float64, the logarithm of each piece's probability.
        unknown_score: The score of a character that is not a piece.
        max_length: Maximum length of a piece in characters.
    """
    probabilities = np.empty(len(scores), np.float64)
    for i in range(len(scores)):
        probabilities[i] = exponential(scores[i])
    expected = np.zeros(len(scores), np.float64)
    scratch = _build_scratch(lattice)
    for word in range(len(lattice.counts)):
        lifts = _compute_forward(lattice, word, probabilities, exponential(unknown_score), max_length, scratch)
        _compute_backward(
            lattice, word, probabilities, exponential(unknown_score), max_length, lifts, scratch, expected
        )
    return expected


@kernel
def fill_scores(expected: Float64s, scores: Float64s) -> None:
    """Fill `scores` with new scores, computed from expected counts as digamma(count) - digamma(sum of counts).

    Pieces with an expected count below 0.5 get -inf and are left out of the sum.
    """
    total = 0.0
    for i in range(len(expected)):
        if expected[i] >= _MIN_EXPECTED:
            total += expected[i]
    of_all = digamma(total) if total > 0.0 else 0.0
    for i in range(len(expected)):
        scores[i] = digamma(expected[i]) - of_all if expected[i] >= _MIN_EXPECTED else -np.inf


@kernel
def _find_best_cut(
    lattice: Lattice,
    start: int | np.int64,
    size: int | np.int64,
    scores: Float64s,
    unknown_score: float,
    scratch: WordScratch,
) -> float:
    """Find the best segmentation of text[start:start + size] into at least two pieces, or one piece if it is a single
    character.

    If two segmentations have the same score, the one with the longer last piece is chosen.

    Args:
        lattice: The occurrences of the pieces.
        start: Position in the text.
        size: Number of characters.
        scores: float64, the score of each piece.
        unknown_score: The score of a character that is not a piece.
        scratch: `ids` and `lengths` are filled with the last piece of the best segmentation up to each position,
            counted from `start`. `forward` is overwritten.

    Returns:
        The sum of the scores of the best segmentation.
    """
    best = scratch.forward
    best[0] = 0.0
    best[1 : size + 1] = -np.inf
    for i in range(size):
        number = _list_pieces(lattice, start + i, scratch)
        if not _has_character(lattice, number, scratch):
            if best[i] + unknown_score > best[i + 1]:
                best[i + 1], scratch.ids[i + 1], scratch.lengths[i + 1] = best[i] + unknown_score, -1, 1
        for k in range(number - 1, -1, -1):
            piece = scratch.pieces_here[k]
            length = np.int64(lattice.sizes[piece])
            if i + length > size or (length == size and size > 1):
                break
            score = best[i] + scores[piece]
            if score > best[i + length]:
                best[i + length], scratch.ids[i + length], scratch.lengths[i + length] = score, piece, length
    return float(best[size])


@kernel
def count_best_pieces(lattice: Lattice, scores: Float64s, unknown_score: float) -> tuple[Int64s, int]:
    """Count how often each piece occurs in the best segmentations of all words.

    Args:
        lattice: The occurrences of the pieces.
        scores: float64, the score of each piece.
        unknown_score: The score of a character that is not a piece.

    Returns:
        int64 [pieces], the counts weighted by word counts, and the number of unknown characters, weighted in the same
        way.
    """
    counts, num_unknown = np.zeros(len(scores), np.int64), 0
    scratch = _build_scratch(lattice)
    for word in range(len(lattice.counts)):
        start, size = lattice.starts[word], lattice.starts[word + 1] - lattice.starts[word] - 1
        best_score, piece = _find_best_cut(lattice, start, size, scores, unknown_score, scratch), lattice.longest[start]
        if size > 1 and piece >= 0 and lattice.sizes[piece] == size and scores[piece] >= best_score:
            counts[piece] += lattice.counts[word]
            continue
        while size > 0:
            if scratch.ids[size] >= 0:
                counts[scratch.ids[size]] += lattice.counts[word]
            else:
                num_unknown += lattice.counts[word]
            size -= scratch.lengths[size]
    return counts, num_unknown


@kernel
def judge_pieces(
    lattice: Lattice,
    places: Int64s,
    scores: Float64s,
    unknown_score: float,
    counts: Int64s,
    num_unknown: int,
    losses: Float64s,
) -> Bytes:
    """Decide for each piece whether pruning drops it, keeps it, or has to compare the losses of pieces first.

    Args:
        lattice: The occurrences of the pieces.
        places: A position in the text at which each piece occurs.
        scores: float64, the score of each piece.
        unknown_score: The score of a character that is not a piece.
        counts: The counts returned by `count_best_pieces`.
        num_unknown: The number of unknown characters returned by `count_best_pieces`.
        losses: float64 [pieces], filled with the log likelihood lost by removing each piece that gets WEIGH. The other
            entries are left unchanged.

    Returns:
        uint8 [pieces]: DROP, KEEP, or WEIGH for pieces with a loss that must be compared.
    """
    verdicts = np.empty(len(scores), np.uint8)
    scratch = _build_scratch(lattice)
    total = float(counts.sum() + num_unknown)
    log_total = logarithm(total)
    for i in range(len(scores)):
        size = np.int64(lattice.sizes[i])
        best_score = _find_best_cut(lattice, places[i], size, scores, unknown_score, scratch)
        if size == 1:
            verdicts[i] = KEEP
        elif best_score > scores[i] or counts[i] == 0:
            verdicts[i] = KEEP if counts[i] > 0 else DROP
        else:
            verdicts[i] = WEIGH
            losses[i] = _compute_loss(size, float(counts[i]), counts, num_unknown, total, log_total, scratch)
    return verdicts


@kernel
def _compute_loss(
    size: int | np.int64,
    count: float,
    counts: Int64s,
    num_unknown: int,
    total: float,
    log_total: float,
    scratch: WordScratch,
) -> float:
    """Return the log likelihood lost if each occurrence of a piece is replaced by the segmentation in `scratch`.

    As in the reference, the total grows by `count` for each piece of the vocabulary, not only for the pieces of the
    segmentation. That may be a mistake there, but it affects which frequent pieces are kept.

    Args:
        size: Number of characters in the piece.
        count: How often the piece occurs in the best segmentations.
        counts: int64 [pieces], how often each piece of the vocabulary occurs in them.
        num_unknown: Number of unknown characters in the best segmentations.
        total: The sum of `counts` and `num_unknown`.
        log_total: The logarithm of `total`.
        scratch: Has `ids` and `lengths` from `_find_best_cut`. `values` is overwritten.
    """
    pieces, end = 0, size
    while end > 0:
        scratch.values[pieces] = float(counts[scratch.ids[end]] if scratch.ids[end] >= 0 else num_unknown)
        pieces += 1
        end -= scratch.lengths[end]
    log_after = logarithm(total + count * len(counts))
    after = 0.0
    for k in range(pieces - 1, -1, -1):
        after += logarithm(scratch.values[k] + count) - log_after
    return count * (logarithm(count) - log_total - after)


@kernel
def thin_lattice(lattice: Lattice, kept: Int64s) -> Lattice:
    """Return a lattice with only the pieces in `kept`, renumbered in the order in which `kept` lists them.

    Args:
        lattice: The occurrences of all pieces. Its `longest` is overwritten.
        kept: int64, the indices of the pieces to keep.
    """
    renumbered = np.full(len(lattice.parents), -1, np.int32)
    for new in range(len(kept)):
        renumbered[kept[new]] = new
    kept_ancestor = np.empty(
        len(lattice.parents), np.int32
    )  # a piece itself, or the longest it begins with that is kept
    for old in range(len(kept_ancestor)):
        piece = np.int32(old)
        while piece >= 0 and renumbered[piece] < 0:
            piece = lattice.parents[piece]
        kept_ancestor[old] = renumbered[piece] if piece >= 0 else -1
    parents, sizes = np.full(len(kept), -1, np.int32), np.empty(len(kept), np.uint8)
    for new in range(len(kept)):
        sizes[new] = lattice.sizes[kept[new]]
        if lattice.parents[kept[new]] >= 0:
            parents[new] = kept_ancestor[lattice.parents[kept[new]]]
    for place in range(len(lattice.longest)):
        if lattice.longest[place] >= 0:
            lattice.longest[place] = kept_ancestor[lattice.longest[place]]
    return Lattice(lattice.starts, lattice.counts, lattice.longest, parents, sizes)
