"""Kernels that read the marks in attributes, pass them down to inner elements, and count characters.

A mark is a bit that says what an attribute tells about an element, such as "comment" or "in nav".

Promises: `read_marks` returns for every element what `features.compute_own_marks` returns, or says that it is not sure:
for words and names that are not ASCII, and for styles that may hide. `carry_down` returns what
`features.carry_down_plain` returns. `count_characters` counts what `count_characters_plain` counts, and never says that
a text cannot open as apparatus if `OPENING` matches it. Time grows with the characters of attributes and with elements.
Costs: 0.6 to 1 ms for 42,000 characters of attributes; 0.05 ms to count 16,000 characters in 300 blocks.
"""

import re
from functools import cache
from typing import NamedTuple
from unicodedata import category

import numpy as np

from corpora.kernels.arrays import Bools, Bytes, Int16s, Int64s, UInt32s
from corpora.kernels.compiling import kernel
from corpora.sources.web.markup.elements import measure_space, skip_spaces

# Codes of characters: a small letter and its capital have one; then "-", "_", digits, and all others.
_DASH, _LINE, _DIGIT, _OTHER = 26, 27, 28, 29
NUM_CODES = 30
CODES = np.full(256, _OTHER, np.uint8)
CODES[[ord(each) for each in "-_"]] = _DASH, _LINE
CODES[ord("0") : ord("9") + 1] = _DIGIT
for _first in "aA":
    CODES[ord(_first) : ord(_first) + 26] = range(26)
# Where the words of each use begin in a table; nothing follows 0.
WORD_ROOT, NAME_ROOT, ROLE_ROOT, PROPERTY_ROOT, STYLE_ROOT = range(1, 6)
# What the value of an attribute is: words, of which the first of a class is kept; a word; a style; itself a mark, or
# where it is "true".
WORDS, CLASS, ROLE_VALUE, PROPERTY_VALUE, STYLE, IS_GIVEN, IS_TRUE = range(1, 8)
ANY, NO_LETTER, NO_WORD = range(3)  # what stands before what is looked for, and what after it
_LESS, _EQUALS, _GREATER, _SLASH, _QUOTE, _APOSTROPHE = (ord(each) for each in "<=>/\"'")
PRIME = 0x100000001B3


class MarkTable(NamedTuple):
    """A trie of the words to search for. Each node stands for a prefix of one or more words.

    Attributes:
        children: int16 array [nodes, letters]: the child node for each letter code; 0 if there is none.
        has_marks: True for each node that has `marks` or `excluded`.
        marks: int64 array [nodes, 9]: the marks of the words that end at a node. The column is 3 * (required context
            before the word) + (required context after it). If the word is the name of an attribute, column 0 contains
            the kind of the attribute's value, and column 1 the mark that the attribute itself gives.
        excluded: The marks to remove if a word continues up to this node.
    """

    children: Int16s
    has_marks: Bools
    marks: Int64s
    excluded: Int64s


@kernel
def read_marks(
    data: Bytes, starts: Int64s, stops: Int64s, table: MarkTable, marks: Int64s, keys: Int64s, unsure: Bools
) -> None:
    """Add the marks implied by each element's attributes to `marks`, and mix its first class into its digest in `keys`.

    Args:
        data: UTF-8 bytes of the page.
        starts: First byte of each element's attributes.
        stops: First byte after each element's attributes.
        table: The words to search for.
        marks: int64, the marks of each element as bits. New marks are added in place.
        keys: int64, a digest of each element. It is updated in place with the element's first class.
        unsure: Set to True for elements that only the Python implementation can handle.
    """
    gives, codes = table.marks, np.empty(2 * np.max(stops - starts) + 2, np.uint8)
    for element in range(starts.size):
        at, stop, has_class = starts[element], stops[element], False
        while at < stop:
            name = at = _skip_name(data, at, stop, False)
            at = _skip_name(data, at, stop, True)
            if name == at:
                break
            kind = _find_node(data, name, at, table, NAME_ROOT)
            value, end, at = _find_value(data, at, stop)
            if kind < 0:
                unsure[element] = True
            elif gives[kind, 0] == CLASS or gives[kind, 0] == WORDS:
                is_first = gives[kind, 0] == CLASS and not has_class
                while value < end:
                    word = value = skip_spaces(data, value, end)
                    while value < end and not measure_space(data, value):
                        value += 1
                    if is_first and word < value:
                        keys[element], has_class, is_first = _digest(data, word, value, keys[element]), True, False
                    unsure[element] |= _add_marks(data, word, value, codes, table, WORD_ROOT, marks, element)
            elif gives[kind, 0] == STYLE:
                unsure[element] |= _add_marks(data, value, end, codes, table, STYLE_ROOT, marks, element)
            elif gives[kind, 0] == ROLE_VALUE or gives[kind, 0] == PROPERTY_VALUE:
                root = ROLE_ROOT if gives[kind, 0] == ROLE_VALUE else PROPERTY_ROOT
                marks[element] |= gives[max(0, _find_node(data, value, end, table, root)), 0]
            elif gives[kind, 0] == IS_GIVEN or (gives[kind, 0] == IS_TRUE and _is_true(data, value, end)):
                marks[element] |= gives[kind, 1]


