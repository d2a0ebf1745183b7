"""A file as it is wanted: where it is, what it will be called here, how long it is and which digests it must have.

Promise: a name that comes from a server or a list is that of a file directly in its folder, or it is refused.
"""

import re
from dataclasses import dataclass, fields
from urllib.parse import unquote, urlsplit

from corpora.acquire.wanted import check_address
from corpora.errors import InputError
from corpora.generic_types import Json

NAME_BYTES = 240  # of the 255 that a file system allows: the rest is for the endings of an unfinished file
UNFINISHED = (".part", ".part.json")
DIGEST_DIGITS = {"sha256": 64, "sha1": 40, "md5": 32}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """One file at a publisher's. Unknown facts are None."""

    url: str
    name: str
    size_bytes: int | None = None
    sha256: str | None = None
    sha1: str | None = None
    md5: str | None = None

    def __post_init__(self) -> None:
        check_address("A file to fetch", self.url)
        check_name(self.name)
        for kind, digits in DIGEST_DIGITS.items():
            value = getattr(self, kind)
            if value is not None and not re.fullmatch(f"[0-9a-f]{{{digits}}}", value):
                raise InputError(f"{self.url}: {value!r} is no {kind}: it must be {digits} hexadecimal digits.")
        if self.size_bytes is not None and self.size_bytes < 0:
            raise InputError(f"{self.url}: a size of {self.size_bytes} bytes is impossible.")

    @property
    def promised(self) -> tuple[str, str] | None:
        """The strongest digest that is known, as its kind and digits; None if there is none."""
        return next(((kind, digits) for kind in DIGEST_DIGITS if (digits := getattr(self, kind)) is not None), None)

    def to_json(self) -> dict[str, Json]:
        """Return its known facts."""
        known = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {key: value for key, value in known if value is not None}


def check_name(name: str) -> None:
    """Raise InputError unless a name is that of one file directly in a folder."""
    folder = name in ("", ".", "..") or "/" in name or "\\" in name
    unfinished = name.startswith(".") or name.endswith(UNFINISHED)
    if folder or unfinished or not name.isprintable() or len(name.encode(errors="surrogatepass")) > NAME_BYTES:
        raise InputError(
            f"{name[:200]!r} cannot be the name of a raw file: it must name one file and no folder, in at most "
            f"{NAME_BYTES} bytes that can be shown, and neither begin with a dot nor end as unfinished downloads do. "
            "Give it another with name=..."
        )


def name_of(url: str) -> str:
    """Return the name of a file by its address: the last step of the path.

    >>> name_of("https://example.org/books/Alice%20in%20Wonderland.txt?raw=1")
    'Alice in Wonderland.txt'
    """
    return unquote(urlsplit(url).path.rpartition("/")[2], errors="replace")
