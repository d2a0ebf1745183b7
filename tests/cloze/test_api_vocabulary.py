"""Vocabularies of the Python API: a call is that of transformers' tokenizer of the same folder."""

from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_recipe import prose
from strange_text import TEXTS
from tiers import examples
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

import cloze
from cloze.encoding import CallOptions, TokenizerCall

ALGORITHMS = ("wordpiece", "byte-bpe", "unigram")
WRITTEN = st.one_of(TEXTS, st.sampled_from(["[MASK]", "<mask> a", "[CLS] x [SEP]", "", " ", "<s>"]))


@pytest.fixture(scope="module")
def vocabularies() -> dict[str, cloze.Vocabulary]:
    """A small vocabulary of each kind."""
    docs = cloze.read([prose(n) for n in range(30)], progress=False)
    return {name: cloze.train_vocabulary(docs, name, 400) for name in ALGORITHMS}


@pytest.fixture(scope="module")
def theirs(vocabularies: dict[str, cloze.Vocabulary]) -> dict[str, Any]:
    """transformers' tokenizer of each."""
    pytest.importorskip("transformers")
    return {name: vocabulary.to_hf() for name, vocabulary in vocabularies.items()}


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "padding": st.sampled_from([True, False, "longest", "max_length", "do_not_pad"]),
        "truncation": st.sampled_from([True, False, "longest_first", "do_not_truncate"]),
        "max_length": st.integers(8, 24),
        "add_special_tokens": st.booleans(),
        "pad_to_multiple_of": st.sampled_from([None, 1]),
        "padding_side": st.sampled_from([None, "left", "right"]),
        "return_token_type_ids": st.booleans(),
        "return_attention_mask": st.booleans(),
        "return_special_tokens_mask": st.booleans(),
        "return_offsets_mapping": st.booleans(),
        "return_length": st.booleans(),
        "return_overflowing_tokens": st.booleans(),
        "stride": st.integers(0, 2),
    },
)


@given(st.data(), st.sampled_from(ALGORITHMS), OPTIONS)
@examples(300)
@pytest.mark.filterwarnings("ignore:.*max_length.*is ignored")
def test_a_call_is_that_of_transformers(
    vocabularies: dict[str, cloze.Vocabulary], theirs: dict[str, Any], data: Any, kind: str, options: dict[str, Any]
) -> None:
    """Fails if ids, masks, offsets or their names differ for any text and any arguments."""
    texts = data.draw(st.one_of(WRITTEN, st.lists(WRITTEN, min_size=1, max_size=4)))
    pairs = st.just(None) if isinstance(texts, str) else st.one_of(st.none(), st.just(texts[::-1]))
    pair = data.draw(st.one_of(st.none(), WRITTEN) if isinstance(texts, str) else pairs)
    ours, other = (each[kind](texts, pair, **options) for each in (vocabularies, theirs))
    assert dict(ours) == dict(other)
    assert [*ours] == [*other]
    assert ours.tokens(0) == other.tokens(0)
    assert ours.word_ids(0) == other.word_ids(0)


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_words_arrays_and_text_are_those_of_transformers(
    vocabularies: dict[str, cloze.Vocabulary], theirs: dict[str, Any], kind: str
) -> None:
    """Fails if lists of words, arrays, tokens or decoded texts differ."""
    ours, other = vocabularies[kind], theirs[kind]
    words = [["The", "keeper's", "boat"], ["a", "b"]]
    assert dict(ours(words, is_split_into_words=True)) == dict(other(words, is_split_into_words=True))
    arrays = [each(["The winter tide.", "x"], padding=True, return_tensors="np") for each in (ours, other)]
    assert all(np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[1])
    assert {array.dtype for array in arrays[0].values()} == {np.dtype(np.int64)}
    assert ours.tokenize("The winter tide.") == other.tokenize("The winter tide.")
    ids = ours("The winter tide, don't.").input_ids
    for skip in (True, False):
        assert ours.decode(ids, skip_special_tokens=skip) == other.decode(ids, skip_special_tokens=skip)
    assert ours.convert_ids_to_tokens(ids) == other.convert_ids_to_tokens(ids)
    assert ours.convert_tokens_to_ids(["the", "no such"]) == other.convert_tokens_to_ids(["the", "no such"])
    assert len(ours) == len(other)
    assert ours.model_input_names == other.model_input_names


