"""Fit an existing vocabulary to a domain: choose the tokens that it lacks, and build the vocabulary that has them.

    word counts of the domain ─► choose_tokens ─► choices ─► with_added_tokens ─► a folder that AutoTokenizer opens

The first token chosen is the one that saves most pieces in the domain's text, the next one saves most in addition to
it, and so on: greedily, with gains counted again after each choice. (AVocaDo, Hong et al. 2021, adds subwords too,
until the text is fragmented little enough.) WordPiece and Unigram are given whole words: a word is one meaning, and its
embedding can begin as the mean of its pieces. Beginnings of words save hardly more: 400 tokens chosen from half of a
text left, in the other half, 1.1696 tokens a word of biomedical abstracts with whole words and 1.1648 with beginnings,
1.0277 and 1.0276 of contracts, and among the beginnings were `adju` and `fibrobla`. Byte-level BPE cannot take a word
by itself: it needs the merges that build it, and each piece on the way is a token. So merging continues after the old
merges (Purason et al. 2025): each merge is one token, and saves as many pieces as it joins pairs.

Promises: `Choice.saved_tokens` is exactly the number of tokens that the counted words become fewer by, given the
choices before. Tokens keep their ids, except `[unusedN]` slots that are filled; special tokens stay. Every new token is
reached: its text is encoded as only that token. By default a token has only letters, so no number becomes one; a name
that occurs often enough in the text may. Words of WordPiece and byte-level BPE that hold anything else are not
eligible; of SentencePiece's, which end at white space, the letters up to the first other sign are. `WordPieceCutter`
and `UnigramCutter` cut a word as the model of Hugging Face tokenizers with the same pieces does, and `WordMerger` as
its BPE model with the new merges after the old ones.

A word is cut again only if a new token can change it, so a million words are cut once and a few of them again for each
token. New merges may simply follow the old ones because a merge is never made if its piece is a token already: a piece
that two different merges make could come back into an older merge. Every merge that takes a new piece is then newer
than the one that makes it, and the old merges run to their end before the first new one.

Cost: for 2,000 tokens from 40 MB of English novels 1.2 s of CPU and 25 MB (WordPiece; 75,782 distinct words), 2.0 s and
50 MB (byte-level BPE; 125,821). Plain Python: 2 microseconds to cut a word of two pieces (WordPiece), 20 for Unigram.
"""

import heapq
import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, NamedTuple, Protocol

from tokenizers import Tokenizer

from corpora.errors import InputError
from corpora.store.settings import check_choice, check_range
from tokenizers_train.vocabularies.albert import UNKNOWN_PENALTY
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.vocabularies.settings import BYTE_BPE, UNIGRAM, WORDPIECE
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.counts import WordRule
from tokenizers_train.words.sentencepiece import WORD_MARK
from tokenizers_train.words.table import WordCounts

Pieces = tuple[str, ...]

SCORE_MARGIN = 1e-3  # by which a new Unigram piece is better than the pieces it is made of; survives float32


class WordCutter(Protocol):
    """Splits words into pieces. Single tokens can be added to its vocabulary and removed again."""

    def cut(self, word: str) -> Pieces:
        """Split a word into pieces of the vocabulary, in order."""

    def is_unknown(self, pieces: Pieces) -> bool:
        """Return whether a word is unknown, at least in part, given its pieces from `cut`."""

    def __contains__(self, token: object) -> bool: ...

    def add(self, token: str) -> None:
        """Add a token to the vocabulary. It must not be there yet."""

    def remove(self, token: str) -> None:
        """Remove a token from the vocabulary. It must have been added with `add`."""


