"""Reads the folder of a Hugging Face model as far as it can be read without torch, for `cloze doctor FOLDER`.

Promise: what is missing, damaged or of an unknown model is a fault in words, and the rest is read all the same. Of
safetensors files the headers are read, of pickled ones nothing but their names. Any model type is read: where it is
none that trains here, its sizes are taken from the keys that most configurations use.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from tokenizers_train.vocabularies.vocabulary import Vocabulary, load_vocabulary
from trainer.families.contract import EncoderShape, Family, ModelInputs, SpecialIds
from trainer.huggingface.config import CONFIG, TOKENIZER_CONFIG, read_config, read_json, settings_of
from trainer.huggingface.embeddings import NUMPY_TYPES, WEIGHTS, Stored, read_header, unwrapped
from trainer.huggingface.todays_form import INDEX, PICKLED
from trainer.settings.model import FAMILIES, encoder_shape, family_of

MOST_LAYERS = 10_000
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json")
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}

# Sizes by the keys that configurations of other model types have.
KEYS: Mapping[str, tuple[str, ...]] = {
    "vocab_size": ("vocab_size",),
    "layers": ("num_hidden_layers", "n_layers", "n_layer", "num_layers"),
    "hidden_size": ("hidden_size", "dim", "d_model", "n_embd"),
    "heads": ("num_attention_heads", "n_heads", "n_head", "num_heads"),
    "feed_forward_size": ("intermediate_size", "hidden_dim", "d_ff", "ffn_dim", "n_inner"),
    "positions": ("max_position_embeddings", "n_positions", "max_seq_len"),
}
DROPOUTS = ("hidden_dropout_prob", "dropout", "mlp_dropout", "resid_pdrop")
ATTENTION_DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """The tensors of one safetensors file. begin: of its numbers, in bytes; stored: with places from there"""

    path: Path
    begin: int
    stored: tuple[Stored, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """The contents of a model's folder.

    config:     with what a known family's configurations leave out because it is usual
    family:     None for a model type that does not train here
    shape:      None where the configuration does not give the sizes
    refused:    why no model of ours has this configuration, in words; "" where one has
    files:      the safetensors files that are whole
    pickled:    the names of pickled files of weights
    vocabulary: None where there is none, or it is not whole
    faults:     what is missing or damaged: name of the finding, in words
    """

    path: Path
    config: Mapping[str, Any]
    family: Family | None
    shape: EncoderShape | None
    refused: str
    files: tuple[Tensors, ...]
    pickled: tuple[str, ...]
    vocabulary: Vocabulary | None
    tokenizer: Mapping[str, Any]
    faults: tuple[tuple[str, str], ...] = field(default=())

    @property
    def tensors(self) -> dict[str, Stored]:
        """All tensors by name."""
        stored = {tensor.name: tensor for file in self.files for tensor in file.stored}
        return {name: stored[theirs]._replace(name=name) for name, theirs in unwrapped(stored).items()}

    @property
    def parameters(self) -> int:
        """The numbers in the weights; without weights that can be read those of the matrices, by the sizes."""
        if self.files or self.shape is None:
            return sum(prod(tensor.shape) for tensor in self.tensors.values() if tensor.kind in NUMPY_TYPES)
        shape = self.shape
        widened = (3 if shape.feed_forward == "glu" else 2) * shape.feed_forward_size
        layers = shape.layer_groups * shape.hidden_size * (4 * shape.hidden_size + widened)
        return layers + (shape.vocab_size + shape.positions) * shape.embedding_size


def read_model_folder(path: Path) -> ModelFolder:
    """Read a folder. Raises InputError where it has no configuration that can be read."""
    if not (path / CONFIG).is_file():
        wanted = ", ".join((CONFIG, WEIGHTS, PICKLED, *TOKENIZERS))
        raise InputError(
            f"{path} is not the folder of a model: it has no {CONFIG}. Looked for: {wanted}. Give a folder as Hugging "
            "Face's save_pretrained writes it; a recipe is given by its name or its .toml file."
        )
    raw = read_json(path / CONFIG)
    named = raw.get("model_type")
    family = family_of(named) if isinstance(named, str) and named in FAMILIES else None
    config = {**(family.names.usual if family is not None else {}), **raw}
    faults: list[tuple[str, str]] = []
    files, pickled = _weights(path, faults)
    shape, refused = _shape(path, config, family)
    return ModelFolder(
        path=path,
        config=config,
        family=family,
        shape=shape,
        refused=refused,
        files=files,
        pickled=pickled,
        vocabulary=_vocabulary(path, faults),
        tokenizer=_tokenizer(path, faults),
        faults=tuple(faults),
    )


def _shape(path: Path, config: Mapping[str, Any], family: Family | None) -> tuple[EncoderShape | None, str]:
    """Return the sizes, those of our own model where one has them, and why else none does."""
    repeated = (*KEYS["layers"], *_keys_of(family).get("layers", ()), "num_hidden_groups")
    if (layers := max(_whole(config, (key,)) for key in repeated)) > MOST_LAYERS:
        return None, f"its configuration gives {layers:,} layers"
    refused = f"no model of type {config.get('model_type')!r} trains here, only: {', '.join(FAMILIES)}"
    if family is not None:
        try:
            whole = read_config(path / CONFIG)
            settings = settings_of(whole, CONFIG)
            ids = SpecialIds(pad=whole["pad_token_id"], unk=0, cls=0, sep=0, mask=0)
            inputs = ModelInputs(vocab_size=whole["vocab_size"], special_ids=ids, pair_labels=family.pairs)
            return encoder_shape(settings, inputs), ""
        except InputError as error:
            refused = str(error)
    keys = {**KEYS, **_keys_of(family)}
    sizes: dict[str, Any] = {ours: _whole(config, theirs) for ours, theirs in keys.items()}
    if not sizes["feed_forward_size"] and sizes["hidden_size"]:
        sizes["feed_forward_size"] = 4 * sizes["hidden_size"]
    if not all(sizes.values()) or sizes["hidden_size"] % sizes["heads"]:
        return None, refused
    return EncoderShape(
        **sizes,
        first_position=0,
        segment_types=0,
        embedding_size=_whole(config, ("embedding_size",)) or sizes["hidden_size"],
        layer_groups=_whole(config, ("num_hidden_groups",)) or sizes["layers"],
        activation="gelu",
        dropout=_number(config, DROPOUTS),
        attention_dropout=_number(config, ATTENTION_DROPOUTS),
        norm_epsilon=1e-12,
    ), refused


def _keys_of(family: Family | None) -> dict[str, tuple[str, ...]]:
    named = family.names.config if family is not None else {}
    return {ours: (theirs,) for theirs, ours in named.items() if ours in KEYS}


def _whole(config: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """Return the first of these keys that is a positive whole number; 0 where none is."""
    given = (config.get(key) for key in keys)
    return next((value for value in given if type(value) is int and value > 0), 0)


def _number(config: Mapping[str, Any], keys: tuple[str, ...]) -> float:
    """Return the first of these keys that is a number; 0 where none is."""
    given = (config.get(key) for key in keys)
    return next((float(value) for value in given if isinstance(value, int | float) and value == value), 0.0)


def _weights(path: Path, faults: list[tuple[str, str]]) -> tuple[tuple[Tensors, ...], tuple[str, ...]]:
    """Return the safetensors files that are whole, and the pickled ones."""
    named = dict.fromkeys(_named(path, faults))
    files, pickled = [], []
    for name in named:
        if not (path / name).is_file():
            faults.append(("weights", f"{name} is missing, but its index names it"))
        elif not name.endswith(".safetensors"):
            pickled.append(name)
        elif (tensors := _tensors(path / name, faults)) is not None:
            files.append(tensors)
    if not named:
        faults.append(("weights", f"there is no {WEIGHTS} and no {PICKLED}"))
    return tuple(files), tuple(pickled)


def _named(path: Path, faults: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the names of the files of weights: the first form that the folder has."""
    for name in (WEIGHTS, PICKLED):
        index = path / f"{name}{INDEX}"
        if (path / name).is_file():
            yield name
            return
        if index.is_file():
            parts = _json(index, "weights", faults).get("weight_map")
            names = {str(part) for part in parts.values()} if isinstance(parts, Mapping) else set()
            if not names or any(Path(part).name != part for part in names):
                faults.append(("weights", f"{index.name} names no files next to it in weight_map"))
            yield from sorted(part for part in names if Path(part).name == part)
            return


