"""Tokenizers at random, of all families: the ids are those of `Tokenizer.from_file`, and no text has a special one."""

import logging
from collections import Counter
from random import Random

import pytest
from encoded_texts import defined
from random_tokenizers import random_text, random_tokenizer
from tiers import count_examples
from tokenizers import Tokenizer

from tokenizers_train.encoding.encoder import build_engine, hide_special_tokens
from tokenizers_train.vocabularies.settings import UNIGRAM
from tokenizers_train.vocabularies.vocabulary import Vocabulary

TEXTS = 20  # of each tokenizer


def unknown_of(vocabulary: Vocabulary) -> str | None:
    model = vocabulary.content["model"]
    unknown: str | None = model["vocab"][model["unk_id"]][0] if vocabulary.algorithm == UNIGRAM else model["unk_token"]
    return unknown


def spelling(vocabulary: Vocabulary) -> set[str]:
    """The pieces of the model that are a letter or a byte: texts are spelt with them."""
    found = vocabulary.content["model"]["vocab"]
    pieces = {piece for piece, _ in found} if isinstance(found, list) else {*found}
    return {piece for piece in pieces if len(piece) == 1 or piece.startswith("<0x")}


def undisturbed(vocabulary: Vocabulary) -> bool:
    """True if no special token is a step on the way to other pieces."""
    merges = vocabulary.content["model"].get("merges")
    return merges is None or len(merges) == len(hide_special_tokens(vocabulary)["model"]["merges"])


def compared(number: int, definition: str) -> tuple[str, int]:
    """The engine of a tokenizer, and how many texts have the ids of its file."""
    theirs, equal = Tokenizer.from_str(definition), 0
    vocabulary = Vocabulary.from_files({"tokenizer.json": definition.encode()})
    texts = [random_text(Random(f"{number} {place}")) for place in range(TEXTS)]
    found = defined(vocabulary, texts)
    special = {vocabulary.tokens[each]: each for each in vocabulary.special_ids.values()}
    unknown = unknown_of(vocabulary)
    kept = {each for token, each in special.items() if token != unknown and token not in spelling(vocabulary)}
    for place, text in enumerate(texts):
        ids = found.ids[found.offsets[place] : found.offsets[place + 1]].tolist()
        assert not kept & {*ids}, f"tokenizer {number}, {text!r}: a text has a special token"
        expected = theirs.encode(text, add_special_tokens=False).ids
        written = any(token.lower() in text.lower() for token in special)
        met = {number for token, number in special.items() if token != unknown} & {*expected}
        if not (written or met) and undisturbed(vocabulary):
            assert ids == expected, f"tokenizer {number}, {text!r}"
            equal += 1
    return type(build_engine(vocabulary)).__name__, equal


def test_ids_are_those_of_the_file_and_none_is_special(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)  # tokenizers itself is slow, as the log says
    met = Counter[str]()
    for number in range(count_examples(300)):
        engine, equal = compared(number, random_tokenizer(number))
        met[engine] += equal
    assert len(met) == 4 and min(met.values()) > count_examples(150), met
