"""WordPiece training: equal to the reference, token for token."""

from pathlib import Path

import pyarrow as pa
import pytest
from text_columns import table
from tokenizers import Tokenizer, models, trainers

from corpora.errors import InputError
from tokenizers_train.learning.wordpiece import spell, train_wordpiece
from tokenizers_train.vocabularies.bert import SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.words.bert import BertWords, bert_pre_tokenizer
from tokenizers_train.words.counts import count_by
from tokenizers_train.words.table import COUNTS

SPECIALS = [*SPECIAL_TOKENS.values()]


def reference(texts: list[str], size: int, special_tokens: list[str], min_frequency: int) -> list[str]:
    """The tokens of Hugging Face's trainer in the order of their ids."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertWords(lowercase=True).normalizer, bert_pre_tokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=min_frequency, show_progress=False, special_tokens=special_tokens
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def test_a_vocabulary_made_by_hand() -> None:
    # ##u ##g is in hug, pug, hugs: 20; ##u ##n in pun, bun: 16; then h ##ug in hug, hugs: 15.
    counts = table({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
    vocabulary = train_wordpiece(counts, VocabularySettings(size=20, unused=1))
    letters = ["b", "g", "h", "n", "p", "s", "u", "##g", "##n", "##s", "##u"]
    assert vocabulary.tokens == (*SPECIALS, "[unused0]", *letters, "##ug", "##un", "hug")


def test_ties_go_to_the_smaller_ids() -> None:
    vocabulary = train_wordpiece(table({"ba": 3, "ab": 3, "cd": 3}), VocabularySettings(size=14))  # "cd" is cut
    assert vocabulary.tokens[-3:] == ("##d", "ab", "ba")


def test_equals_the_reference_token_for_token() -> None:
    # The reference's ties follow its letters' ids, so it is given the letters in our order.
    texts = [f"Words {i % 13}th wordy swords' unwordly, sworn {i % 7} worlds of thorns" for i in range(50)]
    texts += [f"abab{'ab' * (i % 5)} aaa{'a' * (i % 6)} naïve thing{i % 9}s" for i in range(60)]
    counts = count_by(BertWords(lowercase=True), pa.array(texts, pa.large_string()))
    letters = spell(counts, 1000).letters
    ours = train_wordpiece(counts, VocabularySettings(size=160, min_frequency=3)).tokens
    assert list(ours) == reference(texts, 160, SPECIALS + letters, 3)
    assert len(ours) > len(SPECIALS) + len(letters) + 40, "hardly a merge was compared"


def test_equals_the_reference_on_a_book(shared: Path) -> None:
    book = (shared / "data/books/txt/alice-s-adventures-in-wonderland_11.txt").read_text(encoding="utf-8")
    texts = book.split("\n\n")
    counts = count_by(BertWords(lowercase=True), pa.array(texts, pa.large_string()))
    ours = train_wordpiece(counts, VocabularySettings(size=3000))
    assert list(ours.tokens) == reference(texts, 3000, SPECIALS + spell(counts, 1000).letters, 2)
    # As it comes, with the order of its letters left to its hash map, it agrees up to ties at the cut.
    theirs = reference(texts, 3000, SPECIALS, 2)
    assert len(theirs) == ours.size == 3000
    assert len(set(ours.tokens) ^ set(theirs)) <= 150  # from run to run 12 to 38 were seen


def test_the_alphabet_keeps_the_most_frequent_letters() -> None:
    counts = table({"zab": 5, "ba": 2, "cc": 1})  # a: 7, b: 7, z: 5, c: 2
    vocabulary = train_wordpiece(counts, VocabularySettings(size=30, limit_alphabet=2, min_frequency=1))
    assert vocabulary.tokens == (*SPECIALS, "a", "b", "##a", "##b", "##ab", "ba")  # z is skipped: ##a ##b stay
    assert spell(table({"d": 2, "c": 2, "b": 1}), 1).letters == ["c"]  # of equals the smaller code point


def test_rare_pairs_are_not_merged() -> None:
    counts = table({"ab": 1, "cd": 2})
    assert train_wordpiece(counts, VocabularySettings(size=50, min_frequency=2)).tokens[-1] == "cd"
    assert "ab" in train_wordpiece(counts, VocabularySettings(size=50, min_frequency=1))


def test_a_size_smaller_than_the_letters_is_refused() -> None:
    with pytest.raises(InputError, match=r"raise vocabulary\.size to 11"):
        train_wordpiece(table({"abc": 1}), VocabularySettings(size=10, unused=1))


def test_no_words_are_refused() -> None:
    with pytest.raises(InputError, match="no words"):
        train_wordpiece(COUNTS.empty_table(), VocabularySettings())
