"""MediaWiki wikitext to clean prose, keeping the numbers, dates and units that live in templates.

Promises: a pure function of the string; it raises for no `str`; its cost is bounded by a fixed number of
passes over the page, whatever the nesting (no pattern runs past the next opening mark of its own kind); and
no output holds a mark of `RESIDUE`, not even where a page shows wikitext literally. What a page leaves open
(an unclosed link, template or reference) loses its marks and keeps its words.

Costs: comments, references and the sections of apparatus go first, since most of an article's markup is in
them. Links and templates then fall innermost first, one pass a level; tables, tags, entities, holes and lines
take one pass each. The bulk of the links go through `split`, which runs without a call for each match.

Source: the wikitext of mediawiki.org/wiki/Help:Formatting, Help:Links, Help:Tables, Help:Templates, and the
documentation of the templates of the English Wikipedia; `Module:Convert` for its rule of rounding.
"""

# ruff: noqa: RUF001 - the tables hold dashes, signs and alphabets that resemble ASCII

import html
import math
import re
from collections.abc import Callable

Match = re.Match[str]
Named = dict[str, str]
Expansion = Callable[[list[str], Named], str]

RESIDUE = re.compile(r"(?i)\[\[+|\]\]+|\{\{+|\}\}+|\{\||\|\}|</?ref|&nbsp;")
MAX_DEPTH = 16  # no page of the samples needs more than 7
MIN_ITEM_WORDS = 6
MIN_ITEM_CHARACTERS = 12  # of a script without spaces between words

DROPPED_SECTIONS = frozenset(
    (
        "references|references and notes|notes and references|external links|external link|see also|notes"
        "|note|footnotes|endnotes|further reading|bibliography|sources|source|citations|cited sources"
        "|works cited|gallery|general references|einzelnachweise|weblinks"
        "|siehe auch|literatur|anmerkungen|quellen|belege"
        "|références|notes et références|liens externes|voir aussi|articles connexes|bibliographie|annexes"
        "|referencias|enlaces externos|véase también|notas|bibliografía|bibliografia|altri progetti"
        "|collegamenti esterni|voci correlate|referências|ligações externas|ver também|примечания|ссылки"
        "|литература|см. также|источники|бележки|външни препратки|вижте също|bronnen|externe links|zie ook"
        "|verwysings|eksterne skakels|bronne|przypisy|linki zewnętrzne|zobacz też|脚注|関連項目|外部リンク"
        "|参考文献|参考资料|外部链接|参见"
    ).split("|")
)
DROPPED_NAMESPACES = frozenset(
    """file image media category datei bild kategorie fichier catégorie archivo imagen categoría ficheiro
    arquivo imagem categoria immagine bestand afbeelding categorie plik grafika kategoria файл изображение
    картинка категория категорія зображення ファイル 画像 カテゴリ 文件 檔案 档案 图像 分类 分類 fil kategori
    fișier soubor kép fájl kategória dosya tiedosto kuva luokka lêer beeld ملف صورة تصنيف קובץ קטגוריה 파일
    분류 berkas gambar attēls kateguoreja""".split()
)
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


# Step 1: what hides or holds no prose: comments, references, code, formulas, apparatus.


def _paired(names: str) -> re.Pattern[str]:
    """An element of one of the `names` with its content, which may not open another of the same name.

    The possessive loop stops at the next opening of that name, so an unclosed tag swallows nothing, and a
    page of nothing but openings is read once.
    """
    body = r"[^<]*+(?:<(?!/?(?:\1)\b)[^<]*+)*+"
    return re.compile(rf"(?i)<({names})\b(?:[^<>]*[^<>/])?>({body})</\1\s*>")


_NOWIKI = re.compile(r"(?i)<nowiki>([^<]*+(?:<(?!/?nowiki\b)[^<]*+)*+)</nowiki\s*>")
_EMPTY_REF = re.compile(r"(?i)<ref(?:erences)?\b[^<>]*/>")
_REF = _paired("ref")
_OPAQUE = _paired(
    "gallery|timeline|score|syntaxhighlight|source|pre|chem|ce|graph|imagemap|hiero|mapframe|maplink|references"
    "|templatedata|inputbox|indicator|includeonly|table|categorytree|style|audio|video"
)
_MATH = _paired("math")
_PLAIN_MATH = re.compile(r"[A-Za-z0-9 .,+\-/()]{1,24}")
_LITERAL = {ord(mark): f"&#{ord(mark)};" for mark in "[]{}|<>'=_"}
_HEADING = re.compile(r"\n=[^\n]*")
_IN_TITLE = re.compile(r"<[^<>]*>|\{\{[^{}]*\}\}|[\[\]']{2,}")


def _keep_literal(match: Match) -> str:
    """The content of `<nowiki>` with its marks as entities, which are decoded after all markup is gone."""
    return match[1].translate(_LITERAL)


def _drop_comments(text: str) -> str:
    """`text` without comments; a comment alone on its line takes the line with it. An unclosed one stays."""
    kept, end = [], 0
    while (start := text.find("<!--", end)) >= 0 and (stop := text.find("-->", start + 4)) >= 0:
        kept.append(text[end:start])
        end = stop + len("-->")
        if text.startswith("\n", start - 1) and text.startswith("\n", end):
            end += 1
    kept.append(text[end:])
    return "".join(kept)


def _math(match: Match) -> str:
    """A formula that reads as text (`x`, `n + 1`) stays; one in TeX goes."""
    formula = match[2].strip()
    return formula if _PLAIN_MATH.fullmatch(formula) else ""


def _drop_hidden(text: str) -> str:
    """`text` without comments, references, code, galleries, HTML tables and formulas in TeX."""
    if "<" not in text:
        return text
    if "<nowiki" in text:
        text = _NOWIKI.sub(_keep_literal, text)
    if "<!--" in text:
        text = _drop_comments(text)
    text = _REF.sub("", _EMPTY_REF.sub("", text))
    text = _MATH.sub(_math, text)
    for _ in range(4):
        text, count = _OPAQUE.subn("", text)
        if not count:
            break
    return text


