"""Optimizers for sharded parameters: parameter groups with their learning rates, and optimizers that torch lacks.

AdamW with corrected moments is torch's own. LAMB, StableAdamW, and AdamW as BERT's authors wrote it are implemented
here. All of them keep Adam's two moments (Kingma, Ba 2015), but use them differently:

    AdamW        w -= rate (u + decay w)                          u = m / (sqrt(v) + epsilon)
    Lamb         w -= rate ratio (u + decay w)                    ratio = |w| / |u + decay w| for each matrix
    StableAdamW  w -= rate / max(1, RMS) (u + decay w)            RMS² = mean(g² / max(v, epsilon²)) for each parameter

Bias correction is part of the averaging of the moments: if beta is replaced by beta (1 - beta^(t-1)) / (1 - beta^t),
the t-th average is the corrected one (Shazeer, Stern 2018, section 7.1).

Promise: norms and means are computed over whole parameters, however many processes hold a part of them, so the results
differ from those of one process only by rounding. Nothing waits for the device.

Cost: on a GPU, a step takes a few calls for all parameters of a group; on a CPU, a few for each piece that fits into
its cache. For norms and means, the processes communicate once per step, with two numbers per matrix. Memory: weights,
gradients and moments, and on a GPU a temporary copy of the weights during a step. Gradients are overwritten with
intermediate results. A step of 11 million parameters takes 29, 40 and 53 ms (AdamW, LAMB, StableAdamW), and 8 ms with
torch's fused AdamW (one core of an AMD EPYC, 2026-11-23).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from trainer.settings.training import TrainingSettings

_LAYER = re.compile(r"(?P<encoder>(?:.*\.)?)layers\.(?P<number>\d+)\.")
PIECE = 1 << 16  # numbers of a parameter that a thread of a processor takes at once, through all calls of a step


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Build the optimizer named in the settings ("adamw", "lamb", "stable-adamw") for all trainable parameters."""
    groups = group_parameters(model, settings)
    betas = settings.beta1, settings.beta2
    if settings.optimizer == "adamw" and settings.bias_correction:
        return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, eps=settings.epsilon, fused=True)
    kind = {"adamw": AdamW, "lamb": Lamb, "stable-adamw": StableAdamW}[settings.optimizer]
    correction = settings.bias_correction
    return kind(groups, lr=settings.learning_rate, betas=betas, eps=settings.epsilon, bias_correction=correction)


