"""What is exported: a fine-tuned model with its task, or a pre-trained encoder by itself."""

from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from trainer.families.contract import ModelInputs
from trainer.huggingface.config import CONFIG, read_config
from trainer.huggingface.pretrained import load_pretrained
from trainer.settings.model import ModelSettings, encoder_shape
from trainer.tasks.contract import Task
from trainer.tasks.heads.task_model import TaskModel, pretrained_encoder
from trainer.tasks.portable.padded import EncoderModel, check_encoders
from trainer.tasks.registry import task_of_config
from trainer.tasks.rows.next_word import NextTask
from trainer.tasks.rows.texts import TextTask
from trainer.tasks.saving import RECORD, load_task


@dataclass(frozen=True, slots=True, kw_only=True)
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
    def output(self) -> str:
        """What the output is called."""
        return "last_hidden_state" if self.task is None else "logits"

    @property
    def has_segments(self) -> bool:
        """Whether it tells two texts apart."""
        return encoder_shape(self.settings, self.inputs).segment_types > 1


def read_source(folder: Path) -> PortableModel:
    """The model of a folder. Raises InputError for one that cannot be exported."""
    config = read_config(folder / CONFIG)
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
    if isinstance(loaded.task, TextTask) and loaded.task.num_columns:
        raise InputError(
            f"{folder} reads further columns beside the text ({', '.join(loaded.task.roles[3:])}), and a file of ONNX "
            "gets tokens alone: fine-tune without `numeric` and `categorical`."
        )
    if isinstance(loaded.task, NextTask):
        raise InputError(f"{folder} is a model of next words, which is not written as ONNX: give one of another task.")
    check_encoders(loaded.model, loaded.task.kind)
    return PortableModel(
        task=loaded.task,
        settings=loaded.settings,
        inputs=loaded.inputs,
        model=loaded.model,
        max_length=loaded.max_length or loaded.settings.positions,
    )
