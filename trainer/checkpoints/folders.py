"""Checkpoints: everything a run needs to resume, one folder per step. Fine-tuning uses them too.

    work/checkpoints/step-00001000/   the shards of model, optimizer and dropout's generators, one file per process
                                      complete.json: cursor, loss scale, identity, progress; files and their digests

Promise: a folder is renamed to step-... only after all of its files were written, `complete.json` last. Before a run
resumes from a checkpoint, all of its bytes are verified. A damaged checkpoint is reported, kept as damaged-step-...
until the model is exported, and the checkpoint before it is used, by all processes. Any number of processes can read
what any other number wrote. If the number is the same, the whole state is restored exactly, including dropout's
generators.

If training continues while a checkpoint is written, the state is first copied to main memory; otherwise a thread would
write some tensors as they are after the next step. If training waits, nothing is copied. The writing threads of the
processes communicate over separate sockets. Only one checkpoint is written at a time: the next one waits for it, and so
does the end of training, even if a signal stopped it. If the processes are killed meanwhile, the unfinished folder does
not count as a checkpoint.

Cost: a step waits for the copy. Its buffer in pinned main memory has the size of this process's share of weights and
moments, and is reused. Without a copy, the step waits until all tensors are written. Written files are read once more
to compute digests. A checkpoint to resume from is also read and hashed; each process handles its share of the files, at
10 GB/s if they are in the page cache.
"""

import errno
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import (
    check_files,
    describe_files,
    list_files,
    read_complete_file,
    write_complete_file,
)
from corpora.store.damage import Damaged
from corpora.store.places.files import flush_folder, to_unfinished_path
from trainer.auto_settings import ComputeChoice
from trainer.learn import LossScale, TrainState
from trainer.ranks import Ranks
from trainer.start_weights import Origin, hash_checkpoint

FOLDER = "checkpoints"  # of a work folder
DAMAGED_PREFIX = "damaged-"
_GROUP_SETTINGS = ("betas", "eps", "weight_decay")  # a group's values that come from settings, not from a checkpoint
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Check = Callable[[Path, Mapping[str, Any]], str | None]  # of a checkpoint and its facts: why it cannot be used


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The position of a run, in numbers that do not depend on the number of processes.

    Attributes:
        phase: Zero-based index of the phase that the next step belongs to.
        step: The number of completed steps, over all phases.
        slot: The first slot (position in the training order) of the next step, in the phase's shard set or mixture.
    """

    phase: int
    step: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """The data of a checkpoint other than its tensors.

    Attributes:
        cursor: The position of the run.
        loss_scale: The loss scale, and its number of steps since the last overflow.
        ranks: The number of processes that wrote the checkpoint.
        identity: Describes everything that affects the weights.
        choice: The precision and compilation of the run.
        progress: Additional data that this kind of training needs to resume.
    """

    cursor: Cursor
    loss_scale: tuple[float, int]
    ranks: int
    identity: Mapping[str, Json]
    choice: ComputeChoice
    progress: Mapping[str, Json]

    def to_json(self) -> dict[str, Json]:
        """Convert the facts to a JSON object. The items of `progress` are at its top level."""
        facts = asdict(self)
        return {**facts.pop("progress"), **facts}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "CheckpointFacts":
        """Build the facts from the JSON object that `to_json` returned. Unknown keys become items of `progress`."""
        own = {"cursor", "loss_scale", "ranks", "identity", "choice", "files"}
        return CheckpointFacts(
            cursor=Cursor(**data["cursor"]),
            loss_scale=(data["loss_scale"][0], data["loss_scale"][1]),
            ranks=data["ranks"],
            identity=data["identity"],
            progress={name: value for name, value in data.items() if name not in own},
            choice=ComputeChoice(**data["choice"]),
        )


class WrittenCheckpoint(NamedTuple):
    """A checkpoint that has been written.

    Attributes:
        name: The name of the checkpoint's folder.
        step: The number of completed steps.
        seconds: The time it took to write it, in seconds.
        wait_seconds: The part of that time in which training had to wait.
    """

    name: str
    step: int
    seconds: float
    wait_seconds: float


class Staging:
    """A buffer in main memory for a copy of the state, so that training can continue while the copy is written."""

    def __init__(self, mesh: DeviceMesh) -> None:
        """Create the buffer. Memory is allocated for the first copy. `mesh` is a CPU device mesh of all processes."""
        self._mesh = mesh
        self._kept: dict[int, Tensor] = {}

    def copy(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Copy all tensors of a nested state to main memory, and return a state of the same structure.

        The previous copy is overwritten, so it must no longer be in use.
        """
        leaves, form = tree_flatten(state)
        copy: dict[str, Any] = tree_unflatten([self._copy(leaf, at) for at, leaf in enumerate(leaves)], form)
        if any(kept.is_pinned() for kept in self._kept.values()):
            torch.cuda.current_stream().synchronize()
        return copy

    def _copy(self, value: Any, at: int) -> Any:
        if isinstance(value, DTensor):
            local = self._copy_tensor(value.to_local(), at)
            shape, stride = value.shape, value.stride()
            return DTensor.from_local(local, self._mesh, value.placements, run_check=False, shape=shape, stride=stride)
        return self._copy_tensor(value, at) if isinstance(value, Tensor) else value

    def _copy_tensor(self, tensor: Tensor, at: int) -> Tensor:
        kept = self._kept.get(at)
        if kept is None or kept.shape != tensor.shape or kept.dtype != tensor.dtype:
            kept = self._kept[at] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        return kept.copy_(tensor.detach(), non_blocking=True)


