"""Tasks that compute a vector for every text and compare vectors: similarity and retrieval.

    texts of an item: first, second, hard negatives ─► a vector each ─► cosines, or dot products

**Similarity** of two texts is the cosine of their vectors. There are three losses, all published for Sentence-BERT
(Reimers, Gurevych 2019):

    cosine     squared error between the cosine and a score, which is scaled from the range of the training rows to
               [0, 1] (STS-B)
    softmax    classes of a pair, from a matrix over (u, v, |u - v|) (NLI); the matrix is only needed for training
    in-batch   rows are matching pairs: cross-entropy over the cosines of a first text with the second texts and hard
               negatives of all rows of the step (Henderson et al. 2017; see `heads.vectors`)

**Retrieval** finds passages. Queries and passages each have a vector, and are compared by cosine or dot product (a dual
encoder). A training row is a query with a passage that answers it and, optionally, passages that do not. The passage
competes with those of all queries of the step and with their hard negatives (Karpukhin et al. 2020, section 3.2). In
evaluation, all passages of the evaluation rows are ranked for each query. Searching a whole collection is harder, and
is measured by `cloze embed --query ... --judgements`.

Scores of ranked documents are nDCG, MRR, MAP, recall, precision and success, computed as in trec_eval.

`qrels` has the relevance of documents for each query, as integers. A document is relevant from 1 on; documents that are
not listed are not relevant. `run` has the score of each document that was found for a query. Documents are ranked by
descending score, and equal scores by descending id, as in trec_eval, so the order in a file does not matter (see
Cabanac et al. 2010 on ties). Scores are rounded to 32 bits first.
Means are computed over all queries of `qrels`. A query that is missing from the run, or that has no relevant document,
scores 0 (trec_eval -c). Queries of the run without judgments are ignored.

A measure is a name, or a name with a depth: `ndcg@10` only considers the first ten documents, `ndcg` all of them.

    ndcg        the sum of gains / log2(rank + 1), divided by the same sum of the best ranking (Järvelin, Kekäläinen
                2002, in trec_eval's form ndcg_cut); the gain is the relevance, or 0 if that is negative
    mrr         1 / the rank of the first relevant document, or 0 if there is none; MS MARCO uses mrr@10
    map         the sum of the precisions at relevant documents / all relevant documents of the query
    recall      found relevant documents / all relevant documents of the query

Cost: for a million found documents, 0.5 s with a thousand queries, and 4 s with a hundred thousand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import xxhash

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s, Float64s, Int64s
from corpora.store.settings import check_choice, check_range
from trainer.families.contract import ModelInputs
from trainer.huggingface.sentence_transformers import DOCUMENT, MODES, QUERY, Prompt, SentenceFolder
from trainer.objectives.contract import IGNORED, Term
from trainer.tasks.formats.records import Unusable, as_label, as_text, parse_number
from trainer.tasks.kinds.texts import compute_class_scores, compute_correlations, compute_means
from trainer.tasks.task import OldKeys, Task, TaskItem, Tokens, check_labels, format_names, with_first, with_others
from trainer.tasks.text_encoder import TextEncoder

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]

MEASURE_KINDS = ("ndcg", "mrr", "map", "recall")
DEFAULT_MEASURES = ("ndcg@10", "mrr@10", "map", "recall@100")


class _Ranking(NamedTuple):
    """The relevance of a query's retrieved documents by rank, and of all documents that are judged for the query."""

    levels: Int64s
    judged: Int64s


def compute_ranking_scores(qrels: Qrels, run: Run, measures: Sequence[str] = DEFAULT_MEASURES) -> dict[str, float]:
    """Compute the mean of each ranking measure over all queries of `qrels`, as {measure: score}.

    Args:
        qrels: The relevance of each query's judged documents, by query id and document id. Documents with a relevance
            of 1 or more are relevant.
        run: The scores of each query's retrieved documents, by query id and document id. Queries without judgments are
            ignored; judged queries that are missing here score 0.
        measures: Names such as "map", or with a depth such as "ndcg@10". The names are those in MEASURE_KINDS.

    Raises:
        InputError: If a measure is unknown, or no judged query is in the run.

    >>> compute_ranking_scores({"q": {"a": 1, "b": 2}}, {"q": {"a": 0.9, "c": 0.8, "b": 0.7}}, ["mrr@10", "recall@2"])
    {'mrr@10': 1.0, 'recall@2': 0.5}
    """
    each = compute_query_scores(qrels, run, measures)
    table = np.array([list(scores.values()) for scores in each.values()])
    return dict(zip(measures, table.mean(0).tolist(), strict=True))


