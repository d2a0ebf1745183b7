"""A run that goes on from a checkpoint of another: its weights, its optimizer, its place in the shards."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_training import exported_bytes, flip, of, put_store, said, small_model, train_here

from corpora.errors import InputError
from corpora.store.stage import Stage
from trainer.build import plan_model
from trainer.job import TrainingJob, list_readings
from trainer.settings.phases import PhaseSettings, Schedule
from trainer.settings.training import TrainingSettings
from trainer.start_weights import find_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it

STEPS, DECAY = 6, 2


class Runs:
    """Models of one store, without dropout, so that equal steps make equal bytes."""

    def __init__(self, folder: Path) -> None:
        self.store = put_store(folder)

    def plan(self, *phases: PhaseSettings, layers: int = 2, **training: Any) -> Stage:
        """The stage of a model."""
        usual = {"learning_rate": 1e-3, "checkpoint_every": 1, "keep_checkpoints": 1, "processes": 1}
        settings = TrainingSettings(phase=phases, **{**usual, **training})
        model = replace(small_model(0.0), layers=layers)
        shards = [self.store.shards] * len(phases)
        return plan_model(self.store.place, "small", shards, self.store.vocabulary, model, settings)

    def train(self, stage: Stage) -> TrainingJob:
        """Its job, done."""
        job: TrainingJob = stage.parts[0].job
        train_here(job)
        return job


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("continuing"))


@pytest.fixture(scope="module")
def first(runs: Runs) -> TrainingJob:
    """A run whose rate falls in its last steps."""
    wsd = Schedule(kind="wsd", decay_steps=DECAY)
    return runs.train(runs.plan(PhaseSettings(steps=STEPS, batch=8), schedule=wsd))


def address(job: TrainingJob, step: int | None = None) -> str:
    folder = Path(job.work).parent
    return f"models/small/{folder.name}" + ("" if step is None else f"@{step}")


def test_the_checkpoint_before_the_decay_is_kept(first: TrainingJob) -> None:
    """Fails if only the newest ones are: then there is nothing to go on from."""
    names = sorted(path.name for path in Path(first.work, "checkpoints").iterdir())
    assert names == [f"step-{STEPS - DECAY:08d}", f"step-{STEPS:08d}"]


def test_the_same_decay_from_there_ends_with_the_same_bytes(runs: Runs, first: TrainingJob) -> None:
    """Fails if a moment, a number of steps or the place in the shards is lost between the two runs."""
    falling = PhaseSettings(steps=DECAY, batch=8, schedule=Schedule(kind="wsd", decay_share=1.0))
    job = runs.train(runs.plan(falling, continue_from=address(first)))
    assert [reading.begins for reading in list_readings(job)] == [((STEPS - DECAY) * 8,)]
    assert exported_bytes(job) == exported_bytes(first)
    [start] = of(said(job), "start")
    assert start["continues"].endswith(f"step-{STEPS - DECAY:08d}")
    longer = runs.train(
        runs.plan(replace(falling, steps=3), PhaseSettings(steps=1, batch=8), continue_from=address(job))
    )
    assert list_readings(longer)[0].begins == (STEPS * 8,), "what was read in both runs"
    assert exported_bytes(longer) != exported_bytes(job)


def test_settings_are_those_of_the_run_that_goes_on(runs: Runs, first: TrainingJob) -> None:
    """Fails if the checkpoint's own decay and betas stay in force: then both ends were equal."""
    phase = PhaseSettings(steps=1, batch=8)
    ends = {
        exported_bytes(runs.train(runs.plan(phase, continue_from=address(first), **more)))
        for more in ({}, {"beta1": 0.5}, {"weight_decay": 0.9})
    }
    assert len(ends) == 3


def test_what_names_the_model_is_what_the_checkpoint_holds(runs: Runs, first: TrainingJob, tmp_path: Path) -> None:
    """Fails if a path names it, or another checkpoint does not."""
    phase = PhaseSettings(steps=1, batch=8)
    moved = shutil.copytree(Path(first.work, "checkpoints", f"step-{STEPS - DECAY:08d}"), tmp_path / "step-00000004")
    stages = [
        runs.plan(phase, continue_from=where)
        for where in (address(first), str(moved), f"{first.work}@{STEPS - DECAY}", address(first, STEPS))
    ]
    assert len({stage.fingerprint for stage in stages[:3]}) == 1
    assert len({stage.fingerprint for stage in [*stages, runs.plan(phase)]}) == 3


def test_a_damaged_checkpoint_is_not_gone_on_from(runs: Runs, first: TrainingJob, tmp_path: Path) -> None:
    moved = shutil.copytree(Path(first.work, "checkpoints", f"step-{STEPS:08d}"), tmp_path / "step-00000006")
    stage = runs.plan(PhaseSettings(steps=2, batch=4), continue_from=str(moved))
    flip(next(moved.glob("*.distcp")))
    with pytest.raises(InputError, match=r"to continue from \(training.continue_from\) is damaged: .*distcp"):
        runs.train(stage)


@pytest.mark.parametrize(
    ("step", "more", "message"),
    [
        (5, {}, "has no checkpoint of step 5, only of 4, 6"),
        (6, {"optimizer": "lamb"}, "another training.optimizer"),
        (6, {"layer_decay": 0.5}, "another training.layer_decay"),
        (6, {"layers": 1}, r"has another \[model\]"),
    ],
)
def test_what_cannot_be_gone_on_from(
    runs: Runs, first: TrainingJob, step: int, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        runs.plan(PhaseSettings(steps=1), continue_from=address(first, step), **more)


def test_a_folder_without_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no checkpoint\. Name the artifact"):
        find_checkpoint("models/small/00", tmp_path)


def test_shards_that_were_read_before_count_for_the_most_epochs(runs: Runs, first: TrainingJob) -> None:
    phase = PhaseSettings(steps=4, batch=8, max_epochs=0.2)  # 32 slots; there are 216 examples
    runs.plan(phase)
    with pytest.raises(InputError, match=r"max_epochs is 0\.2"):
        runs.plan(phase, continue_from=address(first))