def _heading(line: str) -> tuple[int, str]:
    """Level and title of a heading line (`== Title ==`), or (0, "") for a line that is none.

    >>> _heading("=== Early life ===")
    (3, 'Early life')
    """
    line = line.strip()
    bare = line.strip("=")
    if not bare or line[-1] != "=":
        return 0, ""
    left = len(line) - len(line.lstrip("="))
    return min(left, len(line) - left - len(bare), 6), bare.strip()


def _drop_sections(text: str) -> str:
    """`text` without its sections of apparatus, each up to the next heading of its level or a higher one."""
    kept, start, dropping = [], 0, 0
    for match in _HEADING.finditer(text):
        level, title = _heading(match[0])
        if not level or (dropping and level > dropping):
            continue
        if not dropping:
            kept.append(text[start : match.start()])
        title = _IN_TITLE.sub("", title).rpartition("|")[2].strip(" :.\t").lower()
        dropping = level if title in DROPPED_SECTIONS else 0
        start = match.start()
    if not dropping:
        kept.append(text[start:])
    return "".join(kept)


# Step 2: links.

_PLAIN_LINK = re.compile(r"\[\[(?:[^\[\]{}|:\n]*+\|)?([^\[\]{}|:\n]++)\]\]")
_LINK = re.compile(r"\[\[([^\[\]{}]*+(?:(?:\[(?!\[)|\](?!\]))[^\[\]{}]*+)*+)\]\]")
_LOOSE_LINK = re.compile(r"\[\[([^\[\]]*+(?:(?:\[(?!\[)|\](?!\]))[^\[\]]*+)*+)\]\]")
_EXTERNAL_LINK = re.compile(r"(?i)\[(?:(?:https?:|ftps?:|irc:)?//|mailto:|news:)[^\s\[\]<>|]*+([^\[\]\n]*+)\]")
_LANGUAGE_PREFIX = re.compile(r"(?:[a-z]{2,3}|simple|commons|species|meta)(?:-[a-z]+)*")


def _external_link(match: Match) -> str:
    """The label of `[http://... label]`, nothing for a bare one."""
    return match[1].strip()


def _link(match: Match) -> str:
    """What a link shows: its label or target; nothing for files, categories and links between languages."""
    target, bar, label = match[1].partition("|")
    target = target.strip()
    shown, target = target.startswith(":"), target.removeprefix(":")
    prefix, colon, page = target.partition(":")
    if colon and not shown:
        if prefix.strip().lower() in DROPPED_NAMESPACES:
            return ""
        if not bar and page[:1].strip() and _LANGUAGE_PREFIX.fullmatch(prefix):
            return ""
    if not bar:
        return target
    label = label.rpartition("|")[2].strip() if "|" in label else label
    return label if label else page.partition("(")[0].strip() or target.partition("(")[0].strip()


# Step 3: templates that carry text.

_TEMPLATE = re.compile(r"\{\{([^{}]*+)\}\}")
_LOOSE_TEMPLATE = re.compile(r"\{\{([^{}]*+(?:(?:\{(?!\{)|\}(?!\}))[^{}]*+)*+)\}\}")
_PARAMETER = re.compile(r"\{\{\{([^{}]*+)\}\}\}")
_KEY = re.compile(r"\s*[\w$ \-]{1,30}\s*")
_FUNCTION = re.compile(r"\s*(formatnum|lc|uc|lcfirst|ucfirst)\s*:(.*)", re.DOTALL | re.IGNORECASE)
_WHOLE = re.compile(r"(?<![\w.,])([0-9]{4,15})(?![0-9,])")
_NUMBER = re.compile(r"([-−+]?)([0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.([0-9]{1,10}))?")
_FRACTION = re.compile(r"([-−]?)(?:([0-9]{1,9})[ +])?([0-9]{1,9})[/⁄]([1-9][0-9]{0,8})")
_RANGE = re.compile(r"([-−]?[0-9][0-9,.]*)\s*(-|–|to|and)\s*([-−]?[0-9][0-9,.]*)")
_ISO_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_SUPERSCRIPT = str.maketrans("0123456789+-−n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻ⁿ")
_RAISED = re.compile(r"[0-9+\-−n]+")
_MONTHS = "January February March April May June July August September October November December".split()
_LANGUAGES = dict(
    pair.split("=")
    for pair in (
        "ar=Arabic bg=Bulgarian bn=Bengali ca=Catalan cs=Czech cy=Welsh da=Danish de=German el=Greek "
        "en=English eo=Esperanto es=Spanish et=Estonian eu=Basque fa=Persian fi=Finnish fr=French ga=Irish "
        "gl=Galician gd=Scottish_Gaelic grc=Ancient_Greek gre=Greek "
        "he=Hebrew hi=Hindi hr=Croatian hu=Hungarian "
        "hy=Armenian id=Indonesian is=Icelandic it=Italian ja=Japanese ka=Georgian kk=Kazakh ko=Korean "
        "la=Latin lt=Lithuanian lv=Latvian mk=Macedonian mn=Mongolian ms=Malay mt=Maltese nl=Dutch "
        "no=Norwegian nb=Norwegian pa=Punjabi pl=Polish pt=Portuguese "
        "ro=Romanian ru=Russian sa=Sanskrit sk=Slovak "
        "sl=Slovene sq=Albanian sr=Serbian sv=Swedish sw=Swahili ta=Tamil te=Telugu th=Thai tl=Tagalog "
        "tr=Turkish uk=Ukrainian ur=Urdu vi=Vietnamese yi=Yiddish zh=Chinese ang=Old_English fro=Old_French "
        "non=Old_Norse"
    ).split()
)


def _arguments(body: str) -> tuple[list[str], Named]:
    """The positional and the named arguments of a template's body, `{{name|a|k=v}}` without its braces."""
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


def _grouped(number: str) -> str:
    """A number with commas between its thousands: 1234567.8 -> 1,234,567.8."""
    return _WHOLE.sub(lambda match: f"{int(match[1]):,}", number)


def _raised(text: str) -> str:
    """An exponent as superscript characters where they exist, so that 10<sup>6</sup> is not read as 106."""
    return text.translate(_SUPERSCRIPT) if _RAISED.fullmatch(text) else text


