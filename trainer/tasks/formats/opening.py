"""A file as text, unpacked by its ending, and its lines.

Promise: bytes that are not UTF-8 become surrogates, which mark their record; a file of another encoding, one that is
damaged and a line without end are refused with the remedy. Memory: one line.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, cast

from corpora.errors import InputError
from corpora.sources.bytes.endings import PACKED_ENDINGS
from corpora.sources.bytes.faults import refusing_damage
from corpora.sources.bytes.raw_files import open_raw
from corpora.sources.bytes.wide import HEAD, marked_encoding, wide_encoding

MOST_CHARACTERS = 1 << 26  # of a line


@contextmanager
def opened(path: str) -> Iterator[TextIOWrapper]:
    """A file as text of UTF-8, without its mark. Raises InputError, also for what is wrong as it is read on."""
    with open_raw(Path(path)) as raw, refusing_damage(Path(path)):
        if raw.seekable():
            head = raw.read(HEAD)
            raw.seek(0)
            if wide := marked_encoding(head) or wide_encoding(head):
                raise InputError(f"{path} is {wide.upper()}, but must be UTF-8: convert it, for instance with iconv.")
        yield TextIOWrapper(cast(BinaryIO, raw), encoding="utf-8-sig", errors="surrogateescape", newline="\n")


def lines_of(stream: TextIOWrapper, path: str) -> Iterator[str]:
    """The lines with their ends. Raises InputError where one does not end."""
    for number, line in enumerate(iter(lambda: stream.readline(MOST_CHARACTERS), ""), 1):
        if len(line) == MOST_CHARACTERS and not line.endswith("\n"):
            raise InputError(
                f"{path}, line {number}, has more than {MOST_CHARACTERS:,} characters: a record is a line, so cut the "
                "file into lines."
            )
        yield line


def numbered_lines(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a file with their ends and their numbers, from 1. Raises InputError."""
    with opened(path) as stream:
        yield from enumerate(lines_of(stream, path), 1)


def unpacked_ending(path: str) -> str:
    """Return the ending of a file in lowercase; of a packed one that of its content.

    >>> unpacked_ending("rows.JSONL.gz"), unpacked_ending("rows.tsv"), unpacked_ending("eng.train")
    ('.jsonl', '.tsv', '.train')
    """
    lowered = Path(path.lower())
    return Path(lowered.stem).suffix if lowered.suffix in PACKED_ENDINGS else lowered.suffix
