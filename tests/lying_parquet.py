"""A Parquet file whose footer lies about its rows, bytes, pages and statistics, and one whose pages are damaged.

The footer is Thrift's compact form, read to plain values, changed and written again. A struct is a list of [field,
type, value], a list a pair of the type and its values; numbers of fields and types are those of parquet.thrift.
"""

import copy
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Footer = list[Any]
GROUPS, GROUP_ROWS, ROWS = 4, 30, 120
TEXTS = [f"The keeper of boat {number} counts {number * 7} oars before the storm." for number in range(ROWS)]
TRUE, FALSE, BYTE, NUMBERS, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, 9, 12
OTHERS = 1  # place of the row group that lies
FILE_ROWS, GROUP, COLUMNS, BYTES = (3,), (4, OTHERS), (4, OTHERS, 1), (4, OTHERS, 2)
ROWS_OF_GROUP = (*GROUP, 3)
TEXT, NUMBER = (*COLUMNS, 0, 3), (*COLUMNS, 1, 3)  # the metadata of the two columns
VALUES, UNPACKED, PACKED, PAGES, DICTIONARY, STATISTICS = 5, 6, 7, 9, 11, 12
MOST = 2**62


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def _number(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _zigzag(number: int) -> bytes:
    return _number((number << 1 ^ number >> 63) & 2**64 - 1)


def _unzigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)


def read_value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    """A value of Thrift's compact form, and the place after it."""
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        return data[at : at + 8], at + 8
    if kind in NUMBERS:
        number, at = _read_number(data, at)
        return _unzigzag(number), at
    if kind == BINARY:
        size, at = _read_number(data, at)
        return data[at : at + size], at + size
    values: list[Any] = []
    if kind == LIST:
        size, own, at = data[at] >> 4, data[at] & 15, at + 1
        size, at = (size, at) if size < 15 else _read_number(data, at)
        for _ in range(size):
            value, at = (data[at], at + 1) if own in (TRUE, FALSE) else read_value(data, at, own)
            values.append(value)
        return (own, values), at
    assert kind == STRUCT, kind
    field = 0
    while data[at]:
        step, own, at = data[at] >> 4, data[at] & 15, at + 1
        if not step:
            step, at = _read_number(data, at)
            field, step = _unzigzag(step), 0
        field += step
        value, at = read_value(data, at, own)
        values.append([field, own, value])
    return values, at + 1


def written_value(value: Any, kind: int) -> bytes:
    """A value in Thrift's compact form."""
    if kind in (TRUE, FALSE):
        return b""
    if kind == BYTE:
        return bytes([value])
    if kind == DOUBLE:
        return bytes(value)
    if kind in NUMBERS:
        return _zigzag(value)
    if kind == BINARY:
        return _number(len(value)) + bytes(value)
    if kind == LIST:
        own, values = value
        head = bytes([len(values) << 4 | own]) if len(values) < 15 else bytes([240 | own]) + _number(len(values))
        return head + b"".join(bytes([v]) if own in (TRUE, FALSE) else written_value(v, own) for v in values)
    out = b""
    for field, own, own_value in value:
        own = own if own not in (TRUE, FALSE) else TRUE if own_value else FALSE
        out += bytes([own]) + _zigzag(field) + written_value(own_value, own)  # each with its number
    return out + b"\0"


def at_path(footer: Any, path: tuple[int, ...]) -> Any:
    """The list that holds a value, and its place there: by numbers of fields in structs, by places in lists."""
    holder: Any = None
    value: Any = footer
    for step in path:
        if isinstance(value, tuple):
            holder, place = value[1], step
        else:
            holder = next(entry for entry in value if entry[0] == step)
            place = 2
        value = holder[place]
    return holder, place


def _with(footer: Footer, *changes: tuple[tuple[int, ...], Any]) -> Footer:
    changed = copy.deepcopy(footer)
    for path, value in changes:
        holder, place = at_path(changed, path)
        holder[place] = value
    return changed


def _lies(footer: Footer) -> Iterator[tuple[str, Footer]]:
    columns = ((*TEXT, VALUES), (*NUMBER, VALUES))
    value = lambda path: (holder := at_path(footer, path))[0][holder[1]]  # noqa: E731
    own, groups = value(COLUMNS), value((4,))
    yield "nothing", footer
    for told in (-5, 0, ROWS - 1, 10**12):
        yield f"the file has {told} rows", _with(footer, (FILE_ROWS, told))
    for told in (-7, 0, GROUP_ROWS - 1, GROUP_ROWS + 1, 3 * 10**9, MOST):
        of_file, of_group = (FILE_ROWS, ROWS + told - GROUP_ROWS), (ROWS_OF_GROUP, told)
        yield f"the group has {told} rows", _with(footer, of_group)
        yield f"the group and the file have {told} rows", _with(footer, of_group, of_file)
        yield f"the columns have {told} rows", _with(footer, *((path, told) for path in columns))
        if told > GROUP_ROWS or told < 0:
            changes = of_group, of_file, *((path, told) for path in columns)
            yield f"the group, the file and the columns have {told} rows", _with(footer, *changes)
    for told in (-10, 0, 2**40, MOST):
        yield f"the group has {told} bytes", _with(footer, (BYTES, told))
        yield f"a column has {told} bytes", _with(footer, ((*TEXT, PACKED), told))
        yield f"a column has {told} bytes unpacked", _with(footer, ((*TEXT, UNPACKED), told))
        yield f"pages at {told}", _with(footer, ((*TEXT, PAGES), told), ((*TEXT, DICTIONARY), told))
    yield "a group lacks a column", _with(footer, (COLUMNS, (own[0], own[1][:1])))
    yield "no groups", _with(footer, ((4,), (groups[0], [])))
    yield "the groups twice", _with(footer, ((4,), (groups[0], groups[1] * 2)))
    lying = copy.deepcopy(footer)
    for entry in at_path(lying, (*TEXT, STATISTICS))[0][2]:
        entry[2] = b"\xff\xfe" if entry[1] == BINARY else -3 if entry[1] in NUMBERS else entry[2]
    yield "statistics", lying


def lying_files(folder: Path) -> dict[str, Path]:
    """Files of TEXTS and numbers in row groups, one for each lie, by what the lie is about."""
    honest = folder / "honest.parquet"
    table = pa.table({"text": TEXTS, "label": [number % 2 for number in range(ROWS)]})
    pq.write_table(table, honest, row_group_size=GROUP_ROWS, data_page_size=400, write_page_checksum=True)
    data = honest.read_bytes()
    size = struct.unpack("<I", data[-8:-4])[0]
    pages, footer = data[: -8 - size], read_value(data[-8 - size : -8], 0, STRUCT)[0]
    files = {}
    for name, changed in _lies(footer):
        written = written_value(changed, STRUCT)
        files[name] = pages + written + struct.pack("<I", len(written)) + b"PAR1"
    for at in range(100, len(pages), len(pages) // 12):
        files[f"damaged at {at}"] = data[:at] + bytes(byte ^ 0x5A for byte in data[at : at + 8]) + data[at + 8 :]
    paths = {name: folder / f"{name.replace(' ', '-').replace(',', '')}.parquet" for name in files}
    for name, path in paths.items():
        path.write_bytes(files[name])
    return paths
