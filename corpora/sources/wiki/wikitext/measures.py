"""Templates that write measures: `{{convert|12|km|mi}}`, `{{height|ft=6|in=2}}` and `{{pop density|500|2|km2}}`.

Promise: the measure as given is always kept; the converted one is next to it where both units are known,
rounded as the template rounds it. Units may have prefixes of SI ("GW"), powers of ten ("e6km2") and rates ("m3/s").
What is not a number, or a unit not known here, converts nothing.

Source: the documentation of the templates of the English Wikipedia; `Module:Convert` for its rule of rounding.
"""
# ruff: noqa: RUF001 - the tables hold dashes and signs that resemble ASCII

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from corpora.sources.wiki.wikitext.arguments import Named, first, grouped, raised

_NUMBER = re.compile(r"([-−–+]?)([0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{0,15})(?:\.([0-9]{1,10}))?(?:[eE]([-−+]?[0-9]{1,2}))?")
_FRACTION = re.compile(r"([-−]?)(?:([0-9]{1,9})(?:[ +]|(?=½)))?(?:([0-9]{1,9})(?:/{1,2}|⁄)([1-9][0-9]{0,8}))")
_RANGE = re.compile(r"([-−]?[0-9][0-9,.]*)\s*(-|–|to|and|x|×)\s*([-−]?[0-9][0-9,.]*)")
# dimension: name, symbol, size in the dimension's own measure, units converted to by default
_UNIT_TABLE = """
length: km|km|1000|mi; m|m|1|ft; cm|cm|.01|in; mm|mm|.001|in; mi|mi|1609.344|km; ft|ft|.3048|m; in|in|.0254|mm
length: yd|yd|.9144|m; nmi|nmi|1852|km mi; um|μm|1e-6|in; nm|nm|1e-9|in; fathom|fathoms|1.8288|ft m; mil|mil|2.54e-5|mm
length: thou|thou|2.54e-5|mm; furlong|furlongs|201.168|m; chain|chains|20.1168|m; rod|rods|5.0292|m; hand|hands|.1016|cm
length: league|leagues|4828.032|km; link|links|.201168|m; ly|ly|9.4607304725808e15|pc; pc|pc|3.0856775814914e16|ly
length: kpc|kpc|3.0856775814914e19|ly; Mpc|Mpc|3.0856775814914e22|ly; au|AU|149597870700|km; angstrom|Å|1e-10|in
length: smi|mi|1609.344|km; verst|versts|1066.8|km; li|li|500|mi; ftUS|ft|.3048006096|m; rd|rd|5.0292|m
length: Rsun|R☉|6.957e8|km; solar_radius|R☉|6.957e8|km
area: km2|km²|1e6|sqmi; m2|m²|1|sqft; cm2|cm²|1e-4|sqin; mm2|mm²|1e-6|sqin; ha|ha|1e4|acre; a|a|100|sqft
area: acre|acres|4046.8564224|ha; sqmi|sq mi|2589988.110336|km2; sqft|sq ft|.09290304|m2; sqyd|sq yd|.83612736|m2
area: sqin|sq in|.00064516|cm2; dunam|dunam|1000|ha acre; feddan|feddan|4200.8335|ha; sqnmi|sq nmi|3429904|km2 sqmi
area: rood|roods|1011.7141056|sqm; perch|perches|25.29285264|m2; barn|b|1e-28|cm2; tsubo|tsubo|3.305785|sqft; pyeong|pyeong|3.305785|m2
mass: kg|kg|1|lb; g|g|.001|oz; mg|mg|1e-6|gr; ug|μg|1e-9|gr; lb|lb|.45359237|kg; oz|oz|.028349523125|g
mass: t|t|1000|LT; MT|t|1000|LT; gr|gr|6.479891e-5|g; LT|long tons|1016.0469088|t; ST|short tons|907.18474|t
mass: st|st|6.35029318|kg; ozt|ozt|.0311034768|g; lbt|troy lb|.3732417216|kg; carat|carats|.0002|g; Mg|Mg|1000|LT
mass: kt|kt|1e6|LT; Mt|Mt|1e9|LT; Gt|Gt|1e12|LT; long_cwt|cwt|50.80234544|kg; short_cwt|cwt|45.359237|kg; cwt|cwt|50.80234544|kg
mass: slug|slugs|14.593903|kg; Msun|M☉|1.98847e30|kg; kilotonne|kt|1e6|LT; megatonne|Mt|1e9|LT; troy_oz|ozt|.0311034768|g
mass: dr|dr|.0017718451953|g; quintal|q|100|lb; viss|viss|1.632932532|kg; tola|tola|.0116638038|g; pood|pood|16.3804964|kg
volume: L|L|.001|USgal; l|L|.001|USgal; m3|m³|1|cuft; km3|km³|1e9|cumi; dm3|dm³|.001|cuin; cm3|cm³|1e-6|cuin
volume: mm3|mm³|1e-9|cuin; cc|cc|1e-6|cuin; cuft|cu ft|.028316846592|m3; cuyd|cu yd|.764554857984|m3
volume: cuin|cu in|1.6387064e-5|cm3; cumi|cu mi|4168181825.44058|km3; acre.ft|acre⋅ft|1233.48183754752|m3
volume: acre.foot|acre⋅ft|1233.48183754752|m3; USgal|US gal|.003785411784|L; impgal|imp gal|.00454609|L
volume: USqt|US qt|.000946352946|L; USpt|US pt|.000473176473|ml; USoz|US fl oz|2.95735295625e-5|ml; USpk|US pk|.00880976754|L
volume: impqt|imp qt|.0011365225|L; imppt|imp pt|.00056826125|ml; impoz|imp fl oz|2.84130625e-5|ml; USbsh|US bsh|.03523907016688|L
volume: impbsh|imp bsh|.03636872|L; oilbbl|bbl|.158987294928|m3; bbl|bbl|.158987294928|m3; USbbl|US bbl|.119240471196|L
volume: impbbl|imp bbl|.16365924|L; TEU|TEU|38.5109|m3; bdft|board feet|.002359737216|m3; USquart|US qt|.000946352946|L
volume: ml|ml|1e-6|USoz; mL|ml|1e-6|USoz; cl|cl|1e-5|USoz; dl|dl|1e-4|USoz; ul|μL|1e-9|cuin; ncuft|cu ft|.028316846592|m3
volume: GRT|GRT|2.8316846592|m3; scuft|cu ft|.028316846592|m3; Mcuft|million cu ft|28316.846592|m3; cord|cords|3.624556363776|m3
volume: USdrypt|US dry pt|.0005506104713575|ml; tbsp|tbsp|1.478676478125e-5|ml; tsp|tsp|4.92892159375e-6|ml; cup|cups|.0002365882365|ml
speed: km/h|km/h|.277777777777778|mph; mph|mph|.44704|km/h; m/s|m/s|1|ft/s; ft/s|ft/s|.3048|m/s; kn|kn|.514444444444444|km/h
speed: knot|kn|.514444444444444|km/h; km/s|km/s|1000|mi/s; mi/s|mi/s|1609.344|km/s; mach|Mach|340.29|km/h
speed: m/min|m/min|.0166666666666667|ft/min; ft/min|ft/min|.00508|m/min; mm/h|mm/h|2.77777777777778e-7|in/h
speed: in/h|in/h|7.05555555555556e-6|mm/h; cm/s|cm/s|.01|in/s; in/s|in/s|.0254|cm/s; c|c|299792458|km/s
time: s|s|1|min; min|min|60|s; h|h|3600|min; d|d|86400|h; wk|wk|604800|d; yr|yr|31557600|d; year|years|31557600|d; month|months|2629800|d
frequency: Hz|Hz|1|rpm; rpm|rpm|.0166666666666667|Hz
power: kW|kW|1000|hp; W|W|1|hp; MW|MW|1e6|hp; hp|hp|745.69987158227|kW; bhp|bhp|745.69987158227|kW; PS|PS|735.49875|kW
power: shp|shp|745.69987158227|kW; ihp|ihp|745.69987158227|kW; whp|whp|745.69987158227|kW; dbhp|dbhp|745.69987158227|kW
power: BTU/h|BTU/h|.29307107|W; cv|CV|735.49875|kW; ehp|ehp|745.69987158227|kW; pferdestarke|PS|735.49875|kW
pressure: kPa|kPa|1000|psi; MPa|MPa|1e6|psi; hPa|hPa|100|inHg; Pa|Pa|1|psi; psi|psi|6894.757293168|kPa
pressure: bar|bar|1e5|psi; atm|atm|101325|kPa; mbar|mbar|100|inHg; inHg|inHg|3386.389|hPa; mmHg|mmHg|133.322387415|kPa
pressure: torr|Torr|133.322368421|Pa; ksi|ksi|6894757.293168|MPa; kg/cm2|kg/cm²|98066.5|psi; psf|psf|47.88025898|kPa; inH2O|inH2O|249.08891|Pa
energy: J|J|1|cal; kJ|kJ|1000|kcal; cal|cal|4.184|J; kcal|kcal|4184|kJ; Cal|Cal|4184|kJ; MJ|MJ|1e6|kWh; kWh|kWh|3.6e6|MJ
energy: Wh|W⋅h|3600|kJ; MWh|MWh|3.6e9|MJ; GWh|GWh|3.6e12|TJ; TWh|TWh|3.6e15|PJ; BTU|BTU|1055.05585262|kJ; eV|eV|1.602176634e-19|J
energy: ftlbf|ft⋅lbf|1.3558179483314|J; ft.lbf|ft⋅lbf|1.3558179483314|J; erg|erg|1e-7|J; therm|therms|105505585.262|MJ; kW.h|kW⋅h|3.6e6|MJ
energy: tTNT|t of TNT|4.184e9|GJ; ktTNT|kt of TNT|4.184e12|TJ; MtTNT|Mt of TNT|4.184e15|PJ; tonTNT|tons of TNT|4.184e9|GJ
energy: kilotonTNT|kt of TNT|4.184e12|TJ; megatonTNT|Mt of TNT|4.184e15|PJ; foe|foe|1e44|J; quad|quads|1.05505585262e18|EJ; boe|BOE|6.1e9|GJ
torque: Nm|N⋅m|1|lbft; N.m|N⋅m|1|lbft; lbft|lb⋅ft|1.3558179483314|Nm; lbfft|lbf⋅ft|1.3558179483314|Nm; kgm|kg⋅m|9.80665|Nm lbft
torque: kg.m|kg⋅m|9.80665|Nm lbft; lb.ft|lb⋅ft|1.3558179483314|Nm; lb.in|lb⋅in|.112984829|Nm; ozin|oz⋅in|.00706155182|Nm; kN.m|kN⋅m|1000|lbft
density: /km2|/km²|1e-6|/sqmi; /sqmi|/sq mi|3.8610215854245e-7|/km2; PD/sqmi|/sq mi|3.8610215854245e-7|/km2
density: PD/km2|/km²|1e-6|/sqmi; /ha|/ha|1e-4|/acre; /acre|/acre|2.4710538146717e-4|/ha; PD/ha|/ha|1e-4|/acre; PD/acre|/acre|2.4710538146717e-4|/ha
force: kN|kN|1000|lbf; N|N|1|lbf; lbf|lbf|4.4482216152605|N; kgf|kgf|9.80665|N lbf; klbf|klbf|4448.2216152605|kN; gf|gf|.00980665|N
force: LTf|LTf|9964.01641818|kN; STf|STf|8896.443230521|kN; tf|tf|9806.65|kN; mN|mN|.001|ozf; ozf|ozf|.27801385|N; dyn|dyn|1e-5|N; kp|kp|9.80665|N; pdl|pdl|.138254954|N
temperature: C|°C|1|F; F|°F|.555555555555556|C; K|K|1|C F; R|°R|.555555555555556|K F C; degreeR|°R|.555555555555556|K F C
change: C-change|°C|1|F-change; F-change|°F|.555555555555556|C-change; K-change|K|1|F-change; Cchange|°C|1|F-change; Fchange|°F|.555555555555556|C-change
acceleration: m/s2|m/s²|1|ft/s2; ft/s2|ft/s²|.3048|m/s2; g0|g0|9.80665|m/s2; cm/s2|cm/s²|.01|in/s2; in/s2|in/s²|.0254|cm/s2
consumption: km/L|km/L|1|mpgimp mpgus; mpgus|mpg‑US|.425143707430272|L/100km mpgimp; mpgimp|mpg‑imp|.354006189934647|L/100km mpgus; mpgUS|mpg‑US|.425143707430272|L/100km mpgimp
data: byte|bytes|1|bit; bit|bits|.125|byte; kB|kB|1e3|KiB; MB|MB|1e6|MiB; GB|GB|1e9|GiB; KiB|KiB|1024|kB; MiB|MiB|1048576|MB; GiB|GiB|1073741824|GB
"""
_OTHER_NAMES = (
    "°C=C °F=F NM=nmi mile=mi miles=mi foot=ft feet=ft inch=in inches=in metre=m metres=m meter=m meters=m lbs=lb kph=km/h"
    " kmph=km/h sqkm=km2 sqm=m2 acres=acre tonne=t tonnes=t usgal=USgal μm=um µm=um kilometre=km kilometres=km"
    " kilometer=km kilometers=km centimetre=cm millimetre=mm yard=yd yards=yd fathoms=fathom furlongs=furlong"
    " hectare=ha hectares=ha pound=lb pounds=lb ounce=oz ounces=oz gram=g kilogram=kg litre=L litres=L liter=L"
    " USfloz=USoz U.S.gal=USgal USgallon=USgal impgallon=impgal gal=USgal Impgal=impgal USpint=USpt imppint=imppt"
    " cuinch=cuin cufoot=cuft square_mile=sqmi square_foot=sqft ft2=sqft ft3=cuft in2=sqin in3=cuin mi2=sqmi yd2=sqyd"
    " yd3=cuyd mi3=cumi inch2=sqin ft²=sqft km²=km2 m²=m2 m³=m3 km³=km3 cm²=cm2 cm³=cm3 knots=kn kt/h=kn kts=kn mps=m/s"
    " kmh=km/h fps=ft/s ft/sec=ft/s m/sec=m/s stone=st long_ton=LT longton=LT short_ton=ST shortton=ST lt=LT"
    " metric_ton=t MTON=t ton=ST AU=au parsec=pc lightyear=ly horsepower=hp metric_hp=PS kWhr=kWh kW·h=kWh kW·h=kWh"
    " lb·ft=lbft lb-ft=lbft lbf.ft=lbfft lbf·ft=lbfft ft·lbf=ftlbf ft.lb=lbft ftlb=lbft N·m=Nm N-m=Nm mPa.s=mPas"
    " PD/mi2=PD/sqmi people/km2=PD/km2 people/sqmi=PD/sqmi inhabitants/km2=PD/km2 inhabitants/sqmi=PD/sqmi"
    " persons/km2=PD/km2 persons/sqmi=PD/sqmi hectopascal=hPa millibar=mbar Torr=torr K.=K degC=C degF=F barrel=oilbbl"
    " acre.feet=acre.ft acre_feet=acre.ft acre_foot=acre.ft bsh=USbsh acreft=acre.ft acre-ft=acre.ft acre·ft=acre.ft year.=yr sec=s hr=h day=d metricton=t MMcuft=Mcuft"
)
_PREFIXES = {
    "Y": 24, "Z": 21, "E": 18, "P": 15, "T": 12, "G": 9, "M": 6, "k": 3, "h": 2, "da": 1, "d": -1, "c": -2, "m": -3,
    "u": -6, "µ": -6, "μ": -6, "n": -9, "p": -12, "f": -15,
}  # fmt: skip
_PREFIXABLE = frozenset("m g t ly L l W J eV Hz Pa bar N cal Wh oilbbl bbl m2 m3 byte bit s K N.m pc BTU tTNT yr".split())
_MULTIPLES = {"3": "thousand", "6": "million", "9": "billion", "12": "trillion", "15": "quadrillion"}
_OWN_RATES = {"g/cm3": "lb/cuin", "kg/m3": "lb/cuyd", "kg/L": "lb/USgal", "kg/dm3": "lb/cuin", "kg/cm3": "lb/cuin"}
_CURRENCY = "$£€¥"


