"""Labels: nulls, spellings, classes too rare to learn or to measure, order, scales of numbers.

Names are those of classes, or the types of tagged spans. What a task names itself (`labels`) is meant so. Cost: one
pass over the labels.
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
    excerpt,
    percent,
    quoted,
    several,
    share_of,
    shortened,
)
from trainer.tasks.formats.records import as_number
from trainer.tasks.kinds.tags import OUTSIDE
from trainer.tasks.task import Task

NULLS = frozenset({"", "nan", "n/a", "na", "<na>", "#n/a", "null", "nil", "none", "?", "missing", "undefined"})
MAYBE_MEANT = frozenset({"na", "none", "?", "missing"})  # also names of classes, as "none" is where stances are
FEW_TO_LEARN, FEW_TO_MEASURE = 8, 5  # rows of a class
IMBALANCED = 0.9  # the share of one class from which accuracy says little
SHIFTED = 0.2  # by which the share of a class differs between files
UNSEEN = 0.01  # share of evaluation rows whose label no training row has
FEWEST = 20  # rows from which shares say something
OUTLYING = 1.0  # ranges of nearly all numbers, by which one is beyond them
NEARLY_ALL = (0.01, 0.99)
JOINERS = "\u200c\u200d"  # they change what Persian, Hindi and emoji look like


def label_findings(task: Task, files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield what is wrong with labels. files: the training file first"""
    labelled = [file for file in files if file.labels is not None and len(file)]
    if not labelled:
        return
    if isinstance(next(iter(labelled[0].labels or ())), float):
        for file in labelled:
            yield from _numbers(file)
        return
    rows_by_name = {file.name: rows_of_names(file) for file in labelled}
    if not any(rows_by_name.values()):
        return
    if not getattr(task, "labels", ()):
        for file in labelled:
            yield from _nulls(file, rows_by_name[file.name])
        yield from _spellings(labelled, rows_by_name)
    for place, file in enumerate(labelled):
        yield from _frequencies(file, rows_by_name[file.name], place == 0 and files[0] is file)
        yield from _sorted(file)
    if files[0] is labelled[0]:
        for file in labelled[1:]:
            yield from _against_training(file, labelled[0], rows_by_name)


def names_of(label: Any) -> tuple[str, ...]:
    """Return the classes that a label names; none of one that names no classes.

    >>> names_of("good"), names_of(("B-PER", "I-PER", "O")), names_of(2.5)
    (('good',), ('PER',), ())
    """
    if isinstance(label, str):
        return (label,)
    if not isinstance(label, tuple) or not all(isinstance(part, str) for part in label):
        return ()
    types = (part[2:] if part[1:2] == "-" and part[:1] in "BIESLU" else part for part in label)
    return tuple(dict.fromkeys(name for name in types if name != OUTSIDE))


def rows_of_names(file: CheckedFile) -> dict[str, list[int]]:
    """Return the rows of each class."""
    rows = defaultdict[str, list[int]](list)
    for row, label in enumerate(file.labels or ()):
        for name in names_of(label):
            rows[name].append(row)
    return rows


def _nulls(file: CheckedFile, rows: Mapping[str, Sequence[int]]) -> Iterator[DataFinding]:
    nulls = [name for name in rows if name.casefold() in NULLS]
    if nulls:
        meant = len(nulls) == 1 and nulls[0].casefold() in MAYBE_MEANT
        places = sorted(row for name in nulls for row in rows[name])
        yield file.finding(
            "null-labels",
            places,
            stops=not meant,
            rows=several(len(places)),
            labels=shortened([*map(repr, sorted(nulls))]),
        )
    whole = {as_number(name) for name in rows}
    if -1.0 in whole and None not in whole and all(number >= -1 for number in whole if number is not None):
        if max(number for number in whole if number is not None) >= 2 or 1.0 not in whole:
            yield _minus_one(file, [row for name in rows if as_number(name) == -1 for row in rows[name]])


def _minus_one(file: CheckedFile, rows: Sequence[int]) -> DataFinding:
    return file.finding("missing-as-number", rows, rows=several(len(rows)))


def _spellings(files: Sequence[CheckedFile], rows: Mapping[str, Mapping[str, Sequence[int]]]) -> Iterator[DataFinding]:
    """Yield labels that differ by case, spaces, width, hyphens or form of Unicode alone."""
    spelled = defaultdict[str, Counter[str]](Counter)
    for file in files:
        for name, places in rows[file.name].items():
            spelled[spelling_key(name)][name] += len(places)
    for names in spelled.values():
        if len(names) > 1:
            usual, *others = (name for name, _ in names.most_common())
            file, places = next((file, rows[file.name][others[0]]) for file in files if rows[file.name].get(others[0]))
            spelled_so = [f"{excerpt(ascii(name))} ({names[name]:,})" for name in (usual, *others)]
            yield file.finding("label-spellings", places, labels=shortened(spelled_so))


