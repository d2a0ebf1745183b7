"""The head for the begin and end of an answer in a window of text (Devlin et al. 2018, section 4.2).

A vector for beginnings and one for ends: each token's products with them are the logits, and the softmax is over all
tokens of the window.
"""

import torch
from torch import Tensor

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.tasks.heads.groups import highest_within, log_softmax_within, numbers_of
from trainer.tasks.heads.task_model import TaskModel, TokenHead
from trainer.tasks.kinds.answers import END, START, SpanTask

# Shapes in the names of tensors: T tokens, S windows.


class SpanModel(TaskModel):
    """An encoder with a head on every token. A batch has the targets `start` and `end`: places in each window, [S]."""

    def __init__(self, task: SpanTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        self.span_head = TokenHead(self.encoder.shape, self.family.span_head, 2)
        self.begin(self.span_head, self.family.span_head.pooler, pretrained.state)

    def outputs(self, batch: Batch) -> Tensor:
        """Logits of beginning and end: [T, 2] in float32."""
        logits_T2: Tensor = self.span_head(self.encoder(batch)).float()
        return logits_T2

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean of the two cross-entropies of a window, summed, and how many windows have both places right: [1, 2]."""
        places_S2 = torch.stack([batch.targets[START], batch.targets[END]], 1)
        places_S2 = places_S2 + batch.boundaries[: len(places_S2), None]
        windows_T = numbers_of(batch.boundaries.diff(), len(outputs))
        logs_T2 = log_softmax_within(outputs, windows_T, batch.num_sequences)
        best_T2 = highest_within(outputs.detach(), windows_T, batch.num_sequences)
        right = best_T2.gather(0, places_S2).all(1).sum()
        return torch.stack([torch.stack([-logs_T2.gather(0, places_S2).sum() / 2, right.float()])])