class Unit(NamedTuple):
    """A unit of measure. default: the units it is converted to; multiple: before its symbol, such as "million "."""

    symbol: str
    dimension: str
    size: float
    default: str
    multiple: str = ""


UNITS = {
    row[0].strip(): Unit(row[1], dimension, float(row[2]), row[3].strip())
    for dimension, _, units in (line.partition(": ") for line in _UNIT_TABLE.split("\n") if line)
    for row in (unit.split("|") for unit in units.split(";"))
}
UNITS |= {name: UNITS[unit] for name, unit in (pair.split("=") for pair in _OTHER_NAMES.split()) if unit in UNITS}
_ZERO = {"°C": 273.15, "°F": 459.67 * 5 / 9}  # zero of the scale, in K, by symbol
_BETWEEN = {
    "to": " to ", "-": "–", "–": "–", "and": " and ", "or": " or ", "x": " × ", "×": " × ", "*": " × ",
    "by": " × ", "+/-": " ± ", "±": " ± ", "to(-)": " to ", "and(-)": " and ", "xx": " × ", "&": " and ",
    "+": " + ", ",": ", ", ", and": ", and ", ", or": ", or ", "to about": " to about ", "through": " through ",
    "till": " till ", "until": " until ", "and(–)": " and ", "to(–)": " to ", "or(-)": " or ", "/": "/", "upto": " up to ",
    "between": " and ", ";": "; ", "&ndash;": "–", "&minus;": "−", "and to": " and to ", ", to": ", to ", "x(-)": " × ",
}  # fmt: skip
_COMPOUND = {"ftin": ("ft", "in"), "stlb": ("st", "lb"), "lboz": ("lb", "oz"), "miyd": ("mi", "yd")}


