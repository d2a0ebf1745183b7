"""Curly quotes made straight, as ftfy does it: ʼ ‘ ’ ‚ ‛ to ' and “ ” „ ‟ to ".

Cost: one pass over the bytes, and a copy of them.
"""
# ruff: noqa: RUF002 - typographic marks are the subject here

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel


@kernel
def straighten(data: Bytes, offsets: Int64s) -> tuple[Bytes, Int64s]:
    """A column with straight quotes: new bytes and new offsets, which begin at 0."""
    out = np.empty(offsets[-1] - offsets[0], np.uint8)
    ends = np.zeros(offsets.size, np.int64)
    size = 0
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            byte, width = data[at], 1
            if byte == 0xCA and data[at + 1] == 0xBC:  # U+02BC
                byte, width = np.uint8(39), 2
            elif byte == 0xE2 and data[at + 1] == 0x80 and 0x98 <= data[at + 2] <= 0x9F:  # U+2018 to U+201F
                byte, width = np.uint8(39 if data[at + 2] < 0x9C else 34), 3
            out[size] = byte
            size += 1
            at += width
        ends[row + 1] = size
    return out[:size], ends
