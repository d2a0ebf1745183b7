"""Templates that no table names: what they show, judged by their position and contents.

Promise: a template unknown by name shows its words if it is a part of a sentence, in any wiki. It is one after a space,
an opening bracket or quotation mark, an elision or a letter of a script without spaces; at the beginning of a line if
the sentence continues after it in lower case. Then it shows the text of its second argument if the first is the code of
a language, a number with its unit, or else its first argument. What follows a word without a space is a note or a mark,
and shows nothing; so does a template that is the only thing on its line, unless it holds a whole paragraph. If a
sentence needs a word there, and there is none to show, the hole is marked. A bracket or else the sentence with a marked
hole is dropped by `without_holes`: no sentence has a hole in place of a number. Cost: nothing for known templates, a
look at the text around each of the others.

Source: read off the templates that real pages of twenty languages use in their sentences.
"""
# ruff: noqa: RUF001, RUF002 - the tables hold signs that resemble ASCII

import re
from typing import NamedTuple

from corpora.sources.wiki.wikitext.arguments import (
    HOLE,
    group_digits,
    is_number,
    read_arguments,
    to_english_number,
    to_local,
)
from corpora.sources.wiki.wikitext.measures import find_unit, raise_powers
from corpora.sources.wiki.wikitext.wikis import ALL_WIKIS, list_words_before_others, read_wiki
from corpora.sources.wiki.wikitext.words import (
    format_date_in_language,
    is_language_code,
    show_free_date,
    show_in_language,
)

MAX_BRACKETS = 4  # one inside another
MAX_EXAMPLE_CHARACTERS = 80
MAX_ICON_NAME = 3  # such as the code of a language, after a link
_CONTEXT_CHARACTERS, _MAX_LINE_CHARACTERS = 60, 2_000
_CELLS = ("|", "!", " |", "  |", "{|")  # how a line of a table begins, or of a box
_CURRENCIES = "$£€¥"
_OPENINGS = " '\"“«(„‘‹「『（《〈[–—，、；："
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_ELISION = re.compile(r"(?:\b(?:[ldnsmtcjLDNSMTCJ]|qu|Qu|dell|all|nell|sull|dall|un|quell)['’]|\b\w{1,3}-|[/=])$")
_SENTENCE_GOES_ON = re.compile(r"[^\S\n]*(?:[,;:)]|[^\W\d_])")
_ORDINAL = re.compile(
    r"(?:[IVXLC]{1,7}|[0-9]{1,4})(?:er|ère|re|e|è|ème|nd|nde|º|ª|°|th|st|rd|vet|añ)"
    r"(?:[ -](?:siècle|millénaire|arrondissement|janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre"
    r"|novembre|décembre)[^|]*)?"
)
_LANGUAGE_TEMPLATE = re.compile(r"(?!ipa|cite|pron|ref|audio|icon|user)[^\W\d_]{1,10}-([a-z]{2,3})")
_GERMAN_LANGUAGE = re.compile(r"([a-z]{2,3})S")
_BARS = re.compile(r"\s+\|\s+")
_NAMES = {what: re.compile(_BARS.sub("|", pattern.strip())) for what, pattern in read_wiki(ALL_WIKIS).names.items()}
_SPACE = re.compile(r"\s+")
_NOT_WORDS = re.compile(r"(?i)://|\.(?:ogg|oga|wav|svg|png|jpe?g|gif|webm|mid)\b")
_CODE = re.compile(r"(?![IVXLC]+$)[A-Z]{1,3}(?:-?[A-Z0-9]+)*|[a-z]{1,2}|[A-Za-z]?[0-9][\w.-]*")
_YEAR = re.compile(r"[12][0-9]{3}")
_SHOWN_IN_LINE = re.compile(r"(?i)\|\s*(?:display|vis|text|format|affichage)\s*=\s*(?:inline|tekst|text|dms|d)\b")
_NAME = re.compile(r"[^\W\d_]{2}[\w' -]{2,30}")  # of a country, after that of a town
_UNIT_NAMES = frozenset("km m cm mm kg g t ha km2 m2 km² m² m3 kw mw gw km/h °c".split())
_POWERS = ("²", "³")
_NAMED_WORDS = ("text", "texte", "texto", "testo", "tekst", "текст", "ziel")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_SIGN = re.compile(r"[²³°]|\w\.\s*$")  # in the name of a template that shows its name: "km²", "etc."
_SHORT_UNIT = re.compile(r"[^\W\d_]{1,4}[23²³]?(?:/[^\W\d_]{1,4}[23²³]?)?|[%‰°]C?")
_PARAGRAPH = re.compile(r"(?:\S++\s++){11,}+\S*(?<=[.!?…»”\"])|(?s:.{30,})(?<=。)")
_HOLE = HOLE[-1]
_HOLE_IN_BRACKETS = re.compile(rf" ?\([^()\n{_HOLE}]*+{_HOLE}[^()\n]*+\)")
_SENTENCE_END = re.compile(
    r"(?<=[.!?…。])[\"”»)]{0,2}\s+(?=[\"“«(]{0,2}[^\W\d_a-zß-ÿ])|(?<=[。！？])(?![。！？」』）”])"
)


