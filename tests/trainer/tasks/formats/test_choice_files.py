"""COPA, RACE, SWAG and HellaSwag: every question with its choices and the right one."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from task_records import TaskRecord, read_records

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, RowCounts

ROLES = ("context", "choices", "label")


def read(path: Path, kind: str, roles: tuple[str, ...] = ROLES, **settings: Any) -> tuple[list[TaskRecord], RowCounts]:
    counts = RowCounts()
    file = FileSettings(path=str(path), format=kind, **{"max_unusable": 1.0, **settings})
    return list(read_records(file, counts, roles)), counts


def item(number: int, right: str = "1", first: str = "A &amp; b.", second: str = "C.") -> str:
    return (
        f'<item id="{number}" asks-for="cause" {right and f"most-plausible-alternative={right!r}"}>\n'
        f"<p>Why?</p><a1>{first}</a1><a2>{second}</a2></item>\n"
    )


def test_copa_as_xml(tmp_path: Path) -> None:
    path = tmp_path / "copa.xml"
    items = [item(1), item(2, "2"), item(3, "3"), item(4, "x"), item(5, second=" "), item(6, "")]
    path.write_text('<?xml version="1.0"?>\n<!DOCTYPE copa-corpus SYSTEM "copa.dtd">\n<copa-corpus>\n'
                    + "".join(items) + "<item id='7'><p>x</p></item></copa-corpus>")  # fmt: skip
    found, counts = read(path, "copa")
    first = {"id": "1", "context": "Why?", "question": "cause", "choices": ["A & b.", "C."], "label": 0}
    assert found == [TaskRecord(1, first), TaskRecord(2, {**first, "id": "2", "label": 1})]
    assert counts.unusable == {"a label that is none of the choices": 2, "an empty choice": 2, "no label": 1}
    assert counts.first_lines["a label that is none of the choices"] == 3
    assert counts.first_places["an empty choice"] == ", question 5"
    assert [record.values["id"] for record in read(path, "copa", ("context", "choices"))[0]] == ["1", "2", "6"]


def test_copa_of_superglue(tmp_path: Path) -> None:
    rows = [{"premise": "It rained.", "choice1": "Wet.", "choice2": "Dry.", "question": "effect", "label": 0, "idx": 3},
            {"premise": "It rained.", "choice1": "Wet.", "choice2": "Dry.", "question": "effect", "label": True},
            {"premise": "It rained.", "choice1": "Wet."}, {"premise": 7, "choice1": "a", "choice2": "b"}]  # fmt: skip
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "no json\n")
    found, counts = read(path, "copa")
    assert [record.values for record in found] == [
        {"id": "3", "context": "It rained.", "question": "effect", "choices": ["Wet.", "Dry."], "label": 0}
    ]
    assert counts.unusable == {
        "a label that is none of the choices": 1, "an empty choice": 1, "no context": 1, "not JSON": 1,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "<copa-corpus><item>"])
def test_copa_that_is_no_xml_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "copa.xml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"copa\.xml is not XML: .*line 1"):
        read(path, "copa")


def test_race(tmp_path: Path) -> None:
    page = {"answers": ["B", "D"], "options": [["1", "2", "3", "4"]] * 2, "questions": ["How _ ?", "Why?"],
            "article": "It is.", "id": "high10.txt"}  # fmt: skip
    for level in ("high", "middle"):
        folder = tmp_path / "train" / level
        folder.mkdir(parents=True)
        (folder / "10.txt").write_text(json.dumps({**page, "id": f"{level}10.txt"}))
    (folder / "11.txt").write_text(json.dumps({**page, "answers": ["E", "A"]}))
    (folder / "12.txt").write_text(json.dumps(page)[:-5])
    (folder / "13.txt").write_text(json.dumps({**page, "answers": ["A"]}))
    (folder / "14.txt").write_text("[" * 100_000)
    (folder / "15.txt").write_text("[]")
    found, counts = read(tmp_path / "train", "race")
    assert [(each.values["id"], each.values["level"], each.values["label"], each.line) for each in found] == [
        ("high10-0", "high", 1, 1), ("high10-1", "high", 3, 2), ("middle10-0", "middle", 1, 1),
        ("middle10-1", "middle", 3, 2), ("high10-1", "middle", 0, 2),
    ]  # fmt: skip
    assert found[0].values["choices"] == ["1", "2", "3", "4"] and found[0].values["question"] == "How _ ?"
    assert counts.unusable == {
        "a label that is none of the choices": 1,
        "a file that is not JSON": 2,
        "a file without article, questions, options and answers of equal number": 2,
    }
    assert counts.first_places["a file that is not JSON"] == ", 12.txt"
    alone, _ = read(tmp_path / "train" / "high" / "10.txt", "race")
    assert [each.values for each in alone] == [each.values for each in found[:2]]
    assert read(tmp_path / "train", "")[0] == found


SWAG = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source", *(f"ending{n}" for n in range(4))]


def test_swag(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    with path.open("w", newline="") as file:
        row = ["0", "v1", "1", "He sat. He", "He sat.", "He", "gold", "ran, then left.", "b", "c", "d"]
        csv.writer(file).writerows([[*SWAG, "label"], [*row, "2"], [*row, "4"], [*row[:-1], " ", "0"], row[:5]])
    found, counts = read(path, "swag")
    assert [record.values for record in found] == [
        {"id": "v1", "context": "He sat.", "choices": ["He ran, then left.", "He b", "He c", "He d"], "label": 2}
    ]
    assert counts.unusable == {
        "a label that is none of the choices": 1, "an empty choice": 1, "too few columns": 1,
    }  # fmt: skip


def test_swag_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "test.csv"
    path.write_text(",".join(SWAG) + "\n0,v1,1,He sat. He,He sat.,He,gold,a,b,c,d\n")
    assert [{*record.values} for record in read(path, "swag", ("context", "choices"))[0]] == [
        {"id", "context", "choices"}
    ]
    with pytest.raises(InputError, match="1 no label"):
        read(path, "swag")
    path.write_text("sent1,ending0\na,b\n")
    with pytest.raises(InputError, match="has no column 'sent2'"):
        read(path, "swag")


def test_hellaswag(tmp_path: Path) -> None:
    path = tmp_path / "val.jsonl"
    path.write_text(json.dumps({"ind": 4, "ctx": "A man", "endings": ["a", "b"], "label": 1}) + "\n{}\n")
    found, counts = read(path, "swag")
    assert found == [TaskRecord(1, {"id": "4", "context": "A man", "choices": ["a", "b"], "label": 1})]
    assert counts.unusable == {"fewer than two choices": 1}
