"""Adds a teacher's outputs to training examples. A teacher is a larger model that was fine-tuned for the same task.

    files ─► examples ─► the teacher's items ─► its outputs ─► targets of the student's items

The teacher runs once, before training, so steps do not take longer. Its outputs are the ones that `predict` would use.
Texts are encoded by each model's own tokenizer, so the two may have different vocabularies, families and lengths.
Promise: the record has the digest of the teacher's weights and no local path.

Memory: the teacher's weights until it has run, and one number per text and class.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from corpora.errors import InputError
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.ranks import Ranks
from trainer.tasks.data import EncodedExamples, PackedItems, digest_files, encode_items
from trainer.tasks.folders import EXTRA_WEIGHTS, LoadedFolder, load_task
from trainer.tasks.heads.task_model import compute_answers
from trainer.tasks.kinds.texts import TEACHER, StudentTask
from trainer.tasks.task import Task
from trainer.tasks.text_encoder import TextEncoder


def with_teacher_answers(
    task: StudentTask, encoded: Sequence[EncodedExamples], ranks: Ranks
) -> tuple[Task, Sequence[EncodedExamples]]:
    """Add the outputs of a task's teacher to encoded examples, as the target `teacher`.

    All processes must call this function.

    Args:
        task: The fitted task.
        encoded: The encoded examples of each file.
        ranks: The processes that share the work.

    Returns:
        A copy of the task that has the teacher's digest instead of its folder, and the encoded examples.

    Raises:
        InputError: If the teacher was fine-tuned for another task.
    """
    folder = Path(task.teacher)
    loaded = load_task(folder)
    if not isinstance(loaded.task, StudentTask):
        raise InputError(
            f"The teacher in {task.teacher} was fine-tuned for {loaded.task.kind!r}, which no student learns from."
        )
    task.check_teacher(loaded.task)
    loaded.model.to(ranks.device)
    taught = [_add_teacher_answers(task, folder, loaded, each, ranks) for each in encoded]
    digest = digest_files(path for path in (folder / WEIGHTS, folder / EXTRA_WEIGHTS) if path.is_file())
    return replace(task, teacher=folder.resolve().name, taught_by=digest), taught


def _add_teacher_answers(
    task: StudentTask, folder: Path, loaded: LoadedFolder, encoded: EncodedExamples, ranks: Ranks
) -> EncodedExamples:
    teacher = loaded.task
    assert isinstance(teacher, StudentTask), "seen before"
    encoder = TextEncoder.from_folder(folder, loaded.inputs, loaded.max_length)
    items = encode_items(teacher, encoded.examples, encoder, labelled=False)
    answers, _ = compute_answers(loaded.model, teacher, items, ranks)
    taught = PackedItems(
        replace(item, targets={**item.targets, TEACHER: task.to_student_order(teacher, answer[0])[None]})
        for item, answer in zip(encoded.items, answers, strict=True)
    )
    return replace(encoded, items=taught)
