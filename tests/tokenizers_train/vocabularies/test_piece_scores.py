"""Scores: every parser reads the 64 bits that the tokenizer has, and reading and writing again changes nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from tokenizers_train.vocabularies.albert import round_score, to_definition
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_albert_vocabulary

LIKELY = st.floats(-25, -1e-6)


def unigram(scores: list[float]) -> Tokenizer:
    return Tokenizer(models.Unigram([("<unk>", 0.0), *((f"p{n}", score) for n, score in enumerate(scores))], 0, False))


def read(definition: str) -> list[float]:
    return [score for _, score in json.loads(definition)["model"]["vocab"]]


@given(scores=st.lists(LIKELY, min_size=1, max_size=200))
def test_python_and_tokenizers_read_the_same_numbers(scores: list[float]) -> None:
    """Fails unless scores of a tokenizer file are kept to the last bit, and those of one that was made to 15 digits."""
    made = to_definition(unigram(scores))
    assert read(made) == pytest.approx([0.0, *scores], rel=1e-14, abs=0)
    assert to_definition(Tokenizer.from_str(made)) == made
    theirs = Tokenizer.from_str(unigram(scores).to_str())
    definition = to_definition(theirs)
    assert read(definition) == read(theirs.to_str())
    assert to_definition(Tokenizer.from_str(definition)) == definition


@given(score=st.floats(-1e3, 0))
def test_trained_scores_are_read_alike_by_every_parser(score: float) -> None:
    """At most 15 digits and 22 decimals: the digits and the power of ten are doubles, and reading rounds once."""
    short = round_score(score)
    digits, _, exponent = repr(short).lstrip("-").partition("e")
    whole, _, decimals = digits.partition(".")
    assert len((whole + decimals).strip("0")) <= 15
    assert len(decimals.rstrip("0")) - int(exponent or 0) <= 22
    assert abs(short - score) <= max(1e-22, abs(score) * 1e-14)
    plain = unigram([short]).to_str(pretty=True)
    assert read(Tokenizer.from_str(plain).to_str()) == [0.0, short]


def test_a_token_cannot_be_taken_for_scores() -> None:
    tokenizer = Tokenizer(models.Unigram([('"vocab": [\n', -1.1), ("        -2.5", -0.30000000000000004)], 0, False))
    definition = to_definition(tokenizer)
    assert read(definition) == [-1.1, -0.30000000000000004]
    assert Tokenizer.from_str(definition).get_vocab() == tokenizer.get_vocab()


def test_a_brought_folder_keeps_the_numbers_that_tokenizers_reads() -> None:
    """However often it is read and written."""
    drawn = [-1 - n * 0.123456789012345671 for n in range(400)]
    written = json.dumps(json.loads(build_albert_vocabulary([(f"p{n}", s) for n, s in enumerate(drawn)]).definition))
    theirs = read(Tokenizer.from_str(written).to_str())
    apart = sum(a != b for a, b in zip(theirs[5:], drawn, strict=True))
    assert apart > 10, "the numbers are read alike anyway"
    vocabulary = Vocabulary.from_files({"tokenizer.json": written.encode()}, origin="here")
    assert read(vocabulary.definition) == theirs
    assert Vocabulary.from_files(vocabulary.to_files()) == vocabulary
    assert read(vocabulary.to_tokenizer().to_str()) == theirs
