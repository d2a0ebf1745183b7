"""Vectors of a long run, part by part: a run that was killed resumes after the last part that it wrote. No torch.

    OUTPUT's unfinished folder/   asked.json     what is asked for, with digests of what is read
                                  parts.json     the parts: their windows and rows, sizes and digests
                                  part-0.arrow   a batch of rows for each window that has any

Promise: only complete parts are used: a damaged one is removed, with those after it, and all are removed where the
settings differ. The file that is made of them has the same bytes however often the run was ended. One process at a time
has the folder; it is removed at the end of the run, unless that ended early and has a part.
Cost: the vectors are on the disk twice, until the file has its name.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.places.files import replaced_file, unfinished
from corpora.store.places.locks import NO_LOCKS, try_lock
from trainer.complete_folders import check_files, described
from trainer.tasks.embeddings import refusing

ASKED, LEDGER, LOCK = "asked.json", "parts.json", "lock"


class VectorPart(NamedTuple):
    """A part. windows: how many it has of the run; rows: of them; file: its size and digest"""

    windows: int
    rows: int
    file: Mapping[str, Any]


class VectorParts:
    """The parts that a run has written so far."""

    def __init__(self, folder: Path, output: Path, schema: pa.Schema, parts: Sequence[VectorPart]) -> None:
        self._folder, self._output, self._schema, self._parts = folder, output, schema, [*parts]
        self._writer: pa.RecordBatchFileWriter | None = None
        self._windows = self._rows = 0

    @property
    def windows(self) -> int:
        """Those of whole parts."""
        return sum(part.windows for part in self._parts)

    @property
    def rows(self) -> int:
        """Those of whole parts."""
        return sum(part.rows for part in self._parts)

    def add(self, rows: pa.Table) -> None:
        """The next window. Raises InputError for a full disk."""
        with refusing(self._output):
            if self._writer is None:
                self._writer = pa.ipc.new_file(str(self._path(len(self._parts))), self._schema)
            if len(rows):
                self._writer.write_table(rows)
        self._windows, self._rows = self._windows + 1, self._rows + len(rows)

    def save(self) -> None:
        """Close what was added since as a part, which is not made again. Raises InputError for a full disk."""
        if self._writer is None:
            return
        path = self._path(len(self._parts))
        with refusing(self._output):
            self._writer.close()
            part = VectorPart(self._windows, self._rows, described(self._folder, [path.name]))
            _write(self._folder / LEDGER, [each._asdict() for each in (*self._parts, part)])
        self._parts.append(part)
        self._writer, self._windows, self._rows = None, 0, 0

    def close(self) -> None:
        """Close the writer; what is not in a part is lost."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of all parts, window by window."""
        for number in range(len(self._parts)):
            with pa.memory_map(str(self._path(number))) as file:
                reader = pa.ipc.open_file(file)
                for place in range(reader.num_record_batches):
                    yield reader.get_batch(place)

    def _path(self, number: int) -> Path:
        return self._folder / f"part-{number}.arrow"


@contextmanager
def vector_parts(output: Path, asked: Mapping[str, Any], schema: pa.Schema) -> Iterator[VectorParts]:
    """Open the parts that the same run left when it ended, or none.

    asked: what must be the same, as JSON. Raises InputError where another process makes the same file.
    """
    folder, ended_well = unfinished(output, alone=True), False
    with ExitStack() as held:
        with refusing(output):
            folder.mkdir(exist_ok=True)
            if not _is_ours(held.enter_context((folder / LOCK).open("a", encoding="utf-8"))):
                raise InputError(f"Another process is writing {output}: wait for it, or name another file.")
        same = _read(folder / ASKED) == json.loads(json.dumps(asked))
        kept = _left(folder) if same else []
        parts = VectorParts(folder, output, schema, kept)
        try:
            with refusing(output):
                _begin(folder, asked, kept)
            yield parts
            ended_well = True
        finally:
            parts.close()
            if ended_well or not parts.windows:
                shutil.rmtree(folder)


def _is_ours(file: IO[Any]) -> bool:
    """Tells whether no other process holds a file; true where the file system has no locks."""
    try:
        return try_lock(file)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return True


def _begin(folder: Path, asked: Mapping[str, Any], parts: Sequence[VectorPart]) -> None:
    """Write the settings and the parts that exist; remove all else."""
    kept = {LOCK, ASKED, LEDGER, *(name for part in parts for name in part.file)}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()
    _write(folder / LEDGER, [part._asdict() for part in parts])
    _write(folder / ASKED, asked)


def _left(folder: Path) -> list[VectorPart]:
    """Return the complete parts, up to the first that is not."""
    parts = list[VectorPart]()
    for entry in _read(folder / LEDGER) or ():
        try:
            check_files(folder, entry["file"])
        except Damaged:
            break
        parts.append(VectorPart(**entry))
    return parts


def _read(path: Path) -> Any:
    """Return the content of a file of ours; None where it is missing or incomplete."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _write(path: Path, content: Any) -> None:
    with replaced_file(path, alone=True) as new:
        new.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
