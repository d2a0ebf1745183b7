"""Hugging Face checkpoints, read and written without their library: `config.json` and `model.safetensors`.

Promise: a folder written by `export` can be loaded with transformers' `AutoModelForPreTraining` (`AutoModelForMaskedLM`
for BERT without pairs), without missing or unexpected keys and with equal logits. The same is true of its subfolders if
a model has several parts (ELECTRA's `generator/`). Folders written by transformers, and published checkpoints in
safetensors, can be loaded here in the same way. A checkpoint that none of our models matches is refused, with the name
of the key that differs. The bytes of an export depend only on the weights and the settings.

For a model with other heads, `load_pretrained` reads the encoder from any folder of these families in safetensors, and
those of its heads that are known here. The folder may have been saved with a head for pre-training, with one for a
task, or without a head (then the names of its tensors lack their prefix). All tensors of the encoder must be present,
in the shapes given by its `config.json`. None are initialized randomly.

The tables of the families describe how their layout differs from ours: they have separate matrices for queries, keys
and values, which are stacked in ours; the decoder tied to the word embeddings has a name but is not stored; and old
checkpoints call LayerNorm's weight and bias gamma and beta, and store position ids.

Cost: BERT-base (440 MB) is written in 1.1 s and read in 0.1 s of CPU time.

Older formats must be converted first, because only the current one can be loaded:

    python -m trainer import SOURCE OUTPUT

Many domain-specific encoders (BioBERT, SciBERT, LegalBERT) were published before safetensors and tokenizer.json
existed: as a pickled `pytorch_model.bin`, a `vocab.txt`, and a `config.json` without a model type. Large ones have
several weight files and an index. The output has `config.json`, `model.safetensors` and the tokenizer's files. If the
source is a sentence-transformers folder, its pooling, the modules after it, and prompts are also written.

Promise: every tensor keeps its values, type and name, except that the prefix of a wrapper is removed. No code in a
pickled file is run, because torch reads only tensors from it. The output is loaded once as a check: its encoder is
complete, and its vocabulary fits.

Cost: one copy of the weights in memory (BERT-base: 0.4 GB, two seconds).
"""

import json
import pickle
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from corpora.errors import InputError
from corpora.store.checked_folder import check_folder, mark_complete
from tokenizers_train.vocabularies.vocabulary import load_vocabulary
from trainer.families.contract import Family, ModelInputs
from trainer.huggingface.config import CONFIG, build_config, find_special_ids, read_config, read_json, to_model_settings
from trainer.huggingface.sentence_transformers import WITH_WEIGHTS, SentenceFolder, read_sentences, write_sentences
from trainer.huggingface.todays_form import INDEX, PICKLED
from trainer.huggingface.vocabulary_rows import read_checked_config, unwrap_names
from trainer.model.objective import Objective, build_model
from trainer.objectives.contract import ModelPart
from trainer.settings.model import FAMILIES, ModelSettings, build_part_settings, find_family

_LAYER = re.compile(r"layers\.(\d+)\.")
MASKED = "masked"
WEIGHTS = "model.safetensors"
OTHER_WEIGHTS = {"tf": "tf_model*.h5", "flax": "flax_model*"}  # as transformers and safetensors' metadata call them


def map_names(ours: Iterable[str], family: Family, part: ModelPart) -> dict[str, tuple[str, ...]]:
    """Map the names of our parameters to the Hugging Face names of the same parameters in one part of a model.

    If one of our names maps to several of theirs, our parameter stacks theirs along the first dimension. Parameters
    that the part does not have are omitted.

    Args:
        ours: Names of parameters in our model.
        family: The family of the model.
        part: The part of the model, such as ELECTRA's generator.
    """
    return {name: theirs for name in ours if (theirs := _map_name(name, family, part))}


def _map_name(ours: str, family: Family, part: ModelPart) -> tuple[str, ...]:
    root, _, rest = ours.partition(".")
    if root == part.encoder or (root == part.embeddings and rest.startswith("embeddings.")):
        number = _LAYER.match(rest)
        module, _, kind = _LAYER.sub("layers.{}.", rest).rpartition(".")
        layer = number[1] if number else ""
        return tuple(f"{theirs.replace('{}', layer)}.{kind}" for theirs in family.names.encoder[module])
    if root not in part.heads:
        return ()
    table = family.names.heads[part.heads[root]]
    if rest in table:
        return (table[rest],)
    module, _, kind = rest.rpartition(".")
    return (f"{table[module]}.{kind}",)


