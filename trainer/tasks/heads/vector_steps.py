"""The vector of a text from those of its tokens: pooling, and the modules that a folder has after it.

Promise: the modes of pooling and the modules of sentence-transformers, to the rounding of float32.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpora.errors import InputError
from trainer.huggingface.checkpoints import checked
from trainer.huggingface.config import CONFIG
from trainer.huggingface.older import older_weights
from trainer.huggingface.sentences import TRUNCATE, USUAL_ACTIVATION, SentenceFolder
from trainer.model.batches import Batch
from trainer.tasks.kinds.vectors import SKIPPED

# Shapes in the names of tensors: T tokens, S sequences, L tokens of the longest, H hidden size.


def pooled(hidden_TH: Tensor, batch: Batch, pooling: str) -> Tensor:
    """float32 [S, H times modes]: of each sequence what the modes, joined by "+", make of its tokens' vectors.

    Tokens at the beginning that the target SKIPPED counts are left out, but the last one.
    """
    if not batch.num_sequences:
        width = hidden_TH.shape[1] * len(pooling.split("+"))
        return hidden_TH.new_zeros(0, width, dtype=torch.float32) + hidden_TH.float().sum() * 0
    lengths_S1, places_L = batch.boundaries.diff()[:, None], torch.arange(batch.longest, device=hidden_TH.device)
    rows_SL = (batch.boundaries[:-1, None] + places_L).clamp(max=len(hidden_TH) - 1)
    present_SL = places_L < lengths_S1
    if SKIPPED in batch.targets:
        present_SL &= places_L >= torch.minimum(batch.targets[SKIPPED][:, None], lengths_S1 - 1)
    return pooled_rows(hidden_TH[rows_SL], present_SL, pooling)


def pooled_rows(hidden_SLH: Tensor, present_SL: Tensor, pooling: str) -> Tensor:
    """float32 [S, H times modes], of rows of tokens that are there or not."""
    rows_SLH, present_SL1 = hidden_SLH.float(), present_SL[..., None]
    places_L1 = torch.arange(1, rows_SLH.shape[1] + 1, device=rows_SLH.device)[:, None]
    weights_SL1 = present_SL1 * places_L1

    def at(places_S1: Tensor) -> Tensor:
        return rows_SLH.gather(1, places_S1[:, None].expand(-1, 1, rows_SLH.shape[2]) - 1).squeeze(1)

    def mean(numbers_SL1: Tensor) -> Tensor:
        return (rows_SLH * numbers_SL1).sum(1) / numbers_SL1.sum(1)

    made: Mapping[str, Callable[[], Tensor]] = {
        "cls": lambda: at(torch.where(present_SL1, places_L1, rows_SLH.shape[1]).amin(1)),
        "lasttoken": lambda: at(weights_SL1.amax(1)),
        "max": lambda: rows_SLH.masked_fill(~present_SL1, torch.finfo(torch.float32).min).amax(1),
        "mean": lambda: mean(present_SL1),
        "mean_sqrt_len_tokens": lambda: mean(present_SL1) * present_SL1.sum(1).sqrt(),
        "weightedmean": lambda: mean(weights_SL1),
    }
    return torch.cat([made[mode]() for mode in pooling.split("+")], -1)


class Dense(nn.Module):
    """A matrix and an activation; the input may be added again, by a matrix of its own where the widths differ."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        sizes = config["in_features"], config["out_features"]
        self.linear = nn.Linear(*sizes, bias=config.get("bias", True))
        self.activation: nn.Module = getattr(nn, config.get("activation_function", USUAL_ACTIVATION).split(".")[-1])()
        changes = nn.Linear(*sizes, bias=False) if sizes[0] != sizes[1] else nn.Identity()
        self.residual = changes if config.get("use_residual", False) else None

    def forward(self, vectors: Tensor) -> Tensor:
        """[S, in_features] to [S, out_features]."""
        changed: Tensor = self.activation(self.linear(vectors))
        return changed if self.residual is None else changed + self.residual(vectors)


class Changed(nn.Module):
    """A change of vectors without weights."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change

    def forward(self, vectors: Tensor) -> Tensor:
        """[S, H]."""
        return self.change(vectors)


_BUILT: Mapping[str, Callable[[Mapping[str, Any]], nn.Module]] = {
    "Dense": Dense,
    "Normalize": lambda _: Changed(partial(F.normalize, dim=-1)),
    "LayerNorm": lambda config: nn.Sequential(OrderedDict(norm=nn.LayerNorm(config["dimension"]))),
    "Dropout": lambda config: nn.Dropout(config.get("dropout", 0.2)),
    TRUNCATE: lambda config: Changed(lambda vectors: vectors[:, : config["truncate_dim"]]),
}


def vector_steps(sentences: SentenceFolder | None, width: int) -> tuple[nn.Sequential, int]:
    """Return the modules after a pooling, with their weights, and the width of what they make. width: of what they get

    Raises InputError where a file of weights is missing, or sizes do not fit.
    """
    steps = nn.Sequential()
    if sentences is None:
        return steps, width
    for step in sentences.steps:
        where = sentences.folder / step.path
        try:
            built = _BUILT[step.kind](step.config)
        except KeyError as error:
            raise InputError(f"{where / CONFIG} has no {error}: save or copy it again.") from error
        if ours := built.state_dict():
            tensors = older_weights(where)
            lacking = sorted(ours.keys() ^ tensors.keys())
            if lacking:
                raise InputError(
                    f"{where}: its weights and its {CONFIG} differ in {lacking[0]}: copy the folder again."
                )
            built.load_state_dict({name: checked(tensors, ours[name], (name,), str(where)) for name in ours})
        needed = step.config.get("in_features", step.config.get("dimension", width))
        if needed != width:
            raise InputError(
                f"{where} takes vectors of {needed} numbers, and what it gets has {width}: name the pooling of the "
                f"folder ({sentences.pooling}), or copy it again."
            )
        width = step.config.get("out_features", min(width, step.config.get("truncate_dim", width)))
        steps.append(built)
    return steps, width
