"""A tag for each word, of the vector of its first piece: dropout and a matrix (Devlin et al. 2018, section 5.3).

    encoder ─► matrix ─► softmax, or a chain

Only the points of a batch are read, so neither special tokens nor further pieces of a word have a tag or a loss. With a
chain (`crf`, in `tag_chains.py`) the outputs of the matrix are its emissions.
"""

import torch
from torch import Tensor

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.batches import Batch
from trainer.model.objective import sum_loss
from trainer.tasks.heads.tag_chains import Chains, Forbidden, LinearChain
from trainer.tasks.heads.task_model import TaskModel, TokenHead
from trainer.tasks.kinds.tag_schemes import may_follow
from trainer.tasks.kinds.tags import CHAINS, INNER, TAG, TagsTask

# Shapes in the names of tensors: P points, H hidden size, C tags.


class TagModel(TaskModel):
    """An encoder with a head on the first piece of every word.

    A batch has the targets `chains` and `inner` of a task of tags, and `tag` (int64 [P]) where it is labelled.
    """

    def __init__(self, task: TagsTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained)
        head = self.family.token_head
        self.token_head = TokenHead(self.encoder.shape, head, task.num_outputs)
        self.chain = (
            LinearChain(task.num_outputs, forbidden_tags(task) if task.constrained else None) if task.crf else None
        )
        self.begin(self.token_head, head.pooler, pretrained.state)

    def outputs(self, batch: Batch) -> Tensor:
        """Logits [P, C] in float32."""
        words_PH = self.encoder(batch).index_select(0, batch.points)
        logits_PC: Tensor = self.token_head(words_PH).float()
        return logits_PC

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the cross-entropy of each word's tag, or of each sentence's tags together, summed: [1, 2]."""
        tags_P = batch.targets[TAG.name]
        if self.chain is None:
            return torch.stack([sum_loss(outputs, tags_P)])
        loss = self.chain.loss(outputs, tags_P, Chains.of(batch.targets[CHAINS]), batch.targets[INNER])
        return torch.stack([torch.stack([loss, torch.zeros_like(loss)])])

    def answers_of(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Logits [P, C]; with a chain the tags themselves, int64 [P]."""
        if self.chain is None:
            return outputs
        return self.chain.best(outputs, Chains.of(batch.targets[CHAINS]), batch.targets[INNER])


def forbidden_tags(task: TagsTask) -> Forbidden:
    """Return the tags that no sentence of the task's scheme has."""
    labels, scheme = task.labels, task.scheme
    return Forbidden(
        first=torch.tensor([not may_follow(None, label, scheme) for label in labels]),
        last=torch.tensor([not may_follow(label, None, scheme) for label in labels]),
        pairs=torch.tensor([[not may_follow(label, after, scheme) for after in labels] for label in labels]),
    )
