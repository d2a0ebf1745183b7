"""Wikitext, step 3: templates that carry text, by name.

Promise: a template shows what its expansion or its symbol says, and nothing where the name is not known here.
The patterns match templates without templates inside, so that the innermost fall first. Names mean what they mean in
the page's wiki, whose numbers and dates are written as it writes them: a wiki is named by its code, such as "de".

Source: the documentation of the templates of the English Wikipedia, and mediawiki.org/wiki/Help:Magic_words.
"""
# ruff: noqa: RUF001 - the tables hold dashes and signs that resemble ASCII

import re
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files

from corpora.sources.wiki.wikitext import dates, measures, words
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
from corpora.sources.wiki.wikitext.unknown import unknown_template

_TEMPLATE = re.compile(r"\{\{([^{}]*+)\}\}")
_LOOSE_TEMPLATE = re.compile(r"\{\{([^{}]*+(?:(?:\{(?!\{)|\}(?!\}))[^{}]*+)*+)\}\}")
_PARAMETER = re.compile(r"\{\{\{([^{}]*+)\}\}\}")
_FUNCTION = re.compile(r"\s*(formatnum|lc|uc|lcfirst|ucfirst|#expr|#time|#timel)\s*:(.*)", re.DOTALL | re.IGNORECASE)


def _named(expansion: Expansion, names: str) -> dict[str, Expansion]:
    return dict.fromkeys(names.split("|"), expansion)


