"""PubMed, JATS and patents by name: fields, revisions and deletions, and the corpus that they end in."""

import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from source_reading import read_and_find as read
from source_reading import reasons

from corpora.build import Corpus, Generation, plan_corpus
from corpora.duplicates.build import plan_signatures, plan_verdicts
from corpora.duplicates.candidates import Input, SplitSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.errors import InputError
from corpora.judging.documents import plan_documents
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.rules import GopherRules, RulesSettings
from corpora.schema import compute_keyed_id
from corpora.sources.contract import StatCache, hash_files
from corpora.sources.xml.source import XmlSource
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from corpora.tombstones import Tombstones

SETTINGS = DocumentsSettings(rules=RulesSettings(gopher=GopherRules(min_words=5)))


def pubmed(path: Path, **settings: Any) -> XmlSource:
    return XmlSource(name="pubmed", path=str(path), preset="pubmed", **settings)


def article(pmid: int, text: str, revised: str = "2024-01-05", version: int = 1) -> str:
    """A citation as the baseline has it, with another article's PMID among its corrections."""
    year, month, day = revised.split("-")
    return (
        f'<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="{version}">{pmid}</PMID>'
        f"<DateRevised><Year>{year}</Year><Month>{month}</Month><Day>{day}</Day></DateRevised>"
        "<Article><Journal><JournalIssue><PubDate><Year>1999</Year><Month>Aug</Month></PubDate></JournalIssue></Journal>"
        f"<ArticleTitle>Report number {pmid}.</ArticleTitle><Abstract><AbstractText>{text}</AbstractText></Abstract>"
        "</Article><CommentsCorrectionsList><CommentsCorrections><PMID Version='1'>99</PMID></CommentsCorrections>"
        "</CommentsCorrectionsList></MedlineCitation></PubmedArticle>\n"
    )


def deletion(*pmids: int, version: int = 1) -> str:
    numbers = "".join(f'<PMID Version="{version}">{pmid}</PMID>\n' for pmid in pmids)
    return f"<DeleteCitation>\n{numbers}</DeleteCitation>\n"


def write(folder: Path, number: int, *parts: str, year: int = 24) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"pubmed{year}n{number:04d}.xml.gz"
    head = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE PubmedArticleSet SYSTEM "http://127.0.0.1:9/p.dtd">\n'
    text = f"{head}<PubmedArticleSet>\n{''.join(parts)}</PubmedArticleSet>\n"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def prose(pmid: int, edition: str) -> str:
    """An abstract that shares few shingles with another's."""
    words = " ".join(f"{word}{pmid}{edition}" for word in ("serum", "gene", "kidney", "dose", "trial", "mouse"))
    return (
        f"We describe the {words} of the patients in the {edition} study. What is known of them by now is told first. "
        f"The doses of number {pmid} were given by hand in the {edition} way. Nobody was harmed by any of them."
    )


def test_a_citation_and_a_deletion(tmp_path: Path) -> None:
    write(tmp_path, 1220, article(7, "A <i>p</i><sub>x</sub>.", "2024-02-03", version=2), deletion(8, 9))
    first, *gone = read(pubmed(tmp_path))
    assert (first.key, first.text, first.date) == ("7", "Report number 7.\n\nA px.", "1999-08")
    assert (first.revision, first.title) == (2_241220_20240203, "Report number 7.")
    assert [(record.key, record.revision) for record in gone] == [("8", 1_241220_99999999), ("9", 1_241220_99999999)]
    assert reasons(gone) == ["deleted", "deleted"]
    assert gone[1].raw == b'<PMID Version="1">9</PMID>'


