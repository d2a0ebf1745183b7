"""The templates of pages and of the drawings on them: files of this folder, which escape every value."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from flows.recipes.privacy import to_one_line


def environment_of_pages() -> Environment:
    """Return the templates, with the style that all pages share."""
    environment = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["style"] = Markup(_text("page.css"))
    environment.filters |= {"bounded": to_one_line, "number": number, "px": pixels}
    return environment


@cache
def drawings() -> Any:
    """Return the macros that write pictures, by their names."""
    return environment_of_pages().get_template("drawings.html").module


def pixels(value: float) -> str:
    """Return a place in a drawing.

    >>> pixels(7.0), pixels(1 / 3)
    ('7', '0.33')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def number(value: float) -> str:
    """Return a number as text.

    >>> number(1234567.0), number(0.25), number(0.00005)
    ('1,234,567', '0.25', '5e-05')
    """
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def _text(name: str) -> str:
    """Return a file of this package."""
    return (files("flows.report") / name).read_text(encoding="utf-8")