def _first(arguments: list[str], named: Named) -> str:
    text = named.get("text") or named.get("content") or ""
    return arguments[0] if arguments else text


def _second(arguments: list[str], named: Named) -> str:
    return arguments[1] if len(arguments) > 1 else ""


def _last(arguments: list[str], named: Named) -> str:
    return arguments[-1] if arguments else ""


def _joined(arguments: list[str], named: Named) -> str:
    return "".join(arguments)


def _spaced(arguments: list[str], named: Named) -> str:
    return " ".join(arguments)


def _quote(arguments: list[str], named: Named) -> str:
    text = named.get("text") or named.get("quote") or (arguments[0] if arguments else "")
    return f"\n\n{text}\n\n"


def _language(arguments: list[str], named: Named) -> str:
    """`{{langx|ru|Москва}}`: the language's name and the words in it."""
    if len(arguments) < 2:
        return _first(arguments, named)
    code, text = arguments[0].lower(), arguments[1]
    if not text:
        return ""
    name = _LANGUAGES.get(code, _LANGUAGES.get(code.split("-")[0], "")).replace("_", " ")
    roman = arguments[2] if len(arguments) > 2 else named.get("translit", "")
    return (f"{name}: " if name else "") + text + (f", romanized: {roman}" if roman else "")


def _nihongo(arguments: list[str], named: Named) -> str:
    shown, *rest = [*arguments, ""]
    inside = ", ".join(part for part in rest[:2] if part)
    return f"{shown} ({inside})" if shown and inside else shown or inside


def _chinese(arguments: list[str], named: Named) -> str:
    labels = {"c": "Chinese", "s": "simplified Chinese", "t": "traditional Chinese", "p": "pinyin"}
    parts = [f"{label}: {named[key]}" for key, label in labels.items() if named.get(key)]
    return "; ".join(parts)


def _interlanguage(arguments: list[str], named: Named) -> str:
    return named.get("lt") or named.get("display") or named.get("en") or _first(arguments, named)


def _circa(arguments: list[str], named: Named) -> str:
    return " – ".join(f"c. {year}" for year in arguments[:2]) if arguments else "c."


def _reign(arguments: list[str], named: Named) -> str:
    return "r. " + "–".join(arguments[:2])


def _floruit(arguments: list[str], named: Named) -> str:
    return "fl. " + "–".join(arguments[:2])


def _fraction(arguments: list[str], named: Named) -> str:
    """`{{frac|3|1|2}}` is 3 1/2, `{{frac|1|2}}` is 1/2, `{{frac|2}}` is 1/2."""
    match arguments[:3]:
        case [whole, above, below]:
            return f"{whole} {above}/{below}"
        case [above, below]:
            return f"{above}/{below}"
        case [below]:
            return f"1/{below}"
    return "/"


def _value(arguments: list[str], named: Named) -> str:
    """`{{val|1.5|0.2|e=6|u=m}}`: number, uncertainty, power of ten, unit."""
    text = _grouped(arguments[0]) if arguments else ""
    if len(arguments) > 1 and arguments[1]:
        text += f" ± {arguments[1]}"
    if named.get("e"):
        text += "×10" + _raised(named["e"])
    unit = named.get("u") or named.get("ul") or ""
    below = named.get("up") or named.get("upl") or ""
    return (text + (f" {unit}" if unit else "") + (f"/{below}" if below else "")).strip()


def _power_of_ten(arguments: list[str], named: Named) -> str:
    return "×10" + _raised(_first(arguments, named))


def _ordinal(arguments: list[str], named: Named) -> str:
    number = _first(arguments, named)
    if not re.fullmatch("[0-9]{1,15}", number):
        return number
    teen = number[-2:-1] == "1"
    return number + ("th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th"))


def _ship(arguments: list[str], named: Named) -> str:
    """`{{ship|HMS|Victory}}`; a hull number in third place disambiguates the page and is not shown."""
    return " ".join(part for part in arguments[:2] if part)


def _accidental(arguments: list[str], named: Named) -> str:
    sign = _first(arguments, named)
    return {"flat": "♭", "b": "♭", "sharp": "♯", "#": "♯", "natural": "♮"}.get(sign, "")


def _prefixed(prefix: str) -> Expansion:
    """The expansion that writes `prefix` before the first argument."""
    return lambda arguments, named: prefix + _first(arguments, named)


def _suffixed(suffix: str) -> Expansion:
    """The expansion that writes `suffix` after the first argument, or alone."""
    return lambda arguments, named: f"{_first(arguments, named)} {suffix}".strip()


def _formatted(arguments: list[str], named: Named) -> str:
    return _grouped(_first(arguments, named))


def _superscript(arguments: list[str], named: Named) -> str:
    return _raised(_first(arguments, named))


def _literally(arguments: list[str], named: Named) -> str:
    return f"lit. '{_first(arguments, named)}'"


_CURRENCIES = {
    "us$": "US$", "usd": "US$", "£": "£", "gbp": "£", "€": "€", "eur": "€", "euro": "€", "¥": "¥", "jpy": "¥",
    "a$": "A$", "aud": "A$", "au$": "A$", "cad": "CA$", "c$": "CA$", "ca$": "CA$", "nz$": "NZ$", "nzd": "NZ$",
    "inr": "₹", "₹": "₹", "krw": "₩", "php": "₱", "hk$": "HK$", "sgd": "S$", "chf": "CHF ", "rub": "₽",
    "cn¥": "CN¥", "cny": "CN¥", "pkr": "Rs ",
}  # fmt: skip


def _currency(arguments: list[str], named: Named) -> str:
    code = named.get("currency") or _second(arguments, named)
    return _CURRENCIES.get(code.lower(), f"{code} ".lstrip()) + _first(arguments, named)


# Dates.


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
    found: list[int] = []
    for argument in arguments:
        if not re.fullmatch("[0-9]{1,4}", argument):
            break
        found.append(int(argument))
    return found


def _event(arguments: list[str], named: Named) -> str:
    """`{{birth date|1950|1|2|df=y}}`; an age that depends on the day of reading is left out."""
    numbers = _numbers(arguments)
    return _date(numbers, _is_yes(named.get("df"))) if numbers else _first(arguments, named)


