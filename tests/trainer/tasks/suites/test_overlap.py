"""Items of evaluation sets that are in documents, against a plain definition."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.text.words import words
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.kinds.choices import ChoiceTask
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.kinds.summary import SummaryTask
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask
from trainer.tasks.kinds.vectors import RetrievalTask
from trainer.tasks.suites.overlap import item_texts, met_texts, overlap_of


def plainly_met(text: str, documents: list[str]) -> bool:
    """True if 13 words in a row of a text, or all of its 8 to 12, are in a document."""
    found = words(text)
    length = min(13, len(found))
    runs = [" ".join(["", *found[at : at + length], ""]) for at in range(len(found) - length + 1)]
    spoken = [" ".join(["", *words(document), ""]) for document in documents]
    return length >= 8 and any(run in document for run in runs for document in spoken)


@examples(15)
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


SPOKEN = "Well, it's the view they don't see from where (I think) you live now"
CUT = "Well , it 's the view they do n't see from where ( I think ) you live now"
PAGE = {
    "text": "Short.",
    "questions": [{"question": SPOKEN, "idx": 1, "answers": [{"text": "a", "idx": 0, "label": 1}]}],
}
QUERY = {"query": "@placeholder " + SPOKEN, "answers": [{"text": "Ada", "start": 0, "end": 2}], "idx": 5}
NEWS = {"text": "Ada met Bob.", "entities": [{"start": 0, "end": 2}]}
ASKED = {"question": "Who?", "id": "1", "answers": [{"text": "it", "answer_start": 6}]}


@pytest.mark.parametrize(
    ("task", "name", "content"),
    [
        (TagsTask(), "dev.conll", "".join(f"{word} O\n" for word in CUT.split())),
        (SpanTask(), "dev.json", json.dumps({"data": [{"paragraphs": [{"context": SPOKEN, "qas": [ASKED]}]}]})),
        (ClassesTask(), "dev.multirc", json.dumps({"idx": 7, "passage": PAGE})),
        (ClassesTask(), "dev.record", json.dumps({"idx": 7, "passage": NEWS, "qas": [QUERY]})),
        (ChoiceTask(), "dev.jsonl", json.dumps({"context": "c", "choices": ["x", SPOKEN], "label": 0})),
        (SummaryTask(), "dev.jsonl", json.dumps({"sentences": ["Short.", SPOKEN], "labels": [0, 1]})),
        (RetrievalTask(), "dev.jsonl", json.dumps({"query": "q", "positive": "p", "negative": ["n", SPOKEN]})),
        (NextTask(), "dev.jsonl", json.dumps({"text": SPOKEN})),
    ],
)  # fmt: skip
def test_an_item_of_every_format_is_met(tmp_path: Path, task: Any, name: str, content: str) -> None:
    """Fails where a task's texts are not among those that are looked for, or cut words are others than a document's."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    ending = name.partition(".")[2]
    format = ending if ending in ("multirc", "record") else "squad" if ending == "json" else ""
    items = item_texts(task, FileSettings(path=str(tmp_path / name), format=format))
    texts = [text for some in items for text in some]
    met = met_texts(texts, [pa.array([f"So. {SPOKEN.upper()}! And on."], pa.large_string())])
    assert (len(items), overlap_of(items, met).met) == (1, 1), items
