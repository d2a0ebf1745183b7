"""The model of ordered classes: a score of the whole text, compared with a threshold between each two classes."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from ordered_classes import GRADE, OrderedTask
from torch import Tensor, nn

from trainer.families.contract import Family, ModelInputs
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.settings.model import ModelSettings
from trainer.tasks.heads.task_model import ClassHead, TaskModel, begun, pretrained_encoder

# Shapes in the names of tensors: S texts, K thresholds.


class OrderedModel(TaskModel):
    """An encoder with a score of its first token, and thresholds."""

    def __init__(self, family: Family, encoder: TransformerEncoder, head: ClassHead, num_classes: int) -> None:
        super().__init__(family, (GRADE,), encoder)
        self.class_head = head
        self.thresholds = nn.Parameter(torch.linspace(-1.0, 1.0, num_classes - 1))

    def outputs(self, batch: Batch) -> Tensor:
        """[S, K]: how far each text is above each threshold."""
        first_SH = self.encoder(batch).index_select(0, batch.first_tokens())
        score_S1: Tensor = self.class_head(first_SH, batch.targets.get("columns")).float()
        return score_S1 - self.thresholds

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """[1, 2]."""
        places_S = batch.targets[GRADE.name]
        above_SK = (places_S[:, None] > torch.arange(outputs.shape[1], device=outputs.device)).float()
        loss = F.binary_cross_entropy_with_logits(outputs, above_SK, reduction="sum")
        right = ((outputs.detach() > 0).sum(-1) == places_S).sum()
        return torch.stack([torch.stack([loss, right.float()])])


def build_ordered_model(
    task: OrderedTask, settings: ModelSettings, inputs: ModelInputs, pretrained: Mapping[str, Tensor]
) -> OrderedModel:
    """The model of `OrderedTask` on a pre-trained encoder."""
    family = settings.of_family
    encoder = pretrained_encoder(settings, inputs, pretrained)
    head = ClassHead(encoder.shape, family.class_head, task.num_outputs, task.num_columns)
    begun(head, family, encoder.shape.layers, family.class_head, pretrained)
    return OrderedModel(family, encoder, head, len(task.labels))
