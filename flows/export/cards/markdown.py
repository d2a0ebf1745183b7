"""Texts in Markdown and YAML that act on nothing: a name may have any character, and stays a name.

Promise: CommonMark and GitHub's Markdown read what `plain` returns as the text itself: no link, no tag, no cell of
its own, one line. A YAML parser reads what `scalar` returns as the original value.
"""

import json
import re

from flows.recipes.settings.privacy import printable, visible

CHARACTERS = 200
_ACTING = re.compile(r"([\\`*_{}\[\]()#!|~$])")
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_TAKEN = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
_UNPRINTABLE = re.compile("[^\x09\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def plain(text: str, limit: int = CHARACTERS) -> str:
    """Return a text on one line, as Markdown that shows it as it is.

    >>> plain("a|b <i> www.example.org")
    'a\\\\|b &lt;i&gt; www&#46;example.org'
    """
    shown = visible(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = _ACTING.sub(r"\\\1", shown)
    return re.sub(r"://", "&#58;//", re.sub(r"(?i)\b(www)\.", r"\1&#46;", shown)).replace("@", "&#64;")


def code(text: str, limit: int = CHARACTERS) -> str:
    """Return a short text as code: with as many backticks around it as it needs.

    >>> code("a`b"), code("a|b")
    ('``a`b``', '`a\\\\|b`')
    """
    shown = visible(text, limit) or " "
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    gap = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}".replace("|", "\\|")


def fenced(text: str, language: str = "") -> str:
    """Return a text of lines in a block of code that it cannot end."""
    lines = [printable(line.replace("\t", "    ")) for line in text.splitlines()]
    ticks = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    return "\n".join([f"{ticks}{language}", *lines, ticks])


def scalar(value: str | int | float | bool | None) -> str:
    """Return a text or a number as the value of a key in YAML.

    >>> scalar("name"), scalar("a: b"), scalar(2.5)
    ('name', '"a: b"', '2.5')
    """
    if not isinstance(value, str):
        return json.dumps(value)
    if _BARE.fullmatch(value) and value.lower() not in _TAKEN:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda character: f"\\U{ord(character[0]):08x}", quoted)
