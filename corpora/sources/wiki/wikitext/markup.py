"""Wikitext, step 4: tables, tags, entities and magic words.

Promise: a table goes with all it holds; one that stays open loses its rows, line by line. Tags of HTML and of
MediaWiki's extensions go and leave their words; any other `<` is a plain character.

Source: mediawiki.org/wiki/Help:Tables and Help:Formatting.
"""

import html
import re

from corpora.sources.wiki.wikitext.arguments import raised

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


def _raise(match: re.Match[str]) -> str:
    return raised(match[1].strip())


def drop_tables(text: str, max_depth: int) -> str:
    """`text` without its `{| ... |}`, innermost first; one that stays open loses its rows, line by line."""
    for _ in range(max_depth):
        text, count = _TABLE.subn("\n", text)
        if not count:
            break
    return _ROW.sub("", text) if "\n{|" in text else _CELL.sub("", text)


def drop_tags(text: str) -> str:
    """`text` without the tags of HTML and of MediaWiki's extensions; any other `<` is a plain character."""
    text = _RAISED_TAG.sub(_raise, text)
    text = _BREAK.sub(" ", _BREAKS.sub("\n\n", text))
    text = _ITEM_END.sub("\n", _ITEM_TAG.sub("\n* ", _BLOCK_TAG.sub("\n\n", text)))
    return _TAG.sub("", text.replace("-->", ""))


def decode_entities(text: str) -> str:
    """Replace the entities in `text` by their characters; an entity must end with a semicolon."""
    return _ENTITY.sub(lambda match: html.unescape(match[0]), text)
