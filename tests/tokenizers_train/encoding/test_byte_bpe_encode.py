"""Byte-level BPE encoding: the ids and the beginnings of words that the reference gives, whatever the text."""
# ruff: noqa: RUF001 - typographic marks are the subject here

import json
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from encoded_texts import assert_equal, by_tokenizers, encoded
from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples
from tokenizers import Tokenizer, models, trainers

from corpora.errors import InputError
from tokenizers_train.encoding.byte_bpe import ByteBpeEngine, build_merge_table, merge_pieces_plain
from tokenizers_train.encoding.byte_bpe_kernels import MAX_SCAN_BYTES
from tokenizers_train.encoding.encoded import EncodedSentences
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS, parse_merges_text
from tokenizers_train.words.gpt2 import Gpt2Words, build_gpt2_pre_tokenizer

Merges = list[tuple[str, str]]
BYTES = {letter: number for number, letter in enumerate(sorted(BYTE_LETTERS))}

ODD = 6 * "'" + "streveLlmdSadnoi" + 8 * " " + "01.-\n\n\t\r\x0b\x1c\x85\xa0\u2009\u3000Éé\u0301²½中Ⅷ٣한😀“’\U000e0020"
CHUNKS = st.sampled_from(
    ["don't", " the", " and", "we've ", "  ", "\n\n", " '", "'ll", " been", "ing", "Über", " straße", "слово", " ελλη",
     "हिन्दी", "中文字", " かな", "عربي", "🙂🙂", "a" * 40, " internationalization", "0123456789", "…", "--", "\u3000 "]
)  # fmt: skip
TEXTS = st.lists(
    st.one_of(CHUNKS, st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=12)),
    max_size=12,
).map("".join)

LEARNT_FROM = [
    "the thing and the other thing, and then they don't see it; we've been there 100 times, they'll be there 1000 more",
    "internationalization and the internationalisation of international nations’ stations “and so on”",
    "Über straße Straßen слово слова словами ελληνικά हिन्दी हिन्दी 中文字中文字 かなかな عربي عربي 🙂🙂",
    "aaaa aaaaaaaa aaaaaaaaaaaaaaaa abababab babababa\n\n\n  \t\t  x\n",
]


