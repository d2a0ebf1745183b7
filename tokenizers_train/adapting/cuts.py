"""Cut words into pieces while tokens are being added: the three algorithms, in plain Python.

Promise: `WordPieceCuts` and `UnigramCuts` cut a word as the model of Hugging Face tokenizers does that has the same
pieces, and `MergeCuts` as its BPE model with the new merges after the old ones. A word is cut again only when a new
token can change it, so a million words are cut once and a few of them again for each token.

Why new merges may simply follow the old ones: a piece that is made twice, by two different merges, could come back
into an older merge. So a merge whose piece is a token already is never made. Every merge that takes a new piece is
then newer than the one that makes it, and the old merges run to their end before the first new one.

Cost: 2 microseconds for a word of two pieces (WordPiece), 20 for Unigram.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import NamedTuple, Protocol

from tokenizers_train.vocabularies.albert import UNKNOWN_PENALTY

Pieces = tuple[str, ...]

LITTLE = 1e-3  # by which a new Unigram piece is better than the pieces it is made of; survives float32


class WholeWordCuts(Protocol):
    """Cuts of words by an algorithm in which a token can be added by itself."""

    def cut(self, word: str) -> Pieces:
        """The pieces of a word."""

    def unknown(self, pieces: Pieces) -> bool:
        """True if these pieces lose what the word was."""

    def __contains__(self, token: object) -> bool: ...

    def add(self, token: str) -> None:
        """Add a new token."""

    def remove(self, token: str) -> None:
        """Take an added token out again."""


class WordPieceCuts:
    """The longest piece first, then on with what continues (Wu et al. 2016, as BERT's tokenizer has it)."""

    def __init__(self, tokens: Collection[str], unknown: str, prefix: str, max_word_length: int) -> None:
        self._tokens = set(tokens)
        self._unknown, self._prefix, self._max_word_length = (unknown,), prefix, max_word_length
        self._longest = max(map(len, tokens), default=0)

    def cut(self, word: str) -> Pieces:
        """The pieces of a word; the unknown token alone where a part of it has none."""
        if len(word) > self._max_word_length:
            return self._unknown
        pieces, start = [], 0
        while start < len(word):
            prefix = self._prefix if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                if prefix + word[start:end] in self._tokens:
                    break
            else:
                return self._unknown
            pieces.append(prefix + word[start:end])
            start = end
        return tuple(pieces)

    def unknown(self, pieces: Pieces) -> bool:
        """True if the word is the unknown token."""
        return pieces == self._unknown

    def __contains__(self, token: object) -> bool:
        return token in self._tokens

    def add(self, token: str) -> None:
        """Add a token."""
        self._tokens.add(token)
        self._longest = max(self._longest, len(token))

    def remove(self, token: str) -> None:
        """Take a token out again."""
        self._tokens.remove(token)


class UnigramCuts:
    """The pieces with the largest sum of scores (Kudo 2018); the first found of equal ones, as tokenizers has it.

    A token that is added scores what its pieces score together and LITTLE more, and never less than the least
    score before: it takes the place of its own pieces and, except for such lifting, of no others.
    """

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = dict(scores)
        self._least = min(self.scores.values())
        self._longest = max(map(len, self.scores))

    def cut(self, word: str) -> Pieces:
        """The pieces of a word; characters without a piece are together one."""
        best: list[tuple[float, int, bool] | None] = [(0.0, 0, True), *[None] * len(word)]
        for start in range(len(word)):
            before = best[start]
            assert before is not None, "every character ends a path"
            single = False
            for end in range(start + 1, min(len(word), start + self._longest) + 1):
                score = self.scores.get(word[start:end])
                if score is not None:
                    single |= end == start + 1
                    _better(best, end, score + before[0], start, True)
            if not single:
                _better(best, start + 1, self._least - UNKNOWN_PENALTY + before[0], start, False)
        return _path(word, best)

    def unknown(self, pieces: Pieces) -> bool:
        """True if a piece is not in the vocabulary."""
        return any(piece not in self.scores for piece in pieces)

    def __contains__(self, token: object) -> bool:
        return token in self.scores

    def add(self, token: str) -> None:
        """Add a token, with a score by the rule above."""
        self.scores[token] = self.score(self.cut(token))
        self._longest = max(self._longest, len(token))

    def remove(self, token: str) -> None:
        """Take a token out again."""
        del self.scores[token]

    def score(self, pieces: Pieces) -> float:
        """Return the score of a token of these pieces."""
        together = sum(self.scores.get(piece, self._least) for piece in pieces)
        return max(together + LITTLE, self._least)


def _better(best: list[tuple[float, int, bool] | None], end: int, score: float, start: int, covered: bool) -> None:
    """Enter a path to `end` where it is better than the one so far."""
    current = best[end]
    if current is None or score > current[0]:
        best[end] = (score, start, covered)


def _path(word: str, best: list[tuple[float, int, bool] | None]) -> Pieces:
    """The pieces of the best path, unknown ones that meet joined."""
    pieces: list[str] = []
    end, joins = len(word), False
    while end:
        step = best[end]
        assert step is not None
        _, start, covered = step
        if not covered and joins:
            pieces[-1] = word[start:end] + pieces[-1]
        else:
            pieces.append(word[start:end])
        end, joins = start, not covered
    return tuple(reversed(pieces))


class Merge(NamedTuple):
    """Two pieces joined. drawn: how often they were next to each other in words to draw from; saved: in all words."""

    left: str
    right: str
    drawn: int
    saved: int


class MergeCuts:
    """Words of pieces, merged further (Sennrich et al. 2016; continued: Purason et al. 2025)."""

    def __init__(self, words: list[Pieces], counts: list[int], draws: list[bool], tokens: Collection[str]) -> None:
        """The words as the old merges leave them; tokens are drawn from those with `draws`."""
        self._words, self._counts, self._draws = list(words), counts, draws
        self._tokens = set(tokens)
        self.pairs: Counter[tuple[str, str]] = Counter()
        self._where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for number in range(len(words)):
            self._enter(number, 1)

    def _enter(self, number: int, sign: int) -> None:
        """Count the pairs of a word in, or out."""
        for pair in pairwise(self._words[number]):
            self._where[pair].add(number)
            if self._draws[number]:
                self.pairs[pair] += sign * self._counts[number]

    def may_join(self, pair: tuple[str, str]) -> bool:
        """True if the pair makes a piece that is no token yet."""
        return "".join(pair) not in self._tokens

    def join(self, pair: tuple[str, str], report: Callable[[tuple[str, str], int], None]) -> Merge:
        """Make the pair one piece in every word; calls `report` with each pair there is more of now, and how many."""
        count, saved, touched = self.pairs[pair], 0, set[tuple[str, str]]()
        self._tokens.add("".join(pair))
        for number in sorted(self._where.pop(pair)):
            before = self._words[number]
            after = joined(before, pair)
            if after != before:
                self._enter(number, -1)
                self._words[number] = after
                self._enter(number, 1)
                saved += self._counts[number] * (len(before) - len(after))
                touched.update(new for new in pairwise(after) if "".join(pair) in new)
        self._where.pop(pair, None)
        for new in sorted(touched):
            report(new, self.pairs[new])
        return Merge(*pair, count, saved)


def joined(pieces: Pieces, pair: tuple[str, str]) -> Pieces:
    """The pieces with each occurrence of the pair, from the left, made one.

    >>> joined(("a", "a", "a"), ("a", "a"))
    ('aa', 'a')
    """
    done: list[str] = []
    for piece in pieces:
        if done and (done[-1], piece) == pair:
            done[-1] += piece
        else:
            done.append(piece)
    return tuple(done)
