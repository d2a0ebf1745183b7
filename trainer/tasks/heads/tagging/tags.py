"""A tag for each word, of the vector of its first piece: dropout and a matrix (Devlin et al. 2018, section 5.3).

    encoder, second encoder ─► features of layers ─► LSTM ─► matrix ─► softmax, or a chain

Only the points of a batch are read, so neither special tokens nor further pieces of a word have a tag or a loss. With a
chain (`crf`) the outputs of the matrix are its emissions; the LSTM and features of several layers are there where the
settings ask for them.
"""

from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from corpora.errors import InputError
from trainer.families.contract import ModelInputs, TokenHeadShape
from trainer.huggingface.pretrained import Pretrained, load_pretrained
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.objective import sum_loss
from trainer.tasks.heads.tagging.chains import Chains
from trainer.tasks.heads.tagging.crf import Forbidden, LinearChain
from trainer.tasks.heads.tagging.features import LayerFeatures, SentenceLSTM
from trainer.tasks.heads.task_model import TaskModel, TokenHead, pretrained_encoder
from trainer.tasks.kinds.tag_schemes import may_follow
from trainer.tasks.kinds.tags import CHAINS, INNER, TAG, TagsTask

# Shapes in the names of tensors: P points, W width of a word's vector, C tags.


class TagModel(TaskModel):
    """Encoders with a head on the first piece of every word.

    A batch has the targets `chains` and `inner` of a task of tags, and `tag` (int64 [P]) where it is labelled.
    """

    def __init__(self, task: TagsTask, pretrained: Pretrained) -> None:
        """Raises InputError where its second encoder is not to be had, or another."""
        super().__init__(task, pretrained)
        self.second_encoder = _second_encoder(task, pretrained.inputs) if task.encoders > 1 else None
        shapes = [encoder.shape for encoder in self.encoders()]
        features = [LayerFeatures(task.features, shape.layers, shape.hidden_size) for shape in shapes if task.features]
        self.features = nn.ModuleList(features)
        self.learns = not features
        width = sum(each.width for each in features) or sum(shape.hidden_size for shape in shapes)
        first, head = shapes[0], self.family.token_head
        self.lstm = SentenceLSTM(width, task.lstm_size, task.depth, first.dropout) if task.depth else None
        plain = self.learns and self.lstm is None and len(shapes) == 1
        shape = head if plain else TokenHeadShape(dropout=head.dropout)
        self.token_head = TokenHead(first, shape, task.num_outputs, self.lstm.width if self.lstm else width)
        self.chain = (
            LinearChain(task.num_outputs, forbidden_tags(task) if task.constrained else None) if task.crf else None
        )
        self.begin(self.token_head, head.pooler, pretrained.state)
        for encoder in [] if self.learns else self.encoders():
            encoder.requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Encoders that learn nothing have no dropout either."""
        super().train(mode)
        for encoder in [] if self.learns else self.encoders():
            encoder.eval()
        return self

    def outputs(self, batch: Batch) -> Tensor:
        """Logits [P, C] in float32."""
        words_PW = self.word_features(batch)
        if self.lstm is not None:
            words_PW = self.lstm(words_PW, Chains.of(batch.targets[CHAINS]))
        logits_PC: Tensor = self.token_head(words_PW).float()
        return logits_PC

    def word_features(self, batch: Batch) -> Tensor:
        """Return the vectors of all encoders at the points: [P, W]."""
        return torch.cat([self._vectors(encoder, number, batch) for number, encoder in enumerate(self.encoders())], -1)

    def _vectors(self, encoder: TransformerEncoder, number: int, batch: Batch) -> Tensor:
        """Return an encoder's vectors at the points: [P, W]."""
        if self.learns:
            words_PW: Tensor = encoder(batch).index_select(0, batch.points)
            return words_PW
        with torch.no_grad():
            states = [state.index_select(0, batch.points) for state in encoder.hidden_states(batch)]
        words_PW = self.features[number](states)
        return words_PW

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


def _second_encoder(task: TagsTask, inputs: ModelInputs) -> TransformerEncoder:
    """Return the second encoder of a task. Raises InputError."""
    if not task.second_encoder:
        raise InputError("The task has two encoders, and its folder has one: copy it again, with its folder `second`.")
    pretrained = load_pretrained(Path(task.second_encoder))
    theirs = (pretrained.inputs.vocab_size, pretrained.inputs.special_ids)
    if theirs != (inputs.vocab_size, inputs.special_ids):
        raise InputError(
            f"second_encoder = {task.second_encoder!r} has another vocabulary than the model ({theirs[0]} tokens, and "
            f"{inputs.vocab_size}): both read the same ids, so name a model that was trained with the same vocabulary."
        )
    return pretrained_encoder(pretrained)


def forbidden_tags(task: TagsTask) -> Forbidden:
    """Return the tags that no sentence of the task's scheme has."""
    labels, scheme = task.labels, task.scheme
    return Forbidden(
        first=torch.tensor([not may_follow(None, label, scheme) for label in labels]),
        last=torch.tensor([not may_follow(label, None, scheme) for label in labels]),
        pairs=torch.tensor([[not may_follow(label, after, scheme) for after in labels] for label in labels]),
    )
