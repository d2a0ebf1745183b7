"""A classifier of sentences in the summary, from the vector of the [CLS] before each (Liu 2019, section 2.2)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.tasks.heads.task_model import TaskModel, TokenHead
from trainer.tasks.kinds.summary import SENTENCE, SummaryTask

# Shapes in the names of tensors: P sentences.


class SummaryModel(TaskModel):
    """An encoder with a head on the points of a batch. The target `sentence` is float32 [P], 0 or 1."""

    def __init__(self, task: SummaryTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        self.sentence_head = TokenHead(self.encoder.shape, self.family.token_head, 1)
        self.begin(self.sentence_head, self.family.token_head.pooler, pretrained.state)

    def outputs(self, batch: Batch) -> Tensor:
        """Logits [P, 1] in float32."""
        logits_P1: Tensor = self.sentence_head(self.encoder(batch).index_select(0, batch.points)).float()
        return logits_P1

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the cross-entropy of each sentence by itself, summed, and how many are right: [1, 2]."""
        logits_P, taken_P = outputs[:, 0], batch.targets[SENTENCE.name]
        loss = F.binary_cross_entropy_with_logits(logits_P, taken_P, reduction="sum")
        right = ((logits_P.detach() > 0) == (taken_P > 0)).sum()
        return torch.stack([torch.stack([loss, right.float()])])
