"""A `fetch` table, resolved once: a date or month, and the files with all that is known of them.

Promises: the result is stored as JSON, and later runs use it, whatever is published in the meantime: `latest` is looked
up again only when asked to. A file's sha256 is added when it was fetched, so that the same lock brings the same bytes
to another machine or says that it cannot. A limit may change at any time; if the list is needed again to reach further,
it must begin as it did. Costs: two small documents for a dump, one list for a month or a crawl. The lock of all 100,000
files of a crawl has 22 MB and is read in 2 s: give a crawl a limit.

Read what publishers publish about their files: their pages and lists as values, and which files are meant.

- Wikimedia: the page that lists a wiki's dumps, and a dump's `dumpstatus.json`;
- Common Crawl: the page that lists the years of CC-NEWS, `warc.paths.gz` of a month, `wet.paths.gz` of a crawl;
- anyone: a text file with an address a line.

What is not of the form it should be is an InputError that names the document. Costs: 1 s and 70 MB for the
100,000 paths of a crawl.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpora.acquire.fetch_table import (
    COMMON_CRAWL,
    DIGEST_DIGITS,
    DUMP,
    WIKIMEDIA,
    AcquireSettings,
    RemoteFile,
    check_address,
    is_address,
    parse_name,
)
from corpora.acquire.http_client import Absent, Hosts
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.sources.contract import RawFile
from corpora.store.settings import bind_settings, convert_value

DUMP_JOB = "articlesmultistreamdump"
DUMP_DATE = re.compile(
    r"""href\s*=\s*["'](?:[^"']*/)?(\d{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))/?["']""", re.IGNORECASE
)
YEAR = re.compile(r"""href\s*=\s*["'](?:[^"']*/)?(20\d\d)/(?:index\.html)?["']""", re.IGNORECASE)
INDEX = re.compile(r"(?P<stem>.*multistream)-index(?P<number>\d*)\.txt(?P<range>-p\d+p\d+)?\.bz2")


def find_dump_dates(page: bytes) -> list[str]:
    """Find the dates of a wiki's dumps in the HTML page that lists them, newest first; [] if there are none.

    >>> find_dump_dates(b'<a href="20261020/">20261020/</a> <a href="20261101/">20261101/</a>')
    ['20261101', '20261020']
    """
    return sorted(set(DUMP_DATE.findall(page.decode("utf-8", "replace"))), reverse=True)


def build_dump_address(wiki: str, date: str, name: str) -> str:
    """Build the publisher's URL for a file of a Wikipedia dump: `.../enwiki/20261101/NAME`."""
    return f"{WIKIMEDIA}/{wiki}/{date}/{name}"


def list_dump_files(status: bytes, wiki: str, date: str) -> list[RemoteFile]:
    """List the dump files and their indexes that a `dumpstatus.json` names, in the order of the pages in them.

    Args:
        status: Content of the `dumpstatus.json`.
        wiki: Name of the wiki, such as "enwiki".
        date: Date of the dump, such as "20261101".

    Returns:
        The files with URL, name, and the size and sha1 that the status states.

    Raises:
        InputError: If the JSON is not in the expected form, or the dump is not finished.
    """
    where = build_dump_address(wiki, date, "dumpstatus.json")
    job = _find_dump_job(status, where)
    if job.get("status") != "done":
        raise InputError(
            f"{where}: the articles of this dump are not written yet (status {job.get('status')!r}). Wait for it, or "
            f'name an older date, or dump = "{wiki}-latest" for the newest one that is finished.'
        )
    files = [
        _build_dump_file(wiki, date, name, facts, where)
        for name, facts in _check_table(job.get("files"), where).items()
    ]
    return sorted(files, key=lambda file: (compute_dump_order(file.name), file.name))


def _find_dump_job(status: bytes, where: str) -> dict[str, Any]:
    """Return the entry of a `dumpstatus.json` that describes the dump of articles; {} if there is none.

    It has the keys "status" ("done" if finished) and "files" (facts by file name). `where` is the document's URL, for
    error messages.

    Raises:
        InputError: If the JSON is invalid or not in the expected form.
    """
    try:
        jobs = _check_table(_check_table(json.loads(status), where).get("jobs"), where)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where} is not what Wikimedia publishes there ({error}). Fix the date or the mirror."
        ) from error
    return _check_table(jobs.get(DUMP_JOB, {}), where)


