"""Kernels of a page: its bytes cut into tokens, and tokens arranged in a table.

Promises: what `plain.plain_page` says of elements and of the text between them, in two passes: `cut_tokens` looks at
UTF-8, `arrange` at tokens. Between them Python says which formatting elements are not shown, and afterwards it makes
the text of blocks with references to characters, line breaks or lines of their own. What a name of an element means is
in a table, `rules`; its names stand before the page, so that they are numbered first. Where only the plain twin knows
the answer, both give `UNSURE`: a name of an element that is not ASCII, more names with one digest than chance gives, a
block whose characters may be too many.
Costs: 0.3 ms for a page of 270 kB and 2,300 tags; memory of 16 bytes for each tag or stretch of text, and the page's.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Int32s, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import ONES, TOP_BITS, load8, trailing_zeros

# What a token does to the table: of a start tag, what the first column of `rules` has for its name.
TEXT, OPEN, CLOSE, INLINE, ASKED, HIDING, INLINE_END, LINKED, UNLINKED, BREAK, RULE, VOID = range(12)
META, LINK, TIME, PAGE, RAW, DRAWN, TITLE, SCRIPT = range(12, 20)  # Python reads those that are tokens of these
# Columns of `rules`: what it does; whether end tags of others stop at it; the element at which its end tag stops;
# two that it ends; those beyond which it does not look, the innermost of which counts.
DOES, IS_SCOPE, END_WALL, ENDS, WALLS = 0, 1, 2, 3, 5
SCOPED = -2  # among the last: it does not look beyond the innermost scope
DONE, UNSURE, TOO_MANY, TOO_DEEP = range(4)
MOST_FAULTS = 16  # tags whose quotes do not end, after which quotes are not looked at: keeps the pass linear
MOST_ALIKE = 64  # names in one place of the table of names

# Columns of `names`, and what the state of the first pass has before the raw elements whose end is missing.
START, STOP, NEXT, DIGEST, LEVEL = range(5)
NUM_TOKENS, NUM_ELEMENTS, NUM_NAMES, FAULTS, UNENDED = range(5)
# What the state of the second pass has.
NODES, GROUPS, SEGMENTS, SIZE, CHARACTERS = range(5)
_DEPTH, _FIRST, _LINKS, _MIXED, _IN_LINK, _GAP, _RAW_SIZE, _HIDDEN, _TIMES, _LEVEL = range(5, 15)
STATES = 15

_LESS, _GREATER, _SLASH, _EQUALS, _DASH, _QUOTE, _APOSTROPHE, _AMPERSAND = (ord(each) for each in "<>/=-\"'&")
_HREF, _LICENSE, _JSON = (np.array([ord(each) for each in word], np.uint8) for word in ("href", "license", "ld+json"))
_HID, _NON, _SR, _SCR = (ord(a) << 16 | ord(b) << 8 | ord(c) for a, b, c in ("hid", "non", "sr-", "scr"))
_GREATERS, _EQUALSES = ONES * np.uint64(_GREATER), ONES * np.uint64(_EQUALS)
_MIX = 29


class Page(NamedTuple):
    """A page and its tokens.

    data:   the names in `rules`, a space after each, and the page, in UTF-8
    rules:  of each of these names, what it means
    names:  of each name its first and last place in `data`, the next one in its place of `chains`, its digest, and the
            innermost level at which an element of it is open
    chains: the newest name of those that have its place; -1 where there is none; a power of two of them
    tokens: what it does, the number of its name, the first and last place of its text or attributes
    """

    data: Bytes
    rules: Int64s
    names: Int64s
    chains: Int64s
    tokens: Int32s
    state: Int64s


class Table(NamedTuple):
    """A page's table, and the elements that are open.

    nodes:    name, first and last place of its attributes, parent, first group inside and the one after the last
    groups:   of text between borders: element, first segment, characters in links, whether it has "&" or <br>, and
              where its characters end in `text`
    segments: first and last place of its characters, both 0 for a line break; whether it is in a link
    text:     that of groups without "&" and <br>, one space for white space, and what is left of others
    opened:   at each level the name, the element, the innermost scope; the level below with the same name
    """

    nodes: Int64s
    groups: Int64s
    segments: Int32s
    text: Bytes
    opened: Int64s
    state: Int64s


@kernel
def space_width(data: Bytes, at: int) -> int:
    """The bytes of the character at `at` if `str.isspace` holds for it, else 0."""
    byte = data[at]
    if byte < 0x80:
        return int(byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31)
    if byte == 0xC2:
        return 2 if data[at + 1] == 0x85 or data[at + 1] == 0xA0 else 0
    if byte < 0xE1 or byte > 0xE3:
        return 0
    rest = int(data[at + 1]) << 8 | int(data[at + 2])
    if byte == 0xE2:
        return 3 if 0x8080 <= rest <= 0x808A or rest in (0x80A8, 0x80A9, 0x80AF, 0x819F) else 0
    return 3 if (rest == 0x9A80 and byte == 0xE1) or (rest == 0x8080 and byte == 0xE3) else 0


@kernel
def _is_letter(byte: int) -> bool:
    return 97 <= byte | 32 <= 122


@kernel
def _lowered(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else int(byte)


@kernel
def _find(data: Bytes, wanted: int, at: int, stop: int) -> int:
    """The next place of a byte; -1 where there is none."""
    eight = ONES * np.uint64(wanted)
    while at + 8 <= stop:
        word = load8(data, at) ^ eight
        flags = (word - ONES) & ~word & TOP_BITS
        if flags:
            return at + (trailing_zeros(flags) >> 3)
        at += 8
    while at < stop:
        if data[at] == wanted:
            return at
        at += 1
    return -1


@kernel
def _contains(data: Bytes, start: int, stop: int, word: Bytes, case: int) -> bool:
    """Whether a word is in a stretch. case: the bit that small letters have, 0 where capitals are other letters."""
    for at in range(start, stop - word.size + 1):
        size = 0
        while size < word.size and data[at + size] | case == word[size]:
            size += 1
        if size == word.size:
            return True
    return False


@kernel
def _matches(data: Bytes, at: int, name: int, size: int) -> bool:
    """Whether two stretches are the same but for the case of ASCII letters."""
    for i in range(size):
        if _lowered(data[at + i]) != _lowered(data[name + i]):
            return False
    return True


@kernel
def _number(page: Page, start: int, stop: int, new: bool) -> int:
    """The number of a name, -1 for one that no start tag had where it is not `new`; -2 where it is not sure."""
    data, names, digest = page.data, page.names, stop - start
    for at in range(start, stop):
        if data[at] >= 0x80:
            return -2
        digest = (digest ^ _lowered(data[at])) * 0x100000001B3
    place = (digest ^ digest >> _MIX) & (page.chains.size - 1)
    number, alike = page.chains[place], 0
    while number >= 0:
        first, size = names[number, START], stop - start
        if names[number, DIGEST] == digest and names[number, STOP] - first == size:
            if _matches(data, start, first, size):
                return number
        number, alike = names[number, NEXT], alike + 1
    if alike > MOST_ALIKE:
        return -2
    if not new:
        return -1
    number = page.state[NUM_NAMES]
    names[number, START], names[number, STOP], names[number, NEXT] = start, stop, page.chains[place]
    names[number, DIGEST], names[number, LEVEL], page.chains[place] = digest, -1, number
    page.state[NUM_NAMES] += 1
    return number


@kernel
def _emit(page: Page, what: int, name: int, start: int, stop: int) -> None:
    """Write a token."""
    count, tokens = page.state[NUM_TOKENS], page.tokens
    tokens[count, 0], tokens[count, 1], tokens[count, 2], tokens[count, 3] = what, name, start, stop
    page.state[NUM_TOKENS] = count + 1


@kernel
def cut_tokens(page: Page, begin: int, last: int, most_elements: int) -> int:
    """Cut a page into tags and the text between them; returns DONE, UNSURE or TOO_MANY.

    begin: where the page begins
    last:  the place of its last ">", after which no tag ends; -1 where there is none
    """
    data, at = page.data, 0
    while at < begin:
        stop = _find(data, 32, at, begin)
        _number(page, at, stop, True)
        at = stop + 1
    position = after = begin
    while True:
        at = _find(data, _LESS, position, last)
        if at < 0:
            break
        closing = data[at + 1] == _SLASH
        name = at + 2 if closing else at + 1
        end = stop = -1
        if _is_letter(data[name]):
            stop = name + 1
            while not (space_width(data, stop) or data[stop] == _SLASH or data[stop] == _GREATER):
                stop += 1
            end = _tag_end(page, stop, closing)
        elif not _is_other(data[at + 1]):  # a mere "<"
            position = at + 1
            continue
        if at > after:
            _emit(page, TEXT, 0, after, at)
        if end < 0:
            position = _behind_comment(page, at)
        else:
            number = _number(page, name, stop, not closing)
            if number < -1:
                return UNSURE
            if closing:
                position = end + 1
                _end_tag(page, number)
            else:
                page.state[NUM_ELEMENTS] += 1
                if page.state[NUM_ELEMENTS] > most_elements:
                    return TOO_MANY
                position = _start_tag(page, number, stop, end, last)
        after = position
    _last_text(page, after, max(after, last + 1, begin))
    return DONE


@kernel
def _is_other(code: int) -> bool:
    """Return True for what begins a comment, a doctype, an instruction or an end tag without a name."""
    return code == 33 or code == 63 or code == _SLASH


@kernel
def _last_text(page: Page, after: int, at: int) -> None:
    """The text after the last tag, up to one that does not end."""
    data, stop = page.data, page.data.size
    while at + 1 < stop:
        if data[at] == _LESS and (_is_letter(data[at + 1]) or _is_other(data[at + 1])):
            stop = at
        at += 1
    if stop > after:
        _emit(page, TEXT, 0, after, stop)


@kernel
def _tag_end(page: Page, at: int, closing: bool) -> int:
    """The ">" of a tag whose attributes begin at `at`; of an end tag whose quotes do not end -1."""
    start, data, size = at, page.data, page.data.size
    if page.state[FAULTS] < MOST_FAULTS:
        while at < size:
            while at + 8 <= size:
                word = load8(data, at)
                one, other = word ^ _GREATERS, word ^ _EQUALSES
                flags = ((one - ONES) & ~one | (other - ONES) & ~other) & TOP_BITS
                if flags:
                    at += trailing_zeros(flags) >> 3
                    break
                at += 8
            if at >= size or data[at] == _GREATER:
                break
            at += 1
            if data[at - 1] == _EQUALS:
                at = _behind_value(data, at)
        if at < size:
            return at
        page.state[FAULTS] += 1
        if closing:
            return -1
    return _find(data, _GREATER, start, size)


@kernel
def _behind_value(data: Bytes, at: int) -> int:
    """The place behind white space and a value in quotes that end."""
    width = 1
    while at < data.size and width > 0:
        width = space_width(data, at)
        at += width
    if at < data.size and (data[at] == _QUOTE or data[at] == _APOSTROPHE):
        return max(at, _find(data, int(data[at]), at + 1, data.size) + 1)
    return at


@kernel
def _behind_comment(page: Page, at: int) -> int:
    """The end of a comment, a doctype or an instruction; of a comment that does not end, the end of its tag."""
    data, size = page.data, page.data.size
    if data[at + 1] == 33 and at + 3 < size and data[at + 2] == data[at + 3] == _DASH and page.state[-1] == 0:
        end = _find(data, _GREATER, at + 4, size)
        while end >= 0 and not (data[end - 1] == _DASH and data[end - 2] == _DASH):
            end = _find(data, _GREATER, end + 1, size)
        if end >= 0:
            return end + 1
        page.state[-1] = 1
    return _find(data, _GREATER, at, size) + 1


@kernel
def _does(page: Page, number: int) -> int:
    """What a start tag of a name does."""
    return page.rules[number, DOES] if 0 <= number < len(page.rules) else OPEN


@kernel
def _end_tag(page: Page, number: int) -> None:
    does = _does(page, number)
    if does == INLINE or does == TIME:
        _emit(page, INLINE_END, number, 0, 0)
    else:
        _emit(page, UNLINKED if does == LINKED else CLOSE, number, 0, 0)


@kernel
def _start_tag(page: Page, number: int, start: int, end: int, last: int) -> int:
    """Write a start tag's token; the place after it, and after the content of one whose content is not text."""
    does = _does(page, number)
    if does >= RAW:
        return _behind_raw(page, number, start, end, last)
    if does == LINKED:
        if _contains(page.data, start, end, _LICENSE, 0):
            _emit(page, LINK, number, start, end)
        if not _contains(page.data, start, end, _HREF, 32):
            does = UNLINKED
    elif does == INLINE and _may_hide(page.data, start, end):
        does = ASKED
    if does != VOID:
        _emit(page, does, number, start, end)
    return end + 1


