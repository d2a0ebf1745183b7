"""Texts in Markdown and YAML that act on nothing: a name may hold any character, and stays a name.

Promise: what `plain` gives is read as the text itself by CommonMark and GitHub's Markdown: no link, no tag, no cell of
its own, one line. What `yaml_lines` gives is read back by a YAML parser as what was given.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flows.recipes.privacy import printable, visible

CHARACTERS = 200
_ACTING = re.compile(r"([\\`*_{}\[\]()#!|~$])")
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_TAKEN = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
_UNPRINTABLE = re.compile("[^\x09\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def plain(text: str, limit: int = CHARACTERS) -> str:
    """A text on one line, as Markdown that shows it as it is.

    >>> plain("a|b <i> www.example.org")
    'a\\\\|b &lt;i&gt; www&#46;example.org'
    """
    shown = visible(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = _ACTING.sub(r"\\\1", shown)
    return re.sub(r"://", "&#58;//", re.sub(r"(?i)\b(www)\.", r"\1&#46;", shown)).replace("@", "&#64;")


def code(text: str, limit: int = CHARACTERS) -> str:
    """A short text as code: with as many backticks around it as it needs.

    >>> code("a`b"), code("a|b")
    ('``a`b``', '`a\\\\|b`')
    """
    shown = visible(text, limit) or " "
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    gap = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}".replace("|", "\\|")


def fenced(text: str, language: str = "") -> list[str]:
    """A text of lines in a block of code that it cannot end."""
    lines = [printable(line.replace("\t", "    ")) for line in text.splitlines()]
    ticks = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    return [f"{ticks}{language}", *lines, ticks, ""]


def table(head: Sequence[str], rows: Iterable[Sequence[str | int]]) -> list[str]:
    """A table; numbers are to the right, cells are Markdown already."""
    cells = list(rows)
    right = [bool(cells) and all(isinstance(row[column], int) for row in cells) for column in range(len(head))]
    found = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in cells]
    rule = ["---:" if numbers else "---" for numbers in right]
    return [f"| {' | '.join(line)} |" for line in (head, rule, *found)] + [""]


def yaml_lines(value: Any, indent: int = 0) -> list[str]:
    """A value of tables, lists, texts and numbers as the lines of a YAML block.

    >>> yaml_lines({"name": "a: b", "sizes": [1, 2]})
    ['name: "a: b"', 'sizes:', '- 1', '- 2']
    """
    lines: list[str] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            lines += _entry(f"{_scalar(key)}:", item, indent, deeper=2 if isinstance(item, Mapping) else 0)
        return lines
    for item in value:
        if isinstance(item, Mapping):
            first, *more = yaml_lines(item, indent + 2)
            lines += [f"{' ' * indent}- {first.strip()}", *more]
        else:
            lines.append(f"{' ' * indent}- {_scalar(item)}")
    return lines


def _entry(key: str, item: Any, indent: int, deeper: int) -> list[str]:
    if isinstance(item, (Mapping, list, tuple)):
        if not item:
            return [f"{' ' * indent}{key} {'{}' if isinstance(item, Mapping) else '[]'}"]
        return [f"{' ' * indent}{key}", *yaml_lines(item, indent + deeper)]
    return [f"{' ' * indent}{key} {_scalar(item)}"]


def _scalar(value: str | int | float | bool | None) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if _BARE.fullmatch(value) and value.lower() not in _TAKEN:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\U{ord(found[0]):08x}", quoted)
