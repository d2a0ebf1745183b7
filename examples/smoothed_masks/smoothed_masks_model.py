"""The module that learns from masked tokens with smoothed targets."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.families.contract import ModelInputs
from trainer.model.batches import Batch
from trainer.model.masked import MaskedModel
from trainer.model.objective import sum_loss
from trainer.objectives.contract import IGNORED
from trainer.settings.model import ModelSettings


class SmoothedModel(MaskedModel):
    """A masked model whose targets are smoothed."""

    def __init__(self, settings: ModelSettings, inputs: ModelInputs) -> None:
        super().__init__(settings, inputs)
        self.smoothing = settings.objective_settings.smoothing

    def sum_losses(self, batch: Batch) -> Tensor:
        """[1, 2]: the smoothed cross-entropy, and how many tokens are right."""
        logits_MV, targets_M = self.answer(batch), batch.targets["masked"]
        smoothed = F.cross_entropy(
            logits_MV.float(), targets_M, reduction="sum", ignore_index=IGNORED, label_smoothing=self.smoothing
        )
        return torch.stack([torch.stack([smoothed, sum_loss(logits_MV, targets_M)[1]])])
