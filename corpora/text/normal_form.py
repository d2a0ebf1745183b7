"""NFC in time linear in the text, whatever marks follow each other in it.

Promise: `to_nfc` equals `unicodedata.normalize("NFC", text)`. That one brings the marks of a letter into their
canonical order by exchanging neighbors, which takes time quadratic in their number if they are mixed: half a second
for 25,000 in a row. Here a run of more than `MAX_MARKS_IN_A_ROW` of them is decomposed and sorted before, which
changes nothing of what it is to Unicode. Cost: normalizing, and one search for such a run.
"""

import re
import unicodedata
from functools import cache
from itertools import chain

MAX_MARKS_IN_A_ROW = 30  # more non-starters in a row are in no text that means something: UAX #15, section 13
_PERHAPS_LONG = re.compile("[\u0300-\U0001ffff]{31}")  # the pattern of marks takes 0.1 s to make
_MARKS_END = 0x20000  # from here on nothing is a mark, or decomposes into one first


def to_nfc(text: str) -> str:
    """Convert a text to NFC, as `unicodedata.normalize` does, but in linear time.

    >>> to_nfc("e\\u0316\\u0301") == "é\\u0316"
    True
    """
    return unicodedata.normalize(
        "NFC", _build_long_run_pattern().sub(_sort_marks, text) if _PERHAPS_LONG.search(text) else text
    )


def is_non_starter(character: str) -> bool:
    """Return True if a character is, or decomposes into, combining marks to which canonical ordering applies."""
    return unicodedata.combining(unicodedata.normalize("NFD", character)[0]) > 0


@cache
def _build_long_run_pattern() -> re.Pattern[str]:
    marks = "".join(map(re.escape, filter(is_non_starter, map(chr, range(_MARKS_END)))))
    return re.compile(f"[{marks}]{{{MAX_MARKS_IN_A_ROW + 1},}}")


def _sort_marks(run: re.Match[str]) -> str:
    """Return a run of combining marks, decomposed and in canonical order."""
    single = {character: unicodedata.normalize("NFD", character) for character in set(run[0])}
    marks = chain.from_iterable(map(single.__getitem__, run[0]))
    return "".join(sorted(marks, key=unicodedata.combining))
