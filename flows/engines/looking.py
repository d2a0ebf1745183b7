"""What a cluster is, as of now: its workers, their memory and GPUs, and which of them are fit. Builds nothing.

Cost: half a second where the scheduler answers, and the import of Dask; up to 10 s where it does not.
"""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from flows.engines.connecting import CLOSE_SECONDS, ask_all, first_connected, how_to_start, trainers_of, workers_of
from flows.engines.identity import Identity, differences, identity
from flows.run.units import counted


class Machine(NamedTuple):
    """What a worker says of itself."""

    identity: Identity
    host: str
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """A cluster. memory_bytes: of all its machines; unlike: worker -> how it differs from this machine"""

    address: str
    workers: int
    threads: int
    machines: int
    memory_bytes: int
    with_gpus: int
    unlike: Mapping[str, str]

    @property
    def fact(self) -> str:
        """It in a line."""
        if not self.workers:
            return f"{self.address} answers, and has no worker"
        gpus = f"{self.with_gpus} with GPUs" if self.with_gpus else "none with GPUs"
        return (
            f"{self.address}: {counted(self.workers, 'worker')} ({gpus}) with {counted(self.threads, 'thread')} on "
            f"{counted(self.machines, 'machine')} with {self.memory_bytes / 1e9:.1f} GB of memory"
        )

    @property
    def remedy(self) -> str:
        """What must be done before a run; "" where nothing must."""
        if not self.workers:
            return f"{how_to_start(self.address)}"
        if self.unlike:
            worker, how = next(iter(sorted(self.unlike.items())))
            return (
                f"{len(self.unlike)} of {counted(self.workers, 'worker')} are not like this machine: {worker} has "
                f"{how}; install the same versions there and start them again"
            )
        return ""


def look_at(address: str) -> ClusterSeen:
    """The cluster of a scheduler. Raises InputError where none answers, or a worker has no Cloze."""
    client = first_connected(address)
    try:
        workers = workers_of(client)
        found: Mapping[str, Machine] = ask_all(client, this_machine) if workers else {}
        ours = identity()
        unlike = {worker: differences(ours, machine.identity) for worker, machine in found.items()}
        memory = {machine.host: machine.memory_bytes for machine in found.values()}
        return ClusterSeen(
            address=address,
            workers=len(workers),
            threads=sum(int(worker["nthreads"]) for worker in workers.values()),
            machines=len(memory),
            memory_bytes=sum(memory.values()),
            with_gpus=len(trainers_of(client)),
            unlike={worker: how for worker, how in unlike.items() if how},
        )
    finally:
        client.close(CLOSE_SECONDS)


def this_machine() -> Machine:
    """Where this is called."""
    return Machine(identity(), platform.node(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
