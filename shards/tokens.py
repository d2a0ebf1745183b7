"""The tokens stage: every document of the corpus is tokenized once, sentence by sentence, and shuffled.

Parts mirror the corpus' parts. Within a part rows are sorted by `shuffle`, a hash of the document's id: a shard is a
range of that hash, so it reads one contiguous run of rows of every part, and is a uniform sample of its generation.
Lengths, inputs, masks and copies come later and tokenize nothing again.

A second stage, `merges`, writes the tokens of a generation of many parts as few parts in the same order. Without it the
cost is parts times shards, because a shard reads a range of every part. A merge passes once over parts that are all
open at once. Shards made from merged parts are those made from the parts themselves. Memory of a merge:
`TOKENS_PER_RANGE` tokens three times, and a record batch of every part.
"""

import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.build import Corpus
from corpora.kernels.arrays import Int64s, UInt64s
from corpora.schema import arrange_columns
from corpora.store.current_record import iter_reported
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, ManifestAddress
from corpora.store.merging import MergeJob, plan_merge
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.randomness import compute_keys
from corpora.store.stage import PartPlan, Stage, read_library_versions, read_manifest_at
from corpora.store.tables import read_part_table
from corpora.text.buffers import to_text_buffers
from corpora.text.sentences.splitter import sentence_offsets
from corpora.views import PartView, read_view
from shards.documents import take_lists
from shards.frequencies import list_parts
from shards.schema import build_token_schema, choose_id_type
from tokenizers_train.build import read_vocabulary
from tokenizers_train.encoding.encoder import Encoder

BUILD_VERSION = 5

# Each batch costs 0.9 ms to write and 0.5 ms to read, however small. Larger ones cost a shard of many more: 200 shards
# of 26 parts of 820,000 tokens are read in 0.8, 0.5 and 0.4 CPU s from batches of 32,768, 65,536 and 131,072 tokens
# where a batch is kept for the next shard (`documents.py`), and in 3.8, 4.8 and 5.4 s where there is no room for it.
BATCH_TOKENS = 1 << 16

CORPUS_COLUMNS = ("id", "revision", "source", "held_out", "language", "text")  # columns of the corpus that are read


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensJob:
    """Input of the task that tokenizes one part of a corpus."""

    view: PartView
    vocabulary: ManifestAddress
    seed: int


def plan_tokens(corpus: Corpus, vocabulary: Manifest, seed: int) -> Stage:
    """Plan the stage that tokenizes every part of a corpus. The artifact gets the name of the vocabulary.

    Args:
        corpus: The corpus.
        vocabulary: The artifact of the vocabulary.
        seed: Seed of the shuffle that distributes documents among shards.
    """
    parts = (
        PartPlan(
            name=view.part.name,
            key=[view.part.content, vocabulary.content],
            job=TokensJob(view=view, vocabulary=vocabulary.address, seed=seed),
            labels=view.part.labels,
        )
        for view in corpus.views
    )
    return Stage(
        kind="tokens",
        name=vocabulary.name,
        build_version=BUILD_VERSION,
        settings={"seed": seed},
        parents=(corpus.manifest.as_parent(), vocabulary.as_parent()),
        libraries={**read_library_versions("tokenizers"), "unicode": unicodedata.unidata_version},
        parts=tuple(parts),
        build=build_tokens_part,
    )


