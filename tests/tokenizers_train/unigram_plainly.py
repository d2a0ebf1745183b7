"""Training Unigram as it is defined, in dictionaries and logarithms of probabilities.

Promise: each function says what a kernel means, and tests hold one against the other: pieces, cuts and what is
pruned are equal, expected numbers differ by rounding. Cost: weighing all cuts takes some 500 times as long as
the kernel.

A piece that is no key is unknown, and `None` stands for one unknown character in a cut.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from tokenizers_train.learning.unigram_kernels import digamma, logarithm

UNKNOWN_PENALTY = 10.0
Scores = Mapping[str, float]
Match = tuple[int, int, str | None, float]  # begin, end, piece, score


def repeated_plainly(words: Sequence[str], longest: int) -> dict[str, int]:
    """The strings of 2 to `longest` characters followed by at least two different ones, or a word's end; how many."""
    places: Counter[str] = Counter()
    following: defaultdict[str, set[str]] = defaultdict(set)
    for word in words:
        for begin in range(len(word)):
            for end in range(begin + 2, min(begin + longest, len(word)) + 1):
                places[word[begin:end]] += 1
                following[word[begin:end]].add(word[end : end + 1])
    return {string: count for string, count in places.items() if len(following[string]) > 1}


def matches_plainly(word: str, scores: Scores) -> list[Match]:
    """Return where pieces are in a word, by start, then by end; an unknown character where it is not a piece itself."""
    unknown = min(scores.values()) - UNKNOWN_PENALTY
    matches: list[Match] = []
    for begin in range(len(word)):
        if word[begin] not in scores:
            matches.append((begin, begin + 1, None, unknown))
        for end in range(begin + 1, len(word) + 1):
            piece = word[begin:end]
            if piece in scores:
                matches.append((begin, end, piece, scores[piece]))
    return matches


def expected_plainly(words: Mapping[str, int], scores: Scores) -> dict[str, float]:
    """How often each piece is expected, when a cut of a word is as likely as the sum of its scores says."""
    expected = dict.fromkeys(scores, 0.0)
    for word, count in words.items():
        matches = matches_plainly(word, scores)
        ahead, behind = {0: 0.0}, {len(word): 0.0}
        for begin, end, _, score in matches:
            ahead[end] = _log_sum(ahead.get(end), ahead[begin] + score)
        for begin, end, _, score in reversed(matches):
            behind[begin] = _log_sum(behind.get(begin), behind[end] + score)
        for begin, end, piece, score in matches:
            if piece is not None:
                expected[piece] += count * math.exp(ahead[begin] + score + behind[end] - ahead[len(word)])
    return expected


def _log_sum(one: float | None, other: float) -> float:
    """The logarithm of the sum of two numbers of which the logarithms are given; None is no number."""
    if one is None:
        return other
    low, high = sorted((one, other))
    return high + math.log1p(math.exp(low - high))


def scored_plainly(expected: Mapping[str, float]) -> dict[str, float]:
    """New scores for the pieces that are expected at least half a time: a sparse prior's (Liang and Klein 2007)."""
    often = {piece: count for piece, count in expected.items() if count >= 0.5}
    of_all = digamma(sum(often.values())) if often else 0.0
    return {piece: digamma(count) - of_all for piece, count in often.items()}


def cut_plainly(word: str, scores: Scores, whole: bool = True) -> tuple[float, list[str | None]]:
    """The best way to cut a word and its score, of equals the one with the longer last piece.

    whole: whether the word may stay a piece
    """
    best: dict[int, tuple[float, list[str | None]]] = {0: (0.0, [])}
    for begin, end, piece, score in matches_plainly(word, scores):
        if whole or len(word) == 1 or (begin, end) != (0, len(word)):
            total = best[begin][0] + score
            if end not in best or total > best[end][0]:
                best[end] = (total, [*best[begin][1], piece])
    return best[len(word)]


def pruned_plainly(words: Mapping[str, int], scores: Scores, room: int) -> list[str]:
    """The pieces that stay, at most `room`, unless more have no alternative; these first, then by what is lost."""
    counts: Counter[str | None] = Counter()
    for word, count in words.items():
        for piece in cut_plainly(word, scores)[1]:
            counts[piece] += count
    kept, losses = [], {}
    for piece, score in scores.items():
        other_score, others = cut_plainly(piece, scores, whole=False)
        if len(piece) == 1 or (other_score > score and counts[piece]):
            kept.append(piece)
        elif other_score <= score and counts[piece]:
            losses[piece] = _loss(counts, piece, others, len(scores))
    return kept + sorted(losses, key=lambda piece: -losses[piece])[: max(0, room - len(kept))]


def _loss(counts: Mapping[str | None, int], piece: str, others: Sequence[str | None], num_pieces: int) -> float:
    """How much the likelihood falls when all occurrences of a piece are cut into others.

    The total grows by the piece's count for every piece there is, not for the others alone: so it is in the reference.
    """
    count, total = counts[piece], sum(counts.values())
    log_after = logarithm(float(total + count * num_pieces))
    after = sum(logarithm(float(counts.get(other, 0) + count)) - log_after for other in others)
    return count * (logarithm(float(count)) - logarithm(float(total)) - after)
