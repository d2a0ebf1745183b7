"""Lines of plain text to paragraphs: hard-wrapped prose is joined, verse and titles keep their lines.

Promises: no word of the book is lost or moved; only white space, and hyphens at the ends of lines, change. A text that
has a paragraph to a line is left so. What others put between the lines goes: pictures, transcribers' notes and
footnotes in brackets, the numbers of pages. What is prose is decided by measures of the book's own lines: in prose
a line ends because the next word would not have fitted, in verse before that.
Costs: about 10 MB a second.

A book's title and author by its title page, if no header or package says them.

    The Sky              The Sky by Ann Lee         The Sky
    by                                              Published by Ann Lee at Smashwords
    Ann Lee                                         Copyright 2012 Ann Lee

Promises: a pure function of a book's first paragraphs, before anything is cut. Nothing is guessed: without a word
such as "by" before a name there is no author, and without an author no title.
Costs: nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from string import capwords

# ruff: noqa: RUF001 - typographic quotes are the subject here


MAX_WRAPPED_CHARACTERS = 120  # characters; no wrapped book of the samples has a wider column than 108
SLACK = 4  # columns by which wrappers, and people who fixed lines by hand, stay below the width
DENSE_BLANKS = 0.03  # share of blank lines below which they cannot be what parts paragraphs
FEW_INDENTED = 0.5
SHORT_SHARE = 0.7  # of the width: no line of a block that is as short as this was wrapped at it
HALF = 0.5
MAX_WORD_LETTERS = 60  # letters
SET_OFF = " " * 4
INSERTED = re.compile(
    r"""\[(?: (?:Illustration|Frontispiece|Decoration|Ornament|Colophon|Tailpiece|Headpiece|Music|Picture)\b
            [^\[\]]{0,600}
          | (?:Printer|Publisher|Transcriber|Proofreader|E-?text[ ]editor)['’]?s?['’]?[ ][^\[\]]{0,600}
          | Footnote\b[^\[\]]{0,4000} )\]""",
    re.I | re.X,
)
NUMBER_LINE = re.compile(r"^[ \t]*[\[({-]*[ ]?(\d{1,4})[ ]?[\])}-]*[ \t]*$", re.M)
MIN_PAGE_LINES = 20  # lines of a number alone that rise by one
MIN_WRAPPED_CHARACTERS = 40  # characters of a line that was wrapped
IN_SENTENCES = 0.3  # share of them that are within a sentence; a chapter's number never does
PAGE_NUMBER = re.compile(r"\[(?:Pg|Page)\.? ?[\divxlc]+\]|\{(?:pg )?\d{1,4}[a-z]?\}", re.I)
BLOCK = re.compile(r"(?:^.*\S.*\n?)+", re.M)
ITALICS = re.compile(r"(?<![\w_])__?(?=[^\s_])|(?<=[^\s_])__?(?![\w_])")
SPLIT_WORD = re.compile(r"([^\W\d_]+)-\Z")
CUT_WORD = re.compile(r"(?<![^\W\d_])([^\W\d_]++)-\n[ \t]*+([^\W\d_]+)")
WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
FIRST_WORD = re.compile(r"[^\W\d_]+")
TERMINAL = re.compile(r"[.!?:—\-][\"'”’)\]_*]*\Z")
SENTENCE_END = re.compile(r"[.!?][\"'”’)\]_*]*\Z")
RULE = re.compile(r"[\W_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLayout:
    """The line layout of a book, measured over all its lines.

    width: column at which prose is wrapped, or None if each line is a paragraph
    dense: True if paragraphs are not separated by blank lines
    """

    width: int | None
    dense: bool


def split_paragraphs(text: str) -> list[str]:
    r"""Split a text with `\n` line endings into paragraphs, without ornamental lines and picture markers.

    Verse, titles and addresses keep their lines.

    >>> split_paragraphs("It was a dark\nnight.\n\n* * *\n\nI went _home_ late\nthat night.")
    ['It was a dark night.', 'I went home late that night.']
    """
    text = drop_page_lines(text.expandtabs(4).replace("\f", "\n"))
    text = INSERTED.sub("", PAGE_NUMBER.sub("", text))
    layout = measure_layout(text)
    hyphens = Hyphens(text)
    shaped = []
    for block in BLOCK.finditer(text):
        lines = [line.rstrip() for line in block[0].split("\n") if not RULE.fullmatch(line)]
        for group in _iter_groups(lines, layout):
            shaped.append(drop_italics(_join_group(group, layout, hyphens)))
    return shaped


def drop_page_lines(text: str) -> str:
    """Remove lines that contain only a page number from a text, if these numbers increase through the book.

    A sentence divided by such a line is joined again.
    """
    numbers = [int(match[1]) for match in NUMBER_LINE.finditer(text)]
    rising = sum(after - before == 1 for before, after in pairwise(numbers))
    if len(numbers) < MIN_PAGE_LINES or rising < 0.9 * (len(numbers) - 1):
        return text
    pieces = NUMBER_LINE.split(text)[::2]
    divided = [_is_divided(before, after) for before, after in pairwise(pieces)]
    if sum(divided) < IN_SENTENCES * len(divided):
        return text
    kept = [pieces[0]]
    for inside, piece in zip(divided, pieces[1:], strict=True):
        if inside:
            kept[-1] = kept[-1].rstrip()
            piece = "\n" + piece.lstrip()
        kept.append(piece)
    return "".join(kept)


def _is_divided(before: str, after: str) -> bool:
    """Return True if a sentence continues from the text `before` to the text `after`. Short lines count as titles."""
    last, begins = before.rstrip().rpartition("\n")[2], after.lstrip()[:2]
    if SENTENCE_END.search(last[-8:]) or FIRST_WORD.search(begins) is None:
        return False
    return begins[0].islower() or len(last.strip()) >= MIN_WRAPPED_CHARACTERS


def drop_italics(text: str) -> str:
    """Remove the underscores that mark italics.

    >>> drop_italics("_The Times_, and snake_case, and Mr. ____")
    'The Times, and snake_case, and Mr. ____'
    """
    return ITALICS.sub("", text) if "_" in text else text


def measure_layout(text: str) -> LineLayout:
    """Measure the line layout of a book's text. Its width is the length that 90% of the lines do not exceed.

    The width is None if more than 5% of the lines are too long to be wrapped, or if there is no text.
    """
    lines = text.split("\n")
    lengths = sorted(len(line.rstrip()) for line in lines if not line.isspace() and line)
    if not lengths:
        return LineLayout(width=None, dense=False)
    long = sum(length > MAX_WRAPPED_CHARACTERS for length in lengths)
    if long > 0.05 * len(lengths):
        return LineLayout(width=None, dense=False)
    dense = len(lengths) > 20 and len(lines) - len(lengths) < DENSE_BLANKS * len(lines)
    return LineLayout(width=lengths[int(0.9 * (len(lengths) - 1))], dense=dense)


def _iter_groups(lines: list[str], layout: LineLayout) -> Iterator[list[str]]:
    """Yield the lines of each paragraph in a block of lines without blank lines.

    Args:
        lines: The lines of the block.
        layout: The book's line layout.
    """
    if layout.width is None:
        yield from (
            [[line] for line in lines] if any(len(line) > MAX_WRAPPED_CHARACTERS for line in lines) else [lines]
        )
        return
    starts = _find_paragraph_starts(lines, layout.width, layout.dense) if len(lines) > 1 else []
    for start, stop in pairwise([0, *starts, len(lines)]):
        if start < stop:
            yield lines[start:stop]


def _find_paragraph_starts(lines: list[str], width: int, dense: bool) -> list[int]:
    """Return the indices of the lines, except the first, that begin a paragraph inside a block, in ascending order.

    Args:
        lines: The lines of the block.
        width: The book's line width.
        dense: True if the book's paragraphs are not separated by blank lines.
    """
    indented = _find_indented(lines) if any(line[0] == " " for line in lines) else []
    if indented and len(indented) < FEW_INDENTED * len(lines):
        return [index for index in indented if TERMINAL.search(lines[index - 1])]
    if not dense:
        return []
    return [
        index
        for index, (line, after) in enumerate(pairwise(lines), start=1)
        if _can_fit_next(line, after, width) and (TERMINAL.search(line) or len(line) < 0.6 * width)
    ]


def _find_indented(lines: list[str]) -> list[int]:
    """Return the indices of the lines, except the first, that are slightly indented relative to the others."""
    indents = [len(line) - len(line.lstrip()) for line in lines]
    left = min(indents)
    return [index for index in range(1, len(lines)) if 2 <= indents[index] - left <= 10]


def _can_fit_next(line: str, after: str, width: int) -> bool:
    """Return True if the next line's first word would have fitted on this line, so that the break is intentional.

    Args:
        line: The line.
        after: The next line.
        width: The line width, in characters.
    """
    room = width - SLACK - len(line) - 1
    return room > 0 and len(after.lstrip().partition(" ")[0]) <= room


def has_meant_breaks(lines: list[str], width: int) -> bool:
    """Return True if the line breaks of a block are intentional, as in verse, a title or an address.

    Most lines must end before the book's line width. The decisive sign is a capital at the start of a line after one
    that does not end a sentence: verse has it, but narrow or hand-wrapped prose does not. The capital is not required
    if the lines are much shorter than the book's, or if all lines are indented and start with a capital. Verse with
    long lines fills the width, but then all its lines start with a capital.
    """
    num_breaks = len(lines) - 1
    if num_breaks < 1:
        return False
    meant = sum(_can_fit_next(line, after, width) for line, after in pairwise(lines))
    if 2 * meant <= num_breaks and not (num_breaks >= 3 and _is_capitalized(lines[1])):
        return False
    telling = [after for line, after in pairwise(lines) if not SENTENCE_END.search(line)]
    capitals = sum(map(_is_capitalized, telling))
    if 2 * meant <= num_breaks:
        return len(telling) >= 3 and capitals == len(telling)
    if (telling and 2 * capitals >= len(telling)) or (meant == num_breaks and _is_set_off(lines)):
        return True
    longest = max(map(len, lines))
    narrow = sum(_can_fit_next(line, after, longest + SLACK // 2) for line, after in pairwise(lines))
    return longest < HALF * width or (bool(telling) and 2 * narrow > num_breaks and longest < SHORT_SHARE * width)


def _is_set_off(lines: list[str]) -> bool:
    """Return True if all lines of a block are indented and start with a capital."""
    return all(line.startswith(SET_OFF) and _is_capitalized(line) for line in lines)


def _is_capitalized(line: str) -> bool:
    """Return True if the first word of a line begins with a capital."""
    word = FIRST_WORD.search(line)
    return word is not None and word[0][0].isupper()


def _join_group(lines: list[str], layout: LineLayout, hyphens: "Hyphens") -> str:
    """Join the lines of a paragraph to one string. Verse, titles and addresses keep their line breaks.

    Args:
        lines: The lines.
        layout: The book's line layout.
        hyphens: Joins the lines, and the words that are split across them.
    """
    if layout.width is None or has_meant_breaks(lines, layout.width):
        return "\n".join(" ".join(line.split()) for line in lines)
    return " ".join(hyphens.join_lines([line.strip() for line in lines]).split())


class Hyphens:
    """Joins the lines of a paragraph. Words split across lines are spelled as elsewhere in the book.

    Args:
        text: The whole book. It is first searched when a split word occurs.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: frozenset[str] | None = None
        self.divides = False

    def join_lines(self, lines: list[str]) -> str:
        """Join the lines of a paragraph into one line. There must be at least one line."""
        return "".join([*(self._end_line(line, after) for line, after in pairwise(lines)), lines[-1]])

    def _end_line(self, line: str, after: str) -> str:
        """Prepare a line for joining with the line `after`: add a space, or keep or remove the hyphen at its end."""
        if line.endswith(("--", "—")) or (after.startswith(("--", "—")) and line[-1:].isalnum()):
            return line
        head = SPLIT_WORD.search(line[-MAX_WORD_LETTERS:]) if line.endswith("-") else None
        if head is None:
            return f"{line} "
        tail = FIRST_WORD.match(after)
        if tail is None or not tail[0][0].islower() or self.has_hyphen(head[1].lower(), tail[0].lower()):
            return line
        return line[:-1]

    def has_hyphen(self, head: str, tail: str) -> bool:
        """Return True if the hyphen between `head` and `tail`, the parts of a split word, belongs to the word.

        The spelling elsewhere in the book decides. If the word does not occur elsewhere, the hyphen belongs to it
        unless the book hyphenates words at line ends.

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
        """Return the book's words, and whether most words split at line ends occur elsewhere without a hyphen."""
        text = self.text.lower()
        words = frozenset(WORD.findall(CUT_WORD.sub(" ", text)))
        cuts = CUT_WORD.findall(text)
        return words, 2 * sum(head + tail in words for head, tail in cuts) > len(cuts)