@kernel
def _may_hide(data: Bytes, start: int, stop: int) -> bool:
    """Return False for attributes that `elements.HIDDEN` does not match, whatever surrounds its words."""
    three = 0
    for at in range(start, stop):
        if data[at] >= 0x80:
            return True
        three = (three << 8 | data[at] | 32) & 0xFFFFFF
        if three == _HID or three == _NON or three == _SR or three == _SCR:
            return True
    return False


@kernel
def _behind_raw(page: Page, number: int, start: int, end: int, last: int) -> int:
    """Pass over an element whose content is not text of the page; the place after it."""
    data, does = page.data, page.rules[number, DOES]
    if page.state[UNENDED + number] or (does == DRAWN and end > start and data[end - 1] == _SLASH):
        return end + 1
    name, size = page.names[number, START], page.names[number, STOP] - page.names[number, START]
    stop = _find(data, _LESS, end + 1, last)
    while stop >= 0:
        after = stop + 2 + size
        if data[stop + 1] == _SLASH and after <= last and _matches(data, stop + 2, name, size):
            if space_width(data, after) or data[after] == _SLASH or data[after] == _GREATER:
                break
        stop = _find(data, _LESS, stop + 1, last)
    if stop < 0:
        page.state[UNENDED + number] = 1
        return end + 1
    if does == TITLE or (does == SCRIPT and _contains(data, start, end, _JSON, 0)):
        _emit(page, does, number, end + 1, stop)
    return _find(data, _GREATER, stop, data.size) + 1


