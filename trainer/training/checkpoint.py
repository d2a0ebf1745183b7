"""Checkpoints: everything that a training run needs to go on where it was, in a folder a step.

    work/checkpoints/step-00001000/   the shards of model, optimiser and dropout's generators, one file a process
                                      complete.json: cursor, counts, loss scale, identity; files and their digests

Promise: a folder named step-... was written to its end, `complete.json` last, before it got that name. The one that
training goes on from is as it was written, every byte. A damaged one is told, left aside as damaged-step-... until the
export is written, and the one before it is taken; all processes take the same. Any number of processes reads what any
other number wrote; the same number goes on from every bit of the state, dropout's generators included. A checkpoint of
another model is refused.

A checkpoint is copied in main memory (`staging.py`), and a thread writes the copy while training goes on; the threads
of the processes speak over sockets of their own. One is written at a time: the next one waits for it, and so does the
end of training, also where it was told to stop. A kill in the middle leaves a folder that is no checkpoint.

Cost: a step waits while the copy is made. What is written is read once more, for its digests, and so is what is
resumed from: each process its share of the files, at 10 GB a second where the system has them in memory.
"""

import errno
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
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

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.files import flush_folder, unfinished
from corpora.store.manifest import Json
from trainer.choices import Computing
from trainer.finished import check_files, described, finish, names_in, read_finished
from trainer.jobs.job import TrainingJob
from trainer.jobs.origins import Origin, content_of
from trainer.training.parallel import ALONE_SECONDS, Ranks
from trainer.training.staging import Staging

FOLDER = "checkpoints"  # of a work folder
ASIDE = "damaged-"
_SAID = ("betas", "eps", "weight_decay")  # what settings say of a group of parameters, whoever wrote its checkpoint
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a run is, in counts that mean the same for any number of processes.

    phase: the phase of the next step
    step:  steps done, of all phases
    slot:  the first slot of the next step in what its phase reads: in a shard set, or in the phase's own mixture
    """

    phase: int
    step: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a checkpoint says next to its tensors.

    counts:     of the run up to here, over all processes
    seen:       of each phase, for each component of what it reads, TALLIES; over all processes
    loss_scale: factor, and good steps since it changed
    ranks:      processes that wrote it
    choice:     how it computed; None of versions that had no "auto"
    """

    cursor: Cursor
    counts: Mapping[str, int]
    loss_scale: tuple[float, int]
    ranks: int
    identity: Mapping[str, Json]
    seen: Sequence[Sequence[Sequence[int]]]
    choice: Computing | None = None

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Saved":
        """What `asdict` gave."""
        return Saved(
            cursor=Cursor(**data["cursor"]),
            counts=data["counts"],
            loss_scale=(data["loss_scale"][0], data["loss_scale"][1]),
            ranks=data["ranks"],
            identity=data["identity"],
            seen=data.get("seen", ()),
            choice=Computing.from_json(data["choice"]) if data.get("choice") else None,
        )


class WrittenCheckpoint(NamedTuple):
    """A checkpoint that is there. seconds: that it took; wait_seconds: of these, that training stood still"""

    name: str
    step: int
    seconds: float
    wait_seconds: float


