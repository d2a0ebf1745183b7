"""Training of generator and discriminator: what is drawn depends neither on how a step is cut nor on who reads it."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_training import SmallStore, exported_bytes, of, said, small_job, train_here

from trainer.checkpoints.exporting import export_checkpoint
from trainer.huggingface.checkpoints import load_model
from trainer.job import JOB, TrainingJob
from trainer.model.objective import build_model
from trainer.settings.model import FAMILIES
from trainer.settings.phases import PhaseSettings

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it

ROUNDING = 1e-5  # of losses of about 5, and fifty times one: float32 holds 7 digits


def electra_job(store: SmallStore, work: Path, phases: tuple[PhaseSettings, ...] = (), **training: Any) -> TrainingJob:
    """Two layers of 32 on embeddings of 16."""
    job = small_job(store, work, phases or (PhaseSettings(steps=4, batch=8),), dropout=0.0, **training)
    return replace(job, model=replace(job.model, family="electra", embedding_size=16))


def losses(events: list[dict[str, Any]]) -> list[float]:
    return [event[name] for event in of(events, "step") for name in ("masked_loss", "replaced_loss", "loss")]


@pytest.fixture(scope="module")
def whole(store: SmallStore, tmp_path_factory: pytest.TempPathFactory) -> TrainingJob:
    """A run whose checkpoints of the steps 2 and 4 are kept."""
    job = electra_job(store, tmp_path_factory.mktemp("whole") / "work")
    train_here(job)
    Path(job.work, JOB).write_text(job.to_json())
    return job


def test_both_terms_are_said_and_exported(whole: TrainingJob, tmp_path: Path) -> None:
    """Fails if a term, its accuracy or a part of the model is lost between the step and the folder."""
    events = said(whole)
    for event in (*of(events, "step"), *of(events, "evaluation")):
        assert event["loss"] == pytest.approx(event["masked_loss"] + 50 * event["replaced_loss"])
        assert 0 < event["masked_loss"] < 10 and 0 < event["replaced_loss"] < 2
        assert 0 < event["replaced_accuracy"] < 1 and 0 <= event["masked_accuracy"] < 1
    assert all(0.2 < event["replaced_auc"] < 0.8 for event in of(events, "evaluation")) and of(events, "evaluation")
    settings, inputs, state = load_model(whole.export)
    model = build_model(settings, inputs)
    assert state.keys() == model.state_dict().keys() and settings.family in FAMILIES
    assert export_checkpoint(Path(whole.work), tmp_path / "folder") == 4
    for name in ("model.safetensors", "generator/model.safetensors"):
        assert (tmp_path / "folder" / name).read_bytes() == (whole.export / name).read_bytes()
    assert (tmp_path / "folder" / "generator" / "tokenizer.json").is_file()


def test_how_a_step_is_cut_changes_nothing(whole: TrainingJob, store: SmallStore, tmp_path: Path) -> None:
    """Fails if what is drawn depends on the batch, or dummy tokens that fill one are judged."""
    for number, bound in enumerate(({"micro_batch": 3}, {"micro_batch_tokens": 50})):
        found = train_here(electra_job(store, tmp_path / str(number), **bound))
        assert losses(found) == pytest.approx(losses(said(whole)), rel=ROUNDING) and len(losses(found)) == 12


def test_an_interrupted_run_ends_alike(whole: TrainingJob, tmp_path: Path) -> None:
    """Fails if what is drawn after a resume is something else."""
    job = replace(whole, work=str(tmp_path / "work"))
    shutil.copytree(whole.work, job.work)
    shutil.rmtree(job.export)
    shutil.rmtree(Path(job.work, "checkpoints", "step-00000004"))
    events = train_here(job)
    assert len(of(events, "resume")) == 1 and losses(events) == losses(said(whole))
    assert exported_bytes(job) == exported_bytes(whole)
    generators = [each.export / "generator" / "model.safetensors" for each in (job, whole)]
    assert generators[0].read_bytes() == generators[1].read_bytes()
