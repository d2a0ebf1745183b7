"""Hyper-parameters of fine-tuning as the authors of each family published them: the defaults.

BERT        Devlin et al. 2018, appendix A.3: batch 32, 3 epochs, 5e-5 to 2e-5; warm-up of a tenth is their code's
small BERTs Turc et al. 2019, section 5: 4 epochs, rates of 3e-4 to 3e-5
RoBERTa     Liu et al. 2019, table 10: 10 epochs, warm-up of 6 %, decay 0.1, 1e-5 to 3e-5
ELECTRA     Clark et al. 2020, table 7: 3e-4, 1e-4 and 5e-5 by size, layer-wise decay, no weight decay
ALBERT      Lan et al. 2020, table 14: 1e-5 to 5e-5 by task
DistilBERT  as BERT, of which it is distilled (Sanh et al. 2019, section 3)
ModernBERT  Warner et al. 2024, appendix E: rates by task, decay of 1e-6 to 1e-5

similarity  Reimers, Gurevych 2019, sections 3.1 and 4.2: batch 16, 2e-5, 4 epochs of scores, one of NLI's classes
retrieval   Karpukhin et al. 2020, section 5: batch 128, 40 epochs, 2e-5; 1,237 steps of warm-up of their 18,400
features    AllenNLP's ner_elmo.jsonnet, of Peters et al. 2018: Adam at 1e-3, batch 64, 75 epochs, patience 25

By task: SQuAD of RoBERTa and RACE (Liu et al. 2019, table 10), SQuAD of ELECTRA (Clark et al. 2020, appendix B), SQuAD
of ALBERT (Lan et al. 2020, table 14), SWAG of BERT (Devlin et al. 2018, section 4.4).

The rates of tasks are those of models of the size base; small ones keep their own.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainer.settings.model import ModelSettings
from trainer.tasks.settings import FinetuneSettings

FEATURES = "features"  # of what learns from an encoder that does not: its rate goes by no size of the encoder
SMALL = 512  # hidden size up to which a BERT is one of the small ones

USUAL: dict[str, Any] = {"epochs": 3, "batch": 32, "learning_rate": 5e-5, "warmup": 0.1, "weight_decay": 0.01}
FAMILIES: dict[str, dict[str, Any]] = {
    "roberta": {"epochs": 10, "learning_rate": 2e-5, "warmup": 0.06, "weight_decay": 0.1},
    "albert": {"learning_rate": 2e-5},
    "modernbert": {"learning_rate": 5e-5, "warmup": 0.06, "weight_decay": 1e-5},
    "electra": {"weight_decay": 0.0},
}
ELECTRA_SIZES = ((256, 3e-4, 0.8), (768, 1e-4, 0.8), (1 << 20, 5e-5, 0.9))  # up to this hidden size: rate, decay
TASKS: dict[str, dict[str, Any]] = {
    "similarity": {"batch": 16, "epochs": 4, "learning_rate": 2e-5, "warmup": 0.1, "weight_decay": 0.01},
    "retrieval": {"batch": 128, "epochs": 40, "learning_rate": 2e-5, "warmup": 0.07, "weight_decay": 0.0},
    FEATURES: {
        **{"batch": 64, "epochs": 75, "patience": 25, "learning_rate": 1e-3},
        **{"warmup": 0.0, "weight_decay": 0.0, "layer_decay": 1.0},
    },
}
BOTH: dict[tuple[str, str], dict[str, Any]] = {
    ("span", "roberta"): {"epochs": 2, "batch": 48, "learning_rate": 1.5e-5, "weight_decay": 0.01},
    ("span", "electra"): {"epochs": 2},
    ("span", "albert"): {"epochs": 2, "batch": 48, "learning_rate": 5e-5},
    ("choice", "bert"): {"batch": 16, "learning_rate": 2e-5},
    ("choice", "roberta"): {"epochs": 4, "batch": 16, "learning_rate": 1e-5},
}


def published_as(task: Mapping[str, Any]) -> str:
    """Under which kind the values for a task are. task: its table

    >>> published_as({"kind": "tags"}), published_as({"kind": "tags", "features": "last"})
    ('tags', 'features')
    """
    return FEATURES if task.get("features") else str(task.get("kind", ""))


def with_published(settings: FinetuneSettings, model: ModelSettings, kind: str = "") -> FinetuneSettings:
    """Return the settings, with published values where they name none. kind: of the task; it precedes the family"""
    family, hidden_size = model.of_family.name, model.shape[1]
    taken = {**USUAL, "layer_decay": 1.0, **FAMILIES.get(family, {})}
    if family == "electra":
        _, rate, decay = next(row for row in ELECTRA_SIZES if hidden_size <= row[0])
        taken |= {"learning_rate": rate, "layer_decay": decay}
    elif family == "bert" and hidden_size <= SMALL:
        taken |= {"learning_rate": 3e-4, "epochs": 4}
    small = {"learning_rate"} if hidden_size <= SMALL and kind != FEATURES else set()
    of_task = {**TASKS.get(kind, {}), **BOTH.get((kind, family), {})}
    taken |= {name: value for name, value in of_task.items() if name not in small}
    return replace(settings, **{name: value for name, value in taken.items() if getattr(settings, name) is None})