@kernel
def _skip_name(data: Bytes, at: int, stop: int, is_name_wanted: bool) -> int:
    """Return the position after the run of attribute name characters that begins at `at`; at most `stop`.

    If `is_name_wanted` is False, skip the run of all other characters instead.
    """
    while at < stop:
        byte = data[at]
        is_name = not (byte == _LESS or byte == _EQUALS or byte == _GREATER or byte == _SLASH)
        width = 0 if not is_name else measure_space(data, at)
        is_name = is_name and width == 0 and byte != _QUOTE and byte != _APOSTROPHE
        if is_name != is_name_wanted:
            break
        at += max(1, width)
    return at


@kernel
def _find_value(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Find the value of an attribute.

    Args:
        data: UTF-8 bytes of the page.
        at: First byte after the attribute's name.
        stop: First byte after all attributes of the element.

    Returns:
        The first byte of the value, the first byte after it, and the position at which to continue.
    """
    equals = skip_spaces(data, at, stop)
    if equals >= stop or data[equals] != _EQUALS:
        return at, at, at
    first = end = skip_spaces(data, equals + 1, stop)
    if first < stop and (data[first] == _QUOTE or data[first] == _APOSTROPHE):
        last = first + 1
        while last < stop and data[last] != data[first]:
            last += 1
        if last < stop:
            return first + 1, last, last + 1
    while end < stop and data[end] != _GREATER and not measure_space(data, end):
        end += 1
    return first, end, end if end > first else at


@kernel
def _find_node(data: Bytes, start: int, stop: int, table: MarkTable, node: int) -> int:
    """Look up the word `data[start:stop]` in a table.

    Args:
        data: UTF-8 bytes of the page.
        start: First byte of the word.
        stop: First byte after the word.
        table: The table.
        node: The node at which the search begins, e.g. `NAME_ROOT`.

    Returns:
        The word's node; 0 if it is not in the table, -1 if it is not ASCII.
    """
    for at in range(start, stop):
        if data[at] >= 0x80:
            return -1
        node = table.children[node, CODES[data[at]]]
    return node


@kernel
def _is_true(data: Bytes, at: int, stop: int) -> bool:
    """Return True if data[at:stop] is the word "true"."""
    return stop - at == 4 and data[at] == 116 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101


@kernel
def _digest(data: Bytes, start: int, stop: int, digest: int) -> int:
    """Return the FNV-1a digest of `data[start:stop]`, starting from the value `digest`."""
    for at in range(start, stop):
        digest = (digest ^ int(data[at])) * PRIME
    return digest


@kernel
def _add_marks(
    data: Bytes, start: int, stop: int, codes: Bytes, table: MarkTable, root: int, marks: Int64s, element: int
) -> bool:
    """Add the marks of all words found in a class, an id, a style etc. to `marks`, in place.

    Args:
        data: UTF-8 bytes of the page.
        start: First byte of the value to search.
        stop: First byte after the value.
        codes: Scratch array for the letter codes of the value.
        table: The words to search for.
        root: The node at which the search begins: `WORD_ROOT` or `STYLE_ROOT`.
        marks: The marks of each element.
        element: Index of the element to which marks are added.

    Returns:
        True if the kernel cannot decide; then `marks` is unchanged.
    """
    size, was_lower, result = 0, False, 0
    for at in range(start, stop):
        byte = data[at]
        if byte >= 0x80:
            return True
        if was_lower and 65 <= byte <= 90:  # a hump
            codes[size] = _DASH
            size += 1
        codes[size] = CODES[byte]
        size, was_lower = size + 1, root == WORD_ROOT and 97 <= byte <= 122
    for first in range(size - 1):
        node = table.children[table.children[root, codes[first]], codes[first + 1]]
        if node == 0:
            continue
        before, at, found = codes[first - 1] if first else _OTHER, first + 2, 0
        while node > 0:
            after = codes[at] if at < size else _OTHER
            if table.has_marks[node]:
                found &= ~table.excluded[node]
                for place in range(9):
                    if _is_edge(before, place // 3) and _is_edge(after, place % 3):
                        found |= table.marks[node, place]
            node = table.children[node, after] if at < size else 0
            at += 1
        result |= found
    if root == STYLE_ROOT:
        return result != 0
    marks[element] |= result
    return False


@kernel
def _is_edge(code: int, edge: int) -> bool:
    """Return True if a character may be next to a word.

    Args:
        code: The character's letter code: 0 to 25 for letters, then "-", "_", digits, and all other characters.
        edge: The context that the word requires: `ANY`, `NO_LETTER` or `NO_WORD`.
    """
    if edge == ANY:
        return True
    return code >= _DASH if edge == NO_LETTER else code == _DASH or code == _OTHER


@kernel
def carry_down(
    parents: Int64s, prose: Int64s, own: Int64s, repeats: Bools, max_size: float, neutral: int, carried: Int64s
) -> None:
    """Compute properties that elements inherit from their ancestors, and write them to `carried`.

    For each element, `carried` has five rows: its depth; the marks of the element and its ancestors; and the index of
    the nearest element (itself or an ancestor) with marks against main text, with marks for main text, and with equal
    siblings. An index is -1 if there is no such element.

    Args:
        parents: Index of each element's parent.
        prose: Number of characters of prose in each element.
        own: The marks of each element itself.
        repeats: True for elements that have equal siblings.
        max_size: Elements with more prose than this pass only `neutral` marks to their descendants.
        neutral: The marks for main text, as bits. All other marks are against main text.
        carried: int64 array [5, elements] to fill.
    """
    carried[:2, 0], carried[2:, 0] = 0, -1
    for element in range(1, parents.size):
        parent, marks = parents[element], own[element]
        passed_on = marks & neutral if prose[element] > max_size else marks
        carried[0, element] = carried[0, parent] + 1
        carried[1, element] = carried[1, parent] | passed_on
        carried[2, element] = element if marks & ~neutral else carried[2, parent]
        carried[3, element] = element if marks & neutral else carried[3, parent]
        carried[4, element] = element if repeats[element] else carried[4, parent]


OPENING_PATTERNS = (
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
OPENING = re.compile(rf"\W*(?:{OPENING_PATTERNS})\b", re.IGNORECASE)
ALTERNATIVE = re.compile(r"(?:[^|()]|\([^()]*\))+")  # of a pattern whose groups hold no others
WIDE_START, WIDE_STOP = (
    0x2E80,
    0xFE30,
)  # code points from which on and before which a character is as wide as two, mostly
HEAD_CHARACTERS = 100  # characters of a text whose capitals and digits are counted
# Kinds of characters by their bits, in the order in which they are counted.
CAPITAL, DIGIT, COMMA, END, SPACE, LINE, IS_WIDE = (1 << place for place in range(7))
WIDE_COUNT, CAN_OPEN, NUM_COUNTS = 6, 7, 8
CATEGORIES = {"Lu": CAPITAL, "Lt": CAPITAL, "Nd": DIGIT, "Nl": DIGIT}
SIGNS = ((COMMA, ",;\u3001\uff0c\uff1b"), (END, ".!?\u2026\u203d\u3002\uff01\uff1f\uff61"), (SPACE, " "), (LINE, "\n"))
_HASHED, _HASH_SLOTS = 8, 1 << 14  # characters in a row that are asked for together; numbers of such rows
_NO_LETTER = 26
_LETTERS = np.full(128, _NO_LETTER, np.int64)
for _letter in "Aa":
    _LETTERS[ord(_letter) : ord(_letter) + 26] = range(26)


@cache
def classify_characters() -> Bytes:
    """Return a uint8 array with the kinds of each code point below 0x10000, as bits: `CAPITAL`, `DIGIT`, `COMMA` etc.

    The array is cached.
    """
    kinds = np.array([CATEGORIES.get(category(chr(code)), 0) for code in range(0x10000)], np.uint8)
    for kind, characters in SIGNS:
        kinds[[ord(character) for character in characters]] = kind
    kinds[WIDE_START:WIDE_STOP] |= IS_WIDE
    return kinds


@cache
def list_openings() -> Bools:
    """Return a bool array that tells whether `OPENING` may match a string, by the string's first three letters.

    The index is the three letters as a number in base 27; 26 stands for characters other than ASCII letters. The array
    is cached.
    """
    table = np.zeros((_NO_LETTER + 1,) * 3, np.bool_)
    for alternative in ALTERNATIVE.findall(OPENING_PATTERNS):
        first, second, third = (_LETTERS[min(ord(letter), 127)] for letter in alternative.ljust(3)[:3])
        table[first, second, third] = True
    return table.ravel()


@kernel
def count_characters(codes: UInt32s, lengths: Int64s, kinds: Bytes, openings: Bools, counts: Int64s) -> None:
    """Count the characters of each string by kind, and flag strings that may open like page furniture ("Read more").

    Args:
        codes: uint32 code points of all strings, concatenated.
        lengths: Number of characters of each string.
        kinds: The kinds of each code point, as returned by `classify_characters`.
        openings: The possible first three letters of page furniture, as returned by `list_openings`.
        counts: int64 array [8, strings] to fill, initialized with zeros. The first seven rows are counts of kinds;
            capitals and digits are counted only in the first 100 characters. The last row is 1 if `OPENING` may match.
    """
    last, start = len(kinds) - 1, 0
    for text in range(lengths.size):
        stop, head = start + lengths[text], start + min(HEAD_CHARACTERS, lengths[text])
        for at in range(start, stop):
            kind = kinds[min(codes[at], last)]
            for place in range(0 if at < head else 2, CAN_OPEN):
                counts[place, text] += kind >> place & 1
        counts[CAN_OPEN, text] = _can_open(codes, start, stop, openings)
        start = stop


@kernel
def find_possible_starts(codes: UInt32s, lengths: Int64s, min_size: int, haystack: UInt32s) -> Bools:
    """Find the strings whose first eight characters may occur in `haystack`, by comparing hashes.

    Args:
        codes: uint32 code points of all strings, concatenated.
        lengths: Number of characters of each string.
        min_size: Shorter strings are never found.
        haystack: uint32 code points of the text to search.

    Returns:
        A bool array [strings]. It can be True by chance, but is never False for a string whose beginning occurs.
    """
    is_present, may_start, start = np.zeros(_HASH_SLOTS, np.bool_), np.zeros(lengths.size, np.bool_), 0
    for at in range(haystack.size - _HASHED + 1):
        is_present[_hash_text(haystack, at)] = True
    for text in range(lengths.size):
        may_start[text] = lengths[text] >= max(min_size, _HASHED) and is_present[_hash_text(codes, start)]
        start += lengths[text]
    return may_start


@kernel
def _hash_text(codes: UInt32s, start: int) -> int:
    """Return a hash of the eight code points that begin at `codes[start]`."""
    digest = 0
    for at in range(start, start + _HASHED):
        digest = digest * 0x9E3779B1 + codes[at]
    return (digest ^ digest >> 17) & (_HASH_SLOTS - 1)


@kernel
def _can_open(codes: UInt32s, at: int, stop: int, openings: Bools) -> bool:
    """Return False if a string's first three letters show that `OPENING` cannot match it.

    Args:
        codes: uint32 code points of all strings, concatenated.
        at: Index of the string's first code point.
        stop: Index after its last code point.
        openings: The possible first three letters of page furniture, as returned by `list_openings`.

    Returns:
        True if `OPENING` may match, or if one of the relevant characters is not ASCII.
    """
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


def count_characters_plain(text: str) -> list[int]:
    """Count the characters of one string as `count_characters` does, for tests.

    Returns:
        The numbers of capitals and digits (both in the first 100 characters), commas, sentence ends, spaces, line
        breaks and wide characters, and whether `OPENING` matches. `count_characters` only finds out whether `OPENING`
        may match.
    """
    head = [category(character) for character in text[:HEAD_CHARACTERS]]
    counts = [sum(CATEGORIES.get(each) == kind for each in head) for kind in (CAPITAL, DIGIT)]
    counts += [sum(map(text.count, signs)) for _, signs in SIGNS]
    wide = sum(WIDE_START <= ord(character) < WIDE_STOP for character in text)
    return [*counts, wide, OPENING.match(text) is not None]