_SYMBOLS = {
    "nbsp": " ", "spaces": " ", "space": " ", "thinsp": " ", "thin space": " ", "hairsp": " ", "pad": " ",
    "snd": " – ", "spnd": " – ", "sndash": " – ", "spaced ndash": " – ", "spaced en dash": " – ",
    "ndash": "–", "en dash": "–", "endash": "–", "dash": "–", "mdash": "—", "em dash": "—", "emdash": "—",
    "mdashb": "—", "snd-": " – ", "smd": " — ", "spaced mdash": " — ", "spaced em dash": " — ", "·": " ·",
    "•": " •", "dot": " ·", "middot": "·", "bull": " •", "'": "'", "'s": "'s", "`": "'", "-'": "'",
    "'-": "'", "' \"": "' \"", "\" '": "\" '", "-\"": "\"", "\"-": "\"", "=": "&#61;", "!": "&#124;",
    "!!": "&#124;&#124;", "times": "×", "minus": "−", "pi": "π", "okina": "ʻ", "hamza": "ʼ",
    "ayin": "ʽ", "shy": "", "zwsp": "", "wbr": "", "co2": "CO2", "h2o": "H2O", "!-": "&#124;", "bc": "BC",
    "ad": "AD", "ordinal indicator": "º", "sic": "", "euro": "€", "pound": "£", "number sign": "#",
    "usa": "United States", "ampersand": "&", "colon": ":", "asterisk": "*", "deg": "°", "degree": "°",
    "snds": " – ", "esd": " ", "nb": " ", "nnbsp": " ", "figure space": " ", "hair space": " ", "indent": " ",
    "eqm": " ⇌ ", "amp": "&", "&": "&", "(": "&#123;", ")": "&#125;", "!(": "&#91;", ")!": "&#93;", "ellipsis": "…",
    "...": "…", "…": "…", "percent": "%", "yen": "¥", "male": "♂", "female": "♀", "infin": "∞", "hbar": "ħ",
    "dagger": "†", "rarr": "→", "larr": "←", "er": "er", "re": "re", "ère": "ère", "ème": "ème", "nd": "nd", "o": "o",
    "mme": "Mme", "mlle": "Mlle", "mgr": "Mgr", "dr": "Dr", "n°": "n°", "nº": "nº", "numéro": "n°",
    "av jc": "av. J.-C.",
    "av. j.-c.": "av. J.-C.", "apr. j.-c.": "apr. J.-C.", "a.c.": "a. C.", "d.c.": "d. C.",
    "currentyear": HOLE, "currentmonth": HOLE, "currentmonthname": HOLE, "currentday": HOLE, "localyear": HOLE,
    "numberofarticles": HOLE, "numberofusers": HOLE, "numberofpages": HOLE, "pagename": HOLE, "fullpagename": HOLE,
    "subpagename": HOLE,
    "prime": "′", "plus": "+", "plusminus": "±", "numero": "No.",
    "end": "\n|}\n", "s-start": "\n{|\n", "s-end": "\n|}\n", "start box": "\n{|\n", "end box": "\n|}\n",
    "poss": "'s",
}  # fmt: skip
_SHIPS = "USS HMS SS RMS AD MV MS SMS RV HMAS HMCS HMNZS USCGC USNS INS PS TSS GTS HNLMS HSwMS HDMS HNoMS ORP".split()
_EXPANSIONS: dict[str, Expansion] = (
    _named(
        first,
        "nowrap|nobr|nobreak|nwr|j|small|smaller|big|larger|large|resize|nobold|noitalic|normal|em|strong|abbr"
        "|abbrv|abbreviation|tooltip|as written|not a typo|typo|proper name|visible anchor|vanchor|mvar|math"
        "|mono|monospace|code|tt|samp|var|kbd|smallcaps|sc|small caps|underline|u|bold|b|strikethrough|center"
        "|centre|block indent|indent|noprint|delink|highlight|url"
        "|plain|flag|flagcountry|flagu|sub|gloss|angbr"
        "|angle bracket|grapheme|polytonic|iast|unicode|hebrew|nastaliq|nq|tlit|script/hebrew|script/arabic"
        "|birth year and age|birth-date|birth-date and age|death-date|death-date and age|rtl|lsj"
        "|formatdate|sic|native phrase|baseball year|chem2|isotope|see below|fb|nft|mlby|nfly|nbay|nhly|by|wsy"
        "|nfl year|overline|intmath|bigmath|subsup|ind|latin|stn|gs|notatypo|small-caps|sc1|text|date-"
        "|date court|siècle|unq|jour|нп|нп2|нп3|нп5|не переведено|仮リンク|enlace|iw|tsl2|japonais|grec ancien|höhe",
    )
    | _named(
        words.second,
        "lang|rtl-lang|sort|hs|wikt-lang|native name|color|font color|hover title|langue|en langue|lang-forme|langx2",
    )
    | _named(words.last, "transl|transliteration|script|linktext")
    | _named(words.joined, "chem|chemf|gaps")
    | _named(words.spaced, "nombre|bibleverse|bibleref|sortname|keypress|art.")
    | _named(words.measured, "unité|unite|unidad|unidade|unità|m|tmp|température|einheit|eenheid|число")
    | _named(words.first_three, "date de naissance|date de décès|date de mort|date républicaine")
    | _named(words.hours, "heure|heures")
    | _named(words.century, "s|s-|s2|s2-|sp|sp-|s mini|s mini-|siècle2")
    | _named(words.century_before, "-s|-s-|s av jc")
    | _named(words.aside, "incise")
    | _named(words.quoted, 'citation|"|« »|quote inline|inline quote|citation étrangère')
    | _named(words.old_style, "oldstyledate|oldstyledatedy|oldstyledateny")
    | _named(words.ship_class, "sclass|sclass2|sclass-")
    | _named(words.roads, "jct")
    | _named(words.authors, "harvtxt|harvcoltxt|harvard citation text")
    | _named(words.listed, "post-nominals|postnominals|post nominals|hlist|ubl|unbulleted list")
    | _named(words.unknowable, "inflation|to usd|inrconvert2|years ago|age in days|age in years and days|alter|edad")
    | _named(words.unknowable, "time ago|inflation-year|inflation/year|population wd|wikidata")
    | _named(words.language, "langx")
    | _named(
        words.quote,
        "quote|blockquote|cquote|quotation|bquote|rquote|poemquote|poem quote|block quote|poem"
        "|zitat|cita|cita textual|citazione|cytat|citado|citaat|citation bloc|citat",
    )
    | _named(words.nihongo, "nihongo|nihongo2|nihongo3")
    | _named(words.chinese, "zh|zh-all")
    | _named(words.interlanguage, "ill|illm|interlanguage link|interlanguage link multi|link-interwiki|lien")
    | _named(words.circa, "circa|c.|ca.|c")
    | _named(words.reign, "reign|r.")
    | _named(words.floruit, "floruit|fl.")
    | _named(words.fraction, "frac|fraction|sfrac|tfrac")
    | _named(measures.value, "val")
    | _named(words.power_of_ten, "e|x10^|10^|esp")
    | _named(words.ordinal, "ordinal|ord")
    | _named(words.superscript, "sup|superscript|exp")
    | _named(words.formatted, "formatnum|nts|number|num|fmtn|format price|formatprice|fnum|nombre2")
    | _named(words.literally, "lit|lit.|literally|literal translation")
    | _named(words.ship, "ship")
    | _named(words.accidental, "music")
    | _named(dates.event, "birth date|birth date and age|bda|dob|start date|start date and age|end date|film date")
    | _named(dates.event, "release date|death date|death year|birth year|end date and age|date and age|dts")
    | _named(dates.death, "death date and age|dda")
    | _named(dates.free_date, "date|datum|dmy|mdy")
    | _named(dates.as_of, "as of|asof")
    | _named(dates.years_between, "age|age in years|age nts|idade|âge")
    | _named(dates.day_month_year, "dtext|dtlink|fecha|dni")
    | _named(measures.convert, "convert|cvt|conv|convertir|converter|convers")
    | _named(measures.height, "height")
    | _named(measures.people_by_area, "pop density|population density|popdens")
    | _named(words.currency, "currency")
    | {prefix.lower(): words.prefixed(f"{prefix} ") for prefix in _SHIPS}
    | {
        "bc": words.suffixed("BC"),
        "bce": words.suffixed("BCE"),
        "ce": words.suffixed("CE"),
        "sqrt": words.prefixed("√"),
        "radic": words.prefixed("√"),
        "née": words.prefixed("née "),
        "nee": words.prefixed("née "),
        "§": words.prefixed("§ "),
        "m.": words.prefixed("M. "),
        "rws": words.suffixed("railway station"),
        "n°": words.prefixed("n° "),
        "numéro": words.prefixed("n° "),
    }
    | {code: words.prefixed(symbol) for code, symbol in words.CURRENCIES.items()}
)


