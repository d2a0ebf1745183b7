"""Texts that a model of next words continues: its logits of the token after each.

`Remembering` keeps keys and values of all layers, so a token is a pass over that token alone.

Promise: the logits are those of a pass over the whole text (float32: up to 1e-5), whatever texts are together. Cost of
a token after n: attention to n. Memory: 2 x layers x hidden size x 4 bytes a token and text.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.model.attention import attend, rotate
from trainer.model.batches import Batch
from trainer.model.encoder import SelfAttention
from trainer.tasks.encoding.batching import batch_of
from trainer.tasks.heads.next_word import NextModel

# Shapes in the names of tensors: B texts, T tokens, S places of a text, A heads, D size of a head, H hidden size,
# V vocabulary.


class NextReading(Protocol):
    """Texts that are continued together."""

    def begin(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits of the token after each text: [B, V] in float32."""
        ...

    def go_on(self, kept: Sequence[int], ids: Sequence[int]) -> Tensor:
        """Return the same after one more token. kept: numbers of the texts that continue; ids: a token of each"""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBatch(Batch):
    """Tokens whose places are given: int64 [T]."""

    places: Tensor

    def positions(self) -> Tensor:
        """int64 [T]."""
        return self.places


class KeysAndValues:
    """Keys and values of all layers and texts, read layer by layer in turn. shape: of one layer's, [B, S, 2, A, D]

    rows, places: int64 [T], where the tokens of this pass are; whole: whether these are all that there is
    """

    def __init__(self, layers: int, shape: tuple[int, ...]) -> None:
        self.layers = [torch.zeros(shape) for _ in range(layers)]
        self.rows = self.places = torch.zeros(0, dtype=torch.int64)
        self.whole, self.turn = True, 0

    def add(self, pairs_T2AD: Tensor) -> Tensor:
        """Put those of this pass to the next layer's; all of that layer: [B, S, 2, A, D]."""
        layer = self.layers[self.turn]
        layer[self.rows, self.places] = pairs_T2AD
        self.turn = (self.turn + 1) % len(self.layers)
        return layer

    def keep(self, texts: Sequence[int]) -> None:
        """Those of some texts alone, in this order."""
        if list(texts) != list(range(len(self.layers[0]))):
            self.layers = [layer[list(texts)] for layer in self.layers]


class RememberingAttention(nn.Module):
    """The attention of a layer that sees the left side, with the keys and values of passes before."""

    def __init__(self, attention: SelfAttention, memory: KeysAndValues) -> None:
        super().__init__()
        assert attention.causal == "left", "what is kept is never looked at again"
        self.attention, self.memory = attention, memory

    def forward(self, hidden_TH: Tensor, boundaries: Tensor, longest: int, turns: Tensor | None = None) -> Tensor:
        """[T, H]. As `SelfAttention`."""
        ours, memory = self.attention, self.memory
        size = hidden_TH.shape[-1] // ours.heads
        qkv_T3AD = ours.query_key_value(hidden_TH).view(len(hidden_TH), 3, ours.heads, size)
        if turns is not None:
            qkv_T3AD = rotate(qkv_T3AD, turns)
        kept_BS2AD = memory.add(qkv_T3AD[:, 1:])
        if memory.whole:
            attended_TAD = attend(qkv_T3AD, boundaries, longest, 0.0, ours.window, ours.causal)
        else:
            attended_TAD = attend_to_kept(qkv_T3AD[:, 0], kept_BS2AD, memory.places, ours.window)
        mixed_TH: Tensor = ours.output(attended_TAD.flatten(1))
        return mixed_TH


def attend_to_kept(query_BAD: Tensor, kept_BS2AD: Tensor, places_B: Tensor, window: int | None) -> Tensor:
    """One token of each text, at its place, to itself and those before it: [B, A, D]."""
    end = int(places_B.max()) + 1
    steps_BS = places_B[:, None] - torch.arange(end)
    seen_BS = (steps_BS >= 0) & (steps_BS <= (end if window is None else window // 2))
    keys_BASD, values_BASD = kept_BS2AD[:, :end].permute(2, 0, 3, 1, 4).unbind(0)
    attended_BA1D = F.scaled_dot_product_attention(
        query_BAD[:, :, None], keys_BASD, values_BASD, attn_mask=seen_BS[:, None, None]
    )
    return attended_BA1D[:, :, 0]


class Remembering:
    """A copy of a model, with the same weights, that keeps keys and values. longest: tokens of a text, in the end"""

    def __init__(self, model: NextModel, longest: int) -> None:
        self.model = copy.deepcopy(model, {id(weight): weight for weight in model.parameters()}).eval()
        self.longest = longest

    @torch.inference_mode()
    def begin(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Return [B, V]."""
        shape = self.model.encoder.shape
        size = (len(texts), self.longest, 2, shape.heads, shape.hidden_size // shape.heads)
        self.memory = KeysAndValues(shape.layers, size)
        for layer in self.model.encoder.layers:
            attention = layer.attention
            ours = attention.attention if isinstance(attention, RememberingAttention) else attention
            layer.attention = RememberingAttention(ours, self.memory)  # type: ignore[arg-type]
        self.lengths = torch.tensor([len(text) for text in texts])
        batch = batch_of([np.array(text, np.int32) for text in texts], (self.lengths.cumsum(0) - 1).tolist())
        self.memory.rows = torch.arange(len(texts)).repeat_interleave(self.lengths)
        self.memory.places, self.memory.whole = batch.positions(), True
        return self.model.logits(self.model.outputs(batch))

    @torch.inference_mode()
    def go_on(self, kept: Sequence[int], ids: Sequence[int]) -> Tensor:
        """Return [B, V]."""
        self.memory.keep(kept)
        places, rows = self.lengths[list(kept)], torch.arange(len(ids))
        self.lengths = places + 1
        self.memory.rows, self.memory.places, self.memory.whole = rows, places, False
        batch = PlacedBatch(
            ids=torch.tensor(ids),
            segment_ids=torch.zeros_like(rows),
            boundaries=torch.arange(len(ids) + 1, dtype=torch.int32),
            longest=1,
            points=rows,
            targets={},
            places=places,
        )
        return self.model.logits(self.model.outputs(batch))
