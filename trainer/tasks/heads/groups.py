"""Softmax within groups of different sizes that follow one another, without a loop over them.

Shapes in the names of tensors: N values, G groups, A answers of each value.
"""

import torch
from torch import Tensor


def numbers_of(sizes_G: Tensor, num_values: int) -> Tensor:
    """int64 [N]: to which group each value belongs. num_values: the sum of the sizes"""
    groups = torch.arange(len(sizes_G), device=sizes_G.device)
    return torch.repeat_interleave(groups, sizes_G, output_size=num_values)


def log_softmax_within(logits_NA: Tensor, groups_N: Tensor, num_groups: int) -> Tensor:
    """[N, A]: of each answer by itself the logarithm of the values' shares in their group."""
    shifted_NA = logits_NA - _highest(logits_NA.detach(), groups_N, num_groups)
    sums_GA = logits_NA.new_zeros(num_groups, logits_NA.shape[1]).index_add(0, groups_N, shifted_NA.exp())
    return shifted_NA - sums_GA.log().gather(0, groups_N[:, None].expand_as(logits_NA))


def highest_within(logits_NA: Tensor, groups_N: Tensor, num_groups: int) -> Tensor:
    """[N, A]: whether no other value of its group is higher."""
    return logits_NA == _highest(logits_NA, groups_N, num_groups)


def _highest(logits_NA: Tensor, groups_N: Tensor, num_groups: int) -> Tensor:
    """[N, A]: the highest value of each one's group."""
    groups_NA = groups_N[:, None].expand_as(logits_NA)
    highest_GA = logits_NA.new_zeros((num_groups, logits_NA.shape[1]))
    return highest_GA.scatter_reduce_(0, groups_NA, logits_NA, "amax", include_self=False).gather(0, groups_NA)
