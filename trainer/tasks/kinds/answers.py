"""Question answering with spans of a text: SQuAD 1.1, and SQuAD 2.0 with unanswerable questions (Rajpurkar et al. 2016,
2018).

    question, context ─► windows of the context, each after the question ─► start and end logits of each token
                         the best spans of all windows ─► slices of the context, with exact characters

Windows are used as in BERT's run_squad.py. A window starts `stride` tokens after the previous one. A token may start an
answer only in the window in which the smaller of its left and right contexts is largest. In a window without the
answer, [CLS] is the target. The odds for no answer are the minimum over all windows. Unlike there, all spans are
compared, not only combinations of the 20 best starts and ends, and answers are not reassembled from words.

Scores: exact match and F1 of SQuAD 1.1, SQuAD 2.0 and ReCoRD, as in their scripts. Texts are normalized
(`normalize_answer`) and, for F1, compared token by token. If there are several gold answers, the best match counts. All
scores are in [0, 1], while the scripts print percentages. There are two differences from the scripts: a question
without a prediction is refused (the script of 1.1 counts it as wrong, that of 2.0 omits it), and a threshold never
separates questions of equal `no_answer`. Cost: 20 s for a million questions with three short gold answers each.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Float64s, Int64s
from corpora.store.settings import check_range
from trainer.objectives.contract import Term
from trainer.tasks.formats.question_layouts import Span, parse_answers
from trainer.tasks.formats.records import Unusable, as_label, as_text
from trainer.tasks.kinds.texts import compute_rates
from trainer.tasks.long_texts import (
    Candidate,
    TokenizedText,
    Window,
    cut_windows,
    find_token_span,
    group_windows,
    iter_candidates,
    keep_distinct,
    locate_span,
)
from trainer.tasks.task import MAX_COUNT, Answers, Items, Task, TaskItem, with_first
from trainer.tasks.text_encoder import TextEncoder

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))

Golds = Sequence[Sequence[str]]  # of each question the answers that are right


class Match(NamedTuple):
    """How well an answer matches a gold answer: `exact` is 1 or 0, `f1` is the F1 of their tokens."""

    exact: float
    f1: float


class Threshold(NamedTuple):
    """The best mean score that can be reached by a threshold on `no_answer`, and the threshold."""

    score: float
    value: float


def normalize_answer(text: str) -> str:
    """Normalize the text of an answer for comparison, as the script of SQuAD does.

    The text is lower-cased, ASCII punctuation and English articles are removed, and white space becomes single spaces.

    >>> normalize_answer("The  U.S.-led (an) alliance")
    'usled alliance'
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def _compare_texts(wanted: str, answer: str) -> Match:
    """Compare two normalized texts: whether they are equal, and the F1 of their bags of tokens.

    F1 is 1 for equal texts, and 0 if only one is empty. (In the script of SQuAD 1.1, two empty texts have an F1 of 0
    and an exact match of 1, but its gold answers are never empty.)

    >>> _compare_texts("quick brown fox", "quick fox")
    Match(exact=0.0, f1=0.8)
    """
    if wanted == answer:
        return Match(1.0, 1.0)
    golden, answered = wanted.split(), answer.split()
    common = (Counter(golden) & Counter(answered)).total()
    return Match(0.0, compute_rates(common, len(answered), len(golden)).f1)


def find_best_match(golds: Sequence[str], answer: str) -> Match:
    """Find the best exact match and the best F1 of an answer over all gold answers.

    The two may come from different gold answers.

    Args:
        golds: The gold answers. If empty, only an empty answer is correct.
        answer: The predicted answer.

    >>> find_best_match(["Denver Broncos", "the Broncos"], "Broncos").exact
    1.0
    """
    normal = normalize_answer(answer)
    exact, f1 = zip(*[_compare_texts(normalize_answer(gold), normal) for gold in golds or [""]], strict=True)
    return Match(max(exact), max(f1))


def compute_answer_scores(golds: Golds, answers: Sequence[str]) -> dict[str, float]:
    """Compute the mean `exact` match and `f1`, in [0, 1], over questions that all have an answer.

    These are the scores of SQuAD 1.1 (Rajpurkar et al. 2016, section 6.1) and, with all mentions of an entity as gold
    answers, of ReCoRD (Zhang et al. 2018, section 5.1).

    Args:
        golds: The gold answers of each question.
        answers: The predicted answer to each question.

    >>> compute_answer_scores([["Paris"], ["in 1066"]], ["Paris.", "1066"])["exact"]
    0.5
    """
    exact, f1 = _match_all(golds, answers).T
    return {"exact": float(exact.mean()), "f1": float(f1.mean())}


