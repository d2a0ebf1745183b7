"""Plots: ticks are round and within the axis, values are where they belong, and text cannot break out."""

import math
from xml.etree import ElementTree as ET

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flows.report.plots import (
    STANDALONE_COLOURS,
    Plot,
    build_axis,
    build_log_axis,
    build_zero_axis,
    choose_ticks,
)

SPANS = st.tuples(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(SPANS.filter(lambda span: span[1] - span[0] > 1e-9 * abs(span[0])), st.integers(2, 9), st.booleans())
def test_ticks_are_within_the_axis_ascend_and_are_few(span: tuple[float, float], most: int, whole: bool) -> None:
    """Fails if an axis would be covered with labels, or a label would stand outside it."""
    found, room = choose_ticks(*span, most, whole), 1e-6 * (abs(span[0]) + abs(span[1])) + 1e-9
    assert len(found) <= most + 1 and found == sorted(set(found))
    assert all(span[0] - room <= tick <= span[1] + room for tick in found)
    assert not whole or all(tick == int(tick) for tick in found)


@given(st.integers(0, 1 << 24), st.integers(1, 1 << 24))
def test_an_axis_in_ratios_names_some_places_and_begins_at_its_low_end(low: int, more: int) -> None:
    """Fails if lengths of nothing, or all of one length, have no axis."""
    axis = build_log_axis(low, low + more)
    assert axis.ticks and all(low <= tick <= low + more for tick in axis.ticks)
    assert axis.compute_share(axis.low) == 0 and math.isclose(axis.compute_share(axis.high), 1)


def test_what_is_no_number_is_a_gap_in_the_line() -> None:
    """Fails if two stretches of a line are joined over what is missing, or nan comes into the drawing."""
    values = [1.0, 2.0, math.nan, 3.0, math.inf, 1.0]
    plot = Plot(width=300, height=100, across=build_axis((0, 5)), up=build_axis(values))
    drawn = plot.draw_line(list(enumerate(values)), "red", 1.0)
    assert drawn.count("M") == 3 and drawn.count("L") == 1 and "nan" not in drawn and "inf" not in drawn


def test_a_picture_holds_its_bars_and_its_text_as_text() -> None:
    """Fails if a bar leaves the frame, or a name is read as markup."""
    plot = Plot(
        width=300,
        height=100,
        across=build_axis((0, 4), "<tokens & more>"),
        up=build_zero_axis(9),
        colours=STANDALONE_COLOURS,
    )
    svg = plot.render("a-name", [plot.draw_bars(np.array([0.0, 2.0, 4.0]), np.array([9, 0]))], inline=False)
    root = ET.fromstring(svg)
    said = [element.text for element in root.iter() if element.tag.endswith("}text")]
    assert "<tokens & more>" in said
    bars = [element.get("d", "") for element in root.iter() if element.get("fill") == STANDALONE_COLOURS.bar]
    assert len(bars) == 1 and bars[0].count("M") == 1
    assert (
        plot.top <= plot.to_y(9) < plot.to_y(0) == plot.bottom
        and plot.left <= plot.to_x(0) < plot.to_x(4) <= plot.right
    )
