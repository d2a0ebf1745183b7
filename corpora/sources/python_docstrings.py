"""Docstrings to prose: paragraphs, without markup and code.

Promises: pure functions of the string; the text that is kept reads as sentences. Dropped are doctests with their
output, literal blocks, code fences, tables, headings, directives and lists of names. Descriptions of parameters, fields
and items as numpydoc, Google's style and Sphinx write them are kept if they are sentences. Conventions of other
packages than numpy and the standard library are not recognized. Costs: one pass over the lines and four patterns for
each paragraph, about 10 MB/s. What counts as a sentence is a rule of thumb (`is_prose`): some short summaries are lost,
and some code that reads like prose is kept.
"""

import inspect
import re
from dataclasses import dataclass, field

UNDERLINE = re.compile(r"([-=~^\"'#*+])\1{2,}\s*$")
DIRECTIVE = re.compile(r"\.\.(?:\s+([\w:-]+)::\s*(.*)|\s.*|$)")
FIELD = re.compile(r":(\w+)((?:\s[^:`]*)?):(?:\s+(.*))?$")
ITEM = re.compile(r"(?:[-*+•]|\d{1,3}[.)]|\([a-z\d]\))\s+")
PARAMETER = re.compile(r"\*{0,2}[\w.`]+(?:\s?\([^()]{0,200}(?:\([^()]*\)[^()]*)?\))?:\s+(?=\S)")
TERM = re.compile(r"\*{0,2}\w+(?:, \*{0,2}\w+){0,5} : ")  # numpydoc: name : type
FENCE = re.compile(r"(`{3,}|~{3,})")
TITLE = re.compile(r"#{1,6}\s")
KEPT_DIRECTIVES = frozenset(("note", "warning", "caution"))
SKIPPED_SECTIONS = frozenset(("see also", "references", "methods", "attributes"))

LINK = re.compile(r"\[([^\[\]]*)\](?:\([^()\s]*(?:\s\"[^\"]*\")?\)|\[[^\[\]]*\]|_+)")
ROLE = re.compile(r"(?<![\w+:.-])([\w+.-]*+):[\w+:.-]{2,}+(?<=:)`(~?)([^`<]*)(?:<[^`>]*>)?`")
TICKS = re.compile(r"\[?(`{1,2})(~?)([^`]++)\1_*\]?")
STARS = re.compile(r"(?<![\w*\\])(\*{1,2})(?=[^\s*])([^*]*[^\s*])\1(?![\w*])")
ESCAPE = re.compile(r"\\([_*`|<>\\])")
SENTENCE_END = re.compile(r"[.!?:;][\"'”\u2019)\]]*$")
WORD = re.compile(r"[^\W\d_]{2,}")
CODE_CHARACTERS = re.compile(r"[=<>{}\[\]()_|#$%/\\@+^~]")


def docstring_to_text(doc: str) -> str:
    r"""Extract the prose of a docstring, with a blank line between paragraphs. Return "" if there is no prose.

    >>> docstring_to_text("Add one number to\n    :func:`another`.\n\n    >>> add(1, 2)\n    3\n")
    'Add one number to another.'
    """
    paragraphs = _Paragraphs()
    for line in [*inspect.cleandoc(doc).split("\n"), ""]:
        paragraphs.add_line(line)
    return "\n\n".join(text for text in map(_strip_inline_markup, paragraphs.finished) if is_prose(text))