def _match_all(golds: Golds, answers: Sequence[str]) -> Float64s:
    """Compute the exact match and the F1 of each question's predicted answer: float64 [questions, 2]."""
    return np.array([find_best_match(texts, answer) for texts, answer in zip(golds, answers, strict=True)])


def compute_optional_answer_scores(
    golds: Golds, answers: Sequence[str], no_answer: Sequence[float], *, threshold: float = 1.0
) -> dict[str, float]:
    """Score questions that may have no answer (SQuAD 2.0, Rajpurkar et al. 2018, section 5; their evaluate-v2.0.py).

    If a question has no gold answers, only an empty answer is correct. The same is true if all of its gold answers are
    empty after normalization. If only some are empty, these are ignored.

    Args:
        golds: The gold answers of each question.
        answers: The predicted answer to each question.
        no_answer: The score for "no answer" of each question: a probability, or a difference of scores.
        threshold: Questions with a higher `no_answer` are scored as if their predicted answer were empty.

    Returns:
        `exact` and `f1` over all questions; the same with the prefix `has_answer_` or `no_answer_` over the questions
        with or without gold answers, if there are any; and `best_exact`, `best_exact_threshold`, `best_f1` and
        `best_f1_threshold`, as computed by `find_best_threshold`.
    """
    given_Q2 = _match_all([[text for text in texts if normalize_answer(text)] for texts in golds], answers)
    has_Q = np.array([bool(texts) for texts in golds])
    against_Q, answered_Q = np.array(no_answer, np.float64), np.array([bool(answer) for answer in answers])
    silent_Q = against_Q > threshold
    scores = _average_by_kind(np.where(silent_Q[:, None], ~has_Q[:, None], given_Q2), has_Q)
    for number, name in enumerate(Match._fields):
        best = find_best_threshold(given_Q2[:, number], has_Q, answered_Q, against_Q)
        scores |= {f"best_{name}": best.score, f"best_{name}_threshold": best.value}
    return scores


def find_best_threshold(scores: Float64s, has_answer: Bools, answered: Bools, no_answer: Float64s) -> Threshold:
    """Find the threshold on `no_answer` with the best mean score, as `find_best_thresh` of evaluate-v2.0.py does.

    The questions are sorted by ascending `no_answer`, and the first n are answered, for the smallest n with the best
    mean score. If questions have equal `no_answer`, that score may not be reachable by any threshold.

    Args:
        scores: float64 [questions], the score of each predicted answer.
        has_answer: bool [questions], True if the question has gold answers.
        answered: bool [questions], True if the predicted answer is not empty.
        no_answer: float64 [questions], the score for "no answer".

    Returns:
        The best mean score, and the `no_answer` of the last question that is answered. If no question is answered, the
        threshold is 0 or, unless the lowest `no_answer` is above 0, the next float below that.

    >>> has = np.array([True, False, True])
    >>> find_best_threshold(np.array([1.0, 0.0, 0.5]), has, np.array([True] * 3), np.array([0.1, 0.9, 0.2]))
    Threshold(score=0.8333333333333334, value=0.2)
    """
    order = np.argsort(no_answer, kind="stable")
    gains = np.where(has_answer, scores, -1.0 * answered)[order]
    sums = np.cumsum(np.append((~has_answer).sum(), gains))
    values, best = no_answer[order], int(np.argmax(sums))
    nothing = min(0.0, float(np.nextafter(values[0], -np.inf)))
    return Threshold(float(sums[best] / len(scores)), float(values[best - 1]) if best else nothing)


def _average_by_kind(scores_Q2: Float64s, has_Q: Bools) -> dict[str, float]:
    scores: dict[str, float] = {}
    for kind, rows in (("", np.ones_like(has_Q)), ("has_answer_", has_Q), ("no_answer_", ~has_Q)):
        if rows.any():
            exact, f1 = scores_Q2[rows].mean(0).tolist()
            scores |= {f"{kind}exact": exact, f"{kind}f1": f1}
    return scores


SPAN = Term("span")
START, END = "start", "end"  # targets: places in the window
METRICS = ("f1", "exact")
NULL_ODDS = "null_odds"
NO_TOKEN_ODDS = 1e6  # the odds for no answer where a context has no token


class SpanExample(NamedTuple):
    """A question about a context. `answers` is () if there is no answer, and None if the answers are unknown."""

    question: str
    context: str
    answers: tuple[Span, ...] | None


