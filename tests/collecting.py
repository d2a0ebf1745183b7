"""Puts the files of tests in the order of a seed, and reports skipped tests; tests/conftest.py uses both."""

import random
import re
from collections.abc import Mapping
from importlib.util import find_spec

MISSING = re.compile("could not import|is not installed$")


def random_place(seed: str, file: str) -> float:
    """Return where a seed puts a file among all others, from 0 to 1, in each process and on each machine.

    >>> round(random_place("1", "tests/test_docs.py"), 4), round(random_place("2", "tests/test_docs.py"), 4)
    (0.3353, 0.3984)
    """
    return random.Random(f"{seed} {file}").random()


def place_file(file: str, seed: str | None, seconds: Mapping[str, float], num_slow: int) -> float:
    """Return where a file comes among all others, the lowest first: at random if there is a seed, else the dearest.

    How dear a file is its CPU seconds in an earlier run say; if there was none, how many of its tests are marked slow.

    >>> place_file("a.py", None, {"a.py": 7.5}, 0) < place_file("b.py", None, {"a.py": 7.5}, 3)
    True
    >>> place_file("a.py", None, {}, 0) < place_file("b.py", None, {}, 3)
    False
    >>> place_file("a.py", "1", {"a.py": 7.5}, 0) == random_place("1", "a.py")
    True
    """
    if seed:
        return random_place(seed, file)
    return -(seconds.get(file, 0.0) if seconds else num_slow)


def add_remedy(reason: str) -> str:
    """Return why a test is skipped, with what mends it where a package is missing.

    >>> add_remedy("Skipped: could not import 'grain'").partition(" installs it")[0]
    "Skipped: could not import 'grain'; `make develop`"
    >>> add_remedy("Skipped: needs a CUDA device")
    'Skipped: needs a CUDA device'
    """
    without = "" if find_spec("torch") else ", without TORCH=none"
    return f"{reason}; `make develop` installs it{without}" if MISSING.search(reason) else reason