def _death(arguments: list[str], named: Named) -> str:
    """`{{death date and age|2000|5|6|1920|7|1}}`: the date and the age reached."""
    numbers = _numbers(arguments)
    died = _event(arguments, named)
    if len(numbers) < 6:
        return died
    age = numbers[0] - numbers[3] - (numbers[1:3] < numbers[4:6])
    return f"{died} (aged {age})"


def _free_date(arguments: list[str], named: Named) -> str:
    """`{{date|2010-05-03|mdy}}`, or words that are a date already."""
    text, *rest = [*arguments, ""]
    if match := _ISO_DATE.fullmatch(text):
        return _date([int(part) for part in match.groups()], rest[0].lower() != "mdy")
    return " ".join(arguments) if len(_numbers(arguments[2:3])) else text


def _as_of(arguments: list[str], named: Named) -> str:
    if "alt" in named:
        return named["alt"]
    words = ("as of " if _is_yes(named.get("lc")) else "As of ") + (named.get("pre", "") + " ").lstrip()
    numbers, day_first = _numbers(arguments), named.get("df", "").lower() != "us"
    return words + (_date(numbers, day_first) if numbers else _first(arguments, named))


# Measures.

# symbol, dimension, size in the dimension's own measure, unit converted to by default
_UNIT_TABLE = """
km|km|length|1000|mi; m|m|length|1|ft; cm|cm|length|.01|in; mm|mm|length|.001|in; mi|mi|length|1609.344|km
ft|ft|length|.3048|m; in|in|length|.0254|mm; yd|yd|length|.9144|m
nmi|nmi|length|1852|km; um|μm|length|1e-6|in; fathom|fathoms|length|1.8288|m
furlong|furlongs|length|201.168|m; ly|ly|length|9.4607304725808e15|pc; pc|pc|length|3.0856775814914e16|ly
au|AU|length|149597870700|km; km2|km²|area|1e6|sqmi; sqkm|km²|area|1e6|sqmi; m2|m²|area|1|sqft
cm2|cm²|area|1e-4|sqin; ha|ha|area|1e4|acre; acre|acres|area|4046.8564224|ha
acres|acres|area|4046.8564224|ha; sqmi|sq mi|area|2589988.110336|km2; sqft|sq ft|area|.09290304|m2
sqyd|sq yd|area|.83612736|m2; sqin|sq in|area|.00064516|cm2; kg|kg|mass|1|lb; g|g|mass|.001|oz
mg|mg|mass|1e-6|gr; lb|lb|mass|.45359237|kg; oz|oz|mass|.028349523125|g
t|t|mass|1000|LT; tonne|t|mass|1000|LT; MT|t|mass|1000|LT; gr|gr|mass|6.479891e-5|g
LT|long tons|mass|1016.0469088|t; ST|short tons|mass|907.18474|t; st|st|mass|6.35029318|kg
L|L|volume|.001|USgal; l|L|volume|.001|USgal; ml|ml|volume|1e-6|USoz; mL|ml|volume|1e-6|USoz
m3|m³|volume|1|cuft; km3|km³|volume|1e9|cumi; cm3|cm³|volume|1e-6|cuin; cc|cc|volume|1e-6|cuin
cuft|cu ft|volume|.028316846592|m3; cuyd|cu yd|volume|.764554857984|m3; cuin|cu in|volume|1.6387064e-5|cm3
cumi|cu mi|volume|4168181825.44058|km3; acre.ft|acre⋅ft|volume|1233.48183754752|m3
USgal|US gal|volume|.003785411784|L; usgal|US gal|volume|.003785411784|L; impgal|imp gal|volume|.00454609|L
USoz|US fl oz|volume|2.95735295625e-5|ml; oilbbl|bbl|volume|.158987294928|m3
bbl|bbl|volume|.158987294928|m3; km/h|km/h|speed|.277777777777778|mph
mph|mph|speed|.44704|km/h; m/s|m/s|speed|1|ft/s; ft/s|ft/s|speed|.3048|m/s
kn|kn|speed|.514444444444444|km/h; knot|kn|speed|.514444444444444|km/h; km/s|km/s|speed|1000|mi/s
mi/s|mi/s|speed|1609.344|km/s; kW|kW|power|1000|hp; W|W|power|1|hp; MW|MW|power|1e6|hp
hp|hp|power|745.69987158227|kW; bhp|bhp|power|745.69987158227|kW; PS|PS|power|735.49875|kW
shp|shp|power|745.69987158227|kW; kPa|kPa|pressure|1000|psi; MPa|MPa|pressure|1e6|psi
hPa|hPa|pressure|100|inHg; Pa|Pa|pressure|1|psi; psi|psi|pressure|6894.757293168|kPa
bar|bar|pressure|1e5|psi; atm|atm|pressure|101325|kPa; mbar|mbar|pressure|100|inHg
inHg|inHg|pressure|3386.389|hPa; mmHg|mmHg|pressure|133.322387415|kPa; J|J|energy|1|cal
kJ|kJ|energy|1000|kcal; cal|cal|energy|4.184|J; kcal|kcal|energy|4184|kJ; MJ|MJ|energy|1e6|kWh
kWh|kWh|energy|3.6e6|MJ; Nm|N⋅m|torque|1|lbft; N.m|N⋅m|torque|1|lbft; lbft|lb⋅ft|torque|1.3558179483314|Nm
/km2|/km²|density|1e-6|/sqmi; /sqmi|/sq mi|density|3.8610215854245e-7|/km2
PD/sqmi|/sq mi|density|3.8610215854245e-7|/km2; PD/km2|/km²|density|1e-6|/sqmi; kN|kN|force|1000|lbf
N|N|force|1|lbf; lbf|lbf|force|4.4482216152605|N; C|°C|temperature|1|F; F|°F|temperature|.555555555555556|C
K|K|temperature|1|C
"""
_UNITS = {
    row[0].strip(): (row[1], row[2], float(row[3]), row[4].strip())
    for row in (unit.split("|") for line in _UNIT_TABLE.split("\n") if line for unit in line.split(";"))
}
_OTHER_NAMES = "°C=C °F=F NM=nmi mile=mi miles=mi foot=ft feet=ft inch=in metre=m metres=m lbs=lb kph=km/h"
_UNITS |= {name: _UNITS[unit] for name, unit in (pair.split("=") for pair in _OTHER_NAMES.split())}
_ZERO = {"C": 273.15, "°C": 273.15, "F": 459.67 * 5 / 9, "°F": 459.67 * 5 / 9}  # zero of the scale, in K
_BETWEEN = {
    "to": " to ", "-": "–", "–": "–", "and": " and ", "or": " or ", "x": " × ", "×": " × ", "*": " × ",
    "by": " × ", "+/-": " ± ", "±": " ± ", "to(-)": " to ", "and(-)": " and ", "xx": " × ", "&": " and ",
}  # fmt: skip


