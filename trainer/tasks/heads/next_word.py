"""Next-token prediction: the masked-token head on a causal encoder, with the word embeddings as decoder.

The head starts with the weights of pre-training on masked tokens if there are any, otherwise with random ones. Logits
over the vocabulary are only held for some tokens at a time. The model outputs the loss of each token, not its logits.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.model.encoder import init_weights
from trainer.model.masked import MaskedHead
from trainer.model.objective import select_state, sum_loss_of_words
from trainer.tasks.heads.task_model import TaskModel
from trainer.tasks.kinds.next_word import NEXT, NextTask

# Shapes in the names of tensors: P points, H hidden size, V vocabulary, E width of word embeddings.

POINTS_AT_ONCE = 2048  # points whose logits are held


class NextModel(TaskModel):
    """A causal encoder with the masked-token head of pre-training.

    A batch has the target `next`: int64 [P], token ids.
    """

    def __init__(self, task: NextTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        shape = self.encoder.shape
        self.masked_head = MaskedHead(shape, self.family.masked_head)
        init_weights(self.masked_head, self.family, shape.layers)
        if (learnt := select_state("masked_head.", pretrained.state)).keys() == self.masked_head.state_dict().keys():
            self.masked_head.load_state_dict(learnt)

    def compute_outputs(self, batch: Batch) -> Tensor:
        """Compute the hidden state at each position from which a token is predicted (`batch.points`): [P, H]."""
        return self.encoder(batch).index_select(0, batch.points)  # type: ignore[no-any-return]

    def compute_logits(self, vectors_PH: Tensor) -> Tensor:
        """Compute the logits of the next token over the whole vocabulary from hidden states: float32 [P, V]."""
        logits_PV: Tensor = self.masked_head(vectors_PH, self.encoder.embeddings.word.weight).float()
        return logits_PV

    def compute_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Sum the cross-entropy of the next tokens, and count the correctly predicted ones: [1, 2]."""
        words_VE = self.encoder.embeddings.word.weight
        return torch.stack([sum_loss_of_words(self.masked_head, outputs, words_VE, batch.targets[NEXT.name])])

    def to_answers(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Compute the loss of each next token, and 1 if it is the most probable token, else 0: float32 [P, 2]."""
        stretches = zip(
            *(torch.split(each, POINTS_AT_ONCE) for each in (outputs, batch.targets[NEXT.name])), strict=True
        )
        return torch.cat([_compute_costs(self.compute_logits(vectors), wanted) for vectors, wanted in stretches])


def _compute_costs(logits_PV: Tensor, wanted_P: Tensor) -> Tensor:
    costs_P = F.cross_entropy(logits_PV, wanted_P, reduction="none")
    return torch.stack([costs_P, (logits_PV.argmax(-1) == wanted_P).float()], -1)
