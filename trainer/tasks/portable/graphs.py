"""What of a model is in a file of ONNX: of padded rows, one module from ids to what the file says.

    most tasks       what the model says: logits of classes, of words, of beginnings and ends, of sentences, of choices
    next words       logits over the vocabulary, of every token
    tags, an LSTM    the vectors that the LSTM reads, of every token (`answering` goes on)
    vectors          the vector of a text, pooled; and the same at length 1 where vectors are compared by cosine

A dual encoder is two files: one for first texts (queries), one for the others. A model with two encoders that read the
same text is one.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.tasks.contract import Task
from trainer.tasks.heads.embedding import VectorModel, pooled
from trainer.tasks.heads.next_word import NextModel
from trainer.tasks.heads.tags import TagModel
from trainer.tasks.heads.task_model import TaskModel
from trainer.tasks.portable.padded import PaddedBatch

# Shapes in the names of tensors: T tokens, S sequences, P points, H hidden size, V vocabulary, W width of a word.

LOGITS, STATES, FEATURES = "logits", "last_hidden_state", "word_features"
VECTOR, DIRECTION = "sentence_embedding", "normalized_embedding"
FIRST, SECOND = "model", "second"  # names of files, without their ending


class Graph(NamedTuple):
    """One file. said: a module that says of a batch its outputs, in the order of their names"""

    file: str
    said: nn.Module
    outputs: tuple[str, ...]


class ModelOutputs(nn.Module):
    """What a model says."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> tuple[Tensor, ...]:
        """[T, ...], [P, ...] or [S, ...]."""
        return (self.model.outputs(batch),)


class NextLogits(nn.Module):
    """Of every point the logits of the token that is guessed there."""

    def __init__(self, model: NextModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> tuple[Tensor, ...]:
        """[P, V]."""
        return (self.model.logits(self.model.outputs(batch)),)


class WordFeatures(nn.Module):
    """What an LSTM over words reads."""

    def __init__(self, model: TagModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> tuple[Tensor, ...]:
        """[P, W]."""
        return (self.model.word_features(batch).float(),)


class TextVectors(nn.Module):
    """The vector of every text by one encoder. by: how vectors are compared"""

    def __init__(self, encoder: TransformerEncoder, pooling: str, by: str) -> None:
        super().__init__()
        self.encoder, self.pooling, self.by = encoder, pooling, by

    def forward(self, batch: Batch) -> tuple[Tensor, ...]:
        """[S, H], and the same at length 1 where that is what is compared."""
        hidden_TH = self.encoder(batch)
        if isinstance(batch, PaddedBatch):
            vectors_SH = _pooled(hidden_TH, batch, self.pooling)
        else:
            vectors_SH = pooled(hidden_TH, batch, self.pooling)
        return (vectors_SH, F.normalize(vectors_SH, dim=-1)) if self.by == "cosine" else (vectors_SH,)


def _pooled(hidden_TH: Tensor, batch: PaddedBatch, pooling: str) -> Tensor:
    """As `pooled`, of padded rows."""
    if pooling == "mean":
        return batch.means(hidden_TH)
    present_BS = batch.boundaries
    rows_BSH = hidden_TH.view(*present_BS.shape, -1).float()
    if pooling == "cls":
        return rows_BSH[:, 0]
    return rows_BSH.masked_fill(~present_BS[..., None], torch.finfo(torch.float32).min).amax(1)


def graphs_of(task: Task | None, model: TaskModel) -> tuple[Graph, ...]:
    """What of a model is written. task: None of an encoder by itself"""
    if task is None:
        return (Graph(FIRST, ModelOutputs(model), (STATES,)),)
    if isinstance(model, NextModel):
        return (Graph(FIRST, NextLogits(model), (LOGITS,)),)
    if isinstance(model, TagModel) and model.lstm is not None:
        return (Graph(FIRST, WordFeatures(model), (FEATURES,)),)
    if isinstance(model, VectorModel):
        how = (model.task.pooling, model.task.by)
        outputs = (VECTOR, DIRECTION) if model.task.by == "cosine" else (VECTOR,)
        encoders = zip((FIRST, SECOND), model.encoders(), strict=False)
        return tuple(Graph(file, TextVectors(encoder, *how), outputs) for file, encoder in encoders)
    return (Graph(FIRST, ModelOutputs(model), (LOGITS,)),)
