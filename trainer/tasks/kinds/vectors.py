"""The base of tasks whose answer is a vector for every text: how it is made, and how two are compared.

texts of an item: first, second, hard negatives ─► a vector each ─► cosines, or dot products
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s, Float64s, Int64s
from corpora.store.settings import check_choice, check_range
from trainer.tasks.contract import Task, TaskItem, Tokens
from trainer.tasks.formats.records import Unusable, as_text
from trainer.tasks.scores.ranking import ranking_scores_by_query
from trainer.tasks.text_encoder import TextEncoder, ids_of, segments_of

POOLINGS = ("mean", "cls", "max")
SIMILARITIES = ("cosine", "dot")
SAME = "same"  # the target that numbers the texts of a batch: int64 [sequences], equal where texts are
TINY = 1e-12  # least length of a vector that is divided by it
QUERIES_AT_ONCE = 256  # that are ranked together


class VectorExample(NamedTuple):
    """Texts that are compared. label: of the first two, where there is one; negatives: texts unlike the first"""

    text: str
    second: str
    negatives: tuple[str, ...] = ()
    label: Any = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them, in the order of an item's sequences."""
        return (self.text, self.second, *self.negatives)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTask(Task):
    """The base of the tasks with a vector for every text.

    Predictions are the vectors of each example's texts, each followed by logits of a pair's classes: [texts, H + C].

    pooling: what a text's vector is of its tokens' vectors: their "mean", "cls" (the first), or "max" by dimension
    scale:   by what similarities are multiplied before the cross-entropy over the texts of a batch; 0: by 20 where they
             are cosines, not at all where they are dot products
    widths:  first dimensions of a vector that are learnt to do by themselves, besides all of them (Kusupati et al.
             2022, Matryoshka): the loss is the sum over widths, `width_weights` times each; the last weight is of all
    width_weights: none: 1 each
    """

    pooling: str = "mean"
    scale: float = 0.0
    widths: tuple[int, ...] = ()
    width_weights: tuple[float, ...] = ()

    builder: ClassVar[str] = "trainer.tasks.heads.embedding:VectorModel"
    usual_length: ClassVar[int] = 128

    def __post_init__(self) -> None:
        check_choice("pooling", self.pooling, POOLINGS)
        check_range("scale", self.scale, 0, 1e6)
        if any(width < 1 for width in self.widths) or len({*self.widths}) < len(self.widths):
            raise InputError(f"widths = {list(self.widths)}: give numbers of dimensions from 1 on, each once.")
        if self.width_weights and len(self.width_weights) != len(self.widths) + 1:
            raise InputError(
                f"width_weights has {len(self.width_weights)} numbers for {len(self.widths)} widths: give one for each "
                "and one more for the whole vector, or none."
            )

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the loss at each width, that of the whole vector last."""
        return self.width_weights or (1.0,) * (len(self.widths) + 1)

    @property
    def by(self) -> str:
        """The way in which vectors are compared."""
        return "cosine"

    @property
    def factor(self) -> float:
        """The value of `scale`, or its default."""
        return self.scale or (20.0 if self.by == "cosine" else 1.0)

    @property
    def shared(self) -> bool:
        """True if one encoder reads all texts; else one reads the first and one the others."""
        return True

    @property
    def num_outputs(self) -> int:
        """The number of classes of a pair that a matrix predicts."""
        return 0

    def at_widths(self, score: Callable[[int | None], dict[str, float]], main: str) -> dict[str, float]:
        """Scores of whole vectors, and the main one of each smaller width. score: of first dimensions; None: of all"""
        return score(None) | {f"{main}_at_{width}": score(width)[main] for width in self.widths}

    def targets(self, label: Any) -> Mapping[str, npt.NDArray[Any]]:
        """Return the targets of an example besides SAME, of its label."""
        return {}

    def items(self, examples: Sequence[VectorExample], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Return an item for each example, a sequence for each of its texts."""
        encodings = iter(encoder.encode([text for example in examples for text in example.texts]))
        items = []
        for number, example in enumerate(examples):
            some = [next(encodings) for _ in example.texts]
            more = self.targets(example.label) if labelled else {}
            items.append(
                TaskItem(
                    sequences=tuple(Tokens(ids_of(encoding), segments_of(encoding)) for encoding in some),
                    example=number,
                    targets={SAME: _digests(example.texts), **more},
                )
            )
        return items


def texts_of(values: Mapping[str, Any], first: str, second: str) -> tuple[str, str, tuple[str, ...]]:
    """Return two texts by their roles, and the negatives: a text, or a list of some. Raises Unusable."""
    negative = values.get("negative")
    given = negative if isinstance(negative, list) else [] if negative is None else [negative]
    negatives = tuple(as_text(text, "negative") for text in given)
    if not all(text.strip() for text in negatives):
        raise Unusable("empty negative")
    return as_text(values[first], first), as_text(values[second], second), negatives


def _digests(texts: Sequence[str]) -> Int64s:
    """A number for each text."""
    return np.array([xxhash.xxh3_64_intdigest(text.encode()) for text in texts], np.uint64).view(np.int64)


def similarities(ones: npt.ArrayLike, others: npt.ArrayLike, by: str, width: int | None = None) -> Float64s:
    """Return similarities row by row, of first dimensions: float64 [N]. A vector of zeros is like no other."""
    first, second = (np.asarray(side, np.float64)[:, :width] for side in (ones, others))
    if by == "cosine":
        first, second = unit_rows(first), unit_rows(second)
    products: Float64s = (first * second).sum(-1)
    return products


def unit_rows(vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each row at length 1; a row of zeros stays.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.sqrt((vectors * vectors).sum(-1, keepdims=True))
    divided: npt.NDArray[Any] = vectors / np.maximum(lengths, vectors.dtype.type(TINY))
    return divided


def own_ranking(
    examples: Sequence[VectorExample],
    vectors: Sequence[Float32s],
    by: str,
    measures: Sequence[str],
    width: int | None = None,
) -> list[dict[str, float]]:
    """Score each first text's ranking of its second among the seconds and negatives of all examples; in their order.

    Equal texts are one: a first text that is in several examples has several to find. Cost: a matrix product of
    all first texts and all others, QUERIES_AT_ONCE rows at a time; the first hundred of each are kept.
    """
    queries, passages = dict[str, Float32s](), dict[str, Float32s]()
    relevant = dict[str, dict[str, int]]()
    for example, rows in zip(examples, vectors, strict=True):
        queries.setdefault(example.text, rows[0, :width])
        relevant.setdefault(example.text, {})[example.second] = 1
        for text, row in zip((example.second, *example.negatives), rows[1:], strict=True):
            passages.setdefault(text, row[:width])
    names, matrix = [*passages], np.stack([*passages.values()])
    asked = np.stack([*queries.values()])
    if by == "cosine":
        matrix, asked = unit_rows(matrix), unit_rows(asked)
    run = dict[str, dict[str, float]]()
    depth = min(len(names), 100)
    for start in range(0, len(asked), QUERIES_AT_ONCE):
        products = asked[start : start + QUERIES_AT_ONCE] @ matrix.T
        best = np.argpartition(-products, depth - 1, axis=1)[:, :depth]
        for text, places, row in zip([*queries][start : start + QUERIES_AT_ONCE], best, products, strict=False):
            run[text] = {names[place]: float(row[place]) for place in places.tolist()}
    return list(ranking_scores_by_query(relevant, run, measures).values())
