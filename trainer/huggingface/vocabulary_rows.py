"""Adapts a model to an adapted vocabulary: a new token's row is the mean of the rows of the old tokens it consists of.

    config.json, model.safetensors + old and new vocabulary ─► the same model with the new one, in another folder

Every tensor that has one row per token is changed: the word embeddings, and the decoder's weight and bias if a file
stores them. The rows of other tokens, and all other tensors, keep the same bytes. Unlike random rows, means of old rows
hardly change what the model predicts elsewhere (Hewitt 2021; Mundra et al. 2024), and a word's pieces are what the
model has read for it so far (Gee et al. 2022). The model should then be trained on texts of the domain.

A vocabulary may have fewer tokens than the model has rows. The remaining rows are padding, and new tokens use them
first.

Neither torch nor safetensors is needed, because the file is just a JSON header followed by the numbers.

Cost: 1.7 s of CPU time for a model of BERT-base's size (434 MB), and two copies of its word embeddings in memory.
"""

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Float64s, UInt16s
from corpora.store.checked_folder import check_folder, mark_complete
from tokenizers_train.adapting import find_old_pieces
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from trainer.huggingface.config import CONFIG, read_json
from trainer.settings.model import FAMILIES

WEIGHTS = "model.safetensors"
WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"

# The names of tensors with a row a token, of every family; some files have them without the name of the family.
WORDS = frozenset(f"{name}.weight" for row in FAMILIES.values() for name in row.names.encoder["embeddings.word"])
BIASES = frozenset(row.names.heads["masked_head"]["bias"] for row in FAMILIES.values())
ROWS = WORDS | BIASES | frozenset(tied for row in FAMILIES.values() for tied in row.names.tied)

# The same, and without the name of the family; and buffers that a wrapper may leave without its prefix.
EMBEDDINGS = sorted({*WORDS, *(name.partition(".")[2] for name in WORDS)}, key=len, reverse=True)
BUFFERS = ("n_averaged", "position_ids", "token_type_ids")

MAX_PADDING = 128  # vocabularies are padded up to a multiple of 8 to 128
METADATA = "__metadata__"
MAX_HEADER_BYTES = 100_000_000  # the format's own limit
BLOCK_BYTES = 1 << 24

# What a number of the file is; bfloat16 is the upper half of a float32.
NUMPY_TYPES: Mapping[str, str] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}

Rows = Mapping[int, Sequence[int]]


