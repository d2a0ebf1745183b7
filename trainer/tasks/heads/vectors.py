"""A vector for every text, and the losses with which vectors are trained.

In-batch negatives are the other texts of a micro-batch on all processes. Their vectors are gathered, and each process
backpropagates the full gradient through its own. Texts in different micro-batches are not compared, so the loss that is
reported for evaluation rows depends on which rows are read together. Equal texts are not negatives of each other: a
row's second text is not if it is also in another row, and neither are the second texts of rows with the same first
text.

The vector of a text is pooled from its tokens' hidden states, and then passed through the modules that a folder has
after the pooling. Promise: pooling modes and modules match those of sentence-transformers up to float32 rounding.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from corpora.errors import InputError
from trainer.huggingface.checkpoints import Pretrained, read_older_weights, stack_tensors
from trainer.huggingface.config import CONFIG
from trainer.huggingface.sentence_transformers import TRUNCATE, USUAL_ACTIVATION, SentenceFolder
from trainer.model.batches import Batch
from trainer.model.encoder import init_weights
from trainer.model.objective import sum_loss
from trainer.tasks.heads.task_model import EXAMPLES, TaskModel, build_pretrained_encoder
from trainer.tasks.kinds.vectors import COSINE, MATCH, SAME, SKIPPED, SOFTMAX, VectorTask

# Shapes in the names of tensors: T tokens, S sequences, L tokens of the longest, H hidden size.


def pool_tokens(hidden_TH: Tensor, batch: Batch, pooling: str) -> Tensor:
    """Compute one vector for each sequence from the hidden states of its tokens: float32 [S, H * modes].

    Args:
        hidden_TH: The hidden states of all tokens.
        batch: The batch. If it has the target SKIPPED, that number of tokens at the start of each sequence is not
            pooled, but the last token always is.
        pooling: Names of pooling modes joined by "+". Their vectors are concatenated. The modes are "cls", "lasttoken",
            "max", "mean", "mean_sqrt_len_tokens" and "weightedmean".
    """
    if not batch.num_sequences:
        width = hidden_TH.shape[1] * len(pooling.split("+"))
        return hidden_TH.new_zeros(0, width, dtype=torch.float32) + hidden_TH.float().sum() * 0
    lengths_S1, places_L = batch.boundaries.diff()[:, None], torch.arange(batch.longest, device=hidden_TH.device)
    rows_SL = (batch.boundaries[:-1, None] + places_L).clamp(max=len(hidden_TH) - 1)
    present_SL = places_L < lengths_S1
    if SKIPPED in batch.targets:
        present_SL &= places_L >= torch.minimum(batch.targets[SKIPPED][:, None], lengths_S1 - 1)
    return pool_rows(hidden_TH[rows_SL], present_SL, pooling)


def pool_rows(hidden_SLH: Tensor, present_SL: Tensor, pooling: str) -> Tensor:
    """Compute one vector for each padded row of hidden states: float32 [S, H * modes].

    Args:
        hidden_SLH: The hidden states of all tokens.
        present_SL: True for tokens that are pooled, False for padding.
        pooling: Names of pooling modes joined by "+", as for `pool_tokens`.
    """
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
    """A linear layer with an activation.

    With `use_residual`, the input is added to the output. If the widths differ, it first passes through a linear layer.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        sizes = config["in_features"], config["out_features"]
        self.linear = nn.Linear(*sizes, bias=config.get("bias", True))
        self.activation: nn.Module = getattr(nn, config.get("activation_function", USUAL_ACTIVATION).split(".")[-1])()
        changes = nn.Linear(*sizes, bias=False) if sizes[0] != sizes[1] else nn.Identity()
        self.residual = changes if config.get("use_residual", False) else None

    def forward(self, vectors: Tensor) -> Tensor:
        """Apply the layer to vectors [S, in_features]: [S, out_features]."""
        changed: Tensor = self.activation(self.linear(vectors))
        return changed if self.residual is None else changed + self.residual(vectors)


