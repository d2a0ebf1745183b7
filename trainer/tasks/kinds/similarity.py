"""The similarity of two texts: a vector for each, and their cosine.

Three ways to learn it, each published with the vectors of Sentence-BERT (Reimers, Gurevych 2019):

    cosine     the squared error of the cosine against a score, which is brought from the range of the training rows to
               [0, 1] (STS-B)
    softmax    classes of a pair by a matrix over (u, v, |u - v|) (NLI); users of the vectors do not need the matrix
    in-batch   rows are pairs that belong together: the second text of a row against those of all rows of the step and
               their hard negatives, by cross-entropy of cosines (Henderson et al. 2017; see `heads.embedding`)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s, Int64s
from corpora.store.settings import check_choice
from trainer.objectives.contract import Term
from trainer.tasks.formats.records import Unusable, as_label
from trainer.tasks.kinds.naming import check_labels, listed, number_of, with_first
from trainer.tasks.kinds.vectors import VectorExample, VectorTask, own_ranking, similarities, texts_of
from trainer.tasks.scores.classes import class_scores, means
from trainer.tasks.scores.numbers import correlations

COSINE, SOFTMAX, MATCH = Term("cosine", has_rights=False), Term("label"), Term("match")
TERMS = {"cosine": COSINE, "softmax": SOFTMAX, "in-batch": MATCH}
CLASSES = ("accuracy", "macro_f1", "matthews")
RANKS = ("mrr@10", "recall@1", "recall@10")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityTask(VectorTask):
    """The similarity of two texts.

    loss:   "cosine", "softmax" or "in-batch"
    labels: of softmax, names of the classes in their order; none: those of the training rows, sorted
    lowest, highest: of cosine, the scores of what is least and most alike; none: those of the training rows
    metric: by which an epoch is judged
    """

    loss: str = "cosine"
    labels: tuple[str, ...] = ()
    lowest: float | None = None
    highest: float | None = None
    metric: str = ""

    kind: ClassVar[str] = "similarity"
    learnt: ClassVar[frozenset[str]] = frozenset({"label"})

    def __post_init__(self) -> None:
        super(SimilarityTask, self).__post_init__()
        check_choice("loss", self.loss, (*TERMS,))
        check_labels(self.labels)
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            raise InputError(f"lowest = {self.lowest:g} is not below highest = {self.highest:g}.")
        _ = self.metrics

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, with the requested one first."""
        by_loss = {"cosine": ("spearman", "pearson"), "softmax": CLASSES, "in-batch": (*RANKS, "spearman", "pearson")}
        return with_first(self.metric, by_loss[self.loss])

    @property
    def num_outputs(self) -> int:
        """Classes of a pair."""
        return len(self.labels) if self.loss == "softmax" else 0

    @property
    def roles(self) -> tuple[str, ...]:
        """Two texts, a third that is unlike the first, and what is learnt."""
        return ("text", "second", "label", *(["negative"] if self.loss == "in-batch" else []))

    @property
    def optional(self) -> frozenset[str]:
        """Pairs that belong together need no label."""
        return frozenset({"negative", "label"} if self.loss == "in-batch" else ())

    def terms(self) -> tuple[Term, ...]:
        """One."""
        return (TERMS[self.loss],)

    def example(self, values: Mapping[str, Any], labelled: bool) -> VectorExample:
        """Two texts and their label."""
        text, second, negatives = texts_of(values, "text", "second")
        label = values.get("label") if labelled else None
        return VectorExample(text, second, negatives, None if label is None else self._label(label))

    def _label(self, value: Any) -> str | float:
        if self.loss != "softmax":
            return number_of(value, "label")
        name = as_label(value)
        if self.labels and name not in self.labels:
            raise Unusable("unknown label", f"{name!r:.60} is none of {listed(self.labels)}")
        return name

    def fitted(self, examples: Sequence[VectorExample], where: str) -> Self:
        """With the range of scores, or the names of classes. Raises InputError where there is nothing to learn."""
        met = {example.label for example in examples}
        if self.loss == "in-batch" and len(met) > 1:
            raise InputError(
                f"{where} has {len(met)} different labels, and in-batch learning takes every row for a pair that "
                "belongs together: keep the rows that do in a file without labels, or choose another loss "
                '(`--set loss="cosine"` or "softmax").'
            )
        if self.loss == "in-batch" and len(examples) < 2:
            raise InputError(f"{where} has only one pair: each needs others to compare with. Give more.")
        if self.loss == "in-batch":
            return self
        if len(met) < 2:
            raise InputError(
                f"{where}: every row has the label {examples[0].label!r}: there is nothing to learn. Is it the column "
                'of the labels? Pairs that belong together are learnt without labels (`--set loss="in-batch"`).'
            )
        if self.loss == "softmax":
            return self._fitted_classes(met, where)
        lowest = min(met) if self.lowest is None else self.lowest
        highest = max(met) if self.highest is None else self.highest
        if lowest > min(met) or highest < max(met):
            raise InputError(
                f"{where} has scores from {min(met):g} to {max(met):g}, but `lowest` and `highest` are {lowest:g} to "
                f"{highest:g}: name the range that scores may have."
            )
        return replace(self, lowest=lowest, highest=highest)

    def _fitted_classes(self, met: set[Any], where: str) -> Self:
        labels = self.labels or tuple(sorted(met))
        if absent := sorted({*labels} - met):
            raise InputError(f"{where} has no row with the label {absent[0]!r}: leave it out of `labels`.")
        return replace(self, labels=labels)

    def targets(self, label: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the place of a pair's class, or its score in [0, 1]."""
        if self.loss == "softmax":
            return {SOFTMAX.name: np.array([self.labels.index(label)], np.int64)}
        if self.loss == "in-batch":
            return {}
        assert self.lowest is not None and self.highest is not None, "the range is known once it is fitted"
        return {COSINE.name: np.array([(label - self.lowest) / (self.highest - self.lowest)], np.float32)}

    def scores(self, examples: Sequence[VectorExample], predictions: Sequence[Float32s]) -> dict[str, float]:
        """Correlations of cosine and score, of classes, or of ranking; with the first one for each smaller width."""
        if self.loss == "softmax":
            return class_scores(*self.gold_and_answers(examples, predictions), self.num_outputs)
        return self.at_widths(lambda width: self._scores_at(width, examples, predictions), self.metrics[0])

    def gold_and_answers(
        self, examples: Sequence[VectorExample], predictions: Sequence[Float32s]
    ) -> tuple[Int64s, Int64s]:
        """Return for softmax the places of the labelled classes and of the predicted ones: int64 [N] each."""
        answers = np.stack([rows[0, -self.num_outputs :] for rows in predictions]).argmax(-1)
        return np.array([self.labels.index(example.label) for example in examples], np.int64), answers

    def _scores_at(
        self, width: int | None, examples: Sequence[VectorExample], predictions: Sequence[Float32s]
    ) -> dict[str, float]:
        scores = dict[str, float]()
        if self.loss == "in-batch":
            scores = means(own_ranking(examples, predictions, self.by, RANKS, width))
        gold = [example.label for example in examples]
        if None not in gold:
            ones, others = (np.stack([rows[place] for rows in predictions]) for place in (0, 1))
            return scores | correlations(np.array(gold, np.float64), similarities(ones, others, self.by, width))
        if self.metrics[0] not in scores:
            raise InputError(
                f'metric = "{self.metrics[0]}" compares cosines with scores, and not every evaluation row has a label: '
                f"give them, or judge by {RANKS[0]}."
            )
        return scores

    def row(self, example: VectorExample, prediction: Float32s) -> dict[str, Any]:
        """The cosine, and of softmax the label."""
        vectors = prediction[:, : prediction.shape[1] - self.num_outputs]
        cosine = similarities(vectors[:1], vectors[1:2], self.by)[0]
        label = {"label": self.labels[int(prediction[0, -self.num_outputs :].argmax())]} if self.num_outputs else {}
        return {"cosine": round(float(cosine), 6), **label}