def _check_table(value: Any, where: str) -> dict[str, Any]:
    """Return a value of a `dumpstatus.json` if it is a JSON object.

    Raises:
        InputError: If it is not. The message names `where`, the document's URL.
    """
    if not isinstance(value, dict):
        raise InputError(f"{where} is not what Wikimedia publishes there: {str(value)[:60]!r} is no table of it.")
    return value


def _build_dump_file(wiki: str, date: str, name: str, facts: Any, where: str) -> RemoteFile:
    """Build the `RemoteFile` for an entry of a `dumpstatus.json`.

    Args:
        wiki: Name of the wiki, such as "enwiki".
        date: Date of the dump, such as "20261101".
        name: Name of the file.
        facts: The entry. Its keys "size" (bytes) and "sha1" are used if present.
        where: URL of the document, for error messages.

    Raises:
        InputError: If the entry is invalid, or the name is not one of this dump.
    """
    facts = _check_table(facts, where)
    if not name.startswith(f"{wiki}-{date}-"):
        raise InputError(f"{where} names {name[:100]!r}, which is not part of this dump. Use another mirror.")
    stated = {"size_bytes": facts.get("size"), "sha1": facts.get("sha1")}
    return bind_settings(RemoteFile, {"url": build_dump_address(wiki, date, name), "name": name, **stated}, where)


def compute_dump_order(name: str) -> tuple[int, ...]:
    """Compute the sort key of a dump file: the numbers in its name after "multistream" (part, first and last page).

    An index has the same key as its dump file.

    >>> compute_dump_order("enwiki-20261101-pages-articles-multistream-index2.txt-p41243p151573.bz2")
    (2, 41243, 151573)
    """
    _, _, rest = name.partition("multistream")
    return tuple(int(number) for number in re.findall(r"\d+", rest.removesuffix(".bz2")))


def to_pair_name(name: str) -> str:
    """Return the name of the dump file that an index belongs to, or any other name unchanged.

    Files with the same pair name are downloaded together.

    >>> to_pair_name("enwiki-20261101-pages-articles-multistream-index2.txt-p41243p151573.bz2")
    'enwiki-20261101-pages-articles-multistream2.xml-p41243p151573.bz2'
    """
    match = INDEX.fullmatch(name)
    return f"{match['stem']}{match['number']}.xml{match['range'] or ''}.bz2" if match else name


def select_first_files(files: Sequence[RemoteFile], limit: int | None) -> list[RemoteFile]:
    """Return the first `limit` files, in order, or all of them if `limit` is None.

    A dump file and its index count as one.
    """
    chosen = set(list(dict.fromkeys(to_pair_name(file.name) for file in files))[:limit])
    return [file for file in files if to_pair_name(file.name) in chosen]


def find_news_years(page: bytes) -> list[str]:
    """Find the years of CC-NEWS in the HTML page that lists them, newest first, such as ["2026", "2025"]."""
    return sorted(set(YEAR.findall(page.decode("utf-8", "replace"))), reverse=True)


def build_news_list_address(month: str) -> str:
    """Build the publisher's URL for the list of a CC-NEWS month's archives; `month` is written as "2026-10"."""
    return f"{COMMON_CRAWL}/crawl-data/CC-NEWS/{month[:4]}/{month[5:]}/warc.paths.gz"


def build_text_list_address(crawl: str) -> str:
    """Build the publisher's URL for the list of a crawl's WET files; `crawl` is written as "CC-MAIN-2026-40"."""
    return f"{COMMON_CRAWL}/crawl-data/{crawl}/wet.paths.gz"


