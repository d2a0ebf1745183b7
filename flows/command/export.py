"""`cloze export`: data, a model, one of its checkpoints or a whole release, for others.

A checkpoint is also one of a model still in training: MODEL is then its `work` folder, or a folder above it: the
artifact's (STORE/models/NAME/FINGERPRINT), or that of its name, or the store, if it has only one model; or a
release. For an object store the work folder is in the cache of this machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.store.places.address import is_object_address, normalize_address
from corpora.store.places.place import Place
from flows.command.arguments import AsJson, Count, Position
from flows.command.terminal import choose_printer, print_json
from flows.command.trainer_process import iter_trainer_events, open_model_folder
from flows.export.export import CARD, ExportSettings, choose_artifact, write_export
from flows.export.exported import parse_local_target
from flows.export.release_folder import export_release
from flows.run.addresses import find_artifacts, pick_newest
from flows.run.record.counts_text import format_count
from flows.run.record.ledger_balance import format_bytes
from flows.run.record.releases import parse_release_address
from trainer.job import CACHE, JOB

MODELS = "models"


def export(
    artifact: Annotated[
        str, Parameter(help="A corpus or shard set: its folder, a store, or a release. Or a model's folder.")
    ],
    folder: Annotated[str, Parameter(help="The folder to write; it must be empty or not exist.")],
    *,
    kind: Annotated[
        str | None, Parameter(help="What to export: shards, corpora, models, or a release with its tasks: release.")
    ] = None,
    name: Annotated[str | None, Parameter(help="Name of the corpus or shard set, if there are several.")] = None,
    split: Annotated[
        list[str] | None, Parameter(help="Export only this split: train or held-out.", negative=())
    ] = None,
    file_size: Annotated[Count, Parameter(help="Largest size of a file, in MiB.")] = 256,
    step: Annotated[
        Position | None, Parameter(help="Of a model: the checkpoint of this step; default: the newest.")
    ] = None,
    onnx: Annotated[
        bool, Parameter(help="Of a model, fine-tuned or not: an ONNX file, for programs without torch.", negative=())
    ] = False,
    int8: Annotated[bool, Parameter(help="With --onnx: also one with 8-bit integer weights.", negative=())] = False,
    as_json: AsJson = False,
) -> None:
    """Write a corpus, shards, a model or a whole release.

    Parquet files come with a data card and Croissant metadata.
    """
    tell, target = choose_printer(as_json), parse_local_target(folder)
    done: dict[str, Any] = {"artifact": artifact, "folder": str(target), "splits": {}}
    if int8 and not onnx:
        raise InputError("--int8 is of an ONNX file: add --onnx, or leave it out.")
    if onnx or step is not None or kind == "models" or (kind is None and is_model_address(artifact)):
        tell(export_onnx(artifact, target, int8) if onnx else export_step(artifact, target, step))
        if as_json:
            print_json(done)
        return
    if kind == "release":
        folders = export_release(artifact, target)
        for inside, made in folders.items():
            tell(f"{target / inside}: {made}")
        if as_json:
            print_json({**done, "folders": folders})
        return
    splits = {"splits": tuple(dict.fromkeys(split))} if split else {}
    settings = ExportSettings(file_mib=file_size, **splits)
    chosen = choose_artifact(artifact, kind, name)
    content = write_export(chosen, target, settings)
    unit = "example" if content.has_examples else "document"
    facts: dict[str, dict[str, int]] = {}
    for each in content.splits:
        files = content.list_files(each)
        size = sum(file.size_bytes for file in files)
        facts[each] = {f"{unit}s": content.count_rows(each), "files": len(files), "bytes": size}
        rows = format_count(facts[each][f"{unit}s"], unit)
        tell(f"{each}: {rows} in {format_count(len(files), 'file')}, {format_bytes(size)}")
    tell(f"{chosen.manifest.folder} is in {target}; its {CARD} describes it.")
    if as_json:
        print_json({**done, "artifact": chosen.manifest.folder, "splits": facts})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFolder:
    """A folder in which a model is trained, with its job file and checkpoints.

    Attributes:
        folder: The path of the folder on this machine.
        store: The store that the model belongs to; None if unknown, for example because the folder was copied.
    """

    folder: Path
    store: str | None


def is_model_address(address: str) -> bool:
    """Return True if an address is the folder of a model, or of all models with one name, and has a training job."""
    return bool(_list_training_folders(address, ("", "work", "*/work")))


def find_training_folders(address: str) -> list[TrainingFolder]:
    """Find the training folders that an address may refer to.

    Args:
        address: A training folder, the folder of a model or of all models with one name, a store, or a release.

    Returns:
        The folders; an empty list if there are none.

    Raises:
        InputError: If the address is a release without a model.
    """
    if parse_release_address(address) is None:
        return _list_training_folders(address, ("", "work", "*/work", "*/*/work", f"{MODELS}/*/*/work"))
    artifact = pick_newest(find_artifacts(address, MODELS))
    return _list_training_folders(artifact.place.to_address(artifact.manifest.folder), ("work",))


def _list_training_folders(address: str, patterns: Sequence[str]) -> list[TrainingFolder]:
    """List the folders below an address that match glob patterns and contain a job file. Returns [] if there are none.

    For an object store, searches the local cache of its training runs.

    Args:
        address: The address of a folder, or of an object store or a part of it.
        patterns: The glob patterns, relative to the address; "" is the address itself.
    """
    plain = normalize_address(address).rstrip("/")
    if not is_object_address(plain):
        return [
            TrainingFolder(folder=path, store=_find_store(path)) for path in _list_job_folders(Path(plain), patterns)
        ]
    store, _, inside = f"{plain}/".partition(f"/{MODELS}/")
    local = CACHE.expanduser() / MODELS / inside
    return [TrainingFolder(folder=path, store=store) for path in _list_job_folders(local, patterns)]


def _list_job_folders(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """List subfolders of a local folder that match glob patterns and have a job file, sorted within each pattern."""
    jobs = (job for pattern in patterns for job in sorted(folder.glob(f"{pattern}/{JOB}".removeprefix("/"))))
    return [job.parent for job in jobs]


def _find_store(work: Path) -> str | None:
    """Return the path of the local store that contains a training folder, or None if it is not in a store.

    In a store, the path of a training folder is STORE/models/NAME/FINGERPRINT/work.

    Args:
        work: The training folder, which contains the job file and the checkpoints.
    """
    whole = work.resolve()
    in_store = whole.name == "work" and len(whole.parts) > 4 and whole.parts[-4] == MODELS
    return str(whole.parents[3]) if in_store else None


def export_step(address: str, folder: Path, step: int | None) -> str:
    """Write a checkpoint of a model to a folder in the Hugging Face format.

    Args:
        address: An address that `find_training_folders` accepts. It must have exactly one training folder.
        folder: The folder to write, which must be empty or not exist.
        step: The step of the checkpoint. If None, the newest checkpoint.

    Returns:
        A line for the user that names the step and the folder.

    Raises:
        InputError: If there is no such model or checkpoint, or there are several models.
        TrainingFailed: If the trainer's process fails.
    """
    works = find_training_folders(address)
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
    heard = iter_trainer_events("export", *at, *store, "--", str(work.folder), str(folder))
    [done] = [event for event in heard if event["event"] == "done"]
    return f"{work.folder.parent}: the checkpoint of step {done['step']:,} is in {folder}"


def export_onnx(model: str, folder: Path, int8: bool) -> str:
    """Write a model to a folder as an ONNX file.

    Args:
        model: A model's folder, its folder in a store, or a release; fine-tuned or not.
        folder: The folder to write, which must be empty or not exist.
        int8: True to also write a file with 8-bit integer weights.

    Returns:
        A line for the user that names the folder.

    Raises:
        InputError: If there is no such model, or the folder cannot be written.
        TrainingFailed: If the trainer's process fails.
    """
    with open_model_folder(model) as source:
        for _ in iter_trainer_events("onnx", *(["--int8"] if int8 else []), "--", str(source), str(folder)):
            pass
    return f"ONNX: {folder}"
