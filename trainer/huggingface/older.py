"""Checkpoints of older forms, brought to the one form that everything here begins with.

    python -m trainer import SOURCE OUTPUT

Many encoders of a domain (BioBERT, SciBERT, LegalBERT) were published before safetensors and tokenizer.json: as a
pickled `pytorch_model.bin`, a `vocab.txt`, and a `config.json` without a model type; large ones in several files with
an index. Written are `config.json`, `model.safetensors` and the tokenizer's files; of a folder of sentence-transformers
also its pooling, the modules after it, and prompts.

Promise: every tensor is what it was, of the same type and under the same name, but for the prefix of a wrapper; nothing
in a pickled file is run, for torch reads tensors alone of it; and what is written has been opened: its encoder is
whole, and its vocabulary fits.
Cost: the weights once in memory (BERT-base: 0.4 GB, two seconds).
"""

import json
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from corpora.errors import InputError
from corpora.store.checked_folder import check_folder, mark_complete
from tokenizers_train.vocabularies.vocabulary import load_vocabulary
from trainer.huggingface.checkpoints import (
    WEIGHTS,
    check_no_other_weights,
    load_pretrained,
    read_tensors,
    save_tensors,
)
from trainer.huggingface.config import CONFIG, read_json
from trainer.huggingface.embeddings import checked_config, unwrapped
from trainer.huggingface.sentences import WITH_WEIGHTS, SentenceFolder, read_sentences, write_sentences
from trainer.huggingface.todays_form import INDEX, PICKLED
from trainer.settings.model import FAMILIES, family_of


def import_checkpoint(source: Path, output: Path) -> None:
    """Write today's form of a folder.

    Raises InputError if the folder holds no complete model of these families.
    """
    check_folder(source)
    sentences = read_sentences(source, older=True)
    folder = source / sentences.encoder if sentences is not None else source
    config, tensors = read_json(folder / CONFIG), older_weights(folder)
    config["model_type"] = config.get("model_type") or _family_by_names(tensors, folder)
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
            checked_config(written, vocabulary)
            load_pretrained(written, causal=True)
        except InputError as error:
            raise InputError(str(error).replace(str(written), str(folder))) from error
        mark_complete(written)
        written.replace(output)


def _write_modules(folder: Path, sentences: SentenceFolder, config: Mapping[str, Any]) -> None:
    """Write what a folder of sentence-transformers has besides its encoder. config: of the encoder"""
    keys = {ours: theirs for theirs, ours in family_of(config["model_type"]).names.config.items()}
    paths = write_sentences(folder, sentences, config[keys["hidden_size"]], sentences.similarity or None)
    for path, step in zip(paths, sentences.steps, strict=False):
        if step.kind in WITH_WEIGHTS:
            save_tensors(older_weights(sentences.folder / step.path), folder / path / WEIGHTS)


def older_weights(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a folder, each in memory of its own. Raises InputError where there are none, or not all."""
    for name in (WEIGHTS, PICKLED):
        index = folder / (name + INDEX)
        if (folder / name).is_file():
            files = [folder / name]
        elif index.is_file():
            files = [folder / part for part in _parts(index)]
        else:
            continue
        tensors = {name: tensor for file in files for name, tensor in _tensors(file)}
        names = unwrapped(tensors).items()
        return {ours: tensors[theirs].clone(memory_format=torch.contiguous_format) for ours, theirs in names}
    check_no_other_weights(folder)
    raise InputError(
        f"{folder} has no {WEIGHTS} and no {PICKLED}: give the folder of a model with its PyTorch weights."
    )


def _parts(index: Path) -> list[str]:
    """Return the names of the files in an index. Raises InputError for one outside the folder."""
    named = read_json(index).get("weight_map")
    parts = sorted({str(name) for name in named.values()}) if isinstance(named, Mapping) else []
    if not parts or any(Path(name).name != name for name in parts):
        raise InputError(f"{index} names no files next to it in `weight_map`: save or copy it again.")
    return parts


def _tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    content: Any = read_tensors(path) if path.suffix == ".safetensors" else _unpickled(path)
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not all(
        isinstance(name, str) and isinstance(each, Tensor) for name, each in content.items()
    ):
        raise InputError(f"{path} holds more than tensors by name: save the model's state_dict alone.")
    yield from content.items()


def _unpickled(path: Path) -> Any:
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


def _family_by_names(tensors: Mapping[str, Tensor], source: Path) -> str:
    """The family by how the names of tensors begin."""
    first = {name: family_of(name).names.encoder["embeddings.word"][0].split(".")[0] + "." for name in FAMILIES}
    fitting = [family for family, prefix in first.items() if any(name.startswith(prefix) for name in tensors)]
    if len(fitting) != 1:
        raise InputError(
            f"{source / CONFIG} has no model_type, and the names of the tensors do not show the family: add it there, "
            f"one of {', '.join(FAMILIES)}."
        )
    return fitting[0]


def main(arguments: Sequence[str]) -> int:
    """Import one folder; 0. Raises InputError."""
    source, output = map(Path, arguments)
    import_checkpoint(source, output)
    return 0
