"""The arguments of a template, and small matters of form that several expansions share.

Promise: an expansion is a function of a template's positional arguments (stripped, without their numbers) and its named
ones (keys in lower case), and returns the text that the template shows. Numbers keep their digits: only commas are
inserted, and exponents are raised.

Source: mediawiki.org/wiki/Help:Templates.
"""
# ruff: noqa: RUF001, RUF002 - a table and an example hold signs that resemble ASCII

import re
from collections.abc import Callable

from corpora.sources.wiki.wikitext.wikis import read_wiki

Named = dict[str, str]
Expansion = Callable[[list[str], Named], str]

# Marks that are in the text until its lines are settled. Control characters, which no XML holds; both begin alike,
# so that one search tells whether there are any.
MARK = "\x01"  # before a shown formula
HOLE = "\x01\x02"  # where a template wrote what cannot be known here
_NUMBER = re.compile(r"[-−+±~≈]?[0-9][0-9.,  ]*")
_KEY = re.compile(r"\s*[\w$ \-]{1,30}\s*")
_LONG_NUMBER = re.compile(r"(?<![\w.,])([0-9]{4,15})(?![0-9,])")
_SUPERSCRIPT = str.maketrans("0123456789+-−n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻ⁿ")
_EXPONENT = re.compile(r"[0-9+\-−n]+")


def read_arguments(body: str) -> tuple[list[str], Named]:
    """Split the inside of a template, `name|a|k=v`, into its positional and its named arguments.

    The template's name is omitted, and keys are converted to lower case. Numbered arguments (`2=b`) that continue the
    positional arguments are appended to them.
    """
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
    """Return True if an argument is a number in any common notation: "12", "-3.5", "1 200,5"."""
    return _NUMBER.fullmatch(text) is not None


def group_digits(number: str) -> str:
    """Insert commas as thousands separators into numbers with four or more digits: 1234567.8 -> 1,234,567.8."""
    return _LONG_NUMBER.sub(lambda match: f"{int(match[1]):,}", number)


_ENGLISH = re.compile(r"(?<![\w.,])[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![\w,])|(?<![\w.,])[0-9]+\.[0-9]+(?![\w.])")
_LOCAL = re.compile(r"[-−+]?(?:[1-9][0-9]{0,2}(?:[. \xa0\u202f][0-9]{3})+(?:,[0-9]+)?|[0-9]+,[0-9]+)")
_WESTERN = "0123456789"


def to_local_quotes(text: str, wiki: str) -> str:
    """Replace the curly quotes around a string with the quotation marks of a wiki's language; "" stays "".

    >>> to_local_quotes("“Gut.”", "de"), to_local_quotes("“Bien.”", "fr"), to_local_quotes("“Well.”", "en")
    ('„Gut.“', '« Bien. »', '“Well.”')
    """
    before, after = read_wiki(wiki).quotes.split(".")
    return f"{before}{text[1:-1]}{after}" if text else text


def to_local(text: str, wiki: str) -> str:
    """Convert the numbers in a text from English notation to the notation of a wiki's language.

    >>> [to_local("1,234.5 km", wiki) for wiki in ("de", "fr")], to_local("1,234 km", "es")
    (['1.234,5 km', '1 234,5 km'], '1234 km')
    >>> to_local("1,234,567.5", "hi"), to_local("1,234.5 km", "fa")
    ('12,34,567.5', '۱٬۲۳۴٫۵ km')
    """
    form = read_wiki(wiki)

    def localize(match: re.Match[str]) -> str:
        whole, point, decimals = match[0].partition(".")
        if len(whole) == len("1,234") and form.grouped_from > 4:
            whole = whole.replace(",", "")
        if form.lakhs and "," in whole:
            rest, _, last = whole.rpartition(",")
            rest = rest.replace(",", "")
            whole = ",".join([*re.findall("[0-9]{1,2}(?=(?:[0-9]{2})*$)", rest), last])
        return whole.replace(",", form.group) + point.replace(".", form.decimal) + decimals

    text = text if form.group == "," and not form.lakhs else _ENGLISH.sub(localize, text)
    return text if form.digits == _WESTERN else text.translate(str.maketrans(_WESTERN, form.digits))


def to_english_number(argument: str, wiki: str) -> str:
    """Convert a number from the notation of a wiki's language to English notation ("1.234,5" -> "1234.5").

    If the wiki uses the digits 0 to 9, an argument that is not such a number is returned unchanged.
    """
    form = read_wiki(wiki)
    if form.digits != _WESTERN:
        argument = argument.translate(str.maketrans(form.digits, _WESTERN))
        return argument.replace(form.group, "").replace(form.decimal, ".")
    if form.decimal != "," or not _LOCAL.fullmatch(argument):
        return argument
    whole, comma, decimals = argument.partition(",")
    return re.sub(r"[. \xa0\u202f]", "", whole) + comma.replace(",", ".") + decimals


def to_superscript(text: str) -> str:
    """Convert an exponent to superscript characters, so that 10<sup>6</sup> is not read as 106.

    A string that contains anything but digits, signs and "n" is returned unchanged.
    """
    return text.translate(_SUPERSCRIPT) if _EXPONENT.fullmatch(text) else text


def show_first(arguments: list[str], named: Named) -> str:
    """Return the first positional argument, or else the named argument `text` or `content`; "" if there is none."""
    text = named.get("text") or named.get("content") or ""
    return arguments[0] if arguments else text
