"""The templates of `cloze new` on real text: what they keep, why they drop, and which fields the documents have."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from small_recipe import Run, run_lock

from corpora.build import Corpus
from corpora.schema import Document
from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import parse_recipe
from flows.recipes.recipe_templates import write_new_recipe

pytestmark = pytest.mark.long

SMALL = {"vocabulary.size": "800", "shards.length": "64"}
GREEDY = 0.2  # the share of a source that one rule may drop before a template is called wrong for its text
PASSAGE = re.compile(r"^(\d+)\|t\|(.*)\n\1\|a\|(.*)$", re.MULTILINE)  # of the NCBI disease corpus


def run(template: str, fill: Callable[[Path], int], folder: Path) -> tuple[Run, int, list[Document]]:
    """A template's recipe over raw files that `fill` puts there: the run, their number of records, what was kept."""
    path = write_new_recipe("own", template, folder)
    raw = folder / "raw" / "own"
    raw.mkdir(parents=True)
    records = fill(raw)
    recipe = parse_recipe(path.read_text(), path, SMALL)
    ended = run_lock(Place(recipe.store), recipe, resolve_raw_files(recipe, Lock(), StatCache()).lock)
    return ended, records, list(Corpus(ended.place, ended.outcome.corpus).iter_documents())


def rule_shares(ended: Run) -> dict[str, float]:
    """Return the share of the records that each rule dropped."""
    account = ended.of("documents")[0].manifest.ledger.find_account("records")
    return {
        name: count / account.total for name, count in account.outcomes.items() if name.startswith("dropped: rules")
    }


def abstracts(shared: Path) -> list[tuple[str, str, str]]:
    """PMID, title and abstract of real abstracts; each once, as PubMed has them."""
    text = (shared / "data/domains/biomedical/NCBItrainset_corpus.txt").read_text(encoding="utf-8")
    return list({pmid: (pmid, title, body) for pmid, title, body in PASSAGE.findall(text)}.values())


def article(pmid: str, title: str, body: str) -> str:
    """One record in PubMed's form."""
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><DateRevised><Year>2000</Year><Month>01'
        f"</Month><Day>02</Day></DateRevised><Article><ArticleTitle>{escape(title)}</ArticleTitle><Abstract>"
        f"<AbstractText>{escape(body)}</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>\n"
    )


def test_biomedical_keeps_abstracts(shared: Path, tmp_path: Path) -> None:
    real = abstracts(shared)

    def fill(raw: Path) -> int:
        joined = "".join(article(*entry) for entry in real)
        (raw / "pubmed26n0001.xml").write_text(f"<PubmedArticleSet>\n{joined}</PubmedArticleSet>", encoding="utf-8")
        shutil.copy(shared / "data/domains/biomedical/pubmed4.xml", raw / "pubmed26n0002.xml")
        return len(real) + 1

    ended, records, kept = run("biomedical", fill, tmp_path)
    assert ended.of("documents")[0].manifest.ledger.find_account("records").total == records
    assert len(kept) >= 0.98 * records
    assert max(rule_shares(ended).values(), default=0) <= GREEDY
    telomeres = next(document for document in kept if (document.title or "").startswith("Leucocyte telomere"))
    titles = {" ".join(title.split()) for _, title, _ in real}
    assert {document.title for document in kept} - titles == {telomeres.title}
    assert telomeres.date and telomeres.revision


def test_legal_keeps_contracts(shared: Path, tmp_path: Path) -> None:
    contracts = sorted((shared / "data/domains/legal-contracts").glob("*.txt"))
    short = [path for path in contracts if path.stat().st_size < 40_000]

    def fill(raw: Path) -> int:
        for path in short:
            shutil.copy(path, raw)
        return len(short)

    ended, records, kept = run("legal", fill, tmp_path)
    outcomes = ended.of("documents")[0].manifest.ledger.find_account("records").outcomes
    assert records > 30 and outcomes["documents"] >= 0.97 * records, outcomes
    assert max(rule_shares(ended).values(), default=0) <= GREEDY
    assert len(kept) >= 0.85 * records  # some are filed twice
    assert all(document.language == "en" and "agreement" in document.text.lower() for document in kept)
