"""Lines of plain text to paragraphs: hard-wrapped prose is joined, verse and titles keep their lines.

Promises: no word is lost or moved; only white space, and hyphens at the ends of lines, change. A text that
has a paragraph to a line is left so. What is prose is decided by measures of the book's own lines: in prose
a line ends because the next word would not have fitted, in verse before that.
Costs: about 11 MB a second.
"""
# ruff: noqa: RUF001 - typographic quotes are the subject here

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

LONG_LINE = 120  # characters; no wrapped book of the samples has a wider column than 108
SLACK = 4  # columns by which wrappers, and the hands that mended their lines, stay below the width
DENSE_BLANKS = 0.03  # share of blank lines below which they cannot be what parts paragraphs
FEW_INDENTED = 0.5
SHORT_SHARE = 0.7  # of the width: no line of a block that is as short as this was wrapped at it
HALF = 0.5
MOST_WORD = 60  # letters
PICTURE = re.compile(
    r"\[(?:Illustration|Frontispiece|Decoration|Ornament|Colophon|Tailpiece|Headpiece)\b[^\[\]]{0,600}\]", re.I
)
PAGE_NUMBER = re.compile(r"\[(?:Pg|Page)\.? ?[\divxlc]+\]|\{(?:pg )?\d{1,4}\}", re.I)
BLOCK = re.compile(r"(?:^.*\S.*\n?)+", re.M)
ITALICS = re.compile(r"(?<![\w_])__?(?=[^\s_])|(?<=[^\s_])__?(?![\w_])")
SPLIT_WORD = re.compile(r"([^\W\d_]+)-\Z")
CUT_WORD = re.compile(r"([^\W\d_]+)-\n[ \t]*([^\W\d_]+)")
WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
FIRST_WORD = re.compile(r"[^\W\d_]+")
TERMINAL = re.compile(r"[.!?:—\-][\"'”’)\]_*]*\Z")
SENTENCE_END = re.compile(r"[.!?][\"'”’)\]_*]*\Z")
RULE = re.compile(r"[\W_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a book's lines are set, measured on all of them.

    width:   column at which its prose is wrapped; None where a line is a paragraph
    dense:   blank lines do not part its paragraphs
    """

    width: int | None
    dense: bool


def paragraphs(text: str) -> list[str]:
    r"""The paragraphs of a text whose lines end in `\n`, without lines of mere signs and marks of pictures.

    >>> paragraphs("It was a dark\nnight.\n\n* * *\n\nI went _home_ late\nthat night.")
    ['It was a dark night.', 'I went home late that night.']
    """
    text = PICTURE.sub("", PAGE_NUMBER.sub("", text.expandtabs(4).replace("\f", "\n")))
    layout = measure(text)
    hyphens = Hyphens(text)
    found = []
    for block in BLOCK.finditer(text):
        lines = [line.rstrip() for line in block[0].split("\n") if not RULE.fullmatch(line)]
        for group in _groups(lines, layout):
            found.append(drop_italics(_shape(group, layout, hyphens)))
    return found


def drop_italics(text: str) -> str:
    """Text without the underscores that stand for italics.

    >>> drop_italics("_The Times_, and snake_case, and Mr. ____")
    'The Times, and snake_case, and Mr. ____'
    """
    return ITALICS.sub("", text) if "_" in text else text


def measure(text: str) -> Layout:
    """The layout of a book: its width is what nine tenths of its lines stay within."""
    lines = text.split("\n")
    lengths = sorted(len(line.rstrip()) for line in lines if not line.isspace() and line)
    if not lengths:
        return Layout(width=None, dense=False)
    long = sum(length > LONG_LINE for length in lengths)
    if long > 0.05 * len(lengths):
        return Layout(width=None, dense=False)
    dense = len(lengths) > 20 and len(lines) - len(lengths) < DENSE_BLANKS * len(lines)
    return Layout(width=lengths[int(0.9 * (len(lengths) - 1))], dense=dense)


def _groups(lines: list[str], layout: Layout) -> Iterator[list[str]]:
    """The lines between two blank lines, cut where a paragraph begins without one."""
    if layout.width is None:
        yield from ([[line] for line in lines] if any(len(line) > LONG_LINE for line in lines) else [lines])
        return
    starts = _paragraph_starts(lines, layout.width, layout.dense) if len(lines) > 1 else []
    for start, stop in pairwise([0, *starts, len(lines)]):
        if start < stop:
            yield lines[start:stop]


def _paragraph_starts(lines: list[str], width: int, dense: bool) -> list[int]:
    indented = _indented(lines) if any(line[0] == " " for line in lines) else []
    if indented and len(indented) < FEW_INDENTED * len(lines):
        return [index for index in indented if TERMINAL.search(lines[index - 1])]
    if not dense:
        return []
    return [
        index
        for index, (line, after) in enumerate(pairwise(lines), start=1)
        if _could_go_on(line, after, width) and (TERMINAL.search(line) or len(line) < 0.6 * width)
    ]


def _indented(lines: list[str]) -> list[int]:
    """The lines after the first that begin a little to the right of the others."""
    indents = [len(line) - len(line.lstrip()) for line in lines]
    left = min(indents)
    return [index for index in range(1, len(lines)) if 2 <= indents[index] - left <= 10]


def _could_go_on(line: str, after: str, width: int) -> bool:
    """Whether the next line's first word would have fitted on this one: the break is meant."""
    room = width - SLACK - len(line) - 1
    return room > 0 and len(after.lstrip().partition(" ")[0]) <= room


def keeps_lines(lines: list[str], width: int) -> bool:
    """Whether a block is verse, a title, an address: something whose line breaks are meant.

    Most breaks must come before the book's width. Then what tells is the capital at the beginning of a line
    that does not follow the end of a sentence: verse has it, prose set narrower or mended by hand has not.
    Lines much shorter than the book's are kept without it. Long verse fills the width, but then every line
    has its capital.
    """
    num_breaks = len(lines) - 1
    if num_breaks < 1:
        return False
    meant = sum(_could_go_on(line, after, width) for line, after in pairwise(lines))
    if 2 * meant <= num_breaks and not (num_breaks >= 3 and _begins_with_capital(lines[1])):
        return False
    telling = [after for line, after in pairwise(lines) if not SENTENCE_END.search(line)]
    capitals = sum(map(_begins_with_capital, telling))
    if 2 * meant <= num_breaks:
        return len(telling) >= 3 and capitals == len(telling)
    if telling and 2 * capitals >= len(telling):
        return True
    longest = max(map(len, lines))
    narrow = sum(_could_go_on(line, after, longest + SLACK // 2) for line, after in pairwise(lines))
    return longest < HALF * width or (bool(telling) and 2 * narrow > num_breaks and longest < SHORT_SHARE * width)


def _begins_with_capital(line: str) -> bool:
    word = FIRST_WORD.search(line)
    return word is not None and word[0][0].isupper()


def _shape(lines: list[str], layout: Layout, hyphens: "Hyphens") -> str:
    if layout.width is None or keeps_lines(lines, layout.width):
        return "\n".join(" ".join(line.split()) for line in lines)
    return " ".join(hyphens.join_lines([line.strip() for line in lines]).split())


class Hyphens:
    """Joins the lines of a paragraph; a word cut in two is mended as the book itself writes it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: frozenset[str] | None = None
        self.divides = False

    def join_lines(self, lines: list[str]) -> str:
        """A paragraph's lines as one."""
        return "".join([*(self._before(line, after) for line, after in pairwise(lines)), lines[-1]])

    def _before(self, line: str, after: str) -> str:
        """A line as it stands before another: with a space, or at a dash without, or without its hyphen."""
        if line.endswith(("--", "—")) or (after.startswith(("--", "—")) and line[-1:].isalnum()):
            return line
        head = SPLIT_WORD.search(line[-MOST_WORD:]) if line.endswith("-") else None
        if head is None:
            return f"{line} "
        tail = FIRST_WORD.match(after)
        if tail is None or not tail[0][0].islower() or self.has_hyphen(head[1].lower(), tail[0].lower()):
            return line
        return line[:-1]

    def has_hyphen(self, head: str, tail: str) -> bool:
        """Whether the hyphen belongs to the word: as the book writes it elsewhere. If it nowhere does, then
        unless the book is one that divides words at the ends of its lines.

        >>> hyphens = Hyphens("To-morrow he will scrutinise the room.")
        >>> hyphens.has_hyphen("to", "morrow"), hyphens.has_hyphen("scru", "tinise"), hyphens.has_hyphen("half", "coy")
        (True, False, True)
        """
        if self.words is None:
            self.words, self.divides = self._observe()
        if f"{head}-{tail}" in self.words:
            return True
        return head + tail not in self.words and not self.divides

    def _observe(self) -> tuple[frozenset[str], bool]:
        """The book's words, and whether most of those cut at a line's end are elsewhere one word."""
        text = self.text.lower()
        words = frozenset(WORD.findall(CUT_WORD.sub(" ", text)))
        cuts = CUT_WORD.findall(text)
        return words, 2 * sum(head + tail in words for head, tail in cuts) > len(cuts)
