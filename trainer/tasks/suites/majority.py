"""What one answer to everything would have: the least that a model must beat."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from trainer.tasks.contract import Example, Task
from trainer.tasks.rows.tags import TagsTask
from trainer.tasks.rows.texts import ClassesTask, NumberTask


def majority_scores(task: Task, training: Sequence[Example], examples: Sequence[Example]) -> dict[str, float]:
    """Scores of the most frequent class of the training examples, or of their most frequent tag; of numbers those of
    their mean, which correlates with nothing. Of other tasks none is known.
    """
    if isinstance(task, NumberTask):
        return dict.fromkeys(task.metrics, 0.0)
    if isinstance(task, TagsTask):
        tags = Counter(tag for example in training for tag in task.learnt_tags(example))
        [(usual, _)] = tags.most_common(1)
        return task.scores(examples, [[usual] * len(task.learnt_tags(example)) for example in examples])
    if not isinstance(task, ClassesTask) or task.multi_label:
        return {}
    counts = Counter(example.label for example in training)
    most = max(task.labels, key=lambda label: counts[label])
    said = np.array([float(label == most) for label in task.labels], np.float32)
    return task.scores(examples, [said] * len(examples))
