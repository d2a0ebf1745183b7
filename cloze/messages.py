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
def translate_errors(folder: Path | None = None) -> Iterator[None]:
    """Rewrite InputErrors raised inside the block so that they name Python arguments instead of command-line options.

    Args:
        folder: Folder of temporary files that hold argument values. Messages show the argument's name instead of the
            file's path. None if there are no such files.

    Raises:
        InputError: If the block raises an InputError. It has the new message.
    """
    try:
        yield
    except InputError as error:
        raise InputError(to_python_words(str(error), folder)) from error.__cause__


def to_python_words(message: str, folder: Path | None = None) -> str:
    """Rewrite a message so that it names Python arguments instead of options, recipe keys and temporary files.

    Args:
        message: The message.
        folder: Folder of temporary files. Each holds the value of an argument, and is named after it. None if there are
            no such files.

    >>> to_python_words("source 1: Name one with --set source.tickets.fields.text=NAME.")
    'Name one with fields={"text": "NAME"}.'
    >>> to_python_words("Use --max-unusable, or --column label=topic.")
    'Use max_unusable, or columns={"label": "topic"}.'
    >>> to_python_words("vocabulary.size is 3; if that is meant so, add --accept one-class.")
    'size is 3; if that is meant so, add accept=["one-class"].'
    >>> to_python_words("Add --accept one-class --accept label-in-text, or --column text=a --column label=b.")
    'Add accept=["one-class", "label-in-text"], or columns={"text": "a", "label": "b"}.'
    """
    for path in () if folder is None else (*folder.glob("*/*.jsonl"), *folder.glob("*/*.parquet")):
        name = rf"{re.escape(str(path))}|(?<![\w/.]){re.escape(path.name)}\b"
        message = re.sub(name, path.stem, message)
    message = _SET.sub(_as_argument, _RECIPE.sub("", message)).replace("Set its `path` to", "Give")
    message = _ONLY.sub(lambda match: match[1] or match[2], _TABLE.sub("", message))
    message = _ACCEPTS.sub(lambda all: f"accept=[{', '.join(map(_format_value, _ACCEPT.findall(all[0])))}]", message)
    message = _COLUMNS.sub(lambda all: f"columns={{{_format_pairs(all[0])}}}", message)
    return _OPTION.sub(lambda match: match[1].replace("-", "_"), message)


def to_python_json(value: Any, folder: Path) -> Any:
    """Replace command-line options with Python arguments in all strings of a JSON value, including keys.

    Each string is rewritten by `to_python_words`.

    Args:
        value: The value, which is not changed.
        folder: Folder of temporary files. Each holds the value of an argument, and is named after it.
    """
    if isinstance(value, Mapping):
        return {to_python_words(key, folder): to_python_json(each, folder) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_python_json(each, folder) for each in value]
    return to_python_words(value, folder) if isinstance(value, str) else value


def _as_argument(match: re.Match[str]) -> str:
    """Convert a match of `--set KEY=VALUE` to a Python argument, such as `fields={"text": "NAME"}`."""
    [given] = shlex.split(match[1]) or [""]
    key, equals, value = given.partition("=")
    first, *rest = split_key(key)
    if first == "source" and rest:
        first, *rest = rest[1:] if len(rest) > 1 and rest[0] not in NESTED else rest
    shown = _format_value(parse_setting(value))
    for part in reversed(rest):
        shown = f'{{"{part}": {shown}}}'
    return f"{first}={shown}" if equals else first


def _format_pairs(columns: str) -> str:
    """Convert options such as "--column text=a --column label=b" to dictionary items: `"text": "a", "label": "b"`."""
    named = (column.strip().partition("=") for column in columns.split("--column ")[1:])
    return ", ".join(f'"{role}": {_format_value(name)}' for role, _, name in named)


def _format_value(value: object) -> str:
    """Format a value as Python source, with double quotes around strings. The string "..." stays unquoted."""
    if value == "...":
        return "..."
    return f'"{value}"' if isinstance(value, str) and '"' not in value else repr(value)
