"""The contents published with the program: what the shipped samples become here, and a word on what differs."""

from pathlib import Path

import pytest
from rich.console import Console

from corpora.documents import plan_documents
from corpora.sources.source import StatCache, hash_files
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import build_stage
from flows.closing import show_published
from flows.published import OWN_DOCS, compare, contents_of, published
from flows.recipe import shipped_recipe


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The documents of the demo's shipped samples."""
    folder = tmp_path_factory.mktemp("published")
    entries = [e for e in shipped_recipe("demo", folder, {}).sources if e.source.name != OWN_DOCS]
    place = Place(str(folder / "store"))
    stages = [plan_documents(e.source, hash_files(e.source.files(), StatCache()), e.documents) for e in entries]
    return [build_stage(place, stage) for stage in stages]


def test_the_samples_become_what_is_published(documents: list[Manifest]) -> None:
    """Fails where a change of a sample, a source or a step is not followed by `python -m flows.published STORE`."""
    assert contents_of(documents) == published()
    assert [item.differ for item in compare(documents, published())] == [()] * 5


def test_what_differs_is_told(documents: list[Manifest], tmp_path: Path) -> None:
    """Fails where other rows, or a source that is not there, pass for equal."""
    known = {**published(), "stories": {**published()["stories"], "dropped": "1.0"}, "more": {"documents": "2.0"}}
    found = {item.source: item.differ for item in compare(documents, known)}
    assert found == {**dict.fromkeys(published(), ()), "stories": ("dropped",), "more": ("documents",)}
    with (tmp_path / "said").open("w") as file:
        show_published(Console(file=file, width=200), compare(documents, known))
    said = (tmp_path / "said").read_text().splitlines()
    assert sum(line.endswith(" equal") for line in said) == 4
    assert any("differ in dropped" in line for line in said) and any("nothing" in line for line in said)
