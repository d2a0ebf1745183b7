"""Words that are answered are words of the text, whatever a tokenizer puts before them, cuts off or writes otherwise.

The law: a place in a text comes from the text. It is tried with every pre-tokenizer of the library `tokenizers`, with
sequences of them, with every post-processor that moves offsets, and with normalizers that change lengths.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from small_batches import small_inputs
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers.pre_tokenizers import PreTokenizer

from tokenizers_train.vocabularies.borders import find_piece_offsets
from trainer.tasks.long_texts import TokenizedText, find_token_span, split_into_pieces, trim_slice
from trainer.tasks.text_encoder import TextEncoder
from trainer.tasks.vectors.embed import _iter_pieces

WORDS = (
    "Amsterdam is older than the bridge , they said . Ko\u0308ln Kön 5,000 \u00a312 don't \ufb01re a\u030ab ½ cup "
    "\u6771\u4eac\u30bf\u30ef\u30fc \u0441\u043b\u043e\u0432\u043e \U0001f468\u200d\U0001f469 \U0001f600! \u0130zmir "
    "\u0120ejtu x_y (a) \u201cnear\u201d \u0645\u0631\u062d\u0628\u0627 \u0e44\u0e17\u0e22 \u1100\u1161\u11a8 "
    "\uff80\uff9e\uff72 word"
).split()
TEXT = "  ".join([" ".join(WORDS[:9]), " ".join(WORDS[9:])])
BEHAVIORS = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
P = pre_tokenizers
EACH: dict[str, Sequence[PreTokenizer]] = {
    "BertPreTokenizer": [P.BertPreTokenizer()],
    "ByteLevel": [
        P.ByteLevel(add_prefix_space=prefix, trim_offsets=trim, use_regex=regex)
        for prefix, trim, regex in product((True, False), repeat=3)
    ],
    "CharDelimiterSplit": [P.CharDelimiterSplit(" "), P.CharDelimiterSplit("|")],
    "Digits": [P.Digits(individual_digits=False), P.Digits(individual_digits=True)],
    "FixedLength": [P.FixedLength(length=5)],
    "Metaspace": [
        P.Metaspace(prepend_scheme=scheme, split=split)
        for scheme, split in product(("always", "never", "first"), (True, False))
    ],
    "Punctuation": [P.Punctuation(behavior=behavior) for behavior in BEHAVIORS],
    "Sequence": [
        P.Sequence([P.Whitespace(), P.ByteLevel(add_prefix_space=True), P.Punctuation()]),  # as RobBERT has it
        P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme="always")]),
        P.Sequence([P.Punctuation(), P.ByteLevel(add_prefix_space=True)]),
        P.Sequence([P.Digits(), P.ByteLevel(add_prefix_space=True), P.Split("\u0120", "isolated")]),
        P.Sequence([P.Split(Regex(r"\w+|\S"), "removed", invert=True), P.ByteLevel(add_prefix_space=True)]),
    ],
    "Split": [P.Split(sign, behavior) for sign, behavior in product((" ", Regex(r"\s+")), BEHAVIORS)],
    "UnicodeScripts": [P.UnicodeScripts()],
    "Whitespace": [P.Whitespace()],
    "WhitespaceSplit": [P.WhitespaceSplit()],
}
NORMALIZERS = (
    None,
    normalizers.NFKC(),
    normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]),
    normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
    normalizers.Sequence([normalizers.Replace("er", "R"), normalizers.Replace(Regex("[aou]"), "eee")]),
)
ENDS = {"<s>": 0, "</s>": 1}
PAIR = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B </s>", [*ENDS.items()])
PROCESSORS = (
    processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=False),
    processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=True),
    processors.Sequence([processors.ByteLevel(trim_offsets=True), PAIR]),
    PAIR,
)


def small_encoder(rules: PreTokenizer, normalizer: Any, processor: Any, letters: bool = False) -> TextEncoder:
    """Return an encoder whose pieces are words, as far as the rules let them be, or letters."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, rules
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    size = 0 if letters else 900
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[*ENDS], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([*WORDS, TEXT], trainer)
    tokenizer.post_processor = processor
    return TextEncoder(tokenizer=tokenizer, max_length=500, inputs=small_inputs("roberta"))


