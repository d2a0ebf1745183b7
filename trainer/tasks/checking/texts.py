"""Checks of texts: truncation, languages, broken characters, markup, values that are not texts, and hints.

Promise: counts include all rows, or else the finding says how many rows, evenly spaced in the file, were checked. Cost:
at most 2,000 rows are checked for language and length, and at most 20,000 for broken characters.

A hint gives the label away without the text being read: a word that always occurs with it, a column, or an id. Cost:
words are counted in at most 20,000 evenly spaced rows, and columns are read completely.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from ftfy import fix_encoding
from tokenizers import Tokenizer

from corpora.judging.steps.language import UNKNOWN, LanguageSettings, detect_languages
from trainer.tasks.checking.findings import (
    CheckedFile,
    DataFinding,
    format_count,
    format_percent,
    format_share,
    list_some,
    quote,
)
from trainer.tasks.checking.labels import NULL_NAMES, list_class_names
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.vectors import VectorTask
from trainer.tasks.task import Task
from trainer.tasks.text_encoder import TOKENIZER

MAX_SAMPLED_ROWS = 2_000  # rows of which languages and lengths are looked at
MAX_SCANNED_ROWS = 20_000  # rows that are searched for broken characters
MAX_CUT_SHARE = 0.05  # share of cut rows that is told of
MIN_MINOR_SHARE = 0.05  # share of rows in a second language that is told of
MIN_LANGUAGE_ROWS = 10  # rows that are told of as a language
MAX_BROKEN_SHARE, MAX_MARKUP_SHARE = 0.002, 0.01  # shares of rows
MAX_EMPTY_SHARE = 0.2  # share of texts that are none, from which a score means nothing
MIN_CONSTANT_ROWS = 10  # rows from which one text for all is strange
LANGUAGE_SETTINGS = LanguageSettings(keep=())
WINDOWED_TASKS = (TagsTask, SpanTask, NextTask)  # they read long texts in parts, so nothing is cut
MARKUP = re.compile(r"&(?:amp|lt|gt|quot|nbsp|apos|#x?[0-9a-f]+);|</?(?:br|p|div|span|b|i|a|li|td|tr)\b[^<>]*>", re.I)
LETTER = re.compile(r"\w")


def find_text_problems(
    task: Task, files: Sequence[CheckedFile], max_length: int, model: Path | None
) -> Iterator[DataFinding]:
    """Yield problems of texts: truncated, broken, without letters, constant, with markup, in several languages.

    Args:
        task: The task. Kinds that read long texts in windows do not truncate texts.
        files: The training file first, then the evaluation files.
        max_length: Maximum number of tokens of a text.
        model: A folder with a `tokenizer.json`; None to count words instead of tokens.
    """
    for file in files:
        if not isinstance(task, WINDOWED_TASKS):
            yield from _find_cut_texts(file, isinstance(task, VectorTask), max_length, model)
        yield from _find_broken_characters(file)
        yield from _find_markup(file)
        yield from _find_null_texts(file)
        yield from _find_constant_columns(file)
    yield from _find_mixed_languages(files)


def sample_rows(rows: int, max_rows: int) -> range:
    """Choose at most `max_rows` row indices, evenly spaced over a file of `rows` rows.

    >>> sample_rows(5, 10), sample_rows(25, 10)
    (range(0, 5), range(0, 25, 3))
    """
    return range(0, rows, -(-rows // max_rows) or 1)


def _format_sample(rows: Sequence[int], file: CheckedFile) -> str:
    return f" of the {len(rows):,} that were looked at" if len(rows) < len(file) else ""


def _find_cut_texts(file: CheckedFile, is_separate: bool, max_length: int, model: Path | None) -> Iterator[DataFinding]:
    """Yield a finding if the fraction of texts that are too long for the model exceeds MAX_CUT_SHARE.

    Args:
        file: The file.
        is_separate: True if the model reads the texts of a row separately.
        max_length: Maximum number of tokens of a sequence.
        model: A folder with a `tokenizer.json`; None to count words instead of tokens.
    """
    rows = sample_rows(len(file), MAX_SAMPLED_ROWS)
    texts = [text for row in rows for text in (_list_sequences(file, row, is_separate))]
    if model is not None and (model / TOKENIZER).is_file():
        tokenizer = Tokenizer.from_file(str(model / TOKENIZER))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        counts = iter([len(each) for each in tokenizer.encode_batch(texts, add_special_tokens=False)])
        unit = "tokens"
    else:
        counts, unit = iter([len(text.split()) for text in texts]), "words"
    lengths = [max(next(counts) for _ in _list_sequences(file, row, is_separate)) for row in rows]
    room = max_length - (2 if is_separate else 1 + len(file.text_roles))
    cut = [row for row, length in zip(rows, lengths, strict=True) if length > room]
    if len(cut) > MAX_CUT_SHARE * len(rows):
        lost = sum(max(0, length - room) for length in lengths)
        yield file.build_finding(
            "cut-texts",
            cut,
            rows=len(cut),
            some=_format_sample(rows, file),
            unit=unit,
            length=max_length,
            lost=format_percent(lost, sum(lengths)),
        )


def _list_sequences(file: CheckedFile, row: int, is_separate: bool) -> Sequence[str]:
    """List the texts of a row as the model reads them: each separately, or joined, with only the longest choice.

    `row` is a zero-based index. `is_separate` is True if the model reads the texts of a row separately.
    """
    if is_separate:
        return file.texts[row]
    choices = file.values[row].get("choices")
    if not isinstance(choices, list | tuple):
        return (file.joined_texts[row],)
    others = [text for role, text in zip(file.text_roles, file.texts[row], strict=True) if role != "choices"]
    return (" ".join([*others, max(map(str, choices), key=len, default="")]),)


def _find_broken_characters(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield a finding for texts that were decoded incorrectly: ftfy would repair them, or they contain U+FFFD."""
    rows = sample_rows(len(file), MAX_SCANNED_ROWS)
    bad = [row for row in rows if not file.joined_texts[row].isascii() and _is_broken(file.joined_texts[row])]
    if len(bad) > MAX_BROKEN_SHARE * len(rows):
        text = file.joined_texts[bad[0]]
        words = (word[:30] for word in text.split() if not word.isascii() and _is_broken(word))
        shown = repr(next(words, text[:30]))
        yield file.build_finding("mojibake", bad, rows=len(bad), some=_format_sample(rows, file), example=shown)


