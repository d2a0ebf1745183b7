"""A tag for each word, of the vector of its first piece: dropout and a matrix (Devlin et al. 2018, section 5.3).

    encoder, second encoder ─► features of layers ─► LSTM ─► matrix ─► softmax, or a chain

Only the points of a batch are read, so neither special tokens nor further pieces of a word have a tag or a loss. With a
chain (`crf`, in `tag_chains.py`) the outputs of the matrix are its emissions; the LSTM and features of several layers
are there where the settings ask for them.

Features are those of an encoder that learns nothing, as in Devlin et al. 2018, section 5.3 and table 7: vectors of
first pieces from one or several layers, and two layers of LSTM before the matrix. The weights of a weighted sum come
from a softmax, with one factor for all (Peters et al. 2018, equation 1). Cost: the encoder is passed once for each
step, without a backward pass and without dropout.
"""

from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from corpora.errors import InputError
from trainer.families.contract import ModelInputs, TokenHeadShape
from trainer.huggingface.checkpoints import Pretrained, load_pretrained
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.objective import sum_loss
from trainer.tasks.heads.tag_chains import Chains, Forbidden, LinearChain, silent
from trainer.tasks.heads.task_model import TaskModel, TokenHead, pretrained_encoder
from trainer.tasks.kinds.tag_schemes import may_follow
from trainer.tasks.kinds.tags import CHAINS, INNER, TAG, TagsTask

# Shapes in the names of tensors: P points, H hidden size, W width of a word's vector, C tags.

LAYERS = {
    "embeddings": slice(0, 1),
    "last": slice(-1, None),
    "second-to-last": slice(-2, -1),
    "sum-last-four": slice(-4, None),
    "concat-last-four": slice(-4, None),
    "weighted-last-four": slice(-4, None),
    "weighted": slice(1, None),
}  # of what `hidden_states` returns


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


# What is read of an encoder that learns nothing.


class LayerFeatures(nn.Module):
    """One vector for each word from those of all layers. layers: of the encoder. Raises InputError for too few."""

    def __init__(self, kind: str, layers: int, hidden_size: int) -> None:
        super().__init__()
        self.kind = kind
        read = range(layers + 1)[LAYERS[kind]]
        needed = 4 if kind.endswith("four") else 2 if kind == "second-to-last" else 1
        if layers < needed:
            raise InputError(
                f'features = "{kind}" reads {needed} layers, and the model has {layers}: name another, such as "last".'
            )
        self.width = hidden_size * (4 if kind == "concat-last-four" else 1)
        self.weights = nn.Parameter(torch.zeros(len(read))) if kind.startswith("weighted") else None
        self.factor = nn.Parameter(torch.ones(1)) if kind.startswith("weighted") else None

    def forward(self, states: list[Tensor]) -> Tensor:
        """[P, W]. states: layers + 1 of [P, H]"""
        read = states[LAYERS[self.kind]]
        if self.kind == "concat-last-four":
            return torch.cat(read, -1)
        if self.weights is None or self.factor is None:
            return torch.stack(read).sum(0)
        shares = self.weights.softmax(0).to(read[0].dtype)
        return self.factor.to(read[0].dtype) * torch.einsum("l,lph->ph", shares, torch.stack(read))


class SentenceLSTM(nn.Module):
    """Layers of LSTM that read each sentence from both sides. size: of each side; dropout: between layers"""

    def __init__(self, width: int, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.width = 2 * size
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, size, layers, dropout=between, bidirectional=True)

    def forward(self, words_PW: Tensor, chains: Chains) -> Tensor:
        """Return [P, 2 x size]."""
        if not len(chains.lengths):
            return words_PW.new_zeros(0, self.width) + words_PW.sum() * 0 + silent(self)
        packed = PackedSequence(words_PW[chains.by_step], torch.tensor(chains.sizes))
        outputs: Tensor = self.lstm(packed)[0].data
        return outputs[chains.by_step.argsort()]
