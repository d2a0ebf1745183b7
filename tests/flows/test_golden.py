"""Golden contents: what the sample that comes with the program turns into, stage by stage.

A test here fails when a stage's output changes. If that is meant, raise the stage's build version and put the new
content here; if it is not, something decides bytes that should not: a library, the machine, the order of work.
"""

from collections.abc import Sequence

import pytest
from small_recipe import KINDS

from corpora.sources.source import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import Stage, build_stage
from flows.lock import Lock, resolve
from flows.pipeline import run_recipe
from flows.recipe import parse_recipe

RECIPE = """
name = "golden"
[[source]]
kind = "wikipedia"
path = "sample:wikipedia/samplewiki-20260101-pages-articles-multistream.xml.bz2"
[documents]
part_bytes = 20000
[held_out]
share = 0.1
[vocabulary]
size = 2000
[shards]
copies = 2
masking = { kind = "static", unit = "whole-word" }
"""

GOLDEN: dict[str, tuple[int, dict[str, str]]] = {
    "documents": (
        1,
        {
            "documents": "40.04032445aad652fa36f1bb2d4d34bd45",
            "dropped": "12.1257923535143e816135450a414ed0cf",
        },
    ),
    "signatures": (
        1,
        {
            "revisions": "12.0e5081198e96d1b893b6dd73bc6d95bf",
            "signatures": "40.2998f0efcbb4e7baf034cc9c668685a0",
        },
    ),
    "verdicts": (
        1,
        {
            "verdicts": "40.52f9b2b7d2827728de0c9e3fa75a7aea",
        },
    ),
    "corpora": (
        1,
        {
            "documents": "39.259a2b858ec0b9f3f9862f2a1103757f",
            "removed": "1.21dd8a1dbd78d36ec1197599f62a6d3d",
        },
    ),
    "counts": (
        1,
        {
            "counts": "6138.1f3e064d819ccbfcd5b33b5a6074f2b4",
        },
    ),
    "vocabularies": (
        1,
        {
            "files": "4.34bbe3e62491af583ffd4f2f6bb81f1c",
            "tokens": "2000.68398fb95a94de1826632d5403f1e5a4",
        },
    ),
    "tokens": (
        2,
        {
            "tokens": "39.050136a84cb61f005c972eed89fdc83c",
        },
    ),
    "shards": (
        2,
        {
            "examples": "605.2ac8da6b19209bf0745c491cf5da9a00",
        },
    ),
}


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Manifest]:
    folder = tmp_path_factory.mktemp("golden")
    recipe = parse_recipe(RECIPE, folder / "golden.toml", {})
    built: dict[str, Manifest] = {}

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        made = [build_stage(Place(recipe.store), stage) for stage in stages]
        built.update({manifest.kind: manifest for manifest in made})
        return made

    run_recipe(Place(recipe.store), recipe, resolve(recipe, Lock(), StatCache()).lock, perform)
    return built


def test_every_stage_is_here(manifests: dict[str, Manifest]) -> None:
    assert tuple(manifests) == KINDS == tuple(GOLDEN)


@pytest.mark.parametrize("kind", KINDS)
def test_content(kind: str, manifests: dict[str, Manifest]) -> None:
    version, tables = GOLDEN[kind]
    assert manifests[kind].build_version == version
    assert {table: str(content) for table, content in manifests[kind].tables.items()} == tables