# Weights.


def to_huggingface(state: Mapping[str, Tensor], family: Family, part: ModelPart) -> dict[str, Tensor]:
    """Convert the weights of a part of our model to Hugging Face's names and layout, as copies on the CPU.

    Tied parameters are omitted.

    Args:
        state: The tensors of the model, by our names.
        family: The family of the model.
        part: The part of the model, such as ELECTRA's generator.
    """
    return {
        theirs: piece.detach().to("cpu", copy=True).contiguous()
        for ours, parts in map_names(state, family, part).items()
        for theirs, piece in zip(parts, state[ours].chunk(len(parts)), strict=True)
    }


def from_huggingface(tensors: Mapping[str, Tensor], model: Objective, part: ModelPart, where: str) -> dict[str, Tensor]:
    """Convert tensors with Hugging Face's names to the weights of a part of our model, by our names, in float32.

    Args:
        tensors: The tensors of a file, by name.
        model: A model with the right shapes, on the meta device.
        part: The part of the model.
        where: Path of the file, for messages.

    Raises:
        InputError: If a tensor of the part is missing or has another shape, or if there are additional tensors.
    """
    untied = _without_ties(update_names(tensors), model.family, where)
    state = model.state_dict()
    names = map_names(state, model.family, part)
    _check_keys(untied.keys(), [theirs for parts in names.values() for theirs in parts], where)
    return {ours: stack_tensors(untied, state[ours], parts, where) for ours, parts in names.items()}


def stack_tensors(tensors: Mapping[str, Tensor], ours: Tensor, theirs: Sequence[str], where: str) -> Tensor:
    """Stack several Hugging Face tensors into one of ours, in float32. Raises InputError if a shape does not match.

    Args:
        tensors: The tensors of a file, by name.
        ours: A tensor with the shape of the result.
        theirs: The names of the tensors to stack, in order.
        where: Path of the file, for messages.
    """
    for name, piece in zip(theirs, ours.chunk(len(theirs)), strict=True):
        if tensors[name].shape != piece.shape:
            has, needed = (" x ".join(map(str, shape)) for shape in (tensors[name].shape, piece.shape))
            raise InputError(
                f"{where}: {name} is {has}, but the model has {needed}. Set the sizes under [model] and the vocabulary "
                "to those of the checkpoint, or use another."
            )
    return torch.cat([tensors[part].float() for part in theirs])


def update_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return all tensors by name, with the old LayerNorm names ("gamma", "beta") replaced by "weight" and "bias"."""
    return {
        key.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): tensor
        for key, tensor in tensors.items()
    }


def _without_ties(tensors: Mapping[str, Tensor], family: Family, where: str) -> dict[str, Tensor]:
    """Return the tensors without those tied to others, such as a decoder weight that equals the word embeddings.

    Raises InputError if tied tensors differ. `where` is the path of the file, for the message.
    """
    for decoder, source in family.names.tied.items():
        if decoder in tensors and source in tensors and not torch.equal(tensors[decoder], tensors[source]):
            raise InputError(
                f"{where}: {decoder} differs from {source}, to which it is tied in a model of this family: the "
                "decoder of this checkpoint was trained separately and cannot be kept."
            )
    return {key: tensor for key, tensor in tensors.items() if key not in family.names.tied}


def _check_keys(present: Collection[str], wanted: Collection[str], where: str) -> None:
    missing, more = set(wanted) - set(present), set(present) - set(wanted)
    if missing or more:
        why = f"lacks {_name_first(missing)}" if missing else f"holds {_name_first(more)} that its model does not have"
        raise InputError(
            f"{where} {why}: it does not match its {CONFIG}. Give a folder saved from a model for pre-training or "
            "masked language modelling."
        )


def _name_first(keys: Collection[str]) -> str:
    return min(keys) + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")


# Folders.


def export(folder: Path, state: Mapping[str, Tensor], settings: ModelSettings, inputs: ModelInputs) -> None:
    """Write config.json and model.safetensors for each part of a model.

    Args:
        folder: The folder to write. Parts other than the main one get a subfolder, such as `generator`.
        state: All weights of the model by name, not divided among processes.
        settings: The settings of the model.
        inputs: The vocabulary size and special ids of the model.
    """
    for part in settings.objective_settings.list_parts(settings.family_row, inputs):
        write_model(folder / part.folder, state, build_part_settings(settings, part), inputs, part)


def write_model(
    folder: Path,
    state: Mapping[str, Tensor],
    settings: ModelSettings,
    inputs: ModelInputs,
    part: ModelPart,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write one part of a model as a Hugging Face folder with config.json and model.safetensors.

    Args:
        folder: The folder to write. It is created if necessary.
        state: All weights of the model, by our names.
        settings: The settings of the part.
        inputs: The vocabulary size and special ids of the model.
        part: The part to write.
        more: Additional keys for config.json; None for none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {**build_config(settings, inputs, part.architecture), **part.config, **(more or {})}
    (folder / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    save_tensors(to_huggingface(state, settings.family_row, part), folder / WEIGHTS)


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors to a safetensors file with the default permissions of new files.

    The safetensors package would make the file readable by its owner only.

    Raises:
        OSError: If the file cannot be written.
        SafetensorError: If the disk is full.
    """
    save_file(tensors, path, metadata={"format": "pt"})
    plain = path.with_suffix(".mode")
    plain.touch()
    shutil.copymode(plain, path)
    plain.unlink()


