"""The templates of pages and of the drawings on them: files of this folder, with all values escaped."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from flows.recipes.privacy import to_one_line


def build_page_environment() -> Environment:
    """Build a Jinja environment for HTML pages, with their shared style sheet and the filters for numbers and texts."""
    environment = Environment(
        loader=FunctionLoader(_read), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["style"] = Markup(_read("page.css"))
    environment.filters |= {"bounded": to_one_line, "number": format_number, "px": format_px}
    return environment


@cache
def load_drawings() -> Any:
    """Load the Jinja macros that write SVG, as a module with a function for each drawing. The result is cached."""
    return build_page_environment().get_template("drawings.html").module


def format_px(value: float) -> str:
    """Format a length or position for SVG, with at most two decimals.

    >>> format_px(7.0), format_px(1 / 3)
    ('7', '0.33')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def format_number(value: float) -> str:
    """Format a whole number with thousands separators, and any other number with six significant digits.

    >>> format_number(1234567.0), format_number(0.25), format_number(0.00005)
    ('1,234,567', '0.25', '5e-05')
    """
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def _read(name: str) -> str:
    """Read a text file of this package, such as "page.css"."""
    return (files("flows.report") / name).read_text(encoding="utf-8")
