"""Sources are resolved against mirrors that publish as Wikimedia and Common Crawl do."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import acquire_fixtures
import pytest
from acquire_fixtures import dump_names, news_names, publish_dump, publish_listing, publish_month
from scripted_server import Answer, NewHosts, Site

from corpora.acquire.fetch import fetch_files
from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.publishers import ResolvedFetch, resolve
from corpora.errors import InputError
from corpora.sources.contract import RawFile

pytestmark = pytest.mark.server
new_hosts, server = acquire_fixtures.new_hosts, acquire_fixtures.server


@pytest.fixture
def wikimedia(server: Site) -> Site:
    """A wiki with a dump that has only begun, one that runs, and two that are finished."""
    publish_dump(server, "20260901", "done")
    publish_dump(server, "20261001", "done")
    publish_dump(server, "20261101", "in-progress")
    publish_listing(server, "20260901", "20261001", "20261101", "20261120", "latest")
    return server


def dumps(server: Site, dump: str) -> Any:
    return server.new_hosts(catalogue="wikipedia", urls=(), dump=dump, mirror=server.base + "/dumps/")


def again(resolved: ResolvedFetch) -> ResolvedFetch:
    """Through the lock and back."""
    return ResolvedFetch.from_json(json.loads(json.dumps(resolved.to_json())), "the lock")


def test_latest_is_the_newest_dump_that_is_finished(wikimedia: Site) -> None:
    hosts = dumps(wikimedia, "testwiki-latest")
    first = resolve(hosts.settings, hosts, wikimedia.folder)
    assert first.fixed == ("testwiki-20261001",)
    landed = fetch_files(first.select_files(None), wikimedia.folder, hosts)
    assert {file.name for file in landed} == {*dump_names("20261001")}
    assert all(
        (wikimedia.folder / name).read_bytes() == b"BZh" + name.encode() * 100 for name in dump_names("20261001")
    )


def test_files_stand_under_their_publishers_address_whatever_the_mirror(wikimedia: Site) -> None:
    hosts = dumps(wikimedia, "testwiki-20260901")
    resolved = resolve(hosts.settings, hosts, wikimedia.folder)
    assert {file.url.rpartition("/")[0] for file in resolved.files} == {"https://dumps.wikimedia.org/testwiki/20260901"}
    elsewhere = wikimedia.new_hosts(
        catalogue="wikipedia", urls=(), dump="testwiki-20260901", mirror="http://127.0.0.1:9"
    )
    assert resolve(elsewhere.settings, elsewhere, wikimedia.folder, again(resolved)) == resolved


def test_a_dump_that_runs_or_is_not_there_is_an_error(wikimedia: Site) -> None:
    for dump, said in (
        ("testwiki-20261101", "not written yet"),
        ("testwiki-20261120", "no such file"),
        ("otherwiki-latest", "no such file"),
    ):
        hosts = dumps(wikimedia, dump)
        with pytest.raises(InputError, match=said):
            resolve(hosts.settings, hosts, wikimedia.folder)
    publish_listing(wikimedia, "20261101", "20261120")
    hosts = dumps(wikimedia, "testwiki-latest")
    with pytest.raises(InputError, match="lists 2 dumps, and none"):
        resolve(hosts.settings, hosts, wikimedia.folder)


@pytest.fixture
def common_crawl(server: Site) -> Site:
    """News of two years; the newest month has no file yet."""
    years = '<a href="./2025/index.html">2025</a> <a href="./2026/index.html">2026</a>'
    server.serve("/crawl-data/CC-NEWS/index.html", Answer(body=f"<html>{years}</html>".encode()))
    for month, num_files in (("2025-12", 2), ("2026-09", 2), ("2026-10", 3), ("2026-11", 0)):
        publish_month(server, month, num_files)
    return server


def news(server: Site, **settings: Any) -> Any:
    return server.new_hosts(catalogue="cc-news", urls=(), mirror=server.base, **settings)


def test_the_newest_month_with_files_stays_until_refreshed(common_crawl: Site) -> None:
    hosts = news(common_crawl, months=("latest",))
    resolved = resolve(hosts.settings, hosts, common_crawl.folder)
    assert resolved.fixed == ("2026-10",) and resolved.complete
    assert [file.name for file in resolved.files] == news_names("2026-10", 3)
    publish_month(common_crawl, "2026-11", 1)
    assert resolve(hosts.settings, hosts, common_crawl.folder, again(resolved)) == resolved
    assert resolve(hosts.settings, hosts, common_crawl.folder, again(resolved), refresh=True).fixed == ("2026-11",)


def test_months_are_taken_in_order_and_each_once(common_crawl: Site) -> None:
    hosts = news(common_crawl, months=("2026-10", "2025-12", "2026-10"))
    resolved = resolve(hosts.settings, hosts, common_crawl.folder)
    assert [file.name for file in resolved.files] == news_names("2025-12", 2) + news_names("2026-10", 3)
    hosts = news(common_crawl, months=("2026-11",))
    with pytest.raises(InputError, match="names no file"):
        resolve(hosts.settings, hosts, common_crawl.folder)


def test_a_limit_that_grows_reads_the_list_again_and_keeps_what_it_had(common_crawl: Site) -> None:
    one = news(common_crawl, months=("latest",), limit=1)
    first = resolve(one.settings, one, common_crawl.folder)
    assert (len(first.files), first.complete) == (1, False)
    pinned = first.with_fetched(fetch_files(first.select_files(1), common_crawl.folder, one))
    assert pinned.files[0].sha256 is not None
    assert resolve(one.settings, one, common_crawl.folder, again(pinned)) == pinned

    publish_month(common_crawl, "2026-11", 5)
    publish_month(common_crawl, "2026-10", 4)  # it has grown meanwhile
    two = news(common_crawl, months=("latest",), limit=2)
    grown = resolve(two.settings, two, common_crawl.folder, again(pinned))
    assert grown.fixed == ("2026-10",)
    assert grown.files[0] == pinned.files[0] and [file.name for file in grown.files] == news_names("2026-10", 2)
    assert resolve(one.settings, one, common_crawl.folder, again(grown)).select_files(1) == [pinned.files[0]]
    every = news(common_crawl, months=("latest",))
    assert len(resolve(every.settings, every, common_crawl.folder, again(grown)).files) == 4

    paths = "crawl-data/CC-NEWS/2026/10/other.warc.gz\n" * 3
    common_crawl.serve("/crawl-data/CC-NEWS/2026/10/warc.paths.gz", Answer(body=gzip.compress(paths.encode())))
    with pytest.raises(InputError, match="begins otherwise"):
        resolve(every.settings, every, common_crawl.folder, again(grown))


def test_wet_files_of_a_crawl(server: Site) -> None:
    paths = [f"crawl-data/CC-MAIN-2026-40/segments/17.1/wet/CC-MAIN-2026-{n:05}.warc.wet.gz" for n in range(5)]
    body = gzip.compress("".join(f"{path}\n" for path in paths).encode())
    server.serve("/cc/crawl-data/CC-MAIN-2026-40/wet.paths.gz", Answer(status=503), Answer(body=body))
    mirror = server.base + "/cc"
    hosts = server.new_hosts(catalogue="wet", urls=(), crawl="CC-MAIN-2026-40", mirror=mirror, limit=3)
    resolved = resolve(hosts.settings, hosts, server.folder)
    assert [file.url for file in resolved.files] == [f"https://data.commoncrawl.org/{path}" for path in paths[:3]]
    assert not resolved.complete


def test_a_list_beside_the_recipe_is_read_every_time_and_keeps_what_is_known(
    new_hosts: NewHosts, tmp_path: Path
) -> None:
    sha256 = hashlib.sha256(b"").hexdigest()
    (tmp_path / "list.txt").write_text("https://example.org/a.txt\n")
    hosts = new_hosts(urls=(), list="list.txt")
    first = resolve(hosts.settings, hosts, tmp_path)
    pinned = first.with_fetched([RawFile(name="a.txt", sha256=sha256, size_bytes=0, path="")])
    (tmp_path / "list.txt").write_text("https://example.org/b.txt\nhttps://example.org/a.txt\n")
    assert resolve(hosts.settings, hosts, tmp_path, again(pinned)).files == (
        RemoteFile(url="https://example.org/b.txt", name="b.txt"),
        RemoteFile(url="https://example.org/a.txt", name="a.txt", sha256=sha256, size_bytes=0),
    )
    other = hashlib.sha256(b"x").hexdigest()
    (tmp_path / "list.txt").write_text(f"https://example.org/a.txt {other}\n")
    assert resolve(hosts.settings, hosts, tmp_path, again(pinned)).files[0].sha256 == other
    (tmp_path / "list.txt").unlink()
    with pytest.raises(InputError, match=r"Cannot read fetch.list"):
        resolve(hosts.settings, hosts, tmp_path)


def test_a_list_at_an_address_is_read_once(server: Site) -> None:
    url = server.serve("/list.txt", Answer(body=b"https://example.org/a.txt 3\n"))
    hosts = server.new_hosts(urls=(), list=url)
    resolved = resolve(hosts.settings, hosts, server.folder)
    assert resolve(hosts.settings, hosts, server.folder, again(resolved)) == resolved
    assert len(server.asked) == 1 and resolved.files[0].size_bytes == 3


WHOLE = {"asked": {}, "fixed": [], "files": [{"url": "https://example.org/a", "name": "a"}], "complete": True}
WRONG = [
    {},
    {"complete": 3},
    {"files": [{}]},
    {"files": [{"url": "https://example.org/a", "name": "../a"}]},
    {"files": 3},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_lock_of_another_form_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="the lock does not hold"):
        ResolvedFetch.from_json({**WHOLE, **wrong} if wrong else {}, "the lock")
    assert again(ResolvedFetch.from_json(WHOLE, "the lock")).files[0].name == "a"
