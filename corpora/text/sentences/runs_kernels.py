"""Marks that end a sentence, and what closes on them, read from UTF-8 bytes.

Promise: each kernel says what its twin in `corpora.text.sentences.splitter` says, of a text between two places of a
column; none looks outside them. Cost: each reads the marks, and at wide ones at most 200 characters around them.
"""

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.utf8 import decode, find_start_before
from corpora.text.codepoints import (
    CLOSER,
    DIGIT,
    LOWER,
    OPENER,
    OTHER,
    PERIOD,
    QUOTE,
    SPACE,
    UPPER,
    WIDE_ENDER,
    classify_at,
)
from corpora.text.sentences.languages import (
    ABBREVIATION,
    FIRST_QUOTES,
    JOINING,
    MAX_CITATION_BYTES,
    MAX_LABEL_BYTES,
    MAX_QUOTE_CHARACTERS,
    MIN_CLAUSE_BYTES,
    MIN_WORD_LETTERS,
    NOUNS,
    QUOTING,
    REPEATED,
    STARTER,
    WIDE_CLOSERS,
    WIDE_OPENERS,
)
from corpora.text.sentences.words import classify_before, find_kind_at, find_word_end, skip_space

_QUOTING_CODES, _JOINING_CODES = tuple(map(ord, QUOTING)), tuple(map(ord, JOINING))
_WIDE_OPENERS, _WIDE_CLOSERS = tuple(map(ord, WIDE_OPENERS)), tuple(map(ord, WIDE_CLOSERS))
_REPEATED = tuple(map(ord, REPEATED))
_FIRST_QUOTES = tuple(map(ord, FIRST_QUOTES))


@kernel
def find_run_end_at(
    data: Bytes, sentence: int, begin: int, stop: int, classes: Bytes, words: Int64s
) -> tuple[int, int]:
    """Find the end of a run of terminators in UTF-8 bytes, as `find_run_end` does for strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        begin: First byte of the run.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.

    Returns:
        The byte after the run, its closing marks and citations, and 1 if the run contains a wide terminator, otherwise
        0.
    """
    wide, at = 0, begin
    while True:
        while at < stop:
            kind, width = classify_at(data, at, classes)
            if not PERIOD <= kind <= QUOTE:
                break
            if kind == WIDE_ENDER:
                wide = 1
            at += width
        step = _measure_closing_quote(data, at, stop)
        if step == 0 or (at + step < stop and classify_at(data, at + step, classes)[0] != SPACE):
            return _skip_citations_at(data, sentence, begin, at, stop, classes, words), wide
        at += step


@kernel
def _measure_closing_quote(data: Bytes, at: int, stop: int) -> int:
    """Return the length in bytes of a quote that may close a quotation at byte `at`, or 0 if there is none.

    It is a quote that usually opens, or a space followed by one that closes. `stop` is the end of the row.
    """
    if stop - at < 2:
        return 0
    first, second = int(data[at]), int(data[at + 1])
    if first == 0xC2 and second == 0xAB:
        return 2
    if stop - at < 3:
        return 0
    third = int(data[at + 2])
    if first == 0xE2 and second == 0x80 and (third == 0x9C or third == 0x98):
        return 3
    if first == 32 and ((second == 39 and third == 39) or (second == 0xC2 and third == 0xBB)):
        return 3
    return 4 if first == 32 and second == 0xE2 and third == 0x80 and stop - at > 3 and data[at + 3] == 0x9D else 0


@kernel
def _skip_citations_at(data: Bytes, sentence: int, at: int, end: int, stop: int, classes: Bytes, words: Int64s) -> int:
    """Return the byte after the citations that follow a terminator, such as "[1][2]" or "10", as `_skip_citations`
    does.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: First byte of the run of terminators.
        end: Byte after the run, which is returned if there is no citation before white space.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.
    """
    place = end
    while place + 1 < stop and data[place] == 91 and _is_alphanumeric(int(data[place + 1])):
        close = place + 1
        while close < min(stop, place + MAX_CITATION_BYTES) and data[close] != 93:
            close += 1
        if close >= min(stop, place + MAX_CITATION_BYTES):
            return end
        place = close + 1
    if place == end == at + 1 and data[at] == 46 and place < stop and 48 <= data[place] <= 57:
        place = _skip_number_at(data, place, stop)
        second = _skip_number_at(data, place + 1, stop)
        place = second if end < place < stop and data[place] == 32 and place + 1 < second else place
        if not _can_be_note_at(data, sentence, at, classes, words):
            return end
    return place if place == stop or classify_at(data, place, classes)[0] == SPACE else end


@kernel
def _skip_number_at(data: Bytes, at: int, stop: int) -> int:
    """Return the byte after a number of at most three digits that begins at byte `at`, or `at` if there is none."""
    place = at
    while place < min(at + 3, stop) and 48 <= data[place] <= 57:
        place += 1
    return place


@kernel
def _is_alphanumeric(byte: int) -> bool:
    """Return True if a byte is an ASCII letter or digit. Bytes of other characters are not."""
    return 97 <= byte | 32 <= 122 or 48 <= byte <= 57


