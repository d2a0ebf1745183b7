"""A tag for each word, of the vector of its first piece: dropout and a matrix (Devlin et al. 2018, section 5.3).

Only the points of a batch are read, so neither special tokens nor further pieces of a word have a say or a loss.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from trainer.families.contract import Family, ModelInputs
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.objective import sum_loss
from trainer.model_settings import ModelSettings
from trainer.tasks.heads.task_model import TaskModel, TokenHead, begun, pretrained_encoder
from trainer.tasks.rows.tags import TAG, TagsTask

# Shapes in the names of tensors: P points, C tags.


class TagModel(TaskModel):
    """An encoder with a head on the first piece of every word. A batch has the target `tag`: int64 [P]."""

    def __init__(self, family: Family, task: TagsTask, encoder: TransformerEncoder, head: TokenHead) -> None:
        super().__init__(family, task.terms(), encoder)
        self.token_head = head

    def outputs(self, batch: Batch) -> Tensor:
        """Logits [P, C] in float32."""
        logits_PC: Tensor = self.token_head(self.encoder(batch).index_select(0, batch.points)).float()
        return logits_PC

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy of each word's tag, summed: [1, 2]."""
        return torch.stack([sum_loss(outputs, batch.targets[TAG.name])])


def build_tag_model(
    task: TagsTask, settings: ModelSettings, inputs: ModelInputs, pretrained: Mapping[str, Tensor]
) -> TagModel:
    """The model of a task on words."""
    family = settings.of_family
    encoder = pretrained_encoder(settings, inputs, pretrained)
    head = TokenHead(encoder.shape, family.token_head, task.num_outputs)
    begun(head, family, encoder.shape.layers, family.token_head.pooler, pretrained)
    return TagModel(family, task, encoder, head)
