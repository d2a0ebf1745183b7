"""A record's fields, found under their names in a JSON object, a row of a table or a row of Parquet.

Promises: a name is looked up as it is, then as a path (`metadata.url`), and of several names the first that there is;
a value of the wrong type, half a character and a missing text or key are a bad record that says which field. Numbers
and dates become texts, except for the text itself.
"""

import codecs
import json
import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from corpora.generic_types import Json
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.bytes.raw_files import Line
from corpora.sources.contract import MAX_REVISION

DECODER, SPACES = json.JSONDecoder(), re.compile(r"[ \t\r\n]*")
DIGITS = re.compile(r"-?[0-9]{1,19}")
Names = str | tuple[str, ...]  # what a field is called, or may be
Fields = Mapping[str, Names]
REQUIRED = ("text", "key")  # if they are asked for


def with_text(fields: Fields) -> dict[str, Names]:
    """Return a map of fields to names. If it has no text field, add one named "text"."""
    return {"text": "text", **fields}


def find_fields(value: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """Find the values of a record's fields.

    Args:
        value: The JSON object or table row.
        fields: For each attribute of `Record`, its name or path in `value`. If several names are given, the first one
            that exists is used.

    Returns:
        The values by attribute of `Record`: strings, or an integer for "revision"; None if there is no value.

    Raises:
        BadRecord: If the text or a named key is missing, or a value has the wrong type.

    >>> find_fields({"body": "a", "meta": {"id": 7}}, {"text": ("note", "body"), "key": "meta.id"})
    {'text': 'a', 'key': '7'}
    """
    values: dict[str, Any] = {}
    for name, names in with_text(fields).items():
        path = names if isinstance(names, str) else _pick_first(names, lambda one: find_value(value, one) is not None)
        values[name] = convert(find_value(value, path), name, path)
    for name in REQUIRED:
        if name in values and values[name] is None:
            raise BadRecord(f"no field {format_names(fields.get(name, name))} ({name})")
    return values


def list_names(names: Names) -> tuple[str, ...]:
    """Return the possible names of a field as a tuple."""
    return (names,) if isinstance(names, str) else names


def choose_names(fields: Fields, has: Callable[[str], bool]) -> dict[str, str]:
    """Choose one name for each field: the first name that the table has, or simply the first if it has none.

    Args:
        fields: The possible names of each field.
        has: Returns True if the table has a column of this name.

    >>> choose_names({"text": ("note", "body"), "key": "id"}, {"id", "body"}.__contains__)
    {'text': 'body', 'key': 'id'}
    """
    return {
        name: names if isinstance(names, str) else _pick_first(names, has) for name, names in with_text(fields).items()
    }


def _pick_first(names: tuple[str, ...], has: Callable[[str], bool]) -> str:
    """Return the first name for which `has` returns True, or the first name if there is none."""
    return next((name for name in names if has(name)), names[0])


def format_names(names: Names) -> str:
    """Format the name or possible names of a field for a message.

    >>> format_names(("note", "body"))
    "'note' or 'body'"
    """
    return repr(names) if isinstance(names, str) else " or ".join(map(repr, names))


def describe_remedy(field: str) -> str:
    """Return the sentence of an error message that tells how to set the name of a field, without its period."""
    return f"Name the right one in the source's `fields`, as with --set source.fields.{field}=NAME"


def find_value(value: Mapping[str, Any], path: str) -> Any:
    """Return the value with the name `path` in a JSON object or row, or else the value at this dot-separated path.

    Return None if neither exists.

    >>> find_value({"a.b": 1, "a": {"b": 2, "c": 3}}, "a.b"), find_value({"a": {"c": 3}}, "a.c")
    (1, 3)
    >>> find_value({"a": 1}, "a.c") is None
    True
    """
    if path in value:
        return value[path]
    first, dot, rest = path.partition(".")
    inner = value.get(first) if dot else None
    return find_value(inner, rest) if isinstance(inner, Mapping) else None


def parse_object(line: str) -> dict[str, Json]:
    """Parse a line as a JSON object.

    Raises:
        BadRecord: If the line is not valid JSON, or its value is not an object.

    >>> parse_object('{"text": "a"}')
    {'text': 'a'}
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRecord(f"not a JSON object but a {type(value).__name__}")
    return value


def split_objects(line: Line) -> list[Line]:
    """Split a line that consists of several JSON objects, separated by white space at most. Return [] for other lines.

    >>> [each.data for each in split_objects(Line(9, 16, b'{"a": 1} {"b":2}'))]
    [b'{"a": 1}', b'{"b":2}']
    """
    data = (line.data or b"").removeprefix(b"" if line.offset else codecs.BOM_UTF8)
    start, text, found = line.offset + len(line.data or b"") - len(data), data.decode("latin-1"), list[Line]()
    at = skip_spaces(text, 0)
    while at < len(text):
        try:
            value, end = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        found.append(Line(start + at, end - at, data[at:end]))
        at = skip_spaces(text, end)
    return found if len(found) > 1 else []


def skip_spaces(text: str, at: int) -> int:
    """Return the index of the first character, at or after index `at`, that is not JSON white space."""
    return SPACES.match(text, at).end()  # type: ignore[union-attr]  # it matches anywhere


def convert(given: Any, field: str, path: str = "") -> str | int | None:
    """Convert a field's value to the type of the `Record` attribute: an integer for "revision", otherwise a string.

    Args:
        given: The value, or None if it is missing.
        field: Name of the attribute of `Record`.
        path: Name or path under which the value was found, for messages.

    Returns:
        The converted value; None if it is missing.

    Raises:
        BadRecord: If the value has the wrong type.
    """
    return _to_revision(given, path) if field == "revision" else _to_string(given, path, field)


def _to_string(given: Any, path: str, name: str) -> str | None:
    """Convert a value to a string. Numbers and dates are converted too, unless the field is the text.

    Args:
        given: The value. Bytes must be UTF-8.
        path: Name or path of the field, for messages.
        name: Name of the attribute of `Record`.

    Returns:
        The string; None for a missing value.

    Raises:
        BadRecord: If the value has another type, or cannot be encoded as UTF-8.
    """
    if given is None:
        return None
    if name != "text" and isinstance(given, date):
        return given.isoformat()
    if name != "text" and isinstance(given, (int, float, Decimal)) and not isinstance(given, bool):
        return str(given)
    if isinstance(given, bytes):
        return _decode_bytes(given, path)
    if not isinstance(given, str):
        raise BadRecord(f"field {path!r} ({name}) is not a string but a {type(given).__name__}")
    if not given.isascii():
        _check_surrogates(given, path)
    return given


def _decode_bytes(given: bytes, path: str) -> str:
    """Decode bytes, which some Parquet writers store instead of strings, as UTF-8.

    Raises:
        BadRecord: If the bytes are not UTF-8. The message names the field by its name or path, `path`.
    """
    try:
        return given.decode()
    except UnicodeDecodeError as error:
        raise BadRecord(f"field {path!r} is not utf-8 at byte {error.start}: {error.reason}") from error


def _check_surrogates(text: str, path: str) -> None:
    """Check that a string has no unpaired surrogates.

    Raises:
        BadRecord: If it has one. The message names the field by its name or path, `path`.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRecord(f"field {path!r} holds half a character (a lone surrogate) at {error.start}") from error


def _to_revision(value: Any, path: str) -> int | None:
    """Convert a value to an integer of at most 64 bits. The value may be a string of digits.

    Return None if the field is missing, null or empty.

    Raises:
        BadRecord: If the value is anything else. The message names the field by its name or path, `path`.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str) and DIGITS.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_REVISION:
        raise BadRecord(f"field {path!r} (revision) is not a whole number of 64 bits: {str(value)[:40]!r}")
    return value
