"""Templates that write measures: `{{convert|12|km|mi}}`, `{{height|ft=6|in=2}}` and `{{pop density|500|2|km2}}`.

Promise: the measure as given is always kept; the converted one is next to it if both units are known, rounded as the
template rounds it. Units may have SI prefixes ("GW"), powers of ten ("e6km2") and rates ("m3/s"). A text that is no
number and a unit that is not known here convert nothing.

Source: the documentation of the templates of the English Wikipedia; `Module:Convert` for its rule of rounding.
"""
# ruff: noqa: RUF001, RUF002 - the tables hold dashes and signs that resemble ASCII

import math
import re
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from corpora.sources.wiki.wikitext.arguments import Named, group_digits, show_first, to_superscript

_NUMBER = re.compile(
    r"([-−–+]?)([0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{0,15})(?:\.([0-9]{1,10}))?(?:[eE]([-−+]?[0-9]{1,2}))?"
)
_FRACTION = re.compile(r"([-−]?)(?:([0-9]{1,9})(?:[ +]|(?=½)))?(?:([0-9]{1,9})(?:/{1,2}|⁄)([1-9][0-9]{0,8}))")
_RANGE = re.compile(r"([-−]?[0-9][0-9,.]*)\s*(-|–|to|and|x|×)\s*([-−]?[0-9][0-9,.]*)")
_PREFIXES = {
    "Y": 24, "Z": 21, "E": 18, "P": 15, "T": 12, "G": 9, "M": 6, "k": 3, "h": 2, "da": 1, "d": -1, "c": -2, "m": -3,
    "u": -6, "µ": -6, "μ": -6, "n": -9, "p": -12, "f": -15,
}  # fmt: skip
_PREFIXABLE = frozenset(
    "m g t ly L l W J eV Hz Pa bar N cal Wh oilbbl bbl m2 m3 byte bit s K N.m pc BTU tTNT yr".split()
)
_MULTIPLES = {"3": "thousand", "6": "million", "9": "billion", "12": "trillion", "15": "quadrillion"}
_RATE_DEFAULTS = {"g/cm3": "lb/cuin", "kg/m3": "lb/cuyd", "kg/L": "lb/USgal", "kg/dm3": "lb/cuin", "kg/cm3": "lb/cuin"}
_CURRENCY = "$£€¥"


class MeasureUnit(NamedTuple):
    """A unit of measure.

    Attributes:
        symbol: The text after a number, such as "km" or "acres".
        dimension: The quantity measured. Only units with the same dimension can be converted into each other.
        size: Size in the base unit of the dimension.
        default: Space-separated names of the units to which the unit is converted by default.
        multiple: The text before the symbol, such as "million "; "" for plain units.
    """

    symbol: str
    dimension: str
    size: float
    default: str
    multiple: str = ""


def _read_units() -> dict[str, MeasureUnit]:
    """Read the units in `units.txt`. Return a dictionary in which every name of a unit is a key for it."""
    text = files("corpora").joinpath("sources", "wiki", "wikitext", "units.txt").read_text(encoding="utf-8")
    table, _, names = text.partition("---\n")
    units = dict[str, MeasureUnit]()
    for dimension, _, rows in (line.partition(": ") for line in table.splitlines() if line[0] != "#"):
        for name, symbol, size, default in (row.split("|") for row in rows.split("; ")):
            units[name] = MeasureUnit(symbol, dimension, float(size), default)
    return units | {name: units[unit] for name, unit in (pair.split("=") for pair in names.split())}