def _parse(text: str) -> tuple[float, int] | None:
    """The number a text writes and its precision (decimals; negative for trailing zeros), None if it is none.

    >>> _parse("1,200"), _parse("3.50"), _parse("1+1/2")
    ((1200.0, -2), (3.5, 2), (1.5, 1))
    """
    text = text.strip()
    if match := _NUMBER.fullmatch(text):
        sign, whole, decimals = match[1], match[2].replace(",", ""), match[3]
        precision = len(decimals) if decimals else len(whole.rstrip("0")) - len(whole)
        value = float(f"{whole}.{decimals or 0}")
        return (value if sign in ("", "+") else -value), precision
    if match := _FRACTION.fullmatch(text):
        value = int(match[2] or 0) + int(match[3]) / int(match[4])
        return (-value if match[1] else value), max(1, math.ceil(math.log10(int(match[4]) + 1)))
    return None


def _rounded(value: float, precision: int) -> str:
    """`value` rounded half up to `precision` decimals (negative: tens, hundreds), with commas."""
    scale = 10.0**precision
    rounded = math.copysign(math.floor(abs(value) * scale + 0.5) / scale, value)
    return f"{rounded + 0.0:,.{max(precision, 0)}f}".replace("-", "−")


def _output_precision(value: float, precision: int, result: float, kelvin: float | None) -> int:
    """As many decimals as the input's precision carries over, and at least two significant figures.

    Module:Convert's default: the input's decimals, moved by the order of magnitude of the conversion with a
    margin of log10 2; between temperatures three significant figures in kelvin are the least.
    """
    if kelvin is not None:
        least = 2 - math.floor(math.log10(kelvin) + 1e-9) if kelvin > 1e-8 else 2
        return max(precision, least)
    if value == 0 or result == 0:
        return 0
    moved = math.floor(precision + math.log10(abs(value / result)) + math.log10(2))
    return max(moved, 1 - math.floor(math.log10(abs(result)) + 1e-9))


def _in_unit(text: str, unit: str, target: str, precision: int | None) -> str:
    """The number `text` of `unit` as a number of `target`, both known and of one dimension."""
    value, given = _parse(text) or (0.0, 0)
    size = value * _UNITS[unit][2] + _ZERO.get(unit, 0.0)
    result = (size - _ZERO.get(target, 0.0)) / _UNITS[target][2]
    kelvin = abs(size) if _UNITS[unit][1] == "temperature" else None
    places = _output_precision(value, given, result, kelvin) if precision is None else precision
    return _rounded(result, places)


def _feet_and_inches(metres: float) -> str:
    inches = math.floor(metres / 0.0254 + 0.5)
    return f"{inches // 12} ft {inches % 12} in"