def _tensors(path: Path, faults: list[tuple[str, str]]) -> Tensors | None:
    try:
        with path.open("rb") as stream:
            _, stored = read_header(stream, path)
            begin = stream.tell()
        wrong = next((each for each in stored if not _fits(each)), None)
    except (InputError, OSError, TypeError) as error:
        faults.append(("weights", str(error)))
        return None
    if wrong is not None:
        where = f"bytes {wrong.start} to {wrong.stop}"
        faults.append(("weights", f"{path.name}: {wrong.name} has {where} for {wrong.kind} {list(wrong.shape)}"))
        return None
    return Tensors(path=path, begin=begin, stored=tuple(stored))


def _fits(tensor: Stored) -> bool:
    """Return whether a tensor's bytes are as many as its shape needs; of kinds that are not known here, True."""
    numbers = (*tensor.shape, tensor.start, tensor.stop)
    if not all(type(number) is int and number >= 0 for number in numbers):
        return False
    size = BYTES.get(tensor.kind)
    return size is None or prod(tensor.shape) * size == tensor.stop - tensor.start


def _vocabulary(path: Path, faults: list[tuple[str, str]]) -> Vocabulary | None:
    if not any((path / name).is_file() for name in TOKENIZERS):
        faults.append(("tokenizer", f"there is none of {', '.join(TOKENIZERS)}"))
        return None
    try:
        return load_vocabulary(path)
    except InputError as error:
        faults.append(("tokenizer", str(error)))
        return None


def _tokenizer(path: Path, faults: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the tokenizer's configuration; empty where there is none."""
    file = path / TOKENIZER_CONFIG
    return _json(file, "tokenizer", faults) if file.is_file() else {}


def _json(path: Path, finding: str, faults: list[tuple[str, str]]) -> dict[str, Any]:
    try:
        return read_json(path)
    except InputError as error:
        faults.append((finding, str(error)))
        return {}