class UnknownTemplate(NamedTuple):
    """A use of a template that is missing from all template tables.

    Attributes:
        name: The template's name in lower case.
        used: The template as it appears in the page, shortened.
        shown: The text that replaced it, or `HOLE`.
    """

    name: str
    used: str
    shown: str

    @property
    def example(self) -> str:
        """The template as it appears in the page and the text that replaced it, for messages."""
        if self.shown == HOLE:
            return f"{self.used} took its sentence or bracket with it"
        outcome = f"“{self.shown[:MAX_EXAMPLE_CHARACTERS]}”" if self.shown else "nothing"
        return f"{self.used} is read as {outcome}"


class _Surroundings(NamedTuple):
    """The text around a template on its line, and how the sentence depends on the template.

    Attributes:
        before: Up to 60 characters before the template.
        after: Up to 60 characters after the template.
        is_alone: True if nothing else is on the line.
        is_in_sentence: True if the rendered template is part of a sentence.
        is_needed: True if the sentence is incomplete without the template.
    """

    before: str
    after: str
    is_alone: bool
    is_in_sentence: bool
    is_needed: bool


def show_unknown(body: str, text: str, start: int, wiki: str, unknown: list[UnknownTemplate]) -> str:
    """Render a template that is missing from all template tables, by guessing from its position and contents.

    Args:
        body: The template without its braces.
        text: The page.
        start: Index of the template's first brace in `text`.
        wiki: The wiki's language code.
        unknown: If the template is in a sentence, it is appended to this list, with the text that replaces it.
    """
    name = body.partition("|")[0].strip()
    if _ORDINAL.fullmatch(name):
        return " ".join([name, *read_arguments(body)[0][:1]])
    code = _LANGUAGE_TEMPLATE.fullmatch(name.lower()) or _GERMAN_LANGUAGE.fullmatch(name)
    if code and read_wiki("en").find_language(code[1]):
        arguments, named = read_arguments(body)
        if len(arguments) != 1:
            return ""
        return arguments[0] if wiki == "en" else show_in_language([code[1], *arguments], named, wiki)
    name = name.lower().replace("_", " ")
    around = _read_surroundings(text, start, start + len(body) + 4, wiki)
    if around.is_alone:
        return _show_paragraph(name, body, text, start)
    if around.before[-1:] == " " and around.after.startswith("<su"):
        return HOLE  # the letter of a formula, before its index
    if "{{#" in around.before or not (around.is_in_sentence or around.is_needed):
        return ""
    if _NAMES["coordinates"].match(name):
        return (_show_coordinates(body) or HOLE) if around.is_needed or _SHOWN_IN_LINE.search(body) else ""
    if name.startswith("#") or ":" in name or _NAMES["silent"].search(name) or _NOT_WORDS.search(body):
        return ""
    if _NAMES["sounds"].match(name):
        return _show_sounds(body) if around.before[-2:-1].isalpha() and around.before[-1:] == " " else ""
    shown = _show_words(name, body, around, wiki)
    if shown is None:
        return ""
    if not text.startswith(_CELLS, text.rfind("\n", max(0, start - _MAX_LINE_CHARACTERS), start) + 1):
        used = _SPACE.sub(" ", body[: 4 * MAX_EXAMPLE_CHARACTERS].replace(HOLE, "?"))[:MAX_EXAMPLE_CHARACTERS]
        unknown.append(UnknownTemplate(name, f"{{{{{used}}}}}", shown))
    return shown


