"""ALBERT's folder: what transformers makes of it, and what it saves again."""

import json
from pathlib import Path
from typing import Any

import pytest
from encoded_texts import encoded
from tokenizers import Tokenizer, normalizers

from corpora.errors import InputError
from tokenizers_train.encoding.unigram import UnigramEngine
from tokenizers_train.vocabularies.albert import (
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    build_config,
    build_special_tokens_map,
    build_tokenizer,
    format_token,
    is_word_start,
    with_special_tokens,
)
from tokenizers_train.words.sentencepiece import SentencePieceWords

SCORES = {"▁": -3.1, "▁the": -2.123456789012345, "▁cat": -5.0, "s": -4.7, '"': -0.1, "e": -6.1, "é": -6.2, "t": -6.3}
SCORES |= {"▁The": -4.0, "a": -6.4, "h": -6.5, "T": -6.6, ".": -1e-9, "c": -7.123456789012346, "n": -8.0, "i": -8.1}
PIECES = with_special_tokens(SCORES.items())
RULES = [SentencePieceWords(lowercase=small, strip_accents=bare) for small in (True, False) for bare in (True, False)]
TEXTS = ["The cats' ``Th\xe9'' hat.", "caf\xe9 \ufdfa\xa8the\u2581cat", "", " \u0301", "x\u2603y THE  CAT\ttin"]


def save(folder: Path, words: SentencePieceWords) -> None:
    """The folder that a vocabulary of these pieces is kept in."""
    folder.mkdir()
    (folder / "tokenizer.json").write_text(build_tokenizer(PIECES, words).to_str(pretty=True))
    (folder / "tokenizer_config.json").write_text(json.dumps(build_config(words)))
    (folder / "special_tokens_map.json").write_text(json.dumps(build_special_tokens_map()))


def our_ids(words: SentencePieceWords, texts: list[str]) -> list[list[int]]:
    found = encoded(UnigramEngine(PIECES, UNKNOWN_ID, words), texts)
    return [found.ids[found.offsets[s] : found.offsets[s + 1]].tolist() for s in range(len(texts))]


@pytest.mark.parametrize("words", RULES)
def test_transformers_gives_our_ids_opened_and_saved_and_opened_again(
    tmp_path: Path, transformers: Any, words: SentencePieceWords
) -> None:
    save(tmp_path / "ours", words)
    opened = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    opened.save_pretrained(tmp_path / "theirs")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    alone = Tokenizer.from_file(str(tmp_path / "theirs" / "tokenizer.json"))
    wanted = our_ids(words, TEXTS)
    assert len({number for ids in wanted for number in ids}) > 8, "the texts show little"
    for text, ids in zip(TEXTS, wanted, strict=True):
        assert build_tokenizer(PIECES, words).encode(text, add_special_tokens=False).ids == ids
        assert opened(text, add_special_tokens=False)["input_ids"] == ids
        assert again(text, add_special_tokens=False)["input_ids"] == ids
        assert alone.encode(text, add_special_tokens=False).ids == ids


def test_transformers_opens_the_folder_as_albert(tmp_path: Path, transformers: Any) -> None:
    save(tmp_path / "ours", RULES[0])
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert type(tokenizer).__name__ == "AlbertTokenizer"
    pair = tokenizer("the [MASK] cat", "The")
    assert tokenizer.convert_ids_to_tokens(pair["input_ids"]) == [
        "[CLS]", "▁the", "[MASK]", "▁cat", "[SEP]", "▁the", "[SEP]",
    ]  # fmt: skip
    assert pair["token_type_ids"] == [0, 0, 0, 0, 0, 1, 1]
    assert tokenizer("cat")["input_ids"] == [2, PIECES.index(("▁cat", -5.0)), 3]
    for number, (role, token) in enumerate(SPECIAL_TOKENS.items()):
        assert (getattr(tokenizer, f"{role}_token_id"), tokenizer.convert_tokens_to_ids(token)) == (number, number)
    assert (tokenizer.bos_token, tokenizer.eos_token, len(tokenizer)) == ("[CLS]", "[SEP]", len(PIECES))
    assert tokenizer.decode(tokenizer("The cats")["input_ids"], skip_special_tokens=True) == "the cats"


def test_special_tokens_stand_first() -> None:
    with pytest.raises(InputError, match=r"first tokens of the vocabulary are ▁ .* begins with <pad> <unk> \[CLS\]"):
        build_tokenizer([*SCORES.items()], RULES[0])


def test_tokens_as_people_read_them() -> None:
    assert (format_token("▁cat"), is_word_start("▁cat"), is_word_start("s"), is_word_start("[CLS]")) == (
        "▁cat",
        True,
        False,
        False,
    )


def test_the_normaliser_is_the_one_of_transformers(transformers: Any) -> None:
    theirs = transformers.AlbertTokenizer().backend_tokenizer
    ours = build_tokenizer(PIECES, RULES[0])
    assert isinstance(ours.normalizer, normalizers.Sequence)
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        assert json.loads(ours.to_str())[part] == json.loads(theirs.to_str())[part]
