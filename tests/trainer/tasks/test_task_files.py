"""A task checks a file's columns, and what it makes of the names of classes in it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from corpora.errors import InputError
from trainer.tasks.data import read_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.kinds.texts import ClassesTask
from trainer.tasks.registry import read_task


def classes_of(path: Path, written: list[str], **task: Any) -> tuple[str, ...]:
    """The classes that a task finds in a file of these labels."""
    path.write_text("text\tlabel\n" + "".join(f"a film\t{label}\n" for label in written), encoding="utf-8")
    known = read_task({"kind": "classes", **task})
    found = known.fitted(read_file(known, FileSettings(path=str(path))).examples, str(path))
    assert isinstance(found, ClassesTask)
    return found.labels


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["1", "0", "1.0"], r"the labels '1' and '1\.0' are two spellings of one"),
        (["1", "0", "01"], "the labels '01' and '1' are two spellings"),
        (["café", "cafe\u0301"], r"the labels 'cafe\\u0301' and 'caf\\xe9' are two spellings"),
        (["good", "go\u200bod"], r"the labels 'good' and 'go\\u200bod' are two spellings"),
        (["a  b", "a b"], "the labels 'a  b' and 'a b' are two spellings"),
    ],
)
def test_a_label_in_two_spellings_is_asked_about(tmp_path: Path, labels: list[str], message: str) -> None:
    """Fails where they become two classes without a word; named, they are two."""
    with pytest.raises(InputError, match=message):
        classes_of(tmp_path / "rows.tsv", labels)
    named = tuple(sorted(labels))
    assert classes_of(tmp_path / "rows.tsv", labels, labels=list(named)) == named


@pytest.mark.parametrize("labels", [["Good", "good"], ["C", "C++"], ["👩\u200d👧", "👩👧"], ["1", "one"], ["-1", "1"]])
def test_labels_that_are_two_stay_two(tmp_path: Path, labels: list[str]) -> None:
    assert classes_of(tmp_path / "rows.tsv", labels) == tuple(sorted(labels))


def test_a_column_for_a_role_that_the_task_does_not_have_is_refused(tmp_path: Path) -> None:
    """Fails where a slip in a role's name makes a task of single texts of one of pairs."""
    path = tmp_path / "rows.tsv"
    path.write_text("text\tother\tlabel\tname\na\tb\t1\tx\n")
    task = read_task({"kind": "classes"})
    with pytest.raises(
        InputError, match=r"rows\.tsv: a column is named for 'secnd', but the task 'classes' reads text, second"
    ):
        read_file(task, FileSettings(path=str(path), columns={"secnd": "other"}))
    found = read_file(task, FileSettings(path=str(path), columns={"second": "other", "id": "name"}), labelled=False)
    assert (found.examples[0].second, [*found.ids]) == ("b", ["x"])


def test_one_text_in_place_of_two_is_refused(tmp_path: Path) -> None:
    """Fails where a model of pairs answers single texts without a word, or a file of both kinds is learnt from."""
    path = tmp_path / "rows.jsonl"
    rows = [{"text": "a", "second": "b", "label": 1}, {"text": "c", "second": None, "label": 0}]

    def learnt(*some: dict[str, object]) -> ClassesTask:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in some))
        task = read_task({"kind": "classes", "empty_classes": True, "labels": ["0", "1"]})
        found = task.fitted(read_file(task, FileSettings(path=str(path))).examples, str(path))
        assert isinstance(found, ClassesTask)
        return found

    with pytest.raises(InputError, match=r"rows\.jsonl: 1 of 2 rows have no second text, and the others have one"):
        learnt(*rows)
    for task, reason in (
        (learnt(rows[0]), r"1 no second text, where training had one \(first in line 2\)"),
        (learnt(rows[1]), r"1 a second text, where training had none \(first in line 1\)"),
    ):
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        with pytest.raises(InputError, match=reason):
            read_file(task, FileSettings(path=str(path)), labelled=False)


def test_a_packed_table_is_a_table_for_every_task(tmp_path: Path) -> None:
    """Fails where a task whose files are columns of words takes the lines of a packed .jsonl for words."""
    path = tmp_path / "rows.JSONL.gz"
    path.write_bytes(gzip.compress(b'{"words": ["a", "b"], "tags": ["O", "B-x"]}\n'))
    (sentence,) = read_file(read_task({"kind": "tags"}), FileSettings(path=str(path))).examples
    assert (sentence.words, sentence.tags) == (("a", "b"), ("O", "B-x"))


def test_what_is_unknown_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("text\tlabel\na\tgood\nb\tneutral\nc\tso so\n")
    known = read_task({"kind": "classes", "labels": ["bad", "good"]})
    with pytest.raises(InputError, match=r"2 unknown label \(first in line 3, 'neutral' is none of 'bad', 'good'\)"):
        read_file(known, FileSettings(path=str(path)))
    with pytest.raises(InputError, match=r"3 label is no number \(first in line 2, 'good'\)"):
        read_file(read_task({"kind": "number"}), FileSettings(path=str(path)))
