"""Opens the engine that a recipe names for the time of a run: a pool of processes here, or a Dask cluster."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from corpora.errors import InputError
from corpora.store.worker_pool import WorkerLimits, WorkerPool
from flows.engines.contract import RunEngine
from flows.engines.worker_checks import SharedPaths
from flows.recipes.run_settings import LOCAL_ENGINE
from flows.signals import SIGNAL_THREAD, call_on_stop

MAX_FORKS = 8  # of a run that begins; each takes 16 ms of a core, used or not (a process of 230 MB)


def is_safe_to_fork() -> bool:
    """Return True if this process has no other threads, except the signal thread, so that forking is safe.

    Any other thread could hold a lock, which would stay locked in the child process.
    """
    known = {threading.main_thread().name, SIGNAL_THREAD}
    return all(thread.name in known for thread in threading.enumerate())


@contextmanager
def open_engine(
    address: str,
    workers: int,
    limits: WorkerLimits,
    tell: Callable[[str], None],
    find_shared_paths: Callable[[], SharedPaths],
) -> Iterator[RunEngine]:
    """Open an engine for the block: a pool of processes on this machine, or the workers of a Dask cluster.

    Args:
        address: "local", or the address of a Dask scheduler.
        workers: The number of processes in the local pool; ignored for a cluster.
        limits: Limits of time and memory for each worker.
        tell: Called with a line to print if a call is repeated, or a worker cannot be used.
        find_shared_paths: Function that returns the files that the workers of a cluster must see. It is not called for
            the local pool.

    Raises:
        InputError: If no scheduler responds at the address, it has no worker, or a worker cannot be used for this run.
    """
    if address == LOCAL_ENGINE:
        with WorkerPool(workers, limits, tell) as pool:
            yield pool
        return
    check_dask_installed(address)
    from flows.engines.dask_cluster import Cluster  # Dask is slow to import

    cluster = Cluster(address, limits, tell)
    with call_on_stop(cluster.close):
        try:
            cluster.connect(find_shared_paths())
            yield cluster
        finally:
            cluster.close()


def check_dask_installed(address: str) -> None:
    """Check that the package `distributed` is installed.

    Args:
        address: The address of the cluster, for the message.

    Raises:
        InputError: If it is not installed.
    """
    if find_spec("distributed") is None:
        raise InputError(
            f'engine = "{address}" needs the package `distributed`, which is not installed: `pip install '
            "'cloze-pipeline[dask]'`, here and on every worker."
        )


def inspect_engine(address: str) -> tuple[str, str]:
    """Describe the state of the Dask cluster that a recipe names as its engine.

    Args:
        address: The address of the scheduler.

    Returns:
        Two strings: a line with the number of workers and threads and the memory, and what the user must do before a
        run can use the cluster ("" if nothing).

    Raises:
        InputError: If Dask is not installed, no scheduler responds at the address, or a worker does not have Cloze
            installed.
    """
    check_dask_installed(address)
    from flows.engines.connect import inspect_cluster  # Dask is slow to import

    return inspect_cluster(address)
