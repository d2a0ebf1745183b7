"""Golden contents: what the sample that comes with the program turns into, stage by stage.

A test here fails when a stage's output changes. If that is meant, raise the stage's build version and put the new
content here; if it is not, something decides bytes that should not: a library, the machine, the order of work.
"""

from collections.abc import Sequence

import pytest
from small_recipe import KINDS

from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import parse_recipe
from flows.run.pipeline import run_recipe

RECIPE = """
name = "golden"
documents.part_bytes = 20000
held_out.share = 0.1
vocabulary.size = 2000
shards = { copies = 2, masking = { kind = "static", unit = "whole-word" } }
[[source]]
kind = "wikipedia"
path = "sample:wikipedia/samplewiki-20260101-pages-articles-multistream.xml.bz2"
"""

# By kind, the build version and the content of each table.
GOLDEN: dict[str, tuple[int, dict[str, str]]] = {
    "documents": (3, {"documents": "40.2e51314c9665eb814b02cd44cdfde507",
                      "dropped": "12.5ea121bd1e818aea532955e86fe94699"}),
    "signatures": (2, {"revisions": "12.0e5081198e96d1b893b6dd73bc6d95bf",
                       "signatures": "40.77ef54f904f35de0c403ab62e7f4f59d"}),
    "verdicts": (1, {"verdicts": "40.52f9b2b7d2827728de0c9e3fa75a7aea"}),
    "corpora": (1, {"documents": "39.73d025903f4251b050b19bc646200428",
                    "removed": "1.21dd8a1dbd78d36ec1197599f62a6d3d"}),
    "counts": (1, {"counts": "6144.40de8a5af606d349f543899a8e53da75"}),
    "vocabularies": (1, {"files": "4.4cf731fccf326510eaef200667ae2156",
                         "tokens": "2000.177482f6a7c788c8c90463bcef1f4c29"}),
    "measures": (1, {"measures": "5.18f228eaded0be32aa2ca21c469fc9f6",
                     "pieces": "2000.0bee6251eac451178b170581b1ee88e8",
                     "splits": "200.65b28a0d0ee78257f311cc4ff9d825b7"}),
    "tokens": (3, {"tokens": "39.09c969658ca00c30dfd7f0a7dbdbb5df"}),
    "shards": (3, {"examples": "798.591db9ceaa692711776d4e618138c70b",
                   "surfaces": "577.6e28927df24d4dfcc808a82ccbc50d33"}),
}  # fmt: skip


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
