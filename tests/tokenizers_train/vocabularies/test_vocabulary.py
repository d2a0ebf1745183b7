"""Vocabularies: settings that check themselves, and a folder that other tools open."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from corpora.errors import InputError
from corpora.store.settings import bind_settings, to_settings_json
from tokenizers_train.vocabularies.bert import SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_bert_vocabulary, load_vocabulary

SPECIALS = (*SPECIAL_TOKENS.values(),)
TOKENS = (*SPECIALS, "[unused0]", "a", "b", "é", "##b", "##c", "ab", "hello")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"algorithm": "words"}, "must be one of 'wordpiece', 'byte-bpe', 'unigram'"),
        ({"size": 5}, "vocabulary.size is 5"),
        ({"size": 1000, "unused": 995}, "1000 of them are special or unused"),
        ({"min_frequency": 0}, "vocabulary.min_frequency is 0"),
        ({"limit_alphabet": 0}, "vocabulary.limit_alphabet is 0"),
        ({"unused": -1}, "vocabulary.unused is -1"),
        ({"max_word_length": 0}, "vocabulary.max_word_length is 0"),
        ({"special_tokens": ("[A]", "[A]")}, r"special_tokens names '\[A\]'"),
        ({"special_tokens": ("[MASK]",)}, r"one of the \[PAD\] \[UNK\]"),
        ({"special_tokens": (" ",)}, "special_tokens names ' ', which is empty"),
        ({"special_tokens": ("person",)}, "which a text could hold as a word"),
        ({"special_tokens": ("[unused0]",), "unused": 5}, "one of the unused tokens"),
        ({"symbols": ("$",)}, "unigram alone has it"),
        ({"character_coverage": 0.4}, "character_coverage is 0.4"),
        ({"algorithm": "unigram", "symbols": ("ab",)}, "a symbol is a single character"),
        ({"algorithm": "unigram", "unused": 3}, "wordpiece alone has it"),
        ({"algorithm": "unigram", "size": 5}, "vocabulary.size is 5"),
    ],
)
def test_wrong_settings_name_the_key(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        VocabularySettings(**wrong)  # type: ignore[arg-type]


def test_the_fingerprint_of_a_wordpiece_recipe_is_as_it_was() -> None:
    known = {
        "algorithm": "wordpiece",
        "size": 30522,
        "lowercase": True,
        "min_frequency": 2,
        "limit_alphabet": 1000,
        "unused": 0,
        "max_word_length": 100,
    }
    assert to_settings_json(VocabularySettings()) == to_settings_json(VocabularySettings(lowercase=True)) == known
    assert to_settings_json(VocabularySettings(lowercase=False)) == {**known, "lowercase": False}
    assert VocabularySettings().word_rule.settings == {"lowercase": True}
    assert VocabularySettings(lowercase=False).word_rule.settings == {"lowercase": False}


def test_byte_bpe_keeps_case_by_default() -> None:
    settings = bind_settings(VocabularySettings, {"algorithm": "byte-bpe", "size": 400}, "vocabulary")
    assert settings.lowercase is False
    assert settings == VocabularySettings(algorithm="byte-bpe", size=400, lowercase=False)
    assert settings.word_rule.settings == {"pre_tokenizer": "gpt2"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lowercase": True}, "vocabulary.lowercase is true"),
        ({"limit_alphabet": 300}, "vocabulary.limit_alphabet is 300"),
        ({"unused": 1}, "vocabulary.unused is 1"),
        ({"max_word_length": 20}, "vocabulary.max_word_length is 20"),
        ({"size": 261}, "vocabulary.size is 261, and 261 of them are"),
        ({"min_frequency": 0}, "vocabulary.min_frequency is 0"),
    ],
)
def test_what_byte_bpe_has_not_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        VocabularySettings(**{"algorithm": "byte-bpe", "size": 400, **wrong})  # type: ignore[arg-type]


def test_tokens_and_ids() -> None:
    vocabulary = build_bert_vocabulary(TOKENS)
    assert vocabulary.size == len(TOKENS)
    assert [vocabulary.find_id(token) for token in TOKENS] == list(range(len(TOKENS)))
    assert vocabulary.special_ids == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert "ab" in vocabulary and "zz" not in vocabulary
    with pytest.raises(KeyError):
        vocabulary.find_id("zz")


def test_tokens_as_people_read_them() -> None:
    vocabulary = build_bert_vocabulary(TOKENS)
    shown = {
        token: (vocabulary.format_token(number), vocabulary.is_word_start(number))
        for number, token in enumerate(TOKENS)
    }
    assert (shown["hello"], shown["##b"], shown["[MASK]"]) == (("hello", True), ("##b", False), ("[MASK]", True))
    assert vocabulary.special_tokens == SPECIAL_TOKENS


def test_a_token_twice_or_a_missing_special_is_refused() -> None:
    with pytest.raises(InputError, match="'a' occurs twice"):
        build_bert_vocabulary((*TOKENS, "a"))
    with pytest.raises(InputError, match=r"lacks \[MASK\]"):
        build_bert_vocabulary((*SPECIALS[:-1], "a"))


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("max_word_length", [100, 7])
def test_saved_and_loaded_is_equal(tmp_path: Path, lowercase: bool, max_word_length: int) -> None:
    vocabulary = build_bert_vocabulary(TOKENS, lowercase=lowercase, max_word_length=max_word_length)
    vocabulary.save(tmp_path / "made" / "here")
    assert load_vocabulary(tmp_path / "made" / "here") == vocabulary
    assert Vocabulary.from_files(vocabulary.to_files()) == vocabulary
    assert pickle.loads(pickle.dumps(vocabulary)).find_id("ab") == vocabulary.find_id("ab")


def test_files_are_the_same_bytes_for_equal_vocabularies() -> None:
    files = build_bert_vocabulary(TOKENS).to_files()
    assert files == build_bert_vocabulary((*SPECIALS, *TOKENS[5:])).to_files()
    assert files["vocab.txt"].decode().splitlines() == list(TOKENS)
    assert files != build_bert_vocabulary(TOKENS[::-1]).to_files()


@pytest.mark.parametrize("max_word_length", [100, 7])
def test_transformers_opens_the_folder(tmp_path: Path, transformers: Any, max_word_length: int) -> None:
    build_bert_vocabulary(TOKENS, max_word_length=max_word_length).save(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    if max_word_length == 100:
        assert type(tokenizer).__name__ == "BertTokenizer"
    pair = tokenizer("Hello [MASK]", "ab abbc")
    assert pair["input_ids"] == [2, 12, 4, 3, 11, 11, 9, 10, 3]
    assert pair["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert tokenizer.convert_ids_to_tokens([5]) == ["[unused0]"]
    for role, number in build_bert_vocabulary(TOKENS).special_ids.items():
        assert getattr(tokenizer, f"{role}_token_id") == number
    assert tokenizer("ab" + "b" * 6, add_special_tokens=False)["input_ids"] == (
        [11, *[9] * 6] if max_word_length == 100 else [1]
    )


def test_a_cased_folder_keeps_case_in_transformers(tmp_path: Path, transformers: Any) -> None:
    build_bert_vocabulary((*TOKENS, "A", "e"), lowercase=False).save(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.tokenize("A a é e") == ["A", "a", "é", "e"]


def test_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no tokenizer at .*nowhere: name the folder"):
        load_vocabulary(tmp_path / "nowhere")