@kernel
def is_wide_at(data: Bytes, at: int, stop: int) -> bool:
    """Return True if a Chinese or Japanese character is at byte `at`, and False if `at` is `stop`."""
    code, _ = decode(data, at) if at < stop else (0, 1)
    return 0x3041 <= code <= 0x9FFF


@kernel
def is_wide_end_at(data: Bytes, sentence: int, at: int, run_end: int, stop: int, classes: Bytes) -> bool:
    """Return True if the terminator at byte `at` ends a Chinese or Japanese sentence, as `is_wide_end` does for
    strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: First byte of the terminator.
        run_end: Byte after the run of terminators and closing marks.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
    """
    code, _ = decode(data, at)
    if code == 0xFF0E and at > sentence and classify_before(data, at, classes) == DIGIT:
        return False
    if run_end < stop:
        code, _ = decode(data, run_end)
        if code in _QUOTING_CODES or (code in _JOINING_CODES and classify_before(data, run_end, classes) == CLOSER):
            return False
    return not _is_in_quotes_at(data, sentence, run_end, stop, classes)


@kernel
def _is_in_quotes_at(data: Bytes, sentence: int, at: int, stop: int, classes: Bytes) -> bool:
    """Return True if byte `at` is within wide quotes or brackets that open and close nearby, on the same line.

    Nearby means at most MAX_QUOTE_CHARACTERS before and after. `_is_in_quotes` does the same for strings.

    Args:
        data: UTF-8 bytes.
        sentence: First byte of the current sentence. Quotes that open before it do not count.
        at: First byte of the character.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
    """
    pairs, place = 0, at
    for _ in range(MAX_QUOTE_CHARACTERS):
        if place <= sentence or pairs < 0:
            break
        place = find_start_before(data, place)
        if data[place] == 10:
            return False
        kind, _ = classify_at(data, place, classes)
        if kind == OPENER or kind == CLOSER or kind == OTHER:
            code, _ = decode(data, place)
            pairs += int(code in _WIDE_CLOSERS) - int(code in _WIDE_OPENERS)
    if pairs >= 0:
        return False
    pairs = 0
    for _ in range(MAX_QUOTE_CHARACTERS):
        if at >= stop or data[at] == 10 or pairs < 0:
            break
        kind, width = classify_at(data, at, classes)
        if kind == OPENER or kind == CLOSER or kind == OTHER:
            code, _ = decode(data, at)
            pairs += int(code in _WIDE_OPENERS) - int(code in _WIDE_CLOSERS)
        at += width
    return pairs < 0


@kernel
def find_colon_end_at(
    data: Bytes, sentence: int, at: int, stop: int, classes: Bytes, words: Int64s
) -> tuple[int, int, int]:
    """Find the end of a sentence at a colon or semicolon before a capital, as `find_colon_end` does for strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: Byte of the colon or semicolon.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.

    Returns:
        The end of the sentence (`sentence` if it does not end here), the byte to continue at, and the number of
        newlines skipped.
    """
    following, newlines = skip_space(data, at + 1, stop, classes)
    first = following
    if first < stop and words[-1] & NOUNS == 0:
        code, width = decode(data, first)
        first += width if code in _FIRST_QUOTES else 0
    if following == at + 1 or first >= stop or classify_at(data, first, classes)[0] != UPPER:
        return sentence, at + 1, 0
    if words[-1] & NOUNS:
        opens = find_kind_at(data, first, find_word_end(data, first, stop), words) & STARTER
        if opens == 0 or at - sentence < MAX_LABEL_BYTES or classify_before(data, at, classes) == QUOTE:
            return sentence, at + 1, 0
    return at + 1, following, newlines


@kernel
def find_spaced_start_at(data: Bytes, sentence: int, at: int, stop: int, classes: Bytes) -> int:
    """Return the first byte of the next sentence if a Thai or Lao sentence ends here (`is_spaced_end`), otherwise 0.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: Byte of the space.
        stop: End of the row in `data`.
        classes: Character classes, from `read_character_classes`.
    """
    following, newlines = skip_space(data, at, stop, classes)
    if newlines or at - sentence < MIN_CLAUSE_BYTES or following >= stop:
        return 0
    before, _ = decode(data, find_start_before(data, at))
    ahead, _ = decode(data, following)
    letters = 0xE01 <= before <= 0xEFF and 0xE01 <= ahead <= 0xEFF
    return following if letters and before not in _REPEATED and ahead not in _REPEATED else 0


@kernel
def _can_be_note_at(data: Bytes, sentence: int, at: int, classes: Bytes, words: Int64s) -> bool:
    """Return True if a number after the full stop at byte `at` can refer to a note, as `_can_be_note` does for strings.

    Args:
        data: UTF-8 bytes of all rows.
        sentence: First byte of the current sentence.
        at: Byte of the full stop.
        classes: Character classes, from `read_character_classes`.
        words: Hash table of the language's words, from `build_word_slots`.
    """
    start, letters = at, 0
    while start > sentence and letters < 9:
        before = find_start_before(data, start)
        kind, _ = classify_at(data, before, classes)
        if kind == CLOSER and letters == 0:
            return True
        if kind != LOWER:
            break
        letters, start = letters + 1, before
    return letters >= MIN_WORD_LETTERS and find_kind_at(data, start, at, words) & ABBREVIATION == 0
