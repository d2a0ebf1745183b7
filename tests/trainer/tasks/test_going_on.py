"""A run that was ended goes on to the same bytes wherever it was, and only with what it began with."""

import json
import re
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiers
from safetensors.torch import load_file, save_file
from small_models import write_model
from small_tasks import end_after, exported_model, judged_as, new_job, run, sentences, write_rows
from small_training import flip, stopped_after

from corpora.errors import InputError
from trainer.complete_folders import hold_output
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.ranks import join_process_group
from trainer.tasks.finetuning import finetune, record
from trainer.tasks.kinds.texts import ClassesTask
from trainer.tasks.settings import FinetuneJob

CHANGES = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "shutil.copyfile"})


class Ended(BaseException):
    """The process is no more."""


class Watch:
    """Counts what is done to files below a folder, and ends the run before the n-th of it."""

    def __init__(self) -> None:
        self.folder, self.seen, self.last = "", 0, -1
        sys.addaudithook(self._hear)

    def _hear(self, event: str, told: tuple[Any, ...]) -> None:
        if not self.folder or event not in CHANGES or not str(told[0]).startswith(self.folder):
            return
        self.seen += 1
        if self.seen == self.last:
            self.folder = ""
            raise Ended

    def of(self, folder: Path, does: Callable[[], Any], last: int = -1) -> int:
        """Return how many changes a call makes; raise Ended at number `last`."""
        self.folder, self.seen, self.last = str(folder), 0, last
        try:
            does()
        finally:
            self.folder = ""
        return self.seen


WATCH = Watch()  # a hook stays as long as the process


def files_of(folder: Path) -> dict[str, bytes]:
    """But the log, which has times."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "metrics.jsonl"}


def steps_of(folder: Path) -> list[int]:
    """As the log has them."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [line["step"] for line in lines if line["event"] == "step"]


SETTINGS: dict[str, Any] = {"rows": 24, "epochs": 1, "restarts": 2}


def test_a_run_may_be_ended_anywhere(tmp_path: Path) -> None:
    """Some places of each kind: before, between and after all that it writes; in the long tier twice as many."""
    total = WATCH.of(tmp_path / ".whole.tmp", lambda: run(new_job(tmp_path, "whole", **SETTINGS)))
    assert total > 40, "the test looks at nothing"
    for place in range(5, total, total // (4 if tiers.LONG else 2) + 1):
        job = new_job(tmp_path, f"ended-{place}", **SETTINGS)
        with pytest.raises(Ended):
            WATCH.of(tmp_path / f".ended-{place}.tmp", lambda job=job: run(job), place)  # type: ignore[misc]
        if not Path(job.output).exists():
            run(job)
        assert files_of(Path(job.output)) == files_of(tmp_path / "whole"), place
        assert steps_of(Path(job.output)) == steps_of(tmp_path / "whole") == [1, 2, 3, 4]


def begun_how(folder: Path) -> tuple[bool, list[str]]:
    """Tell whether the last start resumed, and return its warnings."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    [*starts] = [number for number, line in enumerate(lines) if line["event"] == "start"]
    warnings = [line["message"] for line in lines if line["event"] == "warning"]
    return bool(lines[starts[-1]]["resumed"]), warnings


def teacher_in(folder: Path, more: float = 0.0) -> str:
    """The folder of a teacher, the same but for one weight."""
    teacher = folder / "teacher"
    exported_model(ClassesTask(labels=("bad", "good")), folder / "model", teacher, {})
    state = load_file(teacher / WEIGHTS)
    state["classifier.bias"][0] += more
    save_file(state, teacher / WEIGHTS, metadata={"format": "pt"})
    return str(teacher)


def new_teacher(folder: Path) -> None:
    teacher_in(folder, 0.5)


def new_rows(folder: Path) -> None:
    write_rows(folder / "train.tsv", [*sentences(24, 1)[:-1], ("a good film", "good")])


def new_model(folder: Path) -> None:
    write_model(folder / "model", hidden_size=48)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (new_teacher, "used a different teacher or task package"),
        (new_rows, "read other contents of .*/train.tsv"),
        (new_model, "used another model in .*/model"),
    ],
)
def test_what_has_changed_starts_over_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], reason: str
) -> None:
    """Fails if a run resumes with what it did not begin with, or says nothing of what it throws away."""
    new_job(tmp_path)
    task = {"teacher": teacher_in(tmp_path)} if change is new_teacher else {}
    job = new_job(tmp_path, "out", rows=24, epochs=2, task=task)
    ended_after(monkeypatch, job, 2)
    change(tmp_path)
    run(job)
    resumed, [warning] = begun_how(tmp_path / "out")
    assert not resumed and warning.endswith("this one starts over.")
    assert re.search(reason, warning)
    run(replace(job, output=str(tmp_path / "fresh")))
    assert files_of(tmp_path / "out") == files_of(tmp_path / "fresh")


def ended_after(monkeypatch: pytest.MonkeyPatch, job: FinetuneJob, step: int) -> None:
    """Run a job up to a checkpoint."""
    with monkeypatch.context() as patched:
        end_after(patched, step, save=False)
        with pytest.raises(KeyboardInterrupt):
            run(job)
    assert (Path(job.output).with_name(".out.tmp") / "checkpoints" / f"step-{step:08d}").is_dir(), "nothing is there"


def test_what_is_the_same_resumes_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a teacher makes each run another one."""
    new_job(tmp_path)
    job = new_job(tmp_path, "out", rows=24, epochs=2, task={"teacher": teacher_in(tmp_path)})
    ended_after(monkeypatch, job, 2)
    run(job)
    assert begun_how(tmp_path / "out") == (True, [])


@pytest.mark.parametrize("best", [True, False])
def test_a_damaged_checkpoint_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: bool) -> None:
    """Fails if a run resumes from one, or from one whose best epoch is damaged; the one before is taken."""
    judged_as(monkeypatch, [(0.5, 1.0), (0.4, 1.0), (0.5, 1.0), (0.4, 1.0), (0.4, 1.0)])
    job = new_job(tmp_path, "out", rows=24, epochs=3)
    ended_after(monkeypatch, job, 4)
    checkpoints = tmp_path / ".out.tmp" / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == ["step-00000002", "step-00000004"]
    flip(checkpoints / ("step-00000002" if best else "step-00000004") / "__0_0.distcp")
    run(job)
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text("utf-8").splitlines()]
    damaged = [line["message"] for line in lines if line["event"] == "damaged"]
    assert len(damaged) == (2 if best else 1) and "step-00000004 is damaged and set aside" in damaged[0]
    assert damaged[0].endswith("starts over: no whole checkpoint is left." if best else "resumes from step-00000002.")
    assert begun_how(tmp_path / "out") == (not best, [])


