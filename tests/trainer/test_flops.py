"""Model FLOPs: the formula next to torch's own counter, pairs next to counting them, and the table of devices."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_batches import small_batch, small_inputs, small_settings
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from trainer.families.contract import EncoderShape, count_attended_pairs
from trainer.learn import STEP_COUNTS, Step
from trainer.model.objective import Macs, build_model, find_peak_flops
from trainer.watch import measure_flops


def counted(run: Any) -> int:
    """FLOPs that torch counts. Attention by plain products: the fused kernel of processors is not in its list."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        run()
    return int(counter.get_total_flops())


def shape(**fields: Any) -> EncoderShape:
    """An encoder of three layers of 8."""
    sizes = {"vocab_size": 50, "layers": 3, "hidden_size": 8, "heads": 2, "feed_forward_size": 16, "layer_groups": 3}
    rest = {"positions": 64, "first_position": 0, "segment_types": 2, "embedding_size": 8, "activation": "gelu"}
    return EncoderShape(**{**sizes, **rest, "dropout": 0.0, "attention_dropout": 0.0, "norm_epsilon": 1e-12, **fields})


@pytest.mark.parametrize(
    ("family", "pairs", "more"),
    [
        ("bert", True, {}),
        ("roberta", False, {}),
        ("albert", True, {"embedding_size": 16, "layers": 3}),
        ("distilbert", False, {}),
        ("modernbert", False, {}),
    ],
)
def test_the_formula_is_what_torch_counts(family: str, pairs: bool, more: dict[str, Any]) -> None:
    """Fails if a product of forward or backward is forgotten, counted twice, or by padded lengths."""
    settings = small_settings(**{"family": family, "feed_forward_size": 48, "objective": {"kind": "masked"}, **more})
    model = build_model(settings, small_inputs(family, pair_labels=pairs))
    batch = small_batch(pairs=pairs)
    macs = model.count_macs(batch.boundaries.diff().numpy().astype(np.int64), len(batch.points))
    assert counted(lambda: model(batch)[:, 0].sum().backward()) == macs.flops > 0
    with torch.no_grad():
        assert counted(lambda: model(batch)) == Macs(frozen=macs.trained).flops
    for sequences in (batch.num_sequences, batch.num_sequences - 1):  # the last one may only fill the batch
        lengths = batch.boundaries.diff().numpy().astype(np.int64)[:sequences]
        piece = SimpleNamespace(batch=batch, counts=[sequences if name == "sequences" else 0 for name in STEP_COUNTS])
        measured = measure_flops(model, cast(Step, SimpleNamespace(micro_batches=[piece])))
        assert measured is not None
        of_token, of_place = measured
        wanted = model.count_macs(lengths, len(batch.points)).flops
        assert of_token * lengths.sum() + of_place * len(batch.points) == pytest.approx(wanted, rel=1e-12)


def test_gated_and_projected_encoders_cost_what_their_matrices_have() -> None:
    """Fails if the third matrix, the projection, or a narrower vocabulary matrix is not counted, or shared layers
    count once.
    """
    lengths = np.array([5, 2])
    plain = shape().count_macs(lengths)
    assert shape(feed_forward="glu").count_macs(lengths) - plain == 7 * 3 * 8 * 16
    assert shape(embedding_size=4).count_macs(lengths) - plain == 7 * 8 * 4
    assert shape(layer_groups=1).count_macs(lengths) == plain
    assert shape(projects=True).count_macs(lengths) - plain == 7 * 8 * 8
    assert shape(embedding_size=4).count_vocabulary_head_macs(2) == 2 * (8 * 4 + 4 * 50)
    assert shape().count_class_head_macs(7, 1) == 7 * (8 * 8 + 8)


@given(lengths=st.lists(st.integers(0, 20), max_size=5), window=st.none() | st.integers(1, 30), causal=st.booleans())
def test_pairs_are_those_that_attend(lengths: list[int], window: int | None, causal: bool) -> None:
    """Fails if the closed form of pairs is not their number, at the edges of windows and sequences too."""
    side = 100 if window is None else window // 2
    pairs = sum(
        abs(query - key) <= side and (key <= query or not causal)
        for length in lengths
        for query in range(length)
        for key in range(length)
    )
    assert count_attended_pairs(np.array(lengths, np.int64), window, causal) == pairs


def test_windows_are_of_their_layers() -> None:
    """Fails if all layers count the window of one."""
    lengths = np.array([50])
    spared = 2 * 8 * 2 * (count_attended_pairs(lengths, None, False) - count_attended_pairs(lengths, 4, False))
    assert shape().count_macs(lengths) - shape(windows=(None, 4, 4)).count_macs(lengths) == spared > 0


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA H100 80GB HBM3", 989.0),
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA H200", 989.0),
        ("NVIDIA L40S", 362.0),
        ("Tesla V100-SXM2-32GB", 125.0),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA A10", None),
        ("cpu", None),
    ],
)
def test_a_device_is_known_by_its_name(device: str, peak: float | None) -> None:
    """Fails if a device is taken for another, or a part of one for the whole."""
    assert find_peak_flops(device) == (None if peak is None else peak * 1e12)


def test_published_figures() -> None:
    """BERT-base at 128 and 512, FLOPs of training a token: 0.545 and 0.588 GF with 15 % of tokens masked."""
    base = shape(vocab_size=30522, layers=12, hidden_size=768, feed_forward_size=3072, embedding_size=768)
    for length, expected in ((128, 0.545), (512, 0.588)):
        lengths = np.full(100, length)
        macs = base.count_macs(lengths) + base.count_vocabulary_head_macs(round(0.15 * lengths.sum()))
        assert Macs(macs).flops / lengths.sum() / 1e9 == pytest.approx(expected, abs=0.001)
