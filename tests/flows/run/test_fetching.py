"""`cloze fetch` on a recipe's entries: what is written down when, what stays, and what is said."""

import gzip
import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import acquire_fixtures
import pytest
from acquire_fixtures import news_names, publish_dump, publish_listing, publish_month
from scripted_server import Answer, Site

from corpora.acquire.fetch_table import read_settings
from corpora.acquire.http_client import Patience
from corpora.errors import InputError
from corpora.sources.contract import StatCache
from corpora.sources.registry import make_source
from flows.recipes.recipe import parse_recipe
from flows.run.inputs.fetch import FetchOptions, FetchReport, fetch_recipe
from flows.run.inputs.raw_files import fetch_inputs

pytestmark = pytest.mark.server
PATIENCE = Patience(first_seconds=0.01, max_seconds=0.1, attempts=2)


new_hosts, server = acquire_fixtures.new_hosts, acquire_fixtures.server


class Desk:
    """A recipe's folder, with the lock as it was last recorded."""

    def __init__(self, root: Path, server: Site) -> None:
        self.root, self.server = root, server
        self.lock: dict[str, Any] = {}
        self.records: list[dict[str, Any]] = []
        self.tables: dict[str, dict[str, Any]] = {
            "wikipedia": {"catalogue": "wikipedia", "dump": "testwiki-latest", "mirror": server.base + "/dumps"},
            "news": {"catalogue": "cc-news", "months": ["2026-10"], "mirror": server.base, "folder": "news"},
        }
        self.cache = StatCache()

    def record(self, resolved: Mapping[str, Any]) -> None:
        self.lock = json.loads(json.dumps(resolved))
        self.records.append(self.lock)

    def fetch(self, anywhere: Collection[str] = (), **options: Any) -> FetchReport:
        """Fetch as the command does."""
        tables = {name: read_settings(table, "fetch", name) for name, table in self.tables.items()}
        said = FetchOptions(**options)
        return fetch_recipe(
            tables, self.root, self.lock, self.record, said, self.cache, patience=PATIENCE, given_folders=anywhere
        )

    def names(self, folder: str) -> list[str]:
        return sorted(path.name for path in (self.root / folder).iterdir())


@pytest.fixture
def desk(tmp_path: Path, server: Site) -> Desk:
    publish_dump(server, "20261001", "done")
    publish_dump(server, "20261101", "in-progress")
    publish_listing(server, "20261001", "20261101")
    publish_month(server, "2026-10", 3)
    return Desk(tmp_path / "recipe", server)


def test_a_recipes_raw_files_come_and_its_sources_read_them(desk: Desk) -> None:
    report = desk.fetch()
    wiki = "testwiki-20261001-pages-articles-multistream"
    assert desk.names("raw/wikipedia") == [f"{wiki}-index.txt.bz2", f"{wiki}.xml.bz2"]
    assert desk.names("news") == news_names("2026-10", 3)
    source = make_source({"kind": "wikipedia", "path": str(desk.root / "raw/wikipedia")})
    assert [name for name, _ in source.files()] == [f"{wiki}.xml.bz2"]
    assert [len(files) for files in report.files.values()] == [2, 3]
    assert report.lines[0].startswith("wikipedia: testwiki-20261001: 2 files, ")
    assert report.lines[1] == f"news: 2026-10: 3 files, 0.0 MB in {desk.root / 'news'}"
    assert report.resolved == desk.lock
    digests = {file["name"]: file["sha256"] for value in desk.lock.values() for file in value["files"]}
    for file in [file for files in report.files.values() for file in files]:
        assert digests[file.name] == file.sha256 == hashlib.sha256(Path(file.path).read_bytes()).hexdigest()


def test_latest_is_written_down_before_anything_is_fetched(desk: Desk) -> None:
    desk.fetch(source="wikipedia")
    first, second = desk.records
    assert first["wikipedia"]["fixed"] == ["testwiki-20261001"]
    assert "sha256" not in first["wikipedia"]["files"][0] and "sha256" in second["wikipedia"]["files"][0]


def test_the_second_fetch_asks_for_nothing_until_refreshed(desk: Desk) -> None:
    first = desk.fetch()
    publish_dump(desk.server, "20261101", "done")
    num_asked, num_records = len(desk.server.asked), len(desk.records)
    assert desk.fetch() == first
    assert (len(desk.server.asked), len(desk.records)) == (num_asked, num_records)
    refreshed = desk.fetch(source="wikipedia", refresh=True)
    assert refreshed.lines[0].startswith("wikipedia: testwiki-20261101: 2 files")
    assert desk.lock["news"] == first.resolved["news"]


def test_a_lock_brings_the_same_bytes_to_another_machine_or_says_that_it_cannot(desk: Desk, tmp_path: Path) -> None:
    desk.fetch()
    other = Desk(tmp_path / "other", desk.server)
    other.lock = desk.lock
    publish_dump(desk.server, "20261101", "done")
    assert {name: [f.sha256 for f in files] for name, files in other.fetch().files.items()} == {
        name: [file["sha256"] for file in value["files"]] for name, value in desk.lock.items()
    }
    third = Desk(tmp_path / "third", desk.server)
    third.lock = desk.lock
    replaced = news_names("2026-10", 3)[1]
    desk.server.serve(f"/crawl-data/CC-NEWS/2026/10/{replaced}", Answer(body=gzip.compress(b"rewritten")))
    with pytest.raises(InputError, match=r"promised.*--refresh"):
        third.fetch()
    assert third.fetch(refresh=True).files["news"][1].name == replaced


