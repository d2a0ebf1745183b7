"""How far a fine-tuning run has come, on disk: what a run that was killed goes on from.

    OUTPUT's unfinished folder/   job.json           what is asked for, with digests of all that is read
                                  metrics.jsonl      the log
                                  work/progress.pt   weights, moments, and where they are
                                  work/best-0-2.pt   the weights that are to be exported, as far as it is known
                                  export/            what becomes the output

Promise: a file is whole or not there, and a flipped bit in it is found; a run that goes on ends with the bytes of one
that was never stopped. It goes on only with what it began with: another job, model, teacher or file of examples begins
anew, and it is said why. One run at a time makes an output.
Cost: a write takes as long as the disk takes for the weights three times; to go on, all is read once more.
"""

import dataclasses
import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, BinaryIO, cast

import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from corpora.errors import InputError
from corpora.store.files import replaced_file
from corpora.store.locks import NO_LOCKS, held
from trainer.finished import described
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.huggingface.config import CONFIG
from trainer.huggingface.tokenizers import TOKENIZER_CONFIG
from trainer.tasks.contract import Task
from trainer.tasks.encoding import TOKENIZER_FILES
from trainer.tasks.saving import task_json
from trainer.tasks.settings import FinetuneJob
from trainer.training.learner import Learner
from trainer.training.parallel import Ranks

JOB, WORK, EXPORT, PROGRESS = "job.json", "work", "export", "progress.pt"


@dataclass(slots=True, kw_only=True)
class CourseProgress:
    """Where a run is.

    restart: its number, from 0
    step:    of that restart, how many are done
    epochs:  of that restart, what each epoch came to
    kept:    of that restart, the number of the epoch to keep, from 1; 0 for none yet
    ended:   of the restarts before, their seed, epochs and kept epoch
    best:    the restart whose weights are to be exported, those of its kept epoch; -1 for none yet
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

    @property
    def best_file(self) -> str:
        """Where the weights to be exported are; "" where there are none."""
        kept = self.kept if self.best == self.restart else self.ended[self.best]["kept"] if self.best >= 0 else 0
        return f"best-{self.best}-{kept}.pt" if kept else ""


def save_progress(folder: Path, progress: CourseProgress, learner: Learner, ranks: Ranks) -> None:
    """Write down where a run is. All processes must call it."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, moments = get_state_dict(learner.model, learner.optimizer, options=options)
    said = {name: getattr(progress, name) for name in CourseProgress.__dataclass_fields__}
    said["scale"] = [learner.scale.factor, learner.scale.good_steps]
    if ranks.rank == 0:
        _write(folder / WORK / PROGRESS, {"progress": said, "weights": weights, "moments": moments})
        for path in (folder / WORK).glob("best-*.pt"):
            if path.name != progress.best_file:
                path.unlink()
    ranks.wait()


def read_progress(folder: Path) -> tuple[CourseProgress, dict[str, Any]] | None:
    """Where a run is, and its weights and moments; None where nothing was written, or not all of it is whole."""
    path = folder / WORK / PROGRESS
    if not _is_whole(path):
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, UnpicklingError, EOFError, OSError):  # what torch raises of a file that is not whole
        return None
    said = dict(found["progress"])
    scale, progress = said.pop("scale"), CourseProgress(**said)
    if progress.best_file and not _is_whole(folder / WORK / progress.best_file):
        return None
    return progress, {"weights": found["weights"], "moments": found["moments"], "scale": scale}


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


def has_progress(folder: Path) -> bool:
    """Whether something was written down, whole or not."""
    return (folder / WORK / PROGRESS).is_file()


def _is_whole(path: Path) -> bool:
    """Whether a file of torch is as it was written: it is a ZIP archive, with a checksum of each of its parts."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError):
        return False


def save_best(folder: Path, progress: CourseProgress, state: Mapping[str, Tensor]) -> None:
    """The weights to export, unless better ones come. Those before stay until `save_progress` knows of these."""
    _write(folder / WORK / progress.best_file, dict(state))


def read_best(folder: Path, progress: CourseProgress) -> dict[str, Tensor]:
    """What `save_best` wrote last. Raises InputError where it is no longer whole."""
    path = folder / WORK / progress.best_file
    if not _is_whole(path):
        raise InputError(f"{path} is not as it was written, so there is nothing to export: start the command again.")
    state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return state


# What a run goes on with.


@contextmanager
def alone(output: Path) -> Iterator[None]:
    """Hold an output for the time of the block. Raises InputError where another process makes it.

    Where the file system knows no locks, nobody can say.
    """

    def taken() -> None:
        raise InputError(f"Another process fine-tunes into {output} now: wait for it, or name another folder.")

    output.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as own:
        try:
            own.enter_context(held(output.with_name(f".{output.name}.lock"), taken))
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield


def asked_of(job: FinetuneJob, task: Task, files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What is asked for, and digests of all that is read.

    task: fitted, with the digest of its teacher; files: by name, as `named_file` describes them
    """
    return {
        "job": dataclasses.asdict(job),
        "model": _digests(Path(job.model)),
        "second": _digests(Path(second)) if (second := getattr(task, "second_encoder", "")) else {},
        "files": {name: file["sha256"] for name, file in files.items()},
        "task": task_json(task),
    }


def _digests(folder: Path) -> dict[str, Any]:
    """Of the files of a model's folder that are read."""
    names = (CONFIG, WEIGHTS, TOKENIZER_CONFIG, *TOKENIZER_FILES)
    return described(folder, [name for name in names if (folder / name).is_file()])


def write_asked(folder: Path, asked: Mapping[str, Any]) -> None:
    """Begin an unfinished folder; what was in it is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / WORK).mkdir(parents=True)
    (folder / JOB).write_text(json.dumps(asked, indent=1, ensure_ascii=False), encoding="utf-8")


def read_asked(folder: Path) -> Any:
    """What `write_asked` wrote; None where it is not there, or no JSON."""
    try:
        return json.loads((folder / JOB).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def difference(before: Any, asked: Mapping[str, Any]) -> str:
    """In what a run that was ended was asked otherwise; "" where in nothing."""
    asked = json.loads(json.dumps(asked))
    if not isinstance(before, dict) or before.keys() != asked.keys() or before["job"] != asked["job"]:
        return "it was asked for something else"
    if before["model"] != asked["model"]:
        return f"{asked['job']['model']} is another model than then"
    for name, digest in asked["files"].items():
        if digest is None or before["files"].get(name) != digest:
            return f"{asked['job'][name]['path']} has other contents than then"
    if before != asked:
        return "its teacher, its second encoder, or the package of its task is another than then"
    return ""


# Files.


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
    with replaced_file(path, alone=True) as new, new.open("wb") as file:
        sink = _Sink(file)
        try:
            torch.save(content, cast(BinaryIO, sink))
        except RuntimeError as error:
            raise sink.refusal or error from error


class _Sink:
    """A file being written that keeps what the disk refuses: torch tells no more than that it failed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.refusal: OSError | None = None

    def write(self, data: Any) -> int:
        """As of a file."""
        try:
            return self._file.write(data)
        except OSError as error:
            self.refusal = error
            raise

    def flush(self) -> None:
        """As of a file."""
        self._file.flush()
