"""The words around a full stop, read from UTF-8 bytes: what may open a sentence, and what keeps one going.

Promise: each kernel says what its twin in `corpora.text.sentences.splitter` says, of a text that lies between two
places of a column; none looks outside them. Cost: each reads a word or two, or the white space it is in; none is
called twice for the same full stop.
"""

from collections.abc import Mapping

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.utf8 import decode, find_start_before
from corpora.text.codepoints import (
    BULLETS,
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
    classify_at,
    pack_bytes,
    pack_word,
)
from corpora.text.sentences.languages import (
    ABBREVIATION,
    BEFORE_NUMBER,
    BEFORE_STARTER,
    CRY,
    DAY,
    ELISION,
    INITIAL_I,
    INLINE_BULLETS,
    MAX_TIME_BYTES,
    MIN_WORD_LETTERS,
    MONTH,
    NEVER_ENDS,
    NOUNS,
    ORDINAL,
    PRONOUN,
    SAYING,
    STARTER,
    TIME,
    TITLE,
)

BULLET_CODES = tuple(map(ord, BULLETS))
HEAD_CODES = tuple(map(ord, dict.fromkeys(BULLETS + INLINE_BULLETS)))
_SLOTS = 4096


def build_word_slots(words: Mapping[bytes, int], manner: int) -> Int64s:
    """Build the hash table of words that `find_kind_at` searches: pairs of key and kinds, followed by `manner`.

    Args:
        words: Maps each word, at most eight bytes of UTF-8, to its kinds (a sum of bit flags).
        manner: The conventions of the language, as in `Language.manner`.

    Returns:
        int64. Empty slots have the key 0.
    """
    slots = np.zeros(2 * _SLOTS + 1, np.int64)
    slots[-1] = manner
    for word, kind in words.items():
        key = pack_word(word)
        slot = (key ^ key >> 11 ^ key >> 23 ^ key >> 37) & _SLOTS - 1
        while slots[2 * slot]:
            slot = slot + 1 & _SLOTS - 1
        slots[2 * slot : 2 * slot + 2] = key, kind
    return slots


@kernel
def find_kind_at(data: Bytes, start: int, stop: int, words: Int64s) -> int:
    """Look up the kinds of the word data[start:stop]. Returns a sum of bit flags, or 0 if the word is not listed.

    `words` is the hash table that `build_word_slots` returns.
    """
    key = pack_bytes(data, start, stop)
    slot = (key ^ key >> 11 ^ key >> 23 ^ key >> 37) & _SLOTS - 1
    while words[2 * slot] != 0:
        if words[2 * slot] == key:
            return int(words[2 * slot + 1])
        slot = slot + 1 & _SLOTS - 1
    return 0


@kernel
def classify_before(data: Bytes, at: int, classes: Bytes) -> int:
    """Return the class of the character that ends before byte `at`.

    `classes` is the array that `read_character_classes` returns.
    """
    kind, _ = classify_at(data, find_start_before(data, at), classes)
    return kind


@kernel
def skip_space(data: Bytes, at: int, stop: int, classes: Bytes) -> tuple[int, int]:
    """Return the first byte from `at` to `stop` that is not white space (or `stop`), and the number of newlines
    skipped.

    `classes` is the array that `read_character_classes` returns.
    """
    newlines = 0
    while at < stop:
        kind, width = classify_at(data, at, classes)
        if kind != SPACE:
            break
        newlines += data[at] == 10
        at += width
    return at, newlines


@kernel
def find_space_start(data: Bytes, at: int, begin: int, classes: Bytes) -> int:
    """Return the first byte of the white space that ends before byte `at`, but at least `begin`.

    The result is `at` if there is no white space. `classes` is the array that `read_character_classes` returns.
    """
    while at > begin:
        before = find_start_before(data, at)
        kind, _ = classify_at(data, before, classes)
        if kind != SPACE:
            break
        at = before
    return at


# What lies ahead.


@kernel
def find_word_end(data: Bytes, at: int, stop: int) -> int:
    """Return the byte after the word that begins at byte `at`: ASCII or two-byte letters, at most eight bytes.

    The result is `at` if there is no letter, and at most `stop`.
    """
    end = at
    while end < stop:
        byte = int(data[end])
        width = 1 if 97 <= byte | 32 <= 122 else 2 if 0xC3 <= byte <= 0xD3 else 9
        if end + width > at + 8:
            break
        end += width
    return end