class WordPieceCutter:
    """Splits a word by repeatedly taking the longest piece that matches next (Wu et al. 2016), as BERT's tokenizer
    does.

    Args:
        tokens: The vocabulary.
        unknown: The token for a word that cannot be split into pieces.
        prefix: The prefix of pieces that continue a word, usually "##".
        max_word_length: Words with more characters than this are unknown.
    """

    def __init__(self, tokens: Collection[str], unknown: str, prefix: str, max_word_length: int) -> None:
        self._tokens = set(tokens)
        self._unknown_pieces, self._prefix, self._max_word_length = (unknown,), prefix, max_word_length
        self._max_token_length = max(map(len, tokens), default=0)

    def cut(self, word: str) -> Pieces:
        """Split a word into WordPiece tokens, always taking the longest piece that matches next.

        The result is only the unknown token if a part of the word matches no piece, or if the word is too long.
        """
        if len(word) > self._max_word_length:
            return self._unknown_pieces
        pieces, start = [], 0
        while start < len(word):
            prefix = self._prefix if start else ""
            for end in range(min(len(word), start + self._max_token_length), start, -1):
                if prefix + word[start:end] in self._tokens:
                    break
            else:
                return self._unknown_pieces
            pieces.append(prefix + word[start:end])
            start = end
        return tuple(pieces)

    def is_unknown(self, pieces: Pieces) -> bool:
        """Return whether a word is unknown: its pieces, from `cut`, are only the unknown token, e.g. ("[UNK]",)."""
        return pieces == self._unknown_pieces

    def __contains__(self, token: object) -> bool:
        return token in self._tokens

    def add(self, token: str) -> None:
        """Add a token to the vocabulary. Adding a token twice has no effect."""
        self._tokens.add(token)
        self._max_token_length = max(self._max_token_length, len(token))

    def remove(self, token: str) -> None:
        """Remove a token from the vocabulary.

        Raises:
            KeyError: If the token is not in the vocabulary.
        """
        self._tokens.remove(token)


class UnigramCutter:
    """Splits a word into the pieces with the highest sum of scores (Kudo 2018). Ties are broken as in the tokenizers
    library.

    A token that is added gets the sum of its pieces' scores plus SCORE_MARGIN, but at least the lowest score of the
    original vocabulary. So it replaces its own pieces and, unless its score was raised to that minimum, no others.

    Args:
        scores: Maps each piece to the logarithm of its probability. It must not be empty.
    """

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = dict(scores)
        self._lowest_score = min(self.scores.values())
        self._max_token_length = max(map(len, self.scores))

    def cut(self, word: str) -> Pieces:
        """Split a word into the pieces with the highest total score.

        Consecutive characters that no piece covers form one unknown piece.
        """
        paths: list[tuple[float, int, bool] | None] = [(0.0, 0, True), *[None] * len(word)]
        for start in range(len(word)):
            path = paths[start]
            assert path is not None, "every character ends a path"
            has_character_piece = False
            for end in range(start + 1, min(len(word), start + self._max_token_length) + 1):
                score = self.scores.get(word[start:end])
                if score is not None:
                    has_character_piece |= end == start + 1
                    _keep_better_path(paths, end, score + path[0], start, True)
            if not has_character_piece:
                _keep_better_path(paths, start + 1, self._lowest_score - UNKNOWN_PENALTY + path[0], start, False)
        return _trace_best_path(word, paths)

    def is_unknown(self, pieces: Pieces) -> bool:
        """Return whether a word is unknown: at least one of its pieces, from `cut`, is not in the vocabulary."""
        return any(piece not in self.scores for piece in pieces)

    def __contains__(self, token: object) -> bool:
        return token in self.scores

    def add(self, token: str) -> None:
        """Add a token to the vocabulary, with the score that `compute_score` returns for its current pieces."""
        self.scores[token] = self.compute_score(self.cut(token))
        self._max_token_length = max(self._max_token_length, len(token))

    def remove(self, token: str) -> None:
        """Remove a token and its score from the vocabulary.

        Raises:
            KeyError: If the token is not in the vocabulary.
        """
        del self.scores[token]

    def compute_score(self, pieces: Pieces) -> float:
        """Return the score for a new token that is to replace these pieces: the sum of their scores plus SCORE_MARGIN.

        It is at least the lowest score of the original vocabulary.
        """
        together = sum(self.scores.get(piece, self._lowest_score) for piece in pieces)
        return max(together + SCORE_MARGIN, self._lowest_score)