def list_news_files(packed: bytes, month: str) -> list[RemoteFile]:
    """List a CC-NEWS month's archives, in the order of its `warc.paths.gz`.

    Args:
        packed: Content of the gzip-compressed `warc.paths.gz`.
        month: The month, such as "2026-10".

    Returns:
        The files with URL and name. Sizes and digests are not known.

    Raises:
        InputError: If the list is damaged, or names any other kind of file.
    """
    folder = f"crawl-data/CC-NEWS/{month[:4]}/{month[5:]}/"
    return _parse_path_list(
        packed, build_news_list_address(month), re.compile(re.escape(folder) + r"[\w.-]+\.warc\.gz")
    )


def list_text_files(packed: bytes, crawl: str) -> list[RemoteFile]:
    """List a crawl's WET files, in the order of its `wet.paths.gz`.

    Args:
        packed: Content of the gzip-compressed `wet.paths.gz`.
        crawl: Name of the crawl, such as "CC-MAIN-2026-40".

    Returns:
        The files with URL and name. Sizes and digests are not known.

    Raises:
        InputError: If the list is damaged, or names any other kind of file.
    """
    return _parse_path_list(
        packed, build_text_list_address(crawl), re.compile(rf"crawl-data/{crawl}/segments/[\w.]+/wet/[\w.-]+\.wet\.gz")
    )


def _parse_path_list(packed: bytes, where: str, form: re.Pattern[str]) -> list[RemoteFile]:
    """Parse a gzip-compressed list of paths on Common Crawl's server. Return its files in order, without duplicates.

    Args:
        packed: The compressed list.
        where: URL of the list, for error messages.
        form: The pattern that every path must match as a whole.

    Raises:
        InputError: If the list is damaged, a path does not match, or two files would have the same name.
    """
    try:
        paths = gzip.decompress(packed).decode("utf-8", "replace").split()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{where} is not a whole gzip file ({error}). Use another mirror, or try again later."
        ) from error
    wrong = next((path for path in paths if not form.fullmatch(path)), None)
    if wrong is not None:
        raise InputError(f"{where} names {wrong[:200]!r}, which is no path of that list. Use another mirror.")
    return drop_duplicates(
        (RemoteFile(url=f"{COMMON_CRAWL}/{path}", name=path.rpartition("/")[2]) for path in paths), where
    )


def parse_addresses(lines: Iterable[str], where: str) -> list[RemoteFile]:
    """Parse a list of files to download, with one URL on each line.

    A URL may be followed by the file's digest, its size in bytes and `name=...`, in any order. Empty lines and lines
    that begin with # are ignored.

    Args:
        lines: The lines to parse.
        where: Origin of the lines, for error messages.

    Returns:
        The files in the order of the lines, without duplicates. A name is taken from the URL unless it is given.

    Raises:
        InputError: If a line is invalid, there is no URL, or two different files would have the same name.

    >>> [file.size_bytes for file in parse_addresses(["https://example.org/a.txt 12", "# more"], "the list")]
    [12]
    """
    stripped = enumerate(map(str.strip, lines), 1)
    files = [_parse_address(line, f"{where}, line {n}") for n, line in stripped if line and not line.startswith("#")]
    if not files:
        raise InputError(f"{where} names no address. Write one a line, as in https://example.org/a.txt.")
    return drop_duplicates(files, where)


def split_list(data: bytes, where: str) -> list[str]:
    """Decode the bytes of a list of URLs as UTF-8, and split it into lines.

    Raises:
        InputError: If it is not UTF-8. The message names `where`, the list's origin.
    """
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 text ({error}). Write one address a line.") from error


