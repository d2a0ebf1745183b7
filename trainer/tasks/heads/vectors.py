"""A vector for every text, and the losses by which vectors are learnt.

The negatives of a step are the other texts of a micro-batch on all processes: their vectors are gathered, and each
process sends the whole gradient back through its own. What micro-batches cut apart is not compared.
So the reported loss of evaluation rows is among those that are judged together.
Equal texts are not negatives of each other: neither a row's second text that is in another row too, nor the second
texts of other rows with the same first text.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from corpora.errors import InputError
from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.model.encoder import init_weights
from trainer.model.objective import sum_loss
from trainer.tasks.heads.task_model import EXAMPLES, TaskModel, pretrained_encoder
from trainer.tasks.heads.vector_steps import pooled, vector_steps
from trainer.tasks.kinds.vectors import COSINE, MATCH, SAME, SOFTMAX, VectorTask

Gather = Callable[[Tensor], list[Tensor]]

# Shapes in the names of tensors: T tokens, S sequences, P pairs, N texts besides, H hidden size, C classes.


class Sides(NamedTuple):
    """The vectors of a batch by what they are in their items; same: which texts are equal, as in SAME."""

    first_PH: Tensor
    second_PH: Tensor
    more_NH: Tensor
    first_same_P: Tensor
    second_same_P: Tensor
    more_same_N: Tensor


class VectorModel(TaskModel):
    """An encoder, or one for the first and one for all other texts of an item, a pooling, and what follows it.

    A batch has EXAMPLES and SAME, and for its term `cosine` (float32 [P], the wished one) or `label` (int64 [P]).
    """

    def __init__(self, task: VectorTask, pretrained: Pretrained) -> None:
        """Raises InputError for a width that the vectors have not, and for a folder whose modules do not fit."""
        super().__init__(task, pretrained)
        self.pooling, self.sentences = task.pooling or "mean", pretrained.sentences
        width = self.encoder.shape.hidden_size * len(self.pooling.split("+"))
        self.after, size = vector_steps(pretrained.sentences, width)
        if task.widths and max(task.widths) >= size:
            raise InputError(
                f"widths names {max(task.widths)} dimensions, and the vectors of this model have {size}, which are "
                "learnt anyway: name fewer."
            )
        self.task = task
        self.widths = (*task.widths, size)
        if not task.shared:
            self.second_encoder = pretrained_encoder(pretrained)
        self.pair_head = nn.Linear(3 * size, task.num_outputs, bias=False) if task.num_outputs else None
        if self.pair_head is not None:
            init_weights(self.pair_head, self.family, self.encoder.shape.layers)

    def outputs(self, batch: Batch) -> Tensor:
        """float32 [S, H]."""
        if not hasattr(self, "second_encoder"):
            vectors_SH: Tensor = self.after(pooled(self.encoder(batch), batch, self.pooling))
            return vectors_SH
        first_S = _firsts(batch)
        sides = [(self.encoder, first_S), (self.second_encoder, ~first_S)]
        parts = [(encoder, _part(batch, chosen_S)) for encoder, chosen_S in sides]
        vectors = [pooled(encoder(part), part, self.pooling) for encoder, part in parts]
        places_S = torch.cat([chosen.nonzero()[:, 0] for _, chosen in sides]).argsort()
        return torch.cat(vectors).index_select(0, places_S)

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the loss summed over pairs and widths, with the right ones at the whole width: [1, 2]."""
        sides, [term] = sides_of(outputs, batch), self.terms
        losses = [self._loss(term.name, sides, batch, width) for width in self.widths]
        return torch.stack([torch.stack([torch.stack([loss[0] for loss in losses]).sum(), losses[-1][1].detach()])])

    def _loss(self, name: str, sides: Sides, batch: Batch, width: int) -> Tensor:
        if name == MATCH.name:
            return match_loss(sides, self.task.by, self.task.factor, width, gathered)
        first_PW, second_PW = sides.first_PH[:, :width], sides.second_PH[:, :width]
        if name == SOFTMAX.name:
            return sum_loss(self.pair_logits(first_PW, second_PW), batch.targets[SOFTMAX.name])
        cosines_P = F.cosine_similarity(first_PW, second_PW)
        error = F.mse_loss(cosines_P, batch.targets[COSINE.name], reduction="sum")
        return torch.stack([error, torch.zeros_like(error)])

    def pair_logits(self, first_PW: Tensor, second_PW: Tensor) -> Tensor:
        """[P, C], of (u, v, |u - v|); of narrower vectors by the columns of the matrix that are theirs."""
        assert self.pair_head is not None, "classes have a matrix"
        matrix_C3H = self.pair_head.weight.view(len(self.pair_head.weight), 3, -1)
        parts = matrix_C3H[:, :, : first_PW.shape[1]].flatten(1)
        compared = torch.cat([first_PW, second_PW, (first_PW - second_PW).abs()], -1)
        return F.linear(compared.to(parts.dtype), parts).float()

    def answers_of(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return [S, H]; for classes the logits of each pair follow all its vectors: [S, H + C]."""
        if self.pair_head is None:
            return outputs
        sides = sides_of(outputs, batch)
        logits_PC = self.pair_logits(sides.first_PH, sides.second_PH)
        return torch.cat([outputs, logits_PC.repeat_interleave(batch.targets[EXAMPLES], 0)], -1)


def _firsts(batch: Batch) -> Tensor:
    """Return bool [S]: the first sequence of each item; an item may have none."""
    sizes = batch.targets[EXAMPLES]
    firsts_S = torch.zeros(batch.num_sequences, dtype=torch.bool, device=sizes.device)
    firsts_S[(sizes.cumsum(0) - sizes)[sizes > 0]] = True
    return firsts_S


def _part(batch: Batch, chosen_S: Tensor) -> Batch:
    """Return the chosen sequences of a batch, without targets."""
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


def sides_of(vectors_SH: Tensor, batch: Batch) -> Sides:
    """The vectors of first, second and further texts."""
    firsts_S = _firsts(batch)
    seconds_S = F.pad(firsts_S, (1, 0))[:-1]
    same_S = batch.targets[SAME]
    chosen = (firsts_S, seconds_S, ~(firsts_S | seconds_S))
    return Sides(*(vectors_SH[each] for each in chosen), *(same_S[each] for each in chosen))


def match_loss(sides: Sides, by: str, scale: float, width: int, gather: Gather) -> Tensor:
    """float32 [2]: cross-entropy of each first text's second among all there are, and how many are the likest.

    The value is that of this process's pairs; the gradient is of all pairs of all processes, through its own vectors.
    """
    first_PW, second_PW, more_NW = (_directed(each[:, :width], by) for each in sides[:3])
    firsts, seconds, mores = gather(first_PW), gather(second_PW), gather(more_NW)
    same = [torch.cat(gather(each)) for each in sides[3:]]
    logits = scale * torch.cat(firsts) @ torch.cat([*seconds, *mores]).T
    logits = logits.masked_fill(_no_negatives(*same), float("-inf"))
    wanted = torch.arange(len(logits), device=logits.device)
    losses = F.cross_entropy(logits, wanted, reduction="none") if len(logits) else logits.sum(-1)
    mine = next(place for place, each in enumerate(firsts) if each is first_PW)
    start = sum(map(len, firsts[:mine]))
    own = slice(start, start + len(first_PW))
    every = losses.sum() + 0 * sum(each.sum() for each in (first_PW, second_PW, more_NW))
    right = (logits.detach().argmax(-1) == wanted)[own].sum() if len(logits) else torch.zeros_like(every)
    return torch.stack([losses[own].sum().detach() + every - every.detach(), right.float()])


def _directed(vectors: Tensor, by: str) -> Tensor:
    """Return rows whose products are the similarities that `by` names."""
    return F.normalize(vectors, dim=-1) if by == "cosine" else vectors


def _no_negatives(first_P: Tensor, second_P: Tensor, more_N: Tensor) -> Tensor:
    """bool [P, P + N]: texts that belong to a pair as well as its own second one does."""
    others = ~torch.eye(len(first_P), dtype=torch.bool, device=first_P.device)
    alike = (second_P[:, None] == second_P) | (first_P[:, None] == first_P)
    return torch.cat([alike & others, second_P[:, None] == more_N], 1)


def gathered(rows: Tensor) -> list[Tensor]:
    """Return the rows of every process, in order of rank: these, and those of the others as numbers."""
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
