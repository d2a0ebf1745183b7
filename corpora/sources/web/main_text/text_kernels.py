"""A kernel that looks at the texts of blocks, and the kinds of characters that it counts.

Promises: `look_at_texts` counts what `look_plain` counts, and says of no text that it cannot open as apparatus where
`OPENING` matches it. Costs: 0.05 ms for 16,000 characters in 300 blocks.
"""

import re
from functools import cache
from unicodedata import category

import numpy as np

from corpora.kernels.arrays import Bools, Bytes, Int64s, UInt32s
from corpora.kernels.compiling import kernel

OPENINGS = (
    r"read (?:more|also|next|the full)|see also|also read|related|more (?:from|on|stories|:)|recommended|share|"
    r"follow|subscribe|sign up|click here|advertis\w*|photo|image|getty|file photo|video|watch|listen|comments?|"
    r"leave a|copyright|all rights|©|posted|published|updated|last (?:updated|modified)|by\b|from\b|tags?\b|topics?|"
    r"categor\w*|source|print|email|tweet|facebook|newsletter|get (?:the|our)|join|download|contact|about|view|"
    r"continue|reporting by|editing by|also\b|mehr|lesen|weiter|czytaj|więcej|zobacz|leggi|mire|lee\b|lees|"
    r"ver m[aá]s|veja|voir|articles?\b|artikel|teilen|drucken|kommentare?|kontakt|impressum|datenschutz|quelle|autor|"
    r"von\b|par\b|por\b|auch interessant|anzeige|foto|bild|lire|à lire|photos?|partager|leia|lea|fotos?|log ?in|"
    r"register|sponsored|don't miss|trending|popular|top stories|next|previous|this (?:article|story|content)|we use|"
    r"cookie|support|donate|story continues|skip|back to|follow us|read:|more:"
)
OPENING = re.compile(rf"\W*(?:{OPENINGS})\b", re.IGNORECASE)
ALTERNATIVE = re.compile(r"(?:[^|()]|\([^()]*\))+")  # of a pattern whose groups hold no others
WIDE, NOT_WIDE = 0x2E80, 0xFE30  # code points from which on and before which a character is as wide as two, mostly
HEAD = 100  # characters of a text whose capitals and digits are counted
# Kinds of characters by their bits, in the order in which they are counted.
CAPITAL, DIGIT, COMMA, END, SPACE, LINE, IS_WIDE = (1 << place for place in range(7))
WIDES, MAY_OPEN, NUM_COUNTS = 6, 7, 8
CATEGORIES = {"Lu": CAPITAL, "Lt": CAPITAL, "Nd": DIGIT, "Nl": DIGIT}
SIGNS = ((COMMA, ",;\u3001\uff0c\uff1b"), (END, ".!?\u2026\u203d\u3002\uff01\uff1f\uff61"), (SPACE, " "), (LINE, "\n"))
_ALIKE, _DIGESTS = 8, 1 << 14  # characters in a row that are asked for together; numbers of such rows
_NO_LETTER = 26
_LETTERS = np.full(128, _NO_LETTER, np.int64)
for _first in "Aa":
    _LETTERS[ord(_first) : ord(_first) + 26] = range(26)


@cache
def kinds_of_characters() -> Bytes:
    """The kinds of every code point below 0x10000, as bits."""
    kinds = np.array([CATEGORIES.get(category(chr(code)), 0) for code in range(0x10000)], np.uint8)
    for kind, characters in SIGNS:
        kinds[[ord(character) for character in characters]] = kind
    kinds[WIDE:NOT_WIDE] |= IS_WIDE
    return kinds


@cache
def openings() -> Bools:
    """Whether `OPENING` may match what begins with three letters, each by its number of 27."""
    table = np.zeros((_NO_LETTER + 1,) * 3, np.bool_)
    for alternative in ALTERNATIVE.findall(OPENINGS):
        first, second, third = (_LETTERS[min(ord(letter), 127)] for letter in alternative.ljust(3)[:3])
        table[first, second, third] = True
    return table.ravel()


@kernel
def look_at_texts(codes: UInt32s, lengths: Int64s, kinds: Bytes, openings: Bools, counts: Int64s) -> None:
    """Fill `counts`: of each text the characters of each kind, capitals and digits in its head alone; and at last
    whether `OPENING` may match it. codes: the characters of all texts; lengths: of each."""
    last, start = len(kinds) - 1, 0
    for text in range(lengths.size):
        stop, head = start + lengths[text], start + min(HEAD, lengths[text])
        for at in range(start, stop):
            kind = kinds[min(codes[at], last)]
            for place in range(0 if at < head else 2, MAY_OPEN):
                counts[place, text] += kind >> place & 1
        counts[MAY_OPEN, text] = _may_open(codes, start, stop, openings)
        start = stop


@kernel
def may_be_said(codes: UInt32s, lengths: Int64s, least: int, said: UInt32s) -> Bools:
    """Which of the texts that are not shorter than the least may begin as some part of what is said."""
    is_there, may, start = np.zeros(_DIGESTS, np.bool_), np.zeros(lengths.size, np.bool_), 0
    for at in range(said.size - _ALIKE + 1):
        is_there[_digest(said, at)] = True
    for text in range(lengths.size):
        may[text] = lengths[text] >= max(least, _ALIKE) and is_there[_digest(codes, start)]
        start += lengths[text]
    return may


@kernel
def _digest(codes: UInt32s, start: int) -> int:
    """A number of some characters in a row."""
    digest = 0
    for at in range(start, start + _ALIKE):
        digest = digest * 0x9E3779B1 + codes[at]
    return (digest ^ digest >> 17) & (_DIGESTS - 1)


@kernel
def _may_open(codes: UInt32s, at: int, stop: int, openings: Bools) -> bool:
    """Return False where `OPENING` does not match: what is not ASCII may be anything to it."""
    while at < stop and codes[at] < 128 and _LETTERS[codes[at]] == _NO_LETTER:
        if 48 <= codes[at] <= 57 or codes[at] == 95:  # a digit, "_"
            return False
        at += 1
    place = 0
    for number in range(at, at + 3):
        if number < stop and codes[number] >= 128:
            return True
        place = place * (_NO_LETTER + 1) + (_LETTERS[codes[number]] if number < stop else _NO_LETTER)
    return bool(openings[place])


def look_plain(text: str) -> list[int]:
    """The twin of `look_at_texts` for one text, and whether `OPENING` does match it."""
    head = [category(character) for character in text[:HEAD]]
    counts = [sum(CATEGORIES.get(each) == kind for each in head) for kind in (CAPITAL, DIGIT)]
    counts += [sum(map(text.count, signs)) for _, signs in SIGNS]
    wide = sum(WIDE <= ord(character) < NOT_WIDE for character in text)
    return [*counts, wide, OPENING.match(text) is not None]
