"""Reads and writes `config.json` by the tables of a family, and sets the tokenizer's maximum length. No torch.

Promise: settings that are written to a configuration and read again are the same. A configuration that none of our
models matches is refused, with the name of the key that differs.

The tables use these names for our values: sizes as in `EncoderShape`; `positions`, which includes those before the
first one; `deviation`, the standard deviation of random weights; and `activation`, with Hugging Face's name for it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from corpora.store.tables import read_files
from trainer.families.contract import DEVIATION, Family, ModelInputs, SpecialIds
from trainer.settings.model import FAMILIES, POOLINGS, ModelSettings, build_encoder_shape, find_family

CONFIG = "config.json"

# Our activation by their names; the first of ours is what we write.
HIDDEN_ACTS = {"gelu": "gelu", "gelu_pytorch_tanh": "gelu-tanh", "gelu_new": "gelu-tanh", "relu": "relu"}

INTEGERS = (
    "layers", "hidden_size", "heads", "feed_forward_size", "vocab_size", "positions", "embedding_size", "layer_groups",
)  # fmt: skip
NUMBERS = ("dropout", "attention_dropout")
ROLES = ("pad", "unk", "cls", "sep", "mask")

# Special tokens by role, as BERT's tokenizers spell them, as RoBERTa's do and as ALBERT's.
SPELLINGS = (
    {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
    {"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
)
TOKENIZER_CONFIG = "tokenizer_config.json"


def build_config(settings: ModelSettings, inputs: ModelInputs, architecture: str) -> dict[str, Any]:
    """Build the config.json of a model, including the ids of all special tokens.

    Args:
        settings: The settings of the model.
        inputs: The vocabulary size and special ids of the model.
        architecture: What the folder contains, as a key of `Names.architectures`, such as "masked".
    """
    names, special = settings.family_row.names, inputs.special_ids
    values = _collect_values(settings, inputs)
    return {
        "architectures": [names.architectures[architecture]],
        "model_type": settings.family_row.model_type or settings.family,
        **{theirs: values[ours] for theirs, ours in names.config.items()},
        **{f"{role}_token_id": getattr(special, role) for role in ROLES},
        "bos_token_id": special.cls if names.begin_and_end else None,
        "eos_token_id": special.sep if names.begin_and_end else None,
        **names.constants,
        **names.written,
    }


def _collect_values(settings: ModelSettings, inputs: ModelInputs) -> dict[str, Any]:
    """Collect the values of a model's shape and settings by our names, from which its config.json is built."""
    shape = build_encoder_shape(settings, inputs)
    values = {name: getattr(shape, name) for name in shape.__dataclass_fields__}
    family = settings.family_row
    usual = next(theirs for theirs, ours in HIDDEN_ACTS.items() if ours == settings.activation)
    activation = family.names.activations.get(settings.activation, usual)
    rows = {name: getattr(settings, name) or value for name, value in _list_defaults(family).items()}
    return {**values, **rows, "activation": activation, "deviation": shape.initializer_range}


def _list_defaults(family: Family) -> dict[str, Any]:
    """Return the family's defaults of settings that a configuration may omit, by name.

    These are the norm epsilon, the window, how often a layer has none, the pooling, and the bases of rotary embeddings.
    """
    bases = dict(zip(("global_base", "local_base"), family.rope_bases, strict=False))
    return {name: getattr(family, name) for name in ("norm_epsilon", "window", "every_global", "pooling")} | bases


