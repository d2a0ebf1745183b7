"""The shipped stories: each line a document, and the planted duplicates as near as they claim to be."""

from shipped import SAMPLES, documents, dropped, five_grams

LINES = (SAMPLES / "stories" / "stories.txt").read_text(encoding="utf-8").splitlines()

STORIES = 16
# By line as an editor counts them: the repeated story and its repetition, the near-duplicate's two versions.
TWINS, NEAR = (7, 17), (10, 20)
EMPTY, SHORT = 18, 19


def similarity(one: int, other: int) -> float:
    """Jaccard similarity of two lines."""
    left, right = (set(five_grams(LINES[number - 1])) for number in (one, other))
    return len(left & right) / len(left | right)


def test_every_story_is_a_document_and_the_short_line_is_not() -> None:
    """Fails if a story is cut, joined to its neighbour or dropped, or the short line passes."""
    stories = [line for number, line in enumerate(LINES, 1) if number not in (EMPTY, SHORT)]
    assert [row["text"] for row in documents("stories")] == stories
    assert len(stories) == STORIES + 2
    [short] = dropped("stories")
    assert (short["step"], short["reason"]) == ("rules", "gopher.min_words")
    assert (LINES[EMPTY - 1], len(LINES[SHORT - 1].split())) == ("", 11)


def test_the_planted_duplicates_are_duplicates() -> None:
    """Fails if the file and the account of it in the package differ."""
    assert LINES[TWINS[0] - 1] == LINES[TWINS[1] - 1]
    one, other = (LINES[number - 1].split() for number in NEAR)
    changed = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    assert len(changed) == 4
    assert 0.82 <= similarity(*NEAR) <= 0.95
