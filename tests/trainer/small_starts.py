"""Small models to begin a training with, as folders, for the shards of `small_training`.

folder = write_start(tmp_path / "start", store)           two layers of 32 with the store's vocabulary
stage = planned_from(store, folder)                       the stage of a model that begins with it
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from small_batches import far_from_zero
from small_training import SmallStore, small_model
from torch import Tensor

from corpora.store.manifest import Manifest
from corpora.store.stage import Stage
from tokenizers_train.build import read_vocabulary
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from trainer.build import plan_model
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.huggingface.checkpoints import export
from trainer.huggingface.start_model import adapt_start, read_settings
from trainer.model.objective import build_model
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings
from trainer.start_weights import WEIGHTS, read_start

PHASES = (PhaseSettings(steps=4, batch=8),)


def write_start(
    folder: Path, vocabulary: Vocabulary, *, pairs: bool = True, rows: int | None = None, family: str = "bert"
) -> dict[str, Tensor]:
    """Write a model that is no first one, with its tokenizer; its state. rows: of its word embeddings, padding too"""
    inputs = ModelInputs(
        vocab_size=rows or vocabulary.size, special_ids=SpecialIds.from_roles(vocabulary.special_ids), pair_labels=pairs
    )
    settings = replace(small_model(), family=family)
    model = far_from_zero(build_model(settings, inputs), seed=5, std=0.1)
    vocabulary.save(folder)
    export(folder, model.state_dict(), settings, inputs)
    state: dict[str, Tensor] = model.state_dict()
    return state


def edit(folder: Path, change: Any) -> None:
    """Write the weights of a folder again as a function makes them of what is there."""
    save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS, metadata={"format": "pt"})


def planned_from(
    store: SmallStore,
    folder: Path,
    work: Path | None = None,
    *,
    shards: Manifest | None = None,
    said: dict[str, Any] | None = None,
    phases: tuple[PhaseSettings, ...] = PHASES,
    **training: Any,
) -> Stage:
    """The stage of a model that begins with a folder; its job works in another one."""
    vocabulary = store.vocabulary
    start = adapt_start(read_start(folder), read_vocabulary(store.place, vocabulary), "The vocabulary")
    settings = TrainingSettings(
        phase=phases, **{"learning_rate": 1e-3, "checkpoint_every": 2, "processes": 1, **training}
    )
    stage = plan_model(
        store.place,
        "m",
        [shards or store.shards] * len(phases),
        vocabulary,
        read_settings(start, said or {}),
        settings,
        start,
    )
    job = replace(stage.parts[0].job, **({"work": str(work)} if work is not None else {}))
    return replace(stage, parts=(replace(stage.parts[0], job=job),))