@kernel
def _is_link_at(data: Bytes, at: int, stop: int) -> bool:
    """Return True if one of LINKS ("http://", "https://", "www.") starts at byte `at` and ends before byte `stop`."""
    if stop - at >= 4 and data[at] == 119:  # www.
        return bool(data[at + 1] == 119 and data[at + 2] == 119 and data[at + 3] == 46)
    if stop - at < 7 or data[at] != 104 or data[at + 1] != 116 or data[at + 2] != 116 or data[at + 3] != 112:
        return False
    at += 4 + (data[at + 4] == 115)  # https
    return bool(stop - at >= 3 and data[at] == 58 and data[at + 1] == 47 and data[at + 2] == 47)


@kernel
def can_open_at(data: Bytes, at: int, stop: int, classes: Bytes, cased: int) -> bool:
    """Return True if a sentence can start at byte `at`, as `_can_open` does.

    Args:
        data: UTF-8 bytes of all rows.
        at: First byte of what may be the next sentence.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
        cased: 1 if the row contains a capital letter, otherwise 0.
    """
    lead, spaced = 0, False
    if (data[at] == 40 and _is_lettered_at(data, at, stop)) or _is_left_out_at(data, at, stop):
        return True
    while lead < 2 and at + 1 < stop and data[at] == 44:
        lead, at, spaced = lead + 1, at + 1, lead == 1
    kind, width = classify_at(data, at, classes)
    while lead < 4 and (OPENER <= kind <= DASH or kind == QUOTE or (spaced and data[at] == 32)):
        spaced = kind == DASH or data[at] == 96
        lead, at = lead + 1, at + width
        if at >= stop:
            return False
        kind, width = classify_at(data, at, classes)
    if kind == LOWER:
        return cased == 0 or _is_link_at(data, at, stop)
    return kind == UPPER or DIGIT <= kind <= SYMBOL


@kernel
def _is_left_out_at(data: Bytes, at: int, stop: int) -> bool:
    """Return True if one of LEFT_OUT, such as "[...] ", starts at byte `at` and ends before byte `stop`."""
    if stop - at < 6 or (data[at] != 40 and data[at] != 91):
        return False
    dots = data[at + 1] == 46 and data[at + 2] == 46 and data[at + 3] == 46
    dots |= data[at + 1] == 0xE2 and data[at + 2] == 0x80 and data[at + 3] == 0xA6
    return bool(dots and data[at + 4] == (41 if data[at] == 40 else 93) and data[at + 5] == 32)


@kernel
def _is_lettered_at(data: Bytes, at: int, stop: int) -> bool:
    """Return True if an enumerator in parentheses and a space, such as "(a) ", start at the "(" at byte `at`."""
    end = at + 1
    while end + 1 < min(stop, at + 8) and (data[end] != 41 or data[end + 1] != 32):
        end += 1
    return end + 1 < min(stop, at + 8) and is_enumerator_at(data, at + 1, end)


@kernel
def is_list_item_at(data: Bytes, at: int, stop: int) -> bool:
    """Return True if a list item, such as "- " or "2. ", starts at byte `at`, as `_is_list_item` does for strings."""
    code, width = decode(data, at)
    if code in BULLET_CODES:
        return at + width < stop and data[at + width] == 32
    digits = 0
    while at + digits < stop and digits < 3 and 48 <= data[at + digits] <= 57:
        digits += 1
    at += digits
    return digits > 0 and at + 1 < stop and (data[at] == 46 or data[at] == 41) and data[at + 1] == 32


@kernel
def can_open_dotted_at(data: Bytes, sentence: int, at: int, following: int, stop: int, classes: Bytes) -> bool:
    """Return True if three dots after the full stop at byte `at` open the next sentence, as `_can_open_dotted` does.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: Byte of the full stop.
        following: First byte after the white space that follows.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
    """
    if following + 6 >= stop or at == sentence or classify_before(data, at, classes) <= PERIOD:
        return False
    for step in range(6):
        if data[following + step] != (32 if step % 2 else 46):
            return False
    kind, _ = classify_at(data, following + 6, classes)
    return kind == UPPER


@kernel
def flag_marks(data: Bytes, at: int, run_end: int) -> int:
    """Describe the run of terminators data[at:run_end] by bit flags.

    The result is 1, plus 2 if the run contains "?", plus 4 if it contains "!".

    It is 0 if the run contains characters other than ".", "!" and "?".
    """
    kinds = 1
    for place in range(at, run_end):
        byte = data[place]
        if byte == 63:
            kinds |= 2
        elif byte == 33:
            kinds |= 4
        elif byte != 46:
            return 0
    return kinds


