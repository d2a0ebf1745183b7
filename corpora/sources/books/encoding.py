r"""The encoding of a text file, found by its mark, its bytes, its header, and at last by what makes words of it.

    byte order mark ─► UTF-8 if all is valid, or nearly all ─► what Gutenberg's header says ─► windows-1252,
                                                                  or MacRoman or code page 437 if they are clearly it

Promises: a pure function of the bytes. What calls itself ASCII or ISO-8859-1 is read as windows-1252 too, and its
five bytes without a meaning are read as Latin-1. Stray bytes in a file that else is UTF-8 are read as
windows-1252. A zero byte in the text, or a mark that is not true, raises BadBook.
Costs: 240 MB/s of ASCII and UTF-8, its line ends made one kind; 30 MB/s of eight-bit text (9 novels).
"""

import codecs
import re
from collections import Counter
from itertools import islice

from corpora.sources.books.epub import BadBook
from corpora.sources.books.gutenberg import find_stated_encoding

MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
EIGHT_BIT = ("cp1252", "mac-roman", "cp437")  # the first where none is clearly it
PLAIN_NAMES = frozenset("utf-8 utf8 iso-8859-1 iso-latin-1 latin-1 latin1 windows-1252 cp1252".split())
CODECS = ("iso8859", "cp", "koi8", "mac", "gb", "big5", "shift_jis", "euc", "tis", "ptcp")  # that may be stated
HEAD_BYTES = 30_000
MAX_WITNESSES = 20_000  # bytes beyond ASCII that are asked what they make
MIN_LEAD = 0.5  # by how much of them another encoding must make more sense than windows-1252
STRAY_SHARE = 0.1  # of bytes that are no UTF-8, to sequences that are, up to which a file is UTF-8 with strays
UTF8_OR_STRAY = re.compile(
    rb"""[\xc2-\xdf][\x80-\xbf]
       | \xe0[\xa0-\xbf][\x80-\xbf] | [\xe1-\xec\xee\xef][\x80-\xbf]{2} | \xed[\x80-\x9f][\x80-\xbf]
       | \xf0[\x90-\xbf][\x80-\xbf]{2} | [\xf1-\xf3][\x80-\xbf]{3} | \xf4[\x80-\x8f][\x80-\xbf]{2}
       | (?P<stray>[\x80-\xff])""",
    re.X,
)
RUN = re.compile(rb"[\x80-\xff]+")
STRAYS = "utf-8 with strays"
CP1252 = {byte: bytes([byte]).decode("cp1252") for byte in range(0x80, 0xA0) if byte not in b"\x81\x8d\x8f\x90\x9d"}


def decode_text(data: bytes) -> str:
    r"""Decode the bytes of a book's text file in its guessed encoding. Line endings are converted to `\n`.

    Raises:
        BadBook: If the text contains NUL bytes, or is not valid in the encoding of its byte order mark.

    >>> decode_text(b"caf\xe9\r\n"), decode_text(b"\xef\xbb\xbfcaf\xc3\xa9"), decode_text(b"caf\x8e, cr\x90pe, th\x8e")
    ('café\n', 'café', 'café, crêpe, thé')
    """
    encoding = guess_encoding(data)
    if encoding == STRAYS:
        return _normalize_line_ends(UTF8_OR_STRAY.sub(_to_utf8, data).decode())
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding == "cp1252":
            return _normalize_line_ends(data.decode("latin-1").translate(CP1252))
        raise BadBook(f"its mark says {encoding}, which it is not at byte {error.start}: {error.reason}") from error
    if "\0" in text:
        raise BadBook(f"no text: a zero at character {text.index(chr(0))}")
    return _normalize_line_ends(text)


def guess_encoding(data: bytes) -> str:
    r"""Guess the encoding of a book's text file.

    Return the name of a codec, or `STRAYS` for UTF-8 with a few invalid bytes.

    Raises:
        BadBook: If the file contains NUL bytes and is not UTF-16.

    >>> [guess_encoding(data) for data in (b"cafe", b"caf\xc3\xa9", b"caf\xe9", "\ufeffcafé".encode("utf-16-le"))]
    ['ascii', 'utf-8', 'cp1252', 'utf-16']
    """
    if data.isascii():
        return "ascii" if b"\0" not in data else _guess_utf16(data)
    for mark, encoding in MARKS.items():
        if data.startswith(mark):
            return encoding
    if b"\0" in data:
        return _guess_utf16(data)
    try:
        data.decode()
    except UnicodeDecodeError:
        return STRAYS if _is_nearly_utf8(data) else _choose_by_header(data)
    return "utf-8"


