"""Values of lines of JSON as columns, which a kernel cuts out of the lines without making objects of the rest.

Promise: what is found is what Python's json and `find_fields` find. A line that is not plain (`json_spans.py`), or not
UTF-8, and one in which a field is missing or of another type, is told apart: it has to go the long way through them.
Cost: 1 ns a byte, and .2 us a value. Memory: the texts of a block of lines.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bools, Bytes, Int64s
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.bytes.raw_files import BLOCK_BYTES, Lines
from corpora.sources.files.fields import DECODER, REQUIRED, Fields, convert, list_names, with_text
from corpora.sources.files.json_spans import ABSENT, copy_strings, find_spans

NULL, QUOTE, OBJECT = b'n"{'  # what a value begins with


def find_columns(lines: Lines, fields: Fields) -> tuple[dict[str, list[Any]], Bools]:
    """Find the values of record fields in many lines of JSON at once.

    Args:
        lines: Lines of a file.
        fields: Maps attributes of `Record` to names or dot-separated paths in an object. If several names are given for
            an attribute, the first one that exists is used.

    Returns:
        A dictionary that maps each attribute of `Record` to a list with one value per line, and a bool array
        `(lines,)`. The array is False for lines that must be fully parsed instead, because they are not plain, lack a
        field, or are longer than a block.
    """
    wanted = {name: list_names(given) for name, given in with_text(fields).items()}
    spans, plain = find_values(lines, [name for names in wanted.values() for name in names])
    plain &= lines.lengths <= BLOCK_BYTES
    columns, first = dict[str, list[Any]](), 0
    for field, names in wanted.items():
        own = spans[:, first : first + len(names)]
        given = pick_first(own, read_first_bytes(lines, own) != NULL)
        there, is_text = given[:, 0] >= 0, read_first_bytes(lines, given) == QUOTE
        column = read_strings(lines, np.where((is_text & plain)[:, None], given, ABSENT), plain).to_pylist()
        for row in np.flatnonzero(plain & there & (~is_text | (field == "revision"))).tolist():
            try:
                column[row] = convert(column[row] if is_text[row] else read_value(lines, given[row]), field)
            except BadRecord:
                plain[row] = False
        if field in REQUIRED:
            plain &= there
        columns[field], first = column, first + len(names)
    return columns, plain


def find_values(lines: Lines, paths: Sequence[str]) -> tuple[Int64s, Bools]:
    """Find the values at names or dot-separated paths in many lines of JSON at once.

    Each name is looked up unchanged first, then as a path ("a.b": the key "b" of the object "a").

    Args:
        lines: Lines of a file, which should be JSON objects.
        paths: The names or paths.

    Returns:
        An int64 array `(lines, paths, 2)` with the first byte of each value in `lines.data` and the byte after it, both
        ABSENT if there is no value; and a bool array `(lines,)` that is False for lines that must be fully parsed.
    """
    spans, plain = _find_paths(np.frombuffer(lines.data, np.uint8), lines.starts, lines.ends, paths)
    offsets = pa.py_buffer(np.array([0, len(lines.data)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(lines.data)).validate(full=True)
    except pa.ArrowInvalid:
        plain &= [_is_utf_8(lines[row]) for row in range(len(lines))]
    return spans, plain


def _find_paths(data: Bytes, starts: Int64s, ends: Int64s, paths: Sequence[str]) -> tuple[Int64s, Bools]:
    """Find the values at names or dot-separated paths in JSON objects, without checking that the bytes are UTF-8.

    Args:
        data: uint8, the bytes of all objects.
        starts, ends: int64 `(n,)`. Object i is data[starts[i]:ends[i]].
        paths: The names or paths.

    Returns:
        An int64 array `(n, paths, 2)` with the first byte of each value in `data` and the byte after it, both ABSENT if
        there is no value; and a bool array `(n,)` that is False for objects that must be fully parsed.
    """
    parts = {path: path.partition(".") for path in paths}
    names = [*dict.fromkeys([*paths, *(first for first, dot, _ in parts.values() if dot)])]
    encoded = [name.encode(errors="surrogatepass") for name in names]
    found, plain = np.full((len(starts), len(names), 2), ABSENT), np.zeros(len(starts), np.bool_)
    ends_of_names = np.cumsum([len(name) for name in encoded])
    find_spans(data, starts, ends, np.frombuffer(b"".join(encoded), np.uint8), ends_of_names, found, plain)
    spans = found[:, [names.index(path) for path in paths]]
    for outer in dict.fromkeys(first for first, dot, _ in parts.values() if dot):
        inside = [at for at, path in enumerate(paths) if parts[path][0] == outer and parts[path][1]]
        around = found[:, names.index(outer)]
        rows = np.flatnonzero((around[:, 0] >= 0) & (data[around[:, 0]] == OBJECT))
        inner_starts, inner_ends = around[rows].T.copy()
        inner, plain_inside = _find_paths(data, inner_starts, inner_ends, [parts[paths[at]][2] for at in inside])
        plain[rows] &= plain_inside
        for number, at in enumerate(inside):
            spans[rows, at] = np.where(spans[rows, at] >= 0, spans[rows, at], inner[:, number])
    return spans, plain


def read_first_bytes(lines: Lines, spans: Int64s) -> Bytes:
    """Return the first byte of the value at each span, as uint8 `(...,)`. A missing value has the byte "n".

    Args:
        lines: The lines.
        spans: int64 `(..., 2)`, first byte of each value in `lines.data` and the byte after it. The first is ABSENT
            for a missing value.
    """
    starts = spans[..., 0]
    firsts = np.frombuffer(lines.data, np.uint8)[starts]
    return np.where(np.asarray(starts >= 0), firsts, np.uint8(NULL))


def pick_first(spans: Int64s, wanted: Bools) -> Int64s:
    """Return the span of the first wanted value in each line, int64 `(lines, 2)`.

    The span is ABSENT if none of the line's values is wanted.

    Args:
        spans: int64 `(lines, names, 2)`, the spans of several values in each line.
        wanted: bool `(lines, names)`, True for the values that are wanted.
    """
    picked = spans[np.arange(len(spans)), wanted.argmax(axis=1)]
    return np.where(wanted.any(axis=1, keepdims=True), picked, ABSENT)


def read_strings(lines: Lines, spans: Int64s, plain: Bools) -> pa.Array:
    """Read one JSON string per line into an Arrow array of large strings, with escapes resolved.

    Args:
        lines: The lines.
        spans: int64 `(lines, 2)`, first byte of each string and the byte after it, including quotes. The string is null
            if its span is ABSENT.
        plain: bool `(lines,)`. Set to False, in place, for a string with an unpaired surrogate.
    """
    starts, ends = spans.T.copy()
    offsets, out = np.zeros(len(starts) + 1, np.int64), np.empty(int((ends - starts).sum()), np.uint8)
    copy_strings(np.frombuffer(lines.data, np.uint8), starts, ends, out, offsets, plain)
    there = np.packbits(starts >= 0, bitorder="little")
    buffers = [pa.py_buffer(array) for array in (there, offsets, out)]
    return pa.Array.from_buffers(pa.large_string(), len(starts), buffers)


def read_value(lines: Lines, span: Int64s) -> Any:
    """Parse the JSON value at a span, int64 `(2,)`: its first byte in `lines.data` and the byte after it."""
    return DECODER.raw_decode(lines.data[span[0] : span[1]].decode())[0]


def _is_utf_8(data: bytes) -> bool:
    """Return True if bytes are valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
