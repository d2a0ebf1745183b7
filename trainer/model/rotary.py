"""Rotary positions (Su et al. 2021, section 3.2.2): queries and keys turned by angles that grow with their places.

The product of a query and a key then depends on how far apart they are and not on where. Number c of a head and
number c + D/2 are a point of the plane (the layout of transformers' ModernBERT), which is turned by
place / base ** (2c / D). ModernBERT has a base of 160,000 where a layer attends to all tokens and of 10,000 where to
a window.

Angles are float32, step by step as transformers makes them, so a model gives the same there and here: at place 8,191
they are up to 7e-4 from the exact ones, and a score may change by as much where both places are shifted. In half
precision they would be wrong from place 256 on; so a rotation is float32, and what is turned is float32 until it is
turned, in a model of any precision.

Cost: a rotation of 8,192 tokens and heads of 64, made once a forward for each base: 1 ms; to turn 8,192 tokens of 4
heads by it, forward and backward: 40 ms, where the matrix that makes them takes 115 (one x86-64 core).
"""

import torch
from torch import Tensor

# Shapes: T tokens of all sequences, A heads, D size of a head, C = D / 2 points.


def rotation(positions_T: Tensor, size: int, base: float) -> Tensor:
    """Cosines and sines of the angles of every token: float32 [2, T, C].

    positions_T: int64, the place of each token in its own sequence
    size:        of a head
    """
    assert size % 2 == 0, f"a head of {size} numbers has no points of the plane"
    powers_C = torch.arange(0, size, 2, dtype=torch.float32, device=positions_T.device) / size
    angles_TC = positions_T.float()[:, None] * (1.0 / base**powers_C)
    return torch.stack([angles_TC.cos(), angles_TC.sin()])


def rotate(qkv_T3AD: Tensor, rotation_2TC: Tensor) -> Tensor:
    """The same queries, keys and values, the first two turned; in the precision they came in."""
    assert rotation_2TC.dtype == torch.float32, f"a rotation in {rotation_2TC.dtype} has lost the places of tokens"
    cosines_T11C, sines_T11C = rotation_2TC[:, :, None, None].unbind(0)
    firsts_T2AC, seconds_T2AC = _at_least_float32(qkv_T3AD[:, :2]).chunk(2, -1)
    turned_T2AD = torch.cat(
        [
            firsts_T2AC * cosines_T11C - seconds_T2AC * sines_T11C,
            seconds_T2AC * cosines_T11C + firsts_T2AC * sines_T11C,
        ],
        -1,
    )
    return torch.cat([turned_T2AD.to(qkv_T3AD.dtype), qkv_T3AD[:, 2:]], 1)


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
