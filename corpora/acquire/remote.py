"""A file as it is wanted: where it is, what it will be called here, how long it is and which digests it must have.

Promise: a name that comes from a server or a list is that of a file directly in its folder, or it is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from corpora.errors import InputError
from corpora.store.manifest import Json

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
        check_name(self.name)
        for kind, digits in DIGEST_DIGITS.items():
            value = getattr(self, kind)
            if value is not None and not re.fullmatch(f"[0-9a-f]{{{digits}}}", value):
                raise InputError(f"{self.url}: {value!r} is no {kind}: it must be {digits} hexadecimal digits.")
        if self.size_bytes is not None and self.size_bytes < 0:
            raise InputError(f"{self.url}: a size of {self.size_bytes} bytes is impossible.")

    @property
    def digests(self) -> dict[str, str]:
        """The digests that are known, the strongest first."""
        values = {kind: getattr(self, kind) for kind in DIGEST_DIGITS}
        return {kind: value for kind, value in values.items() if value is not None}

    def to_json(self) -> dict[str, Json]:
        """Return its known facts."""
        fields = {"url": self.url, "name": self.name, "size_bytes": self.size_bytes, **self.digests}
        return {key: value for key, value in fields.items() if value is not None}

    @staticmethod
    def from_json(data: Mapping[str, Json]) -> "RemoteFile":
        """The file that `to_json` wrote. Raises InputError."""
        for key, value in data.items():
            if key not in _KINDS or type(value) is not _KINDS[key]:
                raise InputError(f"{key!r} = {value!r} is nothing that is known of a file.")
        if "url" not in data or "name" not in data:
            raise InputError("a file lacks its `url` or its `name`.")
        return RemoteFile(**data)


_KINDS = {"url": str, "name": str, "size_bytes": int, **dict.fromkeys(DIGEST_DIGITS, str)}


def check_name(name: str) -> None:
    """Raise InputError unless a name is that of one file directly in a folder."""
    fault = None
    if not name or name in (".", "..") or "/" in name or "\\" in name:
        fault = "it must name one file and no folder"
    elif not name.isprintable():
        fault = "it holds characters that cannot be shown"
    elif name.startswith(".") or name.endswith(UNFINISHED):
        fault = "it begins with a dot or ends as an unfinished download does"
    elif len(name.encode(errors="surrogatepass")) > NAME_BYTES:
        fault = f"it is longer than {NAME_BYTES} bytes"
    if fault is not None:
        raise InputError(f"{name[:200]!r} cannot be the name of a raw file: {fault}. Give it another with name=...")


def name_of(url: str) -> str:
    """Return the name of a file by its address: the last step of the path. Raises InputError.

    >>> name_of("https://example.org/books/Alice%20in%20Wonderland.txt?raw=1")
    'Alice in Wonderland.txt'
    """
    name = unquote(urlsplit(url).path.rpartition("/")[2], errors="replace")
    try:
        check_name(name)
    except InputError as error:
        raise InputError(f"{url}: {error}") from error
    return name
