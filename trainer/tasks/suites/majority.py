"""What one answer to everything would have: the least that a model must beat."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from trainer.tasks.contract import Example, Task
from trainer.tasks.rows.texts import ClassesTask, NumberTask


def majority_scores(task: Task, training: Sequence[Example], examples: Sequence[Example]) -> dict[str, float]:
    """Scores of the most frequent class of the training examples; of their mean, which correlates with nothing.

    Of other tasks none is known.
    """
    if isinstance(task, NumberTask):
        return dict.fromkeys(task.metrics, 0.0)
    if not isinstance(task, ClassesTask) or task.multi_label:
        return {}
    counts = Counter(example.label for example in training)
    most = max(task.labels, key=lambda label: counts[label])
    said = np.array([float(label == most) for label in task.labels], np.float32)
    return task.scores(examples, [said] * len(examples))
