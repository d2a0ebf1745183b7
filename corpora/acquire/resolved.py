"""A `fetch` table, resolved once: a date or month, and the files with all that is known of them.

Promises: what was resolved is kept as JSON, and later runs go by it, whatever is published meanwhile: `latest` is
looked up again only when asked to. A file's sha256 is added when it was fetched, so that the same lock brings the same
bytes to another machine or says that it cannot. A limit may change at any time; where the list is needed again to
reach further, it must begin as it did.
Costs: two small documents for a dump, one list for a month or a crawl. The lock of all 100,000 files of a crawl has
22 MB and is read in 1 s: give a crawl a limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpora.acquire.catalogues import (
    address_files,
    digests_by_name,
    dump_address,
    dump_dates,
    dump_files,
    dump_is_done,
    first_files,
    list_lines,
    news_files,
    news_list,
    news_years,
    pinned,
    text_files,
    text_list,
)
from corpora.acquire.hosts import Absent, Hosts
from corpora.acquire.remote import RemoteFile
from corpora.acquire.wanted import COMMON_CRAWL, DUMP, WIKIMEDIA, AcquireSettings, is_address
from corpora.errors import InputError
from corpora.sources.contract import RawFile
from corpora.store.manifest import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The question, its resolution, and the files.

    asked:    the keys of the `fetch` table that decide it
    fixed:    the dump ("enwiki-20261101"), the months, the crawl or the list
    complete: whether `files` are all of them, or as many as the limit needed
    """

    asked: Mapping[str, Json]
    fixed: tuple[str, ...]
    files: tuple[RemoteFile, ...]
    complete: bool = True

    def to_json(self) -> dict[str, Json]:
        """A form for the lock."""
        files = [file.to_json() for file in self.files]
        return {"asked": dict(self.asked), "fixed": list(self.fixed), "complete": self.complete, "files": files}

    @staticmethod
    def from_json(data: Mapping[str, Json], where: str) -> "Resolved":
        """Read the form that `to_json` wrote. Raises InputError for another form."""
        try:
            return _parse(data)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(
                f"{where} does not hold what a fetch was resolved to ({error}). Restore it, or fetch with --refresh."
            ) from error

    def wanted(self, limit: int | None) -> list[RemoteFile]:
        """The files that a limit leaves."""
        return first_files(self.files, limit)

    def with_landed(self, landed: Sequence[RawFile]) -> "Resolved":
        """Return this with the size and sha256 of files that were fetched."""
        by_name = {file.name: file for file in landed}
        return replace(self, files=tuple(_with_landed(file, by_name.get(file.name)) for file in self.files))


def _parse(data: Mapping[str, Any]) -> Resolved:
    if not isinstance(data["complete"], bool):
        raise ValueError(f"complete = {data['complete']!r}")
    return Resolved(
        asked=dict(data["asked"]),
        fixed=tuple(str(value) for value in data["fixed"]),
        files=tuple(RemoteFile.from_json(file) for file in data["files"]),
        complete=data["complete"],
    )


def _with_landed(file: RemoteFile, landed: RawFile | None) -> RemoteFile:
    if landed is None:
        return file
    return replace(file, size_bytes=landed.size_bytes, sha256=landed.sha256)


def resolve(
    settings: AcquireSettings, hosts: Hosts, root: Path, earlier: Resolved | None = None, refresh: bool = False
) -> Resolved:
    """Return the files that the settings mean: as resolved before, or by asking the publisher.

    root:    the folder that a `list` is relative to
    earlier: what an earlier run resolved; it holds unless other files are asked for now
    refresh: ask again in any case
    Raises InputError.
    """
    ask = _RESOLVE[settings.catalogue]
    if refresh or earlier is None:
        return ask(settings, hosts, root, None)
    if earlier.asked != settings.asked() or _is_at_hand(settings):
        return _keeping(earlier, ask(settings, hosts, root, None))
    if earlier.complete or (settings.limit is not None and len(earlier.wanted(None)) >= settings.limit):
        return earlier
    return _keeping(earlier, _further(earlier, ask(settings, hosts, root, earlier.fixed)))


def _is_at_hand(settings: AcquireSettings) -> bool:
    """True if the list asked for is next to the recipe, where it is the user's to change."""
    return settings.catalogue == "urls" and not (settings.list and is_address(settings.list))


def _keeping(earlier: Resolved, now: Resolved) -> Resolved:
    """Return this resolution, with what was recorded of the files that are still the same."""
    before = {file.url: file for file in earlier.files}
    return replace(now, files=tuple(_same(before.get(file.url), file) for file in now.files))


def _same(earlier: RemoteFile | None, now: RemoteFile) -> RemoteFile:
    """Return the file as it was recorded, unless it differs from what is stated of it now."""
    facts = now.to_json().items()
    return earlier if earlier is not None and facts <= earlier.to_json().items() else now