UNITS = _read_units()
_OFFSETS = {"°C": 273.15, "°F": 459.67 * 5 / 9}  # zero of the scale, in K, by symbol
_BETWEEN = {
    "to": " to ", "-": "–", "–": "–", "and": " and ", "or": " or ", "x": " × ", "×": " × ", "*": " × ",
    "by": " × ", "+/-": " ± ", "±": " ± ", "to(-)": " to ", "and(-)": " and ", "xx": " × ", "&": " and ",
    "+": " + ", ",": ", ", ", and": ", and ", ", or": ", or ", "to about": " to about ", "through": " through ",
    "till": " till ", "until": " until ", "and(–)": " and ", "to(–)": " to ", "or(-)": " or ", "/": "/",
    "between": " and ", ";": "; ", "&ndash;": "–", "&minus;": "−", "and to": " and to ", ", to": ", to ", "x(-)": " × ",
}  # fmt: skip
MAX_UNIT_NAME = 40  # of a unit
_PAIRS = {"ftin": ("ft", "in"), "stlb": ("st", "lb"), "lboz": ("lb", "oz"), "miyd": ("mi", "yd")}


@lru_cache(maxsize=1024)
def find_unit(name: str) -> MeasureUnit | None:
    """Look up a unit of measure by its name in templates. SI prefixes, powers of ten and rates are supported.

    Returns:
        The unit; None if it is unknown.

    >>> [find_unit(name).symbol for name in ("GW", "koilbbl/d", "kg/m3")], find_unit("parsnip")
    (['GW', 'kbbl/d', 'kg/m³'], None)
    """
    name = name.replace(" ", "_")
    if name in UNITS or len(name) > MAX_UNIT_NAME:
        return UNITS.get(name)
    if match := re.fullmatch("e(3|6|9|12|15)(.+)", name):
        base = find_unit(match[2])
        return base and base._replace(
            size=base.size * 10.0 ** int(match[1]),
            default=" ".join(f"e{match[1]}{unit}" for unit in base.default.split()),
            multiple=f"{_MULTIPLES[match[1]]} ",
        )
    return _build_rate(name) if "/" in name else _build_prefixed_unit(name)


def _build_prefixed_unit(name: str) -> MeasureUnit | None:
    """Return the unit for a name with an SI prefix, such as "MW" or "koilbbl"; None if no known unit has this name."""
    for length in (2, 1):
        prefix, base = name[:length], name[length:]
        if prefix in _PREFIXES and base in _PREFIXABLE:
            unit, power = UNITS[base], int(base[-1]) if base[-1] in "23" else 1
            size = unit.size * 10.0 ** (_PREFIXES[prefix] * power)
            return unit._replace(symbol=("μ" if prefix in "uµ" else prefix) + unit.symbol, size=size)
    return None


def _build_rate(name: str) -> MeasureUnit | None:
    """Return the unit for a rate, such as "m3/s", "oilbbl/d" or "$/acre"; None if a part is unknown."""
    if name in ("L/100km", "l/100km"):
        return MeasureUnit("L/100 km", "consumption", -100.0, "mpgimp mpgus")
    above, _, below = name.partition("/")
    divisor = find_unit(below)
    if divisor is None:
        return None
    if above in ("", "PD", *_CURRENCY):
        dividend: MeasureUnit | None = MeasureUnit("" if above == "PD" else above, "count", 1.0, above)
    else:
        dividend = find_unit(above)
    if dividend is None:
        return None
    each = below if divisor.dimension == "time" else divisor.default.partition(" ")[0]
    default = _RATE_DEFAULTS.get(name) or f"{dividend.default.partition(' ')[0]}/{each}"
    dimension = f"{dividend.dimension}/{divisor.dimension}"
    return MeasureUnit(
        f"{dividend.symbol}/{_to_singular(divisor.symbol)}",
        dimension,
        dividend.size / divisor.size,
        default,
        dividend.multiple,
    )


def _parse_number(text: str) -> tuple[float, int] | None:
    """Parse a number. Return its value and its number of decimals, or None if the text is not a number.

    The number of decimals is negative for trailing zeros before the decimal point.

    >>> _parse_number("1,200"), _parse_number("3.50"), _parse_number("1+1/2"), _parse_number("1.5e6")
    ((1200.0, -2), (3.5, 2), (1.5, 1), (1500000.0, -5))
    """
    text = text.strip()
    if (match := _NUMBER.fullmatch(text)) and (match[2] or match[3]):
        sign, whole, decimals = match[1], match[2].replace(",", ""), match[3]
        precision = len(decimals) if decimals else len(whole.rstrip("0")) - len(whole)
        power = int((match[4] or "0").replace("−", "-"))
        value = float(f"{whole or 0}.{decimals or 0}e{power}")
        return (value if sign in ("", "+") else -value), precision - power
    if match := _FRACTION.fullmatch(text):
        value = int(match[2] or 0) + int(match[3]) / int(match[4])
        return (-value if match[1] else value), max(1, math.ceil(math.log10(int(match[4]) + 1)))
    return None


