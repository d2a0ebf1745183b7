"""Lines that many documents of a source share (signatures, notices, menus), taken out before a document is judged.

Promise: `remove_lines` equals `remove_lines_plainly`, the definition, row by row. Lines are recognized by their hashes:
`line_hashes` gives every document's, and `remove_lines` takes those that are to go. What is left keeps its order; a
blank line is between two lines where one was between them before. A document without such a line is unchanged, and
nothing is copied where no line is to go. One that is left with nothing is an empty text.

Cost: 2.8 ns a byte of novels for the hashes, and a copy of the text. Two lines share a hash by chance with probability
2**-64: among 10**8 different lines some two do in one case of 3,700.
"""

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bytes, Int64s, UInt64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import absorb, absorbed
from corpora.text.buffers import text_buffers
from corpora.text.counts.words import table_size

_SPACES = "".join(map(chr, range(0x21)))


# The definition, in plain Python.


def remove_lines_plainly(text: str, repeated: Collection[int]) -> tuple[str, list[str]]:
    r"""A document without the lines that are to go, and those lines.

    >>> remove_lines_plainly("It rained.\nRead more\n\nIt snowed.", {line_hash("READ more")})
    ('It rained.\n\nIt snowed.', ['Read more'])
    """
    edited, gap = "", False
    removed: list[str] = []
    for line in (line.strip(_SPACES) for line in text.split("\n")):
        gap = gap or not line
        if not line:
            continue
        if line_hash(line) in repeated:
            removed.append(line)
        else:
            edited += ("\n\n" if gap else "\n") * bool(edited) + line
            gap = False
    return (edited, removed) if removed else (text, removed)


def line_hash(line: str) -> int:
    """The 64-bit hash of a line, trimmed and without ASCII case.

    >>> line_hash(" Sent from my phone") == line_hash("SENT from my phone")
    True
    """
    data = line.strip(_SPACES).encode().lower()
    value = len(data)
    for chunk in (*(int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)), 0):
        value = absorbed(value, chunk)
    return value


# The same for a column.


def remove_lines(texts: pa.Array, repeated: UInt64s) -> tuple[pa.Array, int]:
    """A large_string column without the lines that are to go, and their number: `remove_lines_plainly` of every row.

    repeated: the hashes of lines that are to go, ascending
    Raises InputError for another type of column or for nulls (see `text_buffers`).
    """
    assert bool((repeated[1:] >= repeated[:-1]).all()), "the hashes of repeated lines must ascend"
    if not repeated.size:
        return texts, 0
    data, offsets = text_buffers(texts)
    out = np.empty(int(offsets[-1] - offsets[0]) + 8, np.uint8)
    ends, removed = _edit_rows(data, offsets, repeated, out)
    if not removed:
        return texts, 0
    kept = out[: ends[-1]].copy()
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(kept)), removed


def line_hashes(texts: pa.Array) -> tuple[UInt64s, Int64s]:
    """The `line_hash` of every different line of every row, in order, and where each row's begin (n + 1 offsets)."""
    data, offsets = text_buffers(texts)
    most, total = _num_lines(data, offsets)
    hashes, starts = np.empty(total, np.uint64), np.zeros(len(texts) + 1, np.int64)
    _hash_rows(data, offsets, np.zeros(table_size(most), np.int64), hashes, starts)
    return hashes[: starts[-1]].copy(), starts


_32, _NOTHING = np.uint64(32), np.uint64(0)


@kernel
def _edit_rows(data: Bytes, offsets: Int64s, repeated: UInt64s, out: Bytes) -> tuple[Int64s, int]:
    """Write every row's text to `out`; returns where each ends, and how many lines are gone."""
    ends = np.zeros(offsets.size, np.int64)
    size, removed = 0, 0
    for row in range(offsets.size - 1):
        at, stop, begin, gap, before = offsets[row], offsets[row + 1], size, False, removed
        while at < stop:
            start, end, at = next_line(data, at, stop)
            if start == end:
                gap = True
            elif _contains(repeated, hash_line(data, start, end)):
                removed += 1
            else:
                place = size if size == begin else size + 1 + gap
                out[size:place] = 10
                copy_values(data[start:end], out[place : place + end - start])
                size, gap = place + end - start, False
        if removed == before:
            copy_values(data[offsets[row] : stop], out[begin : begin + stop - offsets[row]])
            size = begin + stop - offsets[row]
        ends[row + 1] = size
    return ends, removed


@kernel
def next_line(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Return where the line at `at` begins and ends, trimmed, and where the next one begins."""
    end = at
    while end < stop and data[end] != 10:
        end += 1
    behind = end + 1
    while at < end and data[at] <= 32:
        at += 1
    while at < end and data[end - 1] <= 32:
        end -= 1
    return at, end, behind


@kernel
def _lower(byte: int) -> int:
    """A byte, small if it is an ASCII capital."""
    return byte + 32 if 65 <= byte <= 90 else byte


@kernel
def hash_line(data: Bytes, start: int, end: int) -> np.uint64:
    """`line_hash` of a trimmed line."""
    value, chunk = np.uint64(end - start), _NOTHING
    for at in range(start, end):
        shift = (at - start) % 8 * 8
        chunk |= np.uint64(_lower(data[at])) << np.uint64(shift)
        if shift == 56 or at + 1 == end:
            value, chunk = absorb(value, chunk), _NOTHING
    return absorb(value, _NOTHING)


@kernel
def _contains(values: UInt64s, value: np.uint64) -> bool:
    """Return True if ascending values hold a value."""
    low, high = 0, values.size
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < values.size and values[low] == value


@kernel
def _num_lines(data: Bytes, offsets: Int64s) -> tuple[int, int]:
    """At most so many lines the row that has most of them has, and all rows together."""
    most, total = 1, 0
    for row in range(offsets.size - 1):
        lines = 1
        for byte in data[offsets[row] : offsets[row + 1]]:
            lines += byte == 10
        most, total = max(most, lines), total + lines
    return most, total


@kernel
def _hash_rows(data: Bytes, offsets: Int64s, slots: Int64s, hashes: UInt64s, starts: Int64s) -> None:
    """Fill the hashes of every row's lines, each once: slots hold the row they were filled for next to the place."""
    mask, size = np.uint64(slots.size - 1), 0
    for row in range(offsets.size - 1):
        at, stop, begin = offsets[row], offsets[row + 1], size
        while at < stop:
            start, end, at = next_line(data, at, stop)
            if start == end:
                continue
            value = hash_line(data, start, end)
            slot = value >> _32 & mask
            while slots[slot] >> 32 == row + 1 and hashes[begin + (slots[slot] & 0xFFFFFFFF)] != value:
                slot = slot + np.uint64(1) & mask
            if slots[slot] >> 32 != row + 1:
                slots[slot] = (row + 1) << 32 | (size - begin)
                hashes[size] = value
                size += 1
        starts[row + 1] = size
