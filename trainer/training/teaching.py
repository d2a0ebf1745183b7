"""A student gets its teacher: read from its folder on every process, held to what the training was planned for.

Cost: the folder's files are read twice, once for their digests; its weights in float32, until they are on the device.
"""

import json
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places import Place
from tokenizers_train.vocabularies.bounds import check_ids
from trainer.huggingface.checkpoints import load
from trainer.huggingface.teaching import check_tokens
from trainer.huggingface.tokenizers import tokenizer_files
from trainer.jobs.job import TrainingJob
from trainer.model.distillation import DistilledModel, begin_with
from trainer.model.masked import MaskedModel
from trainer.model.objective import Objective, build_model


def teach(model: Objective, job: TrainingJob, begins: bool) -> str:
    """Give a model the teacher of its job, where it has one; what is said of it.

    begins: whether the model has first weights, and takes those of its teacher
    Raises InputError where the folder is not what it was, or of another vocabulary.
    """
    if job.teacher is None:
        return ""
    job.teacher.check("A student needs its teacher until it has learnt.")
    check_tokens(job.teacher, _tokens(job))
    teacher = teacher_in(Path(job.teacher.folder))
    assert isinstance(model, DistilledModel), "what learns from a teacher is a student"
    model.learn_from(teacher)
    layers = begin_with(model, teacher) if begins else ()
    begun = f", and begins with its layers {', '.join(map(str, layers))}" if layers else ""
    return f"The model learns from {job.teacher.folder}{begun}."


def teacher_in(folder: Path) -> MaskedModel:
    """The model in a folder. Raises InputError where it guesses no words."""
    settings, inputs, state = load(folder)
    model = build_model(settings, inputs)
    if not isinstance(model, MaskedModel):
        raise InputError(f"The teacher in {folder} guesses no masked words: give a model that does.")
    model.load_state_dict(state)
    return model


def _tokens(job: TrainingJob) -> list[str]:
    """Of the job's vocabulary, by id."""
    files = tokenizer_files(Place(job.store), job.vocabulary.folder, job.model.positions)
    ids = check_ids(json.loads(files["tokenizer.json"]), "The vocabulary")
    return sorted(ids, key=ids.__getitem__)