def _is_broken(text: str) -> bool:
    return "\ufffd" in text or fix_encoding(text) != text


def _find_markup(file: CheckedFile) -> Iterator[DataFinding]:
    marks = ((row, MARKUP.search(whole)) for row, whole in enumerate(file.joined_texts) if "<" in whole or "&" in whole)
    marked = [(row, match[0]) for row, match in marks if match]
    if len(marked) > MAX_MARKUP_SHARE * len(file):
        usual = [mark for mark, _ in Counter(mark for _, mark in marked).most_common(3)]
        yield file.build_finding(
            "markup",
            [row for row, _ in marked],
            rows=format_share(len(marked), len(file)),
            marks=" ".join(usual),
        )


def _find_null_texts(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield findings for texts that are null values or have no letter or digit, and for ids instead of texts."""
    for place, role in enumerate(file.text_roles):
        column = [texts[place].strip() for texts in file.texts]
        given = [row for row, text in enumerate(column) if text]
        empty = [row for row in given if column[row].casefold() in NULL_NAMES or not LETTER.search(column[row])]
        if role not in ("words", "choices") and empty:
            yield file.build_finding(
                "null-texts",
                empty,
                stops=len(empty) > MAX_EMPTY_SHARE * len(file),
                rows=format_count(len(empty)),
                role=role,
            )
        ids = sum(not text.isalpha() and " " not in text and any(map(str.isdigit, text)) for text in column)
        if len(file) >= MIN_CONSTANT_ROWS and ids >= 0.95 * len(given) > 0 and len({*column}) > 0.5 * len(given):
            yield file.build_finding("ids-as-texts", example=quote(column[given[0]]), role=role)


def _find_constant_columns(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield findings for texts and additional columns that are the same in every row of a file."""
    for name in (*file.text_roles, *file.features):
        first = file.values[0].get(name) if len(file) >= MIN_CONSTANT_ROWS else None
        if first is not None and all(values.get(name) == first for values in file.values):
            yield file.build_finding(
                "constant-text" if name in file.text_roles else "constant-column",
                stops=file.text_roles == (name,),
                column=name,
            )


def _find_mixed_languages(files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield findings for files with several languages, and for files in another language than the training file."""
    mains = list[str]()
    for file in files:
        rows = sample_rows(len(file), MAX_SAMPLED_ROWS)
        texts = pa.array(
            [file.joined_texts[row].encode("utf-8", "replace").decode() for row in rows], pa.large_string()
        )
        codes = dict(zip(rows, detect_languages(texts, LANGUAGE_SETTINGS), strict=True))
        counts = Counter(code for code in codes.values() if code != UNKNOWN)
        main = counts.most_common(1)[0][0] if counts.total() >= MIN_LANGUAGE_ROWS else ""
        others = [
            f"{code} {number}" for code, number in counts.most_common() if code != main and number >= MIN_LANGUAGE_ROWS
        ]
        foreign = [row for row, code in codes.items() if code not in (main, UNKNOWN)]
        if main and others and len(foreign) >= MIN_MINOR_SHARE * counts.total():
            yield file.build_finding(
                "mixed-languages", foreign, rows=len(foreign), all=counts.total(), main=main, others=list_some(others)
            )
        if mains and main and mains[0] and main != mains[0]:
            yield file.build_finding("other-language", main=main, training=files[0].short_name, learnt=mains[0])
        mains.append(main)


WORD = re.compile(r"\w+")
MIN_CLASS_ROWS = 10  # rows of a class
MIN_CLASS_SHARE, MIN_WORD_SHARE = 0.9, 0.98  # share of a class' rows with a word, and of the word's rows in the class
MAX_CLASSES = 100
MIN_TELLING_SHARE = 0.98  # share of rows whose label a column tells
MAX_USUAL_SHARE = 0.9  # of which always answering the commonest one must not be near
MIN_DISTINCT_SHARE = 0.9  # share of values that are met once, from which a column holds ids


def find_hints(files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield findings for hints that give labels away without reading the text: a word, a column or an id.

    Args:
        files: The training file first. The other files are not checked.
    """
    file = files[0]
    for name in file.features:
        column = [values.get(name) for values in file.values]
        yield from _find_id_columns(file, name, column)
        yield from _find_telling_columns(file, name, column)
    if file.labels is not None and all(isinstance(label, str) for label in file.labels):
        yield from _find_telling_words(file, file.labels)


def _find_telling_words(file: CheckedFile, labels: Sequence[str]) -> Iterator[DataFinding]:
    """Yield a finding for words that occur in nearly all rows of a class and hardly anywhere else.

    `labels` has the class name of each row.
    """
    rows = sample_rows(len(file), MAX_SCANNED_ROWS)
    sizes = Counter(labels[row] for row in rows)
    if not 2 <= len(sizes) <= MAX_CLASSES:
        return
    by_class = {label: Counter[str]() for label in sizes}
    for row in rows:
        by_class[labels[row]].update({*WORD.findall(file.joined_texts[row].casefold())})
    every = sum(by_class.values(), Counter[str]())
    telling = {
        label: word
        for label, counts in by_class.items()
        for word, number in counts.most_common(50)
        if sizes[label] >= MIN_CLASS_ROWS
        and number >= MIN_CLASS_SHARE * sizes[label]
        and number >= MIN_WORD_SHARE * every[word]
    }
    if telling:
        told_all = len(telling) >= len(sizes) - 1
        own_name = all(word in WORD.findall(label.casefold()) for label, word in telling.items())
        shown = ", ".join(f"{quote(word)} for {quote(label)}" for label, word in [*telling.items()][:2])
        yield file.build_finding("label-in-text", stops=told_all and own_name, words=shown)


def _find_id_columns(file: CheckedFile, name: str, column: Sequence[Any]) -> Iterator[DataFinding]:
    """Yield a finding if an additional column contains ids: nearly all values differ, or they are increasing numbers.

    `name` is the name of the column, and `column` its values.
    """
    values = [str(value) for value in column]
    is_numeric = all(value.lstrip("-").isdecimal() for value in values)
    steps = np.diff([int(value) for value in values]) if is_numeric else np.zeros(0)
    counted_up = is_numeric and len(steps) > MIN_CLASS_ROWS and bool((steps > 0).all())
    distinct = not is_numeric and len(values) > MIN_CLASS_ROWS and len({*values}) >= MIN_DISTINCT_SHARE * len(values)
    text_like = distinct and any(_is_number(value) for value in values)
    if counted_up or (distinct and not text_like):
        how = "counts up from row to row"
        if not counted_up:
            how = f"has another value in {format_percent(len({*values}), len(values))} of the rows"
        yield file.build_finding("ids-as-features", column=name, how=how)


def _is_number(value: str) -> bool:
    try:
        return bool(float(value) or True)
    except ValueError:
        return False


def _find_telling_columns(file: CheckedFile, name: str, column: Sequence[Any]) -> Iterator[DataFinding]:
    """Yield a finding if a column gives the label away: each of its values has one class, or is the numeric label.

    `name` is the name of the column, and `column` its values.
    """
    labels = file.labels or ()
    if len(labels) < 2 * MIN_CLASS_ROWS:
        return
    if all(isinstance(label, float) for label in labels):
        numbers = [float(value) if _is_number(str(value)) else np.nan for value in column]
        steady = np.ptp(numbers) > 0 and np.ptp(labels) > 0
        right = abs(float(np.corrcoef(numbers, labels)[0, 1])) if steady else 0.0
        tells = right >= 0.999
    else:
        names = [" ".join(list_class_names(label)) for label in labels]
        pairs = Counter(zip(map(str, column), names, strict=True))
        best = Counter[str]()
        for (value, _), number in pairs.items():
            best[value] = max(best[value], number)
        usual = max(Counter(names).values()) / len(names)
        right = best.total() / len(names)
        tells = right >= MIN_TELLING_SHARE and usual < MAX_USUAL_SHARE and 5 * len(best) <= len(names)
    if tells:
        yield file.build_finding("label-in-column", column=name, share=format_percent(right, 1))