def _keep_better_path(
    paths: list[tuple[float, int, bool] | None], end: int, score: float, start: int, is_known: bool
) -> None:
    """Replace the best segmentation that ends at index `end` of a word if this one has a higher score.

    Args:
        paths: For each end, the score, the start of the last piece and whether the piece is known, or None if no
            segmentation ends there. Changed in place.
        end: End of the last piece.
        score: The sum of the scores of all pieces.
        start: Start of the last piece.
        is_known: Whether the last piece is in the vocabulary.
    """
    current = paths[end]
    if current is None or score > current[0]:
        paths[end] = (score, start, is_known)


def _trace_best_path(word: str, paths: list[tuple[float, int, bool] | None]) -> Pieces:
    """Return the pieces of the best segmentation of a word. Adjacent unknown characters are joined into one piece.

    `paths` has the last piece of the best segmentation that ends at each index of the word (see `_keep_better_path`).
    """
    pieces: list[str] = []
    end, after_unknown = len(word), False
    while end:
        step = paths[end]
        assert step is not None
        _, start, is_known = step
        if not is_known and after_unknown:
            pieces[-1] = word[start:end] + pieces[-1]
        else:
            pieces.append(word[start:end])
        end, after_unknown = start, not is_known
    return tuple(reversed(pieces))


class Merge(NamedTuple):
    """Two adjacent pieces that were joined into one token.

    Attributes:
        left: The left piece.
        right: The right piece.
        eligible_count: How often the pair occurred in the eligible words.
        saved_tokens: Number of tokens that the merge saved in all words.
    """

    left: str
    right: str
    eligible_count: int
    saved_tokens: int


class WordMerger:
    """Continues BPE merging (Sennrich et al. 2016) on words that are already split into pieces (see Purason et al.
    2025).
    """

    def __init__(
        self, words: list[Pieces], counts: list[int], are_eligible: list[bool], tokens: Collection[str]
    ) -> None:
        """Count the pairs of adjacent pieces in the eligible words.

        Args:
            words: The pieces of each word after the existing merges.
            counts: How often each word occurs.
            are_eligible: Whether each word may contribute new tokens. Only these words count when the most frequent
                pair is chosen.
            tokens: The vocabulary. No merge may produce one of these tokens again.
        """
        self._words, self._counts, self._are_eligible = list(words), counts, are_eligible
        self._tokens = set(tokens)
        self.pair_counts: Counter[tuple[str, str]] = Counter()
        self._words_with_pair: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for number in range(len(words)):
            self._add_pairs(number, 1)

    def _add_pairs(self, number: int, sign: int) -> None:
        """Add the pairs in the word with the index `number` to the counts, or subtract them if `sign` is -1.

        Only pairs of eligible words are counted.
        """
        for pair in pairwise(self._words[number]):
            self._words_with_pair[pair].add(number)
            if self._are_eligible[number]:
                self.pair_counts[pair] += sign * self._counts[number]

    def can_join(self, pair: tuple[str, str]) -> bool:
        """Return whether joining the pair would produce a token that does not exist yet."""
        return "".join(pair) not in self._tokens

    def join(self, pair: tuple[str, str], on_higher_count: Callable[[tuple[str, str], int], None]) -> Merge:
        """Join a pair in every word, from left to right, and add the result to the tokens.

        Args:
            pair: The two pieces.
            on_higher_count: Called with each new pair that contains the joined piece, and the pair's count in eligible
                words.

        Returns:
            The merge, with the pair's count in eligible words and the number of tokens saved in all words.
        """
        count, saved_tokens, new_pairs = self.pair_counts[pair], 0, set[tuple[str, str]]()
        self._tokens.add("".join(pair))
        for number in sorted(self._words_with_pair.pop(pair)):
            before = self._words[number]
            after = join_pair(before, pair)
            if after != before:
                self._add_pairs(number, -1)
                self._words[number] = after
                self._add_pairs(number, 1)
                saved_tokens += self._counts[number] * (len(before) - len(after))
                new_pairs.update(new for new in pairwise(after) if "".join(pair) in new)
        self._words_with_pair.pop(pair, None)
        for new in sorted(new_pairs):
            on_higher_count(new, self.pair_counts[new])
        return Merge(*pair, count, saved_tokens)


