"""The arguments of a template, and the small matters of form that several expansions share.

Promise: an expansion is a function of the positional arguments (stripped, without their numbers) and of the
named ones (keys in lower case). Numbers keep their digits: only commas come in, and exponents are raised.

Source: mediawiki.org/wiki/Help:Templates.
"""
# ruff: noqa: RUF001 - one table holds a sign that resembles ASCII

import re
from collections.abc import Callable

Named = dict[str, str]
Expansion = Callable[[list[str], Named], str]

# Marks that are in the text until its lines are settled. Control characters, which no XML holds; both begin alike,
# so that one search tells whether there are any.
MARK = "\x01"  # before a shown formula
HOLE = "\x01\x02"  # where a template wrote what cannot be known here
_NUMBER = re.compile(r"[-−+±~≈]?[0-9][0-9.,  ]*")
_KEY = re.compile(r"\s*[\w$ \-]{1,30}\s*")
_WHOLE = re.compile(r"(?<![\w.,])([0-9]{4,15})(?![0-9,])")
_SUPERSCRIPT = str.maketrans("0123456789+-−n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻ⁿ")
_RAISED = re.compile(r"[0-9+\-−n]+")


def read_arguments(body: str) -> tuple[list[str], Named]:
    """The positional and the named arguments of a template's body, `{{name|a|k=v}}` without its braces."""
    positional: list[str] = []
    named: Named = {}
    for argument in body.split("|")[1:]:
        key, equals, value = argument.partition("=")
        if equals and _KEY.fullmatch(key):
            named[key.strip().lower()] = value.strip()
        else:
            positional.append(argument.strip())
    while str(len(positional) + 1) in named:
        positional.append(named.pop(str(len(positional) + 1)))
    return positional, named


def is_number(text: str) -> bool:
    """Return True if an argument is a number as people write it: "12", "-3.5", "1 200,5"."""
    return _NUMBER.fullmatch(text) is not None


def grouped(number: str) -> str:
    """A number with commas between its thousands: 1234567.8 -> 1,234,567.8."""
    return _WHOLE.sub(lambda match: f"{int(match[1]):,}", number)


def raised(text: str) -> str:
    """An exponent as superscript characters where they exist, so that 10<sup>6</sup> is not read as 106."""
    return text.translate(_SUPERSCRIPT) if _RAISED.fullmatch(text) else text


def first(arguments: list[str], named: Named) -> str:
    text = named.get("text") or named.get("content") or ""
    return arguments[0] if arguments else text
