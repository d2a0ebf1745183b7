"""Folders that someone made to do harm, or damaged: read, or refused in one paragraph that names them."""

import base64
import copy
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from encoded_texts import sentences
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from corpora.errors import InputError
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.vocabularies.files import MAX_GROWTH, compute_max_growth, read_folder_files
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.vocabularies.vocabulary import (
    Vocabulary,
    build_albert_vocabulary,
    build_bert_vocabulary,
    build_roberta_vocabulary,
    load_vocabulary,
)

BERT = build_bert_vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "hello", "."))
ALBERT = build_albert_vocabulary([("\u2581", -2.0), ("a", -3.5), ("\u2581a", -1.2)])
BYTES = build_roberta_vocabulary(("<s>", "<pad>", "</s>", "<unk>", *BYTE_LETTERS, "ab", "<mask>"), (("a", "b"),))
DEFINITION = json.loads(BERT.definition)
REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**40, 2**70, 1.5, -1e300, "", "a", "x" * 2000, [], {}, [[]], [["a"]], [["a", 1, 2]],
    {"a": 1}, {"type": "Nope"}, [None], "\ud800", {"type": "Sequence"}, ["a", "b"], "[PAD]",
)  # fmt: skip


def encoded(vocabulary: Vocabulary, *texts: str) -> list[int]:
    ids: list[int] = Encoder(vocabulary).encode_sentences(*sentences(texts)).ids.tolist()
    return ids


def with_model(**values: Any) -> bytes:
    return json.dumps({**DEFINITION, "model": {**DEFINITION["model"], **values}}).encode()


def with_part(part: str, value: Any) -> bytes:
    return json.dumps({**DEFINITION, part: value}).encode()


