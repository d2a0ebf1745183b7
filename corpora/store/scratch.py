"""Scratch tables: columns of numbers that are too long for memory, in a file without a name.

Promise: the file is gone with the process, however that ends: nothing is left behind, and nothing has to be cleaned up.
If the disk is too small, the error is raised before the work begins if the number of rows is known (`reserve`),
otherwise when the disk is full.

Cost: the bytes of the rows on disk, written once; reading at the speed of the system's cache. Memory: one block.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.store.places.files import explain_disk_error, explain_write_errors
from corpora.store.places.place import Place

BLOCK_ROWS = 1 << 16  # rows whose columns are written together
_MAX_CALL_BYTES = 1 << 30  # bytes of one system call

Column = npt.NDArray[Any]


def make_scratch_folder(place: Place) -> str:
    """Create the folder for temporary files while working on a store, and return its path.

    For a local store, it is the store's own folder; for an object store, the system's temporary folder.

    Raises:
        InputError: If the folder cannot be created.
    """
    if not place.is_local:
        return tempfile.gettempdir()
    folder = Path(place.to_full_path(""))
    with explain_write_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


@contextmanager
def explain_scratch_errors(folder: str, size_bytes: int = 0) -> Iterator[None]:
    """Convert an OSError of a scratch file inside the block to an InputError with the cause and a remedy.

    Args:
        folder: The folder of the scratch file.
        size_bytes: Number of bytes that could not be allocated, for the error message; 0 if unknown.
    """
    try:
        yield
    except OSError as error:
        change = "set TMPDIR to a folder on" if folder == tempfile.gettempdir() else "write to"
        elsewhere = f"{change} another disk, then run the same command again"
        size = f"{size_bytes:,} bytes of " if size_bytes else ""
        reason = explain_disk_error(error, elsewhere) or elsewhere
        raise InputError(f"Cannot write {size}scratch in {folder}: {reason} ({error.strerror or error}).") from error


@contextmanager
def open_scratch_file(folder: str) -> Iterator[Any]:
    """Open an anonymous file in a folder, for reading and writing. The operating system removes it when the block ends.

    Yields:
        The file, without a buffer.

    Raises:
        InputError: If the file cannot be created.
    """
    with explain_scratch_errors(folder):
        file = tempfile.TemporaryFile(dir=folder, buffering=0)
    with file:
        yield file


def append_bytes(file: Any, folder: str, data: memoryview) -> None:
    """Write all of `data` at the current position of a scratch file.

    Args:
        file: The file.
        folder: The folder of the file, for messages.
        data: The bytes to write.

    Raises:
        InputError: If they cannot be written, e.g. because the disk is full.
    """
    with explain_scratch_errors(folder):
        while data:
            data = data[file.write(data[:_MAX_CALL_BYTES]) :]


def read_bytes(file: Any, offset: int, buffer: memoryview) -> None:
    """Fill a buffer with bytes of a scratch file.

    An assertion fails if the file ends before the buffer is full.

    Args:
        file: The file.
        offset: Offset in the file of the first byte to read.
        buffer: The buffer to fill. Its length is the number of bytes that are read.
    """
    while buffer:
        num_read = os.preadv(file.fileno(), [buffer[:_MAX_CALL_BYTES]], offset)
        assert num_read, "a scratch file is shorter than what was written to it"
        offset, buffer = offset + num_read, buffer[num_read:]


class ScratchTable:
    """A temporary table on disk for columns that do not fit in memory. Rows are appended, and later read by column.

    Args:
        file: An open scratch file. See `open_scratch_file`.
        folder: The folder of the file, for messages.
        dtypes: The numpy dtype of each column by name. `np.dtype((np.uint64, 2))` is a column of shape [rows, 2].

    Attributes:
        rows: Number of rows appended so far.
    """

    def __init__(self, file: Any, folder: str, dtypes: Mapping[str, npt.DTypeLike]) -> None:
        self._file, self._folder = file, folder
        self._dtypes = {name: np.dtype(kind) for name, kind in dtypes.items()}
        self._starts = dict(
            zip(dtypes, np.cumsum([0, *(kind.itemsize for kind in self._dtypes.values())]), strict=False)
        )
        self._row_bytes = sum(kind.itemsize for kind in self._dtypes.values())
        self._waiting: list[Mapping[str, Column]] = []
        self._num_waiting = 0
        self._bounds = [0]  # the first row of each block, and the end
        self.rows = 0

    def reserve(self, rows: int) -> None:
        """Reserve disk space for a number of rows.

        Raises:
            InputError: If there is not enough space.
        """
        size_bytes = max(rows * self._row_bytes, 1)
        with explain_scratch_errors(self._folder, size_bytes):
            os.posix_fallocate(self._file.fileno(), 0, size_bytes)

    def append(self, columns: Mapping[str, Column]) -> None:
        """Append rows.

        The arrays are kept in memory until BLOCK_ROWS rows have been collected, and must not be modified until then.

        Args:
            columns: Maps the name of each column to an array. All arrays must have the same length.

        Raises:
            InputError: If the disk is full.
        """
        rows = len(columns[next(iter(self._dtypes))])
        self._waiting.append(columns)
        self._num_waiting += rows
        self.rows += rows
        if self._num_waiting >= BLOCK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows that are still in memory. The read methods call this first.

        Raises:
            InputError: If the disk is full.
        """
        if not self._num_waiting:
            return
        at, block = self._bounds[-1] * self._row_bytes, self._waiting
        for name, kind in self._dtypes.items():
            values = np.concatenate([each[name] for each in block]).astype(kind.base, copy=False)
            assert len(values) == self._num_waiting, f"column {name} has other rows than the first"
            self._write(at, np.ascontiguousarray(values).data.cast("B"))
            at += values.nbytes
        self._bounds.append(self._bounds[-1] + self._num_waiting)
        self._waiting, self._num_waiting = [], 0

    def read_column(self, name: str, first: int = 0, stop: int | None = None) -> Column:
        """Read the values of a column.

        Args:
            name: Name of the column.
            first: Zero-based index of the first row.
            stop: Index of the row after the last one, at most `rows` (default: `rows`).

        Returns:
            Array of `stop - first` rows, with the column's dtype and any additional dimensions.

        Raises:
            KeyError: If there is no such column.
            InputError: If rows that are still in memory cannot be written first.
        """
        self.flush()
        stop = self.rows if stop is None else stop
        kind = self._dtypes[name]
        values = np.empty((stop - first, *kind.shape), kind.base)
        block = max(int(np.searchsorted(self._bounds, first, side="right")) - 1, 0)
        at = first
        while at < stop:
            begin, end = self._bounds[block], min(self._bounds[block + 1], stop)
            origin = begin * self._row_bytes + int(self._starts[name]) * (self._bounds[block + 1] - begin)
            view = values[at - first : end - first].data.cast("B")
            read_bytes(self._file, origin + (at - begin) * kind.itemsize, view)
            at, block = end, block + 1
        return values

    def read_values(self, name: str, rows: Int64s) -> Column:
        """Read the values of a column in the given rows. Only the blocks that contain these rows are read.

        Args:
            name: Name of the column.
            rows: int64 [n], zero-based row indices in ascending order.

        Returns:
            Array of n rows, with the column's dtype and any additional dimensions.

        Raises:
            KeyError: If there is no such column.
            InputError: If rows that are still in memory cannot be written first.
        """
        self.flush()
        found = [self.read_column(name, 0, 0)]
        edges = np.searchsorted(rows, self._bounds)
        for block in np.flatnonzero(np.diff(edges)).tolist():
            here = rows[edges[block] : edges[block + 1]]
            first = int(here[0])
            found.append(self.read_column(name, first, int(here[-1]) + 1)[here - first])
        return np.concatenate(found)

    def _write(self, offset: int, data: memoryview) -> None:
        with explain_scratch_errors(self._folder):
            while data:
                num_written = os.pwrite(self._file.fileno(), data[:_MAX_CALL_BYTES], offset)
                offset, data = offset + num_written, data[num_written:]


@contextmanager
def open_scratch_table(folder: str, dtypes: Mapping[str, npt.DTypeLike]) -> Iterator[ScratchTable]:
    """Open an empty scratch table in a folder. Its file is removed at the end of the block.

    Raises:
        InputError: If the file cannot be created.
    """
    with open_scratch_file(folder) as file:
        yield ScratchTable(file, folder, dtypes)
