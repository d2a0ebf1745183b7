"""Quality rules: which documents are dropped because of their form. Each rule has a name and a threshold.

Thresholds are set for English, and hold for a document in another language as its table says
(`corpora.text.counts.languages`): stop words are its own, the mean length of words is measured by its own, words of
scripts without spaces are runs of characters. Rules that need a table are not applied to languages without one. Shares
of lines of bullets and ellipses are judged from five lines on, for a line of speech may begin with a dash or end in
dots.

Promise: a document is dropped by the first rule it fails, in the order of `DETAILS`; `judge`, the definition, and
`judge_texts`, for a column, agree on it exactly. A rule compares integer counts with a threshold, so nothing depends
on the order of additions. What is counted, and what is chosen if the papers leave a choice, is defined in
`corpora.text.counts.definition`. The rules of C4 that edit lines are in `corpora.judging.steps.lines`, and go before
these. Cost: that of the counts, about 120 MB a second for a column.

Defaults are the published thresholds. C4's are those of the code that made it: three sentences (here), five words a
line and words of up to 1,000 characters (in `corpora.judging.steps.lines`); other implementations ask for five
sentences and three words. FineWeb's share of characters in repeated lines is the paper's 0.1; its code has 0.01. C4's
list of words and its removal of repeated spans of three sentences are not among the rules.

Sources: Rae et al. 2021 (Gopher), appendix A.1.1 and Table A1; Raffel et al. 2020 (C4), section 2.2; Xue et al. 2021
(mC4), section 3.1; Penedo et al. 2024 (FineWeb), section 3.6.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Int16s, Int32s
from corpora.store.settings import check_range, later_field
from corpora.text.counts.definition import STOP_WORDS, Counts
from corpora.text.counts.kernels import measure_texts
from corpora.text.counts.languages import (
    ENGLISH,
    BoundTerms,
    find_column_terms,
    find_terms,
    measure_in,
    measure_texts_in,
)

Verdict = bool | Bools

RUN_COUNTS = tuple(name for name in Counts._fields if "gram_" in name)


def _check_share(key: str, value: float) -> None:
    """Check that the setting `key` is a share between 0 and 1.

    Raises:
        InputError: If it is not.
    """
    check_range(key, value, 0, 1, ": it is a share, from 0 to 1; a max_ of 1 or a min_ of 0 is off.")


def _check_ratio(key: str, value: float) -> None:
    """Check that the setting `key` is a valid ratio to the number of words, from 0 to 1.

    Measured ratios may exceed 1, so 1 does not disable a rule.

    Raises:
        InputError: If it is not.
    """
    check_range(key, value, 0, 1, ": it is a number for each word, from 0 to 1.")


def _check_bounds(group: str, name: str, low: float, high: float) -> None:
    """Check that the settings `min_NAME` and `max_NAME` of a group of rules are a valid range.

    Args:
        group: The table of the recipe, for the error message.
        name: The common part of the two names.
        low: The minimum.
        high: The maximum.

    Raises:
        InputError: If the minimum is negative or exceeds the maximum.
    """
    if not 0 <= low <= high:
        raise InputError(
            f"{group}.min_{name} is {low} and {group}.max_{name} is {high}: the first must not be below 0 "
            f"nor above the second."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GopherRules:
    """The quality rules of Gopher, for English. For other languages, stop words and mean word lengths are adjusted."""

    enabled: bool = True
    min_words: int = 50
    max_words: int = 100_000
    min_mean_word_length: float = 3.0
    max_mean_word_length: float = 10.0
    max_symbol_ratio: float = 0.1  # hash marks per word, and ellipses per word
    max_bullet_lines: float = 0.9
    max_ellipsis_lines: float = 0.3
    min_alphabetic_words: float = 0.8
    min_stop_words: int = 2

    def __post_init__(self) -> None:
        _check_bounds("rules.gopher", "words", self.min_words, self.max_words)
        _check_bounds("rules.gopher", "mean_word_length", self.min_mean_word_length, self.max_mean_word_length)
        _check_ratio("rules.gopher.max_symbol_ratio", self.max_symbol_ratio)
        for name in ("max_bullet_lines", "max_ellipsis_lines", "min_alphabetic_words"):
            _check_share(f"rules.gopher.{name}", getattr(self, name))
        most = len(STOP_WORDS)
        remedy = (
            f": it counts different words among {', '.join(STOP_WORDS)}, or those of another language, so it goes "
            f"from 0 (rule off) to {most}."
        )
        check_range("rules.gopher.min_stop_words", self.min_stop_words, 0, most, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionRules:
    """The maximum shares of repetition in a document: all thirteen rows of Gopher's Table A1.

    They limit the lines and paragraphs that repeat earlier ones; the most common run of two, three and four words; and
    the words in repeated runs of five to ten words. 1 disables a rule, except for the most common runs, because their
    occurrences may overlap in a document that consists of nothing else.
    """

    enabled: bool = True
    max_repeated_lines: float = 0.30
    max_repeated_paragraphs: float = 0.30
    max_repeated_line_characters: float = 0.20
    max_repeated_paragraph_characters: float = 0.20
    max_top_2gram_characters: float = 0.20
    max_top_3gram_characters: float = 0.18
    max_top_4gram_characters: float = 0.16
    max_repeated_5gram_characters: float = 0.15
    max_repeated_6gram_characters: float = 0.14
    max_repeated_7gram_characters: float = 0.13
    max_repeated_8gram_characters: float = 0.12
    max_repeated_9gram_characters: float = 0.11
    max_repeated_10gram_characters: float = 0.10

    def __post_init__(self) -> None:
        for name in ("lines", "paragraphs", "line_characters", "paragraph_characters"):
            _check_share(f"rules.repetition.max_repeated_{name}", getattr(self, f"max_repeated_{name}"))
        for name in RUN_COUNTS:
            _check_share(f"rules.repetition.max_{name}", getattr(self, f"max_{name}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class C4Rules:
    """The rules of C4 for whole documents. The one against curly braces is off, because technical prose contains them.

    min_long_lines: minimum number of lines with at least 200 characters; mC4 uses 3; 0: off
    """

    enabled: bool = True
    drop_lorem_ipsum: bool = True
    drop_curly_braces: bool = False
    min_sentences: int = 3
    min_long_lines: int = later_field(neutral=0)

    def __post_init__(self) -> None:
        for name in ("min_sentences", "min_long_lines"):
            check_range(f"rules.c4.{name}", getattr(self, name), 0, remedy=": use 0 (rule off) or more.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FineWebRules:
    """The rules that FineWeb adds. They are off: made for web pages, they drop verse, tables and tickets.

    min_ended_lines:              minimum share of lines that end like a sentence, including closing quotes and brackets
    max_short_lines:              maximum share of lines with fewer than 30 characters
    max_repeated_line_characters: maximum share of characters in lines that repeat an earlier one
    max_newlines:                 maximum number of newlines per word, which is high in lists
    """

    enabled: bool = False
    min_ended_lines: float = 0.12
    max_short_lines: float = 0.67
    max_repeated_line_characters: float = 0.1
    max_newlines: float = 0.3

    def __post_init__(self) -> None:
        for name in ("min_ended_lines", "max_short_lines", "max_repeated_line_characters"):
            _check_share(f"rules.fineweb.{name}", getattr(self, name))
        _check_ratio("rules.fineweb.max_newlines", self.max_newlines)


_NO_FINEWEB = FineWebRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesSettings:
    """All quality rules. A document without words is always dropped."""

    gopher: GopherRules = field(default_factory=GopherRules)
    repetition: RepetitionRules = field(default_factory=RepetitionRules)
    c4: C4Rules = field(default_factory=C4Rules)
    fineweb: FineWebRules = field(default=_NO_FINEWEB, metadata={"neutral": _NO_FINEWEB})


DETAILS = {
    "document.empty": "no words",
    "gopher.min_words": "{words} words",
    "gopher.max_words": "{words} words",
    "gopher.min_mean_word_length": "{word_characters} characters in {words} words",
    "gopher.max_mean_word_length": "{word_characters} characters in {words} words",
    "gopher.max_hash_marks": "{hash_marks} hash marks in {words} words",
    "gopher.max_ellipses": "{ellipses} ellipses in {words} words",
    "gopher.max_bullet_lines": "{bullet_lines} of {lines} lines",
    "gopher.max_ellipsis_lines": "{ellipsis_lines} of {lines} lines",
    "gopher.min_alphabetic_words": "{alphabetic_words} of {words} words",
    "gopher.min_stop_words": "{stop_words} stop words",
    "repetition.max_repeated_lines": "{repeated_lines} of {lines} lines",
    "repetition.max_repeated_paragraphs": "{repeated_paragraphs} of {paragraphs} paragraphs",
    "repetition.max_repeated_line_characters": "{repeated_line_characters} of {line_characters} characters",
    "repetition.max_repeated_paragraph_characters": "{repeated_paragraph_characters} of {paragraph_characters} "
    "characters",
    **{f"repetition.max_{name}": f"{{{name}}} of {{word_characters}} characters" for name in RUN_COUNTS},
    "c4.lorem_ipsum": "{lorem_ipsum} times",
    "c4.curly_braces": "{curly_braces} braces",
    "c4.min_sentences": "{sentences} sentences",
    "c4.min_long_lines": "{long_lines} long lines",
    "fineweb.min_ended_lines": "{ended_lines} of {lines} lines",
    "fineweb.max_short_lines": "{short_lines} of {lines} lines",
    "fineweb.max_repeated_line_characters": "{repeated_line_characters} of {line_characters} characters",
    "fineweb.max_newlines": "{newlines} newlines for {words} words",
}
REASONS = ("", *DETAILS)
LANGUAGE_RULES = ("gopher.min_mean_word_length", "gopher.max_mean_word_length", "gopher.min_stop_words")
SETTING_KEYS = {  # the settings of the rules that are not called like theirs; a document without a word has none
    "document.empty": "",
    "gopher.max_hash_marks": "gopher.max_symbol_ratio",
    "gopher.max_ellipses": "gopher.max_symbol_ratio",
    "c4.lorem_ipsum": "c4.drop_lorem_ipsum",
    "c4.curly_braces": "c4.drop_curly_braces",
}
OFF_VALUES = {"gopher.max_words": 1_000_000_000, "gopher.max_mean_word_length": 1_000}  # no share is over 1


def _iter_verdicts(counts: Counts, settings: RulesSettings, terms: BoundTerms) -> Iterator[tuple[str, Verdict]]:
    """Yield the name and verdict of each enabled rule, in the order of DETAILS.

    A verdict is True if the rule fails: a bool, or an array with one entry for each document.

    Args:
        counts: Counts of one document, or of the rows of a column.
        settings: The rules.
        terms: Adjustments for the language of the document, or of each row.
    """
    yield "document.empty", counts.words == 0
    if settings.gopher.enabled:
        yield from _iter_gopher(counts, settings.gopher, terms)
    if settings.repetition.enabled:
        yield from _iter_repetition(counts, settings.repetition)
    if settings.c4.enabled:
        if settings.c4.drop_lorem_ipsum:
            yield "c4.lorem_ipsum", counts.lorem_ipsum > 0
        if settings.c4.drop_curly_braces:
            yield "c4.curly_braces", counts.curly_braces > 0
        yield "c4.min_sentences", terms.ends & (counts.sentences < settings.c4.min_sentences)
        yield "c4.min_long_lines", counts.long_lines < settings.c4.min_long_lines
    if settings.fineweb.enabled:
        yield from _iter_fineweb(counts, settings.fineweb, terms)


def _iter_gopher(counts: Counts, rules: GopherRules, terms: BoundTerms) -> Iterator[tuple[str, Verdict]]:
    """Yield the name and verdict of each Gopher rule (Rae et al. 2021, appendix A.1.1), as `_iter_verdicts` does."""
    words, lines = counts.words, counts.lines
    shortest, longest = rules.min_mean_word_length * terms.shortest, rules.max_mean_word_length * terms.longest
    enough = lines >= terms.min_lines
    yield "gopher.min_words", words < rules.min_words
    yield "gopher.max_words", words > rules.max_words
    yield "gopher.min_mean_word_length", counts.word_characters < shortest * words
    yield "gopher.max_mean_word_length", counts.word_characters > longest * words
    yield "gopher.max_hash_marks", counts.hash_marks > rules.max_symbol_ratio * words
    yield "gopher.max_ellipses", counts.ellipses > rules.max_symbol_ratio * words
    yield "gopher.max_bullet_lines", enough & (counts.bullet_lines > rules.max_bullet_lines * lines)
    yield "gopher.max_ellipsis_lines", enough & (counts.ellipsis_lines > rules.max_ellipsis_lines * lines)
    yield "gopher.min_alphabetic_words", counts.alphabetic_words < rules.min_alphabetic_words * words
    yield "gopher.min_stop_words", terms.stop_words & (counts.stop_words < rules.min_stop_words)


def _iter_repetition(counts: Counts, rules: RepetitionRules) -> Iterator[tuple[str, Verdict]]:
    """Yield the name and verdict of each repetition rule (Rae et al. 2021, Table A1), as `_iter_verdicts` does."""
    for name in ("line", "paragraph"):
        repeated, total = getattr(counts, f"repeated_{name}s"), getattr(counts, f"{name}s")
        yield f"repetition.max_repeated_{name}s", repeated > getattr(rules, f"max_repeated_{name}s") * total
    for name in ("line_characters", "paragraph_characters"):
        repeated, total = getattr(counts, f"repeated_{name}"), getattr(counts, name)
        yield f"repetition.max_repeated_{name}", repeated > getattr(rules, f"max_repeated_{name}") * total
    for name in RUN_COUNTS:
        limit = getattr(rules, f"max_{name}")
        yield f"repetition.max_{name}", getattr(counts, name) > limit * counts.word_characters


def _iter_fineweb(counts: Counts, rules: FineWebRules, terms: BoundTerms) -> Iterator[tuple[str, Verdict]]:
    """Yield the name and verdict of each FineWeb rule, as `_iter_verdicts` does.

    The rules are those of Penedo et al. 2024, section 3.6, and the rule against lists in their code.
    """
    yield "fineweb.min_ended_lines", terms.ends & (counts.ended_lines < rules.min_ended_lines * counts.lines)
    yield "fineweb.max_short_lines", counts.short_lines > rules.max_short_lines * counts.lines
    repeated, limit = counts.repeated_line_characters, rules.max_repeated_line_characters
    yield "fineweb.max_repeated_line_characters", repeated > limit * counts.line_characters
    yield "fineweb.max_newlines", counts.newlines > rules.max_newlines * counts.words


def judge(text: str, settings: RulesSettings, language: str = ENGLISH) -> str | None:
    """Return the name of the first rule that a document in the given language fails, or None if it passes all.

    >>> judge("Too short.", RulesSettings())
    'gopher.min_words'
    """
    return next((name for name, _, fails in explain(text, settings, language) if fails), None)


def describe_failure(text: str, settings: RulesSettings, language: str = ENGLISH) -> str | None:
    """Describe the measurement behind the first rule that a document fails; None if it passes all rules.

    Args:
        text: The document.
        settings: The rules and their limits.
        language: ISO 639 code of the language. Its rules are applied.

    >>> describe_failure("Too short.", RulesSettings())
    '2 words'
    """
    return next((detail for _, detail, fails in explain(text, settings, language) if fails), None)


def explain(text: str, settings: RulesSettings, language: str = ENGLISH) -> list[tuple[str, str, bool]]:
    """List, for each enabled rule in order, its name, the measurement, and True if the document fails it.

    `language` is the language code of the document.

    >>> explain("Too short.", RulesSettings())[1]
    ('gopher.min_words', '2 words', True)
    """
    counts = measure_in(text, language)
    measured = counts._asdict()
    verdicts = _iter_verdicts(counts, settings, find_terms(language))
    return [(name, _format_detail(name, measured, language), bool(fails)) for name, fails in verdicts]


def _format_detail(reason: str, measured: dict[str, Any], language: str) -> str:
    """Format the measurements that decide a rule, such as "2 words". The language is added if it affects the rule.

    Args:
        reason: Name of the rule.
        measured: The counts of the document, by name.
        language: Language code of the document. English is not added.
    """
    detail = DETAILS[reason].format_map(measured)
    return f"{detail} ({language})" if language != ENGLISH and reason in LANGUAGE_RULES else detail


def judge_texts(texts: pa.Array, settings: RulesSettings, languages: Sequence[str] | None = None) -> Int16s:
    """Apply the rules to each row of a large_string column without nulls.

    Args:
        texts: The documents.
        settings: The rules.
        languages: Language code of each row. If None, all rows are treated as English.

    Returns:
        int16, for each row the index in REASONS of the first rule that it fails, or 0 if it passes all.

    Raises:
        InputError: If the column has another type or nulls.
    """
    languages = languages or [ENGLISH] * len(texts)
    return judge_counts(measure_texts_in(texts, languages, runs=settings.repetition.enabled), settings, languages)


def judge_counts(counts: Counts, settings: RulesSettings, languages: Sequence[str]) -> Int16s:
    """Apply the rules to rows after their counts have been computed.

    Args:
        counts: Counts of the rows.
        settings: The rules.
        languages: Language code of each row.

    Returns:
        int16, for each row the index in REASONS of the first rule that it fails, or 0 if it passes all.
    """
    codes = np.zeros(np.size(counts.words), np.int16)
    for name, fails in _iter_verdicts(counts, settings, find_column_terms(languages)):
        codes[(codes == 0) & fails] = REASONS.index(name)
    return codes


def describe_failures(counts: Counts, codes: Int16s, languages: Sequence[str]) -> list[str]:
    """Describe the measurement behind each row's reason, as `describe_failure` does; "" for rows that pass.

    Args:
        counts: Counts of the rows.
        codes: Reasons of the rows, from `judge_counts`.
        languages: Language codes of the rows.
    """
    columns = counts._asdict()
    return [
        _format_detail(REASONS[code], {name: column[row] for name, column in columns.items()}, languages[row])
        if code
        else ""
        for row, code in enumerate(codes.tolist())
    ]


def find_failures(texts: pa.Array, settings: RulesSettings, languages: Sequence[str]) -> dict[str, Bools]:
    """Find the rows that fail each enabled rule, regardless of other rules.

    Args:
        texts: The documents, a large_string column without nulls.
        settings: The rules.
        languages: Language code of each row.

    Returns:
        A boolean array for each rule, by the rule's name: True for rows that fail.

    Raises:
        InputError: If the column has another type or nulls.
    """
    counts = measure_texts_in(texts, languages, runs=settings.repetition.enabled)
    verdicts = _iter_verdicts(counts, settings, find_column_terms(languages))
    return {name: np.asarray(fails, np.bool_) for name, fails in verdicts}


def find_off_setting(reason: str) -> tuple[str, float | bool] | None:
    """Return the name of a rule's setting and the value that disables it, or None if the rule cannot be disabled.

    >>> find_off_setting("c4.min_sentences"), find_off_setting("c4.lorem_ipsum"), find_off_setting("document.empty")
    (('c4.min_sentences', 0), ('c4.drop_lorem_ipsum', False), None)
    """
    key = SETTING_KEYS.get(reason, reason)
    sense = key.rpartition(".")[2].partition("_")[0]
    return (key, {"min": 0, "max": OFF_VALUES.get(key, 1.0), "drop": False}[sense]) if key else None


def compute_quality(texts: pa.Array) -> Int32s:
    """Compute the share of each row's characters that are in lines ending with sentence punctuation: int32, per mille.

    The quality decides which near-duplicate is kept: the one with more prose and less navigation.
    """
    return compute_quality_of_counts(measure_texts(texts, runs=False))


def compute_quality_of_counts(counts: Counts) -> Int32s:
    """Compute the quality, as `compute_quality` does, from counts of a column's rows.

    If the counts are those of a single document, the result is a zero-dimensional array.
    """
    return np.asarray(1000 * counts.ended_line_characters // np.maximum(counts.line_characters, 1), np.int32)
