"""Partners: text of other documents that looks, with no word read, as a wanted one does.

A random B must not differ from the true one on its surface. So it has exactly as many tokens as the true one, begins as
that does (at a sentence, or at a word inside one), and ends as that does (with its document, with a sentence, or before
a word inside one):

- whole sentences: a run of any number of them, drawn among all runs of that length that end their document, or do
  not, with equal probability. None begins a document, for no true B does;
- a piece of one sentence (its head, its tail, or what is inside): sentences that are long enough are drawn, with equal
  probability, until one has word starts at both cuts; after `MAX_ATTEMPTS` draws there is none.

The anchor's own document is left out of both. Runs are noted by their length: at most `MAX_RUNS`. If there are more,
only those that begin with some of the sentences, chosen by hash, are noted.

`shards.builders.segments.pairs_plain.PlainText` draws the same partners in plain Python. Functions that are called for
every chunk take the two arrays of runs instead of the whole index: compiled code counts the references to each array of
a tuple whenever one is passed on, which was a fifth of the time of a plan.

Cost: 0.1 microseconds a sentence and 4 bytes a run and 12 a sentence, once for all copies. A draw is two binary
searches among the runs of one length, or for a piece some three random reads an attempt.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Int32s, Int64s, UInt16s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.randomness import draw_below_one, fold_one
from shards.builders.contract import DocumentTokens

HEAD, TAIL, LAST_TAIL, INSIDE = range(4)  # pieces: the begin of a sentence, its end, of a document's last, neither
MAX_ATTEMPTS = 256  # sentences that are drawn for a piece, before it has no partner


class PartnerIndex(NamedTuple):
    """Index of the texts of a shard by length, for finding a replacement of the same length in another document.

    Sentences are numbered consecutively through all documents.
    """

    runs: Int32s  # first sentences of runs, by (length, whether the run ends its document), then by place
    run_offsets: Int64s  # into runs, at 2 * length + ends
    by_length: Int32s  # every sentence, the shortest first
    longer: Int64s  # [length]: the first of them that has more tokens
    last_by_length: Int32s  # every document's last sentence, likewise
    last_longer: Int64s
    document_of: Int32s  # [sentences]


@kernel
def count_runs(
    sentences: Int64s, documents: Int64s, keys: UInt64s, max_length: int, one_in: np.uint64, counts: Int64s
) -> None:
    """Count the runs of consecutive whole sentences with at most `max_length` tokens, by length.

    A run that begins with the first sentence of a document is not counted, because segment B of a pair from one
    document never begins there.

    Args:
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        keys: uint64 [documents], the hash of each document.
        max_length: Maximum number of tokens in a run.
        one_in: Only one in this many sentences, chosen by hash, can begin a run that is counted. 1 counts all runs.
        counts: int64 [2 * max_length + 2], incremented in place. Runs of k tokens are counted at index 2k if they end
            inside their document, and at 2k + 1 if they end it.
    """
    for document in range(len(documents) - 1):
        begin, last = documents[document], documents[document + 1]
        for first in range(begin + 1, last):
            if one_in == 1 or fold_one(keys[document], np.uint64(first - begin)) % one_in == 0:
                start = sentences[first]
                for end in range(first + 1, last + 1):
                    length = sentences[end] - start
                    if length > max_length:
                        break
                    counts[2 * length + (end == last)] += 1


@kernel
def fill_runs(
    sentences: Int64s,
    documents: Int64s,
    keys: UInt64s,
    max_length: int,
    one_in: np.uint64,
    next_indices: Int64s,
    runs: Int32s,
) -> None:
    """Write the index of the first sentence of each run counted by `count_runs` to `runs`.

    The arguments before `next_indices` must be the same as in the call of `count_runs`.

    Args:
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        keys: uint64 [documents], the hash of each document.
        max_length: Maximum number of tokens in a run.
        one_in: Only one in this many sentences, chosen by hash, can begin a run that is written. 1 writes all runs.
        next_indices: int64 [2 * max_length + 2], for each index of `counts` the index in `runs` at which the next run
            of this kind is written. It is incremented in place. Initialize it to the exclusive cumulative sum of
            `counts`.
        runs: int32 [runs], the output array.
    """
    for document in range(len(documents) - 1):
        begin, last = documents[document], documents[document + 1]
        for first in range(begin + 1, last):
            if one_in == 1 or fold_one(keys[document], np.uint64(first - begin)) % one_in == 0:
                start = sentences[first]
                for end in range(first + 1, last + 1):
                    length = sentences[end] - start
                    if length > max_length:
                        break
                    kind = 2 * length + (end == last)
                    runs[next_indices[kind]] = first
                    next_indices[kind] += 1


@kernel
def has_run(runs: Int32s, run_offsets: Int64s, documents: Int64s, anchor: int, length: int, ends_document: int) -> bool:
    """Return whether a document other than `anchor` has a run of consecutive whole sentences with `length` tokens.

    Runs that begin with the first sentence of a document are not considered (see `count_runs`).

    Args:
        runs: `PartnerIndex.runs`.
        run_offsets: `PartnerIndex.run_offsets`.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        anchor: Index of the document to leave out.
        length: Number of tokens in the run. It must not exceed the maximum length of the index.
        ends_document: 1 for runs that end their document, 0 for runs that do not.
    """
    low, high = run_offsets[2 * length + ends_document], run_offsets[2 * length + ends_document + 1]
    if high == low:
        return False
    return bool(runs[low] < documents[anchor] or runs[high - 1] >= documents[anchor + 1])


@kernel
def draw_run(
    runs: Int32s, run_offsets: Int64s, documents: Int64s, anchor: int, length: int, ends_document: int, key: np.uint64
) -> int:
    """Draw one of the runs that `has_run` looks for, all with equal probability.

    If there is no such run, the result is undefined.

    Args:
        runs: `PartnerIndex.runs`.
        run_offsets: `PartnerIndex.run_offsets`.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        anchor: Index of the document to leave out.
        length: Number of tokens in the run.
        ends_document: 1 for runs that end their document, 0 for runs that do not.
        key: Random key of the draw.

    Returns:
        The index of the run's first sentence, counted through all documents.
    """
    low, high = run_offsets[2 * length + ends_document], run_offsets[2 * length + ends_document + 1]
    own_low = _find_first_at_least(runs, low, high, documents[anchor])
    own_high = _find_first_at_least(runs, own_low, high, documents[anchor + 1])
    index = low + draw_below_one(key, 0, high - low - (own_high - own_low))
    if index >= own_low:
        index += own_high - own_low
    return np.int64(runs[index])  # type: ignore[return-value]  # compiled code knows int as int64


@kernel
def _find_first_at_least(values: Int32s, low: int, high: int, least: int) -> int:
    """Return the first index in [low, high) with a value of at least `least`, or `high`. `values` must be ascending."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def draw_piece(
    partners: PartnerIndex,
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    anchor: int,
    kind: int,
    length: int,
    key: np.uint64,
) -> int:
    """Draw a piece of a sentence from another document. Return the position of its first token, or -1 if none is found.

    Sentences that are long enough are drawn with equal probability, up to `MAX_ATTEMPTS` times, until one comes from
    another document and can be cut at word boundaries. If `anchor` has more than half of all sentences and `kind` is
    not LAST_TAIL, sentences of any length are drawn from the other documents, and too short ones are skipped.

    Args:
        partners: The index of the shard.
        word_starts: uint8 [tokens], 1 if the token begins a word.
        sentences: int64 [sentences + 1], the start of each sentence in the tokens.
        documents: int64 [documents + 1], the index of the first sentence of each document.
        anchor: Index of the document to leave out.
        kind: Which part of the sentence is wanted: HEAD, TAIL, LAST_TAIL (of a document's last sentence) or INSIDE.
        length: Number of tokens in the piece. The sentence must have more.
        key: Random key of the draws.
    """
    own_first, own_last = documents[anchor], documents[anchor + 1]
    order = partners.last_by_length if kind == LAST_TAIL else partners.by_length
    longer = partners.last_longer if kind == LAST_TAIL else partners.longer
    low = longer[length + (kind == INSIDE)]
    others = len(partners.document_of) - (own_last - own_first)
    is_most = kind != LAST_TAIL and 2 * others < len(partners.document_of)
    num = others if is_most else len(order) - low
    for attempt in range(MAX_ATTEMPTS if num > 0 else 0):
        drawn = draw_below_one(key, 2 * attempt, num)
        if is_most:
            sentence = drawn if drawn < own_first else drawn + own_last - own_first
        else:
            sentence = np.int64(order[low + drawn])
        document = partners.document_of[sentence]
        start, end = sentences[sentence], sentences[sentence + 1]
        if document != anchor and end - start > length + (kind == INSIDE):
            piece_start = start if kind == HEAD else end - length
            if kind == INSIDE:
                piece_start = start + 1 + draw_below_one(key, 2 * attempt + 1, end - start - length - 1)
            fits = kind == HEAD or word_starts[piece_start] == 1
            if kind == HEAD or kind == INSIDE:
                fits = fits and word_starts[piece_start + length] == 1
            if kind == HEAD:
                fits = fits and sentence != documents[document]
            elif kind == TAIL:
                fits = fits and sentence + 1 != documents[document + 1]
            if fits:
                return int(piece_start)
    return -1