def _read_surroundings(text: str, start: int, end: int, wiki: str) -> _Surroundings:
    """Analyze the text around the template at `text[start:end]` of a page. `wiki` is the wiki's language code."""
    before = text[max(0, start - _CONTEXT_CHARACTERS) : start].rpartition("\n")[2]
    after = text[end : end + _CONTEXT_CHARACTERS].partition("\n")[0]
    is_needed = _needs_more(before, wiki)
    bare = before.strip("*#:; \t'")
    if not bare:
        goes_on = _SENTENCE_GOES_ON.match(after)
        is_in_sentence = goes_on is not None and not goes_on[0][-1].isupper() and not _is_caseless(goes_on[0][-1])
        return _Surroundings(before, after, not after.strip(), is_in_sentence, is_needed)
    last = (before.rstrip("'") if before.endswith("''") else before)[-1:]
    is_in_sentence = last in _OPENINGS or bool(_SPACELESS.match(last) or _ELISION.search(before[-8:]))
    is_in_sentence = is_in_sentence or (last in "。！？" and after[:1] not in ("", " ", "{", "<"))
    return _Surroundings(before, after, False, is_in_sentence, is_needed)


def _is_caseless(letter: str) -> bool:
    """Return True for a letter of a script without upper and lower case."""
    return letter.isalpha() and letter.lower() == letter.upper()


def _needs_more(before: str, wiki: str) -> bool:
    """Return True if a word must follow a text: it ends with a currency sign, or with a preposition and a space.

    `wiki` is the language code of the wiki that the text is from.
    """
    if before[-1:] in _CURRENCIES:
        return before != ""
    bare = before.rstrip(_OPENINGS)
    last = bare[bare.rfind(" ") + 1 :].lower()
    return " " in before[len(bare) :] and last in list_words_before_others(wiki)


def _show_sounds(body: str) -> str:
    """Return the pronunciation in `{{IPA|/a/}}` or `{{API|a|b}}`; "" for other pronunciation templates."""
    arguments = read_arguments(body)[0]
    return "".join(arguments) if len(arguments) == 1 or "api" in body.partition("|")[0].lower() else ""


def _show_coordinates(body: str) -> str:
    """Render `{{coord|13|19|N|169|9|W|type:event}}` as 13°19′N 169°9′W. `body` is the template without its braces.

    Decimal degrees are rendered without letters. Return "" if there are no numbers.
    """
    parts: list[str] = []
    numbers: list[str] = []
    for argument in read_arguments(body)[0]:
        if argument.upper() in ("N", "S", "E", "W", "O"):
            parts.append("".join(map("".join, zip(numbers, "°′″", strict=False))) + argument.upper())
            numbers = []
        elif is_number(argument) and len(numbers) < 3:
            numbers.append(argument)
    return " ".join(parts) if parts else ", ".join(f"{number}°" for number in numbers[:2])


def _show_paragraph(name: str, body: str, text: str, start: int) -> str:
    """Return the paragraph in a template that is alone on its line.

    Return "" if the template follows a heading, because it is then a note about the page.

    Args:
        name: The template's name in lower case.
        body: The template without its braces.
        text: The page.
        start: Index of the template's first brace in `text`.
    """
    if _NAMES["silent"].search(name) or not (arguments := read_arguments(body)[0]):
        return ""
    previous = text[max(0, start - _MAX_LINE_CHARACTERS) : start].rstrip().rpartition("\n")[2]
    is_paragraph = _PARAGRAPH.fullmatch(arguments[0].strip()) and not _NOT_WORDS.search(arguments[0])
    return arguments[0] if is_paragraph and previous and not previous.startswith("=") and previous[-2:] != "}}" else ""


