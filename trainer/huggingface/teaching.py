"""Checks without torch that a student of these settings can learn from a teacher.

Promise: a teacher of other tokens or fewer positions, or whose layers or vectors do not fit, is refused.
"""

from collections.abc import Sequence
from pathlib import Path

from corpora.errors import InputError
from tokenizers_train.vocabularies.vocabulary import load_vocabulary
from trainer.families.contract import ModelInputs
from trainer.huggingface.config import CONFIG, read_config, settings_of, special_ids
from trainer.jobs.start import Start
from trainer.objectives.distillation import DistillationObjective, same_vocabulary
from trainer.settings.model import ModelSettings, encoder_shape


def check_teacher(teacher: Start, model: ModelSettings, inputs: ModelInputs, longest: int) -> None:
    """Raise InputError where a student of these settings cannot learn from it. longest: tokens of an example"""
    folder = Path(teacher.folder)
    config = read_config(folder / CONFIG)
    settings = settings_of(config, str(folder / CONFIG))
    theirs = ModelInputs(vocab_size=config["vocab_size"], special_ids=special_ids(folder, config), pair_labels=False)
    if (theirs.vocab_size, theirs.special_ids) != (inputs.vocab_size, inputs.special_ids):
        raise InputError(
            f"{_called(folder)} has {theirs.vocab_size} tokens with {theirs.special_ids}, and the shards have "
            f"{inputs.vocab_size} with {inputs.special_ids}. {_REMEDY}"
        )
    if settings.positions < longest:
        raise InputError(
            f"{_called(folder)} reads up to {settings.positions} tokens, and the shards hold examples of up to "
            f"{longest}: make shorter examples, or give another teacher."
        )
    objective = model.objective_settings
    assert isinstance(objective, DistillationObjective), "other objectives have no teacher"
    shapes = encoder_shape(model, inputs), encoder_shape(settings, theirs)
    objective.check_vectors(*shapes)
    objective.chosen_layers(*shapes)


def check_tokens(teacher: Start, tokens: Sequence[str]) -> None:
    """Raise InputError where a teacher's tokens are not these, in their order."""
    folder = Path(teacher.folder)
    theirs = load_vocabulary(folder).tokens
    differing = same_vocabulary(tokens, theirs)
    if differing is not None:
        named = [repr(each[differing]) if differing < len(each) else "none" for each in (theirs, tokens)]
        raise InputError(
            f"{_called(folder)} has a different vocabulary from the shards: its token {differing} is {named[0]}, and "
            f"theirs is {named[1]}. {_REMEDY}"
        )


def _called(folder: Path) -> str:
    return f"The teacher in {folder} (model.objective.teacher)"


_REMEDY = "A student reads what its teacher reads: make the shards with the vocabulary in that folder, or give another."
