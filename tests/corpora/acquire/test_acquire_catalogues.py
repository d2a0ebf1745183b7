"""Catalogues as their publishers write them, and the `fetch` table."""

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.acquire.fetch_table import AcquireSettings, RemoteFile, check_name, find_folder, parse_name, read_settings
from corpora.acquire.publishers import (
    ResolvedFetch,
    find_dump_dates,
    find_news_years,
    list_dump_files,
    list_news_files,
    parse_addresses,
    select_first_files,
    split_list,
)
from corpora.errors import InputError

LISTING = b"""<!DOCTYPE html>
<html lang="en"><head><title>Index of /testwiki/</title></head><body>
<h1>Index of /testwiki/</h1><hr><pre><a href="../">../</a>
<a href="20260920/">20260920/</a>                      25-Sep-2026 18:40       -
<a href="20261001/">20261001/</a>                      07-Oct-2026 04:11       -
<a href="https://dumps.example.org/testwiki/20261101/">20261101/</a>           -
<a href="20269999/">20269999/</a>
<a href="latest/">latest/</a>                          07-Oct-2026 04:12       -
</pre><hr></body></html>"""
NAMES = [
    "testwiki-20261101-pages-articles-multistream10.xml-p900p1000.bz2",
    "testwiki-20261101-pages-articles-multistream-index10.txt-p900p1000.bz2",
    "testwiki-20261101-pages-articles-multistream2.xml-p41p899.bz2",
    "testwiki-20261101-pages-articles-multistream-index2.txt-p41p899.bz2",
    "testwiki-20261101-pages-articles-multistream1.xml-p1p40.bz2",
    "testwiki-20261101-pages-articles-multistream-index1.txt-p1p40.bz2",
]


def status(names: list[str] = NAMES, state: str = "done", **facts: Any) -> bytes:
    """A `dumpstatus.json` with these files in the job of the articles."""
    files = {
        name: {
            "size": 1000 + number,
            "url": f"/testwiki/20261101/{name}",
            "md5": hashlib.md5(name.encode()).hexdigest(),
            "sha1": hashlib.sha1(name.encode()).hexdigest(),
            **facts,
        }
        for number, name in enumerate(names)
    }
    jobs = {
        "metahistory7zdump": {"status": "waiting", "updated": ""},
        "articlesmultistreamdump": {"status": state, "updated": "2026-11-05 03:12:44", "files": files},
    }
    return json.dumps({"version": "0.8", "jobs": jobs}).encode()


def test_the_dates_of_a_wiki_are_read_from_its_listing() -> None:
    assert find_dump_dates(LISTING) == ["20261101", "20261001", "20260920"]


def test_dumps_and_indexes_come_in_the_order_of_the_pages_with_size_and_sha1() -> None:
    files = list_dump_files(status(), "testwiki", "20261101")
    assert [file.name.split("multistream")[1] for file in files] == [
        "-index1.txt-p1p40.bz2",
        "1.xml-p1p40.bz2",
        "-index2.txt-p41p899.bz2",
        "2.xml-p41p899.bz2",
        "-index10.txt-p900p1000.bz2",
        "10.xml-p900p1000.bz2",
    ]
    first = files[1]
    assert first.url == "https://dumps.wikimedia.org/testwiki/20261101/" + first.name
    assert (first.size_bytes, first.sha1) == (1004, hashlib.sha1(first.name.encode()).hexdigest())


@pytest.mark.parametrize(("limit", "num_files"), [(1, 2), (2, 4), (3, 6), (99, 6), (None, 6)])
def test_a_dump_and_its_index_are_one_for_a_limit(limit: int | None, num_files: int) -> None:
    files = list_dump_files(status(), "testwiki", "20261101")
    assert select_first_files(files, limit) == files[:num_files]


WRONG_STATUS = {
    "no JSON": b"<html>",
    "a list": b"[]",
    "no jobs": b"{}",
    "no files": b'{"jobs": {"articlesmultistreamdump": {"status": "done"}}}',
    "files of another dump": status(["otherwiki-20261101-a.xml.bz2"]),
    "a path": status(["testwiki-20261101-/../../a.xml.bz2"]),
    "a size that is none": status(size="1000"),
    "a size below none": status(size=-1),
    "a digest that is none": status(sha1="yes"),
}


def packed(*paths: str) -> bytes:
    return gzip.compress(
        "".join(f"{path}\n" for path in paths).encode(), mtime=0
    )  # else the clock would name the tests


