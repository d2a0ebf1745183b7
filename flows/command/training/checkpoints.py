"""`cloze export MODEL FOLDER --step N`: a checkpoint of a model, also of one still in training, as a folder; and with
`--onnx` a model as an ONNX file.

MODEL is a model's `work` folder, or a folder above it: the artifact's (STORE/models/NAME/FINGERPRINT), or that of its
name, or the store, where there is only one model; or a release. For an object store the work folder is in the cache of
this machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.address import is_object_address, normalize_address
from corpora.store.places.place import Place
from flows.command.trainer_process import model_folder, trainer_events
from flows.run.addresses import find_artifacts, pick_newest
from flows.run.record.releases import parse_release_address
from trainer.job import CACHE, JOB

MODELS = "models"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A folder where a model is trained. store: the one that it belongs to, None where that is unknown"""

    folder: Path
    store: str | None


def is_model(address: str) -> bool:
    """Return whether an address is that of a model's folder with its work folder, or of the only one of a name."""
    return bool(_works(address, ("", "work", "*/work")))


def find_works(address: str) -> list[Work]:
    """Return the work folders that an address may mean, a model's or a store's. Raises InputError for a release of
    none."""
    if parse_release_address(address) is None:
        return _works(address, ("", "work", "*/work", "*/*/work", f"{MODELS}/*/*/work"))
    artifact = pick_newest(find_artifacts(address, MODELS))
    return _works(artifact.place.to_address(artifact.manifest.folder), ("work",))


def _works(address: str, patterns: Sequence[str]) -> list[Work]:
    """Return the folders with a job at or below an address."""
    plain = normalize_address(address).rstrip("/")
    if not is_object_address(plain):
        return [Work(folder=path, store=_store_of(path)) for path in _below(Path(plain), patterns)]
    store, _, inside = f"{plain}/".partition(f"/{MODELS}/")
    local = CACHE.expanduser() / MODELS / inside
    return [Work(folder=path, store=store) for path in _below(local, patterns)]


def _below(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the folders of some patterns that have a job."""
    jobs = (job for pattern in patterns for job in sorted(folder.glob(f"{pattern}/{JOB}".removeprefix("/"))))
    return [job.parent for job in jobs]


def _store_of(work: Path) -> str | None:
    """Return the local store in which a work folder is, by its place: STORE/models/NAME/FINGERPRINT/work."""
    whole = work.resolve()
    in_store = whole.name == "work" and len(whole.parts) > 4 and whole.parts[-4] == MODELS
    return str(whole.parents[3]) if in_store else None


def export_step(address: str, folder: Path, step: int | None) -> str:
    """Write a checkpoint of a model to a folder; return a line about it. Raises InputError, or TrainingFailed."""
    works = find_works(address)
    if len(works) != 1:
        raise InputError(
            f"{address} has {'several models' if works else 'no model'} with checkpoints on this machine: name "
            f"{'one of ' + ', '.join(str(one.folder) for one in works) if works else 'the folder of one'} "
            "(STORE/models/NAME/FINGERPRINT)."
        )
    [work] = works
    # The folder may have been copied out of its store.
    known = work.store is not None and Place(work.store).list_files("vocabularies")
    store = ["--store", str(work.store)] if known else []
    at = ["--step", str(step)] if step is not None else []
    heard = trainer_events("export", *at, *store, "--", str(work.folder), str(folder))
    [done] = [event for event in heard if event["event"] == "done"]
    return f"{work.folder.parent}: the checkpoint of step {done['step']:,} is in {folder}"


def export_onnx(model: str, folder: Path, int8: bool) -> str:
    """Write a model as an ONNX file to a folder; return a line about it. Raises as `export_step`.

    int8: also a file with 8-bit integer weights
    """
    with model_folder(model) as source:
        for _ in trainer_events("onnx", *(["--int8"] if int8 else []), "--", str(source), str(folder)):
            pass
    return f"ONNX: {folder}"
