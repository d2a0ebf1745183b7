"""The templates of pages and of the drawings on them: files of this folder, which escape every value."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from flows.recipes.privacy import to_one_line


def build_page_environment() -> Environment:
    """Return the templates, with the style that all pages share."""
    environment = Environment(
        loader=FunctionLoader(_read_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = Markup(_read_file("page.css"))
    environment.filters |= {"bounded": to_one_line, "number": format_number, "px": format_px}
    return environment


@cache
def load_drawings() -> Any:
    """Return the macros that write pictures, by their names."""
    return build_page_environment().get_template("drawings.html").module


def format_px(value: float) -> str:
    """Return a place in a drawing.

    >>> format_px(7.0), format_px(1 / 3)
    ('7', '0.33')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def format_number(value: float) -> str:
    """Return a number as text.

    >>> format_number(1234567.0), format_number(0.25), format_number(0.00005)
    ('1,234,567', '0.25', '5e-05')
    """
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def _read_file(name: str) -> str:
    """Return a file of this package."""
    return (files("flows.report") / name).read_text(encoding="utf-8")
