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


# By wiki: the mark between thousands and the decimal mark. Those that are not here write numbers as English does.
_FORMS = {
    **dict.fromkeys("de nl ro ca da el gl hr id is sl sq sr tr".split(), (".", ",")),
    **dict.fromkeys("fr es it pt pl ru sv bg be cs eo et fi hu hy ka kk lt lv nb nn no sk uk ltg".split(), (" ", ",")),
}
_FROM_FIVE_DIGITS = ("es", "pt", "pl", "bg")  # 1234, but 12 345
_ENGLISH = re.compile(r"(?<![\w.,])[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![\w,])|(?<![\w.,])[0-9]+\.[0-9]+(?![\w.])")
_LOCAL = re.compile(r"[-−+]?(?:[1-9][0-9]{0,2}(?:[. \xa0\u202f][0-9]{3})+(?:,[0-9]+)?|[0-9]+,[0-9]+)")


_QUOTES = {
    **dict.fromkeys("de cs sk sl bg is lt et".split(), "„“"), **dict.fromkeys("pl ro hu nl hr sr".split(), "„”"),
    **dict.fromkeys("fr it es ru uk be ca el no nb nn".split(), "«»"), "sv": "””", "fi": "””", "da": "»«", "ja": "「」",
}  # fmt: skip


def in_quotes(text: str, wiki: str) -> str:
    """A text between curly quotes, between those of a wiki.

    >>> in_quotes("“Gut.”", "de"), in_quotes("“Bien.”", "fr"), in_quotes("“Well.”", "en")
    ('„Gut.“', '« Bien. »', '“Well.”')
    """
    marks = _QUOTES.get(wiki, "“”")
    gap = " " if wiki == "fr" else ""
    return f"{marks[0]}{gap}{text[1:-1]}{gap}{marks[1]}" if text else text


def in_form(text: str, wiki: str) -> str:
    """A text with its numbers as a wiki writes them.

    >>> in_form("1,234.5 km", "de"), in_form("1,234.5 km", "fr"), in_form("1,234 km", "es"), in_form("1.5 km", "ja")
    ('1.234,5 km', '1 234,5 km', '1234 km', '1.5 km')
    """
    if wiki not in _FORMS:
        return text
    group, decimal = _FORMS[wiki]

    def local(match: re.Match[str]) -> str:
        whole, point, decimals = match[0].partition(".")
        short = wiki in _FROM_FIVE_DIGITS and len(whole) == len("1,234")
        return whole.replace(",", "" if short else group) + point.replace(".", decimal) + decimals

    return _ENGLISH.sub(local, text)


def in_english(argument: str, wiki: str) -> str:
    """An argument that is a number in the form of a wiki, in that of English: "1.234,5" is "1234.5"."""
    if wiki not in _FORMS or not _LOCAL.fullmatch(argument):
        return argument
    whole, comma, decimals = argument.partition(",")
    return re.sub(r"[. \xa0\u202f]", "", whole) + comma.replace(",", ".") + decimals


def raised(text: str) -> str:
    """An exponent as superscript characters where they exist, so that 10<sup>6</sup> is not read as 106."""
    return text.translate(_SUPERSCRIPT) if _RAISED.fullmatch(text) else text


def first(arguments: list[str], named: Named) -> str:
    text = named.get("text") or named.get("content") or ""
    return arguments[0] if arguments else text
