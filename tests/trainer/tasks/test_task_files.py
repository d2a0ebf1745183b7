"""A task checks a file's columns, and what it makes of the names of classes in it."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import write_model
from small_tasks import encoded_for, exported_model

from corpora.errors import InputError
from trainer.tasks import data
from trainer.tasks.data import read_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import batch_items, build_empty_item
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.kinds.choices import ChoiceTask
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask, NumberTask
from trainer.tasks.kinds.vectors import SimilarityTask
from trainer.tasks.registry import read_task


def test_a_column_for_a_role_that_the_task_does_not_have_is_refused(tmp_path: Path) -> None:
    """Fails if a slip in a role's name makes a task of single texts of one of pairs."""
    path = tmp_path / "rows.tsv"
    path.write_text("text\tother\tlabel\tname\na\tb\t1\tx\n")
    task = read_task({"kind": "classes"})
    with pytest.raises(InputError, match=r"rows\.tsv: .* for 'secnd', which the task 'classes' .* mean 'second'"):
        read_file(task, FileSettings(path=str(path), columns={"secnd": "other"}))
    found = read_file(task, FileSettings(path=str(path), columns={"second": "other", "id": "name"}), labelled=False)
    assert (found.examples[0].second, [*found.ids]) == ("b", ["x"])


def classes_of(path: Path, written: list[str], **task: Any) -> tuple[str, ...]:
    """The classes that a task finds in a file of these labels."""
    path.write_text("text\tlabel\n" + "".join(f"a film\t{label}\n" for label in written), encoding="utf-8")
    known = read_task({"kind": "classes", **task})
    found = known.fit(read_file(known, FileSettings(path=str(path))).examples, str(path))
    assert isinstance(found, ClassesTask)
    return found.labels


@pytest.mark.parametrize("labels", [["Good", "good"], ["C", "C++"], ["👩\u200d👧", "👩👧"], ["1", "one"], ["-1", "1"]])
def test_labels_that_are_two_stay_two(tmp_path: Path, labels: list[str]) -> None:
    assert classes_of(tmp_path / "rows.tsv", labels) == tuple(sorted(labels))


def test_numbers_that_are_all_one_are_refused() -> None:
    task = NumberTask()
    rows = [task.make_example({"text": text, "label": "3"}, True) for text in ("a", "b")]
    with pytest.raises(InputError, match="here: every row has the number 3: there is nothing to learn"):
        task.fit(rows, "here")


def test_a_packed_table_is_a_table_for_every_task(tmp_path: Path) -> None:
    """Fails if a task whose files are columns of words takes the lines of a packed .jsonl for words."""
    path = tmp_path / "rows.JSONL.gz"
    path.write_bytes(gzip.compress(b'{"words": ["a", "b"], "tags": ["O", "B-x"]}\n'))
    (sentence,) = read_file(read_task({"kind": "tags"}), FileSettings(path=str(path))).examples
    assert (sentence.words, sentence.tags) == (("a", "b"), ("O", "B-x"))


def test_a_label_that_is_no_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("text\tlabel\na\tgood\nb\tso so\n")
    with pytest.raises(InputError, match=r"2 label is no number \(first in line 2, 'good'\)"):
        read_file(NumberTask(), FileSettings(path=str(tmp_path / "rows.tsv")))


def test_one_text_in_place_of_two_is_refused(tmp_path: Path) -> None:
    """Fails if a model of pairs answers single texts without a word, or a file of both kinds is learnt from."""
    path = tmp_path / "rows.jsonl"
    rows = [{"text": "a", "second": "b", "label": 1}, {"text": "c", "second": None, "label": 0}]

    def learnt(*some: dict[str, object]) -> ClassesTask:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in some))
        task = read_task({"kind": "classes", "empty_classes": True, "labels": ["0", "1"]})
        found = task.fit(read_file(task, FileSettings(path=str(path))).examples, str(path))
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


SENTENCES = [
    {"words": ["a", "good", "film"][: 1 + number % 3], "tags": ["O", "B-X", "O"][: 1 + number % 3], "document": place}
    for number, place in enumerate("aaabbbbcdddd")
]
DOCUMENTS = TagsTask(context="document", units="spans", labels=("O", "B-X", "I-X"), usual="O", written="BIO2")


def test_parts_of_a_file_have_the_items_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a document is cut in two, or the examples of a later part have the numbers of the first."""
    write_model(tmp_path)
    whole = encoded_for(DOCUMENTS, tmp_path, SENTENCES)
    for together in (1, 4):
        monkeypatch.setattr(data, "EXAMPLES_PER_CALL", together)
        parts = encoded_for(DOCUMENTS, tmp_path, SENTENCES)
        assert parts.ledger == whole.ledger
        for found, wanted in zip(parts.items, whole.items, strict=True):
            assert found.example == wanted.example
            np.testing.assert_array_equal(found.origin, wanted.origin)
            np.testing.assert_array_equal(found.sequences[0].ids, wanted.sequences[0].ids)


VOID: list[tuple[Any, dict[str, Any]]] = [
    (ClassesTask(labels=("a", "b")), {"text": "a film", "label": "a"}),
    (TagsTask(units="spans", labels=("O", "B-X", "I-X"), usual="O"), {"words": ["a", "film"], "tags": ["O", "B-X"]}),
    (replace(DOCUMENTS, crf=True), {"words": ["film"], "tags": ["B-X"], "document": "a"}),
    (SpanTask(), {"question": "a ?", "context": "a film", "answers": [{"text": "film", "answer_start": 2}]}),
    (ChoiceTask(), {"context": "the film", "choices": ["was", "is"], "label": 1}),
    (SimilarityTask(lowest=0.0, highest=5.0, widths=(4,)), {"text": "good", "second": "film", "label": "2"}),
    (SimilarityTask(loss="softmax", labels=("no", "yes")), {"text": "good", "second": "film", "label": "no"}),
    (SimilarityTask(loss="in-batch"), {"text": "good", "second": "film"}),
    (NextTask(), {"text": "the film was long"}),
]


@pytest.mark.parametrize(("task", "row"), VOID, ids=[f"{number}-{task.kind}" for number, (task, _) in enumerate(VOID)])
def test_a_process_without_a_share_of_a_step_has_no_say(tmp_path: Path, task: Any, row: dict[str, Any]) -> None:
    """Fails if its losses are not zero, or it has no gradients, for which the others would wait."""
    write_model(tmp_path / "model", layers=4)
    model = exported_model(task, tmp_path / "model", tmp_path / "out").train()
    [item] = encoded_for(task, tmp_path / "model", [row]).items
    sums = model(batch_items([build_empty_item(item)]))
    assert sums.shape == (1, 2) and not sums.any()
    sums.sum().backward()
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert learning and all(parameter.grad is not None and not parameter.grad.any() for parameter in learning)