def _show_words(name: str, body: str, around: _Surroundings, wiki: str) -> str | None:
    """Return the rendered text of a template in a sentence; None if the template contains no words.

    If the text is unclear, return `HOLE` if the sentence needs a word there, else "".

    Args:
        name: The template's name in lower case.
        body: The template without its braces.
        around: The text around the template.
        wiki: The wiki's language code.
    """
    positional, named = read_arguments(body)
    arguments = [argument for argument in (*positional, *map(named.get, _NAMED_WORDS)) if argument]
    hole = HOLE if around.is_needed or _is_between_words(around) else ""
    if not arguments:
        if named:
            return ""
        if positional or (len(name) <= MAX_ICON_NAME and not around.is_needed):
            return None
        is_place_name = _NAME.fullmatch(body) and body[0].isupper() and around.before.rstrip("'").endswith(", ")
        return body.strip() if is_place_name or _SIGN.search(body) else hole
    shown = arguments[0]
    if len(arguments) > 1 and is_language_code(shown):
        return arguments[1]
    if is_number(to_english_number(shown, wiki)):
        unit = body.partition("|")[0].strip()
        if name in _UNIT_NAMES:
            return _show_number([shown, unit], wiki, hole)
        is_currency = len(arguments) == 1 and _NAMES["currencies"].fullmatch(unit)
        return _show_number([*arguments, unit] if is_currency else arguments, wiki, hole)
    if _ISO_DATE.fullmatch(shown):
        return format_date_in_language(show_free_date([shown], {}), wiki)
    is_code = _CODE.fullmatch(shown) and not (
        around.is_needed and len(shown) > 1 and (shown.isalpha() or shown[0].isdigit())
    )
    return hole if is_code else shown


def _show_number(arguments: list[str], wiki: str, hole: str) -> str:
    """Render a number with its unit, or a date that consists of three arguments.

    If the arguments are unclear, return `hole`.

    Args:
        arguments: The number as the wiki writes it, and possibly a unit and more.
        wiki: The wiki's language code.
        hole: `HOLE` if the sentence needs a word here, otherwise "".
    """
    number, second = to_english_number(arguments[0], wiki), arguments[1] if len(arguments) > 1 else ""
    if len(arguments) > 2 and is_number(arguments[2]) and not (find_unit(second) or second[-1:] in _POWERS):
        form, month = read_wiki(wiki), second.lower()
        if month in (months := form.months.lower().split()):
            return form.date.format(day=number, month=second, number=months.index(month) + 1, year=arguments[2])
        date = show_free_date(arguments[:3], {})
        return format_date_in_language(date, wiki) if not date.startswith(arguments[0] + " " + second) else hole
    if _YEAR.fullmatch(number) and _YEAR.fullmatch(second):
        return f"{number}–{second}"
    if not second or is_number(second):
        return to_local(number, wiki)
    unit = raise_powers(second)
    is_unit = find_unit(second) is not None or _SHORT_UNIT.fullmatch(unit)
    return f"{to_local(group_digits(number), wiki)} {unit}" if is_unit else hole or to_local(number, wiki)


def _is_between_words(around: _Surroundings) -> bool:
    """Return True if a template is between two spaces in a sentence that continues, so that a word belongs there."""
    return around.before[-1:] == " " and around.after[:1] == " " and around.after[1:2].islower()


def without_holes(text: str) -> str:
    """Remove brackets that contain a `HOLE`, the mark for an unknown text, and sentences with a `HOLE` elsewhere.

    In a heading, only the `HOLE` is removed.
    """
    if _HOLE not in text:
        return text
    return "\n".join(_drop_holes(line) if _HOLE in line else line for line in text.split("\n"))


def _drop_holes(line: str) -> str:
    """Remove, from one line, brackets that contain a `HOLE`, and sentences with a `HOLE` elsewhere.

    In a heading, only the `HOLE`, the mark for an unknown text, is removed.
    """
    for _ in range(MAX_BRACKETS):
        line = _HOLE_IN_BRACKETS.sub("", line)
    if _HOLE not in line:
        return line
    if line.startswith("="):
        return line.replace(HOLE, "")
    kept, start = [], 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(line)), len(line)]:
        if _HOLE not in line[start:end]:
            kept.append(line[start:end])
        start = end
    return "".join(kept).rstrip()