@kernel
def arrange(page: Page, table: Table, most_depth: int, most_text: int) -> int:
    """Make the table of a page from its tokens; returns DONE, UNSURE or TOO_DEEP."""
    state = table.state
    state[NODES], state[_HIDDEN] = 1, -1
    for i in range(page.state[NUM_TOKENS]):
        token = page.tokens[i]
        what, name = int(token[0]), int(token[1])
        if what == TEXT:
            if state[_HIDDEN] < 0:
                _take(page.data, table, int(token[2]), int(token[3]))
            if state[_RAW_SIZE] > most_text:
                return UNSURE
        elif what == OPEN or what == CLOSE or what == RULE or what == PAGE:
            _flush(table)
            if what == OPEN:
                _close_before(page, table, name)
                if state[_DEPTH] >= most_depth:
                    return TOO_DEEP
                _open(page, table, name, int(token[2]), int(token[3]))
            elif what == CLOSE and name >= 0:
                _close(page, table, name)
        elif what == BREAK:
            if state[SEGMENTS] > state[_FIRST]:
                _add(table, 0, 0)
                state[_MIXED] = 1
        elif what == LINKED or what == UNLINKED:
            state[_IN_LINK] = what == LINKED
        elif INLINE <= what <= INLINE_END:
            _pass_inline(state, what, name)
    _flush(table)
    _pop_to(page, table, 0)
    table.nodes[0, 5] = state[GROUPS]
    return DONE


