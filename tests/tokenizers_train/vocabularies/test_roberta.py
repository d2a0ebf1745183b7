"""RoBERTa's folder: what other tools open, and what is read of theirs."""

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from corpora.errors import InputError
from corpora.store.checked_folder import COMPLETE_FILE
from tokenizers_train.learning.byte_bpe import train_byte_bpe
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS, format_token
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_roberta_vocabulary, load_vocabulary
from tokenizers_train.words.counts import count_words
from tokenizers_train.words.gpt2 import Gpt2Words

TEXT = "Hello hello, the cat sat on the mat: the cat's hat, naïve “café” and 中文 中文.\n" * 3
WORDS = train_byte_bpe(
    count_words(Gpt2Words(), pa.array([TEXT], pa.large_string())), VocabularySettings(algorithm="byte-bpe", size=320)
)


def test_saved_and_loaded_is_equal(tmp_path: Path) -> None:
    WORDS.save(tmp_path)
    assert load_vocabulary(tmp_path) == WORDS
    assert Vocabulary.from_files(WORDS.to_files()) == WORDS
    assert pickle.loads(pickle.dumps(WORDS)).find_id("Ġthe") == WORDS.find_id("Ġthe")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=f"it is gone.* remove {tmp_path / COMPLETE_FILE}"):
        load_vocabulary(tmp_path)
    (tmp_path / COMPLETE_FILE).unlink()
    assert load_vocabulary(tmp_path) == WORDS, "vocab.json and merges.txt alone tell another vocabulary"


def test_files_are_the_same_bytes_for_equal_vocabularies() -> None:
    files = WORDS.to_files()
    assert files == Vocabulary.from_files(files).to_files()
    assert sorted(files) == [
        "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.json",
    ]  # fmt: skip
    assert json.loads(files["vocab.json"]) == {token: number for number, token in enumerate(WORDS.tokens)}
    assert files["merges.txt"].decode().split("\n")[1] == " ".join(WORDS.merges[0])


def test_transformers_opens_the_folder_as_roberta(tmp_path: Path, transformers: Any) -> None:
    WORDS.save(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(tokenizer).__name__ == "RobertaTokenizer"
    assert tokenizer.convert_ids_to_tokens(tokenizer("the cat")["input_ids"]) == ["<s>", "the", "Ġcat", "</s>"]
    pair = tokenizer("the <mask> cat", "the")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(pair) == ["<s>", "the", "<mask>", "Ġcat", "</s>", "</s>", "the", "</s>"]
    assert tokenizer.decode(tokenizer(TEXT, add_special_tokens=False)["input_ids"]) == TEXT
    for role, number in WORDS.special_ids.items():
        assert getattr(tokenizer, f"{role}_token_id") == number
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<s>", "</s>")


def test_a_folder_that_transformers_saved_is_read(tmp_path: Path, transformers: Any) -> None:
    WORDS.save(tmp_path / "ours")
    transformers.AutoTokenizer.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    found = load_vocabulary(tmp_path / "theirs")
    assert (found.tokens, found.merges) == (WORDS.tokens, WORDS.merges)
    assert (found.special_tokens, found.word_rule) == (WORDS.special_tokens, WORDS.word_rule)


def test_tokens_and_merges_of_different_vocabularies_are_refused() -> None:
    with pytest.raises(InputError, match="the merge of 'x' and 'y' is of tokens that the vocabulary lacks"):
        build_roberta_vocabulary(WORDS.tokens, (*WORDS.merges, ("x", "y")))


def test_letters_of_bytes_are_those_of_the_reference() -> None:
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for byte in range(0x80):
        assert whole.pre_tokenize_str(chr(byte))[0][0] == BYTE_LETTERS[byte]
    for code in range(0x80, 0x800):  # every first and following byte up to two bytes a character
        [(letters, _)] = whole.pre_tokenize_str(chr(code))
        assert letters == "".join(BYTE_LETTERS[byte] for byte in chr(code).encode())
    assert sorted(BYTE_LETTERS) == sorted(pre_tokenizers.ByteLevel.alphabet())


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=" \u2423")))
def test_a_token_is_shown_as_its_text(text: str) -> None:
    assert format_token("".join(BYTE_LETTERS[byte] for byte in text.encode())) == text


def test_tokens_as_people_read_them() -> None:
    def shown(text: bytes) -> tuple[str, bool]:
        number = WORDS.find_id("".join(BYTE_LETTERS[byte] for byte in text))
        return WORDS.format_token(number), WORDS.is_word_start(number)

    assert shown(b" the") == ("\u2423the", True)
    assert shown(b"at") == ("at", False)
    assert shown(b"\n") == ("\u240a", False)
    assert shown(" naïve".encode()) == ("\u2423naïve", True)
    assert shown(b"\xc3") == ("\\xc3", False)
    assert shown(b"<mask>") == ("<mask>", False)
    assert format_token("中") == "中"  # no letter of a byte: an entry that someone added
