"""Define segment pairs: what `shards.builders.segments.pairs.build_pairs` gives, over plain Python numbers.

Promise: the same columns and ledgers, so it says what the kernels mean. A sentence is the range of its tokens. Cost:
milliseconds an example: it is for reading and for tests.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Int64s
from corpora.store.ledger import Ledger
from corpora.store.randomness import compute_address, compute_keys, draw_below, draw_uniform, fold
from shards.builders.contract import DocumentTokens, check_columns
from shards.builders.segments import partners as partners_of_runs
from shards.builders.segments.pairs import PairSettings, build_pair_ledger
from shards.builders.segments.pairs_kernels import FIGURES, OUTCOMES, PURPOSES
from shards.builders.segments.partners import MAX_ATTEMPTS
from shards.builders.segments.plan import PAIR_SPECIALS, SegmentPairs

Document = Sequence[range]  # the tokens of its sentences
Sentence = tuple[range, int, bool, bool]  # its tokens and document; whether it is the first in it, or the last


class Chunk(NamedTuple):
    """Text that becomes an example: A, the true B, and a text of another document like B.

    Attributes:
        a: The token positions of A. If no example is made, those of the text to skip.
        b: The token positions of the true B.
        partner: The token positions of the other document's text, as many as in `b`.
        is_cut: Whether a sentence is cut.
        reason: Why no example is made, "one_word" or "without_partner". Empty if one is made.
    """

    a: range
    b: range
    partner: range = range(0)
    is_cut: bool = False
    reason: str = ""


class PlainExample(NamedTuple):
    """An example before its tokens are written: its two segments and the values of its other columns.

    Attributes:
        copy: Zero-based pass over the documents.
        anchor: Index of the document that contains A.
        partner: Index of the document that contains B.
        ordinal: Zero-based index of the example among those of the same anchor and pass.
        example_id: The id of the example.
        label: 0 or 1.
        a: The token positions of the first segment.
        b: The token positions of the second segment.
    """

    copy: int
    anchor: int
    partner: int
    ordinal: int
    example_id: int
    label: int
    a: range
    b: range


def build_pairs_plain(
    columns: DocumentTokens, settings: PairSettings, *, cls_id: int, sep_id: int
) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    """Reference implementation of `build_pairs` in plain Python, for tests.

    The result has the segment pairs of all passes over the documents in `columns`, and one ledger per pass that
    accounts for every token.
    """
    check_columns(columns)
    documents = list_documents(columns)
    text = PlainText(columns, documents, settings.length - PAIR_SPECIALS)
    examples: list[PlainExample] = []
    ledgers = []
    for copy in range(settings.copies):
        counts = Counter[str]()
        built = [example for anchor in range(len(documents)) for example in text.plan(anchor, copy, settings, counts)]
        partners = np.array([example.partner for example in built if example.label], np.int64)
        ledgers.append(build_pair_ledger(columns, [counts[name] for name in OUTCOMES + FIGURES], partners))
        examples += built
    return to_segment_pairs_plain(columns, examples, cls_id=cls_id, sep_id=sep_id), tuple(ledgers)


def list_documents(columns: DocumentTokens) -> list[Document]:
    """Return each document as a list of sentences, each a range of token positions."""
    sentences = [range(*bounds) for bounds in pairwise(columns.sentences.tolist())]
    return [sentences[first:last] for first, last in pairwise(columns.documents.tolist())]


class PlainText:
    """The documents of a shard, for planning segment pairs of at most `limit` tokens in both segments together."""

    def __init__(self, columns: DocumentTokens, documents: Sequence[Document], limit: int) -> None:
        self.columns, self.documents, self.limit = columns, documents, limit
        self.begins_word = columns.word_starts.tolist()
        self.runs = self._list_runs()
        self.sentences = [
            (sentence, number, position == 0, position == len(document) - 1)
            for number, document in enumerate(documents)
            for position, sentence in enumerate(document)
        ]
        self.by_length = [
            self._sort_by_length(self.sentences),
            self._sort_by_length([entry for entry in self.sentences if entry[3]]),
        ]

    def _sort_by_length(self, sentences: Sequence[Sentence]) -> tuple[list[int], list[Sentence]]:
        """Sort sentences by length, and return their ascending lengths in tokens and the sorted sentences.

        All sentences longer than an example are treated as equally long.
        """
        order = sorted(sentences, key=lambda entry: min(len(entry[0]), self.limit + 1))
        return [min(len(entry[0]), self.limit + 1) for entry in order], order

    def _list_runs(self) -> dict[tuple[int, bool], list[tuple[int, int]]]:
        """List all runs of consecutive whole sentences that can serve as a randomly drawn second segment.

        Runs at the beginning of a document and runs of `limit` tokens or more are left out. If there are very many
        runs, only some are listed.

        Returns:
            A dictionary from (number of tokens, whether the run ends its document) to a list of pairs (index of the
            document, position of the first token).
        """
        runs: dict[tuple[int, bool], list[tuple[int, int, int]]] = {}
        for number, document in enumerate(self.documents):
            for first in range(1, len(document)):
                for last in range(first, len(document)):
                    length = document[last].stop - document[first].start
                    if length < self.limit:
                        key = (length, last == len(document) - 1)
                        runs.setdefault(key, []).append((number, first, document[first].start))
        one_in = -(-sum(map(len, runs.values())) // partners_of_runs.MAX_RUNS)
        keys = self.columns.keys.tolist()
        return {
            key: [(number, start) for number, first, start in starts if int(fold(keys[number], first)) % one_in == 0]
            for key, starts in runs.items()
        }

    def plan(self, anchor: int, copy: int, settings: PairSettings, counts: Counter[str]) -> Iterator[PlainExample]:
        """Yield the segment pairs of one document in one pass over the documents.

        Args:
            anchor: Index of the document.
            copy: Zero-based pass over the documents.
            settings: Settings of the pairs.
            counts: Counters keyed by the names in OUTCOMES and FIGURES. They are incremented in place.
        """
        rest, ordinal = [*self.documents[anchor]], 0
        while rest:
            link = fold(compute_address(0, "example", copy), self.columns.keys[anchor])
            example_id = int(fold(link, ordinal))
            keys = {
                purpose: int(compute_keys(settings.seed, f"pair {purpose}", copy, example_id)) for purpose in PURPOSES
            }
            target = draw_target_plain(keys["target"], self.limit, settings.short_sequence_probability)
            chunk = self._find_chunk(anchor, rest, target, keys["cut"], keys["partner"])
            next_start = chunk.b.stop
            if chunk.reason:
                counts["left_over"] += len(chunk.a)
                counts[chunk.reason] += 1
                next_start = chunk.a.stop
            else:
                label = int(draw_below(keys["label"], 0, 2))
                counts["random" if label else "next"] += 1
                counts["cut_sentences"] += chunk.is_cut
                counts["placed"] += len(chunk.a) + (0 if label else len(chunk.b))
                if label:
                    counts["borrowed"] += len(chunk.partner)
                    next_start = chunk.a.stop
                b = chunk.partner if label else chunk.b
                yield PlainExample(copy, anchor, self._find_document(b), ordinal, example_id, label, chunk.a, b)
            rest = [range(max(s.start, next_start), s.stop) for s in rest if s.stop > next_start]
            ordinal += 1

    def _find_document(self, tokens: range) -> int:
        """Return the index of the document that contains the first of these token positions."""
        holding = (n for n, document in enumerate(self.documents) if tokens.start < document[-1].stop)
        return next(holding)

    def _find_chunk(self, anchor: int, rest: Sequence[range], target: int, cut_key: int, key: int) -> Chunk:
        """Find the text of a document's next example.

        Args:
            anchor: Index of the document.
            rest: The sentences of the document that are not used yet. The first may be the rest of a sentence.
            target: Wanted number of tokens in both segments together.
            cut_key: Random key of the position at which B begins.
            key: Random key of the choice of the other document's text.
        """
        whole = range(rest[0].start, rest[-1].stop)
        if len(self.documents) == 1:
            return Chunk(whole, range(0), reason="without_partner")
        if len(rest[0]) > self.limit:
            words = self._list_word_starts(range(whole.start, whole.start + self.limit + 1))
            if not words:
                return Chunk(range(whole.start, whole.start + self.limit), range(0), reason="one_word")
            return self._halve(anchor, range(whole.start, words[-1]), "inside", cut_key, key)
        size = count_sentences_plain(rest, self.limit, target)
        if size > 1:
            return self._split(anchor, rest, size, cut_key, key)
        if len(rest) > 1:
            chunk = self._cut_head(anchor, rest[0], range(rest[1].start, whole.start + self.limit + 1), key)
            if chunk is not None:
                return chunk
        return self._halve(anchor, rest[0], "last tail" if len(rest) == 1 else "tail", cut_key, key)

    def _split(self, anchor: int, rest: Sequence[range], size: int, cut_key: int, key: int) -> Chunk:
        """Divide several sentences into the segments A and B, at the end of a sentence.

        If no other document has a text like any such B, only a part of the sentence after the first cut becomes B.

        Args:
            anchor: Index of the document.
            rest: The sentences of the document that are not used yet.
            size: Number of sentences of `rest` to divide, at least 2.
            cut_key: Random key of the cut that is tried first.
            key: Random key of the choice of the other document's text.
        """
        drawn = int(draw_below(cut_key, 0, size - 1))
        for num_kept in range(size, 1, -1):
            for step in range(num_kept - 1):
                middle = 1 + (drawn + step) % (num_kept - 1)
                b = range(rest[middle].start, rest[num_kept - 1].stop)
                matches = [run for run in self.runs.get((len(b), num_kept == len(rest)), ()) if run[0] != anchor]
                if matches:
                    _, start = matches[int(draw_below(key, 0, len(matches)))]
                    return Chunk(range(rest[0].start, b.start), b, range(start, start + len(b)))
        a = range(rest[0].start, rest[drawn].stop)
        cut = self._cut_head(anchor, a, rest[drawn + 1], key)
        return cut or Chunk(range(a.start, rest[size - 1].stop), range(0), reason="without_partner")

    def _cut_head(self, anchor: int, a: range, most: range, key: int) -> Chunk | None:
        """Build an example from segment A and the longest usable beginning of `most`, or return None if there is none.

        A beginning is usable as segment B if another document has a text of the same length that can replace it in a
        negative example. The longest beginning is tried first, then half of it, and so on.

        Args:
            anchor: Index of the document that contains both ranges.
            a: The token positions of segment A.
            most: The longest range of token positions that B may have.
            key: Random key from which the key of each draw of another text is derived.
        """
        words = self._list_word_starts(most)
        while words:
            b = range(most.start, words[-1])
            partner = self._draw_piece(anchor, "head", len(b), key)
            if partner:
                return Chunk(a, b, partner, is_cut=True)
            words = [word for word in words if word <= b.start + len(b) // 2]
        return None

    def _halve(self, anchor: int, text: range, kind: str, cut_key: int, key: int) -> Chunk:
        """Divide a single sentence into the segments A and B, at the word start nearest to a random position.

        While no other document has a text like B, the length of B is halved.

        Args:
            anchor: Index of the document that contains the sentence.
            text: The token positions to divide.
            kind: Which part of a sentence B is: "tail", "last tail" (of a document's last sentence) or "inside".
            cut_key: Random key of the position at which B begins.
            key: Random key from which the key of each draw of another text is derived.
        """
        words = self._list_word_starts(text)
        if not words:
            return Chunk(text, range(0), reason="one_word")
        drawn = text.start + 1 + int(draw_below(cut_key, 0, len(text) - 1))
        cut = min(words, key=lambda place: (abs(place - drawn), place))
        while cut:
            b = range(cut, text.stop)
            partner = self._draw_piece(anchor, kind, len(b), key)
            if partner:
                return Chunk(range(text.start, cut), b, partner, is_cut=True)
            cut = next((word for word in words if word >= text.stop - len(b) // 2), 0)
        return Chunk(text, range(0), reason="without_partner")

    def _list_word_starts(self, text: range) -> list[int]:
        """Return the word starts in a range of token positions, ascending, except at its first position."""
        return [place for place in text[1:] if self.begins_word[place]]

    def _draw_piece(self, anchor: int, kind: str, length: int, key: int) -> range | None:
        """Draw a piece of another document's sentence, as `partners.draw_piece` does. Return None if none is found.

        Args:
            anchor: Index of the document to leave out.
            kind: Which part of the sentence is wanted: "head", "tail", "last tail" (of a document's last sentence) or
                "inside".
            length: Number of tokens in the piece.
            key: Random key of the draws.
        """
        least = length + (kind == "inside")
        others = [entry for entry in self.sentences if entry[1] != anchor]
        if kind == "last tail" or 2 * len(others) >= len(self.sentences):
            lengths, every = self.by_length[kind == "last tail"]
            others = every[bisect_right(lengths, least) :]
        key = int(fold(key, length))
        for attempt in range(MAX_ATTEMPTS if others else 0):
            sentence, number, is_first, is_last = others[int(draw_below(key, 2 * attempt, len(others)))]
            if number == anchor or len(sentence) <= least:
                continue
            start = sentence.start if kind == "head" else sentence.stop - length
            if kind == "inside":
                start = sentence.start + 1 + int(draw_below(key, 2 * attempt + 1, len(sentence) - length - 1))
            cuts = [start] * (kind != "head") + [start + length] * (kind in ("head", "inside"))
            is_allowed = not (is_first and kind == "head") and not (is_last and kind == "tail")
            if is_allowed and all(self.begins_word[place] for place in cuts):
                return range(start, start + length)
        return None


def draw_target_plain(key: int, limit: int, short: float) -> int:
    """Reference implementation of `draw_target`, for tests: the target length of a chunk in tokens.

    A chunk is the text of one example. The target is `limit`, or with probability `short` a random number in [2,
    limit]. It is a function of the random key `key`.
    """
    return 2 + int(draw_below(key, 1, limit - 1)) if draw_uniform(key, 0) < short else limit


def count_sentences_plain(rest: Sequence[range], limit: int, target: int) -> int:
    """Return the number of sentences in the next chunk (the text of an example).

    It is two if both fit into `limit` tokens, or more as long as the total fits into `target` tokens. If this would
    leave a single sentence for the following chunk, a chunk of three or more sentences takes one less.

    Args:
        rest: The sentences of the document that are not used yet, as ranges of token positions.
        limit: Maximum number of tokens in a chunk.
        target: Target length of the chunk in tokens.
    """
    start, size = rest[0].start, 1
    while size < len(rest) and rest[size].stop - start <= (limit if size == 1 else target):
        size += 1
    leaves_one = size < len(rest) and (size + 1 == len(rest) or rest[size + 1].stop - rest[size].start > limit)
    gives = size > 2 and leaves_one and rest[size].stop - rest[size - 1].start <= limit
    return size - gives


def to_segment_pairs_plain(
    columns: DocumentTokens, examples: Sequence[PlainExample], *, cls_id: int, sep_id: int
) -> SegmentPairs:
    """Write the tokens of planned examples, and convert the examples to columns.

    Args:
        columns: The documents of the shard.
        examples: The examples, in the order of the result.
        cls_id: Id of the [CLS] token.
        sep_id: Id of the [SEP] token.
    """
    text = list(zip(columns.ids.tolist(), columns.word_starts.tolist(), strict=True))
    cls, sep = (cls_id, 0), (sep_id, 0)
    dtype: npt.DTypeLike = columns.ids.dtype
    rows = [[cls, *text[e.a.start : e.a.stop], sep, *text[e.b.start : e.b.stop], sep] for e in examples]
    tokens = [token for row in rows for token in row]
    offsets: Int64s = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return SegmentPairs(
        ids=np.array([token for token, _ in tokens], dtype),
        offsets=offsets,
        word_starts=np.array([begins for _, begins in tokens], np.uint8),
        boundary=np.array([len(example.a) + 2 for example in examples], np.uint16),
        label=np.array([example.label for example in examples], np.uint8),
        anchor=np.array([example.anchor for example in examples], np.int32),
        partner=np.array([example.partner for example in examples], np.int32),
        ordinal=np.array([example.ordinal for example in examples], np.uint32),
        copy=np.array([example.copy for example in examples], np.uint16),
        example_id=np.array([example.example_id for example in examples], np.uint64),
    )
