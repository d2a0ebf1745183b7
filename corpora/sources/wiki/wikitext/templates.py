"""Wikitext, step 3: templates that carry text, by name.

Promise: a template shows what its expansion or its symbol says, and nothing if the name is not known here. The patterns
match templates without templates inside, so that the innermost are replaced first. Names mean what they mean in the
page's wiki, and numbers and dates are written as it writes them. A wiki is named by its code, such as "de".

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
    group_digits,
    read_arguments,
    show_first,
    to_english_number,
    to_local,
    to_local_quotes,
)
from corpora.sources.wiki.wikitext.unknown import UnknownTemplate, show_unknown
from corpora.sources.wiki.wikitext.wikis import ALL_WIKIS, find_common_kinds, read_wiki

Reader = Callable[[re.Match[str]], str]

_TEMPLATE = re.compile(r"\{\{([^{}]*+)\}\}")
_LOOSE_TEMPLATE = re.compile(r"\{\{([^{}]*+(?:(?:\{(?!\{)|\}(?!\}))[^{}]*+)*+)\}\}")
_PARAMETER = re.compile(r"\{\{\{([^{}]*+)\}\}\}")
_FUNCTION = re.compile(r"\s*(formatnum|lc|uc|lcfirst|ucfirst|#expr|#time|#timel)\s*:(.*)", re.DOTALL | re.IGNORECASE)


# What a template shows, by the kind that the files of `wikis/` give it.
EXPANSIONS: dict[str, Expansion] = {
    "accidental": words.show_accidental, "as_of": words.show_as_of_date, "aside": words.show_aside,
    "authors": words.show_authors, "body_height": measures.show_height, "century": words.show_century,
    "century_before": words.show_century_before, "chinese": words.show_chinese, "circa": words.show_circa,
    "convert": measures.convert, "currency": words.show_currency, "date": words.show_event,
    "dates": words.show_life_dates, "days": words.show_day_first, "death": words.show_death, "first": show_first,
    "first_three": words.show_first_three, "floruit": words.show_floruit, "fraction": words.show_fraction,
    "free_date": words.show_free_date, "height": words.show_metres, "hours": words.show_hours,
    "interlanguage": words.show_interlanguage_link, "joined": words.show_joined, "language": words.show_language,
    "last": words.show_last, "listed": words.show_list, "literally": words.show_literally,
    "measure": words.show_measured, "nihongo": words.show_nihongo, "nothing": words.show_nothing,
    "number": words.show_grouped, "old_style": words.show_old_style, "ordinal": words.show_ordinal,
    "people_by_area": measures.show_density, "power_of_ten": words.show_power_of_ten, "quote": words.show_quote,
    "quoted": words.show_quoted, "reading": words.show_reading, "reign": words.show_reign, "roads": words.show_roads,
    "second": words.show_second, "ship": words.show_ship, "ship_class": words.show_ship_class,
    "siglo": words.show_spanish_century, "spaced": words.show_spaced, "superscript": words.show_superscript,
    "unknown": words.show_unknowable, "value": measures.show_value, "wrapped": words.show_wrapped,
    "years_between": words.show_age,
}  # fmt: skip
_NUMBERS = (
    words.show_measured, words.show_grouped, words.show_metres, measures.show_value, measures.convert,
    measures.show_height, measures.show_density,
)  # fmt: skip
_NAMESPACES = frozenset(  # of templates, before a name that could do without
    "template vorlage modèle plantilla modello predefinição sjabloon szablon шаблон mall mal skabelon malline šablona "
    "sablon format şablon templat πρότυπο predložak テンプレート 模板 틀 قالب الگو תבנית साँचा".split()
)
_CONTEXT_CHARACTERS = 40
_DATES = (words.show_event, words.show_death, words.show_free_date, words.show_as_of_date)


@lru_cache(maxsize=64)
def find_expansions(wiki: str) -> dict[str, Expansion]:
    """Map the lower-case name of each template known in a wiki to the function that renders it. Cached.

    The functions take the positional and the named arguments, and return the text. `wiki` is the wiki's language code.
    """
    expansions = {name: _adapt(EXPANSIONS[kind], wiki) for name, kind in find_common_kinds().items() if wiki != "en"}
    for form in (read_wiki(ALL_WIKIS), read_wiki(wiki)):
        expansions |= {name: _adapt(EXPANSIONS[kind], wiki) for name, kind in form.map_template_kinds().items()}
        expansions |= {name: _adapt(words.build_prefixed(text), wiki, True) for name, text in form.before.items()}
        expansions |= {name: _adapt(words.build_suffixed(text), wiki, True) for name, text in form.after.items()}
    return expansions


@lru_cache(maxsize=64)
def find_symbols(wiki: str) -> dict[str, str]:
    """Map the name of each template that always renders the same text, without arguments, to that text. Cached.

    `wiki` is the wiki's language code.
    """
    return {**read_wiki(ALL_WIKIS).symbols, **read_wiki(wiki).symbols}


def _adapt(expansion: Expansion, wiki: str, has_number: bool = False) -> Expansion:
    """Wrap a template function so that it formats numbers, dates and language names for a wiki.

    Args:
        expansion: Renders a template in English.
        wiki: The wiki's language code. For "en" the function is returned unchanged.
        has_number: True if the first argument is a number that must be converted to the English notation.
    """
    if wiki == "en":
        return expansion
    if has_number or expansion in _NUMBERS:

        def with_numbers(arguments: list[str], named: Named) -> str:
            english = [to_english_number(argument, wiki) for argument in arguments]
            if has_number:
                english = [group_digits(argument) if len(argument) > 4 else argument for argument in english]
            return to_local(expansion(english, named), wiki)

        return with_numbers
    if expansion is words.show_literally:
        return show_first
    if expansion in _DATES:
        return lambda arguments, named: words.format_date_in_language(expansion(arguments, named), wiki)
    if expansion is words.show_quoted:
        return lambda arguments, named: to_local_quotes(expansion(arguments, named), wiki)
    if expansion is words.show_language:
        return lambda arguments, named: words.show_in_language(arguments, named, wiki)
    return expansion


def build_template_reader(wiki: str, unknown: list[UnknownTemplate]) -> Reader:
    """Build the function that renders templates of a wiki. The function takes a regex match of a template.

    Args:
        wiki: The wiki's language code.
        unknown: Templates in sentences that are missing from all template tables are appended to this list.
    """
    expansions, symbols = find_expansions(wiki), find_symbols(wiki)
    return lambda match: _show_template(match, expansions, symbols, wiki, unknown)


def _show_function(match: re.Match[str], wiki: str) -> str:
    """Render a matched parser function: `{{formatnum:12345}}`, `{{uc:text}}`.

    A function with an unknown value, such as today's date, becomes `HOLE`. Its sentence is later removed.
    """
    name, argument = match[1].lower(), match[2].partition("|")
    text = argument[0].strip()
    match name:
        case "formatnum":
            return text.replace(",", "") if argument[2].strip().upper() == "R" else to_local(group_digits(text), wiki)
        case "lc":
            return text.lower()
        case "uc":
            return text.upper()
        case "#expr" | "#time" | "#timel":
            return HOLE
    return text


def _show_template(
    match: re.Match[str],
    expansions: dict[str, Expansion],
    symbols: dict[str, str],
    wiki: str,
    unknown: list[UnknownTemplate],
) -> str:
    """Render a template that contains no other templates. Return "" if the template renders no text.

    Args:
        match: A match of the template.
        expansions: The functions that render known templates, as returned by `find_expansions`.
        symbols: The texts of templates without arguments, as returned by `find_symbols`.
        wiki: The wiki's language code.
        unknown: Templates in sentences that are missing from all template tables are appended to this list.
    """
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
        before = match.string[max(0, match.start() - _CONTEXT_CHARACTERS) : match.start()]
        if not arguments or _has_named_language(before, code, wiki):
            return show_first(arguments, named)
        shown = expansions["langx"]([code, *arguments], named)
        word = read_wiki(wiki).in_language.partition("{")[0]  # "en " before the name of a language
        return shown.removeprefix(word) if word and before.endswith(word) else shown
    call = _FUNCTION.fullmatch(body) if ":" in name else None
    return _show_function(call, wiki) if call else show_unknown(body, match.string, match.start(), wiki, unknown)


def _has_named_language(before: str, code: str, wiki: str) -> bool:
    """Return True if a non-English text already names the language before a template: "En inglés {{lang-en|mill}}".

    Args:
        before: The text before the template.
        code: Code of the language.
        wiki: The wiki's language code.
    """
    name = read_wiki(wiki).find_language(code).lower()
    return wiki != "en" and name != "" and before.lower().rstrip(" ,:(«„“").endswith(name)


def show_templates(text: str, reader: Reader) -> str:
    """Replace the innermost templates with their rendered text. Call this again for templates that contain others.

    Args:
        text: Wikitext.
        reader: Renders a match of a template (see `build_template_reader`).
    """
    if "{{{" in text:
        text = _PARAMETER.sub(lambda match: match[1].partition("|")[2], text)  # {{{name|default}}}
    return _TEMPLATE.sub(reader, text)


def show_loose_templates(text: str, reader: Reader) -> str:
    """Replace the innermost templates with their rendered text, including templates that contain single braces.

    Args:
        text: Wikitext.
        reader: Renders a match of a template (see `build_template_reader`).
    """
    return _LOOSE_TEMPLATE.sub(reader, text)
