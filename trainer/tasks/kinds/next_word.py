"""The next word, by the shift of one: an encoder becomes a model of texts.

    [CLS] the film was ...    each token sees those before it, and predicts the one after it
      └─► the └─► film └─► was

A text is read in blocks as long as a sequence; the last token of one is the first of the next, so every token but one
is guessed once. Nothing else is learnt from: a text is its own label.

Some describe this as fine-tuning BERT as it is, with targets shifted by one. But BERT sees both sides: the token that
is to be guessed is in the input, and what it learns is to copy. So here no token sees those after it.

Scores of a model of texts, from the sum of what its tokens cost it (natural logarithms, as losses are).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from corpora.kernels.arrays import Float64s, Int32s
from trainer.objectives.contract import Term
from trainer.tasks.formats.records import as_text
from trainer.tasks.task import Answers, Items, RemovedSettings, Task, TaskItem, Tokens, with_first
from trainer.tasks.text_encoder import TextEncoder, to_ids

MAX_EXPONENT = log(1.7e308)
LIKELIHOOD = "log_likelihood"


def compute_perplexity(nats: float, num_tokens: int) -> float:
    """e to the mean cost of a token: as unsure as among so many equally probable ones. Infinite beyond float64.

    It depends on the vocabulary: of models with different ones compare `compute_bits_per_byte`.

    >>> round(compute_perplexity(10 * log(8), 10), 9)
    8.0
    """
    mean = nats / num_tokens
    return exp(mean) if mean < MAX_EXPONENT else float("inf")


def compute_bits_per_byte(nats: float, num_bytes: int) -> float:
    """Return the cost of a byte of the text, in bits: the same scale for all vocabularies.

    >>> compute_bits_per_byte(log(2) * 30, 10)
    3.0
    """
    return nats / num_bytes / log(2)


def compute_next_scores(costs: Float64s) -> dict[str, float]:
    """Return the scores of all texts together. costs: [N, 4], each text's nats, tokens, right ones, and bytes."""
    nats, tokens, right, size = costs.sum(0).tolist()
    return {
        LIKELIHOOD: -nats / tokens,
        "perplexity": compute_perplexity(nats, int(tokens)),
        "bits_per_byte": compute_bits_per_byte(nats, int(size)),
        "accuracy": right / tokens,
    }


NEXT = Term("next")


class TextCost(NamedTuple):
    """The cost of a text for a model: nats of all its tokens, their number, and how many it guesses right."""

    nats: float
    tokens: int
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTask(Task):
    """The token after each. metric: by which an epoch is judged"""

    metric: str = ""

    kind: ClassVar[str] = "next"
    builder: ClassVar[str] = "trainer.tasks.heads.next_word:NextModel"
    term: ClassVar[Term] = NEXT
    unit: ClassVar[str] = "point"
    architecture: ClassVar[str] = "next"
    causal: ClassVar[bool] = True
    roles: ClassVar[tuple[str, ...]] = ("text",)
    removed_settings: ClassVar[RemovedSettings] = {"kind": {"direction": "left", "leaky": False}}

    def __post_init__(self) -> None:
        _ = self.metrics

    @property
    def metrics(self) -> tuple[str, ...]:
        """The mean log-likelihood of a token, and how many are guessed right."""
        return with_first(self.metric, (LIKELIHOOD, "accuracy"))

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> str:
        """A text."""
        return as_text(values["text"], "text")

    def make_items(self, examples: Sequence[str], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """The blocks of each text."""
        special = encoder.inputs.special_ids
        pieces = encoder.tokenize(examples)
        wholes = [np.concatenate([[special.cls], to_ids(each), [special.sep]]).astype(np.int32) for each in pieces]
        return [
            TaskItem(
                sequences=(Tokens(block, np.zeros(len(block), np.int32)),),
                example=number,
                points=np.arange(len(block) - 1, dtype=np.int64),
                targets={NEXT.name: block[1:].astype(np.int64)},
            )
            for number, whole in enumerate(wholes)
            for block in split_blocks(whole, encoder.max_length)
        ]

    def make_predictions(self, examples: Sequence[str], items: Items, answers: Answers) -> list[TextCost]:
        """Return the cost of each text. answers: for each item float32 [P, 2], a token's cost, and 1 if it is right"""
        sums = np.zeros((len(examples), 3))
        for item, answer in zip(items, answers, strict=True):
            cost, right = answer.astype(np.float64).sum(0)
            sums[item.example] += cost, len(answer), right
        return [TextCost(nats, int(tokens), int(right)) for nats, tokens, right in sums.tolist()]

    def compute_scores(self, examples: Sequence[str], predictions: Sequence[TextCost]) -> dict[str, float]:
        """Return the scores of all tokens together."""
        sizes = [len(example.encode()) for example in examples]
        costs = [(*cost, size) for cost, size in zip(predictions, sizes, strict=True)]
        return compute_next_scores(np.array(costs, np.float64))

    def to_row(self, example: str, prediction: TextCost) -> dict[str, Any]:
        """Return the cost of a token of the text."""
        return {"perplexity": compute_perplexity(prediction.nats, prediction.tokens), "tokens": prediction.tokens}

    def judge(self, example: str, prediction: TextCost) -> dict[str, Any]:
        """Return what scores of several texts are made of."""
        return {"nats": prediction.nats, "right": prediction.right, "bytes": len(example.encode())}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """The task of a folder that others wrote."""
        return cls() if config.get("is_decoder") else None


def split_blocks(ids: Int32s, longest: int) -> list[Int32s]:
    """A text in pieces that have one token in common with the one before.

    >>> [block.tolist() for block in split_blocks(np.arange(6, dtype=np.int32), 3)]
    [[0, 1, 2], [2, 3, 4], [4, 5]]
    """
    return [ids[first : first + longest] for first in range(0, len(ids) - 1, longest - 1)]
