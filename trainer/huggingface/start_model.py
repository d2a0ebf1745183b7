"""Checks a model to start from, or a teacher to learn from, without torch.

For a start model, this module finds its settings, the rows for new tokens and the missing heads. A recipe that
contradicts the folder is refused, and so is a vocabulary that is neither the folder's nor adapted from it. Only the
header of the weight file is read. A teacher is refused if it has other tokens, fewer positions, or layers or vectors
that do not fit.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from corpora.errors import InputError
from corpora.generic_types import Json
from tokenizers_train.adapting import find_old_pieces
from tokenizers_train.vocabularies.vocabulary import Vocabulary, load_vocabulary
from trainer.families.contract import Family, ModelInputs
from trainer.huggingface.config import CONFIG, find_special_ids, read_config, to_model_settings
from trainer.huggingface.vocabulary_rows import WEIGHTS, read_checked_config, read_header, unwrap_names
from trainer.objectives.contract import ModelPart
from trainer.objectives.distillation import DistillationObjective, find_different_token
from trainer.settings.model import ModelSettings, build_encoder_shape, build_part_settings
from trainer.start_weights import StartModel

UNSHAPED = (
    "dropout", "attention_dropout", "initializer_range", "window", "every_global", "global_base", "local_base",
    "pooling",
)  # fmt: skip
FREE_FIELDS = (*UNSHAPED, "objective")  # what may be other than the folder's: it shapes no weight
SHAPE = ("layers", "hidden_size", "heads", "feed_forward_size")
_REMEDY = "A student reads what its teacher reads: make the shards with the vocabulary in that folder, or give another."


def read_settings(start: StartModel, given: Mapping[str, Json]) -> ModelSettings:
    """Read the settings of the model to start from, and apply those of a recipe that may differ, such as dropout.

    Args:
        start: The folder of the model.
        given: The settings under `[model]` in the recipe, by key.

    Raises:
        InputError: If the recipe sets a size that differs from the folder's, or if the model is not supported.
    """
    where = Path(start.folder) / CONFIG
    settings = to_model_settings(read_config(where), str(where), given.get("objective"))
    for key, value in given.items():
        theirs = _get_value(settings, key, value)
        if key not in FREE_FIELDS and value != theirs:
            raise InputError(
                f"model.{key} = {value!r}, but the model in {start.folder} has {theirs!r}: leave it out, because the "
                "model to start from sets its own sizes; or give another folder as model.start."
            )
    return replace(settings, **{key: given[key] for key in UNSHAPED if key in given})


def _get_value(settings: ModelSettings, key: str, given: Json) -> Json:
    """Return a start model's value of a setting, to be compared with the value in the recipe.

    For "size", it is the given name if the model has that size, otherwise a description of the model's sizes.

    Args:
        settings: The settings of the start model.
        key: The name of the setting.
        given: The value in the recipe.
    """
    shape = dict(zip(SHAPE, settings.shape, strict=True))
    if key == "size":
        named = settings.family_row.sizes.get(str(given))
        fits = named is not None and (*named[: len(SHAPE)],) == settings.shape
        return given if fits else ", ".join(f"{name} = {number}" for name, number in shape.items())
    epsilon = settings.norm_epsilon or settings.family_row.norm_epsilon
    others = {
        "norm_epsilon": epsilon,
        "max_length": settings.positions,
        "embedding_size": settings.embedding,
        "layer_groups": settings.groups,
    }
    return {**shape, **others}.get(key, getattr(settings, key))


def adapt_start(start: StartModel, vocabulary: Vocabulary, called: str) -> StartModel:
    """Return a copy of a start model with embedding rows for the tokens that a vocabulary adds to the model's.

    Args:
        start: The folder of the model.
        vocabulary: The vocabulary of the training run.
        called: The name of the vocabulary in messages.

    Raises:
        InputError: If the vocabulary is neither the folder's nor adapted from it.
    """
    folder = Path(start.folder)
    old = load_vocabulary(folder)
    read_checked_config(folder, old)
    try:
        rows = find_old_pieces(old, vocabulary)
    except InputError as error:
        raise InputError(
            f"{called} is neither the vocabulary of the model in {folder}, from which the training starts, nor "
            f"adapted from it. {error} Leave [vocabulary] out to use the model's own; `cloze vocabulary adapt` adds "
            "to it."
        ) from error
    return replace(start, rows=tuple(sorted(rows.items())))


def list_loaded_parts(start: StartModel, model: ModelSettings, inputs: ModelInputs) -> tuple[ModelPart, ...]:
    """List the parts of a model whose weights are in a folder: the main one, and others with a subfolder.

    A part is a separately saved encoder, such as ELECTRA's generator.

    Args:
        start: The folder.
        model: The settings of the model.
        inputs: The vocabulary size and special ids of the model.

    Raises:
        InputError: If the shape of a part differs from the model's.
    """
    first, *others = model.objective_settings.list_parts(model.family_row, inputs)
    below = [part for part in others if f"{part.folder}/{CONFIG}" in start.files]
    for part in below:
        path = Path(start.folder) / part.folder / CONFIG
        theirs = to_model_settings(read_config(path), str(path), {"kind": part.architecture}).shape
        wanted = build_part_settings(model, part).shape
        if theirs != wanted:
            raise InputError(
                f"{path} describes a {part.folder} of {theirs} (layers, hidden size, heads, feed-forward size), and "
                f"the model has one of {wanted}: set model.objective.generator_size to "
                f"{theirs[1] / model.shape[1]:g}, or remove {path.parent}, and the {part.folder} starts with first "
                "weights."
            )
    return (first, *below)


def check_special_ids(start: StartModel, inputs: ModelInputs) -> None:
    """Raise InputError if the folder's model and the examples have different ids of special tokens."""
    folder = Path(start.folder)
    theirs = find_special_ids(folder, read_config(folder / CONFIG))
    if theirs != inputs.special_ids:
        raise InputError(
            f"The special tokens of the model in {folder} are {theirs}, and those of the examples "
            f"{inputs.special_ids}: let its {CONFIG} name those of its tokenizer."
        )


