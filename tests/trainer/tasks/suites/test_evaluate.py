"""Runs of a suite by the trainer, on models of two layers."""

import json
from pathlib import Path

import numpy as np
import pytest
from small_models import write_model
from small_tasks import sentences, write_rows

from trainer.ranks import join_process_group
from trainer.tasks.evaluate import evaluate
from trainer.tasks.suites.split_scores import read_judged
from trainer.tasks.suites.suite import SuiteRun, iter_runs, read_suite

SUITE = """
seeds = [1, 2]
[settings]
epochs = 1
batch = 16
learning_rate = 3e-3
[task.mine]
kind = "classes"
train = "train.tsv"
dev = "dev.tsv"
test = "test.tsv"
[task.long]
kind = "number"
train = "long.tsv"
dev = "long.tsv"
"""


def planned(folder: Path) -> list[SuiteRun]:
    """Two tasks from two seeds each."""
    if not (folder / "model").exists():
        write_model(folder / "model")
        for seed, name in enumerate(("train", "dev", "test")):
            write_rows(folder / f"{name}.tsv", sentences(48, seed))
        write_rows(folder / "long.tsv", [(text, str(len(text.split()))) for text, _ in sentences(40, 5)])
        (folder / "suite.toml").write_text(SUITE)
    return list(iter_runs(read_suite(str(folder / "suite.toml")), folder / "model", folder / "out"))


def test_runs_are_judged_and_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    runs = planned(tmp_path)
    assert [(run.task, run.seed) for run in runs] == [("mine", 1), ("mine", 2), ("long", 1), ("long", 2)]
    some = [runs[0], runs[2]]
    with join_process_group() as ranks:
        for run in some:
            evaluate(run, ranks)
        written = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
        for run in some:
            evaluate(run, ranks)
        assert written == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
        write_rows(tmp_path / "test.tsv", sentences(30, 9))
        evaluate(runs[0], ranks)
    dev, test = (read_judged(runs[0].locate_scores(split)) for split in runs[0].splits)
    assert dev is not None and test is not None and (dev.examples, test.examples) == (48, 30), (
        "another file is answered"
    )
    record = json.loads((Path(runs[0].job.output) / "finetune.json").read_text())
    assert dev.scores["accuracy"] == pytest.approx(record["restarts"][0]["scores"]["accuracy"])
    numbers = read_judged(runs[2].locate_scores(runs[2].splits[0]))
    for found, metrics in ((dev, ("accuracy", "f1", "matthews")), (numbers, ("pearson", "spearman"))):
        assert found is not None
        for metric in metrics:
            assert found.score(found.to_array(), metric) == pytest.approx(found.scores[metric], abs=1e-6)
    lines = runs[0].locate_answers(runs[0].splits[1]).read_text().splitlines()
    assert len(lines) == 30 and json.loads(lines[0])["label"] in ("bad", "good")
    gold = [label for _, label in sentences(48, 1)]
    most = max(("bad", "good"), key=[label for _, label in sentences(48, 0)].count)
    assert dev.majority["accuracy"] == pytest.approx(np.mean([label == most for label in gold]))
    assert dev.words["accuracy"] > 0.9 > dev.majority["accuracy"], "a word decides"
    assert dev.p_majority is not None and dev.p_words is not None
    assert record["baselines"] == {"majority": dev.majority, "bag of words": dev.words}


def test_a_run_is_named_by_all_that_decides_it(tmp_path: Path) -> None:
    """Another rate, other bytes of a file and another model have other folders; another test file has the same."""
    before = [run.folder for run in planned(tmp_path)]
    assert len({*before}) == 4 and [run.folder for run in planned(tmp_path)] == before
    write_rows(tmp_path / "test.tsv", sentences(30, 9))
    assert [run.folder for run in planned(tmp_path)] == before
    (tmp_path / "suite.toml").write_text(SUITE.replace("3e-3", "2e-3"))
    assert not {*before} & {run.folder for run in planned(tmp_path)}
    (tmp_path / "suite.toml").write_text(SUITE)
    write_rows(tmp_path / "dev.tsv", sentences(30, 9))
    assert [run.folder in before for run in planned(tmp_path)] == [False, False, True, True]
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace("gelu", "relu"))
    assert not {*before} & {run.folder for run in planned(tmp_path)}
