"""A teacher: a model that was fine-tuned for the same task, whose answers a smaller one learns from.

    files ─► examples ─► the teacher's items ─► its answers ─► targets of the student's items

It answers once, before anything is learnt, so a step costs what it costs without it, and the answers are those that
`predict` would write. Texts are encoded by the tokenizer of each model: the two may have different vocabularies,
families and lengths. Promise: the record has the digest of the teacher's weights and no path of this machine.

Memory: the teacher's weights until it has answered; of each text a number for each class.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from corpora.errors import InputError
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.ranks import Ranks
from trainer.tasks.data import EncodedExamples, PackedItems, digest_files, encode_items
from trainer.tasks.folders import MORE, Loaded, load_task
from trainer.tasks.heads.task_model import answers_of
from trainer.tasks.kinds.texts import TEACHER, TaughtTask
from trainer.tasks.task import Task
from trainer.tasks.text_encoder import TextEncoder


def with_teacher_answers(
    task: TaughtTask, encoded: Sequence[EncodedExamples], ranks: Ranks
) -> tuple[Task, Sequence[EncodedExamples]]:
    """Return a fitted task that has a teacher, and its items, with the teacher's answers as the target `teacher`.

    The task then has the name and the digest of its teacher, in place of the folder. All processes must call it.
    Raises InputError if the teacher is for another task.
    """
    folder = Path(task.teacher)
    loaded = load_task(folder)
    if not isinstance(loaded.task, TaughtTask):
        raise InputError(
            f"The teacher in {task.teacher} was fine-tuned for {loaded.task.kind!r}, which no student learns from."
        )
    task.check_teacher(loaded.task)
    loaded.model.to(ranks.device)
    taught = [_add_teacher_answers(task, folder, loaded, each, ranks) for each in encoded]
    digest = digest_files(path for path in (folder / WEIGHTS, folder / MORE) if path.is_file())
    return replace(task, teacher=folder.resolve().name, taught_by=digest), taught


def _add_teacher_answers(
    task: TaughtTask, folder: Path, loaded: Loaded, encoded: EncodedExamples, ranks: Ranks
) -> EncodedExamples:
    teacher = loaded.task
    assert isinstance(teacher, TaughtTask), "seen before"
    encoder = TextEncoder.of(folder, loaded.inputs, loaded.max_length)
    items = encode_items(teacher, encoded.examples, encoder, labelled=False)
    answers, _ = answers_of(loaded.model, teacher, items, ranks)
    taught = PackedItems(
        replace(item, targets={**item.targets, TEACHER: task.from_teacher(teacher, answer[0])[None]})
        for item, answer in zip(encoded.items, answers, strict=True)
    )
    return replace(encoded, items=taught)
