"""The shingles of the first rows, in a scratch file, so that no text is read again for them.

They are held while rows are sketched in this process, as long as there is room: shingles of rows that turn out to share
no band are held in vain. Cost: 8 bytes a shingle on disk, 2 ns a byte of text. Memory: a block.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from corpora.duplicates.verify import ShingleSets, sort_sets
from corpora.kernels.arrays import Int32s, Int64s
from corpora.store.scratch import append_bytes, read_bytes
from flows.dedup.sketches import Sketch

BLOCK_SHINGLES = 1 << 20  # of sets that are given at once, unless one set alone has more


class HeldShingles:
    """Shingles in a file of `open_scratch_file` in a folder, of bounded size. rows: how many have theirs here"""

    def __init__(self, file: Any, folder: str, room: int) -> None:
        self._file, self._folder, self._room = file, folder, room
        self._is_full = room == 0
        self.rows = 0

    def add(self, sketch: Sketch) -> None:
        """Hold the shingles of the next rows, if there is room. Raises InputError if the disk is full."""
        self._room -= sketch.shingles.nbytes
        self._is_full = self._is_full or self._room < 0
        if not self._is_full:
            append_bytes(self._file, self._folder, sketch.shingles.data.cast("B"))
            self.rows += len(sketch.num_shingles)

    def sets(self, rows: Int64s, num_shingles: Int32s) -> Iterator[ShingleSets]:
        """The sets of some ascending rows of those that are held, in blocks. num_shingles: of all rows"""
        ends = np.concatenate([[0], np.cumsum(num_shingles[: self.rows], dtype=np.int64)])
        begins, first = ends[rows], 0
        while first < len(rows):
            start = int(begins[first])
            stop = max(first + 1, int(np.searchsorted(begins, start + BLOCK_SHINGLES)))
            here = rows[first:stop]
            values = np.empty(int(ends[here[-1] + 1]) - start, np.uint64)
            read_bytes(self._file, 8 * start, values.data.cast("B"))
            offsets = np.concatenate([[0], np.cumsum(num_shingles[here], dtype=np.int64)])
            sets = np.empty(int(offsets[-1]), np.uint64)
            sort_sets(values, ends[here] - start, ends[here + 1] - start, sets)
            yield ShingleSets(sets, offsets)
            first = stop