def test_weights_to_export_that_are_damaged_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if they are exported, or end in a trace; started again, the run starts over."""
    job = new_job(tmp_path, rows=24)

    def read(path: Path) -> Any:
        flip(path / "__0_0.distcp")
        return weights(path)

    weights = record.read_best_weights
    with monkeypatch.context() as patched:
        patched.setattr(record, "read_best_weights", read)
        with pytest.raises(InputError, match=r"is damaged .*so there is nothing to export"):
            run(job)
    run(job)
    assert begun_how(tmp_path / "out") == (False, [])


def test_a_signal_stops_after_a_step_with_a_checkpoint(tmp_path: Path) -> None:
    """Fails if a step is lost, or the run that resumes ends with other bytes."""
    whole, job = (new_job(tmp_path, name, rows=40, epochs=2) for name in ("whole", "out"))
    run(whole)
    with stopped_after(2), join_process_group() as ranks:
        assert finetune.finetune(job, ranks) == 128 + signal.SIGTERM
    assert not Path(job.output).exists()
    run(job)
    assert files_of(Path(job.output)) == files_of(Path(whole.output))
    assert steps_of(Path(job.output)) == [1, 2, 3, 4, 5, 6]


def test_one_run_at_a_time_makes_an_output(tmp_path: Path) -> None:
    """Fails if two write into one unfinished folder; what a lock leaves is nothing."""
    job = new_job(tmp_path, rows=16)
    with (
        hold_output(tmp_path / "out", "fine-tuning into"),
        pytest.raises(InputError, match=r"Another process is fine-tuning into .*/out:"),
    ):
        run(job)
    run(job)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("most", [300, 20_000, 250_000])
def test_a_disk_that_refuses_is_told(tmp_path: Path, most: int) -> None:
    """Fails if a refused write of the job, the weights or the progress, in the middle of a file, ends in a trace."""
    job = new_job(tmp_path, rows=16)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        with pytest.raises(InputError, match=r"Cannot write .*out: the file is larger|no room for the checkpoint"):
            run(job)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "out").exists()
