"""Texts as a model reads them: ids by the `tokenizer.json` next to the model, end to end, without padding.

Promise: every text begins with the classifying and ends with the separating token, also one that was cut; the tokens
cut off are counted. The tokenizer is checked against the model before the first text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from corpora.errors import InputError
from corpora.kernels.arrays import Int32s, Int64s
from trainer.families.contract import ModelInputs
from trainer.model.batches import Batch

TOKENIZER = "tokenizer.json"

# Shapes: T tokens of all texts, N texts.


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTexts:
    """Texts end to end.

    ids:        int32 [T]
    offsets:    int64 [N + 1], where each text begins; the last is T
    num_cut:    texts that were too long
    tokens_cut: tokens of theirs that were cut off
    """

    ids: Int32s
    offsets: Int64s
    num_cut: int
    tokens_cut: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> Int32s:
        """The ids of one text."""
        return self.ids[self.offsets[number] : self.offsets[number + 1]]


def open_tokenizer(folder: Path, inputs: ModelInputs, max_length: int) -> Tokenizer:
    """The tokenizer of a model's folder; it cuts texts to `max_length` tokens.

    Raises InputError where there is none, or one of another model.
    """
    path = folder / TOKENIZER
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{folder} has no {TOKENIZER}: save the model's own tokenizer there.") from error
    except Exception as error:  # tokenizers has no class of its own for what it cannot read
        raise InputError(f"{path} is not a tokenizer ({error}): save or copy it again.") from error
    special = inputs.special_ids
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    if highest >= inputs.vocab_size:
        raise InputError(
            f"{path} has a token with id {highest}, and the model knows {inputs.vocab_size} tokens: "
            "save the model's own tokenizer there."
        )
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    if tokenizer.encode("").ids != [special.cls, special.sep]:
        raise InputError(
            f"{path} makes {tokenizer.encode('').ids} of an empty text, where the model expects "
            f"{[special.cls, special.sep]}: save the model's own tokenizer there, with its post-processor."
        )
    return tokenizer


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> EncodedTexts:
    """The ids of texts, cut as the tokenizer was told to."""
    encodings = tokenizer.encode_batch(texts)
    over = [[int(np.sum(np.equal(rest.special_tokens_mask, 0))) for rest in e.overflowing] for e in encodings]
    ids = [np.array(encoding.ids, np.int32) for encoding in encodings]
    return EncodedTexts(
        ids=np.concatenate([np.empty(0, np.int32), *ids]),
        offsets=np.cumsum([0, *map(len, ids)], dtype=np.int64),
        num_cut=sum(map(bool, over)),
        tokens_cut=sum(map(sum, over)),
    )


def concatenated(pieces: Sequence[EncodedTexts]) -> EncodedTexts:
    """The texts of all pieces in their order."""
    lengths = [np.diff(piece.offsets) for piece in pieces]
    return EncodedTexts(
        ids=np.concatenate([np.empty(0, np.int32), *(piece.ids for piece in pieces)]),
        offsets=np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths])),
        num_cut=sum(piece.num_cut for piece in pieces),
        tokens_cut=sum(piece.tokens_cut for piece in pieces),
    )


def batch_of(rows: Sequence[Int32s], points: Sequence[int] = (), targets: Mapping[str, Tensor] | None = None) -> Batch:
    """Texts as a batch of single segments. points: places among its tokens that a head reads"""
    ids = torch.from_numpy(np.concatenate([np.empty(0, np.int64), *rows]))
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return Batch(
        ids=ids,
        segment_ids=torch.zeros_like(ids),
        boundaries=torch.from_numpy(offsets),
        longest=max(map(len, rows), default=0),
        points=torch.tensor(points, dtype=torch.int64),
        targets=targets or {},
    )