class Runs:
    """Generations of PubMed files built stage by stage, as a run does it."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(str(folder / "store"))
        self.generations: list[Generation] = []
        self.inputs: list[Input] = []

    def add(self, folder: Path) -> Corpus:
        source = pubmed(folder)
        stage = plan_documents(source, hash_files(source.files(), StatCache()), SETTINGS)
        parsed = build_stage(self.place, stage)
        sketched = build_stage(self.place, plan_signatures(parsed, DuplicateSettings()))
        number = len(self.generations) + 1
        self.inputs.append(Input(generation=number, priority=1, documents=parsed, signatures=sketched))
        verdicts = plan_verdicts("med", self.inputs, DuplicateSettings(), SplitSettings(share=0.0), Tombstones())
        built = build_stage(self.place, verdicts)
        self.generations.append(Generation(number=number, inputs=tuple(self.inputs), verdicts=built))
        return Corpus(self.place, build_stage(self.place, plan_corpus(self.place, "med", self.generations)))


def editions(corpus: Corpus) -> dict[int, str]:
    """Which edition of each PMID is in the corpus."""
    found = {}
    for document in corpus.iter_documents():
        (pmid,) = [n for n in range(1, 9) if document.id == compute_keyed_id("pubmed", str(n))]
        (found[pmid],) = [word for word in ("old", "new", "late") if f"in the {word} study" in document.text]
    return found


BASELINE = (1, [article(n, prose(n, "old"), "2023-05-01") for n in (1, 2, 3)])
UPDATE = (1220, [article(2, prose(2, "new"), "2024-01-09"), article(4, prose(4, "new"))])
DELETION = (1221, [article(5, prose(5, "new")), deletion(2, 3, 5)])
AGAIN = (1222, [article(3, prose(3, "late"), "2023-05-01")])


def test_the_corpus_has_the_newest_text_then_none(tmp_path: Path) -> None:
    """Fails if an update leaves the old text, a deletion leaves any, or what comes back later stays away."""
    runs = Runs(tmp_path)
    seen = []
    for number, parts in (BASELINE, UPDATE, DELETION, AGAIN):
        write(tmp_path / str(number), number, *parts)
        seen.append(editions(runs.add(tmp_path / str(number))))
    assert seen == [
        {1: "old", 2: "old", 3: "old"},
        {1: "old", 2: "new", 3: "old", 4: "new"},
        {1: "old", 4: "new"},
        {1: "old", 3: "late", 4: "new"},
    ]


@pytest.mark.parametrize("generations", ["0123", "3210", "2031", ["0123"]])
def test_files_in_any_order_end_in_the_same_corpus(tmp_path: Path, generations: Sequence[str]) -> None:
    """Fails if an old file that comes in a later generation brings old or deleted text back, or all in one do."""
    runs = Runs(tmp_path)
    for files in generations:
        for file in files:
            number, parts = (BASELINE, UPDATE, DELETION, AGAIN)[int(file)]
            write(tmp_path / files, number, *parts)
        corpus = runs.add(tmp_path / files)
    assert editions(corpus) == {1: "old", 3: "late", 4: "new"}


def test_the_next_baseline_revises_this_years_updates(tmp_path: Path) -> None:
    write(tmp_path / "a", 1300, article(1, prose(1, "old"), "2024-11-30"), deletion(2))
    write(tmp_path / "a", 1, article(1, prose(1, "new"), "2024-11-30"), article(2, prose(2, "late")), year=25)
    assert editions(Runs(tmp_path).add(tmp_path / "a")) == {1: "new", 2: "late"}


def test_the_number_orders_versions_then_files_then_dates(tmp_path: Path) -> None:
    """Fails if two of these are the other way round, or a deletion does not go after its file's records."""
    marks = []
    cases = itertools.product(
        (1, 2), ((0, "efetch.xml"), (241220, "n1220"), (250001, "n0001")), ("2001-01-01", "2024-02-29")
    )
    for version, (number, _), revised in cases:
        folder = tmp_path / f"{version}-{number}-{revised}"
        if number:
            write(folder, number % 10_000, article(1, "Text.", revised, version), year=number // 10_000)
        else:
            folder.mkdir()
            text = f"<PubmedArticleSet>{article(1, 'Text.', revised, version)}</PubmedArticleSet>"
            (folder / "efetch.xml").write_text(text)
        (record,) = read(pubmed(folder))
        marks.append(record.revision)
        if number:
            write(folder, number % 10_000, deletion(1, version=version), year=number // 10_000)
            marks += [record.revision for record in read(pubmed(folder))][:1] if revised == "2024-02-29" else []
    assert marks == sorted(mark for mark in marks if mark is not None) and len({*marks}) == len(marks) == 16


def test_deletions_that_cannot_be_put_in_order_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 7, article(1, "Text."), deletion(2))
    renamed = path.rename(tmp_path / "update.xml.gz")
    with pytest.raises(InputError, match=r"update\.xml\.gz: the <DeleteCitation> at byte \d+ deletes records, but"):
        read(pubmed(renamed))
    write(tmp_path / "b", 8, deletion(1, 2))
    with pytest.raises(InputError, match="max_record_bytes"):
        read(pubmed(tmp_path / "b", max_record_bytes=40))
    write(tmp_path / "c", 9, "<DeleteCitation><PMID Version='x'>1</PMID></DeleteCitation>")
    with pytest.raises(InputError, match="holds a deletion that cannot be read: its version is no number"):
        read(pubmed(tmp_path / "c"))


def test_a_day_in_signs_that_are_no_digits_is_none(tmp_path: Path) -> None:
    """Fails if what Python calls a digit, and cannot read as a number, is taken for a part of a date."""
    write(tmp_path, 9, article(1, "Text.", "2024-01-05").replace("<Day>05</Day>", "<Day>\u00b2</Day>"))
    (record,) = read(pubmed(tmp_path))
    assert (record.drop, record.revision) == (None, 1_240009_20240100)


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        ("<PMID Version='1'>1</PMID><PMID Version='1'>2", "begins 2 deletions and 1 of them can be read"),
        (f"<PMID Version='{'1' * 5_000}'>1</PMID>", "holds a deletion that cannot be read: its version is no number"),
    ],
)
def test_a_list_of_deletions_that_is_damaged_is_refused(tmp_path: Path, damaged: str, why: str) -> None:
    """Fails if a deletion is counted and not given out, or a number is read that Python refuses to."""
    write(tmp_path, 9, article(1, "Text."), f"<DeleteCitation>{damaged}</DeleteCitation>")
    with pytest.raises(InputError, match=why):
        read(pubmed(tmp_path))


