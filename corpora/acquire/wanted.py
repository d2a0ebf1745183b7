"""The files to be fetched for a source: the `fetch` table of a `[[source]]`, checked before anything is asked.

None of it determines the bytes of documents: raw files enter by their content. `asked` is the part that decides
which files are meant: no other key has `latest` or a month looked up again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.places.address import has_secret, without_password
from corpora.store.settings import bind, check_choice, check_range

WIKIMEDIA = "https://dumps.wikimedia.org"
COMMON_CRAWL = "https://data.commoncrawl.org"
PUBLISHERS = {"wikipedia": WIKIMEDIA, "cc-news": COMMON_CRAWL, "wet": COMMON_CRAWL}
CATALOGUES = (*PUBLISHERS, "urls")
USER_AGENT = "cloze-pipeline/0.1"
DUMP = re.compile(r"(?P<wiki>[a-z][a-z0-9_]*)-(?P<date>\d{8}|latest)")
MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])|latest")
CRAWL = re.compile(r"CC-MAIN-\d{4}-\d{2}")
# The keys that say what is wanted: the catalogue of each, the form of its values, and examples.
WANTED = {
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
    dump:                 a wiki and a date, "enwiki-20261101", or "enwiki-latest": the newest that is finished
    months:               months of CC-NEWS, ["2026-10"], or "latest": the newest that has files
    crawl:                a crawl, "CC-MAIN-2026-40"
    urls:                 addresses; after each may be its sha256, sha1 or md5, its size in bytes, and name=...
    list:                 a text file of such lines, a path next to the recipe or an address
    mirror:               base address that takes the place of the publisher's
    limit:                the first so many files (a dump and its index are one); None: all
    folder:               where raw files go; "": raw/ and the source's name
    connections_per_host: downloads from one host at a time
    user_agent:           who asks; a publisher may want an address to write to
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
        """Raise InputError unless one key of this catalogue, and none of another, says what is wanted."""
        given = [key for key in WANTED if getattr(self, key)]
        if len(given) != 1 or WANTED[given[0]][0] != self.catalogue:
            examples = [example for catalogue, _, example in WANTED.values() if catalogue == self.catalogue]
            raise InputError(
                f'catalogue = "{self.catalogue}" needs one key that says which files, and none of another catalogue: '
                f"{' or '.join(examples)}."
            )
        (key,) = given
        _, form, example = WANTED[key]
        value = getattr(self, key)
        for text in value if isinstance(value, tuple) else (value,):
            if not form.fullmatch(text):
                raise InputError(f"fetch.{key} = {without_password(text)!r} is not of the form {example}.")
            if "://" in text:
                check_address(f"fetch.{key}", text)
        if "latest" in self.months and len(self.months) > 1:
            raise InputError('fetch.months names "latest" with other months: give it alone, or name all months.')

    def asked(self) -> dict[str, Json]:
        """Return what decides which files are meant: neither limits nor mirrors do."""
        key = next(key for key in WANTED if getattr(self, key))
        value = getattr(self, key)
        return {"catalogue": self.catalogue, key: list(value) if isinstance(value, tuple) else value}

    def at(self, url: str) -> str:
        """A publisher's address as the mirror has it, where there is a mirror."""
        publisher = PUBLISHERS.get(self.catalogue, "")
        if self.mirror is None or not url.startswith(publisher + "/"):
            return url
        return self.mirror.rstrip("/") + url.removeprefix(publisher)


def read_settings(table: Mapping[str, Json], where: str, source: str) -> AcquireSettings:
    """The settings of a `fetch` table; its folder is raw/ and the source's name where it names none.

    where: the table's place in the recipe, for messages. Raises InputError.

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
    return bind(AcquireSettings, values, where)


def is_address(text: str) -> bool:
    """True if a text is an http or https address with a host and without a password: a lock is no place for one."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def check_address(where: str, line: str) -> None:
    """Raise InputError unless a line begins with an address of a server, without a password or a signature."""
    if has_secret(line) or not is_address([*line.split(), ""][0]):
        raise InputError(
            f"{where}: {without_password(line)[:200]!r} is no address: it must be https:// or http:// and a host, "
            "without a password, signature or token, which would stand in the lock, in records and in logs. Name one "
            "that is open to all, or download the file by hand into the source's folder."
        )


def folder_of(settings: AcquireSettings, root: Path) -> str:
    """Return where raw files go, from the top: the settings' folder, below `root` (the recipe's) if it is relative."""
    return str((root / settings.folder).resolve())
