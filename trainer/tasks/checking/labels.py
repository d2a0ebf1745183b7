"""Checks of labels: null values, spellings, classes too rare to learn or to score, sorted rows, outliers.

The names that are checked are those of classes, or the types of tagged spans. Names that a task lists in its `labels`
are taken as intended. Cost: one pass over the labels.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from trainer.tasks.checking.findings import (
    CheckedFile,
    DataFinding,
    format_count,
    format_percent,
    format_share,
    list_some,
    quote,
    shorten,
)
from trainer.tasks.formats.records import as_number
from trainer.tasks.kinds.tags import OUTSIDE
from trainer.tasks.task import Task

NULL_NAMES = frozenset({"", "nan", "n/a", "na", "<na>", "#n/a", "null", "nil", "none", "?", "missing", "undefined"})
MEANINGFUL_NULLS = frozenset({"na", "none", "?", "missing"})  # also names of classes, as "none" is where stances are
MIN_ROWS_TO_LEARN, MIN_ROWS_TO_MEASURE = 8, 5  # rows of a class
MAX_CLASS_SHARE = 0.9  # the share of one class from which accuracy says little
MAX_SHARE_SHIFT = 0.2  # by which the share of a class differs between files
MAX_UNSEEN_SHARE = 0.01  # share of evaluation rows whose label no training row has
MIN_ROWS_FOR_SHARES = 20  # rows from which shares say something
OUTLIER_RANGES = 1.0  # ranges of nearly all numbers, by which one is beyond them
CENTRAL_QUANTILES = (0.01, 0.99)
JOINERS = "\u200c\u200d"  # they change what Persian, Hindi and emoji look like


def find_label_problems(task: Task, files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield the problems of labels: null values, spellings, rare or unbalanced classes, sorted rows, outliers.

    Args:
        task: The task. If its settings list the classes, null values and spellings are not checked.
        files: The training file first, then the evaluation files. Files without labels are ignored.
    """
    labelled = [file for file in files if file.labels is not None and len(file)]
    if not labelled:
        return
    if isinstance(next(iter(labelled[0].labels or ())), float):
        for file in labelled:
            yield from _find_outliers(file)
        return
    rows_by_name = {file.name: group_rows_by_class(file) for file in labelled}
    if not any(rows_by_name.values()):
        return
    if not getattr(task, "labels", ()):
        for file in labelled:
            yield from _find_null_names(file, rows_by_name[file.name])
        yield from _find_label_spellings(labelled, rows_by_name)
    for place, file in enumerate(labelled):
        yield from _find_rare_classes(file, rows_by_name[file.name], place == 0 and files[0] is file)
        yield from _find_sorted_rows(file)
    if files[0] is labelled[0]:
        for file in labelled[1:]:
            yield from _compare_with_training(file, labelled[0], rows_by_name)


def list_class_names(label: Any) -> tuple[str, ...]:
    """List the class names in a label: the class itself, or the types in a sequence of tags. A number has none.

    >>> list_class_names("good"), list_class_names(("B-PER", "I-PER", "O")), list_class_names(2.5)
    (('good',), ('PER',), ())
    """
    if isinstance(label, str):
        return (label,)
    if not isinstance(label, tuple) or not all(isinstance(part, str) for part in label):
        return ()
    types = (part[2:] if part[1:2] == "-" and part[:1] in "BIESLU" else part for part in label)
    return tuple(dict.fromkeys(name for name in types if name != OUTSIDE))


def group_rows_by_class(file: CheckedFile) -> dict[str, list[int]]:
    """Map each class name in a file to the zero-based indices of its rows."""
    rows = defaultdict[str, list[int]](list)
    for row, label in enumerate(file.labels or ()):
        for name in list_class_names(label):
            rows[name].append(row)
    return rows


def _find_null_names(file: CheckedFile, rows: Mapping[str, Sequence[int]]) -> Iterator[DataFinding]:
    nulls = [name for name in rows if name.casefold() in NULL_NAMES]
    if nulls:
        meant = len(nulls) == 1 and nulls[0].casefold() in MEANINGFUL_NULLS
        places = sorted(row for name in nulls for row in rows[name])
        yield file.build_finding(
            "null-labels",
            places,
            stops=not meant,
            rows=format_count(len(places)),
            labels=list_some([*map(repr, sorted(nulls))]),
        )
    whole = {as_number(name) for name in rows}
    if -1.0 in whole and None not in whole and all(number >= -1 for number in whole if number is not None):
        if max(number for number in whole if number is not None) >= 2 or 1.0 not in whole:
            yield _report_minus_one(file, [row for name in rows if as_number(name) == -1 for row in rows[name]])


def _report_minus_one(file: CheckedFile, rows: Sequence[int]) -> DataFinding:
    return file.build_finding("missing-as-number", rows, rows=format_count(len(rows)))


def _find_label_spellings(
    files: Sequence[CheckedFile], rows: Mapping[str, Mapping[str, Sequence[int]]]
) -> Iterator[DataFinding]:
    """Yield a finding for labels that differ only by case, white space, width, hyphens or Unicode normalization.

    `rows` maps the name of each file to a mapping from each class to the indices of its rows.
    """
    spelled = defaultdict[str, Counter[str]](Counter)
    for file in files:
        for name, places in rows[file.name].items():
            spelled[compute_spelling_key(name)][name] += len(places)
    for names in spelled.values():
        if len(names) > 1:
            usual, *others = (name for name, _ in names.most_common())
            file, places = next((file, rows[file.name][others[0]]) for file in files if rows[file.name].get(others[0]))
            spelled_so = [f"{shorten(ascii(name))} ({names[name]:,})" for name in (usual, *others)]
            yield file.build_finding("label-spellings", places, labels=list_some(spelled_so))


