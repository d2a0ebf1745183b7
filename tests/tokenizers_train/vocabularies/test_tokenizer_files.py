"""Vocabularies that others made: every folder is read as tokenizers reads it, or refused with a word on why."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from encoded_texts import defined
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from corpora.errors import InputError
from tokenizers_train.encoding.encoder import ReferenceEngine, build_engine
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.vocabularies.vocabulary import (
    Vocabulary,
    build_bert_vocabulary,
    build_roberta_vocabulary,
    load_vocabulary,
)

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TOKENS = (*SPECIALS, "[unused0]", "a", "b", "é", "##b", "##c", "ab", "hello", ".", "中")
BERT = build_bert_vocabulary(TOKENS)
BYTES = build_roberta_vocabulary(
    ("<s>", "<pad>", "</s>", "<unk>", *BYTE_LETTERS, "ab", "Ġab", "<mask>"), (("a", "b"), ("Ġ", "ab"))
)
TEXTS = ["Hello, ab abbc É\u0301 中ab", "", "  A.b\tabab [MASK] <mask>", "ab hello", "x\u200bab"]


def assert_encodes_as_the_reference(vocabulary: Vocabulary) -> None:
    found = defined(vocabulary, TEXTS)
    tokenizer = Tokenizer.from_str(vocabulary.to_files()["tokenizer.json"].decode())
    tokenizer.encode_special_tokens = True
    assert found.ids.tolist() == [i for text in TEXTS for i in tokenizer.encode(text, add_special_tokens=False).ids]


def knows(vocabulary: Vocabulary) -> bool:
    """True if a kernel encodes it."""
    return not isinstance(build_engine(vocabulary), ReferenceEngine)


def changed(vocabulary: Vocabulary, part: str, **values: object) -> dict[str, bytes]:
    """A tokenizer.json with one part changed."""
    content = json.loads(vocabulary.to_files()["tokenizer.json"])
    content[part] = {**(content[part] or {}), **values}
    return {"tokenizer.json": json.dumps(content).encode()}


def test_a_vocab_txt_alone_is_bert(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(TOKENS), encoding="utf-8", newline="\n")
    found = load_vocabulary(path)
    assert (found.tokens, found.special_tokens, found.lowercase) == (TOKENS, BERT.special_tokens, True)
    assert knows(found)
    assert_encodes_as_the_reference(found)
    assert not load_vocabulary(path, lowercase=False).lowercase
    path.write_bytes("\r\n".join((*TOKENS, "A", "")).encode())
    assert load_vocabulary(path).tokens == (*TOKENS, "A"), "line ends of Windows became part of tokens"
    assert not load_vocabulary(path).lowercase, "a token with a capital letter is out of an uncased model's reach"


def test_what_was_read_is_a_folder_that_transformers_opens(tmp_path: Path, transformers: Any) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS), encoding="utf-8")
    found = load_vocabulary(tmp_path / "vocab.txt")
    found.save(tmp_path / "folder")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert type(tokenizer).__name__ == "BertTokenizer"
    assert tokenizer("Hello", "ab")["input_ids"] == [2, 12, 3, 11, 3]
    assert tokenizer.mask_token_id == 4


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"do_lower_case": False}, "A"),
        ({"do_lower_case": True, "strip_accents": False}, "É"),
        ({"do_lower_case": True, "tokenize_chinese_chars": False}, "中ab"),
    ],
)
def test_the_configuration_beside_a_vocab_txt_counts(config: dict[str, object], text: str) -> None:
    lines = "\n".join(TOKENS).encode()
    files = {"vocab.txt": lines, "tokenizer_config.json": json.dumps(config).encode()}
    found = Vocabulary.from_files(files)
    plain = Vocabulary.from_files({"vocab.txt": lines})
    ids = [v.to_tokenizer().encode(text, add_special_tokens=False).ids for v in (found, plain)]
    assert ids[0] != ids[1], f"{config} was not read"
    assert knows(found)
    assert_encodes_as_the_reference(found)


def test_special_tokens_are_named_by_the_configuration() -> None:
    tokens = ("<p>", "<u>", "<c>", "<e>", "<m>", *TOKENS[5:])
    roles = dict(zip(("pad", "unk", "cls", "sep", "mask"), tokens, strict=False))
    config = {f"{role}_token": token for role, token in roles.items()}
    config["mask_token"] = {"content": "<m>", "lstrip": False}  # type: ignore[assignment]
    files = {"vocab.txt": "\n".join(tokens).encode(), "special_tokens_map.json": json.dumps(config).encode()}
    found = Vocabulary.from_files(files)
    assert dict(found.special_tokens) == roles
    assert found.special_ids == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert_encodes_as_the_reference(found)
    del files["special_tokens_map.json"]
    with pytest.raises(InputError, match=r"lacks \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\], which vocab.txt"):
        Vocabulary.from_files(files)


def test_gpt2_has_not_what_a_masked_model_needs(shared: Path) -> None:
    gold = shared / "data/gold/vocab"
    files = {
        "vocab.json": (gold / "gpt2-encoder.json").read_bytes(),
        "merges.txt": (gold / "gpt2-vocab.bpe").read_bytes(),
    }
    found = Vocabulary.from_files(files)
    assert found.size == 50257 and knows(found)
    assert_encodes_as_the_reference(found)
    with pytest.raises(InputError, match=r"here has no pad or unk or cls or sep or mask token"):
        found.check_roles("here")


def word_level() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate(TOKENS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def with_added_tokens() -> Tokenizer:
    tokenizer = BERT.to_tokenizer()
    tokenizer.add_tokens(["ab hello", AddedToken("bb", single_word=True)])
    return tokenizer


def byte_fallback() -> Tokenizer:
    vocabulary = {
        token: i for i, token in enumerate((*SPECIALS, *(f"<0x{b:02X}>" for b in range(256)), "▁a", "a", "▁"))
    }
    tokenizer = Tokenizer(models.BPE(vocabulary, [("▁", "a")], byte_fallback=True, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def bert_with_more_rules() -> Tokenizer:
    tokenizer = BERT.to_tokenizer()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.BertNormalizer()])
    return tokenizer


@pytest.mark.parametrize("make", [word_level, with_added_tokens, byte_fallback, bert_with_more_rules])
def test_a_tokenizer_that_no_kernel_knows_is_left_to_the_reference(
    make: Callable[[], Tokenizer], caplog: pytest.LogCaptureFixture
) -> None:
    found = Vocabulary.from_files({"tokenizer.json": make().to_str().encode()})
    with caplog.at_level(logging.WARNING):
        assert not knows(found)
    assert "rules that the kernels do not know" in caplog.text
    assert_encodes_as_the_reference(found)
    assert [found.is_word_start(number) for number in range(found.size)].count(True) > 0


@pytest.mark.parametrize(
    ("vocabulary", "part", "values", "known"),
    [
        (BERT, "normalizer", {"handle_chinese_chars": False}, True),
        (BERT, "normalizer", {"strip_accents": True, "lowercase": False}, True),
        (BERT, "normalizer", {"clean_text": False}, True),
        (BERT, "pre_tokenizer", {"type": "Whitespace"}, False),
        (BERT, "model", {"continuing_subword_prefix": "@@"}, True),
        (BERT, "model", {"max_input_chars_per_word": 2}, True),
        (BYTES, "normalizer", {"type": "Lowercase"}, False),
        (BYTES, "pre_tokenizer", {"add_prefix_space": True}, True),
        (BYTES, "pre_tokenizer", {"use_regex": False}, False),
        (BYTES, "model", {"ignore_merges": True}, False),
        (BYTES, "model", {"end_of_word_suffix": "</w>"}, False),
    ],
)
def test_every_rule_of_a_tokenizer_counts(
    vocabulary: Vocabulary, part: str, values: dict[str, object], known: bool
) -> None:
    found = Vocabulary.from_files(changed(vocabulary, part, **values))
    assert knows(found) is known
    assert_encodes_as_the_reference(found)


def test_a_file_of_an_older_version_is_read() -> None:
    content = json.loads(BYTES.to_files()["tokenizer.json"])
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    for part, name in (("model", "type"), ("model", "ignore_merges"), ("pre_tokenizer", "use_regex")):
        del content[part][name]
    found = Vocabulary.from_files({"tokenizer.json": json.dumps(content).encode()})
    assert (found.tokens, found.merges) == (BYTES.tokens, BYTES.merges) and knows(found)
    assert_encodes_as_the_reference(found)


def test_truncation_and_padding_of_a_file_cut_no_document() -> None:
    tokenizer = BERT.to_tokenizer()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding()
    found = Vocabulary.from_files({"tokenizer.json": tokenizer.to_str().encode()})
    assert len(found.to_tokenizer().encode("ab " * 10, add_special_tokens=False).ids) == 10


def test_further_special_tokens_are_kept() -> None:
    vocabulary = build_bert_vocabulary((*SPECIALS, "[E1]", *TOKENS[5:]), additional=("[E1]",))
    assert vocabulary.additional_special_tokens == ("[E1]",)
    assert vocabulary.special_ids["[E1]"] == 5
    assert Vocabulary.from_files(vocabulary.to_files()) == vocabulary
    assert knows(vocabulary)
    assert_encodes_as_the_reference(vocabulary)


def test_added_tokens_of_an_older_folder() -> None:
    files = {"vocab.txt": "\n".join(TOKENS).encode(), "added_tokens.json": json.dumps({"<e>": len(TOKENS)}).encode()}
    found = Vocabulary.from_files(files)
    assert found.tokens == (*TOKENS, "<e>") and not knows(found)
    assert_encodes_as_the_reference(found)
    files["added_tokens.json"] = json.dumps({"<e>": 99}).encode()
    with pytest.raises(InputError, match="gives '<e>' the id 99"):
        Vocabulary.from_files(files)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


LINES = "\n".join(TOKENS).encode()


def unigram(pieces: list[tuple[str, float]], unknown: int | None) -> bytes:
    """The tokenizer.json of a Unigram model."""
    content = json.loads(Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0)).to_str())
    content["model"] |= {"vocab": pieces, "unk_id": unknown}
    return _json(content)


DEFINITION = BERT.to_files()["tokenizer.json"]
IDS = {token: number for number, token in enumerate(BYTES.tokens)}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no tokenizer.json, nor a vocab.txt"),
        ({"spiece.model": b"\x0a"}, "has a spiece.model and no tokenizer.json"),
        ({"tokenizer.json": b"{"}, "its tokenizer.json cannot be read"),
        ({"tokenizer.json": b"[]"}, "tokenizers cannot read its tokenizer.json"),
        ({"tokenizer.json": b'{"model": {}}'}, "was written by another version"),
        ({"tokenizer.json": b"\xff"}, "its tokenizer.json cannot be read"),
        ({"tokenizer.json": DEFINITION.replace(b'"WordPiece"', b'"PieceWord"')}, "written by another version"),
        ({"tokenizer.json": DEFINITION.replace(b'"ab":', b'"a":')}, "'a' occurs twice in it"),
        (changed(BERT, "model", vocab={**{t: i for i, t in enumerate(TOKENS)}, "zz": 99}), "without a gap"),
        (changed(BYTES, "model", dropout=0.1), "drops merges at random"),
        ({"tokenizer.json": unigram([("<unk>", 0.0), ("a", -1.0)], None)}, "names no token for what no piece covers"),
        ({"tokenizer.json": unigram([("<unk>", 0.0), ("a", -1.0), ("a", -2.0)], 0)}, "'a' occurs twice"),
        (changed(BYTES, "model", merges=["a b c"]), "tokenizers cannot read"),
        ({"vocab.txt": LINES + b"\nab"}, "the token 'ab' occurs twice in vocab.txt, line 16"),
        ({"vocab.txt": LINES.replace(b"\nab", b"\n")}, "a line is empty in vocab.txt, line 12"),
        ({"vocab.txt": LINES.replace(b"[MASK]", b"[MSK]")}, r"lacks \[MASK\], which vocab.txt calls for"),
        ({"vocab.txt": LINES + b"\n\xff"}, "its vocab.txt is not UTF-8"),
        ({"vocab.txt": LINES, "tokenizer_config.json": b"{"}, "its tokenizer_config.json cannot be read"),
        ({"vocab.txt": LINES, "tokenizer_config.json": b"[]"}, "tokenizer_config.json is not a JSON object"),
        ({"vocab.txt": LINES, "tokenizer_config.json": _json({"cls_token": "<c>"})}, "lacks <c>"),
        ({"tokenizer.json": DEFINITION, "vocab.txt": LINES.replace(b"hello", b"hullo")}, "its vocab.txt and its token"),
        ({"tokenizer.json": DEFINITION, "special_tokens_map.json": _json({"cls_token": "<c>"})}, "lacks <c>"),
        ({**BYTES.to_files(), "merges.txt": b"#version: 0.2\na b\n"}, "its merges.txt and its tokenizer.json"),
        ({**BYTES.to_files(), "vocab.json": _json({**IDS, "ab": 1})}, "its vocab.json and its tokenizer.json"),
        ({"vocab.json": _json(IDS), "merges.txt": b"a b\nx y\n"}, "the merge of 'x' and 'y' is of tokens"),
        ({"vocab.json": _json(IDS), "merges.txt": b"a b c\n"}, "a merge joins two pieces"),
        ({"vocab.json": _json([]), "merges.txt": b""}, "its vocab.json is not a table of tokens"),
        ({"vocab.json": _json({"a": "0"}), "merges.txt": b""}, "the token 'a' has the id '0'"),
        ({"vocab.json": b'{"a": 0, "a": 1}', "merges.txt": b""}, "'a' occurs twice"),
        ({"vocab.json": _json(IDS)}, "has vocab.json without its merges.txt: a tokenizer is read from"),
    ],
)
def test_bad_files_are_refused_with_a_word(files: dict[str, bytes], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Vocabulary.from_files(files, origin="brought/folder")
    said = str(caught.value)
    assert "brought/folder" in said or any(word in said for word in ("A merge joins", "gap", "twice"))


def test_merges_with_the_line_ends_of_windows() -> None:
    merges = "#version: 0.2\r\na b\r\nĠ ab\r\n".encode()
    assert Vocabulary.from_files({"vocab.json": _json(IDS), "merges.txt": merges}).merges == BYTES.merges


def test_a_post_processor_has_no_part_in_the_ids_of_a_sentence() -> None:
    tokenizer = BYTES.to_tokenizer()
    tokenizer.post_processor = processors.ByteLevel()
    found = Vocabulary.from_files({"tokenizer.json": tokenizer.to_str().encode()})
    assert knows(found)
    assert_encodes_as_the_reference(found)


def test_a_tokenizer_that_frames_no_text_is_made_to() -> None:
    tokenizer = BERT.to_tokenizer()
    assert BERT.with_template() is BERT
    tokenizer.post_processor = processors.ByteLevel()
    found = Vocabulary.from_files({"tokenizer.json": tokenizer.to_str().encode()})
    assert found.to_tokenizer().encode("ab").ids == [11]
    pair = found.with_template().to_tokenizer().encode("ab", "a")
    assert (pair.ids, pair.type_ids) == ([2, 11, 3, 6, 3], [0, 0, 0, 1, 1])
