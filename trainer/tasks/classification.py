"""A classifier of texts: the encoder, and a head on the first token of every text.

BERT's head is its pooler, dropout and a matrix (Devlin et al. 2018, section 4.1), and begins with the pooler that
pre-training of pairs has learnt, where it has; what other families have is in their rows, and begins with random
weights.

Promise: the folder that `export_classifier` writes opens in transformers' `AutoModelForSequenceClassification` with
no key missing or left over, the names of the labels, and equal logits.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.families.contract import ClassHeadShape, EncoderShape, Family, ModelInputs
from trainer.huggingface.checkpoints import write_model
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.first_weights import init_weights
from trainer.model.heads import Pooler
from trainer.model.objective import Objective, state_below, sum_loss
from trainer.model_settings import ModelSettings, encoder_shape
from trainer.objectives.contract import ModelPart, Term

# Shapes in the names of tensors: T tokens, B texts, H hidden size, C classes.

LABEL = Term("label")
NUMBER = Term("number", has_rights=False)
PART = ModelPart("", "encoder", {"class_head": "class_head"}, "classes")


class ClassHead(nn.Module):
    """Matrix and activation of the first token, dropout, and a matrix with a row for each class."""

    def __init__(self, shape: EncoderShape, head: ClassHeadShape, num_classes: int) -> None:
        super().__init__()
        self.drops_first = head.drops_first
        self.pooler = Pooler(shape, head)
        self.dropout = nn.Dropout(shape.dropout if head.dropout is None else head.dropout)
        self.decision = nn.Linear(shape.hidden_size, num_classes)

    def forward(self, first_BH: Tensor) -> Tensor:
        """Logits [B, C]."""
        pooled_BH = self.pooler(self.dropout(first_BH) if self.drops_first else first_BH)
        logits_BC: Tensor = self.decision(self.dropout(pooled_BH))
        return logits_BC


class Classifier(Objective):
    """An encoder with a head, which says one of several classes, or a number where it has one output alone.

    A batch has the target `label` (int64 [B]) or `number` (float32 [B]).
    """

    def __init__(self, family: Family, encoder: TransformerEncoder, head: ClassHead) -> None:
        super().__init__(family, (LABEL if head.decision.out_features > 1 else NUMBER,))
        self.encoder = encoder
        self.class_head = head

    def answers(self, batch: Batch) -> Tensor:
        """Logits [B, C] in float32."""
        logits_BC: Tensor = self.class_head(self.encoder(batch).index_select(0, batch.boundaries[:-1])).float()
        return logits_BC

    def sums(self, batch: Batch) -> Tensor:
        """[1, 2]."""
        return self.losses(self.answers(batch), batch)

    def losses(self, logits_BC: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy of classes, or the squared error of numbers, summed: [1, 2]."""
        if self.terms == (LABEL,):
            found = sum_loss(logits_BC, batch.targets[LABEL.name])
        else:
            error = F.mse_loss(logits_BC[:, 0], batch.targets[NUMBER.name], reduction="sum")
            found = torch.stack([error, torch.zeros_like(error)])
        return torch.stack([found])  # no view: sharding watches what is returned


def build_classifier(
    settings: ModelSettings, inputs: ModelInputs, num_classes: int, pretrained: Mapping[str, Tensor]
) -> Classifier:
    """A classifier on a pre-trained model.

    num_classes: 1 where a number is said
    pretrained:  state of a pre-trained model of the same settings; what the head cannot take from it is drawn from
                 torch's generator
    """
    family = settings.of_family
    encoder = TransformerEncoder(encoder_shape(settings, inputs))
    encoder.load_state_dict(state_below("encoder.", pretrained))
    head = ClassHead(encoder.shape, family.class_head, num_classes)
    init_weights(head, family, encoder.shape.layers)
    learnt = state_below(family.class_head.pretrained, pretrained) if family.class_head.pretrained else {}
    if learnt:
        head.pooler.load_state_dict({name: learnt[name] for name in head.pooler.state_dict()})
    return Classifier(family, encoder, head)


def export_classifier(
    folder: Path, state: Mapping[str, Tensor], settings: ModelSettings, inputs: ModelInputs, labels: Sequence[str]
) -> None:
    """Write `config.json` and `model.safetensors` of a whole (not a sharded) state.

    labels: names of the classes in the order of the logits; none: the model says a number
    """
    labels, problem = (labels, "single_label_classification") if labels else (("score",), "regression")
    more = {
        "problem_type": problem,
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    write_model(folder, state, settings, inputs, PART, more)
