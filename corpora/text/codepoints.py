"""Code points, sorted into the classes that matter where sentences begin and end.

Promise: `classify_at` reads valid UTF-8, looks at no byte outside the character it is asked for, and says of a byte
what `classify_character`, its definition, says of the character there.
The classes are Unicode's general categories but for the marks named here, so they follow the version of the
Unicode tables that Python carries (`unicodedata.unidata_version`).

Cost: a few nanoseconds a character; the table of classes is 128 kB, made in 0.04 s and kept on disk.
"""
# ruff: noqa: RUF001 - typographic marks are the subject here

import unicodedata
from functools import cache

import numpy as np

from corpora.kernels.array_cache import read_or_make_arrays
from corpora.kernels.arrays import Bytes
from corpora.kernels.compiling import kernel
from corpora.kernels.utf8 import decode

# What a character is to the splitter. The order matters: only those up to WIDE_ENDER start a decision, and
# the kernels compare ranges.
SPACE, PERIOD, ENDER, WIDE_ENDER, CLOSER, QUOTE, OPENER, DASH = range(8)
COMMA, UPPER, LOWER, DIGIT, LETTER, SYMBOL, OTHER = range(8, 15)
_TABLE_SIZE = 0x20000  # above are ideographs up to 0x3FFFF, and nothing that opens or ends a sentence
_SPECIAL = {
    PERIOD: ".",
    ENDER: "!?…‽؟۔։",
    WIDE_ENDER: "。！？｡．।॥။።፧།༎។៕",
    CLOSER: ")]}»›”’」』】）",
    QUOTE: "\"'`",
    OPENER: "([{«‹“‘„‚「『【（¿¡_*",
    DASH: "-‐‑‒–—―",
    COMMA: ",;",
}
BULLETS = "-*•‣▪●◦"


def classify_character(character: str) -> int:
    """Return the class of one character for the sentence splitter: one of the fifteen constants from SPACE to OTHER."""
    code = ord(character)
    return int(read_character_classes()[code]) if code < _TABLE_SIZE else LETTER if code < 0x40000 else OTHER


@cache
def read_character_classes() -> Bytes:
    """Return the class of each code point below 0x20000: uint8 [0x20000], one of the constants from SPACE to OTHER.

    The array is cached in memory and on disk. If it is not on disk, it is computed and written there.

    Raises:
        OSError: If the array cannot be written to disk.
        InputError: If the cache folder cannot be created.
    """
    name = f"character classes, Unicode {unicodedata.unidata_version}"
    return read_or_make_arrays(name, __file__, lambda: {"classes": _build_character_classes()})["classes"]


def _build_character_classes() -> Bytes:
    categories = {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER, "Lo": LETTER, "Lm": LETTER, "Nd": DIGIT, "Nl": DIGIT}
    categories |= {"Sc": SYMBOL, "So": SYMBOL, "Sm": SYMBOL, "Sk": SYMBOL}
    classes = np.full(_TABLE_SIZE, OTHER, np.uint8)
    for code in range(_TABLE_SIZE):
        character = chr(code)
        kind = categories.get(unicodedata.category(character), OTHER)
        classes[code] = SPACE if character.isspace() else kind
    for kind, characters in _SPECIAL.items():
        classes[[ord(character) for character in characters]] = kind
    return classes


@kernel
def classify_at(data: Bytes, at: int, classes: Bytes) -> tuple[int, int]:
    """Return the class and the width in bytes of the character at byte `at` of valid UTF-8.

    `classes` is the array that `read_character_classes` returns.
    """
    code, width = decode(data, at)
    if code < classes.size:
        return int(classes[code]), width
    return (LETTER if code < 0x40000 else OTHER), width


def pack_word(word: bytes) -> int:
    """Pack a word into a signed 64-bit integer, first byte highest, as `pack_bytes` does.

    ASCII capitals are converted to lower case. The result is 0 for an empty word or one of more than eight bytes.

    >>> pack_word(b"Dr") == pack_word(b"dr") == 0x6472
    True
    """
    key = int.from_bytes(word.lower(), "big") if len(word) <= 8 else 0
    return key - (key >> 63 << 64)  # as 64 bits with a sign hold it


@kernel
def pack_bytes(data: Bytes, start: int, stop: int) -> int:
    """Pack data[start:stop] into a big-endian integer, with ASCII capitals converted to lower case.

    Returns 0 if there are no bytes or more than eight.
    """
    if stop - start > 8:
        return 0
    key = 0
    for at in range(start, stop):
        byte = int(data[at])
        key = key << 8 | (byte + 32 if 65 <= byte <= 90 else byte)
    return key
