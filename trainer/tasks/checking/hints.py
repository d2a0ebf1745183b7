"""Hints: what tells the label without being read: a word that is always with it, a column, an id.

Cost: words of at most 20,000 rows at equal distances are counted; columns are read whole.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trainer.tasks.checking.files import CheckedFile
from trainer.tasks.checking.findings import DataFinding, percent, quoted
from trainer.tasks.checking.labels import names_of
from trainer.tasks.checking.texts import READ, looked_at

WORD = re.compile(r"\w+")
FEWEST = 10  # rows of a class
EVERYWHERE, ALONE = 0.9, 0.98  # share of a class' rows with a word, and of the word's rows in the class
MOST_CLASSES = 100
TELLS = 0.98  # share of rows whose label a column tells
USUAL = 0.9  # of which always answering the commonest one must not be near
DISTINCT = 0.9  # share of values that are met once, from which a column holds ids


def hint_findings(files: Sequence[CheckedFile]) -> Iterator[DataFinding]:
    """Yield what tells labels. files: the training file first, which is looked at"""
    file = files[0]
    for name in file.features:
        column = [values.get(name) for values in file.values]
        yield from _ids(file, name, column)
        yield from _column(file, name, column)
    if file.labels is not None and all(isinstance(label, str) for label in file.labels):
        yield from _words(file, file.labels)


def _words(file: CheckedFile, labels: Sequence[str]) -> Iterator[DataFinding]:
    """Yield words that nearly all rows of a class have, and hardly any other row."""
    rows = looked_at(len(file), READ)
    sizes = Counter(labels[row] for row in rows)
    if not 2 <= len(sizes) <= MOST_CLASSES:
        return
    by_class = {label: Counter[str]() for label in sizes}
    for row in rows:
        by_class[labels[row]].update({*WORD.findall(file.wholes[row].casefold())})
    every = sum(by_class.values(), Counter[str]())
    telling = {
        label: word
        for label, counts in by_class.items()
        for word, number in counts.most_common(50)
        if sizes[label] >= FEWEST and number >= EVERYWHERE * sizes[label] and number >= ALONE * every[word]
    }
    if telling:
        told_all = len(telling) >= len(sizes) - 1
        own_name = all(word in WORD.findall(label.casefold()) for label, word in telling.items())
        shown = ", ".join(f"{quoted(word)} for {quoted(label)}" for label, word in [*telling.items()][:2])
        yield file.finding("label-in-text", stops=told_all and own_name, words=shown)


def _ids(file: CheckedFile, name: str, column: Sequence[Any]) -> Iterator[DataFinding]:
    """Yield that a column holds an id: each category once, or whole numbers one after another."""
    values = [str(value) for value in column]
    is_numeric = all(value.lstrip("-").isdecimal() for value in values)
    steps = np.diff([int(value) for value in values]) if is_numeric else np.zeros(0)
    counted_up = is_numeric and len(steps) > FEWEST and bool((steps > 0).all())
    distinct = not is_numeric and len(values) > FEWEST and len({*values}) >= DISTINCT * len(values)
    text_like = distinct and any(_is_number(value) for value in values)
    if counted_up or (distinct and not text_like):
        how = "counts up from row to row"
        if not counted_up:
            how = f"has another value in {percent(len({*values}), len(values))} of the rows"
        yield file.finding("ids-as-features", column=name, how=how)


def _is_number(value: str) -> bool:
    try:
        return bool(float(value) or True)
    except ValueError:
        return False


def _column(file: CheckedFile, name: str, column: Sequence[Any]) -> Iterator[DataFinding]:
    """Yield that a column alone tells the label: its values' commonest labels are right, or it is the number."""
    labels = file.labels or ()
    if len(labels) < 2 * FEWEST:
        return
    if all(isinstance(label, float) for label in labels):
        numbers = [float(value) if _is_number(str(value)) else np.nan for value in column]
        steady = np.ptp(numbers) > 0 and np.ptp(labels) > 0
        right = abs(float(np.corrcoef(numbers, labels)[0, 1])) if steady else 0.0
        tells = right >= 0.999
    else:
        names = [" ".join(names_of(label)) for label in labels]
        pairs = Counter(zip(map(str, column), names, strict=True))
        best = Counter[str]()
        for (value, _), number in pairs.items():
            best[value] = max(best[value], number)
        usual = max(Counter(names).values()) / len(names)
        right = best.total() / len(names)
        tells = right >= TELLS and usual < USUAL and 5 * len(best) <= len(names)
    if tells:
        yield file.finding("label-in-column", column=name, share=percent(right, 1))
