r"""Markdown to the text that its reader sees: CommonMark with tables and strikethrough, by markdown-it-py.

Headings, items, quotations and rows of tables are paragraphs without their signs, code keeps its lines, links are their
words; addresses, pictures, comments, fields between lines of `---` before the text, and marks of notes are left out.
Formulas (`$x$`, `$$x$$`, `\(x\)`, `\[x\]`) are as `corpora.sources.formulas` has them, and HTML is read as in a mail.

Promises: nothing is fetched. A text that is beyond the bounds of a page is given as it is. Cost: about 1 MB a second.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from corpora.sources.formulas import FORMULA, build_tex_pattern, show_formula
from corpora.sources.web.own_blocks import ShownText, extract_shown_text
from corpora.sources.web.tree import PageLimits, Refused

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LIMITS = PageLimits()
FRONT = re.compile(
    r"\A(?:---[ \t]*\n(?=[\w-]+[ \t]*:)(?:.*\n)*?(?:---|\.\.\.)|\+\+\+[ \t]*\n(?=[\w\[])(?:.*\n)*?\+\+\+)"
    r"[ \t]*(?:\n|\Z)"
)
BOXES = re.compile(r"(<li>\s*(?:<p>)?)\[[ xX]\]\s|(<blockquote>\s*<p>)\[![A-Z]+\]")  # of tasks, and kinds of notices
# Code, in which nothing is a formula or the mark of a note, or one of these.
SIGNS = re.compile(
    r"^ {0,3}```+[ \t]*math[ \t]*\n(?P<fenced>(?:(?! {0,3}```)[^\n]*\n)*+) {0,3}```+[ \t]*$"
    r"|(?P<code>^ {0,3}(?P<fence>```+|~~~+)[^\n]*\n(?:(?! {0,3}(?P=fence))[^\n]*\n)*+[^\n]*"
    r"|(?P<tick>`++)[^`]++(?P=tick)(?!`)|^(?: {4}|\t)[^\n]*)"
    rf"|{build_tex_pattern()}"
    r"|(?<![\\$\w])\$(?=\S)(?P<inline>[^$\n]++)(?<=\S)\$(?![\w$])"
    r"|^(?P<note>\[\^[^\[\]\s]{1,60}+\]:)[ \t]*|(?P<mark>\[\^[^\[\]\s]{1,60}+\])",
    re.MULTILINE,
)
FORMULAS = ("fenced", "display", "round", "square", "inline")


def read_markdown(text: str) -> ShownText:
    r"""Convert Markdown to the text that a reader of the rendered page sees.

    >>> read_markdown("# Boats\n\n* the *old* [ferry](a.html)\n\nIt was $k/n$ or $\\frac{1}{2}$.[^1]").text
    'Boats\n\nthe old ferry\n\nIt was k/n or [formula].'
    """
    lines = text.replace("\r\n", "\n")
    html = _build_parser().render(SIGNS.sub(_show_match, FRONT.sub("", lines)))
    html = BOXES.sub(lambda match: match[1] or match[2], html)
    shown = extract_shown_text(html, LIMITS)
    return ShownText(text) if isinstance(shown, Refused) else shown


def _show_match(match: re.Match[str]) -> str:
    """Return the replacement for a match of `SIGNS`: code unchanged, a formula as text, "" for a footnote mark."""
    if match["code"] is not None:
        return match[0]
    for name in FORMULAS:
        if match[name] is not None:
            formula = show_formula(match[name])
            return r"\[formula\]" if formula == FORMULA else formula
    return ""


@cache
def _build_parser() -> "MarkdownIt":
    """Build the Markdown parser. It renders a row of a table as a paragraph with tabs after the cells. Cached."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    for name in ("table", "thead", "tbody", "th", "td"):
        parser.add_render_rule(f"{name}_open", _build_rule(""))
        parser.add_render_rule(f"{name}_close", _build_rule("\t" if name in ("th", "td") else ""))
    parser.add_render_rule("tr_open", _build_rule("<p>"))
    parser.add_render_rule("tr_close", _build_rule("</p>"))
    return parser


def _build_rule(html: str) -> Any:
    """Return a rendering rule for the Markdown parser: a function that returns the string `html` for any token."""
    return lambda self, tokens, index, options, env: html
