"""Names for messages, names of metrics and of classes; shares of answers, and numbers."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Float64s
from corpora.store.settings import check_choice
from trainer.tasks.formats.records import Unusable, as_label, as_number

MOST_LISTED = 8
JOINERS = "\u200c\u200d"  # they change what Persian, Hindi and emoji look like


def listed(names: Sequence[str]) -> str:
    """Names, not too many of them.

    >>> listed(["a", "b"]), listed([str(n) for n in range(10)])
    ("'a', 'b'", "'0', '1', '2', '3', '4', '5', '6', '7' and 2 more")
    """
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(map(repr, names[:MOST_LISTED])) + more


def with_first(asked: str, metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Return metrics with the requested one first. asked: "": as they are. Raises InputError for another.

    >>> with_first("f1", ("accuracy", "f1"))
    ('f1', 'accuracy')
    """
    check_choice("metric", asked, ("", *metrics))
    return (asked, *(name for name in metrics if name != asked)) if asked else metrics


def check_labels(labels: Sequence[str]) -> None:
    """Raise InputError where a class is named twice."""
    if len({*labels}) < len(labels):
        raise InputError(f"labels = {', '.join(labels)} names a class twice: give each name once.")


def check_spellings(names: Sequence[str], where: str) -> None:
    """Raise InputError where two labels are one in two spellings: the same number, or letters that look the same."""
    met = dict[str, str]()
    for name in names:
        other = met.setdefault(plain_spelling(name), name)
        if other != name:
            raise InputError(
                f"{where}: the labels {other!a} and {name!a} are two spellings of one: spell it the same way, or name "
                "all classes (`--set labels=[...]`) if they are two."
            )


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


def label_keys(labels: Sequence[str]) -> dict[str, Any]:
    """The keys of a configuration that name classes."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def labels_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The classes that a configuration names, in their order."""
    named = {int(n): str(label) for n, label in config.get("id2label", {0: "LABEL_0", 1: "LABEL_1"}).items()}
    return tuple(named[number] for number in sorted(named))


def softmax(logits: npt.NDArray[Any]) -> Float64s:
    """The shares of answers of which one is right."""
    powers = np.exp((logits - logits.max()).astype(np.float64))
    shares: Float64s = powers / powers.sum()
    return shares


def sigmoid(logits: npt.NDArray[Any]) -> Float64s:
    """The share of each answer by itself."""
    shares: Float64s = 1 / (1 + np.exp(-logits.astype(np.float64)))
    return shares


def number_of(value: Any, name: str) -> float:
    """Return a finite number. Raises Unusable."""
    label = as_label(value, name)
    number = as_number(label)
    if number is None:
        raise Unusable(f"{name} is no number", f"{label!r:.40}")
    return number
