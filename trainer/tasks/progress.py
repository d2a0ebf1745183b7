"""How far a fine-tuning run has come, on disk: what a run that was killed goes on from.

    OUTPUT's unfinished folder/   job.json           what is asked for: another job begins anew
                                  metrics.jsonl      the log
                                  work/progress.pt   weights, moments, and where they are
                                  work/best.pt       the weights that are to be exported, as far as it is known

Promise: a file is whole or not there; a run that goes on ends with the bytes of one that was never stopped.
Cost: a write takes as long as the disk takes for the weights three times.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from corpora.errors import InputError
from corpora.store.files import replaced_file
from trainer.training.learner import Learner
from trainer.training.parallel import Ranks

WORK, PROGRESS, BEST = "work", "progress.pt", "best.pt"


@dataclass(slots=True, kw_only=True)
class CourseProgress:
    """Where a run is.

    restart: its number, from 0
    step:    of that restart, how many are done
    epochs:  of that restart, what each epoch came to
    kept:    of that restart, the number of the epoch to keep, from 1; 0 for none yet
    ended:   of the restarts before, their seed, epochs and kept epoch
    best:    the restart whose weights are in `best.pt`; -1 for none yet
    """

    restart: int = 0
    step: int = 0
    epochs: list[dict[str, Any]] = field(default_factory=list)
    kept: int = 0
    ended: list[dict[str, Any]] = field(default_factory=list)
    best: int = -1

    def next(self) -> None:
        """On to the next restart."""
        self.restart, self.step, self.epochs, self.kept = self.restart + 1, 0, [], 0


def save_progress(folder: Path, progress: CourseProgress, learner: Learner, ranks: Ranks) -> None:
    """Write down where a run is. All processes must call it."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, moments = get_state_dict(learner.model, learner.optimizer, options=options)
    said = {name: getattr(progress, name) for name in CourseProgress.__dataclass_fields__}
    said["scale"] = [learner.scale.factor, learner.scale.good_steps]
    if ranks.rank == 0:
        _write(folder / WORK / PROGRESS, {"progress": said, "weights": weights, "moments": moments})
    ranks.wait()


def read_progress(folder: Path) -> tuple[CourseProgress, dict[str, Any]] | None:
    """Where a run is, and its weights and moments; None where nothing whole was written."""
    path = folder / WORK / PROGRESS
    if not path.is_file():
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, UnpicklingError, EOFError, OSError):  # what torch raises of a file that is not whole
        return None
    said = dict(found["progress"])
    scale = said.pop("scale")
    return CourseProgress(**said), {"weights": found["weights"], "moments": found["moments"], "scale": scale}


def put_back(learner: Learner, state: Mapping[str, Any]) -> None:
    """The weights and moments that `read_progress` gave. All processes must call it."""
    options = StateDictOptions(full_state_dict=True)
    set_state_dict(
        learner.model,
        learner.optimizer,
        model_state_dict=state["weights"],
        optim_state_dict=state["moments"],
        options=options,
    )
    learner.scale.factor, learner.scale.good_steps = state["scale"]


def save_best(folder: Path, state: Mapping[str, Tensor]) -> None:
    """The weights to export, unless better ones come."""
    _write(folder / WORK / BEST, dict(state))


def read_best(folder: Path) -> dict[str, Tensor]:
    """What `save_best` wrote last."""
    state: dict[str, Tensor] = torch.load(folder / WORK / BEST, map_location="cpu", weights_only=True)
    return state


def check_room(folder: Path, size_bytes: int) -> None:
    """Raise InputError where a folder's disk has no room for so much more."""
    free = shutil.disk_usage(folder).free
    if free < size_bytes:
        raise InputError(
            f"There is no room in {folder}: {size_bytes / 1e9:.2g} GB are to be written, and {free / 1e9:.2g} GB are "
            "free. Free that much, or name an output on another disk; with the same output the command then goes on."
        )


def size_of(content: Any) -> int:
    """Bytes of all tensors in nested mappings and lists."""
    if isinstance(content, Tensor):
        return content.nbytes
    parts = content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ()
    return sum(map(size_of, parts))


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    check_room(path.parent, size_of(content))
    with replaced_file(path, alone=True) as new:
        torch.save(content, new)
