"""SuperGLUE's sets whose answers are judged together, on files of their form."""

import json
from pathlib import Path

import numpy as np
import pytest

from trainer.tasks.data import read_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.registry import read_task
from trainer.tasks.suites.split_scores import JudgedSplit
from trainer.tasks.suites.suite import MULTIRC, RECORD, read_suite, score_groups

MULTIRC_LINE = {"idx": 4, "passage": {"text": "A text.", "questions": [
    {"idx": 0, "question": "Who?", "answers": [{"idx": n, "text": f"a{n}", "label": n % 2} for n in range(3)]},
    {"idx": 1, "question": "Why?", "answers": [{"idx": 3, "text": "b", "label": 1}]},
]}}  # fmt: skip
RECORD_LINE = {
    "idx": 2,
    "passage": {"text": "Ann met Bob Lee.", "entities": [{"start": 0, "end": 2}, {"start": 8, "end": 14}]},
    "qas": [
        {"idx": 5, "query": "@placeholder met him.", "answers": [{"text": "Ann"}]},
        {"idx": 6, "query": "She met @placeholder.", "answers": [{"text": "Lee"}]},
    ],
}


def read_lines(folder: Path, form: str, line: dict[str, object]):  # type: ignore[no-untyped-def]
    """The examples of a file of one line."""
    (folder / f"{form}.jsonl").write_text(json.dumps(line) + "\n")
    file = FileSettings(path=str(folder / f"{form}.jsonl"), format=form)
    return file, read_file(read_task({"kind": "classes"}), file)


def answers(*said: float) -> list[np.ndarray]:
    return [np.array([0.0, each], np.float32) for each in said]


def test_a_question_is_right_where_all_its_options_are(tmp_path: Path) -> None:
    """Said are 0 1 1 of 0 1 0, and 1 of 1: one question of two is right, F1 is 2 * 2 / (3 + 2)."""
    file, found = read_lines(tmp_path, "multirc", MULTIRC_LINE)
    fields = score_groups(MULTIRC, file, found.ids, found.examples, answers(-1, 1, 1, 1))
    assert fields["scores"] == {"f1a": pytest.approx(0.8), "exact": 0.5} and len(fields["rows"]) == 2
    judged = JudgedSplit(sha256="", examples=4, is_grouped=True, **fields)
    for metric, score in fields["scores"].items():
        assert judged.can_draw(metric) and judged.score(judged.to_array(), metric) == pytest.approx(score)
    assert score_groups("glue/rte", file, found.ids, found.examples, answers(0, 0, 0, 0)) == {}


def test_of_a_query_the_surest_candidate_is_the_answer(tmp_path: Path) -> None:
    """Bob Lee for Lee is half right by its words, and not exactly; both of the first query are said to be wrong."""
    file, found = read_lines(tmp_path, "record", RECORD_LINE)
    fields = score_groups(RECORD, file, found.ids, found.examples, answers(-1, -2, 0.1, 0.2))
    assert fields["scores"] == {"f1": pytest.approx((1 + 2 / 3) / 2), "exact": 0.5}
    judged = JudgedSplit(sha256="", examples=4, is_grouped=True, **fields)
    assert judged.score(judged.to_array(), "f1") == pytest.approx(fields["scores"]["f1"])


def test_superglue_is_its_eight_tasks(tmp_path: Path) -> None:
    for folder in ("BoolQ", "CB", "COPA", "MultiRC", "ReCoRD", "RTE", "WiC", "WSC"):
        (tmp_path / folder).mkdir()
        for split in ("train", "val", "test"):
            (tmp_path / folder / f"{split}.jsonl").write_text("{}\n")
    suite = read_suite("superglue", tmp_path)
    assert [task.task["kind"] for task in suite.tasks] == ["classes"] * 2 + ["choice"] + ["classes"] * 5
    assert {split.name: split.labelled for split in suite.tasks[3].splits} == {"dev": True, "test": False}
    assert suite.tasks[3].splits[0].metrics == ("f1a", "exact") and "metric" not in suite.tasks[3].task
