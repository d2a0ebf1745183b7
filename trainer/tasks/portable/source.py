"""What is exported: a fine-tuned model with its task, or a pre-trained encoder by itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from trainer.families.contract import ModelInputs
from trainer.huggingface.config import CONFIG, read_config
from trainer.huggingface.pretrained import load_pretrained
from trainer.settings.model import ModelSettings, encoder_shape
from trainer.tasks.batching import batch_of_items
from trainer.tasks.contract import Task, TaskItem
from trainer.tasks.heads.task_model import TaskModel, pretrained_encoder
from trainer.tasks.portable.graphs import Graph, graphs_of
from trainer.tasks.portable.padded import EncoderModel
from trainer.tasks.registry import task_of_config
from trainer.tasks.rows.texts import TextTask
from trainer.tasks.saving import RECORD, check_weights, load_task

Outputs = list[npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class PortableModel:
    """A model to export. task: None of an encoder by itself; max_length: tokens of a sequence before it is cut"""

    task: Task | None
    settings: ModelSettings
    inputs: ModelInputs
    model: TaskModel
    max_length: int

    @property
    def unit(self) -> str:
        """What a row of its outputs is of."""
        return "token" if self.task is None else self.task.unit

    @property
    def num_columns(self) -> int:
        """Numbers that stand beside a text."""
        return self.task.num_columns if isinstance(self.task, TextTask) else 0

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        """What is written of it, a file each."""
        return graphs_of(self.task, self.model)

    @property
    def has_segments(self) -> bool:
        """Whether it tells two texts apart."""
        return encoder_shape(self.settings, self.inputs).segment_types > 1


def read_source(folder: Path) -> PortableModel:
    """The model of a folder. Raises InputError for one that cannot be exported."""
    config = read_config(folder / CONFIG)
    check_weights(folder)
    pretrained = load_pretrained(folder)
    names = pretrained.settings.of_family.names.architectures
    if not (folder / RECORD).is_file() and task_of_config(config, names) is None:
        return PortableModel(
            task=None,
            settings=pretrained.settings,
            inputs=pretrained.inputs,
            model=EncoderModel(pretrained.settings.of_family, (), pretrained_encoder(*pretrained)),
            max_length=pretrained.settings.positions,
        )
    loaded = load_task(folder)
    return PortableModel(
        task=loaded.task,
        settings=loaded.settings,
        inputs=loaded.inputs,
        model=loaded.model,
        max_length=loaded.max_length or loaded.settings.positions,
    )


def plain_rows(source: PortableModel, items: Sequence[TaskItem]) -> Outputs:
    """What files should say of items: the same modules without padding."""
    for graph in source.graphs:
        graph.said.eval()
    with torch.inference_mode():
        return [np.concatenate([rows.float().numpy() for rows in _said(source, item)]) for item in items]


def _said(source: PortableModel, item: TaskItem) -> Iterator[torch.Tensor]:
    sides = [item.sequences] if len(source.graphs) == 1 else [item.sequences[:1], item.sequences[1:]]
    for graph, sequences in zip(source.graphs, sides, strict=True):
        yield graph.said(batch_of_items([replace(item, sequences=sequences)]))[0]