@lru_cache(maxsize=1024)
def unit_of(name: str) -> Unit | None:
    """The unit of a name, composed where it has to be; None where it is not known.

    >>> [unit_of(name).symbol for name in ("GW", "koilbbl/d", "kg/m3")], unit_of("parsnip")
    (['GW', 'kbbl/d', 'kg/m³'], None)
    """
    name = name.replace(" ", "_")
    if name in UNITS:
        return UNITS[name]
    if match := re.fullmatch("e(3|6|9|12|15)(.+)", name):
        base = unit_of(match[2])
        return base and base._replace(
            size=base.size * 10.0 ** int(match[1]),
            default=" ".join(f"e{match[1]}{unit}" for unit in base.default.split()),
            multiple=f"{_MULTIPLES[match[1]]} ",
        )
    return _rate(name) if "/" in name else _prefixed(name)


def _prefixed(name: str) -> Unit | None:
    """A unit with a prefix of SI: "MW", "koilbbl"."""
    for length in (2, 1):
        prefix, base = name[:length], name[length:]
        if prefix in _PREFIXES and base in _PREFIXABLE:
            unit, power = UNITS[base], int(base[-1]) if base[-1] in "23" else 1
            size = unit.size * 10.0 ** (_PREFIXES[prefix] * power)
            return unit._replace(symbol=("μ" if prefix in "uµ" else prefix) + unit.symbol, size=size)
    return None


