"""Sentences: where each one begins and ends, as byte offsets into the UTF-8 text.

Promise: the sentences of a document are non-empty, trimmed, in order and apart, and together they hold
every byte that is not white space. `split_sentences` is the definition; `sentence_offsets` finds the same
offsets in a whole column, two passes over its bytes and no Python object per sentence.

A sentence ends
- at a blank line, always;
- at a line end before a list item ("- ", "2. "), and before a line that could open a sentence when the line
  above has no sentence punctuation and is shorter than `SHORT_LINE` bytes (a heading) or longer than
  `LONG_LINE` (a paragraph to a line, for nothing is wrapped that wide); any other line end is a space, so
  prose that is wrapped at a column stays whole;
- after . ! ? or … with the quotes and brackets that close on it, if white space follows and then what can
  open a sentence: a capital, a digit, a symbol, a letter of a script without case, or one of these behind
  opening quotes, brackets or dashes. So it splits inside quotations, and not before `he said`;
- after 。！？｡ whatever follows.
A lone full stop does not end it after an abbreviation, an initial or an enumerator ("3." at the very
start): `WORDS` says which. In a document without one capital (the uncased profiles) a small letter opens a
sentence.
"""
# ruff: noqa: RUF001, RUF002 - typographic marks are the subject here

import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.kernels import kernel

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

SHORT_LINE = 50  # bytes: books are wrapped at 60 to 80, so a shorter open line is a heading or a verse
LONG_LINE = 120

# What a character is to the splitter. The order matters: only those up to WIDE_ENDER start a decision, and
# the kernels compare ranges.
SPACE, PERIOD, ENDER, WIDE_ENDER, CLOSER, QUOTE, OPENER, DASH = range(8)
COMMA, UPPER, LOWER, DIGIT, LETTER, SYMBOL, OTHER = range(8, 15)
_TABLE_SIZE = 0x20000  # above stand ideographs up to 0x3FFFF, and nothing that opens or ends a sentence
_SPECIAL = {
    PERIOD: ".",
    ENDER: "!?…‽",
    WIDE_ENDER: "。！？｡",
    CLOSER: ")]}»›”’」』】）",
    QUOTE: "\"'`",
    OPENER: "([{«‹“‘„‚「『【（¿¡_*",
    DASH: "-‐‑‒–—―",
    COMMA: ",;",
}
BULLETS = "-*•‣▪●◦"

# What a word of at most eight ASCII bytes says about the full stop behind it, or the one before it.
NEVER_ENDS, BEFORE_NUMBER, BEFORE_STARTER, STARTER = 1, 2, 4, 8
_WORD_LISTS = {
    NEVER_ENDS: "adm al approx asst capt cf cmdr col cpl dr drs e.g eg esp gen gov hon i.e ie incl lt "
    "maj messrs mlle mme mr mrs ms pres prof pvt rep rev sen sgt supt viz vs",
    BEFORE_NUMBER: "apr art aug ca ch chap dec eq ext feb fig figs jan jul jun mar no nos nov oct op p "
    "pp ref refs sec sep sept tel vol vols",
    BEFORE_STARTER: "ave blvd bros co corp dept ft inc jr ltd mt rd sr st univ",
    STARTER: "a after all although an and as at both but by during each every few for from he her "
    "here his how however i if in is it its many more most my no not now on one or our "
    "people she since so some still such that the their then there these they this those "
    "though thus to today two under until we what when where which while who why with yes "
    "yet you your",
}


def _word_kinds() -> dict[bytes, int]:
    """Each listed word with the sum of what it says."""
    kinds: dict[bytes, int] = {}
    for kind, words in _WORD_LISTS.items():
        for word in words.encode().split():
            kinds[word] = kinds.get(word, 0) | kind
    return kinds


WORDS = _word_kinds()


