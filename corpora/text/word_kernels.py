"""The words of a text as 64-bit hashes: `corpora.text.words`, by kernels, over the bytes of a text column.

Promise: `hash_words` writes `hash_word` of every word of `words`, in order; no byte outside the text is looked at,
whatever the bytes are. Words of ASCII are read eight bytes at a time, all eight looked at at once (Lamport 1975,
"Multiple byte processing with full-word instructions"); from the first other character of a word on it is read
character by character. No Python object is made for a word.

Cost: about 1.3 ns a byte of English prose, 2 to 6 of other scripts; linear in the text, whatever it is.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, Integer, UInt32s, UInt64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import absorb
from corpora.kernels.packed import (
    CASE_BITS,
    TOP_BITS,
    below_bits,
    find_first_flag,
    flag_ascii_marks,
    flag_non_alphanumeric,
    keep_bytes,
    load8,
    load_up_to,
    lower_word,
    mask_before,
    trailing_zeros,
    word_bits,
)
from corpora.kernels.utf8 import decode_word, encode
from corpora.text.words import EMPTY_WORD, HIDDEN, INSIDE, MARK, OUTSIDE, SPACELESS, WordTables

_0, _1, _64, _LOWEST_TOP = np.uint64(0), np.uint64(1), np.uint64(64), np.uint64(0x80)
_6, _8, _LANE = np.uint64(6), np.uint64(8), np.uint64(0xFFFF)
# Four characters of two bytes each, the first byte of each lower in its lane of 16 bits.
_LANES = np.uint64(0x0001000100010001)
_PAIR_BITS, _PAIR_FORM, _LEADS, _TRAILS = (_LANES * np.uint64(bits) for bits in (0xC0E0, 0x80C0, 0x1F, 0x3F))
_WINDOW = 64  # bytes that are looked at at once where all is ASCII
_KIND_BITS, _BYTE, _WIDE = 7, 0xFF, 0x80


@kernel
def compute_max_words(offsets: Int64s) -> int:
    """Return an upper bound for the number of words in any row of a column, given its offsets."""
    longest = 0
    for row in range(offsets.size - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    return (longest + 1) // 2  # a word and what parts it from the next are two bytes, or one character of three


@kernel
def read_entry(chunk: np.uint64, entries: UInt32s) -> tuple[int, int, int]:
    """Decode the first character of an eight-byte chunk, and look it up.

    Args:
        chunk: The bytes, with the first one in the lowest byte of the integer.
        entries: The array `WordTables.entries`.

    Returns:
        The code point, its entry in `entries` (OUTSIDE if it is beyond them), and its width in bytes.
    """
    code, width = decode_word(chunk)
    return code, (int(entries[code]) if code < entries.size else OUTSIDE), width


@kernel
def hash_words(data: Bytes, start: int, stop: int, tables: WordTables, out: UInt64s) -> int:
    """Write the hash of each word of data[start:stop] to `out`, in order. Return the number of words.

    Args:
        data: UTF-8 bytes.
        start, stop: Start and end of the text in `data`.
        tables: Lookup tables, from `read_word_tables`.
        out: Filled with the hashes. It needs at least (stop - start + 1) // 2 entries.
    """
    num_words, state, inside, calm, entries = 0, EMPTY_WORD, False, True, tables.entries
    at: Integer = np.int64(start)
    while at < stop:
        if calm and not inside:
            num_words, at = _hash_ascii(data, at, stop, out, num_words)
            if at >= stop:
                break
        chunk = load_up_to(data, at, stop)
        outside = flag_ascii_marks(chunk)
        before = mask_before(outside) if outside != _0 else ~_0  # the bytes before the first that parts words
        wide = chunk & before & TOP_BITS
        calm = wide == _0
        if calm:
            if outside == _0:
                state, inside = absorb(state, lower_word(chunk)), True
                at += 8
                continue
            step = find_first_flag(~outside & TOP_BITS & ~before)
        else:
            before, place = mask_before(wide), find_first_flag(wide)
            _, entry, width = read_entry(load_up_to(data, at + place, stop), entries)
            if entry != OUTSIDE:
                inside, filled = inside or place > 0, np.uint64(place << 3)
                word = (state, lower_word(chunk) & before, filled)
                num_words, at = _hash_characters(data, start, at + place, stop, tables, word, inside, out, num_words)
                state, inside = EMPTY_WORD, False
                continue
            step = place + width
        if before != _0:
            state, inside = absorb(state, lower_word(chunk) & before), True
        if inside:
            out[num_words] = state
            num_words, state, inside = num_words + 1, EMPTY_WORD, False
        at += step
    if inside:
        out[num_words] = state
        num_words += 1
    return num_words


@kernel
def _hash_ascii(data: Bytes, at: Integer, stop: int, out: UInt64s, num_words: int) -> tuple[int, Integer]:
    """Hash words 64 bytes at a time from byte `at`, up to the first non-ASCII byte or the last 72 bytes.

    Args:
        data: UTF-8 bytes.
        at: Byte at which to start, not inside a word.
        stop: End of the text in `data`.
        out: Filled with the hashes, from index `num_words` on.
        num_words: Number of words hashed so far.

    Returns:
        The new number of words, and a byte at which a word may start.
    """
    while at + _WINDOW + 8 <= stop:
        bits, wide = word_bits(data, at), ~below_bits(data, at, _WIDE)
        begins, ends = bits & ~(bits << _1), ~bits & bits << _1
        if wide != _0:
            ends &= (wide & (~wide + _1)) - _1
        while ends != _0:
            place, end = int(at + trailing_zeros(begins)), int(at + trailing_zeros(ends))
            begins, ends = begins & (begins - _1), ends & (ends - _1)
            state = EMPTY_WORD
            while end - place > 8:
                state = absorb(state, load8(data, place) | CASE_BITS)
                place += 8
            out[num_words] = absorb(state, keep_bytes(load8(data, place) | CASE_BITS, end - place))
            num_words += 1
        step = min(trailing_zeros(begins), trailing_zeros(wide))  # the word that is open, or what is not ASCII
        at += step
        if step == 0 or wide != _0:
            break
    return num_words, at


@kernel
def _hash_characters(
    data: Bytes,
    start: Integer,
    at: Integer,
    stop: int,
    tables: WordTables,
    word: tuple[np.uint64, np.uint64, np.uint64],
    inside: bool,
    out: UInt64s,
    num_words: int,
) -> tuple[int, Integer]:
    """Hash words character by character from byte `at`, until an ASCII character follows the end of a word.

    Args:
        data: UTF-8 bytes.
        start: A lower bound for the first byte of the current word.
        at: Byte at which to continue.
        stop: End of the text in `data`.
        tables: Lookup tables, from `read_word_tables`.
        word: The unfinished word: its hash so far, the bytes not yet mixed in, and their number of bits.
        inside: True if there is an unfinished word.
        out: Filled with the hashes, from index `num_words` on.
        num_words: Number of words hashed so far.

    Returns:
        The new number of words, and the byte at which to continue.
    """
    (state, pending, filled), begin, alone, last, disordered = word, at, False, 0, False
    entries, shapes, forms, pairs = tables.entries, tables.shapes, tables.forms, tables.pairs
    while at < stop:
        chunk = load_up_to(data, at, stop)
        if inside and not alone:
            run, size = _read_ascii_run(chunk) if chunk & _LOWEST_TOP == _0 else _fold_pairs(chunk, pairs)
            if size > 0:
                state, pending, filled = _mix_bytes(state, pending, filled, run, size)
                last = 0
                at += size
                continue
        _, entry, width = read_entry(chunk, entries)
        if at + width > stop:  # no text ends so
            at = stop
            break
        kind = entry & _KIND_BITS
        if kind == HIDDEN:
            at += width
            continue
        if not _is_in_word(kind, inside, alone):
            if inside:
                out[num_words] = absorb(state, pending) if filled != _0 else state
                if disordered:
                    out[num_words] = _hash_in_order(data, start, begin, at, tables)
                num_words, inside, disordered = num_words + 1, False, False
            if chunk & _LOWEST_TOP == _0:  # a character of ASCII
                if entry != OUTSIDE or at + 1 >= stop or data[at + 1] < _WIDE:
                    return num_words, at
                at += 1
                continue
            if kind == OUTSIDE or kind == MARK:
                at += width
                continue
            inside, alone, last = True, kind == SPACELESS, 0
            start = begin = at  # no byte before belongs to this word
            state, pending, filled = EMPTY_WORD, _0, _0
        row = entry >> 3
        if row == 0:
            state, pending, filled = _mix_bytes(state, pending, filled, keep_bytes(chunk, width), width)
            last = 0
        else:
            shape = int(shapes[row])
            size, first = shape & _BYTE, shape >> 8 & _BYTE
            disordered |= 0 < first < last
            last = shape >> 16
            state, pending, filled = _mix_bytes(state, pending, filled, forms[row, 0], min(size, 8))
            if size > 8:
                state, pending, filled = _mix_bytes(state, pending, filled, forms[row, 1], size - 8)
        at += width
    if inside:
        out[num_words] = absorb(state, pending) if filled != _0 else state
        if disordered:
            out[num_words] = _hash_in_order(data, start, begin, stop, tables)
        num_words += 1
    return num_words, at


@kernel
def _read_ascii_run(chunk: np.uint64) -> tuple[np.uint64, int]:
    """Return the leading ASCII letters and digits of an eight-byte chunk in lower case, as a word, and their number."""
    size = find_first_flag(flag_non_alphanumeric(chunk))
    return keep_bytes(lower_word(chunk), size), size


@kernel
def _fold_pairs(chunk: np.uint64, pairs: UInt32s) -> tuple[np.uint64, int]:
    """Fold the leading two-byte characters of an eight-byte chunk. Return the folded bytes and their number.

    `pairs` is the array `WordTables.pairs`. Folding stops at the first character that it does not contain.
    """
    others = (chunk & _PAIR_BITS) ^ _PAIR_FORM
    codes = (chunk & _LEADS) << _6 | chunk >> _8 & _TRAILS
    run, size = _0, 0
    for shift in range(0, 64, 16):
        lane = np.uint64(shift)
        pair = np.uint64(pairs[codes >> lane & _LANE])
        if others >> lane & _LANE != _0 or pair == _0:
            break
        run |= pair << lane
        size += 2
    return run, size


@kernel
def _is_in_word(kind: int, inside: bool, alone: bool) -> bool:
    """Return True if a character continues the current word.

    Args:
        kind: What `find_character_kind` returns for the character.
        inside: True if there is a current word.
        alone: True if that word is a single character of a script without spaces.
    """
    return inside and (kind == MARK or (kind == INSIDE and not alone))


@kernel
def _mix_bytes(
    state: np.uint64, pending: np.uint64, filled: np.uint64, form: np.uint64, size: int
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Mix one to eight bytes into the hash of a word. They are absorbed eight at a time; the rest stays pending.

    Args:
        state: The hash so far.
        pending: The bytes that are not yet mixed in, with the first one in the lowest byte of the integer.
        filled: Number of bits in `pending`.
        form: The bytes to mix in, with the first one in the lowest byte of the integer.
        size: Number of these bytes.

    Returns:
        The new `state`, `pending` and `filled`.
    """
    bits = np.uint64(size << 3)
    pending |= form << filled
    if filled + bits < _64:
        return state, pending, filled + bits
    state, over = absorb(state, pending), filled + bits - _64
    return state, (form >> (bits - over) if over != _0 else _0), over