def _rate(name: str) -> Unit | None:
    """A unit for each of another: "m3/s", "oilbbl/d", "$/acre"."""
    if name in ("L/100km", "l/100km"):
        return Unit("L/100 km", "consumption", -100.0, "mpgimp mpgus")
    above, _, below = name.partition("/")
    over = unit_of(below)
    if over is None:
        return None
    if above in ("", "PD", *_CURRENCY):
        top: Unit | None = Unit("" if above == "PD" else above, "count", 1.0, above)
    else:
        top = unit_of(above)
    if top is None:
        return None
    each = below if over.dimension == "time" else over.default.partition(" ")[0]
    default = _OWN_RATES.get(name) or f"{top.default.partition(' ')[0]}/{each}"
    dimension = f"{top.dimension}/{over.dimension}"
    return Unit(f"{top.symbol}/{_one(over.symbol)}", dimension, top.size / over.size, default, top.multiple)


def _parse(text: str) -> tuple[float, int] | None:
    """The number a text writes and its precision (decimals; negative for trailing zeros), None if it is none.

    >>> _parse("1,200"), _parse("3.50"), _parse("1+1/2"), _parse("1.5e6")
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


def shown_number(text: str) -> str:
    """A number as a template shows it: commas between thousands, a power of ten raised, a space before a fraction.

    >>> shown_number("12345"), shown_number("1.5e6"), shown_number("1+1/2")
    ('12,345', '1.5×10⁶', '1 1/2')
    """
    if match := re.fullmatch(r"([^eE]*[0-9.])[eE]([-−+]?[0-9]{1,2})", text):
        return f"{grouped(match[1])}×10{raised(match[2].removeprefix('+'))}"
    text = re.sub(r"(?<=[0-9])\+", " ", text.replace("//", "/")).strip()
    return grouped(f"0{text}" if text.startswith(".") else text)


def _rounded(value: float, precision: int) -> str:
    """`value` rounded half up to `precision` decimals (negative: tens, hundreds), with commas."""
    if value and precision > 9:
        power = math.floor(math.log10(abs(value)))
        return f"{_rounded(value / 10.0**power, max(0, precision + power))}×10{raised(str(power))}"
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


def _converted(value: float, unit: Unit, target: Unit) -> float:
    """A number of a unit as a number of another of its dimension. Consumption by length is the inverse of reach."""
    if unit.dimension == "consumption" and (unit.size < 0) != (target.size < 0):
        return 100.0 / (value * max(unit.size, target.size)) if value else 0.0
    return (value * unit.size + _ZERO.get(unit.symbol, 0.0) - _ZERO.get(target.symbol, 0.0)) / target.size


def _in_unit(text: str, unit: Unit, target: Unit, wanted: "_Wanted") -> str:
    """The number `text` of a unit as a number of another."""
    value, given = _parse(text) or (0.0, 0)
    if unit.dimension == "change":
        result = value * unit.size / target.size
    else:
        result = _converted(value, unit, target)
    kelvin = abs(value * unit.size + _ZERO.get(unit.symbol, 0.0)) if unit.dimension == "temperature" else None
    if wanted.denominator:
        return _as_fraction(result, wanted.denominator)
    if wanted.step:
        return f"{math.floor(result / wanted.step + 0.5) * wanted.step:,.10g}".replace("-", "−")
    if wanted.figures:
        return _rounded(result, wanted.figures - 1 - math.floor(math.log10(abs(result)) + 1e-9) if result else 0)
    return _rounded(result, _output_precision(value, given, result, kelvin) if wanted.digits is None else wanted.digits)


def _as_fraction(value: float, denominator: int) -> str:
    """A number in fractions of a denominator: 2 3/8."""
    whole, rest = divmod(math.floor(abs(value) * denominator + 0.5), denominator)
    part = Fraction(rest, denominator)
    parts = [str(whole)] if whole or not rest else []
    sign = "−" if value < 0 else ""
    return sign + " ".join([*parts, f"{part.numerator}/{part.denominator}"] if rest else parts)


class _Wanted(NamedTuple):
    """How results are rounded: to decimals, figures, a step, or fractions; None or 0 by the input's precision."""

    digits: int | None
    figures: int
    step: float
    denominator: int


