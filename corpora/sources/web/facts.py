"""Facts that a page gives about itself: day of publication, language, own address, license.

Promises: a pure function of the page, its address and the day of its crawl; no clock is asked. Nothing is guessed from
prose: a day is taken from data, `<meta>`, `<time>` or the address, the most trusted first, and is never later than the
crawl. Costs: 0.3 ms for a page of 160 kB.

Source: schema.org (datePublished), ogp.me (og:title, og:url, og:locale, article:published_time), RFC 6596 (canonical),
RFC 5646 (language tags).
"""

import re
from collections.abc import Iterable, Iterator
from datetime import date
from urllib.parse import SplitResult, urljoin, urlsplit

from corpora.sources.web.tree import ATTRIBUTE, Tree, unescape_html

MIN_YEAR = 1990
PUBLISHED = re.compile(r'"date(?:Published|Created)"\s*:\s*"([^"]{4,40})"')
# Names of `<meta>` that tell the day, the most trusted first.
DATE_NAMES = (
    "article:published_time", "og:article:published_time", "og:published_time", "datepublished", "parsely-pub-date",
    "sailthru.date", "dc.date.issued", "dcterms.issued", "dcterms.created", "dc.date.created",
    "citation_publication_date",
    "publishdate", "publish-date", "publish_date", "pubdate", "pub_date", "publication_date", "publicationdate",
    "article.published",
    "cxenseparse:recs:publishtime", "originalpublicationdate", "displaydate", "datecreated", "article_date_original",
    "dc.date", "dcterms.date", "date",
)  # fmt: skip
MONTHS = (
    ("jan", 1), ("feb", 2), ("fév", 2), ("mar", 3), ("mär", 3), ("apr", 4), ("avr", 4), ("abr", 4), ("may", 5),
    ("mai", 5), ("jun", 6), ("juin", 6), ("jul", 7), ("juil", 7), ("aug", 8), ("ago", 8), ("sep", 9), ("oct", 10),
    ("okt", 10), ("nov", 11), ("dec", 12), ("dez", 12), ("déc", 12), ("dic", 12),
)  # fmt: skip
NUMERIC_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)([-/.]?)(0?[1-9]|1[0-2])\2(0?[1-9]|[12]\d|3[01])(?!\d)")
DAY_FIRST_DATE = re.compile(r"(?<!\d)(0?[1-9]|[12]\d|3[01])\.\s?(0?[1-9]|1[0-2])\.\s?((?:19|20)\d\d)(?!\d)")
DATE_IN_WORDS = re.compile(
    r"(?:(?<!\d)(\d\d?)(?:st|nd|rd|th|\.)?[ -]+(?:de )?)?([^\W\d_]{3,10})\.?[ -]+(?:(\d\d?)(?:st|nd|rd|th)?,? +|de )?"
    r"((?:19|20)\d\d)(?!\d)"
)
DATE_IN_ADDRESS = re.compile(r"(?<!\d)((?:19|20)\d\d)[-/_]?(0[1-9]|1[0-2])[-/_]?(0[1-9]|[12]\d|3[01])(?!\d)")
DATE_IN_PATH = re.compile(r"/((?:19|20)\d\d)/(1[0-2]|0?[1-9])/(3[01]|[12]\d|0?[1-9])(?:/|$)")
LANGUAGE = re.compile(r"\s*([a-z]{2,3})(?![a-z])", re.IGNORECASE)

ANY_NAME = re.compile(".*", re.DOTALL)

Attributes = dict[str, str]


def parse_attributes(written: str, wanted: re.Pattern[str] = ANY_NAME) -> Attributes:
    """Parse the attributes of a tag into a dictionary: name in lower case -> value, stripped of white space.

    If a name occurs several times, the first value is used.

    Args:
        written: The raw attribute string of the tag.
        wanted: Pattern that must match the whole name; other attributes are omitted.

    >>> parse_attributes(' Name="a &amp; b" content=c hidden')
    {'name': 'a & b', 'content': 'c', 'hidden': ''}
    """
    attributes: Attributes = {}
    for name, double, single, bare in ATTRIBUTE.findall(written):
        if (name := name.lower()) not in attributes and wanted.fullmatch(name):
            attributes[name] = unescape_html(double or single or bare).strip()
    return attributes


def collect_metas(tree: Tree) -> dict[str, str]:
    """Collect the contents of a page's `<meta>` tags by name in lower case.

    The name is the tag's `property`, `name`, `itemprop` or `http-equiv`. If it occurs several times, the first content
    is used.
    """
    metas: dict[str, str] = {}
    for written in tree.metas:
        attributes = parse_attributes(written)
        if content := attributes.get("content"):
            for key in ("property", "name", "itemprop", "http-equiv"):
                if name := attributes.get(key):
                    metas.setdefault(name.lower(), content)
    return metas