@kernel
def _hash_in_order(data: Bytes, start: Integer, begin: Integer, stop: Integer, tables: WordTables) -> np.uint64:
    """Hash a word with combining marks out of order: read it again and sort its marks. Return the hash.

    Args:
        data: UTF-8 bytes.
        start: A lower bound for the first byte of the word.
        begin: First byte that is known to belong to the word. ASCII letters and digits before it belong to it, too.
        stop: Byte after the word.
        tables: Lookup tables, from `read_word_tables`.
    """
    while begin > start and flag_non_alphanumeric(np.uint64(data[begin - 1])) & _LOWEST_TOP == _0:
        begin -= 1
    codes, orders = _read_decomposed(data, begin, stop, tables)
    state, pending, filled, place = EMPTY_WORD, _0, _0, 0
    while place < codes.size:
        after = place + 1
        if orders[place] > 0:
            while after < codes.size and orders[after] > 0:
                after += 1
            _sort_marks(codes, orders, place, after)
        while place < after:
            form, width = encode(codes[place])
            state, pending, filled = _mix_bytes(state, pending, filled, form, width)
            place += 1
    return absorb(state, pending) if filled != _0 else state


@kernel
def _read_decomposed(data: Bytes, begin: Integer, stop: Integer, tables: WordTables) -> tuple[Int64s, Int64s]:
    """Return the folded code points of the word data[begin:stop], and their combining classes."""
    room, at, entries = 0, begin, tables.entries
    while at < stop:
        _, entry, width = read_entry(load_up_to(data, at, stop), entries)
        row = entry >> 3
        room += max(int(tables.starts[row + 1] - tables.starts[row]), 1)
        at += width
    codes, orders, size, at = np.empty(room, np.int64), np.zeros(room, np.int64), 0, begin
    while at < stop:
        code, entry, width = read_entry(load_up_to(data, at, stop), entries)
        row = entry >> 3
        if row == 0 and entry & _KIND_BITS != HIDDEN:
            codes[size] = code
            size += 1
        for form in range(tables.starts[row], tables.starts[row + 1]):
            codes[size], orders[size] = tables.codes[form], tables.orders[form]
            size += 1
        at += width
    return codes[:size], orders[:size]