def join_pair(pieces: Pieces, pair: tuple[str, str]) -> Pieces:
    """Join each occurrence of a pair of pieces, from left to right.

    >>> join_pair(("a", "a", "a"), ("a", "a"))
    ('aa', 'a')
    """
    joined: list[str] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == pair:
            joined[-1] += piece
        else:
            joined.append(piece)
    return tuple(joined)


LETTERS, LETTERS_AND_DIGITS = "letters", "letters-digits"
FILL, APPEND = "fill", "append"

SLOT_PATTERN = re.compile(r"\[unused\d+\]|madeupword\d{4}")  # BERT's and RoBERTa's tokens that stand for nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptSettings:
    """Settings that determine which words of a domain may become tokens.

    min_count:  minimum count of a word (for byte-level BPE: of a pair of pieces)
    min_length: minimum length of a word in characters
    max_length: maximum length of a word in characters
    characters: "letters": a word must have only letters; "letters-digits": letters and digits (for Unigram, the word is
                first cut before its first other character)
    """

    min_count: int = 5
    min_length: int = 3
    max_length: int = 30
    characters: str = LETTERS

    def __post_init__(self) -> None:
        check_choice("characters", self.characters, (LETTERS, LETTERS_AND_DIGITS))
        for name, least in (("min_count", 1), ("min_length", 1), ("max_length", self.min_length)):
            check_range(name, getattr(self, name), least, remedy=f"; it must be {least} or more.")

    def is_eligible(self, word: str) -> bool:
        """Return whether a word may become a token. The word must be given without its word-start mark."""
        fits = self.min_length <= len(word) <= self.max_length
        return fits and (word.isalpha() if self.characters == LETTERS else word.isalnum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A token to add to a vocabulary.

    Attributes:
        token: The token.
        count: How often it occurs in the eligible words.
        pieces: The pieces into which the token was split after all earlier choices were added.
        saved_tokens: Number of tokens that it saves in the encoded words, in addition to all earlier choices.
        rescued_words: Number of occurrences of words that were unknown before and no longer are.
        score: The score of a Unigram token, otherwise 0.
    """

    token: str
    count: int
    pieces: Pieces
    saved_tokens: int
    rescued_words: int = 0
    score: float = 0.0


def choose_tokens(
    vocabulary: Vocabulary, counts: WordCounts, max_tokens: int, settings: AdaptSettings | None = None
) -> list[Choice]:
    """Choose tokens that make the encoded text of a domain shorter.

    Whole words are chosen greedily: each one saves the most tokens, given the choices before it. For byte-level BPE,
    each choice merges the most frequent pair of pieces in the eligible words.

    A word that is encoded as unknown counts as one token per character. Ties are broken by the code points of the
    token, or in byte-level BPE of its left piece and then its right piece.

    Args:
        vocabulary: The vocabulary to adapt.
        counts: Word counts of the domain, counted with the vocabulary's own word rule.
        max_tokens: Maximum number of tokens.
        settings: Which words are eligible (default: `AdaptSettings()`).

    Returns:
        At most `max_tokens` choices. There are fewer if no other token occurs `min_count` times and saves anything.

    Raises:
        InputError: If the vocabulary does not have the word rule of BERT, GPT-2, RoBERTa or ALBERT.
    """
    settings = settings or AdaptSettings()
    rule = require_word_rule(vocabulary)
    words, numbers = counts["word"].to_pylist(), counts["count"].to_pylist()
    if vocabulary.algorithm == BYTE_BPE:
        choices = _iter_merge_choices(vocabulary, words, numbers, settings)
    else:
        choices = _TokenChooser(vocabulary, rule, settings, words, numbers).iter_choices()
    return list(islice(choices, max_tokens))


def require_word_rule(vocabulary: Vocabulary) -> WordRule:
    """Return the word rule of a vocabulary that can be adapted.

    Raises:
        InputError: If the vocabulary does not have the word rule of BERT, GPT-2, RoBERTa or ALBERT.
    """
    rule = vocabulary.word_rule
    if rule is None:
        raise InputError(
            f"The vocabulary is a {vocabulary.algorithm} tokenizer with rules of its own (see `normalizer`, "
            "`pre_tokenizer` and `added_tokens` of its tokenizer.json). Only vocabularies with the rules of BERT, "
            "GPT-2, RoBERTa or ALBERT can be adapted: name such a one."
        )
    return rule


# Whole words: WordPiece and Unigram.


class _WordCut(NamedTuple):
    """The pieces of a word, and whether a part of the word is unknown."""

    pieces: Pieces
    is_unknown: bool


class _TokenChooser:
    """Chooses whole words as new tokens. It holds the words with more than one piece in sorted order, with their
    current pieces.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        rule: WordRule,
        settings: AdaptSettings,
        words: Sequence[str],
        counts: Sequence[int],
    ) -> None:
        self._rule, self._settings = rule, settings
        self._algorithm = vocabulary.algorithm
        self._cutter = build_word_cutter(vocabulary)
        rows = sorted((word, count) for word, count in zip(words, counts, strict=True) if word not in self._cutter)
        self._words, self._counts = [word for word, _ in rows], [count for _, count in rows]
        self._current_cuts = [self._cut_word(word) for word in self._words]

    def iter_choices(self) -> Iterator[Choice]:
        """Yield the choice that saves the most tokens, then the one that saves the most in addition to it, and so on.

        Each yielded token is added to the vocabulary. A candidate's gain is computed again when it reaches the top of
        the heap.
        """
        candidates = self._count_candidates()
        heap = [
            (-self._compute_gain(token), token)
            for token, count in candidates.items()
            if count >= self._settings.min_count
        ]
        heapq.heapify(heap)
        while heap:
            token = heapq.heappop(heap)[1]
            gain = self._compute_gain(token)
            if gain > 0 and heap and (-gain, token) > heap[0]:
                heapq.heappush(heap, (-gain, token))
            elif gain > 0 and self._is_one_word(token):
                yield self._add_token(token, candidates[token])

    def _count_candidates(self) -> Counter[str]:
        """Count the occurrences of each word that may become a token. The keys are the tokens."""
        occurrences = Counter[str]()
        for word, count in zip(self._words, self._counts, strict=True):
            token = word if self._algorithm == WORDPIECE else _keep_leading_letters(word, self._settings)
            if self._settings.is_eligible(token.removeprefix(WORD_MARK)) and token not in self._cutter:
                occurrences[token] += count
        return occurrences

    def _is_one_word(self, token: str) -> bool:
        """Return whether the word rule keeps the text of a token as one unchanged word."""
        return self._rule.split(token.removeprefix(WORD_MARK)) == [token]

    def _cut_word(self, word: str) -> _WordCut:
        pieces = self._cutter.cut(word)
        return _WordCut(pieces, self._cutter.is_unknown(pieces))

    def _find_changed_cuts(self, token: str) -> dict[int, _WordCut]:
        """Find the words that would be split differently if `token` were added.

        Only words that begin with the token can change.

        Returns:
            Maps the index of each of these words to its new pieces.
        """
        first = bisect_left(self._words, token)
        last = bisect_right(self._words, token, lo=first, key=lambda word: word[: len(token)])
        self._cutter.add(token)
        cuts = [(number, self._cut_word(self._words[number])) for number in range(first, last)]
        self._cutter.remove(token)
        return {number: cut for number, cut in cuts if cut.pieces != self._current_cuts[number].pieces}

    def _compute_gain(self, token: str) -> int:
        """Return how many tokens the addition of `token` would save in all words.

        An unknown word counts as one token per character.
        """
        return sum(
            self._counts[number]
            * (self._compute_cost(number, self._current_cuts[number]) - self._compute_cost(number, cut))
            for number, cut in self._find_changed_cuts(token).items()
        )

    def _compute_cost(self, number: int, cut: _WordCut) -> int:
        return len(self._words[number]) if cut.is_unknown else len(cut.pieces)

    def _add_token(self, token: str, count: int) -> Choice:
        """Add a token permanently, update the pieces of the words that it changes, and return it as a choice.

        `count` is how often the token occurs in the eligible words. It is copied to the result.
        """
        before, saved_tokens, rescued_words = self._cutter.cut(token), 0, 0
        for number, cut in self._find_changed_cuts(token).items():
            saved_tokens += self._counts[number] * (len(self._current_cuts[number].pieces) - len(cut.pieces))
            rescued_words += self._counts[number] * (self._current_cuts[number].is_unknown - cut.is_unknown)
            self._current_cuts[number] = cut
        self._cutter.add(token)
        score = self._cutter.scores[token] if isinstance(self._cutter, UnigramCutter) else 0.0
        return Choice(
            token=token, count=count, pieces=before, saved_tokens=saved_tokens, rescued_words=rescued_words, score=score
        )