def load_model(folder: Path) -> tuple[ModelSettings, ModelInputs, dict[str, Tensor]]:
    """Read the model in a folder that was exported here or by Hugging Face.

    A pooler without a pair head, which some files of masked models contain, is ignored. If the model has several parts,
    the weights include only those that have a subfolder here.

    Returns:
        The settings, the inputs (vocabulary size and special ids), and the weights by our names in float32.

    Raises:
        InputError: If a file is missing or unreadable, or if the model is not supported.
    """
    config, tensors, settings = read_folder(folder)
    family = settings.family_row
    inputs = ModelInputs(
        vocab_size=config["vocab_size"],
        special_ids=find_special_ids(folder, config),
        pair_labels=family.pairs and _has_pairs(family, config, tensors),
    )
    for part in settings.objective_settings.list_parts(family, inputs):
        if part.folder and (folder / part.folder / CONFIG).is_file():
            settings = _with_part_width(settings, part, folder / part.folder)
    with torch.device("meta"):
        model = build_model(settings, inputs)
    state = dict[str, Tensor]()
    for part in settings.objective_settings.list_parts(family, inputs):
        path = folder / part.folder
        if not part.folder:
            state |= _build_part_state(tensors, model, part, str(path / WEIGHTS))
        elif (path / CONFIG).is_file():
            part_state = _build_part_state(read_weights(path / WEIGHTS), model, part, str(path / WEIGHTS))
            check_shared_tensors(state, part_state, str(path / WEIGHTS))
            state |= part_state
    return settings, inputs, state


def _build_part_state(
    tensors: Mapping[str, Tensor], model: Objective, part: ModelPart, where: str
) -> dict[str, Tensor]:
    """Convert the tensors of a file to the weights of a part, by our names, leaving out those that the family ignores.

    Raises InputError if a tensor is missing, unknown or of another shape. `where` is the path of the file, for
    messages.
    """
    family = model.family
    wanted = {theirs for parts in map_names(model.state_dict(), family, part).values() for theirs in parts}
    kept = {key: t for key, t in tensors.items() if key in wanted or not key.startswith(family.names.ignored)}
    return from_huggingface(kept, model, part, where)


def _with_part_width(settings: ModelSettings, part: ModelPart, folder: Path) -> ModelSettings:
    """Return a copy of the settings in which the width of a part is taken from the config.json in the part's folder.

    Raises InputError if the two cannot be parts of one model.
    """
    theirs = to_model_settings(read_config(folder / CONFIG), str(folder / CONFIG), {"kind": part.architecture})
    if build_part_settings(settings, part).shape == theirs.shape:
        return settings
    width = theirs.shape[1] / settings.shape[1]
    if build_part_settings(settings, part._replace(width=width)).shape != theirs.shape:
        raise InputError(
            f"{folder / CONFIG}: a {part.folder} of {theirs.shape} (layers, hidden size, heads, feed-forward size) "
            f"does not fit the model in {folder.parent}: it needs as many layers, heads of 64, and a feed-forward "
            "part four times as wide. Put the one there that was trained with the model, or remove it."
        )
    objective = {**(settings.objective or {"kind": settings.objective_settings.kind}), "generator_size": width}
    return replace(settings, objective=objective)


