"""The next token of each: the head of pre-training over an encoder that sees one side, the word embeddings as decoder.

The head begins as pre-training has left it, for masked tokens or for next ones; else with drawn weights. Logits over
the vocabulary are held for a stretch of tokens alone; what is answered is what each token costs, not its logits.

Texts are continued with the logits of the token after each: `Remembering` keeps keys and values of all layers, so a
token is a pass over that token alone. Promise: the logits are those of a pass over the whole text (float32: up to
1e-5), whatever texts are together. Cost of a token after n: attention to n. Memory: 2 x layers x hidden size x 4 bytes
a token and text.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.huggingface.checkpoints import Pretrained
from trainer.model.attention import attend, rotate
from trainer.model.batches import Batch
from trainer.model.encoder import SelfAttention, init_weights
from trainer.model.masked import MaskedHead
from trainer.model.objective import state_below, sum_loss_of_words
from trainer.settings.model import encoder_shape
from trainer.tasks.heads.task_model import TaskModel, batch_of
from trainer.tasks.kinds.next_word import NEXT, NextTask

# Shapes in the names of tensors: P points, H hidden size, V vocabulary, L layers, B texts, T tokens, S places of a
# text, A heads, D size of a head.

AT_ONCE = 2048  # points whose logits are held
HEADS = ("masked_head.", "next_head.")  # of pre-training, where it has one


class NextModel(TaskModel):
    """An encoder that sees one side, with the head of pre-training. A batch has the target `next`: int64 [P]."""

    def __init__(self, task: NextTask, pretrained: Pretrained) -> None:
        super().__init__(task, pretrained, replace(encoder_shape(*pretrained[:2]), causal=task.side))
        shape = self.encoder.shape
        self.masked_head = MaskedHead(shape, self.family.masked_head)
        init_weights(self.masked_head, self.family, shape.layers)
        for name in HEADS:
            if (learnt := state_below(name, pretrained.state)).keys() == self.masked_head.state_dict().keys():
                self.masked_head.load_state_dict(learnt)

    def outputs(self, batch: Batch) -> Tensor:
        """Vectors at the points: [P, H]."""
        return self.encoder(batch).index_select(0, batch.points)  # type: ignore[no-any-return]

    def logits(self, vectors_PH: Tensor) -> Tensor:
        """Return the logits of the tokens to be guessed: [P, V] in float32."""
        logits_PV: Tensor = self.masked_head(vectors_PH, self.encoder.embeddings.word.weight).float()
        return logits_PV

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy of the tokens, summed: [1, 2]."""
        words_VE = self.encoder.embeddings.word.weight
        return torch.stack([sum_loss_of_words(self.masked_head, outputs, words_VE, batch.targets[NEXT.name])])

    def answers_of(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the cost of each token, and whether it is the most probable one: float32 [P, 2]."""
        stretches = zip(*(torch.split(each, AT_ONCE) for each in (outputs, batch.targets[NEXT.name])), strict=True)
        return torch.cat([_costs(self.logits(vectors), wanted) for vectors, wanted in stretches])


def _costs(logits_PV: Tensor, wanted_P: Tensor) -> Tensor:
    costs_P = F.cross_entropy(logits_PV, wanted_P, reduction="none")
    return torch.stack([costs_P, (logits_PV.argmax(-1) == wanted_P).float()], -1)


# Texts that are continued.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBatch(Batch):
    """Tokens whose places are given: int64 [T]."""

    places: Tensor

    def positions(self) -> Tensor:
        """int64 [T]."""
        return self.places


class Remembering:
    """A copy of a model, with the same weights, that keeps keys and values of some texts.

    longest: tokens of a text, in the end; lengths: tokens that were read of each text
    rows, places: int64 [T], of which text the tokens of this pass are, and where
    reading: the texts of this pass, without a copy where they are all
    layer: the number of the layer that comes next in this pass
    """

    def __init__(self, model: NextModel, texts: int, longest: int) -> None:
        shape = model.encoder.shape
        assert shape.causal == "left", "what is kept is never looked at again"
        self.model = copy.deepcopy(model, {id(weight): weight for weight in model.parameters()}).eval()
        for each in self.model.encoder.layers:
            each.attention = RememberingAttention(each.attention, self)  # type: ignore[arg-type]
        size = (shape.layers, texts, longest, 2, shape.heads, shape.hidden_size // shape.heads)
        self.kept_LBS2AD, self.layer = torch.zeros(size), 0
        self.lengths = self.rows = self.places = torch.zeros(texts, dtype=torch.int64)
        self.reading: slice | list[int] = slice(None)

    @torch.inference_mode()
    def logits(self, numbers: Sequence[int], texts: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits of the token after each text: [B, V] in float32. numbers: of the texts, as before"""
        lengths = self.lengths[list(numbers)].tolist()
        new = [np.array(text[length:], np.int32) for text, length in zip(texts, lengths, strict=True)]
        counts = torch.tensor([len(ids) for ids in new])
        batch = batch_of(new, (counts.cumsum(0) - 1).tolist())
        self.reading = slice(None) if [*numbers] == [*range(len(self.lengths))] else [*numbers]
        self.rows = torch.tensor(numbers).repeat_interleave(counts)
        self.places = batch.positions() + self.lengths[self.rows]
        self.lengths = self.lengths.index_add(0, torch.tensor(numbers), counts)
        values = {each.name: getattr(batch, each.name) for each in fields(Batch)}
        return self.model.logits(self.model.outputs(PlacedBatch(places=self.places, **values)))

    def add(self, pairs_T2AD: Tensor) -> Tensor:
        """Keep those of this pass with the next layer's; return those of its texts: [B, S, 2, A, D]."""
        layer = self.kept_LBS2AD[self.layer]
        layer[self.rows, self.places] = pairs_T2AD
        self.layer = (self.layer + 1) % len(self.kept_LBS2AD)
        return layer[self.reading, : int(self.places.max()) + 1]


class RememberingAttention(nn.Module):
    """The attention of a layer that sees the left side, with the keys and values of passes before."""

    def __init__(self, attention: SelfAttention, memory: Remembering) -> None:
        super().__init__()
        self.attention, self.memory = attention, memory

    def forward(self, hidden_TH: Tensor, boundaries: Tensor, longest: int, turns: Tensor | None = None) -> Tensor:
        """Return [T, H], as `SelfAttention`. Later passes are over a token of each text."""
        ours, memory = self.attention, self.memory
        qkv_T3AD = ours.query_key_value(hidden_TH).view(len(hidden_TH), 3, ours.heads, -1)
        if turns is not None:
            qkv_T3AD = rotate(qkv_T3AD, turns)
        kept_BS2AD = memory.add(qkv_T3AD[:, 1:])
        if longest > 1:
            attended_TAD = attend(qkv_T3AD, boundaries, longest, 0.0, ours.window, ours.causal)
        else:
            attended_TAD = attend_to_kept(qkv_T3AD[:, 0], kept_BS2AD, memory.places, ours.window)
        mixed_TH: Tensor = ours.output(attended_TAD.flatten(1))
        return mixed_TH


def attend_to_kept(query_BAD: Tensor, kept_BS2AD: Tensor, places_B: Tensor, window: int | None) -> Tensor:
    """Return the attention of one token of each text, at its place, to itself and those before it: [B, A, D]."""
    end = kept_BS2AD.shape[1]
    steps_BS = places_B[:, None] - torch.arange(end)
    seen_BS = (steps_BS >= 0) & (steps_BS <= (end if window is None else window // 2))
    keys_BASD, values_BASD = kept_BS2AD.permute(2, 0, 3, 1, 4).unbind(0)
    attended_BA1D = F.scaled_dot_product_attention(
        query_BAD[:, :, None], keys_BASD, values_BASD, attn_mask=seen_BS[:, None, None]
    )
    return attended_BA1D[:, :, 0]