def test_tensors_are_those_of_the_arrays(vocabularies: dict[str, cloze.Vocabulary]) -> None:
    """Fails if a tensor is other than the array."""
    torch: ModuleType = pytest.importorskip("torch")
    vocab = vocabularies["wordpiece"]
    batch = vocab(["The tide.", "x"], padding=True, return_tensors="pt").to("cpu")
    assert batch.input_ids.dtype == torch.int64
    assert batch.input_ids.tolist() == vocab(["The tide.", "x"], padding=True).input_ids


def test_a_saved_vocabulary_is_loaded_again(vocabularies: dict[str, cloze.Vocabulary], tmp_path: Path) -> None:
    """Fails if the folder gives another vocabulary, or shards of a loaded one are not those of a trained one."""
    vocab = vocabularies["wordpiece"]
    vocab.save(tmp_path / "saved")
    again = cloze.load_vocabulary(tmp_path / "saved")
    assert ([*again], again("The tide.")) == ([*vocab], vocab("The tide."))
    texts = [prose(n) for n in range(5)]
    rows = [cloze.build_shards(texts, each, 64, input="single").to_arrow() for each in (vocab, again)]
    assert rows[0].equals(rows[1]) and len(rows[0]) > 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padding": "max"}, "padding"),
        ({"truncation": "first"}, "truncation"),
        ({"return_tensors": "tf"}, "return_tensors"),
        ({"return_tensors": "np"}, "different lengths"),
        ({"text_pair": ["one"]}, "as many"),
        ({"padding": True, "truncation": True, "max_length": 9, "pad_to_multiple_of": 4}, "multiple"),
    ],
)
def test_mistakes_of_a_call_are_named(
    vocabularies: dict[str, cloze.Vocabulary], options: dict[str, Any], message: str
) -> None:
    """Fails if a call that cannot be is not refused with the name of what is wrong."""
    with pytest.raises(cloze.InputError, match=message):
        vocabularies["wordpiece"](["one text", "another text here"], **options)


def test_a_text_that_is_not_in_the_batch_has_no_tokens(vocabularies: dict[str, cloze.Vocabulary]) -> None:
    """Fails if a batch without texts, or a padded one, has no such attribute instead of no such text."""
    vocabulary = vocabularies["wordpiece"]
    assert vocabulary(["a tide"]).tokens() == vocabulary("a tide").tokens()
    for batch in (vocabulary([]), vocabulary.pad(vocabulary(["a tide"]))):
        for listed in (batch.tokens, batch.word_ids, batch.sequence_ids):
            with pytest.raises(IndexError):
                listed()


def test_a_vocabulary_of_nothing_is_refused() -> None:
    """Fails if no words, or a size that leaves nothing to learn, end otherwise than as an InputError."""
    with pytest.raises(cloze.InputError, match="no words"):
        cloze.train_vocabulary([])
    with pytest.raises(cloze.InputError, match="nothing would be left"):
        cloze.train_vocabulary(["a text"], size=5)
    with pytest.raises(cloze.InputError, match="There is no tokenizer"):
        cloze.load_vocabulary("no/such/folder")


@pytest.mark.parametrize("given", ["Amsterdam is older  than Ulm.", ["Amsterdam", "is", "older"]])
def test_a_token_begins_where_its_word_does(given: str | list[str]) -> None:
    """Fails if a token loses the first letter of its word to a space that the tokenizer put before it (RobBERT)."""
    tokenizer = Tokenizer(models.BPE())
    rules = [pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel(add_prefix_space=True), pre_tokenizers.Punctuation()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(rules)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator(["Amsterdam is older than Ulm ."] * 2, trainer)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    split = isinstance(given, list)
    options = {name: each.default for name, each in signature(cloze.Vocabulary.__call__).parameters.items()}
    options |= {"return_offsets_mapping": True, "is_split_into_words": split}
    asked = CallOptions(**{name: value for name, value in options.items() if name not in ("self", "text", "text_pair")})
    told = TokenizerCall(tokenizer, {}, {}).encode(given, None, asked)
    texts = [given[word] if split else given for word in told.word_ids()]
    words = [text[begin:end] for text, (begin, end) in zip(texts, told.offset_mapping, strict=True)]
    assert [word for word in words if word] == ["Amsterdam", "is", "older", *([] if split else ["than", "Ulm", "."])]
