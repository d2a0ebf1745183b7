"""Hugging Face checkpoints, both ways: `config.json` and `model.safetensors`, without their library.

Promise: a folder written by `export` opens in transformers' `AutoModelForPreTraining` (`AutoModelForMaskedLM` for
BERT without pairs) with no key missing or left over and equal logits; a folder that transformers wrote, or one of the
published checkpoints in safetensors, loads into our model likewise; and what fits no model of ours is refused with
the key that differs. The bytes of an export are a function of the weights and the settings alone.

What is theirs and not ours: their queries, keys and values are three matrices, ours is one, theirs one upon another;
the decoder tied to the word embeddings has a name there and is not stored; old checkpoints call LayerNorm's weight
and bias gamma and beta and store the row numbers of the positions.

Cost: BERT-base (440 MB) is written in 1.1 s and read in 0.1 s of CPU.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from corpora.errors import InputError
from trainer.huggingface.names import PRETRAINING_HEADS, TIED, huggingface_names
from trainer.model.families import DEVIATION, FAMILIES, build_model
from trainer.settings import SIZES, ModelInputs, ModelSettings, SpecialIds

CONFIG, WEIGHTS = "config.json", "model.safetensors"

# Our activation by their names; the first of ours is what we write.
HIDDEN_ACTS = {"gelu": "gelu", "gelu_pytorch_tanh": "gelu-tanh", "gelu_new": "gelu-tanh", "relu": "relu"}

# Their class by family and whether there is a pair head.
PRETRAINING_ARCHITECTURES = {
    ("bert", True): "BertForPreTraining",
    ("bert", False): "BertForMaskedLM",
    ("roberta", False): "RobertaForMaskedLM",
}
BEGIN_AND_END = ("roberta",)  # families whose configuration calls [CLS] and [SEP] the begin and the end as well

# What holds where a configuration leaves a key out, what must be a number, and what ours cannot have otherwise.
USUAL: Mapping[str, Any] = MappingProxyType(
    {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    }
)
USUAL_PAD = {"bert": 0, "roberta": 1}
SHAPE = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
CONFIG_TYPES: Mapping[str, type | tuple[type, ...]] = MappingProxyType(
    dict.fromkeys((*SHAPE, "vocab_size", "max_position_embeddings", "pad_token_id"), int)
    | dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), (int, float))
)
FIXED: Mapping[str, Any] = MappingProxyType(
    {
        "tie_word_embeddings": True,
        "is_decoder": False,
        "add_cross_attention": False,
        "position_embedding_type": "absolute",
    }
)

# Special tokens by role, as BERT's tokenizers spell them and as RoBERTa's do.
SPELLINGS = (
    {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
)


# Weights.


def to_huggingface(state: Mapping[str, Tensor], settings: ModelSettings, inputs: ModelInputs) -> dict[str, Tensor]:
    """A state of our model under their names, each tensor for itself on the processor; tied ones are left out."""
    names = huggingface_names(settings, inputs)
    assert state.keys() == names.keys(), sorted(state.keys() ^ names.keys())[:3]
    return {
        theirs: part.detach().to("cpu", copy=True).contiguous()
        for ours, parts in names.items()
        for theirs, part in zip(parts, state[ours].chunk(len(parts)), strict=True)
    }


def from_huggingface(
    tensors: Mapping[str, Tensor], settings: ModelSettings, inputs: ModelInputs, where: str
) -> dict[str, Tensor]:
    """The state of our model from tensors under their names, in float32.

    where: the file, for messages
    Raises InputError unless the tensors are those of the model that the settings ask for.
    """
    found = _without_ties(_modern(tensors), settings.family, where)
    names = huggingface_names(settings, inputs)
    _check_keys(found.keys(), [theirs for parts in names.values() for theirs in parts], where)
    _check_shapes(found, names, settings, inputs, where)
    return {ours: torch.cat([found[part].float() for part in parts]) for ours, parts in names.items()}


def _modern(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Under today's names, and without the row numbers that old checkpoints store."""
    renamed = {
        key.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): tensor
        for key, tensor in tensors.items()
    }
    return {key: tensor for key, tensor in renamed.items() if not key.endswith("embeddings.position_ids")}


