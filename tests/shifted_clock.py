"""A plugin for a test of the suite: `pytest -p shifted_clock` collects the tests in another year, on another machine.

What a test's name must not depend on is changed before any test file is imported: the clock, the number of processors,
the order in which folders are listed, the folder of temporary files.
"""

import os
import random
import tempfile
import time
from pathlib import Path

LATER = 400 * 24 * 3600.0

_time, _listdir, _iterdir = time.time, os.listdir, Path.iterdir

time.time = lambda: _time() + LATER
os.cpu_count = lambda: 64
tempfile.tempdir = tempfile.mkdtemp()
os.listdir = lambda *folder: random.Random(1).sample(names := _listdir(*folder), len(names))  # type: ignore[assignment]
Path.iterdir = lambda self: iter(sorted(_iterdir(self), reverse=True))  # type: ignore[method-assign]
