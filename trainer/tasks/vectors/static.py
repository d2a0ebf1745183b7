"""`static`: a vector for each piece of a vocabulary, from an encoder; the mean of a text's is its vector.

    pieces ─► [CLS] piece [SEP] ─► the encoder's vectors ─► principal components ─► weights by frequency ─► a folder

The folder opens by `model2vec.StaticModel.from_pretrained` and by `SentenceTransformer`, with equal vectors, and needs
no torch by the first. The way is that of model2vec (https://github.com/MinishLab/model2vec), whose `distill` makes the
same vectors of an encoder without modules after its pooling: components of the greatest variance, then SIF weights
(Arora et al. 2017) with frequencies by Zipf's law from the order of ids, since trainers of vocabularies put frequent
pieces first. Frequencies counted in texts are better: all-MiniLM-L6-v2 has a Spearman of .661 on STS-B (test) by Zipf's
law, and of .702 by the counts of six novels. What the encoder's folder has after its pooling is kept, except scaling to
length 1.

Special tokens and `[unused7]` have vectors of zeros, so an unknown word changes no direction.
Cost: reading each piece once by the encoder, and memory for these vectors three times.
"""

import argparse
import re
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s, Float64s, Int32s
from corpora.store.settings import check_range
from trainer.complete_folders import new_folder, refusing, written_json
from trainer.families.contract import SpecialIds
from trainer.huggingface.checkpoints import WEIGHTS, save_tensors
from trainer.huggingface.config import CONFIG
from trainer.huggingface.sentences import MODULES
from trainer.metrics import line, speak
from trainer.tasks.contract import Tokens
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.heads.vector_steps import Normalize
from trainer.tasks.text_encoder import TOKENIZER, TextEncoder
from trainer.tasks.vectors.embed import Embedder, named_texts
from trainer.tasks.vectors.settings import EmbedSettings
from trainer.training.parallel import joined

DIMENSIONS = 256
SIF_ZIPF, SIF_COUNTS = 1e-4, 1e-3  # the share of all pieces at which one weighs a half: model2vec's, and STS-B's (dev)
UNUSED = re.compile(r"\[unused\d+\]")
AT_ONCE = 4_096  # pieces
OPENS = [
    {"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"},
    {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
]


def main(arguments: list[str]) -> int:
    """Run `static MODEL OUTPUT [--dimensions N] [--texts FILE]`: write the folder, report an event; return 0.

    Raises InputError.
    """
    parser = argparse.ArgumentParser(prog="static", description="A vector for each piece of a vocabulary.")
    parser.add_argument("model", type=Path, help="folder of an encoder")
    parser.add_argument("output", type=Path, help="the folder to write; it must not hold anything yet")
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS, help="at most so many numbers of a vector")
    parser.add_argument("--texts", help="a file of texts in which pieces are counted")
    asked = parser.parse_args(arguments)
    texts = FileSettings(path=asked.texts) if asked.texts else None
    with joined() as ranks:
        done = export_static(asked.model, asked.output, asked.dimensions, ranks.device, texts)
    speak(line({"event": "done", **done}))
    return 0


def export_static(
    folder: Path, output: Path, dimensions: int, device: torch.device, texts: FileSettings | None = None
) -> dict[str, Any]:
    """Write the folder; return how many pieces have a vector, and of how many numbers. Raises InputError.

    dimensions: at most; the encoder may have fewer
    texts:      records in which pieces are counted; None: frequencies by the order of ids
    """
    check_range("dimensions", dimensions, 1, 1_000_000)
    with new_folder(output) as new:
        embedder = Embedder.of(folder, EmbedSettings(), device)
        tokenizer, special = embedder.texts.tokenizer, embedder.texts.inputs.special_ids
        pieces, rows = counted_pieces(tokenizer, special)
        if texts is None:
            weights, half = sif_weights(1 / np.arange(2, len(pieces) + 2), SIF_ZIPF), SIF_ZIPF
        else:
            weights, half = sif_weights(counts_in(texts, embedder.texts, rows)[pieces], SIF_COUNTS), SIF_COUNTS
        reduced = components(piece_vectors(embedder, pieces, special), dimensions)
        vectors = np.zeros((rows, reduced.shape[1]), np.float32)
        vectors[pieces] = reduced * weights[:, None]
        vectors[[special.pad, special.unk]] = 0
        with refusing(output):
            save_tensors({"embeddings": torch.from_numpy(vectors)}, new / WEIGHTS)
            tokenizer.save(str(new / TOKENIZER))
            written_json(new / CONFIG, _config(vectors.shape[1], half))
            written_json(new / MODULES, OPENS)
    return {"pieces": len(pieces), "width": vectors.shape[1]}


