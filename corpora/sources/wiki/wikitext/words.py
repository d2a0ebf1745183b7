"""Templates that write words and numbers: `{{langx|ru|...}}`, `{{val|1.5|0.2|u=m}}`, `{{circa|1900}}`.

Promise: each function gives what the template of its name shows, as plain text; missing arguments give less
text, never an error. Which names lead to which function is in `templates`.

Source: the documentation of the templates of the English Wikipedia.
"""
# ruff: noqa: RUF001, RUF002 - the tables hold dashes and signs that resemble ASCII

import re

from corpora.sources.wiki.wikitext.arguments import HOLE, Expansion, Named, first, grouped, is_number, raised
from corpora.sources.wiki.wikitext.measures import raise_powers
from corpora.sources.wiki.wikitext.wikis import EVERYWHERE, read_wiki

_SHOWN_TITLES = ("lt", "display", "label", "en", "texte", "tekst", "نص")
_SINCE = re.compile(r"[0-9./-]+|(?:[0-9]{1,2}\.? )?(?:de )?[^\W\d_]+\.? (?:de )?[12][0-9]{3}")


def second(arguments: list[str], named: Named) -> str:
    return arguments[1] if len(arguments) > 1 else named.get("texte") or named.get("text") or ""


def last(arguments: list[str], named: Named) -> str:
    return arguments[-1] if arguments else ""


def joined(arguments: list[str], named: Named) -> str:
    return "".join(arguments)


def spaced(arguments: list[str], named: Named) -> str:
    return " ".join(arguments)


def quote(arguments: list[str], named: Named) -> str:
    text = named.get("text") or named.get("quote") or (arguments[0] if arguments else "")
    return f"\n\n{text}\n\n"


def language(arguments: list[str], named: Named) -> str:
    """`{{langx|ru|Москва}}`: the language's name and the words in it."""
    shown = in_language(arguments, named, "en")
    roman = arguments[2] if len(arguments) > 2 else named.get("translit", "")
    return shown + (f", romanized: {roman}" if roman and shown and len(arguments) > 1 else "")


def is_language(code: str) -> bool:
    """Return True for the code of a language that the English file names: "de", "zh-Hant"."""
    return re.fullmatch("[a-z]{2,3}(?:-[A-Za-z]{2,8})*", code) is not None and bool(read_wiki("en").name_language(code))


def in_language(arguments: list[str], named: Named, wiki: str) -> str:
    """`{{langx|ru|Москва}}` as a wiki writes it: the words alone if its file does not name the language."""
    if len(arguments) < 2 or not arguments[1]:
        return first(arguments, named) if len(arguments) < 2 else ""
    form = read_wiki(wiki)
    name = form.name_language(arguments[0])
    return form.in_language.format(language=name, words=arguments[1]) if name else arguments[1]


def wrapped(arguments: list[str], named: Named) -> str:
    """`{{citation needed|words}}`: the words that it doubts; a date is when somebody did."""
    text = first(arguments, named)
    return "" if _SINCE.fullmatch(text) else text


def nothing(arguments: list[str], named: Named) -> str:
    return ""


def reading(arguments: list[str], named: Named) -> str:
    """`{{読み仮名|漢字|かんじ}}` of the Japanese Wikipedia: 漢字（かんじ）."""
    shown, *rest = [*arguments, ""]
    return f"{shown}（{rest[0]}）" if shown and rest[0] else shown


def life(arguments: list[str], named: Named) -> str:
    """`{{bd|1879年|3月14日|1955年|4月18日}}` of the Chinese Wikipedia: （1879年3月14日－1955年4月18日）."""
    birth, death = ("".join(arguments[at : at + 2]) for at in (0, 2))
    return f"（{birth}－{death}）" if birth or death else ""


def metres(arguments: list[str], named: Named) -> str:
    """`{{Höhe|1234|DE-NN}}` of the German Wikipedia: 1,234 m, in the form of the wiki."""
    return f"{grouped(arguments[0])} m" if arguments and arguments[0] else ""