def _parse_address(line: str, where: str) -> RemoteFile:
    """Parse a line with a URL, and possibly facts about the file, to a `RemoteFile`.

    Raises:
        InputError: If the URL or a fact is invalid, or a fact is given twice. The message names `where`.
    """
    check_address(where, line)
    url, *words = line.split()
    facts: dict[str, Any] = {}
    for word in words:
        key, value = _parse_fact(word, where)
        if key in facts:
            raise InputError(f"{where}: {key} is given twice for {url}. Leave one.")
        facts[key] = value
    try:
        return RemoteFile(url=url, **{"name": parse_name(url), **facts})
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _parse_fact(word: str, where: str) -> tuple[str, str | int]:
    """Parse a word that follows a URL in a list to the name and value of a `RemoteFile` attribute.

    Returns:
        ("name", name), ("size_bytes", size), or the kind of a digest ("sha256", "sha1" or "md5") and its hex digits.

    Raises:
        InputError: If the word is none of these. The message names `where`, the line's origin.
    """
    if word.startswith("name="):
        return "name", word.removeprefix("name=")
    value = re.sub(r"^(sha256|sha1|md5)[:=]", "", word).lower()
    kind = next((kind for kind, digits in DIGEST_DIGITS.items() if len(value) == digits), None)
    if kind is not None and re.fullmatch(r"[0-9a-f]+", value):
        return kind, value
    if word.isascii() and word.isdigit() and len(word) < 19:
        return "size_bytes", int(word)
    raise InputError(f"{where}: {word[:100]!r} is neither a digest, a size in bytes nor name=...: remove or fix it.")


def drop_duplicates(files: Iterable[RemoteFile], where: str) -> list[RemoteFile]:
    """Return the files without duplicates, in order of their first occurrence.

    Raises:
        InputError: If two different files would have the same name. The message names `where`, the list's origin.
    """
    by_name: dict[str, RemoteFile] = {}
    for file in files:
        other = by_name.setdefault(file.name, file)
        if other != file:
            raise InputError(
                f"{where}: {other.url} and {file.url} would both be called {file.name}. Write "
                "name=... after one of them."
            )
    return list(by_name.values())


PublishedFiles = tuple[
    tuple[str, ...], list[RemoteFile]
]  # the dump, months, crawl or list that is meant, and its files


def _find_wikipedia_files(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str]) -> PublishedFiles:
    """Ask Wikimedia for the files of a Wikipedia dump.

    Args:
        settings: The `fetch` table. Its `dump` is used if `fixed` is empty.
        hosts: HTTP client to ask with.
        root: Not used.
        fixed: The dump that an earlier run resolved to, such as ["enwiki-20261101"]; empty if there is none.

    Returns:
        (the dump as in `fixed`, its files).

    Raises:
        InputError: If there is no finished dump, or Wikimedia's documents cannot be read.
    """
    match = DUMP.fullmatch(fixed[0] if fixed else str(settings.dump))
    assert match is not None, "settings are checked"
    wiki, date = match["wiki"], match["date"]
    if date == "latest":
        date, status = _find_newest_dump(settings, hosts, wiki)
    else:
        status = hosts.fetch_document(settings.to_mirror(build_dump_address(wiki, date, "dumpstatus.json")))
    return (f"{wiki}-{date}",), list_dump_files(status, wiki, date)


def _find_newest_dump(settings: AcquireSettings, hosts: Hosts, wiki: str) -> tuple[str, bytes]:
    """Return the date of a wiki's newest dump with complete articles, and the content of its `dumpstatus.json`.

    Raises:
        InputError: If there is none, or Wikimedia's documents cannot be read.
    """
    listing = settings.to_mirror(f"{WIKIMEDIA}/{wiki}/")
    dates = find_dump_dates(hosts.fetch_document(listing))
    for date in dates:
        where = settings.to_mirror(build_dump_address(wiki, date, "dumpstatus.json"))
        try:
            status = hosts.fetch_document(where)
        except Absent:
            continue  # a dump that has only begun has none yet
        if _find_dump_job(status, where).get("status") == "done":
            return date, status
    raise InputError(
        f"{listing} lists {len(dates)} dumps, and none of them has its articles written. Name a wiki as its dumps do "
        '("enwiki"), a date, or another mirror.'
    )


def _find_news_files(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str]) -> PublishedFiles:
    """Ask Common Crawl for the archives of one or more months of CC-NEWS.

    Args:
        settings: The `fetch` table. Its `months` are used if `fixed` is empty.
        hosts: HTTP client to ask with.
        root: Not used.
        fixed: The months that an earlier run resolved to, such as ["2026-10"]; empty if there are none.

    Returns:
        (the months in ascending order, their files).

    Raises:
        InputError: If a month's list cannot be read, or "latest" finds no month.
    """
    months = tuple(sorted(set(fixed or settings.months)))
    if months == ("latest",):
        return _find_newest_month(settings, hosts)
    return months, [file for month in months for file in _read_month(settings, hosts, month)]


