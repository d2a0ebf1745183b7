"""The shingle sets of documents that will be compared, in a scratch file.

Promise: each set is read once, in the order of the rows, and comparisons use the exact sets in the file. Cost: 8 bytes
a shingle on disk. Memory: 4 bytes for each place, 8 for each document that is compared, and pages of the file, which
the system reclaims if it needs them. At most about MAPPED_BYTES of them count as this process's memory.
"""

from collections.abc import Callable, Iterator
from mmap import ACCESS_READ, MADV_DONTNEED, MADV_RANDOM, mmap
from typing import Any

import numpy as np

from corpora.duplicates.verify import Overlaps, ShingleSets, compute_overlaps
from corpora.kernels.arrays import Int32s, Int64s
from corpora.store.scratch import append_bytes

MAPPED_BYTES = 1 << 30
READ_AROUND_BYTES = 1 << 16  # that the system maps at once, around the place that is read


class ShingleFile:
    """Stores the shingle sets of documents in a scratch file, and compares them. It implements `Similarity`.

    Args:
        file: An open scratch file.
        folder: Folder of the file, shown in error messages.
        order: int32, the row index of each document in the total order.
        read: Function that takes row indices in ascending order and yields the rows' shingle sets in blocks.
    """

    def __init__(self, file: Any, folder: str, order: Int32s, read: Callable[[Int64s], Iterator[ShingleSets]]) -> None:
        self._file, self._folder = file, folder
        self._order = order
        self._read = read
        self._numbers = np.full(len(order), -1, np.int32)
        self._read_bytes = 0

    def load(self, documents: Int64s) -> None:
        """Read the shingle sets of the given documents, and store them in the file.

        This is called once, before `compute_overlaps`.

        Args:
            documents: int64, positions in the total order.

        Raises:
            InputError: If the disk is full.

        Exceptions raised by the function `read` are propagated unchanged.
        """
        by_row = documents[np.argsort(self._order[documents])]
        self._numbers[by_row] = np.arange(len(by_row), dtype=np.int32)
        sizes = [np.zeros(1, np.int64)]
        for sets in self._read(self._order[by_row].astype(np.int64)):
            sizes.append(np.diff(sets.offsets))
            append_bytes(self._file, self._folder, sets.values.data.cast("B"))
        self._offsets = np.cumsum(np.concatenate(sizes))
        assert len(self._offsets) == len(by_row) + 1, "one set for each document that is compared"
        total = int(self._offsets[-1])
        self._map = mmap(self._file.fileno(), 8 * total, access=ACCESS_READ) if total else None
        if self._map is not None:
            self._map.madvise(MADV_RANDOM)
        self._values = np.frombuffer(self._map or b"", np.uint64, total)

    def compute_overlaps(self, left: Int64s, right: Int64s) -> Overlaps:
        """Compute the overlap of documents left[k] and right[k] for all k, reading their sets from the file.

        The documents must have been loaded.

        Args:
            left: int64 [n], positions in the total order.
            right: int64 [n], positions in the total order.
        """
        numbers = (self._numbers[places].astype(np.int64) for places in (left, right))
        overlaps = compute_overlaps(self._values, self._offsets, *numbers)
        self._release_pages(
            2 * len(left) * READ_AROUND_BYTES + 8 * int(overlaps.union.sum() + overlaps.intersection.sum())
        )
        return overlaps

    def _release_pages(self, read_bytes: int) -> None:
        """Release the memory-mapped pages if many have been read, so that they do not count as memory of this process.

        Args:
            read_bytes: Number of bytes read in the last call.
        """
        self._read_bytes += read_bytes
        if self._read_bytes > MAPPED_BYTES < self._values.nbytes:
            assert self._map is not None, "values that are read are in the file"
            self._map.madvise(MADV_DONTNEED)
            self._read_bytes = 0
