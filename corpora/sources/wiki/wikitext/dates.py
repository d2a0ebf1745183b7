"""Templates that write dates and ages: `{{birth date|1950|1|2}}`, `{{as of|2020|5}}`.

Promise: what is written is what the page says; nothing depends on the day of reading, so an age that would is
left out, and an impossible month or day leaves the rest as it is.

Source: the documentation of the templates of the English Wikipedia.
"""

import re

from corpora.sources.wiki.wikitext.arguments import HOLE, Named, first

_ISO_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_MONTHS = "January February March April May June July August September October November December".split()


_MONTHS_OF = {
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "ro": "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie",
    "sv": "januari februari mars april maj juni juli augusti september oktober november december",
}
_OF = {"es": " de ", "pt": " de "}  # between day, month and year
_AFTER_DAY = {"de": "."}
_ENGLISH = re.compile(
    rf"(?:(?P<day>[0-9]{{1,2}}) )?(?P<month>{'|'.join(_MONTHS)})(?: (?P<later>[0-9]{{1,2}}),)? (?P<year>[0-9]{{1,4}})"
)
_AGE = re.compile(r" \(aged [0-9]+\)|^As of |^as of ")


def in_language(text: str, wiki: str) -> str:
    """A text with its English dates in the words of a wiki.

    >>> in_language("January 2, 1950", "es"), in_language("May 1950", "de"), in_language("2 May 1950", "ja")
    ('2 de enero de 1950', 'Mai 1950', '1950年5月2日')
    """

    def local(match: re.Match[str]) -> str:
        day, month = match["day"] or match["later"] or "", _MONTHS.index(match["month"])
        if wiki in ("ja", "zh"):
            return f"{match['year']}年{month + 1}月" + (f"{day}日" if day else "")
        if wiki not in _MONTHS_OF:
            return match[0]
        parts = [day and day + _AFTER_DAY.get(wiki, ""), _MONTHS_OF[wiki].split()[month], match["year"]]
        return _OF.get(wiki, " ").join(part for part in parts if part)

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
    return " ".join(arguments[:3]) if len(_numbers(arguments[2:3])) else text


def years_between(arguments: list[str], named: Named) -> str:
    """`{{age|1920|7|1|2000|5|6}}` is 79; with one date it depends on the day of reading, and is a hole."""
    numbers = _numbers(arguments)
    return str(numbers[3] - numbers[0] - (numbers[4:6] < numbers[1:3])) if len(numbers) >= 6 else HOLE


def day_month_year(arguments: list[str], named: Named) -> str:
    """`{{dtext|1|1|1950}}` of the Portuguese and Spanish Wikipedias, in figures: 1/1/1950."""
    numbers = _numbers(arguments[:3])
    return "/".join(map(str, numbers)) if len(numbers) == 3 else " ".join(arguments[:3])


def as_of(arguments: list[str], named: Named) -> str:
    if "alt" in named:
        return named["alt"]
    words = ("as of " if _is_yes(named.get("lc")) else "As of ") + (named.get("pre", "") + " ").lstrip()
    numbers, day_first = _numbers(arguments), named.get("df", "").lower() != "us"
    return words + (_date(numbers, day_first) if numbers else first(arguments, named))
