"""Many processes as one: the process group, the sharded model, sums over all of it; and how each computes.

One code path for one process and for many, on processors (gloo) and on GPUs (nccl): FSDP2 shards every layer and
then the rest of the model over all processes. A single one has all of it in one group, unless it gathers by layers.
Gradients are summed, not averaged: the loss divides by counts of the whole step.

Weights are gathered once a step where there is memory for it (`gathers_once`), however many micro-batches a step has:
what is gathered for the first forward pass stays until the last backward pass has used it. Where there is not, each
layer is gathered for every forward and every backward pass.

Time-outs: processes wait FIRST_SECONDS for each other until FIRST_STEPS are done, which compile and fill caches, then
`timeout_seconds`; where one of them works alone (it writes the export, or a file of a checkpoint), ALONE_SECONDS.
A process that is gone is noticed at once by those that wait for it, one that hangs by the time-out, and named, with
the place it had reached (`stands`); torchrun's agent then ends all of them. Processors ask each other in every step,
and nccl, which ends a process silently, waits NCCL_SECONDS longer than they.

How a process computes is chosen by the machine (`settle`). What is computed in the same order each time:

    processor           always: the same number of processes of the same kind of machine, with the same torch, give the
                        same weights to the bit
    GPU                 no promise, by default: attention's backward pass and sums over places add up in the order in
                        which blocks of the card happen to end, and weights differ by rounding from run to run
    GPU, deterministic  the algorithms of torch that add up in one order, attention's backward pass included: the same
                        number of GPUs of the same kind, with the same torch and driver, give the same weights; an
                        operation that has no such algorithm ends training, with its name

torch's own `warn_only` does not give half of the last: with it attention's backward pass keeps its usual order.
cuBLAS adds up in one order only with a workspace of a fixed size, which the environment must set before the first
product: the launcher does.

On a GPU this is held by `tests/trainer/training/test_on_gpus.py`, for one process without compiled layers.

Errors of torch that are not the program's fault become a paragraph that names the setting to change.
"""

import importlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import HashStore, PrefixStore, Store
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.distributed.rendezvous import rendezvous

from corpora.errors import InputError
from corpora.generic_types import Item
from corpora.kernels.arrays import Int64s
from trainer.auto_settings import Computing, Hardware, choice_line, choose, compiler_lacks, padding_reason, weakest
from trainer.launching.commands import CUBLAS_WORKSPACE
from trainer.model.masked import MaskedHead
from trainer.settings.model import ModelSettings
from trainer.settings.training import TrainingSettings

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


