"""Commands of tasks from one end to the other, on a tiny model, with the trainer in this process."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from labelled_world import labelled_file, trainer_here
from launched import ROOT, environment, new_home
from small_models import write_model
from small_recipe import Run

from corpora.errors import InputError
from flows.command.cli import run_command_line

pytestmark = pytest.mark.slow
LONG = pytest.mark.long

SUITE = """
name = "own"
seeds = [1]
[settings]
epochs = 1
[task.things]
kind = "classes"
train = "train.tsv"
dev = "dev.tsv"
max_unusable = 0.1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A model, and labelled files of three classes."""
    write_model(tmp_path / "model")
    for seed, name in enumerate(("train", "dev")):
        labelled_file(tmp_path / f"{name}.tsv", seed, ("boat", "lighthouse"))
    (tmp_path / "suite.toml").write_text(SUITE)
    with trainer_here():
        yield tmp_path


def cloze(folder: Path, *arguments: str) -> int:
    return run_command_line([*arguments, "--accept", "all"], folder / "home")


def test_a_suite_of_three_classes_with_a_control_and_its_answers(folder: Path) -> None:
    """Fails if three classes need a metric by name, a control is not learnt, or answers lack their scores."""
    model, suite, output = (str(folder / name) for name in ("model", "suite.toml", "out"))
    answers = folder / "answers"
    assert cloze(folder, "evaluate", model, suite, "--output", output, "--control", "--answers", str(answers)) == 0
    document = json.loads((folder / "out" / "evaluation.json").read_text())
    assert [row["metric"] for row in document["rows"]] == ["accuracy", "macro_f1", "matthews"]
    assert document["comparison"]["is_control"]
    [path] = answers.iterdir()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    right = [row["score"] for row in rows if "unusable" not in row]
    assert len(rows) == 64 and document["rows"][0]["median"] == pytest.approx(sum(right) / len(right))


def test_a_fine_tuned_model_is_compared_with_one_from_first_weights(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if the control is the model itself, is learned twice, or both are judged by rows that differ."""
    files = ["--train", str(folder / "train.tsv"), "--output", str(folder / "learned"), "--max-unusable", "0.1"]
    asked = ["finetune", "classes", str(folder / "model"), *files, "--set", "epochs=1", "--control"]
    with pytest.raises(InputError, match="name their file with --evaluate"):
        cloze(folder, *asked)
    asked += ["--evaluate", str(folder / "dev.tsv")]
    assert cloze(folder, *asked) == 0
    document = json.loads((folder / "learned-control" / "comparison.json").read_text())
    assert document["comparison"]["is_control"] and document["answer"] in ("yes", "no", "not shown")
    assert f"Was pre-training worth it? {document['worth']}" in " ".join(capsys.readouterr().out.split())
    [row, *_] = document["scores"]["rows"]
    record = json.loads((folder / "learned" / "finetune.json").read_text())
    assert row["median"] == record["restarts"][0]["scores"]["accuracy"]
    [control] = (folder / "learned-control").rglob("model.safetensors")
    assert control.read_bytes() != (folder / "learned" / "model.safetensors").read_bytes()
    made = control.stat().st_mtime_ns
    assert cloze(folder, *asked) == 0 and control.stat().st_mtime_ns == made


def test_each_fold_is_judged_by_its_own(folder: Path) -> None:
    """Fails if a fold is judged by rows of another, or the means are not those of the folds."""
    output = folder / "folds"
    files = ["--train", str(folder / "train.tsv"), "--folds", "2", "--output", str(output)]
    options = ["--max-unusable", "0.1", "--set", "epochs=1"]
    assert cloze(folder, "finetune", "classes", str(folder / "model"), *files, *options) == 0
    table = json.loads((output / "folds.json").read_text())
    records = [json.loads((output / f"fold-{fold}" / "finetune.json").read_text()) for fold in (1, 2)]
    scores = [record["restarts"][record["best"]]["scores"]["accuracy"] for record in records]
    assert table["accuracy"]["folds"] == scores and table["accuracy"]["mean"] == pytest.approx(sum(scores) / 2)
    outcomes = [record["files"]["evaluation"]["ledger"]["accounts"]["rows"]["outcomes"] for record in records]
    assert sum(each["given"] for each in outcomes) == 63


