"""Real dumps, carried from raw file to shards: the ledger against numbers counted by other means.

The counts are taken from the decompressed bytes with regular expressions, which share no code with the parser.
"""

import bz2
import re
from pathlib import Path

import pytest
from small_recipe import run_lock

from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import parse_recipe

OPEN = "language.keep = []\nrules.gopher.min_stop_words = 0\ndocuments.max_rule_share = 1.0\n"
SAMPLE = "sample/wikipedia/enwiki-sample-pages-articles-multistream.xml.bz2"
OTHERS = [
    f"wikipedia/{name}.xml.bz2"
    for name in ("enwiki-pages-articles-part1", "ltgwiki-latest-pages-articles", "enwiki-table-markup")
]


@pytest.mark.parametrize("name", [SAMPLE, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_every_page_is_a_document_or_a_drop_by_its_own_markup(shared: Path, name: str, tmp_path: Path) -> None:
    """Fails if a page is lost, counted twice, or dropped under another reason than its markup gives.

    The others than the sample are single-stream dumps, of another language and with other namespaces.
    """
    dump = shared / "data" / name
    pages = re.findall(rb"<page>.*?</page>", bz2.decompress(dump.read_bytes()), re.DOTALL)
    outside = [page for page in pages if re.search(rb"<ns>(?!0<)", page)]
    redirects = [page for page in pages if page not in outside and re.search(rb"<redirect[ />]", page)]
    text = f'store = "store"\n{"" if name == SAMPLE else OPEN}vocabulary.size = 4000\n'
    text += f'[[source]]\nkind = "wikipedia"\npath = "{dump}"\n'
    recipe = parse_recipe(text, tmp_path / "recipe.toml", {})
    run = run_lock(Place(recipe.store), recipe, resolve_raw_files(recipe, Lock(), StatCache()).lock)
    [ledger] = [manifest.ledger for manifest in run.documents().values()]
    account = ledger.find_account("records")
    assert account.total == len(pages) == account.outcomes["documents"] + account.sum_outcomes("dropped")
    assert account.outcomes.get("dropped: parse: namespace", 0) == len(outside)
    assert account.outcomes.get("dropped: parse: redirect", 0) == len(redirects)
    assert ledger.figures["damaged records"] == 0
    if name == SAMPLE:
        assert (len(pages), len(redirects), len(outside)) == (58, 18, 0)
        titles = {re.search(rb"<title>(.*?)</title>", page).group(1).decode() for page in pages}  # type: ignore[union-attr]
        kept = {document.title: document.text for document in run.corpus.iter_documents()}
        assert 30 <= len(kept) <= 40 and set(kept) <= titles
        assert "1809" in kept["Abraham Lincoln"] and "Gettysburg" in kept["Abraham Lincoln"]
        assert not [title for title, text in kept.items() if re.search(r"\[\[|\{\{|\|\}|<ref|&nbsp;", text)]