def nihongo(arguments: list[str], named: Named) -> str:
    shown, *rest = [*arguments, ""]
    inside = ", ".join(part for part in rest[:2] if part)
    return f"{shown} ({inside})" if shown and inside else shown or inside


def chinese(arguments: list[str], named: Named) -> str:
    labels = {"c": "Chinese", "s": "simplified Chinese", "t": "traditional Chinese", "p": "pinyin"}
    parts = [f"{label}: {named[key]}" for key, label in labels.items() if named.get(key)]
    return "; ".join(parts)


def interlanguage(arguments: list[str], named: Named) -> str:
    """`{{ill|Title|de|Titel}}`, `{{ill|de|Titel}}`, or `{{нп|Title|shown|de|Titel}}`; the code may be left out."""
    if len(arguments) > 1 and is_language(arguments[0]):
        arguments = arguments[1:]
    elif len(arguments) > 2 and arguments[1] and not is_language(arguments[1]):
        arguments = arguments[1:] if is_language(arguments[2]) or not arguments[2] else arguments
    shown = next((named[key] for key in _SHOWN_TITLES if named.get(key)), "")
    return shown or first(arguments, named) or named.get("fr") or named.get("عر") or ""


def unknowable(arguments: list[str], named: Named) -> str:
    """Return a hole, which takes its sentence with it: the value depends on the day of reading, or on price tables."""
    return HOLE


def measured(arguments: list[str], named: Named) -> str:
    """`{{unité|45|km}}`, `{{unité|3|m|2}}`, `{{M|45||km}}`: a number, its unit and the unit's exponent."""
    number, *rest = [part for part in [*arguments, named.get("u") or named.get("ul") or ""] if part] or [""]
    text = grouped(number)
    if power := named.get("e"):
        text += f"×10{raised(power)}"
    for part in rest[:4]:
        text += raised(part) if re.fullmatch("-?[0-9]", part) and text != number else f" {raise_powers(part)}"
    return text


def first_three(arguments: list[str], named: Named) -> str:
    """`{{date de naissance|11|novembre|1866}}`: the date; what may follow names a calendar or a topic."""
    return " ".join(part for part in arguments[:3] if part)


def hours(arguments: list[str], named: Named) -> str:
    """`{{heure|4|30}}` is 4 h 30."""
    hour, *rest = [*arguments, ""]
    return f"{hour} h {rest[0]}".strip() if hour else ""


def century(arguments: list[str], named: Named) -> str:
    """`{{s|XIX|e}}` is XIXe siècle; of two centuries both are written."""
    numbers = [part for part in arguments if re.fullmatch("[IVXL]+", part.upper())]
    if not numbers:
        return ""
    ordinals = [f"{number.upper()}{'er' if number.upper() == 'I' else 'e'}" for number in numbers[:2]]
    return f"{' et '.join(ordinals)} siècle{'s' if len(ordinals) > 1 else ''}"


def spanish_century(arguments: list[str], named: Named) -> str:
    """`{{siglo|V|a|s}}` is siglo V a. C.; without its third argument the number alone."""
    number, era, shows_word = [*arguments, "", "", ""][:3]
    return ("siglo " if shows_word else "") + number + {"a": " a. C.", "d": " d. C."}.get(era.lower(), "")


def century_before(arguments: list[str], named: Named) -> str:
    """`{{-s|IV|e}}` is IVe siècle av. J.-C."""
    return f"{century(arguments, named)} av. J.-C." if arguments else ""


def aside(arguments: list[str], named: Named) -> str:
    """`{{incise|words|stop}}`: words between dashes, the second one left out at the end of a sentence."""
    return f" – {first(arguments, named)}" + ("" if len(arguments) > 1 else " – ")


def quoted(arguments: list[str], named: Named) -> str:
    """`{{citation|words}}` of the French Wikipedia; the English one has named arguments only, and shows nothing."""
    return f"“{arguments[0]}”" if arguments and arguments[0] else ""


