"""The contents published with the program: what the shipped samples become here, and a word on what differs."""

from pathlib import Path

import pytest
from rich.console import Console

from corpora.judging.documents import plan_documents
from corpora.sources.contract import StatCache, hash_files
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from flows.command.run import print_sample_comparison
from flows.recipes.recipe import load_shipped_recipe
from flows.recipes.recipe_templates import OWN_DOCS, collect_contents, compare_contents, read_shipped_contents


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The documents of the demo's shipped samples."""
    folder = tmp_path_factory.mktemp("samples")
    entries = [e for e in load_shipped_recipe("demo", folder, {}).sources if e.source.name != OWN_DOCS]
    place = Place(str(folder / "store"))
    stages = [plan_documents(e.source, hash_files(e.source.files(), StatCache()), e.documents) for e in entries]
    return [build_stage(place, stage) for stage in stages]


def test_the_samples_become_what_is_published(documents: list[Manifest]) -> None:
    """Fails if a change of a sample, a source or a step is not followed by a new file of contents."""
    assert collect_contents(documents) == read_shipped_contents()
    assert [item.differing_tables for item in compare_contents(documents, read_shipped_contents())] == [()] * 5


def test_what_differs_is_told(documents: list[Manifest], tmp_path: Path) -> None:
    """Fails if other rows, or a source that is not there, pass for equal."""
    shipped = read_shipped_contents()
    known = {**shipped, "stories": {**shipped["stories"], "dropped": "1.0"}, "more": {"documents": "2.0"}}
    found = {item.source: item.differing_tables for item in compare_contents(documents, known)}
    assert found == {**dict.fromkeys(shipped, ()), "stories": ("dropped",), "more": ("documents",)}
    with (tmp_path / "said").open("w") as file:
        print_sample_comparison(Console(file=file, width=200), compare_contents(documents, known))
    said = (tmp_path / "said").read_text().splitlines()
    assert sum(line.endswith(" equal") for line in said) == 4
    assert any("differ in dropped" in line for line in said) and any("nothing" in line for line in said)
