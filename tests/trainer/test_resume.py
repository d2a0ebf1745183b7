"""Resuming: a killed run ends as the uninterrupted one, bit for bit on as many processes, elsewhere with its examples.

Every run here is of processes of its own, one thread each.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import SmallStore, exported, exported_bytes, of, put_store, said, small_job, with_training

from trainer.job import TrainingJob
from trainer.settings import PhaseSettings

pytestmark = pytest.mark.slow

PHASES = (PhaseSettings(steps=4, batch=8), PhaseSettings(steps=4, batch=6))
TRAIN = """
import json, sys
from pathlib import Path
from trainer.job import TrainingJob
from trainer.launch import train
train(TrainingJob.from_json(Path(sys.argv[1]).read_text()), lambda event: print(json.dumps(event), flush=True))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SmallStore:
    """Shards with pairs."""
    return put_store(tmp_path_factory.mktemp("resume"))


@pytest.fixture(scope="module")
def whole(store: SmallStore, tmp_path_factory: pytest.TempPathFactory) -> dict[int, TrainingJob]:
    """Uninterrupted runs, by their number of processes."""
    jobs = {}
    for processes in (1, 2):
        folder = tmp_path_factory.mktemp(f"whole-{processes}")
        jobs[processes] = small_job(store, folder, PHASES, checkpoint_every=3, evaluate_every=2, processes=processes)
        assert len(list(run(jobs[processes]))) == 8 + 4 + 4 + 2  # steps, evaluations, checkpoints
    return jobs


def run(job: TrainingJob) -> Iterator[dict[str, Any]]:
    """Train in a process of its own, whose events come as they are said; it is killed where they are left."""
    path = Path(job.work).parent / f"{Path(job.work).name}.json"
    path.write_text(job.to_json())
    process = subprocess.Popen(
        [sys.executable, "-c", TRAIN, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            yield json.loads(line)
        assert process.wait() == 0
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def run_until(job: TrainingJob, step: int) -> None:
    """Train, and kill the run once it has said a step."""
    events = run(job)
    for event in events:
        if event["event"] == "step" and event["step"] == step:
            break
    else:
        pytest.fail(f"the run ended before step {step}")
    events.close()  # type: ignore[attr-defined]  # a generator
    assert job.read_export() is None


def lines(job: TrainingJob) -> list[dict[str, Any]]:
    """Steps and evaluations as they stand in the log."""
    return [event for event in said(job) if event["event"] in ("step", "evaluation")]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_run_ends_with_the_very_weights(whole: dict[int, TrainingJob], tmp_path: Path, processes: int) -> None:
    """Fails where weights, moments, dropout's generators or the place in the data are not restored exactly."""
    job = replace(whole[processes], work=str(tmp_path / "killed"))
    run_until(job, 5)  # after the checkpoint that ended the first phase
    first = of(said(job), "step")
    assert first[-1]["step"] >= 5
    events = list(run(job))
    [resume] = of(events, "resume")
    assert (resume["step"], resume["phase"], resume["slot"]) in ((4, 1, 32), (6, 1, 44))
    assert lines(job) == lines(whole[processes])
    assert exported_bytes(job) == exported_bytes(whole[processes])


@pytest.mark.parametrize("before, after", [(2, 1), (1, 2)])
def test_another_number_of_processes_reads_the_same_examples(
    whole: dict[int, TrainingJob], tmp_path: Path, before: int, after: int
) -> None:
    """Fails where a checkpoint of so many processes cannot be read by others, or they read on elsewhere."""
    job = replace(whole[before], work=str(tmp_path / "killed"))
    run_until(job, 4)
    resumed = with_training(job, processes=after)
    events = list(run(resumed))
    [resume] = of(events, "resume")
    assert resume["step"] >= 3 and resume["processes"] == after
    counts = ("step", "phase", "masked_tokens", "tokens", "sequences", "learning_rate")
    mine, theirs = of(said(resumed), "step"), of(said(whole[before]), "step")
    assert [[event[name] for name in counts] for event in mine] == [
        [event[name] for name in counts] for event in theirs
    ]
    weights, expected = exported(resumed), exported(whole[before])
    for name in weights:  # eight steps of at most 0.001 each, and other dropout in some of them
        torch.testing.assert_close(weights[name], expected[name], rtol=0, atol=5e-3, msg=name)
