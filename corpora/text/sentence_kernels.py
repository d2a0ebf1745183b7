"""The sentence splitter over UTF-8 bytes: the kernels behind `corpora.sentences.sentence_offsets`.

Promise: the same sentences as the definition, `corpora.sentences.split_sentences`; a kernel says whose twin it
is, and the property test compares the two from end to end.
Cost: two passes over the bytes of a column, and no Python object per sentence.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels import kernel
from corpora.text.codepoints import (
    COMMA,
    DASH,
    DIGIT,
    LOWER,
    OPENER,
    OTHER,
    PERIOD,
    QUOTE,
    SPACE,
    SYMBOL,
    UPPER,
    WIDE_ENDER,
    Bytes,
    Integers,
    back,
    class_at,
    decode,
    holds,
    pack,
)
from corpora.text.sentence_signs import BEFORE_NUMBER, BEFORE_STARTER, LONG_LINE, NEVER_ENDS, SHORT_LINE, STARTER


class Tables(NamedTuple):
    """What the kernels look up: character classes, bullets, and WORDS as sorted keys (`pack`) with kinds."""

    classes: Bytes
    bullets: Integers
    keys: Integers
    kinds: Bytes


@kernel
def _look_up(data: Bytes, start: int, stop: int, tables: Tables) -> int:
    """What WORDS says of a word."""
    key = pack(data, start, stop)
    place = int(np.searchsorted(tables.keys, key))
    found = place < tables.keys.size and tables.keys[place] == key
    return int(tables.kinds[place]) if found else 0


@kernel
def _gap(data: Bytes, at: int, stop: int, classes: Bytes) -> tuple[int, int]:
    """The first byte from `at` on that is not white space, and the newlines before it."""
    newlines = 0
    while at < stop:
        kind, width = class_at(data, at, classes)
        if kind != SPACE:
            break
        newlines += data[at] == 10
        at += width
    return at, newlines


@kernel
def _run(data: Bytes, at: int, stop: int, classes: Bytes) -> tuple[int, int]:
    """The end of the terminators and closing marks from `at` on, and whether a wide one is among them."""
    wide = 0
    while at < stop:
        kind, width = class_at(data, at, classes)
        if not PERIOD <= kind <= QUOTE:
            break
        if kind == WIDE_ENDER:
            wide = 1
        at += width
    return at, wide


@kernel
def _opens_at(data: Bytes, at: int, stop: int, classes: Bytes, cased: int) -> bool:
    """The twin of `_opens`."""
    lead, dashed = 0, False
    kind, width = class_at(data, at, classes)
    while lead < 4 and (OPENER <= kind <= DASH or kind == QUOTE or (dashed and data[at] == 32)):
        dashed = kind == DASH
        lead, at = lead + 1, at + width
        if at >= stop:
            return False
        kind, width = class_at(data, at, classes)
    return kind == UPPER or DIGIT <= kind <= SYMBOL or (kind == LOWER and cased == 0)


@kernel
def _lists_at(data: Bytes, at: int, stop: int, tables: Tables) -> bool:
    """The twin of `_list_item`."""
    code, width = decode(data, at)
    if holds(tables.bullets, code):
        return at + width < stop and data[at + width] == 32
    digits = 0
    while at + digits < stop and digits < 3 and 48 <= data[at + digits] <= 57:
        digits += 1
    at += digits
    return digits > 0 and at + 1 < stop and (data[at] == 46 or data[at] == 41) and data[at + 1] == 32


@kernel
def _enumerates(data: Bytes, start: int, stop: int) -> bool:
    """The twin of `_enumerator`."""
    digits, letters, roman = 0, 0, 0
    for at in range(start, stop):
        byte = int(data[at])
        small = byte | 32
        digits += 48 <= byte <= 57
        letters += 97 <= small <= 122
        roman += small == 105 or small == 118 or small == 120
    size = stop - start
    if size > 0 and digits == size:
        return size <= 3
    return (size == 1 and letters == 1) or (0 < size <= 5 and roman == size)


@kernel
def _initials_at(data: Bytes, start: int, stop: int, classes: Bytes, cased: int) -> bool:
    """The twin of `_initials`."""
    if start == stop:
        return False
    kind, width = class_at(data, start, classes)
    if start + width == stop:
        small = data[start] == 73 or data[start] == 105
        return not small and (kind == UPPER or (kind == LOWER and cased == 0))
    if (stop - start) % 2 == 0:
        return False
    for at in range(start, stop):
        kind = int(classes[data[at]]) if data[at] < 0x80 else OTHER
        capital = kind == UPPER or (kind == LOWER and cased == 0)
        if (not capital) if (at - start) % 2 == 0 else data[at] != 46:
            return False
    return True


@kernel
def _starts_at(data: Bytes, at: int, stop: int, tables: Tables) -> bool:
    """The twin of `_starter`."""
    end = at
    while end < stop and end < at + 9 and 97 <= (data[end] | 32) <= 122:
        end += 1
    known = _look_up(data, at, end, tables) & STARTER
    return known != 0 and not (end < stop and data[end] == 46)


@kernel
def _word_start(data: Bytes, sentence: int, at: int, classes: Bytes) -> int:
    """Where the word before the full stop at `at` begins, its opening quotes left out."""
    start = at
    while start > sentence:
        before = back(data, start)
        kind, _ = class_at(data, before, classes)
        if kind == SPACE or OPENER <= kind <= DASH:
            break
        start = before
    while start < at and classes[data[start]] == QUOTE:
        start += 1
    return start


@kernel
def _abbreviates(data: Bytes, sentence: int, at: int, following: int, stop: int, cased: int, tables: Tables) -> bool:
    """The twin of `_abbreviated`, for the full stop at `at`."""
    classes = tables.classes
    start = _word_start(data, sentence, at, classes)
    kind = _look_up(data, start, at, tables)
    if kind & NEVER_ENDS or (kind & BEFORE_NUMBER and class_at(data, following, classes)[0] == DIGIT):
        return True
    if start == sentence and _enumerates(data, start, at):
        return True
    if kind & BEFORE_STARTER or _initials_at(data, start, at, classes, cased):
        return not _starts_at(data, following, stop, tables)
    return False


@kernel
def _open_line_ends(data: Bytes, line: int, at: int, newlines: int, classes: Bytes) -> bool:
    """Whether a line without sentence punctuation stands alone: a heading, or a paragraph to a line."""
    if newlines == 0 or class_at(data, back(data, at), classes)[0] == COMMA:
        return False
    return not SHORT_LINE <= at - line <= LONG_LINE


@kernel
def _has_capital(data: Bytes, at: int, stop: int, classes: Bytes) -> int:
    """1 where a row holds a capital letter, else 0."""
    while at < stop:
        kind, width = class_at(data, at, classes)
        if kind == UPPER:
            return 1
        at += width
    return 0


@kernel
def _ends_at(
    data: Bytes,
    sentence: int,
    line: int,
    at: int,
    run_end: int,
    following: int,
    newlines: int,
    stop: int,
    cased: int,
    tables: Tables,
) -> bool:
    """The twin of `_ends`, for the run from `at` to `run_end`; False also where no white space follows it."""
    if newlines > 1 or (newlines == 1 and _lists_at(data, following, stop, tables)):
        return True
    if following == run_end or not _opens_at(data, following, stop, tables.classes, cased):
        return False
    if run_end == at:
        return _open_line_ends(data, line, at, newlines, tables.classes)
    lone = run_end - at == 1 and data[at] == 46
    return not (lone and _abbreviates(data, sentence, at, following, stop, cased, tables))


@kernel
def _skip_plain(data: Bytes, at: int, stop: int, classes: Bytes) -> int:
    """Past ASCII that decides nothing: letters, digits, and single spaces between them."""
    while at < stop and data[at] < 0x80:
        if classes[data[at]] > WIDE_ENDER:
            at += 1
        elif data[at] == 32 and at + 1 < stop and data[at + 1] < 0x80 and classes[data[at + 1]] > WIDE_ENDER:
            at += 2
        else:
            break
    return at


@kernel
def _split_row(data: Bytes, begin: int, stop: int, tables: Tables, starts: Integers, ends: Integers, count: int) -> int:
    """The twin of `_spans`: write the sentences of a row behind the first `count`, return the new count."""
    classes = tables.classes
    cased = _has_capital(data, begin, stop, classes)
    sentence, _ = _gap(data, begin, stop, classes)
    at = line = last = sentence
    while at < stop:
        at = _skip_plain(data, at, stop, classes)
        if at >= stop:
            last = stop
            break
        kind, width = class_at(data, at, classes)
        if kind > WIDE_ENDER:
            at += width
            last = at
            continue
        run_end, wide = _run(data, at, stop, classes) if kind != SPACE else (at, 0)
        following, newlines = _gap(data, run_end, stop, classes)
        last = run_end
        ends_here = following < stop and (
            wide != 0 or _ends_at(data, sentence, line, at, run_end, following, newlines, stop, cased, tables)
        )
        if ends_here:
            starts[count], ends[count] = sentence, run_end
            count += 1
            sentence = following
        if newlines:
            line = following
        at = following
    if sentence < stop and last > sentence:
        starts[count], ends[count] = sentence, last
        count += 1
    return count


@kernel
def split_rows(data: Bytes, offsets: Integers, tables: Tables) -> tuple[Integers, Integers, Integers]:
    """All rows, in arrays that grow as they fill."""
    rows = np.zeros(offsets.size, np.int64)
    starts = np.empty(1024, np.int64)
    ends = np.empty(1024, np.int64)
    count = 0
    for row in range(offsets.size - 1):
        # A sentence takes a byte at least, and so does what parts it from the next.
        most = count + (offsets[row + 1] - offsets[row]) // 2 + 1
        if most > starts.size:
            starts = np.concatenate((starts[:count], np.empty(2 * most - count, np.int64)))
            ends = np.concatenate((ends[:count], np.empty(2 * most - count, np.int64)))
        count = _split_row(data, offsets[row], offsets[row + 1], tables, starts, ends, count)
        rows[row + 1] = count
    return starts[:count].copy(), ends[:count].copy(), rows