def test_labelled_rows_come_through_a_pipe(folder: Path) -> None:
    """Fails if the rows of a pipe are lost before they are learnt, or read twice."""
    os.mkfifo(folder / "pipe")
    Thread(target=lambda: (folder / "pipe").write_bytes((folder / "train.tsv").read_bytes())).start()
    files = ["--train", str(folder / "pipe"), "--output", str(folder / "piped"), "--max-unusable", "0.1"]
    assert cloze(folder, "finetune", "classes", str(folder / "model"), *files, "--set", "epochs=1") == 0
    accounts = json.loads((folder / "piped" / "finetune.json").read_text())["files"]["training"]["ledger"]["accounts"]
    assert accounts["rows"]["total"] == 64


def test_a_trained_job_has_its_tokenizer_and_fills_gaps(
    learnt: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if the folder that `cloze train` leaves is no model for other commands."""
    model = learnt.manifest("models")
    job = Path(learnt.place.to_full_path(model.folder), "work", "job.json")
    shutil.copy(job, tmp_path / "job.json")
    home, work = tmp_path / "home", tmp_path / "work"
    with trainer_here():
        assert run_command_line(["train", str(tmp_path / "job.json"), "--work", str(work)], home) == 0
        [config] = work.glob("**/tokenizer.json")
        assert run_command_line(["fill", str(config.parent), "the [MASK] was here", "--top", "3"], home) == 0
    assert "[MASK]" in capsys.readouterr().out


ROWS = 4_000  # more answers than a pipe holds


@pytest.mark.parametrize(
    ("line", "answers", "code"),
    [
        ("predict {task} - < few.jsonl | wc -l", "9", 0),
        pytest.param("predict {task} - --output - < rows.jsonl 2> err | head -n 1", '{"line": 1', 141, marks=LONG),
        pytest.param("embed {model} - --query 'a boat' --top 2 < few.jsonl 2> err | grep -c boat", "3", 0, marks=LONG),
        pytest.param("fill {model} 'the [MASK] was here' 2> err | grep -c MASK", "1", 0, marks=LONG),
    ],
)
def test_answers_go_through_a_pipe(line: str, answers: str, code: int, learnt: Run, tmp_path: Path) -> None:
    """Fails if an answer needs a file, a message gets between answers, or who stops reading is met by an error."""
    rows = [json.dumps({"id": str(number), "text": f"a boat and a lighthouse {number}"}) for number in range(ROWS)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    (tmp_path / "few.jsonl").write_text("\n".join(rows[:9]))
    folders = {kind: learnt.place.to_full_path(learnt.manifest(f"{kind}s").folder) for kind in ("task", "model")}
    command = f"{sys.executable} -m flows.main {line.format(**folders)}; echo ${{PIPESTATUS[0]}}"
    home = {**environment(new_home(tmp_path)), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=home, capture_output=True, text=True, check=True)
    [*printed, ended] = done.stdout.splitlines()
    assert "Traceback" not in done.stderr and int(ended) == code, done.stderr
    assert printed[0].startswith(answers) and len(printed) == 1
    left = (tmp_path / "err").read_text() if (tmp_path / "err").exists() else ""
    assert "Traceback" not in left and "rror" not in left, left


def test_one_document_and_answers_do_not_share_standard_output(learnt: Run, tmp_path: Path) -> None:
    """Fails if --json without a file mixes the document with the answers."""
    (tmp_path / "rows.jsonl").write_text('{"text": "a boat"}')
    task = learnt.place.to_full_path(learnt.manifest("tasks").folder)
    with pytest.raises(InputError, match="--json prints one document, and the answers are lines: name their file"):
        run_command_line(["predict", task, str(tmp_path / "rows.jsonl"), "--json"], tmp_path / "home")
