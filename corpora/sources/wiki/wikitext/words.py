"""Templates that write words, numbers, dates and ages: `{{langx|ru|...}}`, `{{circa|1900}}`, `{{birth date|1950|1|2}}`.

Promise: each function returns the text that the template of its name shows. If arguments are missing there is less
text, never an error. Nothing depends on the day of reading, so an age that would is left out; an impossible month or
day leaves the rest as it is. Which names of templates lead to which function is in `templates` and in the files of
`wikis/`.

Source: the documentation of the templates of the English Wikipedia.
"""

import re

from corpora.sources.wiki.wikitext.arguments import (
    HOLE,
    Expansion,
    Named,
    group_digits,
    is_number,
    show_first,
    to_superscript,
)
from corpora.sources.wiki.wikitext.measures import raise_powers
from corpora.sources.wiki.wikitext.wikis import ALL_WIKIS, read_wiki

# ruff: noqa: RUF001, RUF002 - the tables hold dashes and signs that resemble ASCII


_SHOWN_TITLES = ("lt", "display", "label", "en", "texte", "tekst", "نص")
_SINCE = re.compile(r"[0-9./-]+|(?:[0-9]{1,2}\.? )?(?:de )?[^\W\d_]+\.? (?:de )?[12][0-9]{3}")


def show_second(arguments: list[str], named: Named) -> str:
    """Return the second positional argument, or else the named argument `texte` or `text`; "" if there is none."""
    return arguments[1] if len(arguments) > 1 else named.get("texte") or named.get("text") or ""


def show_last(arguments: list[str], named: Named) -> str:
    """Return a template's last positional argument; "" if there is none."""
    return arguments[-1] if arguments else ""


def show_joined(arguments: list[str], named: Named) -> str:
    """Join a template's positional arguments without spaces."""
    return "".join(arguments)


def show_spaced(arguments: list[str], named: Named) -> str:
    """Join a template's positional arguments with spaces."""
    return " ".join(arguments)


def show_quote(arguments: list[str], named: Named) -> str:
    """Return the text of a quotation template as a separate paragraph, with blank lines around it."""
    text = named.get("text") or named.get("quote") or (arguments[0] if arguments else "")
    return f"\n\n{text}\n\n"


def show_language(arguments: list[str], named: Named) -> str:
    """Render `{{langx|ru|Москва}}`: the language's name and the words, with their romanization if it is given."""
    shown = show_in_language(arguments, named, "en")
    roman = arguments[2] if len(arguments) > 2 else named.get("translit", "")
    return shown + (f", romanized: {roman}" if roman and shown and len(arguments) > 1 else "")


def is_language_code(code: str) -> bool:
    """Return True if a string is the code of a language listed in the English file, such as "de" or "zh-Hant"."""
    return re.fullmatch("[a-z]{2,3}(?:-[A-Za-z]{2,8})*", code) is not None and bool(read_wiki("en").find_language(code))


def show_in_language(arguments: list[str], named: Named, wiki: str) -> str:
    """Render `{{langx|ru|Москва}}` for a wiki: the language's name and the words, or only the words.

    Args:
        arguments: The positional arguments.
        named: The named arguments.
        wiki: The wiki's language code. If its file does not name the language, only the words are returned.
    """
    if len(arguments) < 2 or not arguments[1]:
        return show_first(arguments, named) if len(arguments) < 2 else ""
    form = read_wiki(wiki)
    name = form.find_language(arguments[0])
    return form.in_language.format(language=name, words=arguments[1]) if name else arguments[1]


def show_wrapped(arguments: list[str], named: Named) -> str:
    """Render `{{citation needed|words}}` as the words inside. A date, if given, is omitted."""
    text = show_first(arguments, named)
    return "" if _SINCE.fullmatch(text) else text


def show_nothing(arguments: list[str], named: Named) -> str:
    """Return "" for a template that renders nothing in a sentence."""
    return ""


