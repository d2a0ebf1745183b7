"""Decides which texts a person may see next to the data: as they are, hashed, or not at all.

Promises: `Privacy.show` and `to_one_line` return one line of bounded length. Control characters and characters that
change the direction of text become U+FFFD, so the result cannot act on a terminal or a page.
"""

import hashlib
import re
import unicodedata
from dataclasses import dataclass

from corpora.schema import Locator
from corpora.store.settings import check_choice

MODES = ("text", "hashed", "none")
MAX_TITLE_CHARACTERS = 120
MAX_DETAIL_CHARACTERS = 200
HASH_DIGITS = 12


def to_one_line(text: str, limit: int) -> str:
    """Return a text as one printable line of at most `limit` characters.

    Runs of white space become single spaces, control and bidirectional formatting characters become U+FFFD, and a
    truncated text ends in "…".

    >>> to_one_line("one\\x1b[31m\\n two three", 14)
    'one\ufffd[31m two …'
    """
    beginning = " ".join(text[: 4 * limit].split())
    clean = to_printable(beginning)
    return clean if len(clean) <= limit and len(text) <= 4 * limit else clean[: limit - 1] + "…"


def to_printable(text: str) -> str:
    """Replace control and bidirectional formatting characters with U+FFFD, to make a text safe to print."""
    return "".join("\ufffd" if _is_unprintable(character) else character for character in text)


def _is_unprintable(character: str) -> bool:
    """Return True for a control character, a lone surrogate, or a bidirectional formatting character."""
    turning = "\u202a" <= character <= "\u202e" or "\u2066" <= character <= "\u2069"
    return turning or unicodedata.category(character) in ("Cc", "Cs")


def without_folders(recipe: str) -> str:
    """Return a recipe's text with each quoted absolute path shortened to its last component.

    >>> without_folders('path = "/data/ada/texts/*.jsonl"')
    'path = "…/*.jsonl"'
    """
    return re.sub(r"""(["'])/(?:[^"'/\n]*/)*([^"'/\n]+)/?(?=\1)""", r"\1…/\2", recipe)


@dataclass(frozen=True, slots=True)
class Privacy:
    """How document text is shown in the report, artifacts and logs.

    samples: "text" shows it as it is, "hashed" as a digest, "none" not at all
    """

    samples: str = "text"

    def __post_init__(self) -> None:
        check_choice("privacy.samples", self.samples, MODES)

    def show(self, text: str | None, limit: int = MAX_TITLE_CHARACTERS) -> str:
        """Return what may be shown of a text: the text as one line, its digest, or "".

        With `samples = "text"`, the result is one line of at most `limit` characters; with "hashed", the first 12
        hexadecimal digits of the text's sha256; with "none", "". For None or an empty text, it is always "".
        """
        if not text or self.samples == "none":
            return ""
        if self.samples == "hashed":
            return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
        return to_one_line(text, limit)

    def format_locator(self, locator: Locator) -> str:
        """Format the position of a record in its raw file, such as "file 3f2a9c1b0011: bytes 0-120".

        Unless `samples` is "text", the file name, which could identify a person, is replaced by the first 12 digits of
        the file's sha256.
        """
        if self.samples == "text":
            return to_one_line(str(locator), MAX_DETAIL_CHARACTERS)
        stream = f"stream {locator.stream}, " if locator.stream >= 0 else ""
        return f"file {locator.sha256[:12]}: {stream}bytes {locator.offset}-{locator.offset + locator.length}"
