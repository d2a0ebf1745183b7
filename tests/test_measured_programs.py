"""The benchmarks that hold no two sides against each other: what they measure, and what they say; nothing is timed."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from benchmark_texts import prose

from benchmarks import curves, first_contact, record
from benchmarks.figures import PAGE, page_with
from corpora.store.places.place import Place
from trainer.jobs.start import Start
from trainer.settings.model import FAMILIES


def test_the_texts_of_the_first_contact_are_the_same_each_time(tmp_path: Path) -> None:
    """Fails where the texts hang on anything but the seed, are alike, or are not as many as asked for."""
    for name in ("one", "two"):
        first_contact.write_texts(tmp_path / name, 30_000)
    files = {name: sorted((tmp_path / name).rglob("*.txt")) for name in ("one", "two")}
    texts = {name: [path.read_text() for path in paths] for name, paths in files.items()}
    assert texts["one"] == texts["two"] and len(texts["one"]) == len(set(texts["one"])) == 23
    assert sum(map(len, texts["one"][:3])) >= 30_000


def test_a_command_is_measured_with_what_it_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where a command's CPU seconds are not its own, or a failed one goes unsaid."""
    asked = first_contact.Step(name="help", arguments=("--help",))
    failed = first_contact.Step(name="nothing", arguments=("report", "nothing-there"))
    environment = {**os.environ, "CLOZE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(PAGE.parents[1])}
    rows = [first_contact.timed(step, tmp_path, environment) for step in (asked, failed)]
    assert rows[0]["code"] == 0 and 0 < rows[0]["cpu"] and rows[1]["code"] == 2
    assert capsys.readouterr().err.startswith("nothing: cloze: ")


def test_the_table_of_the_first_contact_is_that_of_its_record() -> None:
    """Fails where a figure on the page is not on record, or a step is missing from a call."""
    page, calls = PAGE.read_text(encoding="utf-8"), record.read_calls(first_contact.RECORD)
    again = page_with(page, first_contact.table(calls), first_contact.BEGIN, first_contact.END)
    assert again == page and calls
    assert all([row["name"] for row in call["rows"]] == [step.name for step in first_contact.STEPS] for call in calls)


@pytest.mark.long
def test_all_learn_from_the_same_text_and_the_student_twice(tmp_path: Path) -> None:
    """Fails where a model is tuned by itself, or the student alone is another one than the one that is taught."""
    (tmp_path / "text").mkdir()
    for seed in range(40):
        (tmp_path / "text" / f"{seed}.txt").write_text(prose(seed), encoding="utf-8")
    place = Place(str(tmp_path / "store"))
    built = curves.build_shards(place, tmp_path / "text", tmp_path)
    untaught = [entry for entry in curves.ENTRIES if not entry.teacher]
    jobs = {entry.name: curves.plan(place, built, entry, 0.01, {}).parts[0].job for entry in untaught}
    first = jobs["bert"]
    assert {job.model.family for job in jobs.values()} == {*FAMILIES}
    alike = [(job.shards, job.vocabulary, replace(job.training, phase=first.training.phase)) for job in jobs.values()]
    assert len({training.schedule for _, _, training in alike}) == 1
    assert all(each[:2] == alike[0][:2] for each in alike)
    taught, begun = (entry for entry in curves.ENTRIES if entry.teacher)
    teacher = Start(folder="somewhere", files={})
    told, untold = (entry.settings({"bert": teacher}) for entry in (taught, begun))
    assert told.objective == {"kind": "distillation", "teacher": "somewhere"}
    alone = jobs[taught.behind[0]]
    assert taught.behind == ("student alone", begun.name) and told.layers < first.model.layers
    assert replace(told, objective=None) == replace(untold, objective=None) == alone.model
    assert taught.steps == begun.steps == 100 * alone.training.steps and len({taught.rate, begun.rate}) == 1


def test_curves_say_what_was_reached_and_when(tmp_path: Path) -> None:
    """Fails where a goal counts that was not reached, or a model that is behind counts as ahead."""
    found = [
        learnt("bert", [0.02, 0.11, 0.14]),
        learnt("distilbert", [0.03, 0.08, 0.09]),
        learnt("student alone", [0.01, 0.02, 0.1]),
        learnt("electra", [0.0, 0.01, 0.02], [0.5, 0.69, 0.72]),
    ]
    assert [each.reached for each in found] == [20, None, 30, 30]
    bert, student, ahead, electra = curves.verdicts(found)
    assert bert.endswith("14.0% of the words, the goal is 10%: met") and student.endswith(
        "9.0% of the words, the goal is 10%: not met"
    )
    assert ahead.endswith(": not ahead") and electra == "electra: area 0.720, the goal is 0.7: met"
    rows = list(curves.table(found))[2:]
    assert rows[0] == "| bert | 1,000 | 30 | 5 | 4.000 | 5.000 | 14.0% of 50 | | 20 |"
    assert rows[1].endswith("| not reached |") and "| 0.720 |" in rows[3]
    curves.write(tmp_path, found, ["a text"])
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").count("<circle") == 11
    assert json.loads((tmp_path / "curves.json").read_text(encoding="utf-8"))["models"][0]["goal_at_step"] == 20


def learnt(name: str, words: Sequence[float], areas: Sequence[float] = ()) -> curves.Trained:
    """A model with an evaluation every ten steps."""
    [entry] = [entry for entry in curves.ENTRIES if entry.name == name]
    events: list[dict[str, Any]] = []
    for number, right in enumerate(words, 1):
        said = {"step": 10 * number, "phase": 1, "masked_loss": 7.0 - number}
        area = {"replaced_auc": areas[number - 1]} if areas else {}
        measured = {"unigram_entropy": 5.0, "rare_word_accuracy": right, "rare_words": 50, **area}
        events += [{"event": "step", **said, "learning_rate": 1e-3}, {"event": "evaluation", **said, **measured}]
    events.append({"event": "done", "step": 10 * len(words), "parameters": 1_000, "tokens": 100})
    return curves.Trained(entry=entry, seconds=5.2, events=events)


def test_a_text_that_is_absent_is_told(tmp_path: Path) -> None:
    """Fails where a machine without the text is an error, or anything is written there."""
    told: list[str] = []
    assert curves.main(["--text", str(tmp_path / "none"), "--out", str(tmp_path / "out")], told.append) == 0
    assert "nothing is trained" in told[0] and not (tmp_path / "out").exists()
