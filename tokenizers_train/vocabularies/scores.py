"""The scores of Unigram pieces, written so that every parser reads the same 64 bits.

tokenizers reads a number in two steps, its digits as one double and then a division by a power of ten, each rounded:
of the usual 17 digits the result is often one unit in the last place away from what is written, and equal sums of
scores are decided otherwise. So a folder that is read and written again gave other ids than before.

Promise: `definition_of` writes each score as a whole number that is a double, over a power of ten that is one as
well. Then there is one rounding, and Python, tokenizers and any other parser agree. What tokenizers has read from a
file is such a quotient already, unless it is nearer to zero than 10^-7, where no piece of a vocabulary is. A score of
any other origin that is none is rounded to 15 digits and 22 decimals (`rounded`), as those are that are trained.

Cost: half a microsecond a score.
"""

import re
from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from corpora.kernels.arrays import Float64s

DIGITS, DECIMALS = 15, 22
_POWERS = np.array([float(10**number) for number in range(DECIMALS + 1)])  # all that are doubles
_MOST = float(1 << 64)
_SCORED = '"vocab": [\n'  # of a Unigram model; quotes in a token are escaped, so no token holds this
_SCORE = re.compile(r"^ {8}(-?\d[\d.eE+-]*)$", re.MULTILINE)


def rounded(score: float) -> float:
    """A score with at most 15 digits and 22 decimals.

    >>> rounded(-8.123456789012345678), rounded(-1.5e-23)
    (-8.12345678901235, 0.0)
    """
    return round(float(f"{score:.{DIGITS}g}"), DECIMALS) + 0.0


def definition_of(tokenizer: Tokenizer) -> str:
    """The tokenizer.json of a tokenizer, as tokenizers writes it, the scores written so that it is read as it is."""
    definition = f"{tokenizer.to_str(pretty=True)}\n"
    start = definition.rfind(_SCORED)
    if start < 0:
        return definition
    written = _SCORE.findall(definition, start)
    exact = iter(_exact_texts(written, np.array([float(text) for text in written], np.float64)))
    return definition[:start] + _SCORE.sub(lambda match: f"{'':8}{next(exact)}", definition[start:])


def _exact_texts(written: Sequence[str], values: Float64s) -> list[str]:
    """Return each value's text: as it is where it is read alike, and rounded where no quotient is the value."""
    texts = list(written)
    waiting = np.array([n for n, text in enumerate(written) if not _is_read_alike(text)], np.int64)
    for decimals, power in enumerate(_POWERS.tolist()):
        whole = _whole_over(power, np.abs(values[waiting]))
        exact = np.flatnonzero(whole >= 0)
        for number, digits in zip(waiting[exact].tolist(), whole[exact].tolist(), strict=True):
            texts[number] = _decimal(int(digits), decimals, values[number] < 0)
        waiting = waiting[whole < 0]
    for number in waiting.tolist():
        texts[number] = repr(rounded(values[number]))
    return texts


def _whole_over(power: float, wanted: Float64s) -> Float64s:
    """For each value a whole number that over a power of ten is just this value; -1 where there is none."""
    near = np.rint(np.minimum(wanted, _MOST) * power)
    wholes = np.full(len(wanted), -1.0)
    for whole in (np.nextafter(near, 0), np.nextafter(near, np.inf), near):
        fits = (whole / power == wanted) & (whole == np.rint(whole)) & (whole < _MOST)
        wholes[fits] = whole[fits]
    return wholes


def _is_read_alike(text: str) -> bool:
    """True if tokenizers' two steps give the number that is written."""
    digits, _, exponent = text.lstrip("-").lower().partition("e")
    whole, _, decimals = digits.partition(".")
    power, number = int(exponent or 0) - len(decimals), int(whole + decimals)
    if abs(power) > DECIMALS or number >= _MOST:
        return False
    read = float(number) / 10.0**-power if power < 0 else float(number) * 10.0**power
    return read == abs(float(text))


def _decimal(whole: int, decimals: int, negative: bool) -> str:
    """A whole number over a power of ten, as a decimal."""
    digits = f"{whole:0{decimals + 1}d}"
    sign = "-" if negative else ""
    return f"{sign}{digits[: len(digits) - decimals]}.{digits[len(digits) - decimals :] or '0'}"