# Names of templates that mean something in one wiki alone, by what they show.
_SHOWN_AS: dict[str, Expansion] = {
    "first": first, "second": words.second, "last": words.last, "spaced": words.spaced, "measure": words.measured,
    "number": words.formatted, "unknown": words.unknowable, "fraction": words.fraction, "quote": words.quote,
    "quoted": words.quoted, "reading": words.reading, "date": dates.event, "days": dates.day_first,
    "dates": words.life, "height": words.metres, "nothing": words.nothing, "bare": words.bare,
}  # fmt: skip


def _names_of_wikis() -> dict[str, dict[str, Expansion]]:
    """The templates of `names.txt`, by wiki."""
    text = files("corpora").joinpath("sources", "wiki", "wikitext", "names.txt").read_text(encoding="utf-8")
    wikis: dict[str, dict[str, Expansion]] = {}
    for wiki, kind, names in (line.split(" ", 2) for line in text.splitlines() if line[0] != "#"):
        wikis.setdefault(wiki, {}).update(_named(_SHOWN_AS[kind], names))
    return wikis


_OF_WIKI = _names_of_wikis()


_NUMBERS = (
    words.measured, words.formatted, words.metres, measures.value, measures.convert, measures.height,
    measures.people_by_area,
)  # fmt: skip
_DATES = (dates.event, dates.death, dates.free_date, dates.as_of)


@lru_cache(maxsize=64)
def _expansions_of(wiki: str) -> dict[str, Expansion]:
    """The templates that are known in a wiki, and what they show there."""
    if wiki == "en":
        return _EXPANSIONS
    expansions = {**_EXPANSIONS, "langx": words.bare, "lit": first, "literally": first, "lit.": first}
    expansions |= _OF_WIKI.get(wiki, {})
    return {name: _local(expansion, wiki) for name, expansion in expansions.items()}


def _local(expansion: Expansion, wiki: str) -> Expansion:
    """An expansion with the numbers and dates that it writes in the form of a wiki."""
    if expansion in _NUMBERS:

        def with_numbers(arguments: list[str], named: Named) -> str:
            return in_form(expansion([in_english(argument, wiki) for argument in arguments], named), wiki)

        return with_numbers
    if expansion in _DATES:
        return lambda arguments, named: dates.in_language(expansion(arguments, named), wiki)
    if expansion is words.quoted:
        return lambda arguments, named: in_quotes(expansion(arguments, named), wiki)
    return expansion


@lru_cache(maxsize=64)
def _reader(wiki: str) -> Callable[[re.Match[str]], str]:
    """`_shown` for a wiki: its table is looked up once, not with each template."""
    expansions = _expansions_of(wiki)
    return lambda match: _shown(match, expansions, wiki)


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


def _shown(match: re.Match[str], expansions: dict[str, Expansion], wiki: str) -> str:
    """Return what a template without inner templates shows: nothing, unless it is known to carry text."""
    body = match[1]
    name = body.partition("|")[0].strip().lower()
    if "_" in name:
        name = name.replace("_", " ")
    expansion = expansions.get(name)
    if expansion is not None and ("|" in body or name not in _SYMBOLS):
        return expansion(*read_arguments(body))
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    if name.startswith("lang-"):
        arguments, named = read_arguments(body)
        shown = expansions["langx"]([name.removeprefix("lang-"), *arguments], named)
        return shown if arguments else ""
    call = _FUNCTION.fullmatch(body) if ":" in name else None
    return _function(call, wiki) if call else unknown_template(body, match.string, match.start(), wiki)


def _default(match: re.Match[str]) -> str:
    """A template's parameter outside its template shows its default, `{{{name|default}}}`."""
    return match[1].partition("|")[2]


def show_templates(text: str, wiki: str = "en") -> str:
    """`text` with its innermost templates replaced by what they show."""
    if "{{{" in text:
        text = _PARAMETER.sub(_default, text)
    return _TEMPLATE.sub(_reader(wiki), text)


def show_loose_templates(text: str, wiki: str = "en") -> str:
    """The same where single braces are in the way."""
    return _LOOSE_TEMPLATE.sub(_reader(wiki), text)
