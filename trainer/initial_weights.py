"""The weights that training starts from: random ones, or those in a model folder.

    model.safetensors ─► under our names, in float32 ─► rows for new tokens ─► the model, with missing heads at random

Promise: the folder has exactly the bytes that were planned for. All tensors of the encoder are present, and the only
others are those of heads; otherwise the first one that differs is named. All processes get the same weights.

A student also gets its teacher. Every process reads it from its folder, after checking that it has not changed.

Cost: the folder's files are read twice, once to compute digests. Until the weights are on the device, main memory holds
three copies of them, and one of the teacher's.
"""

import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from corpora.errors import InputError
from corpora.store.places.place import Place
from tokenizers_train.vocabularies.files import collect_ids
from trainer.families.contract import ModelInputs
from trainer.huggingface.checkpoints import (
    check_shared_tensors,
    from_huggingface,
    load_model,
    read_weights,
    with_first_part,
)
from trainer.huggingface.config import CONFIG, read_config, read_tokenizer_files
from trainer.huggingface.start_model import (
    check_tokens,
    is_of_other_heads,
    list_loaded_parts,
    list_missing_heads,
    list_new_heads,
)
from trainer.huggingface.vocabulary_rows import WEIGHTS, with_rows
from trainer.job import TrainingJob
from trainer.model.distillation import DistilledModel, copy_teacher
from trainer.model.masked import MaskedModel
from trainer.model.objective import Objective, build_model
from trainer.objectives.contract import ModelPart
from trainer.settings.model import ModelSettings
from trainer.start_weights import StartModel


def draw_first_model(job: TrainingJob) -> Objective:
    """Build the model of a job with random weights from the job's seed.

    The weights are drawn on the CPU, so that they do not depend on the number of processes. Torch's generator is
    seeded.
    """
    torch.manual_seed(job.training.seed)
    with torch.device("cpu"):
        model = build_model(job.model, job.inputs)
        model.init_weights()
    return model


def build_initial_model(job: TrainingJob, resumes: bool = False) -> tuple[Objective, str]:
    """Build the model of a job with its initial weights, and with its teacher if there is one.

    Args:
        job: The job.
        resumes: True if the weights will be loaded from a checkpoint. The start model is then not read.

    Returns:
        The model on the CPU, and sentences for the log that say where its weights come from. The text is empty if they
        are random and there is no teacher.

    Raises:
        InputError: If the folder of the start model or teacher has changed or does not fit the job.
    """
    model = draw_first_model(job)
    taught = add_teacher(model, job, begins=job.start is None and not resumes)
    if job.start is None or resumes:
        return model, taught
    job.start.check()
    state, new_heads = read_start_weights(job.start, job.model, job.inputs)
    model.load_state_dict({**model.state_dict(), **state})
    heads = f" Its {' and '.join(new_heads)} begins with first weights." if new_heads else ""
    rows = f" {len(job.start.rows):,} tokens begin as the means of their pieces." if job.start.rows else ""
    return model, f"Training begins with the model in {job.start.folder}.{heads}{rows} {taught}".rstrip()


def read_start_weights(
    start: StartModel, model: ModelSettings, inputs: ModelInputs
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Read the weights of a start model under our parameter names, with rows for all tokens of `inputs`.

    Args:
        start: The start model, with its folder and the pieces of each new token.
        model: The settings of the model to train.
        inputs: The vocabulary size and special ids of the model to train.

    Returns:
        The float32 tensors by parameter name, and the names of the heads that are missing from the folder.

    Raises:
        InputError: If a tensor of the encoder is missing, or if a tensor belongs to no head.
    """
    before: int = read_config(Path(start.folder) / CONFIG)["vocab_size"]
    with torch.device("meta"):
        theirs = build_model(model, replace(inputs, vocab_size=before))
        wider = build_model(model, replace(inputs, vocab_size=before + 1)).state_dict()
    state = dict[str, Tensor]()
    for part in list_loaded_parts(start, model, inputs):
        tensors = _read_part_state(Path(start.folder) / part.folder / WEIGHTS, part, theirs)
        check_shared_tensors(state, tensors, str(Path(start.folder) / part.folder / WEIGHTS))
        state |= tensors
    of_tokens = [name for name, tensor in theirs.state_dict().items() if tensor.shape != wider[name].shape]
    rows = dict(start.rows)
    grown = {name: _with_rows(state[name], rows, inputs.vocab_size) for name in of_tokens if name in state}
    return {**state, **grown}, list_new_heads(start, model, inputs)


def _read_part_state(path: Path, part: ModelPart, model: Objective) -> dict[str, Tensor]:
    """Read the tensors of one part of the model from its file, by our parameter names.

    A part is a separately saved encoder, such as ELECTRA's generator. Raises InputError if tensors are missing or
    unknown.

    Args:
        path: The `model.safetensors` of the part.
        part: The part, with the names of its heads.
        model: A model on the meta device that has the shapes of the folder's model.
    """
    family = model.family
    tensors = with_first_part(read_weights(path), family)
    lacking = list_missing_heads(tensors.keys(), part, family)
    held = part._replace(heads={ours: theirs for ours, theirs in part.heads.items() if ours not in lacking})
    kept = {name: tensor for name, tensor in tensors.items() if not is_of_other_heads(name, held, family)}
    return from_huggingface(kept, model, held, str(path))


def _with_rows(tensor: Tensor, rows: dict[int, tuple[int, ...]], size: int) -> Tensor:
    """Resize a tensor to `size` rows: the old rows (at most `size`), then the mean of old rows for each new token.

    `rows` maps the id of each new token to the ids of the old rows that are averaged.
    """
    numbers = tensor.numpy()
    return torch.from_numpy(with_rows(numbers, rows, max(size, len(numbers)))[:size].copy())


def add_teacher(model: Objective, job: TrainingJob, begins: bool) -> str:
    """Load the teacher of a job, if it has one, and attach it to the student.

    Args:
        model: The student, changed in place.
        job: The job.
        begins: True if the student has random weights. Layers are then copied from the teacher.

    Returns:
        A sentence for the log about the teacher; empty if the job has none.

    Raises:
        InputError: If the teacher's folder has changed, or has another vocabulary.
    """
    if job.teacher is None:
        return ""
    job.teacher.check("A student needs its teacher until training ends.")
    files = read_tokenizer_files(Place(job.store), job.vocabulary.folder, job.model.positions)
    ids = collect_ids(json.loads(files["tokenizer.json"]), "The vocabulary")
    check_tokens(job.teacher, sorted(ids, key=ids.__getitem__))
    teacher = load_teacher(Path(job.teacher.folder))
    assert isinstance(model, DistilledModel), "what learns from a teacher is a student"
    model.set_teacher(teacher)
    layers = copy_teacher(model, teacher) if begins else ()
    begun = f", and begins with its layers {', '.join(map(str, layers))}" if layers else ""
    return f"The model learns from {job.teacher.folder}{begun}."


def load_teacher(folder: Path) -> MaskedModel:
    """Load the masked language model in a folder. Raises InputError if it has no masked-token head."""
    settings, inputs, state = load_model(folder)
    model = build_model(settings, inputs)
    if not isinstance(model, MaskedModel):
        raise InputError(f"The teacher in {folder} does not guess masked words: give a model that does.")
    model.load_state_dict(state)
    return model