def _wanted(rest: list[str], named: Named) -> _Wanted:
    digits = next((int(word) for word in rest[:2] if re.fullmatch("-?[0-9]", word)), None)
    figures, denominator = (named.get(key, "") for key in ("sigfig", "frac"))
    step = _parse(named.get("round", ""))
    return _Wanted(
        digits,
        int(figures) if re.fullmatch("[1-9]|1[0-5]", figures) else 0,
        step[0] if step and step[0] > 0 else 0.0,
        int(denominator) if re.fullmatch("[1-9][0-9]{0,2}", denominator) else 0,
    )


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


def _measure(numbers: str, unit: Unit) -> str:
    """Numbers and their unit: 5 km, 5/km², $5/acre, 5 million acres, 1 acre."""
    symbol = unit.symbol
    if symbol[:1] in _CURRENCY:
        return f"{symbol[0]}{numbers}{symbol[1:]}"
    if numbers == "1" and not unit.multiple:
        symbol = _one(symbol)
    return f"{numbers} {unit.multiple}{symbol}".replace(" /", "/").strip()


def _one(symbol: str) -> str:
    """The name of one of a unit: acre, long ton."""
    return symbol[:-1] if len(symbol) > 3 and symbol[-4:].isalpha() and symbol[-1] == "s" else symbol


