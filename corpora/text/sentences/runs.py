"""Marks that end a sentence, and what closes on them: quotes, brackets, citations, the marks of Chinese and Japanese.

Promise: the definition, part of `corpora.text.sentences.splitter`; `corpora.text.sentences.runs_kernels` has the
kernels, each named after its twin here.
"""
# ruff: noqa: RUF001 - typographic marks are the subject here

from corpora.text.codepoints import (
    CLOSER,
    DIGIT,
    ENDER,
    LOWER,
    PERIOD,
    QUOTE,
    SPACE,
    UPPER,
    WIDE_ENDER,
    character_class,
)
from corpora.text.sentences.languages import NOUNS, Language
from corpora.text.sentences.signs import (
    ABBREVIATION,
    FIRST_QUOTES,
    JOINING,
    LONG_CITATION,
    LONG_CLAUSE,
    LONG_LABEL,
    LONG_QUOTE,
    LONG_WORD,
    QUOTING,
    REPEATED,
    STARTER,
    WIDE_CLOSERS,
    WIDE_OPENERS,
)


def run_end_of(text: str, sentence: int, at: int, reading: Language) -> int:
    """Return where the terminators and what closes on them end: quotes, too, and citations before white space."""
    run_end = at
    while True:
        end = after(text, run_end, (PERIOD, ENDER, WIDE_ENDER, CLOSER, QUOTE))
        ahead = text[end : end + 1]
        run_end = end + (ahead in ("“", "‘", "«") or (2 if text[end : end + 2] in (" ”", " »") else 0))
        run_end += 3 if text[end : end + 3] == " ''" else 0
        if run_end == end or (run_end < len(text) and character_class(text[run_end]) != SPACE):
            return _cited(text, sentence, at, end, reading)


def _cited(text: str, sentence: int, at: int, end: int, reading: Language) -> int:
    """Return the end of the citations at a place after a terminator, "[1][2]" or "10", if white space follows."""
    place = end
    while text[place : place + 1] == "[" and text[place + 1 : place + 2].encode().isalnum():
        close = text.find("]", place, place + LONG_CITATION)
        if close < 0 or len(text[place:close].encode()) >= LONG_CITATION:
            return end
        place = close + 1
    if place == end == at + 1 and text[at] == "." and _noted(text, sentence, at, reading):
        place = _after_number(text, place)
        second = _after_number(text, place + 1)
        place = second if end < place and text[place : place + 1] == " " and place + 1 < second else place
    return place if place == len(text) or character_class(text[place]) == SPACE else end


def _after_number(text: str, at: int) -> int:
    """Return where a number of at most three digits ends; `at` if there is none."""
    place = at
    while place < min(at + 3, len(text)) and "0" <= text[place] <= "9":
        place += 1
    return place


def _noted(text: str, sentence: int, at: int, reading: Language) -> bool:
    """Return True if a number after a full stop can be that of a note: after brackets, or a small word that is long."""
    start = at
    while start > max(sentence, at - 9) and character_class(text[start - 1]) == LOWER:
        start -= 1
    closed = at > sentence and character_class(text[at - 1]) == CLOSER
    return closed or (at - start >= LONG_WORD and not kind_of(text[start:at], reading) & ABBREVIATION)


def ends_wide(text: str, sentence: int, at: int, run_end: int) -> bool:
    """Return True if a terminator ends a sentence of Chinese or Japanese, where no space follows it.

    It does not before a particle that quotes, nor within quotes or brackets that close soon, nor as a decimal point.
    """
    if text[at] == "．" and at > sentence and character_class(text[at - 1]) == DIGIT:
        return False
    ahead = text[run_end : run_end + 1]
    if ahead and (ahead in QUOTING or (ahead in JOINING and character_class(text[run_end - 1]) == CLOSER)):
        return False
    return not _within(text, sentence, run_end)


def _within(text: str, sentence: int, at: int) -> bool:
    """Return True if a place is inside of wide quotes or brackets on its line that are not longer than LONG_QUOTE."""
    before, ahead = text[max(sentence, at - LONG_QUOTE) : at][::-1], text[at : at + LONG_QUOTE]
    return _unpaired(before, WIDE_OPENERS, WIDE_CLOSERS) and _unpaired(ahead, WIDE_CLOSERS, WIDE_OPENERS)


def _unpaired(text: str, wanted: str, others: str) -> bool:
    """Return True if one of the wanted marks is on a line that no other mark before it pairs with."""
    pairs = 0
    for character in text.partition("\n")[0]:
        pairs += (character in others) - (character in wanted)
        if pairs < 0:
            return True
    return False


def is_wide(character: str) -> bool:
    """Return True for a character of Chinese or Japanese."""
    return "ぁ" <= character <= "\u9fff"


def halves(text: str, sentence: int, at: int, reading: Language) -> tuple[int, int, int]:
    """Return what `_boundary` does, for a colon or a semicolon of a language if they end a sentence at a capital.

    Where nouns have capitals, a word that opens sentences must follow, and no label ("Ihr Ziel: Wir") and no quote may
    be before it.
    """
    following = after(text, at + 1, (SPACE,))
    quoted = not reading.manner & NOUNS and text[following : following + 1] in tuple(FIRST_QUOTES)
    first = following + quoted
    if following == at + 1 or first >= len(text) or character_class(text[first]) != UPPER:
        return 0, at + 1, 0
    opens = reading.words.get(next_word(text, first).lower(), 0) & STARTER
    opens = opens and character_class(text[at - 1]) != QUOTE
    if reading.manner & NOUNS and (not opens or len(text[sentence:at].encode()) < LONG_LABEL):
        return 0, at + 1, 0
    return at + 1, following, text[at + 1 : following].count("\n")


def parts_spaced(text: str, sentence: int, at: int, following: int) -> bool:
    """Return True if a space ends a sentence of Thai or Lao: after enough letters, between two of them."""
    behind, ahead = text[at - 1], text[following : following + 1]
    within = text[at] == " " and "\n" not in text[at:following] and at > sentence
    letters = all("\u0e01" <= letter <= "\u0eff" and letter not in REPEATED for letter in (behind, ahead or " "))
    return within and letters and len(text[sentence:at].encode()) >= LONG_CLAUSE


def next_word(text: str, at: int) -> bytes:
    """The letters from a place on, ASCII or of two bytes, eight bytes at most."""
    word = b""
    for character in text[at : at + 8]:
        letter = character.encode()
        if len(word + letter) > 8 or not (letter.isalpha() or "À" <= character <= "\u04ff"):
            break
        word += letter
    return word


def kind_of(word: str, reading: Language) -> int:
    """Return the kind of a word in the language."""
    return reading.words.get(word.encode().lower(), 0)


def after(text: str, at: int, kinds: tuple[int, ...]) -> int:
    """The first place from `at` on whose character is of none of these kinds."""
    while at < len(text) and character_class(text[at]) in kinds:
        at += 1
    return at