def list_new_heads(start: StartModel, model: ModelSettings, inputs: ModelInputs) -> tuple[str, ...]:
    """List the names of heads and whole parts that a folder lacks, and that therefore start with random weights.

    Args:
        start: The folder.
        model: The settings of the model.
        inputs: The vocabulary size and special ids of the model.

    Raises:
        InputError: If a file is unreadable, or if the shape of a part differs.
    """
    begun, lacking = list_loaded_parts(start, model, inputs), list[str]()
    for part in begun:
        path = Path(start.folder) / part.folder / WEIGHTS
        with path.open("rb") as stream:
            _, stored = read_header(stream, path)
        names = unwrap_names([tensor.name for tensor in stored])
        lacking += list_missing_heads(names, part, model.family_row)
    others = model.objective_settings.list_parts(model.family_row, inputs)[1:]
    return (*lacking, *(part.folder for part in others if part not in begun))


def list_missing_heads(names: Collection[str], part: ModelPart, family: Family) -> tuple[str, ...]:
    """List the heads of a part, by our names, that have no tensor among the given tensor names."""
    return tuple(
        ours for ours, called in part.heads.items() if not any(_is_of_head(name, called, family) for name in names)
    )


def _is_of_head(name: str, called: str, family: Family) -> bool:
    """Return True if a tensor name proves that a head exists. A pooler can exist without a head, and does not count.

    Args:
        name: The name of the tensor in the file.
        called: The family's name of the head, such as "pair_head".
        family: The family of the model.
    """
    modules = family.names.heads[called].values()
    return not name.startswith(family.names.ignored) and any(_is_in_module(name, module) for module in modules)


def is_of_other_heads(name: str, part: ModelPart, family: Family) -> bool:
    """Return True if a tensor belongs to a head that the part does not have, or is ignored by the family.

    `name` is the name of the tensor in a file.
    """
    heads = {called: head.values() for called, head in family.names.heads.items()}
    if any(_is_in_module(name, module) for called in part.heads.values() for module in heads[called]):
        return False
    others = (module for called in heads.keys() - part.heads.values() for module in heads[called])
    return name.startswith(family.names.ignored) or any(_is_in_module(name, module) for module in others)


def _is_in_module(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def check_teacher(teacher: StartModel, model: ModelSettings, inputs: ModelInputs, longest: int) -> None:
    """Check that a student can learn from a teacher.

    Args:
        teacher: The folder of the teacher.
        model: The settings of the student.
        inputs: The vocabulary size and special ids of the student.
        longest: The maximum number of tokens of an example.

    Raises:
        InputError: If the teacher has other tokens or too few positions, or if the hidden states cannot be compared.
    """
    folder = Path(teacher.folder)
    config = read_config(folder / CONFIG)
    settings = to_model_settings(config, str(folder / CONFIG))
    theirs = ModelInputs(
        vocab_size=config["vocab_size"], special_ids=find_special_ids(folder, config), pair_labels=False
    )
    if (theirs.vocab_size, theirs.special_ids) != (inputs.vocab_size, inputs.special_ids):
        raise InputError(
            f"{_name_teacher(folder)} has {theirs.vocab_size} tokens with {theirs.special_ids}, and the shards have "
            f"{inputs.vocab_size} with {inputs.special_ids}. {_REMEDY}"
        )
    if settings.positions < longest:
        raise InputError(
            f"{_name_teacher(folder)} reads up to {settings.positions} tokens, and the shards hold examples of up to "
            f"{longest}: make shorter examples, or give another teacher."
        )
    objective = model.objective_settings
    assert isinstance(objective, DistillationObjective), "other objectives have no teacher"
    shapes = build_encoder_shape(model, inputs), build_encoder_shape(settings, theirs)
    objective.check_vectors(*shapes)
    objective.choose_layers(*shapes)


def check_tokens(teacher: StartModel, tokens: Sequence[str]) -> None:
    """Raise InputError if a teacher's vocabulary differs from the tokens of the shards, which are ordered by id."""
    folder = Path(teacher.folder)
    theirs = load_vocabulary(folder).tokens
    differing = find_different_token(tokens, theirs)
    if differing is not None:
        named = [repr(each[differing]) if differing < len(each) else "none" for each in (theirs, tokens)]
        raise InputError(
            f"{_name_teacher(folder)} has a different vocabulary from the shards: its token {differing} is {named[0]}, "
            f"and theirs is {named[1]}. {_REMEDY}"
        )


def _name_teacher(folder: Path) -> str:
    return f"The teacher in {folder} (model.objective.teacher)"
