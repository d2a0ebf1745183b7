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
start): `WORDS`, in `corpora.text.sentence_signs`, says which. In a document without one capital (the uncased
profiles) a small letter opens a sentence.
"""
# ruff: noqa: RUF002 - typographic marks are the subject here

from collections.abc import Iterator
from functools import cache

import numpy as np

from corpora.text.codepoints import (
    BULLETS,
    CLOSER,
    COMMA,
    DASH,
    DIGIT,
    ENDER,
    LETTER,
    LOWER,
    OPENER,
    PERIOD,
    QUOTE,
    SPACE,
    SYMBOL,
    UPPER,
    WIDE_ENDER,
    Bytes,
    Integers,
    character_class,
    character_classes,
    code_points,
    packed,
)
from corpora.text.sentence_kernels import Tables, split_rows
from corpora.text.sentence_signs import (
    BEFORE_NUMBER,
    BEFORE_STARTER,
    LONG_LINE,
    NEVER_ENDS,
    SHORT_LINE,
    STARTER,
    WORDS,
)


def sentence_offsets(data: Bytes, offsets: Integers) -> tuple[Integers, Integers, Integers]:
    """Where the sentences of every row begin and end: starts, ends, rows, all int64.

    Row i is data[offsets[i]:offsets[i + 1]], valid UTF-8; its sentences are rows[i] to rows[i + 1], the j-th
    being data[starts[j]:ends[j]].
    """
    return split_rows(data, offsets, _tables())


@cache
def _tables() -> Tables:
    """The tables of the definition, as arrays."""
    keys = np.array([packed(word) for word in WORDS], np.int64)
    kinds = np.array(list(WORDS.values()), np.uint8)
    order = np.argsort(keys)
    return Tables(character_classes(), code_points(BULLETS), keys[order], kinds[order])


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
    cased = any(character_class(character) == UPPER for character in text)
    stop = len(text.rstrip())
    sentence = line = at = _after(text, 0, (SPACE,))
    while at < stop:
        run_end = at
        if character_class(text[at]) in (PERIOD, ENDER, WIDE_ENDER):
            run_end = _after(text, at, (PERIOD, ENDER, WIDE_ENDER, CLOSER, QUOTE))
        following = _after(text, run_end, (SPACE,))
        if following == at:
            at += 1
            continue
        run, newlines = text[at:run_end], text[run_end:following].count("\n")
        wide = any(character_class(character) == WIDE_ENDER for character in run)
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
        return bool(newlines) and character_class(text[at - 1]) != COMMA and not SHORT_LINE <= size <= LONG_LINE
    return run != "." or not _abbreviated(text[sentence:at], text[following : following + 9], cased)


def _opens(ahead: str, cased: bool) -> bool:
    """Whether what lies ahead can open a sentence, behind at most four openers, quotes or dashes."""
    lead = 0
    while lead < 4 and lead < len(ahead):
        after_dash = lead > 0 and character_class(ahead[lead - 1]) == DASH and ahead[lead] == " "
        if not (after_dash or character_class(ahead[lead]) in (OPENER, QUOTE, DASH)):
            break
        lead += 1
    kinds = (UPPER, DIGIT, LETTER, SYMBOL) if cased else (UPPER, DIGIT, LETTER, SYMBOL, LOWER)
    return lead < len(ahead) and character_class(ahead[lead]) in kinds


def _list_item(ahead: str) -> bool:
    """Whether a line opens with a bullet, or with a number of up to three digits and . or ), and a space."""
    head, space, _ = ahead.partition(" ")
    number = head[:-1].encode()
    numbered = 1 <= len(number) <= 3 and number.isdigit() and head[-1] in ".)"
    return bool(space) and (numbered or (len(head) == 1 and head in BULLETS))


def _abbreviated(before: str, ahead: str, cased: bool) -> bool:
    """Whether the full stop between `before` (the sentence so far) and `ahead` belongs to its word alone."""
    start = len(before)
    while start and character_class(before[start - 1]) not in (SPACE, OPENER, DASH):
        start -= 1
    while start < len(before) and character_class(before[start]) == QUOTE:
        start += 1
    word = before[start:]
    kind = WORDS.get(word.encode().lower(), 0)
    if kind & NEVER_ENDS or (kind & BEFORE_NUMBER and character_class(ahead[0]) == DIGIT):
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
        and all(character_class(letter) in capitals for letter in letters)
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
    while at < len(text) and character_class(text[at]) in kinds:
        at += 1
    return at