class FunctionModule(nn.Module):
    """A module that applies a function without weights."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change

    def forward(self, vectors: Tensor) -> Tensor:
        """Apply the module's function to vectors [S, H]."""
        return self.change(vectors)


_MODULES: Mapping[str, Callable[[Mapping[str, Any]], nn.Module]] = {
    "Dense": Dense,
    "Normalize": lambda _: FunctionModule(partial(F.normalize, dim=-1)),
    "LayerNorm": lambda config: nn.Sequential(OrderedDict(norm=nn.LayerNorm(config["dimension"]))),
    "Dropout": lambda config: nn.Dropout(config.get("dropout", 0.2)),
    TRUNCATE: lambda config: FunctionModule(lambda vectors: vectors[:, : config["truncate_dim"]]),
}


def build_vector_modules(sentences: SentenceFolder | None, width: int) -> tuple[nn.Sequential, int]:
    """Build the modules that a sentence-transformers folder has after its pooling, with their weights.

    Args:
        sentences: The sentence-transformers settings of the folder; None to build no modules.
        width: The width of the pooled vectors.

    Returns:
        The modules, and the width of their output.

    Raises:
        InputError: If a file of weights is missing, or sizes do not match.
    """
    steps = nn.Sequential()
    if sentences is None:
        return steps, width
    for step in sentences.steps:
        where = sentences.folder / step.path
        try:
            built = _MODULES[step.kind](step.config)
        except KeyError as error:
            raise InputError(f"{where / CONFIG} has no {error}: save or copy it again.") from error
        if ours := built.state_dict():
            tensors = read_older_weights(where)
            lacking = sorted(ours.keys() ^ tensors.keys())
            if lacking:
                raise InputError(
                    f"{where}: its weights and its {CONFIG} differ in {lacking[0]}: copy the folder again."
                )
            built.load_state_dict({name: stack_tensors(tensors, ours[name], (name,), str(where)) for name in ours})
        needed = step.config.get("in_features", step.config.get("dimension", width))
        if needed != width:
            raise InputError(
                f"{where} takes vectors of {needed} numbers, and what it gets has {width}: name the pooling of the "
                f"folder ({sentences.pooling}), or copy it again."
            )
        width = step.config.get("out_features", min(width, step.config.get("truncate_dim", width)))
        steps.append(built)
    return steps, width


Gather = Callable[[Tensor], list[Tensor]]

# Shapes in the names of tensors: T tokens, S sequences, P pairs, N texts besides, H hidden size, C classes.


class Sides(NamedTuple):
    """The vectors of a batch's first, second and additional texts, with a hash for each text.

    The `same` arrays hold the hashes: equal texts have equal hashes.
    """

    first_PH: Tensor
    second_PH: Tensor
    more_NH: Tensor
    first_same_P: Tensor
    second_same_P: Tensor
    more_same_N: Tensor


