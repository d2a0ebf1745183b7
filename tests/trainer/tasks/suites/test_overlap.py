"""Items of evaluation sets that are in documents, against a plain definition."""

import random
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.text.words import words
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.rows.texts import ClassesTask
from trainer.tasks.suites.overlap import item_texts, met_texts, overlap_of


def plainly_met(text: str, documents: list[str]) -> bool:
    """Whether 13 words in a row of a text, or all of its 8 to 12, are in a document."""
    found = words(text)
    length = min(13, len(found))
    runs = [" ".join(["", *found[at : at + length], ""]) for at in range(len(found) - length + 1)]
    spoken = [" ".join(["", *words(document), ""]) for document in documents]
    return length >= 8 and any(run in document for run in runs for document in spoken)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 32))
def test_every_text_that_is_met_is_found(seed: int) -> None:
    """Also several of one document, equal ones but for their capitals, and those that are met by later batches."""
    drawn = random.Random(seed)
    documents = [" ".join(drawn.choices("abc", k=drawn.randint(0, 60))) for _ in range(6)]
    texts = [" ".join(drawn.choices("abcA", k=drawn.randint(0, 16))) for _ in range(20)]
    for document in documents[:3]:
        spoken = document.split()
        at = drawn.randrange(len(spoken) + 1)
        texts.append(" ".join(spoken[at : at + drawn.randint(5, 20)]).upper())
    batches = [pa.array(documents[:3], pa.large_string()), pa.array(documents[3:], pa.large_string())]
    assert met_texts(texts, batches) == {text for text in texts if plainly_met(text, documents)}


def test_an_item_counts_once_and_short_ones_are_not_sought(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("text\tsecond\tlabel\nfar too short\tas well\tx\na b c d e f g h\ti j\tx\n")
    items = item_texts(ClassesTask(), FileSettings(path=str(tmp_path / "dev.tsv")))
    assert items == [["far too short", "as well"], ["a b c d e f g h", "i j"]], "the label is not looked for"
    met = met_texts(
        [text for texts in items for text in texts], [pa.array(["z A B C d, e f g h z"], pa.large_string())]
    )
    found = overlap_of(items, met)
    assert (found.items, found.sought, found.met, found.share) == (2, 1, 1, 1.0)
