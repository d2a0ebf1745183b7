"""Wikitext, step 5: quotes, the holes that dropped markup leaves, and lines as headings and paragraphs.

Promise: words are never changed here, only marks and spaces; a list item that is not a sentence goes, and a
heading under which nothing is left. Cost: a fixed number of passes over the page.

Source: mediawiki.org/wiki/Help:Formatting.
"""

import re

from corpora.sources.wiki.wikitext.arguments import MARK
from corpora.sources.wiki.wikitext.hidden import heading

MIN_ITEM_WORDS = 6
MIN_ITEM_CHARACTERS = 12  # of a script without spaces between words
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_ITALIC_POSSESSIVE = re.compile(r"''(?<!''')(?!')([^'\n]++)'''(?=s\b)")
_ITALIC_ELISION = re.compile(r"'''(?:(?<=\b[lLdD]''')|(?<=ll'''))(?=\w)(?!s\b)([^'\n]++)''(?!')")
_BOLD_ELISION = re.compile(r"''''(?<=\w'''')(?!')")
_QUOTES = re.compile(r"''+")
_EMPTY_BRACKETS = re.compile(r"\((?:\)(?<=\s\(\))|[,;:]*+ [ ,;:]*+(?:or )?\))")
_EMPTY_SQUARE = re.compile(r"\[(?: ++\]|\](?<=\s\[\]))")
_LABEL_OF_NOTHING = re.compile(r"\(([^()\n:]{1,60}+): ?\)")
_LOOSE_CLOSING = re.compile(r"\)(?<=[,;]\))")
_BARE_LABEL = re.compile(r"\((?:born|née?|geb\.|geboren|nacid[oa]|c\.|ca\.|r\.|fl\.|lit\.|IPA|pronounced)\)")
_AFTER_OPENING = re.compile(r"\((?:[,;:]*+ )++")
_BEFORE_CLOSING = re.compile(r"[,;](?<![,;].)(?<![,;] .)[,; ]*+\)")
_DOUBLED = re.compile(r"[,;] (?=[,;]|\.(?:\s|$))")  # the last mark stays
_LOOSE_MARK = re.compile(r" ([,.;])(?<![.…] .)(?=\s|$)")
HATNOTE = re.compile(
    r"(?i)\n[:*]++[ \t]*+''++\(?(?:main articles?\b|see (?:also|main)\b|further information|not to be"
    r" confused|this article (?:is|was) about|for [^\n]{0,200}?\bsee )[^\n]*"
)
_LIST_MARKS = "*#:;"


def drop_quotes(text: str) -> str:
    """`text` without the marks of bold and italic; an apostrophe that is next to them stays."""
    if "''''" in text:
        text = _BOLD_ELISION.sub("'", text)
    if "'''s" in text:
        text = _ITALIC_POSSESSIVE.sub(r"\1'", text)
    if "l'''" in text or "d'''" in text or "L'''" in text or "D'''" in text:
        text = _ITALIC_ELISION.sub(r"'\1", text)
    return _QUOTES.sub("", text)


def collapse_spaces(text: str) -> str:
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def mend_holes(text: str) -> str:
    """Repair what a dropped template leaves: empty brackets, doubled or loose punctuation."""
    for space in "\t\xa0\u2009\u202f\u200a":
        text = text.replace(space, " ")
    text = collapse_spaces(text)
    text = _EMPTY_SQUARE.sub(" ", _EMPTY_BRACKETS.sub(" ", text))
    text = _AFTER_OPENING.sub("(", collapse_spaces(text))
    text = text.replace(" )", ")")
    if _LOOSE_CLOSING.search(text):
        text = _BEFORE_CLOSING.sub(")", text).replace(" )", ")")
    text = _BARE_LABEL.sub(" ", _LABEL_OF_NOTHING.sub(" ", text))
    if (" ," in text or " ." in text or " ;" in text) and _LOOSE_MARK.search(text):
        text = _LOOSE_MARK.sub(r"\1", _DOUBLED.sub("", text))
    return text


def _is_sentence(item: str) -> bool:
    """Return True if a list item is long enough to be prose rather than an entry."""
    return len(item.split()) >= MIN_ITEM_WORDS or len(_SPACELESS.findall(item)) >= MIN_ITEM_CHARACTERS


def _is_shown(marks: str, item: str, lists: bool) -> bool:
    """Return True if the item after `marks` is prose. An indented line is not a list; its formula is in a sentence."""
    if marks.strip(": "):
        return lists and _is_sentence(item)
    return MARK in item or _is_sentence(item)


def _marked_line(line: str, lists: bool) -> tuple[int, str]:
    """Level and text of a line that begins with a mark: a heading has a level, all other lines level 0."""
    first = line[0]
    if first == "=":
        level, title = heading(line)
        return (level, title) if level else (0, line)
    if first in _LIST_MARKS:
        item = line.lstrip(_LIST_MARKS + " ")
        return 0, item if _is_shown(line[: len(line) - len(item)], item, lists) else ""
    if first == "-":
        return 0, line.lstrip("- ") if line.startswith("----") else line
    return 0, line


def paragraphs(text: str, lists: bool = True) -> list[tuple[int, str]]:
    """Headings (level >= 1, title) and paragraphs (level 0, lines as in the source) in their order.

    lists: keep the items of lists that are sentences
    """
    blocks: list[tuple[int, str]] = []
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        line, level = line.strip(), 0
        if line and line[0] in "=*#:;-":
            is_item, (level, line) = line[0] in _LIST_MARKS, _marked_line(line, lists)
            if is_item and not line:
                continue
        if line and not level:
            lines.append(line)
            continue
        if lines:
            blocks.append((0, "\n".join(lines)))
            lines = []
        if level and line:
            blocks.append((level, line))
    return blocks


def without_empty_sections(blocks: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The blocks without the headings under which no paragraph is left."""
    kept: list[tuple[int, str]] = []
    filled = [False] * 8  # by level: whether a section opened now would hold text, seen from the end
    for level, text in reversed(blocks):
        if not level:
            filled = [True] * 8
        elif not filled[level]:
            continue
        else:
            filled[level:] = [False] * (8 - level)
        kept.append((level, text))
    return kept[::-1]