def compute_query_scores(
    qrels: Qrels, run: Run, measures: Sequence[str] = DEFAULT_MEASURES
) -> dict[str, dict[str, float]]:
    """Compute the ranking measures of each query separately, as {query id: {measure: score}} in the order of `qrels`.

    Args:
        qrels: The relevance of each query's judged documents, by query id and document id.
        run: The scores of each query's retrieved documents, by query id and document id.
        measures: Names such as "map", or with a depth such as "ndcg@10".

    Raises:
        InputError: If a measure is unknown, or no judged query is in the run.
    """
    asked = [(name, *_parse_measure(name)) for name in measures]
    if not any(query in run for query in qrels):
        raise InputError(
            f"Not one of the {len(qrels):,} judged queries is among the {len(run):,} of the run "
            f"(judged: {_quote_first(qrels)}; run: {_quote_first(run)}): are they of the same queries?"
        )
    scores = {}
    for query, levels in qrels.items():
        by_rank = [levels.get(document, 0) for document in rank_documents(run.get(query, {}))]
        ranking = _Ranking(np.array(by_rank, np.int64), np.array([*levels.values()], np.int64))
        scores[query] = {name: _compute_measure(ranking, kind, depth) for name, kind, depth in asked}
    return scores


def rank_documents(scores: Mapping[str, float]) -> list[str]:
    """Sort document ids by descending score, rounded to float32. Equal scores are sorted by descending id.

    >>> rank_documents({"d1": 0.5 + 1e-9, "d2": 0.5, "d3": 0.9})
    ['d3', 'd2', 'd1']
    """
    rounded = np.array([*scores.values()], np.float32).tolist()
    return [document for _, document in sorted(zip(rounded, scores, strict=True), reverse=True)]


def _parse_measure(name: str) -> tuple[str, int | None]:
    kind, at, depth = name.partition("@")
    if kind not in MEASURE_KINDS or (at and not (depth.isdecimal() and int(depth))):
        raise InputError(
            f"{name!r} is not a measure of rankings: name one of {', '.join(MEASURE_KINDS)}, with a depth from 1 on if "
            "not all documents count, like ndcg@10."
        )
    return kind, int(depth) if at else None


def _compute_measure(ranking: _Ranking, kind: str, depth: int | None) -> float:
    levels, all_relevant = ranking.levels[:depth], int((ranking.judged >= 1).sum())
    if kind == "ndcg":
        best = _compute_gain(np.sort(ranking.judged)[::-1][:depth])
        return _compute_gain(levels) / best if best else 0.0
    ranks = np.flatnonzero(levels >= 1)  # ranks from 0
    if not len(ranks):
        return 0.0
    if kind == "mrr":
        return 1 / (int(ranks[0]) + 1)
    if kind == "map":
        return float((np.arange(1, len(ranks) + 1) / (ranks + 1)).sum()) / all_relevant
    return len(ranks) / all_relevant


def _compute_gain(levels: Int64s) -> float:
    """Compute the discounted cumulative gain of ranked documents: the sum of relevance / log2(rank + 1)."""
    return float((np.maximum(levels, 0) / np.log2(np.arange(2, len(levels) + 2))).sum())


def _quote_first(queries: Mapping[str, object]) -> str:
    return repr(next(iter(queries), None))


SIMILARITIES = ("cosine", "dot")
SAME = "same"  # the target that numbers the texts of a batch: int64 [sequences], equal where texts are
SKIPPED = "skipped"  # the target that counts a prompt's tokens where they are not pooled: int64 [sequences]
MIN_NORM = 1e-12  # least length of a vector that is divided by it
QUERIES_AT_ONCE = 256  # that are ranked together
MAX_RANKED = 100  # texts that a first text finds
COSINE, SOFTMAX, MATCH = Term("cosine", has_rights=False), Term("label"), Term("match")
TERMS_BY_LOSS = {"cosine": COSINE, "softmax": SOFTMAX, "in-batch": MATCH}
CLASS_METRICS = ("accuracy", "macro_f1", "matthews")
RANK_METRICS = ("mrr@10", "recall@1", "recall@10")
MEASURES = ("ndcg@10", "mrr@10", "map", "recall@1", "recall@10", "recall@100")


