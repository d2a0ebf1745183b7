"""How the cost of a piece of work grows with its size, without a clock that decides.

A slow or busy machine slows the whole and its pieces alike, so only their ratio is looked at.
"""

import gc
from collections.abc import Callable
from time import thread_time

PIECES = 32
QUADRATIC = PIECES / 4  # whose ratio is PIECES; that of linear work is 1, and a page fault or two do not make it 8


def growth(work: Callable[[int], object], size: int) -> float:
    """Return how many times as much CPU time work of a size takes as PIECES of it with a share of the size each."""
    work(size // PIECES)  # what only the first call costs
    gc.collect()
    gc.disable()
    try:
        pieces = spent(work, [size // PIECES] * PIECES)
        return min(spent(work, [size]) for _ in range(2)) / pieces
    finally:
        gc.enable()


def spent(work: Callable[[int], object], sizes: list[int]) -> float:
    """Return the CPU seconds of this thread for work of several sizes, one after the other."""
    begun = thread_time()
    for size in sizes:
        work(size)
    return thread_time() - begun
