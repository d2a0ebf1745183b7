"""One of several texts: a score for each by the head of a whole text, and the softmax over those of a question.

Devlin et al. 2018, section 4.4: a vector whose product with the vector of a choice is its score.
"""

import torch
from torch import Tensor

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.tasks.heads.groups import highest_within, log_softmax_within, numbers_of
from trainer.tasks.heads.task_model import EXAMPLES, ClassHead, TaskModel, text_vectors
from trainer.tasks.kinds.choices import CHOICE, ChoiceTask

# Shapes in the names of tensors: S sequences, Q questions.


class ChoiceModel(TaskModel):
    """An encoder with a head on the first token, or the mean, of every sequence. The target `choice` is int64 [Q]."""

    def __init__(self, task: ChoiceTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        shape = self.family.choice_head or self.family.class_head
        self.choice_head = ClassHead(self.encoder.shape, shape, 1)
        self.begin(self.choice_head, shape, pretrained.state)
        self.pooling = pretrained.settings.pooling or self.family.pooling

    def outputs(self, batch: Batch) -> Tensor:
        """A score for each sequence: [S, 1] in float32."""
        texts_SH = text_vectors(self.encoder(batch), batch, self.pooling)
        scores_S1: Tensor = self.choice_head(texts_SH).float()
        return scores_S1

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy of the questions, summed, and how many have their right choice highest: [1, 2]."""
        right_Q = batch.targets[CHOICE.name]
        sizes_Q = batch.targets[EXAMPLES][: len(right_Q)]  # an item without a sequence has no target
        groups_S = numbers_of(sizes_Q, len(outputs))
        places_Q = sizes_Q.cumsum(0) - sizes_Q + right_Q
        logs_Q = log_softmax_within(outputs, groups_S, len(right_Q)).index_select(0, places_Q)
        best_Q = highest_within(outputs.detach(), groups_S, len(right_Q)).index_select(0, places_Q)
        return torch.stack([torch.stack([-logs_Q.sum(), best_Q.sum().float()])])
