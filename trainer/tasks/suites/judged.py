"""What is kept of a split's answers: scores, and numbers of each example from which a score is drawn again.

A score is a function of rows, one an example: of classes the gold one and the answered one, of numbers the same, of
other tasks the example's own score, where the whole score is the mean of these. So intervals and tests between two
models need neither the models nor the texts. Of a metric that is nothing of this (F1 over spans of many sentences, of
a task that does not give `counted`) nothing is drawn, and the table says so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Float64s
from corpora.store.files import replaced_file
from corpora.store.settings import bind
from trainer.tasks.contract import Example, Prediction, Task
from trainer.tasks.rows.texts import ClassesTask, NumberTask
from trainer.tasks.scores.classes import class_scores, multilabel_scores
from trainer.tasks.scores.numbers import correlations

CLASSES, LABELS, NUMBERS, MEANS = "classes", "labels", "numbers", "means"
SAME = 1e-9  # that a mean may differ from the score by its rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSplit:
    """How good answers are.

    sha256:    of the file that was answered
    examples:  that were answered; unusable: records that could not be
    scores:    by name; none where there are no labels
    majority:  the same of one answer to everything, where that is known
    statistic: how a score comes from rows; "" where rows are none
    columns:   of "means", the metric of each column of the rows
    classes:   of "classes" and "labels", how many there are
    """

    sha256: str
    examples: int
    unusable: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    majority: Mapping[str, float] = field(default_factory=dict)
    statistic: str = ""
    columns: tuple[str, ...] = ()
    classes: int = 0
    rows: tuple[tuple[float, ...], ...] = ()

    def can_draw(self, metric: str) -> bool:
        """Whether a metric can be had of rows."""
        return metric in self.columns if self.statistic == MEANS else bool(self.statistic) and metric in self.scores

    def table(self) -> Float64s:
        """The rows: float64 [N, K]."""
        return np.array(self.rows, np.float64)

    def score(self, rows: Float64s, metric: str) -> float:
        """A metric of rows: those of this split, or some drawn of them."""
        if self.statistic == MEANS:
            return float(rows[:, self.columns.index(metric)].mean())
        if self.statistic == NUMBERS:
            return correlations(rows[:, 0], rows[:, 1])[metric]
        if self.statistic == LABELS:
            return multilabel_scores(rows[:, : self.classes], rows[:, self.classes :])[metric]
        whole = rows.astype(np.int64)
        return class_scores(whole[:, 0], whole[:, 1], self.classes)[metric]


def judged_split(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], **known: Any
) -> JudgedSplit:
    """Scores of labelled examples, and their rows. known: the other fields"""
    scores = task.scores(examples, predictions)
    more: dict[str, Any] = {}
    if isinstance(task, NumberTask):
        gold = [example.label for example in examples]
        more = {"statistic": NUMBERS, "rows": _paired(gold, [float(said[0]) for said in predictions])}
    elif isinstance(task, ClassesTask):
        more = _classes(task, examples, predictions)
    else:
        more = _means(task, examples, predictions, scores)
    return JudgedSplit(examples=len(examples), scores=scores, **more, **known)


def _paired(gold: Sequence[float], said: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    return tuple(zip(gold, said, strict=True))


def _classes(task: ClassesTask, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Any]:
    if task.multi_label:
        gold = np.concatenate([task.target(example.label) for example in examples]) > 0
        rows = np.concatenate([gold, np.stack(predictions) > 0], axis=1).astype(np.float64)
        return {"statistic": LABELS, "classes": len(task.labels), "rows": tuple(map(tuple, rows.tolist()))}
    places = [task.labels.index(example.label) for example in examples]
    said = [int(prediction.argmax()) for prediction in predictions]
    return {"statistic": CLASSES, "classes": len(task.labels), "rows": _paired(places, said)}


def _means(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], scores: Mapping[str, float]
) -> dict[str, Any]:
    """Each example's own scores, of the metrics that are their mean."""
    own = [task.scores([example], [said]) for example, said in zip(examples, predictions, strict=True)]
    columns = [
        name for name, score in scores.items() if abs(float(np.mean([each[name] for each in own])) - score) <= SAME
    ]
    rows = tuple(tuple(each[name] for name in columns) for each in own) if columns else ()
    return {"statistic": MEANS if columns else "", "columns": tuple(columns), "rows": rows}


def write_judged(path: Path, judged: JudgedSplit) -> None:
    """Write it in one step."""
    with replaced_file(path, alone=True) as new:
        new.write_text(json.dumps(asdict(judged)) + "\n", encoding="utf-8")


def read_judged(path: Path) -> JudgedSplit | None:
    """What `write_judged` wrote; None where nothing was. Raises InputError where it is not whole."""
    if not path.is_file():
        return None
    try:
        found = bind(JudgedSplit, json.loads(path.read_text(encoding="utf-8")), path.name)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is not as it was written ({error}): remove it, and it is made again.") from error
    if found.rows and len(found.rows) != found.examples:
        raise InputError(
            f"{path} has {len(found.rows):,} answers to {found.examples:,} examples: remove it, and it is made again."
        )
    return found