def _keep_leading_letters(word: str, settings: AdaptSettings) -> str:
    """Truncate a SentencePiece word before the first character that the settings do not allow: `word,` becomes `word`.

    A word-start mark at the beginning is kept.
    """
    without_mark = word.removeprefix(WORD_MARK)
    is_allowed = str.isalpha if settings.characters == LETTERS else str.isalnum
    end = next((place for place, letter in enumerate(without_mark) if not is_allowed(letter)), len(without_mark))
    return word[: len(word) - len(without_mark) + end]


def build_word_cutter(vocabulary: Vocabulary) -> WordCutter:
    """Build the cutter of a WordPiece or Unigram vocabulary.

    A Unigram cutter does not get the special tokens, because they cannot occur in a text.
    """
    model, special = vocabulary.content["model"], {vocabulary.tokens[n] for n in vocabulary.special_ids.values()}
    if vocabulary.algorithm == UNIGRAM:
        return UnigramCutter({piece: score for piece, score in model["vocab"] if piece not in special})
    return WordPieceCutter(
        model["vocab"], model["unk_token"], model["continuing_subword_prefix"], model["max_input_chars_per_word"]
    )


# Merges: byte-level BPE.


def _iter_merge_choices(
    vocabulary: Vocabulary, words: Sequence[str], counts: Sequence[int], settings: AdaptSettings
) -> Iterator[Choice]:
    """Merge the most frequent pair in the eligible words repeatedly, and yield each merge as a choice.

    The iterator ends when no pair occurs `min_count` times.

    Args:
        vocabulary: The byte-level BPE vocabulary to adapt.
        words: The words of the domain.
        counts: How often each word occurs.
        settings: Which words are eligible, and `min_count`.
    """
    model = vocabulary.to_tokenizer().model
    cuts = (tuple(piece.value for piece in model.tokenize(spell_for_model(vocabulary, word))) for word in words)
    are_eligible = (settings.is_eligible(word.removeprefix(" ")) for word in words)
    rows = [row for row in zip(cuts, counts, are_eligible, strict=True) if len(row[0]) > 1]
    merger = WordMerger([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows], vocabulary.tokens)
    heap = [(-count, pair) for pair, count in merger.pair_counts.items() if merger.can_join(pair)]
    heapq.heapify(heap)
    while heap:
        count, pair = heapq.heappop(heap)
        current_count = merger.pair_counts[pair]
        if -count != current_count or not merger.can_join(pair):
            if 0 < current_count < -count:
                heapq.heappush(heap, (-current_count, pair))
            continue
        if current_count < settings.min_count:
            return
        merge = merger.join(pair, lambda new, many: heapq.heappush(heap, (-many, new)))
        yield Choice(
            token=merge.left + merge.right,
            count=merge.eligible_count,
            pieces=(merge.left, merge.right),
            saved_tokens=merge.saved_tokens,
        )


