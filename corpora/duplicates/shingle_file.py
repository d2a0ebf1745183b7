"""The shingle sets of documents that will be compared, in a scratch file.

Promise: each is read once, in the order of the rows; what is compared is read from the file, exactly. Cost: 8 bytes a
shingle on disk; memory 16 bytes for each document, as pages of the file are given back after each call.
"""

from collections.abc import Callable, Iterator
from mmap import ACCESS_READ, MADV_DONTNEED, mmap
from typing import Any

import numpy as np

from corpora.duplicates.verify import Overlaps, ShingleSets, jaccard_pairs
from corpora.kernels.arrays import Int32s, Int64s
from corpora.store.scratch import append_bytes


class ShingleFile:
    """The `Similarity` of documents by their places in the total order.

    file, folder: a file of `scratch_file`, and where it is
    order:        the row of each place
    read:         gives the sets of some ascending rows, in blocks
    """

    def __init__(self, file: Any, folder: str, order: Int32s, read: Callable[[Int64s], Iterator[ShingleSets]]) -> None:
        self._file, self._folder = file, folder
        self._order = order
        self._read = read
        self._rows = np.empty(0, np.int64)

    def expect(self, documents: Int64s) -> None:
        """Read the sets of these places in the order, once. Raises InputError if the disk is full."""
        self._rows = np.sort(self._order[documents].astype(np.int64))
        sizes = [np.zeros(1, np.int64)]
        for sets in self._read(self._rows):
            sizes.append(np.diff(sets.offsets))
            append_bytes(self._file, self._folder, sets.values.data.cast("B"))
        self._offsets = np.cumsum(np.concatenate(sizes))
        assert len(self._offsets) == len(self._rows) + 1, "one set for each document that is compared"
        total = int(self._offsets[-1])
        self._map = mmap(self._file.fileno(), 8 * total, access=ACCESS_READ) if total else None
        self._values = np.frombuffer(self._map or b"", np.uint64, total)

    def overlaps(self, left: Int64s, right: Int64s) -> Overlaps:
        """The similarities of pairs of places in the order."""
        one, other = (np.searchsorted(self._rows, self._order[each]) for each in (left, right))
        overlaps = jaccard_pairs(self._values, self._offsets, one, other)
        if self._map is not None:
            self._map.madvise(MADV_DONTNEED)  # the pages stay in the system's cache, and are this process's no longer
        return overlaps