def test_a_limit_takes_the_first_files(desk: Desk) -> None:
    assert [file.name[-13:] for file in desk.fetch(source="news", limit=1).files["news"]] == ["00000.warc.gz"]
    assert desk.names("news") == news_names("2026-10", 1)
    assert len(desk.fetch(source="wikipedia", limit=1).files["wikipedia"]) == 2  # the dump with its index


def test_a_source_that_fails_stops_no_other_and_what_came_is_written_down(desk: Desk) -> None:
    gone = f"/crawl-data/CC-NEWS/2026/10/{news_names('2026-10', 3)[1]}"
    del desk.server.script[gone]
    desk.tables = {"none": {"catalogue": "urls", "list": "nowhere.txt"}, **dict(reversed(desk.tables.items()))}
    with pytest.raises(InputError) as failed:
        desk.fetch()
    said = str(failed.value)
    assert "Source 'none': Cannot read fetch.list" in said and "Source 'news': 1 of 3 files" in said and gone in said
    assert "wikipedia" not in said and len(desk.names("raw/wikipedia")) == 2
    assert ["sha256" in file for file in desk.lock["news"]["files"]] == [True, False, True]


def test_what_is_no_entry_is_said(desk: Desk) -> None:
    with pytest.raises(InputError, match=r"--source = 'nws' .*did you mean 'news'\? .* 'wikipedia', 'news'\."):
        desk.fetch(source="nws")
    desk.tables["news"]["folder"] = "raw/../raw/wikipedia"
    with pytest.raises(InputError, match=r"'wikipedia' and 'news' both fetch into raw/wikipedia"):
        desk.fetch(source="news")
    desk.tables = {}
    with pytest.raises(InputError, match="nothing to fetch"):
        desk.fetch()


@pytest.mark.parametrize("folder", ["absolute", "..", "../recipe-2", "raw/../../far", "linked", "linked/below"])
def test_a_recipe_fetches_below_its_own_folder_unless_the_command_says_otherwise(desk: Desk, folder: str) -> None:
    """Law: a recipe may be a stranger's. Fails where it writes outside of its folder because it says so itself."""
    far = desk.root.parent / "far"
    far.mkdir()
    (desk.root / "raw").mkdir(parents=True)
    (desk.root / "linked").symlink_to(far)
    desk.tables["news"]["folder"] = str(far) if folder == "absolute" else folder
    before = sorted(desk.root.parent.rglob("*"))
    with pytest.raises(InputError, match=r"not below the recipe's folder.*--set source\.news\.fetch\.folder="):
        desk.fetch()
    assert sorted(desk.root.parent.rglob("*")) == before and desk.server.asked == []
    assert len(desk.fetch(anywhere={"news"}, source="news").files["news"]) == 3


RECIPE = """
[[source]]
kind = "files"
name = "2026.11"
fetch = { catalogue = "urls", urls = "https://example.org/a.txt", folder = "/far" }
"""


@pytest.mark.parametrize("key", ["source.fetch.folder", "source.1.fetch.folder", 'source."2026.11".fetch.folder'])
def test_a_folder_given_on_the_command_line_is_known_however_its_source_is_named(key: str, tmp_path: Path) -> None:
    """Fails if the remedy that a refusal names does not help, or another setting helps as well."""
    path = tmp_path / "a.toml"
    assert parse_recipe(RECIPE, path, {key: "/far"}).given_folders == {"2026.11"}
    assert parse_recipe(RECIPE, path, {key.replace("folder", "limit"): "3"}).given_folders == frozenset()
    with pytest.raises(InputError, match=r'--set source."2026.11".fetch.folder=/far'):
        fetch_inputs(parse_recipe(RECIPE, path, {}), tmp_path, print)


def test_a_file_that_was_to_be_replaced_still_may_be_when_the_fetch_failed_at_first(desk: Desk) -> None:
    """Fails if a fetch that failed once takes its own earlier file for a stranger's."""
    desk.fetch(source="news")
    name = news_names("2026-10", 3)[0]
    own = desk.root / "news" / name
    address = f"/crawl-data/CC-NEWS/2026/10/{name}"
    desk.server.serve(address, Answer(status=404))
    with pytest.raises(InputError):
        desk.fetch(source="news", refresh=True)
    desk.server.serve(address, Answer(body=gzip.compress(b"rewritten")))
    desk.fetch(source="news")
    assert gzip.decompress(own.read_bytes()) == b"rewritten"
    own.write_bytes(b"somebody's own")
    with pytest.raises(InputError, match="is in the way"):
        desk.fetch(source="news", refresh=True)
    assert own.read_bytes() == b"somebody's own"


def test_a_source_that_left_the_recipe_leaves_the_lock(desk: Desk) -> None:
    desk.fetch()
    del desk.tables["news"]
    assert set(desk.fetch(refresh=True).resolved) == {"wikipedia"}


def test_a_lock_that_nobody_can_read_is_refused_and_refreshed(desk: Desk) -> None:
    desk.lock = {"wikipedia": {"fixed": 3}}
    with pytest.raises(InputError, match=r"The lock, for source 'wikipedia', does not hold.*--refresh"):
        desk.fetch(source="wikipedia")
    assert desk.fetch(source="wikipedia", refresh=True).files
