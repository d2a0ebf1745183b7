"""The output of `cloze shards materialise`: the examples of an epoch, in Arrow files that pyarrow and `datasets` open.

The folder appears whole, or not at all. Memory: a few thousand examples, whatever the shards hold.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa

from corpora.errors import InputError
from corpora.store.settings import check_choice, check_range
from flows.export.folder import new_folder
from flows.run.record.counts_text import counted
from flows.run.store_address import Artifact
from shards.build import SPLITS
from shards.reading.files.shard_set import ShardSet
from shards.reading.materialised import epoch_rows, epoch_schema

FILE_ROWS = 1 << 18
LAST_EPOCH = 1 << 32


def write_epoch(artifact: Artifact, epoch: int, to: str, split: str, seed: int | None) -> list[str]:
    """Write the examples of an epoch to a new folder; return lines that describe it. Raises InputError."""
    check_choice("--split", split, SPLITS)
    check_range("--epoch", epoch, 0, LAST_EPOCH)
    if seed is not None:
        check_range("--seed", seed, 0, (1 << 64) - 1)
    shard_set, folder = ShardSet(artifact.place, artifact.manifest, split), Path(to).expanduser().absolute()
    if not len(shard_set):
        raise InputError(f"{artifact.manifest.folder} has no {split} example: there is nothing to write.")
    rows = epoch_rows(shard_set, epoch, seed)
    with new_folder(folder) as new:
        written = _write(rows, epoch_schema(shard_set), new, f"{split}-epoch-{epoch}")
    deleted = len(shard_set) - sum(written)
    left_out = f"; {counted(deleted, 'deleted example')} left out" if deleted else ""
    return [
        f"{counted(sum(written), 'example')} of epoch {epoch} in {counted(len(written), 'file')}{left_out}.",
        f"{artifact.manifest.folder}, {split}, is in {folder}",
    ]


def _write(rows: Iterator[pa.RecordBatch], schema: pa.Schema, folder: Path, name: str) -> list[int]:
    """Write files of about `FILE_ROWS` rows each, at least one; return how many rows each has."""
    written: list[int] = []
    first = next(rows, None)
    while first is not None or not written:
        written.append(0)
        with pa.ipc.new_file(folder / f"{name}-{len(written) - 1:05d}.arrow", schema) as sink:
            for batch in chain([first] if first is not None else [], rows):
                sink.write(batch)
                written[-1] += batch.num_rows
                if written[-1] >= FILE_ROWS:
                    break
        first = next(rows, None)
    return written
