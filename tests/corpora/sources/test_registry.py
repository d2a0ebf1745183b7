"""Sources by name: entry points of other packages, and what is said of those that are broken."""

import re
import sys
from pathlib import Path

import pytest
from installed_source import GOOD, Site, installed_at

from corpora.errors import InputError
from corpora.sources.files.source import FilesSource
from corpora.sources.registry import (
    SOURCES,
    find_distribution,
    get_step_defaults,
    has_setting,
    is_kind,
    list_kinds,
    load_source_class,
    make_source,
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return installed_at(tmp_path, monkeypatch)


def test_a_source_of_another_package(site: Site) -> None:
    site.install("good-source", "good_one", GOOD, "good = good_one:Good")
    source = make_source({"kind": "good", "name": "a", "path": "b", "depth": 2})
    assert (source.kind, source.version, source.settings()) == ("good", 3, {"depth": 2})
    assert (
        find_distribution("good") == {"distribution": "good-source", "version": "1.2"}
        and find_distribution("files") is None
    )
    assert set(list_kinds()) >= {"good", *SOURCES}
    with pytest.raises(InputError, match="no key 'dept': did you mean 'depth'"):
        make_source({"kind": "good", "name": "a", "path": "b", "dept": 2})


def test_a_kind_may_have_defaults(site: Site) -> None:
    """Fails if a kind's own defaults are not asked for, or a kind must have some."""
    with_defaults = GOOD.replace("    depth: int", "    defaults: ClassVar[dict] = {'lines': {'a': 1}}\n    depth: int")
    site.install("good-source", "good_defaults", with_defaults, "good = good_defaults:Good")
    assert get_step_defaults(make_source({"kind": "good", "name": "a", "path": "b"})) == {"lines": {"a": 1}}
    assert get_step_defaults(make_source({"kind": "files", "name": "a", "path": "b"})) == {}


def test_listing_imports_no_package(site: Site) -> None:
    site.install("bad-source", "bad_listed", "raise SystemError", "listed = bad_listed:Bad")
    assert "listed" in list_kinds() and "bad_listed" not in sys.modules
    assert make_source({"kind": "files", "name": "a", "path": "b"}).kind == "files"
    with pytest.raises(InputError, match=r"one of .*'listed'"):
        make_source({"kind": "lsted"})


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("class Good", "class Bad", "cannot be loaded: .*'Good'"),
        ("import", "imprt", "cannot be loaded: invalid syntax"),
        ("from typing", "from no_such_module", "cannot be loaded: No module named 'no_such_module'"),
        ("@dataclass(frozen=True, slots=True, kw_only=True)", "", "is not a dataclass"),
        ("frozen=True, ", "", "is not frozen"),
        ('"good"', '"better"', "has the `kind` 'better'"),
        ("[int] = 3", "[int] = '3'", "has no `version` of the type int"),
        ("= ()", "= 'lxml'", "has no `libraries` of the type tuple"),
        ("    name: str\n", "", "has no `name`"),
        ("def raw_record", "def raw_recrd", "has no `raw_record`"),
    ],
)
def test_a_broken_package_is_named(site: Site, old: str, new: str, says: str) -> None:
    assert old in GOOD
    module = re.sub(r"\W", "_", f"broken_{site.folder.name}")
    site.install("broken-source", module, GOOD.replace(old, new), f"good = {module}:Good")
    with pytest.raises(InputError, match=f"broken-source 1.2.*{says}.*remove"):
        load_source_class("good")


def test_two_packages_with_one_kind_are_refused(site: Site) -> None:
    site.install("first-source", "first_one", GOOD, "good = first_one:Good")
    site.install("second-source", "second_one", GOOD, "good = second_one:Good", version="2")
    with pytest.raises(InputError, match=r"comes from first-source 1\.2 .* and second-source 2 .*Remove all"):
        make_source({"kind": "good", "name": "a", "path": "b"})


def test_a_kind_of_ours_is_never_taken_over(site: Site) -> None:
    site.install("taker", "taker_one", GOOD.replace('"good"', '"files"'), "files = taker_one:Good")
    assert load_source_class("files") is FilesSource and list_kinds().count("files") == 1


def test_nothing_is_looked_for_among_packages_for_a_kind_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if each source of a recipe asks all installed packages: a plan of 1,000 sources took a minute so."""
    monkeypatch.setattr("corpora.entry_points.entry_points", lambda **_: pytest.fail("packages are asked"))
    for kind in SOURCES:
        assert is_kind(kind) and find_distribution(kind) is None and has_setting(kind, "license") in (True, False)