def _without_ties(found: Mapping[str, Tensor], family: str, where: str) -> dict[str, Tensor]:
    """Without the decoder that is tied, once it is seen to be."""
    for decoder, source in TIED[family].items():
        if decoder in found and source in found and not torch.equal(found[decoder], found[source]):
            raise InputError(
                f"{where}: {decoder} differs from {source}, to which it is tied in a model of this family: "
                "the decoder of this checkpoint was trained apart and cannot be kept."
            )
    return {key: tensor for key, tensor in found.items() if key not in TIED[family]}


def _check_keys(found: Collection[str], wanted: Collection[str], where: str) -> None:
    missing, more = set(wanted) - set(found), set(found) - set(wanted)
    if missing or more:
        raise InputError(
            f"{where} {f'lacks {_first(missing)}' if missing else f'holds {_first(more)} that its model does not have'}"
            f": it is not what its {CONFIG} tells of. Give a folder saved from a BERT or RoBERTa model for "
            "pre-training or masked language modelling."
        )


def _first(keys: Collection[str]) -> str:
    return min(keys) + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")


def _check_shapes(
    found: Mapping[str, Tensor],
    names: Mapping[str, Sequence[str]],
    settings: ModelSettings,
    inputs: ModelInputs,
    where: str,
) -> None:
    with torch.device("meta"):
        state = build_model(settings, inputs).state_dict()
    for ours, parts in names.items():
        for theirs, part in zip(parts, state[ours].chunk(len(parts)), strict=True):
            if found[theirs].shape != part.shape:
                raise InputError(
                    f"{where}: {theirs} is {_sizes(found[theirs])}, and the model has it as {_sizes(part)}. "
                    "Set the sizes under [model] and the vocabulary to those of the checkpoint, or take another."
                )


def _sizes(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))


# The configuration.


def config_json(settings: ModelSettings, inputs: ModelInputs) -> dict[str, Any]:
    """`config.json` of a model, with every special id by its role."""
    family = FAMILIES[settings.family]
    layers, hidden_size, heads, feed_forward_size = settings.shape
    special = inputs.special_ids
    return {
        "architectures": [PRETRAINING_ARCHITECTURES[settings.family, family.has_pairs(inputs)]],
        "model_type": settings.family,
        "vocab_size": inputs.vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": feed_forward_size,
        "hidden_act": next(theirs for theirs, ours in HIDDEN_ACTS.items() if ours == settings.activation),
        "hidden_dropout_prob": settings.dropout,
        "attention_probs_dropout_prob": settings.attention_dropout,
        "max_position_embeddings": family.first_position(inputs) + settings.positions,
        "type_vocab_size": family.segment_types,
        "initializer_range": DEVIATION,
        "layer_norm_eps": family.norm_epsilon,
        "pad_token_id": special.pad,
        "unk_token_id": special.unk,
        "cls_token_id": special.cls,
        "sep_token_id": special.sep,
        "mask_token_id": special.mask,
        "bos_token_id": special.cls if settings.family in BEGIN_AND_END else None,
        "eos_token_id": special.sep if settings.family in BEGIN_AND_END else None,
        "tie_word_embeddings": True,
    }


def _settings_of(config: Mapping[str, Any], where: str) -> ModelSettings:
    """The settings that a configuration tells of. Raises InputError where no model of ours is like it."""
    _check_config(config, where)
    family = FAMILIES[config["model_type"]]
    shape = tuple(config[key] for key in SHAPE)
    size = next((name for name, known in SIZES.items() if known == shape), None)
    by_number = dict(zip(("layers", "hidden_size", "heads", "feed_forward_size"), shape, strict=True))
    positions = config["max_position_embeddings"] - (config["pad_token_id"] + 1 if family.position_from_pad else 0)
    return ModelSettings(
        family=config["model_type"],
        **({"size": size} if size else by_number),
        max_length=None if positions == 512 else positions,
        activation=HIDDEN_ACTS[config["hidden_act"]],
        dropout=config["hidden_dropout_prob"],
        attention_dropout=config["attention_probs_dropout_prob"],
    )