# ruff: noqa: RUF001 - typographic quotes are the subject here


PAGE_BLOCKS = 12
MAX_TITLE_CHARACTERS = 150  # characters
PARTICLES = "de|von|van|der|la|le|du|and|&"
NAME = rf"(?:[A-Z][\w.'’-]*|{PARTICLES})(?:[ ](?:[A-Z(][\w.'’()-]*|{PARTICLES})){{0,6}}"
BY = re.compile(rf"(?:(?P<title>\S.*?),?\s+)?(?:[Bb]y|BY)\s+(?P<author>{NAME})[.,]?", re.S)
BY_ALONE = re.compile(r"by:?", re.I)
AUTHOR = re.compile(rf"(?P<author>{NAME})[.,]?")
RIGHTS = re.compile(
    rf"\W*(?:Published[ ]by[ ](?P<publisher>{NAME})[ ]at[ ]Smashwords"
    rf"|(?:Copyright|©|\(c\))(?:[ ]?(?:©|\([cC]\)))?[ ]?(?:\d{{4}},?[ ])?(?:by[ ])?(?P<holder>{NAME})"
    rf"(?:,?[ ]\d{{4}})?)\W*"
)

OTHER_ROLE = re.compile(
    r"\b(?:translat|illustrat|edited|introduc|prefac|foreword|pictur|pictorial|drawn|cover)\w*", re.I
)
COMPANY = re.compile(r"\b(?:Co|Company|Inc|Ltd|Limited|Press|Publish\w*|Books)\b", re.I)
SMALL = frozenset("a an and at by for from in of on or the to with".split())