def check_shared_tensors(state: Mapping[str, Tensor], part_state: Mapping[str, Tensor], where: str) -> None:
    """Raise InputError if a part's copy of shared tensors differs from the tensors of the other parts.

    Args:
        state: The tensors of the other parts, by name.
        part_state: The tensors of the part, by name.
        where: Path of the part's file, for the message.
    """
    for name in state.keys() & part_state.keys():
        if not torch.equal(state[name], part_state[name]):
            raise InputError(
                f"{where} has another {name.removeprefix('encoder.')} than the model in the folder above, but the two "
                "share it: put the one there that was trained with the model, or remove it."
            )


def read_folder(
    folder: Path, default_objective: dict[str, str] | None = None, causal: bool = False
) -> tuple[dict[str, Any], dict[str, Tensor], ModelSettings]:
    """Read the configuration, the tensors and the settings of a model folder.

    Args:
        folder: A folder with config.json and model.safetensors.
        default_objective: The table of the objective to use if the folder does not determine it, such as
            {"kind": "masked"}; None for the family's default.
        causal: True to accept a decoder model, in which tokens attend to earlier tokens only.

    Returns:
        The configuration with defaults filled in, the tensors by the names in the file, and the settings.

    Raises:
        InputError: If a file is missing or unreadable, or if the model is not supported.
    """
    config = read_config(folder / CONFIG)
    tensors = read_weights(folder / WEIGHTS)
    known = {**config, "is_decoder": False} if causal else config
    return (
        config,
        tensors,
        to_model_settings(known, str(folder / CONFIG), _find_objective(config, tensors) or default_objective),
    )


def _find_objective(config: Mapping[str, Any], names: Collection[str]) -> dict[str, str] | None:
    """Return {"kind": "masked"} if a masked language model belongs to a family whose default is another objective.

    Otherwise, return None. `names` are the names of the tensors.
    """
    family = find_family(config["model_type"])
    architectures = config.get("architectures") or ()
    if family.objective == "masked":
        return None
    masked = f"{family.names.heads['masked_head']['dense']}.weight"  # either is enough, as of pairs
    return {"kind": "masked"} if masked in names or family.names.architectures["masked"] in architectures else None