def _further(earlier: Resolved, now: Resolved) -> Resolved:
    """A list read again to reach further. Raises InputError unless it begins as it did."""
    if [file.url for file in now.files[: len(earlier.files)]] != [file.url for file in earlier.files]:
        raise InputError(
            f"The list of {', '.join(earlier.fixed)} begins otherwise than when it was resolved, so that more of it "
            "would be another corpus. Keep fetch.limit as it was, or fetch with --refresh to go by the new list."
        )
    return now


def _wikipedia(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str] | None) -> Resolved:
    match = DUMP.fullmatch(fixed[0] if fixed else str(settings.dump))
    assert match is not None, "settings are checked"
    wiki, date = match["wiki"], match["date"]
    if date == "latest":
        date, status = _newest_dump(settings, hosts, wiki)
    else:
        status = hosts.document(settings.at(dump_address(wiki, date, "dumpstatus.json")))
    files = _with_sums(dump_files(status, wiki, date), settings, hosts, f"{wiki}-{date}")
    return Resolved(asked=settings.asked(), fixed=(f"{wiki}-{date}",), files=tuple(files))


def _newest_dump(settings: AcquireSettings, hosts: Hosts, wiki: str) -> tuple[str, bytes]:
    """Date and status of the newest dump whose articles are written."""
    listing = settings.at(f"{WIKIMEDIA}/{wiki}/")
    dates = dump_dates(hosts.document(listing))
    for date in dates:
        where = settings.at(dump_address(wiki, date, "dumpstatus.json"))
        try:
            status = hosts.document(where)
        except Absent:
            continue  # a dump that has only begun has none yet
        if dump_is_done(status, where):
            return date, status
    raise InputError(
        f"{listing} lists {len(dates)} dumps, and none of them has its articles written. Name a wiki as its dumps do "
        '("enwiki"), a date, or another mirror.'
    )


def _with_sums(files: list[RemoteFile], settings: AcquireSettings, hosts: Hosts, dump: str) -> list[RemoteFile]:
    """The files with digests of the dump's lists, where its status did not give them."""
    wiki, _, date = dump.rpartition("-")
    for kind in ("sha1", "md5"):
        if all(file.digests for file in files):
            break
        try:
            sums = hosts.document(settings.at(dump_address(wiki, date, f"{dump}-{kind}sums.txt")))
        except Absent:
            continue
        files = pinned(files, digests_by_name(sums, kind), kind)
    return files


def _news(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str] | None) -> Resolved:
    asked = fixed or settings.months
    if tuple(asked) == ("latest",):
        month, files = _newest_month(settings, hosts)
        return _of_lists(settings, (month,), files)
    months = tuple(sorted(set(asked)))
    files = [file for month in months for file in _month(settings, hosts, month)]
    return _of_lists(settings, months, files)


def _month(settings: AcquireSettings, hosts: Hosts, month: str) -> list[RemoteFile]:
    return news_files(hosts.document(settings.at(news_list(month))), month)


def _newest_month(settings: AcquireSettings, hosts: Hosts) -> tuple[str, list[RemoteFile]]:
    """The newest month of CC-NEWS that has files: the years are listed, the months of a year are tried."""
    listing = settings.at(f"{COMMON_CRAWL}/crawl-data/CC-NEWS/index.html")
    for year in news_years(hosts.document(listing)):
        for number in range(12, 0, -1):
            month = f"{year}-{number:02}"
            try:
                files = _month(settings, hosts, month)
            except Absent:
                continue
            if files:
                return month, files
    raise InputError(f'{listing} leads to no month that has files. Name one, as in months = ["2026-10"].')


def _text(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str] | None) -> Resolved:
    crawl = str(settings.crawl)
    return _of_lists(settings, (crawl,), text_files(hosts.document(settings.at(text_list(crawl))), crawl))


def _of_lists(settings: AcquireSettings, fixed: tuple[str, ...], files: Sequence[RemoteFile]) -> Resolved:
    if not files:
        raise InputError(f"{', '.join(fixed)}: the publisher's list names no file. Name another month or crawl.")
    kept = tuple(files[: settings.limit])
    return Resolved(asked=settings.asked(), fixed=fixed, files=kept, complete=len(kept) == len(files))


def _addresses(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str] | None) -> Resolved:
    if settings.list is None:
        return Resolved(asked=settings.asked(), fixed=(), files=tuple(address_files(settings.urls, "fetch.urls")))
    where = settings.list if is_address(settings.list) else str(root / settings.list)
    lines = list_lines(hosts.document(where) if is_address(where) else _read_list(Path(where)), where)
    return Resolved(asked=settings.asked(), fixed=(settings.list,), files=tuple(address_files(lines, where)))


def _read_list(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read fetch.list {path}: {error.strerror}. Name a file, or an address.") from error


_RESOLVE = {"wikipedia": _wikipedia, "cc-news": _news, "wet": _text, "urls": _addresses}
