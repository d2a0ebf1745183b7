"""News pages in WARC archives: `CC-NEWS-*.warc.gz`, other `.warc` and `.wet`, plain, `.gz` or `.zst`.

Promises: every record of an archive is one record here, a page's main text or a dropped record that says what it is (a
request, a redirect, an image...). The address is the key and the second of the crawl the revision, so the latest crawl
of a page supersedes earlier ones. An archive that is damaged or cut off is refused. A `.gz` archive that is compressed
by record is cut every 1 MB, and a record belongs to the slice in which its gzip member begins. Costs: nearly all of it
is `page.py`'s, some 20 ms for a page of 240 kB on a busy core. Memory: one record of at most `max_record_bytes`, its
body decoded, and its blocks.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import ClassVar

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import Locator
from corpora.sources.contract import RawFile, Record, Slice, Tally, find_by_ending, select_settings
from corpora.sources.web.archived_pages import ArchivedPages
from corpora.store.settings import check_range, later_field

ENDINGS = (".warc", ".warc.gz", ".warc.zst", ".wet", ".wet.gz", ".wet.zst")
HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class CcNewsSource:
    """The `[[source]]` table of kind "cc-news".

    path:             an archive, a folder of archives, or a glob
    hosts:            keep only pages from these hosts and their subdomains; empty for all hosts
    blocked_hosts:    drop pages from these hosts and their subdomains
    first_day:        drop pages from earlier days, YYYY-MM-DD; a page's day is its day of publication if it is known,
                      else the day of the crawl
    last_day:         drop pages from later days
    truncated:        keep pages that the crawler truncated; `meta` then says so
    min_whole:        drop a page if the probability that its text is complete, as stated in `meta`, is smaller; 0 to 1
    max_record_bytes: a record, or a page after decoding, that is longer is dropped
    split:            cut `.gz` archives into slices; this does not change any document
    """

    kind: ClassVar[str] = "cc-news"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("fastwarc",)

    name: str = "cc-news"
    path: str
    hosts: tuple[str, ...] = ()
    blocked_hosts: tuple[str, ...] = ()
    first_day: str | None = None
    last_day: str | None = None
    truncated: bool = True
    max_record_bytes: int = 10_000_000
    split: bool = True
    min_whole: float = later_field(neutral=0.0)

    def __post_init__(self) -> None:
        check_range(f"source {self.name!r}: max_record_bytes", self.max_record_bytes, 1, 1 << 30)
        check_range(f"source {self.name!r}: min_whole", self.min_whole, 0, 1)
        for host in (*self.hosts, *self.blocked_hosts):
            if not HOST.fullmatch(host):
                raise InputError(
                    f"Source {self.name!r}: {host!r} in `hosts` or `blocked_hosts` is no host. Write it in small "
                    "letters without scheme, port and path, as in 'example.org'."
                )
        for key, day in (("first_day", self.first_day), ("last_day", self.last_day)):
            if day is not None and not is_day(day):
                raise InputError(f"Source {self.name!r}: {key} = {day!r} is no day. Write it as in 2026-01-31.")

    def settings(self) -> dict[str, Json]:
        """Return the settings that affect the documents, as JSON by field name.

        `split` is not among them.
        """
        plain = select_settings(self, "split")
        return {**plain, "hosts": sorted(set(self.hosts)), "blocked_hosts": sorted(set(self.blocked_hosts))}

    def files(self) -> list[tuple[str, Path]]:
        """List the raw files as (name, path) pairs, sorted by name.

        These are the web archives at `path`.

        Raises:
            InputError: If there are none, or `path` names a single file with another extension.
        """
        wanted = f"an archive with one of the endings {', '.join(ENDINGS)}, a folder of them, or a glob"
        refused = f"is none of {', '.join(ENDINGS)}. Rename it."
        return find_by_ending(self.name, self.path, ENDINGS, wanted, refused)

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A `.gz` archive is cut every 1 MB if it is compressed record by record and `split` is True. Others are one
        slice.

        Raises:
            InputError: If the file is not a WARC archive.
        """
        return self._build_format().slices(file)

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each WARC record becomes one record, which is marked as dropped if it is not a news page.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the archive is damaged or truncated.
        """
        return self._build_format().records(piece, tally)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes (head and block) of a news page's WARC record, at a locator that `records` yielded.

        Raises:
            InputError: If the bytes cannot be decompressed.
        """
        return self._build_format().raw_record(file, locator)

    def _build_format(self) -> ArchivedPages:
        """Build the record format that reads web archives with this source's settings."""
        return ArchivedPages(**{field.name: getattr(self, field.name) for field in fields(ArchivedPages)})


def is_day(text: str) -> bool:
    """Return True if a string is a valid date in the form YYYY-MM-DD.

    >>> is_day("2026-01-31"), is_day("2026-02-30"), is_day("January")
    (True, False, False)
    """
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