def _has_pairs(family: Family, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
    """Return True if the tensors or the configuration of a folder indicate a pair head.

    Either is enough: some published files of masked models have the tensors, and a damaged file may have only the class
    name in the configuration.
    """
    decision = f"{family.names.heads['pair_head']['decision']}.weight"
    return decision in tensors or family.names.architectures["pairs"] in (config.get("architectures") or ())


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file. The name prefix added by a wrapper such as DataParallel is removed.

    Raises:
        InputError: If the file is missing or incomplete, or contains values that are not finite.
    """
    tensors = read_tensors(path)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel() and not all(map(torch.isfinite, torch.aminmax(tensor))):
            raise InputError(
                f"{path}: {name} holds numbers that are not finite (NaN or infinity), with which a model answers "
                "nothing. The file is damaged, or its training diverged: copy it again, or give an earlier checkpoint."
            )
    return {name: tensors[theirs] for name, theirs in unwrap_names(tensors).items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file, with the names in the file.

    Raises InputError if it is missing or incomplete, or was written for TensorFlow or Flax.
    """
    try:
        with safe_open(path, "pt") as file:
            written_by = (file.metadata() or {}).get("format")
        if written_by in OTHER_WEIGHTS:
            raise _refuse_other_library(path, written_by)
        tensors: dict[str, Tensor] = load_file(path)
        return tensors
    except FileNotFoundError as error:
        if any(path.parent.glob("*.onnx")):
            raise InputError(
                f"{path.parent} holds ONNX files and no {path.name}: give the folder that it was written from."
            ) from error
        check_no_other_weights(path.parent)
        raise InputError(
            f"{path.parent} has no {path.name}: give the folder of a model as Hugging Face's save_pretrained writes it."
        ) from error
    except SafetensorError as error:
        raise InputError(f"{path} is not a complete safetensors file ({error}): save or copy it again.") from error


def check_no_other_weights(folder: Path) -> None:
    """Raise InputError if a folder contains weights for TensorFlow or Flax, with instructions to convert them."""
    for library, pattern in OTHER_WEIGHTS.items():
        for path in folder.glob(pattern):
            raise _refuse_other_library(path, library)


def _refuse_other_library(path: Path, library: str) -> InputError:
    """Build the error for a weight file in the layout of another library, which is "tf" or "flax"."""
    return InputError(
        f"{path} holds weights as {library} lays them out, which are not read here: load them with a version 4 of "
        f"transformers (`AutoModel.from_pretrained(FOLDER, from_{library}=True)`), save them (`save_pretrained(NEW)`), "
        "and give that folder."
    )


# Weights for a model with other heads.


class Pretrained(NamedTuple):
    """A pre-trained model whose encoder is used in another model.

    Attributes:
        settings: The settings of the model.
        inputs: The inputs of the model.
        state: All tensors of the encoder, with the prefix "encoder.", and those of the masked-token and pair heads, if
            any.
        sentences: The sentence-embedding settings of the folder; None if it has none.
    """

    settings: ModelSettings
    inputs: ModelInputs
    state: dict[str, Tensor]
    sentences: SentenceFolder | None = None


def load_pretrained(folder: Path, causal: bool = False) -> Pretrained:
    """Read the encoder in a folder, and its masked-token and pair heads if it has them.

    Args:
        folder: A folder with config.json and model.safetensors.
        causal: True to accept a decoder model, in which tokens attend to earlier tokens only.

    Returns:
        The model, without sentence-embedding settings (`sentences` is None).

    Raises:
        InputError: If the folder does not contain a complete encoder of a supported kind.
    """
    if not (folder / CONFIG).is_file():
        _ = read_sentences(folder)  # refuses one without an encoder, or with one elsewhere
    config, stored, settings = read_folder(folder, {"kind": MASKED}, causal)
    family, tensors = settings.family_row, update_names(stored)
    inputs = ModelInputs(
        vocab_size=config["vocab_size"], special_ids=find_special_ids(folder, config), pair_labels=family.pairs
    )
    if settings.groups > len(tensors):  # to build them all could take hours
        raise InputError(
            f"{folder / CONFIG} gives {settings.groups:,} layers, but {WEIGHTS} has {len(tensors)} tensors."
        )
    with torch.device("meta"):
        model = build_model(settings, inputs)
    [part] = settings.objective_settings.list_parts(family, inputs)
    names = map_names(model.state_dict(), family, part)
    prefixed = with_first_part(tensors, family)
    where, whole = str(folder / WEIGHTS), model.state_dict()
    wanted = [each for ours, theirs in names.items() if ours.startswith("encoder.") for each in theirs]
    if missing := [each for each in wanted if each not in prefixed]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"{where} lacks {missing[0]}{more} of the encoder that its {CONFIG} describes: save or copy the model "
            "again."
        )
    state = {
        ours: stack_tensors(prefixed, whole[ours], theirs, where)
        for ours, theirs in names.items()
        if all(each in prefixed for each in theirs)
    }
    return Pretrained(settings, inputs, state)


def with_first_part(tensors: Mapping[str, Tensor], family: Family) -> dict[str, Tensor]:
    """Return the tensors with the family's prefix, such as "bert.", added to all names unless they already have it.

    The prefix is missing if an encoder was saved without a head.
    """
    first = family.names.encoder["embeddings.word"][0].split(".")[0] + "."
    if any(name.startswith(first) for name in tensors):
        return dict(tensors)
    return {first + name: tensor for name, tensor in tensors.items()}


