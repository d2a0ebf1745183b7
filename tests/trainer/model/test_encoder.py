"""The encoder: sequences end to end give what each gives alone, layers work alone, weights come when asked.

What is equal up to rounding is compared in float64, where rounding is far below any bound.
"""

import math

import pytest
import torch
from small_batches import LENGTHS, small_batch, small_inputs, small_model, small_settings
from torch import nn
from torch.utils.checkpoint import checkpoint

from trainer.model.batches import Batch
from trainer.model.encoder import ACTIVATIONS, TransformerEncoder
from trainer.settings.model import encoder_shape

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


def test_positions_and_segments_count() -> None:
    encoder = small_model(small_settings(), small_inputs("bert")).encoder.eval().double()
    ids, one = torch.full((6,), 7), torch.zeros(6, dtype=torch.int64)
    with_positions = encode(encoder, sequences(ids, one, 6))
    assert not torch.allclose(with_positions[0], with_positions[5], atol=1e-2)
    assert encoder.embeddings.position is not None
    torch.nn.init.zeros_(encoder.embeddings.position.weight)
    without = encode(encoder, sequences(ids, one, 6))
    assert torch.allclose(without[0], without[5], atol=1e-10)
    assert not torch.allclose(without, encode(encoder, sequences(ids, one + 1, 6)), atol=1e-2)


def test_roberta_has_one_segment_and_positions_behind_the_padding() -> None:
    settings, inputs = small_settings(family="roberta"), small_inputs("roberta")
    shape = encoder_shape(settings, inputs)
    assert (shape.segment_types, shape.first_position, shape.positions) == (1, 2, 42)
    encoder = small_model(settings, inputs).encoder.eval()
    batch = small_batch()
    wanted = encode(encoder, batch)
    with torch.no_grad():
        encoder.embeddings.position.weight[:2] += 100  # rows that no token takes
    assert torch.equal(encode(encoder, batch), wanted)
    batch.segment_ids.zero_()
    assert torch.equal(encode(encoder, batch), wanted)


def test_a_layer_stands_alone() -> None:
    """Checkpointed one by one, layers give the same gradients."""
    model = small_model(small_settings(dropout=0.2, attention_dropout=0.2), small_inputs("bert"))
    encoder, batch = model.encoder, small_batch()
    hidden = encoder.embeddings(batch)
    gradients = []
    for recomputed in (False, True):
        torch.manual_seed(1)
        vectors = hidden.detach()
        for layer in encoder.layers:
            arguments = (vectors, batch.boundaries, batch.longest)
            vectors = checkpoint(layer, *arguments, use_reentrant=False) if recomputed else layer(*arguments)
        gradients.append(torch.autograd.grad(vectors.square().sum(), list(encoder.layers.parameters())))
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    assert all(gradient.abs().sum() > 0 for gradient in gradients[0])


@pytest.mark.parametrize("where", ["dropout", "attention_dropout"])
def test_dropout_in_training_alone(where: str) -> None:
    encoder = small_model(small_settings(**{where: 0.5}), small_inputs("bert")).encoder
    batch = small_batch()
    assert not torch.equal(encode(encoder, batch), encode(encoder, batch))
    encoder.eval()
    assert torch.equal(encode(encoder, batch), encode(encoder, batch))


def test_activations() -> None:
    x = torch.tensor([-2.0, -0.5, 0.0, 1.5], dtype=torch.float64)
    erf = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()]
    tanh = [v * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in x.tolist()]
    for name, expected in (("gelu", erf), ("gelu-tanh", tanh)):
        torch.testing.assert_close(ACTIVATIONS[name](x), x.new_tensor(expected), atol=1e-10, rtol=1e-10)
    assert ACTIVATIONS["relu"](x).tolist() == [0.0, 0.0, 0.0, 1.5]
    assert not torch.equal(ACTIVATIONS["gelu"](x), ACTIVATIONS["gelu-tanh"](x))


def test_every_layer_norm_has_the_familys_epsilon() -> None:
    for family, epsilon in (("bert", 1e-12), ("roberta", 1e-5)):
        model = small_model(small_settings(family=family), small_inputs(family, pair_labels=True))
        norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
        assert len(norms) == 1 + 2 * 2 + 1 and {norm.eps for norm in norms} == {epsilon}


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