# The new vocabulary.


def with_added_tokens(vocabulary: Vocabulary, choices: Sequence[Choice], mode: str = FILL) -> Vocabulary:
    """Return a vocabulary that includes the chosen tokens. Returns `vocabulary` itself if `choices` is empty.

    Args:
        vocabulary: The vocabulary that was given to `choose_tokens`.
        choices: Choices returned by `choose_tokens`, in the same order. For byte-level BPE, none may be left out except
            at the end.
        mode: "fill" replaces unused tokens ([unusedN], or madeupwordNNNN in RoBERTa) in ascending order and appends the
            rest. "append" appends all.

    Raises:
        InputError: If a token already exists, if the tokenizer would not encode a token's text as that token, if `mode`
            is invalid, or if the vocabulary's word rule is not supported.
    """
    check_choice("mode", mode, (FILL, APPEND))
    require_word_rule(vocabulary)
    present = next((choice.token for choice in choices if choice.token in vocabulary), None)
    if present is not None:
        raise InputError(f"The token {present!r} is in the vocabulary already: choose among those it lacks.")
    if not choices:
        return vocabulary
    tokens, slots = list(vocabulary.tokens), list_slot_ids(vocabulary) if mode == FILL else []
    for number, choice in zip(slots, choices, strict=False):
        tokens[number] = choice.token
    tokens += [choice.token for choice in choices[len(slots) :]]
    adapted = Vocabulary.from_files(_build_files(vocabulary, tokens, choices))
    _check_reachable(adapted, choices)
    return adapted


