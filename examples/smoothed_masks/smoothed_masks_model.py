"""The module that learns from masked tokens with smoothed targets."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.families.contract import ModelInputs
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.masked import MaskedHead, MaskedModel
from trainer.model.objective import sum_loss
from trainer.objectives.contract import IGNORED
from trainer.settings.model import ModelSettings, encoder_shape


class SmoothedModel(MaskedModel):
    """A masked model whose targets are smoothed."""

    smoothing = 0.0

    def sums(self, batch: Batch) -> Tensor:
        """[1, 2]: the smoothed cross-entropy, and how many tokens are right."""
        logits_MV, targets_M = self.answers(batch), batch.targets["masked"]
        smoothed = F.cross_entropy(
            logits_MV.float(), targets_M, reduction="sum", ignore_index=IGNORED, label_smoothing=self.smoothing
        )
        return torch.stack([torch.stack([smoothed, sum_loss(logits_MV, targets_M)[1]])])


def build_smoothed(settings: ModelSettings, inputs: ModelInputs) -> SmoothedModel:
    """The model of `SmoothedObjective`."""
    family, shape = settings.of_family, encoder_shape(settings, inputs)
    objective = settings.objective_settings
    head = MaskedHead(shape, family.masked_head)
    model = SmoothedModel(family, objective.terms(family, inputs), TransformerEncoder(shape), head, None)
    model.smoothing = objective.smoothing
    return model
