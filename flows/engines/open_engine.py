"""Opens the engine that a recipe names, for the time of a run."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from corpora.errors import InputError
from corpora.store.worker_pool import WorkerLimits, WorkerPool
from flows.engines.contract import RunEngine
from flows.engines.worker_checks import Sight
from flows.recipes.run_settings import LOCAL_ENGINE
from flows.signals import SIGNAL_THREAD, call_on_stop

MAX_FORKS = 8  # of a run that begins; each takes 16 ms of a core, used or not (a process of 230 MB)


def is_safe_to_fork() -> bool:
    """Return whether this process has no thread that may hold a lock; the one that waits for signals holds none."""
    known = {threading.main_thread().name, SIGNAL_THREAD}
    return all(thread.name in known for thread in threading.enumerate())


@contextmanager
def engine_at_work(
    address: str, workers: int, limits: WorkerLimits, tell: Callable[[str], None], sight: Callable[[], Sight]
) -> Iterator[RunEngine]:
    """Yield for the time of the block a pool of so many processes here, or a cluster's workers, however many.

    tell:  called for calls that are made again, and workers that cannot be used
    sight: what the workers of a cluster must see
    Raises InputError if there is no such cluster, or its workers do not fit the run.
    """
    if address == LOCAL_ENGINE:
        with WorkerPool(workers, limits, tell) as pool:
            yield pool
        return
    refuse_without_dask(address)
    from flows.engines.dask_cluster import Cluster  # Dask is slow to import

    cluster = Cluster(address, limits, tell)
    with call_on_stop(cluster.close):
        try:
            cluster.connect(sight())
            yield cluster
        finally:
            cluster.close()


def refuse_without_dask(address: str) -> None:
    """Raise InputError if the package that talks to a cluster is missing."""
    if find_spec("distributed") is None:
        raise InputError(
            f'engine = "{address}" needs the package `distributed`, which is not installed: `pip install '
            "'cloze-pipeline[dask]'`, here and on every worker."
        )


def engine_seen(address: str) -> tuple[str, str]:
    """Return a cluster's state, in a line, and what must be done before a run there ("" if nothing must).

    Raises InputError if there is none.
    """
    refuse_without_dask(address)
    from flows.engines.connect import look_at  # Dask is slow to import

    return look_at(address)
