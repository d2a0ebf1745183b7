"""The rules in a tokenizer.json: which of them the kernels know, and how its tokens are read.

Promise: `word_rule_of` names a rule only where it is the very rule of the tokenizer, every option of it known;
anything else is None, and such a tokenizer is left to tokenizers itself.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from tokenizers import Tokenizer, models

from tokenizers_train.vocabularies import albert, bert, roberta
from tokenizers_train.vocabularies.settings import BYTE_BPE, UNIGRAM, WORDPIECE
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.gpt2 import Gpt2Words
from tokenizers_train.words.rule import WordRule
from tokenizers_train.words.sentencepiece import SentencePieceWords, albert_normalizer, metaspace

TokenizerContent = Mapping[str, Any]

_LOWEST = -1e100  # of a score; a likely piece has -2, a rare one -20


class Style(NamedTuple):
    """The way to read the tokens of a vocabulary.

    display:     a token as people read it
    begins_word: whether a token shows that a word begins with it
    """

    display: Callable[[str], str]
    begins_word: Callable[[str], bool]


def style_of(content: TokenizerContent) -> Style:
    """Return the style of a parsed tokenizer.json's tokens: by what marks a word's beginning or its continuation."""
    kinds = _types(content.get("pre_tokenizer")) | _types(content.get("decoder"))
    family = roberta if "ByteLevel" in kinds else albert if "Metaspace" in kinds else bert
    return Style(family.display, family.begins_word)


def algorithm_of(content: TokenizerContent) -> str:
    """The algorithm of a parsed tokenizer.json, or tokenizers' name for one that is not trained here."""
    kind = str(content["model"]["type"])
    if kind == "BPE" and "ByteLevel" in _types(content.get("pre_tokenizer")):
        return BYTE_BPE
    return {"WordPiece": WORDPIECE, "Unigram": UNIGRAM}.get(kind, kind)


def word_rule_of(content: TokenizerContent) -> WordRule | None:
    """The rule by which a parsed tokenizer.json cuts texts into words; None where the kernels do not know it.

    A token that was added to the special ones is found before a text is cut into words: no rule here has that.
    """
    if any(not token["special"] for token in content["added_tokens"]):
        return None
    normalizer, pre_tokenizer = content.get("normalizer"), content.get("pre_tokenizer")
    kind = content["model"]["type"]
    if kind == "WordPiece" and pre_tokenizer == {"type": "BertPreTokenizer"}:
        return _bert_words(normalizer)
    if kind == "BPE" and normalizer is None and _is_plain_bpe(content["model"]):
        return _gpt2_words(pre_tokenizer)
    if kind == "Unigram" and _is_plain_unigram(content["model"]):
        return _sentencepiece_words(normalizer, pre_tokenizer)
    return None


def _bert_words(normalizer: Any) -> WordRule | None:
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        return None
    return BertWords(**{name: value for name, value in normalizer.items() if name != "type"})


def _gpt2_words(pre_tokenizer: Any) -> WordRule | None:
    if not isinstance(pre_tokenizer, dict) or pre_tokenizer.get("type") != "ByteLevel":
        return None
    if not pre_tokenizer.get("use_regex", True):
        return None
    return Gpt2Words(add_prefix_space=pre_tokenizer["add_prefix_space"])


def _sentencepiece_words(normalizer: Any, pre_tokenizer: Any) -> WordRule | None:
    for lowercase in (True, False):
        for strip_accents in (True, False):
            if _albert_rules(lowercase, strip_accents) == (normalizer, pre_tokenizer):
                return SentencePieceWords(lowercase=lowercase, strip_accents=strip_accents)
    return None


@cache
def _albert_rules(lowercase: bool, strip_accents: bool) -> tuple[Any, Any]:
    """The normaliser and the pre-tokeniser of `SentencePieceWords`, as a tokenizer.json has them."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = albert_normalizer(lowercase, strip_accents), metaspace()
    content = json.loads(tokenizer.to_str())
    return content["normalizer"], content["pre_tokenizer"]


def _is_plain_bpe(model: TokenizerContent) -> bool:
    """True if a BPE model joins pairs by rank and does nothing else, such as making one token of unknown bytes."""
    quirks = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "byte_fallback")
    fuses = model.get("fuse_unk") and model.get("unk_token") is not None
    complete = all(letter in model["vocab"] for letter in roberta.BYTE_LETTERS)
    return not any(model.get(quirk) for quirk in quirks) and (complete or not fuses)


def _is_plain_unigram(model: TokenizerContent) -> bool:
    """True if a Unigram model has logarithms of probabilities, an unknown token, and no bytes to fall back on.

    Sums of scores are finite: no text has as many characters as would be needed.
    """
    suits = model.get("unk_id") is not None and not model.get("byte_fallback")
    return suits and all(_LOWEST < score <= 0 for _, score in model["vocab"])


def _types(part: Any) -> set[str]:
    """The types of a component and of those in it."""
    if not isinstance(part, dict):
        return set()
    inner = [*part.get("pretokenizers", ()), *part.get("decoders", ())]
    return {part["type"]}.union(*map(_types, inner))