def _split_range(arguments: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The numbers of `{{convert|10|to|20|km|...}}`, the words between them, and the arguments after them."""
    if inner := _RANGE.fullmatch(arguments[0]):
        return [inner[1], inner[3]], [_BETWEEN[inner[2]]], arguments[1:]
    numbers, between, at = [arguments[0]], [], 1
    while at + 1 < len(arguments) and arguments[at].lower() in _BETWEEN and _parse(arguments[at + 1]):
        between.append(_BETWEEN[arguments[at].lower()])
        numbers.append(arguments[at + 1])
        at += 2
    return numbers, between, arguments[at:]


def _in_row(numbers: list[str], between: list[str]) -> str:
    return numbers[0] + "".join(word + number for word, number in zip(between, numbers[1:], strict=True))


def _compound(number: str, rest: list[str]) -> str | None:
    """`{{convert|5|ft|10|in|cm}}`: two units of one measure, None where it is not such a pair."""
    if len(rest) < 3 or rest[0] not in _UNITS or rest[2] not in _UNITS:
        return None
    parts = _parse(number), _parse(rest[1])
    (symbol, dimension, size, default), (symbol2, dimension2, size2, _) = _UNITS[rest[0]], _UNITS[rest[2]]
    if parts[0] is None or parts[1] is None or dimension != dimension2:
        return None
    total = parts[0][0] * size + parts[1][0] * size2
    target = rest[3] if len(rest) > 3 and _UNITS.get(rest[3], ("", ""))[1] == dimension else default
    result = total / _UNITS[target][2]
    # The smaller unit is meant to the last digit: one more figure than its order of magnitude says.
    places = _output_precision(total / size2, parts[1][1], result, None) + 1
    return f"{number} {symbol} {rest[1]} {symbol2} ({_rounded(result, places)} {_UNITS[target][0]})"


def _convert(arguments: list[str], named: Named) -> str:
    """`{{convert|12|km|mi}}` is 12 km (7.5 mi): the measure as given and converted, by the units' symbols."""
    if len(arguments) < 2 or not arguments[0]:
        return _first(arguments, named)
    if (compound := _compound(arguments[0], arguments[1:])) is not None:
        return compound
    numbers, between, rest = _split_range(arguments)
    unit = rest[0] if rest else ""
    symbol, dimension, size, default = _UNITS.get(unit, (unit, "", 0.0, ""))
    given = f"{_in_row([_grouped(number.replace('+', ' ')) for number in numbers], between)} {symbol}".strip()
    given = given.replace(" /", "/")
    parsed = [_parse(number) for number in numbers]
    if not dimension or None in parsed:
        return given
    asked = rest[1].split() if len(rest) > 1 else []
    if dimension == "length" and asked[:1] == ["ftin"]:
        return f"{given} ({_feet_and_inches((_parse(numbers[-1]) or (0.0, 0))[0] * size)})"
    target = next((name for name in asked if _UNITS.get(name, ("", ""))[1] == dimension), default)
    digits = next((int(word) for word in rest[1:3] if re.fullmatch("-?[0-9]", word)), None)
    results = [_in_unit(number, unit, target, digits) for number in numbers]
    converted = f"{_in_row(results, between)} {_UNITS[target][0]}".replace(" /", "/")
    return _arranged(given, converted, named)


def _arranged(given: str, converted: str, named: Named) -> str:
    match (named.get("order") or named.get("disp") or "").lower():
        case "flip":
            return f"{converted} ({given})"
        case "or":
            return f"{given} or {converted}"
        case "out" | "output only" | "number" | "output number only":
            return converted
    return f"{given} ({converted})"


def _height(arguments: list[str], named: Named) -> str:
    """`{{height|ft=6|in=2}}` or `{{height|m=1.88}}`."""
    if "ft" in named:
        inches = named.get("in") or "0"
        return _compound(named["ft"], ["ft", inches, "in", "m"]) or f"{named['ft']} ft {inches} in"
    unit = "m" if "m" in named else "cm"
    return _convert([named.get(unit, ""), unit, "ftin"], {}) if unit in named else ""


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
    "prime": "′", "plus": "+", "plusminus": "±", "numero": "No.",
    "end": "\n|}\n", "s-start": "\n{|\n", "s-end": "\n|}\n", "start box": "\n{|\n", "end box": "\n|}\n",
    "poss": "'s",
}  # fmt: skip
_EXPANSIONS: dict[str, Expansion] = (
    _named(
        _first,
        "nowrap|nobr|nobreak|nwr|j|small|smaller|big|larger|large|resize|nobold|noitalic|normal|em|strong|abbr"
        "|abbrv|abbreviation|tooltip|as written|not a typo|typo|proper name|visible anchor|vanchor|mvar|math"
        "|mono|monospace|code|tt|samp|var|kbd|smallcaps|sc|small caps|underline|u|bold|b|strikethrough|center"
        "|centre|block indent|indent|noprint|delink|highlight|url"
        "|plain|flag|flagcountry|flagu|sub|gloss|angbr"
        "|angle bracket|grapheme|polytonic|iast|unicode|hebrew|nastaliq|nq|tlit|script/hebrew|script/arabic"
        "|birth year and age|birth-date|birth-date and age|death-date|death-date and age|rtl|lsj"
        "|formatdate|sic|native phrase|baseball year|chem2|isotope|see below",
    )
    | _named(_second, "lang|rtl-lang|sort|hs|wikt-lang|native name|color|font color|hover title")
    | _named(_last, "transl|transliteration|script|linktext")
    | _named(_joined, "chem|chemf")
    | _named(_spaced, "unité|unite|nombre|bibleverse|bibleref|sortname|keypress")
    | _named(_language, "langx")
    | _named(_quote, "quote|blockquote|cquote|quotation|bquote|rquote|poemquote|poem quote|block quote|poem")
    | _named(_nihongo, "nihongo|nihongo2|nihongo3")
    | _named(_chinese, "zh|zh-all")
    | _named(_interlanguage, "ill|illm|interlanguage link|interlanguage link multi|link-interwiki")
    | _named(_circa, "circa|c.|ca.|c")
    | _named(_reign, "reign|r.")
    | _named(_floruit, "floruit|fl.")
    | _named(_fraction, "frac|fraction|sfrac|tfrac")
    | _named(_value, "val")
    | _named(_power_of_ten, "e|x10^|10^|esp")
    | _named(_ordinal, "ordinal|ord")
    | _named(_superscript, "sup|superscript")
    | _named(_formatted, "formatnum|nts|number|num")
    | _named(_literally, "lit|lit.|literally|literal translation")
    | _named(_ship, "ship")
    | _named(_accidental, "music")
    | _named(_event, "birth date|birth date and age|bda|dob|start date|start date and age|end date|film date")
    | _named(_event, "release date|death date|death year|birth year|end date and age|date and age|dts")
    | _named(_death, "death date and age|dda")
    | _named(_free_date, "date|datum|dmy|mdy")
    | _named(_as_of, "as of|asof")
    | _named(_convert, "convert|cvt|conv")
    | _named(_height, "height")
    | _named(_currency, "currency")
    | {prefix.lower(): _prefixed(f"{prefix} ") for prefix in ("USS", "HMS", "SS", "RMS", "AD")}
    | {"bc": _suffixed("BC"), "bce": _suffixed("BCE"), "ce": _suffixed("CE"), "sqrt": _prefixed("√")}
    | {code: _prefixed(symbol) for code, symbol in _CURRENCIES.items()}
)


def _function(match: Match) -> str:
    """What a parser function writes: `{{formatnum:12345}}`, `{{uc:text}}`."""
    name, argument = match[1].lower(), match[2].partition("|")
    text = argument[0].strip()
    match name:
        case "formatnum":
            return text.replace(",", "") if argument[2].strip().upper() == "R" else _grouped(text)
        case "lc":
            return text.lower()
        case "uc":
            return text.upper()
    return text


def _template(match: Match) -> str:
    """What a template without inner templates shows: nothing, unless it is known to carry text."""
    body = match[1]
    name = body.partition("|")[0].strip().lower()
    if "_" in name:
        name = name.replace("_", " ")
    expansion = _EXPANSIONS.get(name)
    if expansion is not None and ("|" in body or name not in _SYMBOLS):
        return expansion(*_arguments(body))
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    if name.startswith("lang-"):
        arguments, named = _arguments(body)
        return _language([name.removeprefix("lang-"), *arguments], named) if arguments else ""
    call = _FUNCTION.fullmatch(body) if ":" in name else None
    return _function(call) if call else ""


