"""Vectors of a long run, part by part: a run that was killed resumes after the last part that it wrote. No torch.

    OUTPUT's unfinished folder/   asked.json       what is asked for, with digests of what is read
                                  part-0.parquet   a group of rows for each window, with checksums

Promise: only complete parts are used: a damaged one is removed, with those after it, and all are removed where the
settings differ. The file that is made of them has the same bytes however often the run was ended. One process at a time
has the folder; it is removed at the end of the run, unless that ended early and has a part.
Cost: the vectors are on the disk twice, until the file has its name; what is there is read when a run resumes.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from corpora.store.places.files import to_unfinished_path
from trainer.complete_folders import alone, refusing, written_json

ASKED = "asked.json"


class VectorParts:
    """The parts that a run has written so far. windows, rows: those of whole parts"""

    def __init__(self, folder: Path, output: Path, schema: pa.Schema) -> None:
        self._folder, self._output, self._schema = folder, output, schema
        self._writer: pq.ParquetWriter | None = None
        self.windows = self.rows = self._parts = 0
        while self._keep(self._path(self._parts)):
            self._parts += 1
        for path in folder.glob("part-*"):
            if int(path.stem.removeprefix("part-")) >= self._parts:
                path.unlink()

    def _path(self, number: int) -> Path:
        return self._folder / f"part-{number}.parquet"

    def _keep(self, path: Path) -> bool:
        """Count what a part holds; false where it is missing or damaged."""
        try:
            sizes = [len(table) for table in _tables(path)]
        except (pa.ArrowException, OSError):
            return False
        self.windows, self.rows = self.windows + len(sizes), self.rows + sum(sizes)
        return True

    def add(self, rows: pa.Table) -> None:
        """Add the next window. Raises InputError for a full disk."""
        with refusing(self._output):
            if self._writer is None:
                path = self._path(self._parts)
                self._writer = pq.ParquetWriter(path, self._schema, compression="none", write_page_checksum=True)
            self._writer.write_table(rows)
        self.windows, self.rows = self.windows + 1, self.rows + len(rows)

    def save(self) -> None:
        """Close what was added since as a part, which is not made again. Raises InputError for a full disk."""
        if self._writer is not None:
            with refusing(self._output):
                self._writer.close()
            self._parts, self._writer = self._parts + 1, None

    def close(self) -> None:
        """Save what was added, if the disk takes it."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of all parts, window by window."""
        for number in range(self._parts):
            yield from _tables(self._path(number))


def _tables(path: Path) -> Iterator[pa.Table]:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, use_threads=False)


@contextmanager
def vector_parts(output: Path, asked: Mapping[str, Any], schema: pa.Schema) -> Iterator[VectorParts]:
    """Open the parts that the same run left when it ended, or none.

    asked: what must be the same, as JSON. Raises InputError where another process makes the same file.
    """
    folder, ended_well = to_unfinished_path(output, is_only_writer=True), False
    with ExitStack() as own:
        with refusing(output):
            own.enter_context(alone(output, "writing"))
            if _read(folder / ASKED) != json.loads(json.dumps(asked)):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                written_json(folder / ASKED, asked)
            parts = VectorParts(folder, output, schema)
        try:
            yield parts
            ended_well = True
        finally:
            parts.close()
            if ended_well or not parts.windows:
                shutil.rmtree(folder)


def _read(path: Path) -> Any:
    """Return the content of a file of ours; None where it is missing or incomplete."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