def charsmap(longest: int) -> str:
    """A precompiled map whose trie is empty and one of whose texts is so long."""
    trie = bytes(1024)
    return base64.b64encode(len(trie).to_bytes(4, "little") + trie + b"x" * longest + b"\0").decode()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tokenizer.json": b"[" * 100_000}, "its tokenizer.json cannot be read: maximum recursion"),
        ({"tokenizer.json": b"{}", "tokenizer_config.json": b'{"a":' * 100_000}, "_config.json cannot be read"),
        ({"tokenizer.json": with_model(vocab={"[UNK]": 0, "a": 2**31})}, "'a' has the id 2147483648, and of 7 tokens"),
        ({"tokenizer.json": with_model(vocab={"[UNK]": 0, "a": 2**40})}, "'a' has the id 1099511627776"),
        ({"tokenizer.json": with_model(vocab={"[UNK]": 0, "a": True})}, "'a' has the id True"),
        ({"vocab.json": b'{"a": 1099511627776}', "merges.txt": b""}, "'a' has the id 1099511627776"),
        ({"tokenizer.json": with_model(vocab={"[UNK]": 0, "a": 1, "b": 1})}, "two tokens have the id 1"),
        ({"tokenizer.json": with_model(vocab={"[UNK]": 1, "a": 2})}, "no token has the id 0"),
        ({"tokenizer.json": with_model(type="BPE", vocab={"a": 0, "b": 1}, merges=["a b"])}, "tokenizers cannot read"),
        ({"tokenizer.json": with_model(type="BPE", vocab={"a": 0, "ab": 1}, merges=["a a", "ab ab"])}, "cannot read"),
        ({"tokenizer.json": with_part("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"})}, "can"),
        ({"tokenizer.json": with_part("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(("}})}, "cannot read"),
        (
            {"tokenizer.json": with_part("normalizer", {"type": "Sequence", "normalizers": [REPLACE] * 40})},
            "can make a text 1099511627776 times as long",
        ),
        ({"vocab.txt": b"a", "added_tokens.json": b'{"z": "x"}'}, r"lacks \[PAD\]"),
        (
            {"vocab.json": json.dumps({"a": 0}).encode(), "merges.txt": b"", "added_tokens.json": b'{"z": null}'},
            "added_tokens.json gives 'z' the id None",
        ),
    ],
)  # fmt: skip
def test_a_folder_that_would_do_harm_is_refused(files: dict[str, bytes], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Vocabulary.from_files(files, origin="brought/folder")
    assert str(caught.value).startswith("brought/folder") and "\n" not in str(caught.value)


def test_scores_that_are_no_logarithms_are_refused() -> None:
    for score, message in ((-1e300, r"is -1e\+300, and scores are"), ("NaN", "tokenizers cannot read")):
        content = json.loads(ALBERT.definition)
        content["model"]["vocab"][6][1] = score
        with pytest.raises(InputError, match=message):
            Vocabulary.from_files({"tokenizer.json": json.dumps(content).replace('"NaN"', "NaN").encode()})


def test_how_much_a_text_may_grow() -> None:
    """Fails if a published normalizer comes near the bound."""
    albert = json.loads(ALBERT.definition)["normalizer"]["normalizers"]
    published = [*albert, {"type": "Precompiled", "precompiled_charsmap": charsmap(18)}]
    published.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    assert compute_max_growth({"type": "Sequence", "normalizers": published}) == 36 < MAX_GROWTH
    assert compute_max_growth(DEFINITION["normalizer"]) == 3
    assert compute_max_growth({"type": "Precompiled", "precompiled_charsmap": charsmap(5000)}) == 5000
    assert compute_max_growth({"type": "Prepend", "prepend": "x" * 200}) == 200
    assert compute_max_growth({"type": "Replace", "pattern": {"String": ""}, "content": "xx"}) == 3
    assert compute_max_growth(None) == 1


def test_a_file_larger_than_any_tokenizers_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate((1 << 26) + 1)
    with pytest.raises(InputError, match=r"tokenizer\.json has more than 64 MiB"):
        load_vocabulary(tmp_path)


def test_links_are_followed_and_devices_are_not_read(tmp_path: Path) -> None:
    """The folders of Hugging Face's cache are links."""
    (tmp_path / "blob").write_text(BERT.definition, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/tokenizer.json").symlink_to(tmp_path / "blob")
    (tmp_path / "folder/vocab.txt").symlink_to("/dev/zero")
    (tmp_path / "folder/merges.txt").symlink_to("/nowhere")
    assert read_folder_files(tmp_path / "folder") == {"tokenizer.json": BERT.definition.encode()}


def test_nothing_in_a_folder_is_run(tmp_path: Path) -> None:
    config = {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}, "tokenizer_class": "Evil"}
    for name, text in (
        ("tokenizer.json", BERT.definition),
        ("tokenizer_config.json", json.dumps(config)),
        ("evil.py", "raise SystemExit"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = load_vocabulary(tmp_path)
    assert encoded(found, "ab hello") == [5, 6, 7]
    assert "evil.py" not in found.to_files()


def test_a_regular_expression_that_never_ends_is_given_up(capfd: pytest.CaptureFixture[str]) -> None:
    """tokenizers panics after ten million steps: an InputError, and no traceback of Rust's as an exception."""
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    found = Vocabulary.from_files({"tokenizer.json": tokenizer.to_str().encode()})
    with pytest.raises(InputError, match=r"A text cannot be encoded by this vocabulary's tokenizer .*retry-limit"):
        encoded(found, "a" * 40 + "b")
    capfd.readouterr()


def _places(content: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(content, dict | list):
        keys = content if isinstance(content, dict) else range(min(8, len(content)))
        for key in keys:
            yield from _places(content[key], (*place, key))


def _changed(content: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    content = copy.copy(content)
    content[place[0]] = _changed(content[place[0]], place[1:], value)
    return content


def _damaged(draw: Random, name: str, data: bytes) -> bytes:
    """A file with a value of another type or size, with other bytes, or without some."""
    if name.endswith(".json") and draw.random() < 0.7:
        content = json.loads(data)
        content = _changed(content, draw.choice([*_places(content)]), draw.choice(VALUES))
        return json.dumps(content).encode("utf-8", "surrogatepass")
    start, end = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
    return data[:start] + draw.choice((b"", b"\xff", b"[", b"\n\n", b"9" * 30)) + data[end:]


def test_damaged_folders_are_read_or_refused(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """No other exception, and no panic; what is read is read back equal, and encodes."""
    caplog.set_level(logging.ERROR)
    outcomes = {"read": 0, "refused": 0}
    for number in range(300):
        draw = Random(number)
        files = dict(draw.choice((ALBERT, BERT, BYTES)).to_files())
        if draw.random() < 0.4:
            del files["tokenizer.json"]
        name = draw.choice(sorted(files))
        files[name] = _damaged(draw, name, files[name])
        try:
            found = Vocabulary.from_files(files, origin="here")
            assert Vocabulary.from_files(found.to_files()) == found, number
            encoded(found, "a ab hello. <pad> \u00e9", "[MASK]")
            outcomes["read"] += 1
        except InputError as error:
            assert str(error).startswith("here") or "cannot be encoded" in str(error), number
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 60, outcomes
    capfd.readouterr()