def counted_pieces(tokenizer: Tokenizer, special: SpecialIds) -> tuple[Int32s, int]:
    """Return the ids that have a frequency, in order, and the number of all ids. Raises InputError where some lack.

    Padding and the unknown piece are among them, as model2vec counts them; other special tokens are not.
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    rows = max(vocabulary.values()) + 1
    if len(vocabulary) != rows:
        raise InputError(
            f"The tokenizer has {len(vocabulary):,} tokens with ids up to {rows - 1:,}: model2vec opens only one whose "
            "ids have no gaps. Save the vocabulary again without them."
        )
    left_out = {id_ for id_, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    left_out |= {special.cls, special.sep, special.mask}
    left_out |= {id_ for token, id_ in vocabulary.items() if UNUSED.fullmatch(token)}
    kept = ({*range(rows)} - left_out) | {special.pad, special.unk}
    return np.array(sorted(kept), np.int32), rows


def piece_vectors(embedder: Embedder, pieces: Int32s, special: SpecialIds) -> Float32s:
    """Return the encoder's vector of each piece as a text by itself: [pieces, H]."""
    after = [*embedder.after] if isinstance(embedder.after, nn.Sequential) else [embedder.after]
    embedder.after = nn.Sequential(*(each for each in after if not isinstance(each, Normalize)))
    embedder.texts.skipped = ()  # there is no prompt before a piece
    segments = np.zeros(3, np.int32)
    made = list[Float32s]()
    for start in range(0, len(pieces), AT_ONCE):
        some = [np.array([special.cls, piece, special.sep], np.int32) for piece in pieces[start : start + AT_ONCE]]
        made += embedder.vectors_of([Tokens(ids, segments) for ids in some])
    return np.concatenate(made)


def components(vectors: Float32s, dimensions: int) -> Float32s:
    """Return the principal components of rows, those of the greatest variance first: [rows, at most `dimensions`].

    Each has the sign that makes its largest number positive, so the same rows give the same components anywhere.
    """
    centered = vectors - vectors.mean(0)
    _, directions = np.linalg.eigh((centered.T @ centered).astype(np.float64))
    scores = centered @ directions[:, ::-1][:, :dimensions].astype(np.float32)
    largest = np.abs(scores).argmax(0)
    signed: Float32s = scores * np.sign(scores[largest, np.arange(scores.shape[1])])
    return signed


def counts_in(file: FileSettings, encoder: TextEncoder, rows: int) -> Float64s:
    """Return how often each of so many ids occurs in the records of a file, and a half. Raises InputError."""
    counts, texts = np.full(rows, 0.5), named_texts(file, RowCounts())
    for some in iter(lambda: [text.text for text in islice(texts, AT_ONCE)], []):
        for piece in encoder.pieces(some):
            np.add.at(counts, piece.ids, 1)
    return counts


def sif_weights(counts: Float64s, half: float) -> Float32s:
    """Return the weight of each piece by how often it occurs. half: the share of all at which a piece weighs a half

    >>> sif_weights(np.array([9_900.0, 99.0, 1.0]), 1e-3).round(3).tolist()
    [0.0010000000474974513, 0.09200000017881393, 0.9089999794960022]
    """
    weights: Float32s = (half / (half + counts / counts.sum())).astype(np.float32)
    return weights


def _config(width: int, half: float) -> dict[str, Any]:
    """Return what model2vec reads of a folder. max_length: None, since no text is too long for a mean"""
    fixed = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True, "max_length": None}
    return {**fixed, "hidden_dim": width, "sif_coefficient": half, "apply_pca": width, "embedding_dtype": "float32"}
