"""The model of ordered classes: a score of the whole text, compared with a threshold between each two classes."""

import torch
import torch.nn.functional as F
from ordered_classes import GRADE, OrderedTask
from torch import Tensor, nn

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.tasks.heads.task_model import ClassHead, TaskModel

# Shapes in the names of tensors: S texts, K thresholds.


class OrderedModel(TaskModel):
    """An encoder with a score of its first token, and thresholds."""

    def __init__(self, task: OrderedTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        shape = self.family.class_head
        self.class_head = ClassHead(self.encoder.shape, shape, task.num_outputs, task.num_columns)
        self.thresholds = nn.Parameter(torch.linspace(-1.0, 1.0, len(task.labels) - 1))
        self.init_head(self.class_head, shape, pretrained.state)

    def compute_outputs(self, batch: Batch) -> Tensor:
        """Compute how far each text is above each threshold: float32 [S, K]."""
        first_SH = self.encoder(batch).index_select(0, batch.locate_first_tokens())
        score_S1: Tensor = self.class_head(first_SH, batch.targets.get("columns")).float()
        return score_S1 - self.thresholds

    def compute_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Sum the loss over texts, and count texts with the right class: [1, 2]."""
        places_S = batch.targets[GRADE.name]
        above_SK = (places_S[:, None] > torch.arange(outputs.shape[1], device=outputs.device)).float()
        loss = F.binary_cross_entropy_with_logits(outputs, above_SK, reduction="sum")
        right = ((outputs.detach() > 0).sum(-1) == places_S).sum()
        return torch.stack([torch.stack([loss, right.float()])])