def show_number(text: str) -> str:
    """Format a number as a template renders it: with thousands separators, superscript exponents, and fractions.

    >>> show_number("12345"), show_number("1.5e6"), show_number("1+1/2")
    ('12,345', '1.5×10⁶', '1 1/2')
    """
    if match := re.fullmatch(r"([^eE]*[0-9.])[eE]([-−+]?[0-9]{1,2})", text):
        return f"{group_digits(match[1])}×10{to_superscript(match[2].removeprefix('+'))}"
    text = re.sub(r"(?<=[0-9])\+", " ", text.replace("//", "/")).strip()
    return group_digits(f"0{text}" if text.startswith(".") else text)


def _round(value: float, precision: int) -> str:
    """Round half up to `precision` decimals (negative: tens, hundreds), and format the number with commas."""
    if value and precision > 9:
        power = math.floor(math.log10(abs(value)))
        places = min(9, max(0, precision + power))
        return _round(value / 10.0**power, places) + (f"×10{to_superscript(str(power))}" if power else "")
    scale = 10.0**precision
    number = math.copysign(math.floor(abs(value) * scale + 0.5) / scale, value)
    return f"{number + 0.0:,.{max(precision, 0)}f}".replace("-", "−")


def _find_decimals(value: float, precision: int, result: float, kelvin: float | None) -> int:
    """Return the number of decimals with which to show a converted number.

    As in Module:Convert, this is the precision of the input, shifted by the order of magnitude of the conversion with a
    margin of log10 2. At least two significant figures are shown; for temperatures, three significant figures in
    kelvin.

    Args:
        value: The input.
        precision: Number of decimals of the input, negative for trailing zeros.
        result: The converted number.
        kelvin: The temperature in kelvin; None for other measures.
    """
    if kelvin is not None:
        min_decimals = 2 - math.floor(math.log10(kelvin) + 1e-9) if kelvin > 1e-8 else 2
        return max(precision, min_decimals)
    if value == 0 or result == 0:
        return 0
    decimals = math.floor(precision + math.log10(abs(value / result)) + math.log10(2))
    return max(decimals, 1 - math.floor(math.log10(abs(result)) + 1e-9))


def _convert_value(value: float, unit: MeasureUnit, target: MeasureUnit) -> float:
    """Convert a number to another unit of the same dimension, and return it unrounded.

    Fuel consumption (volume per distance) is inverted to distance per volume.

    Args:
        value: The number.
        unit: Its unit.
        target: The unit to convert to.
    """
    if unit.dimension == "consumption" and (unit.size < 0) != (target.size < 0):
        return 100.0 / (value * max(unit.size, target.size)) if value else 0.0
    return (value * unit.size + _OFFSETS.get(unit.symbol, 0.0) - _OFFSETS.get(target.symbol, 0.0)) / target.size


def _show_in_unit(text: str, unit: MeasureUnit, target: MeasureUnit, rule: "_Rounding") -> str:
    """Convert a number to another unit, round it, and format it without the unit.

    Args:
        text: The number as written in the template.
        unit: Its unit.
        target: The unit to convert to.
        rule: The rounding requested by the template.
    """
    value, precision = _parse_number(text) or (0.0, 0)
    if unit.dimension == "change":
        result = value * unit.size / target.size
    else:
        result = _convert_value(value, unit, target)
    kelvin = abs(value * unit.size + _OFFSETS.get(unit.symbol, 0.0)) if unit.dimension == "temperature" else None
    if rule.denominator:
        return _as_fraction(result, rule.denominator)
    if rule.step:
        return f"{math.floor(result / rule.step + 0.5) * rule.step:,.10g}".replace("-", "−")
    if rule.figures:
        return _round(result, rule.figures - 1 - math.floor(math.log10(abs(result)) + 1e-9) if result else 0)
    return _round(result, _find_decimals(value, precision, result, kelvin) if rule.digits is None else rule.digits)


