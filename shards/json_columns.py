"""JSON lines as text columns: a block of lines at a time, without an object for a line.

Promise: the texts that the product's reader of records (`corpora.sources.files`) finds, line by line; a line it
refuses is an InputError that names file and line. A block of objects of strings is read by a kernel (`json_kernels`);
of others, one with as many objects as lines, in each of them a text, is taken as Arrow parses it; any other is read
again line by line, which says what is wrong. Memory: one block, its texts, and a line of at most `MAX_LINE_BYTES`.

Cost: documents of 3 KB, in MB/s of CPU time on a busy shared core: 870 by the kernel, 300 by Arrow, 180 line by line.
"""

import codecs
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from corpora.errors import InputError
from corpora.sources.files_bytes import READ_FAULTS, BadRecord, decode, open_raw
from corpora.sources.files_fields import find_fields, parse_object
from shards.json_kernels import DECLINED, SLACK, read_lines

BLOCK_BYTES = 1 << 19  # with 1 << 18 and 1 << 20 the fastest of 1 << 17 to 1 << 22, from lines to rows
MAX_LINE_BYTES = 20_000_000
LEAST_OBJECT = len('{"a":""}')


def text_columns(path: Path, field: str, block_bytes: int = BLOCK_BYTES) -> Iterator[pa.Array]:
    """The texts of a file of JSON lines, in order, as large_string columns without nulls.

    path:        `.gz`, `.zst`, `.bz2` and `.xz` are unpacked on the way
    field:       the object's field that holds the text
    block_bytes: read at a time; it decides where columns end and nothing else
    Raises InputError for a file that cannot be read, and a line that is no object with a text.
    """
    with open_raw(path) as stream:
        for offset, block in _line_blocks(stream, path, block_bytes):
            texts = _texts(block, field)
            yield texts if texts is not None else _read_plainly(block, field, path, offset)


def _texts(block: bytes, field: str) -> pa.Array | None:
    """The block's texts by the fastest that takes it; None where none does."""
    if not _is_utf8(block):
        return None
    texts = _read_usual(block, field)
    return texts if texts is not None else _read_json(block, field)


def _line_blocks(stream: BufferedIOBase, path: Path, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of runs of whole lines; the last line may lack its end. Raises InputError."""
    held: list[bytes] = []
    offset = size = 0
    while data := _read(stream, path, block_bytes):
        cut = data.rfind(b"\n") + 1
        if size + (data.index(b"\n") if cut else len(data)) > MAX_LINE_BYTES:
            raise InputError(
                f"{path}: the line at byte {offset} is longer than {MAX_LINE_BYTES} bytes. Put each document on a "
                "line of its own, or take this one out."
            )
        if cut:
            block = b"".join((*held, memoryview(data)[:cut]))
            yield offset, block
            offset += len(block)
            held, size = [], 0
        held.append(data[cut:])
        size += len(data) - cut
    if size:
        yield offset, b"".join(held)


def _read(stream: BufferedIOBase, path: Path, num_bytes: int) -> bytes:
    try:
        return stream.read(num_bytes)
    except READ_FAULTS as error:
        raise InputError(f"{path} cannot be read to its end: {error}. Get it again.") from error


def _is_utf8(block: bytes) -> bool:
    offsets = pa.py_buffer(np.array([0, len(block)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(block)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _read_usual(block: bytes, field: str) -> pa.Array | None:
    """The block's texts, where its lines are objects of strings; None where the kernel declines."""
    texts = np.empty(len(block) + SLACK, np.uint8)
    offsets = np.empty(len(block) // LEAST_OBJECT + 2, np.int64)
    offsets[0] = 0
    num_texts = read_lines(np.frombuffer(block, np.uint8), np.frombuffer(field.encode(), np.uint8), texts, offsets)
    if num_texts == DECLINED:
        return None
    return pa.LargeStringArray.from_buffers(num_texts, pa.py_buffer(offsets), pa.py_buffer(texts))


def _read_json(block: bytes, field: str) -> pa.Array | None:
    """The block's texts as Arrow parses them; None where it is not plain that each line is an object with a text."""
    options = pa_json.ParseOptions(
        explicit_schema=pa.schema([(field, pa.large_string())]), unexpected_field_behavior="ignore"
    )
    whole = pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    if b"\0" in block:  # which the parser may take for the end
        return None
    try:
        [texts] = pa_json.read_json(pa.BufferReader(block), whole, options).column(0).chunks
    except pa.ArrowInvalid:
        return None
    num_lines = block.count(b"\n") + (not block.endswith(b"\n"))
    return texts if len(texts) == num_lines and not texts.null_count else None


def _read_plainly(block: bytes, field: str, path: Path, block_offset: int) -> pa.Array:
    """The block's texts, line by line by the product's reader: the definition, which says what is wrong. InputError."""
    texts, offset = [], block_offset
    for number, line in enumerate(block.split(b"\n")):
        try:
            if line.removeprefix(b"" if offset else codecs.BOM_UTF8).strip():
                texts.append(find_fields(parse_object(decode(line, "utf-8", offset)), {"text": field})["text"])
        except BadRecord as error:
            raise InputError(
                f"{path}, line {_line_at(path, block_offset) + number}: {error}. Mend or take out the line; the text "
                f"is looked for in the field {field!r}, which can be named otherwise."
            ) from error
        offset += len(line) + 1
    return pa.array(texts, pa.large_string())


def _line_at(path: Path, offset: int) -> int:
    """The number of the line that begins at a byte; the file is read again up to there."""
    number = 1
    with open_raw(path) as stream:
        while offset and (data := stream.read(min(offset, BLOCK_BYTES))):
            number += data.count(b"\n")
            offset -= len(data)
    return number
