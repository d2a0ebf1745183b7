"""Answers that are spans of a text: SQuAD 1.1, and 2.0 with questions that have none (Rajpurkar et al. 2016, 2018).

    question, context ─► windows of the context, each after the question ─► logits of beginning and end of each token
                         the best spans of all windows ─► slices of the context, letter by letter

Windows, and which of them decides, are as in BERT's run_squad.py: a window begins `stride` tokens after the one before;
a token may begin an answer only in the window where it has most context on its poorer side; a window without the answer
has [CLS] for one; the odds for no answer are the least of any window. Otherwise than there, every span is compared, not
the crossings of the 20 best beginnings and ends, and an answer is not put together from words again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.store.settings import check_range
from trainer.objectives.contract import Term
from trainer.tasks.contract import MANY, Answers, Items, Task, TaskItem, with_first
from trainer.tasks.encoding.windows import (
    Candidate,
    Text,
    Window,
    candidates,
    distinct,
    places_of,
    token_span,
    windows_by_example,
    windows_of,
)
from trainer.tasks.formats.layouts.squad import Span, as_answers
from trainer.tasks.formats.records import Unusable, as_label, as_text
from trainer.tasks.scores.answers import answer_scores, best_match, normalised, optional_answer_scores
from trainer.tasks.text_encoder import TextEncoder

SPAN = Term("span")
START, END = "start", "end"  # targets: places in the window
METRICS = ("f1", "exact")
NULL_ODDS = "null_odds"
NOTHING = 1e6  # the odds for no answer where a context has no token


class SpanExample(NamedTuple):
    """A question. answers: empty where it has none; None where that is unknown"""

    question: str
    context: str
    answers: tuple[Span, ...] | None


class FoundSpans(NamedTuple):
    """The best spans, best first, and by how much the score of no answer is above that of the best."""

    best: list[Candidate]
    null_odds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTask(Task):
    """The place of an answer to a question in a text.

    stride:         tokens from the beginning of a window of the context to that of the next
    max_question:   tokens of a question before it is cut; never more than half of a sequence
    n_best:         spans that are told of each question
    max_answer:     tokens of the longest span that is considered
    impossible:     questions may have no answer, as in SQuAD 2.0; nothing: as in the training rows
    null_threshold: odds for no answer above which none is given; nothing: the best on the evaluation rows
    metric:         by which an epoch is judged
    """

    stride: int = 128
    max_question: int = 64
    n_best: int = 20
    max_answer: int = 30
    impossible: bool | None = None
    null_threshold: float | None = None
    metric: str = ""

    kind: ClassVar[str] = "span"
    builder: ClassVar[str] = "trainer.tasks.heads.answers:SpanModel"
    term: ClassVar[Term] = SPAN
    format: ClassVar[str] = "squad"
    unit: ClassVar[str] = "token"
    architecture: ClassVar[str] = "spans"
    usual_length: ClassVar[int] = 384
    roles: ClassVar[tuple[str, ...]] = ("question", "context", "answers", "impossible")
    optional: ClassVar[frozenset[str]] = frozenset({"impossible"})
    learnt: ClassVar[frozenset[str]] = frozenset({"answers", "impossible"})

    def __post_init__(self) -> None:
        for name in ("stride", "max_question", "n_best", "max_answer"):
            check_range(name, getattr(self, name), 1, MANY)
        _ = self.metrics

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, at the threshold where questions may have no answer; while none is set, at the best one."""
        return with_first(self.metric, METRICS)

    def example(self, values: Mapping[str, Any], labelled: bool) -> SpanExample:
        """Return a question on a context. Raises Unusable for an answer that is not at its given place."""
        context = as_text(values["context"], "context")
        answers = _answers(values, context) if labelled else None
        return SpanExample(question=as_text(values["question"], "question"), context=context, answers=answers)

    def source(self, example: SpanExample) -> str:
        """Return the context."""
        return example.context

    def unknown(self, example: SpanExample) -> Unusable | None:
        """Return why a question has no answer, where each must have one."""
        if example.answers != () or self.impossible is not False:
            return None
        return Unusable("a question without an answer, where training had none (impossible = true learns them)")

    def fitted(self, examples: Sequence[SpanExample], where: str) -> Self:
        """Return the task with `impossible` set by the examples. Raises InputError where no question has an answer."""
        if not any(example.answers for example in examples):
            raise InputError(f"{where}: no question has an answer: there is nothing to learn.")
        impossible = any(example.answers == () for example in examples)
        return replace(self, impossible=impossible if self.impossible is None else self.impossible)

    def tuned(self, scores: Mapping[str, float]) -> Self:
        """Return the task with the threshold that is best on the evaluation rows, where none is given."""
        if not self.impossible or self.null_threshold is not None:
            return self
        return replace(self, null_threshold=scores[f"best_{self.metrics[0]}_threshold"])

    def items(self, examples: Sequence[SpanExample], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Return the windows of each question. Questions in a row on one context share its tokens."""
        items = list[TaskItem]()
        for context, group in groupby(enumerate(examples), key=lambda numbered: numbered[1].context):
            asked = list(group)
            text = Text.of(context, encoder)
            questions = encoder.pieces([example.question for _, example in asked])
            encoder.shortened(questions, min(self.max_question, encoder.room(2) // 2))
            for (number, example), question in zip(asked, questions, strict=True):
                span = token_span(text.offsets, example.answers[0]) if example.answers else None
                items += [
                    TaskItem(
                        sequences=(tokens,),
                        example=number,
                        targets=_targets(places_of(window, span)) if labelled else {},
                        origin=window,
                    )
                    for tokens, window in windows_of(encoder, question, text, self.stride)
                ]
        return items

    def predictions(self, examples: Sequence[SpanExample], items: Items, answers: Answers) -> list[FoundSpans]:
        """The best spans of all windows of each question."""
        return [
            self._found(example.context, windows)
            for example, windows in zip(examples, windows_by_example(items, answers), strict=True)
        ]

    def _found(self, context: str, windows: Sequence[tuple[Window, npt.NDArray[Any]]]) -> FoundSpans:
        some = (
            candidate
            for window, logits in windows
            for candidate in candidates(context, window, logits, self.max_answer, self.n_best)
        )
        best = distinct(some, self.n_best)
        null = min(float(logits[0, 0]) + float(logits[0, 1]) for _, logits in windows)
        return FoundSpans(best, null - best[0].score if best else NOTHING)

    def answer(self, prediction: FoundSpans) -> str:
        """Return the answer; empty where there is none."""
        silent = self.impossible and prediction.null_odds > (self.null_threshold or 0.0)
        return "" if silent or not prediction.best else prediction.best[0].text

    def scores(self, examples: Sequence[SpanExample], predictions: Sequence[FoundSpans]) -> dict[str, float]:
        """Return the `answer_scores`, or the `optional_answer_scores` where questions may have no answer."""
        golds = [[text for _, text in example.answers or ()] for example in examples]
        texts = [spans.best[0].text if spans.best else "" for spans in predictions]
        if not self.impossible and all(golds):
            return answer_scores(golds, texts)
        odds = [spans.null_odds for spans in predictions]
        threshold = self.null_threshold if self.impossible else np.inf
        if threshold is None:
            best = optional_answer_scores(golds, texts, odds)
            threshold = best[f"best_{self.metrics[0]}_threshold"]
        return optional_answer_scores(golds, texts, odds, threshold=threshold)

    def row(self, example: SpanExample, prediction: FoundSpans) -> dict[str, Any]:
        """Return the answer, its place and score, the candidate spans, and, where there may be none, the odds."""
        best = prediction.best
        odds = {} if self.impossible is False else {NULL_ODDS: prediction.null_odds}
        return {
            "text": self.answer(prediction),
            "begin": best[0].begin if best else None,
            "score": best[0].score if best else None,
            **odds,
            "n_best": [each._asdict() for each in best],
        }

    def judged(self, example: SpanExample, prediction: FoundSpans) -> dict[str, Any]:
        """Return the texts of the answers, none where there is none, and how the one that is given matches them."""
        gold = [text for _, text in example.answers or ()]
        match = best_match([text for text in gold if normalised(text)], self.answer(prediction))
        return {"gold": gold, "score": match._asdict()}


def _answers(values: Mapping[str, Any], context: str) -> tuple[Span, ...]:
    """Raises Unusable."""
    given, impossible = values.get("answers"), values.get("impossible")
    if impossible is not None and as_label(impossible, "impossible") in ("true", "1"):
        return ()
    if isinstance(given, list) and all(isinstance(each, tuple) for each in given):
        return tuple(given)  # as the format of SQuAD gives them: held to the context already
    return tuple(as_answers(given, context))


def _targets(places: tuple[int, int]) -> dict[str, Int64s]:
    """[1] each."""
    return {name: np.array([place], np.int64) for name, place in zip((START, END), places, strict=True)}
