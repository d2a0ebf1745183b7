"""The bounds that real books must keep, by the measures of `benchmarks.books`; and that the measures see faults."""

from pathlib import Path

import pytest
from source_reading import raw_file

from benchmarks.books import Measures, measure_book, measure_folder, twins
from corpora.judging.batches import judge_records
from corpora.judging.settings import DocumentsSettings
from corpora.schema import Locator
from corpora.sources.books.source import BookCorpusSource
from corpora.sources.contract import Record, Tally

PROSE = (
    "It was late in the evening when the lamp went out, and nobody in the house, not even the cat, "
    "spoke of it again or of the days that went before.\n\n"
) * 40


def record(raw: str, text: str) -> Record:
    return Record(locator=Locator(file="a.txt", sha256="", length=len(raw)), text=text, raw=raw.encode())


def test_faults_are_seen() -> None:
    """Fails where a measure finds nothing, for then the bounds below say nothing."""
    lines = ["Tyger Tyger, burning bright,", "In the forests of the night;", "What immortal hand", "Could it be"]
    verse = "\n".join(f"     {line}" for line in lines)
    chapter = "The second chapter begins here, and it goes on for so many words that it counts as prose. " * 2
    raw = f"CHAPTER I\n\n{PROSE}{verse}\n\nCHAPTER II\n\n{chapter}"
    wrapped = "A line of the book that is as long as a wrapped one and goes\non below."
    text = f"Produced by Bob Ray\n\nCONTENTS\n\n{PROSE}{' '.join(verse.split())}\n\n{wrapped}"
    found = measure_book(record(raw, text), {"encoding": "utf-8"}).measures
    assert (found.chapters, found.lost, found.signs, found.lists, found.wrapped) == (2, 1, 1, 1, 1)
    assert (found.verse, found.joined) == (3, 3)
    whole = measure_book(record(raw, raw.replace("     ", "")), {}).measures
    assert (whole.lost, whole.signs, whole.lists, whole.wrapped, whole.joined) == (0, 0, 0, 0, 0)
    assert whole.words == whole.kept > 900


@pytest.mark.long
def test_ninety_one_texts_and_five_epubs_keep_their_bounds(shared: Path) -> None:
    """No licence sentence survives, no chapter is lost, no list of contents stays, each file in its encoding."""
    found = measure_folder(shared / "data" / "books")
    total = sum((finding.measures for finding in found), Measures())
    wrong = [
        (finding.file, *each) for finding in found for each in finding.wrong if each[0] not in ("wrapped", "joined")
    ]
    assert wrong == []
    assert total.books == 96 and total.chapters > 2_200 and total.verse > 2_200
    assert total.wrapped <= 11  # long verse and letters of one book whose lines begin in small letters
    assert total.joined <= 4
    assert 0.995 < total.kept / total.words < 0.998  # the rest is catalogues, contents, notes, pictures
    assert min(finding.measures.kept / finding.measures.words for finding in found) > 0.94
    agree = {epub.file: f1 for epub, _, f1 in twins(found)}
    assert agree["epub/the-war-of-the-worlds_36.epub"] > 0.9999
    assert agree["epub/around-the-world-in-80-days_103.epub"] > 0.999
    # Of Alice the EPUB is an abridged edition; that it is whole the words kept of its pages tell.
    assert agree["epub/alices-adventures-in-wonderland.epub"] > 0.5


def test_a_book_in_another_language_is_dropped_by_the_language_step(shared: Path) -> None:
    folder = shared / "data" / "books" / "txt"
    records = []
    for name in ("los-pazos-de-ulloa_18005.txt", "the-star-hyacinths_26292.txt"):
        source = BookCorpusSource(path=str(folder / name))
        file = raw_file(source)
        records += [found for piece in source.slices(file) for found in source.records(piece, Tally())]
    judged = judge_records(records, "bookcorpus", DocumentsSettings())
    [dropped] = judged.dropped.to_pylist()
    assert (dropped["step"], dropped["reason"], dropped["detail"]) == ("language", "other language", "es")
    assert dropped["locator"]["file"] == "los-pazos-de-ulloa_18005.txt"
    assert judged.documents.column("title").to_pylist() == ["The Star Hyacinths"]