def show_reading(arguments: list[str], named: Named) -> str:
    """Render `{{読み仮名|漢字|かんじ}}` of the Japanese Wikipedia as 漢字（かんじ）."""
    shown, *rest = [*arguments, ""]
    return f"{shown}（{rest[0]}）" if shown and rest[0] else shown


def show_life_dates(arguments: list[str], named: Named) -> str:
    """Render `{{bd|1879年|3月14日|1955年|4月18日}}` of the Chinese Wikipedia as （1879年3月14日－1955年4月18日）."""
    birth, death = ("".join(arguments[at : at + 2]) for at in (0, 2))
    return f"（{birth}－{death}）" if birth or death else ""


def show_metres(arguments: list[str], named: Named) -> str:
    """Render `{{Höhe|1234|DE-NN}}` of the German Wikipedia as 1,234 m. The number is localized later."""
    return f"{group_digits(arguments[0])} m" if arguments and arguments[0] else ""


def show_nihongo(arguments: list[str], named: Named) -> str:
    """Render `{{nihongo|Sun|太陽|taiyō}}` as Sun (太陽, taiyō)."""
    shown, *rest = [*arguments, ""]
    inside = ", ".join(part for part in rest[:2] if part)
    return f"{shown} ({inside})" if shown and inside else shown or inside


def show_chinese(arguments: list[str], named: Named) -> str:
    """Render `{{zh|c=北京|p=Běijīng}}` as Chinese: 北京; pinyin: Běijīng."""
    labels = {"c": "Chinese", "s": "simplified Chinese", "t": "traditional Chinese", "p": "pinyin"}
    parts = [f"{label}: {named[key]}" for key, label in labels.items() if named.get(key)]
    return "; ".join(parts)


def show_interlanguage_link(arguments: list[str], named: Named) -> str:
    """Return the title in `{{ill|Title|de|Titel}}`, `{{ill|de|Titel}}` or `{{нп|Title|shown|de|Titel}}`."""
    if len(arguments) > 1 and is_language_code(arguments[0]):
        arguments = arguments[1:]
    elif len(arguments) > 2 and arguments[1] and not is_language_code(arguments[1]):
        arguments = arguments[1:] if is_language_code(arguments[2]) or not arguments[2] else arguments
    shown = next((named[key] for key in _SHOWN_TITLES if named.get(key)), "")
    return shown or show_first(arguments, named) or named.get("fr") or named.get("عر") or ""


def show_unknowable(arguments: list[str], named: Named) -> str:
    """Return `HOLE` for a value that depends on today's date or prices. The sentence with it is later removed."""
    return HOLE


def show_measured(arguments: list[str], named: Named) -> str:
    """Render `{{unité|45|km}}`, `{{unité|3|m|2}}` or `{{M|45||km}}`: a number, its unit and the unit's exponent."""
    number, *rest = [part for part in [*arguments, named.get("u") or named.get("ul") or ""] if part] or [""]
    text = group_digits(number)
    if power := named.get("e"):
        text += f"×10{to_superscript(power)}"
    for part in rest[:4]:
        text += to_superscript(part) if re.fullmatch("-?[0-9]", part) and text != number else f" {raise_powers(part)}"
    return text


def show_first_three(arguments: list[str], named: Named) -> str:
    """Render the date of `{{date de naissance|11|novembre|1866}}` as 11 novembre 1866.

    Additional arguments name a calendar or a topic, and are ignored.
    """
    return " ".join(part for part in arguments[:3] if part)


def show_hours(arguments: list[str], named: Named) -> str:
    """Render `{{heure|4|30}}` as 4 h 30."""
    hour, *rest = [*arguments, ""]
    return f"{hour} h {rest[0]}".strip() if hour else ""


