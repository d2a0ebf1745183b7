"""Read what publishers publish about their files, as they publish it: pure functions from bytes to values.

- Wikimedia: the page that lists a wiki's dumps, a dump's `dumpstatus.json`, its `sha1sums.txt` and `md5sums.txt`;
- Common Crawl: the page that lists the years of CC-NEWS, `warc.paths.gz` of a month, `wet.paths.gz` of a crawl;
- anyone: a text file with an address a line.

What is not of the form it should be is an InputError that names the document. Costs: 1 s and 70 MB for the
100,000 paths of a crawl.
"""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from corpora.acquire.remote import DIGEST_DIGITS, RemoteFile, name_of
from corpora.acquire.wanted import COMMON_CRAWL, WIKIMEDIA, is_address
from corpora.errors import InputError
from corpora.store.places.address import without_password

DUMP_JOB = "articlesmultistreamdump"
LISTED_BYTES = 64 << 20  # of a list of paths, unpacked
DATED = re.compile(
    r"""href\s*=\s*["'](?:[^"']*/)?(\d{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))/?["']""", re.IGNORECASE
)
YEAR = re.compile(r"""href\s*=\s*["'](?:[^"']*/)?(20\d\d)/(?:index\.html)?["']""", re.IGNORECASE)
INDEX = re.compile(r"(?P<stem>.*multistream)-index(?P<number>\d*)\.txt(?P<range>-p\d+p\d+)?\.bz2")
DIGEST_LINE = re.compile(r"([0-9a-fA-F]{32,64}) [ *](\S.*)")
WORD = re.compile(r"\S+")
BYTE_ORDER_MARK = "\ufeff"


def dump_dates(page: bytes) -> list[str]:
    """The dates of a wiki's dumps by the page that lists them, the newest first.

    >>> dump_dates(b'<a href="20261020/">20261020/</a> <a href="20261101/">20261101/</a> <a href="latest/">latest/</a>')
    ['20261101', '20261020']
    """
    return sorted(set(DATED.findall(page.decode("utf-8", "replace"))), reverse=True)


def dump_address(wiki: str, date: str, name: str) -> str:
    """The publisher's address of a file of a dump."""
    return f"{WIKIMEDIA}/{wiki}/{date}/{name}"


def dump_is_done(status: bytes, where: str) -> bool:
    """True if a `dumpstatus.json` says that all articles are written. Raises InputError for another form."""
    return bool(_dump_job(status, where).get("status") == "done")


def dump_files(status: bytes, wiki: str, date: str) -> list[RemoteFile]:
    """The dumps and their indexes that a `dumpstatus.json` names, in the order of the pages. Raises InputError."""
    where = dump_address(wiki, date, "dumpstatus.json")
    job = _dump_job(status, where)
    if job.get("status") != "done":
        raise InputError(
            f"{where}: the articles of this dump are not written yet (status {job.get('status')!r}). Wait for it, or "
            f'name an older date, or dump = "{wiki}-latest" for the newest one that is finished.'
        )
    files = [_dump_file(wiki, date, name, facts, where) for name, facts in _table(job.get("files"), where).items()]
    if not files:
        raise InputError(f"{where} names no file of the articles. Name another date.")
    return sorted(files, key=lambda file: (dump_order(file.name), file.name))


def _dump_job(status: bytes, where: str) -> dict[str, Any]:
    try:
        jobs = _table(_table(json.loads(status), where).get("jobs"), where)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where} is not what Wikimedia publishes there ({error}). Fix the date or the mirror."
        ) from error
    return _table(jobs.get(DUMP_JOB, {}), where)


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} is not what Wikimedia publishes there: {str(value)[:60]!r} is no table of it.")
    return value


def _dump_file(wiki: str, date: str, name: str, facts: Any, where: str) -> RemoteFile:
    facts = _table(facts, where)
    if not name.startswith(f"{wiki}-{date}-"):
        raise InputError(f"{where} names {name[:100]!r}, which is not part of this dump. Use another mirror.")
    size = facts.get("size")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool)):
        raise InputError(f"{where}: the size of {name} is {size!r}, which is no number of bytes.")
    kind, digest = next(((kind, facts[kind]) for kind in ("sha1", "md5") if isinstance(facts.get(kind), str)), ("", ""))
    digests = {kind: digest.lower()} if kind else {}
    try:
        return RemoteFile(url=dump_address(wiki, date, name), name=name, size_bytes=size, **digests)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def dump_order(name: str) -> tuple[int, ...]:
    """Return the place of a file of a dump by its pages; an index is with its dump.

    >>> dump_order("enwiki-20261101-pages-articles-multistream-index2.txt-p41243p151573.bz2")
    (2, 41243, 151573)
    """
    _, _, rest = name.partition("multistream")
    return tuple(int(number) for number in re.findall(r"\d+", rest.removesuffix(".bz2")))


def pair_name(name: str) -> str:
    """The dump that an index belongs to; any other name stays. What shares it is fetched together.

    >>> pair_name("enwiki-20261101-pages-articles-multistream-index2.txt-p41243p151573.bz2")
    'enwiki-20261101-pages-articles-multistream2.xml-p41243p151573.bz2'
    """
    match = INDEX.fullmatch(name)
    return f"{match['stem']}{match['number']}.xml{match['range'] or ''}.bz2" if match else name


def first_files(files: Sequence[RemoteFile], limit: int | None) -> list[RemoteFile]:
    """The first `limit` files in order, a dump and its index being one."""
    chosen = set(list(dict.fromkeys(pair_name(file.name) for file in files))[:limit])
    return [file for file in files if pair_name(file.name) in chosen]