def find_published_day(tree: Tree, metas: dict[str, str], url: str, last_day: str) -> str | None:
    """Return the day on which a page was published, as YYYY-MM-DD; None if the page does not state it.

    Args:
        tree: The page.
        metas: Contents of the `<meta>` tags by name, as returned by `collect_metas`.
        url: URL of the page, which may contain the day.
        last_day: Latest day to accept, as YYYY-MM-DD; later days are ignored.
    """
    return next((day for day in _iter_days(tree, metas, url) if day <= last_day), None)


def _iter_days(tree: Tree, metas: dict[str, str], url: str) -> Iterator[str]:
    """Yield possible days of publication as YYYY-MM-DD, the most trustworthy first.

    They are taken from JSON-LD scripts, `<meta>` tags, the URL and `<time>` tags.

    Args:
        tree: The page.
        metas: Contents of the `<meta>` tags by name, as returned by `collect_metas`.
        url: URL of the page.
    """
    published = (written for script in tree.scripts for written in PUBLISHED.findall(script))
    metas_with_days = (metas[name] for name in DATE_NAMES if name in metas)
    yield from _read_days((*published, *metas_with_days))
    parts = split_address(url)
    for pattern in (DATE_IN_PATH, DATE_IN_ADDRESS):
        if parts and (match := pattern.search(parts.path)) and (day := _to_iso_day(*match.groups())):
            yield day
    times = [parse_attributes(written) for written in tree.times]
    marked = [time for time in times if "pubdate" in time or "publi" in f"{time.get('itemprop')} {time.get('class')}"]
    yield from _read_days(time["datetime"] for time in (*marked, *times) if "datetime" in time)


def _read_days(texts: Iterable[str]) -> Iterator[str]:
    """Yield the first date in each string that has one, as YYYY-MM-DD."""
    for text in texts:
        if day := read_day(text):
            yield day


def read_day(text: str) -> str | None:
    """Return the first date in a string, as YYYY-MM-DD; None if there is none. Only the first 100 characters are read.

    >>> read_day("2019-11-20T10:00Z"), read_day("20. November 2019"), read_day("Nov. 20, 2019"), read_day("20.11.2019")
    ('2019-11-20', '2019-11-20', '2019-11-20', '2019-11-20')
    """
    text = text[:100]
    if match := NUMERIC_DATE.search(text):
        return _to_iso_day(match[1], match[3], match[4])
    if match := DAY_FIRST_DATE.search(text):
        return _to_iso_day(match[3], match[2], match[1])
    for match in DATE_IN_WORDS.finditer(text):
        number = match[1] or match[3]
        month = next((month for name, month in reversed(MONTHS) if match[2].lower().startswith(name)), 0)
        if number and month:
            return _to_iso_day(match[4], str(month), number)
    return None


def _to_iso_day(year: str, month: str, day: str) -> str | None:
    """Return a date as YYYY-MM-DD; None if it does not exist or is before 1990."""
    try:
        parsed = date(int(year), int(month), int(day))
    except ValueError:  # the 30th of February
        return None
    return parsed.isoformat() if parsed.year >= MIN_YEAR else None


def find_language(tree: Tree, metas: dict[str, str]) -> str | None:
    """Return the language that a page declares, as a lower-case primary subtag ("en" for "en-GB"), or None.

    The attributes of `<html>` are searched first, then `metas`, the page's `<meta>` contents by name.
    """
    html = parse_attributes(tree.html)
    tags = (html.get("lang"), html.get("xml:lang"), metas.get("content-language"), metas.get("og:locale"))
    matches = (LANGUAGE.match(tag) for tag in tags if tag)
    return next((tag[1].lower() for tag in matches if tag), None)


def find_canonical_address(tree: Tree, metas: dict[str, str], url: str) -> str | None:
    """Return the canonical URL that a page declares, absolute and without fragment; None if it is not a web URL.

    Args:
        tree: The page.
        metas: Contents of the `<meta>` tags by name, as returned by `collect_metas`.
        url: URL of the page, to which a relative canonical URL refers.
    """
    links = (parse_attributes(written) for written in tree.links if "canonical" in written.lower())
    found = [link["href"] for link in links if "canonical" in link.get("rel", "").lower().split() and link.get("href")]
    for address in (*found, metas.get("og:url", "")):
        if split_address(address) and (not url or split_address(url)):
            whole = urljoin(url, address).partition("#")[0]
            if (parts := split_address(whole)) and parts.scheme in ("http", "https") and parts.hostname:
                return whole
    return None


def find_license_address(tree: Tree) -> str | None:
    """Return the URL of the license that a page links to, as it is written in the link; None if there is none."""
    links = (parse_attributes(written) for written in tree.links if "license" in written.lower())
    return next((link["href"] for link in links if link.get("rel") == "license" and link.get("href")), None)


def split_address(address: str) -> SplitResult | None:
    """Split a URL into its parts. Return None if the URL is empty or cannot be parsed."""
    try:
        return urlsplit(address) if address else None
    except ValueError:
        return None