def read_config(path: Path) -> dict[str, Any]:
    """Read a config.json, fill in the defaults of omitted keys, and convert newer formats to older ones.

    Raises:
        InputError: If the file is unreadable, needs Python code, or does not have a supported model type or layout.
    """
    config = read_json(path)
    check_no_code(config, path)
    family = config.get("model_type")
    if family is None:
        raise InputError(
            f"{path} has no model_type, which says the family of the model: add it, one of {', '.join(FAMILIES)}."
        )
    if not isinstance(family, str) or family not in FAMILIES:
        raise InputError(f"{path}: model_type is {family!r}; it must be one of: {', '.join(FAMILIES)}.")
    names = find_family(family).names
    given = {key: value for key, value in config.items() if key != "pad_token_id" or value is not None}
    try:
        return names.normalize_config({**names.defaults, **given})
    except ValueError as error:
        [key] = error.args
        raise InputError(
            f"{path}: {key} is {config[key]!r}, which no {family} model that can be trained here has: use a "
            "checkpoint of another shape."
        ) from error


def check_no_code(config: Mapping[str, Any], path: Path) -> None:
    """Raise InputError if a configuration refers to Python code in its folder. `path` is its file, for the message."""
    if config.get("auto_map"):
        raise InputError(
            f"{path}: `auto_map` names classes of the folder's own code, which is not run here; without it the "
            "model would be another one. Open it with transformers, or use a checkpoint of one of its own classes."
        )


def to_model_settings(
    config: Mapping[str, Any], where: str, objective: Mapping[str, Any] | None = None
) -> ModelSettings:
    """Convert a configuration to model settings.

    Args:
        config: The configuration, as `read_config` returns it.
        where: Path of the file, for messages.
        objective: The table of the objective; None for the family's default.

    Raises:
        InputError: If no supported model matches the configuration.
    """
    family = find_family(config["model_type"])
    keys = {ours: theirs for theirs, ours in family.names.config.items()}
    _check(config, family, keys, where)
    shape = tuple(config[keys[name]] for name in ("layers", "hidden_size", "heads", "feed_forward_size"))
    embedding = config[keys["embedding_size"]] if "embedding_size" in keys else None
    size = next((name for name, sizes in family.sizes.items() if sizes[:4] == shape), None)
    by_number = dict(zip(("layers", "hidden_size", "heads", "feed_forward_size"), shape, strict=True))
    positions = config[keys["positions"]] - (config["pad_token_id"] + 1 if family.position_from_pad else 0)
    usual_embedding = family.sizes[size or "base"].embedding_size or shape[1]
    usual_groups = 1 if family.shared_layers else shape[0]
    groups = config[keys["layer_groups"]] if "layer_groups" in keys else usual_groups
    return ModelSettings(
        family=family.name,
        **({"size": size} if size else by_number),
        max_length=None if positions == family.max_length else positions,
        activation=HIDDEN_ACTS[config[keys["activation"]]],
        dropout=config[keys["dropout"]],
        attention_dropout=config[keys["attention_dropout"]],
        embedding_size=None if embedding in (None, usual_embedding) else embedding,
        layer_groups=None if groups == usual_groups else groups,
        initializer_range=config.get(keys["deviation"], DEVIATION),
        **{name: value for name, value in _list_differences(config, family, keys).items() if value is not None},
        objective=objective,
    )


def _check(config: Mapping[str, Any], family: Family, keys: Mapping[str, str], where: str) -> None:
    given = {keys["deviation"]: DEVIATION, **config}
    for ours in (*INTEGERS, *NUMBERS, "deviation"):
        key, kind = keys.get(ours, ""), int if ours in INTEGERS else int | float
        value = given.get(key)
        if key and (not isinstance(value, kind) or isinstance(value, bool)):
            raise InputError(f"{where}: {key} is {value!r}; it must be a number, as the model's author set it.")
    if not isinstance(config.get("pad_token_id"), int):
        raise InputError(f"{where}: pad_token_id is {config.get('pad_token_id')!r}; it must be a number.")
    if config[keys["activation"]] not in [*HIDDEN_ACTS]:
        raise InputError(
            f"{where}: {keys['activation']} is {config[keys['activation']]!r}; it must be one of: "
            f"{', '.join(HIDDEN_ACTS)}."
        )
    segments = {keys["segment_types"]: family.segment_types} if "segment_types" in keys else {}
    for key, value in {**family.names.constants, **family.names.fixed, **segments}.items():
        if config.get(key, value) != value:
            raise InputError(
                f"{where}: {key} is {config[key]!r}, and {value!r} in every {family.name} model that can be trained "
                "here: use a checkpoint with that value."
            )
    for ours, value in _list_differences(config, family, keys).items():
        usual = _list_defaults(family)[ours]
        fits = value in POOLINGS if ours == "pooling" else type(value) in (int, float) and value > 0
        if not fits:
            raise InputError(f"{where}: {keys[ours]} is {value!r}; it must be such as {usual!r}, which is usual.")


