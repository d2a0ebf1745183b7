"""The processes of a run: the process group, communication, and the detection of processes that do not respond.

The same code is used for one process and for many, on CPUs (gloo) and on GPUs (nccl).

Timeouts: processes wait FIRST_SECONDS for each other during the first FIRST_STEPS, which compile and fill caches, and
`timeout_seconds` later. While only one of them is working (writing the export, or a file of a checkpoint), the others
wait up to ALONE_SECONDS. If a process exits, those that wait for it notice at once; if it hangs, they notice after the
timeout. The error names it and its last recorded position (`record_position`), and torchrun's agent then ends all
processes. The CPU processes communicate in every step with their own timeout. nccl, which ends a process silently,
waits NCCL_SECONDS longer.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore, PrefixStore, Store
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.distributed.rendezvous import rendezvous

from corpora.errors import InputError
from corpora.generic_types import Item
from corpora.kernels.arrays import Int64s
from corpora.store.processes import install_handlers

FIRST_SECONDS = 300.0  # until FIRST_STEPS are done
FIRST_STEPS = 10  # of this process, among them those with other shapes, for which layers are compiled again
ALONE_SECONDS = 1800.0  # while one process works and the others wait for it
REPORT_SECONDS = 3.0  # for all processes that gave up waiting to report it
NCCL_SECONDS = 15.0  # for them to report before nccl ends them
TIMED_OUT = "Timed out"  # gloo's wording


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process among all processes of a training run.

    Attributes:
        rank: Zero-based index of this process.
        count: The number of processes.
        device: The device on which this process computes.
        mesh: The device mesh of all processes; None without a process group (`make_single_rank`).
        host_count: The number of processes on this machine.
        patient: A process group with a long timeout and separate sockets. Only one thread may use it at a time.
        counting: A process group for `count_up`, which is called from a separate thread; None if there is one process.
        store: The key-value store that all processes share; None if there is one process.
    """

    rank: int
    count: int
    device: torch.device
    mesh: DeviceMesh | None = None
    host_count: int = 1
    patient: dist.ProcessGroup | None = None
    counting: dist.ProcessGroup | None = None
    store: Store | None = None

    @property
    def computes_ahead(self) -> bool:
        """True if this process continues while its device computes, as with a GPU."""
        return self.device.type != "cpu"

    def sum(self, numbers: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place, and return it. All processes must call it."""
        dist.all_reduce(numbers)
        return numbers

    def sum_ints(self, numbers: Sequence[int]) -> list[int]:
        """Sum integers over all processes, element by element. On a GPU this waits for the device.

        All processes must call it.
        """
        summed: list[int] = self.sum(torch.tensor(numbers, dtype=torch.int64, device=self.device)).tolist()
        return summed

    def count_up(self, numbers: Int64s) -> Int64s:
        """Sum integers over all processes, element by element, without waiting for a device.

        All processes must call it in the same order, each from one thread only. Other threads may communicate at the
        same time.
        """
        if self.count == 1:
            return numbers
        summed = torch.from_numpy(numbers.copy())
        dist.all_reduce(summed, group=self.counting)
        return summed.numpy()

    def collect(self, mine: Item) -> list[Item]:
        """Collect one picklable value from each process, and return the values in rank order.

        All processes must call it.
        """
        every = [mine] * self.count
        dist.all_gather_object(every, mine)
        return every

    def reduce_any(self, mine: bool) -> bool:
        """Return True on all processes if `mine` is True on any of them.

        All processes must call it. It does not wait for a device.
        """
        if self.count == 1:
            return mine
        return bool(self.sum(torch.tensor(int(mine))))

    def wait(self) -> None:
        """Wait until all processes have called this. The last one may arrive up to ALONE_SECONDS late."""
        dist.all_reduce(torch.zeros(1), group=self.patient)

    def record_position(self, place: str) -> None:
        """Record what this process is doing, as a short text, so that others can report it if this one hangs.

        It does not wait for other processes.
        """
        if self.store is not None:
            self.store.set(f"stands {self.rank}", place)

    def wait_no_longer_than(self, seconds: float) -> None:
        """Set the timeout of all later communication, in seconds, except for `wait` and the group `patient`."""
        assert self.mesh is not None
        for group in {dist.group.WORLD, self.mesh.get_group(), self.counting} - {None}:
            _set_pg_timeout(timedelta(seconds=seconds), group)
        if self.device.type == "cuda":
            nccl = self.mesh.get_group()._get_backend(self.device)
            if hasattr(nccl, "_set_default_timeout"):  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps it, without one
                nccl._set_default_timeout(timedelta(seconds=seconds + NCCL_SECONDS))


class StopSignal:
    """Tracks signals to stop. If any process receives one, all processes stop after the same step.

    Attributes:
        number: The number of the signal received last.
        is_requested: The result of the last `ask_all`, which is the same on all processes.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.number = signal.SIGTERM
        self.is_requested = False
        self._ranks = ranks
        self._received = False

    @property
    def exit_code(self) -> int:
        """The exit code: 0, or 128 plus the number of the signal if a stop was requested."""
        return 128 + self.number if self.is_requested else 0

    def ask_all(self) -> bool:
        """Return True if any process has received a signal to stop, now or at an earlier call.

        All processes must call it.

        It takes one message to each other process, and does not wait for a device.
        """
        self.is_requested = self.is_requested or self._ranks.reduce_any(self._received)
        return self.is_requested

    @contextmanager
    def hold_signals(self) -> Iterator[None]:
        """Record signals to stop during the block instead of exiting. Outside the main thread, nothing is changed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = install_handlers(self._on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._received, self.number = True, signal.Signals(number)


@contextmanager
def join_process_group(device: str = "auto") -> Iterator[Ranks]:
    """Join torchrun's process group during the block, or create a group that has only this process.

    A group is created if the process was not started by torchrun. If the block succeeds, connections stay open until
    all processes have reached its end, because gloo would treat a connection closed by a peer as a failure of pending
    transfers. If the block fails on a GPU, connections stay open until the process exits, because nccl would wait for
    messages that the other processes have not sent.

    Args:
        device: "auto", "cuda" or "cpu", as in the settings.

    Yields:
        This process among all processes.

    Raises:
        InputError: If there are more processes than GPUs, or if "cuda" is requested but torch finds no GPU.
        PeersLost: If other processes do not respond in time.
    """
    host_rank = int(os.environ.get("LOCAL_RANK", 0))
    own = choose_device(device, host_rank)
    store, rank, count = next(rendezvous("env://")) if "RANK" in os.environ else (HashStore(), 0, 1)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo",
        store=PrefixStore("ranks", store),
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=FIRST_SECONDS),
        device_id=own if own.type == "cuda" else None,
    )
    try:
        yield Ranks(
            rank=rank,
            count=count,
            device=own,
            mesh=init_device_mesh(own.type, (count,), mesh_dim_names=("shard",)),
            host_count=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
            patient=dist.new_group(backend="gloo", timeout=timedelta(seconds=ALONE_SECONDS)),
            counting=dist.new_group(backend="gloo", timeout=timedelta(seconds=FIRST_SECONDS)) if count > 1 else None,
            store=store if count > 1 else None,
        )
        wait_for_all(store, count)
    except BaseException as error:
        if late := isinstance(error, RuntimeError) and TIMED_OUT in str(error) and find_absent(store, rank, count):
            raise PeersLost({other: read_position(store, other) for other in late}, str(error)) from error
        if own.type == "cpu":
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()


def make_single_rank() -> Ranks:
    """Describe this process without creating a process group, for computations without communication.

    The device is torch's current GPU, if there is one. The state of the process is not changed.
    """
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    return Ranks(rank=0, count=1, device=device)


class PeersLost(Exception):
    """Raised if other processes do not respond in time. The message names their last recorded positions."""

    def __init__(self, late: Mapping[int, str], reason: str) -> None:
        """Create the error.

        Args:
            late: Maps the rank of each missing process to its last recorded position, or to "" if it recorded none.
            reason: The message of the failed communication.
        """
        named = " and ".join(f"rank {rank} ({place})" if place else f"rank {rank}" for rank, place in late.items())
        super().__init__(
            f"{named} did not answer for longer than training.timeout_seconds, or the network between the processes "
            f"is cut: {reason.splitlines()[0]}"
        )


def read_position(store: Store, rank: int) -> str:
    """Read what a process recorded last with `record_position`; "" if it recorded nothing."""
    key = f"stands {rank}"
    return store.get(key).decode() if store.check([key]) else ""


def find_absent(store: Store, rank: int, count: int) -> list[int]:
    """Find the processes that hang, which are those that did not report a timeout while this one did.

    All processes that timed out must call it at about the same time. It takes REPORT_SECONDS.

    Args:
        store: The store that all processes share.
        rank: The rank of this process.
        count: The number of processes.

    Returns:
        Their ranks, in ascending order.
    """
    store.set(f"waited {rank}", "")
    time.sleep(REPORT_SECONDS)
    return [other for other in range(count) if not store.check([f"waited {other}"])]


def wait_for_all(store: Store, count: int) -> None:
    """Wait until all processes have called this, using only the shared store of torchrun's agent.

    `count` is the number of processes.
    """
    if store.add("here", 1) == count:
        store.set("all here", "")
    store.wait(["all here"])


def choose_device(asked: str, number: int) -> torch.device:
    """Choose the device of this process: its GPU, or the CPU if there is no GPU or the CPU is requested.

    Args:
        asked: "auto", "cuda" or "cpu".
        number: The zero-based index of this process on its machine.

    Raises:
        InputError: If "cuda" is requested without a GPU, or if there are fewer GPUs than processes.
    """
    if asked == "cuda" and not torch.cuda.is_available():
        why = (
            "its driver or the card does not respond (`nvidia-smi` says why)"
            if torch.version.cuda
            else f"the installed torch {torch.__version__} is built for processors only"
        )
        raise InputError(
            f'training.device = "cuda" asks for a GPU, and torch sees none on this machine: {why}. Fix that, train on '
            'a machine that has one, or leave training.device out ("auto") to use the processor.'
        )
    if asked == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if number >= torch.cuda.device_count():
        raise InputError(
            f"training.processes asks for more than the {torch.cuda.device_count()} GPUs of this machine: every "
            "process needs one. Lower it, or leave it out for one process per GPU."
        )
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device
