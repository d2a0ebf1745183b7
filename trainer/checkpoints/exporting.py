"""Exports a checkpoint as the model folder that the run would have written if it had ended at that step.

    work/checkpoints/step-00003000 ─► config.json, model.safetensors, the vocabulary's files

This also works while the run continues, because a checkpoint gets its final name only when it is complete. All of its
files are first verified against their digests. The output folder appears only when complete.

Cost: two copies of the weights in main memory, and a third while files are written. The optimizer's state is hashed but
not loaded.
"""

import argparse
from pathlib import Path

from torch import Tensor

from corpora.errors import InputError
from corpora.store.checked_folder import check_files, mark_complete, read_complete_file
from corpora.store.damage import Damaged
from corpora.store.places.place import Place
from trainer.checkpoints.folders import FOLDER, parse_step, read_weights
from trainer.complete_folders import check_output, open_new_folder
from trainer.huggingface.checkpoints import export
from trainer.huggingface.config import read_tokenizer_files
from trainer.job import JOB, TrainingJob
from trainer.metrics import print_event


def main(arguments: list[str]) -> int:
    """Export a checkpoint as the command `export WORK FOLDER [--step N] [--store ADDRESS]` does, and return 0.

    Raises:
        InputError: If the checkpoint does not exist or is damaged, or if the folder is not empty.
    """
    parser = argparse.ArgumentParser(prog="export", description="A checkpoint as a folder of Hugging Face's form.")
    parser.add_argument("work", type=Path, help="the folder in which a model is trained")
    parser.add_argument("folder", type=Path, help="the folder to write; new or empty")
    parser.add_argument("--step", type=int, help="of the checkpoint; by default the newest one's")
    parser.add_argument("--store", help="the store that holds the vocabulary, if it is not the one that the job names")
    asked = parser.parse_args(arguments)
    step = export_checkpoint(asked.work, asked.folder, asked.step, asked.store)
    print_event({"event": "done", "step": step, "output": str(asked.folder)})
    return 0


def export_checkpoint(work: Path, folder: Path, step: int | None = None, store: str | None = None) -> int:
    """Export a checkpoint to a folder that transformers can load, and return the number of steps it was trained for.

    Args:
        work: The work folder of the model.
        folder: The folder to write. It must be empty or not exist.
        step: The number of training steps before the checkpoint; None for the newest checkpoint.
        store: Address of the store with the vocabulary; None for the store named in the job.

    Raises:
        InputError: If the checkpoint does not exist or is damaged, or if the folder is not empty.
    """
    job = read_job(work)
    check_output(folder)
    path = choose_checkpoint(work, step, job)
    state = read_whole_weights(path, job)
    files = read_tokenizer_files(Place(store or job.store), job.vocabulary.folder, job.model.positions)
    with open_new_folder(folder) as new:
        export(new, state, job.model, job.inputs)
        for below in job.export_folders:
            for name, data in files.items():
                (new / below / name).write_bytes(data)
        mark_complete(new)
    return parse_step(path)


def read_job(work: Path) -> TrainingJob:
    """Read the training job in a work folder. Raises InputError if the folder has none."""
    try:
        return TrainingJob.from_json((work / JOB).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            f"{work} has no {JOB}: name the `work` folder of a trained model, next to its files in the store."
        ) from error


def choose_checkpoint(work: Path, step: int | None, job: TrainingJob) -> Path:
    """Return the folder of the checkpoint after `step` steps, or of the newest checkpoint if `step` is None.

    Args:
        work: The work folder of the model.
        step: The number of training steps before the checkpoint, or None.
        job: The training job, used in the error message.

    Raises:
        InputError: If there is no such checkpoint.
    """
    existing = {parse_step(path): path for path in sorted((work / FOLDER).glob("step-*"))}
    chosen = max(existing, default=None) if step is None else step
    if chosen in existing:
        return existing[chosen]
    kept = f"it has those of the steps {', '.join(map(str, existing))}" if existing else "it has none yet"
    raise InputError(
        f"{work} has no checkpoint{'' if step is None else f' of step {step}'}: {kept}. A run keeps its newest "
        f"training.keep_checkpoints = {job.training.keep_checkpoints}, and writes one every training.checkpoint_every "
        f"= {job.training.checkpoint_every} steps and at the end of a phase."
    )


def read_whole_weights(path: Path, job: TrainingJob) -> dict[str, Tensor]:
    """Verify all files of a checkpoint and read its weights into main memory, by parameter name.

    Raises:
        InputError: If the checkpoint is damaged or was removed, or if the job belongs to another model.
    """
    try:
        facts = read_complete_file(path)
        job.check_identity(str(path), facts["identity"])
        check_files(path, facts["files"])
        return read_weights(path)
    except (Damaged, FileNotFoundError) as error:
        what = f"{error.path}: {error.what}" if isinstance(error, Damaged) else f"{error.filename} is gone"
        raise InputError(
            f"The checkpoint {path} cannot be read: {what}. Name another step; a run removes its oldest checkpoints "
            "as it continues, and training.keep_checkpoints sets how many stay."
        ) from error
