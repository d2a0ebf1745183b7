"""Lines in UTF-16, UTF-32 and older encodings, recoded to UTF-8 as they are read.

Lines and rows are found by bytes, so a file of them in such an encoding is read as if UTF-8 had been packed in it:
offsets are those of the UTF-8. Promise: what is not in the wide encoding that was found ends the reading of the file,
and is said; what is not in an older one is a bad line.
Cost: the codec's own; a look at the beginning of each file.
"""

import codecs
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.errors import InputError
from corpora.sources.bytes.faults import explain_damage
from corpora.sources.bytes.raw_files import AUTO, open_raw, pass_bytes
from corpora.sources.bytes.text_encodings import (
    HEAD_BYTES,
    HOW_TO_SAY,
    SAMPLE_BYTES,
    UNKNOWN,
    UTF_8,
    WESTERN,
    guess_encoding,
    guess_wide_encoding,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PIECE_BYTES = 1 << 16
MAX_ASCII_BYTES = 1 << 24  # bytes of ASCII at a file's beginning, after which no other is looked for


class NotWide(OSError):
    """Raised if bytes are not valid in the encoding detected at the beginning of their file."""


def find_source_encoding(path: Path) -> str:
    """Detect the encoding from which a file of lines must be converted, such as "utf-16-le" or "cp1251".

    Return "" for UTF-8 and windows-1252, which are read without conversion.

    Raises:
        InputError: If the file cannot be read, or its encoding cannot be determined.
    """
    with open_raw(path) as stream, explain_damage(path):
        head = stream.read(SAMPLE_BYTES)
        if wide := guess_wide_encoding(head[:HEAD_BYTES]):
            return wide
        passed = 0
        while head and head.isascii() and passed < MAX_ASCII_BYTES:
            passed += len(head)
            head = stream.read(SAMPLE_BYTES)
        codec = guess_encoding(head + stream.read(SAMPLE_BYTES), whole=not stream.read(1))
    if codec == UNKNOWN:
        raise InputError(f"{path} cannot be read: {HOW_TO_SAY}")
    return "" if codec in (UTF_8, WESTERN) else codec


def open_lines(path: Path, codec: str) -> BufferedIOBase:
    """Open a file for reading, decompress it, and convert it from the encoding `codec` ("" for none) to UTF-8.

    Reading raises NotWide if a UTF-16 or UTF-32 text is invalid. Bytes that are invalid in another encoding are kept,
    so that only their line is not UTF-8.

    Raises:
        InputError: If the file cannot be opened.
    """
    stream = open_raw(path)
    return BufferedReader(_RecodedFile(stream, codec)) if codec else stream


def read_lines_again(path: Path, offset: int, length: int, encoding: str) -> bytes:
    """Read `length` bytes of a file's decompressed content, beginning at byte `offset`.

    If `encoding` is "auto", the content is first converted to UTF-8, and the bytes are counted after conversion.

    Raises:
        InputError: If the file cannot be read, or its encoding cannot be determined.
    """
    codec = find_source_encoding(path) if encoding == AUTO else ""
    with open_lines(path, codec) as stream, explain_damage(path):
        pass_bytes(stream, offset)
        return stream.read(length)


class _RecodedFile(RawIOBase):
    """A readable stream that converts the text of another stream from the encoding `codec` to UTF-8.

    The byte order mark is removed.
    """

    def __init__(self, stream: BufferedIOBase, codec: str) -> None:
        self._stream, self._codec = stream, codec
        self._errors = "strict" if codec.startswith("utf-") else "surrogateescape"
        self._decoder = codecs.getincrementaldecoder(codec)(self._errors)
        self._left = memoryview(b"")
        self._begun = self._ended = False

    def readable(self) -> bool:
        """Return True. The stream is readable."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read UTF-8 bytes into a buffer, and return their number, which is 0 only at the end.

        The buffer may not be filled completely.

        Raises:
            NotWide: If the text is not valid UTF-16 or UTF-32 as detected.
        """
        view = memoryview(buffer).cast("B")
        while not self._left and not self._ended:
            self._left = memoryview(self._read_next())
        size = min(len(view), len(self._left))
        view[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def _read_next(self) -> bytes:
        """Read and convert the next 64 kB. The result may be b"" before the end; `_ended` is True after it.

        Raises:
            NotWide: If the text is not valid UTF-16 or UTF-32 as detected.
        """
        data = self._stream.read(PIECE_BYTES)
        self._ended = not data
        try:
            text = self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            raise NotWide(f"it is not {self._codec} throughout: {error.reason}") from error
        if text and not self._begun:
            self._begun, text = True, text.removeprefix("\ufeff")
        return text.encode(errors=self._errors)

    def close(self) -> None:
        """Close this stream and the stream with the original text."""
        self._stream.close()
        super().close()
