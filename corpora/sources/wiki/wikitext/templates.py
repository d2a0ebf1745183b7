"""Wikitext, step 3: templates that carry text, by name.

Promise: a template shows what its expansion or its symbol says, and nothing where the name is not known here.
The patterns match templates without templates inside, so that the innermost fall first. Names mean what they mean in
the page's wiki, whose numbers and dates are written as it writes them: a wiki is named by its code, such as "de".

Source: the documentation of the templates of the English Wikipedia, and mediawiki.org/wiki/Help:Magic_words.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from corpora.sources.wiki.wikitext import measures, words
from corpora.sources.wiki.wikitext.arguments import (
    HOLE,
    Expansion,
    Named,
    first,
    grouped,
    in_english,
    in_form,
    in_quotes,
    read_arguments,
)
from corpora.sources.wiki.wikitext.unknown import UnknownTemplate, unknown_template
from corpora.sources.wiki.wikitext.wikis import EVERYWHERE, read_wiki, unambiguous_kinds

Reader = Callable[[re.Match[str]], str]

_TEMPLATE = re.compile(r"\{\{([^{}]*+)\}\}")
_LOOSE_TEMPLATE = re.compile(r"\{\{([^{}]*+(?:(?:\{(?!\{)|\}(?!\}))[^{}]*+)*+)\}\}")
_PARAMETER = re.compile(r"\{\{\{([^{}]*+)\}\}\}")
_FUNCTION = re.compile(r"\s*(formatnum|lc|uc|lcfirst|ucfirst|#expr|#time|#timel)\s*:(.*)", re.DOTALL | re.IGNORECASE)


# What a template shows, by the kind that the files of `wikis/` give it.
SHOWN_AS: dict[str, Expansion] = {
    "accidental": words.accidental, "as_of": words.as_of, "aside": words.aside, "authors": words.authors,
    "body_height": measures.height, "century": words.century, "century_before": words.century_before,
    "chinese": words.chinese, "circa": words.circa, "convert": measures.convert, "currency": words.currency,
    "date": words.event, "dates": words.life, "days": words.day_first,
    "death": words.death, "first": first, "first_three": words.first_three, "floruit": words.floruit,
    "fraction": words.fraction, "free_date": words.free_date, "height": words.metres, "hours": words.hours,
    "interlanguage": words.interlanguage, "joined": words.joined, "language": words.language, "last": words.last,
    "listed": words.listed, "literally": words.literally, "measure": words.measured, "nihongo": words.nihongo,
    "nothing": words.nothing, "number": words.formatted, "old_style": words.old_style, "ordinal": words.ordinal,
    "people_by_area": measures.people_by_area, "power_of_ten": words.power_of_ten, "quote": words.quote,
    "quoted": words.quoted, "reading": words.reading, "reign": words.reign, "roads": words.roads,
    "second": words.second, "ship": words.ship, "ship_class": words.ship_class, "siglo": words.spanish_century,
    "spaced": words.spaced, "superscript": words.superscript, "unknown": words.unknowable, "value": measures.value,
    "wrapped": words.wrapped, "years_between": words.years_between,
}  # fmt: skip
_NUMBERS = (
    words.measured, words.formatted, words.metres, measures.value, measures.convert, measures.height,
    measures.people_by_area,
)  # fmt: skip
_NAMESPACES = frozenset(  # of templates, before a name that could do without
    "template vorlage modèle plantilla modello predefinição sjabloon szablon шаблон mall mal skabelon malline šablona "
    "sablon format şablon templat πρότυπο predložak テンプレート 模板 틀 قالب الگو תבנית साँचा".split()
)
_LOOK_BACK = 40
_DATES = (words.event, words.death, words.free_date, words.as_of)


@lru_cache(maxsize=64)
def expansions_of(wiki: str) -> dict[str, Expansion]:
    """The templates that are known in a wiki, and what they show there."""
    expansions = {name: _local(SHOWN_AS[kind], wiki) for name, kind in unambiguous_kinds().items() if wiki != "en"}
    for form in (read_wiki(EVERYWHERE), read_wiki(wiki)):
        expansions |= {name: _local(SHOWN_AS[kind], wiki) for name, kind in form.kinds().items()}
        expansions |= {name: _local(words.prefixed(text), wiki, True) for name, text in form.before.items()}
        expansions |= {name: _local(words.suffixed(text), wiki, True) for name, text in form.after.items()}
    return expansions


@lru_cache(maxsize=64)
def symbols_of(wiki: str) -> dict[str, str]:
    """The templates of a wiki that show one text wherever they are without arguments."""
    return {**read_wiki(EVERYWHERE).symbols, **read_wiki(wiki).symbols}


def _local(expansion: Expansion, wiki: str, has_number: bool = False) -> Expansion:
    """An expansion with the numbers, dates and names of languages that it writes in the form of a wiki."""
    if wiki == "en":
        return expansion
    if has_number or expansion in _NUMBERS:

        def with_numbers(arguments: list[str], named: Named) -> str:
            english = [in_english(argument, wiki) for argument in arguments]
            if has_number:
                english = [grouped(argument) if len(argument) > 4 else argument for argument in english]
            return in_form(expansion(english, named), wiki)

        return with_numbers
    if expansion is words.literally:
        return first
    if expansion in _DATES:
        return lambda arguments, named: words.format_date_in_language(expansion(arguments, named), wiki)
    if expansion is words.quoted:
        return lambda arguments, named: in_quotes(expansion(arguments, named), wiki)
    if expansion is words.language:
        return lambda arguments, named: words.in_language(arguments, named, wiki)
    return expansion


def template_reader(wiki: str, unknown: list[UnknownTemplate]) -> Reader:
    """Return what reads the templates of a page of a wiki. unknown: takes those in sentences that no file names."""
    expansions, symbols = expansions_of(wiki), symbols_of(wiki)
    return lambda match: _shown(match, expansions, symbols, wiki, unknown)


def _function(match: re.Match[str], wiki: str) -> str:
    """Return what a parser function writes: `{{formatnum:12345}}`, `{{uc:text}}`."""
    name, argument = match[1].lower(), match[2].partition("|")
    text = argument[0].strip()
    match name:
        case "formatnum":
            return text.replace(",", "") if argument[2].strip().upper() == "R" else in_form(grouped(text), wiki)
        case "lc":
            return text.lower()
        case "uc":
            return text.upper()
        case "#expr" | "#time" | "#timel":
            return HOLE
    return text


def _shown(
    match: re.Match[str],
    expansions: dict[str, Expansion],
    symbols: dict[str, str],
    wiki: str,
    unknown: list[UnknownTemplate],
) -> str:
    """Return what a template without inner templates shows: nothing, unless it is known to carry text."""
    body = match[1]
    name = body.partition("|")[0].strip().lower()
    if "_" in name:
        name = name.replace("_", " ")
    if ":" in name and name.partition(":")[0] in _NAMESPACES:
        body = body.partition(":")[2]
        name = name.partition(":")[2].strip()
    expansion = expansions.get(name)
    if expansion is not None and ("|" in body or name not in symbols):
        return expansion(*read_arguments(body))
    if name in symbols:
        return symbols[name]
    if name.startswith("lang-"):
        arguments, named = read_arguments(body)
        code = name.removeprefix("lang-")
        before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()]
        if not arguments or _names_language(before, code, wiki):
            return first(arguments, named)
        shown = expansions["langx"]([code, *arguments], named)
        word = read_wiki(wiki).in_language.partition("{")[0]  # "en " before the name of a language
        return shown.removeprefix(word) if word and before.endswith(word) else shown
    call = _FUNCTION.fullmatch(body) if ":" in name else None
    return _function(call, wiki) if call else unknown_template(body, match.string, match.start(), wiki, unknown)


def _names_language(before: str, code: str, wiki: str) -> bool:
    """Return True if a page of a wiki that is not English has just named the language: "En inglés {{lang-en|mill}}"."""
    name = read_wiki(wiki).name_language(code).lower()
    return wiki != "en" and name != "" and before.lower().rstrip(" ,:(«„“").endswith(name)


def _default(match: re.Match[str]) -> str:
    """A template's parameter outside its template shows its default, `{{{name|default}}}`."""
    return match[1].partition("|")[2]


def show_templates(text: str, reader: Reader) -> str:
    """`text` with its innermost templates replaced by what they show."""
    if "{{{" in text:
        text = _PARAMETER.sub(_default, text)
    return _TEMPLATE.sub(reader, text)


def show_loose_templates(text: str, reader: Reader) -> str:
    """The same where single braces are in the way."""
    return _LOOSE_TEMPLATE.sub(reader, text)
