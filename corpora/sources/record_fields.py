"""The fields of a record that a recipe may name: under which name, or at which path, each is found."""

from collections.abc import Mapping
from typing import Any

from corpora.errors import InputError
from corpora.store.settings import check_keys

FIELDS = ("text", "key", "revision", "title", "url", "date", "license", "group")
MOST_REVISION = (1 << 63) - 1


def check_fields(name: str, fields: Mapping[str, Any], allowed: tuple[str, ...] = FIELDS) -> None:
    """Raise InputError for a field that a record does not have, or an empty name. name: the source's.

    A value that is neither a name nor a list of names is for the source to refuse.
    """
    check_keys(fields, allowed, f"Source {name!r}: `fields`")
    if not all(names and all(names) for names in fields.values() if isinstance(names, (str, list, tuple))):
        raise InputError(f"Source {name!r}: a name in `fields` is empty. Give it, or leave the field out.")