class StoredTensor(NamedTuple):
    """A tensor in a safetensors file.

    Attributes:
        name: The name of the tensor.
        kind: The data type, in safetensors notation.
        shape: The shape.
        start: The offset of the first byte of data, relative to the end of the header.
        stop: The offset after the last byte of data.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    stop: int


def adapt_checkpoint(checkpoint: Path, old: Vocabulary, new: Vocabulary, output: Path) -> int:
    """Write a copy of a model with embeddings that fit a new vocabulary. Return the new number of embedding rows.

    The row of a new token is the mean of the rows of the old tokens that it consists of.

    Args:
        checkpoint: A folder with config.json and model.safetensors of a model with the old vocabulary.
        old: The vocabulary of the model.
        new: A vocabulary that was adapted from `old`.
        output: The folder to write, which is created if needed. Existing files of the same names are overwritten.

    Raises:
        InputError: If the checkpoint is unreadable, or has another vocabulary.
    """
    config = read_checked_config(checkpoint, old)
    rows = find_old_pieces(old, new)
    size = max(int(config["vocab_size"]), new.size)
    output.mkdir(parents=True, exist_ok=True)
    write_weights(checkpoint / WEIGHTS, output / WEIGHTS, rows, config["vocab_size"], size)
    (output / CONFIG).write_text(json.dumps({**config, "vocab_size": size}, indent=2) + "\n", encoding="utf-8")
    mark_complete(output, (CONFIG, WEIGHTS))
    new.save(output)
    return size


def read_checked_config(checkpoint: Path, old: Vocabulary) -> dict[str, Any]:
    """Read the config.json of a model folder, after checking that its model has a given vocabulary.

    Raises InputError if the folder is incomplete, or if the model has another vocabulary than `old`.
    """
    check_folder(checkpoint, (CONFIG, WEIGHTS))
    config = read_json(checkpoint / CONFIG)
    if type(config.get("vocab_size")) is not int:
        raise InputError(f"{checkpoint / CONFIG} does not give the model's vocab_size, a number: save the model again.")
    _check_vocabulary(checkpoint, config["vocab_size"], old)
    if not (checkpoint / WEIGHTS).is_file():
        raise InputError(
            f"{checkpoint} has no {WEIGHTS}: give the folder of a model as Hugging Face's save_pretrained writes it."
        )
    return config


def _check_vocabulary(checkpoint: Path, size: int, old: Vocabulary) -> None:
    """Raise InputError if a model's vocabulary differs from `old` in its number of rows or in its tokenizer.json.

    Args:
        checkpoint: The folder of the model.
        size: The model's number of embedding rows, which may be padded to a multiple of 8.
        old: The expected vocabulary.
    """
    padded = size % 8 == 0 and old.size <= size < old.size + MAX_PADDING
    if size != old.size and not padded:
        raise InputError(
            f"{checkpoint / CONFIG}: vocab_size is {size}, and the vocabulary has {old.size} tokens: the model was "
            "trained with another one. Adapt the vocabulary that the model was trained with."
        )
    path = checkpoint / "tokenizer.json"
    if path.is_file():
        own = Vocabulary.from_files({path.name: path.read_bytes()}, origin=str(checkpoint))
        differing = next((n for n in range(old.size) if own.tokens[n : n + 1] != old.tokens[n : n + 1]), None)
        if differing is not None:
            raise InputError(
                f"{path}: the token with the id {differing} is not {old.tokens[differing]!r}, as in the vocabulary: "
                "they differ. Adapt the vocabulary that the model was trained with."
            )


# The file.


def write_weights(source: Path, target: Path, rows: Rows, before: int, size: int) -> None:
    """Copy a safetensors file, resizing the tensors that have one row per token.

    Args:
        source: The file to copy.
        target: The file to write.
        rows: Maps the id of each new token to the rows that are averaged for its row. All other added rows are zero.
        before: The number of rows in the source.
        size: The number of rows to write.

    Raises:
        InputError: If the source is not a complete safetensors file, or has no word embeddings with `before` rows, or
            if the target cannot be written.
    """
    try:
        with source.open("rb") as stream:
            metadata, stored = read_header(stream, source)
            names = {theirs: ours for ours, theirs in unwrap_names([tensor.name for tensor in stored]).items()}
            stored = [tensor._replace(name=names[tensor.name]) for tensor in stored if tensor.name in names]
            _check_tensors(stored, before, source)
            with target.open("wb") as sink:
                sink.write(build_header(metadata, [_resize(tensor, size) for tensor in stored]))
                begin = stream.tell()
                for tensor in stored:
                    stream.seek(begin + tensor.start)
                    _copy(stream, sink, tensor, rows, size)
    except OSError as error:
        where = error.filename or source
        raise InputError(
            f"{where}: {error.strerror}. Give a model that can be read, and a folder with room that can be written."
        ) from error


def read_header(stream: IO[bytes], path: Path) -> tuple[Any, list[StoredTensor]]:
    """Read the header of a safetensors file: its metadata, and its tensors in the order of their data.

    The metadata is None if the file has none. The stream is left at the end of the header.

    Args:
        stream: The opened file, positioned at its start.
        path: The path of the file, for its size and messages.

    Raises:
        InputError: If the file is not a safetensors file, or is incomplete.
    """
    try:
        [length] = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(min(length, MAX_HEADER_BYTES)))
        metadata = header.pop(METADATA, None)
        stored = [
            StoredTensor(name, fields["dtype"], tuple(fields["shape"]), *fields["data_offsets"])
            for name, fields in header.items()
        ]
        stored.sort(key=lambda tensor: (tensor.start, tensor.stop, tensor.name))
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is not a safetensors file ({error}): save or copy it again.") from error
    num_bytes = path.stat().st_size - 8 - length
    if num_bytes != max((tensor.stop for tensor in stored), default=0):
        raise InputError(f"{path} is incomplete: {num_bytes} bytes of numbers do not match its header. Copy it again.")
    return metadata, stored


def unwrap_names(names: Collection[str]) -> dict[str, str]:
    """Map the names of tensors, without the prefix that a wrapper added, to the names in the file.

    DataParallel writes `module.`, torch.compile `_orig_mod.`, and other programs `model.` and the like. If names have
    such a prefix, those without it are omitted.

    >>> unwrap_names(["module.bert.embeddings.word_embeddings.weight", "module.cls.predictions.bias", "n_averaged"])
    ... # doctest: +NORMALIZE_WHITESPACE
    {'bert.embeddings.word_embeddings.weight': 'module.bert.embeddings.word_embeddings.weight',
     'cls.predictions.bias': 'module.cls.predictions.bias'}
    """
    prefixes = [name.removesuffix(end) for end in EMBEDDINGS for name in names if f".{name}".endswith(f".{end}")]
    prefix = prefixes[0] if prefixes else ""
    if not all(name.startswith(prefix) or name.endswith(BUFFERS) for name in names):
        prefix = ""
    return {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}


def build_header(metadata: Any, stored: Sequence[StoredTensor]) -> bytes:
    """Build the header of a safetensors file, as bytes, for tensors that follow one another without gaps.

    Args:
        metadata: The metadata of the file, a JSON object; None for none.
        stored: The tensors in the order of their data.
    """
    ends = [*accumulate((tensor.stop - tensor.start for tensor in stored), initial=0)]
    fields = {
        tensor.name: {"dtype": tensor.kind, "shape": tensor.shape, "data_offsets": offsets}
        for tensor, offsets in zip(stored, pairwise(ends), strict=True)
    }
    text = json.dumps({**({METADATA: metadata} if metadata is not None else {}), **fields}, separators=(",", ":"))
    padded = text.encode().ljust(-(-len(text.encode()) // 8) * 8)
    return struct.pack("<Q", len(padded)) + padded


def has_rows(name: str) -> bool:
    """Return True if a tensor has one row per token, judging by its name.

    >>> has_rows("bert.embeddings.word_embeddings.weight"), has_rows("bert.pooler.dense.bias")
    (True, False)
    """
    return name in ROWS or has_words(name)


def has_words(name: str) -> bool:
    """Return True if a tensor is a word embedding table, judging by its name.

    >>> has_words("embeddings.word_embeddings.weight"), has_words("bert.embeddings.position_embeddings.weight")
    (True, False)
    """
    return name in WORDS or name.endswith(WORD_EMBEDDINGS)


def _check_tensors(stored: Sequence[StoredTensor], before: int, path: Path) -> None:
    if not any(has_words(tensor.name) for tensor in stored):
        raise InputError(
            f"{path} has no tensor {WORD_EMBEDDINGS}: give a model of the BERT family, as save_pretrained writes it."
        )
    for tensor in stored:
        if has_rows(tensor.name) and (tensor.shape[:1] != (before,) or tensor.kind not in NUMPY_TYPES):
            raise InputError(
                f"{path}: {tensor.name} is {tensor.kind} {list(tensor.shape)}, and its config.json gives {before} "
                "tokens: it needs a row of floating-point numbers for each. Save the model again."
            )


def _resize(tensor: StoredTensor, size: int) -> StoredTensor:
    """Return the description of a tensor with `size` rows if it has one row per token, otherwise unchanged."""
    if not has_rows(tensor.name):
        return tensor
    row_bytes = (tensor.stop - tensor.start) // tensor.shape[0]
    return tensor._replace(shape=(size, *tensor.shape[1:]), stop=tensor.start + size * row_bytes)


def _copy(stream: IO[bytes], sink: IO[bytes], tensor: StoredTensor, rows: Rows, size: int) -> None:
    """Copy the data of one tensor between files, adding rows if it has one row per token.

    Args:
        stream: The source, at the tensor's first byte.
        sink: The target.
        tensor: The description of the tensor in the source.
        rows: Maps the id of each new token to the rows that are averaged for its row.
        size: The number of rows to write.
    """
    left = tensor.stop - tensor.start
    if has_rows(tensor.name):
        numbers = np.frombuffer(stream.read(left), NUMPY_TYPES[tensor.kind]).reshape(tensor.shape)
        sink.write(with_rows(numbers, rows, size, tensor.kind == "BF16").data)
        return
    while left:
        block = stream.read(min(left, BLOCK_BYTES))
        sink.write(block)
        left -= len(block)


def with_rows(numbers: npt.NDArray[Any], rows: Rows, size: int, bfloat: bool = False) -> npt.NDArray[Any]:
    """Resize an array to `size` rows: the old rows, then the mean of old rows for each new token.

    Means are computed in float64 and rounded to the array's type.

    Args:
        numbers: The old rows. bfloat16 values are passed as uint16.
        rows: Maps the id of each new token to the rows that are averaged for its row.
        size: The number of rows of the result. Rows that are neither old nor new are zeros.
        bfloat: True if the values are bfloat16.
    """
    grown = np.zeros((size, *numbers.shape[1:]), numbers.dtype)
    grown[: len(numbers)] = numbers
    for row, pieces in rows.items():
        taken = numbers[list(pieces)]
        mean = ((taken.astype(np.uint32) << 16).view(np.float32) if bfloat else taken).astype(np.float64).mean(axis=0)
        grown[row] = _to_bfloat16(mean) if bfloat else mean
    return grown


def _to_bfloat16(numbers: Float64s) -> UInt16s:
    """Round values to bfloat16, and return their bits as a uint16 array of the same shape."""
    bits = np.atleast_1d(numbers.astype(np.float32)).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return rounded.astype(np.uint16).reshape(numbers.shape)
