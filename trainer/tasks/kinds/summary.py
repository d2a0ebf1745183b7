"""Summaries that are sentences of the text: BertSum (Liu 2019, "Fine-tune BERT for Extractive Summarization").

    [CLS] first sentence [SEP] [CLS] second [SEP] ...  ─► a logit for each [CLS] ─► the best sentences, in their order
      0     0       0      0     1     1      1   ...     segments

The beginning of a text alone is read, as far as a sequence goes: its last sentence may be cut, those after it are never
taken. What is learnt are labels of sentences, given or made of a summary (`greedy_extract`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from corpora.store.settings import check_range
from trainer.objectives.contract import Term
from trainer.tasks.contract import MANY, Answers, Items, Task, TaskItem, Tokens, sigmoid, with_first
from trainer.tasks.formats.records import Unusable, as_label, as_words
from trainer.tasks.scores.summary import rouge_scores
from trainer.tasks.scores.texts import rates
from trainer.tasks.text_encoder import TextEncoder, ids_of

SENTENCE = Term("sentence")
ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")
F1 = "f1"
WORD = re.compile(r"\w+")

Grams = frozenset[tuple[str, ...]]


class SummaryExample(NamedTuple):
    """A text. labels: the numbers of the sentences to extract; summary: "" where there is none"""

    sentences: tuple[str, ...]
    summary: str
    labels: tuple[int, ...] | None


class Extract(NamedTuple):
    """The sentences that are taken, by number, and the logits of those that were read."""

    taken: tuple[int, ...]
    logits: Float32s


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTask(Task):
    """Which sentences of a text make its summary.

    take:      sentences of a summary
    block:     words of a run that no two of them may have in common; 0: any
    summaries: the rows have summaries, by which extracts are judged; nothing: as the training rows
    metric:    by which an epoch is judged
    """

    take: int = 3
    block: int = 3
    summaries: bool | None = None
    metric: str = ""

    kind: ClassVar[str] = "summary"
    builder: ClassVar[str] = "trainer.tasks.heads.summary:SummaryModel"
    term: ClassVar[Term] = SENTENCE
    unit: ClassVar[str] = "point"
    roles: ClassVar[tuple[str, ...]] = ("sentences", "summary", "labels")
    optional: ClassVar[frozenset[str]] = frozenset({"summary", "labels"})
    learnt: ClassVar[frozenset[str]] = frozenset({"summary", "labels"})

    def __post_init__(self) -> None:
        check_range("take", self.take, 1, MANY)
        check_range("block", self.block, 0, MANY)
        _ = self.metrics

    @property
    def metrics(self) -> tuple[str, ...]:
        """ROUGE where there are summaries, and F1 of the sentences that are taken."""
        return with_first(self.metric, (F1,) if self.summaries is False else (*ROUGE, F1))

    def example(self, values: Mapping[str, Any], labelled: bool) -> SummaryExample:
        """A text with the sentences that are to be taken. Raises Unusable."""
        given = as_words(values["sentences"], "sentences", str.splitlines)
        sentences = tuple(sentence for sentence in given if sentence.strip())
        if not sentences:
            raise Unusable("no sentences")
        if not labelled:
            return SummaryExample(sentences, "", None)
        summary, labels = values.get("summary"), values.get("labels")
        text = "" if summary is None else "\n".join(as_words(summary, "summary", str.splitlines)).strip()
        if self.summaries and not text:
            raise Unusable("no summary, where training had one (summaries = false learns labels alone)")
        if labels is not None:
            return SummaryExample(sentences, text, _labels(labels, given))
        if not text:
            raise Unusable("neither summary nor labels")
        return SummaryExample(sentences, text, greedy_extract(sentences, text, self.take))

    def fitted(self, examples: Sequence[SummaryExample], where: str) -> Self:
        """Return the task with `summaries` set by the examples. Raises InputError where no sentence is labelled."""
        if not any(example.labels for example in examples):
            raise InputError(f"{where}: no sentence is in a summary: there is nothing to learn.")
        summaries = all(example.summary for example in examples)
        return replace(self, summaries=summaries if self.summaries is None else self.summaries)

    def items(self, examples: Sequence[SummaryExample], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """The beginning of each text."""
        return [self._item(example, encoder, labelled, number) for number, example in enumerate(examples)]

    def _item(self, example: SummaryExample, encoder: TextEncoder, labelled: bool, number: int) -> TaskItem:
        tokens, points = _read(example.sentences, encoder)
        taken = np.isin(np.arange(len(points)), example.labels or ())
        return TaskItem(
            sequences=(tokens,),
            example=number,
            points=points,
            targets={SENTENCE.name: taken.astype(np.float32)} if labelled else {},
        )

    def predictions(self, examples: Sequence[SummaryExample], items: Items, answers: Answers) -> list[Extract]:
        """The best sentences of each text."""
        return [
            Extract(best_sentences(example.sentences, answer[:, 0], self.take, self.block), answer[:, 0])
            for example, answer in zip(examples, answers, strict=True)
        ]

    def scores(self, examples: Sequence[SummaryExample], predictions: Sequence[Extract]) -> dict[str, float]:
        """Return ROUGE of the extracts, where all texts have summaries, and F1 of the sentences over all texts."""
        golds, answers = [{*(each.labels or ())} for each in examples], [{*each.taken} for each in predictions]
        right = sum(len(gold & taken) for gold, taken in zip(golds, answers, strict=True))
        of_sentences = {F1: rates(right, sum(map(len, answers)), sum(map(len, golds))).f1}
        if not all(example.summary for example in examples):
            return of_sentences
        texts = [text_of(example, extract) for example, extract in zip(examples, predictions, strict=True)]
        return {**rouge_scores([example.summary for example in examples], texts), **of_sentences}

    def row(self, example: SummaryExample, prediction: Extract) -> dict[str, Any]:
        """The summary, a sentence a line; the numbers of its sentences from 0; the probability of each read."""
        return {
            "summary": text_of(example, prediction),
            "sentences": list(prediction.taken),
            "probabilities": sigmoid(prediction.logits).tolist(),
        }

    def judged(self, example: SummaryExample, prediction: Extract) -> dict[str, Any]:
        """Return the summary and the numbers of the labelled sentences."""
        return {"gold": {"summary": example.summary, "sentences": list(example.labels or ())}}


def text_of(example: SummaryExample, extract: Extract) -> str:
    """Return the extract, a sentence a line."""
    return "\n".join(example.sentences[number] for number in extract.taken)


def _read(sentences: Sequence[str], encoder: TextEncoder) -> tuple[Tokens, npt.NDArray[np.int64]]:
    """A sequence, and where each sentence's [CLS] is in it."""
    special = encoder.inputs.special_ids
    rows = [np.array([special.cls, *ids_of(piece), special.sep], np.int32) for piece in encoder.pieces(sentences)]
    begins = np.cumsum([0, *map(len, rows)])[:-1]
    read = max(1, int((begins + 3 <= encoder.max_length).sum()))  # one token at least of each
    ids = np.concatenate(rows[:read])[: encoder.max_length]
    ids[-1] = special.sep
    encoder.lost(sum(map(len, rows)) - len(ids))
    segments = np.repeat(np.arange(read, dtype=np.int32) % 2, [len(row) for row in rows[:read]])
    return Tokens(ids, segments[: len(ids)]), begins[:read].astype(np.int64)