MAX_RUNS = 1 << 24


def build_partner_index(columns: DocumentTokens, max_length: int) -> PartnerIndex:
    """Build an index of all texts in a shard that can serve as a randomly drawn second segment (segment B).

    Args:
        columns: The documents of the shard.
        max_length: Maximum number of tokens in the second segment.
    """
    sentences, documents, keys = columns.sentences, columns.documents, columns.keys
    one_in, counts = np.uint64(1), np.zeros(2 * max_length + 2, np.int64)
    count_runs(sentences, documents, keys, max_length, one_in, counts)
    if counts.sum() > MAX_RUNS:
        one_in = np.uint64(-(-int(counts.sum()) // MAX_RUNS))
        counts[:] = 0
        count_runs(sentences, documents, keys, max_length, one_in, counts)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    runs = np.empty(offsets[-1], np.int32)
    fill_runs(sentences, documents, keys, max_length, one_in, offsets[:-1].copy(), runs)
    lengths = np.minimum(np.diff(sentences), max_length + 2).astype(np.uint16)
    last = documents[1:] - 1
    by_length, longer = _sort_by_length(lengths, np.arange(len(lengths)), max_length)
    last_by_length, last_longer = _sort_by_length(lengths[last], last, max_length)
    return PartnerIndex(
        runs=runs,
        run_offsets=offsets,
        by_length=by_length,
        longer=longer,
        last_by_length=last_by_length,
        last_longer=last_longer,
        document_of=np.repeat(np.arange(len(keys), dtype=np.int32), np.diff(documents)),
    )


def _sort_by_length(lengths: UInt16s, sentences: Int64s, max_length: int) -> tuple[Int32s, Int64s]:
    """Sort sentences by length, shortest first.

    Args:
        lengths: uint16 [n], the number of tokens of each sentence in `sentences`.
        sentences: int64 [n], the indices of the sentences to sort.
        max_length: Maximum number of tokens in a second segment.

    Returns:
        The sorted sentences (int32 [n]), and for each length from 0 to `max_length` + 1 the number of sentences that
        are not longer (int64 [max_length + 2]).
    """
    order = np.argsort(lengths, kind="stable")
    longer = np.searchsorted(lengths[order], np.arange(max_length + 2, dtype=np.uint16), side="right")
    return sentences[order].astype(np.int32), longer.astype(np.int64)
