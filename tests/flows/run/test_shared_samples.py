"""Real dumps, carried from raw file to shards: the ledger against numbers counted by other means.

The counts are taken from the decompressed bytes with regular expressions, which share no code with the parser.
Each test fails if a page is lost, counted twice, or dropped under another reason than its own markup gives.
"""

import bz2
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpora.build import Corpus
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.pipeline import Outcome, run_recipe
from shards.reading.files.shard_set import ShardSet
from shards.reading.trace import trace_example


def recipe_of(dump: Path, store: Path, *lines: str) -> Recipe:
    source = f'store = "{store}"\n[[source]]\nkind = "wikipedia"\npath = "{dump}"\n'
    text = source + "[vocabulary]\nsize = 4000\n" + "\n".join(lines)
    return parse_recipe(text, store.parent / "recipe.toml", {})


def run(recipe: Recipe) -> tuple[Place, Outcome]:
    place = Place(recipe.store)

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        return [build_stage(place, stage) for stage in stages]

    lock = resolve(recipe, Lock(), StatCache()).lock
    return place, run_recipe(place, recipe, lock, perform)


def pages_of(dump: Path) -> list[bytes]:
    return re.findall(rb"<page>.*?</page>", bz2.decompress(dump.read_bytes()), re.DOTALL)


@pytest.fixture(scope="module")
def sample(shared: Path) -> Path:
    return shared / "data/sample/wikipedia/enwiki-sample-pages-articles-multistream.xml.bz2"


@pytest.fixture(scope="module")
def finished(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Outcome]:
    return run(recipe_of(sample, tmp_path_factory.mktemp("run") / "store"))


def test_every_page_is_accounted_for(sample: Path, finished: tuple[Place, Outcome]) -> None:
    pages = pages_of(sample)
    redirects = [page for page in pages if re.search(rb"<redirect[ />]", page)]
    others = [page for page in pages if re.search(rb"<ns>0</ns>", page) is None]
    account = finished[1].documents[0].ledger.account("records")
    assert (len(pages), len(redirects), len(others)) == (58, 18, 0)
    assert account.total == 58
    assert account.outcomes["dropped: parse: redirect"] == 18
    assert account.outcomes["documents"] + account.starting("dropped") == 58
    assert finished[1].documents[0].ledger.figures["damaged records"] == 0


def test_kept_documents_are_articles_with_their_numbers(sample: Path, finished: tuple[Place, Outcome]) -> None:
    place, outcome = finished
    documents = {document.title: document for document in Corpus(place, outcome.corpus).documents()}
    titles = {re.search(rb"<title>(.*?)</title>", page).group(1).decode() for page in pages_of(sample)}  # type: ignore[union-attr]
    assert 30 <= len(documents) <= 40
    assert set(documents) <= titles
    lincoln = documents["Abraham Lincoln"].text
    assert "1809" in lincoln and "Gettysburg" in lincoln
    residue = [title for title, d in documents.items() if re.search(r"\[\[|\{\{|\|\}|<ref|&nbsp;", d.text)]
    assert residue == []


@pytest.mark.long
def test_examples_lead_back_to_their_page(sample: Path, finished: tuple[Place, Outcome]) -> None:
    place, outcome = finished
    shard_set = ShardSet(place, outcome.shards)
    assert len(shard_set) > 2_000
    labels = [int(shard_set[index].label) for index in range(len(shard_set))]
    share, sigma = sum(labels) / len(labels), 0.5 / len(labels) ** 0.5
    assert abs(share - 0.5) < 3 * sigma
    [anchor, *_] = trace_example(shard_set, 1_234)
    page = next(p for p in pages_of(sample) if f"<title>{anchor.document.title}</title>".encode() in p)
    assert len(page) == anchor.document.locator.length


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["enwiki-pages-articles-part1.xml.bz2", "ltgwiki-latest-pages-articles.xml.bz2", "enwiki-table-markup.xml.bz2"],
)
@pytest.mark.long
def test_other_dumps(shared: Path, name: str, tmp_path: Path) -> None:
    """Single-stream dumps, another language, namespaces: pages by reason as their own markup says."""
    dump = shared / "data/wikipedia" / name
    pages = pages_of(dump)
    _, outcome = run(
        recipe_of(
            dump,
            tmp_path / "store",
            "[language]",
            "keep = []",
            "[rules]",
            "gopher.min_stop_words = 0",
            "[documents]",
            "max_rule_share = 1.0",
        )
    )
    account = outcome.documents[0].ledger.account("records")
    outside = [page for page in pages if re.search(rb"<ns>(?!0<)", page)]
    redirects = [p for p in pages if p not in outside and re.search(rb"<redirect[ />]", p)]
    assert account.total == len(pages)
    assert account.outcomes.get("dropped: parse: namespace", 0) == len(outside)
    assert account.outcomes.get("dropped: parse: redirect", 0) == len(redirects)