def import_checkpoint(source: Path, output: Path) -> None:
    """Convert a model folder of an older format (pytorch_model.bin, vocab.txt) to the current one.

    Args:
        source: A folder with weights, a configuration and a tokenizer.
        output: The folder to write. It appears only when complete.

    Raises:
        InputError: If the source has no complete model of a supported family, or if the output cannot be written.
    """
    check_folder(source)
    sentences = read_sentences(source, older=True)
    folder = source / sentences.encoder if sentences is not None else source
    config, tensors = read_json(folder / CONFIG), read_older_weights(folder)
    config["model_type"] = config.get("model_type") or _find_family(tensors, folder)
    vocabulary = load_vocabulary(folder)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".import-", dir=output.parent) as scratch:
        written = Path(scratch) / output.name
        try:
            vocabulary.save(written)
            (written / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            save_tensors(tensors, written / WEIGHTS)
            if sentences is not None:
                _write_modules(written, sentences, config)
        except (OSError, SafetensorError) as error:  # of a full disk safetensors raises its own
            raise InputError(f"Cannot write {output} ({error}): make room there, or name another folder.") from error
        try:
            read_checked_config(written, vocabulary)
            load_pretrained(written, causal=True)
        except InputError as error:
            raise InputError(str(error).replace(str(written), str(folder))) from error
        mark_complete(written)
        written.replace(output)


def _write_modules(folder: Path, sentences: SentenceFolder, config: Mapping[str, Any]) -> None:
    """Write the sentence-transformers files other than the encoder: pooling, later modules and their weights.

    Args:
        folder: The folder to write.
        sentences: The description of the source folder.
        config: The encoder's config.json.
    """
    keys = {ours: theirs for theirs, ours in find_family(config["model_type"]).names.config.items()}
    paths = write_sentences(folder, sentences, config[keys["hidden_size"]], sentences.similarity or None)
    for path, step in zip(paths, sentences.steps, strict=False):
        if step.kind in WITH_WEIGHTS:
            save_tensors(read_older_weights(sentences.folder / step.path), folder / path / WEIGHTS)


def read_older_weights(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of a folder from safetensors or pickled files, by name. No two tensors share memory.

    Prefixes of wrappers such as DataParallel are removed. Raises InputError if weights are missing or incomplete.
    """
    for name in (WEIGHTS, PICKLED):
        index = folder / (name + INDEX)
        if (folder / name).is_file():
            files = [folder / name]
        elif index.is_file():
            files = [folder / part for part in _list_parts(index)]
        else:
            continue
        tensors = {name: tensor for file in files for name, tensor in _iter_tensors(file)}
        names = unwrap_names(tensors).items()
        return {ours: tensors[theirs].clone(memory_format=torch.contiguous_format) for ours, theirs in names}
    check_no_other_weights(folder)
    raise InputError(
        f"{folder} has no {WEIGHTS} and no {PICKLED}: give the folder of a model with its PyTorch weights."
    )


def _list_parts(index: Path) -> list[str]:
    """List the weight files that an index file names, sorted.

    Raises InputError if it names none, or one outside the folder.
    """
    named = read_json(index).get("weight_map")
    parts = sorted({str(name) for name in named.values()}) if isinstance(named, Mapping) else []
    if not parts or any(Path(name).name != name for name in parts):
        raise InputError(f"{index} names no files next to it in `weight_map`: save or copy it again.")
    return parts


def _iter_tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    content: Any = read_tensors(path) if path.suffix == ".safetensors" else _unpickle(path)
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not all(
        isinstance(name, str) and isinstance(each, Tensor) for name, each in content.items()
    ):
        raise InputError(f"{path} holds more than tensors by name: save the model's state_dict alone.")
    yield from content.items()


def _unpickle(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing, but its index names it: copy the folder again.") from error
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds more than tensors, which could be code, and is not read: save the model's state_dict alone."
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:  # of a file that is cut, or another one
        raise InputError(f"{path} is not a complete torch file ({error}): copy it again.") from error


def _find_family(tensors: Mapping[str, Tensor], source: Path) -> str:
    """Find the name of a model's family from the prefix of its tensor names. Raises InputError if it is ambiguous.

    `source` is the folder, for the message.
    """
    first = {name: find_family(name).names.encoder["embeddings.word"][0].split(".")[0] + "." for name in FAMILIES}
    fitting = [family for family, prefix in first.items() if any(name.startswith(prefix) for name in tensors)]
    if len(fitting) != 1:
        raise InputError(
            f"{source / CONFIG} has no model_type, and the names of the tensors do not show the family: add it there, "
            f"one of {', '.join(FAMILIES)}."
        )
    return fitting[0]


def main(arguments: Sequence[str]) -> int:
    """Convert a model folder as the command `import SOURCE OUTPUT` does, and return 0.

    Raises:
        InputError: If the source has no complete model of a supported family, or if the output cannot be written.
    """
    source, output = map(Path, arguments)
    import_checkpoint(source, output)
    return 0