def count_held_bytes(state: Mapping[str, Any]) -> int:
    """Return the total size, in bytes, of the tensors of a nested state that this process holds."""
    tensors = [leaf for leaf in tree_leaves(state) if isinstance(leaf, Tensor)]
    return sum((each.to_local() if isinstance(each, DTensor) else each).nbytes for each in tensors)


class Checkpoints:
    """The checkpoints of a run. All processes must create one, and call its methods in the same order.

    Attributes:
        kept_steps: The steps with checkpoints that are kept in addition to the newest ones.
        begun_at: The monotonic time at which the newest checkpoint was started, or, before the first one, at which this
            object was created.
    """

    def __init__(self, work: Path, keep: int, ranks: Ranks) -> None:
        """Create the object for a work folder. `keep` is the number of newest checkpoints to keep."""
        assert ranks.patient is not None, "what one process writes, the others wait for"
        self._folder = work / FOLDER
        self._keep = keep
        self._ranks = ranks
        self._group = ranks.patient  # of the threads
        self._staging = Staging(DeviceMesh.from_group(self._group, "cpu"))
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[WrittenCheckpoint] | None = None
        self.kept_steps = frozenset[int]()
        self.begun_at = time.monotonic()

    def begin(self, state: TrainState, saved: CheckpointFacts, copies: bool = True) -> None:
        """Start writing a checkpoint. The previous one must already have been collected with `take_written`.

        Args:
            state: The model, optimizer and loss scale to write.
            saved: The data of the checkpoint other than its tensors.
            copies: True to copy the state and write the copy on a thread; False to write it before this method returns.
        """
        assert self._writing is None, "one is written at a time, for they are copied into the same memory"
        self.begun_at = began = time.monotonic()
        tensors = self._collect_tensors(state)
        if copies:
            copy = self._staging.copy(tensors)
            self._writing = self._thread.submit(self._write, copy, saved, began, time.monotonic() - began)
        else:
            written = self._write(tensors, saved, began, 0.0)
            self._writing = Future()
            self._writing.set_result(written._replace(wait_seconds=written.seconds))

    def take_written(self, wait: bool) -> WrittenCheckpoint | None:
        """Return the checkpoint that was finished since the last call, or None if there is none.

        Args:
            wait: True to wait until the checkpoint in progress is finished.

        Raises:
            InputError: If the disk is full. Other errors of the writing thread are raised unchanged.
        """
        if self._writing is None or not (wait or self._writing.done()):
            return None
        began, writing, self._writing = time.monotonic(), self._writing, None
        checkpoint = writing.result()
        return checkpoint._replace(wait_seconds=checkpoint.wait_seconds + time.monotonic() - began)

    @contextmanager
    def wait_at_end(self) -> Iterator[None]:
        """When the block ends, wait until the checkpoint in progress is written.

        If there are several processes, this does not wait, because one of them may have failed.
        """
        try:
            yield
        finally:
            self._thread.shutdown(wait=self._ranks.count == 1)

    def _write(
        self, state: Mapping[str, Any], saved: CheckpointFacts, began: float, wait_seconds: float
    ) -> WrittenCheckpoint:
        """Write a checkpoint from all processes, rename its folder to its final name, and remove old checkpoints.

        Args:
            state: The tensors to write, in nested dictionaries with the top-level keys "model", "optimizer" and
                "generators".
            saved: The data of the checkpoint other than its tensors.
            began: The monotonic time at which the checkpoint was started.
            wait_seconds: The number of seconds that training has waited so far.

        Raises:
            InputError: If the disk is full.
        """
        name = format_checkpoint_name(saved.cursor.step)
        final = self._folder / name
        new = to_unfinished_path(final, is_only_writer=True)
        with self._explain_full_disk(name, new, count_held_bytes(state)):
            if self._ranks.rank == 0:
                shutil.rmtree(new, ignore_errors=True)
                new.mkdir(parents=True)
            dist.barrier(self._group)
            save({**state}, storage_writer=FileSystemWriter(new, sync_files=True), process_group=self._group)
            every: list[dict[str, Json]] = [{}] * self._ranks.count
            dist.all_gather_object(every, describe_files(new, self._select_share(list_files(new))), group=self._group)
            files = {path: file for described in every for path, file in described.items()}
            if self._ranks.rank == 0:
                write_complete_file(new, saved.to_json(), dict(sorted(files.items())))
                new.rename(final)
                flush_folder(self._folder)
                self._clear(name)
            dist.barrier(self._group)
        return WrittenCheckpoint(name, saved.cursor.step, time.monotonic() - began, wait_seconds)

    @contextmanager
    def _explain_full_disk(self, name: str, new: Path, size_bytes: int) -> Iterator[None]:
        """Remove the unfinished checkpoint and raise InputError if the disk becomes full in the block.

        Args:
            name: The name of the checkpoint.
            new: The folder that is being written.
            size_bytes: The size of this process's share of the checkpoint.
        """
        try:
            yield
        except (OSError, RuntimeError, CheckpointException) as error:
            if not any(isinstance(each, OSError) and each.errno in DISK_FULL_ERRORS for each in _iter_causes(error)):
                raise
            if self._ranks.rank == 0:
                shutil.rmtree(new, ignore_errors=True)
            size = size_bytes * self._ranks.count / 1e9
            raise InputError(
                f"There is no room for the checkpoint {name} in {self._folder}: it takes {size:.2g} GB, and so does "
                f"each of the {self._keep} that are kept (training.keep_checkpoints). Free that much, or keep "
                "fewer; the same command then resumes from the newest whole one."
            ) from error

    def _select_share(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names of the checkpoint files that this process reads: with n processes, every n-th name."""
        return names[self._ranks.rank :: self._ranks.count]

    def _clear(self, newest: str) -> None:
        """Remove old and unfinished checkpoints.

        The checkpoint named `newest` and those before it are kept up to a total of `keep`. Damaged checkpoints and
        those after the steps in `kept_steps` are kept as well.
        """
        names = sorted(path.name for path in self._folder.glob("step-*"))
        kept = [name for name in names if name <= newest][-self._keep :]
        kept += [name for name in names if name <= newest and parse_step(Path(name)) in self.kept_steps]
        for path in self._folder.iterdir():
            if path.name not in kept and not path.name.startswith(DAMAGED_PREFIX):
                shutil.rmtree(path)

    def clear_damaged(self) -> None:
        """Delete the checkpoints that were set aside because they were damaged. Only one process may call it."""
        for path in self._folder.glob(f"{DAMAGED_PREFIX}*"):
            shutil.rmtree(path)

    def find_newest(self, check: Check) -> tuple[CheckpointFacts | None, list[str]]:
        """Find the newest undamaged checkpoint of this run, and rename damaged ones. All processes must call it.

        Args:
            check: Called with the folder and facts of each checkpoint, newest first, until one is usable. It returns
                None if the checkpoint is usable, otherwise the reason why not.

        Returns:
            The facts of the checkpoint, or None if there is none; and a message for each damaged checkpoint.

        Raises:
            InputError: If `check` raises it.
        """
        faults, saved, origin = list[str](), None, "starts over: no whole checkpoint is left"
        names = sorted((path.name for path in self._folder.glob("step-*")), reverse=True)
        for path in (self._folder / name for name in self._ranks.collect(names)[0]):
            fault = self._find_damage(path, check)
            if fault is None:
                saved, origin = read_saved(path), f"resumes from {path.name}"
                break
            faults.append(f"{path.name} is damaged and set aside as {DAMAGED_PREFIX}{path.name}: {fault}.")
            if self._ranks.rank == 0:
                _set_aside(path)
        return saved, [f"{fault} Training {origin}." for fault in faults]

    def _find_damage(self, path: Path, check: Check) -> str | None:
        """Check a checkpoint for damage, and return a description of the damage, or None if the checkpoint can be used.

        Each process reads its share of the files, and all processes return the same result.

        Args:
            path: The folder of the checkpoint.
            check: Called with the folder and its facts. It returns the reason why the checkpoint cannot be used, or
                None.
        """
        try:
            facts = read_complete_file(path)
            fault = check(path, facts)
            check_files(path, {name: facts["files"][name] for name in self._select_share(sorted(facts["files"]))})
        except Damaged as damage:
            fault = f"{damage.path}: {damage.what}"
        return next((each for each in self._ranks.collect(fault) if each is not None), None)

    def continue_from(self, origin: Origin, state: TrainState) -> None:
        """Load the checkpoint of another run into the state, but keep the settings of this run.

        All processes must call it. The weights, moments and random generators of the state are replaced. The optimizer
        keeps its beta, epsilon and weight decay. The loss scale is kept unless both runs scale the loss.

        Args:
            origin: The checkpoint to continue from.
            state: The state of this run, changed in place.

        Raises:
            InputError: If the checkpoint is damaged, or has changed since training was planned.
        """
        path = Path(origin.path)

        def other(path: Path, facts: Mapping[str, Any]) -> str | None:
            same = hash_checkpoint(facts) == origin.content
            return None if same else "it has changed since the training was planned"

        if (fault := self._find_damage(path, other)) is not None:
            raise InputError(
                f"The checkpoint {path} to continue from (training.continue_from) is damaged: {fault}. Restore it, or "
                "name another one."
            )
        groups = state.optimizer.param_groups
        own_values = [{key: value for key, value in group.items() if key in _GROUP_SETTINGS} for group in groups]
        saved, scale = read_saved(path), state.scale
        self._load(path, saved, state)
        for group, own in zip(state.optimizer.param_groups, own_values, strict=True):
            group.update(own)
        if not (state.scales_loss and saved.loss_scale[0] > 1):
            state.scale = scale

    def load(self, saved: CheckpointFacts, state: TrainState) -> None:
        """Load one of this run's checkpoints into `state`, which is changed in place. All processes must call it.

        Args:
            saved: The facts of the checkpoint, as `find_newest` returned them.
            state: The state of the run.
        """
        self._load(self._folder / format_checkpoint_name(saved.cursor.step), saved, state)
        state.steps_done = saved.cursor.step

    def _load(self, path: Path, saved: CheckpointFacts, state: TrainState) -> None:
        """Load weights, optimizer and loss scale from a checkpoint's folder into `state`, which is changed in place.

        The states of random generators are loaded only if the number of processes has not changed.
        """
        tensors = self._collect_tensors(state)
        if saved.ranks != self._ranks.count:
            del tensors["generators"]
        load(tensors, storage_reader=FileSystemReader(path))
        set_state_dict(
            state.model, state.optimizer, model_state_dict=tensors["model"], optim_state_dict=tensors["optimizer"]
        )
        state.scale = LossScale(*saved.loss_scale)
        if "generators" in tensors:
            states = tensors["generators"][str(self._ranks.rank)]
            torch.set_rng_state(states["cpu"])
            if "cuda" in states:
                torch.cuda.set_rng_state(states["cuda"], self._ranks.device)

    def _collect_tensors(self, state: TrainState) -> dict[str, Any]:
        weights, moments = get_state_dict(state.model, state.optimizer)
        states = {"cpu": torch.get_rng_state()}
        if self._ranks.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self._ranks.device)
        return {"model": weights, "optimizer": moments, "generators": {str(self._ranks.rank): states}}


def _iter_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions that caused an error, including those in other processes, and finally the error itself."""
    theirs = [failed for failed, _ in error.failures.values()] if isinstance(error, CheckpointException) else []
    for cause in (*theirs, error.__cause__, error.__context__):
        if cause is not None:
            yield from _iter_causes(cause)
    yield error


def _set_aside(path: Path) -> None:
    """Rename the folder of a damaged checkpoint to "damaged-step-...", so that it is no longer used."""
    aside = path.with_name(f"{DAMAGED_PREFIX}{path.name}")
    shutil.rmtree(aside, ignore_errors=True)  # of the same step, from before
    path.rename(aside)
    flush_folder(path.parent)


def format_checkpoint_name(step: int) -> str:
    """Return the folder name of the checkpoint after a number of steps.

    >>> format_checkpoint_name(3000)
    'step-00003000'
    """
    return f"step-{step:08d}"


def parse_step(checkpoint: Path) -> int:
    """Parse the number of steps from the path of a checkpoint's folder.

    >>> parse_step(Path("work/checkpoints/step-00003000"))
    3000
    """
    return int(checkpoint.name.removeprefix("step-"))


def read_saved(folder: Path) -> CheckpointFacts:
    """Read the facts of a finished checkpoint: its position, loss scale and identity.

    Raises Damaged if they are unreadable.
    """
    return CheckpointFacts.from_json(read_complete_file(folder))


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of a checkpoint into main memory, by parameter name.

    The number of processes that wrote it does not matter. The files are not verified.
    """
    reader, prefix = FileSystemReader(folder), "model."
    held: Mapping[str, Any] = reader.read_metadata().state_dict_metadata
    state = {
        name.removeprefix(prefix): torch.empty(tensor.size, dtype=tensor.properties.dtype)
        for name, tensor in held.items()
        if name.startswith(prefix)
    }
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one process reads alone is meant
        load({"model": state}, storage_reader=reader, no_dist=True)
    return state


def gather_weights(model: nn.Module) -> dict[str, Tensor]:
    """Gather the weights of a model that is divided among processes, by parameter name.

    All processes must call it. The first one gets plain tensors in main memory, and the others an empty dictionary.
    """
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return cast(dict[str, Tensor], get_model_state_dict(model, options=options))
