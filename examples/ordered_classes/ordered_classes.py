"""Classes that have an order, as stars or grades do: a task of its own, by a score and the thresholds between classes.

What is learnt of a text is whether it is above each threshold (Cao, Mirjalili, Raschka 2020: CORAL), so to be one class
off costs less than to be three off, which a classifier does not know.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from trainer.objectives.contract import Term
from trainer.tasks.formats.records import Unusable, as_label, as_number
from trainer.tasks.kinds.texts import TextExample, TextTask, compute_class_scores, compute_correlations
from trainer.tasks.task import with_first

GRADE = Term("grade")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedTask(TextTask):
    """A task that assigns a text to one of several ordered classes.

    labels: from the lowest to the highest; none: those of the training rows, which then must be numbers
    metric: by which an epoch is judged
    """

    labels: tuple[str, ...] = ()
    metric: str = ""

    kind: ClassVar[str] = "ordered"
    builder: ClassVar[str] = "ordered_classes_model:OrderedModel"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics, the selected one first."""
        return with_first(self.metric, ("spearman", "accuracy"))

    @property
    def export_architecture(self) -> str:
        """Return "encoder": no class of transformers has such a head, so it is in a file next to the encoder."""
        return "encoder"

    @property
    def num_outputs(self) -> int:
        """Return 1: a text has one score, and thresholds turn it into a class."""
        return 1

    def list_terms(self) -> tuple[Term, ...]:
        """List the only loss term, that of all thresholds together."""
        return (GRADE,)

    def parse_label(self, value: Any) -> str:
        """Return the name of a class. Raises Unusable if the classes are set and the value is none of them."""
        label = as_label(value)
        if self.labels and label not in self.labels:
            raise Unusable("unknown label")
        return label

    def to_target(self, label: Any) -> npt.NDArray[Any]:
        """Return the index of a class in the order: int64 [1]."""
        return np.array([self.labels.index(label)], np.int64)

    def fit(self, examples: Sequence[TextExample], where: str) -> Self:
        """Return the task with the classes in their order.

        Raises:
            InputError: If the order is unknown because labels are no numbers, or there are fewer than three classes.
        """
        met = {example.label for example in examples}
        if not self.labels and any(as_number(label) is None for label in met):
            raise InputError(f"{where}: the labels are no numbers, so their order is not known: say it with `labels`.")
        names = self.labels or tuple(sorted(met, key=float))
        if len(names) < 3:
            raise InputError(f"{where} has {len(names)} classes: with less than three there is no order to learn.")
        return replace(self, labels=names, **self.fit_columns(examples, where))

    def compute_scores(self, examples: Sequence[TextExample], predictions: Sequence[Float32s]) -> dict[str, float]:
        """Compute scores of the classes and correlations of their indices in the order."""
        gold = [self.labels.index(example.label) for example in examples]
        predicted = [_place(prediction) for prediction in predictions]
        return {**compute_class_scores(gold, predicted, len(self.labels)), **compute_correlations(gold, predicted)}

    def to_row(self, example: TextExample, prediction: Float32s) -> dict[str, Any]:
        """Return the class."""
        return {"label": self.labels[_place(prediction)]}

    def to_config(self) -> dict[str, Any]:
        """Return nothing: no class of transformers reads it."""
        return {}


def _place(above: Float32s) -> int:
    """Return how many thresholds a text is above."""
    return int(np.count_nonzero(above > 0))
