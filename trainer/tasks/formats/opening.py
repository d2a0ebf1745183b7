"""A file as text, unpacked by its ending, and its lines.

Promise: bytes that are no UTF-8 become surrogates, by which their record is known; a file of another encoding, one that
is damaged and a line without end are refused with the remedy. Memory: one line.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, cast

from corpora.errors import InputError
from corpora.sources.bytes.faults import refusing_damage
from corpora.sources.bytes.raw_files import open_raw
from corpora.sources.bytes.wide import marked_encoding

MOST_CHARACTERS = 1 << 26  # of a line


@contextmanager
def opened(path: str) -> Iterator[TextIOWrapper]:
    """A file as text of UTF-8, without its mark. Raises InputError, also for what is wrong as it is read on."""
    with open_raw(Path(path)) as raw, refusing_damage(Path(path)):
        if raw.seekable():
            wide = marked_encoding(raw.read(4))
            if wide:
                raise InputError(f"{path} is {wide.upper()}, and UTF-8 is read: convert it, for instance with iconv.")
            raw.seek(0)
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
