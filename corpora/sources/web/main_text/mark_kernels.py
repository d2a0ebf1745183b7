"""Kernels of marks: what attributes say, and what comes down from the elements around.

Promises: `read_marks` gives of every element what `marks.own_marks` gives, or says that it is not sure: of words and
names that are not ASCII, and of styles that may hide. `carry_down` gives what `marks.carried_plain` gives. Time grows
with the characters of attributes and with elements.
Costs: 0.6 to 1 ms for 42,000 characters of attributes.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Bytes, Int16s, Int64s
from corpora.kernels.compiling import kernel
from corpora.sources.web.markup.characters import pass_spaces, space_width

# Codes of characters: a small letter and its capital have one; then "-", "_", digits, and all others.
_DASH, _LINE, _DIGIT, _OTHER = 26, 27, 28, 29
NUM_CODES = 30
CODES = np.full(256, _OTHER, np.uint8)
CODES[[ord(each) for each in "-_"]] = _DASH, _LINE
CODES[ord("0") : ord("9") + 1] = _DIGIT
for _first in "aA":
    CODES[ord(_first) : ord(_first) + 26] = range(26)
# Where the words of each use begin in a table; nothing follows 0.
IN_WORD, NAME, ROLE, PROPERTY, IN_STYLE = range(1, 6)
# What the value of an attribute is: words, of which the first of a class is kept; a word; a style; itself a mark, or
# where it is "true".
WORDS, CLASS, OF_ROLE, OF_PROPERTY, STYLE, GIVEN, IF_TRUE = range(1, 8)
ANY, NO_LETTER, NO_WORD = range(3)  # what stands before what is looked for, and what after it
_LESS, _EQUALS, _GREATER, _SLASH, _QUOTE, _APOSTROPHE = (ord(each) for each in "<=>/\"'")
PRIME = 0x100000001B3


class MarkTable(NamedTuple):
    """Words to look for, letter by letter: a node for each of their beginnings.

    after: of each node, the one that follows it by the code of the next letter; 0 where none does
    ends:  of each node, whether `gives` or `never` have something
    gives: of each node, the marks of the words that end there, by what must stand before (times 3) and after; of the
           name of an attribute, what its value is and, at 1, the mark that it gives itself
    never: marks that a word which comes so far does not have from where it began
    """

    after: Int16s
    ends: Bools
    gives: Int64s
    never: Int64s


@kernel
def read_marks(
    data: Bytes, starts: Int64s, stops: Int64s, table: MarkTable, marks: Int64s, keys: Int64s, unsure: Bools
) -> None:
    """Add to `marks` those that attributes give, and make the digest of the first class a part of `keys`."""
    gives, codes = table.gives, np.empty(2 * np.max(stops - starts) + 2, np.uint8)
    for element in range(starts.size):
        at, stop, has_class = starts[element], stops[element], False
        while at < stop:
            name = at = _pass(data, at, stop, False)
            at = _pass(data, at, stop, True)
            if name == at:
                break
            kind = _exact(data, name, at, table, NAME)
            value, end, at = _value(data, at, stop)
            if kind < 0:
                unsure[element] = True
            elif gives[kind, 0] == CLASS or gives[kind, 0] == WORDS:
                is_first = gives[kind, 0] == CLASS and not has_class
                while value < end:
                    word = value = pass_spaces(data, value, end)
                    while value < end and not space_width(data, value):
                        value += 1
                    if is_first and word < value:
                        keys[element], has_class, is_first = _digest(data, word, value, keys[element]), True, False
                    unsure[element] |= _add_marks(data, word, value, codes, table, IN_WORD, marks, element)
            elif gives[kind, 0] == STYLE:
                unsure[element] |= _add_marks(data, value, end, codes, table, IN_STYLE, marks, element)
            elif gives[kind, 0] == OF_ROLE or gives[kind, 0] == OF_PROPERTY:
                root = ROLE if gives[kind, 0] == OF_ROLE else PROPERTY
                marks[element] |= gives[max(0, _exact(data, value, end, table, root)), 0]
            elif gives[kind, 0] == GIVEN or (gives[kind, 0] == IF_TRUE and _is_true(data, value, end)):
                marks[element] |= gives[kind, 1]


@kernel
def _pass(data: Bytes, at: int, stop: int, name: bool) -> int:
    """The end of the characters of a name, or of those that are none."""
    while at < stop:
        byte = data[at]
        is_name = not (byte == _LESS or byte == _EQUALS or byte == _GREATER or byte == _SLASH)
        width = 0 if not is_name else space_width(data, at)
        is_name = is_name and width == 0 and byte != _QUOTE and byte != _APOSTROPHE
        if is_name != name:
            break
        at += max(1, width)
    return at


@kernel
def _value(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """(the first and last place of the value of a name that ends at `at`, the place after it)."""
    equals = pass_spaces(data, at, stop)
    if equals >= stop or data[equals] != _EQUALS:
        return at, at, at
    first = end = pass_spaces(data, equals + 1, stop)
    if first < stop and (data[first] == _QUOTE or data[first] == _APOSTROPHE):
        last = first + 1
        while last < stop and data[last] != data[first]:
            last += 1
        if last < stop:
            return first + 1, last, last + 1
    while end < stop and data[end] != _GREATER and not space_width(data, end):
        end += 1
    return first, end, end if end > first else at


@kernel
def _exact(data: Bytes, start: int, stop: int, table: MarkTable, node: int) -> int:
    """The node that a whole word comes to, 0 for one that is not in the table; -1 where it is not ASCII."""
    for at in range(start, stop):
        if data[at] >= 0x80:
            return -1
        node = table.after[node, CODES[data[at]]]
    return node


@kernel
def _is_true(data: Bytes, at: int, stop: int) -> bool:
    return stop - at == 4 and data[at] == 116 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101


@kernel
def _digest(data: Bytes, start: int, stop: int, digest: int) -> int:
    """FNV-1a of a stretch."""
    for at in range(start, stop):
        digest = (digest ^ int(data[at])) * PRIME
    return digest


@kernel
def _add_marks(
    data: Bytes, start: int, stop: int, codes: Bytes, table: MarkTable, root: int, marks: Int64s, element: int
) -> bool:
    """Add the marks that are in a word; returns whether it is not sure of them: of any in a style."""
    size, was_small, result = 0, False, 0
    for at in range(start, stop):
        byte = data[at]
        if byte >= 0x80:
            return True
        if was_small and 65 <= byte <= 90:  # a hump
            codes[size] = _DASH
            size += 1
        codes[size] = CODES[byte]
        size, was_small = size + 1, root == IN_WORD and 97 <= byte <= 122
    for first in range(size - 1):
        node = table.after[table.after[root, codes[first]], codes[first + 1]]
        if node == 0:
            continue
        before, at, found = codes[first - 1] if first else _OTHER, first + 2, 0
        while node > 0:
            after = codes[at] if at < size else _OTHER
            if table.ends[node]:
                found &= ~table.never[node]
                for place in range(9):
                    if _fits(before, place // 3) and _fits(after, place % 3):
                        found |= table.gives[node, place]
            node = table.after[node, after] if at < size else 0
            at += 1
        result |= found
    if root == IN_STYLE:
        return result != 0
    marks[element] |= result
    return False


@kernel
def _fits(code: int, wanted: int) -> bool:
    """Whether what stands beside a word lets it be one."""
    if wanted == ANY:
        return True
    return code >= _DASH if wanted == NO_LETTER else code == _DASH or code == _OTHER


@kernel
def carry_down(
    parents: Int64s, held: Int64s, own: Int64s, repeats: Bools, most: float, neutral: int, carried: Int64s
) -> None:
    """Fill rows of `carried`, of each element: its depth; the marks of it and of what is around it; the nearest element
    from it on outwards that has marks against text, one for it, and one that repeats; -1 where there is none.

    held: characters of prose in each element; most: of one that marks other than `neutral` do not come down from
    """
    carried[:2, 0], carried[2:, 0] = 0, -1
    for element in range(1, parents.size):
        parent, marks = parents[element], own[element]
        speaks = marks & neutral if held[element] > most else marks
        carried[0, element] = carried[0, parent] + 1
        carried[1, element] = carried[1, parent] | speaks
        carried[2, element] = element if marks & ~neutral else carried[2, parent]
        carried[3, element] = element if marks & neutral else carried[3, parent]
        carried[4, element] = element if repeats[element] else carried[4, parent]
