"""Templates that write dates and ages: `{{birth date|1950|1|2}}`, `{{as of|2020|5}}`.

Promise: what is written is what the page says; nothing depends on the day of reading, so an age that would is
left out, and an impossible month or day leaves the rest as it is.

Source: the documentation of the templates of the English Wikipedia.
"""

import re

from corpora.sources.wiki.wikitext.arguments import HOLE, Named, first
from corpora.sources.wiki.wikitext.wikis import read_wiki

_ISO_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_MONTHS = "January February March April May June July August September October November December".split()
_ENGLISH = re.compile(
    rf"(?:(?P<day>[0-9]{{1,2}}) )?(?P<month>{'|'.join(_MONTHS)})(?: (?P<later>[0-9]{{1,2}}),)? (?P<year>[0-9]{{1,4}})"
)
_AGE = re.compile(r" \(aged [0-9]+\)|^As of |^as of ")


def in_language(text: str, wiki: str) -> str:
    """A text with its English dates in the words of a wiki.

    >>> in_language("January 2, 1950", "es"), in_language("May 1950", "de"), in_language("2 May 1950", "ja")
    ('2 de enero de 1950', 'Mai 1950', '1950年5月2日')
    """

    form = read_wiki(wiki)
    months = form.months.split()

    def local(match: re.Match[str]) -> str:
        number = _MONTHS.index(match["month"])
        if wiki == "en" or not (months or "{number}" in form.date):
            return match[0]
        day = match["day"] or match["later"]
        month = months[number] if months else ""
        shown = form.date if day else form.month
        return shown.format(day=day, month=month, number=number + 1, year=match["year"])

    return _ENGLISH.sub(local, _AGE.sub("", text))


def day_first(arguments: list[str], named: Named) -> str:
    """`{{JULGREGDATUM|10|4|1586}}` of the German Wikipedia, in figures: 10.4.1586."""
    return ".".join(map(str, _numbers(arguments[:3])))


def _is_yes(word: str | None) -> bool:
    return word is not None and word.lower() in ("y", "yes", "1", "true", "on", "dmy")


def _date(numbers: list[int], day_first: bool) -> str:
    """Year, year and month, or year, month and day as words; an impossible month leaves the year alone."""
    year, month, day = (*numbers[:3], 0, 0)[:3]
    if not 1 <= month <= 12:
        return str(year)
    if not 1 <= day <= 31:
        return f"{_MONTHS[month - 1]} {year}"
    return f"{day} {_MONTHS[month - 1]} {year}" if day_first else f"{_MONTHS[month - 1]} {day}, {year}"


def _numbers(arguments: list[str]) -> list[int]:
    """The leading arguments that are small whole numbers."""
    numbers: list[int] = []
    for argument in arguments:
        if not re.fullmatch("[0-9]{1,4}", argument):
            break
        numbers.append(int(argument))
    return numbers


def event(arguments: list[str], named: Named) -> str:
    """`{{birth date|1950|1|2|df=y}}`; an age that depends on the day of reading is left out."""
    numbers = _numbers(arguments)
    return _date(numbers, _is_yes(named.get("df"))) if numbers else first(arguments, named)


def death(arguments: list[str], named: Named) -> str:
    """`{{death date and age|2000|5|6|1920|7|1}}`: the date and the age reached."""
    numbers = _numbers(arguments)
    died = event(arguments, named)
    if len(numbers) < 6:
        return died
    age = numbers[0] - numbers[3] - (numbers[1:3] < numbers[4:6])
    return f"{died} (aged {age})"


def free_date(arguments: list[str], named: Named) -> str:
    """`{{date|2010-05-03|mdy}}`, or words that are a date already."""
    text, *rest = [*arguments, ""]
    if match := _ISO_DATE.fullmatch(text):
        return _date([int(part) for part in match.groups()], rest[0].lower() != "mdy")
    day, month, *year = (*_numbers(arguments[:3] if rest else text.split()), 0, 0)
    if 1 <= month <= 12 and min(day, year[0]) <= 31 < max(day, year[0]):
        return _date([max(day, year[0]), month, min(day, year[0])], True)
    return " ".join(arguments[:3]) if len(_numbers(arguments[2:3])) else text


def years_between(arguments: list[str], named: Named) -> str:
    """`{{age|1920|7|1|2000|5|6}}` is 79; with one date it depends on the day of reading, and is a hole."""
    numbers = _numbers(arguments)
    return str(numbers[3] - numbers[0] - (numbers[4:6] < numbers[1:3])) if len(numbers) >= 6 else HOLE


def as_of(arguments: list[str], named: Named) -> str:
    if "alt" in named:
        return named["alt"]
    words = ("as of " if _is_yes(named.get("lc")) else "As of ") + (named.get("pre", "") + " ").lstrip()
    numbers, day_first = _numbers(arguments), named.get("df", "").lower() != "us"
    return words + (_date(numbers, day_first) if numbers else first(arguments, named))
