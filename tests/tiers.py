"""The two tiers of the tests: `make test` tries each property with few random examples, `make test-all` with many.

`make test-all` sets CLOZE_TESTS=long. There each property gets all the examples it asks for, drawn at random, and the
tests marked `long` run as well. In `make test` it gets a tenth, the same ones each time, so a failure stays one.
"""

import os
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

LONG = os.environ.get("CLOZE_TESTS") == "long"
SHARE, FEWEST = 10, 5


def count_examples(number: int) -> int:
    """Return how many random examples a property is tried with that asks for `number`.

    >>> count_examples(300) in (30, 300)
    True
    """
    return number if LONG else max(FEWEST, number // SHARE)


def examples(number: int, **others: Any) -> settings:
    """Return a decorator that gives a property `number` random examples in the long tier, else a tenth of them."""
    return settings(max_examples=count_examples(number), **others)


def a_few(items: Iterable[Any], number: int, seed: str = "") -> list[Any]:
    """Return all items in the long tier, else `number` of them, the same ones each time.

    >>> len(a_few(range(9), 3)) in (3, 9)
    True
    """
    return list(items) if LONG else Random(seed).sample(list(items), number)


def mostly_long(items: Iterable[Any], number: int) -> list[Any]:
    """Return the parameters of a test, of which all but `number` are marked long, the same ones each time."""
    values = list(items)
    now = Random(0).sample(range(len(values)), number)
    return [
        value if place in now else pytest.param(value, marks=pytest.mark.long) for place, value in enumerate(values)
    ]


def load_profile() -> None:
    """Make settings without a number those of the tier; an example may take as long as a busy machine needs."""
    settings.register_profile(
        "tier",
        settings.get_profile("default"),
        max_examples=count_examples(100),
        derandomize=not LONG,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("tier")
