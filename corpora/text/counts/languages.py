"""What the counts of a document are in its own language: its stop words, and words of scripts without spaces.

Promise: `measure_in` is the definition for one document; `measure_texts_in` gives the same for a column. A document in
English is counted as `corpora.text.counts.definition` counts it. In other languages:

- **Stop words** are those of the language in `stop_words.tsv`, which `benchmarks/stop_words.py` measures. At most
  `MAX_STOP_WORDS` different ones are counted. A language that is not in the table has none.
- **Scripts without spaces.** So many characters are a word, as `_WORDS` says of each script: two ideographs or kana,
  four letters of Thai, Lao, Khmer, Myanmar or Tibetan, counted from the last mark or space. A shorter rest is
  a word, too. Marks belong to the word before them. What is counted of words and runs of words is counted of these.
- **Ends of sentences**: the marks of Indic, Arabic, Armenian, Ethiopic and other scripts end sentences as "。" does.
- **Quotation marks** close with “, ‘ or « if „ and » open them, as in German.
- **Ellipses** of several marks ("……", "。。。") are one, in scripts without spaces.

`find_terms` says how the bounds of the rules hold for a language. Bounds are set for English. Words of a language may
be as much shorter or longer as its mean word is (FineWeb2's method of ratios); the wider bound holds.

Cost: none for English. 15 MB a second for scripts without spaces; of others, some hundred words are looked at.

Source: Penedo et al. 2025 (FineWeb2), section 4.3.
"""
# ruff: noqa: RUF001, RUF002 - marks of other scripts are the subject here

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bools, Float64s, Int64s
from corpora.text.counts.definition import STOP_WORDS, Counts, measure
from corpora.text.counts.kernels import measure_texts

ENGLISH = "en"
MAX_STOP_WORDS = len(STOP_WORDS)
SPACELESS = frozenset(("ja", "zh", "th", "lo", "km", "my", "bo", "dz"))
BY_LETTER = SPACELESS | {"ko"}  # stop words are letters: in Korean, syllables, since its particles end words
WITHOUT_ENDS = frozenset(("th", "lo"))  # a space ends a sentence, and does more
MIN_LINES = 5  # a share of fewer lines says little: speech begins with a dash in most languages
WORD_COUNTS = tuple(
    name
    for name in Counts._fields
    if "gram_" in name or name.endswith("words") or name in ("word_characters", "ellipses")
)
_OWN_ENDS = frozenset("hi mr ne sa bn as bh pa gu or ur fa ar ps sd ug ks hy am ti my km bo dz".split())
_LOW_QUOTES = frozenset("de da cs sk sl hr sr bg mk ru uk be lt lv et is ka hu sq".split())
_ENDS = str.maketrans("।॥۔؟։።፧။។།", "。" * 10)
_WIDE = "\u3005-\u3007\u3021-\u312f\u31a0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
_JOINED = "\u0e01-\u0edf\u0f40-\u0fbc\u1000-\u109f\u1780-\u17d3"
_WORDS = re.compile(rf"(?:[{_WIDE}]{{1,2}}|[{_JOINED}]{{1,4}})[^\w\s{_JOINED}]*")
_KINDS = (np.float64, np.float64, np.bool_, np.bool_, np.int64)  # of the columns of `BoundTerms`
_ELLIPSIS = re.compile(r"[.…。・]{2,}|…")
# Marks that are parts of words: accents, points of Hebrew and Arabic, vowels of Indic scripts.
_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u0900-\u0963\u0970-\u0dff"
)
WORD = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{_MARKS}])*")


class LanguageTable(NamedTuple):
    """Word statistics of a language.

    length:     mean word length relative to English; 0 for a language written without spaces
    stop_words: the stop words
    """

    length: float
    stop_words: frozenset[str]


class BoundTerms(NamedTuple):
    """Adjustments of the English rules' bounds for a document's language, or for each document of a column.

    shortest, longest: factors for the bounds of the mean word length
    stop_words, ends:  whether stop words, and sentence ends, are counted for the language
    min_lines:         minimum number of lines for rules about shares of lines
    """

    shortest: float | Float64s
    longest: float | Float64s
    stop_words: bool | Bools
    ends: bool | Bools
    min_lines: int | Int64s


