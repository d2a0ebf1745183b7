"""The shipped stories: each line a document, and the planted duplicates as near as they claim to be."""

from itertools import combinations
from pathlib import Path

from corpora import samples
from corpora.judging.batches import Judged, judge_records
from corpora.judging.settings import DocumentsSettings
from corpora.sources.contract import StatCache, Tally, hash_files
from corpora.sources.stories import StoriesSource

FILE = Path(samples.__file__).parent / "stories" / "stories.txt"
LINES = FILE.read_text(encoding="utf-8").splitlines()

STORIES = 16
# By line as an editor counts them: the repeated story and its repetition, the near-duplicate's two versions.
TWINS, NEAR = (7, 17), (10, 20)
EMPTY, SHORT = 18, 19


def judged() -> tuple[Judged, int]:
    """The sample after all steps of the documents stage, and how many records the source counted."""
    source, tally = StoriesSource(path=str(FILE.parent)), Tally()
    files = hash_files(source.files(), StatCache())
    records = [record for file in files for piece in source.slices(file) for record in source.records(piece, tally)]
    return judge_records(records, source.name, DocumentsSettings()), tally.records


def five_grams(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def similarity(one: int, other: int) -> float:
    """Jaccard similarity of two lines."""
    left, right = five_grams(LINES[one - 1]), five_grams(LINES[other - 1])
    return len(left & right) / len(left | right)


def test_every_story_is_a_document_and_the_short_line_is_not() -> None:
    """Fails where a story is cut, joined to its neighbour or dropped, or the short line passes."""
    result, records = judged()
    stories = [line for number, line in enumerate(LINES, 1) if number not in (EMPTY, SHORT)]
    assert result.documents.column("text").to_pylist() == stories
    assert len(stories) == STORIES + 2 == records - 1
    [dropped] = result.dropped.to_pylist()
    assert (dropped["step"], dropped["reason"]) == ("rules", "gopher.min_words")
    assert (LINES[EMPTY - 1], len(LINES[SHORT - 1].split())) == ("", 11)


def test_the_stories_are_of_the_promised_length() -> None:
    lengths = [len(line.split()) for line in LINES[:STORIES]]
    assert 250 <= min(lengths) and max(lengths) <= 300
    assert 22_000 <= FILE.stat().st_size <= 27_000


def test_the_planted_duplicates_are_duplicates() -> None:
    """Fails where the file and the account of it in the package differ."""
    assert LINES[TWINS[0] - 1] == LINES[TWINS[1] - 1]
    one, other = (LINES[number - 1].split() for number in NEAR)
    changed = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    assert len(changed) == 4
    assert 0.82 <= similarity(*NEAR) <= 0.95


def test_no_other_stories_are_alike() -> None:
    written = [number for number in range(1, len(LINES) + 1) if number not in (EMPTY, SHORT)]
    alike = [pair for pair in combinations(written, 2) if similarity(*pair) > 0.01]
    assert sorted(alike) == [TWINS, NEAR]


def test_both_persons_tell() -> None:
    """Stories in the first and in the third person: fails where one of the kinds is gone."""
    first = [line for line in LINES[:STORIES] if line.split('"')[0].count(" I ") + line.count(" my ") >= 3]
    assert 4 <= len(first) <= 12