def _list_differences(config: Mapping[str, Any], family: Family, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the values, by our names, that differ between a configuration and the family's defaults.

    Args:
        config: The configuration.
        family: The family of the model.
        keys: Maps our names to keys of the configuration.
    """
    values = {ours: config.get(keys[ours], usual) for ours, usual in _list_defaults(family).items() if ours in keys}
    return {ours: value for ours, value in values.items() if value != _list_defaults(family)[ours]}


def find_special_ids(folder: Path, config: Mapping[str, Any]) -> SpecialIds:
    """Find the ids of a model's special tokens, either in its configuration or in the folder's tokenizer.json.

    Raises:
        InputError: If neither has all of them.
    """
    given = {role: config.get(f"{role}_token_id") for role in ROLES}
    roles = {role: number for role, number in given.items() if isinstance(number, int)}
    if roles.keys() == given.keys():
        return SpecialIds.from_roles(roles)
    path = folder / "tokenizer.json"
    ids = {token["content"]: token["id"] for token in read_json(path).get("added_tokens", ())}
    for spelling in SPELLINGS:
        if all(token in ids for token in spelling.values()):
            return SpecialIds.from_roles({role: ids[token] for role, token in spelling.items()})
    raise InputError(
        f"{path} does not give the ids of {', '.join(SPELLINGS[0].values())}, or of "
        f"{', '.join(SPELLINGS[1].values())}: save the model's own tokenizer there, or add "
        f"{', '.join(f'{role}_token_id' for role in ROLES)} to {CONFIG}."
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file. Raises InputError if the file is unreadable or contains something else."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{path.parent} has no {path.name} that can be read ({error.strerror}): give the folder of a model as "
            "Hugging Face's save_pretrained writes it, with the tokenizer saved there too."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}. Save or copy it again.") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a JSON object: save or copy it again.")
    return content


def read_tokenizer_files(place: Place, folder: str, positions: int) -> dict[str, bytes]:
    """Read the tokenizer files of a vocabulary in the store, and return their contents by file name.

    Args:
        place: The store.
        folder: The path of the vocabulary's folder in the store.
        positions: The maximum number of tokens of the model, which is written to the tokenizer's configuration.

    Raises:
        InputError: If the vocabulary is not in the store.
    """
    manifest = read_manifest(place, folder)
    if manifest is None:
        raise InputError(
            f"The store {place.address} does not hold {folder}, the vocabulary of the model: name the store that does."
        )
    files = read_files(place, manifest)
    return files | {TOKENIZER_CONFIG: with_max_length(files.get(TOKENIZER_CONFIG, b"{}"), positions)}


def with_max_length(config: bytes, positions: int) -> bytes:
    r"""Set the maximum length in a `tokenizer_config.json` to the model's number of positions, and return its bytes.

    A smaller length that is already there is kept.

    Raises:
        InputError: If the bytes are not a JSON object.

    >>> with_max_length(b"{}", 512)
    b'{\n  "model_max_length": 512\n}\n'
    """
    try:
        content = json.loads(config)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"The model's {TOKENIZER_CONFIG} is not a JSON object: save or copy its tokenizer again.")
    named = content.get("model_max_length")
    smaller = isinstance(named, int) and 0 < named < positions
    content["model_max_length"] = named if smaller else positions
    return f"{json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)}\n".encode()