def _compound(number: str, rest: list[str], named: Named) -> str | None:
    """`{{convert|5|ft|10|in|cm}}`: units of one measure, each in those before it; None where they are none."""
    parts, at = [(number, rest[0])], 1
    while at + 1 < len(rest) and _parse(rest[at]) and rest[at + 1] in UNITS:
        parts.append((rest[at], rest[at + 1]))
        at += 2
    units, values = [unit_of(name) for _, name in parts], [_parse(text) for text, _ in parts]
    if len(parts) < 2 or None in units or None in values or len({unit.dimension for unit in units if unit}) > 1:
        return None
    total = sum(value[0] * unit.size for value, unit in zip(values, units, strict=True) if value and unit)
    first_unit, last_unit = units[0], units[-1]
    assert first_unit is not None and last_unit is not None and values[-1] is not None
    wanted = _wanted(rest[at:], named)
    asked = [unit for name in " ".join(rest[at : at + 1]).split() if (unit := unit_of(name)) is not None]
    targets = [unit for unit in asked if unit.dimension == first_unit.dimension] or _defaults(first_unit)
    shown = []
    for target in targets:
        result = total / target.size
        # The smaller unit is meant to the last digit: one more figure than its order of magnitude says.
        places = _output_precision(total / last_unit.size, values[-1][1], result, None) + 1
        shown.append(_measure(_rounded(result, places if wanted.digits is None else wanted.digits), target))
    given = " ".join(f"{shown_number(text)} {unit.symbol}" for (text, _), unit in zip(parts, units, strict=True) if unit)
    return _arranged(given, shown, rest[at + 1 :], named)