def test_real_citations(shared: Path) -> None:
    first, second = read(pubmed(shared / "data" / "domains" / "biomedical" / "pubmed?.xml"))
    assert (first.key, first.date, first.revision) == ("27797938", "2016-10-21", 1_000000_20180417)
    assert "(TERT) gene region" in first.text and "(ptrend=0.048)" not in first.text
    assert "; ptrend=0.048)" in first.text and "r2<0.25" in first.text
    assert [part.partition(":")[0] for part in first.text.split("\n\n")[1:]] == [
        "OBJECTIVE",
        "DESIGN",
        "RESULTS",
        "CONCLUSIONS",
    ]
    assert second.key == "30108519" and second.text.count("\n\n") == 1 and second.drop is None


def test_real_articles(shared: Path) -> None:
    """Fails if references, tables or figures come into the text, or paragraphs are lost."""
    source = XmlSource(name="pmc", path=str(shared / "data" / "domains" / "biomedical" / "*.nxml"), preset="jats")
    first, second, third = read(source)
    assert [record.key for record in (first, second, third)] == ["3166277", "2599765", "3460867"]
    assert (first.date, first.license) == ("2011-08-02", "http://creativecommons.org/licenses/by/2.0")
    assert third.title is not None and third.title.startswith("MmPPOX Inhibits Mycobacterium tuberculosis")
    assert "bacteriophage (phage) λ, Escherichia coli, Bacillus subtilis" in first.text
    assert "are urgently needed. It has been shown" in third.text  # references by number were there
    assert "(Hites 2004; Law et al. 2003)" in second.text  # by name they stay
    for record in (first, second, third):
        assert 29_000 < len(record.text) < 38_000 and record.text.count("\n\n") > 40
        assert " , " not in record.text and "[]" not in record.text and "  " not in record.text


def test_real_patents(shared: Path) -> None:
    source = XmlSource(
        name="uspto", path=str(shared / "data" / "domains" / "patents" / "US0[68]9*.xml"), preset="patent"
    )
    records = read(source)
    assert [(record.key, record.date, record.drop) for record in records] == [
        ("06970935", "2005-11-29", None),
        ("08927118", "2015-01-06", None),
        ("08930553", "2015-01-06", None),
    ]
    assert "\n\nFIELD OF THE INVENTION\n\n" in records[2].text and records[2].text.startswith("Managing mid-dialog")
