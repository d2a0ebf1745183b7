"""Templates that write measures: `{{convert|12|km|mi}}` and `{{height|ft=6|in=2}}`.

Promise: the measure as given is always kept; the converted one is next to it where both units are known,
rounded as the template rounds it. What is not a number, or a unit not in the table, converts nothing.

Source: the documentation of the templates of the English Wikipedia; `Module:Convert` for its rule of rounding.
"""
# ruff: noqa: RUF001 - the tables hold dashes and signs that resemble ASCII

import math
import re

from corpora.sources.wiki.wikitext.arguments import Named, first, grouped

_NUMBER = re.compile(r"([-−+]?)([0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.([0-9]{1,10}))?")
_FRACTION = re.compile(r"([-−]?)(?:([0-9]{1,9})[ +])?([0-9]{1,9})[/⁄]([1-9][0-9]{0,8})")
_RANGE = re.compile(r"([-−]?[0-9][0-9,.]*)\s*(-|–|to|and)\s*([-−]?[0-9][0-9,.]*)")
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
_OTHER_NAMES = "°C=C °F=F NM=nmi mile=mi miles=mi foot=ft feet=ft inch=in metre=m metres=m lbs=lb kph=km/h"
UNITS = {
    row[0].strip(): (row[1], row[2], float(row[3]), row[4].strip())
    for row in (unit.split("|") for line in _UNIT_TABLE.split("\n") if line for unit in line.split(";"))
}
UNITS |= {name: UNITS[unit] for name, unit in (pair.split("=") for pair in _OTHER_NAMES.split())}
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
    """Return as many decimals as the input's precision carries over, and at least two significant figures.

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
    size = value * UNITS[unit][2] + _ZERO.get(unit, 0.0)
    result = (size - _ZERO.get(target, 0.0)) / UNITS[target][2]
    kelvin = abs(size) if UNITS[unit][1] == "temperature" else None
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
    if len(rest) < 3 or rest[0] not in UNITS or rest[2] not in UNITS:
        return None
    parts = _parse(number), _parse(rest[1])
    (symbol, dimension, size, default), (symbol2, dimension2, size2, _) = UNITS[rest[0]], UNITS[rest[2]]
    if parts[0] is None or parts[1] is None or dimension != dimension2:
        return None
    total = parts[0][0] * size + parts[1][0] * size2
    target = rest[3] if len(rest) > 3 and UNITS.get(rest[3], ("", ""))[1] == dimension else default
    result = total / UNITS[target][2]
    # The smaller unit is meant to the last digit: one more figure than its order of magnitude says.
    places = _output_precision(total / size2, parts[1][1], result, None) + 1
    return f"{number} {symbol} {rest[1]} {symbol2} ({_rounded(result, places)} {UNITS[target][0]})"


def convert(arguments: list[str], named: Named) -> str:
    """`{{convert|12|km|mi}}` is 12 km (7.5 mi): the measure as given and converted, by the units' symbols."""
    if len(arguments) < 2 or not arguments[0]:
        return first(arguments, named)
    if (compound := _compound(arguments[0], arguments[1:])) is not None:
        return compound
    numbers, between, rest = _split_range(arguments)
    unit = rest[0] if rest else ""
    symbol, dimension, size, default = UNITS.get(unit, (unit, "", 0.0, ""))
    given = f"{_in_row([grouped(number.replace('+', ' ')) for number in numbers], between)} {symbol}".strip()
    given = given.replace(" /", "/")
    parsed = [_parse(number) for number in numbers]
    if not dimension or None in parsed:
        return given
    asked = rest[1].split() if len(rest) > 1 else []
    if dimension == "length" and asked[:1] == ["ftin"]:
        return f"{given} ({_feet_and_inches((_parse(numbers[-1]) or (0.0, 0))[0] * size)})"
    target = next((name for name in asked if UNITS.get(name, ("", ""))[1] == dimension), default)
    digits = next((int(word) for word in rest[1:3] if re.fullmatch("-?[0-9]", word)), None)
    results = [_in_unit(number, unit, target, digits) for number in numbers]
    converted = f"{_in_row(results, between)} {UNITS[target][0]}".replace(" /", "/")
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


def height(arguments: list[str], named: Named) -> str:
    """`{{height|ft=6|in=2}}` or `{{height|m=1.88}}`."""
    if "ft" in named:
        inches = named.get("in") or "0"
        return _compound(named["ft"], ["ft", inches, "in", "m"]) or f"{named['ft']} ft {inches} in"
    unit = "m" if "m" in named else "cm"
    return convert([named.get(unit, ""), unit, "ftin"], {}) if unit in named else ""
