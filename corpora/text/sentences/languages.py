"""Languages as the sentence splitter knows them: a table of abbreviations each, and what else ends a sentence there.

Promise: a table, of lines of words.tsv, holds what a dictionary of the language lists as abbreviations, with the words
that open its sentences; not those that open surnames ("De", "La", "Van"). A text of another language, or of one that is
not certain, is read with `EVERY`: English, and what cannot be taken for a word of another language.
Cost: made at import, in milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from corpora.text.sentences.signs import ABBREVIATION, MONTH, WORD_LISTS, WORDS, word_kinds

# What else a language does: "3. Mai" is no end; "I." is an initial; a colon or a semicolon ends before a capital;
# what an apostrophe joins to a word is not of it, as in "l'Ing."; nouns have capitals, so a colon or semicolon ends
# only before a word that opens sentences; a space ends one.
ORDINAL, INITIAL_I, COLON, SEMICOLON, ELISION, NOUNS, SPACED = 1, 2, 4, 8, 16, 32, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The words of a language, with the sum of what each says, and the sum of what else the language does.

    code: ISO 639; "" for one that is not certain, "*" for one without a table
    words: at most eight bytes of UTF-8, ASCII letters small
    cased: whether the text that is read has capitals
    """

    code: str
    words: Mapping[bytes, int]
    manner: int = 0
    cased: bool = True


_MANNERS = {
    "de": ORDINAL | INITIAL_I | COLON | SEMICOLON | NOUNS, "fr": INITIAL_I | SEMICOLON | ELISION,
    "es": INITIAL_I | SEMICOLON, "it": INITIAL_I | COLON | ELISION, "nl": INITIAL_I, "pt": INITIAL_I | SEMICOLON,
    "pl": INITIAL_I, "ro": INITIAL_I, "sv": INITIAL_I, "ru": INITIAL_I,
}  # fmt: skip

# Abbreviations of one language that are words of another.
_COMMON = frozenset(
    b"art bil cap del dir hab mag max med mind ord par per pol red rel resp sat sin son tom ung ust".split()
)


def merged(*tables: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return the words of all tables, each with all that they say of it."""
    words: dict[bytes, int] = {}
    for table in tables:
        for word, kind in table.items():
            words[word] = words.get(word, 0) | kind
    return words


def _safe(language: Language) -> dict[bytes, int]:
    """Return the abbreviations and months of a language that are hardly words of another."""
    return {
        word: kind & (ABBREVIATION | MONTH)
        for word, kind in language.words.items()
        if kind & (ABBREVIATION | MONTH)
        and len(word) > 2
        and word not in _COMMON
        and not WORDS.get(word, 0) & ABBREVIATION
    }


LANGUAGES: dict[str, Language] = {
    "en": Language(code="en", words=WORDS),
    **{code: Language(code=code, words={}) for code in ("ja", "zh")},
    **{
        code: Language(
            code=code, words=merged(word_kinds(WORD_LISTS[code]), word_kinds(WORD_LISTS["shared"])), manner=manner
        )
        for code, manner in _MANNERS.items()
    },
}
EVERY = Language(code="", words=merged(WORDS, *map(_safe, LANGUAGES.values())))
_OTHER = Language(code="*", words=EVERY.words, manner=INITIAL_I)
# Languages without a table of words that end sentences in another way: the semicolon of Greek asks, and the colon is
# written for the full stop of Armenian.
LANGUAGES |= {
    code: Language(code=code, words=EVERY.words, manner=INITIAL_I | manner)
    for code, manner in {"el": SEMICOLON, "hy": COLON, "th": SPACED, "lo": SPACED}.items()
}


def language_of(code: str | None) -> Language:
    """Return what is known of a language by its ISO 639 code; None and "un" are a language that is not certain."""
    return EVERY if code in (None, "", "un") else LANGUAGES.get(code or "", _OTHER)


def marks_of(manner: int) -> str:
    """Return the marks that end a sentence before a capital, next to the terminators."""
    return ":" * bool(manner & COLON) + ";" * bool(manner & SEMICOLON)
