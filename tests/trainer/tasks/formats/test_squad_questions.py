"""SQuAD's JSON: questions, answers at their places, and what is none."""

import json
from pathlib import Path
from typing import Any

import pytest
from task_records import TaskRecord, read_records

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, RowCounts

ROLES = ("id", "question", "context", "answers", "impossible")
CONTEXT = "Été in Oslo, 😀 Oslo."


def read(path: Path, roles: tuple[str, ...] = ROLES, **settings: Any) -> tuple[list[TaskRecord], RowCounts]:
    counts = RowCounts()
    file = FileSettings(path=str(path), format="squad", **{"max_unusable": 1.0, **settings})
    return list(read_records(file, counts, roles)), counts


def asked(name: str, *answers: tuple[int, str], **more: Any) -> dict[str, Any]:
    spans = [{"text": text, "answer_start": start} for start, text in answers]
    return {"id": name, "question": f"Where is {name}?", "answers": spans, **more}


def written(folder: Path, *questions: Any, **more: Any) -> Path:
    """One article a line."""
    articles = [json.dumps({"title": "t", "paragraphs": [{"context": CONTEXT, "qas": [each]}]}) for each in questions]
    path = folder / "train.json"
    path.write_text('{"version": "1.1",\n"data": [' + ",\n".join(articles) + "]}")
    return path


def test_questions_and_where_their_answers_are(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        asked("a", (7, "Oslo"), (15, "Oslo"), (7, "Oslo")),
        asked("b", is_impossible=True, plausible_answers=[{"text": "x", "answer_start": 0}]),
    )
    found, _ = read(path)
    assert found == [
        TaskRecord(1, {"id": "a", "question": "Where is a?", "context": CONTEXT, "impossible": False,
                       "answers": [(7, "Oslo"), (15, "Oslo")]}),
        TaskRecord(2, {"id": "b", "question": "Where is b?", "context": CONTEXT, "answers": [], "impossible": True}),
    ]  # fmt: skip


def test_every_unusable_question_is_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        asked("a", (7, "Oslo")),
        asked("b", (8, "Oslo")),
        asked("c", (-5, "Oslo")),
        asked("d"),
        asked("a", (7, "Oslo")),
        {"id": "e", "question": 7},
        {"question": "?", "answers": []},
        asked("f", (7, "Oslo")) | {"answers": [{"text": "Oslo"}]},
        asked("g", (7, "Oslo")) | {"question": " "},
        asked("h", (7, "Oslo")) | {"question": "\ud800"},
        asked("i", (7, "Oslo")) | {"answers": "Oslo"},
        asked("j", (7, "Oslo")) | {"answers": [{"text": "Oslo", "answer_start": "7"}]},
        7,
    )
    found, counts = read(path)
    assert [record.values["id"] for record in found] == ["a"]
    assert counts.unusable == {
        "an answer that is not in the context at its place": 2, "no answers": 1, "an id for the second time": 1,
        "no question on a context": 2, "no id": 1, "answers are no texts with answer_start": 3, "empty question": 1,
        "not UTF-8": 1,
    }  # fmt: skip
    assert counts.account.unit == "questions" and counts.account.total == 13
    with pytest.raises(InputError, match=r"2 an answer that is not .* \(first in line 2, question b\).*fix them, or"):
        read(path, max_unusable=0.1)


def test_questions_without_answers_can_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, {"id": "a", "question": "Where?"}, asked("b"))
    assert [{*record.values} for record in read(path, ("id", "question", "context"))[0]] == [{*ROLES} - {"answers"}] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is not SQuAD"),
        ('{"data": [7]}', "is not SQuAD"),
        ('{"data": [{"paragraphs": [{"qas": [{}]}]}]}', "is not SQuAD"),
        ('{"data": []}', "has no questions"),
        ('{"data": [{"paragraphs": []},\n{"paragr', "is not JSON .*line 2"),
    ],
)
def test_files_that_are_no_squad_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "train.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read(path)


def test_a_json_of_questions_is_squad_or_a_list(tmp_path: Path) -> None:
    """Fails if a user must name the format of a file that can be told by its first character."""
    squad, flat = written(tmp_path, asked("a", (7, "Oslo"))), tmp_path / "list.json"
    flat.write_text(json.dumps([{"id": "a", "question": "Where?", "context": CONTEXT, "answers": []}]))
    for path, answers in ((squad, [(7, "Oslo")]), (flat, [])):
        (record,) = read_records(FileSettings(path=str(path)), RowCounts(), ROLES[:4])
        assert record.values["answers"] == answers


def test_a_role_that_a_format_does_not_give_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"its format gives id, question, .*, and text, label is needed"):
        read(written(tmp_path, asked("a", (7, "Oslo"))), ("text", "label", "context"))