FIRST_SECONDS = 300.0  # until FIRST_STEPS are done
FIRST_STEPS = 10  # of this process, among them those with other shapes, for which layers are compiled again
ALONE_SECONDS = 1800.0  # while one process works and the others wait for it
SAYING_SECONDS = 3.0  # for all processes that gave up waiting to report it
NCCL_SECONDS = 15.0  # for them to report before nccl ends them
TIMED_OUT = "Timed out"  # gloo's wording
# A model computes on one thread where the square of its hidden size times the tokens of a step is less: threads would
# wait for each other longer than they compute. With 2 layers of 96, 24 rows of 64, a step took 3 s by the clock on two
# threads, 0.05 s on one (two busy x86-64 cores, 2026-11-27).
THREADED = 1 << 25
PROGRAMS = 64  # that all parts of a model may be compiled to
GATHERED_SHARE = 0.25  # of a device's memory, that gathered weights may take by default

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
OF_PROCESSOR = "can't allocate memory"  # how torch's allocator of main memory reports that none is left
NOT_DETERMINISTIC = "does not have a deterministic implementation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process among all of them.

    mesh:       of all processes; None of one that asked for no process group (`by_itself`)
    host_rank:  among those of this machine
    host_count: processes of this machine
    patient:    the same processes over sockets of their own, for what takes long; used by one thread at a time
    counting:   the same for `count_up`, which a thread of its own calls; None where there is but one process
    store:      what all processes read and write; None where there is but one
    """

    rank: int
    count: int
    device: torch.device
    mesh: DeviceMesh | None = None
    host_rank: int = 0
    host_count: int = 1
    patient: dist.ProcessGroup | None = None
    counting: dist.ProcessGroup | None = None
    store: Store | None = None

    def sum(self, numbers: Tensor) -> Tensor:
        """The numbers of all processes added up, in place."""
        dist.all_reduce(numbers)
        return numbers

    def total(self, numbers: Sequence[int]) -> list[int]:
        """Whole numbers of all processes added up."""
        summed: list[int] = self.sum(torch.tensor(numbers, dtype=torch.int64, device=self.device)).tolist()
        return summed

    def count_up(self, numbers: Int64s) -> Int64s:
        """Whole numbers of all processes added up, between processors: no device is waited for.

        By one thread of each process at a time, and by all in the same order; other threads may do anything else.
        """
        if self.count == 1:
            return numbers
        summed = torch.from_numpy(numbers.copy())
        dist.all_reduce(summed, group=self.counting)
        return summed.numpy()

    def collect(self, mine: Item) -> list[Item]:
        """Return a small value of every process, in order of rank."""
        every = [mine] * self.count
        dist.all_gather_object(every, mine)
        return every

    def any_says(self, mine: bool) -> bool:
        """True if `mine` is true on any process. Does not wait for a device: the processors exchange it."""
        if self.count == 1:
            return mine
        return bool(self.sum(torch.tensor(int(mine))))

    def wait(self) -> None:
        """Wait until every process arrives; one of them may work for long (ALONE_SECONDS)."""
        dist.all_reduce(torch.zeros(1), group=self.patient)

    def stands(self, place: str) -> None:
        """Record where this process is, for the others to report if it hangs. Does not wait for them."""
        if self.store is not None:
            self.store.set(f"stands {self.rank}", place)

    def wait_no_longer_than(self, seconds: float) -> None:
        """Limit how long to wait for the others from now on, except where `wait` and `patient` allow more."""
        assert self.mesh is not None
        for group in {dist.group.WORLD, self.mesh.get_group(), self.counting} - {None}:
            _set_pg_timeout(timedelta(seconds=seconds), group)
        if self.device.type == "cuda":
            nccl = self.mesh.get_group()._get_backend(self.device)
            if hasattr(nccl, "_set_default_timeout"):  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps it, without one
                nccl._set_default_timeout(timedelta(seconds=seconds + NCCL_SECONDS))


@contextmanager
def joined(device: str = "auto") -> Iterator[Ranks]:
    """Join the process group of torchrun, or one of this process alone where it was started by itself.

    Where the block ends well, no process closes its connections before every one is there: gloo takes a connection
    that a peer closes for a fault of what is still sent or received over it. Where it fails on a GPU, they are left to
    the end of the process, for nccl would wait for what the others still owe.
    device: as in the settings
    Raises InputError where there are more processes than GPUs, or no GPU where one is asked for.
    """
    host_rank = int(os.environ.get("LOCAL_RANK", 0))
    own = _own_device(device, host_rank)
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
            host_rank=host_rank,
            host_count=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
            patient=dist.new_group(backend="gloo", timeout=timedelta(seconds=ALONE_SECONDS)),
            counting=dist.new_group(backend="gloo", timeout=timedelta(seconds=FIRST_SECONDS)) if count > 1 else None,
            store=store if count > 1 else None,
        )
        meet(store, count)
    except BaseException as error:
        if late := isinstance(error, RuntimeError) and TIMED_OUT in str(error) and absent(store, rank, count):
            raise PeersLost({other: standing(store, other) for other in late}, str(error)) from error
        if own.type == "cpu":
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()


def by_itself() -> Ranks:
    """Return this process without a process group, which another library may have: for what exchanges nothing.

    On the GPU that torch has in use, if there is one; nothing is set for the process.
    """
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    return Ranks(rank=0, count=1, device=device)


class PeersLost(Exception):
    """Processes that have not answered in time. late: the place that each had reached"""

    def __init__(self, late: Mapping[int, str], reason: str) -> None:
        named = " and ".join(f"rank {rank} ({place})" if place else f"rank {rank}" for rank, place in late.items())
        super().__init__(
            f"{named} did not answer for longer than training.timeout_seconds, or the network between the processes "
            f"is cut: {reason.splitlines()[0]}"
        )


def standing(store: Store, rank: int) -> str:
    """Return the place that a process last recorded; empty if it has recorded none."""
    key = f"stands {rank}"
    return store.get(key).decode() if store.check([key]) else ""


def absent(store: Store, rank: int, count: int) -> list[int]:
    """The ranks that have not waited in vain as this one has; all that have call it at about the same time."""
    store.set(f"waited {rank}", "")
    time.sleep(SAYING_SECONDS)
    return [other for other in range(count) if not store.check([f"waited {other}"])]


def meet(store: Store, count: int) -> None:
    """Wait until every process is here, without a connection between them: the store is the agent's."""
    if store.add("here", 1) == count:
        store.set("all here", "")
    store.wait(["all here"])


