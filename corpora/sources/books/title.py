"""A book's title and author by its title page, where no header or package says them.

    The Sky              The Sky by Ann Lee         The Sky
    by                                              Published by Ann Lee at Smashwords
    Ann Lee                                         Copyright 2012 Ann Lee

Promises: a pure function of a book's first paragraphs, before anything is cut. Nothing is guessed: without a word
such as "by" before a name there is no author, and without an author no title.
Costs: nothing.
"""
# ruff: noqa: RUF001 - typographic quotes are the subject here

import re
from string import capwords

PAGE_BLOCKS = 12
MOST_TITLE = 150  # characters
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


def title_and_author(blocks: list[str]) -> tuple[str | None, str | None]:
    """Return the title and author on a title page, (None, None) if it does not have both.

    >>> title_and_author(["THE SECRET GARDEN\\nBY FRANCES HODGSON BURNETT", "CHAPTER I"])
    ('The Secret Garden', 'Frances Hodgson Burnett')
    >>> title_and_author(["The Sky", "A tale by night", "It was late."])
    (None, None)
    """
    page = blocks[:PAGE_BLOCKS]
    for index, block in enumerate(page[:6]):
        if len(block) > MOST_TITLE or OTHER_ROLE.search(block):
            continue
        by_line = BY.fullmatch(block)
        after = AUTHOR.fullmatch(page[index + 1]) if BY_ALONE.fullmatch(block) and index + 1 < len(page) else None
        named = by_line or after
        title = (by_line["title"] if by_line else None) or (page[0] if index else None)
        if named and title and len(title) <= MOST_TITLE:
            return _spoken(title), _spoken(named["author"])
    holders = (match["publisher"] or match["holder"] for block in page if (match := RIGHTS.fullmatch(block)))
    author = next((holder for holder in holders if not COMPANY.search(holder)), None)
    title = next((block for block in page[:2] if block != author), None) if author else None
    return (_spoken(title), _spoken(author)) if title and author and len(title) <= MOST_TITLE else (None, None)


def _spoken(name: str) -> str:
    """A name on one line, and not in capitals; a full stop at its end stays after an initial alone."""
    line = " ".join(name.split()).strip(' ,;:"“”')
    line = line[:-1] if re.search(r"[^\W\d_]{4}\.\Z", line) else line
    if not line.isupper():
        return line
    words = capwords(line).split(" ")
    return " ".join([words[0], *(word.lower() if word.lower() in SMALL else word for word in words[1:])])
