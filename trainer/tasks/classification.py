"""A classifier of texts: the encoder, and a head on the first token of every text.

BERT's head is its pooler, dropout and a matrix (Devlin et al. 2018, section 4.1), and begins with the pooler that
pre-training of pairs has learnt, where it has; RoBERTa's drops before its dense layer as well, and begins
with random weights.

Promise: the folder that `export_classifier` writes opens in transformers' `AutoModelForSequenceClassification` with
no key missing or left over, the names of the labels, and equal logits.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from safetensors.torch import save_file
from torch import Tensor, nn

from trainer.huggingface.checkpoints import CONFIG, WEIGHTS, config_json
from trainer.huggingface.names import huggingface_names
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.families import FAMILIES, encoder_shape, init_weights
from trainer.model.heads import Pooler
from trainer.settings import ModelInputs, ModelSettings

# Shapes in the names of tensors: T tokens, B texts, H hidden size, C classes.

# The head's modules and their names by family.
CLASSIFIER_HEADS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "bert": {"head.pooler.dense": "bert.pooler.dense", "head.decision": "classifier"},
        "roberta": {"head.pooler.dense": "classifier.dense", "head.decision": "classifier.out_proj"},
    }
)
CLASSIFIER_ARCHITECTURES = {"bert": "BertForSequenceClassification", "roberta": "RobertaForSequenceClassification"}
DROPS_FIRST = ("roberta",)  # families that drop before the dense layer too
POOLER = "pair_head.pooler."


class ClassificationHead(nn.Module):
    """Dense and tanh of the first token, dropout, and a matrix with a row for each class."""

    def __init__(self, *, hidden_size: int, num_classes: int, dropout: float, drops_first: bool) -> None:
        super().__init__()
        self.drops_first = drops_first
        self.pooler = Pooler(hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.decision = nn.Linear(hidden_size, num_classes)

    def forward(self, first_BH: Tensor) -> Tensor:
        """Logits [B, C]."""
        pooled_BH = self.pooler(self.dropout(first_BH) if self.drops_first else first_BH)
        logits_BC: Tensor = self.decision(self.dropout(pooled_BH))
        return logits_BC


class Classifier(nn.Module):
    """An encoder with a head; a batch without texts has logits [0, C] whose gradients are zeros."""

    def __init__(self, encoder: TransformerEncoder, head: ClassificationHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, C] in float32."""
        hidden_TH = self.encoder(batch.ids, batch.segment_ids, batch.positions(), batch.boundaries, batch.longest)
        logits_BC: Tensor = self.head(hidden_TH.index_select(0, batch.boundaries[:-1])).float()
        return logits_BC


def build_classifier(
    settings: ModelSettings, inputs: ModelInputs, num_classes: int, pretrained: Mapping[str, Tensor]
) -> Classifier:
    """A classifier on a pre-trained model.

    pretrained: state of a `PretrainingModel` of the same settings; what the head cannot take from it is drawn from
                torch's generator
    """
    encoder = TransformerEncoder(encoder_shape(settings, inputs))
    encoder.load_state_dict(_below("encoder.", pretrained))
    head = ClassificationHead(
        hidden_size=encoder.shape.hidden_size,
        num_classes=num_classes,
        dropout=settings.dropout,
        drops_first=settings.family in DROPS_FIRST,
    )
    init_weights(head, FAMILIES[settings.family])
    if pooler := _below(POOLER, pretrained):
        head.pooler.load_state_dict(pooler)
    return Classifier(encoder, head)


def _below(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def classifier_names(settings: ModelSettings, inputs: ModelInputs) -> dict[str, tuple[str, ...]]:
    """What Hugging Face calls every parameter of a classifier; with several, ours holds them one upon another."""
    encoder = {
        ours: theirs for ours, theirs in huggingface_names(settings, inputs).items() if ours.startswith("encoder.")
    }
    head = {
        f"{ours}.{kind}": (f"{theirs}.{kind}",)
        for ours, theirs in CLASSIFIER_HEADS[settings.family].items()
        for kind in ("weight", "bias")
    }
    return encoder | head


def export_classifier(
    folder: Path, state: Mapping[str, Tensor], settings: ModelSettings, inputs: ModelInputs, labels: Sequence[str]
) -> None:
    """Write `config.json` and `model.safetensors` of a whole (not a sharded) state.

    labels: names of the classes in the order of the logits; none: the model says a number
    """
    names = classifier_names(settings, inputs)
    assert state.keys() == names.keys(), sorted(state.keys() ^ names.keys())[:3]
    tensors = {
        theirs: part.detach().to("cpu", copy=True).contiguous()
        for ours, parts in names.items()
        for theirs, part in zip(parts, state[ours].chunk(len(parts)), strict=True)
    }
    labels, problem = (labels, "single_label_classification") if labels else (("score",), "regression")
    config = config_json(settings, inputs) | {
        "architectures": [CLASSIFIER_ARCHITECTURES[settings.family]],
        "problem_type": problem,
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
