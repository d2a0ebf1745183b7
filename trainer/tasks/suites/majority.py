"""The scores of one answer to everything: the least that a model must beat."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from trainer.tasks.contract import Example, Prediction, Task
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask, NumberTask


def majority_answers(
    task: Task, training: Sequence[Example], examples: Sequence[Example]
) -> Sequence[Prediction] | None:
    """Return the most frequent class of the training examples, or the most frequent tag; for numbers their mean, which
    correlates with nothing. None for other tasks, which have no such answer.
    """
    if isinstance(task, NumberTask):
        return [np.array([np.mean([example.label for example in training])], np.float32)] * len(examples)
    if isinstance(task, TagsTask):
        tags = Counter(tag for example in training for tag in task.learnt_tags(example))
        [(usual, _)] = tags.most_common(1)
        return [[usual] * len(task.learnt_tags(example)) for example in examples]
    if not isinstance(task, ClassesTask) or task.multi_label:
        return None
    counts = Counter(example.label for example in training)
    most = max(task.labels, key=lambda label: counts[label])
    return [np.array([float(label == most) for label in task.labels], np.float32)] * len(examples)
