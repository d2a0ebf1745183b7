"""The model of a task, built where the task says."""

import importlib
from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from corpora.errors import InputError
from trainer.families.contract import ModelInputs
from trainer.settings.model import ModelSettings
from trainer.tasks.contract import Task
from trainer.tasks.heads.task_model import TaskModel
from trainer.tasks.settings import frozen_layers


def build_task_model(
    task: Task, settings: ModelSettings, inputs: ModelInputs, pretrained: Mapping[str, Tensor]
) -> TaskModel:
    """A pre-trained encoder with the task's heads, whose first weights come from torch's generator."""
    module, _, name = task.builder.partition(":")
    built: TaskModel = getattr(importlib.import_module(module), name)(task, settings, inputs, pretrained)
    return built


def freeze(model: TaskModel, words: Iterable[str]) -> None:
    """Let parts of the encoders learn nothing. Raises InputError for layers that there are not.

    words: as `FinetuneSettings.freeze`
    """
    for word in words:
        for encoder in model.encoders():
            layers = frozen_layers(word)
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
