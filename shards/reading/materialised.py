"""An epoch as rows: the examples of a split with the masks put in under which that epoch sees them.

Promise: the very ids, masked places and targets that `Loader.gather` gives for the slots of the epoch, each live
example once, deleted ones left out. What an example gets does not depend on the order; so rows are in the order of the
shards, or, with the seed of a training, in the order in which that training reads them.

Cost: that of the loader. Memory: `ROWS` examples.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.kernels.arrays import Int32s, Int64s
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import GatheredExamples, Loader, mask_settings
from shards.schema import id_type

ROWS = 4_096


def epoch_schema(shard_set: ShardSet) -> pa.Schema:
    """The schema of a row; it has a label where the shards have one."""
    ids = id_type(shard_set.manifest.facts["vocab_size"])
    fields = [
        pa.field("example_id", pa.uint64(), nullable=False),
        pa.field("ids", pa.list_(ids), nullable=False),  # as the model sees them
        pa.field("boundary", pa.uint16(), nullable=False),  # tokens of the first segment
        pa.field("mask_positions", pa.list_(pa.uint16()), nullable=False),  # ascending, from the first token
        pa.field("targets", pa.list_(ids), nullable=False),  # the original tokens at those positions
    ]
    label = [pa.field("label", pa.uint8(), nullable=False)]
    return pa.schema(fields + label * bool(shard_set.manifest.facts["pair_labels"]))


def epoch_rows(shard_set: ShardSet, epoch: int, seed: int | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of an epoch. seed: of the training whose order they are in; None: in the order of the shards.

    Raises InputError where the masks' rate goes by the step and no seed says which step reads an example.
    """
    schedule = mask_settings(shard_set).schedule
    if seed is None and schedule is not None and schedule.by == "step":
        raise InputError(
            "The rate of these shards' masks goes by the step, and which step reads an example follows from the "
            "seed of the training: give it with --seed."
        )
    schema = epoch_schema(shard_set)
    for gathered in _read(shard_set, epoch, seed):
        if gathered.num_examples:
            yield _rows(gathered, schema)


def _read(shard_set: ShardSet, epoch: int, seed: int | None) -> Iterator[GatheredExamples]:
    """The examples of an epoch, some at a time."""
    loader, num = Loader(shard_set, seed or 0), len(shard_set)
    if seed is not None:
        for first in range(epoch * num, (epoch + 1) * num, ROWS):
            yield loader.gather(range(first, min(first + ROWS, (epoch + 1) * num)))
        return  # with the last slot all of them were checked
    live = np.flatnonzero(shard_set.live)
    for first in range(0, len(live), ROWS):
        examples = live[first : first + ROWS]
        epochs = np.full(len(examples), epoch, np.int64)
        yield loader.masked(examples, epochs, epochs * num)
    loader.check_read()


def _rows(gathered: GatheredExamples, schema: pa.Schema) -> pa.RecordBatch:
    """Return the gathered examples as rows, one each."""
    bounds = np.searchsorted(gathered.masked, gathered.offsets).astype(np.int32)
    begins = np.repeat(gathered.offsets[:-1].astype(np.int64), np.diff(bounds))
    columns = {
        "example_id": gathered.example_ids,
        "ids": _lists(gathered.offsets, gathered.ids),
        "boundary": gathered.boundary.astype(np.uint16),
        "mask_positions": _lists(bounds, (gathered.masked - begins).astype(np.uint16)),
        "targets": _lists(bounds, gathered.targets),
        "label": None if gathered.labels is None else gathered.labels.astype(np.uint8),
    }
    arrays = [columns[name] for name in schema.names]
    return pa.record_batch([each if isinstance(each, pa.Array) else pa.array(each) for each in arrays], schema=schema)


def _lists(offsets: Int32s | Int64s, values: object) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
