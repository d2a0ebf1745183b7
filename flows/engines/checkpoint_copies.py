"""Copies of checkpoints on an object store: a lost worker takes its disk along, and another one continues.

    STORE/models/NAME/FINGERPRINT/work/checkpoints/step-.../     the newest checkpoint, its complete.json last
                                      metrics.jsonl              the events up to there, or further

Promise: a copy that has its complete.json is whole, and the trainer checks every byte of it before it continues from
it. Cost: the checkpoint over the network whenever one is written; the trainer continues meanwhile.
"""

import shutil
from pathlib import Path

from corpora.store.checked_folder import COMPLETE_FILE, list_files
from corpora.store.places.files import hold_lock
from corpora.store.places.place import Place
from corpora.store.stage import Stage
from trainer.metrics import METRICS_FILE

CHECKPOINTS = "checkpoints"


def keep_copy(place: Place, stage: Stage, work: Path) -> None:
    """Copy the newest checkpoint of a work folder into the store, and remove older copies."""
    steps = _steps_here(work)
    if not steps or (newest := steps[-1]) in _steps_there(place, stage):
        return
    _send(work / METRICS_FILE, place, f"{_base(stage)}/{METRICS_FILE}")
    folder = work / CHECKPOINTS / newest
    for name in (*list_files(folder), COMPLETE_FILE):
        _send(folder / name, place, f"{_base(stage)}/{CHECKPOINTS}/{newest}/{name}")
    _remove(place, stage, newest)


def fetch_copy(place: Place, stage: Stage, work: Path) -> None:
    """Put the copy in a store into a work folder, where its step is later than the folder's own."""
    if not (stored := _steps_there(place, stage)):
        return
    work.mkdir(parents=True, exist_ok=True)
    with hold_lock(work / "fetching"):
        if _steps_here(work)[-1:] >= stored[-1:]:
            return
        base, final = f"{_base(stage)}/", work / CHECKPOINTS / stored[-1]
        new = final.with_name(f"fetched-{final.name}")  # until it is whole: not the name of a checkpoint
        shutil.rmtree(new, ignore_errors=True)
        for path in place.list_files(f"{base}{CHECKPOINTS}/{stored[-1]}"):
            _fetch(place, path, new / path.removeprefix(f"{base}{CHECKPOINTS}/{stored[-1]}/"))
        _fetch(place, f"{base}{METRICS_FILE}", work / METRICS_FILE)
        shutil.rmtree(final, ignore_errors=True)
        new.rename(final)


def remove_copy(place: Place, stage: Stage) -> None:
    """Remove the copy: the model is in the store, so nothing of its training is needed."""
    _remove(place, stage, "")
    if place.find_size(f"{_base(stage)}/{METRICS_FILE}") is not None:
        place.delete(f"{_base(stage)}/{METRICS_FILE}")


def _base(stage: Stage) -> str:
    return f"{stage.folder}/work"


def _steps_here(work: Path) -> list[str]:
    """Return the whole checkpoints of a work folder, the oldest first."""
    return sorted(path.parent.name for path in (work / CHECKPOINTS).glob(f"step-*/{COMPLETE_FILE}"))


def _steps_there(place: Place, stage: Stage) -> list[str]:
    """Return the whole copies in a store, the oldest first."""
    paths = (Path(path) for path in place.list_files(f"{_base(stage)}/{CHECKPOINTS}"))
    return sorted(path.parent.name for path in paths if path.name == COMPLETE_FILE)


def _remove(place: Place, stage: Stage, but: str) -> None:
    """Remove copies, and first of each the file that says that it is whole."""
    paths = [Path(path) for path in place.list_files(f"{_base(stage)}/{CHECKPOINTS}")]
    for path in sorted(paths, key=lambda path: path.name != COMPLETE_FILE):
        if not but or but not in path.parts:
            place.delete(path.as_posix())


def _send(source: Path, place: Place, path: str) -> None:
    with place.create(path) as sink, source.open("rb") as file:
        shutil.copyfileobj(file, sink)


def _fetch(place: Place, path: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with place.open(path) as source, target.open("wb") as file:
        shutil.copyfileobj(source, file)