def show_century(arguments: list[str], named: Named) -> str:
    """Render `{{s|XIX|e}}` as XIXe siècle. If two centuries are given, both are written."""
    numbers = [part for part in arguments if re.fullmatch("[IVXL]+", part.upper())]
    if not numbers:
        return ""
    ordinals = [f"{number.upper()}{'er' if number.upper() == 'I' else 'e'}" for number in numbers[:2]]
    return f"{' et '.join(ordinals)} siècle{'s' if len(ordinals) > 1 else ''}"


def show_spanish_century(arguments: list[str], named: Named) -> str:
    """Render `{{siglo|V|a|s}}` as siglo V a. C.; the word "siglo" is omitted without the third argument."""
    number, era, shows_word = [*arguments, "", "", ""][:3]
    return ("siglo " if shows_word else "") + number + {"a": " a. C.", "d": " d. C."}.get(era.lower(), "")


def show_century_before(arguments: list[str], named: Named) -> str:
    """Render `{{-s|IV|e}}` as IVe siècle av. J.-C."""
    return f"{show_century(arguments, named)} av. J.-C." if arguments else ""


def show_aside(arguments: list[str], named: Named) -> str:
    """Render `{{incise|words|stop}}` as words between dashes. At the end of a sentence, the second dash is omitted."""
    return f" – {show_first(arguments, named)}" + ("" if len(arguments) > 1 else " – ")


def show_quoted(arguments: list[str], named: Named) -> str:
    """Render `{{citation|words}}` of the French Wikipedia in quotes.

    Return "" for the English template with this name, which has no positional arguments.
    """
    return f"“{arguments[0]}”" if arguments and arguments[0] else ""


def show_old_style(arguments: list[str], named: Named) -> str:
    """Render `{{OldStyleDate|14 March|1879|2 March}}` as 14 March [O.S. 2 March] 1879."""
    day, year, old = [*arguments[:3], "", "", ""][:3]
    return " ".join(part for part in (day, f"[O.S. {old}]" if old else "", year) if part)


def show_ship_class(arguments: list[str], named: Named) -> str:
    """Render `{{sclass|Nimitz|aircraft carrier}}` as Nimitz-class aircraft carrier."""
    name, *kind = [*arguments, ""]
    return f"{name}-class {kind[0]}".strip() if name else ""


def show_roads(arguments: list[str], named: Named) -> str:
    """Render `{{jct|state=CA|I|5|US|101}}` as I 5 / US 101."""
    pairs = [" ".join(arguments[at : at + 2]) for at in range(0, len(arguments), 2)]
    return " / ".join(pair for pair in pairs if pair.strip())


def show_authors(arguments: list[str], named: Named) -> str:
    """Render `{{harvtxt|Smith|Jones|1990}}` as Smith and Jones (1990)."""
    names = [part for part in arguments if part]
    year = f" ({names.pop()})" if len(names) > 1 and is_number(names[-1][:4]) else ""
    return " and ".join(", ".join(part) for part in (names[:-1], names[-1:]) if part) + year


def show_list(arguments: list[str], named: Named) -> str:
    """Join a template's nonempty positional arguments with commas."""
    return ", ".join(part for part in arguments if part)


def show_circa(arguments: list[str], named: Named) -> str:
    """Render `{{circa|1900|1910}}` as c. 1900 – c. 1910."""
    return " – ".join(f"c. {year}" for year in arguments[:2]) if arguments else "c."


def show_reign(arguments: list[str], named: Named) -> str:
    """Render `{{reign|1558|1603}}` as r. 1558–1603."""
    return "r. " + "–".join(arguments[:2])


def show_floruit(arguments: list[str], named: Named) -> str:
    """Render `{{floruit|1500|1520}}` as fl. 1500–1520."""
    return "fl. " + "–".join(arguments[:2])


def show_fraction(arguments: list[str], named: Named) -> str:
    """Render `{{frac|3|1|2}}` as 3 1/2, `{{frac|1|2}}` as 1/2 and `{{frac|2}}` as 1/2."""
    match arguments[:3]:
        case [whole, above, below]:
            return f"{whole} {above}/{below}"
        case [above, below]:
            return f"{above}/{below}"
        case [below]:
            return f"1/{below}"
    return "/"