def _check_config(config: Mapping[str, Any], where: str) -> None:
    family = config["model_type"]
    for key, kind in CONFIG_TYPES.items():
        if not isinstance(config.get(key), kind) or isinstance(config[key], bool):
            raise InputError(
                f"{where}: {key} is {config.get(key)!r}; it must be a number, as the model's author set it."
            )
    if config["hidden_act"] not in HIDDEN_ACTS:
        raise InputError(
            f"{where}: hidden_act is {config['hidden_act']!r}; it must be one of: {', '.join(HIDDEN_ACTS)}."
        )
    fixed = {"layer_norm_eps": FAMILIES[family].norm_epsilon, "type_vocab_size": FAMILIES[family].segment_types}
    for key, value in {**FIXED, **fixed}.items():
        if config.get(key, value) != value:
            raise InputError(
                f"{where}: {key} is {config[key]!r}, and {value!r} in every {family} model that can be trained here: "
                "take a checkpoint that has it so."
            )


def _read_config(path: Path) -> dict[str, Any]:
    """The configuration, with what its writer left out because it is usual."""
    config = _read_json(path)
    family = config.get("model_type")
    if family not in PRETRAINING_HEADS:
        raise InputError(f"{path}: model_type is {family!r}; it must be one of: {', '.join(PRETRAINING_HEADS)}.")
    if config.get("pad_token_id") is None:
        config["pad_token_id"] = USUAL_PAD[family]
    return {**USUAL, **config}


def _special_ids(folder: Path, config: Mapping[str, Any]) -> SpecialIds:
    """From the configuration, where we wrote it, else from the tokenizer in the folder."""
    given = {role: config.get(f"{role}_token_id") for role in SPELLINGS[0]}
    roles = {role: number for role, number in given.items() if isinstance(number, int)}
    if roles.keys() == given.keys():
        return SpecialIds.of(roles)
    path = folder / "tokenizer.json"
    ids = {token["content"]: token["id"] for token in _read_json(path).get("added_tokens", ())}
    for spelling in SPELLINGS:
        if all(token in ids for token in spelling.values()):
            return SpecialIds.of({role: ids[token] for role, token in spelling.items()})
    raise InputError(
        f"{path} does not tell the ids of {', '.join(SPELLINGS[0].values())}, or of "
        f"{', '.join(SPELLINGS[1].values())}: save the model's own tokenizer there, or add "
        f"{', '.join(f'{role}_token_id' for role in SPELLINGS[0])} to {CONFIG}."
    )


# Folders.


def export(folder: Path, state: Mapping[str, Tensor], settings: ModelSettings, inputs: ModelInputs) -> None:
    """Write `config.json` and `model.safetensors` of a whole (not a sharded) state."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(to_huggingface(state, settings, inputs), folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(config_json(settings, inputs), indent=2) + "\n", encoding="utf-8")


def load(folder: Path) -> tuple[ModelSettings, ModelInputs, dict[str, Tensor]]:
    """The model in a folder that we or Hugging Face wrote: its settings, its inputs, its state in float32.

    A pooler without a pair head, which some files of masked models keep, is left out.
    Raises InputError where a file is missing or unreadable, or the model is none of ours.
    """
    config = _read_config(folder / CONFIG)
    settings = _settings_of(config, str(folder / CONFIG))
    tensors = _read_weights(folder / WEIGHTS)
    inputs = ModelInputs(
        vocab_size=config["vocab_size"],
        special_ids=_special_ids(folder, config),
        pair_labels=FAMILIES[settings.family].pairs and _tells_of_pairs(config, tensors),
    )
    if not inputs.pair_labels:
        pooler = f"{settings.family}.pooler."
        tensors = {key: tensor for key, tensor in tensors.items() if not key.startswith(pooler)}
    return settings, inputs, from_huggingface(tensors, settings, inputs, str(folder / WEIGHTS))


def _tells_of_pairs(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
    """Either is enough: a published file has the head under the name of a masked model, a torn one only the name."""
    return "cls.seq_relationship.weight" in tensors or PRETRAINING_ARCHITECTURES["bert", True] in (
        config.get("architectures") or ()
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(
            f"{path.parent} has no {path.name}: give the folder of a model as Hugging Face's save_pretrained writes "
            "it, with the tokenizer saved there too."
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}. Save or copy it again.") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a JSON object: save or copy it again.")
    return content


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(path)
        return tensors
    except FileNotFoundError as error:
        raise InputError(
            f"{path.parent} has no {path.name}: save the model in one file in the safetensors format "
            "(save_pretrained writes it so unless it is very large)."
        ) from error
    except SafetensorError as error:
        raise InputError(f"{path} is not a whole safetensors file ({error}): save or copy it again.") from error