def _read_month(settings: AcquireSettings, hosts: Hosts, month: str) -> list[RemoteFile]:
    """Download the list of a CC-NEWS month (written as "2026-10"), and return the files that it names.

    Raises:
        InputError: If the list cannot be downloaded or is damaged. This is Absent if there is no list.
    """
    return list_news_files(hosts.fetch_document(settings.to_mirror(build_news_list_address(month))), month)


def _find_newest_month(settings: AcquireSettings, hosts: Hosts) -> PublishedFiles:
    """Return the newest CC-NEWS month that has files, as a tuple of one string, and its files.

    The available years are read from a list, and each year's months are tried from December backwards.

    Raises:
        InputError: If there is none, or a list cannot be read.
    """
    listing = settings.to_mirror(f"{COMMON_CRAWL}/crawl-data/CC-NEWS/index.html")
    for year in find_news_years(hosts.fetch_document(listing)):
        for number in range(12, 0, -1):
            month = f"{year}-{number:02}"
            try:
                files = _read_month(settings, hosts, month)
            except Absent:
                continue
            if files:
                return (month,), files
    raise InputError(f'{listing} leads to no month that has files. Name one, as in months = ["2026-10"].')


def _find_text_files(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str]) -> PublishedFiles:
    """Ask Common Crawl for the WET files of a crawl. Return (a tuple with the crawl's name, its files).

    Only `settings` and `hosts` are used. The other parameters are there because all finders have the same ones.

    Raises:
        InputError: If the crawl's list cannot be read.
    """
    crawl = str(settings.crawl)
    return (crawl,), list_text_files(hosts.fetch_document(settings.to_mirror(build_text_list_address(crawl))), crawl)


def _read_addresses(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str]) -> PublishedFiles:
    """List the files that are named in the key `urls` or `list` of a `fetch` table.

    Args:
        settings: The `fetch` table.
        hosts: HTTP client, for a list that is at a URL.
        root: Folder that a relative path of a list is resolved against.
        fixed: Not used.

    Returns:
        (a tuple with the value of `list`, or an empty tuple for `urls`; the files).

    Raises:
        InputError: If the list cannot be read, or a line of it is invalid.
    """
    if settings.list is None:
        return (), parse_addresses(settings.urls, "fetch.urls")
    where = settings.list if is_address(settings.list) else str(root / settings.list)
    try:
        data = hosts.fetch_document(where) if is_address(where) else Path(where).read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read fetch.list {where}: {error.strerror}. Name a file, or an address.") from error
    return (settings.list,), parse_addresses(split_list(data, where), where)


