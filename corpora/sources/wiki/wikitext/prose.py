"""MediaWiki wikitext to clean prose, keeping the numbers, dates and units that are in templates.

Promises: a pure function of the string; it raises for no `str`. Its cost is bounded by a fixed number of passes over
the page, however it is nested (no pattern runs past the next opening mark of its own kind). No output holds a mark of
`RESIDUE`, not even if a page shows wikitext literally. Markup that a page leaves open (an unclosed link, template or
reference) loses its marks and keeps its words. The last step, quotes, holes and lines, changes only marks and spaces: a
list item that is not a sentence is removed, and so is a heading without text under it.

Costs: comments, references and the sections of apparatus are removed first, since most of an article's markup is in
them. Links and templates are then replaced innermost first, one pass a level; tables, tags, entities, holes and lines
take one pass each. Most links go through `split`, which runs without a call for each match.

Source: the wikitext of mediawiki.org/wiki/Help:Formatting, Help:Links, Help:Tables, Help:Templates, and the
documentation of the templates of the English Wikipedia; `Module:Convert` for its rule of rounding.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from corpora.sources.wiki.wikitext.arguments import MARK
from corpora.sources.wiki.wikitext.hidden import (
    MAGIC_WORD,
    MATH,
    decode_entities,
    drop_hidden,
    drop_sections,
    drop_tables,
    drop_tags,
    parse_heading,
)
from corpora.sources.wiki.wikitext.links import DROPPED_NAMESPACES, show_external_links, show_links, show_loose_links
from corpora.sources.wiki.wikitext.templates import Reader, build_template_reader, show_loose_templates, show_templates
from corpora.sources.wiki.wikitext.unknown import UnknownTemplate, without_holes
from corpora.sources.wiki.wikitext.wikis import list_apparatus_titles, list_disambiguation_templates, read_wiki
from corpora.store.settings import check_choice

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
    """Remove bold and italic markup (two or more apostrophes). An apostrophe next to the markup is kept."""
    if "''''" in text:
        text = _BOLD_ELISION.sub("'", text)
    if "'''s" in text:
        text = _ITALIC_POSSESSIVE.sub(r"\1'", text)
    if "l'''" in text or "d'''" in text or "L'''" in text or "D'''" in text:
        text = _ITALIC_ELISION.sub(r"'\1", text)
    return _QUOTES.sub("", text)


def collapse_spaces(text: str) -> str:
    """Replace each run of spaces with one space."""
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def repair_holes(text: str) -> str:
    """Clean up after removed templates: empty brackets, doubled or stray punctuation, doubled spaces."""
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
    """Return True if a list item is long enough to be prose rather than a list entry (six words or more).

    In a script without spaces, twelve characters are enough.
    """
    return len(item.split()) >= MIN_ITEM_WORDS or len(_SPACELESS.findall(item)) >= MIN_ITEM_CHARACTERS


def _is_shown(marks: str, item: str, keeps_lists: bool) -> bool:
    """Return True if the text of a list item or indented line is kept.

    A list item is kept if `keeps_lists` is True and it is long enough to be a sentence. An indented line (only ":" in
    `marks`) is kept if it is that long or contains a formula, because the formula is part of a sentence.

    Args:
        marks: The markers at the beginning of the line, such as "*" or ":".
        item: The text after the markers.
        keeps_lists: False to drop all list items.
    """
    if marks.strip(": "):
        return keeps_lists and _is_sentence(item)
    return MARK in item or _is_sentence(item)


def _parse_marked_line(line: str, keeps_lists: bool) -> tuple[int, str]:
    """Return (level, text) of a nonempty line, without the heading, list or rule marker with which it may begin.

    The level is 1 to 6 for a heading and 0 for other lines. The text is "" for a list item or indented line that is too
    short to be a sentence, and for all list items if `keeps_lists` is False.
    """
    first = line[0]
    if first == "=":
        level, title = parse_heading(line)
        return (level, title) if level else (0, line)
    if first in _LIST_MARKS:
        item = line.lstrip(_LIST_MARKS + " ")
        return 0, item if _is_shown(line[: len(line) - len(item)], item, keeps_lists) else ""
    if first == "-":
        return 0, line.lstrip("- ") if line.startswith("----") else line
    return 0, line


def split_paragraphs(text: str, keeps_lists: bool = True) -> list[tuple[int, str]]:
    """Split a text into headings (level, title) and paragraphs (0, text), in order.

    Args:
        text: Text without markup, except for the markers at the beginning of lines.
        keeps_lists: True to keep list items that are sentences.
    """
    blocks: list[tuple[int, str]] = []
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        line, level = line.strip(), 0
        if line and line[0] in "=*#:;-":
            is_item, (level, line) = line[0] in _LIST_MARKS, _parse_marked_line(line, keeps_lists)
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
    """Return the blocks without headings that have no paragraph below them.

    A block is (level, title) for a heading, or (0, text) for a paragraph.
    """
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


# ruff: noqa: RUF001 - the patterns hold dashes and alphabets that resemble ASCII


RESIDUE = re.compile(r"(?i)\[\[+|\]\]+|\{\{+|\}\}+|\{\||\|\}|</?ref|&nbsp;")
MAX_DEPTH = 16  # no page of the samples needs more than 7


LISTS = ("sentences", "drop")
_PAGE_NAME = re.compile(r"\{\{\s*+(?:FULL|SUB|BASE)?PAGENAME\s*+\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WikitextSettings:
    """Settings for extracting prose from the pages of a wiki.

    Attributes:
        math: How formulas in TeX are handled: "placeholder" replaces them, "tex" keeps their TeX, "drop" removes them.
        lists: "sentences" keeps list items of six words and more, "drop" removes all list items.
        hidden: Lower-case names of namespaces, such as files and categories. Links to them are not rendered.
        wiki: The wiki's language code, which selects the templates and the formats of numbers and dates.
    """

    math: str = "placeholder"
    lists: str = "sentences"
    hidden: frozenset[str] = DROPPED_NAMESPACES
    wiki: str = "en"

    def __post_init__(self) -> None:
        check_choice("math", self.math, tuple(MATH))
        check_choice("lists", self.lists, LISTS)


class Prose(NamedTuple):
    """The prose of a page.

    Attributes:
        text: Paragraphs and headings, separated by blank lines.
        sections: The headings as (level, title). Each title is also a paragraph of the text.
        unknown: The templates in sentences that are missing from all template tables.
        hidden: Number of pieces hidden by their style.
    """

    text: str
    sections: list[tuple[int, str]]
    unknown: list[UnknownTemplate]
    hidden: int


DEFAULT_SETTINGS = WikitextSettings()


def wikitext_to_text(wikitext: str, settings: WikitextSettings = DEFAULT_SETTINGS) -> str:
    """Extract the prose of a wiki page as a string, with blank lines between paragraphs and headings.

    References, tables, files, boxes and the like are removed, and known templates are rendered.

    >>> wikitext_to_text("'''Ayr''' is {{convert|12|km|mi}} from [[Troon|the port]].<ref>Map.</ref>")
    'Ayr is 12 km (7.5 mi) from the port.'
    """
    return read_wikitext(wikitext, settings).text


def read_wikitext(wikitext: str, settings: WikitextSettings = DEFAULT_SETTINGS, title: str = "") -> Prose:
    """Extract the prose of a wiki page.

    Removes references, tables, files, galleries, categories, hatnotes, boxes, list items with fewer than six words, and
    sections such as "References" (see `list_apparatus_titles`). Keeps the labels of links, and the rendered text of
    known templates (measures, numbers, dates, foreign words, quotations). If the value of a template cannot be known
    (today's price, the current year), the brackets or the sentence around it are removed.

    Args:
        wikitext: Any string. The result contains no match of `RESIDUE`.
        settings: Specifies the wiki, and how formulas and lists are handled.
        title: Title of the page, with which `{{PAGENAME}}` is replaced; "" if unknown.
    """
    text = "\n" + wikitext.replace("\r\n", "\n").replace("&nbsp;", " ")
    hidden: list[str] = []
    text = drop_sections(drop_hidden(text, settings.math, hidden), list_apparatus_titles(settings.wiki))
    if title and "PAGENAME" in text:
        text = _PAGE_NAME.sub(lambda match: title, text)
    if "-{" in text and (codes := read_wiki("zh" if "-{zh" in text else settings.wiki).variants.split()):
        text = _VARIANTS.sub(lambda match: _pick_variant(match, codes), text)
    unknown: list[UnknownTemplate] = []
    text = _resolve(text, settings.hidden, build_template_reader(settings.wiki, unknown))
    if "\n|" in text or "\n{|" in text:
        text = drop_tables(text, MAX_DEPTH)
    if "<" in text or "-->" in text:
        text = drop_tags(text)
    text = MAGIC_WORD.sub("", text)
    text = HATNOTE.sub("", text)
    text = decode_entities(drop_quotes(text))
    # A space in place of each mark: what was around it can never close up to another one.
    has_marks = MARK in text
    if has_marks:
        text = without_holes(text)
    text = collapse_spaces(RESIDUE.sub(" ", repair_holes(text)))
    blocks = without_empty_sections(split_paragraphs(text, settings.lists == "sentences"))
    if has_marks:
        tidy_blocks = ((level, _without_marks(block) if MARK in block else block) for level, block in blocks)
        blocks = [(level, block) for level, block in tidy_blocks if block]
    return Prose(
        "\n\n".join(block for _, block in blocks), [block for block in blocks if block[0]], unknown, len(hidden)
    )


def _without_marks(block: str) -> str:
    """Remove the marks before formulas from a paragraph, and then everything that looks like wiki markup."""
    return collapse_spaces(RESIDUE.sub(" ", block.replace(MARK, ""))).strip()


_VARIANTS = re.compile(r"-\{(?!\{)([^{}]*+)\}-")
_VARIANT = re.compile(r"(?:^|[;|])\s*([a-z]{2,3}(?:-[a-z]+)?)\s*:([^;|]*)")


def _pick_variant(match: re.Match[str], codes: list[str]) -> str:
    """Return one of the variants in a match of `-{zh-hans:计算机; zh-hant:電腦}-` of the Chinese Wikipedia.

    The first of the language codes in `codes` for which there is a variant decides, or else the first variant is
    returned. A text without language codes is returned unchanged.
    """
    flag, bar, rule = match[1].rpartition("|")
    if bar and flag.strip() and set(flag.upper()) & set("HT-"):
        return ""
    variants = dict(_VARIANT.findall(rule))
    return next((variants[code].strip() for code in (*codes, *variants) if code in variants), rule.strip())


def _resolve(text: str, hidden: frozenset[str], reader: Reader) -> str:
    """Replace links and templates with their rendered text, from the innermost outwards, in at most 16 passes.

    Args:
        text: Wikitext.
        hidden: Lower-case names of namespaces. Links to them are not rendered.
        reader: Renders a template, as returned by `build_template_reader`.
    """
    if "[" in text:
        text = show_external_links(text)
    for _ in range(MAX_DEPTH):
        previous = text
        if "[[" in text:
            text = show_links(text, hidden)
        if "{{" in text:
            text = show_templates(text, reader)
        if text == previous:
            text = show_loose_links(show_loose_templates(text, reader), hidden)
            if text == previous:
                break
    # Those whose labels held links.
    return show_external_links(text) if "[http" in text else text


# In English, or one word of any language before a link that ends its line, and is not the first of a numbered list.
_REDIRECT = re.compile(
    r"(?i)\s*#(?:\s*redirect[^\W\d_]*\s*:?\s*\[\[|[^\W\d_][^\s\[\]{}|#*:]{1,30}\s*:?\s*\[\[[^\[\]\n]*+\]\]"
    r"(?!\s*+#)[^\S\n]*+(?:[\n{\[<]|\Z))"
)
_DISAMBIGUATION = re.compile(  # the names that begin or end alike
    r"\{\{\s*(?:(?:airport|biology|call ?sign|chemistry|hospital|human name|letter[-–]number combination|mathematical"
    r"|military unit|music|number|place name|road|school|species latin name|station|taxonomy) disambiguation"
    r"|homonymie[ _]de[^{}|\n]{1,40}|[^{}|\n]{0,12}(?:曖昧さ回避|消歧义|消歧義|同名))\s*(?:\||\}\})",
    re.IGNORECASE,
)
_NAME = re.compile(r"\{\{\s*([^{}|\n]{1,60}?)\s*(?:\||\}\})")  # of a template
_DISAMBIGUATION_TITLE = re.compile(
    r"\((?:disambiguation|begriffsklärung|homonymie|desambiguación|desambiguação|disambigua|значения|"
    r"doorverwijspagina|ujednoznacznienie|dezambiguizare|olika betydelser|曖昧さ回避|消歧义|消歧義)\)\s*$",
    re.IGNORECASE,
)
# The template is in the article's last part; one of a section ("section stub") does not make the page a stub.
_STUB = re.compile(
    r"\{\{\s*+(?!sec)(?:[^{}|\n]{0,60}?[ _-])?(?:stub|ébauche|ebauche|esbozo|esboço|abbozzo|beginnetje|saadjie|zalążek"
    r"|заготовка|мъниче|stubbe?|spire|tynkä|pahýl|csonk|taslak|ciot|بذرة|토막글|スタブ|小作品|kūruceņa)\s*+[|}]",
    re.IGNORECASE,
)
_STUB_CHARACTERS = 4_000
_LIST_TITLE = re.compile(
    r"(?:lists?|outline|index) of\b|liste (?:der|von|des|de|d['’])|lista (?:de|di|över|delle|dei)\b|список "
    r"|lijst van\b|lys van\b|lista (?:ale|a|lui)\b|listă de\b|anexo:|.{1,80}(?:一覧|列表)$",
    re.IGNORECASE,
)


def is_redirect(wikitext: str) -> bool:
    """Return True if the wikitext is a redirect, `#REDIRECT [[Target]]`, in English or another language."""
    return _REDIRECT.match(wikitext) is not None


def is_disambiguation(wikitext: str, title: str, wiki: str = "en") -> bool:
    """Return True if the page is a disambiguation page, according to its title or a template.

    Args:
        wikitext: The text of the page.
        title: The title of the page.
        wiki: The wiki's language code.
    """
    text = wikitext.replace("_", " ")
    if _DISAMBIGUATION_TITLE.search(title) or _DISAMBIGUATION.search(text):
        return True
    names = list_disambiguation_templates(wiki)
    return any(match[1].lower() in names for match in _NAME.finditer(text))


def is_stub(wikitext: str) -> bool:
    """Return True if the wikitext has a stub template near its beginning or end.

    Examples are `{{stub}}`, `{{France-geo-stub}}` and `{{Ébauche}}`.
    """
    return bool(_STUB.search(wikitext[-_STUB_CHARACTERS:]) or _STUB.search(wikitext[:_STUB_CHARACTERS]))


def is_list(title: str) -> bool:
    """Return True if a page's title is typical of a list ("List of ...", "Outline of ...") in a known language."""
    return _LIST_TITLE.match(title) is not None