def find_title_and_author(blocks: list[str]) -> tuple[str | None, str | None]:
    """Find the title and author on a title page.

    Args:
        blocks: The paragraphs of the book.

    Returns:
        The title and the author, or (None, None) if either is missing.

    >>> find_title_and_author(["THE SECRET GARDEN\\nBY FRANCES HODGSON BURNETT", "CHAPTER I"])
    ('The Secret Garden', 'Frances Hodgson Burnett')
    >>> find_title_and_author(["The Sky", "A tale by night", "It was late."])
    (None, None)
    """
    page = blocks[:PAGE_BLOCKS]
    for index, block in enumerate(page[:6]):
        if len(block) > MAX_TITLE_CHARACTERS or OTHER_ROLE.search(block):
            continue
        by_line = BY.fullmatch(block)
        after = AUTHOR.fullmatch(page[index + 1]) if BY_ALONE.fullmatch(block) and index + 1 < len(page) else None
        named = by_line or after
        title = (by_line["title"] if by_line else None) or (page[0] if index else None)
        if named and title and len(title) <= MAX_TITLE_CHARACTERS:
            return _normalize_name(title), _normalize_name(named["author"])
    holders = (match["publisher"] or match["holder"] for block in page if (match := RIGHTS.fullmatch(block)))
    author = next((holder for holder in holders if not COMPANY.search(holder)), None)
    title = next((block for block in page[:2] if block != author), None) if author else None
    return (
        (_normalize_name(title), _normalize_name(author))
        if title and author and len(title) <= MAX_TITLE_CHARACTERS
        else (None, None)
    )


def _normalize_name(name: str) -> str:
    """Put a title or name on one line, and capitalize it normally if it is in all capitals.

    A final period is removed, except after a short word such as an initial.
    """
    line = " ".join(name.split()).strip(' ,;:"“”')
    line = line[:-1] if re.search(r"[^\W\d_]{4}\.\Z", line) else line
    if not line.isupper():
        return line
    words = capwords(line).split(" ")
    return " ".join([words[0], *(word.lower() if word.lower() in SMALL else word for word in words[1:])])
