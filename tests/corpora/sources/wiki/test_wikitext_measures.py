"""Measures in wikitext: right by exact factors, and what cannot be converted is as given."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_cases import cases_of

from corpora.sources.wiki.wikitext import measures as module
from corpora.sources.wiki.wikitext.prose import wikitext_to_text

# The exact factor of a conversion, written down apart from the module's table.
FACTORS = [
    ("km", "mi", 0.621371), ("ft", "m", 0.3048), ("in", "mm", 25.4), ("kg", "lb", 2.204623), ("acre", "ha", 0.404686),
    ("sqmi", "km2", 2.589988), ("mph", "km/h", 1.609344), ("kn", "km/h", 1.852), ("hp", "kW", 0.7457),
    ("USgal", "L", 3.785412), ("psi", "kPa", 6.894757), ("nmi", "km", 1.852), ("oz", "g", 28.34952),
    ("cuft", "m3", 0.0283168), ("lbft", "Nm", 1.355818), ("/sqmi", "/km2", 0.386102), ("st", "kg", 6.350293),
]  # fmt: skip


@given(st.sampled_from(FACTORS), st.integers(1, 999_999).map(lambda tenths: f"{tenths / 10:.1f}"))
@settings(deadline=None)
def test_a_converted_measure_is_right_to_two_figures(row: tuple[str, str, float], measure: str) -> None:
    unit, target, factor = row
    text = wikitext_to_text(f"{{{{convert|{measure}|{unit}|{target}}}}}")
    converted = re.search(r"\(([0-9,.]+)", text)
    assert converted, text
    exact = float(measure) * factor
    half_a_unit = 0.5 * 10.0 ** (math.floor(math.log10(exact)) - 1)
    assert abs(float(converted[1].replace(",", "")) - exact) <= half_a_unit * 1.01


def test_every_unit_converts_by_default_to_another_of_its_dimension() -> None:
    for name, unit in module.UNITS.items():
        assert unit.size > 0 and unit.default != name
        targets = [module.find_unit(target) for target in unit.default.split()]
        assert targets and all(target and target.dimension == unit.dimension for target in targets), name


def test_documented_forms_come_out_as_they_were_read() -> None:
    """Fails if a form of convert, cvt, val or pop density changes; each was compared with the documentation."""
    forms = cases_of(__file__, "measures")
    shown = {form: wikitext_to_text(f"x{form}y")[1:-1] for form in forms}
    assert len(forms) > 400 and shown == forms


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{{convert|many|km|mi}}", "many km"),
        ("{{convert|5|parsnip}}", "5 parsnip"),
        ("{{convert|5|km|kg}}", "5 km (3.1 mi)"),
        ("{{convert|60|and|170|kg|lb}}", "60 and 170 kg (130 and 370 lb)"),
        ("{{height|ft=6|in=2}}", "6 ft 2 in (1.88 m)"),
    ],
)
def test_a_measure_is_kept_and_converted_where_both_units_are_known(template: str, shown: str) -> None:
    assert wikitext_to_text(template) == shown