def digests_by_name(sums: bytes, kind: str) -> dict[str, str]:
    """The digests in a `sha1sums.txt` or `md5sums.txt` by the file's name; other lines say nothing.

    >>> digests_by_name(b"da39a3ee5e6b4b0d3255bfef95601890afd80709  a.bz2", "sha1")
    {'a.bz2': 'da39a3ee5e6b4b0d3255bfef95601890afd80709'}
    """
    matches = map(DIGEST_LINE.fullmatch, sums.decode("utf-8", "replace").splitlines())
    return {match[2]: match[1].lower() for match in matches if match and len(match[1]) == DIGEST_DIGITS[kind]}


def news_years(page: bytes) -> list[str]:
    """The years of CC-NEWS by the page that lists them, the newest first."""
    return sorted(set(YEAR.findall(page.decode("utf-8", "replace"))), reverse=True)


def news_list(month: str) -> str:
    """The publisher's address of the list of a month's archives."""
    return f"{COMMON_CRAWL}/crawl-data/CC-NEWS/{month[:4]}/{month[5:]}/warc.paths.gz"


def text_list(crawl: str) -> str:
    """The publisher's address of the list of a crawl's WET files."""
    return f"{COMMON_CRAWL}/crawl-data/{crawl}/wet.paths.gz"


def news_files(packed: bytes, month: str) -> list[RemoteFile]:
    """The archives of a month by its `warc.paths.gz`, in its order. Raises InputError."""
    folder = f"crawl-data/CC-NEWS/{month[:4]}/{month[5:]}/"
    return _listed(packed, news_list(month), re.compile(re.escape(folder) + r"[\w.-]+\.warc\.gz"))


def text_files(packed: bytes, crawl: str) -> list[RemoteFile]:
    """The WET files of a crawl by its `wet.paths.gz`, in its order. Raises InputError."""
    return _listed(packed, text_list(crawl), re.compile(rf"crawl-data/{crawl}/segments/[\w.]+/wet/[\w.-]+\.wet\.gz"))


def _listed(packed: bytes, where: str, form: re.Pattern[str]) -> list[RemoteFile]:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            data = stream.read(LISTED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{where} is not a whole gzip file ({error}). Use another mirror, or try again later."
        ) from error
    if len(data) > LISTED_BYTES:
        raise InputError(f"{where} is longer than {LISTED_BYTES} bytes: that is no list of paths. Use another mirror.")
    paths = data.decode("utf-8", "replace").split()
    wrong = next((path for path in paths if not form.fullmatch(path)), None)
    if wrong is not None:
        raise InputError(f"{where} names {wrong[:200]!r}, which is no path of that list. Use another mirror.")
    return distinct((RemoteFile(url=f"{COMMON_CRAWL}/{path}", name=path.rpartition("/")[2]) for path in paths), where)


def address_files(lines: Iterable[str], where: str) -> list[RemoteFile]:
    """The files that lines name: an address, and after it its digest, its size in bytes, `name=...`, in any order.

    An empty line and one that begins with # say nothing. Raises InputError.

    >>> [file.size_bytes for file in address_files(["https://example.org/a.txt 12", "# more"], "the list")]
    [12]
    """
    files = [_address_file(line, f"{where}, line {number}") for number, line in enumerate(lines, 1) if _says(line)]
    if not files:
        raise InputError(f"{where} names no address. Write one a line, as in https://example.org/a.txt.")
    return distinct(files, where)


def list_lines(data: bytes, where: str) -> list[str]:
    """The lines of a list. Raises InputError where it is not text."""
    try:
        return data.decode("utf-8").removeprefix(BYTE_ORDER_MARK).splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 text ({error}). Write one address a line.") from error


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _address_file(line: str, where: str) -> RemoteFile:
    url, *words = WORD.findall(line)
    if not is_address(url):
        raise InputError(
            f"{where}: {without_password(url)[:200]!r} is no address: it must be https:// or http:// and a host, "
            "without a password."
        )
    facts: dict[str, Any] = {}
    for word in words:
        key, value = _fact(word, where)
        if key in facts:
            raise InputError(f"{where}: {key} is given twice for {url}. Leave one.")
        facts[key] = value
    try:
        return RemoteFile(url=url, **{"name": facts.get("name") or name_of(url), **facts})
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _fact(word: str, where: str) -> tuple[str, str | int]:
    """Return the fact that a word after an address states, by its form."""
    if word.startswith("name="):
        return "name", word.removeprefix("name=")
    value = re.sub(r"^(sha256|sha1|md5)[:=]", "", word).lower()
    kind = next((kind for kind, digits in DIGEST_DIGITS.items() if len(value) == digits), None)
    if kind is not None and re.fullmatch(r"[0-9a-f]+", value):
        return kind, value
    if word.isascii() and word.isdigit() and len(word) < 19:
        return "size_bytes", int(word)
    raise InputError(f"{where}: {word[:100]!r} is neither a digest, a size in bytes nor name=...: remove or fix it.")


def distinct(files: Iterable[RemoteFile], where: str) -> list[RemoteFile]:
    """The files, each once. Raises InputError where two would have one name."""
    by_name: dict[str, RemoteFile] = {}
    for file in files:
        other = by_name.setdefault(file.name, file)
        if other != file:
            raise InputError(
                f"{where}: {other.url} and {file.url} would both be called {file.name}. Write "
                "name=... after one of them."
            )
    return list(by_name.values())


def pinned(files: Iterable[RemoteFile], digests: Mapping[str, str], kind: str) -> list[RemoteFile]:
    """The files, with a digest where one is known by name."""
    return [RemoteFile.from_json({**file.to_json(), **_one(digests.get(file.name), kind)}) for file in files]


def _one(digest: str | None, kind: str) -> dict[str, str]:
    return {} if digest is None else {kind: digest}
