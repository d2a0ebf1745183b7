"""NFC in time linear in the text, whatever marks follow each other in it.

Promise: `nfc` equals `unicodedata.normalize("NFC", text)`. That one brings the marks of a letter into their canonical
order by exchanging neighbors, which takes time quadratic in their number where they are mixed: half a second for
25,000 in a row. Here a run of more than `STREAM_SAFE` of them is decomposed and sorted before, which changes nothing
of what it is to Unicode. Cost: normalizing, and one search for such a run.
"""

import re
import unicodedata
from functools import cache
from itertools import chain

STREAM_SAFE = 30  # more non-starters in a row are in no text that means something: UAX #15, section 13
_PERHAPS_LONG = re.compile("[\u0300-\U0001ffff]{31}")  # the pattern of marks takes 0.1 s to make
_LAST = 0x20000  # from here on nothing is a mark, or decomposes into one first


def nfc(text: str) -> str:
    """A text in NFC.

    >>> nfc("e\\u0316\\u0301") == "é\\u0316"
    True
    """
    return unicodedata.normalize("NFC", _long_runs().sub(_sorted, text) if _PERHAPS_LONG.search(text) else text)


def is_non_starter(character: str) -> bool:
    """Return True if a character is, or decomposes into, marks that are put into an order."""
    return unicodedata.combining(unicodedata.normalize("NFD", character)[0]) > 0


@cache
def _long_runs() -> re.Pattern[str]:
    marks = "".join(map(re.escape, filter(is_non_starter, map(chr, range(_LAST)))))
    return re.compile(f"[{marks}]{{{STREAM_SAFE + 1},}}")


def _sorted(run: re.Match[str]) -> str:
    """The marks of a run, decomposed and in canonical order."""
    single = {character: unicodedata.normalize("NFD", character) for character in set(run[0])}
    marks = chain.from_iterable(map(single.__getitem__, run[0]))
    return "".join(sorted(marks, key=unicodedata.combining))