def _guess_utf16(data: bytes) -> str:
    """Return the UTF-16 codec for bytes without a byte order mark. Most of every second byte must be zero.

    Raises:
        BadBook: If the bytes are not UTF-16.
    """
    even, odd = data[::2].count(0), data[1::2].count(0)
    if 8 * max(even, odd) > 3 * len(data) and 50 * min(even, odd) < max(even, odd) and len(data) % 2 == 0:
        return "utf-16-be" if even > odd else "utf-16-le"
    raise BadBook(f"no text: a zero at byte {data.index(0)}")


def _is_nearly_utf8(data: bytes) -> bool:
    """Return True if the invalid bytes of a UTF-8 text are less than a tenth of its multi-byte characters."""
    counts = Counter(match["stray"] is None for run in RUN.findall(data) for match in UTF8_OR_STRAY.finditer(run))
    strays, sequences = counts[False], counts[True]
    return strays < STRAY_SHARE * sequences


def _to_utf8(match: re.Match[bytes]) -> bytes:
    """Return the bytes matched by `UTF8_OR_STRAY` as UTF-8. A stray byte is converted from windows-1252."""
    stray = match["stray"]
    return _decode_byte(stray, "cp1252").encode() if stray else match[0]


def _choose_by_header(data: bytes) -> str:
    """Return the codec for an 8-bit text: the one in Gutenberg's header if it is valid, else the best guess."""
    stated = (
        (find_stated_encoding(_normalize_line_ends(data[:HEAD_BYTES].decode("latin-1"))) or "ascii")
        .lower()
        .replace(" ", "-")
    )
    if "ascii" in stated or stated in PLAIN_NAMES:
        return _choose_by_words(data)
    try:
        codec = codecs.lookup(stated).name
        usable = codec.startswith(CODECS) and bool(data.decode(codec))
    except (LookupError, UnicodeDecodeError):
        usable = False  # an invented name, or a wrong one: the bytes say more
    return codec if usable else _choose_by_words(data)


def _choose_by_words(data: bytes) -> str:
    """Return the codec in `EIGHT_BIT` with which the non-ASCII bytes make the most sense between their neighbors."""
    starts = (match.start() for match in islice(RUN.finditer(data), MAX_WITNESSES))
    witnesses = Counter((data[max(at - 1, 0) : at], data[at : at + 1], data[at + 1 : at + 2]) for at in starts)
    sense = {encoding: _score_encoding(encoding, witnesses) for encoding in EIGHT_BIT}
    best = max(EIGHT_BIT, key=lambda encoding: sense[encoding])  # of equals the first
    first = EIGHT_BIT[0]
    return best if sense[best] - sense[first] > MIN_LEAD * witnesses.total() else first


def _score_encoding(encoding: str, witnesses: Counter[tuple[bytes, bytes, bytes]]) -> int:
    """Return how well an encoding explains the non-ASCII bytes of a text: the sum of the scores of all characters.

    `witnesses` counts each (byte before, non-ASCII byte, byte after) in the text.
    """
    total = 0
    for (before, byte, after), times in witnesses.items():
        character = _decode_byte(byte, encoding)
        total += times * _score_character(before.decode("latin-1"), character, after.decode("latin-1"))
    return total


def _score_character(before: str, character: str, after: str) -> int:
    """Score how well a character fits between its neighbors: 1 if it fits, -1 if it cannot occur there, otherwise 0.

    `before` and `after` are the characters next to it; "" at the beginning or end of the text.
    """
    within = _is_letter(before) or _is_letter(after)
    if character.isalpha():
        begins = not _is_letter(before) or before.isupper()
        return (1 if within else 0) if character.islower() or begins else -1
    if character in "\u2018\u201c":
        return 1 if not _is_letter(before) and after and not after.isspace() else -1
    if character in "\u2019\u201d":
        return 1 if before and not before.isspace() else 0
    if character in "\u2013\u2014\u2026":
        return 1
    return -1 if within or not character.isprintable() else 0


def _is_letter(character: str) -> bool:
    """Return True if `character` is a single ASCII letter."""
    return character.isascii() and character.isalpha()


def _decode_byte(byte: bytes, encoding: str) -> str:
    """Decode one byte with an encoding, or as Latin-1 if the encoding does not define it."""
    try:
        return byte.decode(encoding)
    except UnicodeDecodeError:
        return byte.decode("latin-1")


def _normalize_line_ends(text: str) -> str:
    r"""Convert the line endings of a text to `\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
