"""Damaged bytes: the faults that reading raw files raises, and what the libraries raise that unpack them.

Promises: whatever the packing, bytes that cannot be read on raise `DamagedBytes`, or, if a file object gives them,
one of `READ_FAULTS`, which `explain_damage` makes an InputError; one record among others that cannot be used raises
`BadRecord`. What else names an exception of gzip, bzip2, xz or zstd reads bodies inside a record, or is a file object
itself (`raw_files.py`).
"""

import gzip
import lzma
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from corpora.errors import InputError

# What a library raises for packed bytes that are damaged, by their packing; zstd is read by Arrow.
DAMAGE_ERRORS: Mapping[str, tuple[type[Exception], ...]] = {
    "gz": (gzip.BadGzipFile, zlib.error),
    "bz2": (OSError,),
    "xz": (lzma.LZMAError,),
    "zst": (OSError,),
}
REPACK = "Pack it again with a smaller window, as `xz -9` and `zstd -19` do, or leave it unpacked."
CUT_OFF_ERROR = EOFError  # what a file object of gzip, bzip2 or xz raises where its bytes end too soon
READ_FAULTS: tuple[type[Exception], ...] = (
    OSError,
    CUT_OFF_ERROR,
    *(fault for faults in DAMAGE_ERRORS.values() for fault in faults),
)


class DamagedBytes(ValueError):
    """Raised if bytes of a raw file cannot be read any further. The message names the bytes and describes the damage.

    position:  byte in the file at which the damage was found
    stream:    byte at which the damaged compressed stream begins; -1 if it is unknown or the file is not compressed
    truncated: True if the data ends too early
    remedy:    a sentence that says how to fix the problem
    """

    def __init__(
        self,
        message: str,
        position: int,
        *,
        stream: int = -1,
        truncated: bool = False,
        remedy: str = "Get the file again.",
    ) -> None:
        super().__init__(message)
        self.position = position
        self.stream = stream
        self.truncated = truncated
        self.remedy = remedy


class BadRecord(ValueError):
    """Raised if a record, line, row or page is not in its expected format. The message explains why."""


def needs_memory(error: BaseException | None) -> bool:
    """Return True if an error means that xz or zstd would need more memory than allowed, not that bytes are damaged.

    Return False for None.
    """
    return isinstance(error, (*DAMAGE_ERRORS["xz"], *DAMAGE_ERRORS["zst"])) and "memory" in str(error).lower()


@contextmanager
def explain_damage(path: Path) -> Iterator[None]:
    """Convert errors caused by unreadable data (`READ_FAULTS`) in this block to InputError (a context manager).

    The message of the InputError names the file at `path` and suggests a remedy.
    """
    try:
        yield
    except READ_FAULTS as error:
        remedy = REPACK if needs_memory(error) else "Get it again."
        raise InputError(f"{path} cannot be read to its end: {error}. {remedy}") from error
