"""The exported modules, one for each ONNX file: from the ids of padded rows to the outputs of the file.

    most tasks       the model's outputs: logits of classes, tags, beginnings and ends, sentences, choices
    vectors          the vector of a text, pooled; and the same at length 1 where vectors are compared by cosine
    no task          the vectors of all tokens of a pre-trained encoder

A dual encoder is two files: one for first texts (queries), one for the others. A model with two encoders that read the
same text is one. What comes after the outputs is the task's own; models whose answers are searched for (a chain, an
LSTM over words), are of two vectors together or of the next words, are not written.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpora.errors import InputError
from trainer.model.batches import Batch
from trainer.tasks.contract import Items
from trainer.tasks.heads.next_word import NextModel
from trainer.tasks.heads.tags import TagModel
from trainer.tasks.heads.task_model import batch_of_items
from trainer.tasks.heads.vector_steps import pooled
from trainer.tasks.heads.vectors import VectorModel
from trainer.tasks.portable.padded import PaddedBatch
from trainer.tasks.portable.running import shares
from trainer.tasks.saving import Loaded, StatesModel

# Shapes in the names of tensors: T tokens, S sequences, H hidden size.

LOGITS, STATES, VECTOR, DIRECTION = "logits", "last_hidden_state", "sentence_embedding", "normalized_embedding"
FIRST, SECOND = "model", "second"  # names of files, without their ending


class FileOutputs(nn.Module):
    """The result of a function of a module and a batch, as tensors in the order of a file's outputs."""

    def __init__(self, module: nn.Module, outputs: Callable[[Any, Batch], tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.module, self.outputs = module, outputs

    def forward(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return [T, ...], [P, ...] or [S, ...]."""
        return self.outputs(self.module, batch)


class Graph(NamedTuple):
    """One file. module: returns the outputs of a batch, in the order of their names"""

    file: str
    module: FileOutputs
    outputs: tuple[str, ...]


def graphs_of(loaded: Loaded) -> tuple[Graph, ...]:
    """Return the parts of a model that are written. Raises InputError for one whose answers are more than outputs."""
    model = loaded.model
    searched = isinstance(model, TagModel) and (model.chain is not None or model.lstm is not None)
    if searched or isinstance(model, NextModel) or (isinstance(model, VectorModel) and model.pair_head is not None):
        raise InputError(
            f"A model of the task {loaded.task.kind!r} with a chain (crf), an LSTM, classes of a pair, or of the next "
            "words cannot be written as ONNX: its answers are more than a file's outputs."
        )
    if isinstance(model, VectorModel) and model.sentences is not None and model.sentences.skips_prompts:
        raise InputError(
            "A model that does not pool the tokens of its prompts (`include_prompt`) cannot be written as ONNX: a file "
            "is given ids, and does not see where a prompt ends."
        )
    if isinstance(model, VectorModel):
        return _vector_graphs(model)
    name = STATES if isinstance(model, StatesModel) else LOGITS
    return (Graph(FIRST, FileOutputs(model, lambda model, batch: (model.outputs(batch),)), (name,)),)


def _vector_graphs(model: VectorModel) -> tuple[Graph, ...]:
    task, pooling = model.task, model.pooling

    def vectors(modules: nn.ModuleList, batch: Batch) -> tuple[Tensor, ...]:
        encoder, after = modules
        hidden_TH = encoder(batch)
        padded = batch.pooled(hidden_TH, pooling) if isinstance(batch, PaddedBatch) else None
        vectors_SH = after(pooled(hidden_TH, batch, pooling) if padded is None else padded)
        return (vectors_SH, F.normalize(vectors_SH, dim=-1)) if task.by == "cosine" else (vectors_SH,)

    outputs = (VECTOR, DIRECTION) if task.by == "cosine" else (VECTOR,)
    encoders = zip((FIRST, SECOND), model.encoders(), strict=False)
    parts = ((file, nn.ModuleList([encoder, model.after])) for file, encoder in encoders)
    return tuple(Graph(file, FileOutputs(modules, vectors), outputs) for file, modules in parts)


@torch.inference_mode()
def plain_rows(loaded: Loaded, items: Items) -> list[npt.NDArray[Any]]:
    """Return the rows that files should have for items: the same modules without padding."""
    graphs, answers = graphs_of(loaded), list[npt.NDArray[Any]]()
    for item in items:
        parts = zip(graphs, shares(item.sequences, len(graphs)), strict=True)
        read = [(graph.module.eval(), batch_of_items([replace(item, sequences=part)])) for graph, part in parts]
        answers.append(np.concatenate([module(batch)[0].float().numpy() for module, batch in read]))
    return answers
