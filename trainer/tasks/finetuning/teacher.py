"""A teacher: a model that was fine-tuned for the same task, whose answers a smaller one learns from.

    files ─► examples ─► the teacher's items ─► its answers ─► targets of the student's items

It answers once, before anything is learnt, so a step costs what it costs without it, and the answers are those that
`predict` would write. Texts are encoded by the tokenizer of each model: the two may have different vocabularies,
families and lengths. Promise: the record has the digest of the teacher's weights and no path of this machine.

Memory: the teacher's weights until it has answered; of each text a number for each class.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from corpora.errors import InputError
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.tasks.contract import Task
from trainer.tasks.data import EncodedExamples, encoded_items, sha256_of
from trainer.tasks.encoding.packing import PackedItems
from trainer.tasks.heads.task_model import answers_of
from trainer.tasks.kinds.texts import TEACHER, TextTask
from trainer.tasks.saving import MORE, Loaded, load_task
from trainer.tasks.text_encoder import TextEncoder
from trainer.training.parallel import Ranks


@dataclass(frozen=True, slots=True)
class TaskTeacher:
    """A model that answers. folder: where it is; task: that of the student, fitted"""

    folder: Path
    task: TextTask
    loaded: Loaded

    @staticmethod
    def of(task: Task) -> "TaskTeacher | None":
        """Return the teacher of a student's task; None without one. Raises InputError where it is for another task."""
        if not isinstance(task, TextTask) or not task.teacher:
            return None
        loaded = load_task(Path(task.teacher))
        if not isinstance(loaded.task, TextTask):
            raise InputError(
                f"The teacher in {task.teacher} was fine-tuned for {loaded.task.kind!r}, which no student learns from."
            )
        task.check_teacher(loaded.task)
        return TaskTeacher(Path(task.teacher), task, loaded)

    def named(self) -> Task:
        """The student's task with the name and the digest of its teacher, in place of the folder."""
        files = (self.folder / name for name in (WEIGHTS, MORE))
        digests = [sha256_of(str(path)) for path in files if path.is_file()]
        whole = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
        return replace(self.task, teacher=self.folder.resolve().name, taught_by=whole)

    def teach(self, encoded: Sequence[EncodedExamples], ranks: Ranks) -> list[EncodedExamples]:
        """Return the same items with the teacher's answers as the target `teacher`. All processes must call it."""
        self.loaded.model.to(ranks.device)
        return [self._taught(each, ranks) for each in encoded]

    def _taught(self, encoded: EncodedExamples, ranks: Ranks) -> EncodedExamples:
        task, model = self.loaded.task, self.loaded.model
        assert isinstance(task, TextTask), "seen before"
        encoder = TextEncoder.of(self.folder, self.loaded.inputs, self.loaded.max_length)
        items = encoded_items(task, encoded.examples, encoder, labelled=False)
        answers, _ = answers_of(model, task, items, ranks)
        taught = PackedItems(
            replace(item, targets={**item.targets, TEACHER: self.task.from_teacher(task, answer[0])[None]})
            for item, answer in zip(encoded.items, answers, strict=True)
        )
        return replace(encoded, items=taught)