@cache
def read_language_tables() -> dict[str, LanguageTable]:
    """Read the word statistics of all measured languages, by language code. The result is cached."""
    lines = files("corpora").joinpath("text", "counts", "stop_words.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return {code: LanguageTable(float(length), frozenset(words.split())) for code, length, words in rows}


@cache
def find_terms(language: str) -> BoundTerms:
    """Return the adjustments of the English bounds for a language.

    If a language has no word statistics, the rules that need them are off.

    >>> find_terms("en"), find_terms("eo").stop_words
    (BoundTerms(shortest=1.0, longest=1.0, stop_words=True, ends=True, min_lines=0), False)
    """
    if language == ENGLISH:
        return BoundTerms(1.0, 1.0, True, True, 0)
    table, ends = read_language_tables().get(language), language not in WITHOUT_ENDS
    if table is None or not table.length:
        return BoundTerms(0.0, 1e9, table is not None, ends, MIN_LINES)
    return BoundTerms(min(1.0, table.length), max(1.0, table.length), True, ends, MIN_LINES)


def find_column_terms(languages: Sequence[str]) -> BoundTerms:
    """Return the adjustments of the English bounds for a column of documents.

    Its fields are arrays of the values from `find_terms`. `languages` contains the language code of each document.
    """
    rows = [find_terms(language) for language in languages]
    return BoundTerms(*(np.array([row[place] for row in rows], kind) for place, kind in enumerate(_KINDS)))


def measure_in(text: str, language: str) -> Counts:
    """Compute the counts of one document by the conventions of its language (a language code).

    This is the reference implementation of `measure_texts_in`, for tests.
    """
    if language == ENGLISH:
        return measure(text)
    counts = measure(_with_ends(text, language))
    if language in SPACELESS:
        of_words = measure(insert_spaces(text))._asdict()
        counts = counts._replace(**{name: of_words[name] for name in WORD_COUNTS})
    return counts._replace(stop_words=count_stop_words(text, language))


def measure_texts_in(texts: pa.Array, languages: Sequence[str], runs: bool = True) -> Counts:
    """Compute the counts of each row of a large_string column without nulls, by the conventions of the row's language.

    Args:
        texts: The documents.
        languages: Language code of each row.
        runs: If False, the counts of repeated word runs are left at 0.

    Returns:
        The counts as int64 columns, with one entry for each row.

    Raises:
        InputError: If the column has another type or nulls.
    """
    others = [row for row, language in enumerate(languages) if language != ENGLISH]
    if not others:
        return measure_texts(texts, runs)
    rows = texts.to_pylist() if len(others) == len(texts) else texts.take(pa.array(others)).to_pylist()
    own = dict(zip(others, rows, strict=True))
    ended = {
        row: _with_ends(text, languages[row]) for row, text in own.items() if languages[row] in _OWN_ENDS | _LOW_QUOTES
    }
    counts = measure_texts(_replace_rows(texts, ended), runs)
    words = {row: insert_spaces(text) for row, text in own.items() if languages[row] in SPACELESS}
    if words:
        of_words = measure_texts(pa.array(words.values(), pa.large_string()), runs)
        for name in WORD_COUNTS:
            getattr(counts, name)[[*words]] = getattr(of_words, name)
    np.asarray(counts.stop_words)[others] = [count_stop_words(text, languages[row]) for row, text in own.items()]
    return counts


def _replace_rows(texts: pa.Array, changed: dict[int, str]) -> pa.Array:
    """Return the column with the rows in `changed` (new text by row index) replaced."""
    if not changed:
        return texts
    return pa.array([changed.get(row, text) for row, text in enumerate(texts.to_pylist())], pa.large_string())


def _with_ends(text: str, language: str) -> str:
    """Replace a language's sentence punctuation and closing quotes with characters that `measure` recognizes.

    The length of the text does not change. `language` is a language code.
    """
    if language in _LOW_QUOTES:
        return text.replace("“", "”").replace("‘", "’").replace("«", "»")
    return text.translate(_ENDS) if language in _OWN_ENDS else text


def insert_spaces(text: str) -> str:
    """Insert a space after each word of a script without spaces, and replace each ellipsis with a single character.

    >>> insert_spaces("東京は、日本の首都……")
    '東京 は、 日本 の首 都… '
    """
    return _WORDS.sub(r"\g<0> ", _ELLIPSIS.sub("…", text))


def count_stop_words(text: str, language: str) -> int:
    """Count the distinct stop words of a language in a text, up to MAX_STOP_WORDS.

    Returns 0 for a language without word statistics.
    """
    table = read_language_tables().get(language)
    if table is None:
        return 0
    if language in BY_LETTER:
        return min(len(table.stop_words.intersection(text)), MAX_STOP_WORDS)
    seen = set[str]()
    for match in WORD.finditer(text):
        if (word := match[0].lower()) in table.stop_words:
            seen.add(word)
            if len(seen) == MAX_STOP_WORDS:
                break
    return len(seen)
