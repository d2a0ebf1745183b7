"""The sentence splitter over UTF-8 bytes: the kernels of `corpora.text.sentences.splitter.sentence_offsets`.

Promise: the same sentences as the definition, `corpora.text.sentences.splitter.split_sentences`; a kernel names its
twin, and the property test compares the two from end to end. Cost: in a block of bytes those are first marked at
which something could be decided, a loop that the compiler turns into vector instructions; then only the marked bytes,
some three in a hundred of a book, are looked at. No Python object per sentence, and memory for the offsets and one
block.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.utf8 import decode, find_start_before
from corpora.text.codepoints import (
    COMMA,
    DASH,
    DIGIT,
    ENDER,
    LOWER,
    PERIOD,
    QUOTE,
    SPACE,
    UPPER,
    WIDE_ENDER,
    classify_at,
)
from corpora.text.sentences.languages import (
    COLON,
    INLINE_BULLETS,
    MAX_ASIDE_BYTES,
    MAX_HEADING_BYTES,
    MAX_LABEL_BYTES,
    MAX_WRAPPED_BYTES,
    MIN_BLANK_CHARACTERS,
    MIN_MARKED_RULE_CHARACTERS,
    MIN_RULE_CHARACTERS,
    RULED,
    SEMICOLON,
    SPACED,
)
from corpora.text.sentences.runs_kernels import (
    find_colon_end_at,
    find_run_end_at,
    find_spaced_start_at,
    is_wide_at,
    is_wide_end_at,
)
from corpora.text.sentences.words import (
    HEAD_CODES,
    can_open_at,
    can_open_dotted_at,
    can_open_small_at,
    classify_before,
    find_space_start,
    find_word_end,
    is_abbreviation_at,
    is_enumerator_at,
    is_joined_at,
    is_list_item_at,
    skip_space,
)

_BLOCK = 4096
_RULED_BYTES = tuple(RULED.encode())
_INLINE_CODES = tuple(map(ord, INLINE_BULLETS))


@kernel
def _mark(data: Bytes, start: int, stop: int, marks: Bytes, colon_bytes: tuple[int, int]) -> None:
    """Write a 1 to `marks` for each byte of a block at which a sentence could end, otherwise 0.

    Candidates are newlines, terminators, closing parentheses, bullets, and three equal characters (a drawn line). In
    UTF-8, "•", "‣" and "…" are among E2 80 A2 to E2 80 A6, and "‽" is E2 80 BD. The other bullets begin with E2 81, E2
    96 or E2 97. "。" is E3 80 82, and the other wide terminators begin with EF BC or EF BD. The terminators of other
    scripts begin with D8 9F, DB 94, D6 89, E0 A5 A4, E0 A5 A5, E0 BC, E1 81, E1 8D or E1 9F, as do some letters.

    Args:
        data: UTF-8 bytes of all rows.
        start: First byte of the block.
        stop: Byte after the block.
        marks: Filled with one entry for each byte of the block, and a 1 after the last one.
        colon_bytes: The colon, semicolon or space that ends a sentence in the language, or 10 for none.
    """
    size, half, more = (
        stop - start,
        np.uint8(colon_bytes[0]),
        np.uint8(colon_bytes[1]),
    )  # of one byte: the loop is over bytes
    whole = max(0, min(size, data.size - 2 - start))
    first, second, third = data[start : start + whole], data[start + 1 :], data[start + 2 :]
    for at in range(first.size):
        byte, next_byte, last = first[at], second[at], third[at]
        sign = (byte == 10) | (byte == 33) | (byte == 41) | (byte == 46) | (byte == 63)
        sign |= (byte == half) | (byte == more)
        mark = (next_byte == 0x80) & (((last >= 0xA2) & (last <= 0xA6)) | (last == 0xBD))
        mark |= (next_byte == 0x81) | (next_byte == 0x96) | (next_byte == 0x97)
        wide = ((byte == 0xE3) & (next_byte == 0x80) & (last == 0x82)) | (
            (byte == 0xEF) & ((next_byte == 0xBC) | (next_byte == 0xBD))
        )
        wide |= ((byte == 0xD8) & (next_byte == 0x9F)) | ((byte == 0xDB) & (next_byte == 0x94))
        danda = ((next_byte == 0xA5) & (last & 0xFE == 0xA4)) | (next_byte == 0xBC)
        wide |= ((byte == 0xD6) & (next_byte == 0x89)) | ((byte == 0xE0) & danda)
        wide |= (byte == 0xE1) & ((next_byte == 0x81) | (next_byte == 0x8D) | (next_byte == 0x9F))
        wide |= (byte == 34) & (next_byte == 32) & (last == 34)
        same = (byte == next_byte) & (byte == last) & (byte != 32)
        marks[at] = sign | (mark & (byte == 0xE2)) | wide | same
    for at in range(whole, size):
        marks[at] = 1
    marks[size] = 1


@kernel
def find_colon_bytes(manner: int) -> tuple[int, int]:
    """Return the bytes of the colon and the semicolon if they can end a sentence in a language, otherwise 10 (newline).

    The first byte is a space instead in Thai and Lao, in which a space can end a sentence. `manner` is the sum of bit
    flags in `Language.manner`.
    """
    return 58 if manner & COLON else 32 if manner & SPACED else 10, 59 if manner & SEMICOLON else 10


@kernel
def _find_next_mark(marks: Bytes, eights: Int64s, at: int) -> int:
    """Return the index of the first marked byte of a block at or after `at`. There must be one.

    `marks` has a 1 for each marked byte. `eights` is a view of it as int64, in which eight bytes are checked at a time.
    """
    while marks[at] == 0:
        at += 1
        if at & 7 == 0:
            while eights[at >> 3] == 0:
                at += 8
    return at


@kernel
def _has_capital(data: Bytes, at: int, stop: int, classes: Bytes) -> int:
    """Return 1 if data[at:stop] contains a capital letter, else 0. `classes` comes from `read_character_classes`."""
    while at < stop:
        kind, width = classify_at(data, at, classes)
        if kind == UPPER:
            return 1
        at += width
    return 0


@kernel
def _is_line_end_at(
    data: Bytes, line: int, at: int, following: int, newlines: int, stop: int, cased: int, classes: Bytes
) -> bool:
    """Return True if a sentence ends at a line break without sentence punctuation, as `_is_line_end` does for strings.

    Args:
        data: UTF-8 bytes of all rows.
        line: First byte of the current line.
        at: First byte of the white space that contains the line break.
        following: First byte after the white space.
        newlines: Number of newlines in it.
        stop: End of the row in `data`.
        cased: 1 if the row contains a capital letter, otherwise 0.
        classes: Character classes, from `read_character_classes`.
    """
    if newlines > 1 or is_list_item_at(data, following, stop):
        return True
    if MAX_HEADING_BYTES <= at - line <= MAX_WRAPPED_BYTES or classify_before(data, at, classes) == COMMA:
        return False
    return can_open_at(data, following, stop, classes, cased)


@kernel
def _is_dots(data: Bytes, at: int, run_end: int) -> bool:
    """Return True if data[at:run_end] consists only of full stops and ellipses ("…")."""
    while at < run_end:
        if data[at] == 0xE2 and data[at + 1] == 0x80 and data[at + 2] == 0xA6:
            at += 3
        elif data[at] == 46:
            at += 1
        else:
            return False
    return True


@kernel
def _is_elided_at(data: Bytes, sentence: int, at: int) -> bool:
    """Return True if the dots at byte `at` follow an opening bracket, as in "[...]".

    `_is_elided` does the same for strings.
    """
    if at <= sentence or (data[at - 1] != 40 and data[at - 1] != 91):
        return False
    return bool(data[at] == 46 or (data[at] == 0xE2 and data[at + 1] == 0x80 and data[at + 2] == 0xA6))


@kernel
def _is_end_at(
    data: Bytes,
    sentence: int,
    at: int,
    run_end: int,
    following: int,
    newlines: int,
    stop: int,
    cased: int,
    classes: Bytes,
    words: Int64s,
) -> bool:
    """Return True if a run of terminators without wide ones ends the sentence, as `_is_end` does for strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: First byte of the run of terminators.
        run_end: Byte after the run of terminators and closing marks.
        following: First byte after the white space that follows.
        newlines: Number of newlines in this white space.
        stop: End of the row in `data`.
        cased: 1 if the row contains a capital letter, otherwise 0.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.
    """
    if following == stop:
        return False
    if following == run_end:
        wide = data[at] != 41 and at > sentence and is_wide_at(data, run_end, stop)
        if wide and is_wide_at(data, find_start_before(data, at), stop):
            return is_wide_end_at(data, sentence, at, run_end, stop, classes)
        return is_joined_at(data, sentence, at, run_end, stop, classes, words)
    if newlines > 1 or (newlines == 1 and is_list_item_at(data, following, stop)):
        return True
    kind, _ = classify_at(data, following, classes)
    if _is_elided_at(data, sentence, at) or (data[at] == 41 and kind == DASH):
        return False
    lone = run_end - at == 1 and data[at] == 46
    if (lone or (run_end - at == 2 and data[at] == 46 and data[at + 1] == 41)) and is_enumerator_at(
        data, _find_head_at(data, sentence, stop, classes), at
    ):
        return False
    if not can_open_at(data, following, stop, classes, cased):
        dotted = lone and can_open_dotted_at(data, sentence, at, following, stop, classes)
        quoted = data[run_end - 1] == 34 and data[following] == 34
        return dotted or quoted or can_open_small_at(data, sentence, at, run_end, following, stop, classes, words)
    if at > sentence and classify_before(data, at, classes) == SPACE and _is_dots(data, at, run_end):
        opening = at == sentence + 4 and data[sentence] == 46 and data[sentence + 2] == 46 and data[at - 3] == 32
        capital_i = data[following] == 73 and find_word_end(data, following, stop) == following + 1
        return not opening and not capital_i
    return not (lone and is_abbreviation_at(data, sentence, at, following, stop, cased, classes, words))


@kernel
def _can_close_at(data: Bytes, sentence: int, at: int, classes: Bytes) -> bool:
    """Return True if the ")" at byte `at` can end the sentence that begins at byte `sentence`.

    This is the case in an emoticon, or if it closes a bracket that starts the sentence. `_can_close` does the same for
    strings. `classes` is what `read_character_classes` returns.
    """
    eyes = at - 2 if at > sentence and data[at - 1] == 45 else at - 1
    if eyes > sentence and (data[eyes] == 58 or data[eyes] == 59 or data[eyes] == 61):
        kind = classify_before(data, eyes, classes)
        if kind == SPACE or kind == PERIOD or kind == ENDER:
            return True
    if data[sentence] != 40 or not 3 < at - sentence <= MAX_ASIDE_BYTES:
        return False
    kind, _ = classify_at(data, sentence + 1, classes)
    if (kind != UPPER and kind != LOWER and kind != DIGIT) or is_enumerator_at(data, sentence + 1, at):
        return False
    spaces = 0
    for place in range(sentence + 1, at):
        spaces += data[place] == 32
        if data[place] == 40 or data[place] == 41:
            return False
    return kind != DIGIT or spaces > 0


# Items of a list on one line.


@kernel
def _find_head_at(data: Bytes, sentence: int, stop: int, classes: Bytes) -> int:
    """Return the first byte of a sentence's first word, after a bullet and at most four spaces.

    `_find_head` does the same for strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the sentence.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
    """
    code, width = decode(data, sentence)
    if code not in HEAD_CODES:
        return sentence
    at = sentence + width
    for _ in range(4):
        if at >= stop:
            break
        kind, width = classify_at(data, at, classes)
        if kind != SPACE:
            break
        at += width
    return at


@kernel
def _read_number_at(data: Bytes, at: int, stop: int, classes: Bytes) -> int:
    """Read the list number that begins at byte `at`, such as "(3)" or "c.", as `_read_number` does for strings.

    Args:
        data: UTF-8 bytes.
        at: First byte of the number.
        stop: Bytes from here on are not read.
        classes: Character classes, from `read_character_classes`.

    Returns:
        8 times the number ("c" is 99), plus 4 for "(", 2 for "." and 1 for ")"; 0 if there is no list number.
    """
    digits, number, mark = 0, 0, 0
    if at < stop and data[at] == 40:
        mark, at = 4, at + 1
    while at < stop and digits < 3 and 48 <= data[at] <= 57:
        number = 10 * number + int(data[at]) - 48
        digits, at = digits + 1, at + 1
    if digits == 0:
        if at >= stop or not 97 <= data[at] <= 122:
            return 0
        number, at = int(data[at]), at + 1
    if at < stop and data[at] == 46:
        mark, at = mark + 2, at + 1
    if at < stop and data[at] == 41:
        mark, at = mark + 1, at + 1
    if mark & 3 == 0 or number == 0 or at >= stop:
        return 0
    kind, _ = classify_at(data, at, classes)
    return 8 * number + mark if kind == SPACE else 0


@kernel
def _find_item_at(data: Bytes, sentence: int, at: int, stop: int, classes: Bytes) -> int:
    """Return the first byte of the next list item in a sentence if the mark after its number is at byte `at`.

    The mark is a full stop or a closing bracket. Returns `sentence` if there is no such item. `_find_item` does the
    same for strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: Byte of the mark.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
    """
    start = at
    while start > at - 3 and start > sentence and (97 <= data[start - 1] <= 122 or 48 <= data[start - 1] <= 57):
        start -= 1
    if start == at:
        return sentence
    start -= start > sentence and data[start - 1] == 40
    if start == sentence or classify_before(data, start, classes) != SPACE:
        return sentence
    second = _read_number_at(data, start, stop, classes)
    if second == 0:
        return sentence
    first = _read_number_at(data, _find_head_at(data, sentence, stop, classes), stop, classes)
    return start if first != 0 and second == first + 8 else sentence


@kernel
def _is_repeated_bullet(data: Bytes, sentence: int, at: int, classes: Bytes) -> bool:
    """Return True if a bullet at byte `at` repeats the bullet that begins its sentence.

    Only bullets of three bytes after white space count.

    Args:
        data: UTF-8 bytes.
        sentence: First byte of the sentence.
        at: First byte of the character.
        classes: Character classes, from `read_character_classes`.
    """
    if at == sentence or data[sentence] != data[at]:
        return False
    if data[at + 1] != data[sentence + 1] or data[at + 2] != data[sentence + 2]:
        return False
    code, _ = decode(data, at)
    return code in _INLINE_CODES and classify_before(data, at, classes) == SPACE


# The whole.


@kernel
def _find_drawn_line_at(
    data: Bytes, sentence: int, at: int, stop: int, cased: int, classes: Bytes
) -> tuple[int, int, int]:
    """Find the end of a sentence at a line drawn with equal characters ("-----"), as `_find_drawn_line` does for
    strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: First byte of the drawn line.
        stop: End of the row in `data`.
        cased: 1 if the row contains a capital letter, otherwise 0.
        classes: Character classes, from `read_character_classes`.

    Returns:
        The end of the sentence (`sentence` if it does not end here), the byte to continue at, and the number of
        newlines skipped.
    """
    run_end = at
    while run_end < stop and data[run_end] == data[at]:
        run_end += 1
    if run_end - at < MIN_MARKED_RULE_CHARACTERS:
        return sentence, run_end, 0
    ahead, newlines = skip_space(data, run_end, stop, classes)
    if ahead == run_end and ahead < stop:
        return sentence, run_end, 0
    if at == sentence:
        ends = ahead < stop and not _is_drawn(int(data[ahead])) and can_open_at(data, ahead, stop, classes, cased)
        return (run_end, ahead, newlines) if ends else (sentence, run_end, 0)
    before = find_space_start(data, at, sentence, classes)
    if before == at or _is_drawn(int(data[before - 1])):
        return sentence, run_end, 0
    marked = PERIOD <= classify_before(data, before, classes) <= QUOTE and data[at] != 45 and data[at] != 95
    marked = marked and ahead < stop and can_open_at(data, ahead, stop, classes, cased)
    parts = marked or run_end - at >= (MIN_BLANK_CHARACTERS if data[at] == 95 else MIN_RULE_CHARACTERS)
    return (before, at, 0) if parts else (sentence, run_end, 0)


@kernel
def _is_drawn(byte: int) -> bool:
    """Return True if a byte is used for drawing lines and tables."""
    return byte == 124 or byte in _RULED_BYTES


@kernel
def _is_letter(data: Bytes, at: int, stop: int) -> bool:
    """Return True if `at` is before `stop` and byte `at` is an ASCII letter."""
    return bool(at < stop and 97 <= data[at] | 32 <= 122)


@kernel
def _find_boundary_at(
    data: Bytes, sentence: int, line: int, at: int, stop: int, cased: int, classes: Bytes, words: Int64s
) -> tuple[int, int, int]:
    """Check whether a sentence ends at a marked byte, as `_find_boundary` does for strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        line: First byte of the current line.
        at: The marked byte.
        stop: End of the row in `data`.
        cased: 1 if the row contains a capital letter, otherwise 0.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.

    Returns:
        The end of the sentence (`sentence` if it does not end here), the byte to continue at, and the number of
        newlines skipped.
    """
    byte = int(data[at])
    if byte == 10:
        if (
            MAX_HEADING_BYTES <= at - line <= MAX_WRAPPED_BYTES
            and 32 < data[at - 1] < 127
            and _is_letter(data, at + 1, stop)
        ):
            return sentence, at + 1, 1  # as the rest would find, for prose that is wrapped here
        begin = find_space_start(data, at, sentence, classes)
        following, newlines = skip_space(data, begin, stop, classes)
        ends = _is_line_end_at(data, line, begin, following, newlines, stop, cased, classes)
        return begin if ends else sentence, following, newlines
    if byte == 32:
        following = find_spaced_start_at(data, sentence, at, stop, classes)
        return (at, following, 0) if following else (sentence, at + 1, 0)
    half, more = find_colon_bytes(words[-1])
    if byte == half or byte == more:
        return find_colon_end_at(data, sentence, at, stop, classes, words)
    if byte == 46 or byte == 41:
        item = _find_item_at(data, sentence, at, stop, classes)
        if item > sentence:
            return find_space_start(data, item, sentence, classes), item, 0
    elif byte in _RULED_BYTES:
        return _find_drawn_line_at(data, sentence, at, stop, cased, classes)
    elif byte == 0xE2 and _is_repeated_bullet(data, sentence, at, classes):
        return find_space_start(data, at, sentence, classes), at, 0
    elif byte & 0xC0 == 0x80:
        return sentence, at + 1, 0
    if byte == 34 and at + 2 < stop and data[at + 1] == 32 and data[at + 2] == 34:
        quotes = data[sentence] == 34 and at - sentence >= MAX_LABEL_BYTES
        return (at + 1, at + 2, 0) if quotes else (sentence, at + 1, 0)
    kind, width = classify_at(data, at, classes)
    if not PERIOD <= kind <= WIDE_ENDER and not (byte == 41 and _can_close_at(data, sentence, at, classes)):
        return sentence, at + width, 0
    run_end, wide = find_run_end_at(data, sentence, at, stop, classes, words)
    following, newlines = skip_space(data, run_end, stop, classes)
    if wide != 0:
        ends = is_wide_end_at(data, sentence, at, run_end, stop, classes)
    else:
        ends = _is_end_at(data, sentence, at, run_end, following, newlines, stop, cased, classes, words)
    return run_end if ends else sentence, following, newlines


@kernel
def _split_row(
    data: Bytes,
    begin: int,
    stop: int,
    classes: Bytes,
    words: Int64s,
    marks: Bytes,
    starts: Int64s,
    ends: Int64s,
    count: int,
) -> int:
    """Split one row into sentences, as `_iter_spans` does for strings. Return the new number of sentences.

    Args:
        data: UTF-8 bytes of all rows.
        begin: First byte of the row.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.
        marks: uint8 [_BLOCK + 8], scratch memory, overwritten.
        starts, ends: The first byte of each sentence and the byte after it. The row's sentences are written after the
            first `count` entries.
        count: Number of sentences in the rows before.
    """
    eights = marks.view(np.int64)
    cased = _has_capital(data, begin, stop, classes)
    stop = find_space_start(data, stop, begin, classes)
    sentence, _ = skip_space(data, begin, stop, classes)
    at = line = block = block_end = sentence
    colon_bytes = find_colon_bytes(words[-1])
    while at < stop:
        if at >= block_end:
            block, block_end = at, min(at + _BLOCK, stop)
            _mark(data, block, block_end, marks, colon_bytes)
        at = block + _find_next_mark(marks, eights, at - block)
        if at >= block_end:
            continue
        end, following, newlines = _find_boundary_at(data, sentence, line, at, stop, cased, classes, words)
        if sentence < end and following < stop:
            starts[count], ends[count] = sentence, end
            count += 1
            sentence = following
        line = following if newlines else line
        at = following if following >= at else at + 1
    if sentence < stop:
        starts[count], ends[count] = sentence, stop
        count += 1
    return count


@kernel
def _with_room(filled: Int64s, count: int, room: int) -> Int64s:
    """Return an array of at least `room` entries that begins with the first `count` of `filled`.

    The remaining entries are not initialized.
    """
    if room <= filled.size:
        return filled
    grown = np.empty(max(2 * filled.size, room), np.int64)
    copy_values(filled[:count], grown[:count])
    return grown


@kernel
def split_rows(
    data: Bytes, offsets: Int64s, classes: Bytes, tables: Int64s, numbers: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Split all rows into sentences.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 `(n + 1,)`, the first byte of each row in `data`.
        classes: Character classes, from `read_character_classes`.
        tables: int64 matrix with one hash table of words for each language, from `build_word_slots`.
        numbers: int64 `(n,)`, the index in `tables` of each row's language.

    Returns:
        Starts, ends and rows, as `sentence_offsets` returns them.
    """
    rows = np.zeros(offsets.size, np.int64)
    starts, ends = np.empty(1024, np.int64), np.empty(1024, np.int64)
    marks = np.zeros(_BLOCK + 8, np.uint8)
    count = 0
    for row in range(offsets.size - 1):
        begin, stop = offsets[row], offsets[row + 1]
        room = count + stop - begin + 1  # a sentence takes a byte at least
        starts, ends = _with_room(starts, count, room), _with_room(ends, count, room)
        count = _split_row(data, begin, stop, classes, tables[numbers[row]], marks, starts, ends, count)
        rows[row + 1] = count
    return starts[:count].copy(), ends[:count].copy(), rows