def show_power_of_ten(arguments: list[str], named: Named) -> str:
    """Render `{{e|6}}` as ×10⁶. Without an argument, the template is the suffix of a French ordinal, `XX{{e}}`."""
    return "e" if not arguments else "×10" + to_superscript(show_first(arguments, named))


def show_ordinal(arguments: list[str], named: Named) -> str:
    """Render `{{ordinal|21}}` as 21st. A string that is not a whole number is returned unchanged."""
    number = show_first(arguments, named)
    if not re.fullmatch("[0-9]{1,15}", number):
        return number
    is_teen = number[-2:-1] == "1"
    return number + ("th" if is_teen else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th"))


def show_ship(arguments: list[str], named: Named) -> str:
    """Render `{{ship|HMS|Victory}}` as HMS Victory. A third argument, such as a hull number, is not shown."""
    return " ".join(part for part in arguments[:2] if part)


def show_accidental(arguments: list[str], named: Named) -> str:
    """Return the sign of a musical accidental by its name, such as "flat"; "" for any other name."""
    sign = show_first(arguments, named)
    return {"flat": "♭", "b": "♭", "sharp": "♯", "#": "♯", "natural": "♮"}.get(sign, "")


def build_prefixed(prefix: str) -> Expansion:
    """Return a function that renders a template as `prefix` followed by the first argument."""
    return lambda arguments, named: prefix + show_first(arguments, named)


def build_suffixed(suffix: str) -> Expansion:
    """Return a function that renders a template as the first argument followed by `suffix`."""
    return lambda arguments, named: f"{show_first(arguments, named)}{suffix}".strip()


def show_grouped(arguments: list[str], named: Named) -> str:
    """Return a template's first argument with commas as thousands separators: 12,345."""
    return group_digits(show_first(arguments, named))


def show_superscript(arguments: list[str], named: Named) -> str:
    """Return a template's first argument in superscript characters; unchanged if some of them do not exist."""
    return to_superscript(show_first(arguments, named))


def show_literally(arguments: list[str], named: Named) -> str:
    """Render `{{literally|so it is}}` as `lit. 'so it is'`."""
    return f"lit. '{show_first(arguments, named)}'"


def show_currency(arguments: list[str], named: Named) -> str:
    """Render `{{currency|5|USD}}`: the sign of the currency, or its code if it has no sign, and the amount."""
    code = named.get("currency") or show_second(arguments, named)
    return read_wiki(ALL_WIKIS).before.get(code.lower(), f"{code} ".lstrip()) + show_first(arguments, named)


_ISO_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_MONTHS = "January February March April May June July August September October November December".split()
_ENGLISH = re.compile(
    rf"(?:(?P<day>[0-9]{{1,2}}) )?(?P<month>{'|'.join(_MONTHS)})(?: (?P<later>[0-9]{{1,2}}),)? (?P<year>[0-9]{{1,4}})"
)
_AGE = re.compile(r" \(aged [0-9]+\)|^As of |^as of ")


def format_date_in_language(text: str, wiki: str) -> str:
    """Convert the English dates in a text to the format of a wiki's language, and remove English words about ages.

    >>> format_date_in_language("January 2, 1950", "es"), format_date_in_language("2 May 1950", "ja")
    ('2 de enero de 1950', '1950年5月2日')
    """
    form = read_wiki(wiki)
    months = form.months.split()

    def localize(match: re.Match[str]) -> str:
        number = _MONTHS.index(match["month"])
        if wiki == "en" or not (months or "{number}" in form.date):
            return match[0]
        day = match["day"] or match["later"]
        month = months[number] if months else ""
        shown = form.date if day else form.month
        return shown.format(day=day, month=month, number=number + 1, year=match["year"])

    return _ENGLISH.sub(localize, _AGE.sub("", text))


def show_day_first(arguments: list[str], named: Named) -> str:
    """Render `{{JULGREGDATUM|10|4|1586}}` of the German Wikipedia in digits: 10.4.1586."""
    return ".".join(map(str, _read_numbers(arguments[:3])))


def _is_yes(word: str | None) -> bool:
    """Return True if the value of a template's option means yes ("y", "1", "true", ...). Return False for None."""
    return word is not None and word.lower() in ("y", "yes", "1", "true", "on", "dmy")


def _format_date(numbers: list[int], has_day_first: bool) -> str:
    """Format [year], [year, month] or [year, month, day] as an English date in words.

    If the month is invalid, only the year is returned. `has_day_first` selects "2 May 1950" instead of "May 2, 1950".
    """
    year, month, day = (*numbers[:3], 0, 0)[:3]
    if not 1 <= month <= 12:
        return str(year)
    if not 1 <= day <= 31:
        return f"{_MONTHS[month - 1]} {year}"
    return f"{day} {_MONTHS[month - 1]} {year}" if has_day_first else f"{_MONTHS[month - 1]} {day}, {year}"


def _read_numbers(arguments: list[str]) -> list[int]:
    """Return the leading arguments that are whole numbers of up to four digits."""
    numbers: list[int] = []
    for argument in arguments:
        if not re.fullmatch("[0-9]{1,4}", argument):
            break
        numbers.append(int(argument))
    return numbers


def show_event(arguments: list[str], named: Named) -> str:
    """Render `{{birth date|1950|1|2|df=y}}` as 2 January 1950. An age, which depends on today's date, is omitted."""
    numbers = _read_numbers(arguments)
    return _format_date(numbers, _is_yes(named.get("df"))) if numbers else show_first(arguments, named)


def show_death(arguments: list[str], named: Named) -> str:
    """Render `{{death date and age|2000|5|6|1920|7|1}}`: the date and the age reached."""
    numbers = _read_numbers(arguments)
    date = show_event(arguments, named)
    if len(numbers) < 6:
        return date
    age = numbers[0] - numbers[3] - (numbers[1:3] < numbers[4:6])
    return f"{date} (aged {age})"


def show_free_date(arguments: list[str], named: Named) -> str:
    """Render `{{date|2010-05-03|mdy}}` as May 3, 2010. A date that is already in words is returned unchanged."""
    text, *rest = [*arguments, ""]
    if match := _ISO_DATE.fullmatch(text):
        return _format_date([int(part) for part in match.groups()], rest[0].lower() != "mdy")
    day, month, *year = (*_read_numbers(arguments[:3] if rest else text.split()), 0, 0)
    if 1 <= month <= 12 and min(day, year[0]) <= 31 < max(day, year[0]):
        return _format_date([max(day, year[0]), month, min(day, year[0])], True)
    return " ".join(arguments[:3]) if len(_read_numbers(arguments[2:3])) else text


def show_age(arguments: list[str], named: Named) -> str:
    """Render `{{age|1920|7|1|2000|5|6}}` as 79.

    With only one date, the age depends on today's date, and the result is `HOLE`. The sentence is later removed.
    """
    numbers = _read_numbers(arguments)
    return str(numbers[3] - numbers[0] - (numbers[4:6] < numbers[1:3])) if len(numbers) >= 6 else HOLE


def show_as_of_date(arguments: list[str], named: Named) -> str:
    """Render `{{as of|2020|5}}` as As of May 2020, or the argument `alt` if it is given."""
    if "alt" in named:
        return named["alt"]
    words = ("as of " if _is_yes(named.get("lc")) else "As of ") + (named.get("pre", "") + " ").lstrip()
    numbers, has_day_first = _read_numbers(arguments), named.get("df", "").lower() != "us"
    return words + (_format_date(numbers, has_day_first) if numbers else show_first(arguments, named))