def _parameter(match: Match) -> str:
    """A template's parameter outside its template shows its default, `{{{name|default}}}`."""
    return match[1].partition("|")[2]


def _resolve(text: str) -> str:
    """`text` with its links and templates replaced by what they show, from the innermost out."""
    if "[" in text:
        text = _EXTERNAL_LINK.sub(_external_link, text)
    for _ in range(MAX_DEPTH):
        previous = text
        if "[[" in text:
            text = _LINK.sub(_link, "".join(_PLAIN_LINK.split(text)))
        if "{{" in text:
            if "{{{" in text:
                text = _PARAMETER.sub(_parameter, text)
            text = _TEMPLATE.sub(_template, text)
        if text == previous:
            text = _LOOSE_LINK.sub(_link, _LOOSE_TEMPLATE.sub(_template, text))
            if text == previous:
                break
    return text


# Step 4: tables, tags and entities.

# A table begins and ends at the beginning of a line; no line of its body may begin or end another one.
_TABLE = re.compile(r"\n[ \t:*#]*+\{\|[^\n]*+(?:\n(?![ \t:*#]*+(?:\{\||\|\}))[^\n]*+)*+\n[ \t:*#]*+\|\}")
_ROW = re.compile(r"\n[ \t:*#]*+(?:\{\||[|!])[^\n]*")
_CELL = re.compile(r"\n\|[^\n]*")
_RAISED_TAG = re.compile(r"(?i)<sup\b[^<>]*>([^<>]{1,40})</sup\s*>")
_BREAKS = re.compile(r"(?i)<br\b[^<>]*>\s*+(?:<br\b[^<>]*>\s*+)++")
_BREAK = re.compile(r"(?i)<br\b[^<>]*>")
_BLOCK_TAG = re.compile(r"(?i)</?(?:p|div|blockquote|center|poem|h[1-6]|hr|ul|ol|dl|section)\b[^<>]*>")
_ITEM_TAG = re.compile(r"(?i)<(?:li|dd|dt)\b[^<>]*>")
_TAG = re.compile(
    r"(?i)</?(?:span|small|big|sub|sup|s|u|b|i|em|strong|strike|del|ins|font|code|tt|kbd|samp|var|cite|abbr|q|ref"
    r"|references|nowiki|noinclude|includeonly|onlyinclude|li|dd|dt|br|wbr|a|table|tbody|thead|tr|td|th|caption"
    r"|ruby|rb|rt|rp|bdi|bdo|dfn|mark|time|data|templatestyles|gallery|math|pre|timeline|imagemap|source"
    r"|syntaxhighlight|score|canvas|audio|video|section|translate|tvar|languages|maplink|mapframe|chem|ce|hiero"
    r"|indicator|inputbox|categorytree|graph|div|p|center|includeonly|img|cnote|nobr|tiny|large)\b[^<>]*>|<!--|-->"
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")


def _raise(match: Match) -> str:
    return _raised(match[1].strip())


def _drop_tables(text: str) -> str:
    """`text` without its `{| ... |}`, innermost first; one that stays open loses its rows, line by line."""
    for _ in range(MAX_DEPTH):
        text, count = _TABLE.subn("\n", text)
        if not count:
            break
    return _ROW.sub("", text) if "\n{|" in text else _CELL.sub("", text)


def _drop_tags(text: str) -> str:
    """`text` without the tags of HTML and of MediaWiki's extensions; any other `<` is a plain character."""
    text = _RAISED_TAG.sub(_raise, text)
    text = _BREAK.sub(" ", _BREAKS.sub("\n\n", text))
    text = _ITEM_TAG.sub("\n* ", _BLOCK_TAG.sub("\n\n", text))
    return _TAG.sub("", text)


def _decode(match: Match) -> str:
    return html.unescape(match[0])


# Step 5: quotes, holes and lines.

_ITALIC_POSSESSIVE = re.compile(r"''(?<!''')(?!')([^'\n]++)'''(?=s\b)")
_ITALIC_ELISION = re.compile(r"'''(?:(?<=\b[lLdD]''')|(?<=ll'''))(?=\w)(?!s\b)([^'\n]++)''(?!')")
_BOLD_ELISION = re.compile(r"''''(?<=\w'''')(?!')")
_QUOTES = re.compile(r"''+")
_EMPTY_BRACKETS = re.compile(r"\((?:\)(?<=\s\(\))|[,;:]*+ [ ,;:]*+(?:or )?\))")
_EMPTY_SQUARE = re.compile(r"\[(?: ++\]|\](?<=\s\[\]))")
_AFTER_OPENING = re.compile(r"\((?:[,;]*+ )++")
_DOUBLED = re.compile(r"[,;](?: ([,;]))++")
_LOOSE_MARK = re.compile(r" ([,.;])(?=\s|$)")
_HATNOTE = re.compile(
    r"(?i)\n[:*]++[ \t]*+''++\(?(?:main articles?\b|see (?:also|main)\b|further information|not to be"
    r" confused|this article (?:is|was) about|for [^\n]{0,200}?\bsee )[^\n]*"
)
_LIST_MARKS = "*#:;"


def _drop_quotes(text: str) -> str:
    """`text` without the marks of bold and italic; an apostrophe that stands beside them stays."""
    if "'''" in text:
        text = _BOLD_ELISION.sub("'", text)
        text = _ITALIC_ELISION.sub(r"'\1", _ITALIC_POSSESSIVE.sub(r"\1'", text))
    return _QUOTES.sub("", text)


def _collapse_spaces(text: str) -> str:
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _mend_holes(text: str) -> str:
    """Repair what a dropped template or formula leaves: empty brackets, doubled or loose punctuation."""
    for space in "\t\xa0\u2009\u202f\u200a":
        text = text.replace(space, " ")
    text = _collapse_spaces(text)
    text = _EMPTY_SQUARE.sub(" ", _EMPTY_BRACKETS.sub(" ", text))
    text = _AFTER_OPENING.sub("(", _collapse_spaces(text))
    for before_closing in (", )", "; )", " )"):
        text = text.replace(before_closing, ")")
    return _LOOSE_MARK.sub(r"\1", _DOUBLED.sub(r"\1", text))


def _is_sentence(item: str) -> bool:
    """Whether a list item is long enough to be prose rather than an entry."""
    return len(item.split()) >= MIN_ITEM_WORDS or len(_SPACELESS.findall(item)) >= MIN_ITEM_CHARACTERS


def _marked_line(line: str) -> tuple[int, str]:
    """Level and text of a line that begins with a mark: a heading has a level, all other lines level 0."""
    first = line[0]
    if first == "=":
        level, title = _heading(line)
        return (level, title) if level else (0, line)
    if first in _LIST_MARKS:
        item = line.lstrip(_LIST_MARKS + " ")
        return 0, item if _is_sentence(item) else ""
    if first == "-":
        return 0, line.lstrip("- ") if line.startswith("----") else line
    return 0, line


def _paragraphs(text: str) -> list[tuple[int, str]]:
    """Headings (level >= 1, title) and paragraphs (level 0, lines as in the source) in their order."""
    blocks: list[tuple[int, str]] = []
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        line, level = line.strip(), 0
        if line and line[0] in "=*#:;-":
            is_item, (level, line) = line[0] in _LIST_MARKS, _marked_line(line)
            if is_item and not line:
                continue
        if line and not level:
            lines.append(line)
            continue
        if lines:
            blocks.append((0, "\n".join(lines)))
            lines = []
        if level and line:
            blocks.append((level, line))
    return blocks


def _without_empty_sections(blocks: list[tuple[int, str]]) -> list[str]:
    """The blocks' texts without the headings under which no paragraph is left."""
    kept: list[str] = []
    filled = [False] * 8  # by level: whether a section opened now would hold text, seen from the end
    for level, text in reversed(blocks):
        if not level:
            filled = [True] * 8
        elif not filled[level]:
            continue
        else:
            filled[level:] = [False] * (8 - level)
        kept.append(text)
    return kept[::-1]


def wikitext_to_text(wikitext: str) -> str:
    """The prose of a page: paragraphs and headings, one blank line between them, lines as in the source.

    Dropped: references, tables, files, galleries, categories, hatnotes, boxes, list items below six words,
    and the sections of apparatus (`DROPPED_SECTIONS`). Kept: labels of links, and what the known templates
    show (measures, numbers, dates, foreign words, quotations). Takes any `str`, and returns no `RESIDUE`.

    >>> wikitext_to_text("'''Ayr''' is {{convert|12|km|mi}} from [[Troon|the port]].<ref>Map.</ref>")
    'Ayr is 12 km (7.5 mi) from the port.'
    """
    text = "\n" + wikitext.replace("\r\n", "\n").replace("&nbsp;", " ")
    text = _drop_sections(_drop_hidden(text))
    text = _resolve(text)
    if "\n|" in text:
        text = _drop_tables(text)
    if "<" in text or "-->" in text:
        text = _drop_tags(text)
    text = _MAGIC_WORD.sub("", text)
    text = _HATNOTE.sub("", text)
    text = _ENTITY.sub(_decode, _drop_quotes(text))
    # A space in place of each mark: what stood around it can never close up to another one.
    text = _collapse_spaces(RESIDUE.sub(" ", _mend_holes(text)))
    return "\n\n".join(_without_empty_sections(_paragraphs(text)))


# What kind of page it is.

_REDIRECT = re.compile(
    r"\s*#\s*(?:redirect|redirection|redirecci[oó]n|weiterleitung|redirecionamento|rinvia|rinvio|doorverwijzing"
    r"|aanstuur|patrz|przekieruj|tam|перенаправление|перенапр|перенаправлення|виж|пренасочване|преусмери"
    r"|преусмјери|転送|リダイレクト|重定向|넘겨주기|تحويل|הפניה|تغییر_?مسیر|omdirigering|omdiriger|ohjaus|uudelleenohjaus"
    r"|yönlendirme|alih|đổi|přesměruj|átirányítás|redirectare|ανακατευθυνση|birzuzendu|redirecció)\s*:?\s*\[\[",
    re.IGNORECASE,
)
_DISAMBIGUATION = re.compile(
    r"\{\{\s*(?:disambig|disamb|dab|disambiguation(?: page| cleanup)?|disambig-cleanup|hndis(?:-cleanup)?"
    r"|geodis|numberdis|mathdab|roaddis|schooldis|hospitaldis|callsigndis|airport disambig"
    r"|(?:airport|biology|call ?sign|chemistry|hospital|human name|letter[-–]number combination|mathematical"
    r"|military unit|music|number|place name|road|school|species latin name|station|taxonomy) disambiguation"
    r"|begriffsklärung|homonymie|desambiguación|desambiguação|desambig|disambigua|неоднозначность|пояснение"
    r"|багатозначність|doorverwijspagina|dubbelsinnig|ujednoznacznienie|förgrening|flertydig|täsmennyssivu"
    r"|rozcestník|egyért|anlam ayrımı|aimai|曖昧さ回避|消歧义|消歧義|동음이의|توضيح|פירושונים)\s*(?:\||\}\})",
    re.IGNORECASE,
)
_DISAMBIGUATION_TITLE = re.compile(
    r"\((?:disambiguation|begriffsklärung|homonymie|desambiguación|desambiguação|disambigua|значения|"
    r"doorverwijspagina|ujednoznacznienie|曖昧さ回避|消歧义|消歧義)\)\s*$",
    re.IGNORECASE,
)
_LIST_TITLE = re.compile(r"(?:lists?|outline|index) of\b", re.IGNORECASE)


def is_redirect(wikitext: str) -> bool:
    """Whether the page only points to another, `#REDIRECT [[Target]]`, in English or another language."""
    return _REDIRECT.match(wikitext) is not None


def is_disambiguation(wikitext: str, title: str) -> bool:
    """Whether the page lists the meanings of its title: it says so in the title or by its template."""
    return bool(_DISAMBIGUATION_TITLE.search(title) or _DISAMBIGUATION.search(wikitext.replace("_", " ")))


def is_list(title: str) -> bool:
    """Whether the title is that of an enumeration: "List of ...", "Outline of ...", "Index of ..."."""
    return _LIST_TITLE.match(title) is not None
