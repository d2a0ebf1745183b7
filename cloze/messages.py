"""Errors of the stages and of the commands, in the words of Python: `--set source.tickets.fields.text=body` is there
`fields={"text": "body"}`, and the file that rows were written to is the argument that they came in.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corpora.errors import InputError
from flows.recipes.recipe import SOURCE_KEYS
from flows.recipes.tables import key_parts, setting_value

NESTED = ("fields", *SOURCE_KEYS)  # keys of a source; what follows `source.` else is its name
_SET = re.compile(r"--set ('[^']*'|[^\s']\S*?(?=[.,;:)]?(?:\s|$)))")
_COLUMN = re.compile(r"--column ([a-z]+)=([^\s,;:)]+?)(?=[.,;:)]?(?:\s|$))")
_OPTION = re.compile(r"--(?:no-)?([a-z][a-z-]*)")
_RECIPE = re.compile(r"^\S*\.toml: |\bsource \d+: | in the \[\[source\]\] '[^']*'")


@contextmanager
def in_python(folder: Path) -> Iterator[None]:
    """Have InputErrors name arguments of Python for the time of the block. folder: of the files that were written"""
    try:
        yield
    except InputError as error:
        raise InputError(python_words(str(error), folder)) from error.__cause__


def python_words(message: str, folder: Path) -> str:
    """Return a message with Python's arguments in the place of options, keys of a recipe and our files.

    >>> python_words("source 1: Name one with --set source.tickets.fields.text=NAME.", Path("/tmp/x"))
    'Name one with fields={"text": "NAME"}.'
    >>> python_words("Use --max-unusable, or --column label=topic.", Path("/tmp/x"))
    'Use max_unusable, or columns={"label": "topic"}.'
    """
    message = re.sub(rf"{re.escape(str(folder))}/[^/\s]+/(\w+)\.(?:jsonl|parquet)", r"\1", message)
    message = _SET.sub(_as_argument, _RECIPE.sub("", message))
    message = _COLUMN.sub(r'columns={"\1": "\2"}', message)
    return _OPTION.sub(lambda match: match[1].replace("-", "_"), message)


def _as_argument(match: re.Match[str]) -> str:
    [given] = shlex.split(match[1]) or [""]
    key, equals, value = given.partition("=")
    first, *rest = key_parts(key)
    if first == "source" and rest:
        first, *rest = rest[1:] if len(rest) > 1 and rest[0] not in NESTED else rest
    shown = _shown(setting_value(value))
    for part in reversed(rest):
        shown = f'{{"{part}": {shown}}}'
    return f"{first}={shown}" if equals else first


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) and '"' not in value else repr(value)