def list_slot_ids(vocabulary: Vocabulary) -> list[int]:
    """Return the ids of a vocabulary's unused tokens (such as [unused7]) that may be replaced, in ascending order.

    The list is empty for Unigram.
    """
    if vocabulary.algorithm == UNIGRAM:
        return []
    needed = {left + right for left, right in vocabulary.merges}
    needed |= {token["content"] for token in vocabulary.content["added_tokens"]}
    return [n for n, token in enumerate(vocabulary.tokens) if SLOT_PATTERN.fullmatch(token) and token not in needed]


def _build_files(vocabulary: Vocabulary, tokens: Sequence[str], choices: Sequence[Choice]) -> dict[str, bytes]:
    """Return the vocabulary's files, updated with the new tokens. A SentencePiece model file is dropped.

    Args:
        vocabulary: The vocabulary before it is adapted.
        tokens: All tokens of the adapted vocabulary, in the order of their ids.
        choices: The new tokens, with their pieces and scores.
    """
    content, files = json.loads(vocabulary.definition), dict(vocabulary.to_files())
    _edit_model(content["model"], vocabulary.algorithm, tokens, choices)
    files["tokenizer.json"] = json.dumps(content, ensure_ascii=False).encode()
    ids = {token: number for number, token in enumerate(tokens)}
    merges = "".join(f"{left} {right}\n" for left, right in content["model"].get("merges", ()))
    for name, text in (
        ("vocab.txt", "".join(f"{token}\n" for token in tokens)),
        ("vocab.json", json.dumps(ids, ensure_ascii=False) + "\n"),
        ("merges.txt", f"#version: 0.2\n{merges}"),
    ):
        if name in files:
            files[name] = text.encode()
    return {name: data for name, data in files.items() if not name.endswith(".model")}


