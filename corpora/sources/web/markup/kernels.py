"""Kernels of a page: its bytes are cut into tokens, and the tokens are arranged in a table.

Promises: they find the elements, and the text between them, that `plain.parse_html_plain` finds, in two passes:
`cut_tokens` reads UTF-8, `arrange_tokens` reads tokens. Between the two Python says which formatting elements are not
shown, and afterwards it builds the text of blocks with character references, line breaks or lines of their own. The
meaning of an element's name is in a table, `rules`; its names are put before the page, so that they are numbered first.
If only the plain form knows the answer, both return `UNSURE`: for a name of an element that is not ASCII, for more
names with one digest than chance gives, and for a block that may have too many characters. Costs: 0.3 ms for a page of
270 kB and 2,300 tags; memory of 16 bytes for each tag or stretch of text, and the page's.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Int32s, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import ONES, TOP_BITS, load8, trailing_zeros
from corpora.sources.web.markup.elements import measure_space, read_reference, skip_spaces, write_character

# What a token does to the table: of a start tag, what the first column of `rules` has for its name.
TEXT, OPEN, CLOSE, INLINE, UNDECIDED, HIDING, INLINE_END, LINKED, UNLINKED, BREAK, RULE, VOID = range(12)
META, LINK, TIME, PAGE, RAW, DRAWN, MATH, TITLE, SCRIPT = range(12, 21)  # Python reads those that are tokens of these
# Columns of `rules`: what its start tag does, and its end tag; whether end tags of others stop at it; whether it is one
# of REWRITTEN_TAGS; the element at which its end tag stops; two that it ends; those beyond which it does not look, the
# innermost of which counts.
START_DOES, END_DOES, IS_SCOPE, IS_REWRITTEN, END_WALL, ENDS, WALLS = 0, 1, 2, 3, 4, 5, 7
SCOPED = -2  # among the last: it does not look beyond the innermost scope
DONE, UNSURE, TOO_MANY, TOO_DEEP = range(4)
MAX_FAULTS = 16  # tags whose quotes do not end, after which quotes are not looked at: keeps the pass linear
MAX_ALIKE = 64  # names in one place of the table of names

# Columns of `names`, and what the state of the first pass has before the raw elements whose end is missing.
START, STOP, NEXT, DIGEST, LEVEL = range(5)
NUM_TOKENS, NUM_ELEMENTS, NUM_NAMES, FAULTS, AFTER, HAS_REWRITTEN, FIRST_UNENDED = range(7)
# What the state of the second pass has.
NODES, GROUPS, SEGMENTS, SIZE, CHARACTERS = range(5)
_DEPTH, _FIRST, _LINKS, _MIXED, _IN_LINK, _GAP, _RAW_SIZE, _HIDDEN, _NUM_HIDING, _LEVEL, _NUM_ADDED = range(5, 16)
NUM_HIDDEN, NUM_STATES = 16, 17


def _to_int(number: int) -> int:
    """Convert a number to a 64-bit NumPy integer. Kernels are compiled anew for each literal, but not for these."""
    return np.int64(number)  # type: ignore[return-value]


_LESS, _GREATER, _SLASH, _EQUALS, _DASH, _QUOTE, _APOSTROPHE, _AMPERSAND = (_to_int(ord(each)) for each in "<>/=-\"'&")
_LETTER, _OTHER = 1, 2  # what a "<" before it begins: a tag; a comment, a doctype, an instruction
_BEGINS = np.array([_LETTER * chr(i).isalpha() + _OTHER * (chr(i) in "!?/") for i in range(128)] + [0] * 128, np.uint8)
_LOWER_CASE = np.array([ord(chr(i).lower()) for i in range(128)] + list(range(128, 256)), np.uint8)
_HREF, _LICENSE, _JSON, _TEX = (
    np.array([ord(each) for each in word], np.uint8) for word in ("href", "license", "ld+json", "math/tex")
)
_HID, _NON, _SR, _SCR = (ord(a) << 16 | ord(b) << 8 | ord(c) for a, b, c in ("hid", "non", "sr-", "scr"))
_0, _TEXT, _LINK, _SMALL = (_to_int(each) for each in (0, TEXT, LINK, 32))
_GREATERS, _EQUALSES = ONES * np.uint64(_GREATER), ONES * np.uint64(_EQUALS)


class ScannedPage(NamedTuple):
    """A page and its tokens, as arrays that the kernels fill.

    Attributes:
        data: UTF-8 bytes: the element names of `rules`, each followed by a space, and then the page.
        rules: How each of these names is treated; the last row applies to all other names.
        names: One row per name: the position of its first byte in `data` and of the first byte after it, the next name
            in its hash chain, its digest, and the level of the innermost open element with this name.
        chains: One entry per hash slot: the newest name in it; -1 if there is none. The number of slots is a power of
            two.
        tokens: One row per token: its type, the index of its name, and the positions of the first byte of its text or
            attributes and of the first byte after them.
        state: Counters of the first pass, indexed by `NUM_TOKENS` and the constants after it.
    """

    data: Bytes
    rules: Int64s
    names: Int64s
    chains: Int64s
    tokens: Int32s
    state: Int64s


class PageTable(NamedTuple):
    """A page's elements, groups of text and segments, and a stack of open elements, as arrays that the kernels fill.

    Attributes:
        nodes: One row per element: its name, the positions of the first byte of its attributes and of the first byte
            after them, its parent, its first group, and the index after its last group.
        groups: One row per run of text between block borders: its element, its first segment, its number of characters
            in links, whether its text is missing from `text`, and the end of its characters in `text`.
        segments: One row per segment: the positions of its first byte and of the first byte after it (both 0 for a line
            break), and whether it is in a link.
        text: The text of the groups, with white space collapsed to one space.
        opened: One row per nesting level: the name, the element, the innermost scope, and the next outer level with the
            same name.
        state: Counters of the second pass, indexed by `NODES` and the constants after it.
    """

    nodes: Int64s
    groups: Int64s
    segments: Int32s
    text: Bytes
    opened: Int64s
    state: Int64s


@kernel
def _find_byte(data: Bytes, byte: int, at: int, stop: int) -> int:
    """Return the position of the first `byte` in `data[at:stop]`; -1 if there is none."""
    pattern = ONES * np.uint64(byte)
    while at + 8 <= stop:
        word = load8(data, at) ^ pattern
        flags = (word - ONES) & ~word & TOP_BITS
        if flags:
            return at + (trailing_zeros(flags) >> 3)
        at += 8
    while at < stop:
        if data[at] == byte:
            return at
        at += 1
    return -1


@kernel
def _contains(data: Bytes, start: int, stop: int, word: Bytes, case: int) -> bool:
    """Return True if a word occurs in `data[start:stop]`.

    Args:
        data: UTF-8 bytes.
        start: First byte to search.
        stop: End of the search.
        word: The bytes of the word, in lower case.
        case: The bit set in lower-case letters (32), to ignore case; 0 to compare exactly.
    """
    for at in range(start, stop - word.size + 1):
        size = 0
        while size < word.size and data[at + size] | case == word[size]:
            size += 1
        if size == word.size:
            return True
    return False


@kernel
def _is_same_name(data: Bytes, at: int, name: int, size: int) -> bool:
    """Return True if the `size` bytes of `data` at `at` and at `name` are equal, ignoring the case of ASCII letters."""
    for i in range(size):
        if _LOWER_CASE[data[at + i]] != _LOWER_CASE[data[name + i]]:
            return False
    return True


@kernel
def _find_number(data: Bytes, names: Int64s, chains: Int64s, state: Int64s, start: int, stop: int, is_new: bool) -> int:
    """Look up an element name in the hash table of names, and optionally add it. `ScannedPage` describes the arrays.

    Args:
        data: UTF-8 bytes of the element names and the page.
        names: One row per known name: position, hash chain, digest. A new name is added in place.
        chains: The newest name in each hash slot. Updated in place.
        state: Counters of the first pass. The number of names is updated in place.
        start: First byte of the name in `data`.
        stop: First byte after the name.
        is_new: True to add the name if it is unknown.

    Returns:
        The index of the name in `names`; -1 for an unknown name that is not added, -2 if the kernel cannot decide.
    """
    digest = stop - start
    for at in range(start, stop):
        if data[at] >= 0x80:
            return -2
        digest = (digest ^ int(_LOWER_CASE[data[at]])) * 0x100000001B3
    place = (digest ^ digest >> 29) & (chains.size - 1)
    number, alike = chains[place], 0
    while number >= 0:
        first, size = names[number, START], stop - start
        if names[number, DIGEST] == digest and names[number, STOP] - first == size:
            if _is_same_name(data, start, first, size):
                return int(number)
        number, alike = names[number, NEXT], alike + 1
    if alike > MAX_ALIKE:
        return -2
    if not is_new:
        return -1
    number = state[NUM_NAMES]
    names[number, START], names[number, STOP], names[number, NEXT] = start, stop, chains[place]
    names[number, DIGEST], names[number, LEVEL], chains[place] = digest, -1, number
    state[NUM_NAMES] += 1
    return int(number)


@kernel
def _emit(tokens: Int32s, state: Int64s, what: int, name: int, start: int, stop: int) -> None:
    """Append a token to `tokens`, in place.

    Args:
        tokens: The page's tokens, one per row.
        state: Counters of the first pass. The number of tokens is increased.
        what: Type of the token, such as `TEXT` or `OPEN`.
        name: Index of its name.
        start: First byte of its text or attributes.
        stop: First byte after its text or attributes.
    """
    count = state[NUM_TOKENS]
    tokens[count, 0], tokens[count, 1], tokens[count, 2], tokens[count, 3] = what, name, start, stop
    state[NUM_TOKENS] = count + 1


@kernel
def cut_tokens(page: ScannedPage, start_of_page: int, last: int, max_elements: int) -> int:
    """Split a page into tags and the text between them.

    Args:
        page: The page. Its tokens and state are filled.
        start_of_page: First byte of the page in `page.data`.
        last: Position of the last ">", after which no tag can end; -1 if there is none.
        max_elements: Maximum number of start tags.

    Returns:
        DONE, TOO_MANY if there are too many start tags, or UNSURE if only the Python implementation can split the page.
    """
    data, rules, names, chains, tokens, state = page
    at, unknown = _0, len(rules) - 1
    while at < start_of_page:
        stop = _find_byte(data, _SMALL, at, start_of_page)
        _find_number(data, names, chains, state, at, stop, at < start_of_page)
        at = stop + 1
    position = after = start_of_page
    while True:
        at = _find_byte(data, _LESS, position, last)
        if at < 0:
            break
        is_end_tag = data[at + 1] == _SLASH
        name = at + 2 if is_end_tag else at + 1
        end = stop = -1
        if _BEGINS[data[name]] == _LETTER:
            stop = name + 1
            while not (measure_space(data, stop) or data[stop] == _SLASH or data[stop] == _GREATER):
                stop += 1
            end = _find_tag_end(data, state, stop, is_end_tag)
        elif _BEGINS[data[at + 1]] != _OTHER:  # a mere "<"
            position = at + 1
            continue
        if at > after:
            _emit(tokens, state, _TEXT, _0, after, at)
        if end < 0:
            position = _skip_comment(data, state, at)
        else:
            number = _find_number(data, names, chains, state, name, stop, not is_end_tag)
            if number < -1:
                return UNSURE
            if is_end_tag:
                position = end + 1
                _emit(tokens, state, rules[min(number, unknown), END_DOES], number, _0, _0)
            else:
                state[NUM_ELEMENTS] += 1
                if state[NUM_ELEMENTS] > max_elements:
                    return TOO_MANY
                position, does = end + 1, rules[min(number, unknown), START_DOES]
                state[HAS_REWRITTEN] |= rules[min(number, unknown), IS_REWRITTEN]
                if does == MATH or (does == SCRIPT and _contains(data, stop, end, _TEX, _0)):
                    state[HAS_REWRITTEN] = 1
                if does < RAW:
                    _emit_start_tag(data, tokens, state, number, does, stop, end)
                elif not state[FIRST_UNENDED + number] and not (
                    DRAWN <= does <= MATH and end > stop and data[end - 1] == _SLASH
                ):
                    inside = _find_raw_end(data, names[number, START], names[number, STOP], position, last)
                    if inside < 0:
                        state[FIRST_UNENDED + number] = 1
                    else:
                        if does == TITLE or (does == SCRIPT and _contains(data, stop, end, _JSON, _0)):
                            _emit(tokens, state, does, number, position, inside)
                        position = _find_byte(data, _GREATER, inside, data.size) + 1
        after = position
    state[AFTER] = after
    return DONE


@kernel
def _find_tag_end(data: Bytes, state: Int64s, at: int, is_end_tag: bool) -> int:
    """Return the position of the ">" that ends a tag, ignoring any ">" inside a quoted value.

    Args:
        data: UTF-8 bytes of the page.
        state: Counters of the first pass. Tags with an unclosed quote are counted in place.
        at: First byte of the tag's attributes.
        is_end_tag: True for an end tag.

    Returns:
        The position. If a quote is unclosed, the next ">" ends a start tag, and the result for an end tag is -1.
    """
    start, size = at, data.size
    if state[FAULTS] < MAX_FAULTS:
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
                at = _skip_value(data, at)
        if at < size:
            return at
        state[FAULTS] += 1
        if is_end_tag:
            return -1
    return _find_byte(data, _GREATER, start, size)


@kernel
def _skip_value(data: Bytes, at: int) -> int:
    """Return the position after white space and the quoted value that may begin at byte `at` of a page.

    If the value is not quoted, or its quote is unclosed, the position after the white space is returned.
    """
    at = skip_spaces(data, at, data.size)
    if at < data.size and (data[at] == _QUOTE or data[at] == _APOSTROPHE):
        return max(at, _find_byte(data, _0 + data[at], at + 1, data.size) + 1)
    return at


@kernel
def _skip_comment(data: Bytes, state: Int64s, at: int) -> int:
    """Return the position after the comment, doctype or processing instruction that begins at byte `at` of a page.

    A comment that is never closed ends at the next ">". `state`, the counters of the first pass, then records that no
    later comment is closed either.
    """
    size = data.size
    if data[at + 1] == 33 and at + 3 < size and data[at + 2] == data[at + 3] == _DASH and state[-1] == 0:
        end = _find_byte(data, _GREATER, at + 4, size)
        while end >= 0 and not (data[end - 1] == _DASH and data[end - 2] == _DASH):
            end = _find_byte(data, _GREATER, end + 1, size)
        if end >= 0:
            return end + 1
        state[-1] = 1
    return _find_byte(data, _GREATER, at, size) + 1


@kernel
def _emit_start_tag(data: Bytes, tokens: Int32s, state: Int64s, number: int, does: int, start: int, end: int) -> None:
    """Append the token of a start tag to `tokens`, in place. Tags without an effect on the table get no token.

    Args:
        data: UTF-8 bytes of the element names and the page.
        tokens: The page's tokens, one per row.
        state: Counters of the first pass. The number of tokens is increased.
        number: Index of the element's name.
        does: What a start tag with this name does, such as `OPEN` or `LINKED`.
        start: First byte of the attributes.
        end: First byte after the attributes.
    """
    if does == LINKED:
        if _contains(data, start, end, _LICENSE, _0):
            _emit(tokens, state, _LINK, number, start, end)
        if not _contains(data, start, end, _HREF, _SMALL):
            does = UNLINKED
    elif does == INLINE and _may_hide(data, start, end):
        does = UNDECIDED
    if does != VOID:
        _emit(tokens, state, does, number, start, end)


@kernel
def _may_hide(data: Bytes, start: int, stop: int) -> bool:
    """Return False if `elements.HIDDEN_ATTRIBUTES` cannot match the attributes in `data[start:stop]`."""
    three = 0
    for at in range(start, stop):
        if data[at] >= 0x80:
            return True
        three = (three << 8 | data[at] | 32) & 0xFFFFFF
        if three == _HID or three == _NON or three == _SR or three == _SCR:
            return True
    return False


@kernel
def _find_raw_end(data: Bytes, name: int, name_stop: int, at: int, last: int) -> int:
    """Return the position of the end tag of an element without text content, such as a script; -1 if there is none.

    Args:
        data: UTF-8 bytes of the element names and the page.
        name: First byte of the element's name in `data`.
        name_stop: First byte after the name.
        at: Position at which the search begins.
        last: Position of the last ">" that may end the tag.
    """
    size = name_stop - name
    while True:
        at = _find_byte(data, _LESS, at, last)
        if at < 0:
            return -1
        after = at + 2 + size
        if data[at + 1] == _SLASH and after <= last and _is_same_name(data, at + 2, name, size):
            if data[after] == _SLASH or data[after] == _GREATER or measure_space(data, after) > 0:
                return at
        at += 1


@kernel
def arrange_tokens(page: ScannedPage, table: PageTable, max_depth: int, max_text: int) -> int:
    """Build the table of a page from its tokens.

    Args:
        page: The page, after `cut_tokens`.
        table: Filled by this function.
        max_depth: Maximum nesting depth of elements.
        max_text: Maximum number of characters of one block.

    Returns:
        DONE, TOO_DEEP if a limit is exceeded, or UNSURE if only the Python implementation can parse the page.
    """
    data, rules, names, _, tokens, _ = page
    nodes, groups, segments, text, opened, state = table
    state[NODES], state[_HIDDEN] = 1, -1
    for i in range(page.state[NUM_TOKENS]):
        what, name, start, stop = (
            _0 + tokens[i, 0],
            _0 + tokens[i, 1],
            _0 + tokens[i, 2],
            _0 + tokens[i, 3],
        )
        if what == TEXT:
            if state[_HIDDEN] < 0:
                _add_run(data, text, segments, state, start, stop)
            else:
                state[NUM_HIDDEN] += int(skip_spaces(data, start, stop) < stop)
            if state[_RAW_SIZE] > max_text:
                return UNSURE
        elif what == OPEN or what == CLOSE or what == RULE or what == PAGE:
            _close_group(groups, opened, state)
            if what == OPEN:
                _close_before(rules, names, nodes, opened, state, name)
                if state[_DEPTH] >= max_depth:
                    return TOO_DEEP
                is_scope = rules[min(name, len(rules) - 1), IS_SCOPE] > 0
                _open(names, nodes, opened, state, name, start, stop, is_scope)
            elif what == CLOSE and name >= 0:
                _close(rules, names, nodes, opened, state, name)
        elif what == BREAK:
            if state[SEGMENTS] > state[_FIRST]:
                _add_segment(segments, state, _0, _0)
                state[_MIXED] = 1
        elif what == LINKED or what == UNLINKED:
            state[_IN_LINK] = what == LINKED
        elif INLINE <= what <= INLINE_END:
            _note_hiding(state, what, name)
    _close_group(groups, opened, state)
    _pop_to(names, nodes, opened, state, _0)
    nodes[0, 5] = state[GROUPS]
    return DONE


@kernel
def _note_hiding(state: Int64s, what: int, name: int) -> None:
    """Process the tag of a formatting element: record in `state` whether the text after it is hidden.

    Args:
        state: Counters of the second pass. Updated in place.
        what: Type of the current token, such as `HIDING` or `INLINE_END`.
        name: Index of its name.
    """
    if name == state[_HIDDEN]:
        state[_NUM_HIDING] += -1 if what == INLINE_END else 1
        if state[_NUM_HIDING] == 0:
            state[_HIDDEN] = -1
    elif what == HIDING and state[_HIDDEN] < 0:
        state[_HIDDEN], state[_NUM_HIDING], state[_LEVEL] = name, 1, state[_DEPTH]


@kernel
def _add_segment(segments: Int32s, state: Int64s, start: int, stop: int) -> None:
    """Append a segment to `segments`, in place, unless the current text is hidden.

    Args:
        segments: One row per segment: first byte, first byte after it, and whether it is in a link.
        state: Counters of the second pass. The number of segments is increased.
        start: First byte of the segment in the page's data.
        stop: First byte after the segment.
    """
    if state[_HIDDEN] < 0:
        place = state[SEGMENTS]
        segments[place, 0], segments[place, 1], segments[place, 2] = start, stop, state[_IN_LINK]
        state[SEGMENTS] = place + 1


@kernel
def _add_run(data: Bytes, text: Bytes, segments: Int32s, state: Int64s, start: int, stop: int) -> None:
    """Add the characters in `data[start:stop]` to the current group of text, in place.

    The characters are appended to `text`, with references resolved and white space collapsed. Their position in `data`
    is appended to `segments` (one row per segment), and the counters of the second pass in `state` are increased. A run
    of white space is not added at the beginning of a group.
    """
    at, size, gap, added = start, state[SIZE], state[_GAP], 0
    is_begun, has_text, mixed = state[SEGMENTS] > state[_FIRST], state[_NUM_ADDED] > 0, False
    num_characters = first = last = 0  # of the run; those before what is not white space, and up to its end
    is_blank = True  # as it is written
    while at < stop:
        byte, width, written = int(data[at]), measure_space(data, at), 1
        is_space = width > 0
        is_blank &= is_space
        if byte == _AMPERSAND:
            code, width = read_reference(data, at, stop)
            mixed |= code < 0
            if code >= 0x80:
                written = write_character(text, size + gap, code)
                is_space = measure_space(text, size + gap) > 0
            elif code >= 0:
                byte, is_space = code, code == 32
        at += max(1, width)
        if is_space:
            gap = int(has_text or last > 0)
            num_characters += 1
            continue
        if gap:
            text[size] = 32
        if written == 1:
            text[size + gap] = byte
        starts = int(byte & 0xC0 != 0x80)
        size, added, gap = size + gap + written, added + gap + starts, 0
        first = first if last else num_characters
        num_characters += starts
        last = num_characters
    if is_blank and not is_begun:
        return
    state[_GAP], state[SIZE] = gap, size
    state[_MIXED] |= mixed
    state[_NUM_ADDED] += added
    state[CHARACTERS] += added
    state[_RAW_SIZE] += num_characters
    if state[_IN_LINK]:
        state[_LINKS] += last - first
    _add_segment(segments, state, start, stop)


@kernel
def _close_group(groups: Int64s, opened: Int64s, state: Int64s) -> None:
    """Append the current group of text to `groups` if it is not empty, and reset the counters for the next group.

    Args:
        groups: One row per group of text. Updated in place.
        opened: The stack of open elements, one row per level.
        state: Counters of the second pass. Updated in place.
    """
    if state[SEGMENTS] > state[_FIRST]:
        place = state[GROUPS]
        groups[place, 0], groups[place, 1] = opened[state[_DEPTH], 1], state[_FIRST]
        groups[place, 2], groups[place, 3], groups[place, 4] = state[_LINKS], state[_MIXED], state[CHARACTERS]
        state[GROUPS] = place + 1
        state[_FIRST] = state[SEGMENTS]
        state[_RAW_SIZE] = state[_LINKS] = state[_MIXED] = state[_GAP] = state[_NUM_ADDED] = 0


@kernel
def _open(
    names: Int64s, nodes: Int64s, opened: Int64s, state: Int64s, name: int, start: int, stop: int, is_scope: bool
) -> None:
    """Open an element: append it to `nodes` and push it onto the stack `opened`. All arrays are updated in place.

    Args:
        names: One row per element name, which holds the level of the innermost open element with this name.
        nodes: One row per element.
        opened: The stack of open elements, one row per level.
        state: Counters of the second pass.
        name: Index of the element's name.
        start: First byte of its attributes.
        stop: First byte after its attributes.
        is_scope: True if the element is a scope, from inside which outer elements cannot be closed.
    """
    number, level = state[NODES], state[_DEPTH]
    nodes[number, 0], nodes[number, 1], nodes[number, 2] = name, start, stop
    nodes[number, 3], nodes[number, 4] = opened[level, 1], state[GROUPS]
    opened[level + 1, 0], opened[level + 1, 1] = name, number
    opened[level + 1, 2], opened[level + 1, 3] = level if is_scope else opened[level, 2], names[name, LEVEL]
    names[name, LEVEL] = level
    state[NODES], state[_DEPTH] = number + 1, level + 1


@kernel
def _close_before(rules: Int64s, names: Int64s, nodes: Int64s, opened: Int64s, state: Int64s, name: int) -> None:
    """Close the open elements that a start tag implicitly ends, in place. For example, an `<li>` ends the previous one.

    Args:
        rules: How each element name is treated, such as which open elements its start tag ends.
        names: One row per element name, which holds the level of the innermost open element with this name.
        nodes: One row per element.
        opened: The stack of open elements, one row per level.
        state: Counters of the second pass.
        name: Index of the start tag's name.
    """
    wall = -1
    name = min(name, len(rules) - 1)
    if rules[name, ENDS] < 0:
        return
    for column in range(WALLS, rules.shape[1]):
        other = rules[name, column]
        if other == SCOPED:
            wall = opened[state[_DEPTH], 2]
        elif other >= 0:
            wall = max(wall, names[other, LEVEL])
    for column in range(ENDS, WALLS):
        other = rules[name, column]
        if other >= 0 and names[other, LEVEL] > wall:
            _pop_to(names, nodes, opened, state, names[other, LEVEL])


@kernel
def _close(rules: Int64s, names: Int64s, nodes: Int64s, opened: Int64s, state: Int64s, name: int) -> None:
    """Process an end tag: close the innermost open element with its name, and the elements inside it, in place.

    Nothing happens if that element is outside the current scope.

    Args:
        rules: How each element name is treated, such as how far its end tag reaches.
        names: One row per element name, which holds the level of the innermost open element with this name.
        nodes: One row per element.
        opened: The stack of open elements, one row per level.
        state: Counters of the second pass.
        name: Index of the end tag's name.
    """
    wall = opened[state[_DEPTH], 2]
    rule = min(name, len(rules) - 1)
    if rules[rule, END_WALL] >= 0:
        wall = names[rules[rule, END_WALL], LEVEL]
    elif rules[rule, IS_SCOPE]:
        wall = -1
    if names[name, LEVEL] > wall:
        _pop_to(names, nodes, opened, state, names[name, LEVEL])


@kernel
def _pop_to(names: Int64s, nodes: Int64s, opened: Int64s, state: Int64s, level: int) -> None:
    """Close all open elements at `level` (0 is the outermost) and deeper levels, in place.

    Args:
        names: One row per element name, which holds the level of the innermost open element with this name.
        nodes: One row per element.
        opened: The stack of open elements, one row per level.
        state: Counters of the second pass, among them the number of open elements.
        level: Level of the outermost element to close.
    """
    for depth in range(state[_DEPTH], level, -1):
        names[opened[depth, 0], LEVEL] = opened[depth, 3]
        nodes[opened[depth, 1], 5] = state[GROUPS]
    state[_DEPTH] = level
    if state[_HIDDEN] >= 0 and state[_LEVEL] > level:
        state[_HIDDEN] = -1