# --- The definition, over str ----------------------------------------------------------------------


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Byte offsets (start, end) of the sentences of a text.

    >>> split_sentences('"He left." She saw Dr. Grey.')
    [(0, 10), (11, 28)]
    """
    place = [0]
    for character in text:
        place.append(place[-1] + len(character.encode()))
    return [(place[start], place[end]) for start, end in _spans(text)]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """The sentences as character offsets."""
    cased = any(_class(character) == UPPER for character in text)
    stop = len(text.rstrip())
    sentence = line = at = _after(text, 0, (SPACE,))
    while at < stop:
        run_end = at
        if _class(text[at]) in (PERIOD, ENDER, WIDE_ENDER):
            run_end = _after(text, at, (PERIOD, ENDER, WIDE_ENDER, CLOSER, QUOTE))
        following = _after(text, run_end, (SPACE,))
        if following == at:
            at += 1
            continue
        run, newlines = text[at:run_end], text[run_end:following].count("\n")
        wide = any(_class(character) == WIDE_ENDER for character in run)
        if following < stop and (
            wide or (following > run_end and _ends(text, sentence, line, at, run, following, newlines, cased))
        ):
            yield sentence, run_end
            sentence = following
        line = following if newlines else line
        at = following
    if sentence < stop:
        yield sentence, stop


def _ends(text: str, sentence: int, line: int, at: int, run: str, following: int, newlines: int, cased: bool) -> bool:
    """Whether the sentence ends before `following`, with the run of terminators at `at` (empty: none)."""
    if newlines > 1 or (newlines and _list_item(text[following : following + 5])):
        return True
    if not _opens(text[following : following + 9], cased):
        return False
    if not run:
        size = len(text[line:at].encode())
        return bool(newlines) and _class(text[at - 1]) != COMMA and not SHORT_LINE <= size <= LONG_LINE
    return run != "." or not _abbreviated(text[sentence:at], text[following : following + 9], cased)


def _opens(ahead: str, cased: bool) -> bool:
    """Whether what lies ahead can open a sentence, behind at most four openers, quotes or dashes."""
    lead = 0
    while lead < 4 and lead < len(ahead):
        after_dash = lead > 0 and _class(ahead[lead - 1]) == DASH and ahead[lead] == " "
        if not (after_dash or _class(ahead[lead]) in (OPENER, QUOTE, DASH)):
            break
        lead += 1
    kinds = (UPPER, DIGIT, LETTER, SYMBOL) if cased else (UPPER, DIGIT, LETTER, SYMBOL, LOWER)
    return lead < len(ahead) and _class(ahead[lead]) in kinds


def _list_item(ahead: str) -> bool:
    """Whether a line opens with a bullet, or with a number of up to three digits and . or ), and a space."""
    head, space, _ = ahead.partition(" ")
    number = head[:-1].encode()
    numbered = 1 <= len(number) <= 3 and number.isdigit() and head[-1] in ".)"
    return bool(space) and (numbered or (len(head) == 1 and head in BULLETS))


def _abbreviated(before: str, ahead: str, cased: bool) -> bool:
    """Whether the full stop between `before` (the sentence so far) and `ahead` belongs to its word alone."""
    start = len(before)
    while start and _class(before[start - 1]) not in (SPACE, OPENER, DASH):
        start -= 1
    while start < len(before) and _class(before[start]) == QUOTE:
        start += 1
    word = before[start:]
    kind = WORDS.get(word.encode().lower(), 0)
    if kind & NEVER_ENDS or (kind & BEFORE_NUMBER and _class(ahead[0]) == DIGIT):
        return True
    if start == 0 and _enumerator(word.encode()):
        return True
    return bool(kind & BEFORE_STARTER or _initials(word, cased)) and not _starter(ahead.encode()[:9])


def _enumerator(word: bytes) -> bool:
    """Whether a word can number what follows it: up to three digits, one letter, a small Roman number."""
    if word.isdigit():
        return len(word) <= 3
    return (len(word) == 1 and word.isalpha()) or (0 < len(word) <= 5 and not word.strip(b"ivxIVX"))


def _initials(word: str, cased: bool) -> bool:
    """Whether a word is one capital (other than I) or ASCII capitals with full stops between them."""
    capitals = (UPPER,) if cased else (UPPER, LOWER)
    letters = word[::2]
    return (
        len(word) % 2 == 1
        and word not in ("I", "i")
        and set(word[1::2]) <= {"."}
        and all(_class(letter) in capitals for letter in letters)
        and (len(word) == 1 or letters.isascii())
    )


def _starter(ahead: bytes) -> bool:
    """Whether the next word is one that opens sentences and rarely follows an abbreviation."""
    size = 0
    while size < len(ahead) and ahead[size : size + 1].isalpha():
        size += 1
    return bool(WORDS.get(ahead[:size].lower(), 0) & STARTER) and ahead[size : size + 1] != b"."


def _after(text: str, at: int, kinds: tuple[int, ...]) -> int:
    """The first place from `at` on whose character is of none of these kinds."""
    while at < len(text) and _class(text[at]) in kinds:
        at += 1
    return at


def _class(character: str) -> int:
    """What a character is to the splitter."""
    code = ord(character)
    return int(character_classes()[code]) if code < _TABLE_SIZE else LETTER if code < 0x40000 else OTHER


@cache
def character_classes() -> Bytes:
    """The kind of every code point below 0x20000, by Unicode category but for the marks named above."""
    categories = {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER, "Lo": LETTER, "Lm": LETTER, "Nd": DIGIT, "Nl": DIGIT}
    categories |= {"Sc": SYMBOL, "So": SYMBOL, "Sm": SYMBOL, "Sk": SYMBOL}
    classes = np.full(_TABLE_SIZE, OTHER, np.uint8)
    for code in range(_TABLE_SIZE):
        character = chr(code)
        kind = categories.get(unicodedata.category(character), OTHER)
        classes[code] = SPACE if character.isspace() else kind
    for kind, characters in _SPECIAL.items():
        classes[[ord(character) for character in characters]] = kind
    classes.flags.writeable = False
    return classes


# --- The kernel, over UTF-8 bytes ------------------------------------------------------------------


def sentence_offsets(data: Bytes, offsets: Integers) -> tuple[Integers, Integers, Integers]:
    """Where the sentences of every row begin and end: starts, ends, rows, all int64.

    Row i is data[offsets[i]:offsets[i + 1]], valid UTF-8; its sentences are rows[i] to rows[i + 1], the j-th
    being data[starts[j]:ends[j]].
    """
    return _split_rows(data, offsets, _tables())


class _Tables(NamedTuple):
    """What the kernels look up: character classes, bullets, and WORDS as sorted keys (`pack`) with kinds."""

    classes: Bytes
    bullets: Integers
    keys: Integers
    kinds: Bytes


@cache
def _tables() -> _Tables:
    """The tables of the definition, as arrays."""
    bullets = np.array([ord(bullet) for bullet in BULLETS], np.int64)
    keys = np.array([int.from_bytes(word, "big") for word in WORDS], np.int64)
    kinds = np.array(list(WORDS.values()), np.uint8)
    order = np.argsort(keys)
    return _Tables(character_classes(), bullets, keys[order], kinds[order])


@kernel
def decode(data: Bytes, at: int) -> tuple[int, int]:
    """The code point that begins at byte `at` of valid UTF-8, and its width in bytes."""
    first = int(data[at])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | int(data[at + 1]) & 0x3F, 2
    middle = (int(data[at + 1]) & 0x3F) << 6 | int(data[at + 2]) & 0x3F
    if first < 0xF0:
        return (first & 0x0F) << 12 | middle, 3
    return (first & 0x07) << 18 | middle << 6 | int(data[at + 3]) & 0x3F, 4


@kernel
def back(data: Bytes, at: int) -> int:
    """Where the code point that ends before byte `at` begins."""
    at -= 1
    while data[at] & 0xC0 == 0x80:
        at -= 1
    return at


@kernel
def _kind(data: Bytes, at: int, classes: Bytes) -> tuple[int, int]:
    """The class of the character at byte `at`, and its width."""
    code, width = decode(data, at)
    if code < classes.size:
        return int(classes[code]), width
    return (LETTER if code < 0x40000 else OTHER), width


@kernel
def pack(data: Bytes, start: int, stop: int) -> int:
    """Up to eight bytes as one integer, big end first, ASCII capitals made small; 0 for none or more."""
    if stop - start > 8:
        return 0
    key = 0
    for at in range(start, stop):
        byte = int(data[at])
        key = key << 8 | (byte + 32 if 65 <= byte <= 90 else byte)
    return key


@kernel
def _look_up(data: Bytes, start: int, stop: int, tables: _Tables) -> int:
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
        kind, width = _kind(data, at, classes)
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
        kind, width = _kind(data, at, classes)
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
    kind, width = _kind(data, at, classes)
    while lead < 4 and (OPENER <= kind <= DASH or kind == QUOTE or (dashed and data[at] == 32)):
        dashed = kind == DASH
        lead, at = lead + 1, at + width
        if at >= stop:
            return False
        kind, width = _kind(data, at, classes)
    return kind == UPPER or DIGIT <= kind <= SYMBOL or (kind == LOWER and cased == 0)


@kernel
def _lists_at(data: Bytes, at: int, stop: int, tables: _Tables) -> bool:
    """The twin of `_list_item`."""
    code, width = decode(data, at)
    for bullet in tables.bullets:
        if code == bullet:
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
    kind, width = _kind(data, start, classes)
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
def _starts_at(data: Bytes, at: int, stop: int, tables: _Tables) -> bool:
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
        kind, _ = _kind(data, before, classes)
        if kind == SPACE or OPENER <= kind <= DASH:
            break
        start = before
    while start < at and classes[data[start]] == QUOTE:
        start += 1
    return start


@kernel
def _abbreviates(data: Bytes, sentence: int, at: int, following: int, stop: int, cased: int, tables: _Tables) -> bool:
    """The twin of `_abbreviated`, for the full stop at `at`."""
    classes = tables.classes
    start = _word_start(data, sentence, at, classes)
    kind = _look_up(data, start, at, tables)
    if kind & NEVER_ENDS or (kind & BEFORE_NUMBER and _kind(data, following, classes)[0] == DIGIT):
        return True
    if start == sentence and _enumerates(data, start, at):
        return True
    if kind & BEFORE_STARTER or _initials_at(data, start, at, classes, cased):
        return not _starts_at(data, following, stop, tables)
    return False


@kernel
def _open_line_ends(data: Bytes, line: int, at: int, newlines: int, classes: Bytes) -> bool:
    """Whether a line without sentence punctuation stands alone: a heading, or a paragraph to a line."""
    if newlines == 0 or _kind(data, back(data, at), classes)[0] == COMMA:
        return False
    return not SHORT_LINE <= at - line <= LONG_LINE


@kernel
def _has_capital(data: Bytes, at: int, stop: int, classes: Bytes) -> int:
    """1 where a row holds a capital letter, else 0."""
    while at < stop:
        kind, width = _kind(data, at, classes)
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
    tables: _Tables,
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
def _split_row(
    data: Bytes, begin: int, stop: int, tables: _Tables, starts: Integers, ends: Integers, count: int
) -> int:
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
        kind, width = _kind(data, at, classes)
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
def _split_rows(data: Bytes, offsets: Integers, tables: _Tables) -> tuple[Integers, Integers, Integers]:
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
