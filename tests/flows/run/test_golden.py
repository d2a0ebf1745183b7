"""Golden contents: what the sample that comes with the program turns into, stage by stage.

A test here fails when a stage's output changes. If that is meant, raise the stage's build version and put the new
content here; if it is not, something decides bytes that should not: a library, the machine, the order of work.
"""

import pytest
from small_recipe import KINDS, Run, run_lock

from corpora.sources.contract import StatCache
from corpora.store.digests.content import compute_content, sum_contents
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import parse_recipe

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
    "documents": (7, {"documents": "40.7eea1e7f7433ae11da436c88c95be5f7",
                      "dropped": "12.5ea121bd1e818aea532955e86fe94699"}),
    "signatures": (2, {"revisions": "12.0e5081198e96d1b893b6dd73bc6d95bf",
                       "signatures": "40.391e4b4e3b730beef247461fad92eb1d"}),
    "verdicts": (3, {"verdicts": "40.476aed548983474e1e6e67d6b8c75c1c"}),
    "corpora": (3, {"documents": "39.0e2fbace31fba58d3dbf7fd60ff65ca0",
                    "removed": "1.45e27def6f7b42b5199d6f10855d7d5c"}),
    "counts": (1, {"counts": "6147.08abd951c24cbc2bea122a7afced10da"}),
    "vocabularies": (1, {"files": "4.24b12225d264542100fd7fc7ddd16307",
                         "tokens": "2000.4e067f883c98bdac4dc972559f353392"}),
    "measures": (1, {"measures": "5.156359b0d175479b3cbef605ed6b418b",
                     "pieces": "2000.467639c817312d12fc8935ea65e6921e",
                     "splits": "200.61f55aa8868f18cdcbb084106c092e12"}),
    "tokens": (5, {"tokens": "39.6132167df9a85f08dcc7a1293cd35990"}),
    "shards": (3, {"examples": "800.7700e4881f2aa671133e3bc2b2bc1443",
                   "surfaces": "578.5dfec624dc03c4cca2b7685faf51ea13"}),
}  # fmt: skip
CORPUS_ROWS = "39.1f045c4a58212d2a68c144f020a7cf54"  # with the columns of their documents, as version 2 wrote them


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("golden")
    recipe = parse_recipe(RECIPE, folder / "golden.toml", {})
    return run_lock(Place(recipe.store), recipe, resolve_raw_files(recipe, Lock(), StatCache()).lock)


@pytest.fixture(scope="module")
def manifests(golden: Run) -> dict[str, Manifest]:
    return {manifest.kind: manifest for manifest in golden.manifests}


def test_every_stage_is_here(manifests: dict[str, Manifest]) -> None:
    assert tuple(manifests) == KINDS == tuple(GOLDEN)


@pytest.mark.parametrize("kind", KINDS)
def test_content(kind: str, manifests: dict[str, Manifest]) -> None:
    version, tables = GOLDEN[kind]
    assert manifests[kind].build_version == version
    assert {table: str(content) for table, content in manifests[kind].tables.items()} == tables


def test_the_corpus_as_it_is_read(golden: Run) -> None:
    """Fails if a row of the corpus is read with other columns than its document has, or in another order."""
    assert str(sum_contents(map(compute_content, golden.corpus.iter_batches()))) == CORPUS_ROWS