FINDERS = {
    "wikipedia": _find_wikipedia_files,
    "cc-news": _find_news_files,
    "wet": _find_text_files,
    "urls": _read_addresses,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFetch:
    """The files that a `fetch` table refers to, as stored in a recipe's lock file.

    asked: the keys of the table that determine which files are wanted fixed: what they resolved to: the dump
    ("enwiki-20261101"), the months, the crawl or the list files: the files, with everything known about them complete:
    True if `files` contains every file the publisher lists; False if `limit` cut the list short
    """

    asked: Mapping[str, Json]
    fixed: tuple[str, ...]
    files: tuple[RemoteFile, ...]
    complete: bool = True

    def to_json(self) -> dict[str, Json]:
        """Return the JSON dictionary for the lock file, with the keys "asked", "fixed", "complete" and "files"."""
        files = [file.to_json() for file in self.files]
        return {"asked": dict(self.asked), "fixed": list(self.fixed), "complete": self.complete, "files": files}

    @staticmethod
    def from_json(data: Mapping[str, Json], where: str) -> "ResolvedFetch":
        """Create a ResolvedFetch from a dictionary that `to_json` returned.

        Raises:
            InputError: If the dictionary is invalid. The message names `where`, its origin.
        """
        try:
            resolved: ResolvedFetch = convert_value(data, ResolvedFetch, "fetched")
        except InputError as error:
            raise InputError(
                f"{where} does not hold what a fetch was resolved to ({error}). Restore it, or fetch with --refresh."
            ) from error
        return resolved

    def select_files(self, limit: int | None) -> list[RemoteFile]:
        """Return the first `limit` of this fetch's files; all if `limit` is None.

        A dump file and its index count as one.
        """
        return select_first_files(self.files, limit)

    def with_fetched(self, landed: Sequence[RawFile]) -> "ResolvedFetch":
        """Return a copy in which the files named in `landed`, the downloaded files, have their size and sha256."""
        facts: dict[str, dict[str, Any]] = {
            file.name: {"size_bytes": file.size_bytes, "sha256": file.sha256} for file in landed
        }
        return replace(self, files=tuple(replace(file, **facts.get(file.name, {})) for file in self.files))


def resolve(
    settings: AcquireSettings, hosts: Hosts, root: Path, earlier: ResolvedFetch | None = None, refresh: bool = False
) -> ResolvedFetch:
    """Find the files that the settings refer to, from an earlier run's result or by asking the publisher.

    Args:
        settings: The `fetch` table.
        hosts: HTTP client to ask with.
        root: Folder that a relative `list` path is resolved against.
        earlier: Result of an earlier run. It is reused unless the settings now refer to other files.
        refresh: If True, the publisher is asked in any case.

    Raises:
        InputError: If the publisher's lists cannot be downloaded, or no longer begin with the files of the earlier run.
    """
    if refresh or earlier is None:
        return _ask(settings, hosts, root)
    if earlier.asked != settings.to_question_json() or _is_at_hand(settings):
        return _keep_recorded(earlier, _ask(settings, hosts, root))
    if earlier.complete or (settings.limit is not None and len(earlier.files) >= settings.limit):
        return earlier
    now = _ask(settings, hosts, root, earlier.fixed)
    if [file.url for file in now.files[: len(earlier.files)]] != [file.url for file in earlier.files]:
        raise InputError(
            f"The list of {', '.join(earlier.fixed)} begins otherwise than when it was resolved, so that more of it "
            "would be another corpus. Keep fetch.limit as it was, or fetch with --refresh to go by the new list."
        )
    return _keep_recorded(earlier, now)


def _ask(settings: AcquireSettings, hosts: Hosts, root: Path, fixed: Sequence[str] = ()) -> ResolvedFetch:
    """Ask the publisher for the current files. The long lists of Common Crawl are limited to `settings.limit` files.

    Args:
        settings: The `fetch` table.
        hosts: HTTP client to ask with.
        root: Folder that a relative `list` path is resolved against.
        fixed: The dump, months or crawl that an earlier run resolved to. If empty, `settings` decides.

    Raises:
        InputError: If the publisher's documents cannot be read or name no file.
    """
    found, files = FINDERS[settings.catalogue](settings, hosts, root, fixed)
    if not files:
        raise InputError(f"{', '.join(found)}: the publisher's list names no file. Name another one.")
    kept = files[: settings.limit] if settings.catalogue in ("cc-news", "wet") else files  # their lists are long
    return ResolvedFetch(
        asked=settings.to_question_json(), fixed=found, files=tuple(kept), complete=len(kept) == len(files)
    )


def _is_at_hand(settings: AcquireSettings) -> bool:
    """Return True if the settings list the files in `urls` or in a local `list`, so that no server has to be asked."""
    return settings.catalogue == "urls" and not (settings.list and is_address(settings.list))


def _keep_recorded(earlier: ResolvedFetch, now: ResolvedFetch) -> ResolvedFetch:
    """Return a copy of `now` in which unchanged files have the size and digests recorded in `earlier`."""
    before = {file.url: file for file in earlier.files}
    return replace(now, files=tuple(_choose_recorded(before.get(file.url), file) for file in now.files))


def _choose_recorded(earlier: RemoteFile | None, now: RemoteFile) -> RemoteFile:
    """Return `earlier`, the recorded file, if it agrees with everything that is known now; otherwise `now`."""
    facts = now.to_json().items()
    return earlier if earlier is not None and facts <= earlier.to_json().items() else now
