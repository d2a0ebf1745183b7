"""`cloze shards materialise`: the examples of an epoch, in Arrow files that pyarrow and `datasets` open.

The folder appears whole, or not at all. Memory: a few thousand examples, whatever the shards hold.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import pyarrow as pa
from cyclopts import App, Parameter

from corpora.errors import InputError
from corpora.store.settings import check_choice
from flows.command.arguments import DEFAULT_PARAMETER, AsJson, Epoch, Position
from flows.command.help import format_examples
from flows.command.terminal import print_json, print_lines
from flows.export.exported import open_new_folder, parse_local_target
from flows.run.addresses import Artifact, find_artifacts, pick_newest
from flows.run.record.counts_text import format_count
from shards.build import SPLITS
from shards.reading.epoch_rows import build_epoch_schema, iter_epoch_batches
from shards.reading.files.shard_set import ShardSet

MAX_FILE_ROWS = 1 << 18


shards = App(name="shards", help="Write the examples that a training reads.", default_parameter=DEFAULT_PARAMETER)


@shards.command(help_epilogue=format_examples("shards materialise"))
def materialise(
    artifact: Annotated[
        str, Parameter(help="A shards artifact (folder or short id), a release (STORE@NAME), or a store.")
    ],
    *,
    epoch: Annotated[Epoch, Parameter(help="The epoch, from 0.")],
    to: Annotated[str, Parameter(help="The folder to write; it must be empty or not exist.")],
    split: Annotated[str, Parameter(help="train or held-out.")] = "train",
    seed: Annotated[
        Position | None,
        Parameter(help="The seed of a training: rows are in the order in which it reads them, else in the shards'."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the examples of an epoch as Arrow files.

    Each example has its ids with the masks applied, the masked positions, and the targets.
    """
    written = write_epoch(pick_newest(find_artifacts(artifact, "shards")), epoch, to, split, seed)
    if as_json:
        print_json(asdict(written))
    else:
        print_lines(*written.describe())


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFiles:
    """The files with the examples of one epoch.

    Attributes:
        shards: The folder of the shard set in the store.
        split: "train" or "held-out".
        epoch: The zero-based index of the epoch.
        examples: The number of examples written.
        deleted: The number of examples omitted because their documents were deleted by raw files that a later run
            added.
        files: The number of files.
        folder: The path of the folder with the files.
    """

    shards: str
    split: str
    epoch: int
    examples: int
    deleted: int
    files: int
    folder: str

    def describe(self) -> list[str]:
        """Return two lines: one with the numbers of examples and files, and one with the folder."""
        left_out = f"; {format_count(self.deleted, 'deleted example')} left out" if self.deleted else ""
        files = format_count(self.files, "file")
        return [
            f"{format_count(self.examples, 'example')} of epoch {self.epoch} in {files}{left_out}.",
            f"{self.shards}, {self.split}, is in {self.folder}",
        ]


def write_epoch(artifact: Artifact, epoch: int, to: str, split: str, seed: int | None) -> EpochFiles:
    """Write the examples of an epoch to a new folder, as Arrow files.

    Args:
        artifact: The stored shard set.
        epoch: The zero-based index of the epoch.
        to: The folder, which must be empty or not exist.
        split: "train" or "held-out".
        seed: The seed of a training run, to write examples in the order in which that run reads them. If None, examples
            are written in the order of the shards.

    Raises:
        InputError: If the split is unknown or empty, or the folder cannot be written.
    """
    check_choice("--split", split, SPLITS)
    shard_set, folder = ShardSet(artifact.place, artifact.manifest, split), parse_local_target(to).absolute()
    if not len(shard_set):
        raise InputError(f"{artifact.manifest.folder} has no {split} example: there is nothing to write.")
    rows = iter_epoch_batches(shard_set, epoch, seed)
    with open_new_folder(folder) as new:
        written = _write_files(rows, build_epoch_schema(shard_set), new, f"{split}-epoch-{epoch}")
    return EpochFiles(
        shards=artifact.manifest.folder,
        split=split,
        epoch=epoch,
        examples=sum(written),
        deleted=len(shard_set) - sum(written),
        files=len(written),
        folder=str(folder),
    )


def _write_files(rows: Iterator[pa.RecordBatch], schema: pa.Schema, folder: Path, name: str) -> list[int]:
    """Write rows to Arrow files of about MAX_FILE_ROWS rows each, and return the number of rows in each file.

    At least one file is written.

    Args:
        rows: Batches of rows.
        schema: The schema of the rows.
        folder: The folder to write to.
        name: The prefix of the file names, as in NAME-00000.arrow.
    """
    written: list[int] = []
    first = next(rows, None)
    while first is not None or not written:
        written.append(0)
        with pa.ipc.new_file(folder / f"{name}-{len(written) - 1:05d}.arrow", schema) as sink:
            for batch in chain([first] if first is not None else [], rows):
                sink.write(batch)
                written[-1] += batch.num_rows
                if written[-1] >= MAX_FILE_ROWS:
                    break
        first = next(rows, None)
    return written
