"""Partners: text of other documents that looks, with no word read, as a wanted one does.

A random B must not differ from the true one on its surface. So it has exactly the tokens of the true one, begins as
that does (at a sentence, or at a word inside one), and ends as that does (with its document, with a sentence, or before
a word inside one):

- whole sentences: a run of any number of them, drawn among all runs of that length that end their document, or do
  not, each as probable. None begins a document, for no true B does;
- a piece of one sentence (its head, its tail, or what is inside): a sentence that is long enough is drawn, each as
  probable, until one has word starts where the piece would be cut; after `ATTEMPTS` draws there is none.

The anchor's own document is left out of both. Runs are noted by their length: at most `MOST_RUNS`, and where there are
more, those that begin with a share of the sentences chosen by hash.

Cost: 0.1 microseconds a sentence and 4 bytes a run and 12 a sentence, once for all copies.
"""

import numpy as np

from corpora.kernels.arrays import Int32s, Int64s, UInt16s
from shards.builders.examples import DocumentTokens
from shards.builders.segments.partners_kernels import Partners, count_runs, note_runs

MOST_RUNS = 1 << 24


def find_partners(columns: DocumentTokens, longest: int) -> Partners:
    """The index of all text that may be a partner, of at most `longest` tokens."""
    sentences, documents, keys = columns.sentences, columns.documents, columns.keys
    every, counts = np.uint64(1), np.zeros(2 * longest + 2, np.int64)
    count_runs(sentences, documents, keys, longest, every, counts)
    if counts.sum() > MOST_RUNS:
        every = np.uint64(-(-int(counts.sum()) // MOST_RUNS))
        counts[:] = 0
        count_runs(sentences, documents, keys, longest, every, counts)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    runs = np.empty(offsets[-1], np.int32)
    note_runs(sentences, documents, keys, longest, every, offsets[:-1].copy(), runs)
    lengths = np.minimum(np.diff(sentences), longest + 2).astype(np.uint16)
    last = documents[1:] - 1
    by_length, longer = _by_length(lengths, np.arange(len(lengths)), longest)
    last_by_length, last_longer = _by_length(lengths[last], last, longest)
    return Partners(
        runs=runs,
        run_offsets=offsets,
        by_length=by_length,
        longer=longer,
        last_by_length=last_by_length,
        last_longer=last_longer,
        document_of=np.repeat(np.arange(len(keys), dtype=np.int32), np.diff(documents)),
    )


def _by_length(lengths: UInt16s, sentences: Int64s, longest: int) -> tuple[Int32s, Int64s]:
    """Sentences by length, and for each length where the longer ones begin."""
    order = np.argsort(lengths, kind="stable")
    longer = np.searchsorted(lengths[order], np.arange(longest + 2, dtype=np.uint16), side="right")
    return sentences[order].astype(np.int32), longer.astype(np.int64)
