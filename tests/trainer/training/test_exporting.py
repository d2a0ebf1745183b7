"""A checkpoint as a folder: the run's export of that step, also of a run that goes on; damaged and missing ones."""

import shutil
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_training import SmallStore, exported_bytes, flip, small_job, train_here

from corpora.errors import InputError
from trainer.checkpoints.exporting import export_checkpoint
from trainer.checkpoints.folders import Checkpoints, gather_weights
from trainer.job import JOB, TrainingJob

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it


@pytest.fixture(scope="module")
def words(store: SmallStore, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainingJob, dict[int, torch.Tensor]]:
    """A run whose checkpoints of the steps 4 and 6 are kept, and its word embeddings when each was written."""
    job = small_job(store, tmp_path_factory.mktemp("run") / "work")
    held: dict[int, torch.Tensor] = {}
    begin = Checkpoints.begin

    def noted(self: Checkpoints, state, saved, copies=True):
        held[saved.cursor.step] = gather_weights(state.model)["encoder.embeddings.word.weight"].clone()
        return begin(self, state, saved, copies)

    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        patched.setattr(Checkpoints, "begin", noted)
        train_here(job)
    Path(job.work, JOB).write_text(job.to_json())
    return job, held


def test_the_newest_checkpoint_is_the_export(
    words: tuple[TrainingJob, dict[int, torch.Tensor]], tmp_path: Path
) -> None:
    """Fails if the last checkpoint as a folder is another model than the export, or lacks its tokenizer."""
    job, _ = words
    assert export_checkpoint(Path(job.work), tmp_path / "newest") == 6
    assert (tmp_path / "newest" / "model.safetensors").read_bytes() == exported_bytes(job)
    assert (tmp_path / "newest" / "config.json").read_bytes() == (job.export / "config.json").read_bytes()
    assert {"tokenizer.json", "tokenizer_config.json", "vocab.txt"} <= {p.name for p in (tmp_path / "newest").iterdir()}


def test_an_older_checkpoint_is_of_its_step(words: tuple[TrainingJob, dict[int, torch.Tensor]], tmp_path: Path) -> None:
    """Fails if the folder of a step holds the weights of another one."""
    job, held = words
    assert export_checkpoint(Path(job.work), tmp_path / "four", 4) == 4
    found = load_file(tmp_path / "four" / "model.safetensors")["bert.embeddings.word_embeddings.weight"]
    assert torch.equal(found, held[4]) and not torch.equal(found, held[6])


def test_what_cannot_be_exported_is_refused(words: tuple[TrainingJob, dict[int, torch.Tensor]], tmp_path: Path) -> None:
    """Fails if a step that is gone, a damaged checkpoint or a taken folder gives a folder, or no remedy is told."""
    job, _ = words
    with pytest.raises(InputError, match=r"no checkpoint of step 3: it has those of the steps 4, 6\. A run"):
        export_checkpoint(Path(job.work), tmp_path / "three", 3)
    with pytest.raises(InputError, match=r"has no job\.json: name the `work` folder"):
        export_checkpoint(tmp_path, tmp_path / "none")
    with pytest.raises(InputError, match="is not empty: name another"):
        export_checkpoint(Path(job.work), job.export)
    work = tmp_path / "work"
    shutil.copytree(job.work, work)
    flip(next((work / "checkpoints" / "step-00000004").glob("*.distcp")))
    with pytest.raises(InputError, match=r"step-00000004 cannot be read: .*distcp: its bytes are not .* Name another"):
        export_checkpoint(work, tmp_path / "damaged", 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]