def _as_fraction(value: float, denominator: int) -> str:
    """Format a value as a whole number and a reduced fraction with the given denominator: 2 3/8."""
    whole, rest = divmod(math.floor(abs(value) * denominator + 0.5), denominator)
    part = Fraction(rest, denominator)
    parts = [str(whole)] if whole or not rest else []
    sign = "−" if value < 0 else ""
    return sign + " ".join([*parts, f"{part.numerator}/{part.denominator}"] if rest else parts)


class _Rounding(NamedTuple):
    """How to round converted numbers. The first given setting applies: denominator, step, figures, then digits.

    Attributes:
        digits: Number of decimals; None to derive it from the input's precision.
        figures: Number of significant figures; 0 if not given.
        step: Results are rounded to multiples of this number; 0 if not given.
        denominator: Results are rounded to fractions with this denominator; 0 if not given.
    """

    digits: int | None
    figures: int
    step: float
    denominator: int


def _read_rounding(rest: list[str], named: Named) -> _Rounding:
    """Parse how a template's arguments request to round converted numbers.

    Args:
        rest: The positional arguments after the numbers. One of the first two may be a number of decimals.
        named: The named arguments. `sigfig`, `frac` and `round` are read.
    """
    digits = next((int(word) for word in rest[:2] if re.fullmatch("-?[0-9]", word)), None)
    figures, denominator = (named.get(key, "") for key in ("sigfig", "frac"))
    step = _parse_number(named.get("round", ""))
    return _Rounding(
        digits,
        int(figures) if re.fullmatch("[1-9]|1[0-5]", figures) else 0,
        step[0] if step and step[0] > 0 else 0.0,
        int(denominator) if re.fullmatch("[1-9][0-9]{0,2}", denominator) else 0,
    )