@cache
def learnt() -> tuple[dict[str, int], Merges]:
    """A vocabulary of 700 tokens, learnt by the reference."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = build_gpt2_pre_tokenizer()
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, initial_alphabet=list(BYTE_LETTERS))
    tokenizer.train_from_iterator(8 * LEARNT_FROM, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [(left, right) for left, right in model["merges"]]


@cache
def wide() -> tuple[dict[str, int], Merges]:
    """The same vocabulary with ids from 70,000 on, which want four bytes."""
    ids, merges = learnt()
    return {token: 70000 + number for token, number in ids.items()}, merges


def reference(ids: dict[str, int], merges: Merges, add_prefix_space: bool, unknown: str | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token=unknown))
    tokenizer.pre_tokenizer = build_gpt2_pre_tokenizer(add_prefix_space)
    return tokenizer


def assert_as_reference(
    texts: Sequence[str], ids: dict[str, int], merges: Merges, add_prefix_space: bool = False, times: int = 2
) -> EncodedSentences:
    """Encode twice: first with no word known, then with those that the cache kept."""
    engine = ByteBpeEngine(ids, merges, Gpt2Words(add_prefix_space=add_prefix_space))
    expected = by_tokenizers(reference(ids, merges, add_prefix_space), texts)
    for _ in range(times):
        found = encoded(engine, texts)
        assert_equal(found, expected)
    assert found.ids.dtype == (np.uint16 if max(ids.values()) < 1 << 16 else np.uint32)
    return found


@cache
def engine_and_reference(is_wide: bool, add_prefix_space: bool) -> tuple[ByteBpeEngine, Tokenizer]:
    ids, merges = wide() if is_wide else learnt()
    words = Gpt2Words(add_prefix_space=add_prefix_space)
    return ByteBpeEngine(ids, merges, words), reference(ids, merges, add_prefix_space)


@examples(400)
@given(st.lists(TEXTS, max_size=5), st.booleans(), st.booleans())
@example(["'s't're've'm'll'd'S", "'", "'l", "'r e", "''s", " 's", "don't  'tis"], False, True)
@example(["a ", "a  ", "a  b", "a \n b", "a\n\n", " \xa0b", "\xa0 b", "\u3000\u3000中", " ", "\n"], True, True)
@example(["don'", "t", "we'", "re", "it'", "ll", "x\n", "\n", "y "], False, False)
def test_any_text_has_the_ids_of_the_reference(texts: list[str], is_wide: bool, add_prefix_space: bool) -> None:
    engine, tokenizer = engine_and_reference(is_wide, add_prefix_space)
    assert_equal(encoded(engine, texts), by_tokenizers(tokenizer, texts))


# Few letters, and merges in any order: even such as no training learns, whose rank is lower than that of their parts.
PIECES = st.text("ab", min_size=1, max_size=3)
MERGES = st.lists(st.tuples(PIECES, PIECES), max_size=12)


def vocabulary_for(merges: Merges) -> dict[str, int]:
    pieces = {token: 0 for left, right in merges for token in (left, right, left + right) if len(token) > 1}
    return {**BYTES, **{token: 256 + number for number, token in enumerate(pieces)}}


@examples(300)
@given(MERGES, st.lists(st.text("ab", max_size=3 * MAX_SCAN_BYTES), max_size=4))
@example([("a", "b"), ("b", "b"), ("a", "b")], ["abb"])  # of a pair that is twice the later rank holds
@example([("aa", "b"), ("a", "a"), ("b", "b")], ["aaabb", "aaaaabbb"])
def test_merging_is_the_rule_and_the_references(merges: Merges, texts: list[str]) -> None:
    ids = vocabulary_for(merges)
    joined = build_merge_table(ids, merges)
    plain = [number for text in texts for number in merge_pieces_plain([ids[letter] for letter in text], joined)]
    assert assert_as_reference(texts, ids, merges, times=1).ids.tolist() == plain


def test_a_word_of_a_million_letters() -> None:
    ids, merges = learnt()
    text = "".join("abcdefgh"[number] for number in np.random.default_rng(1).integers(0, 8, 1_000_000).tolist())
    joined = build_merge_table(ids, merges)
    engine = ByteBpeEngine(ids, merges, Gpt2Words())
    found = encoded(engine, [text + " x"])
    assert found.word_starts.sum() == 2
    tokens = {number: token for token, number in ids.items()}
    assert "".join(tokens[number] for number in found.ids.tolist()) == text + BYTE_LETTERS[0x20] + "x"
    few = encoded(engine, [text[:400]]).ids.tolist()
    assert few == merge_pieces_plain([ids[letter] for letter in text[:400]], joined)
    assert len(few) < 390, "hardly a pair was joined"


def contexts(codes: Sequence[int]) -> list[str]:
    """Each character alone and next to others."""
    characters = [chr(code) for code in codes if not 0xD800 <= code < 0xE000]
    return [text for c in characters for text in (c, f"a{c}b", f" {c}", f"{c} ", f"1{c}", f"'{c}", f"{c}'s\n")]


def test_many_characters_alone_and_in_context() -> None:
    ids, merges = learnt()
    codes = [
        *range(0x700),
        *range(0x2000, 0x2070),
        0x3000,
        0x3005,
        0xFEFF,
        *range(0x10400, 0x10410),
        *range(0x3FFF0, 0x40010),
    ]
    assert_as_reference(contexts(codes), ids, merges, times=1)
    assert_as_reference(contexts(codes[:0x180]), ids, merges, add_prefix_space=True, times=1)


@pytest.mark.long
def test_all_characters_alone_and_in_context() -> None:
    ids, merges = learnt()
    for first in range(0, 0x110000, 0x8000):
        characters = [chr(code) for code in range(first, first + 0x8000) if not 0xD800 <= code < 0xE000]
        assert_as_reference(characters, ids, merges, times=1)
        assert_as_reference([f"a{c}b {c} 1{c}{c} '{c}'s\n{c}" for c in characters], ids, merges, times=1)


def test_ranges_in_any_order_within_other_text() -> None:
    text = "the thing's   they'll\n\nbe there\u3000中文字 “so on”"
    data = np.frombuffer(text.encode(), np.uint8)
    bounds = [len(text[:i].encode()) for i in range(len(text) + 1)]
    spans = [
        (first, last) for first in range(len(text), -1, -1) for last in range(first, min(first + 14, len(text)) + 1)
    ]
    engine, tokenizer = engine_and_reference(False, False)
    starts, ends = (np.array([bounds[span[i]] for span in spans], np.int64) for i in range(2))
    found = engine.encode(data, starts, ends)
    assert_equal(found, by_tokenizers(tokenizer, [text[first:last] for first, last in spans]))
    assert len(found.ids) > 1000


def test_the_room_grows_while_encoding() -> None:
    engine, tokenizer = engine_and_reference(True, True)
    texts = ["\x01\x02" * 3000, "", "x", "\x01 " * 2000, "\x03" * 5000]  # a token for each byte
    found = encoded(engine, texts)
    assert_equal(found, by_tokenizers(tokenizer, texts))
    assert len(found.ids) > 10000


@pytest.mark.parametrize("unknown", [None, "<unk>"])
def test_bytes_that_the_vocabulary_lacks(unknown: str | None) -> None:
    ids = {"a": 0, "b": 1, "<unk>": 2, "ab": 3}
    texts = ["acb abc cc a", "", "ccc", " é ab" * 30, "c" * 50, "a" + "c" * 40 + "b"]
    engine = ByteBpeEngine(ids, [("a", "b")], Gpt2Words(), unknown)
    for _ in range(2):
        assert_equal(encoded(engine, texts), by_tokenizers(reference(ids, [("a", "b")], False, unknown), texts))
    assert (2 in encoded(engine, texts).ids) == (unknown is not None)


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(InputError, match="merge of 'a' and 'b'"):
        ByteBpeEngine(BYTES, [("a", "b")], Gpt2Words())
    with pytest.raises(InputError, match=r"255 bytes .* unknown token '<unk>'"):
        ByteBpeEngine({"a": 0}, [], Gpt2Words(), "<unk>")
    assert encoded(ByteBpeEngine(BYTES, [], Gpt2Words(), "<unk>"), ["ab"]).ids.tolist() == [BYTES["a"], BYTES["b"]]


def test_no_text_and_no_ranges() -> None:
    nothing = np.zeros(0, np.int64)
    found = ByteBpeEngine({}, [], Gpt2Words(add_prefix_space=True)).encode(np.zeros(0, np.uint8), nothing, nothing)
    assert (found.ids.tolist(), found.offsets.tolist(), found.word_starts.tolist()) == ([], [0], [])


def test_threads_with_an_engine_each() -> None:
    ids, merges = learnt()
    texts = [f"{text} {number}" for number in range(200) for text in LEARNT_FROM]
    found: dict[int, EncodedSentences] = {}

    def encode(number: int) -> None:
        found[number] = encoded(ByteBpeEngine(ids, merges, Gpt2Words()), texts)

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = by_tokenizers(reference(ids, merges, False), texts)
    for one in found.values():
        assert_equal(one, expected)
    assert len(found) == 3


def gpt2(shared: Path) -> tuple[dict[str, int], Merges]:
    """GPT-2's own vocabulary."""
    folder = shared / "data/gold/vocab"
    ids = json.loads((folder / "gpt2-encoder.json").read_text(encoding="utf-8"))
    return ids, list(parse_merges_text((folder / "gpt2-vocab.bpe").read_text(encoding="utf-8")))


