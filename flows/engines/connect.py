"""Clients of a Dask scheduler: the one that answers now, or the one that returns.

Cost: some tenths of a second where the scheduler answers.
"""

import asyncio
import logging
import os
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dask import config
from distributed import Client
from distributed.comm.core import connect
from distributed.security import Security

from corpora.errors import InputError
from flows.engines.worker_checks import Identity, differences, identity
from flows.run.record.counts_text import format_count

CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 60.0  # to wait for a lost scheduler or lost workers to return
CLOSE_SECONDS = 3.0
GPU = "GPU"  # the resource by which a worker says that models may be trained there
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 4.0
_START = "`dask scheduler` starts one, and `dask worker {address}` a worker, as in docs/guide-cluster.md"


class Lost(Exception):
    """The scheduler is gone, and with it the task."""


def connected(address: str) -> Client:
    """Return a client of the scheduler that answers at an address now. Raises OSError, after 2 * CONNECT_SECONDS."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)  # we report what matters
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL + 1)
    asyncio.run(_greet(address))
    with config.set({"distributed.comm.timeouts.connect": f"{CONNECT_SECONDS:g}s"}):
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="cloze")


async def _greet(address: str) -> None:
    """Raise OSError unless a scheduler answers at an address: a client would wait for ever for what is silent."""
    greeting = asyncio.ensure_future(_kind_of_answer(address))
    await asyncio.wait([greeting], timeout=CONNECT_SECONDS + 1)
    if not greeting.done():
        greeting.cancel()
        raise OSError(f"what listens there did not answer as one within {CONNECT_SECONDS:.0f} s")
    if (error := greeting.exception()) is not None:
        ours = isinstance(error, OSError | TypeError)  # that of a connection, and of certificates that are not set
        raise OSError(str(error) if ours else "what listens there answers as something else") from error
    if greeting.result() != "Scheduler":
        raise OSError(f"what listens there is a {greeting.result()}")


async def _kind_of_answer(address: str) -> str:
    """Return what a part of a cluster says that it is."""
    comm = await connect(address, CONNECT_SECONDS, **Security().get_connection_args("client"))
    try:
        await comm.write({"op": "identity", "reply": True})
        answer = await comm.read()
        return str(answer["type"])
    finally:
        comm.abort()


def first_connected(address: str) -> Client:
    """Return a client of the scheduler that a run is given. Raises InputError if none answers."""
    try:
        return connected(address)
    except OSError as error:
        raise InputError(
            f"No Dask scheduler answers at {address} ({str(error).splitlines()[0][:200]}). {how_to_start(address)}; or "
            "leave `engine` out to build on this machine."
        ) from error


def connected_again(address: str, tell: Callable[[str], None]) -> Client:
    """Return a client in place of one that lost its scheduler, within PATIENCE_SECONDS. Raises InputError."""
    tell(f"The scheduler at {address} is gone; waiting up to {PATIENCE_SECONDS:.0f} s for it.")
    deadline, wait = time.monotonic() + PATIENCE_SECONDS, _FIRST_WAIT
    while True:
        try:
            client = connected(address)
            break
        except OSError as error:
            if time.monotonic() + wait > deadline:
                raise InputError(
                    f"The scheduler at {address} went away in the middle of the run and did not come back within "
                    f"{PATIENCE_SECONDS:.0f} s. {how_to_start(address)}; then run again, which continues from the "
                    "finished parts."
                ) from error
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
    tell(f"The scheduler at {address} is back.")
    return client


def how_to_start(address: str) -> str:
    """Return how to start a cluster, for users who have none."""
    return _START.format(address=address)


def workers_of(client: Client) -> Mapping[str, Any]:
    """Return the scheduler's information about each worker, by its address."""
    workers: Mapping[str, Any] = client.scheduler_info()["workers"]
    return workers


def trainers_of(client: Client) -> list[str]:
    """Return the workers on which models may be trained."""
    return [worker for worker, what in workers_of(client).items() if what["resources"].get(GPU, 0) >= 1]


def ask_all(client: Client, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """Return a function's result on each worker. Raises InputError if one lacks the function."""
    answers = client.run(function, *args, on_error="return")
    for worker, answer in answers.items():
        if isinstance(answer, ImportError | AttributeError):
            raise InputError(
                f"The worker {worker} has no Cloze, or another version of it ({answer}): install there what is "
                "installed here, and start it again."
            ) from answer
        if isinstance(answer, Exception):
            raise answer
    return dict(answers)


class Machine(NamedTuple):
    """A worker's account of itself."""

    identity: Identity
    host: str
    memory_bytes: int


def look_at(address: str) -> tuple[str, str]:
    """Return a cluster's state, in a line, and what must be done before a run there ("" if nothing must).

    Raises InputError if none answers, or a worker has no Cloze.
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
    gpus = f"{with_gpus or 'none'} with GPUs"
    has = f"{format_count(len(workers), 'worker')} ({gpus}) with {format_count(threads, 'thread')}"
    where = f"{format_count(len(memory), 'machine')} with {sum(memory.values()) / 1e9:.1f} GB of memory"
    return f"{address}: {has} on {where}", _remedy(machines)


def _remedy(machines: Mapping[str, Machine]) -> str:
    ours = identity()
    compared = {worker: differences(ours, machine.identity) for worker, machine in sorted(machines.items())}
    unlike = [f"{worker} has {how}" for worker, how in compared.items() if how]
    if not unlike:
        return ""
    return (
        f"{len(unlike)} of {format_count(len(machines), 'worker')} are not like this machine: {unlike[0]}; install the "
        "same versions there and start them again"
    )


def this_machine() -> Machine:
    """Return the machine where this is called."""
    return Machine(identity(), platform.node(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
