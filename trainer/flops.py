"""Model FLOPs of a step, from sizes and lengths alone, and their share of what a device can do at most (MFU). No torch.

    FLOPs = 2 a multiplication with its addition (MAC), 3 times: forward, and in the backward pass one for the weights
            and one for what they were multiplied with; of a frozen teacher forward alone

    MACs of an encoder    tokens x embedding size x hidden size, where these differ
      and in each layer   tokens x hidden size x (4 hidden sizes + 2 or, gated, 3 feed-forward sizes)
                          + 2 x hidden size x pairs of a token and one it attends to
    MACs of a head        places it reads x its matrices, the vocabulary's included

Counted are real tokens, at their own lengths: what fills a batch is waste. A layer that is shared counts each time it
is gone through; a window counts the pairs inside it, a causal layer the pairs of a token with those it may see. Not
counted are biases, norms, activations, softmax, looking up embeddings, the optimizer and what activation checkpointing
or FlashAttention compute again: as in Chowdhery et al. 2022, appendix B, whose name MFU is.

Promise: without windows and causal layers these are exactly the products that torch's `FlopCounterMode` counts in
forward and backward.
"""

import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Int64s
from trainer.families.contract import EncoderShape

FLOPS_OF_MAC = 2
PASSES = 3  # forward, and two products backward for each of it

# Most floating-point operations a second, in units of 10^12: dense products of bfloat16 (float16 on V100 and T4) summed
# in float32, from the makers' data sheets. Words of the device's name; the row of most words counts.
PEAKS: Mapping[tuple[str, ...], float] = MappingProxyType(
    {
        ("V100",): 125.0,
        ("T4",): 65.0,
        ("A30",): 165.0,
        ("A40",): 149.7,
        ("A100",): 312.0,
        ("A800",): 312.0,
        ("L4",): 121.0,
        ("L40S",): 362.0,
        ("H100",): 989.0,
        ("H100", "PCIE"): 756.0,
        ("H100", "NVL"): 835.0,
        ("H800",): 989.0,
        ("H20",): 148.0,
        ("H200",): 989.0,
        ("GH200",): 989.0,
        ("B200",): 2250.0,
        ("RTX", "3090"): 71.0,
        ("RTX", "4090"): 165.2,
        ("MI300X",): 1307.4,
    }
)
PARTS = frozenset({"MIG", "LAPTOP"})  # words of what has the name of a device and is less


class Macs(NamedTuple):
    """Multiplications with additions of a forward pass: of what learns, and of what is frozen."""

    trained: int = 0
    frozen: int = 0

    @property
    def flops(self) -> int:
        """The FLOPs of a step: forward and backward, forward alone for what is frozen."""
        return FLOPS_OF_MAC * (PASSES * self.trained + self.frozen)


def encoder_macs(shape: EncoderShape, lengths: Int64s) -> int:
    """MACs of a forward pass over sequences of these lengths."""
    hidden, tokens = shape.hidden_size, int(lengths.sum())
    matrices = hidden * (4 * hidden + (3 if shape.feed_forward == "glu" else 2) * shape.feed_forward_size)
    projection = hidden * shape.embedding_size if shape.projects or shape.embedding_size != hidden else 0
    windows = Counter(map(shape.window, range(shape.layers)))
    pairs = sum(
        layers * attended_pairs(lengths, window, shape.causal is not None) for window, layers in windows.items()
    )
    return tokens * (projection + shape.layers * matrices) + 2 * hidden * pairs


def attended_pairs(lengths: Int64s, window: int | None, causal: bool) -> int:
    """Pairs of a token and one it attends to, in sequences of these lengths.

    >>> attended_pairs(np.array([3, 2]), None, False), attended_pairs(np.array([4]), 2, False)
    (13, 10)
    """
    side = np.maximum(lengths - 1, 0) if window is None else np.minimum(window // 2, np.maximum(lengths - 1, 0))
    one_side = lengths * side - side * (side + 1) // 2  # the first tokens have fewer before them
    return int((lengths + (1 if causal else 2) * one_side).sum())


def vocabulary_head_macs(shape: EncoderShape, places: int) -> int:
    """Dense, then every word of the vocabulary: the head of masked tokens, and of next ones."""
    return places * shape.embedding_size * (shape.hidden_size + shape.vocab_size)


def class_head_macs(shape: EncoderShape, places: int, classes: int = 2) -> int:
    """Dense, then a few classes: the head of pairs reads first tokens, that of replaced tokens (one class) all."""
    return places * shape.hidden_size * (shape.hidden_size + classes)


def peak_flops(device: str) -> float | None:
    """Return the most FLOPs a second of a device of this name; None where it is unknown.

    >>> peak_flops("NVIDIA H100 80GB HBM3"), peak_flops("NVIDIA H100 PCIe"), peak_flops("cpu")
    (989000000000000.0, 756000000000000.0, None)
    """
    words = set(re.findall(r"[A-Z0-9]+", device.upper()))
    rows = [row for row in PEAKS if words.issuperset(row)]
    return None if not rows or words & PARTS else PEAKS[max(rows, key=len)] * 1e12
