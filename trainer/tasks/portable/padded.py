"""Our model on padded rows: ids, a mask and segments in, all of [B, S]; the same weights, plain attention.

A task's model treats padded rows like tokens that lie end to end, because these lie end to end as well: only attention
and the places of tokens differ. So every module with a `TransformerEncoder` is exported as it is; what is written of
each task's model is in `graphs`.

Promise: the output for a token or a row is the model's without padding (float32: up to 1e-5), whatever is padded on
the right. Cost: scores of tokens x tokens; it is for export, not for training.
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainer.model.attention import rotate, sides
from trainer.model.batches import Batch
from trainer.model.encoder import Layer, SelfAttention, TransformerEncoder
from trainer.tasks.heads.vector_steps import pooled_rows
from trainer.tasks.kinds.texts import COLUMNS

# Shapes in the names of tensors: B rows, S tokens of each, T = B * S, A heads, D size of a head, H hidden size.


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedBatch(Batch):
    """Rows of one length, one after another. boundaries: in their place bool [B, S], the tokens that are no padding"""

    def positions(self) -> Tensor:
        """int64 [T]."""
        rows, length = self.boundaries.shape
        return torch.arange(length).expand(rows, length).flatten()

    def first_tokens(self) -> Tensor:
        """int64 [B]."""
        rows, length = self.boundaries.shape
        return torch.arange(rows) * length

    def means(self, values_TH: Tensor) -> Tensor:
        """float32 [B, H]."""
        rows, length = self.boundaries.shape
        present_BS1 = self.boundaries.unsqueeze(-1).to(torch.float32)
        sums_BH = (values_TH.float().view(rows, length, -1) * present_BS1).sum(1)
        return sums_BH / present_BS1.sum(1).clamp(min=1)

    def pooled(self, values_TH: Tensor, pooling: str) -> Tensor:
        """float32 [B, H times modes], as `vector_steps.pooled`."""
        return pooled_rows(values_TH.view(*self.boundaries.shape, -1), self.boundaries, pooling)


class PaddedAttention(nn.Module):
    """The attention of a layer, over padded rows."""

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, hidden_TH: Tensor, present_BS: Tensor, longest: int, turns: Tensor | None = None) -> Tensor:
        """[T, H]. present_BS: the tokens that are no padding; turns: as in `SelfAttention`"""
        ours = self.attention
        rows, length = present_BS.shape
        heads, size = ours.heads, hidden_TH.shape[-1] // ours.heads
        qkv_T3AD = ours.query_key_value(hidden_TH).view(rows * length, 3, heads, size)
        if turns is not None:
            qkv_T3AD = rotate(qkv_T3AD, turns)
        q_BASD, k_BASD, v_BASD = qkv_T3AD.view(rows, length, 3, heads, size).permute(2, 0, 3, 1, 4).unbind(0)
        scores_BASS = q_BASD @ k_BASD.transpose(-1, -2) * size**-0.5
        seen_BSS = present_BS[:, None, :] & self._near(length)
        lowest = torch.finfo(scores_BASS.dtype).min  # not -inf: a row of padding has a softmax too
        weights_BASS = scores_BASS.masked_fill(~seen_BSS[:, None], lowest).softmax(-1)
        mixed_TH: Tensor = ours.output((weights_BASS @ v_BASD).transpose(1, 2).reshape(rows * length, heads * size))
        return mixed_TH

    def _near(self, length: int) -> Tensor:
        """Which keys are in sight of which queries: bool [S, S]."""
        places_S = torch.arange(length)
        steps_SS = places_S - places_S[:, None]
        ours = self.attention
        left, right = sides(length if ours.window is None else ours.window // 2, ours.causal)
        return (steps_SS >= -left) & (steps_SS <= right)


class PaddedModel(nn.Module):
    """A copy of a module that reads padded rows in place of batches.

    outputs: returns those of a batch, of tokens or of whole rows
    per_token: whether they are of tokens
    """

    def __init__(self, outputs: nn.Module, per_token: bool) -> None:
        super().__init__()
        self.per_token = per_token
        self.module = copy.deepcopy(outputs).eval()
        for encoder in [module for module in self.module.modules() if isinstance(module, TransformerEncoder)]:
            for layer in encoder.layers:
                assert isinstance(layer, Layer), "layers of an encoder"
                layer.attention = PaddedAttention(layer.attention)  # type: ignore[assignment]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        columns: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return outputs [B, ...], or [B, S, ...] where they are of tokens.

        The first three: int64 [B, S]; columns: float32 [B, N], the numbers with each text
        """
        rows, length = input_ids.shape
        ids_T = input_ids.reshape(-1)
        batch = PaddedBatch(
            ids=ids_T,
            segment_ids=torch.zeros_like(ids_T) if token_type_ids is None else token_type_ids.reshape(-1),
            boundaries=attention_mask.bool(),
            longest=0,
            points=torch.arange(rows * length),
            targets={} if columns is None else {COLUMNS: columns},
        )
        outputs: tuple[Tensor, ...] = self.module(batch)
        return tuple(each.view(rows, length, *each.shape[1:]) for each in outputs) if self.per_token else outputs
