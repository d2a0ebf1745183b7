"""MultiRC, ReCoRD, WiC and WSC as SuperGLUE publishes them, made on the spot."""

import json
from pathlib import Path
from typing import Any

import pytest
from task_records import read_records

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, RowCounts, Values


def read(
    folder: Path, kind: str, *lines: Any, roles: tuple[str, ...] = ("text", "label")
) -> tuple[list[Values], RowCounts]:
    path = folder / "train.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    counts = RowCounts()
    records = read_records(FileSettings(path=str(path), format=kind, max_unusable=1.0), counts, roles)
    return [record.values for record in records], counts


def test_multirc(tmp_path: Path) -> None:
    answers = [{"text": "Oslo", "idx": 0, "label": 1}, {"text": "Rome", "idx": 1, "label": 0}]
    page = {"text": "In Oslo.", "questions": [{"question": "Where?", "answers": answers, "idx": 3}]}
    found, counts = read(tmp_path, "multirc", {"idx": 7, "passage": page}, {"idx": 8}, "{", {"idx": 9, "passage": []})
    first = {"id": "7.3.0", "text": "In Oslo.", "second": "Where? Oslo", "label": "1", "group": "7.3", "answer": "Oslo"}
    assert found == [first, first | {"id": "7.3.1", "second": "Where? Rome", "label": "0", "answer": "Rome"}]
    assert counts.unusable == {"a line that lacks what the task has": 2, "not JSON": 1}
    assert counts.account.unit == "answers"
    answers.append({"text": "", "idx": 2, "label": 0})  # as three are in the published training set
    blank = read(tmp_path, "multirc", {"idx": 7, "passage": page})[0][2]
    assert (blank["second"], "answer" in blank) == ("Where? ", False)
    for answer in answers:
        del answer["label"]
    assert len(read(tmp_path, "multirc", {"idx": 7, "passage": page}, roles=("text",))[0]) == 3
    with pytest.raises(InputError, match="3 of 3 answers cannot be used: 3 no label"):
        read(tmp_path, "multirc", {"idx": 7, "passage": page})


def test_record(tmp_path: Path) -> None:
    text = "Ada met Bob.\n@highlight\nAda won."
    entities = [{"start": 20 + 4, "end": 26}, {"start": 8, "end": 10}, {"start": 0, "end": 2}]
    asked = [{"query": "@placeholder won.", "answers": [{"text": "Ada", "start": 0, "end": 2}], "idx": 5},
             {"query": "Nobody won.", "answers": [], "idx": 6}]  # fmt: skip
    page = {"idx": 1, "passage": {"text": text, "entities": entities}, "qas": asked}
    found, counts = read(tmp_path, "record", page)
    assert [(each["second"], each["label"], each["answer"], each["gold"]) for each in found] == [
        ("Ada won.", "1", "Ada", ["Ada"]), ("Bob won.", "0", "Bob", ["Ada"]),
    ]  # fmt: skip
    assert {each["text"] for each in found} == {"Ada met Bob. Ada won."}
    assert {each["group"] for each in found} == {"1.5"}
    assert counts.first_places == {"a query without @placeholder or candidates": ", query 1.6"}


def test_wic(tmp_path: Path) -> None:
    pair = {"idx": 0, "sentence1": "A big bank.", "sentence2": "Banks flood.", "start1": 6, "end1": 10, "start2": 0,
            "end2": 5, "label": False}  # fmt: skip
    found, counts = read(tmp_path, "wic", pair, pair | {"end1": 99}, pair | {"start2": 7}, pair | {"label": "x"})
    assert found == [{"id": "0", "text": "A big *bank*.", "second": "*Banks* flood.", "label": "false"}]
    assert counts.unusable == {"a word that is not at its place": 2, "a line that lacks what the task has": 1}
    del pair["label"]
    assert len(read(tmp_path, "wic", pair, roles=("text", "second"))[0]) == 1


def test_wsc(tmp_path: Path) -> None:
    target = {"span1_index": 0, "span1_text": "The Trophy", "span2_index": 5, "span2_text": "it"}
    line = {"text": "The trophy is big,  but it, too, fits.", "target": target, "idx": 2, "label": True}
    found, counts = read(
        tmp_path,
        "wsc",
        line,
        line | {"target": target | {"span2_index": 4}},
        line | {"target": target | {"span1_index": 9}},
    )
    assert found == [{"id": "2", "text": "*The trophy* is big,  but #it#, too, fits.", "label": "true"}]
    assert counts.unusable == {"a span that is not at its place": 2}
    assert counts.first_places == {"a span that is not at its place": ", text 2"}
