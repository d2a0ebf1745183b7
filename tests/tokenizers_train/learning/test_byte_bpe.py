"""Byte-level BPE training: equal to the reference, token for token and merge for merge."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from text_columns import table
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from corpora.errors import InputError
from tokenizers_train.learning.byte_bpe import spell_bytes, train_byte_bpe
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS, SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.counts import count_by
from tokenizers_train.words.gpt2 import Gpt2Words, gpt2_pre_tokenizer
from tokenizers_train.words.table import COUNTS, WordCounts

FIRST = ("<s>", "<pad>", "</s>", "<unk>")


def learn(counts: WordCounts, size: int, min_frequency: int = 2) -> Vocabulary:
    return train_byte_bpe(counts, VocabularySettings(algorithm="byte-bpe", size=size, min_frequency=min_frequency))


def reference(texts: list[str], size: int, min_frequency: int) -> tuple[list[str], list[tuple[str, str]]]:
    """The tokens of Hugging Face's trainer in the order of their ids, and its merges; <mask> is added last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = gpt2_pre_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1,
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=list(FIRST),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [*sorted(ids, key=ids.__getitem__), "<mask>"], [(left, right) for left, right in merges]


def assert_equals_reference(texts: list[str], size: int, min_frequency: int = 2) -> Vocabulary:
    ours = learn(count_by(Gpt2Words(), pa.array(texts, pa.large_string())), size, min_frequency)
    tokens, merges = reference(texts, size, min_frequency)
    assert list(ours.merges) == merges
    assert list(ours.tokens) == tokens
    return ours


def test_equals_the_reference_merge_for_merge() -> None:
    # Many equally frequent pairs, runs of one letter, characters of several bytes, white space between words.
    texts = [f"Words {i % 13}th wordy swords' unwordly,  sworn {i % 7} worlds of thorns\n" for i in range(50)]
    texts += [f"abab{'ab' * (i % 5)} aaa{'a' * (i % 6)} naïve thing{i % 9}s “中文” 😀" for i in range(60)]
    ours = assert_equals_reference(texts, 420, 3)
    assert len(ours.merges) > 70, "hardly a merge was compared"


def test_equals_the_reference_on_a_book(shared: Path) -> None:
    book = (shared / "data/books/txt/alice-s-adventures-in-wonderland_11.txt").read_text(encoding="utf-8")
    ours = assert_equals_reference(book.split("\n\n"), 3000)
    assert ours.size == 3000 and len(ours.merges) == 3000 - 261


def test_a_vocabulary_made_by_hand() -> None:
    # u g is in hug, pug, hugs: 20; u n in pun, bun: 16; then h ug in hug, hugs: 15.
    vocabulary = learn(table({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}), size=264)
    assert vocabulary.tokens == (*FIRST, *sorted(BYTE_LETTERS), "ug", "un", "hug", "<mask>")
    assert vocabulary.merges == (("u", "g"), ("u", "n"), ("h", "ug"))
    assert vocabulary.special_ids == {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": 263}
    assert (vocabulary.algorithm, vocabulary.lowercase) == ("byte-bpe", False)


def test_ties_go_to_the_smaller_ids() -> None:
    # The space's letter is after all of ASCII, so " a" is the last of the pairs.
    assert learn(table({" a": 3, "ba": 3, "ab": 3}), size=264).tokens[-4:-1] == ("ab", "ba", "Ġa")


def test_bytes_are_numbered_in_the_order_of_their_letters() -> None:
    words = spell_bytes(table({" é": 1, "z": 2}))
    assert [words.letters[piece] for piece in words.pieces] == ["Ġ", "Ã", "©", "z"]
    assert words.starts.tolist() == [0, 3, 4] and words.counts.tolist() == [1, 2]
    assert words.letters == sorted(pre_tokenizers.ByteLevel.alphabet())


def test_rare_pairs_are_not_merged() -> None:
    counts = table({"ab": 1, "cd": 2})
    assert learn(counts, size=300).merges == (("c", "d"),)
    assert learn(counts, size=300, min_frequency=1).merges == (("c", "d"), ("a", "b"))


def test_a_special_token_written_out_often_is_not_learnt() -> None:
    text = "<mask> <s>x</s> <pad>" * 50
    vocabulary = learn(count_by(Gpt2Words(), pa.array([text], pa.large_string())), size=400)
    assert {"mask", "pad", "</"} <= {*vocabulary.tokens}
    assert not {left + right for left, right in vocabulary.merges} & {*SPECIAL_TOKENS.values()}


def test_no_words_are_refused() -> None:
    with pytest.raises(InputError, match="no words"):
        learn(COUNTS.empty_table(), size=300)
