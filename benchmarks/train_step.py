"""A step of training: our unpadded models next to transformers' classes with the same loss and optimiser.

Forward, backward and AdamW of a small model of each family (BERT-mini: 4 layers of 256, 30,522 words) in float32 on one
thread, 16 rows of up to 128 words of the texts (a token is a word's checksum: its meaning does not matter here, how
often it recurs does), 15 % of them masked: once full, once of all lengths, where 45 % of 16 x 128 are tokens.
The other gets rows padded to 128, as examples of fixed length come to it; once as its class is, which computes logits
for every token, and once with its head on the masked rows alone, as somebody sets it up who looks at its cost. All
begin with the same weights and must have the same loss, without dropout, before they are measured with it; ELECTRA's
nearly, because each side draws what its discriminator reads. Needs the extras `trainer` and `reference`.
"""

import zlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.gpu import FIRST_WORD, SPECIAL_IDS, masked_examples, mean_loss, padded, their_model
from benchmarks.measuring import Report, Side, cleaned, main, take_turns
from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from shards.reading.loader import GatheredExamples
from trainer.families.contract import ModelInputs
from trainer.model.batches import to_batch
from trainer.model.objective import Objective, build_model
from trainer.settings.model import ModelSettings

ROWS, WIDTH = 16, 128
INPUTS = ModelInputs(vocab_size=30522, special_ids=SPECIAL_IDS, pair_labels=True)
MASKED_SHARE = 0.15
SIZES = {"bert": "mini", "roberta": "mini", **dict.fromkeys(("electra", "albert", "distilbert", "modernbert"), "tiny")}
DRAWN_WITHIN, WITHIN = 2e-3, 1e-5  # losses of each other, where both sides draw what is read, and where not
FULL = (WIDTH,) * ROWS
HEADS = {  # by family, the module of transformers' class whose input can be the masked rows alone
    "bert": "cls.predictions", "roberta": "lm_head", "albert": "predictions", "distilbert": "vocab_transform",
    "modernbert": "head",
}  # fmt: skip
RAGGED = tuple(round(WIDTH * (row / ROWS) ** 1.4) for row in range(1, ROWS + 1))  # 3 to 128


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare for each family full rows, then rows of all lengths."""
    if find_spec("transformers") is None:
        raise InputError("transformers is not installed: this comparison needs the extras `trainer` and `reference`.")
    torch.set_num_threads(1)
    ids = word_ids(cleaned(texts))
    return [compare(family, examples_of(ids, lengths), rounds) for family in SIZES for lengths in (FULL, RAGGED)]


def compare(family: str, gathered: GatheredExamples, rounds: int) -> Report:
    """Compare a step of each side on the same examples."""
    settings = ModelSettings(family=family, size=SIZES[family])
    torch.manual_seed(0)
    ours = build_model(settings, INPUTS)
    ours.init_weights()
    theirs = their_model(settings, INPUTS, ours)
    objective, rows = settings.objective_settings, padded(settings, INPUTS, gathered, WIDTH)
    batch = to_batch(gathered, objective.read(gathered, ours.terms, seed=0))
    counts = objective.count_targets(gathered, ours.terms)
    loss = _check(ours, theirs, lambda: mean_loss(ours, batch, counts), rows)
    sides = {type(theirs).__name__: (theirs, rows)}
    if family in HEADS:
        sparse = with_masked_head(family, their_model(settings, INPUTS, ours), rows)
        _check(ours, sparse[0], lambda: mean_loss(ours, batch, counts), sparse[1])
        sides[f"{type(theirs).__name__}, head on masked rows"] = sparse
    tokens, what = len(gathered.ids), "train step" if family == "bert" else f"train step of {family}"
    return Report(
        title=(
            f"{what}, rows {tokens / (gathered.num_examples * WIDTH):.0%} full: {tokens} tokens in "
            f"{gathered.num_examples} rows of {WIDTH}, {len(gathered.masked)} masked, medians of {rounds} rounds"
        ),
        amounts={"tokens": tokens},
        rows=take_turns(
            [
                Side(name=type(ours).__name__, call=stepper(ours, lambda: mean_loss(ours, batch, counts))),
                *(
                    Side(name=name, call=stepper(model, lambda model=model, read=read: model(**read).loss))
                    for name, (model, read) in sides.items()
                ),
            ],
            rounds,
        ),
        notes=(f"losses equal: {loss:.4f} before the first step",),
    )


def with_masked_head(family: str, model: Any, rows: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
    """Return a model of transformers whose head reads the masked rows only, and its inputs: labels of these rows."""
    wanted = (rows["labels"] != -100).flatten()
    head = model.get_submodule(HEADS[family])
    head.register_forward_pre_hook(lambda module, inputs: (inputs[0].flatten(0, 1)[wanted], *inputs[1:]))
    return model, {**rows, "labels": rows["labels"].flatten()[wanted]}


def word_ids(texts: Sequence[str]) -> Int64s:
    """Return a token for every word of the texts, none of them special."""
    words = (word for text in texts for word in text.split())
    return np.array([FIRST_WORD + zlib.crc32(word.encode()) % (INPUTS.vocab_size - FIRST_WORD) for word in words])


def examples_of(word_ids: Int64s, lengths: Sequence[int]) -> GatheredExamples:
    """Return words from the first on, and again from there, in examples of these lengths."""
    return masked_examples(
        np.resize(word_ids, sum(lengths)), np.array(lengths), MASKED_SHARE, np.random.default_rng(0), 0
    )


def _check(ours: Objective, theirs: Any, loss_of: Callable[[], Tensor], rows: dict[str, Tensor]) -> float:
    """Check the losses against one another, without dropout; return the loss."""
    ours.eval()
    with torch.no_grad():
        one, other = loss_of(), theirs.eval()(**rows).loss
    within = DRAWN_WITHIN if "replaced" in (term.name for term in ours.terms) else WITHIN
    assert torch.isclose(one, other, rtol=within), f"the losses differ: {one} and {other}"
    ours.train()
    theirs.train()
    return float(one)


def stepper(model: nn.Module, loss_of: Callable[[], Tensor]) -> Callable[[int], None]:
    """Return a call that trains a step, once called already."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def call(seed: int) -> None:
        torch.manual_seed(seed)
        torch.autograd.backward(loss_of())
        optimizer.step()
        optimizer.zero_grad()

    call(0)
    return call


if __name__ == "__main__":
    main(benchmark)
