"""The index of a multistream dump: which pages are in which bzip2 stream.

A line is `offset:page id:title`, the offset that of the stream's first byte; about a hundred pages share one.
Costs: one pass of bzip2 and a split for each line. Memory: the distinct offsets.
"""

import bz2
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from corpora.errors import InputError
from corpora.sources.bytes.bz2_streams import begins_stream
from corpora.sources.bytes.faults import READ_FAULTS
from corpora.sources.bytes.objects import named_or_open, raw_path
from corpora.sources.contract import RawFile

WITH_INDEX = re.compile(r"(?P<stem>.*multistream)(?P<number>\d*)\.xml(?P<range>-p\d+p\d+)?\.bz2")

INDEX_FAULTS: tuple[type[Exception], ...] = (*READ_FAULTS, ValueError)


class IndexEntry(NamedTuple):
    """A line of the index: the stream's first byte, the page's id and its title."""

    stream: int
    page: str
    title: str


def index_beside(dump: Path) -> Path | None:
    """The index of a multistream dump, where it is next to it."""
    match = WITH_INDEX.fullmatch(dump.name)
    if match is None:
        return None
    index = dump.with_name(f"{match['stem']}-index{match['number']}.txt{match['range'] or ''}.bz2")
    return index if index.is_file() else None


def read_index(index: Path, start: int, stop: int) -> Iterator[IndexEntry]:
    """The entries of the streams that begin in bytes `start` to `stop`. Raises InputError."""
    line = b""
    try:
        with bz2.open(named_or_open(index), "rb") as lines:
            for line in lines:
                offset, page, title = line.split(b":", 2)
                if start <= int(offset) < stop:
                    yield IndexEntry(int(offset), page.decode(), title.decode().rstrip("\n"))
                elif int(offset) >= stop:
                    return
    except INDEX_FAULTS as error:
        seen = f" (at {line[:60]!r})" if isinstance(error, ValueError) else ""
        raise InputError(
            f"{index} cannot be read as a stream index: {error}{seen}. Download it again, or remove it: the "
            "streams are then looked for in the dump."
        ) from error


def stream_starts(file: RawFile, index: Path) -> list[int]:
    """The distinct streams of an index, checked against the dump."""
    starts = list(dict.fromkeys(entry.stream for entry in read_index(index, 0, 1 << 62)))
    with raw_path(file.path).open("rb") as stream:
        wrong = sum(not begins_stream(stream, start) for start in starts)
    ordered = bool(starts) and starts == sorted(starts) and starts[-1] < file.size_bytes
    if not ordered or 2 * wrong > len(starts):
        raise InputError(
            f"{index} and {file.path} do not belong together, or one is cut off: of {len(starts)} offsets "
            f"{wrong} begin no stream, and the last is {starts[-1] if starts else 'missing'} where the dump "
            f"has {file.size_bytes} bytes. Download both again, from the same day."
        )
    return starts
