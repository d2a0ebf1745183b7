"""Publishers' advertisements and catalogues after a book's end.

    THE END
    Popular Copyright Novels                    what follows the end is cut,
    Ask Your Dealer for a Complete List of ...  where it says more than once what only a catalogue says

Promises: pure functions on a book's paragraphs. Nothing before the last "THE END" or "FINIS" is cut; without such a
line a catalogue goes from its first sign, if signs follow one another to the book's end. No more is cut than
`MOST_SHARE` of the characters.
Costs: next to nothing: the search goes backwards from the end as far as that share.

Source: the back pages of reprints and series of 1890 to 1930, as Project Gutenberg's volunteers keep them.
"""
# ruff: noqa: RUF001 - typographic quotes are the subject here

import re

MOST_SHARE = 0.15
LEAST_SIGNS = 2
MOST_APART = 15  # paragraphs between two signs of one catalogue
MOST_HEADINGS = 4  # short paragraphs before the first sign that are the catalogue's own
MOST_HEADING = 80  # characters

END = re.compile(r"\W*(?:the end|finis|end|the end of .{1,60})\W*", re.I)
PRINTER = re.compile(r"^\W*(?:printed|made and printed|print(?:ed)? and bound)[ ](?:by|in|at)\b", re.I)
SIGN = re.compile(
    r"""\b(?:12mo|8vo|16mo|crown[ ]8vo)\b | \bcloth[ ](?:decorative|extra|gilt|boards|binding|bound)\b | \bpost-?paid\b
      | \bper[ ]vol(?:ume|\.) | \beach[ ](?:one[ ])?vol(?:ume|\.) | \bprice,?[ ]+(?:[$£]|\d|net) | [$£][ ]?\d+\.\d\d\b
      | \b\d+s\.[ ](?:\d+d\.|net) | \bwherever[ ]books[ ]are[ ]sold\b
      | \bask[ ](?:your[ ](?:dealer|bookseller)|for)\b.*\blist\b
      | \bcomplete[ ](?:free[ ])?(?:list|catalogue?)[ ]of\b | \bcomplete[ ]catalogue?\b | \bfree[ ]list[ ]of\b
      | \bpopular[ ]copyright | \bcopyrighted[ ]fiction | \bat[ ]moderate[ ]prices\b
      | \bbooks[ ](?:for[ ](?:boys|girls|young[ ]\w+)|by[ ]the[ ]same[ ]author) | ^\W*by[ ]the[ ]same[ ]author\W*$
      | \b(?:grosset[ ]&[ ]dunlap|a\.[ ]l\.[ ]burt|l\.[ ]?c\.[ ]page)\b
      | \bpublishers?['’]s?[ ](?:announcement|list|catalogue) | ^\W*(?:new|latest|recent)[ ](?:books|novels|fiction)\W*$
      | ^(?:\S.{2,60}\.[ ]By[ ][A-Z][^.]*(?:[A-Z]\.[^.]*)*\.(?:[ ]|$)){2}
    """,
    re.I | re.X | re.M,
)


def cut_catalogue(blocks: list[str]) -> list[str]:
    """Paragraphs without the advertisements that follow a book's end.

    >>> book = ["It was late. " * 90] * 2
    >>> cut_catalogue([*book, "THE END", "NEW FICTION", "The Moon. 12mo, cloth extra. $1.50"])[2:]
    ['THE END']
    """
    first = _first_allowed(blocks)
    ends = [index for index in range(first, len(blocks)) if END.fullmatch(blocks[index])]
    behind = blocks[ends[-1] + 1 :] if ends else []
    if behind and sum(bool(SIGN.search(block)) for block in behind) >= min(LEAST_SIGNS, len(behind)):
        return blocks[: ends[-1] + 1]
    if behind and all(PRINTER.search(block) for block in behind):
        return blocks[: ends[-1] + 1]
    return blocks[: _catalogue_start(blocks, max(first, ends[-1] + 1) if ends else first)]


def _first_allowed(blocks: list[str]) -> int:
    """The first paragraph of those at the end that hold `MOST_SHARE` of the characters."""
    left = MOST_SHARE * sum(map(len, blocks))
    for index in range(len(blocks) - 1, -1, -1):
        left -= len(blocks[index])
        if left < 0:
            return index + 1
    return len(blocks)


def _catalogue_start(blocks: list[str], first: int) -> int:
    """Return where a catalogue begins whose signs last to the end of the book; after the book if there is none."""
    signs = [len(blocks)]
    for index in range(len(blocks) - 1, first - 1, -1):
        if signs[-1] - index > MOST_APART:
            break
        if SIGN.search(blocks[index]):
            signs.append(index)
    if len(signs) <= LEAST_SIGNS + 1:
        return len(blocks)
    begin = signs[-1]
    while begin > max(first, signs[-1] - MOST_HEADINGS) and _is_heading(blocks[begin - 1]):
        begin -= 1
    return begin


def _is_heading(block: str) -> bool:
    return len(block) < MOST_HEADING and block[-1:] not in ".!?\"'”’"