class VectorModel(TaskModel):
    """An encoder with pooling and the modules after it. A second encoder for all but the first texts is optional.

    A batch has the targets EXAMPLES and SAME and, depending on the loss, `cosine` (float32 [P], the target cosines) or
    `label` (int64 [P]).
    """

    def __init__(self, task: VectorTask, pretrained: Pretrained) -> None:
        """Build the model.

        Raises:
            InputError: If one of `task.widths` is not smaller than the vectors, or the modules of the folder do not
                match.
        """
        super().__init__(task, pretrained)
        self.pooling, self.sentences = task.pooling or "mean", pretrained.sentences
        width = self.encoder.shape.hidden_size * len(self.pooling.split("+"))
        self.after, size = build_vector_modules(pretrained.sentences, width)
        if task.widths and max(task.widths) >= size:
            raise InputError(
                f"widths names {max(task.widths)} dimensions, and the vectors of this model have {size}, which are "
                "learnt anyway: name fewer."
            )
        self.task = task
        self.widths = (*task.widths, size)
        if not task.shared:
            self.second_encoder = build_pretrained_encoder(pretrained)
        self.pair_head = nn.Linear(3 * size, task.num_outputs, bias=False) if task.num_outputs else None
        if self.pair_head is not None:
            init_weights(self.pair_head, self.family, self.encoder.shape.layers)

    def compute_outputs(self, batch: Batch) -> Tensor:
        """Compute the vector of each sequence, after pooling and the modules that follow it: float32 [S, H]."""
        if not hasattr(self, "second_encoder"):
            vectors_SH: Tensor = self.after(pool_tokens(self.encoder(batch), batch, self.pooling))
            return vectors_SH
        first_S = _mark_firsts(batch)
        sides = [(self.encoder, first_S), (self.second_encoder, ~first_S)]
        parts = [(encoder, _select_sequences(batch, chosen_S)) for encoder, chosen_S in sides]
        vectors = [pool_tokens(encoder(part), part, self.pooling) for encoder, part in parts]
        places_S = torch.cat([chosen.nonzero()[:, 0] for _, chosen in sides]).argsort()
        return torch.cat(vectors).index_select(0, places_S)

    def compute_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Sum the loss over pairs and widths, and count the pairs predicted correctly at full width: [1, 2]."""
        sides, [term] = split_sides(outputs, batch), self.terms
        losses = [self._compute_loss(term.name, sides, batch, width) for width in self.widths]
        return torch.stack([torch.stack([torch.stack([loss[0] for loss in losses]).sum(), losses[-1][1].detach()])])

    def _compute_loss(self, name: str, sides: Sides, batch: Batch, width: int) -> Tensor:
        if name == MATCH.name:
            return compute_match_loss(
                sides, self.task.resolved_similarity, self.task.resolved_scale, width, gather_rows
            )
        first_PW, second_PW = sides.first_PH[:, :width], sides.second_PH[:, :width]
        if name == SOFTMAX.name:
            return sum_loss(self.compute_pair_logits(first_PW, second_PW), batch.targets[SOFTMAX.name])
        cosines_P = F.cosine_similarity(first_PW, second_PW)
        error = F.mse_loss(cosines_P, batch.targets[COSINE.name], reduction="sum")
        return torch.stack([error, torch.zeros_like(error)])

    def compute_pair_logits(self, first_PW: Tensor, second_PW: Tensor) -> Tensor:
        """Compute class logits for pairs of vectors u and v from the features (u, v, |u - v|): float32 [P, C].

        For truncated vectors, only the matching columns of the matrix are used.
        """
        assert self.pair_head is not None, "classes have a matrix"
        matrix_C3H = self.pair_head.weight.view(len(self.pair_head.weight), 3, -1)
        parts = matrix_C3H[:, :, : first_PW.shape[1]].flatten(1)
        compared = torch.cat([first_PW, second_PW, (first_PW - second_PW).abs()], -1)
        return F.linear(compared.to(parts.dtype), parts).float()

    def to_answers(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the vector of each sequence, [S, H], or [S, H + C] if pairs are classified.

        The last C columns are then the logits of the sequence's pair.
        """
        if self.pair_head is None:
            return outputs
        sides = split_sides(outputs, batch)
        logits_PC = self.compute_pair_logits(sides.first_PH, sides.second_PH)
        return torch.cat([outputs, logits_PC.repeat_interleave(batch.targets[EXAMPLES], 0)], -1)


def _mark_firsts(batch: Batch) -> Tensor:
    """Mark the first sequence of each item: bool [S]. Items without sequences are skipped."""
    sizes = batch.targets[EXAMPLES]
    firsts_S = torch.zeros(batch.num_sequences, dtype=torch.bool, device=sizes.device)
    firsts_S[(sizes.cumsum(0) - sizes)[sizes > 0]] = True
    return firsts_S


def _select_sequences(batch: Batch, chosen_S: Tensor) -> Batch:
    """Build a batch of the selected sequences of another batch, without targets.

    `chosen_S` is True for the sequences to select.
    """
    lengths_S = batch.boundaries.diff()
    tokens_T = torch.repeat_interleave(chosen_S, lengths_S, output_size=len(batch.ids))
    return Batch(
        ids=batch.ids[tokens_T],
        segment_ids=batch.segment_ids[tokens_T],
        boundaries=F.pad(lengths_S[chosen_S].cumsum(0, dtype=torch.int32), (1, 0)),
        longest=batch.longest,
        points=batch.points[:0],
        targets={},
    )


