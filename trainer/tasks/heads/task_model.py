"""The base class of all task models: a pre-trained encoder with heads, which computes losses and predictions.

`build_task_model` builds the model that the task names, `freeze` excludes parts of it from training, and
`compute_answers` computes its outputs for many items, on any number of processes. `batch_items` concatenates the
sequences of items to a batch, without padding. `compute_log_softmax` is a softmax within consecutive groups of
different sizes, without a loop over the groups.

Shapes in the names of tensors: N values, G groups, A answers of each value.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from shards.reading.order import take_rank_share
from trainer.families.contract import ClassHeadShape, EncoderShape, TokenHeadShape
from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder, init_weights
from trainer.model.masked import Pooler
from trainer.model.objective import JudgedBatch, Objective, select_state
from trainer.ranks import Ranks
from trainer.settings.model import build_encoder_shape
from trainer.tasks.data import PackedItems
from trainer.tasks.settings import parse_frozen_layers
from trainer.tasks.task import Task, TaskItem, check_finite

EXAMPLES = "examples"  # int64 [items], among the targets: how many sequences each item has
ITEMS_AT_ONCE = 64  # that a process judges together
UNIT_COUNTS: Mapping[str, Callable[[TaskItem], int]] = {
    "sequence": lambda item: len(item.sequences),
    "point": lambda item: len(item.points),
    "token": lambda item: item.num_tokens,
}

# Shapes in the names of tensors: T tokens, S sequences, P points, H hidden size, C classes.


class TaskModel(Objective):
    """The base class of all task models: an encoder with the heads of a task.

    Subclasses define `compute_outputs` and `compute_losses`, and `to_answers` if predictions need more than the
    outputs.
    """

    def __init__(self, task: Task, pretrained: Pretrained) -> None:
        super().__init__(pretrained.settings.family_row, task.list_terms())
        self.encoder = build_pretrained_encoder(pretrained, task.causal)

    def init_head(self, head: nn.Module, shape: ClassHeadShape | None, state: Mapping[str, Tensor]) -> None:
        """Initialize a head: random weights from torch's generator, and a pre-trained pooler if there is one.

        Args:
            head: The head, changed in place.
            shape: The shape of the head's pooler, or None if it has none.
            state: The weights of the pre-trained model.
        """
        init_weights(head, self.family, self.encoder.shape.layers)
        learnt = select_state(shape.pretrained, state) if shape is not None and shape.pretrained else {}
        pooler = getattr(head, "pooler", None)
        if isinstance(pooler, Pooler) and learnt.keys() >= pooler.state_dict().keys():
            pooler.load_state_dict({name: learnt[name] for name in pooler.state_dict()})

    def compute_outputs(self, batch: Batch) -> Tensor:
        """Compute the float32 outputs from which losses and predictions are derived.

        Each subclass defines their shape.
        """
        raise NotImplementedError(f"{type(self).__name__} has no outputs")

    def compute_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Compute the summed loss and the number of correct predictions of each term from outputs.

        The result is float32 [terms, 2].
        """
        raise NotImplementedError(f"{type(self).__name__} has no losses")

    def to_answers(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Convert outputs to the rows that `Task.make_predictions` reads, one for each sequence, point or token.

        `Task.unit` determines what a row belongs to. By default, the rows are the outputs themselves.
        """
        return outputs

    def sum_losses(self, batch: Batch) -> Tensor:
        """Run the model on a batch, and compute the summed loss and the number of correct predictions of each term.

        The result is float32 [terms, 2].
        """
        return self.compute_losses(self.compute_outputs(batch), batch)

    def answer(self, batch: Batch) -> Tensor:
        """Run the model on a batch, and compute the rows that `Task.make_predictions` reads.

        There is one row for each sequence, point or token. Labels are not used.
        """
        return self.to_answers(self.compute_outputs(batch), batch)

    def judge(self, batch: Batch) -> JudgedBatch:
        """Compute the loss sums of a batch and its rows for `Task.make_predictions` in a single forward pass."""
        outputs = self.compute_outputs(batch)
        return JudgedBatch(self.compute_losses(outputs, batch), None, answers=self.to_answers(outputs, batch))


def build_task_model(task: Task, pretrained: Pretrained) -> TaskModel:
    """Build the model of a task: a pre-trained encoder with heads, which are initialized from torch's generator."""
    module, _, name = task.builder.partition(":")
    built: TaskModel = getattr(importlib.import_module(module), name)(task, pretrained)
    return built


def freeze(model: TaskModel, words: Iterable[str]) -> None:
    """Exclude parts of a model from training, by setting `requires_grad` to False.

    Args:
        model: The model, changed in place.
        words: The parts: "embeddings", "encoder", or layers such as "3" or "0-5", as in `FinetuneSettings.freeze`.

    Raises:
        InputError: If a layer does not exist, or no trainable weights are left.
    """
    for word in words:
        for encoder in model.list_encoders():
            layers = parse_frozen_layers(word)
            if layers is None:
                parts: list[nn.Module] = [encoder.embeddings] if word == "embeddings" else [encoder]
            elif layers.stop > len(encoder.layers):
                raise InputError(
                    f"freeze names the layer {layers.stop - 1}, and the model has {len(encoder.layers)} with weights "
                    "of their own, numbered from 0: name one of these."
                )
            else:
                parts = [encoder.layers[number] for number in layers]
            for part in parts:
                part.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("freeze leaves nothing to train: this task adds no weights of its own. Freeze fewer layers.")


def pool_texts(hidden_TH: Tensor, batch: Batch, pooling: str) -> Tensor:
    """Compute one vector per text: the hidden state of its first token ("cls"), or the mean of all ("mean"): [S, H].

    `hidden_TH` has the hidden states of all tokens.
    """
    if pooling == "cls":
        return hidden_TH.index_select(0, batch.locate_first_tokens())
    return batch.compute_means(hidden_TH).to(hidden_TH.dtype)


def build_pretrained_encoder(pretrained: Pretrained, causal: bool = False) -> TransformerEncoder:
    """Build the encoder of a pre-trained model, with its weights.

    If `causal` is True, tokens only attend to themselves and earlier tokens.
    """
    encoder = TransformerEncoder(replace(build_encoder_shape(pretrained.settings, pretrained.inputs), causal=causal))
    encoder.load_state_dict(select_state("encoder.", pretrained.state))
    return encoder


class ClassHead(nn.Module):
    """A head for whole texts: a pooler on the first token, dropout, and a linear layer.

    num_answers: the number of outputs
    num_extra:   the number of additional input values, which are appended to the pooled vector
    """

    def __init__(self, shape: EncoderShape, head: ClassHeadShape, num_answers: int, num_extra: int = 0) -> None:
        super().__init__()
        self.drops_first = head.drops_first
        self.pooler = Pooler(shape, head)
        self.dropout = nn.Dropout(shape.dropout if head.dropout is None else head.dropout)
        self.decision = nn.Linear(shape.hidden_size + num_extra, num_answers)

    def forward(self, first_SH: Tensor, more_SN: Tensor | None = None) -> Tensor:
        """Compute the logits of each text from the hidden state of its first token, or from the mean: [S, C].

        `more_SN` has the additional input values; None if there are none.
        """
        pooled_SH = self.pooler(self.dropout(first_SH) if self.drops_first else first_SH)
        dropped = self.dropout(pooled_SH)
        logits_SC: Tensor = self.decision(dropped if more_SN is None else torch.cat([dropped, more_SN], -1))
        return logits_SC


class TokenHead(nn.Module):
    """A head for single tokens: dropout and a linear layer. In some model families, a pooler comes first."""

    def __init__(self, shape: EncoderShape, head: TokenHeadShape, num_answers: int) -> None:
        super().__init__()
        self.pooler = Pooler(shape, head.pooler) if head.pooler is not None else None
        self.dropout = nn.Dropout(shape.dropout if head.dropout is None else head.dropout)
        self.decision = nn.Linear(shape.hidden_size, num_answers)

    def forward(self, hidden_PH: Tensor) -> Tensor:
        """Compute the logits of each token from its hidden state: [P, C]."""
        pooled_PH = hidden_PH if self.pooler is None else self.pooler(hidden_PH)
        logits_PC: Tensor = self.decision(self.dropout(pooled_PH))
        return logits_PC


@torch.no_grad()
def compute_answers(
    model: TaskModel, task: Task, items: PackedItems, ranks: Ranks, judging: bool = False
) -> tuple[list[npt.NDArray[Any]], list[float]]:
    """Compute the model's outputs for all items. All processes must call this function.

    Args:
        model: The model.
        task: The task of the model.
        items: The items.
        ranks: The processes that share the work.
        judging: True if the items have labels, so that losses are computed as well.

    Returns:
        The output for each item, with one row per sequence, point or token (`Task.unit`), and the summed loss of each
        term (zeros unless `judging`). Both are the same on every process.

    Raises:
        InputError: If an output is not finite.
    """
    order = sort_by_length(items, np.arange(len(items), dtype=np.int64))
    mine = dict[int, npt.NDArray[Any]]()
    sums = np.zeros(len(task.list_terms()))
    model.eval()
    for first in range(0, len(items), ITEMS_AT_ONCE * ranks.count):
        together = range(first, min(first + ITEMS_AT_ONCE * ranks.count, len(items)))
        numbers = [int(order[place]) for place in take_rank_share(together, ranks.rank, ranks.count)]
        some = [items[number] for number in numbers]
        batch = batch_items(some or [build_empty_item(items[0])]).to(ranks.device)
        if judging:
            judged: JudgedBatch = model(batch, judging=True)
            sums += judged.sums[:, 0].double().cpu().numpy()
            answers = judged.answers
        else:
            answers = model(batch, answering=True)
        assert answers is not None, "a task's model answers"
        for number, answer in zip(numbers, _split_by_item(answers, some, task.unit), strict=True):
            mine[number] = answer
    model.train()
    everyone = ranks.collect((mine, sums)) if ranks.count > 1 else [(mine, sums)]
    merged = {number: answer for theirs, _ in everyone for number, answer in theirs.items()}
    return [merged[number] for number in range(len(items))], np.sum([of for _, of in everyone], axis=0).tolist()


def _split_by_item(answers: Tensor, items: Sequence[TaskItem], unit: str) -> list[npt.NDArray[Any]]:
    """Split rows of outputs into one array per item.

    `unit` determines what has a row: "sequence", "point" or "token". Raises InputError if an output is not finite,
    because scores would not show it.
    """
    rows = answers.float().cpu().numpy() if answers.is_floating_point() else answers.cpu().numpy()
    check_finite(rows)
    return np.split(rows, np.cumsum([UNIT_COUNTS[unit](item) for item in items])[:-1]) if items else []


# Items as batches: their sequences end to end, without padding.


def batch_items(items: Sequence[TaskItem]) -> Batch:
    """Build a batch of all sequences of items, in order, without padding.

    Targets are concatenated. The target EXAMPLES holds the number of sequences of each item.
    """
    sequences = [sequence for item in items for sequence in item.sequences]
    starts = np.cumsum([0, *(item.num_tokens for item in items)])
    points = [item.points + start for item, start in zip(items, starts, strict=False)]
    names = items[0].targets if items else ()
    targets = {name: torch.from_numpy(np.concatenate([item.targets[name] for item in items])) for name in names}
    targets[EXAMPLES] = torch.tensor([len(item.sequences) for item in items], dtype=torch.int64)
    lengths, none = [len(sequence.ids) for sequence in sequences], np.empty(0, np.int64)
    return Batch(
        ids=torch.from_numpy(np.concatenate([none, *(sequence.ids for sequence in sequences)])),
        segment_ids=torch.from_numpy(np.concatenate([none, *(sequence.segment_ids for sequence in sequences)])),
        boundaries=torch.from_numpy(np.cumsum([0, *lengths], dtype=np.int32)),
        longest=max(lengths, default=0),
        points=torch.from_numpy(np.concatenate([none, *points])),
        targets=targets,
    )


def sort_by_length(items: PackedItems, places: Int64s) -> Int64s:
    """Sort indices of items (`places`) by the number of tokens of the items, shortest first. The sort is stable."""
    return places[np.argsort(np.asarray(items.lengths)[places], kind="stable")]


def build_empty_item(item: TaskItem) -> TaskItem:
    """Build an item without sequences, for a process that has no share of a step.

    Its targets are empty arrays of the types of the given item's targets.
    """
    return TaskItem(sequences=(), example=-1, targets={name: values[:0] for name, values in item.targets.items()})


def to_group_numbers(sizes_G: Tensor, num_values: int) -> Tensor:
    """Compute the index of each value's group, for values in consecutive groups: int64 [N].

    Args:
        sizes_G: The number of values in each group.
        num_values: The sum of the sizes.
    """
    groups = torch.arange(len(sizes_G), device=sizes_G.device)
    return torch.repeat_interleave(groups, sizes_G, output_size=num_values)


def compute_log_softmax(logits_NA: Tensor, groups_N: Tensor, num_groups: int) -> Tensor:
    """Compute the log-softmax of values within their groups, separately for each column: [N, A].

    Args:
        logits_NA: The values.
        groups_N: int64, the index of each value's group.
        num_groups: The number of groups.
    """
    shifted_NA = logits_NA - _find_highest(logits_NA.detach(), groups_N, num_groups)
    sums_GA = logits_NA.new_zeros(num_groups, logits_NA.shape[1]).index_add(0, groups_N, shifted_NA.exp())
    return shifted_NA - sums_GA.log().gather(0, groups_N[:, None].expand_as(logits_NA))


def mark_highest(logits_NA: Tensor, groups_N: Tensor, num_groups: int) -> Tensor:
    """Mark the values that are the highest of their group, separately in each column: bool [N, A].

    Args:
        logits_NA: The values.
        groups_N: int64, the index of each value's group.
        num_groups: The number of groups.
    """
    return logits_NA == _find_highest(logits_NA, groups_N, num_groups)


def _find_highest(logits_NA: Tensor, groups_N: Tensor, num_groups: int) -> Tensor:
    """Return, for each value, the highest value of its group, separately in each column: [N, A].

    The arguments are those of `mark_highest`.
    """
    groups_NA = groups_N[:, None].expand_as(logits_NA)
    highest_GA = logits_NA.new_zeros((num_groups, logits_NA.shape[1]))
    return highest_GA.scatter_reduce_(0, groups_NA, logits_NA, "amax", include_self=False).gather(0, groups_NA)
