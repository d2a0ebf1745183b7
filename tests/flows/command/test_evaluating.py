"""`cloze evaluate` around the trainer: what it writes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_suites import answered

from corpora.errors import InputError
from flows.command import evaluate as evaluating
from flows.command.evaluate import EvaluationOptions, check_options
from flows.command.help import JSON_KEYS
from flows.export.cards.model_card import SHOWN_SETTINGS
from trainer.tasks.suites.split_scores import JudgedSplit, write_judged
from trainer.tasks.suites.suite import SuiteRun, digest_split

SUITE = """
name = "small"
seeds = [1, 2]
average = true
[task."glue/rte"]
"""


def new_suite(folder: Path) -> Path:
    """A published set, and two folders that look like models."""
    pair = "index\tsentence1\tsentence2"
    rows = "".join(f"{n}\tthe <b>first</b> sentence {n}\tthe second\tentailment\n" for n in range(60))
    (folder / "RTE").mkdir()
    for name in ("train", "dev"):
        (folder / "RTE" / f"{name}.tsv").write_text(f"{pair}\tlabel\n{rows}")
    (folder / "RTE" / "test.tsv").write_text(f"{pair}\n7\ta\tb\n")
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text('{"model_type": "bert"}')
        (folder / name / "model.safetensors").write_text(name)
    (folder / "suite.toml").write_text(SUITE)
    return folder / "suite.toml"


def learn_by_hand(runs: list[SuiteRun], tell: Any) -> None:
    """Write what the trainer leaves: the model whose weights are "one" is right more often."""
    for run in runs:
        better = (Path(run.job.model) / "model.safetensors").read_text() == "one" and not run.job.first_weights
        Path(run.job.output).mkdir(parents=True)
        (Path(run.folder) / "made_by").write_text(run.job.model)
        settings = dict.fromkeys(SHOWN_SETTINGS, 1)
        (Path(run.job.output) / "finetune.json").write_text(json.dumps({"settings": settings | {"epochs": 4}}))
        for split in run.splits:
            found = answered(55 if better else 20) if split.labelled else JudgedSplit(sha256="", examples=1)
            write_judged(run.locate_scores(split), JudgedSplit(**{**fields_of(found), "sha256": digest_split(split)}))
            run.locate_answers(split).write_text(json.dumps({"id": "7", "label": "entailment"}) + "\n")
        tell(f"learnt {run.task} {run.seed}")


def fields_of(judged: JudgedSplit) -> dict[str, Any]:
    return {name: getattr(judged, name) for name in JudgedSplit.__dataclass_fields__}


def test_tables_pages_and_answers_are_written_and_nothing_is_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluating, "run_jobs", learn_by_hand)
    suite, output, told = str(new_suite(tmp_path)), tmp_path / "out", list[str]()
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    asked = EvaluationOptions(
        model=one, suite=suite, data=tmp_path, output=output, compare=two, card=tmp_path / "carded", accept=("all",)
    )
    with pytest.raises(InputError, match=r"has the label 'entailment'.*--accept one-class --accept evaluation-in-tra"):
        evaluating.evaluate_model(replace(asked, accept=()), told.append)
    told.clear()
    result = evaluating.evaluate_model(asked, told.append)
    assert result.average == pytest.approx(55 / 60) and sum(line.startswith("learnt") for line in told) == 4
    document = json.loads((output / "evaluation.json").read_text())
    assert set(JSON_KEYS["evaluate"].split()) <= set(document)
    assert document["rows"][0]["median"] == pytest.approx(55 / 60)
    assert document["comparison"]["tasks"][0]["adjusted"] < 0.05
    assert "91.7" in (output / "evaluation.html").read_text()
    begins = told.index(f"small: {tmp_path / 'one'}, seeds 1, 2")
    assert told.pop() == f"Model with its card: {tmp_path / 'carded'}"
    assert "| glue/rte | 4 | 1 | 1 |" in (tmp_path / "carded" / "README.md").read_text()
    assert (tmp_path / "carded" / "model.safetensors").read_text() == "one"
    lines = (output / "evaluation.txt").read_text().splitlines()
    assert lines == told[begins:-1] and "Holm" in lines[-3]
    told.clear()
    written = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    evaluating.evaluate_model(replace(asked, card=None), told.append)
    assert not any(line.startswith("learnt") for line in told) and f"{one}: 2 of 2 runs are done" in told
    assert written == {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    evaluating.evaluate_model(replace(asked, card=None, compare=None, control=True), told.append)
    worth = "Pre-training was worth it: better than from first weights on 1 of 1 compared, worse on 0 (p below 0.05)"
    assert any(line.startswith(worth) for line in told) and worth in (output / "evaluation.html").read_text()


def test_what_is_no_model_is_refused_before_anything_is_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "run_jobs", learn_by_hand)
    suite = str(new_suite(tmp_path))
    (tmp_path / "one" / "model.safetensors").unlink()
    for model, message in (
        ("one", "holds no weights"),
        ("none", "There is no folder"),
        ("RTE", "There is no models artifact"),
    ):
        with pytest.raises(InputError, match=message):
            asked = EvaluationOptions(model=str(tmp_path / model), suite=suite, data=tmp_path, output=tmp_path / "out")
            evaluating.evaluate_model(asked, print)
    with pytest.raises(InputError, match="itself: give another model"):
        check_options(EvaluationOptions("two", suite, compare="two"))
    with pytest.raises(InputError, match=r"--license = 'MIT' is not known"):
        check_options(EvaluationOptions("two", suite, license="MIT"))
    with pytest.raises(InputError, match="is not empty"):
        check_options(EvaluationOptions("two", suite, card=tmp_path))