@kernel
def can_open_small_at(
    data: Bytes, sentence: int, at: int, run_end: int, following: int, stop: int, classes: Bytes, words: Int64s
) -> bool:
    """Return True if a lower-case letter starts a sentence at byte `following`, as `_can_open_small` does.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: First byte of the run of terminators.
        run_end: Byte after the run of terminators and closing marks.
        following: First byte after the white space that follows.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.
    """
    following += run_end - at == 1 and data[at] == 46 and data[following] == 40
    if following >= stop or classify_at(data, following, classes)[0] != LOWER:
        return False
    marks = flag_marks(data, at, run_end)
    start = find_word_start(data, sentence, at, classes, words)
    if marks == 0 or start == at or (marks == 1 and run_end - at > 1):
        return False
    ahead_end = find_word_end(data, following, stop)
    ahead = find_kind_at(data, following, ahead_end, words)
    if ahead & SAYING:
        return False
    if marks & 6 and ahead & PRONOUN and ahead_end + 1 < stop:
        after_it = find_word_end(data, ahead_end + 1, stop)
        if find_kind_at(data, ahead_end + 1, after_it, words) & SAYING:
            return False
    if marks & 2:
        return True
    if marks & 4:
        kind, _ = classify_at(data, start, classes)
        return run_end - at > 1 or (kind != UPPER and find_kind_at(data, start, at, words) & CRY == 0)
    return _is_word_end_at(data, sentence, start, at, following, ahead_end, ahead, classes, words)


@kernel
def _is_word_end_at(
    data: Bytes,
    sentence: int,
    start: int,
    at: int,
    following: int,
    ahead_end: int,
    ahead: int,
    classes: Bytes,
    words: Int64s,
) -> bool:
    """Return True if the full stop at byte `at` ends a sentence, although a lower-case letter follows.

    `_is_word_end` does the same for strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        start: First byte of the word.
        at: Byte of the full stop.
        following: First byte of the next word.
        ahead_end: Byte after the next word.
        ahead: Kinds of the next word, from `find_kind_at`.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.
    """
    small, letters, place = True, 0, start
    while place < at:
        if data[place] == 46:
            return False
        kind, width = classify_at(data, place, classes)
        small = small and kind == LOWER
        letters, place = letters + 1, place + width
    if letters == 1 or find_kind_at(data, start, at, words) & ABBREVIATION:
        return False
    if words[-1] & NOUNS and letters > 2 and ahead & STARTER:
        return True
    kind, _ = classify_at(data, start, classes)
    if kind == UPPER:
        return ahead_end - following == 1 and data[following] == 105
    if ahead & PRONOUN:
        return True
    kind, _ = classify_at(data, sentence, classes)
    return small and (letters >= MIN_WORD_LETTERS or kind == LOWER)


@kernel
def is_joined_at(data: Bytes, sentence: int, at: int, run_end: int, stop: int, classes: Bytes, words: Int64s) -> bool:
    """Return True if two sentences meet without a space at byte `run_end`, as `_is_joined` does.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: First byte of the run of terminators.
        run_end: Byte after the run of terminators and closing marks.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.
    """
    if not 65 <= data[run_end] <= 90 or flag_marks(data, at, run_end) == 0:
        return False
    end = find_word_end(data, run_end, stop)
    ahead_kind = find_kind_at(data, run_end, end, words)
    behind = int(data[end]) if end < stop else 0
    spaced = behind == 32 or behind == 39
    if not (ahead_kind & PRONOUN and spaced) and not (ahead_kind & TITLE and behind == 46):
        return False
    start, letters, last = at, 0, OTHER
    while start > sentence:
        before = find_start_before(data, start)
        kind, _ = classify_at(data, before, classes)
        if not (COMMA <= kind <= DIGIT):
            if kind != SPACE and kind != OPENER and kind != QUOTE:
                return False
            break
        last = kind if letters == 0 else last
        letters, start = letters + 1, before
    if letters < 2 or (last != LOWER and last != DIGIT):
        return False
    return not (start == sentence and is_enumerator_at(data, start, at))


# What came before.


@kernel
def find_word_start(data: Bytes, sentence: int, at: int, classes: Bytes, words: Int64s) -> int:
    """Return the first byte of the word that ends before byte `at`, after its opening quotes.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: Byte after the word.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.
    """
    start = at
    while start > sentence:
        before = find_start_before(data, start)
        kind, _ = classify_at(data, before, classes)
        if kind == SPACE or OPENER <= kind <= DASH:
            break
        start = before
    while start < at and classes[data[start]] == QUOTE:
        start += 1
    if words[-1] & ELISION:
        for place in range(start, at):
            if data[place] == 39:
                start = place + 1
            elif data[place] == 0xE2 and data[place + 1] == 0x80 and data[place + 2] == 0x99:
                start = place + 3
    return start