class VectorExample(NamedTuple):
    """The texts of one example, to be compared.

    label:     the label of the first two texts, or None if there is none
    negatives: texts that are dissimilar to the first text
    """

    text: str
    second: str
    negatives: tuple[str, ...] = ()
    label: Any = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, in the order of an item's sequences: first, second, negatives."""
        return (self.text, self.second, *self.negatives)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTask(Task):
    """The base class of the tasks that compute a vector for every text.

    The prediction for an example is an array [texts, H + C]: the vector of each of its texts, followed by the logits of
    the pair's classes, if there are any.

    pooling: how a text's vector is computed from its tokens' vectors: "mean", "cls" (the first), "max" by dimension, or
             another of `sentences.MODES`; several are concatenated if joined by "+"; "": the pooling of the model's
             folder, or "mean" if it has none
    scale:   factor of the similarities before the cross-entropy over the texts of a batch; 0: 20 for cosines, 1 for dot
             products
    widths:  shorter vector lengths to train as well, each for the first dimensions of a vector (Kusupati et al. 2022,
             Matryoshka); the loss is the sum over all lengths
    """

    pooling: str = ""
    scale: float = 0.0
    widths: tuple[int, ...] = ()

    builder: ClassVar[str] = "trainer.tasks.heads.vectors:VectorModel"
    default_length: ClassVar[int] = 128
    old_keys: ClassVar[OldKeys] = {"widths": {"width_weights": []}}
    prompts: ClassVar[tuple[Prompt, Prompt]] = ("", "")  # of a folder, before first texts and before others

    def __post_init__(self) -> None:
        check_pooling(self.pooling)
        check_range("scale", self.scale, 0, 1e6)
        if any(width < 1 for width in self.widths) or len({*self.widths}) < len(self.widths):
            raise InputError(f"widths = {list(self.widths)}: give numbers of dimensions from 1 on, each once.")

    @property
    def resolved_similarity(self) -> str:
        """The measure that compares vectors, which is "cosine" unless a subclass overrides it."""
        return "cosine"

    @property
    def resolved_scale(self) -> float:
        """`scale`, or its default if it is 0: 20 for cosines, 1 for dot products."""
        return self.scale or (20.0 if self.resolved_similarity == "cosine" else 1.0)

    @property
    def shared(self) -> bool:
        """True if one encoder reads all texts, False if a second one reads all but the first text of an example."""
        return True

    @property
    def num_outputs(self) -> int:
        """The number of classes that are predicted for a pair of texts; 0 if there are none."""
        return 0

    def with_folder_settings(self, sentences: SentenceFolder) -> Self:
        """Return a copy of the task with unset settings, such as the pooling, taken from the model folder.

        Args:
            sentences: The sentence-transformers settings of the folder.

        Raises:
            InputError: If the task has two encoders, and the folder has prompts or modules after the pooling.
        """
        if not self.shared and (sentences.steps or any(sentences.prompts.values())):
            raise InputError(
                f"{sentences.folder} has prompts, or modules after its pooling, and a model with two encoders keeps "
                "none: leave `shared` at true."
            )
        return replace(self, pooling=self.pooling or sentences.pooling)

    def build_text_encoder(self, folder: Path, inputs: ModelInputs, max_length: int) -> TextEncoder:
        """Build a text encoder with the prompts and the lowercasing of the model folder.

        Args:
            folder: The folder of the model, which contains its tokenizer.
            inputs: The model's vocabulary size and special token ids.
            max_length: Maximum number of tokens of a sequence, including special tokens.

        Raises:
            InputError: If the tokenizer is missing or does not fit the model, or a prompt is missing.
        """
        return TextEncoder.from_folder(folder, inputs, max_length, self.prompts)

    def score_widths(self, score: Callable[[int | None], dict[str, float]], main: str) -> dict[str, float]:
        """Compute all scores of full vectors, and the main score of vectors truncated to each of `widths`.

        Args:
            score: Function that computes the scores of vectors. Called with the number of dimensions to truncate them
                to, or with None for full vectors.
            main: The score to report for each width, as `{main}_at_{width}`.
        """
        return score(None) | {f"{main}_at_{width}": score(width)[main] for width in self.widths}

    def make_targets(self, label: Any) -> Mapping[str, npt.NDArray[Any]]:
        """Build the targets that depend on the label of an example, by name; {} by default."""
        return {}

    def make_items(self, examples: Sequence[VectorExample], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Build an item for each example, with one sequence for each of its texts.

        The target SAME has a hash of each text. If prompts are not pooled, the target SKIPPED has their numbers of
        tokens.

        Args:
            examples: The examples.
            encoder: Turns texts into tokens. It has the prompts that are put in front of texts.
            labelled: True to add the targets of labels.
        """
        prompted = [[encoder.prompts[place > 0] + text for place, text in enumerate(each.texts)] for each in examples]
        encodings, items = iter(encoder.encode([*chain.from_iterable(prompted)])), []
        for number, example in enumerate(examples):
            some = [next(encodings) for _ in example.texts]
            more = dict(self.make_targets(example.label)) if labelled else {}
            if encoder.skipped:
                more[SKIPPED] = np.array([encoder.skipped[place > 0] for place, _ in enumerate(some)], np.int64)
            targets = {SAME: _hash_texts(example.texts), **more}
            items.append(TaskItem(sequences=tuple(map(Tokens.from_encoding, some)), example=number, targets=targets))
        return items


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityTask(VectorTask):
    """The task of measuring the similarity of two texts.

    loss:   "cosine", "softmax" or "in-batch"
    labels: for "softmax", names of the classes in their order; if empty, those of the training rows, sorted
    lowest, highest: for "cosine", the scores of the least and the most similar texts; unset: those of the training rows
    metric: metric that is used to choose the best epoch
    """

    loss: str = "cosine"
    labels: tuple[str, ...] = ()
    lowest: float | None = None
    highest: float | None = None
    metric: str = ""

    kind: ClassVar[str] = "similarity"
    label_roles: ClassVar[frozenset[str]] = frozenset({"label"})

    def __post_init__(self) -> None:
        super(SimilarityTask, self).__post_init__()
        check_choice("loss", self.loss, (*TERMS_BY_LOSS,))
        check_labels(self.labels)
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            raise InputError(f"lowest = {self.lowest:g} is not below highest = {self.highest:g}.")
        _ = self.metrics

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that can be used to choose the best epoch with this loss, the requested one first."""
        by_loss = {
            "cosine": ("spearman", "pearson"),
            "softmax": CLASS_METRICS,
            "in-batch": (*RANK_METRICS, "spearman", "pearson"),
        }
        return with_first(self.metric, by_loss[self.loss])

    @property
    def num_outputs(self) -> int:
        """The number of classes of a pair; 0 unless the loss is "softmax"."""
        return len(self.labels) if self.loss == "softmax" else 0

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of a record: "text", "second", "label", and with the loss "in-batch" also "negative"."""
        return ("text", "second", "label", *(["negative"] if self.loss == "in-batch" else []))

    @property
    def optional_roles(self) -> frozenset[str]:
        """The roles that a file may lack: "negative" and "label" with the loss "in-batch", otherwise none."""
        return frozenset({"negative", "label"} if self.loss == "in-batch" else ())

    @property
    def term(self) -> Term:
        """The loss term of the similarity, which is named "cosine", "label" or "match"."""
        return TERMS_BY_LOSS[self.loss]

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> VectorExample:
        """Build an example from two texts to compare, and from their negatives and label if they have any.

        `values` needs `text` and `second`. `label` is optional, and is only read if `labelled` is True.

        Raises:
            Unusable: If a text or a label has the wrong type.
        """
        text, second, negatives = parse_texts(values, "text", "second")
        label = values.get("label") if labelled else None
        return VectorExample(text, second, negatives, None if label is None else self._parse_label(label))

    def _parse_label(self, value: Any) -> str | float:
        if self.loss != "softmax":
            return parse_number(value, "label")
        return as_label(value)

    def find_unknown_label(self, example: VectorExample) -> Unusable | None:
        """Return a reason if a pair has a class that is not in `labels`, otherwise None.

        Before `fit`, every class is known. Only the loss "softmax" has classes.
        """
        if self.loss != "softmax" or not self.labels or example.label in self.labels:
            return None
        return Unusable("unknown label", f"{example.label!r:.60} is none of {format_names(self.labels)}")

    def fit(self, examples: Sequence[VectorExample], where: str) -> Self:
        """Return a copy of the task with the range of scores ("cosine") or the names of the classes ("softmax").

        Args:
            examples: The training examples.
            where: The name of their file, for messages.

        Raises:
            InputError: If all labels are the same, a class has no training row, or a score is outside the given range.
                With the loss "in-batch", if there are fewer than two pairs or several different labels.
        """
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
            return self._fit_classes(met, where)
        lowest = min(met) if self.lowest is None else self.lowest
        highest = max(met) if self.highest is None else self.highest
        if lowest > min(met) or highest < max(met):
            raise InputError(
                f"{where} has scores from {min(met):g} to {max(met):g}, but `lowest` and `highest` are {lowest:g} to "
                f"{highest:g}: name the range that scores may have."
            )
        return replace(self, lowest=lowest, highest=highest)

    def _fit_classes(self, met: set[Any], where: str) -> Self:
        labels = self.labels or tuple(sorted(met))
        if absent := sorted({*labels} - met):
            raise InputError(f"{where} has no row with the label {absent[0]!r}: leave it out of `labels`.")
        return replace(self, labels=labels)

    def make_targets(self, label: Any) -> dict[str, npt.NDArray[Any]]:
        """Build the target for a pair's label by name; {} with the loss "in-batch".

        The target is int64 [1], the index of the class ("softmax"), or float32 [1], the score scaled to [0, 1]
        ("cosine").
        """
        if self.loss == "softmax":
            return {SOFTMAX.name: np.array([self.labels.index(label) if label in self.labels else IGNORED])}
        if self.loss == "in-batch":
            return {}
        assert self.lowest is not None and self.highest is not None, "the range is known once it is fitted"
        return {COSINE.name: np.array([(label - self.lowest) / (self.highest - self.lowest)], np.float32)}

    def compute_scores(self, examples: Sequence[VectorExample], predictions: Sequence[Float32s]) -> dict[str, float]:
        """Compute the scores of predicted vectors: class scores, correlations or ranking measures.

        The loss determines which: "softmax", "cosine" or "in-batch", respectively.

        Raises:
            InputError: If the chosen metric is a correlation, and not every example has a label.
        """
        if self.loss == "softmax":
            return compute_class_scores(*self.to_class_indices(examples, predictions), self.num_outputs)
        return self.score_widths(lambda width: self._compute_scores_at(width, examples, predictions), self.metrics[0])

    def to_class_indices(
        self, examples: Sequence[VectorExample], predictions: Sequence[Float32s]
    ) -> tuple[Int64s, Int64s]:
        """Convert correct and predicted classes of pairs to indices: int64 [N] each. Only for the loss "softmax".

        Returns:
            The labels, and the predictions. Labels that are not in `labels` get indices after the known classes.
        """
        answers = np.stack([rows[0, -self.num_outputs :] for rows in predictions]).argmax(-1)
        names = with_others(self.labels, ([example.label] for example in examples))
        return np.array([names.index(example.label) for example in examples], np.int64), answers

    def _compute_scores_at(
        self, width: int | None, examples: Sequence[VectorExample], predictions: Sequence[Float32s]
    ) -> dict[str, float]:
        scores = dict[str, float]()
        if self.loss == "in-batch":
            scores = compute_means(
                score_own_rankings(examples, predictions, self.resolved_similarity, RANK_METRICS, width)
            )
        gold = [example.label for example in examples]
        if None not in gold:
            ones, others = (np.stack([rows[place] for rows in predictions]) for place in (0, 1))
            return scores | compute_correlations(
                np.array(gold, np.float64), compute_similarities(ones, others, self.resolved_similarity, width)
            )
        if self.metrics[0] not in scores:
            raise InputError(
                f'metric = "{self.metrics[0]}" compares cosines with scores, and not every evaluation row has a label: '
                f"give them, or judge by {RANK_METRICS[0]}."
            )
        return scores

    def to_row(self, example: VectorExample, prediction: Float32s) -> dict[str, Any]:
        """Build a row for output with the `cosine` of the two texts and, for the softmax loss, the `label`."""
        vectors = prediction[:, : prediction.shape[1] - self.num_outputs]
        cosine = compute_similarities(vectors[:1], vectors[1:2], self.resolved_similarity)[0]
        label = {"label": self.labels[int(prediction[0, -self.num_outputs :].argmax())]} if self.num_outputs else {}
        return {"cosine": float(cosine), **label}

    def judge(self, example: VectorExample, prediction: Float32s) -> dict[str, Any]:
        """Return the label of a pair as `gold`, or {} if there is none."""
        return {} if example.label is None else {"gold": example.label}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalTask(VectorTask):
    """The task of finding the passages that answer a query.

    similarity: "cosine" or "dot"; "": the similarity of the model's folder, or "cosine" if it has none
    shared:     whether one encoder reads queries and passages; if false, there are two, with equal initial weights
    metric:     metric that is used to choose the best epoch
    """

    similarity: str = ""
    shared: bool = True
    metric: str = ""

    kind: ClassVar[str] = "retrieval"
    term: ClassVar[Term] = MATCH
    default_length: ClassVar[int] = 256
    prompts: ClassVar[tuple[Prompt, Prompt]] = (QUERY, DOCUMENT)
    roles: ClassVar[tuple[str, ...]] = ("query", "positive", "negative")
    optional_roles: ClassVar[frozenset[str]] = frozenset({"negative"})

    def __post_init__(self) -> None:
        super(RetrievalTask, self).__post_init__()
        check_choice("similarity", self.similarity, ("", *SIMILARITIES))
        _ = self.metrics

    @property
    def resolved_similarity(self) -> str:
        """The measure that compares queries and passages, "cosine" or "dot"."""
        return self.similarity or "cosine"

    def with_folder_settings(self, sentences: SentenceFolder) -> Self:
        """Return a copy of the task with unset pooling and similarity taken from the model folder.

        Args:
            sentences: The sentence-transformers settings of the folder.

        Raises:
            InputError: If the task has two encoders, and the folder has prompts or modules after the pooling.
        """
        named = sentences.similarity if sentences.similarity in SIMILARITIES else ""
        return replace(super(RetrievalTask, self).with_folder_settings(sentences), similarity=self.similarity or named)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The ranking measures (MEASURES) that can be used to choose the best epoch, the requested one first."""
        return with_first(self.metric, MEASURES)

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> VectorExample:
        """Build an example from a query, a passage that answers it, and passages that do not.

        There is no label, so `labelled` is not used.

        Raises:
            Unusable: If a value is not a text, or a negative passage is empty.
        """
        return VectorExample(*parse_texts(values, "query", "positive"))

    def fit(self, examples: Sequence[VectorExample], where: str) -> Self:
        """Return the task unchanged. Raises InputError if the examples have fewer than two different passages."""
        if len({text for example in examples for text in example.texts[1:]}) < 2:
            raise InputError(f"{where} has only one passage: there is nothing to compare it with. Give more.")
        return self

    def compute_scores(self, examples: Sequence[VectorExample], predictions: Sequence[Float32s]) -> dict[str, float]:
        """Compute ranking measures by ranking all passages of the examples for each query.

        The main measure is also computed for vectors truncated to each of `widths`.
        """
        every, main = self.metrics, self.metrics[:1]
        return self.score_widths(
            lambda width: compute_means(
                score_own_rankings(examples, predictions, self.resolved_similarity, main if width else every, width)
            ),
            main[0],
        )

    def to_row(self, example: VectorExample, prediction: Float32s) -> dict[str, Any]:
        """Build a row for output with the `similarities` of a query to each passage, the answering passage first."""
        values = compute_similarities(prediction[:1], prediction[1:], self.resolved_similarity)
        return {"similarities": values.tolist()}


# Texts and their vectors, compared and ranked.


def check_pooling(pooling: str) -> None:
    """Raise InputError if a pooling such as "mean" or "cls+mean" contains an unknown mode."""
    for mode in pooling.split("+") if pooling else ():
        check_choice("pooling", mode, MODES)


def parse_texts(values: Mapping[str, Any], first: str, second: str) -> tuple[str, str, tuple[str, ...]]:
    """Parse the two texts of a record and its negatives, which may be a single text or a list.

    Args:
        values: The values of the record by role; `negative` is optional.
        first: The role of the first text.
        second: The role of the second text.

    Returns:
        The first text, the second text, and the negatives.

    Raises:
        Unusable: If a value is not a text, or a negative is empty.
    """
    negative = values.get("negative")
    given = negative if isinstance(negative, list) else [] if negative is None else [negative]
    negatives = tuple(as_text(text, "negative") for text in given)
    if not all(text.strip() for text in negatives):
        raise Unusable("empty negative")
    return as_text(values[first], first), as_text(values[second], second), negatives


def _hash_texts(texts: Sequence[str]) -> Int64s:
    """Compute a 64-bit hash of each text: int64 [texts]."""
    return np.array([xxhash.xxh3_64_intdigest(text.encode()) for text in texts], np.uint64).view(np.int64)


def compute_similarities(
    ones: npt.ArrayLike, others: npt.ArrayLike, similarity: str, width: int | None = None
) -> Float64s:
    """Compute the similarity of vectors, row by row: float64 [N]. The cosine of a zero vector and any other is 0.

    Args:
        ones: The first vectors, [N, H].
        others: The second vectors, [N, H].
        similarity: "cosine" or "dot".
        width: The number of leading dimensions to compare; None to compare all.
    """
    first, second = (np.asarray(side, np.float64)[:, :width] for side in (ones, others))
    if similarity == "cosine":
        first, second = normalize_rows(first), normalize_rows(second)
    products: Float64s = (first * second).sum(-1)
    return products


def normalize_rows(vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Scale each row of an array to length 1; rows of zeros are unchanged.

    >>> normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.sqrt((vectors * vectors).sum(-1, keepdims=True))
    divided: npt.NDArray[Any] = vectors / np.maximum(lengths, vectors.dtype.type(MIN_NORM))
    return divided


def find_nearest(
    queries: Float32s, names: Sequence[str], matrix: Float32s, similarity: str, depth: int
) -> list[dict[str, float]]:
    """Find the rows of a matrix that are most similar to each query.

    Args:
        queries: The query vectors, float32 [Q, H].
        names: The name of each row of the matrix.
        matrix: The vectors to search, float32 [N, H].
        similarity: "cosine" or "dot".
        depth: The number of rows to find for each query, capped at the number of rows.

    Returns:
        For each query, a dictionary that maps row names to similarities, with the most similar row first.
    """
    if similarity == "cosine":
        matrix, queries = normalize_rows(matrix), normalize_rows(queries)
    found, depth = list[dict[str, float]](), min(depth, len(names))
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        products = queries[start : start + QUERIES_AT_ONCE] @ matrix.T
        least = np.partition(products, -depth, axis=1)[:, -depth].tolist()
        for row, bound in zip(products, least, strict=True):
            near = {names[place]: float(row[place]) for place in np.flatnonzero(row >= bound).tolist()}
            found.append({name: near[name] for name in rank_documents(near)[:depth]})
    return found


def score_own_rankings(
    examples: Sequence[VectorExample],
    vectors: Sequence[Float32s],
    similarity: str,
    measures: Sequence[str],
    width: int | None = None,
) -> list[dict[str, float]]:
    """Score how each first text ranks its second text among the second texts and negatives of all examples.

    Equal texts count as one, so a first text that occurs in several examples has several relevant texts. Only the
    MAX_RANKED most similar texts are ranked.

    Args:
        examples: The examples.
        vectors: The vectors of each example's texts, [texts, H].
        similarity: "cosine" or "dot".
        measures: Names of measures, as for `compute_ranking_scores`.
        width: The number of leading dimensions to compare; None to compare all.

    Returns:
        The measures of each distinct first text, in order of first occurrence.
    """
    queries, passages = dict[str, Float32s](), dict[str, Float32s]()
    relevant = dict[str, dict[str, int]]()
    for example, rows in zip(examples, vectors, strict=True):
        queries.setdefault(example.text, rows[0, :width])
        relevant.setdefault(example.text, {})[example.second] = 1
        for text, row in zip((example.second, *example.negatives), rows[1:], strict=True):
            passages.setdefault(text, row[:width])
    asked, matrix = np.stack([*queries.values()]), np.stack([*passages.values()])
    run = dict(zip(queries, find_nearest(asked, [*passages], matrix, similarity, MAX_RANKED), strict=True))
    return list(compute_query_scores(relevant, run, measures).values())