def _labels(value: Any, sentences: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the sentences to be taken, among those that are not empty. Raises Unusable."""
    labels = [as_label(each, "labels") for each in value] if isinstance(value, list | tuple) else []
    if len(labels) != len(sentences) or not {*labels} <= {"0", "1", "false", "true"}:
        raise Unusable("labels are not 0 or 1 for each sentence")
    kept = [label for label, sentence in zip(labels, sentences, strict=True) if sentence.strip()]
    return tuple(number for number, label in enumerate(kept) if label in ("1", "true"))


# Which sentences make a summary; words are runs of letters and digits of any script, in lower case.


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case.

    >>> words_of("The U.S. said:")
    ['the', 'u', 's', 'said']
    """
    return WORD.findall(text.lower())


def greedy_extract(sentences: Sequence[str], summary: str, most: int) -> tuple[int, ...]:
    """Return the sentences that, one after another, raise the sum of ROUGE-1 and ROUGE-2 F1 most; none where none does.

    Words and pairs of words as sets, pairs within sentences (Liu 2019, section 3.1: `greedy_selection` of its code).

    >>> greedy_extract(["A cat sat.", "Dogs bark.", "It rained all day."], "The cat sat. All day it rained.", 2)
    (0, 2)
    """
    wanted = [_grams(summary, length) for length in (1, 2)]
    grams = [[_grams(sentence, length) for length in (1, 2)] for sentence in sentences]
    chosen, union, best = list[int](), [Grams(), Grams()], 0.0
    while len(chosen) < most:
        gains = [
            (sum(_f1(wanted[n], union[n] | own[n]) for n in (0, 1)), -number)
            for number, own in enumerate(grams)
            if number not in chosen
        ]
        score, number = max(gains, default=(0.0, 0))
        if score <= best:
            break
        best = score
        chosen.append(-number)
        union = [union[n] | grams[-number][n] for n in (0, 1)]
    return tuple(sorted(chosen))


def _grams(text: str, length: int) -> Grams:
    words = words_of(text)
    return frozenset(zip(*(words[at:] for at in range(length)), strict=False))


def _f1(wanted: Grams, own: Grams) -> float:
    return rates(len(wanted & own), len(own), len(wanted)).f1


def best_sentences(
    sentences: Sequence[str], scores: npt.NDArray[np.floating], take: int, block: int
) -> tuple[int, ...]:
    """The best by score, in the order of the text; of two that have a run of `block` words in common the better one.

    scores: of the first sentences; those without one are not taken. block: 0: all may be taken (Paulus et al. 2018)
    """
    chosen, taken = list[int](), set[tuple[str, ...]]()
    for number in np.argsort(-scores, kind="stable").tolist():
        runs = _grams(sentences[number], block) if block else Grams()
        if len(chosen) < take and taken.isdisjoint(runs):
            chosen.append(number)
            taken |= runs
    return tuple(sorted(chosen))