def _own_device(asked: str, number: int) -> torch.device:
    """Return the GPU of this process, or the processor where there is no GPU and none is asked for."""
    if asked == "cuda" and not torch.cuda.is_available():
        raise InputError(no_gpu())
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


def no_gpu() -> str:
    """Return the message for when a GPU is asked for and torch sees none."""
    why = (
        "its driver or the card does not respond (`nvidia-smi` says why)"
        if torch.version.cuda
        else f"the installed torch {torch.__version__} is built for processors only"
    )
    return (
        f'training.device = "cuda" asks for a GPU, and torch sees none on this machine: {why}. Fix that, train on a '
        'machine that has one, or leave training.device out ("auto") to use the processor.'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharded:
    """A model whose parameters are sharded. once: all its weights stay gathered for the time of a step"""

    root: "FSDPModule"
    once: bool

    def begin_micro_batch(self, is_last: bool) -> None:
        """Prepare for each micro-batch of a step: with the last one gradients are summed, and weights given back."""
        self.root.set_requires_gradient_sync(is_last)
        self.root.set_is_last_backward(is_last)
        if self.once:
            self.root.set_reshard_after_backward(is_last)


def shard_model(
    model: nn.Module,
    groups: Sequence[nn.Module],
    shared: Sequence[nn.Module],
    ranks: Ranks,
    settings: TrainingSettings,
) -> Sharded:
    """Shard the parameters of a model over all processes.

    groups: its parts, by calls, that are compiled, recomputed, gathered and sharded one by one; what is in none of them
            belongs to the root, and to it all of them where a single process gathers once a step
    shared: parts that are compiled and recomputed one by one, but belong to the root, since they are called repeatedly
    Matrices of forward and backward are in the precision of the settings, sums of gradients and the weights that the
    optimizer keeps in float32. The settings are without "auto".
    """
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard  # a second, for what trains alone

    recomputes = settings.activation_checkpointing
    parts, others = ([_recomputed(model, each) if recomputes else each for each in some] for some in (groups, shared))
    if settings.compile is True:
        heads = [each for each in model.modules() if isinstance(each, MaskedHead)]
        _compile([*parts, *others, *heads])
    policy = MixedPrecisionPolicy(
        param_dtype=PRECISIONS[settings.precision], reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    once = gathers_once(model, ranks, settings)
    by_parts = ranks.count > 1 or not once  # each part costs calls in every pass, and a GPU waits for them
    for module in (*parts, model) if by_parts else (model,):
        fully_shard(module, mesh=ranks.mesh, mp_policy=policy, reshard_after_forward=not once and module is not model)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return Sharded(root=cast(FSDPModule, model), once=once)


def _compile(parts: Sequence[nn.Module]) -> None:
    """Compile each part when it is called first; parts that are alike share their programs.

    torch counts programs over all parts, and computes operation by operation beyond eight, silently: ModernBERT
    has three kinds of layers (the first, of all tokens, of a window), each for one shape and for any, learning and
    judging. A head of words is compiled with its loss: else logits are copied by one operation after the other.
    """
    config: Any = importlib.import_module("torch._dynamo.config")
    config.recompile_limit = PROGRAMS
    for part in parts:
        part.compile()


def _recomputed(model: nn.Module, part: nn.Module) -> nn.Module:
    """Replace a part by a wrapper that recomputes it in the backward pass, and return the wrapper."""
    name = next(name for name, module in model.named_modules() if module is part)
    wrapped = checkpoint_wrapper(part)
    model.set_submodule(name, wrapped)
    return wrapped


def gathers_once(model: nn.Module, ranks: Ranks, settings: TrainingSettings) -> bool:
    """Tells whether all weights stay gathered from a step's first forward to its last backward pass.

    They are then held twice by this process: its share in float32, and all of them in the precision of the settings.
    """
    if settings.gather != "auto":
        return settings.gather == "step"
    dtype = PRECISIONS[settings.precision] or torch.float32
    size_bytes = sum(parameter.numel() for parameter in model.parameters()) * dtype.itemsize
    return ranks.count == 1 or size_bytes <= GATHERED_SHARE * _memory_bytes(ranks)


def _memory_bytes(ranks: Ranks) -> int:
    """Return the memory of the GPU, or this process's part of the machine's."""
    if ranks.device.type == "cuda":
        return int(torch.cuda.get_device_properties(ranks.device).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // ranks.host_count


def settle(
    training: TrainingSettings, model: ModelSettings, ranks: Ranks, before: Computing | None = None
) -> tuple[TrainingSettings, Computing, str]:
    """Return the settings without "auto", what was chosen, and a line about it. All processes must call it.

    before: what the checkpoint records that training resumes from
    Raises InputError as `choose` does.
    """
    machine = weakest(ranks.collect(machine_of(ranks.device)))
    choice = choose(training, machine, before)
    torch.set_float32_matmul_precision("high" if choice.tf32 else "highest")
    _, hidden_size, heads, _ = model.shape
    tokens = max(phase.batch for phase in training.phase) * model.positions / ranks.count
    if ranks.device.type == "cpu" and hidden_size**2 * tokens < THREADED:
        torch.set_num_threads(1)
    padded = padding_reason(choice.precision, machine, model.attention_dropout or 0.0, hidden_size // heads)
    line = choice_line(training, choice, machine, padded)
    return replace(training, precision=choice.precision, compile=choice.compile), choice, line


def machine_of(device: torch.device) -> Hardware:
    """Return the hardware of a process."""
    lacks = compiler_lacks(device.type)
    if device.type == "cpu":
        return Hardware(device="cpu", lacks=lacks)
    name, capability = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    return Hardware(device=device.type, name=name, capability=capability, lacks=lacks)


def compute_reproducibly(settings: TrainingSettings, device: torch.device) -> None:
    """Choose the algorithms of torch that give the same sums in every run, where that is promised."""
    strict = device.type == "cuda" and settings.deterministic
    if strict:
        os.environ.setdefault(*CUBLAS_WORKSPACE)  # where no launcher started this process
    torch.use_deterministic_algorithms(strict or device.type == "cpu", warn_only=not strict)
    # a check that costs time and is no part of the promise; torch does not declare it to type checkers
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


@contextmanager
def mendable(settings: TrainingSettings, processes: int, device: str) -> Iterator[None]:
    """Turn errors that a setting can fix into InputErrors: no memory left, or no deterministic algorithm."""
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        message = str(error)
        if isinstance(error, torch.OutOfMemoryError) or OF_PROCESSOR in message:
            raise too_much(settings, processes, device) from error
        if NOT_DETERMINISTIC in message:
            raise not_deterministic(message) from error
        raise


def too_much(settings: TrainingSettings, processes: int, device: str) -> InputError:
    """Return what to lower: what is held at once first, then what is kept for the backward pass, then the weights."""
    remedies = [smaller(settings, processes)]
    if not settings.activation_checkpointing:
        remedies.append("set training.activation_checkpointing = true, for a third more time")
    if processes > 1 and settings.gather != "layer":
        remedies.append('set training.gather = "layer"')
    return InputError(
        f"The {'GPU' if device == 'cuda' else 'machine'} has no memory left for what a process holds at once: "
        f"{'; or '.join(remedies)}. The trained model stays the same, up to rounding, and the same command resumes "
        "from the newest checkpoint."
    )


def smaller(settings: TrainingSettings, processes: int) -> str:
    """Return the setting that bounds a micro-batch, as it is and at half.

    >>> from trainer.settings.phases import PhaseSettings
    >>> smaller(TrainingSettings(phase=(PhaseSettings(steps=1, batch=256),)), 2)
    'set training.micro_batch = 64 (a process now takes its whole share of a step, 128 examples)'
    """
    if settings.micro_batch_tokens is not None:
        now = settings.micro_batch_tokens
        return f"lower training.micro_batch_tokens, now {now}, to {max(now // 2, 1)}"
    share = max(-(-phase.batch // processes) for phase in settings.phase)
    if settings.micro_batch is not None and settings.micro_batch <= share:
        now = settings.micro_batch
        return f"lower training.micro_batch, now {now}, to {max(now // 2, 1)}"
    half = max(share // 2, 1)
    return f"set training.micro_batch = {half} (a process now takes its whole share of a step, {share} examples)"


def not_deterministic(message: str) -> InputError:
    """Return the error for an operation without an algorithm that adds up in one order."""
    operation = message[: message.index(NOT_DETERMINISTIC)].split()[-1]
    return InputError(
        f"training.deterministic = true, and {operation} has no algorithm on this GPU that adds in a fixed order. "
        "Leave training.deterministic out: weights then differ by rounding from run to run."
    )
