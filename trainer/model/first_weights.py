"""First weights: how a family's matrices begin; biases are 0, norms 1 and 0.

Cost: BERT-base takes 1.0 s.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from trainer.families.contract import DEVIATION, Family
from trainer.model.encoder import Embeddings

Draw = Callable[[Tensor, float], None]


@torch.no_grad()
def draw_truncated(weight: Tensor, deviation: float) -> None:
    """Normal, drawn again beyond two deviations, as the authors of BERT start their matrices.

    `nn.init.trunc_normal_` has the same distribution and takes seven times as long.
    """
    flat = nn.init.normal_(weight, std=deviation).view(-1)
    far = (flat.abs() > 2 * deviation).nonzero().squeeze(1)
    while len(far):
        flat[far] = drawn = torch.normal(0.0, deviation, far.shape, device=flat.device, dtype=flat.dtype)
        far = far[drawn.abs() > 2 * deviation]


def draw_normal(weight: Tensor, deviation: float) -> None:
    """Normal, as fairseq starts RoBERTa's matrices."""
    nn.init.normal_(weight, std=deviation)


FIRST_WEIGHTS: Mapping[str, Draw] = MappingProxyType({"truncated-normal": draw_truncated, "normal": draw_normal})
INTO_RESIDUAL = ("attention.output", "narrow", "masked_head.dense", "pooler.dense")


def init_weights(model: nn.Module, family: Family, layers: int, deviation: float = DEVIATION) -> None:
    """Draw the matrices of a whole model, or of a head alone, from torch's generator.

    layers: of its encoder

    Of a family that scales by depth, what adds to the residual is smaller by the root of twice the layers, and so are
    heads: ModernBERT's authors call it Megatron's initialisation (Warner et al. 2024, appendix A.2).
    """
    draw = FIRST_WEIGHTS[family.first_weights]
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            draw(module.weight, deviation)
            if family.scales_by_depth and name.endswith(INTO_RESIDUAL):
                with torch.no_grad():
                    module.weight.mul_((2 * layers) ** -0.5)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        bias = getattr(module, "bias", None)
        if bias is not None:
            nn.init.zeros_(bias)
    for module in model.modules():
        if isinstance(module, Embeddings) and family.position_from_pad:
            with torch.no_grad():
                for table in (module.word, module.position):
                    if table is not None:
                        table.weight[module.first_position - 1].zero_()