class FoundSpans(NamedTuple):
    """The best spans for a question, best first, and the score of "no answer" minus that of the best span."""

    best: list[Candidate]
    null_odds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTask(Task):
    """The task of finding the answer to a question in a text.

    stride:         number of tokens between the starts of two consecutive windows of the context
    max_question:   maximum number of tokens of a question; never more than half of a sequence
    n_best:         number of spans to report for each question
    max_answer:     maximum number of tokens of a span
    impossible:     whether questions may have no answer, as in SQuAD 2.0; unset: whether some training row has none
    null_threshold: odds for "no answer" above which no answer is given; unset: the best on the evaluation rows
    metric:         metric that is used to choose the best epoch
    """

    stride: int = 128
    max_question: int = 64
    n_best: int = 20
    max_answer: int = 30
    impossible: bool | None = None
    null_threshold: float | None = None
    metric: str = ""

    kind: ClassVar[str] = "span"
    builder: ClassVar[str] = "trainer.tasks.heads.texts:SpanModel"
    term: ClassVar[Term] = SPAN
    format: ClassVar[str] = "squad"
    unit: ClassVar[str] = "token"
    architecture: ClassVar[str] = "spans"
    default_length: ClassVar[int] = 384
    roles: ClassVar[tuple[str, ...]] = ("question", "context", "answers", "impossible")
    optional_roles: ClassVar[frozenset[str]] = frozenset({"impossible"})
    label_roles: ClassVar[frozenset[str]] = frozenset({"answers", "impossible"})

    def __post_init__(self) -> None:
        for name in ("stride", "max_question", "n_best", "max_answer"):
            check_range(name, getattr(self, name), 1, MAX_COUNT)
        _ = self.metrics

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that can be used to choose the best epoch, "f1" and "exact", with the requested one first.

        If questions may have no answer, the scores depend on `null_threshold`. While it is None, the best threshold is
        used.
        """
        return with_first(self.metric, METRICS)

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> SpanExample:
        """Build an example from the values of a question.

        Raises Unusable if an answer is not found at its offset in the context, or if a value is not a text.
        """
        context = as_text(values["context"], "context")
        answers = _read_answers(values, context) if labelled else None
        return SpanExample(question=as_text(values["question"], "question"), context=context, answers=answers)

    def find_source(self, example: SpanExample) -> str:
        """Return the context of a question, so that questions about the same context are held out together."""
        return example.context

    def find_unknown_label(self, example: SpanExample) -> Unusable | None:
        """Return a reason if a question has no answer but the task does not allow that, otherwise None.

        The task does not allow it if `impossible` is False.
        """
        if example.answers != () or self.impossible is not False:
            return None
        return Unusable("a question without an answer, where training had none (impossible = true learns them)")

    def fit(self, examples: Sequence[SpanExample], where: str) -> Self:
        """Return a copy of the task in which `impossible` is set: whether questions may have no answer.

        A value that is already set is kept. Otherwise it is True if some example has no answer.

        Args:
            examples: The training examples.
            where: The name of their file, for the message.

        Raises:
            InputError: If no question has an answer.
        """
        if not any(example.answers for example in examples):
            raise InputError(f"{where}: no question has an answer: there is nothing to learn.")
        impossible = any(example.answers == () for example in examples)
        return replace(self, impossible=impossible if self.impossible is None else self.impossible)

    def tune(self, scores: Mapping[str, float]) -> Self:
        """Return a copy of the task with the threshold for "no answer" that was best on the evaluation rows.

        The task is unchanged if all questions have answers, or if `null_threshold` is already set. `scores` are the
        result of `compute_scores`.
        """
        if not self.impossible or self.null_threshold is not None:
            return self
        return replace(self, null_threshold=scores[f"best_{self.metrics[0]}_threshold"])

    def make_items(self, examples: Sequence[SpanExample], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Build an item for each window of each question's context.

        Consecutive questions about one context share its tokens.

        Args:
            examples: The questions.
            encoder: Turns texts into tokens.
            labelled: True to add the token positions of the answer as targets.
        """
        items = list[TaskItem]()
        for context, group in groupby(enumerate(examples), key=lambda numbered: numbered[1].context):
            asked = list(group)
            text = TokenizedText.from_text(context, encoder)
            questions = encoder.tokenize([example.question for _, example in asked])
            encoder.shorten(questions, min(self.max_question, encoder.count_room(2) // 2))
            for (number, example), question in zip(asked, questions, strict=True):
                span = find_token_span(text.offsets, example.answers[0]) if example.answers else None
                items += [
                    TaskItem(
                        sequences=(tokens,),
                        example=number,
                        targets=_make_targets(locate_span(window, span)) if labelled else {},
                        origin=window,
                    )
                    for tokens, window in cut_windows(encoder, question, text, self.stride)
                ]
        return items

    def make_predictions(self, examples: Sequence[SpanExample], items: Items, answers: Answers) -> list[FoundSpans]:
        """Find the best spans of each question in all windows of its context.

        `answers` has the start and end logits of each window, float32 [tokens, 2].
        """
        return [
            self._find_spans(example.context, windows)
            for example, windows in zip(examples, group_windows(items, answers), strict=True)
        ]

    def _find_spans(self, context: str, windows: Sequence[tuple[Window, npt.NDArray[Any]]]) -> FoundSpans:
        some = (
            candidate
            for window, logits in windows
            for candidate in iter_candidates(context, window, logits, self.max_answer, self.n_best)
        )
        best = keep_distinct(some, self.n_best)
        null = min(float(logits[0, 0]) + float(logits[0, 1]) for _, logits in windows)
        return FoundSpans(best, null - best[0].score if best else NO_TOKEN_ODDS)

    def choose_answer(self, prediction: FoundSpans) -> str:
        """Return the text of the best span, or "" if there is none or the odds for "no answer" exceed the threshold."""
        silent = self.impossible and prediction.null_odds > (self.null_threshold or 0.0)
        return "" if silent or not prediction.best else prediction.best[0].text

    def compute_scores(self, examples: Sequence[SpanExample], predictions: Sequence[FoundSpans]) -> dict[str, float]:
        """Compute the scores of predicted spans.

        The scores of `compute_optional_answer_scores` are returned if questions may have no answer (`impossible`) or if
        an example has none, otherwise those of `compute_answer_scores`.
        """
        golds = [[text for _, text in example.answers or ()] for example in examples]
        texts = [spans.best[0].text if spans.best else "" for spans in predictions]
        if not self.impossible and all(golds):
            return compute_answer_scores(golds, texts)
        odds = [spans.null_odds for spans in predictions]
        threshold = self.null_threshold if self.impossible else np.inf
        if threshold is None:
            best = compute_optional_answer_scores(golds, texts, odds)
            threshold = best[f"best_{self.metrics[0]}_threshold"]
        return compute_optional_answer_scores(golds, texts, odds, threshold=threshold)

    def to_row(self, example: SpanExample, prediction: FoundSpans) -> dict[str, Any]:
        """Build a row for output from a question's spans: `text`, `begin`, `score`, `null_odds` and `n_best`.

        `text` is the chosen answer. `begin` (a character offset in the context) and `score` belong to the best span, or
        are None if no span was found. `null_odds`, the odds for no answer, is omitted if all questions have answers.
        `n_best` lists the best spans.
        """
        best = prediction.best
        odds = {} if self.impossible is False else {NULL_ODDS: prediction.null_odds}
        return {
            "text": self.choose_answer(prediction),
            "begin": best[0].begin if best else None,
            "score": best[0].score if best else None,
            **odds,
            "n_best": [each._asdict() for each in best],
        }

    def judge(self, example: SpanExample, prediction: FoundSpans) -> dict[str, Any]:
        """Compare the chosen answer with the gold ones.

        The keys are `gold`, a list of the gold answers, and `score`, with the `exact` match and the `f1`.
        """
        gold = [text for _, text in example.answers or ()]
        match = find_best_match([text for text in gold if normalize_answer(text)], self.choose_answer(prediction))
        return {"gold": gold, "score": match._asdict()}


def _read_answers(values: Mapping[str, Any], context: str) -> tuple[Span, ...]:
    """Read the gold answers of a record as pairs of offset and text; () if the question has none.

    Raises Unusable if one is not at its offset in the context.
    """
    given, impossible = values.get("answers"), values.get("impossible")
    if impossible is not None and as_label(impossible, "impossible") in ("true", "1"):
        return ()
    if isinstance(given, list) and all(isinstance(each, tuple) for each in given):
        return tuple(given)  # as the format of SQuAD gives them: held to the context already
    return tuple(parse_answers(given, context))


def _make_targets(places: tuple[int, int]) -> dict[str, Int64s]:
    """Build the targets "start" and "end" from the first and the last token position of an answer: int64 [1] each."""
    return {name: np.array([place], np.int64) for name, place in zip((START, END), places, strict=True)}
