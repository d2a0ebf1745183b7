"""Puts the files of tests in the order of a seed, and reports skipped tests; tests/conftest.py uses both."""

import random
import re
from importlib.util import find_spec

MISSING = re.compile("could not import|is not installed$")


def random_place(seed: str, file: str) -> float:
    """Return where a seed puts a file among all others, from 0 to 1, in each process and on each machine.

    >>> round(random_place("1", "tests/test_docs.py"), 4), round(random_place("2", "tests/test_docs.py"), 4)
    (0.3353, 0.3984)
    """
    return random.Random(f"{seed} {file}").random()


def add_remedy(reason: str) -> str:
    """Return why a test is skipped, with what mends it where a package is missing.

    >>> add_remedy("Skipped: could not import 'usearch'").partition(" installs it")[0]
    "Skipped: could not import 'usearch'; `make develop`"
    >>> add_remedy("Skipped: needs a CUDA device")
    'Skipped: needs a CUDA device'
    """
    without = "" if find_spec("torch") else ", without TORCH=none"
    return f"{reason}; `make develop` installs it{without}" if MISSING.search(reason) else reason
