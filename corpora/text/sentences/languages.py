"""Languages as the sentence splitter knows them: a table of abbreviations each, and what else ends a sentence there.

Promise: a table, of lines of words.tsv, holds what a dictionary of the language lists as abbreviations, with the words
that open its sentences; not those that open surnames ("De", "La", "Van"). A text of another language, or of one that is
not certain, is read with `EVERY`: English, and what cannot be taken for a word of another language.
Cost: made at import, in milliseconds.

Signs that the sentence splitter uses: the words that precede or follow a full stop, marks, and lengths.

Promise: plain facts, read by the definition and by its kernels alike. The words, of English and of other languages,
are in words.tsv, a line for each language and kind. The English ones have with them the commonest abbreviations of
other languages' dictionaries. After those of "before small" the full stop is theirs before a small letter; before a
capital it may end a sentence. A "pronoun" opens a sentence though small, or with no space before it ("Come in.They").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

# ruff: noqa: RUF001 - typographic marks are the subject here


MAX_HEADING_BYTES = 50  # bytes: books are wrapped at 60 to 80, so a shorter open line is a heading or a verse
MAX_WRAPPED_BYTES = 120
MAX_TIME_BYTES = 12  # bytes before "a.m.": no sentence is so short and ends so ("At 5 a.m. Mr. Grey came.")
MIN_CLAUSE_BYTES = 90  # bytes: 30 letters of Thai, from which on a space can end a sentence
MAX_LABEL_BYTES = 40  # bytes before a colon: what is shorter is a label or a speaker
MIN_WORD_LETTERS = 4  # letters: a small word as long as this is seldom an abbreviation that no list has
MAX_ASIDE_BYTES = 80  # bytes within brackets that can be a sentence
MAX_QUOTE_CHARACTERS = 100  # characters: within wide quotes or brackets that open and close so near, nothing ends
MAX_CITATION_BYTES = 20  # bytes within the square brackets of a citation
INLINE_BULLETS = "•‣▪●◦⁃"  # those that part items on one line; a dash or an asterisk has other work there
REPEATED = "ๆฯ"  # signs of Thai that have spaces around them in a sentence
QUOTING, JOINING = "とっ", "のをがに、，"  # they go on with what is quoted; these do after a closing mark
FIRST_QUOTES = '"«“„'  # those that may come before the capital after a colon
WIDE_OPENERS, WIDE_CLOSERS = "「『（【《〈“", "」』）】》〉”"
LINKS = ("http://", "https://", "www.")
LEFT_OUT = ("(...) ", "[...] ", "(…) ", "[…] ")  # open the sentence that they cut
RULED = "*=_~#-"  # what lines are drawn with
MIN_BLANK_CHARACTERS = 40  # shorter lines of underscores are blanks to fill in
MIN_RULE_CHARACTERS = 8  # so many of one of them divide sentences
MIN_MARKED_RULE_CHARACTERS = 3  # so many do after a mark that ends one

# What a word of at most eight ASCII bytes says about the full stop after it, or the one before it.
NEVER_ENDS, BEFORE_NUMBER, BEFORE_STARTER, STARTER = 1, 2, 4, 8
BEFORE_SMALL, PRONOUN, TITLE, TIME, DAY, SAYING, CRY, MONTH = 16, 32, 64, 128, 256, 512, 1024, 2048
ABBREVIATION = NEVER_ENDS | BEFORE_NUMBER | BEFORE_STARTER | BEFORE_SMALL | TIME
_SAYS = {
    "never ends": NEVER_ENDS, "before number": BEFORE_NUMBER, "before starter": BEFORE_STARTER, "starter": STARTER,
    "before small": BEFORE_SMALL, "pronoun": PRONOUN, "title": TITLE, "time": TIME, "day": DAY, "saying": SAYING,
    "cry": CRY, "month": MONTH,
}  # fmt: skip


def read_word_lists() -> dict[str, dict[int, str]]:
    """Read the words that the sentence splitter knows, from words.tsv.

    Returns:
        Space-separated words by language code and kind (a bit flag, such as NEVER_ENDS). The words under the code
        "shared" are used for every language except English.
    """
    lists: dict[str, dict[int, str]] = {}
    for line in files("corpora.text.sentences").joinpath("words.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            code, says, words = line.split("\t")
            lists.setdefault(code, {})[_SAYS[says]] = words
    return lists


def collect_word_kinds(lists: Mapping[int, str]) -> dict[bytes, int]:
    """Return the kinds of each listed word in UTF-8, as a sum of bit flags.

    Words that begin with a non-ASCII letter are also listed with a capital. Words that are looked up after a full stop
    are identified by the letters in their first eight bytes.

    Args:
        lists: Space-separated words by kind, for one language, as in `read_word_lists`.
    """
    kinds: dict[bytes, int] = {}
    for kind, words in lists.items():
        for word in words.split():
            for form in {word, word if word[0].isascii() else word[0].upper() + word[1:]}:
                key = form.encode() if kind & ABBREVIATION else form.encode()[:8].decode(errors="ignore").encode()
                kinds[key] = kinds.get(key, 0) | kind
    return kinds


WORD_LISTS = read_word_lists()
WORDS = collect_word_kinds(WORD_LISTS["en"])


# What else a language does: "3. Mai" is no end; "I." is an initial; a colon or a semicolon ends before a capital;
# what an apostrophe joins to a word is not of it, as in "l'Ing."; nouns have capitals, so a colon or semicolon ends
# only before a word that opens sentences; a space ends one.
ORDINAL, INITIAL_I, COLON, SEMICOLON, ELISION, NOUNS, SPACED = 1, 2, 4, 8, 16, 32, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The splitter's data for a language: its words with their kinds, and its other conventions.

    code:   ISO 639 code; "" for an uncertain language, "*" for one without its own word list
    words:  kinds of each word, which is at most eight bytes of UTF-8 with ASCII letters in lower case
    manner: other conventions of the language (bit flags)
    cased:  whether the text contains capitals
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


def merge_words(*tables: Mapping[bytes, int]) -> dict[bytes, int]:
    """Merge word tables. Each word gets the kinds that it has in any of them."""
    words: dict[bytes, int] = {}
    for table in tables:
        for word, kind in table.items():
            words[word] = words.get(word, 0) | kind
    return words


def _select_safe_words(language: Language) -> dict[bytes, int]:
    """Select a language's abbreviations and months that are unlikely to be words of another. Return their kinds."""
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
            code=code,
            words=merge_words(collect_word_kinds(WORD_LISTS[code]), collect_word_kinds(WORD_LISTS["shared"])),
            manner=manner,
        )
        for code, manner in _MANNERS.items()
    },
}
EVERY = Language(code="", words=merge_words(WORDS, *map(_select_safe_words, LANGUAGES.values())))
_OTHER = Language(code="*", words=EVERY.words, manner=INITIAL_I)
# Languages without a table of words that end sentences in another way: the semicolon of Greek asks, and the colon is
# written for the full stop of Armenian.
LANGUAGES |= {
    code: Language(code=code, words=EVERY.words, manner=INITIAL_I | manner)
    for code, manner in {"el": SEMICOLON, "hy": COLON, "th": SPACED, "lo": SPACED}.items()
}


def find_language(code: str | None) -> Language:
    """Return the splitter's data for an ISO 639 code. None, "" and "un" mean that the language is uncertain."""
    return EVERY if code in (None, "", "un") else LANGUAGES.get(code or "", _OTHER)


def list_colon_marks(manner: int) -> str:
    """Return the characters that end a sentence before a capital in a language: ":", ";", ":;" or "".

    `manner` is the sum of bit flags in `Language.manner`.
    """
    return ":" * bool(manner & COLON) + ";" * bool(manner & SEMICOLON)
