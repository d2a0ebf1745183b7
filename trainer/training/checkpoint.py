"""Checkpoints: everything that a training run needs to go on where it was, in a folder a step.

    work/checkpoints/step-00001000/   the shards of model, optimiser and dropout's generators, one file a process
                                      complete.json: cursor, counts, loss scale, identity, and the files with sizes

Promise: a folder named step-... was written to its end, `complete.json` last, before it got that name; one whose files
are gone or cut since is told and passed over. Any number of processes reads what any other number wrote; the same
number goes on bit for bit, dropout included. A checkpoint of another model is refused.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from corpora.store.files import flush_folder, unfinished
from corpora.store.manifest import Json
from trainer.job import COMPLETE, TrainingJob
from trainer.training.parallel import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a run is, in counts that mean the same for any number of processes.

    phase: the phase of the next step
    step:  steps done, of all phases
    slot:  the first slot of the next step in what its phase reads
    """

    phase: int
    step: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a checkpoint says next to its tensors.

    counts:     of the run up to here, over all processes
    loss_scale: factor, and good steps since it changed
    ranks:      processes that wrote it
    """

    cursor: Cursor
    counts: Mapping[str, int]
    loss_scale: tuple[float, int]
    ranks: int
    identity: Mapping[str, Json]

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Saved":
        """What `asdict` gave."""
        return Saved(
            cursor=Cursor(**data["cursor"]),
            counts=data["counts"],
            loss_scale=(data["loss_scale"][0], data["loss_scale"][1]),
            ranks=data["ranks"],
            identity=data["identity"],
        )


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, work: Path, keep: int, ranks: Ranks) -> None:
        self._folder = work / "checkpoints"
        self._keep = keep
        self._ranks = ranks

    def save(self, model: nn.Module, optimizer: torch.optim.Optimizer, saved: Saved) -> str:
        """Write one on all processes, make it visible, and remove the oldest; its name."""
        name = f"step-{saved.cursor.step:08d}"
        final = self._folder / name
        new = unfinished(final, alone=True)
        if self._ranks.rank == 0:
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
        self._ranks.wait()
        save(self._state(model, optimizer), storage_writer=FileSystemWriter(new, sync_files=True))
        if self._ranks.rank == 0:
            _complete(new, asdict(saved))
            shutil.rmtree(final, ignore_errors=True)  # a torn one
            new.rename(final)
            flush_folder(self._folder)
            self._clear(name)
        self._ranks.wait()
        return name

    def _clear(self, newest: str) -> None:
        """Remove all but the last `keep` up to the newest; those after it were torn, and others never got a name."""
        names = sorted(path.name for path in self._folder.glob("step-*"))
        kept = [name for name in names if name <= newest][-self._keep :]
        for path in self._folder.iterdir():
            if path.name not in kept:
                shutil.rmtree(path)

    def newest(self, job: TrainingJob) -> tuple[Path | None, list[str]]:
        """The newest whole checkpoint, and what is to be said of newer ones that are not whole.

        Raises InputError where it is of another model.
        """
        torn: list[str] = []
        for path in sorted(self._folder.glob("step-*"), reverse=True):
            fault = _fault(path)
            if fault is None:
                job.refuse_another(str(path), read_saved(path).identity)
                return path, torn
            torn.append(f"{path.name} is not whole and is passed over: {fault}.")
        return None, torn

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


def _complete(folder: Path, facts: Mapping[str, Json]) -> None:
    """Mark a folder as whole: the facts, and its files with their sizes."""
    files = {path.relative_to(folder).as_posix(): path.stat().st_size for path in _files(folder)}
    with (folder / COMPLETE).open("w", encoding="utf-8") as file:
        json.dump({**facts, "files": files}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    flush_folder(folder)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != COMPLETE)


def _fault(folder: Path) -> str | None:
    """Why a folder is not whole, or None."""
    try:
        files = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return f"it has no {COMPLETE}"
    except json.JSONDecodeError:
        return f"its {COMPLETE} is cut"
    for name, size_bytes in files.items():
        found = (folder / name).stat().st_size if (folder / name).exists() else None
        if found != size_bytes:
            return f"{name} has {found} bytes instead of {size_bytes}" if found is not None else f"{name} is gone"
    return None


def read_saved(folder: Path) -> Saved:
    """What a whole checkpoint says next to its tensors."""
    return Saved.from_json(json.loads((folder / COMPLETE).read_text(encoding="utf-8")))


def whole_state(model: nn.Module) -> dict[str, Tensor]:
    """All weights as plain tensors in main memory, on the first process; the others get nothing. All must call it."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return cast(dict[str, Tensor], get_model_state_dict(model, options=options))