@kernel
def is_abbreviation_at(
    data: Bytes, sentence: int, at: int, following: int, stop: int, cased: int, classes: Bytes, words: Int64s
) -> bool:
    """Return True if the full stop at byte `at` marks an abbreviation, as `_is_abbreviation` does.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: Byte of the full stop.
        following: First byte after the white space that follows.
        stop: End of the row in `data`.
        cased: 1 if the row contains a capital letter, otherwise 0.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.
    """
    start = find_word_start(data, sentence, at, classes, words)
    kind = find_kind_at(data, start, at, words)
    ahead_class, width = classify_at(data, following, classes)
    if kind & NEVER_ENDS or (ahead_class == DIGIT and (kind & BEFORE_NUMBER or _has_degree_sign(data, start, at))):
        return True
    manner = words[-1]
    number = start < at <= start + 3 and _is_number(data, start, at)
    small = start < at and classify_before(data, at, classes) == LOWER and find_start_before(data, at) == start
    capital_i = at - start == 1 and data[start] == 73
    if capital_i and not manner & INITIAL_I:
        return _has_name_before_at(data, sentence, start, classes)
    initial = capital_i or _is_initials_at(data, start, at, classes, cased)
    if not (kind & (TIME | BEFORE_STARTER) or number or small or initial):
        return False
    end = find_word_end(data, following, stop)
    ahead_kind = find_kind_at(data, following, end, words)
    if kind & TIME:
        return ahead_kind & DAY != 0 or start - sentence <= MAX_TIME_BYTES
    if number:
        ordinal = manner & ORDINAL and (ahead_class == UPPER or ahead_class == DASH) and not ahead_kind & STARTER
        return bool(ordinal or ahead_kind & MONTH)
    stopped = end < stop and data[end] == 46
    if stopped and small and end == following + width:
        return True
    return bool((kind & BEFORE_STARTER or initial) and (not ahead_kind & STARTER or stopped))


@kernel
def _is_number(data: Bytes, start: int, stop: int) -> bool:
    """Return True if all bytes of data[start:stop] are ASCII digits."""
    for at in range(start, stop):
        if not 48 <= data[at] <= 57:
            return False
    return True


@kernel
def _has_degree_sign(data: Bytes, start: int, at: int) -> bool:
    """Return True if the word data[start:at] ends in a degree sign or raised "o" that is not its only character."""
    return at - start >= 2 and data[at - 2] == 0xC2 and (data[at - 1] == 0xB0 or data[at - 1] == 0xBA)


@kernel
def _is_initials_at(data: Bytes, start: int, stop: int, classes: Bytes, cased: int) -> bool:
    """Return True if data[start:stop] is a single capital (other than I) or capitals separated by full stops.

    If `cased` is 0, lower-case letters count as capitals. `_is_initials` does the same for strings.
    """
    if start == stop:
        return False
    kind, width = classify_at(data, start, classes)
    if start + width == stop:
        small = data[start] == 73 or data[start] == 105
        return not small and (kind == UPPER or (kind == LOWER and cased == 0))
    while True:
        kind, width = classify_at(data, start, classes)
        start += width
        if kind != UPPER and (kind != LOWER or cased != 0):
            return False
        if start == stop:
            return True
        if data[start] != 46 or start + 1 == stop:
            return False
        start += 1


@kernel
def _has_name_before_at(data: Bytes, sentence: int, at: int, classes: Bytes) -> bool:
    """Return True if a space and a capitalized word are directly before byte `at`.

    The word must not start the sentence, which begins at byte `sentence`. `_has_name_before` does the same for strings.
    `classes` is what `read_character_classes` returns.
    """
    if at <= sentence or data[at - 1] != 32:
        return False
    start, first = at - 1, OTHER
    while start > sentence:
        before = find_start_before(data, start)
        kind, _ = classify_at(data, before, classes)
        if kind != UPPER and kind != LOWER:
            break
        start, first = before, kind
    return start > sentence and first == UPPER


@kernel
def is_enumerator_at(data: Bytes, start: int, stop: int) -> bool:
    """Return True if data[start:stop] can be a list number, such as "12", "b" or "iv", as `_is_enumerator` does for
    strings.
    """
    if stop - start > 5 or stop <= start:
        return False
    digits, letters, roman = 0, 0, 0
    for at in range(start, stop):
        byte = int(data[at])
        small = byte | 32
        digits += 48 <= byte <= 57
        letters += 97 <= small <= 122
        roman += small == 105 or small == 118 or small == 120
    size = stop - start
    if digits == size:
        return size <= 3
    return (size == 1 and letters == 1) or roman == size