def old_style(arguments: list[str], named: Named) -> str:
    """`{{OldStyleDate|14 March|1879|2 March}}` is 14 March [O.S. 2 March] 1879."""
    day, year, old = [*arguments[:3], "", "", ""][:3]
    return " ".join(part for part in (day, f"[O.S. {old}]" if old else "", year) if part)


def ship_class(arguments: list[str], named: Named) -> str:
    """`{{sclass|Nimitz|aircraft carrier}}` is Nimitz-class aircraft carrier."""
    name, *kind = [*arguments, ""]
    return f"{name}-class {kind[0]}".strip() if name else ""


def roads(arguments: list[str], named: Named) -> str:
    """`{{jct|state=CA|I|5|US|101}}` is I 5 / US 101."""
    pairs = [" ".join(arguments[at : at + 2]) for at in range(0, len(arguments), 2)]
    return " / ".join(pair for pair in pairs if pair.strip())


def authors(arguments: list[str], named: Named) -> str:
    """`{{harvtxt|Smith|Jones|1990}}` is Smith and Jones (1990)."""
    names = [part for part in arguments if part]
    year = f" ({names.pop()})" if len(names) > 1 and is_number(names[-1][:4]) else ""
    return " and ".join(", ".join(part) for part in (names[:-1], names[-1:]) if part) + year


def listed(arguments: list[str], named: Named) -> str:
    return ", ".join(part for part in arguments if part)


def circa(arguments: list[str], named: Named) -> str:
    return " – ".join(f"c. {year}" for year in arguments[:2]) if arguments else "c."


def reign(arguments: list[str], named: Named) -> str:
    return "r. " + "–".join(arguments[:2])


def floruit(arguments: list[str], named: Named) -> str:
    return "fl. " + "–".join(arguments[:2])


def fraction(arguments: list[str], named: Named) -> str:
    """`{{frac|3|1|2}}` is 3 1/2, `{{frac|1|2}}` is 1/2, `{{frac|2}}` is 1/2."""
    match arguments[:3]:
        case [whole, above, below]:
            return f"{whole} {above}/{below}"
        case [above, below]:
            return f"{above}/{below}"
        case [below]:
            return f"1/{below}"
    return "/"


def power_of_ten(arguments: list[str], named: Named) -> str:
    """`{{e|6}}` is ×10⁶; without an argument it is the ending of a French ordinal, `XX{{e}}`."""
    return "e" if not arguments else "×10" + raised(first(arguments, named))


def ordinal(arguments: list[str], named: Named) -> str:
    number = first(arguments, named)
    if not re.fullmatch("[0-9]{1,15}", number):
        return number
    teen = number[-2:-1] == "1"
    return number + ("th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th"))


def ship(arguments: list[str], named: Named) -> str:
    """`{{ship|HMS|Victory}}`; a hull number in third place disambiguates the page and is not shown."""
    return " ".join(part for part in arguments[:2] if part)


def accidental(arguments: list[str], named: Named) -> str:
    sign = first(arguments, named)
    return {"flat": "♭", "b": "♭", "sharp": "♯", "#": "♯", "natural": "♮"}.get(sign, "")


def prefixed(prefix: str) -> Expansion:
    """The expansion that writes `prefix` before the first argument."""
    return lambda arguments, named: prefix + first(arguments, named)


def suffixed(suffix: str) -> Expansion:
    """The expansion that writes `suffix` after the first argument, or alone."""
    return lambda arguments, named: f"{first(arguments, named)}{suffix}".strip()


def formatted(arguments: list[str], named: Named) -> str:
    return grouped(first(arguments, named))


def superscript(arguments: list[str], named: Named) -> str:
    return raised(first(arguments, named))


def literally(arguments: list[str], named: Named) -> str:
    return f"lit. '{first(arguments, named)}'"


def currency(arguments: list[str], named: Named) -> str:
    code = named.get("currency") or second(arguments, named)
    return read_wiki(EVERYWHERE).before.get(code.lower(), f"{code} ".lstrip()) + first(arguments, named)
