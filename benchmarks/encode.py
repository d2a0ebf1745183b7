"""Tokenising: `Encoder` next to tokenizers' own encoding with the same vocabulary, which gives the same ids.

WordPiece and byte-level BPE, each with a vocabulary learnt from the text. The ratios are to a new encoder, which works
out the pieces of each word once: a part of the tokens stage begins with one. One that knows the words shows where that
leads in a large part. Documents are encoded whole, the cheapest way for the other sides.

Three other libraries are next to them where they are installed: tokie (both algorithms), tiktoken and gigatoken
(byte-level BPE), each with the same vocabulary and made once, so that their words are known.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measuring import Report, Side, cleaned, main, side_by_side, size_mb, text_column
from benchmarks.vocabulary import GPT2_PATTERN
from corpora.text.buffers import to_text_buffers
from tokenizers_train.build import train_vocabulary
from tokenizers_train.encoding.encoder import Encoder, build_text_tokenizer
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.vocabularies.settings import BYTE_BPE, VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.counts import count_words

VOCABULARIES = (VocabularySettings(), VocabularySettings(algorithm=BYTE_BPE, size=50265))

Texts = Sequence[str]
Ids = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another library with the same vocabulary.

    encode: the measured call
    ids:    the ids of all texts together, from what `encode` gives
    """

    name: str
    encode: Callable[[Texts], object]
    ids: Callable[[Any], Ids]


def benchmark(texts: Texts, rounds: int) -> list[Report]:
    """Compare ids of cleaned texts, by vocabularies learnt from them."""
    texts = cleaned(texts)
    return [compare(texts, settings, rounds) for settings in VOCABULARIES]


def compare(texts: Texts, settings: VocabularySettings, rounds: int) -> Report:
    """Compare ids by one vocabulary."""
    column = text_column(texts)
    offsets = to_text_buffers(column).offsets
    documents = (column, offsets[:-1], offsets[1:])
    vocabulary = train_vocabulary(count_words(settings.word_rule, column), settings)
    warm, tokenizer = Encoder(vocabulary), build_text_tokenizer(vocabulary)
    ours = warm.encode_sentences(*documents)
    theirs = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    assert np.array_equal(ours.ids, [number for encoding in theirs for number in encoding.ids]), "ids differ"
    assert np.array_equal(np.diff(ours.offsets), [len(encoding.ids) for encoding in theirs]), "lengths differ"
    del theirs
    peers, notes = peers_of(vocabulary)
    sides = [
        Side(name="Encoder, new", call=lambda _: Encoder(vocabulary).encode_sentences(*documents)),
        Side(name="Encoder, its words known", call=lambda _: warm.encode_sentences(*documents)),
        Side(
            name="tokenizers encode_batch_fast",
            call=lambda _: tokenizer.encode_batch_fast(texts, add_special_tokens=False),
        ),
        Side(name="tokenizers encode_batch", call=lambda _: tokenizer.encode_batch(texts, add_special_tokens=False)),
        *(Side(name=peer.name, call=lambda _, peer=peer: peer.encode(texts)) for peer in peers),  # type: ignore[misc]
    ]
    notes = [
        f"all {len(ours.ids)} ids equal; {vocabulary.size} tokens",
        *(compared(peer, texts, ours.ids) for peer in peers),
        *notes,
    ]
    amounts = {"MB": size_mb(texts), "M tokens": len(ours.ids) / 1e6}
    return side_by_side(f"encode, {settings.algorithm}", texts, sides, rounds, notes, amounts)


def compared(peer: Peer, texts: Texts, ours: Ids) -> str:
    """Return a note on the ids of a peer."""
    theirs = peer.ids(peer.encode(texts))
    if np.array_equal(theirs, ours):
        return f"{peer.name}: all ids equal"
    return f"{peer.name}: other ids, {len(theirs)} of them"


# Other libraries.


def peers_of(vocabulary: Vocabulary) -> tuple[list[Peer], list[str]]:
    """Return the libraries that are installed and know the algorithm, and a note on each that is not."""
    peers, notes = [], []
    for name, make in PEERS.items():
        if vocabulary.algorithm != BYTE_BPE and name != "tokie":
            continue
        if find_spec(name) is None:
            notes.append(f"{name} is not installed")
        else:
            peers.append(make(vocabulary))
    return peers, notes


def _tokie(vocabulary: Vocabulary) -> Peer:
    definition = json.dumps({**json.loads(vocabulary.definition), "post_processor": None})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_text(definition, encoding="utf-8")
        tokenizer = import_module("tokie").Tokenizer.from_json(str(path))
    return Peer(name="tokie encode_batch_flat", encode=tokenizer.encode_batch_flat, ids=lambda outputs: outputs[0])


def _tiktoken(vocabulary: Vocabulary) -> Peer:
    special = {*vocabulary.special_ids.values()}
    ranks = {_bytes_of(token): number for number, token in enumerate(vocabulary.tokens) if number not in special}
    encoding = import_module("tiktoken").Encoding(
        "learnt", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={}
    )
    return Peer(
        name="tiktoken encode_to_numpy",
        encode=lambda texts: [encoding.encode_to_numpy(text, disallowed_special=()) for text in texts],
        ids=lambda arrays: np.concatenate(arrays),
    )


def _gigatoken(vocabulary: Vocabulary) -> Peer:
    tokenizer = import_module("gigatoken").Tokenizer(build_text_tokenizer(vocabulary))
    return Peer(
        name="gigatoken encode_batch",
        encode=lambda texts: tokenizer.encode_batch([*texts], parallel=False),
        ids=lambda id_lists: np.concatenate([np.asarray(ids) for ids in id_lists]),
    )


def _bytes_of(token: str) -> bytes:
    """Return the bytes that a token of byte-level BPE stands for."""
    return bytes(BYTE_LETTERS.index(letter) for letter in token)


PEERS = {"tokie": _tokie, "tiktoken": _tiktoken, "gigatoken": _gigatoken}


if __name__ == "__main__":
    main(benchmark)
