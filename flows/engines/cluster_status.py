"""Reports the current state of a cluster: its workers, their memory and GPUs, and which of them fit. Builds nothing.

Cost: half a second where the scheduler answers, and the import of Dask; up to 10 s where it does not.
"""

import os
import platform
from collections.abc import Mapping
from typing import NamedTuple

from flows.engines.connect import CLOSE_SECONDS, ask_all, first_connected, how_to_start, trainers_of, workers_of
from flows.engines.version_match import Identity, differences, identity
from flows.run.record.counts_text import counted


class Machine(NamedTuple):
    """A worker's account of itself."""

    identity: Identity
    host: str
    memory_bytes: int


def look_at(address: str) -> tuple[str, str]:
    """Return a cluster's state, in a line, and what must be done before a run there ("" where nothing must).

    Raises InputError where none answers, or a worker has no Cloze.
    """
    client = first_connected(address)
    try:
        workers = workers_of(client)
        if not workers:
            return f"{address} answers, and has no worker", how_to_start(address)
        machines: Mapping[str, Machine] = ask_all(client, this_machine)
        threads = sum(int(worker["nthreads"]) for worker in workers.values())
        with_gpus = len(trainers_of(client))
    finally:
        client.close(CLOSE_SECONDS)
    memory = {machine.host: machine.memory_bytes for machine in machines.values()}
    has = f"{counted(len(workers), 'worker')} ({with_gpus or 'none'} with GPUs) with {counted(threads, 'thread')}"
    where = f"{counted(len(memory), 'machine')} with {sum(memory.values()) / 1e9:.1f} GB of memory"
    return f"{address}: {has} on {where}", _remedy(machines)


def _remedy(machines: Mapping[str, Machine]) -> str:
    ours = identity()
    compared = {worker: differences(ours, machine.identity) for worker, machine in sorted(machines.items())}
    unlike = [f"{worker} has {how}" for worker, how in compared.items() if how]
    if not unlike:
        return ""
    return (
        f"{len(unlike)} of {counted(len(machines), 'worker')} are not like this machine: {unlike[0]}; install the same "
        "versions there and start them again"
    )


def this_machine() -> Machine:
    """Return the machine where this is called."""
    return Machine(identity(), platform.node(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