def _defaults(unit: Unit) -> list[Unit]:
    return [target for name in unit.default.split() if (target := unit_of(name)) is not None]


def _in_two(numbers: list[str], between: list[str], unit: Unit, pair: tuple[str, str]) -> str:
    """Numbers of a unit in two others: 6 ft 2 in, 10 st 5 lb."""
    large, small = UNITS[pair[0]], UNITS[pair[1]]
    ratio, texts = round(large.size / small.size), list[str]()
    for number in numbers:
        smalls = math.floor((_parse(number) or (0.0, 0))[0] * unit.size / small.size + 0.5)
        wholes, rest = divmod(smalls, ratio)
        texts.append(" ".join(f"{n:,} {u.symbol}" for n, u in ((wholes, large), (rest, small)) if n or u is small))
    return _in_row(texts, between)


def convert(arguments: list[str], named: Named) -> str:
    """`{{convert|12|km|mi}}` is 12 km (7.5 mi): the measure as given and converted, by the units' symbols."""
    if len(arguments) < 2 or not arguments[0]:
        return first(arguments, named)
    numbers, between, rest = _split_range(arguments)
    name = rest[0] if rest else ""
    if len(numbers) == 1 and len(rest) > 2 and (compound := _compound(arguments[0], rest, named)) is not None:
        return compound
    unit = unit_of(name)
    row = _in_row([shown_number(number) for number in numbers], between)
    given = _measure(row, unit or Unit(name, "", 0.0, ""))
    if unit is None or None in map(_parse, numbers):
        return given
    given = _qualified(given, row, unit, rest, named)
    shown = _results(numbers, between, unit, rest[1] if len(rest) > 1 else "", _wanted(rest[1:], named))
    after = rest[2:] if len(rest) > 1 and not re.fullmatch("-?[0-9]", rest[1]) else rest[1:]
    return _arranged(given, shown, [word for word in after if not re.fullmatch("-?[0-9]", word)], named, row)


def _qualified(given: str, row: str, unit: Unit, rest: list[str], named: Named) -> str:
    """A measure with the word that a template puts after it (`adj=mid|wide`) or before its unit (`adj=pre|metric`)."""
    kind = named.get("adj", "") if named.get("disp", "") != "preunit" else "pre"
    words = [word for word in rest[1:] if word.strip("-+").isalpha() and unit_of(word) is None and word not in _COMPOUND]
    if kind not in ("mid", "pre") or not words:
        return given
    word = words[-1 if kind == "mid" else 0].replace("+", " ").strip()
    return given + ("" if word.startswith("-") else " ") + word if kind == "mid" else f"{row} {word} {unit.symbol}"


def _results(numbers: list[str], between: list[str], unit: Unit, asked: str, wanted: _Wanted) -> list[str]:
    """The measure in the units that are asked for, or in the default ones."""
    if asked in _COMPOUND and UNITS[_COMPOUND[asked][0]].dimension == unit.dimension:
        return [_in_two(numbers, between, unit, _COMPOUND[asked])]
    shown = []
    for name in asked.split():
        if name in _COMPOUND and UNITS[_COMPOUND[name][0]].dimension == unit.dimension:
            shown.append(_in_two(numbers, between, unit, _COMPOUND[name]))
        elif (target := unit_of(name)) is not None and target.dimension == unit.dimension:
            shown.append(_measure(_in_row([_in_unit(n, unit, target, wanted) for n in numbers], between), target))
    targets = [] if shown else _defaults(unit)
    return shown + [
        _measure(_in_row([_in_unit(n, unit, target, wanted) for n in numbers], between), target)
        for target in targets
        if target.dimension == unit.dimension
    ]


