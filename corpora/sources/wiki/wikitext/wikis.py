"""How each wiki writes numbers, dates, quotations and languages, and what its templates show: files in `wikis/`.

Promise: a wiki is one file, `wikis/de.toml`, that needs no code: a template is added by its name, in lower case, after
the kind of what it shows (the keys of `EXPANSIONS` in `templates.py`). `all.toml` has the templates that mean the same
everywhere. A wiki without a file has those and what is not ambiguous in the files of the others.

A file's keys; each is omitted if the wiki writes as English does:

    also             codes of wikis without a file that have these numbers and templates, but other words; `all.toml`
                     has those that write as English does, and all titles of sections of wikis without a file
    group, decimal   the marks between thousands and before decimals; lakhs: 12,34,567; grouped_from: digits
    digits           the ten digits, if they are not 0 to 9
    quotes           the two marks of a quotation, and a dot between them
    months           twelve names, as they are in a date; date, month: its forms, with {day}, {month}, {number}, {year}
    files_and_categories   the namespaces with links that show nothing; apparatus: titles of sections without prose
    disambiguation   templates of pages that list the meanings of their title, except those of `all.toml`
    variants         codes of the scripts or countries in -{code:words}-; the first that is there is shown
    before_a_word    words after which a sentence cannot end: articles and prepositions
    in_language      how foreign words are written, with {language} and {words}; [languages]: their names, by code
    [templates]      what a template shows -> its names, between bars; [names] of `all.toml`: patterns of unknown ones
    [before], [after], [symbols]   a template's name -> what is before or after its first argument, or is all of it
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files

_FOLDER = files("corpora").joinpath("sources", "wiki", "wikitext", "wikis")
ALL_WIKIS = "all"
_BAR = re.compile(r"\s\|\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiki:
    """The language-specific conventions of a wiki, read from a file in `wikis/`. The defaults are those of English.

    The fields are described at the top of this module.
    """

    also: str = ""
    group: str = ","
    decimal: str = "."
    lakhs: bool = False
    grouped_from: int = 4
    digits: str = "0123456789"
    quotes: str = "“.”"
    months: str = ""
    date: str = "{day} {month} {year}"
    month: str = "{month} {year}"
    files_and_categories: str = ""
    apparatus: str = ""
    disambiguation: str = ""
    variants: str = ""
    before_a_word: str = ""
    in_language: str = "{words}"
    languages: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)

    def map_template_kinds(self) -> dict[str, str]:
        """Map the lower-case name of each template of the wiki to its kind, a key of `EXPANSIONS`."""
        return {name: kind for kind, names in self.templates.items() for name in _split_at_bars(names)}

    def find_language(self, code: str) -> str:
        """Return the name of the language with a code such as "de" or "zh-Hant", in this wiki's language.

        Return "" if the wiki's file does not list the language.
        """
        code = code.lower()
        return self.languages.get(code) or self.languages.get(code.partition("-")[0], "")


def _split_at_bars(names: str) -> list[str]:
    """Split a string at bars with white space around them into a list of nonempty names."""
    return [name.strip() for name in _BAR.split(names) if name.strip()]


@lru_cache(maxsize=1)
def list_codes() -> frozenset[str]:
    """List the language codes of the wikis that have a file, except "all"."""
    return frozenset(path.name.removesuffix(".toml") for path in _FOLDER.iterdir()) - {ALL_WIKIS}


@lru_cache(maxsize=128)
def read_wiki(code: str) -> Wiki:
    """Read the conventions of a wiki from its own file or from that of a related language.

    A code such as "zh-yue" falls back to its first part, "zh". If another wiki's file is used, the month and language
    names in it are omitted. If there is no matching file, the defaults are returned.

    >>> read_wiki("de").decimal, read_wiki("zh-yue").month, read_wiki("tlh").group
    (',', '{year}年{number}月', ',')
    """
    known = list_codes() | {ALL_WIKIS}
    name = next((name for name in (code, _map_relatives().get(code, ""), code.partition("-")[0]) if name in known), "")
    if not name:
        return Wiki()
    wiki = _read_file(name)
    return wiki if code.startswith(name) else replace(wiki, languages={}, months="", in_language="{words}")


@lru_cache(maxsize=1)
def list_known_codes() -> frozenset[str]:
    """List the language codes of all wikis that have a file or are named in another wiki's file."""
    return list_codes() | _map_relatives().keys() | {*_read_file(ALL_WIKIS).also.split()}


def _read_file(name: str) -> Wiki:
    """Read the conventions in `wikis/NAME.toml`."""
    return Wiki(**tomllib.loads(_FOLDER.joinpath(f"{name}.toml").read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def _map_relatives() -> dict[str, str]:
    """Map the codes of languages without a file to the code of the related language whose file they use."""
    return {relative: code for code in sorted(list_codes()) for relative in _read_file(code).also.split()}


@lru_cache(maxsize=1)
def list_hidden_namespaces() -> frozenset[str]:
    """List the lower-case names of the file and category namespaces in all wikis."""
    return frozenset(name for code in list_codes() for name in _split_at_bars(read_wiki(code).files_and_categories))


@lru_cache(maxsize=128)
def list_disambiguation_templates(wiki: str) -> frozenset[str]:
    """List the lower-case names of the templates that mark disambiguation pages in this wiki or in all wikis."""
    return frozenset(name for code in (wiki, ALL_WIKIS) for name in _split_at_bars(read_wiki(code).disambiguation))


@lru_cache(maxsize=128)
def list_words_before_others(wiki: str) -> frozenset[str]:
    """List the words that cannot end a sentence in this wiki, such as articles and prepositions, in lower case.

    The list includes such words of the largest wikis.
    """
    return frozenset(word for code in (wiki, ALL_WIKIS) for word in read_wiki(code).before_a_word.split())


@lru_cache(maxsize=128)
def list_apparatus_titles(wiki: str) -> frozenset[str]:
    """List the lower-case titles of sections without prose, such as "references" or "external links".

    The list contains the titles for this wiki and the English titles, or those of all wikis if this wiki has none.
    """
    has_own = wiki in list_codes() - {"en"} and read_wiki(wiki).apparatus
    codes = [wiki, "en"] if has_own else sorted(list_codes() | {ALL_WIKIS})
    return frozenset(title for code in codes for title in _split_at_bars(read_wiki(code).apparatus))


@lru_cache(maxsize=1)
def find_common_kinds() -> dict[str, str]:
    """Map template names to kinds, for all names that stand for the same kind of template in every wiki.

    Names in the English wiki only, and names of one or two characters, are omitted.
    """
    kinds: dict[str, str] = {}
    clashes = set()
    for code in sorted(list_codes() - {"en"}):
        for name, kind in read_wiki(code).map_template_kinds().items():
            if kinds.setdefault(name, kind) != kind:
                clashes.add(name)
    return {name: kind for name, kind in kinds.items() if name not in clashes and len(name) > 2}
