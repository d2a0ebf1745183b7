"""ALBERT's tokenizer: Unigram over `SentencePieceWords`, its special tokens, its files, and scores that are read alike.

Promise: transformers' `AutoTokenizer.from_pretrained` opens the files as an ALBERT tokenizer: `[CLS] a [SEP]`, and for
two texts `[CLS] a [SEP] b [SEP]` with two segments (Lan et al. 2019, and the tokenizer published with it). That class
builds its rules again from the pieces, their scores and tokenizer_config.json; the rules here are those that it builds,
so the folder gives the same ids whichever way it is opened, also when saved again from there.

Ids: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4, then the pieces that were learned. The special tokens are pieces of
the model too, as in ALBERT's own files, with the score 0: if a text held "<pad>", the model would choose it. To encode
documents they have other names (`encoder.hide_special_tokens`).

Scores: tokenizers reads a number in two steps, its digits as one double and then a division by a power of ten, each
rounded: with the usual 17 digits the result is often one unit in the last place away from what is written, and equal
sums of scores are decided otherwise, so a folder that was read and written again would give other ids. `to_definition`
writes each score as a whole number that is a double, over a power of ten that is one as well. Then there is one
rounding, and Python, tokenizers and any other parser agree. A score that tokenizers has read from a file is such a
quotient already, unless it is nearer to zero than 10^-7, as no piece of a vocabulary is. A score of any other origin
that is none is rounded to 15 digits and 22 decimals (`round_score`), as trained scores are.

Cost: half a microsecond a score.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, processors

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.kernels.arrays import Float64s
from tokenizers_train.words.sentencepiece import WORD_MARK, SentencePieceWords, build_albert_normalizer, build_metaspace

ScoredPiece: TypeAlias = tuple[str, float]  # a token and its score, the logarithm of its probability

SPECIAL_TOKENS: Mapping[str, str] = MappingProxyType(
    {"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
)
UNKNOWN_ID = 1  # transformers' class takes it for granted
UNKNOWN_PENALTY = 10.0  # an unknown character scores so much less than the lowest piece, as in tokenizers' Unigram
SPECIAL_IDS = range(len(SPECIAL_TOKENS))


def with_special_tokens(pieces: Iterable[ScoredPiece]) -> tuple[ScoredPiece, ...]:
    """Return all pieces of an ALBERT vocabulary with their scores, in the order of their ids.

    The special tokens come first, with a score of 0, then `pieces`.
    """
    return *((token, 0.0) for token in SPECIAL_TOKENS.values()), *pieces


def build_tokenizer(pieces: Sequence[ScoredPiece], words: SentencePieceWords) -> Tokenizer:
    """Build the Hugging Face Unigram tokenizer of an ALBERT vocabulary.

    Args:
        pieces: All pieces and their scores in the order of their ids, including the special tokens.
        words: The rule that splits text into words.

    Raises:
        InputError: If the special tokens do not have the ids 0 to 4.
    """
    first_tokens = [token for token, _ in pieces[: len(SPECIAL_IDS)]]
    if first_tokens != [*SPECIAL_TOKENS.values()]:
        raise InputError(
            f"The first tokens of the vocabulary are {' '.join(first_tokens)}, and an ALBERT vocabulary begins with "
            f"{' '.join(SPECIAL_TOKENS.values())}: transformers takes their ids for granted. Put them first."
        )
    tokenizer = Tokenizer(models.Unigram([*pieces], UNKNOWN_ID, False))
    tokenizer.normalizer = build_albert_normalizer(words.lowercase, words.strip_accents)
    tokenizer.pre_tokenizer = build_metaspace()
    tokenizer.decoder = decoders.Metaspace(replacement=WORD_MARK, prepend_scheme="always")
    cls, sep = SPECIAL_TOKENS["cls"], SPECIAL_TOKENS["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(token, first_tokens.index(token)) for token in (cls, sep)],
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in first_tokens])
    return tokenizer


def build_config(words: SentencePieceWords) -> dict[str, Json]:
    """Return the content of tokenizer_config.json for an ALBERT vocabulary with the word rule `words`.

    transformers rebuilds the normalization rules from this file.
    """
    return {
        "tokenizer_class": "AlbertTokenizer",
        "do_lower_case": words.lowercase,
        "keep_accents": not words.strip_accents,
        "add_prefix_space": True,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **build_special_tokens_map(),
    }


def build_special_tokens_map() -> dict[str, Json]:
    """Return the content of special_tokens_map.json for an ALBERT vocabulary.

    It maps names such as "cls_token" to ALBERT's tokens. [CLS] is also the bos token, and [SEP] the eos token.
    """
    ends = {"bos_token": SPECIAL_TOKENS["cls"], "eos_token": SPECIAL_TOKENS["sep"]}
    return {**ends, **{f"{role}_token": token for role, token in SPECIAL_TOKENS.items()}}


def format_token(token: str) -> str:
    """Return a Unigram token unchanged, because it is already readable.

    A token that begins a word starts with U+2581.
    """
    return token


def is_word_start(token: str) -> bool:
    """Return whether a Unigram token begins a word, which is true if it starts with U+2581."""
    return token.startswith(WORD_MARK)


MAX_DIGITS, MAX_DECIMALS = 15, 22
_POWERS = np.array([float(10**number) for number in range(MAX_DECIMALS + 1)])  # all that are doubles
_MAX_NUMERATOR = float(1 << 64)
_VOCAB_START = '"vocab": [\n'  # of a Unigram model; quotes in a token are escaped, so no token holds this
_SCORE_LINE = re.compile(r"^ {8}(-?\d[\d.eE+-]*)$", re.MULTILINE)


def round_score(score: float) -> float:
    """Round a score to at most 15 significant digits and 22 decimal places.

    >>> round_score(-8.123456789012345678), round_score(-1.5e-23)
    (-8.12345678901235, 0.0)
    """
    return round(float(f"{score:.{MAX_DIGITS}g}"), MAX_DECIMALS) + 0.0


def to_definition(tokenizer: Tokenizer) -> str:
    """Return the text of a tokenizer's tokenizer.json.

    It is what the tokenizers library writes, except that Unigram scores are written so that every JSON parser reads the
    same double.
    """
    definition = f"{tokenizer.to_str(pretty=True)}\n"
    start = definition.rfind(_VOCAB_START)
    if start < 0:
        return definition
    written = _SCORE_LINE.findall(definition, start)
    exact = iter(_format_scores(written, np.array([float(text) for text in written], np.float64)))
    return definition[:start] + _SCORE_LINE.sub(lambda match: f"{'':8}{next(exact)}", definition[start:])


def _format_scores(written: Sequence[str], values: Float64s) -> list[str]:
    """Format each score so that every JSON parser reads the same double. The order is that of `written`.

    A score for which this is already true keeps its text. Others are written as a decimal that is read exactly, or
    rounded if there is no such decimal.

    Args:
        written: The text of each score as the tokenizers library writes it.
        values: float64, the same scores as numbers.
    """
    texts = list(written)
    inexact = np.array([n for n, text in enumerate(written) if not _is_read_exactly(text)], np.int64)
    for decimals, power in enumerate(_POWERS.tolist()):
        numerators = _find_numerators(power, np.abs(values[inexact]))
        exact = np.flatnonzero(numerators >= 0)
        for number, digits in zip(inexact[exact].tolist(), numerators[exact].tolist(), strict=True):
            texts[number] = _format_decimal(int(digits), decimals, values[number] < 0)
        inexact = inexact[numerators < 0]
    for number in inexact.tolist():
        texts[number] = repr(round_score(values[number]))
    return texts


def _find_numerators(power: float, values: Float64s) -> Float64s:
    """Find, for each value, an integer that gives exactly this value when divided by `power`.

    `values` must not be negative. The entry of a value without such an integer is -1.
    """
    nearest = np.rint(np.minimum(values, _MAX_NUMERATOR) * power)
    numerators = np.full(len(values), -1.0)
    for whole in (np.nextafter(nearest, 0), np.nextafter(nearest, np.inf), nearest):
        fits = (whole / power == values) & (whole == np.rint(whole)) & (whole < _MAX_NUMERATOR)
        numerators[fits] = whole[fits]
    return numerators


def _is_read_exactly(text: str) -> bool:
    """Return whether the number parser of the tokenizers library reads the decimal `text` without a rounding error."""
    digits, _, exponent = text.lstrip("-").lower().partition("e")
    whole, _, decimals = digits.partition(".")
    power, number = int(exponent or 0) - len(decimals), int(whole + decimals)
    if abs(power) > MAX_DECIMALS or number >= _MAX_NUMERATOR:
        return False
    read = float(number) / 10.0**-power if power < 0 else float(number) * 10.0**power
    return read == abs(float(text))


def _format_decimal(whole: int, decimals: int, negative: bool) -> str:
    """Return whole / 10^decimals as a decimal string, with a minus sign if `negative` is True."""
    digits = f"{whole:0{decimals + 1}d}"
    sign = "-" if negative else ""
    return f"{sign}{digits[: len(digits) - decimals]}.{digits[len(digits) - decimals :] or '0'}"