def test_ids_of_gpt2_are_those_of_its_own_encoder(shared: Path) -> None:
    ids, merges = gpt2(shared)
    lines = (shared / "data/gold/tokenization/gpt2.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    texts = [record["text"] for record in records]
    found = assert_as_reference(texts, ids, merges)
    assert len(records) == 491
    assert found.ids.tolist() == [number for record in records for number in record["ids"]]
    wider = {token: number + 20000 for token, number in ids.items()}
    assert (assert_as_reference(texts, wider, merges).ids - 20000).tolist() == found.ids.tolist()


def texts_of(folder: Path) -> list[str]:
    """The readable texts of a folder, cut where they have blank lines."""
    paths = [
        path for path in sorted(folder.rglob("*")) if path.suffix in {".txt", ".md", ".jsonl", ".tsv", ".xml", ".html"}
    ]
    return [part for path in paths for part in path.read_bytes().decode("utf-8", "replace").split("\n\n")]


def test_a_sample_of_real_texts(shared: Path) -> None:
    ids, merges = gpt2(shared)
    parts = [part for part in texts_of(shared / "data/gold/languages") if len(part) < 20000][::7]
    book = (shared / "data/books/txt/alice-s-adventures-in-wonderland_11.txt").read_text(encoding="utf-8")
    found = assert_as_reference([*parts, *book.split("\n\n")], ids, merges)
    assert len(found.ids) > 50000
