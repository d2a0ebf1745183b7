"""Kernels of a page: its characters cut into tokens, and tokens arranged in a table.

Promises: what `plain.plain_page` says of elements and of the text between them, in two passes: `cut_tokens` looks at
characters, `arrange` at tokens. Between them Python says which formatting elements are not shown, and afterwards it
makes the text of blocks. What a name of an element means is in a table, `rules`; its names stand before the page, so
that they are numbered first. Where only the plain twin knows the answer, both give `UNSURE`: a name of an element that
is not ASCII, more names with one digest than chance gives, a block whose characters may be too many.
Costs: 0.4 ms for a page of 240 kB and 2,300 tags; memory of 4 bytes a character and 32 a tag or stretch of text.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Int32s, Int64s, UInt32s, UInt64s
from corpora.kernels.compiling import kernel

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

_NUM_TOKENS, _NUM_ELEMENTS, _NUM_NAMES, _FAULTS = range(4)
_DEPTH, _NODES, _GROUPS, _SEGMENTS, _FIRST, _SIZE, _LINKS, _MIXED, _IN_LINK, _HIDDEN, _TIMES, _LEVEL = range(12)
_LESS, _GREATER, _SLASH, _EQUALS, _DASH, _QUOTE, _APOSTROPHE, _AMPERSAND = (ord(each) for each in "<>/=-\"'&")
_HREF, _LICENSE, _JSON = (np.array([ord(each) for each in word], np.uint32) for word in ("href", "license", "ld+json"))
_HID, _NON, _SR, _SCR = (ord(a) << 16 | ord(b) << 8 | ord(c) for a, b, c in ("hid", "non", "sr-", "scr"))
_PRIME, _MIX = np.uint64(0x100000001B3), np.uint64(29)


class Page(NamedTuple):
    """A page and its tokens.

    codes:  the code points of the names in `rules`, a space after each, and of the page
    rules:  of each of these names, what it means
    names:  of each name its first and last place in `codes`, and the next one with the same digest
    chains: the newest name by digest, -1 where there is none; a power of two of them
    tokens: what it does, the number of its name, the first and last place of its text or attributes
    counts: of tokens, start tags, names and faults
    """

    codes: UInt32s
    rules: Int64s
    names: Int64s
    digests: UInt64s
    chains: Int64s
    tokens: Int32s
    unended: Bools
    counts: Int64s


class Table(NamedTuple):
    """A page's table, and the elements that are open.

    nodes:    name, first and last place of its attributes, parent, first group inside and the one after the last
    groups:   stretches of text between borders: element, first segment, characters in links, whether it has "&" or <br>
    segments: first and last place of its characters, both 0 for a line break; whether it is in a link
    opened:   at each level the name, the element, the innermost scope; the level below with the same name
    levels:   the innermost level of each name
    """

    nodes: Int64s
    groups: Int64s
    segments: Int32s
    opened: Int64s
    levels: Int64s
    state: Int64s


@kernel
def is_space(code: int) -> bool:
    """`str.isspace` of one character."""
    if code < 0x80:
        return code == 32 or 9 <= code <= 13 or 28 <= code <= 31
    if code < 0x1680:
        return code == 0x85 or code == 0xA0
    if code < 0x2100:
        return 0x2000 <= code <= 0x200A or code in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F)
    return code == 0x3000


@kernel
def _is_letter(code: int) -> bool:
    return 97 <= code | 32 <= 122


@kernel
def _lowered(code: int) -> int:
    return code + 32 if 65 <= code <= 90 else code


@kernel
def _find(codes: UInt32s, wanted: int, at: int, stop: int) -> int:
    """The next place of a character; -1 where there is none."""
    while at < stop:
        if codes[at] == wanted:
            return at
        at += 1
    return -1


@kernel
def _contains(codes: UInt32s, start: int, stop: int, word: UInt32s, case: int) -> bool:
    """Whether a word is in a stretch. case: the bit that small letters have, 0 where capitals are other letters."""
    for at in range(start, stop - word.size + 1):
        size = 0
        while size < word.size and codes[at + size] | case == word[size]:
            size += 1
        if size == word.size:
            return True
    return False


@kernel
def _matches(codes: UInt32s, at: int, name: int, size: int) -> bool:
    """Whether two stretches are the same but for the case of ASCII letters."""
    for i in range(size):
        if _lowered(codes[at + i]) != _lowered(codes[name + i]):
            return False
    return True


@kernel
def _number(page: Page, start: int, stop: int, new: bool) -> int:
    """The number of a name, -1 for one that no start tag had where it is not `new`; -2 where it is not sure."""
    digest = np.uint64(stop - start)
    for at in range(start, stop):
        if page.codes[at] >= 0x80:
            return -2
        digest = (digest ^ np.uint64(_lowered(page.codes[at]))) * _PRIME
    place = (digest ^ digest >> _MIX) & np.uint64(page.chains.size - 1)
    number, alike = page.chains[place], 0
    while number >= 0:
        first, last = page.names[number, 0], page.names[number, 1]
        if (
            page.digests[number] == digest
            and last - first == stop - start
            and _matches(page.codes, start, first, stop - start)
        ):
            return number
        number, alike = page.names[number, 2], alike + 1
    if alike > MOST_ALIKE:
        return -2
    if not new:
        return -1
    number = page.counts[_NUM_NAMES]
    page.names[number, 0], page.names[number, 1], page.names[number, 2] = start, stop, page.chains[place]
    page.digests[number], page.chains[place] = digest, number
    page.counts[_NUM_NAMES] += 1
    return number


@kernel
def _emit(page: Page, what: int, name: int, start: int, stop: int) -> None:
    """Write a token."""
    count = page.counts[_NUM_TOKENS]
    token = page.tokens[count]
    token[0], token[1], token[2], token[3] = what, name, start, stop
    page.counts[_NUM_TOKENS] = count + 1


@kernel
def cut_tokens(page: Page, begin: int, last: int, most_elements: int) -> int:
    """Cut a page into tags and the text between them; returns DONE, UNSURE or TOO_MANY.

    begin: where the page begins
    last:  the place of its last ">", after which no tag ends; -1 where there is none
    """
    codes, at = page.codes, 0
    while at < begin:
        stop = _find(codes, 32, at, begin)
        _number(page, at, stop, True)
        at = stop + 1
    position = after = begin
    while True:
        at = _find(codes, _LESS, position, last)
        if at < 0:
            break
        closing = codes[at + 1] == _SLASH
        name = at + 2 if closing else at + 1
        end = stop = -1
        if _is_letter(codes[name]):
            stop = name + 1
            while not (is_space(codes[stop]) or codes[stop] == _SLASH or codes[stop] == _GREATER):
                stop += 1
            end = _tag_end(page, stop, closing)
        elif not _is_other(codes[at + 1]):  # a mere "<"
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
                page.counts[_NUM_ELEMENTS] += 1
                if page.counts[_NUM_ELEMENTS] > most_elements:
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
    codes, stop = page.codes, page.codes.size
    while at + 1 < stop:
        if codes[at] == _LESS and (_is_letter(codes[at + 1]) or _is_other(codes[at + 1])):
            stop = at
        at += 1
    if stop > after:
        _emit(page, TEXT, 0, after, stop)


@kernel
def _tag_end(page: Page, at: int, closing: bool) -> int:
    """The ">" of a tag whose attributes begin at `at`; of an end tag whose quotes do not end -1."""
    start, codes, size = at, page.codes, page.codes.size
    if page.counts[_FAULTS] < MOST_FAULTS:
        while at < size:
            code = codes[at]
            if code == _GREATER:
                return at
            at += 1
            if code == _EQUALS:
                while at < size and is_space(codes[at]):
                    at += 1
                if at < size and (codes[at] == _QUOTE or codes[at] == _APOSTROPHE):
                    at = max(at, _find(codes, int(codes[at]), at + 1, size) + 1)
        page.counts[_FAULTS] += 1
        if closing:
            return -1
    return _find(codes, _GREATER, start, size)


@kernel
def _behind_comment(page: Page, at: int) -> int:
    """The end of a comment, a doctype or an instruction; of a comment that does not end, the end of its tag."""
    codes, size = page.codes, page.codes.size
    if codes[at + 1] == 33 and at + 3 < size and codes[at + 2] == codes[at + 3] == _DASH and not page.unended[-1]:
        end = _find(codes, _GREATER, at + 4, size)
        while end >= 0 and not (codes[end - 1] == _DASH and codes[end - 2] == _DASH):
            end = _find(codes, _GREATER, end + 1, size)
        if end >= 0:
            return end + 1
        page.unended[-1] = True
    return _find(codes, _GREATER, at, size) + 1


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
        if _contains(page.codes, start, end, _LICENSE, 0):
            _emit(page, LINK, number, start, end)
        if not _contains(page.codes, start, end, _HREF, 32):
            does = UNLINKED
    elif does == INLINE and _may_hide(page.codes, start, end):
        does = ASKED
    if does != VOID:
        _emit(page, does, number, start, end)
    return end + 1


@kernel
def _may_hide(codes: UInt32s, start: int, stop: int) -> bool:
    """Return False for attributes that `elements.HIDDEN` does not match, whatever surrounds its words."""
    three = 0
    for at in range(start, stop):
        if codes[at] >= 0x80:
            return True
        three = (three << 8 | codes[at] | 32) & 0xFFFFFF
        if three == _HID or three == _NON or three == _SR or three == _SCR:
            return True
    return False


@kernel
def _behind_raw(page: Page, number: int, start: int, end: int, last: int) -> int:
    """Pass over an element whose content is not text of the page; the place after it."""
    codes, does = page.codes, page.rules[number, DOES]
    if page.unended[number] or (does == DRAWN and end > start and codes[end - 1] == _SLASH):
        return end + 1
    name, size = page.names[number, 0], page.names[number, 1] - page.names[number, 0]
    stop = _find(codes, _LESS, end + 1, last)
    while stop >= 0:
        after = stop + 2 + size
        if codes[stop + 1] == _SLASH and after <= last and _matches(codes, stop + 2, name, size):
            if is_space(codes[after]) or codes[after] == _SLASH or codes[after] == _GREATER:
                break
        stop = _find(codes, _LESS, stop + 1, last)
    if stop < 0:
        page.unended[number] = True
        return end + 1
    if does == TITLE or (does == SCRIPT and _contains(codes, start, end, _JSON, 0)):
        _emit(page, does, number, end + 1, stop)
    return _find(codes, _GREATER, stop, codes.size) + 1


@kernel
def arrange(page: Page, table: Table, most_depth: int, most_text: int) -> int:
    """Make the table of a page from its tokens; returns DONE, UNSURE or TOO_DEEP."""
    state = table.state
    state[_NODES], state[_HIDDEN] = 1, -1
    for i in range(page.counts[_NUM_TOKENS]):
        token = page.tokens[i]
        what, name = int(token[0]), int(token[1])
        if what == TEXT:
            _take(page.codes, table, int(token[2]), int(token[3]))
            if state[_SIZE] > most_text:
                return UNSURE
        elif what == OPEN or what == CLOSE or what == RULE or what == PAGE:
            _flush(table)
            if what == OPEN:
                _close_before(page.rules, table, name)
                if state[_DEPTH] >= most_depth:
                    return TOO_DEEP
                _open(page.rules, table, token)
            elif what == CLOSE and name >= 0:
                _close(page.rules, table, name)
        elif what == BREAK:
            if state[_SEGMENTS] > state[_FIRST]:
                _add(table, 0, 0)
                state[_MIXED] = 1
        elif what == LINKED or what == UNLINKED:
            state[_IN_LINK] = what == LINKED
        elif INLINE <= what <= INLINE_END:
            _pass_inline(state, what, name)
    _flush(table)
    _pop_to(table, 0)
    table.nodes[0, 5] = state[_GROUPS]
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
    state = table.state
    if state[_HIDDEN] < 0:
        segment = table.segments[state[_SEGMENTS]]
        segment[0], segment[1], segment[2] = start, stop, state[_IN_LINK]
        state[_SEGMENTS] += 1
        state[_SIZE] += stop - start


@kernel
def _take(codes: UInt32s, table: Table, start: int, stop: int) -> None:
    """Take a run of characters."""
    state, first, last = table.state, start, stop
    if state[_HIDDEN] >= 0:
        return
    while first < stop and is_space(codes[first]):
        first += 1
    if first == stop and state[_SEGMENTS] == state[_FIRST]:
        return
    if state[_IN_LINK]:
        while last > first and is_space(codes[last - 1]):
            last -= 1
        state[_LINKS] += last - first
    if _find(codes, _AMPERSAND, first, stop) >= 0:
        state[_MIXED] = 1
    _add(table, start, stop)


@kernel
def _flush(table: Table) -> None:
    """Close the group that is being gathered."""
    state = table.state
    if state[_SEGMENTS] > state[_FIRST]:
        group = table.groups[state[_GROUPS]]
        group[0], group[1] = table.opened[state[_DEPTH], 1], state[_FIRST]
        group[2], group[3] = state[_LINKS], state[_MIXED]
        state[_GROUPS] += 1
        state[_FIRST] = state[_SEGMENTS]
        state[_SIZE] = state[_LINKS] = state[_MIXED] = 0


@kernel
def _open(rules: Int64s, table: Table, token: Int32s) -> None:
    """Open an element."""
    state, name = table.state, int(token[1])
    number, level = state[_NODES], state[_DEPTH]
    node, above, opened = table.nodes[number], table.opened[level], table.opened[level + 1]
    node[0], node[1], node[2], node[3], node[4] = name, token[2], token[3], above[1], state[_GROUPS]
    opened[0], opened[1], opened[2], opened[3] = name, number, above[2], table.levels[name]
    if name < len(rules) and rules[name, IS_SCOPE]:
        opened[2] = level
    table.levels[name] = level
    state[_NODES], state[_DEPTH] = number + 1, level + 1


@kernel
def _close_before(rules: Int64s, table: Table, name: int) -> None:
    """Close the open elements that a start tag ends."""
    if name >= len(rules) or rules[name, ENDS] < 0:
        return
    wall = -1
    for column in range(WALLS, rules.shape[1]):
        other = rules[name, column]
        if other == SCOPED:
            wall = table.opened[table.state[_DEPTH], 2]
        elif other >= 0:
            wall = max(wall, table.levels[other])
    for column in range(ENDS, WALLS):
        other = rules[name, column]
        if other >= 0 and table.levels[other] > wall:
            _pop_to(table, table.levels[other])


@kernel
def _close(rules: Int64s, table: Table, name: int) -> None:
    """Close an element, and those that are still open in it."""
    wall = table.opened[table.state[_DEPTH], 2]
    if name < len(rules):
        if rules[name, END_WALL] >= 0:
            wall = table.levels[rules[name, END_WALL]]
        elif rules[name, IS_SCOPE]:
            wall = -1
    if table.levels[name] > wall:
        _pop_to(table, table.levels[name])


@kernel
def _pop_to(table: Table, level: int) -> None:
    """Close all that is open from a level on."""
    state = table.state
    for depth in range(state[_DEPTH], level, -1):
        opened = table.opened[depth]
        table.levels[opened[0]] = opened[3]
        table.nodes[opened[1], 5] = state[_GROUPS]
    state[_DEPTH] = level
    if state[_HIDDEN] >= 0 and state[_LEVEL] > level:
        state[_HIDDEN] = -1