def group_parameters(model: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Split the trainable parameters into groups for the optimizer.

    Groups separate matrices from vectors and, if the learning rate depends on the layer, each depth. Vectors (biases
    and norm weights) have no weight decay.

    Returns:
        Dictionaries with the keys `params`, `weight_decay` and, unless it is 1, `rate_scale`, the group's factor for
        the learning rate.
    """
    learning = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    scales = compute_rate_scales(list(learning), settings.layer_decay)
    groups = list[dict[str, Any]]()
    for scale in sorted(set(scales.values()), reverse=True):
        own = [parameter for name, parameter in learning.items() if scales[name] == scale]
        scaled = {} if scale == 1 else {"rate_scale": scale}
        groups += [
            {"params": [p for p in own if p.ndim > 1], "weight_decay": settings.weight_decay, **scaled},
            {"params": [p for p in own if p.ndim <= 1], "weight_decay": 0.0, **scaled},
        ]
    return [group for group in groups if group["params"]]


def compute_rate_scales(names: Sequence[str], layer_decay: float) -> dict[str, float]:
    """Compute the learning-rate factor of each parameter: d^(n + 2 - depth) for n layers, as in ELECTRA's code.

    Embeddings have depth 0, layers 1 to n, the rest of the encoder n + 1, and heads n + 2. Layers that share parameters
    (ALBERT) count as one layer.

    Args:
        names: The names of the parameters.
        layer_decay: The factor d between neighboring depths.

    >>> compute_rate_scales(["encoder.embeddings.word.weight", "encoder.layers.0.bias", "head.bias"], 0.5)
    {'encoder.embeddings.word.weight': 0.125, 'encoder.layers.0.bias': 0.25, 'head.bias': 1.0}
    """
    layers = [match for match in map(_LAYER.match, names) if match]
    depths = {match["encoder"]: 0 for match in layers}
    for match in layers:
        depths[match["encoder"]] = max(depths[match["encoder"]], int(match["number"]) + 1)
    return {name: layer_decay ** _count_depths_above(name, depths) for name in names}


def _count_depths_above(name: str, layers: Mapping[str, int]) -> int:
    """Count how many depths a parameter is below the heads, which have the greatest depth.

    Args:
        name: The name of the parameter.
        layers: Maps each encoder's name prefix to its number of layers.
    """
    encoder = max((each for each in layers if name.startswith(each)), key=len, default=None)
    if encoder is None:
        return 0
    match = _LAYER.match(name)
    if match:
        return layers[encoder] + 1 - int(match["number"])
    return layers[encoder] + 2 if name.removeprefix(encoder).startswith("embedding") else 1


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of an optimizer for the next step. Each group's rate is multiplied by its `rate_scale`."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_scale", 1.0)


def set_weight_decay(optimizer: Optimizer, weight_decay: float) -> None:
    """Set the weight decay of an optimizer for the following steps. Groups of vectors keep a decay of 0."""
    for group in optimizer.param_groups:
        group["weight_decay"] = weight_decay if group["params"][0].ndim > 1 else 0.0


class GroupTensors(NamedTuple):
    """The parameters of a parameter group that have gradients, with their optimizer state.

    Attributes:
        group: The optimizer's parameter group, with its settings.
        parameters: The parameters, which may be sharded.
        weights: This process's shards of the parameters.
        gradients: The gradients of these shards. They are overwritten during a step.
        averages: The first moments.
        squares: The second moments.
    """

    group: dict[str, Any]
    parameters: list[Tensor]
    weights: list[Tensor]
    gradients: list[Tensor]
    averages: list[Tensor]
    squares: list[Tensor]

    @property
    def decay(self) -> float:
        """The weight decay of the group, which is multiplied by the learning rate."""
        return float(self.group["weight_decay"])

    def iter_pieces(self) -> Iterator["GroupTensors"]:
        """Yield the group's tensors in pieces that fit into a CPU cache. Each piece belongs to a single parameter.

        On a GPU, where one call handles many tensors, the whole group is yielded at once.
        """
        if _is_on_gpu(self.weights):
            yield self
            return
        held = zip(self.weights, self.gradients, self.averages, self.squares, strict=True)
        size = PIECE * torch.get_num_threads()
        for parameter, tensors in zip(self.parameters, held, strict=True):
            for piece in zip(*(torch.split(tensor.view(-1), size) for tensor in tensors), strict=True):
                yield GroupTensors(self.group, [parameter], *([each] for each in piece))


class AdamW(Optimizer):
    """AdamW optimizer (Loshchilov, Hutter 2019) for sharded parameters."""

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        bias_correction: bool = True,
    ) -> None:
        """Create the optimizer.

        Args:
            groups: The parameter groups, as `group_parameters` returns them.
            lr: The learning rate.
            betas: The decay rates of the two moments.
            eps: The number added to the square root of the second moment.
            bias_correction: True to correct the bias of the moments in early steps.
        """
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0}
        super().__init__(groups, {**defaults, "bias_correction": bias_correction, "steps": 0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no caller passes a closure
        """Update the weights from the gradients, in place. The gradients are overwritten. `closure` must be None."""
        parts = [part for part in map(self._collect_tensors, self.param_groups) if part.parameters]
        for part in parts:
            for piece in part.iter_pieces():
                _move_moments(piece)
                self._prepare(piece)
        if parts:
            self._finish(parts)

    def _collect_tensors(self, group: dict[str, Any]) -> GroupTensors:
        group["steps"] += 1
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return GroupTensors(
            group,
            parameters,
            _to_local(parameters),
            _to_local([parameter.grad for parameter in parameters]),
            _to_local([self.state[parameter]["exp_avg"] for parameter in parameters]),
            _to_local([self.state[parameter]["exp_avg_sq"] for parameter in parameters]),
        )

    def _prepare(self, piece: GroupTensors) -> None:
        """Do the part of an update that needs only a piece of the parameters, while it is in the CPU cache.

        In AdamW this is the whole update.
        """
        _put_updates(piece)
        torch._foreach_add_(piece.weights, piece.gradients, alpha=-piece.group["lr"])

    def _finish(self, parts: Sequence[GroupTensors]) -> None:
        """Do the part of an update that needs whole parameters, after their last piece. In AdamW there is none."""


class Lamb(AdamW):
    """LAMB optimizer (You et al. 2019, algorithm 2) as used by ALBERT's authors: vectors have no trust ratio."""

    def _prepare(self, piece: GroupTensors) -> None:
        _put_updates(piece)

    def _finish(self, parts: Sequence[GroupTensors]) -> None:
        matrices = [
            (parameter, weight, update)
            for part in parts
            for parameter, weight, update in zip(part.parameters, part.weights, part.gradients, strict=True)
            if parameter.ndim > 1
        ]
        if matrices:
            parameters, weights, updates = map(list, zip(*matrices, strict=True))
            norms = sum_squares([*parameters, *parameters], [*weights, *updates]).sqrt()
            of_weights, of_updates = norms.view(2, -1)
            ratios = torch.where((of_weights > 0) & (of_updates > 0), of_weights / of_updates, 1.0)
            torch._foreach_mul_(updates, list(ratios.unbind()))
        for part in parts:
            torch._foreach_add_(part.weights, part.gradients, alpha=-part.group["lr"])


class StableAdamW(AdamW):
    """AdamW that lowers the learning rate of a parameter if its gradient is large relative to its second moment.

    It replaces gradient clipping by AdaFactor's update clipping (Shazeer, Stern 2018), as in Wortsman et al. 2023,
    "Stable and low-precision training for large-scale vision-language models", algorithm 2. ModernBERT was trained with
    it.
    """

    def _prepare(self, piece: GroupTensors) -> None:
        _put_surprises(piece)
        torch._foreach_div_(piece.gradients, [math.sqrt(parameter.numel()) for parameter in piece.parameters])

    def _finish(self, parts: Sequence[GroupTensors]) -> None:
        parameters = [parameter for part in parts for parameter in part.parameters]
        surprises = [surprise for part in parts for surprise in part.gradients]
        means = sum_squares(parameters, surprises).sqrt()
        factors = dict(zip(map(id, parameters), means.clamp(min=1).reciprocal().unbind(), strict=True))
        for part in parts:
            for piece in part.iter_pieces():
                _put_updates(piece)
                torch._foreach_mul_(piece.gradients, [factors[id(parameter)] for parameter in piece.parameters])
                torch._foreach_add_(piece.weights, piece.gradients, alpha=-piece.group["lr"])


def compute_beta(beta: float, step: int, bias_correction: bool) -> float:
    """Compute the decay rate of a moment (a running average) at a step, counted from 1.

    With bias correction, the rate is adjusted so that the running average needs no other correction.

    >>> compute_beta(0.9, 1, True), compute_beta(0.9, 1, False)
    (0.0, 0.9)
    """
    return beta * (1 - beta ** (step - 1)) / (1 - beta**step) if bias_correction else beta


def _move_moments(part: GroupTensors) -> None:
    """Update the moments, which are running averages of the gradients and of their squares, in place."""
    steps, correction = part.group["steps"], part.group["bias_correction"]
    beta1, beta2 = (compute_beta(beta, steps, correction) for beta in part.group["betas"])
    torch._foreach_lerp_(part.averages, part.gradients, 1 - beta1)
    torch._foreach_mul_(part.squares, beta2)
    torch._foreach_addcmul_(part.squares, part.gradients, part.gradients, 1 - beta2)


def _put_updates(part: GroupTensors) -> None:
    """Overwrite the gradients with the update that is multiplied by the learning rate and subtracted from the weights.

    It is first moment / (sqrt(second moment) + epsilon) + decay * weight.
    """
    _put_roots(part.squares, part.gradients)
    torch._foreach_add_(part.gradients, part.group["eps"])
    _put_quotients(part.averages, part.gradients)
    if part.decay:
        torch._foreach_add_(part.gradients, part.weights, alpha=part.decay)


def _put_surprises(part: GroupTensors) -> None:
    """Overwrite each gradient with gradient / max(sqrt(second moment), epsilon)."""
    if _is_on_gpu(part.squares):
        roots = list(torch._foreach_sqrt(part.squares))
    else:
        roots = [_reserve_buffer(square.numel(), square.dtype).view_as(square) for square in part.squares]
        _put_roots(part.squares, roots)
    torch._foreach_clamp_min_(roots, part.group["eps"])
    torch._foreach_div_(part.gradients, roots)


def _put_roots(squares: list[Tensor], into: list[Tensor]) -> None:
    if _is_on_gpu(into):
        torch._foreach_copy_(into, squares)
        torch._foreach_sqrt_(into)
    else:
        for square, place in zip(squares, into, strict=True):
            torch.sqrt(square, out=place)


def _put_quotients(numerators: list[Tensor], into: list[Tensor]) -> None:
    """Overwrite each tensor of `into` with the corresponding numerator divided by that tensor."""
    if _is_on_gpu(into):
        torch._foreach_copy_(into, torch._foreach_div(numerators, into))
    else:
        for numerator, place in zip(numerators, into, strict=True):
            torch.div(numerator, place, out=place)


def _is_on_gpu(tensors: Sequence[Tensor]) -> bool:
    return any(tensor.device.type != "cpu" for tensor in tensors)


@lru_cache(2)
def _reserve_buffer(numbers: int, dtype: torch.dtype) -> Tensor:
    """Return a buffer of `numbers` uninitialized values. Later calls reuse it, because allocation is slow."""
    return torch.empty(numbers, dtype=dtype)


def _to_local(tensors: Sequence[Tensor | None]) -> list[Tensor]:
    """Return this process's shards of the tensors, which share the tensors' memory. None is skipped."""
    return [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors if tensor is not None]


def sum_squares(parameters: Sequence[Tensor], held: Sequence[Tensor]) -> Tensor:
    """Compute the squared Euclidean norms of N tensors that are sharded like N parameters: float32 [N].

    All processes must call it.

    Args:
        parameters: The parameters, which determine how the tensors are sharded.
        held: This process's shard of each tensor.
    """
    squares = torch.stack(list(torch._foreach_norm(list(held)))).square()
    for process_group in _find_process_groups(parameters):
        dist.all_reduce(squares, group=process_group)
    return squares


def _find_process_groups(parameters: Sequence[Tensor]) -> list[dist.ProcessGroup]:
    """Find the process groups over which parameters are divided. All parameters must be divided in the same way."""
    [layout] = {
        (parameter.device_mesh, parameter.placements) if isinstance(parameter, DTensor) else None
        for parameter in parameters
    }
    if layout is None:
        return []
    mesh, placements = layout
    assert all(placement.is_shard() or placement.is_replicate() for placement in placements), placements
    return [mesh.get_group(number) for number, placement in enumerate(placements) if placement.is_shard()]
