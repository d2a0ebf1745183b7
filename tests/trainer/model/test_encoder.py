"""The encoder: sequences end to end give what each gives alone, dropped in training alone, compiled or not.

What is equal up to rounding is compared in float64, where rounding is far below any bound.
"""

import pytest
import torch
from small_batches import LENGTHS, small_batch, small_inputs, small_model, small_settings

from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder

FAMILIES = ("bert", "roberta", "albert", "distilbert")


def encode(encoder: TransformerEncoder, batch: Batch) -> torch.Tensor:
    hidden: torch.Tensor = encoder(batch)
    return hidden


def sequences(ids: torch.Tensor, segment_ids: torch.Tensor, *lengths: int) -> Batch:
    boundaries = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    return Batch(
        ids=ids,
        segment_ids=segment_ids,
        boundaries=boundaries,
        longest=max(lengths),
        points=torch.empty(0, dtype=torch.int64),
        targets={},
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_sequences_together_are_as_each_alone(family: str) -> None:
    encoder = small_model(small_settings(family=family), small_inputs(family)).encoder.eval().double()
    batch = small_batch()
    together = encode(encoder, batch)
    assert together.shape == (sum(LENGTHS), 32)
    for first, length in zip(batch.boundaries.tolist(), LENGTHS, strict=False):
        part = slice(first, first + length)
        alone = encoder(sequences(batch.ids[part], batch.segment_ids[part], length))
        torch.testing.assert_close(together[part], alone, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("where", ["dropout", "attention_dropout"])
def test_dropout_in_training_alone(where: str) -> None:
    encoder = small_model(small_settings(**{where: 0.5}), small_inputs("bert")).encoder
    batch = small_batch()
    assert not torch.equal(encode(encoder, batch), encode(encoder, batch))
    encoder.eval()
    assert torch.equal(encode(encoder, batch), encode(encoder, batch))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler's own look at it
def test_a_compiled_layer_gives_the_same() -> None:
    """Compiled, a processor takes the padded way; lengths change from batch to batch."""
    encoder = small_model(small_settings(), small_inputs("bert")).encoder.eval().double()
    batches = [small_batch(lengths) for lengths in (LENGTHS, (5, 9, 4), (6, 6, 6, 6))]
    wanted = [encode(encoder, batch) for batch in batches]
    encoder.layers[0].compile(backend="aot_eager", dynamic=True)  # the others have its code
    for batch, hidden in zip(batches, wanted, strict=True):
        torch.testing.assert_close(encode(encoder, batch), hidden, atol=1e-10, rtol=1e-10)