def spelling_key(name: str) -> str:
    """Return what spellings of one label have in common.

    >>> len({spelling_key(name) for name in ("Very good", "very_good", "very-go\\u200bod", "\\uff56ery good")})
    1
    >>> len({spelling_key(name) for name in ("1", "1.0", "01")}), len({spelling_key(name) for name in ("C", "C++")})
    (1, 2)
    """
    plain = plain_spelling(unicodedata.normalize("NFKC", name)).casefold()
    return "".join(letter for letter in plain if letter not in " _-.") if as_number(plain) is None else plain


def plain_spelling(name: str) -> str:
    """Return the spelling that a label shares with those that look the same.

    >>> [plain_spelling(name) for name in ("1.0", "01", "cafe\\u0301", "caf\\u00e9\\u200b")]
    ['1', '1', 'café', 'café']
    """
    number = as_number(name)
    if number is not None:
        return f"{number:.17g}"
    shown = "".join(letter for letter in name if unicodedata.category(letter) != "Cf" or letter in JOINERS)
    return unicodedata.normalize("NFC", " ".join(shown.split()))


def _frequencies(file: CheckedFile, rows: Mapping[str, Sequence[int]], training: bool) -> Iterator[DataFinding]:
    """Yield classes that are too rare, and one that is nearly all."""
    few = FEW_TO_LEARN if training else FEW_TO_MEASURE
    rare = sorted((name for name in rows if len(rows[name]) < few), key=lambda name: len(rows[name]))
    if rare:
        counts = [f"{quoted(name)} {len(rows[name])}" for name in rare]
        yield file.finding(
            "rare-classes" if training else "unmeasured-classes",
            rows[rare[0]],
            rare=len(rare),
            classes=len(rows),
            few=few,
            counts=shortened(counts),
        )
    most = max(rows, key=lambda name: len(rows[name]), default="")
    one_a_row = all(isinstance(label, str) for label in file.labels or ())
    if one_a_row and len(rows) == 1 and len(file) > 1:
        yield file.finding("one-class", label=quoted(most))
    elif one_a_row and len(file) >= FEWEST and len(rows[most]) >= IMBALANCED * len(file):
        yield file.finding("imbalance", share=percent(len(rows[most]), len(file)), label=quoted(most))


def _sorted(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield that rows are in the order of their labels."""
    labels = [label for label in file.labels or () if isinstance(label, str)]
    classes, changes = len({*labels}), sum(one != other for one, other in pairwise(labels))
    if len(labels) == len(file) >= FEWEST and classes > 1 and changes == classes - 1:
        yield file.finding("sorted-rows")


def _against_training(
    file: CheckedFile, training: CheckedFile, rows: Mapping[str, Mapping[str, Sequence[int]]]
) -> Iterator[DataFinding]:
    """Yield classes that training has not, or much more or less often."""
    ours, theirs = rows[file.name], rows[training.name]
    unseen = sorted({*ours} - {*theirs})
    if unseen:
        places = sorted(row for name in unseen for row in ours[name])
        yield file.finding(
            "unseen-labels",
            places,
            stops=len(places) > UNSEEN * len(file),
            rows=share_of(len(places), len(file)),
            training=training.called,
            labels=shortened([*map(quoted, unseen)]),
        )
    if min(len(file), len(training)) < 5 * FEWEST:
        return
    shares = {name: (len(ours.get(name, ())) / len(file), len(theirs[name]) / len(training)) for name in theirs}
    far = max(shares, key=lambda name: abs(shares[name][0] - shares[name][1]))
    if abs(shares[far][0] - shares[far][1]) >= SHIFTED:
        yield file.finding(
            "label-shift",
            label=quoted(far),
            share=percent(shares[far][0], 1),
            learnt=percent(shares[far][1], 1),
            training=training.called,
        )


def _numbers(file: CheckedFile) -> Iterator[DataFinding]:
    """Yield numbers that are far from all others."""
    numbers = np.array([np.nan if label is None else label for label in file.labels or ()], np.float64)
    low, high = np.nanquantile(numbers, NEARLY_ALL)
    beyond = OUTLYING * (high - low)
    far = np.flatnonzero((numbers < low - beyond) | (numbers > high + beyond)).tolist()
    if far and len(file) >= FEWEST:
        yield file.finding(
            "out-of-scale",
            far,
            rows=several(len(far)),
            low=low,
            high=high,
            numbers=shortened([f"{numbers[row]:g}" for row in far]),
        )
    below = np.flatnonzero(numbers < 0).tolist()
    if len(below) > 1 and not far and len({numbers[row] for row in below}) == 1 and numbers[below[0]] == -1:
        if np.nanmin(np.delete(numbers, below), initial=np.inf) >= 0:
            yield _minus_one(file, below)
    values = {*numbers.tolist()}
    if len(values) == 1 and len(file) > 1:
        yield file.finding("one-class/number", number=numbers[0])
