"""Errors of the stages and of the commands, in the words of Python: `--set source.tickets.fields.text=body` is there
`fields={"text": "body"}`, and the file that rows were written to is the argument that they came in.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from flows.recipes.recipe import SOURCE_KEYS
from flows.recipes.tables import parse_setting, split_key

NESTED = ("fields", *SOURCE_KEYS)  # keys of a source; what follows `source.` else is its name
_SET = re.compile(r"--set ('[^']*'|[^\s']\S*?(?=[.,;:)]?(?:\s|$)))")
_COLUMN = re.compile(r"--column ([a-z]+)=([^\s,;:)]+?)(?=[.,;:)]?(?:\s|$))")
_COLUMNS = re.compile(rf"{_COLUMN.pattern}(?: {_COLUMN.pattern})*")
_OPTION = re.compile(r"--(?:no-)?([a-z][a-z-]*)")
_ACCEPT = re.compile(r"--accept ([a-z][a-z-]*)")
_ACCEPTS = re.compile(rf"{_ACCEPT.pattern}(?: {_ACCEPT.pattern})*")
_TABLE = re.compile(
    r"^(?:vocabulary|shards|clean|duplicates|training\.phase(?:\[0\])?|training|finetune|embed)\.(?=[a-z])"
)
_ONLY = re.compile(r"^(held_out)\.share\b|^(language)\.keep\b")
_RECIPE = re.compile(r"^\S*\.toml: |\bsource \d+: | in the \[\[source\]\] '[^']*'")


@contextmanager
def in_python(folder: Path | None = None) -> Iterator[None]:
    """Have InputErrors name arguments of Python for the time of the block. folder: of the files that were written"""
    try:
        yield
    except InputError as error:
        raise InputError(python_words(str(error), folder)) from error.__cause__


def python_words(message: str, folder: Path | None = None) -> str:
    """Return a message with Python's arguments in the place of options, keys of a recipe and our files.

    >>> python_words("source 1: Name one with --set source.tickets.fields.text=NAME.")
    'Name one with fields={"text": "NAME"}.'
    >>> python_words("Use --max-unusable, or --column label=topic.")
    'Use max_unusable, or columns={"label": "topic"}.'
    >>> python_words("vocabulary.size is 3; if that is meant so, add --accept one-class.")
    'size is 3; if that is meant so, add accept=["one-class"].'
    >>> python_words("Add --accept one-class --accept label-in-text, or --column text=a --column label=b.")
    'Add accept=["one-class", "label-in-text"], or columns={"text": "a", "label": "b"}.'
    """
    for path in () if folder is None else (*folder.glob("*/*.jsonl"), *folder.glob("*/*.parquet")):
        name = rf"{re.escape(str(path))}|(?<![\w/.]){re.escape(path.name)}\b"
        message = re.sub(name, path.stem, message)
    message = _SET.sub(_as_argument, _RECIPE.sub("", message)).replace("Set its `path` to", "Give")
    message = _ONLY.sub(lambda match: match[1] or match[2], _TABLE.sub("", message))
    message = _ACCEPTS.sub(lambda all: f"accept=[{', '.join(map(_shown, _ACCEPT.findall(all[0])))}]", message)
    message = _COLUMNS.sub(lambda all: f"columns={{{_pairs(all[0])}}}", message)
    return _OPTION.sub(lambda match: match[1].replace("-", "_"), message)


def in_words(value: Any, folder: Path) -> Any:
    """Return a value of JSON with Python's words in its texts."""
    if isinstance(value, Mapping):
        return {python_words(key, folder): in_words(each, folder) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [in_words(each, folder) for each in value]
    return python_words(value, folder) if isinstance(value, str) else value


def _as_argument(match: re.Match[str]) -> str:
    [given] = shlex.split(match[1]) or [""]
    key, equals, value = given.partition("=")
    first, *rest = split_key(key)
    if first == "source" and rest:
        first, *rest = rest[1:] if len(rest) > 1 and rest[0] not in NESTED else rest
    shown = _shown(parse_setting(value))
    for part in reversed(rest):
        shown = f'{{"{part}": {shown}}}'
    return f"{first}={shown}" if equals else first


def _pairs(columns: str) -> str:
    named = (column.strip().partition("=") for column in columns.split("--column ")[1:])
    return ", ".join(f'"{role}": {_shown(name)}' for role, _, name in named)


def _shown(value: object) -> str:
    if value == "...":
        return "..."
    return f'"{value}"' if isinstance(value, str) and '"' not in value else repr(value)
