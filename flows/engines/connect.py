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
from flows.engines.worker_checks import Identity, describe_differences, read_identity
from flows.run.record.counts_text import format_count

CONNECT_SECONDS = 10.0
RECONNECT_SECONDS = 60.0  # to wait for a lost scheduler or lost workers to return
CLOSE_SECONDS = 3.0
GPU = "GPU"  # the resource by which a worker says that models may be trained there
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.25, 4.0
_START_HINT = "`dask scheduler` starts one, and `dask worker {address}` a worker, as in docs/guide-cluster.md"


class SchedulerLost(Exception):
    """Raised when the connection to the Dask scheduler is lost. The submitted task is lost as well."""


def connect_client(address: str) -> Client:
    """Connect to the scheduler at an address and return the client, which the caller must close.

    Raises:
        OSError: If no scheduler responds, after at most 2 * CONNECT_SECONDS.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)  # we report what matters
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL + 1)
    asyncio.run(_check_scheduler_answers(address))
    with config.set({"distributed.comm.timeouts.connect": f"{CONNECT_SECONDS:g}s"}):
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="cloze")


async def _check_scheduler_answers(address: str) -> None:
    """Check that a scheduler responds at an address. (A client would wait forever for a server that does not answer.)

    Raises:
        OSError: If nothing or something else responds, after about CONNECT_SECONDS.
    """
    greeting = asyncio.ensure_future(_ask_server_type(address))
    await asyncio.wait([greeting], timeout=CONNECT_SECONDS + 1)
    if not greeting.done():
        greeting.cancel()
        raise OSError(f"what listens there did not answer as one within {CONNECT_SECONDS:.0f} s")
    if (error := greeting.exception()) is not None:
        ours = isinstance(error, OSError | TypeError)  # that of a connection, and of certificates that are not set
        raise OSError(str(error) if ours else "what listens there answers as something else") from error
    if greeting.result() != "Scheduler":
        raise OSError(f"what listens there is a {greeting.result()}")


async def _ask_server_type(address: str) -> str:
    """Return the type of the server at an address: "Scheduler", "Worker" or "Nanny".

    Raises:
        OSError: If nothing responds within CONNECT_SECONDS.
    """
    comm = await connect(address, CONNECT_SECONDS, **Security().get_connection_args("client"))
    try:
        await comm.write({"op": "identity", "reply": True})
        answer = await comm.read()
        return str(answer["type"])
    finally:
        comm.abort()


def connect_at_start(address: str) -> Client:
    """Connect to the scheduler at the start of a run and return the client, which the caller must close.

    Raises:
        InputError: If no scheduler responds.
    """
    try:
        return connect_client(address)
    except OSError as error:
        raise InputError(
            f"No Dask scheduler answers at {address} ({str(error).splitlines()[0][:200]}). {explain_start(address)}; "
            "or leave `engine` out to build on this machine."
        ) from error


def connect_again(address: str, tell: Callable[[str], None]) -> Client:
    """Wait until a Dask scheduler responds again after the connection was lost, and return a new client.

    Args:
        address: The address of the scheduler.
        tell: Called with a line to print before and after waiting.

    Raises:
        InputError: If no scheduler responds within RECONNECT_SECONDS.
    """
    tell(f"The scheduler at {address} is gone; waiting up to {RECONNECT_SECONDS:.0f} s for it.")
    deadline, wait = time.monotonic() + RECONNECT_SECONDS, _FIRST_WAIT_SECONDS
    while True:
        try:
            client = connect_client(address)
            break
        except OSError as error:
            if time.monotonic() + wait > deadline:
                raise InputError(
                    f"The scheduler at {address} went away in the middle of the run and did not come back within "
                    f"{RECONNECT_SECONDS:.0f} s. {explain_start(address)}; then run again, which continues from the "
                    "finished parts."
                ) from error
        time.sleep(wait)
        wait = min(2 * wait, _MAX_WAIT_SECONDS)
    tell(f"The scheduler at {address} is back.")
    return client


def explain_start(address: str) -> str:
    """Return instructions for starting a scheduler, and a worker that connects to the given scheduler address."""
    return _START_HINT.format(address=address)


def get_workers(client: Client) -> Mapping[str, Any]:
    """Return the scheduler's information about its workers: a dictionary for each worker, by the worker's address.

    Each has "nthreads" (number of threads), "resources" (such as {"GPU": 1}) and other keys that Dask reports.
    """
    workers: Mapping[str, Any] = client.scheduler_info()["workers"]
    return workers


def list_training_workers(client: Client) -> list[str]:
    """Return the addresses of the workers that declare the resource GPU, on which models can be trained."""
    return [worker for worker, info in get_workers(client).items() if info["resources"].get(GPU, 0) >= 1]


def ask_all(client: Client, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """Call a function on each worker of a cluster, and return the results keyed by worker address.

    Args:
        client: Client of the scheduler.
        function: A function at module level.
        args: Its arguments.

    Raises:
        InputError: If a worker cannot import the function, because it has no Cloze or another version.
        Exception: Whatever the function raised on a worker.
    """
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
    """A worker's machine: its program versions, host name, and memory in bytes."""

    identity: Identity
    host: str
    memory_bytes: int


def inspect_cluster(address: str) -> tuple[str, str]:
    """Describe the state of a Dask cluster, given the address of its scheduler.

    Returns:
        Two strings: a line with the number of workers and threads and the memory, and what the user must do before a
        run can use the cluster ("" if nothing).

    Raises:
        InputError: If no scheduler responds, or a worker does not have Cloze installed.
    """
    client = connect_at_start(address)
    try:
        workers = get_workers(client)
        if not workers:
            return f"{address} answers, and has no worker", explain_start(address)
        machines: Mapping[str, Machine] = ask_all(client, describe_machine)
        threads = sum(int(worker["nthreads"]) for worker in workers.values())
        with_gpus = len(list_training_workers(client))
    finally:
        client.close(CLOSE_SECONDS)
    memory = {machine.host: machine.memory_bytes for machine in machines.values()}
    gpus = f"{with_gpus or 'none'} with GPUs"
    workers_in_words = f"{format_count(len(workers), 'worker')} ({gpus}) with {format_count(threads, 'thread')}"
    machines_in_words = f"{format_count(len(memory), 'machine')} with {sum(memory.values()) / 1e9:.1f} GB of memory"
    return f"{address}: {workers_in_words} on {machines_in_words}", _describe_remedy(machines)


def _describe_remedy(machines: Mapping[str, Machine]) -> str:
    """Describe how workers differ from this machine, and how to fix it. Returns "" if none of them differs.

    Args:
        machines: The machine of each worker, by the worker's address.
    """
    ours = read_identity()
    compared = {worker: describe_differences(ours, machine.identity) for worker, machine in sorted(machines.items())}
    unlike = [f"{worker} has {how}" for worker, how in compared.items() if how]
    if not unlike:
        return ""
    return (
        f"{len(unlike)} of {format_count(len(machines), 'worker')} are not like this machine: {unlike[0]}; install the "
        "same versions there and start them again"
    )


def describe_machine() -> Machine:
    """Return the program versions, host name and memory of the current machine."""
    return Machine(read_identity(), platform.node(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