@kernel
def _pass_inline(state: Int64s, what: int, name: int) -> None:
    """Note whether what follows is shown."""
    if name == state[_HIDDEN]:
        state[_TIMES] += -1 if what == INLINE_END else 1
        if state[_TIMES] == 0:
            state[_HIDDEN] = -1
    elif what == HIDING and state[_HIDDEN] < 0:
        state[_HIDDEN], state[_TIMES], state[_LEVEL] = name, 1, state[_DEPTH]


@kernel
def _add(table: Table, start: int, stop: int) -> None:
    """Write a segment, unless it is not shown."""
    segments, state = table.segments, table.state
    if state[_HIDDEN] < 0:
        place = state[SEGMENTS]
        segments[place, 0], segments[place, 1], segments[place, 2] = start, stop, state[_IN_LINK]
        state[SEGMENTS] = place + 1


@kernel
def _take(data: Bytes, table: Table, start: int, stop: int) -> None:
    """Take a run of characters."""
    text, state, at = table.text, table.state, start
    size, gap, added = state[SIZE], state[_GAP], 0
    is_begun, mixed = state[SEGMENTS] > state[_FIRST], False
    num_characters = first = last = 0  # of the run; those before what is not white space, and up to its end
    while at < stop:
        width = space_width(data, at)
        if width:
            gap = int(is_begun or last > 0)
            num_characters += 1
            at += width
            continue
        if gap:
            text[size] = 32
            size, added, gap = size + 1, added + 1, 0
        first = first if last else num_characters
        byte = data[at]
        mixed |= byte == _AMPERSAND
        text[size] = byte
        starts = byte & 0xC0 != 0x80
        size, at, added = size + 1, at + 1, added + starts
        num_characters += starts
        last = num_characters
    if last == 0 and not is_begun:
        return
    state[_GAP], state[SIZE] = gap, size
    state[_MIXED] |= mixed
    state[CHARACTERS] += added
    state[_RAW_SIZE] += num_characters
    if state[_IN_LINK]:
        state[_LINKS] += last - first
    _add(table, start, stop)


