"""Measuring side by side: CPU time of calls that take turns, the table it makes, and text to work on.

Promise: the sides are called in turns in one process, so whatever else the machine does slows all of them
alike, and every call is given a number never given before, so that no side can learn its random choices by
heart. A figure is the median over the rounds of CPU seconds, user and system, of all threads; a call too short
for the clock is repeated until it is not. Memory that a side takes from the system is part of its cost.

Trust the ratios to some 15 %; figures for themselves vary with the machine and its other users.
"""

import argparse
import gc
import itertools
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.launch import ROOT, home_folder
from corpora.kernels import kernel_digest  # isort: skip

# Before anything imports numba or tokenizers, which read these once: compiled kernels lie where runs have them,
# and a library that would spread over all cores does the work of one.
os.environ.setdefault("NUMBA_CACHE_DIR", str(home_folder(os.environ) / "kernels" / kernel_digest(ROOT)))
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pyarrow as pa

from corpora.clean import CleanSettings, clean
from corpora.errors import InputError
from corpora.sources.python_docs import STANDARD_LIBRARY, PythonDocsSource
from corpora.sources.source import StatCache, Tally, hash_files