def words_of(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for word in text.split():
        at = text.index(word, at)
        yield at, word
        at += len(word)


def test_every_pre_tokenizer_is_here() -> None:
    """Fails if the library has a pre-tokenizer that the table has not."""
    there = {name for name, each in vars(pre_tokenizers).items() if inspect.isclass(each)}
    assert {*EACH} == there - {"PreTokenizer", "ByteLevelPreTokenizer", "SplitDelimiterBehavior"}


@pytest.mark.parametrize("name", EACH)
def test_a_word_that_is_answered_is_the_texts_own(name: str) -> None:
    """Fails if an answer lacks a letter of its word, or has one of another word although its pieces have none."""
    checked = exact = 0
    for number, (rules, normalizer, letters) in enumerate(product(EACH[name], NORMALIZERS, (True, False))):
        encoder = small_encoder(rules, normalizer, PROCESSORS[number % len(PROCESSORS)], letters)
        offsets = TokenizedText.from_text(TEXT, encoder).offsets
        assert (offsets[1:] >= offsets[:-1]).all(), (str(rules), str(normalizer), letters)
        for begin, word in words_of(TEXT):
            place = find_token_span(offsets, (begin, word))
            if place is None:
                continue
            first, last = trim_slice(TEXT, int(offsets[place[0], 0]), int(offsets[place[1], 1]))
            said, case = TEXT[first:last], (str(rules), str(normalizer), letters, word, TEXT[first:last])
            removed = "Removed" in str(rules) or "Delimiter" in name
            plain = [re.sub(r"\W", "", each) for each in (word, said)] if removed else (word, said)
            assert plain[0] in plain[1] or (removed and plain[1] in plain[0]), case
            checked, exact = checked + 1, exact + (said == word)
            if letters:
                assert len(said) <= len(word), case
    assert checked and exact >= 0.5 * checked, (checked, exact)


@pytest.mark.parametrize("name", EACH)
def test_a_tag_is_read_at_a_piece_of_its_word(name: str) -> None:
    """Fails if a piece that ends with the space after its word is taken for one of the next word."""
    text, checked = " ".join(WORDS), 0
    places = [*words_of(text)]
    for number, (rules, normalizer) in enumerate(product(EACH[name], NORMALIZERS)):
        encoder = small_encoder(rules, normalizer, PROCESSORS[number % len(PROCESSORS)])
        [pieces], [encoding] = split_into_pieces(encoder, [WORDS]), encoder.tokenize([text])
        own = find_piece_offsets(text, encoding)
        for word, first in zip(pieces.words.tolist(), pieces.firsts.tolist(), strict=True):
            begin, end = places[word][0], places[word][0] + len(places[word][1])
            assert own[first][0] < end and begin <= own[first][1], (str(rules), str(normalizer), text[begin:end])
            checked += 1
    assert checked >= len(WORDS)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("rules", [*EACH["Sequence"][:3], *EACH["ByteLevel"], *EACH["Metaspace"]])
def test_embedded_words_are_the_texts_own(rules: PreTokenizer, processor: Any) -> None:
    """Fails if what is cut off a piece is cut off once more when a sequence gets its special tokens."""
    encoder, text = small_encoder(rules, None, processor), "Amsterdam is older  than the bridge, (a) don't word"
    [encoding] = encoder.encode([text])
    own = find_piece_offsets(text, encoding)
    words = [text[own[places[0]][0] : own[places[-1]][1]] for places in _iter_pieces(encoding, "word")]
    assert "".join("".join(words).split()) == "".join(text.split())
