"""The values of a file as texts, labels and numbers. Pure functions."""

import json
from math import isfinite
from typing import Any

from trainer.tasks.formats.records import Unusable, Values, Wanted

NOT_UTF_8 = "not UTF-8"


def checked(values: Values, wanted: Wanted) -> Values:
    """The values that there are. Raises Unusable where a needed one is missing, or one is empty or no Unicode."""
    given = dict[str, Any]()
    for role, value in values.items():
        if value is None:
            if role in wanted.needed:
                raise Unusable(f"no {role}")
            continue
        _check_text(value)
        if isinstance(value, str) and not value.strip():
            raise Unusable(f"empty {role}")
        given[role] = value
    return given


def _check_text(value: Any) -> None:
    """Raise Unusable where a text, at any depth, holds something that is not a character."""
    if isinstance(value, str):
        if not is_unicode(value):
            raise Unusable(NOT_UTF_8)
        if "\0" in value:
            raise Unusable("a zero in a text")
    elif isinstance(value, list | tuple):
        for item in value:
            _check_text(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key)
            _check_text(item)


def is_unicode(text: str) -> bool:
    """Tells whether a text can be written as UTF-8: it holds no half of a character, and no invalid byte.

    >>> is_unicode("é"), is_unicode("\\ud800")
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(value: Any, role: str) -> str:
    """A value that must be a text. Raises Unusable."""
    if isinstance(value, str):
        return value
    raise Unusable(f"{role} is no text")


def as_label(value: Any, role: str = "label") -> str:
    """A label as its name; a number, true and false as JSON writes them. Raises Unusable.

    >>> as_label(" good "), as_label(1), as_label(True)
    ('good', '1', 'true')
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return json.dumps(value)
    raise Unusable(f"{role} is neither text nor number")


def as_number(label: str) -> float | None:
    """The number that a label is, if it is one.

    >>> [as_number(label) for label in ("3.80", "-1", "1e3", "good", "nan", "1_000")]
    [3.8, -1.0, 1000.0, None, None, None]
    """
    try:
        number = float(label)
    except ValueError:
        return None
    return number if isfinite(number) and "_" not in label else None


def as_words(value: Any, role: str) -> list[str]:
    """A value that must be a list of texts, or the texts that spaces separate. Raises Unusable.

    >>> as_words("B-PER O", "tags"), as_words(["New", "York"], "words")
    (['B-PER', 'O'], ['New', 'York'])
    """
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise Unusable(f"{role} is no list of texts")