@kernel
def _flush(table: Table) -> None:
    """Close the group that is being gathered."""
    groups, state = table.groups, table.state
    if state[SEGMENTS] > state[_FIRST]:
        place = state[GROUPS]
        groups[place, 0], groups[place, 1] = table.opened[state[_DEPTH], 1], state[_FIRST]
        groups[place, 2], groups[place, 3], groups[place, 4] = state[_LINKS], state[_MIXED], state[CHARACTERS]
        state[GROUPS] = place + 1
        state[_FIRST] = state[SEGMENTS]
        state[_RAW_SIZE] = state[_LINKS] = state[_MIXED] = state[_GAP] = 0


@kernel
def _open(page: Page, table: Table, name: int, start: int, stop: int) -> None:
    """Open an element. start, stop: of its attributes."""
    nodes, opened, state = table.nodes, table.opened, table.state
    number, level = state[NODES], state[_DEPTH]
    nodes[number, 0], nodes[number, 1], nodes[number, 2] = name, start, stop
    nodes[number, 3], nodes[number, 4] = opened[level, 1], state[GROUPS]
    is_scope = name < len(page.rules) and page.rules[name, IS_SCOPE]
    opened[level + 1, 0], opened[level + 1, 1] = name, number
    opened[level + 1, 2], opened[level + 1, 3] = level if is_scope else opened[level, 2], page.names[name, LEVEL]
    page.names[name, LEVEL] = level
    state[NODES], state[_DEPTH] = number + 1, level + 1


@kernel
def _close_before(page: Page, table: Table, name: int) -> None:
    """Close the open elements that a start tag ends."""
    rules, wall = page.rules, -1
    if name >= len(rules) or rules[name, ENDS] < 0:
        return
    for column in range(WALLS, rules.shape[1]):
        other = rules[name, column]
        if other == SCOPED:
            wall = table.opened[table.state[_DEPTH], 2]
        elif other >= 0:
            wall = max(wall, page.names[other, LEVEL])
    for column in range(ENDS, WALLS):
        other = rules[name, column]
        if other >= 0 and page.names[other, LEVEL] > wall:
            _pop_to(page, table, page.names[other, LEVEL])


@kernel
def _close(page: Page, table: Table, name: int) -> None:
    """Close an element, and those that are still open in it."""
    rules, wall = page.rules, table.opened[table.state[_DEPTH], 2]
    if name < len(rules):
        if rules[name, END_WALL] >= 0:
            wall = page.names[rules[name, END_WALL], LEVEL]
        elif rules[name, IS_SCOPE]:
            wall = -1
    if page.names[name, LEVEL] > wall:
        _pop_to(page, table, page.names[name, LEVEL])


@kernel
def _pop_to(page: Page, table: Table, level: int) -> None:
    """Close all that is open from a level on."""
    state = table.state
    for depth in range(state[_DEPTH], level, -1):
        page.names[table.opened[depth, 0], LEVEL] = table.opened[depth, 3]
        table.nodes[table.opened[depth, 1], 5] = state[GROUPS]
    state[_DEPTH] = level
    if state[_HIDDEN] >= 0 and state[_LEVEL] > level:
        state[_HIDDEN] = -1
