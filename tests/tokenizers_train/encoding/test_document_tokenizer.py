"""Documents are encoded with ordinary added tokens where tokenizers has them, and never with special ones."""

import logging
from collections.abc import Sequence
from itertools import pairwise

import pytest
from encoded_texts import defined
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from tokenizers_train.build import plan_given_vocabulary
from tokenizers_train.encoding.encoder import ReferenceEngine, build_engine
from tokenizers_train.encoding.wordpiece import WordPieceEngine
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_albert_vocabulary, build_bert_vocabulary

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BERT = build_bert_vocabulary((*SPECIALS, "co", "##vid", "x", "##abc", "##a", "##b", "##c", "a", ".", "#"))
ALBERT = build_albert_vocabulary([("\u2581", -2.0), ("a", -3.0), ("\u2581a", -1.5), ("b", -2.2), ("\u2581ab", -7.1)])


def ids_of(vocabulary: Vocabulary, texts: Sequence[str]) -> list[list[int]]:
    ids, places, _ = defined(vocabulary, texts)
    return [ids[start:end].tolist() for start, end in pairwise(places)]


def brought(tokenizer: Tokenizer) -> Vocabulary:
    return Vocabulary.from_files({"tokenizer.json": tokenizer.to_str().encode()})


def test_a_special_token_next_to_the_model_is_no_piece_of_words() -> None:
    """Such as `covid` in bert-base-uncased: the engine cut words with all tokens there are."""
    tokenizer = BERT.to_tokenizer()
    tokenizer.add_special_tokens(["covid", "##bc", "##zz"])
    vocabulary = brought(tokenizer)
    assert isinstance(build_engine(vocabulary), WordPieceEngine)
    assert ids_of(vocabulary, ["covid xabc ab ##zz"]) == [[5, 6, 7, 8, 12, 10, 14, 14, 1]]
    assert vocabulary.find_id("covid") == len(BERT.tokens)


def test_an_ordinary_added_token_is_found_as_tokenizers_finds_it() -> None:
    tokenizer = BERT.to_tokenizer()
    tokenizer.add_tokens(["covid", AddedToken("abc", single_word=True), AddedToken(".x", lstrip=True, rstrip=True)])
    vocabulary = brought(tokenizer)
    texts = ["covid covidabc", "xcovid abc xabc", "a .x a", "COVID ##abc"]
    expected = [Tokenizer.from_str(vocabulary.definition).encode(text, add_special_tokens=False).ids for text in texts]
    assert ids_of(vocabulary, texts) == expected
    assert expected[0] == [15, 15, 12, 10, 11] and expected[1][1:] == [15, 16, 7, 8]


def xlm_r() -> Tokenizer:
    """The layout of XLM-R and DeBERTa-v3: a Unigram with rules that no kernel knows."""
    pieces = [
        ("<s>", 0.0),
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        ("\u2581", -2.0),
        ("a", -3.0),
        ("\u2581a", -1.5),
    ]
    tokenizer = Tokenizer(models.Unigram(pieces, 3, False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    return tokenizer


@pytest.mark.parametrize("tokenizer", [ALBERT.to_tokenizer(), xlm_r()], ids=["albert", "xlm-r"])
def test_a_unigram_keeps_its_ordinary_added_tokens(tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens(["covid"])
    tokenizer.add_special_tokens(["[E]"])
    vocabulary = brought(tokenizer)
    assert isinstance(build_engine(vocabulary), ReferenceEngine)
    [ids, special] = ids_of(vocabulary, ["a covid covids a", "a <pad> [E] <mask>"])
    assert ids == Tokenizer.from_str(vocabulary.definition).encode("a covid covids a", add_special_tokens=False).ids
    assert ids.count(vocabulary.find_id("covid")) == 2
    allowed = {vocabulary.special_ids["unk"]}
    assert {*vocabulary.special_ids.values()} & {*special} <= allowed, "a document wrote a special token"


def test_a_special_token_that_is_a_piece_of_the_model_is_text() -> None:
    """tokenizers itself gives it, also when it is told not to look for special tokens: it is a word of the model."""
    vocabulary = brought(
        build_bert_vocabulary((*SPECIALS, "covid", "co", "##vid"), additional=["covid"]).to_tokenizer()
    )
    tokenizer = vocabulary.to_tokenizer()
    tokenizer.encode_special_tokens = True
    assert tokenizer.encode("covid", add_special_tokens=False).ids == [5]
    assert ids_of(vocabulary, ["covid"]) == [[6, 7]]


def test_bpe_cannot_build_a_special_token() -> None:
    """Neither by the last merge nor by one on the way; what is not made of it is merged as before."""
    letters = {letter: number for number, letter in enumerate("<s>ab")}
    ids = {**letters, "<s": 5, "<s>": 6, "<s>a": 7, "ab": 8}
    tokenizer = Tokenizer(models.BPE(ids, [("<", "s"), ("<s", ">"), ("<s>", "a"), ("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<s>"])
    assert ids_of(brought(tokenizer), ["<s>ab <s"]) == [[5, 2, 8, 5]]


def test_a_token_of_the_name_of_a_role_does_not_take_its_place() -> None:
    tokenizer = BERT.to_tokenizer()
    tokenizer.add_special_tokens(["mask"])
    vocabulary = brought(tokenizer)
    assert vocabulary.special_ids["mask"] == 4
    assert vocabulary.special_ids['"mask"'] == len(BERT.tokens)


def test_unknown_bytes_that_are_fused_are_one_token() -> None:
    """Byte-level BPE that lacks bytes: the engine gives an unknown token for each, and is not asked."""
    ids = {"<unk>": 3, "h": 0, "e": 1, "l": 2, "o": 4, "\u0120": 5}
    for fused, expected in ((True, [3, 5, 0, 1, 2, 2, 4]), (False, [3, 3, 3, 5, 0, 1, 2, 2, 4])):
        tokenizer = Tokenizer(models.BPE(ids, [], unk_token="<unk>", fuse_unk=fused))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        assert tokenizer.encode("xyz hello").ids == expected
        assert ids_of(brought(tokenizer), ["xyz hello"]) == [expected]


def test_only_those_whose_ids_were_others_are_encoded_again() -> None:
    """A store with a plain BERT or RoBERTa is not built again."""
    tokenizer = BERT.to_tokenizer()
    assert plan_given_vocabulary("a", brought(tokenizer)).build_version == 1
    tokenizer.add_special_tokens(["[E1]"])
    assert plan_given_vocabulary("a", brought(tokenizer)).build_version == 2


def test_the_log_says_that_tokenizers_itself_encodes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        build_engine(brought(xlm_r()))
    assert "its texts are encoded by tokenizers itself, with the same ids" in caplog.text
