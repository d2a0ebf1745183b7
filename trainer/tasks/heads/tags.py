"""A tag for each word, of the vector of its first piece: dropout and a matrix (Devlin et al. 2018, section 5.3).

Only the points of a batch are read, so neither special tokens nor further pieces of a word have a say or a loss. With a
chain (`crf`) what the matrix says are its emissions.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from trainer.families.contract import Family, ModelInputs
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.objective import sum_loss
from trainer.model_settings import ModelSettings
from trainer.tasks.heads.chains import Chains
from trainer.tasks.heads.crf import Forbidden, LinearChain
from trainer.tasks.heads.task_model import TaskModel, TokenHead, begun, pretrained_encoder
from trainer.tasks.rows.tag_schemes import may_follow
from trainer.tasks.rows.tags import CHAINS, INNER, TAG, TagsTask

# Shapes in the names of tensors: P points, C tags.


class TagModel(TaskModel):
    """An encoder with a head on the first piece of every word.

    A batch has the targets `chains` and `inner` of a task of tags, and `tag` (int64 [P]) where it is labelled.
    """

    def __init__(
        self,
        family: Family,
        task: TagsTask,
        encoder: TransformerEncoder,
        head: TokenHead,
        chain: LinearChain | None = None,
    ) -> None:
        super().__init__(family, task.terms(), encoder)
        self.token_head = head
        self.chain = chain

    def outputs(self, batch: Batch) -> Tensor:
        """Logits [P, C] in float32."""
        logits_PC: Tensor = self.token_head(self.encoder(batch).index_select(0, batch.points)).float()
        return logits_PC

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy of each word's tag, or of each sentence's tags together, summed: [1, 2]."""
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


def build_tag_model(
    task: TagsTask, settings: ModelSettings, inputs: ModelInputs, pretrained: Mapping[str, Tensor]
) -> TagModel:
    """The model of a task on words."""
    family = settings.of_family
    encoder = pretrained_encoder(settings, inputs, pretrained)
    head = TokenHead(encoder.shape, family.token_head, task.num_outputs)
    begun(head, family, encoder.shape.layers, family.token_head.pooler, pretrained)
    chain = LinearChain(task.num_outputs, forbidden_tags(task) if task.constrained else None) if task.crf else None
    return TagModel(family, task, encoder, head, chain)


def forbidden_tags(task: TagsTask) -> Forbidden:
    """What is no sentence of the task's scheme."""
    labels, scheme = task.labels, task.scheme
    return Forbidden(
        first=torch.tensor([not may_follow(None, label, scheme) for label in labels]),
        last=torch.tensor([not may_follow(label, None, scheme) for label in labels]),
        pairs=torch.tensor([[not may_follow(label, after, scheme) for after in labels] for label in labels]),
    )
