"""Tasks on a single text or a pair of texts: predicting a class, several classes, or a number.

A text may have additional columns of numbers and categories, which are appended to the vector that the head computes.
Numbers are standardized by the mean and deviation of the training rows. Categories are one-hot encoded; a category that
did not occur in training is encoded as zeros.

Classes and numbers may also be learned from a teacher, which is a model that was fine-tuned for the same task. Its
predictions for the training rows are part of the loss (Hinton et al. 2015). `trainer.tasks.finetuning.teacher` computes
them once, before training.

This module also computes scores: for one label per row, for several, for options grouped by question, and for numbers.
If each row has one label, all scores are computed from a confusion table. Tables of several files or processes can be
added, so the scores do not depend on how the rows are divided. Cost: a table of a million rows takes some milliseconds;
several labels per row take 1 ns per cell; Spearman's correlation needs sorting, 0.4 s for a million rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s, Float64s, Int64s
from corpora.store.settings import check_range
from trainer.objectives.contract import IGNORED, Term
from trainer.tasks.formats.records import Unusable, as_label, as_number, as_text, parse_number
from trainer.tasks.task import (
    Answers,
    Items,
    Task,
    TaskItem,
    Tokens,
    check_labels,
    format_names,
    parse_labels,
    sigmoid,
    softmax,
    to_label_keys,
    with_first,
    with_others,
)
from trainer.tasks.text_encoder import TextEncoder

# Shapes: N rows, C classes, Q questions.


class Rates(NamedTuple):
    """Precision (right / answered), recall (right / gold), and F1, the harmonic mean of the two."""

    precision: float
    recall: float
    f1: float


def compute_rates(right: int, answered: int, gold: int) -> Rates:
    """Compute precision, recall and F1 from the numbers of correct, predicted and gold items.

    A rate is 0 if its denominator is 0.

    >>> compute_rates(2, 4, 2)
    Rates(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    return Rates(
        right / answered if answered else 0.0,
        right / gold if gold else 0.0,
        2 * right / (answered + gold) if answered + gold else 0.0,
    )


def compute_means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Compute the mean of each score over rows, by name. `rows` must not be empty, and all must have the same keys."""
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def build_confusion_table(labels: npt.ArrayLike, answers: npt.ArrayLike, num_classes: int) -> Int64s:
    """Build a confusion table: int64 [C, C], where [i, j] is the number of rows with label i and predicted class j.

    Args:
        labels: The zero-based label of each row. Must not be empty.
        answers: The predicted class of each row.
        num_classes: The number of classes C. If the highest label is not below it, C is the highest label plus 1.

    >>> build_confusion_table(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    gold, answered = np.asarray(labels, np.int64), np.asarray(answers, np.int64)
    num_classes = max(num_classes, int(gold.max()) + 1)
    counts: Int64s = np.bincount(gold * num_classes + answered, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


def compute_table_scores(table: Int64s, num_classes: int = 0) -> dict[str, float]:
    """Compute the accuracy, macro F1 and Matthews correlation of a confusion table, and F1 if there are two classes.

    Args:
        table: int64 [C, C], the number of rows with label i and predicted class j. At least one row in total.
        num_classes: The number of classes that can be predicted. The table may have more, which only occur as labels.
            If 0, all classes of the table can be predicted.

    Returns:
        accuracy: in [0, 1]
        macro_f1: the mean of 2 TP / (2 TP + FP + FN) over the classes that occur as a label or a prediction
        matthews: in [-1, 1], for any number of classes (Gorodkin 2004); 0 if all predictions are the same
        f1:       of the second class, which is the positive class of MRPC and QQP (GLUE, Wang et al. 2018, section 2.2)
    """
    total, right = int(table.sum()), np.diag(table)
    labelled, answered = table.sum(1), table.sum(0)
    met = labelled + answered > 0
    f1 = 2 * right[met] / (labelled + answered)[met]
    covariance = float(right.sum() * total - labelled @ answered)
    spread = float(total**2 - labelled @ labelled) * float(total**2 - answered @ answered)
    scores = {
        "accuracy": float(right.sum() / total),
        "macro_f1": float(f1.mean()),
        "matthews": covariance / spread**0.5 if spread else 0.0,
    }
    if (num_classes or len(table)) != 2:
        return scores
    return {**scores, "f1": compute_rates(int(right[1]), int(answered[1]), int(labelled[1])).f1}


def compute_class_scores(labels: npt.ArrayLike, answers: npt.ArrayLike, num_classes: int) -> dict[str, float]:
    """Compute the accuracy, macro F1 and Matthews correlation of predicted classes, and F1 if there are two.

    See `build_confusion_table` for the arguments, and `compute_table_scores` for the scores. Micro F1 is omitted,
    because it equals the accuracy if each row has one label.

    >>> compute_class_scores([0, 1, 1], [0, 1, 0], 2)["f1"]
    0.6666666666666666
    """
    return compute_table_scores(build_confusion_table(labels, answers, num_classes), num_classes)


def compute_multilabel_scores(labels: npt.ArrayLike, answers: npt.ArrayLike) -> dict[str, float]:
    """Compute the scores of rows that may have any number of labels.

    Args:
        labels: bool [N, C], True if row n has label c.
        answers: bool [N, C], True if label c is predicted for row n.

    Returns:
        micro_f1: 2 TP / (2 TP + FP + FN) over all cells; 0 if there are neither labels nor predictions
        macro_f1: the mean F1 of the classes that occur as a label or a prediction; 0 if there are none
        subset_accuracy: the fraction of rows with all classes correct (scikit-learn's accuracy for multilabel input)

    >>> compute_multilabel_scores([[1, 0], [1, 1]], [[1, 0], [1, 0]])
    {'micro_f1': 0.8, 'macro_f1': 0.5, 'subset_accuracy': 0.5}
    """
    gold, answered = np.asarray(labels, np.bool_), np.asarray(answers, np.bool_)
    right, met = (gold & answered).sum(0), gold.sum(0) + answered.sum(0)
    f1 = 2 * right[met > 0] / met[met > 0]
    return {
        "micro_f1": float(2 * right.sum() / met.sum()) if met.sum() else 0.0,
        "macro_f1": float(f1.mean()) if len(f1) else 0.0,
        "subset_accuracy": float((gold == answered).all(1).mean()),
    }


def compute_option_scores(questions: npt.ArrayLike) -> dict[str, float]:
    """Compute the MultiRC scores, for answer options grouped by question (Khashabi et al. 2018, section 4).

    Args:
        questions: [Q, 4], four counts per question: correct options that are predicted as correct, options that are
            predicted as correct, correct options, and 1 if the predictions for all options are correct, otherwise 0.

    Returns:
        f1a: F1 of the correct options over all questions; 0 if no option is correct and none is predicted as correct
        exact: the fraction of questions with correct predictions for all options (SuperGLUE's EM)

    >>> compute_option_scores([[1, 2, 1, 0], [1, 1, 1, 1]])
    {'f1a': 0.8, 'exact': 0.5}
    """
    counts = np.asarray(questions, np.int64)
    right, answered, gold, exact = counts.sum(0).tolist()
    return {"f1a": compute_rates(right, answered, gold).f1, "exact": exact / len(counts)}


def compute_correlations(labels: npt.ArrayLike, answers: npt.ArrayLike) -> dict[str, float]:
    """Compute Pearson's and Spearman's correlation of labels and predictions: `pearson` and `spearman`, in [-1, 1].

    If all labels or all predictions are equal, both are 0. Spearman's correlation is Pearson's correlation of the
    ranks, where equal values have their mean rank. STS-B uses both (GLUE, Wang et al. 2018, section 2.2).

    >>> compute_correlations(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0]))["spearman"]
    1.0
    """
    one, other = np.asarray(labels, np.float64), np.asarray(answers, np.float64)
    return {
        "pearson": _compute_pearson(one, other),
        "spearman": _compute_pearson(_compute_ranks(one), _compute_ranks(other)),
    }


def _compute_pearson(one: Float64s, other: Float64s) -> float:
    if (one == one[0]).all() or (other == other[0]).all():  # the mean of equal numbers need not be that number
        return 0.0
    one, other = one - one.mean(), other - other.mean()
    spread = float(np.sqrt((one @ one) * (other @ other)))
    return float(np.clip(one @ other / spread, -1, 1))


def _compute_ranks(values: Float64s) -> Float64s:
    """Compute the zero-based rank of each value. Equal values have their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Float64s = (np.cumsum(counts) - (counts + 1) / 2)[places]
    return ranks


LABEL, LABELS, NUMBER = Term("label"), Term("labels", has_rights=False), Term("number", has_rights=False)
COLUMNS = "columns"  # the target that holds the further columns
TEACHER = "teacher"  # the term, and the target that holds the teacher's answer to a text
SINGLE_LABEL_METRICS = ("accuracy", "macro_f1", "matthews", "f1")  # the last where there are two classes
MULTI_LABEL_METRICS = ("micro_f1", "macro_f1", "subset_accuracy")
MAX_LABELS = 1_000  # more are taken for a column that holds no labels
MAX_NUMBERED_CLASSES = 20  # more whole numbers may be scores


class TextExample(NamedTuple):
    """One text or a pair of texts; `second` is None for a single text.

    `label` is None if it is unknown. `extra` holds the values of the additional columns: `numeric`, then `categorical`.
    """

    text: str
    second: str | None
    label: Any
    extra: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTask(Task):
    """The base class of the tasks on whole texts.

    numeric:     columns of numbers that the head reads in addition to the text
    categorical: columns of categories that the head reads in addition to the text
    means, deviations, categories: statistics of these columns in the training rows; set by `fit`, not by the user
    pairs:       whether each example is a pair of texts; set by `fit`, not by the user
    """

    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()
    categories: tuple[tuple[str, ...], ...] = ()
    pairs: bool | None = None

    builder: ClassVar[str] = "trainer.tasks.heads.texts:TextModel"
    architecture: ClassVar[str] = "classes"
    default_length: ClassVar[int] = 128
    optional_roles: ClassVar[frozenset[str]] = frozenset({"second"})
    label_roles: ClassVar[frozenset[str]] = frozenset({"label"})

    def __post_init__(self) -> None:
        _ = self.metrics
        columns = ("text", "second", "label", *self.numeric, *self.categorical)
        if twice := {name for name in columns if columns.count(name) > 1}:
            raise InputError(
                f"The column {min(twice)!r} is named for two things: leave it out of `numeric` or `categorical`."
            )

    @property
    def num_outputs(self) -> int:
        """The number of outputs that the head computes for a text. Each subclass defines it."""
        raise NotImplementedError

    @property
    def num_columns(self) -> int:
        """The number of values that are appended to the vector of a text.

        Each numeric column has one value; each categorical column has one value per known category.
        """
        return len(self.numeric) + sum(map(len, self.categories))

    @property
    def export_architecture(self) -> str:
        """The key of the exported class, which is "encoder" if there are additional columns.

        No Hugging Face class reads additional columns.
        """
        return "encoder" if self.num_columns else self.architecture

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles: "text", "second", "label", and the names of the additional columns."""
        return ("text", "second", "label", *self.numeric, *self.categorical)

    def parse_label(self, value: Any) -> Any:
        """Parse the label in a cell of a labeled file. Each subclass defines its type.

        Raises Unusable if the value is not a label.
        """
        raise NotImplementedError

    def to_target(self, label: Any) -> npt.NDArray[Any]:
        """Convert a label to a training target, an array with a leading batch dimension of 1."""
        raise NotImplementedError

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> TextExample:
        """Build an example from the values of a record with one text or two.

        The label is only read if `labelled` is True.

        Raises:
            Unusable: If a value is missing or has the wrong type, or if the record is a pair of texts but the training
                examples are single texts, or the reverse.
        """
        second, label = values.get("second"), values.get("label")
        if self.pairs is not None and self.pairs != (second is not None):
            raise Unusable(
                "no second text, where training had one" if self.pairs else "a second text, where training had none"
            )
        return TextExample(
            text=as_text(values["text"], "text"),
            second=None if second is None else as_text(second, "second"),
            label=self.parse_label(label) if labelled else None,
            extra=(
                *(parse_number(values[name], name) for name in self.numeric),
                *(as_label(values[name], name) for name in self.categorical),
            ),
        )

    def fit_columns(self, examples: Sequence[TextExample], where: str = "The file") -> dict[str, Any]:
        """Compute the settings of a task on texts that depend on the training rows.

        Args:
            examples: The training examples.
            where: The name of their file, for error messages.

        Returns:
            A dictionary with the fields `means`, `deviations`, `categories` (of the additional columns) and `pairs`.

        Raises:
            InputError: If only some of the rows have a second text.
        """
        count = len(self.numeric)
        numbers = np.array([example.extra[:count] for example in examples], np.float64).reshape(len(examples), count)
        met = [sorted({example.extra[count + place] for example in examples}) for place in range(len(self.categorical))]
        return {
            "means": tuple(numbers.mean(0).tolist()),
            "deviations": tuple(numbers.std(0).tolist()),
            "categories": tuple(map(tuple, met)),
            "pairs": _are_pairs(examples, where),
        }

    def make_items(self, examples: Sequence[TextExample], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Build an item with one sequence for each example, which contains its text or both of its texts.

        Args:
            examples: The examples.
            encoder: Turns texts into tokens.
            labelled: True to add the labels as targets.

        Raises:
            InputError: If only some of the examples have a second text.
        """
        seconds = [example.second or "" for example in examples] if _are_pairs(examples) else None
        encodings = encoder.encode([example.text for example in examples], seconds)
        return [
            TaskItem(
                sequences=(Tokens.from_encoding(encoding),),
                example=number,
                targets=self._make_targets(example, labelled),
            )
            for number, (example, encoding) in enumerate(zip(examples, encodings, strict=True))
        ]

    def _make_targets(self, example: TextExample, labelled: bool) -> dict[str, npt.NDArray[Any]]:
        beside = {COLUMNS: self._to_column_vector(example.extra)} if self.num_columns else {}
        return {self.list_terms()[0].name: self.to_target(example.label), **beside} if labelled else beside

    def _to_column_vector(self, values: tuple[Any, ...]) -> Float32s:
        """Convert the values of a text's additional columns to a vector: float32 [1, N].

        It contains standardized numbers, then one-hot categories. A category that did not occur in training is all
        zeros. A number in a column that is constant in training becomes 0.
        """
        numbers, kinds = values[: len(self.numeric)], values[len(self.numeric) :]
        standard = [
            (number - mean) / deviation if deviation else 0.0
            for number, mean, deviation in zip(numbers, self.means, self.deviations, strict=True)
        ]
        ones = [float(kind == category) for kind, met in zip(kinds, self.categories, strict=True) for category in met]
        return np.array([[*standard, *ones]], np.float32)

    def make_predictions(self, examples: Sequence[TextExample], items: Items, answers: Answers) -> list[Float32s]:
        """Return the head's outputs for each text: float32 [C] with logits, or float32 [1] with a number.

        `answers` has the outputs of each item, float32 [1, C].
        """
        return [answer[0] for answer in answers]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentTask(TextTask):
    """A task on whole texts that can learn from a teacher (a model that was fine-tuned for the same task).

    teacher:        folder of the teacher; "": none
    temperature:    number by which the logits of teacher and student are divided before they are compared; not used for
                    numbers
    teacher_weight: weight of the teacher's predictions in the loss; the labels have weight 1 - `teacher_weight`
    taught_by:      digest of the teacher's weights; set by the program, not by the user
    """

    teacher: str = ""
    temperature: float = 2.0
    teacher_weight: float = 0.5
    taught_by: str = ""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        super(StudentTask, self).__post_init__()
        check_range("temperature", self.temperature, 0.1, 100.0)
        check_range("teacher_weight", self.teacher_weight, 0.0, 1.0)

    def list_terms(self) -> tuple[Term, ...]:
        """Return the loss terms: one for the labels and, if there is a teacher, one for the teacher's outputs.

        For classes, the second term also counts the predictions that agree with the teacher.
        """
        term = self.term
        if not self.teacher:
            return (term,)
        return term._replace(weight=1 - self.teacher_weight), Term(TEACHER, self.teacher_weight, term.has_rights)

    def check_teacher(self, teacher: "StudentTask") -> None:
        """Raise InputError if a teacher was fine-tuned for another kind of task, or with other additional columns."""
        for name in ("kind", "numeric", "categorical", "multi_label"):
            theirs, ours = getattr(teacher, name, None), getattr(self, name, None)
            if theirs != ours:
                raise InputError(
                    f"The teacher in {self.teacher} was fine-tuned with {name} = {theirs!r}, and the student learns "
                    f"with {ours!r}: give a teacher of the same task."
                )

    def to_student_order(self, teacher: "StudentTask", answer: Float32s) -> Float32s:
        """Return the teacher's outputs for a text unchanged: float32 [C]. Tasks with classes reorder them."""
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassesTask(StudentTask):
    """The task of predicting the class of a text, or several classes.

    labels:      names of the classes in their order; if empty, those of the training rows, sorted
    multi_label: whether a text can have any number of classes; its label is a list, or names joined by `separator`
    separator:   separator between the names of several classes
    numbers_are_classes: accept labels that look like numbers (more than 20 different ones, or fractions) as class names
    empty_classes: accept names in `labels` that no training row has
    metric:      metric that is used to choose the best epoch
    """

    labels: tuple[str, ...] = ()
    multi_label: bool = False
    separator: str = ","
    numbers_are_classes: bool = False
    empty_classes: bool = False
    metric: str = ""

    kind: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        super(ClassesTask, self).__post_init__()
        check_labels(self.labels)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of classes that can be used to choose the best epoch, with the requested one first.

        They are MULTI_LABEL_METRICS or SINGLE_LABEL_METRICS. Of the latter, "f1" requires two classes.
        """
        return with_first(self.metric, MULTI_LABEL_METRICS if self.multi_label else SINGLE_LABEL_METRICS)

    @property
    def num_outputs(self) -> int:
        """The number of classes, which is the number of logits of a text."""
        return len(self.labels)

    @property
    def term(self) -> Term:
        """The loss term of the classes: `LABELS` if texts can have several classes, otherwise `LABEL`."""
        return LABELS if self.multi_label else LABEL

    def check_teacher(self, teacher: StudentTask) -> None:
        """Raise InputError if a teacher was fine-tuned for another task or for other classes."""
        super(ClassesTask, self).check_teacher(teacher)
        assert isinstance(teacher, ClassesTask), "of the same task"
        more, fewer = {*teacher.labels} - {*self.labels}, {*self.labels} - {*teacher.labels}
        if more or fewer:
            what = f"knows {format_names(sorted(more))}" if more else f"does not know {format_names(sorted(fewer))}"
            raise InputError(
                f"The teacher in {self.teacher} {what}, and the student {'does not' if more else 'does'}: a student "
                "learns from a teacher of the same classes. `--set labels=[...]` names them, and `--set "
                "empty_classes=true` lets one have no training row."
            )

    def to_student_order(self, teacher: StudentTask, answer: Float32s) -> Float32s:
        """Reorder the teacher's outputs for a text to the student's order of classes: float32 [C]."""
        assert isinstance(teacher, ClassesTask), "seen by `check_teacher`"
        return answer[[teacher.labels.index(label) for label in self.labels]]

    def parse_label(self, value: Any) -> str | tuple[str, ...]:
        """Parse a label as the name of a class, or with `multi_label` as a sorted tuple of names.

        Raises:
            Unusable: If the value is not a label.
        """
        if not self.multi_label:
            label: str | tuple[str, ...] = as_label(value)
        else:
            parts = value if isinstance(value, list) else as_label(value).split(self.separator)
            label = tuple(sorted({as_label(part) for part in parts} - {""}))
        return label

    def find_unknown_label(self, example: TextExample) -> Unusable | None:
        """Return a reason if a text has a class that is not in `labels`, otherwise None.

        Before `fit`, every class is known.
        """
        beyond = sorted({*self._list_names(example.label)} - {*self.labels}) if self.labels else []
        return (
            Unusable("unknown label", f"{beyond[0]!r:.60} is none of {format_names(self.labels)}") if beyond else None
        )

    def to_target(self, label: Any) -> npt.NDArray[Any]:
        """Convert a class to a target: int64 [1], or with `multi_label` float32 [1, C] of zeros and ones.

        The int64 is the index of the class, or IGNORED for an unknown label.
        """
        if self.multi_label:
            return np.array([[float(name in label) for name in self.labels]], np.float32)
        return np.array([self.labels.index(label) if label in self.labels else IGNORED], np.int64)

    def fit(self, examples: Sequence[TextExample], where: str) -> Self:
        """Return a copy of the task with the names of the classes and the statistics of the additional columns.

        Args:
            examples: The training examples.
            where: The name of their file, for messages.

        Raises:
            InputError: If the labels look like numbers, there are too few or too many, a class has no training row, or
                the metric is "f1" and there are not two classes.
        """
        met = {name for example in examples for name in self._list_names(example.label)}
        names = self.labels or tuple(sorted(met))
        if not self.labels and not self.numbers_are_classes:
            _check_numbers(names, where)
        fewest = 1 if self.multi_label else 2
        if not fewest <= len(names) <= MAX_LABELS:
            raise InputError(
                f"{where} has {len(names)} different labels, and a classifier knows {fewest} to {MAX_LABELS}: is it "
                "the column of the labels?"
            )
        if self.metric == "f1" and len(names) != 2:
            raise InputError(
                f'metric = "f1" is that of the second of two classes, and {where} has {len(names)}: use "macro_f1".'
            )
        empty = sorted({*names} - met)
        if empty and not self.empty_classes:
            raise InputError(
                f"{where} has no row with the label {format_names(empty)}: a class that is never seen is not learnt. "
                "Leave it out of `labels`, give rows of it, or allow it (`--set empty_classes=true`)."
            )
        return replace(self, labels=names, **self.fit_columns(examples, where))

    def _list_names(self, label: Any) -> tuple[str, ...]:
        names: tuple[str, ...] = label if self.multi_label else (label,)
        return names

    def compute_scores(self, examples: Sequence[TextExample], predictions: Sequence[Float32s]) -> dict[str, float]:
        """Compute the scores of `compute_class_scores`, or with `multi_label` those of `compute_multilabel_scores`.

        `predictions` has the logits of each text, float32 [C].
        """
        gold, answers = self.to_class_indices(examples, predictions)
        return (
            compute_multilabel_scores(gold, answers)
            if self.multi_label
            else compute_class_scores(gold, answers, len(self.labels))
        )

    def to_class_indices(
        self, examples: Sequence[TextExample], predictions: Sequence[Float32s]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Convert labels and predictions of texts to class indices: int64 [N], or with `multi_label` bool [N, C].

        Returns:
            The labels, and the predictions. Labels that are not in `labels` get indices after the known classes, which
            are never predicted.
        """
        outputs, names = (
            np.stack(predictions),
            with_others(self.labels, map(self._list_names, (e.label for e in examples))),
        )
        if not self.multi_label:
            return np.array([names.index(example.label) for example in examples], np.int64), outputs.argmax(-1)
        gold = np.array([[name in example.label for name in names] for example in examples])
        return gold, np.pad(outputs > 0, ((0, 0), (0, len(names) - len(self.labels))))

    def to_row(self, example: TextExample, prediction: Float32s) -> dict[str, Any]:
        """Build a row for output from a text's logits: the predicted `label`, and `probabilities` by class name.

        With `multi_label`, the key is `labels`, with a list.
        """
        shares = sigmoid(prediction) if self.multi_label else softmax(prediction)
        probabilities = dict(zip(self.labels, shares.tolist(), strict=True))
        if not self.multi_label:
            return {"label": self._choose_labels(prediction)[0], "probabilities": probabilities}
        return {"labels": self._choose_labels(prediction), "probabilities": probabilities}

    def _choose_labels(self, prediction: Float32s) -> list[str]:
        """Choose the predicted classes of a text from its logits, as a list with the class of the highest logit.

        With `multi_label`, the list has all classes with a logit above 0.
        """
        if not self.multi_label:
            return [self.labels[int(prediction.argmax())]]
        return [name for name, output in zip(self.labels, prediction.tolist(), strict=True) if output > 0]

    def judge(self, example: TextExample, prediction: Float32s) -> dict[str, Any]:
        """Return the correct label, or list of labels, as `gold`, and `score`: 1.0 if it was predicted, else 0.0."""
        gold = list(self._list_names(example.label))
        right = sorted(gold) == sorted(self._choose_labels(prediction))
        return {"gold": gold if self.multi_label else example.label, "score": float(right)}

    def to_config(self) -> Mapping[str, Any]:
        """Return the keys of `config.json` for a classifier: `problem_type`, `id2label` and `label2id`."""
        return {
            "problem_type": "multi_label_classification" if self.multi_label else "single_label_classification",
            **to_label_keys(self.labels),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """Build the task from the `config.json` of a classifier trained elsewhere.

        Return None if the model predicts a number.
        """
        if config.get("problem_type") == "regression":
            return None
        multi = config.get("problem_type") == "multi_label_classification"
        return cls(labels=parse_labels(config), multi_label=multi)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberTask(StudentTask):
    """The task of predicting a number for a text, trained with the squared error.

    It follows BERT on STS-B (Devlin et al. 2018, section 4.1).

    metric: metric that is used to choose the best epoch
    """

    metric: str = ""

    kind: ClassVar[str] = "number"
    term: ClassVar[Term] = NUMBER

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that can be used to choose the best epoch: "pearson" and "spearman", the requested one first."""
        return with_first(self.metric, ("pearson", "spearman"))

    @property
    def num_outputs(self) -> int:
        """The number of outputs for a text, which is 1."""
        return 1

    def parse_label(self, value: Any) -> float:
        """Parse a label as a finite number. Raises Unusable if the value is not one."""
        return parse_number(value, "label")

    def to_target(self, label: Any) -> npt.NDArray[Any]:
        """Convert a number to a target: float32 [1]."""
        return np.array([label], np.float32)

    def fit(self, examples: Sequence[TextExample], where: str) -> Self:
        """Return a copy of the task with the statistics of the additional columns.

        Args:
            examples: The training examples.
            where: The name of their file, for messages.

        Raises:
            InputError: If all rows have the same number, or if only some rows have a second text.
        """
        if len({example.label for example in examples}) < 2:
            raise InputError(
                f"{where}: every row has the number {examples[0].label:g}: there is nothing to learn. Is it "
                "the column of the labels?"
            )
        return replace(self, **self.fit_columns(examples, where))

    def compute_scores(self, examples: Sequence[TextExample], predictions: Sequence[Float32s]) -> dict[str, float]:
        """Compute the correlations of correct and predicted numbers: `pearson` and `spearman`."""
        gold = np.array([example.label for example in examples], np.float64)
        return compute_correlations(gold, np.array([prediction[0] for prediction in predictions], np.float64))

    def to_row(self, example: TextExample, prediction: Float32s) -> dict[str, Any]:
        """Build a row for output with the predicted `number`, a float."""
        return {"number": float(prediction[0])}

    def judge(self, example: TextExample, prediction: Float32s) -> dict[str, Any]:
        """Return the correct number as `gold`. There is no `score`, because a single row has no correlation."""
        return {"gold": example.label}

    def to_config(self) -> Mapping[str, Any]:
        """Return the keys of `config.json` for a model with one output, a number."""
        return {"problem_type": "regression", "id2label": {"0": "score"}, "label2id": {"score": 0}}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """Build the task if a `config.json` describes a model that predicts a number, otherwise return None."""
        return cls() if config.get("problem_type") == "regression" else None


def _check_numbers(names: Sequence[str], where: str) -> None:
    """Raise InputError if class names look like numbers to predict.

    They do if all are numbers and either some have fractions or there are more than MAX_NUMBERED_CLASSES different
    ones. `where` is the name of the file, for the message.
    """
    values = [as_number(name) for name in names]
    numbers = sorted(number for number in values if number is not None)
    fractions = any(not number.is_integer() for number in numbers)
    if numbers and len(numbers) == len(names) and (fractions or len({*numbers}) > MAX_NUMBERED_CLASSES):
        raise InputError(
            f"{where}: the labels are {len({*numbers})} different numbers from {numbers[0]:g} to {numbers[-1]:g}. Say "
            "what they are: the task `number` learns the number (and judges by Pearson's and Spearman's correlation); "
            "with `--set numbers_are_classes=true` each is a class of its own."
        )


def _are_pairs(examples: Sequence[TextExample], where: str = "The file") -> bool:
    """Return True if all examples are pairs of texts, False if none is.

    Raises InputError if only some have a second text. `where` is the name of the file, for the message.
    """
    pairs = sum(example.second is not None for example in examples)
    if 0 < pairs < len(examples):
        raise InputError(
            f"{where}: {len(examples) - pairs} of {len(examples)} rows have no second text, and the others have one: "
            "give all of them one, or none."
        )
    return pairs > 0