def split_sides(vectors_SH: Tensor, batch: Batch) -> Sides:
    """Split the vectors of a batch's sequences into the first, second and additional texts of the items."""
    firsts_S = _mark_firsts(batch)
    seconds_S = F.pad(firsts_S, (1, 0))[:-1]
    same_S = batch.targets[SAME]
    chosen = (firsts_S, seconds_S, ~(firsts_S | seconds_S))
    return Sides(*(vectors_SH[each] for each in chosen), *(same_S[each] for each in chosen))


def compute_match_loss(sides: Sides, similarity: str, scale: float, width: int, gather: Gather) -> Tensor:
    """Compute the cross-entropy of finding each first text's second text among all other texts: float32 [2].

    Args:
        sides: The vectors of this process.
        similarity: "cosine" or "dot".
        scale: The factor by which similarities are multiplied.
        width: The number of leading dimensions to compare.
        gather: Function that returns the rows of every process, such as `gather_rows`.

    Returns:
        The summed loss of this process's pairs, and the number of pairs that have the highest similarity. The gradient
        with respect to this process's vectors includes the pairs of all processes.
    """
    first_PW, second_PW, more_NW = (_normalize_if_cosine(each[:, :width], similarity) for each in sides[:3])
    firsts, seconds, mores = gather(first_PW), gather(second_PW), gather(more_NW)
    same = [torch.cat(gather(each)) for each in sides[3:]]
    logits = scale * torch.cat(firsts) @ torch.cat([*seconds, *mores]).T
    logits = logits.masked_fill(_mark_excluded(*same), float("-inf"))
    wanted = torch.arange(len(logits), device=logits.device)
    losses = F.cross_entropy(logits, wanted, reduction="none") if len(logits) else logits.sum(-1)
    mine = next(place for place, each in enumerate(firsts) if each is first_PW)
    start = sum(map(len, firsts[:mine]))
    own = slice(start, start + len(first_PW))
    every = losses.sum() + 0 * sum(each.sum() for each in (first_PW, second_PW, more_NW))
    right = (logits.detach().argmax(-1) == wanted)[own].sum() if len(logits) else torch.zeros_like(every)
    return torch.stack([losses[own].sum().detach() + every - every.detach(), right.float()])


def _normalize_if_cosine(vectors: Tensor, similarity: str) -> Tensor:
    """Scale rows to length 1 if the similarity is "cosine", so that their dot products are cosines.

    For "dot", the rows are returned unchanged.
    """
    return F.normalize(vectors, dim=-1) if similarity == "cosine" else vectors


def _mark_excluded(first_P: Tensor, second_P: Tensor, more_N: Tensor) -> Tensor:
    """Mark the texts that match a pair as well as its own second text, so they are not negatives: bool [P, P + N].

    `first_P`, `second_P` and `more_N` are hashes of the first, second and additional texts. Equal texts have equal
    hashes.
    """
    others = ~torch.eye(len(first_P), dtype=torch.bool, device=first_P.device)
    alike = (second_P[:, None] == second_P) | (first_P[:, None] == first_P)
    return torch.cat([alike & others, second_P[:, None] == more_N], 1)


def gather_rows(rows: Tensor) -> list[Tensor]:
    """Gather the rows of every process, as one tensor per process in rank order. All processes must call it.

    Only the rows of this process have a gradient.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return [rows]
    count = dist.get_world_size()
    sizes = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(count)]
    dist.all_gather(sizes, torch.tensor([len(rows)], device=rows.device))
    most = max(int(size) for size in sizes)
    padded = rows.detach().new_zeros(most, *rows.shape[1:])
    padded[: len(rows)] = rows.detach()
    every = [torch.empty_like(padded) for _ in range(count)]
    dist.all_gather(every, padded)
    parts = [each[: int(size)] for each, size in zip(every, sizes, strict=True)]
    parts[dist.get_rank()] = rows
    return parts
