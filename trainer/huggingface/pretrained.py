"""The weights of a folder for a model with other heads: its encoder, and the heads that are known here.

Promise: any folder of these families in safetensors will do, whatever head it was saved with: one for pre-training, for
a task, or none (then the names of its tensors lack their first part). Every tensor of the encoder must be there, in the
shapes that its `config.json` gives; nothing is drawn at random.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from corpora.errors import InputError
from trainer.families.contract import Family, ModelInputs
from trainer.huggingface.checkpoints import WEIGHTS, checked, huggingface_names, modern, opened
from trainer.huggingface.config import CONFIG, special_ids
from trainer.model.objective import build_model
from trainer.settings.model import ModelSettings

MASKED = "masked"


class Pretrained(NamedTuple):
    """A model to begin with. state: below "encoder." all of it; of heads for masked tokens and pairs what there is"""

    settings: ModelSettings
    inputs: ModelInputs
    state: dict[str, Tensor]


def load_pretrained(folder: Path) -> Pretrained:
    """Return the encoder of a folder. Raises InputError where it has none that can be made here, or not all of it."""
    config, stored, settings = opened(folder, {"kind": MASKED})
    family, tensors = settings.of_family, modern(stored)
    inputs = ModelInputs(
        vocab_size=config["vocab_size"], special_ids=special_ids(folder, config), pair_labels=family.pairs
    )
    if settings.groups > len(tensors):  # to build them all could take hours
        raise InputError(
            f"{folder / CONFIG} gives {settings.groups:,} layers, but {WEIGHTS} has {len(tensors)} tensors."
        )
    with torch.device("meta"):
        model = build_model(settings, inputs)
    [part] = settings.objective_settings.parts(family, inputs)
    names = huggingface_names(model.state_dict(), family, part)
    prefixed = with_first_part(tensors, family)
    where, whole = str(folder / WEIGHTS), model.state_dict()
    _check_encoder(prefixed, names, where)
    state = {
        ours: checked(prefixed, whole[ours], theirs, where)
        for ours, theirs in names.items()
        if all(each in prefixed for each in theirs)
    }
    return Pretrained(settings, inputs, state)


def with_first_part(tensors: Mapping[str, Tensor], family: Family) -> dict[str, Tensor]:
    """The tensors of an encoder that was saved by itself under the names that it has in a model with a head."""
    first = family.names.encoder["embeddings.word"][0].split(".")[0] + "."
    if any(name.startswith(first) for name in tensors):
        return dict(tensors)
    return {first + name: tensor for name, tensor in tensors.items()}


def _check_encoder(tensors: Mapping[str, Tensor], names: Mapping[str, tuple[str, ...]], where: str) -> None:
    wanted = [each for ours, theirs in names.items() if ours.startswith("encoder.") for each in theirs]
    missing = [each for each in wanted if each not in tensors]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"{where} lacks {missing[0]}{more} of the encoder that its {CONFIG} describes: save or copy the model "
            "again."
        )
