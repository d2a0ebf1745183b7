"""The exported modules, one for each ONNX file: from the ids of padded rows to the outputs of the file.

    most tasks       the model's outputs: logits of classes, words, beginnings and ends, sentences, choices
    next words       logits over the vocabulary, of every token
    tags, an LSTM    the vectors that the LSTM reads, of every token (`answering` does the rest)
    vectors          the vector of a text, pooled; and the same at length 1 where vectors are compared by cosine
    no task          the vectors of all tokens of a pre-trained encoder

A dual encoder is two files: one for first texts (queries), one for the others. A model with two encoders that read the
same text is one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.families.contract import ModelInputs
from trainer.huggingface.config import CONFIG, read_config
from trainer.huggingface.pretrained import load_pretrained
from trainer.model.batches import Batch
from trainer.settings.model import ModelSettings, encoder_shape
from trainer.tasks.contract import Task, TaskItem, Tokens
from trainer.tasks.encoding.batching import batch_of_items
from trainer.tasks.heads.embedding import VectorModel, pooled
from trainer.tasks.heads.next_word import NextModel
from trainer.tasks.heads.tagging.tags import TagModel
from trainer.tasks.heads.task_model import pretrained_encoder
from trainer.tasks.kinds.texts import TextTask
from trainer.tasks.portable.padded import PaddedBatch
from trainer.tasks.portable.running import COLUMNS, OnnxText, shares
from trainer.tasks.registry import task_of_config
from trainer.tasks.saving import RECORD, check_weights, load_task

# Shapes in the names of tensors: T tokens, S sequences, B rows, P points, H hidden size.

LOGITS, STATES, FEATURES = "logits", "last_hidden_state", "word_features"
VECTOR, DIRECTION = "sentence_embedding", "normalized_embedding"
FIRST, SECOND = "model", "second"  # names of files, without their ending

Outputs = list[npt.NDArray[Any]]


class FileOutputs(nn.Module):
    """The result of a function of a module and a batch, as tensors in the order of a file's outputs."""

    def __init__(self, module: nn.Module, says: Callable[[Any, Batch], tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.module, self.says = module, says

    def forward(self, batch: Batch) -> tuple[Tensor, ...]:
        """[T, ...], [P, ...] or [S, ...]."""
        return self.says(self.module, batch)


class Graph(NamedTuple):
    """One file. module: returns the outputs of a batch, in the order of their names"""

    file: str
    module: FileOutputs
    outputs: tuple[str, ...]


def _vectors(encoder: nn.Module, batch: Batch, pooling: str, by: str) -> tuple[Tensor, ...]:
    """[S, H], and the same at length 1 where that is what is compared."""
    hidden_TH = encoder(batch)
    if isinstance(batch, PaddedBatch):
        vectors_SH = _pooled_rows(hidden_TH, batch, pooling)
    else:
        vectors_SH = pooled(hidden_TH, batch, pooling)
    return (vectors_SH, F.normalize(vectors_SH, dim=-1)) if by == "cosine" else (vectors_SH,)


def _pooled_rows(hidden_TH: Tensor, batch: PaddedBatch, pooling: str) -> Tensor:
    """Pool padded rows, as `pooled` does."""
    if pooling == "mean":
        return batch.means(hidden_TH)
    present_BS = batch.boundaries
    rows_BSH = hidden_TH.view(*present_BS.shape, -1).float()
    if pooling == "cls":
        return rows_BSH[:, 0]
    return rows_BSH.masked_fill(~present_BS[..., None], torch.finfo(torch.float32).min).amax(1)


def graphs_of(model: nn.Module, has_task: bool) -> tuple[Graph, ...]:
    """Return the parts of a model that are written. has_task: false for an encoder by itself"""
    if isinstance(model, VectorModel):
        says = partial(_vectors, pooling=model.task.pooling, by=model.task.by)
        outputs = (VECTOR, DIRECTION) if model.task.by == "cosine" else (VECTOR,)
        encoders = zip((FIRST, SECOND), model.encoders(), strict=False)
        return tuple(Graph(file, FileOutputs(encoder, says), outputs) for file, encoder in encoders)
    if not has_task:
        return (Graph(FIRST, FileOutputs(model, lambda encoder, batch: (encoder(batch),)), (STATES,)),)
    if isinstance(model, NextModel):
        return (Graph(FIRST, FileOutputs(model, lambda next, batch: (next.logits(next.outputs(batch)),)), (LOGITS,)),)
    if isinstance(model, TagModel) and model.lstm is not None:
        return (
            Graph(FIRST, FileOutputs(model, lambda tags, batch: (tags.word_features(batch).float(),)), (FEATURES,)),
        )
    return (Graph(FIRST, FileOutputs(model, lambda model, batch: (model.outputs(batch),)), (LOGITS,)),)


# Models.


@dataclass(frozen=True, kw_only=True)
class PortableModel:
    """A model to export. task: None of an encoder by itself; max_length: tokens of a sequence before it is cut"""

    task: Task | None
    settings: ModelSettings
    inputs: ModelInputs
    model: nn.Module
    max_length: int

    @property
    def unit(self) -> str:
        """The unit of a row of its outputs."""
        return "token" if self.task is None else self.task.unit

    @property
    def num_columns(self) -> int:
        """The number of further columns with a text."""
        return self.task.num_columns if isinstance(self.task, TextTask) else 0

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        """The parts of it that are written, a file each."""
        return graphs_of(self.model, self.task is not None)

    @property
    def has_segments(self) -> bool:
        """True if the model has segments for two texts."""
        return encoder_shape(self.settings, self.inputs).segment_types > 1


def read_source(folder: Path) -> PortableModel:
    """The model of a folder. Raises InputError for one that cannot be exported."""
    config = read_config(folder / CONFIG)
    check_weights(folder)
    settings, inputs, state = load_pretrained(folder)
    if (folder / RECORD).is_file() or task_of_config(config, settings.of_family.names.architectures) is not None:
        loaded = load_task(folder)
        length = loaded.max_length or settings.positions
        return PortableModel(task=loaded.task, settings=settings, inputs=inputs, model=loaded.model, max_length=length)
    encoder = pretrained_encoder(settings, inputs, state)
    return PortableModel(task=None, settings=settings, inputs=inputs, model=encoder, max_length=settings.positions)


def item_of(text: OnnxText) -> TaskItem:
    """A text with all its tokens as points."""
    return TaskItem(
        sequences=tuple(Tokens(*each) for each in text.sequences),
        example=0,
        points=np.arange(sum(len(ids) for ids, _ in text.sequences), dtype=np.int64),
        targets={} if text.columns is None else {COLUMNS: text.columns},
    )


def plain_rows(source: PortableModel, items: Sequence[TaskItem]) -> Outputs:
    """Return the outputs that files should have for items: the same modules without padding."""
    for graph in source.graphs:
        graph.module.eval()
    with torch.inference_mode():
        return [np.concatenate([rows.float().numpy() for rows in _said(source, item)]) for item in items]


def _said(source: PortableModel, item: TaskItem) -> Iterator[Tensor]:
    for graph, sequences in zip(source.graphs, shares(item.sequences, len(source.graphs)), strict=True):
        part = TaskItem(sequences=sequences, example=0, points=item.points, targets=item.targets)
        yield graph.module(batch_of_items([part]))[0]