def compute_spelling_key(name: str) -> str:
    r"""Compute a key that is equal for all spellings of a label.

    It ignores case, spaces, underscores, hyphens and periods. Labels that are numbers have equal keys if they have the
    same value.

    >>> len({compute_spelling_key(name) for name in ("Very good", "very_good", "very-go\u200bod", "\uff56ery good")})
    1
    >>> [compute_spelling_key(name) for name in ("1", "1.0", "01", "C", "C++")]
    ['1', '1', '1', 'c', 'c++']
    """
    plain = normalize_spelling(unicodedata.normalize("NFKC", name)).casefold()
    return "".join(letter for letter in plain if letter not in " _-.") if as_number(plain) is None else plain


def normalize_spelling(name: str) -> str:
    r"""Normalize the spelling of a label, so that labels that look the same or are the same number become equal.

    >>> [normalize_spelling(name) for name in ("1.0", "01", "cafe\u0301", "caf\u00e9\u200b")]
    ['1', '1', 'café', 'café']
    """
    number = as_number(name)
    if number is not None:
        return f"{number:.17g}"
    shown = "".join(letter for letter in name if unicodedata.category(letter) != "Cf" or letter in JOINERS)
    return unicodedata.normalize("NFC", " ".join(shown.split()))


def _find_rare_classes(file: CheckedFile, rows: Mapping[str, Sequence[int]], training: bool) -> Iterator[DataFinding]:
    """Yield findings for classes with too few rows to learn or to score, and for a class with nearly all rows.

    Args:
        file: The file.
        rows: The zero-based indices of the rows of each class, by name.
        training: True if the file is the training file.
    """
    few = MIN_ROWS_TO_LEARN if training else MIN_ROWS_TO_MEASURE
    rare = sorted((name for name in rows if len(rows[name]) < few), key=lambda name: len(rows[name]))
    if rare:
        counts = [f"{quote(name)} {len(rows[name])}" for name in rare]
        yield file.build_finding(
            "rare-classes" if training else "unmeasured-classes",
            rows[rare[0]],
            rare=len(rare),
            classes=len(rows),
            few=few,
            counts=list_some(counts),
        )
    most = max(rows, key=lambda name: len(rows[name]), default="")
    one_a_row = all(isinstance(label, str) for label in file.labels or ())
    if one_a_row and len(rows) == 1 and len(file) > 1:
        yield file.build_finding("one-class", label=quote(most))
    elif one_a_row and len(file) >= MIN_ROWS_FOR_SHARES and len(rows[most]) >= MAX_CLASS_SHARE * len(file):
        yield file.build_finding("imbalance", share=format_percent(len(rows[most]), len(file)), label=quote(most))


def _find_sorted_rows(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield a finding if the rows of a file are sorted by label."""
    labels = [label for label in file.labels or () if isinstance(label, str)]
    classes, changes = len({*labels}), sum(one != other for one, other in pairwise(labels))
    if len(labels) == len(file) >= MIN_ROWS_FOR_SHARES and classes > 1 and changes == classes - 1:
        yield file.build_finding("sorted-rows")


def _compare_with_training(
    file: CheckedFile, training: CheckedFile, rows: Mapping[str, Mapping[str, Sequence[int]]]
) -> Iterator[DataFinding]:
    """Yield findings for classes that are missing from the training file, or much more or less frequent there.

    `rows` maps the name of each file to a mapping from each class to the indices of its rows.
    """
    ours, theirs = rows[file.name], rows[training.name]
    unseen = sorted({*ours} - {*theirs})
    if unseen:
        places = sorted(row for name in unseen for row in ours[name])
        yield file.build_finding(
            "unseen-labels",
            places,
            stops=len(places) > MAX_UNSEEN_SHARE * len(file),
            rows=format_share(len(places), len(file)),
            training=training.short_name,
            labels=list_some([*map(quote, unseen)]),
        )
    if min(len(file), len(training)) < 5 * MIN_ROWS_FOR_SHARES:
        return
    shares = {name: (len(ours.get(name, ())) / len(file), len(theirs[name]) / len(training)) for name in theirs}
    far = max(shares, key=lambda name: abs(shares[name][0] - shares[name][1]))
    if abs(shares[far][0] - shares[far][1]) >= MAX_SHARE_SHIFT:
        yield file.build_finding(
            "label-shift",
            label=quote(far),
            share=format_percent(shares[far][0], 1),
            learnt=format_percent(shares[far][1], 1),
            training=training.short_name,
        )


def _find_outliers(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield findings for numeric labels: outliers, -1 as a missing value, or the same value in all rows."""
    numbers = np.array([np.nan if label is None else label for label in file.labels or ()], np.float64)
    low, high = np.nanquantile(numbers, CENTRAL_QUANTILES)
    beyond = OUTLIER_RANGES * (high - low)
    far = np.flatnonzero((numbers < low - beyond) | (numbers > high + beyond)).tolist()
    if far and len(file) >= MIN_ROWS_FOR_SHARES:
        yield file.build_finding(
            "out-of-scale",
            far,
            rows=format_count(len(far)),
            low=low,
            high=high,
            numbers=list_some([f"{numbers[row]:g}" for row in far]),
        )
    below = np.flatnonzero(numbers < 0).tolist()
    if len(below) > 1 and not far and len({numbers[row] for row in below}) == 1 and numbers[below[0]] == -1:
        if np.nanmin(np.delete(numbers, below), initial=np.inf) >= 0:
            yield _report_minus_one(file, below)
    values = {*numbers.tolist()}
    if len(values) == 1 and len(file) > 1:
        yield file.build_finding("one-class/number", number=numbers[0])