def _edit_model(model: dict[str, Any], algorithm: str, tokens: Sequence[str], choices: Sequence[Choice]) -> None:
    """Replace the tokens in the model of a tokenizer.json and add the new merges or scores.

    Special tokens that were only in `added_tokens` are put into the model with their ids, so that the following ids can
    be used.

    Args:
        model: The model as parsed JSON, which is changed in place.
        algorithm: The vocabulary's algorithm.
        tokens: All tokens of the adapted vocabulary, in the order of their ids.
        choices: The new tokens, with their pieces and scores.
    """
    if algorithm == UNIGRAM:
        scores = dict(model["vocab"]) | {choice.token: choice.score for choice in choices}
        model["vocab"] = [[token, scores.get(token, 0.0)] for token in tokens]
        return
    model["vocab"] = {token: number for number, token in enumerate(tokens)}
    if algorithm == BYTE_BPE:
        model["merges"] = [*model["merges"], *(list(choice.pieces) for choice in choices)]


def _check_reachable(vocabulary: Vocabulary, choices: Sequence[Choice]) -> None:
    """Check that the tokenizer of an adapted vocabulary encodes the text of each new token as that token.

    `choices` are the new tokens.

    Raises:
        InputError: If a token is not encoded as itself. The message names the first such token.
    """
    tokenizer, is_whole_word = vocabulary.to_tokenizer(), vocabulary.algorithm != BYTE_BPE
    lost = [
        choice.token
        for choice in choices
        if _encode_token(tokenizer, choice.token, is_whole_word) != [vocabulary.find_id(choice.token)]
    ]
    if lost:
        raise InputError(
            f"The token {lost[0]!r}{f' and {len(lost) - 1} more' if len(lost) > 1 else ''} would never be used: its "
            "text is cut into other words before pieces are looked for. Give words as the vocabulary's own rule finds "
            "them, without marks and spaces and, where it lower-cases, in lower case."
        )


def _encode_token(tokenizer: Tokenizer, token: str, is_whole_word: bool) -> list[int]:
    """Return the ids of the text of a token.

    The text is encoded with the whole tokenizer if `is_whole_word` is True, otherwise with only the tokenizer's model.
    """
    if is_whole_word:
        ids: list[int] = tokenizer.encode(token.removeprefix(WORD_MARK), add_special_tokens=False).ids
        return ids
    return [piece.id for piece in tokenizer.model.tokenize(token)]


def find_old_pieces(old: Vocabulary, new: Vocabulary) -> dict[int, tuple[int, ...]]:
    """Return the old pieces of each new token. The mean of their embeddings can initialize the new token's embedding.

    Args:
        old: The vocabulary before it was adapted.
        new: The adapted vocabulary.

    Returns:
        Maps the id of each new token to its ids in `old`.

    Raises:
        InputError: If a token of `old` that is not an unused slot has another id in `new`.
    """
    before, after, slots = old.tokens, new.tokens, {*list_slot_ids(old)}
    moved = [n for n, token in enumerate(before) if n not in slots and after[n : n + 1] != (token,)]
    if moved:
        raise InputError(
            f"The token {before[moved[0]]!r} has the id {moved[0]} in the old vocabulary and not in the new one: the "
            "rows of a model could not stay where they are. Give a vocabulary that was adapted from the old one."
        )
    model = old.to_tokenizer().model
    rows = (n for n, token in enumerate(after) if before[n : n + 1] != (token,))
    return {number: tuple(piece.id for piece in model.tokenize(after[number])) for number in rows}


def spell_for_model(vocabulary: Vocabulary, word: str) -> str:
    """Return a word in the spelling that the vocabulary's model expects.

    In byte-level BPE, the spelling has one letter per byte. Otherwise it is the word itself.
    """
    return "".join(map(BYTE_LETTERS.__getitem__, word.encode())) if vocabulary.algorithm == BYTE_BPE else word
