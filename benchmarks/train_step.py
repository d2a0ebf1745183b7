"""A step of training: our unpadded models next to transformers' classes with the same loss and optimiser.

Forward, backward and AdamW of a small model of each family (BERT-mini: 4 layers of 256, 30,522 words) in float32 on one
thread, 16 rows of up to 128 words of the texts (a token is a word's checksum: its meaning does not matter here, how
often it recurs does), 15 % of them masked: once full, once of all lengths, where 45 % of 16 x 128 are tokens.
The other gets rows padded to 128, as examples of fixed length come to it. Both begin with the same weights and
must have the same loss, without dropout, before they are measured with it; ELECTRA's nearly, because each side draws
what its discriminator reads. Needs the extras `trainer` and `reference`.
"""

import zlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu import their_model
from benchmarks.measuring import Report, Side, cleaned, main, take_turns
from corpora.errors import InputError
from trainer.families.contract import Family, ModelInputs, SpecialIds
from trainer.model.batches import Batch
from trainer.model.objective import Objective, build_model
from trainer.settings.model import ModelSettings

ROWS, WIDTH = 16, 128
VOCAB_SIZE = 30522
SPECIAL_IDS = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
MASKED_SHARE = 0.15
SIZES = {"bert": "mini", "roberta": "mini", **dict.fromkeys(("electra", "albert", "distilbert", "modernbert"), "tiny")}
DRAWN_WITHIN, WITHIN = 2e-3, 1e-5  # losses of each other, where both sides draw what is read, and where not
FULL = (WIDTH,) * ROWS
RAGGED = tuple(round(WIDTH * (row / ROWS) ** 1.4) for row in range(1, ROWS + 1))  # 3 to 128


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare for each family full rows, then rows of all lengths."""
    if find_spec("transformers") is None:
        raise InputError("transformers is not installed: this comparison needs the extras `trainer` and `reference`.")
    torch.set_num_threads(1)
    ids = word_ids(cleaned(texts))
    return [compare(family, batch_of(ids, lengths), rounds) for family in SIZES for lengths in (FULL, RAGGED)]


def compare(family: str, batch: Batch, rounds: int) -> Report:
    """Compare a step of each side on one batch."""
    ours, theirs = twins(family)
    rows = padded(batch, ours.family)
    loss = _check(ours, theirs, batch, rows)
    tokens, what = len(batch.ids), "train step" if family == "bert" else f"train step of {family}"
    return Report(
        title=(
            f"{what}, rows {tokens / (batch.num_sequences * WIDTH):.0%} full: {tokens} tokens in "
            f"{batch.num_sequences} rows of {WIDTH}, {len(batch.points)} masked, medians of {rounds} rounds"
        ),
        amounts={"tokens": tokens},
        rows=take_turns(
            [
                Side(name=type(ours).__name__, call=stepper(ours, lambda: our_loss(ours, batch))),
                Side(name=type(theirs).__name__, call=stepper(theirs, lambda: theirs(**rows).loss)),
            ],
            rounds,
        ),
        notes=(f"losses equal: {loss:.4f} before the first step",),
    )


def word_ids(texts: Sequence[str]) -> Tensor:
    """Return a token for every word of the texts, none of them special."""
    first = SPECIAL_IDS.mask + 1
    words = (word for text in texts for word in text.split())
    return torch.tensor([first + zlib.crc32(word.encode()) % (VOCAB_SIZE - first) for word in words])


def batch_of(word_ids: Tensor, lengths: Sequence[int]) -> Batch:
    """Return words from the first on, and again from there, in sequences of these lengths."""
    number = sum(lengths)
    ids = word_ids.repeat(-(-number // len(word_ids)))[:number].clone()
    generator = torch.Generator().manual_seed(0)
    masked = torch.randperm(number, generator=generator)[: round(MASKED_SHARE * number)].sort().values
    targets = ids[masked]
    ids[masked] = SPECIAL_IDS.mask
    return Batch(
        ids=ids,
        segment_ids=torch.cat([torch.arange(length) // (length // 2 + 1) for length in lengths]),
        boundaries=torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32),
        longest=max(lengths),
        points=masked,
        targets={
            "masked": targets,
            "pair": torch.arange(len(lengths)) % 2,
            "noise": torch.rand(len(targets), generator=generator, dtype=torch.float64),
            "present": torch.ones(number, dtype=torch.bool),
        },
    )


def padded(batch: Batch, family: Family) -> dict[str, Tensor]:
    """Return the batch as the other side takes it: rows of the full width, labels -100 where nothing is masked."""
    labels = torch.full_like(batch.ids, -100)
    labels[batch.points] = batch.targets["masked"]
    lengths = batch.boundaries.diff().tolist()
    rows = {
        name: torch.stack(
            [nn.functional.pad(row, (0, WIDTH - len(row)), value=fill) for row in torch.split(flat, lengths)]
        )
        for name, flat, fill in (
            ("input_ids", batch.ids, SPECIAL_IDS.pad),
            ("attention_mask", torch.ones_like(batch.ids), 0),
            ("labels", labels, -100),
            *([("token_type_ids", batch.segment_ids, 0)] if family.segment_types > 1 else []),
        )
    }
    if family.pairs:
        rows["sentence_order_label" if family.shared_layers else "next_sentence_label"] = batch.targets["pair"]
    return rows


def twins(family: str) -> tuple[Objective, nn.Module]:
    """Return a model of each side, with the same weights."""
    settings = ModelSettings(family=family, size=SIZES[family])
    inputs = ModelInputs(vocab_size=VOCAB_SIZE, special_ids=SPECIAL_IDS, pair_labels=True)
    torch.manual_seed(0)
    ours = build_model(settings, inputs)
    ours.init_weights()
    return ours, their_model(settings, inputs, ours)


def our_loss(model: Objective, batch: Batch) -> Tensor:
    """Return the means over masked tokens and, where there are such terms, over pairs and over all tokens, added."""
    counts = {"masked": len(batch.points), "pair": batch.num_sequences, "replaced": len(batch.ids)}
    shares = torch.tensor([term.weight / counts[term.name] for term in model.terms])
    loss: Tensor = (model(batch)[:, 0] * shares).sum()
    return loss


def _check(ours: Objective, theirs: Any, batch: Batch, rows: dict[str, Tensor]) -> float:
    """Check the losses against one another, without dropout; return the loss."""
    with torch.no_grad():
        one, other = our_loss(ours.eval(), batch), theirs.eval()(**rows).loss
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