def _split_range(arguments: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Split the arguments of `{{convert|10|to|20|km|...}}` into the numbers, the words between them, and the rest.

    The words are in their rendered form, with spaces.
    """
    if inner := _RANGE.fullmatch(arguments[0]):
        return [inner[1], inner[3]], [_BETWEEN[inner[2]]], arguments[1:]
    numbers, between, at = [arguments[0]], [], 1
    while at + 1 < len(arguments) and arguments[at].lower() in _BETWEEN and _parse_number(arguments[at + 1]):
        between.append(_BETWEEN[arguments[at].lower()])
        numbers.append(arguments[at + 1])
        at += 2
    return numbers, between, arguments[at:]


def _join(numbers: list[str], between: list[str]) -> str:
    """Join numbers with the words between them. There is one word less than there are numbers."""
    return numbers[0] + "".join(word + number for word, number in zip(between, numbers[1:], strict=True))


def _show_measure(numbers: str, unit: MeasureUnit) -> str:
    """Format numbers with their unit: 5 km, 5/km², $5/acre, 5 million acres, 1 acre."""
    symbol = unit.symbol
    if symbol.startswith(tuple(_CURRENCY)):
        return f"{symbol[0]}{numbers}{symbol[1:]}"
    if numbers == "1" and not unit.multiple:
        symbol = _to_singular(symbol)
    return f"{numbers} {unit.multiple}{symbol}".replace(" /", "/").strip()


def _to_singular(symbol: str) -> str:
    """Return the singular of a unit's name: "acres" -> "acre". Symbols are returned unchanged."""
    return symbol[:-1] if len(symbol) > 3 and symbol[-4:].isalpha() and symbol[-1] == "s" else symbol


def _show_compound(number: str, rest: list[str], named: Named) -> str | None:
    """Render a measure in several units, `{{convert|5|ft|10|in|cm}}`. Return None for any other measure.

    Args:
        number: The first number.
        rest: The arguments after it.
        named: The named arguments.
    """
    parts, at = [(number, rest[0])], 1
    while at + 1 < len(rest) and _parse_number(rest[at]) and rest[at + 1] in UNITS:
        parts.append((rest[at], rest[at + 1]))
        at += 2
    units, values = [find_unit(name) for _, name in parts], [_parse_number(text) for text, _ in parts]
    if len(parts) < 2 or None in units or None in values or len({unit.dimension for unit in units if unit}) > 1:
        return None
    total = sum(value[0] * unit.size for value, unit in zip(values, units, strict=True) if value and unit)
    first_unit, last_unit = units[0], units[-1]
    assert first_unit is not None and last_unit is not None and values[-1] is not None
    rule = _read_rounding(rest[at:], named)
    asked = [unit for name in " ".join(rest[at : at + 1]).split() if (unit := find_unit(name)) is not None]
    targets = [unit for unit in asked if unit.dimension == first_unit.dimension] or _list_default_units(first_unit)
    shown = []
    for target in targets:
        result = total / target.size
        # The smaller unit is meant to the last digit: one more figure than its order of magnitude says.
        places = _find_decimals(total / last_unit.size, values[-1][1], result, None) + 1
        shown.append(_show_measure(_round(result, places if rule.digits is None else rule.digits), target))
    given = " ".join(f"{show_number(text)} {unit.symbol}" for (text, _), unit in zip(parts, units, strict=True) if unit)
    return _arrange(given, shown, rest[at + 1 :], named)


def _list_default_units(unit: MeasureUnit) -> list[MeasureUnit]:
    """Return the units to which a unit is converted if the template does not request any."""
    return [target for name in unit.default.split() if (target := find_unit(name)) is not None]


def _show_in_two_units(numbers: list[str], between: list[str], unit: MeasureUnit, pair: tuple[str, str]) -> str:
    """Convert numbers to a pair of units, and format them: 6 ft 2 in, 10 st 5 lb.

    Args:
        numbers: The numbers as written in the template.
        between: The words between the numbers, such as "to".
        unit: Their unit.
        pair: Names of the larger and the smaller unit.
    """
    large, small = UNITS[pair[0]], UNITS[pair[1]]
    ratio, texts = round(large.size / small.size), list[str]()
    for number in numbers:
        smalls = math.floor((_parse_number(number) or (0.0, 0))[0] * unit.size / small.size + 0.5)
        wholes, rest = divmod(smalls, ratio)
        texts.append(" ".join(f"{n:,} {u.symbol}" for n, u in ((wholes, large), (rest, small)) if n or u is small))
    return _join(texts, between)


def convert(arguments: list[str], named: Named) -> str:
    """Render `{{convert|12|km|mi}}` as 12 km (7.5 mi): the measure as given, and converted to other units.

    If the number cannot be parsed or the unit is unknown, only the measure as given is returned.
    """
    if len(arguments) < 2 or not arguments[0]:
        return show_first(arguments, named)
    numbers, between, rest = _split_range(arguments)
    name = rest[0] if rest else ""
    if len(numbers) == 1 and len(rest) > 2 and (compound := _show_compound(arguments[0], rest, named)) is not None:
        return compound
    unit = find_unit(name)
    row = _join([show_number(number) for number in numbers], between)
    given = _show_measure(row, unit or MeasureUnit(name, "", 0.0, ""))
    if unit is None or None in map(_parse_number, numbers):
        return given
    given = _add_qualifier(given, row, unit, rest, named)
    shown = _show_results(numbers, between, unit, rest[1] if len(rest) > 1 else "", _read_rounding(rest[1:], named))
    after = rest[2:] if len(rest) > 1 and not re.fullmatch("-?[0-9]", rest[1]) else rest[1:]
    return _arrange(given, shown, [word for word in after if not re.fullmatch("-?[0-9]", word)], named, row)


def _add_qualifier(given: str, row: str, unit: MeasureUnit, rest: list[str], named: Named) -> str:
    """Insert the word that a template puts after a measure (`adj=mid|wide`) or before its unit (`adj=pre|metric`).

    Args:
        given: The formatted measure.
        row: The formatted numbers of the measure, without the unit.
        unit: The unit of the measure.
        rest: The template's positional arguments after the numbers.
        named: The template's named arguments.

    Returns:
        The measure with the word; `given` if there is no such word.
    """
    kind = named.get("adj", "") if named.get("disp", "") != "preunit" else "pre"
    words = [word for word in rest[1:] if word.strip("-+").isalpha() and find_unit(word) is None and word not in _PAIRS]
    if kind not in ("mid", "pre") or not words:
        return given
    word = words[-1 if kind == "mid" else 0].replace("+", " ").strip()
    return given + ("" if word.startswith("-") else " ") + word if kind == "mid" else f"{row} {word} {unit.symbol}"


def _show_results(numbers: list[str], between: list[str], unit: MeasureUnit, asked: str, rule: _Rounding) -> list[str]:
    """Convert a measure to the requested or default units, and format each result with its unit.

    Args:
        numbers: The numbers as written in the template.
        between: The words between the numbers, such as "to".
        unit: Their unit.
        asked: Names of the requested units, separated by spaces. If none is known, the default units are used.
        rule: The rounding requested by the template.
    """
    if asked in _PAIRS and UNITS[_PAIRS[asked][0]].dimension == unit.dimension:
        return [_show_in_two_units(numbers, between, unit, _PAIRS[asked])]
    shown = []
    for name in asked.split():
        if name in _PAIRS and UNITS[_PAIRS[name][0]].dimension == unit.dimension:
            shown.append(_show_in_two_units(numbers, between, unit, _PAIRS[name]))
        elif (target := find_unit(name)) is not None and target.dimension == unit.dimension:
            shown.append(_show_measure(_join([_show_in_unit(n, unit, target, rule) for n in numbers], between), target))
    targets = [] if shown else _list_default_units(unit)
    return shown + [
        _show_measure(_join([_show_in_unit(n, unit, target, rule) for n in numbers], between), target)
        for target in targets
        if target.dimension == unit.dimension
    ]


def _arrange(given: str, shown: list[str], after: list[str], named: Named, row: str = "") -> str:
    """Join a measure and its conversions, in the order and with the punctuation that the template requests.

    Args:
        given: The formatted measure.
        shown: The formatted conversions.
        after: If `disp=x` is given, the words to put between the measure and its conversions, and after them.
        named: The template's named arguments.
        row: The formatted numbers without the unit; "" if unknown.
    """
    converted, order = "; ".join(shown), named.get("order", "").lower()
    if not shown:
        return given
    if order == "flip" or named.get("disp") == "flip":
        given, converted, row = shown[0], "; ".join([given, *shown[1:]]), ""
    match named.get("disp", "").lower():
        case "or" | "slash" | "/":
            return f"{given} or {converted}"
        case "out" | "output only":
            return converted
        case "number" | "output number only":
            return _strip_unit(converted)
        case "comma":
            return f"{given}, {converted}"
        case "sqbr":
            return f"{given} &#91;{converted}&#93;"
        case "x" if after:
            gap = " " if after[0][-1:].isalnum() else ""
            return f"{given} {after[0]}{gap}{converted}{after[1] if len(after) > 1 else ''}"
    if order == "out":
        return f"{shown[0]} ({'; '.join(shown[1:])})" if len(shown) > 1 else converted
    if named.get("abbr") == "values":
        return f"{row} ({_strip_unit(converted)})" if row else converted
    return f"{given} ({converted})"


def _strip_unit(measure: str) -> str:
    """Return the numbers of a measure without its unit."""
    match = re.match(r"(?:[−0-9.,/×⁰¹²³⁴-⁹⁻–]+|(?: (?:to|and|or|×|±) ))+", measure)
    return match[0].strip() if match else measure


_UNIT_SIGNS = {"degC": "°C", "degF": "°F", "deg": "°", "Solar mass": "M☉", "arcsec": "″", "arcmin": "′"}
_POWER = re.compile(r"(?<=[A-Za-zΩ)])(-?[0-9]{1,2})(?![0-9A-Za-z])")


def raise_powers(unit: str) -> str:
    """Write the powers in a unit as superscripts ("hab./km2" -> "hab./km²"). Units of several words are unchanged."""
    return unit if " " in unit else _POWER.sub(lambda match: to_superscript(match[1]), unit)


def _show_unit_sign(code: str) -> str:
    """Return the symbol of a unit that is given as a code in `{{val}}`, such as "m/s2", "kg.m-3" or "um".

    >>> [_show_unit_sign(code) for code in ("m.s-2", "um", "degC", "GeV/c2")]
    ['m⋅s⁻²', 'μm', '°C', 'GeV/c²']
    """
    if code in _UNIT_SIGNS or (unit := find_unit(code)) is None or "temperature" in unit.dimension:
        sign = _UNIT_SIGNS.get(code) or raise_powers(code)
        return re.sub(r"\bohm\b", "Ω", re.sub(r"(?<=[A-Za-z0-9⁰-⁹¹²³])\.(?=[A-Za-z])", "⋅", sign))
    return f"{unit.multiple}{unit.symbol}"


def show_value(arguments: list[str], named: Named) -> str:
    """Render `{{val|1.5|0.2|e=6|u=m}}` as (1.5 ± 0.2)×10⁶ m: a number with uncertainty, power of ten and unit."""
    numbers, between, rest = _split_range(arguments) if arguments and arguments[0] else ([""], [], [])
    text = _join([show_number(number) for number in numbers], between)
    errors = [error for error in [*rest[:2], named.get("err", "")] if error]
    if errors[:1] and errors[0].startswith("("):
        text += errors[0]
    elif len(errors) == 2:
        text += " ".join(["", *(error.replace("-", "−") for error in errors)])
    elif errors:
        text += f" ± {errors[0].lstrip('±')}"
    if power := named.get("e"):
        text = f"({text})" if " " in text else text
        text += f"{'×' if text else ''}10{to_superscript(power.removeprefix('+'))}"
    sign, below = (_show_unit_sign(named.get(k) or named.get(f"{k}l") or "") for k in ("u", "up"))
    sign += f"/{below}" if below else ""
    gap = "" if not text or not sign or sign[0] in "%/′″" or sign == "°" else " "
    before, after = (
        named.get("p") or named.get("pre") or "",
        named.get("s") or named.get("suf") or named.get("end") or "",
    )
    after = f" {after}" if after[:2].isalpha() and len(after) > 1 else after
    return (before + text + (gap + sign if text else sign) + after).strip()


def show_height(arguments: list[str], named: Named) -> str:
    """Render `{{height|ft=6|in=2}}` or `{{height|m=1.88}}` with its conversion; "" without a height."""
    if "ft" in named:
        inches = named.get("in") or "0"
        return convert([named["ft"], "ft", inches, "in", "m"], {})
    unit = "m" if "m" in named else "cm"
    return convert([named.get(unit, ""), unit, "ftin"], {}) if unit in named else ""


def show_density(arguments: list[str], named: Named) -> str:
    """Render `{{pop density|5000|20|km2|sqmi}}` as 250/km² (650/sq mi); "" without two numbers."""
    people, area, name, *_ = [*arguments, "", "", ""]
    number, size = _parse_number(people), _parse_number(area)
    if number is None or size is None or not size[0] or find_unit(f"/{name or 'km2'}") is None:
        return ""
    digits = named.get("prec", "")
    prec = [digits] if re.fullmatch("-?[0-9]", digits) else []
    density = number[0] / size[0]
    return convert([_round(density, int(digits) if prec else int(density < 100)), f"/{name or 'km2'}", *prec], {})
