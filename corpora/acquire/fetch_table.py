"""The files to be fetched for a source: the `fetch` table of a `[[source]]`, checked before anything is asked.

None of it determines the bytes of documents: raw files enter by their content. `to_question_json` is the part that
decides which files are meant: no other key has `latest` or a month looked up again.

A file as it is wanted: its address, what it will be called here, how long it is and which digests it must have.

Promise: a name that comes from a server or a list is that of a file directly in its folder, or it is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import unquote, urlsplit

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.places.address import has_secret, without_password
from corpora.store.settings import bind_settings, check_choice, check_range

WIKIMEDIA = "https://dumps.wikimedia.org"
COMMON_CRAWL = "https://data.commoncrawl.org"
PUBLISHERS = {"wikipedia": WIKIMEDIA, "cc-news": COMMON_CRAWL, "wet": COMMON_CRAWL}
CATALOGUES = (*PUBLISHERS, "urls")
USER_AGENT = "cloze-pipeline/0.1"
DUMP = re.compile(r"(?P<wiki>[a-z][a-z0-9_]*)-(?P<date>\d{8}|latest)")
MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])|latest")
CRAWL = re.compile(r"CC-MAIN-\d{4}-\d{2}")
# The keys that say what is wanted: the catalogue of each, the form of its values, and examples.
WANTED_KEYS = {
    "dump": ("wikipedia", DUMP, 'dump = "enwiki-20261101" or "enwiki-latest"'),
    "months": ("cc-news", MONTH, 'months = ["2026-10"] or months = "latest"'),
    "crawl": ("wet", CRAWL, 'crawl = "CC-MAIN-2026-40"'),
    "urls": ("urls", re.compile(r"https?://.*"), 'urls = ["https://example.org/a.txt"]'),
    "list": ("urls", re.compile(r".+"), 'list = "addresses.txt"'),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireSettings:
    """The `fetch` table of a source.

    catalogue:            "wikipedia", "cc-news", "wet" (Common Crawl's plain text) or "urls"
    dump:                 a wiki and a date, such as "enwiki-20261101"; "enwiki-latest" is the newest finished dump
    months:               months of CC-NEWS, such as ["2026-10"]; "latest" is the newest month that has files
    crawl:                a crawl, such as "CC-MAIN-2026-40"
    urls:                 URLs, each optionally followed by the file's sha256, sha1 or md5, its size in bytes, and
                          name=...
    list:                 a text file of such lines: a path relative to the recipe, or a URL
    mirror:               base URL to use instead of the publisher's
    limit:                maximum number of files, counted from the first one (a dump and its index are one); None: all
    folder:               the folder for the raw files; "": `raw/` and the source's name
    connections_per_host: maximum number of simultaneous downloads from one host
    user_agent:           how the client identifies itself; a publisher may want an address to write to
    """

    catalogue: str
    dump: str | None = None
    months: tuple[str, ...] = ()
    crawl: str | None = None
    urls: tuple[str, ...] = ()
    list: str | None = None
    mirror: str | None = None
    limit: int | None = None
    folder: str = ""
    connections_per_host: int = 2
    user_agent: str = USER_AGENT

    def __post_init__(self) -> None:
        check_choice("fetch.catalogue", self.catalogue, CATALOGUES)
        if self.limit is not None:
            check_range("fetch.limit", self.limit, 1, 10_000_000)
        check_range("fetch.connections_per_host", self.connections_per_host, 1, 32)
        if not self.user_agent.isascii() or not self.user_agent.isprintable() or not self.user_agent.strip():
            raise InputError(f"fetch.user_agent = {self.user_agent!r} must be printable ASCII: a name, and an address.")
        self._check_wanted()
        if self.mirror is not None:
            if self.catalogue == "urls":
                raise InputError(
                    'fetch.mirror has no publisher to take the place of with catalogue = "urls": change the addresses.'
                )
            check_address("fetch.mirror", self.mirror)

    def _check_wanted(self) -> None:
        """Check that exactly one key selects the wanted files, and that it is a key for this catalogue.

        Raises:
            InputError: If it is not so, or if the key's value is malformed.
        """
        given = [key for key in WANTED_KEYS if getattr(self, key)]
        if len(given) != 1 or WANTED_KEYS[given[0]][0] != self.catalogue:
            examples = [example for catalogue, _, example in WANTED_KEYS.values() if catalogue == self.catalogue]
            raise InputError(
                f'catalogue = "{self.catalogue}" needs one key that says which files, and none of another catalogue: '
                f"{' or '.join(examples)}."
            )
        (key,) = given
        _, form, example = WANTED_KEYS[key]
        value = getattr(self, key)
        for text in value if isinstance(value, tuple) else (value,):
            if not form.fullmatch(text):
                raise InputError(f"fetch.{key} = {without_password(text)!r} is not of the form {example}.")
            if "://" in text:
                check_address(f"fetch.{key}", text)
        if "latest" in self.months and len(self.months) > 1:
            raise InputError('fetch.months names "latest" with other months: give it alone, or name all months.')

    def to_question_json(self) -> dict[str, Json]:
        """Return the settings that determine which files are wanted, as {"catalogue": ..., KEY: value}.

        KEY is the one of `dump`, `months`, `crawl`, `urls` and `list` that is set.
        """
        key = next(key for key in WANTED_KEYS if getattr(self, key))
        value = getattr(self, key)
        return {"catalogue": self.catalogue, key: list(value) if isinstance(value, tuple) else value}

    def to_mirror(self, url: str) -> str:
        """Return the mirror's URL for a publisher's URL, or the URL unchanged if there is no mirror for it."""
        publisher = PUBLISHERS.get(self.catalogue, "")
        if self.mirror is None or not url.startswith(publisher + "/"):
            return url
        return self.mirror.rstrip("/") + url.removeprefix(publisher)


def read_settings(table: Mapping[str, Json], where: str, source: str) -> AcquireSettings:
    """Read the settings in a source's `fetch` table. If `folder` is missing, it is set to `raw/SOURCE`.

    Args:
        table: The table from the recipe, as a dictionary.
        where: Position of the table in the recipe, for error messages.
        source: Name of the source.

    Raises:
        InputError: If a key is unknown or a value is invalid.

    >>> table = {"catalogue": "cc-news", "months": "latest"}
    >>> read_settings(table, "source 1: fetch", "news").folder
    'raw/news'
    """
    values = dict(table)
    for key in ("months", "urls"):
        if isinstance(values.get(key), str):
            values[key] = [values[key]]
    values["folder"] = values.get("folder") or f"raw/{source}"
    if isinstance(values["folder"], str) and "\0" in values["folder"]:
        raise InputError(f"{where}.folder = {values['folder']!r} is not the name of a folder.")
    return bind_settings(AcquireSettings, values, where)


def is_address(text: str) -> bool:
    """Return True if a string is an HTTP or HTTPS URL with a host and without a user name or password."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def check_address(where: str, line: str) -> None:
    """Check that a line begins with an HTTP or HTTPS URL that has no password, signature or token.

    Args:
        where: Origin of the line, for error messages.
        line: The line to check. Other words may follow the URL.

    Raises:
        InputError: If the line does not begin with such a URL.
    """
    if has_secret(line) or not is_address([*line.split(), ""][0]):
        raise InputError(
            f"{where}: {without_password(line)[:200]!r} is no address: it must be https:// or http:// and a host, "
            "without a password, signature or token, which would stand in the lock, in records and in logs. Name one "
            "that is open to all, or download the file by hand into the source's folder."
        )


def find_folder(settings: AcquireSettings, root: Path) -> str:
    """Return the absolute path of the folder for the source's raw files.

    A relative path is resolved against `root`, the recipe's folder.
    """
    return str((root / settings.folder).resolve())


MAX_NAME_BYTES = 240  # of the 255 that a file system allows: the rest is for the endings of an unfinished file
UNFINISHED = (".part", ".part.json")
DIGEST_DIGITS = {"sha256": 64, "sha1": 40, "md5": 32}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file offered by a publisher. Attributes that are not known are None.

    Attributes:
        url: The publisher's HTTP or HTTPS URL.
        name: Name that the downloaded file gets, without a folder.
        size_bytes: Expected size.
        sha256: Expected digest in lower-case hex digits, like `sha1` and `md5`.
    """

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
    def promised_digest(self) -> tuple[str, str] | None:
        """The strongest known digest, as (kind, hex digits), or None if none is known.

        The kind is "sha256", "sha1" or "md5".
        """
        return next(((kind, digits) for kind in DIGEST_DIGITS if (digits := getattr(self, kind)) is not None), None)

    def to_json(self) -> dict[str, Json]:
        """Return a dictionary of the attributes that are not None, by name."""
        known = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {key: value for key, value in known if value is not None}


def check_name(name: str) -> None:
    """Check that a name is valid for a raw file: without a folder, printable, and at most 240 bytes long.

    Raises:
        InputError: If it is not, or it begins with a dot or ends like an unfinished download.
    """
    folder = name in ("", ".", "..") or "/" in name or "\\" in name
    unfinished = name.startswith(".") or name.endswith(UNFINISHED)
    if folder or unfinished or not name.isprintable() or len(name.encode(errors="surrogatepass")) > MAX_NAME_BYTES:
        raise InputError(
            f"{name[:200]!r} cannot be the name of a raw file: it must name one file and no folder, in at most "
            f"{MAX_NAME_BYTES} bytes that can be shown, and neither begin with a dot nor end as unfinished downloads "
            "do. Give it another with name=..."
        )


def parse_name(url: str) -> str:
    """Return the file name in a URL: the last component of its path, percent-decoded; "" if the path ends with a slash.

    >>> parse_name("https://example.org/books/Alice%20in%20Wonderland.txt?raw=1")
    'Alice in Wonderland.txt'
    """
    return unquote(urlsplit(url).path.rpartition("/")[2], errors="replace")