def _arranged(given: str, shown: list[str], after: list[str], named: Named, row: str = "") -> str:
    """The measure and its conversions, in the order and between the marks that are asked for."""
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
            return _bare(converted)
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
        return f"{row} ({_bare(converted)})" if row else converted
    return f"{given} ({converted})"


def _bare(measure: str) -> str:
    """The numbers of a measure without its unit."""
    match = re.match(r"(?:[−0-9.,/×⁰¹²³⁴-⁹⁻–]+|(?: (?:to|and|or|×|±) ))+", measure)
    return match[0].strip() if match else measure


_UNIT_SIGNS = {"degC": "°C", "degF": "°F", "deg": "°", "Solar mass": "M☉", "arcsec": "″", "arcmin": "′"}
_POWER = re.compile(r"(?<=[A-Za-zΩ)])(-?[0-9]{1,2})(?![0-9A-Za-z])")


def _unit_sign(code: str) -> str:
    """The sign of a unit that `{{val}}` names by a code: "m/s2", "kg.m-3", "um".

    >>> [_unit_sign(code) for code in ("m.s-2", "um", "degC", "GeV/c2")]
    ['m⋅s⁻²', 'μm', '°C', 'GeV/c²']
    """
    if code in _UNIT_SIGNS or (unit := unit_of(code)) is None or "temperature" in unit.dimension:
        sign = _UNIT_SIGNS.get(code) or _POWER.sub(lambda match: raised(match[1]), code)
        return re.sub(r"\bohm\b", "Ω", re.sub(r"(?<=[A-Za-z0-9⁰-⁹¹²³])\.(?=[A-Za-z])", "⋅", sign))
    return f"{unit.multiple}{unit.symbol}"


def value(arguments: list[str], named: Named) -> str:
    """`{{val|1.5|0.2|e=6|u=m}}` is (1.5 ± 0.2)×10⁶ m: number or range, uncertainty, power of ten, unit."""
    numbers, between, rest = _split_range(arguments) if arguments and arguments[0] else ([""], [], [])
    text = _in_row([shown_number(number) for number in numbers], between)
    errors = [error for error in [*rest[:2], named.get("err", "")] if error]
    if errors[:1] and errors[0].startswith("("):
        text += errors[0]
    elif len(errors) == 2:
        text += " ".join(["", *(error.replace("-", "−") for error in errors)])
    elif errors:
        text += f" ± {errors[0].lstrip('±')}"
    if power := named.get("e"):
        text = f"({text})" if " " in text else text
        text += f"{'×' if text else ''}10{raised(power.removeprefix('+'))}"
    sign, below = (_unit_sign(named.get(k) or named.get(f"{k}l") or "") for k in ("u", "up"))
    sign += f"/{below}" if below else ""
    gap = "" if not text or not sign or sign[0] in "%/′″" or sign == "°" else " "
    before, after = named.get("p") or named.get("pre") or "", named.get("s") or named.get("suf") or named.get("end") or ""
    after = f" {after}" if after[:2].isalpha() and len(after) > 1 else after
    return (before + text + (gap + sign if text else sign) + after).strip()


def height(arguments: list[str], named: Named) -> str:
    """`{{height|ft=6|in=2}}` or `{{height|m=1.88}}`."""
    if "ft" in named:
        inches = named.get("in") or "0"
        return convert([named["ft"], "ft", inches, "in", "m"], {})
    unit = "m" if "m" in named else "cm"
    return convert([named.get(unit, ""), unit, "ftin"], {}) if unit in named else ""


def people_by_area(arguments: list[str], named: Named) -> str:
    """`{{pop density|5000|20|km2|sqmi}}`: 250/km² (650/sq mi). Without two numbers it shows nothing."""
    people, area, name, *_ = [*arguments, "", "", ""]
    number, size = _parse(people), _parse(area)
    if number is None or size is None or not size[0] or unit_of(f"/{name or 'km2'}") is None:
        return ""
    digits = named.get("prec", "")
    prec = [digits] if re.fullmatch("-?[0-9]", digits) else []
    density = number[0] / size[0]
    return convert([_rounded(density, int(digits) if prec else int(density < 100)), f"/{name or 'km2'}", *prec], {})