@kernel
def _sort_marks(codes: Int64s, orders: Int64s, begin: int, stop: int) -> None:
    """Sort the combining marks codes[begin:stop] by their classes in `orders`, in place and stably.

    `orders` is not changed. Each class takes one pass.
    """
    sorted_codes, size, lowest = np.empty(stop - begin, np.int64), 0, 0
    while size < stop - begin:
        lowest = _find_next_order(orders, begin, stop, lowest)
        for at in range(begin, stop):
            if orders[at] == lowest:
                sorted_codes[size] = codes[at]
                size += 1
    copy_values(sorted_codes, codes[begin:stop])


@kernel
def _find_next_order(orders: Int64s, begin: int, stop: int, lowest: int) -> int:
    """Return the smallest combining class in orders[begin:stop] that exceeds `lowest`, or 256 if there is none."""
    smallest = 256
    for at in range(begin, stop):
        if lowest < orders[at] < smallest:
            smallest = orders[at]
    return smallest


@kernel
def skip_words(data: Bytes, at: int, stop: int, count: int, tables: WordTables) -> int:
    """Return the byte after the first `count` words from byte `at`, or `stop` if there are fewer words.

    Args:
        data: UTF-8 bytes.
        at: Byte at which to start.
        stop: End of the text in `data`.
        count: Number of words to skip.
        tables: Lookup tables, from `read_word_tables`.
    """
    inside, alone, entries = False, False, tables.entries
    while at < stop and count > 0:
        _, entry, width = read_entry(load_up_to(data, np.int64(at), stop), entries)
        kind = entry & _KIND_BITS
        if kind != HIDDEN and not _is_in_word(kind, inside, alone):
            if inside:
                count -= 1
                inside = False
            if count == 0:
                return at
            if kind == INSIDE or kind == SPACELESS:
                inside, alone = True, kind == SPACELESS
        at += width
    return min(at, stop)