NEWS = [f"crawl-data/CC-NEWS/2026/10/CC-NEWS-202610010{n}1532-0012{n}.warc.gz" for n in range(3)]


def test_the_years_of_news_are_read_from_their_page() -> None:
    page = b'<a href="./2025/index.html">2025</a><a href=\'2026/index.html\'>2026</a><a href="/2020/x.css">'
    assert find_news_years(page) == ["2026", "2025"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        packed(*NEWS)[:-9],
        packed("crawl-data/CC-NEWS/2026/10/../../a.warc.gz"),
        packed("https://evil.example/a.warc.gz"),
        packed(NEWS[0].replace("/10/", "/09/")),
    ],
    ids=["nothing", "another page", "cut short", "a path that climbs", "an address", "another month"],
)
def test_a_list_of_another_form_is_refused(data: bytes) -> None:
    if data == b"":
        assert list_news_files(data, "2026-10") == []  # gzip reads nothing as nothing; resolving then finds no file
        return
    with pytest.raises(InputError):
        list_news_files(data, "2026-10")


def test_addresses_stand_with_what_is_known_of_them() -> None:
    sha256, sha1, md5 = (hashlib.new(kind, b"").hexdigest() for kind in ("sha256", "sha1", "md5"))
    lines = [
        "# books",
        "",
        f"https://example.org/a%20b.txt?x=1 {sha256.upper()} 12",
        f"  http://example.org:8080/c.txt 7 sha1={sha1} name=d.txt  ",
        f"https://example.org/e.txt md5:{md5}",
        "https://example.org/e2.txt",
    ]
    assert parse_addresses(lines, "the list") == [
        RemoteFile(url="https://example.org/a%20b.txt?x=1", name="a b.txt", size_bytes=12, sha256=sha256),
        RemoteFile(url="http://example.org:8080/c.txt", name="d.txt", size_bytes=7, sha1=sha1),
        RemoteFile(url="https://example.org/e.txt", name="e.txt", md5=md5),
        RemoteFile(url="https://example.org/e2.txt", name="e2.txt"),
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["ftp://example.org/a"], "line 1: 'ftp://example.org/a' is no address"),
        (["https:///a"], "no address"),
        (["https://me:secret@example.org/a"], r"'https://\*\*\*@example.org/a' is no address: .* without a password"),
        (["https://example.org:x/a"], "no address"),
        (["# nothing"], "names no address"),
        (["https://example.org/"], "cannot be the name"),
        (["https://example.org/%2e%2e"], "cannot be the name"),
        (["https://example.org/a%2Fb"], "cannot be the name"),
        (["https://example.org/a%00"], "cannot be the name"),
        (["https://example.org/a name=../a"], "cannot be the name"),
        (["https://example.org/a 12 13"], "size_bytes is given twice"),
        (["https://example.org/a zwölf"], "neither a digest"),
        (["https://example.org/a", "https://example.org/b/a"], "would both be called a"),
    ],
)
def test_an_address_that_cannot_be_fetched_is_named(lines: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_addresses(lines, "the list")


def test_a_list_may_begin_with_a_mark_and_must_be_text() -> None:
    assert split_list("\ufeffhttps://example.org/a\r\n".encode(), "here") == ["https://example.org/a"]
    with pytest.raises(InputError, match="UTF-8"):
        split_list(b"\xff\xfeh\x00", "here")


@given(st.one_of(st.text(max_size=300), st.text("./\\\0a", max_size=4)))
def test_any_name_is_that_of_one_file_in_its_folder_or_refused(text: str) -> None:
    names = [text, parse_name(f"https://example.org/x/{quote(text, safe='', errors='replace')}")]
    for name in filter(is_name, names):
        assert name not in ("", ".", "..") and not {"/", "\\", "\0", "\n"} & {*name}
        assert len(name.encode(errors="surrogatepass")) <= 240


def is_name(text: str) -> bool:
    try:
        check_name(text)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"catalogue": "wikipedia"}, "needs one key"),
        ({"catalogue": "wikipedia", "dump": "enwiki"}, "is not of the form"),
        ({"catalogue": "wikipedia", "dump": "enwiki-latest", "months": "latest"}, "none of another catalogue"),
        ({"catalogue": "cc-news", "months": ["2026-13"]}, "is not of the form"),
        ({"catalogue": "cc-news", "months": ["latest", "2026-10"]}, "with other months"),
        ({"catalogue": "urls", "urls": ["a.txt"]}, "is not of the form"),
        ({"catalogue": "urls", "urls": ["https://example.org/a"], "list": "a.txt"}, "needs one key"),
        ({"catalogue": "urls", "list": "a.txt", "mirror": "https://example.org"}, "no publisher"),
        ({"catalogue": "wet", "crawl": "CC-MAIN-2026-40", "mirror": "example.org"}, "must be https"),
        ({"catalogue": "ftp"}, "is not known"),
        ({"catalogue": "wet", "crawl": "CC-MAIN-2026-40", "limit": 0}, "fetch.limit"),
        ({"catalogue": "wet", "crawl": "CC-MAIN-2026-40", "user_agent": "a\nb"}, "fetch.user_agent"),
        ({"catalogue": "wet", "crawl": "CC-MAIN-2026-40", "mirrors": "x"}, "did you mean 'mirror'"),
    ],
)
def test_a_table_that_cannot_be_meant_is_an_error_with_its_key(table: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_settings(table, "fetch", "source")


def test_a_mirror_takes_the_publishers_place_and_is_no_part_of_what_is_asked() -> None:
    plain = AcquireSettings(catalogue="wikipedia", dump="enwiki-20261101")
    mirrored = AcquireSettings(catalogue="wikipedia", dump="enwiki-20261101", mirror="https://m.example/wiki/", limit=3)
    url = "https://dumps.wikimedia.org/enwiki/20261101/a"
    assert (plain.to_mirror(url), mirrored.to_mirror(url)) == (url, "https://m.example/wiki/enwiki/20261101/a")
    assert mirrored.to_mirror("https://other.example/a") == "https://other.example/a"
    assert (
        plain.to_question_json() == mirrored.to_question_json() == {"catalogue": "wikipedia", "dump": "enwiki-20261101"}
    )


def test_raw_files_go_below_the_recipe_unless_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = {"catalogue": "wet", "crawl": "CC-MAIN-2026-40"}
    for folder, expected in ((None, "mine/raw/news"), ("dumps", "mine/dumps"), (str(tmp_path / "far"), "far")):
        settings = read_settings({**table, **({"folder": folder} if folder else {})}, "fetch", "news")
        assert find_folder(settings, Path("mine")) == str(tmp_path / expected)


SECRET = (
    "https://me:hunter2@example.org/a",
    "https://b.s3.amazonaws.com/a?X-Amz-Algorithm=AWS4&X-Amz-Credential=a&X-Amz-Signature=hunter2",
    "https://b.s3.amazonaws.com/a?AWSAccessKeyId=b&Expires=1&Signature=hunter2",
    "https://b.blob.core.windows.net/a?sp=r&se=2027-01-01&sv=2022&sr=b&sig=hunter2",
    "https://storage.googleapis.com/b/a?X-Goog-Credential=a&X-Goog-Signature=hunter2",
    "https://d1.cloudfront.net/a?Policy=hunter2&Key-Pair-Id=K",
    "https://example.org/a?raw=1;access_token=hunter2",
    "https://example.org/a?%53ignature=hunter2",
    "https://example.org/a#token=hunter2",
    "https://example.org/a?API_KEY=hunter2",
)
OPEN = (
    "https://example.org/a?raw=1&keyword=b",
    "https://example.org/design=1/a?page=2#user",
    "https://example.org/a@b",
)


@pytest.mark.parametrize("address", SECRET)
def test_a_secret_in_an_address_is_refused_and_not_shown(address: str, tmp_path: Path) -> None:
    """Law: no secret goes into a lock, a record or a log. Every door that an address has, every kind of secret."""
    table = {"url": address, "name": "a"}
    doors: list[Callable[[], object]] = [
        lambda: AcquireSettings(catalogue="urls", urls=(address,)),
        lambda: AcquireSettings(catalogue="urls", urls=(address.replace("https", "ftp"),)),
        lambda: AcquireSettings(catalogue="urls", list=address),
        lambda: AcquireSettings(catalogue="wet", crawl="CC-MAIN-2026-40", mirror=address),
        lambda: parse_addresses([f"{address} 12"], "the list"),
        lambda: ResolvedFetch.from_json({"asked": {}, "fixed": [], "complete": True, "files": [table]}, "The lock"),
    ]
    for door in doors:
        with pytest.raises(InputError) as refused:
            door()
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("address", OPEN)
def test_an_address_that_is_open_to_all_is_taken(address: str) -> None:
    assert AcquireSettings(catalogue="urls", urls=(address,)).urls == (address,)