def build_tokens_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Tokenize one part (set of files) of the corpus, and write its rows sorted by (shuffle hash, id).

    Args:
        writer: Writes the table "tokens" to the store.
        plan: The task. Its `job` is a `TokensJob`.

    Returns:
        A ledger with the numbers of documents with and without tokens, and for each split the numbers of documents,
        tokens, words, unknown tokens and sentences. Documents without tokens are not written.

    Raises:
        Damaged: A file of the corpus or the vocabulary is damaged or was changed.
    """
    job: TokensJob = plan.job
    encoder = get_encoder(writer.place, job.vocabulary)
    schema = build_token_schema(choose_id_type(encoder.vocabulary.size))
    batches = iter_reported(read_view(writer.place, job.view, CORPUS_COLUMNS))
    tables = [tokenize_batch(batch, encoder, schema, job.seed) for batch in batches if batch.num_rows]
    table = sort_rows(pa.concat_tables(tables) if tables else schema.empty_table())
    with writer.create_table("tokens", schema, sorted_by="shuffle") as sink:
        for rows in split_into_batches(np.diff(table.column("ids").offsets.to_numpy())):
            sink.write(table.slice(rows.start, len(rows)))
    total = job.view.num_rows
    outcomes = {"tokenised": table.num_rows, "without tokens": sum(map(len, tables)) - table.num_rows}
    account = Account(unit="documents", total=total, outcomes=outcomes)
    unknown = encoder.vocabulary.special_ids.get("unk", -1)
    return Ledger(accounts=(account,), figures=_count_by_split(table, unknown))


def sort_rows(table: pa.Table) -> pa.RecordBatch:
    """Sort the rows of tokenized documents by (shuffle hash, id), and drop those without tokens.

    Lists are copied by kernels, because Arrow's `take` copies bits one by one.

    Args:
        table: Rows with the columns of `build_token_schema`.
    """
    lengths = pc.list_value_length(table.column("ids")).to_numpy()
    order = pc.sort_indices(table.select(["shuffle", "id"]), [("shuffle", "ascending"), ("id", "ascending")]).to_numpy()
    rows = order[lengths[order] > 0].astype(np.int64)
    columns = []
    for column, field in zip(table.combine_chunks().columns, table.schema, strict=True):
        whole = column.combine_chunks()
        columns.append(take_lists(whole, rows) if pa.types.is_large_list(field.type) else whole.take(pa.array(rows)))
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def split_into_batches(lengths: Int64s) -> Iterator[range]:
    """Yield the row ranges of record batches of about `BATCH_TOKENS` tokens each. No document is divided.

    A new batch begins at the first row that starts past the next multiple of `BATCH_TOKENS` tokens.

    Args:
        lengths: int64 [rows], the number of tokens of each row.

    >>> list(split_into_batches(np.array([60_000, 9_000, 200_000, 10])))
    [range(0, 2), range(2, 3), range(3, 4)]
    """
    stretches = (np.cumsum(lengths) - lengths) // BATCH_TOKENS
    starts = np.flatnonzero(np.diff(stretches, prepend=-1)).tolist()
    return (range(first, last) for first, last in pairwise([*starts, len(lengths)]))


_cache = threading.local()


def get_encoder(place: Place, vocabulary: ManifestAddress) -> Encoder:
    """Return the encoder of a vocabulary. It is loaded unless this thread used the same one last.

    An encoder is kept because it caches the words that it has encoded.

    Args:
        place: The store.
        vocabulary: Address of the vocabulary's artifact.

    Raises:
        Damaged: A file of the vocabulary is damaged or was changed.
    """
    key = (place.address, vocabulary)
    if getattr(_cache, "key", None) != key:
        _cache.encoder = Encoder(read_vocabulary(place, read_manifest_at(place, vocabulary)))
        _cache.key = key
    encoder: Encoder = _cache.encoder
    return encoder


def _count_by_split(rows: pa.RecordBatch, unknown: int) -> dict[str, int]:
    """Count documents, tokens, words, unknown tokens and sentences of each split.

    Args:
        rows: Tokenized documents with the columns of `build_token_schema`.
        unknown: Id of the unknown token, or -1 if there is none.

    Returns:
        The counts by name, such as "train tokens" and "held-out documents".
    """
    totals, held_out = _count_contents(rows, unknown), _count_contents(rows.filter(rows.column("held_out")), unknown)
    train = {name: count - held_out[name] for name, count in totals.items()}
    return {
        f"{split} {name}": count
        for split, counts in (("train", train), ("held-out", held_out))
        for name, count in counts.items()
    }


def _count_contents(rows: pa.RecordBatch, unknown: int) -> dict[str, int]:
    """Count the documents, tokens, words, unknown tokens and sentences of these rows.

    Args:
        rows: Tokenized documents with the columns of `build_token_schema`.
        unknown: Id of the unknown token, or -1 if there is none.

    Returns:
        The counts, keyed by "documents", "tokens", "words", "unknown tokens" and "sentences".
    """
    ids, word_starts, sentences = (rows.column(name).flatten() for name in ("ids", "word_starts", "sentence_lengths"))
    return {
        "documents": rows.num_rows,
        "tokens": len(ids),
        "words": word_starts.true_count,
        "unknown tokens": int(np.count_nonzero(ids.to_numpy() == unknown)),
        "sentences": len(sentences),
    }


def tokenize_batch(batch: pa.RecordBatch, encoder: Encoder, schema: pa.Schema, seed: int) -> pa.Table:
    """Tokenize the documents of a record batch. The result has one row for each row of `batch`, in the same order.

    Sentences without tokens are dropped. A document without tokens is kept as a row with empty lists.

    Args:
        batch: Rows of the corpus with the columns `CORPUS_COLUMNS`.
        encoder: The encoder of the vocabulary.
        schema: Schema of the result, from `build_token_schema`.
        seed: Seed of the shuffle hash.
    """
    texts = batch.column("text")
    buffers = to_text_buffers(texts)
    languages = batch.column("language").to_pylist()
    starts, ends, sentence_rows = sentence_offsets(buffers.data, buffers.offsets, languages)
    starts = encoder.include_leading_spaces(buffers.data, starts, sentence_rows)
    encoded = encoder.encode_sentences(texts, starts, ends)
    lengths = np.diff(encoded.offsets)
    token_rows = encoded.offsets[sentence_rows]
    is_full = lengths > 0
    num_full_before = np.concatenate([[0], np.cumsum(is_full)])
    columns = {
        **{name: batch.column(name) for name in ("id", "revision", "source", "held_out")},
        "shuffle": compute_shuffle_keys(batch.column("id").to_pylist(), seed),
        "ids": _to_lists(token_rows, pa.array(encoded.ids, schema.field("ids").type.value_type)),
        "word_starts": _to_lists(token_rows, pa.array(encoded.word_starts.astype(bool))),
        "sentence_lengths": _to_lists(num_full_before[sentence_rows], pa.array(lengths[is_full].astype(np.int32))),
    }
    return pa.table(arrange_columns(columns, schema), schema=schema)


def compute_shuffle_keys(ids: list[bytes], seed: int) -> UInt64s:
    """Compute the shuffle hash of each document: uint64 [documents].

    It is a function of the seed and the first 8 bytes of the id.

    Args:
        ids: Document ids, 16 bytes each.
        seed: Seed of the hash.
    """
    items = np.frombuffer(b"".join(ids), np.uint64).reshape(len(ids), 2)[:, 0]
    return compute_keys(seed, "shuffle", 0, np.ascontiguousarray(items))


def _to_lists(offsets: Int64s, values: pa.Array) -> pa.Array:
    """Build an Arrow LargeListArray, which has 64-bit offsets.

    `offsets` has the start of each list in `values`, and the end of the last list.
    """
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)


MERGES_VERSION = 1
MERGED_COLUMNS = tuple(build_token_schema(pa.uint16()).names)
TOKENS_PER_RANGE = 1 << 24  # that are sorted at once


def plan_merges(tokens: Manifest) -> Stage | None:
    """Plan a stage that merges the many small token files of a corpus update into fewer, larger ones.

    Returns:
        The stage, or None if no corpus update has more than `MAX_UNMERGED_PARTS` token files (see
        `corpora.store.merging`).
    """
    generations = sorted({int(part.labels["generation"]) for part in tokens.parts})
    sets = [list_parts(tokens, generation, ()) for generation in generations]
    return plan_merge("merges", MERGES_VERSION, tokens, sets, ("generation", "source"), build_merged_part)


def build_merged_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Merge several token files, each sorted by (shuffle hash, id), into one sorted file.

    Args:
        writer: Writes the table "tokens" to the store.
        plan: The task. Its `job` is a `MergeJob`, which lists the files.

    Returns:
        A ledger with the number of documents, and the counts of the merged files added up.

    Raises:
        Damaged: A file is damaged or was changed.
    """
    job: MergeJob = plan.job
    figures = Counter[str]()
    for part in job.parts:
        figures.update(part.ledger.figures)
    opened = [
        _SortedReader(read_part_table(writer.place, job.folder, part, "tokens", MERGED_COLUMNS)) for part in job.parts
    ]
    num_ranges = max(1, -(-(figures["train tokens"] + figures["held-out tokens"]) // TOKENS_PER_RANGE))
    schema = next((each.pending.schema for each in opened if each.pending is not None), None)
    assert schema is not None, "a generation of many parts has tokens"
    written = 0
    with writer.create_table("tokens", schema, sorted_by="shuffle") as sink:
        for number in range(num_ranges):
            last = ((number + 1 << 64) // num_ranges) - 1
            table = pa.Table.from_batches([batch for each in opened for batch in each.read_until(last)], schema)
            rows = table.sort_by([("shuffle", "ascending"), ("id", "ascending")]).combine_chunks()
            for stretch in split_into_batches(pc.list_value_length(rows.column("ids")).to_numpy()):
                sink.write(rows.slice(stretch.start, len(stretch)))
            written += rows.num_rows
    total = sum(part.count_rows("tokens") for part in job.parts)
    return Ledger(
        accounts=(Account(unit="documents", total=total, outcomes={"merged": written}),), figures=dict(figures)
    )


class _SortedReader:
    """Reads a table sorted by shuffle hash in consecutive ranges. `pending` contains the rows that are not yet
    returned.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.pending = next(batches, None)

    def read_until(self, last: int) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows with a shuffle hash of at most `last`, which must not decrease from call to call."""
        while self.pending is not None:
            keys = self.pending.column("shuffle").to_numpy()
            stop = int(np.searchsorted(keys, np.uint64(last), "right"))
            yield self.pending.slice(0, stop)
            if stop < len(keys):
                self.pending = self.pending.slice(stop)
                return
            self.pending = next(self._batches, None)
