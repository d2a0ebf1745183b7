"""Next-word prediction: turns an encoder into a language model.

    [CLS] the film was ...    each token attends to earlier tokens, and predicts the next one
      └─► the └─► film └─► was

A text is split into blocks of the maximum length. The last token of a block is the first one of the next block, so
every token except the first is predicted once. There are no other labels: a text is its own label.

This is sometimes described as fine-tuning an unchanged BERT with targets shifted by one. But BERT attends to both
sides: the token to predict is in the input, and the model only learns to copy it. So here no token attends to later
ones.

Texts are scored by the summed losses of their tokens, in nats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from corpora.kernels.arrays import Float64s, Int32s
from trainer.objectives.contract import Term
from trainer.tasks.formats.records import as_text
from trainer.tasks.task import Answers, Items, OldKeys, Task, TaskItem, Tokens, with_first
from trainer.tasks.text_encoder import TextEncoder, to_ids

MAX_EXPONENT = log(1.7e308)
LIKELIHOOD = "log_likelihood"


def compute_perplexity(nats: float, num_tokens: int) -> float:
    """Compute the perplexity, which is e to the power of the mean loss per token; infinity if it exceeds float64.

    Perplexity depends on the vocabulary. To compare models with different vocabularies, use `compute_bits_per_byte`.

    Args:
        nats: The summed loss of all tokens, in nats.
        num_tokens: The number of tokens; must not be zero.

    >>> round(compute_perplexity(10 * log(8), 10), 9)
    8.0
    """
    mean = nats / num_tokens
    return exp(mean) if mean < MAX_EXPONENT else float("inf")


def compute_bits_per_byte(nats: float, num_bytes: int) -> float:
    """Compute the loss per byte of text in bits, which does not depend on the vocabulary.

    Args:
        nats: The summed loss of all tokens, in nats.
        num_bytes: The number of UTF-8 bytes of the text; must not be zero.

    >>> compute_bits_per_byte(log(2) * 30, 10)
    3.0
    """
    return nats / num_bytes / log(2)


def compute_next_scores(costs: Float64s) -> dict[str, float]:
    """Compute `log_likelihood` (mean per token), `perplexity`, `bits_per_byte` and `accuracy` over all texts.

    Args:
        costs: float64 [N, 4], for each text: the summed loss in nats, the number of tokens, the number of correctly
            predicted tokens, and the number of UTF-8 bytes.
    """
    nats, tokens, right, size = costs.sum(0).tolist()
    return {
        LIKELIHOOD: -nats / tokens,
        "perplexity": compute_perplexity(nats, int(tokens)),
        "bits_per_byte": compute_bits_per_byte(nats, int(size)),
        "accuracy": right / tokens,
    }


NEXT = Term("next")


class TextCost(NamedTuple):
    """The summed loss of a text in nats, the number of its tokens, and the number of correctly predicted tokens."""

    nats: float
    tokens: int
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTask(Task):
    """The task of predicting the token that follows each token. `metric` is the score used to choose the best epoch."""

    metric: str = ""

    kind: ClassVar[str] = "next"
    builder: ClassVar[str] = "trainer.tasks.heads.next_word:NextModel"
    term: ClassVar[Term] = NEXT
    unit: ClassVar[str] = "point"
    architecture: ClassVar[str] = "next"
    causal: ClassVar[bool] = True
    roles: ClassVar[tuple[str, ...]] = ("text",)
    old_keys: ClassVar[OldKeys] = {"kind": {"direction": "left", "leaky": False}}

    def __post_init__(self) -> None:
        _ = self.metrics

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that can be used to choose the best epoch: mean log-likelihood per token, and accuracy."""
        return with_first(self.metric, (LIKELIHOOD, "accuracy"))

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> str:
        """Return the text of a record, which is the whole example. Raises Unusable if the value is not a text."""
        return as_text(values["text"], "text")

    def make_items(self, examples: Sequence[str], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Build an item for each block of tokens of each text. Blocks are as long as the encoder allows.

        `labelled` is not used, because each text is its own label.
        """
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
        """Sum the losses of the tokens of each text over all of its blocks.

        Args:
            examples: The texts.
            items: The blocks of the texts.
            answers: float32 [P, 2] for each item: the loss of each token, and 1 if it is predicted correctly, else 0.
        """
        sums = np.zeros((len(examples), 3))
        for item, answer in zip(items, answers, strict=True):
            cost, right = answer.astype(np.float64).sum(0)
            sums[item.example] += cost, len(answer), right
        return [TextCost(nats, int(tokens), int(right)) for nats, tokens, right in sums.tolist()]

    def compute_scores(self, examples: Sequence[str], predictions: Sequence[TextCost]) -> dict[str, float]:
        """Compute the scores of `compute_next_scores`, such as the perplexity, over the tokens of all texts."""
        sizes = [len(example.encode()) for example in examples]
        costs = [(*cost, size) for cost, size in zip(predictions, sizes, strict=True)]
        return compute_next_scores(np.array(costs, np.float64))

    def to_row(self, example: str, prediction: TextCost) -> dict[str, Any]:
        """Build a row for output from a text's losses: its `perplexity` and its number of `tokens`."""
        return {"perplexity": compute_perplexity(prediction.nats, prediction.tokens), "tokens": prediction.tokens}

    def judge(self, example: str, prediction: TextCost) -> dict[str, Any]:
        """Return the sums from which texts are scored together: `nats`, `right` (correct tokens) and `bytes`."""
        return {"nats": prediction.nats, "right": prediction.right, "bytes": len(example.encode())}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """Build the task if a `config.json` describes a decoder, otherwise return None."""
        return cls() if config.get("is_decoder") else None


def split_blocks(ids: Int32s, longest: int) -> list[Int32s]:
    """Split token ids into blocks of at most `longest` ids. Each block begins with the previous block's last token.

    >>> [block.tolist() for block in split_blocks(np.arange(6, dtype=np.int32), 3)]
    [[0, 1, 2], [2, 3, 4], [4, 5]]
    """
    return [ids[first : first + longest] for first in range(0, len(ids) - 1, longest - 1)]