@dataclass(slots=True)
class _Paragraphs:
    """Collects lines into paragraphs. A line that is not prose ends the paragraph and is discarded."""

    finished: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # of the paragraph begun
    indent: int = 0  # of the paragraph's first line
    is_item: bool = False  # the paragraph began as an item: its other lines are deeper
    skip_below: int | None = None  # lines deeper than this are skipped: a literal block or a directive's body
    until_blank: bool = False  # a doctest: lines are skipped up to a blank one
    fence: str = ""  # the fence that is open
    skips_section: bool = False

    def add_line(self, line: str) -> None:
        """Process the next line of the docstring. Prose is added to the current paragraph; other lines end it."""
        text = line.strip()
        if self.fence:
            self.fence = "" if text.startswith(self.fence) else self.fence
        elif not text:
            self._end_paragraph()
            self.until_blank = False
        elif not self.until_blank:
            indent = len(line) - len(line.lstrip())
            if self.skip_below is None or indent <= self.skip_below:
                self.skip_below = None
                self._add_text(text, indent)

    def _add_text(self, text: str, indent: int) -> None:
        """Add a line that is not part of a skipped block.

        Args:
            text: The line without white space around it.
            indent: Number of spaces before it.
        """
        if self._handle_markup(text, indent):
            return
        if self.lines and (indent < self.indent or (indent > self.indent and not self.is_item and len(self.lines) < 2)):
            self._end_paragraph()
        item = self._strip_item_prefix(text)
        if item is not None:
            self._end_paragraph()
        if not self.lines:
            self.indent, self.is_item = indent, item is not None
        self.lines.append(text if item is None else item)

    def _handle_markup(self, text: str, indent: int) -> bool:
        """Process a line if it is markup: a doctest, fence, directive, underline or title.

        Args:
            text: The line without white space around it.
            indent: Number of spaces before it.

        Returns:
            True if the line was markup. If it is False, the line is text, and the caller must add it.
        """
        if text.startswith(">>>"):
            self._end_paragraph()
            self.until_blank = True
        elif fence := FENCE.match(text):
            self._end_paragraph()
            self.fence = fence[1]
        elif directive := DIRECTIVE.match(text):
            self._end_paragraph()
            if directive[1] not in KEPT_DIRECTIVES:
                self.skip_below = indent
            elif directive[2]:
                self.lines, self.indent, self.is_item = [directive[2]], indent, True
        elif UNDERLINE.match(text):
            title = self.lines.pop().lower() if self.lines else ""
            self._end_paragraph()
            self.skips_section = title in SKIPPED_SECTIONS
        elif TITLE.match(text):
            self._end_paragraph()
        else:
            return False
        return True

    def _strip_item_prefix(self, text: str) -> str | None:
        """Return the text after the mark of a list item, or after the name of a field or parameter.

        Return "" if there is no such text, or if it describes only a type; None for any other line.
        """
        if match := FIELD.match(text):
            return "" if match[1] in ("type", "rtype") else match[3] or ""
        if match := ITEM.match(text):
            text = text[match.end() :]
            described = PARAMETER.match(text)
            return text[described.end() :] if described and "`" in described[0] else text
        if TERM.match(text):
            return ""
        if (not self.lines or self.is_item) and (match := PARAMETER.match(text)):
            return text[match.end() :]
        return None

    def _end_paragraph(self) -> None:
        """Move the current paragraph, if there is one, to `finished`, unless its section is skipped."""
        if self.lines:
            text = " ".join(self.lines)
            if text.endswith("::"):
                self.skip_below = self.indent
                text = text[:-2].rstrip() + ":"
            if not self.skips_section:
                self.finished.append(text)
            self.lines, self.is_item = [], False


def _strip_inline_markup(text: str) -> str:
    """Remove the inline markup of reStructuredText and Markdown from a paragraph. The marked words are kept."""
    if "[" in text:
        text = LINK.sub(_replace_link, text)
    if "`" in text:
        text = TICKS.sub(
            lambda m: _shorten_role(m[2], _strip_target(m[3])),
            ROLE.sub(lambda m: m[1] + _shorten_role(m[2], m[3]), text),
        )
    if "*" in text:
        text = STARS.sub(r"\2", text)
    if "\\" in text:
        text = ESCAPE.sub(r"\1", text)
    return " ".join(text.split())


def _replace_link(match: re.Match[str]) -> str:
    """Return the text of a matched link; "" for a footnote reference."""
    return "" if match[0].endswith("]_") else match[1]


def _strip_target(content: str) -> str:
    """Return the text between backticks without a trailing target: "the name" for "the name <target>"."""
    if not content.endswith(">"):
        return content
    target = content.find("<", max(1, content.rfind(">", 0, -1) + 1))
    return content if target < 0 else content[:target]


def _shorten_role(tilde: str, target: str) -> str:
    """Return the text that Sphinx displays for a role's target. If `tilde` is "~", it is only "c" for "a.b.c"."""
    return target.strip().rpartition(".")[2] if tilde == "~" else target.strip()


def is_prose(text: str) -> bool:
    """Return True if a paragraph is prose: enough words, little code, and either a sentence end or a minimum length.

    >>> is_prose("Return the absolute value of a number."), is_prose("x = abs(y) + z[0]")
    (True, False)
    """
    words = len(WORD.findall(text))
    if words < 4 or 12 * len(CODE_CHARACTERS.findall(text)) > len(text):
        return False
    return bool(SENTENCE_END.search(text)) or (words >= 8 and text[0].isupper())
