"""Resuming: a run that was killed or stopped ends as one that was not: bit for bit on as many processes, elsewhere with
its examples.

What is killed is of processes of its own; what goes on from there runs where torch is imported already, and must end
with the same bits all the same. The ranks of torchrun are stopped once, far from their end.
"""

import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import (
    SmallStore,
    exported,
    exported_bytes,
    kill,
    of,
    said,
    small_job,
    stopped_after,
    train_here,
    train_on_ranks,
    with_training,
)

from trainer.checkpoints.folders import read_saved
from trainer.job import TrainingJob
from trainer.launch import Stop, TrainingFailed, train
from trainer.metrics import Event
from trainer.settings.phases import PhaseSettings

pytestmark = pytest.mark.slow

PHASES = (PhaseSettings(steps=4, batch=8), PhaseSettings(steps=8, batch=6))


@pytest.fixture(scope="module")
def whole(store: SmallStore, tmp_path_factory: pytest.TempPathFactory) -> dict[int, TrainingJob]:
    """Uninterrupted runs, by their number of processes."""
    jobs = {}
    for processes in (1, 2):
        folder = tmp_path_factory.mktemp(f"whole-{processes}")
        jobs[processes] = small_job(store, folder, PHASES, checkpoint_every=3, evaluate_every=8, processes=processes)
        assert len(finish(jobs[processes])) == 12 + 3 + 5 + 2  # steps, evaluations, checkpoints
    return jobs


@pytest.fixture(scope="module")
def killed(whole: dict[int, TrainingJob], tmp_path_factory: pytest.TempPathFactory) -> dict[int, TrainingJob]:
    """Runs killed in their second phase, by their number of processes; they go on in copies of their work."""
    jobs = {}
    for processes in (1, 2):
        folder = tmp_path_factory.mktemp(f"killed-{processes}")
        jobs[processes] = job = replace(whole[processes], work=str(folder))
        kill(job, 5)  # after the checkpoint that ended the first phase
        assert job.read_export() is None
    return jobs


def copied(job: TrainingJob, folder: Path) -> TrainingJob:
    """The job with a copy of its work, to go on there."""
    return replace(job, work=str(shutil.copytree(job.work, folder / "work")))


def finish(job: TrainingJob) -> list[dict[str, Any]]:
    """Train to the end; what was said."""
    return train_here(job) if job.training.processes == 1 else train_on_ranks(job)


def lines(job: TrainingJob) -> list[dict[str, Any]]:
    """Steps and evaluations as they are in the log."""
    return [event for event in said(job) if event["event"] in ("step", "evaluation")]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_run_ends_with_the_very_weights(
    whole: dict[int, TrainingJob], killed: dict[int, TrainingJob], tmp_path: Path, processes: int
) -> None:
    """Fails if weights, moments, dropout's generators or the place in the data are not restored exactly."""
    job = copied(killed[processes], tmp_path)
    assert of(said(job), "step")[-1]["step"] == 5
    [resume] = of(finish(job), "resume")
    assert (resume["phase"], resume["step"], resume["slot"]) == (1, 4, 32)
    assert lines(job) == lines(whole[processes])
    assert exported_bytes(job) == exported_bytes(whole[processes])


@pytest.mark.parametrize("step", [5, 8])
def test_a_run_is_stopped_after_a_step_or_in_an_evaluation(
    whole: dict[int, TrainingJob], tmp_path: Path, step: int
) -> None:
    """Fails if the step is lost, the evaluation that was due is not done later, or a weight differs."""
    job = replace(whole[1], work=str(tmp_path / "work"))
    with stopped_after(step):
        first = finish(job)
    assert [event["event"] for event in first[-2:]] == ["step", "checkpoint"] and first[-1]["step"] == step
    assert job.read_export() is None and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    [resume] = of(finish(job), "resume")
    assert resume["step"] == step
    assert [event["step"] for event in of(said(job), "evaluation")] == [4, 8, 12]
    assert lines(job) == lines(whole[1])
    assert exported_bytes(job) == exported_bytes(whole[1])


@pytest.mark.parametrize("before, after", [(2, 1), pytest.param(1, 2, marks=pytest.mark.long)])
def test_another_number_of_processes_reads_the_same_examples(
    whole: dict[int, TrainingJob], killed: dict[int, TrainingJob], tmp_path: Path, before: int, after: int
) -> None:
    """Fails if a checkpoint of so many processes cannot be read by others, or they read on elsewhere."""
    resumed = with_training(copied(killed[before], tmp_path), processes=after)
    [resume] = of(finish(resumed), "resume")
    assert resume["step"] == 4 and resume["processes"] == after
    counts = ("step", "phase", "masked_tokens", "tokens", "sequences", "learning_rate")
    mine, theirs = of(said(resumed), "step"), of(said(whole[before]), "step")
    assert [[event[name] for name in counts] for event in mine] == [
        [event[name] for name in counts] for event in theirs
    ]
    weights, expected = exported(resumed), exported(whole[before])
    for name in weights:  # other dropout in 8 steps, whose rates fall from 0.0007 to 0: each way leads 0.003 at most
        torch.testing.assert_close(weights[name], expected[name], rtol=0, atol=0.006, msg=name)


def test_ranks_that_are_stopped_leave_with_a_checkpoint(store: SmallStore, tmp_path: Path) -> None:
    """Fails if ranks that are stopped end at different steps, leave without a checkpoint, or the agent kills them
    as they save."""
    endless = (PhaseSettings(steps=100_000, batch=8, max_epochs=1e6),)
    job = small_job(store, tmp_path / "work", endless, processes=2, checkpoint_every=0, log_every=1)
    events, stop = list[Event](), Stop()

    def hear(event: Event) -> None:
        events.append(event)
        if event["event"] == "step" and event["step"] == 1:
            threading.Thread(target=stop).start()

    with pytest.raises(TrainingFailed):
        train(job, hear, stop)
    [stopping], [saved] = of(events, "stopping"), of(events, "checkpoint")
    assert stopping["step"] == saved["step"] == of(events, "step")[-1]["step"]
    cursor = read_saved(Path(job.work, "checkpoints", f"step-{saved['step']:08d}")).cursor
    assert (cursor.step, cursor.slot) == (saved["step"], 8 * saved["step"])
