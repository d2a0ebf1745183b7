"""Real dumps, carried from raw file to shards: the ledger against numbers counted by other means.

The counts are taken from the decompressed bytes with regular expressions, which share no code with the parser.
Each test fails if a page is lost, counted twice, or dropped under another reason than its own markup gives.
"""

import bz2
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.pipeline import Outcome, run_recipe


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