class Checkpoints:
    """The checkpoints of one run. All processes must make it, and call what it has, in the same order."""

    def __init__(self, work: Path, keep: int, ranks: Ranks, always: frozenset[int] = frozenset()) -> None:
        """keep: newest ones that are kept; always: steps whose checkpoints are kept besides"""
        self._folder = work / FOLDER
        self._keep = keep
        self._ranks = ranks
        self._always = always
        self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=ALONE_SECONDS))  # of the threads
        self._staging = Staging(DeviceMesh.from_group(self._group, "cpu"))
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[WrittenCheckpoint] | None = None

    def begin(self, model: nn.Module, optimizer: torch.optim.Optimizer, saved: Saved) -> None:
        """Copy the state and begin to write it; the one before must be known to be there (`written`)."""
        assert self._writing is None, "one is written at a time, for they are copied into the same memory"
        began = time.monotonic()
        copy = self._staging.copied(self._state(model, optimizer))
        self._writing = self._thread.submit(self._write, copy, saved, began, time.monotonic() - began)

    def written(self, wait: bool) -> WrittenCheckpoint | None:
        """The checkpoint that came to its end since this was asked last; on this process, others may know it later.

        Raises InputError where there is no room for it, and what else ended it.
        """
        if self._writing is None or not (wait or self._writing.done()):
            return None
        began, writing, self._writing = time.monotonic(), self._writing, None
        found = writing.result()
        return found._replace(wait_seconds=found.wait_seconds + time.monotonic() - began)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """When the block ends well none is being written any more; nor where it fails in a process that is alone."""
        try:
            yield
        finally:
            self._thread.shutdown(wait=self._ranks.count == 1)

    def _write(self, state: Mapping[str, Any], saved: Saved, began: float, wait_seconds: float) -> WrittenCheckpoint:
        """Write one on all processes, make it visible, and remove the oldest."""
        name = f"step-{saved.cursor.step:08d}"
        final = self._folder / name
        new = unfinished(final, alone=True)
        with self._room_for(name, new):
            if self._ranks.rank == 0:
                shutil.rmtree(new, ignore_errors=True)
                new.mkdir(parents=True)
            dist.barrier(self._group)
            save({**state}, storage_writer=FileSystemWriter(new, sync_files=True), process_group=self._group)
            every: list[dict[str, Json]] = [{}] * self._ranks.count
            dist.all_gather_object(every, described(new, self._share(names_in(new))), group=self._group)
            files = {path: file for described in every for path, file in described.items()}
            if self._ranks.rank == 0:
                finish(new, asdict(saved), dict(sorted(files.items())))
                new.rename(final)
                flush_folder(self._folder)
                self._clear(name)
            dist.barrier(self._group)
        return WrittenCheckpoint(name, saved.cursor.step, time.monotonic() - began, wait_seconds)

    @contextmanager
    def _room_for(self, name: str, new: Path) -> Iterator[None]:
        """A checkpoint that finds no room is removed, and told. Raises InputError."""
        try:
            yield
        except (OSError, RuntimeError, CheckpointException) as error:
            if not any(isinstance(each, OSError) and each.errno in NO_ROOM for each in _causes(error)):
                raise
            if self._ranks.rank == 0:
                shutil.rmtree(new, ignore_errors=True)
            size = self._staging.size_bytes * self._ranks.count
            raise InputError(
                f"There is no room for the checkpoint {name} in {self._folder}: it takes {size / 1e9:.2g} GB, and so "
                f"does each of the training.keep_checkpoints = {self._keep} that are kept. Free that much, or keep "
                "fewer; the same command then goes on from the newest whole one."
            ) from error

    def _share(self, names: Sequence[str]) -> Sequence[str]:
        """This process's share of the files of a checkpoint."""
        return names[self._ranks.rank :: self._ranks.count]

    def _clear(self, newest: str) -> None:
        """Remove all but the last `keep` and those kept always, what never got a name included; damaged ones stay."""
        names = sorted(path.name for path in self._folder.glob("step-*"))
        kept = [name for name in names if name <= newest][-self._keep :]
        kept += [name for name in names if name <= newest and step_of(Path(name)) in self._always]
        for path in self._folder.iterdir():
            if path.name not in kept and not path.name.startswith(ASIDE):
                shutil.rmtree(path)

    def clear_damaged(self) -> None:
        """Remove what was left aside."""
        for path in self._folder.glob(f"{ASIDE}*"):
            shutil.rmtree(path)

    def newest(self, job: TrainingJob) -> tuple[Path | None, list[str]]:
        """The newest whole checkpoint, and what is to be said of newer ones that are damaged. All must call it.

        Raises InputError where it is of another model.
        """
        faults: list[str] = []
        names = sorted((path.name for path in self._folder.glob("step-*")), reverse=True)
        for path in (self._folder / name for name in self._ranks.collect(names)[0]):
            fault = self._fault(path, job)
            if fault is None:
                return path, faults
            faults.append(f"{path.name} is damaged and left aside as {ASIDE}{path.name}: {fault}.")
            if self._ranks.rank == 0:
                _leave_aside(path)
        return None, faults

    def _fault(self, path: Path, job: TrainingJob) -> str | None:
        """How a checkpoint is damaged, or None: every process reads its share, and all are told the same."""
        fault = None
        try:
            facts = read_finished(path)
            job.refuse_another(str(path), facts["identity"])
            check_files(path, {name: facts["files"][name] for name in self._share(sorted(facts["files"]))})
        except Damaged as damage:
            fault = f"{damage.path}: {damage.what}"
        return next((found for found in self._ranks.collect(fault) if found is not None), None)

    def go_on_from(self, origin: Origin, model: nn.Module, optimizer: torch.optim.Optimizer) -> Saved:
        """Go on from the checkpoint of another run, under this one's settings. All must call it.

        Raises InputError where it is not what the training was planned for.
        """
        path, fault = Path(origin.path), None
        try:
            facts = read_finished(path)
            if content_of(facts) != origin.content:
                fault = "it holds something else than when the training was planned"
            check_files(path, {name: facts["files"][name] for name in self._share(sorted(facts["files"]))})
        except Damaged as damage:
            fault = f"{damage.path}: {damage.what}"
        for found in self._ranks.collect(fault):
            if found is not None:
                raise InputError(
                    f"The checkpoint {path} to go on from (training.continue_from) is damaged: {found}. Bring it back, "
                    "or name another one."
                )
        groups = [{key: value for key, value in group.items() if key in _SAID} for group in optimizer.param_groups]
        saved = self.load(path, model, optimizer)
        for group, said in zip(optimizer.param_groups, groups, strict=True):
            group.update(said)
        return saved

    def load(self, path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Saved:
        """Put a checkpoint's tensors into the model, the optimiser and, for as many processes, the generators."""
        saved = read_saved(path)
        state = self._state(model, optimizer)
        if saved.ranks != self._ranks.count:
            del state["generators"]
        load(state, storage_reader=FileSystemReader(path))
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        if "generators" in state:
            _set_generators(state["generators"][str(self._ranks.rank)], self._ranks.device)
        return saved

    def _state(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        weights, moments = get_state_dict(model, optimizer)
        generators = {str(self._ranks.rank): _generators(self._ranks.device)}
        return {"model": weights, "optimizer": moments, "generators": generators}


def _generators(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's generators of this process."""
    states: dict[str, Tensor] = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _set_generators(states: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, those that it came from, and those of the processes that it tells of."""
    told = [failed for failed, _ in error.failures.values()] if isinstance(error, CheckpointException) else []
    for cause in (*told, error.__cause__, error.__context__):
        if cause is not None:
            yield from _causes(cause)
    yield error


def _leave_aside(path: Path) -> None:
    """Give a damaged checkpoint a name under which it is no checkpoint."""
    aside = path.with_name(f"{ASIDE}{path.name}")
    shutil.rmtree(aside, ignore_errors=True)  # of the same step, from before
    path.rename(aside)
    flush_folder(path.parent)


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was written.

    >>> step_of(Path("work/checkpoints/step-00003000"))
    3000
    """
    return int(checkpoint.name.removeprefix("step-"))


def read_saved(folder: Path) -> Saved:
    """What a whole checkpoint says next to its tensors."""
    return Saved.from_json(read_finished(folder))


def whole_state(model: nn.Module) -> dict[str, Tensor]:
    """All weights as plain tensors in main memory, on the first process; the others get nothing. All must call it."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return cast(dict[str, Tensor], get_model_state_dict(model, options=options))
