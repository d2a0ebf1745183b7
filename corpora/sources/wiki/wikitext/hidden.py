"""Wikitext, steps 1 and 4: what holds no prose is removed first, and later tables, tags, entities and magic words.

Promise of step 1 (comments, references, code, formulas, apparatus): a formula that is readable as text stays, one in
TeX becomes a placeholder, its TeX, or nothing. An element that is never closed loses only its tag; no pattern searches
past the next opening of its own name, so a page is read a fixed number of times. Cost: this step is first because most
of an article's markup is in what it drops.

Promise of step 4: a table is removed with all it holds; one that stays open loses its rows, line by line. Tags of HTML
and of MediaWiki's extensions are removed, and their words stay; any other `<` is a plain character.

Source: mediawiki.org/wiki/Help:Formatting, Help:Cite and Help:Tables; the headings of the Wikipedias' own manuals of
style.
"""

import html
import re
from collections.abc import Callable

from corpora.sources.formulas import FORMULA, show_formula
from corpora.sources.hypertext import without_readings
from corpora.sources.wiki.wikitext.arguments import MARK, to_superscript

# A table begins and ends at the beginning of a line; no line of its body may begin or end another one.
_TABLE = re.compile(r"\n[ \t:*#]*+\{\|[^\n]*+(?:\n(?![ \t:*#]*+(?:\{\||\|\}))[^\n]*+)*+\n[ \t:*#]*+\|\}")
_ROW = re.compile(r"\n[ \t:*#]*+(?:\{\||[|!])[^\n]*")
_CELL = re.compile(r"\n\|[^\n]*")
# The attributes of a tag: a value in quotes may hold angle brackets; a mark that nothing closes is a character.
ATTRIBUTES = r"(?:[^<>\"'=]++|=[^\S\n]*+\"[^\"\n]*+\"(?=[\s/>])|=[^\S\n]*+'[^'\n]*+'(?=[\s/>])|[=\"'])*+"
_RAISED_TAG = re.compile(rf"(?i)<sup\b{ATTRIBUTES}>([^<>]{{1,40}})</sup\s*>")
_BREAK = re.compile(rf"(?i)</?\s?(?:br|td|th|tr)\b{ATTRIBUTES}>")
_BREAKS = re.compile(rf"(?i)</?\s?br\b{ATTRIBUTES}>\s*+(?:</?\s?br\b{ATTRIBUTES}>\s*+)++")
_BLOCK_TAG = re.compile(rf"(?i)</?(?:p|div|blockquote|center|poem|h[1-6]|hr|ul|ol|dl|section)\b{ATTRIBUTES}>")
_ITEM_TAG = re.compile(rf"(?i)<(?:li|dd|dt)\b{ATTRIBUTES}>")
_ITEM_END = re.compile(r"(?i)</(?:li|dd|dt)\s*>(?=[^\s<])")
# Its first character is literal and has no case, so that the engine looks for nothing but `<`.
_TAG = re.compile(
    rf"<(?i:/?(?:span|small|big|sub|sup|s|u|b|i|em|strong|strike|del|ins|font|code|tt|kbd|samp|var|cite|abbr|q|ref"
    r"|references|nowiki|noinclude|includeonly|onlyinclude|li|dd|dt|br|wbr|a|table|tbody|thead|tr|td|th|caption"
    r"|ruby|rb|rt|rp|bdi|bdo|dfn|mark|time|data|templatestyles|gallery|math|pre|timeline|imagemap|source"
    r"|syntaxhighlight|score|canvas|audio|video|section|translate|tvar|languages|maplink|mapframe|chem|ce|hiero"
    rf"|indicator|inputbox|categorytree|graph|div|p|center|includeonly|img|cnote|nobr|tiny|large)\b{ATTRIBUTES}>|!--)"
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")


def drop_tables(text: str, max_depth: int) -> str:
    """Remove tables (`{| ... |}`), innermost first. The rows of an unclosed table are removed line by line.

    Args:
        text: Wikitext.
        max_depth: Maximum number of levels of nested tables to remove as a whole.
    """
    for _ in range(max_depth):
        text, count = _TABLE.subn("\n", text)
        if not count:
            break
    return _ROW.sub("", text) if "\n{|" in text else _CELL.sub("", text)


def drop_tags(text: str) -> str:
    """Remove the tags of HTML and of MediaWiki extensions.

    Line breaks and block tags become white space, and list items become lines.
    """
    text = _RAISED_TAG.sub(lambda match: to_superscript(match[1].strip()), text)
    text = _BREAK.sub(" ", _BREAKS.sub("\n\n", text))
    text = _ITEM_END.sub("\n", _ITEM_TAG.sub("\n* ", _BLOCK_TAG.sub("\n\n", text)))
    return _TAG.sub("", text.replace("-->", ""))


def decode_entities(text: str) -> str:
    """Replace character references with their characters. A reference must end with a semicolon."""
    return _ENTITY.sub(lambda match: html.unescape(match[0]), text)


def _build_paired_pattern(names: str) -> re.Pattern[str]:
    """Build a pattern that matches an element with its content, without nested elements of the same name.

    `names` contains the possible names, separated by "|". The groups are the name and the content.

    The possessive loop stops at the next opening tag of that name, so an unclosed tag removes nothing, and a page full
    of opening tags is scanned only once.
    """
    body = r"[^<]*+(?:<(?!/?(?:\1)\b)[^<]*+)*+"
    return re.compile(rf"(?i)<({names})\b{ATTRIBUTES}(?<!/)>({body})</\1\s*>")


_NOWIKI = re.compile(r"(?i)<nowiki>([^<]*+(?:<(?!/?nowiki\b)[^<]*+)*+)</nowiki\s*>")
_EMPTY_REF = re.compile(rf"(?i)<ref(?:erences)?\b{ATTRIBUTES}(?<=/)>")
_REF = _build_paired_pattern("ref")
_OPAQUE = _build_paired_pattern(
    "gallery|timeline|score|syntaxhighlight|source|pre|graph|imagemap|hiero|mapframe|maplink|references"
    "|templatedata|inputbox|indicator|includeonly|table|categorytree|style|audio|video"
)
_MATH = _build_paired_pattern("math|chem|ce")
_MAYBE_HIDDEN = re.compile(r":\s*(?i:none|hidden)")  # begins with a sign without case, which is found fast
_NOT_SHOWN = re.compile(r"(?i)display\s*:\s*none|visibility\s*:\s*hidden")
_STYLES = "span|div|p|small|s|b|i|u|font"
_STYLED = re.compile(rf"(?i)<({_STYLES})\b({ATTRIBUTES})(?<!/)>([^<]*+(?:<(?!/?(?:{_STYLES})\b)[^<]*+)*+)</\1\s*>")
# A formula in TeX as templates write it, with two levels of braces.
_MATH_TEMPLATE = re.compile(r"(?i)\{\{tmath\|(?:1=)?((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}\}")
_CODE = _build_paired_pattern("syntaxhighlight|source")
_INLINE_CODE = re.compile(r"(?i)\s(?:inline\b|enclose\s*=\s*[\"']?none)")  # what the tag of code in a sentence says
MAX_STYLED_DEPTH = 8  # elements in one another, if some are hidden
_SPACE = re.compile(r"\s+")
_LITERAL = {ord(mark): f"&#{ord(mark)};" for mark in "[]{}|<>'=_"}
_HEADING = re.compile(r"\n=[^\n]*")
_TITLE_MARKUP = re.compile(r"<[^<>]*>|\{\{[^{}]*\}\}|[\[\]']{2,}")


def _drop_comments(text: str) -> str:
    """Remove HTML comments. If a comment is alone on its line, remove the whole line. Unclosed comments are kept."""
    kept, end = [], 0
    while (start := text.find("<!--", end)) >= 0 and (stop := text.find("-->", start + 4)) >= 0:
        kept.append(text[end:start])
        end = stop + len("-->")
        if text.startswith("\n", start - 1) and text.startswith("\n", end):
            end += 1
    kept.append(text[end:])
    return "".join(kept)


def _drop_math(match: re.Match[str]) -> str:
    """Return the text of a matched formula if it is readable (`x`, `n + 1`); "" for all other formulas."""
    formula = show_formula(decode_entities(match[2]))
    return "" if formula == FORMULA else formula.translate(_LITERAL)


def _show_sign(match: re.Match[str]) -> str:
    """Return the text of a matched formula, or "[formula]" if it is too complex, after a `MARK`; "" if it is empty.

    Wiki markup characters are escaped as entities.
    """
    formula = show_formula(decode_entities(match[2]))
    return MARK + (formula.translate(_LITERAL) if formula != FORMULA else formula) if formula else ""


def _show_tex(match: re.Match[str]) -> str:
    """Return the TeX of a matched formula on one line, after a `MARK`; "" if it is empty.

    Wiki markup characters are escaped as entities. Double braces and brackets are separated by a space, so that they
    are not read as a template or link.
    """
    formula = _SPACE.sub(" ", decode_entities(match[2]).strip()).replace("{{", "{ {").replace("}}", "} }")
    formula = formula.replace("[[", "[ [").replace("]]", "] ]").replace("{|", "{ |").replace("|}", "| }")
    return MARK + formula.replace("&", "&#38;").translate(_LITERAL) if formula else ""


MATH: dict[str, Callable[[re.Match[str]], str]] = {"placeholder": _show_sign, "tex": _show_tex, "drop": _drop_math}


def _show_inline_code(match: re.Match[str]) -> str:
    """Return the code of a matched element if it is part of a sentence; "" for a block of code."""
    return match[2].translate(_LITERAL) if _INLINE_CODE.search(match[0], 0, match.start(2) - match.start()) else ""


def _show_styled(match: re.Match[str], hidden: list[str]) -> str:
    """Return the content of a matched element. If its style hides it, return "" and append the content to `hidden`.

    A block remains a separate paragraph.
    """
    if _NOT_SHOWN.search(match[2]):
        hidden += filter(None, [match[3].strip()])
        return ""
    gap = "\n\n" if match[1].lower() in ("div", "p") else ""
    return f"{gap}{match[3]}{gap}"


def drop_hidden(text: str, math: str, hidden: list[str]) -> str:
    """Remove comments, references, code, galleries, HTML tables and hidden elements, and handle formulas.

    Args:
        text: Wikitext.
        math: "placeholder", "tex" or "drop" (a key of `MATH`): how formulas are handled.
        hidden: The texts of elements hidden by their style are appended to this list.
    """
    if "math|" in text:
        text = _MATH_TEMPLATE.sub(r"<math>\1</math>", text)
    if "<" not in text:
        return text
    if "<nowiki" in text:
        # The marks in it become entities, which are decoded after all markup is removed.
        text = _NOWIKI.sub(lambda match: match[1].translate(_LITERAL), text)
    if "<!--" in text:
        text = _drop_comments(text)
    text = without_readings(_REF.sub("", _EMPTY_REF.sub("", text)))
    text = _MATH.sub(MATH[math], text)
    if "inline" in text or "enclose" in text:
        text = _CODE.sub(_show_inline_code, text)
    for _ in range(4):
        text, count = _OPAQUE.subn("", text)
        if not count:
            break
    if _MAYBE_HIDDEN.search(text) and _NOT_SHOWN.search(text):
        for _ in range(MAX_STYLED_DEPTH):
            text, count = _STYLED.subn(lambda match: _show_styled(match, hidden), text)
            if not count:
                break
    return text


def parse_heading(line: str) -> tuple[int, str]:
    """Return the (level, title) of a heading line, `== Title ==`, or (0, "") for any other line.

    >>> parse_heading("=== Early life ===")
    (3, 'Early life')
    """
    line = line.strip()
    bare = line.strip("=")
    if not bare or line[-1] != "=":
        return 0, ""
    left = len(line) - len(line.lstrip("="))
    return min(left, len(line) - left - len(bare), 6), bare.strip()


def drop_sections(text: str, apparatus: frozenset[str]) -> str:
    """Remove the sections with certain titles. A section extends to the next heading of the same or a higher level.

    Args:
        text: Wikitext.
        apparatus: Lower-case titles of the sections to remove, such as "references".
    """
    kept, start, dropped_level = [], 0, 0
    for match in _HEADING.finditer(text):
        level, title = parse_heading(match[0])
        if not level or (dropped_level and level > dropped_level):
            continue
        if not dropped_level:
            kept.append(text[start : match.start()])
        title = _TITLE_MARKUP.sub("", title).rpartition("|")[2].strip(" :.\t").lower()
        dropped_level = level if title in apparatus else 0
        start = match.start()
    if not dropped_level:
        kept.append(text[start:])
    return "".join(kept)
