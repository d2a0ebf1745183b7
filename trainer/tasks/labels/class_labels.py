"""Names of classes as a file has them: ambiguous ones are refused with a question. Pure functions."""

import unicodedata
from collections.abc import Sequence

from corpora.errors import InputError
from trainer.tasks.formats.values import as_number

JOINERS = "\u200c\u200d"  # they change what Persian, Hindi and emoji look like
MOST_NUMBERED_CLASSES = 20  # more whole numbers may be scores


def check_numbers(names: Sequence[str], where: str) -> None:
    """Raise InputError where labels may be meant as numbers: all are, and some have fractions, or they are many."""
    values = [as_number(name) for name in names]
    numbers = sorted(number for number in values if number is not None)
    fractions = any(not number.is_integer() for number in numbers)
    if numbers and len(numbers) == len(names) and (fractions or len({*numbers}) > MOST_NUMBERED_CLASSES):
        raise InputError(
            f"{where}: the labels are {len({*numbers})} different numbers from {numbers[0]:g} to {numbers[-1]:g}. Say "
            "what they are: the task `number` learns the number (and judges by Pearson's and Spearman's correlation); "
            "with `--set numbers_are_classes=true` each is a class of its own."
        )


def check_spellings(names: Sequence[str], where: str) -> None:
    """Raise InputError where two labels are one in two spellings: the same number, or letters that look the same."""
    met = dict[str, str]()
    for name in names:
        other = met.setdefault(plain_spelling(name), name)
        if other != name:
            raise InputError(
                f"{where}: the labels {other!a} and {name!a} are two spellings of one: spell it the same way, or name "
                "all classes (`--set labels=[...]`) if they are two."
            )


def plain_spelling(name: str) -> str:
    """Return the spelling that a label shares with those that look the same.

    >>> [plain_spelling(name) for name in ("1.0", "01", "cafe\\u0301", "caf\\u00e9\\u200b")]
    ['1', '1', 'café', 'café']
    """
    number = as_number(name)
    if number is not None:
        return f"{number:.17g}"
    shown = "".join(letter for letter in name if unicodedata.category(letter) != "Cf" or letter in JOINERS)
    return unicodedata.normalize("NFC", " ".join(shown.split()))
