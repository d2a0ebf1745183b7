"""Numbers that decide no bytes of a run: parts per task, retries, waiting times, what its page shows."""

import os
from collections.abc import Sequence
from math import ceil

from corpora.generic_types import Item

BYTES_PER_WORKER = 16_000_000  # of raw files: more workers would load longer than they work
GROUPS_PER_WORKER = 6  # many enough to even out the end
RETRIES = 2
RETRY_DELAY_SECONDS = [1.0, 5.0]
SERVER_START_SECONDS = 180  # the first start migrates a database
SERVER_STOP_SECONDS = 8
RECORD_SECONDS = 60  # how long a finished run waits until the server has written everything down
PROGRESS_SECONDS = 2.0  # between two changes of the progress on a run's page: each is a request
MAX_SAMPLES = 20  # dropped documents shown in an artifact
MAX_SAMPLES_PER_REASON = 3  # of one reason
METRIC_SECONDS = 2.0  # between lines of a training run in the flow run's log
CURVE_SECONDS = 15.0  # between two drawings of the loss curve
DRAW_SHARE = 0.01  # of the time a training run has taken passes between two drawings, where that is longer
MAX_KEPT_EVENTS = 10_000  # held in memory to draw from; a longer run drops every other step, again and again
MAX_METRIC_ROWS = 100  # steps in the table of metrics


def count_cores() -> int:
    """Return the number of cores that this process may use; at least one."""
    return max(1, len(os.sched_getaffinity(0)))


def choose_num_workers(raw_bytes: int) -> int:
    """Choose the number of worker processes for raw files: one per BYTES_PER_WORKER bytes, and at most one per core.

    Args:
        raw_bytes: Total size of the raw files.
    """
    return min(count_cores(), 1 + raw_bytes // BYTES_PER_WORKER)


def group_parts(parts: Sequence[Item], workers: int) -> list[Sequence[Item]]:
    """Divide parts, in order, into batches for the worker processes: about GROUPS_PER_WORKER batches per worker.

    >>> group_parts([1, 2, 3, 4, 5, 6, 7], workers=1)
    [[1, 2], [3, 4], [5, 6], [7]]
    """
    size = max(1, ceil(len(parts) / (workers * GROUPS_PER_WORKER)))
    return [parts[first : first + size] for first in range(0, len(parts), size)]


def choose_num_threads(workers: int) -> int:
    """Choose the number of threads that wait for worker processes, without doing work themselves."""
    return max(16, 2 * workers)
