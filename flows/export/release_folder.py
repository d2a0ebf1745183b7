"""A release as one folder: encoder, tokenizer, a fine-tuned model for each task, and the answers of these models.

    FOLDER/   encoder/        the pre-trained model, as transformers opens it, with its tokenizer
              tokenizer/      the files of the vocabulary
              heads/TASK/     the fine-tuned model of a task, which `cloze predict` and transformers open; a suite has
                              a folder for each of its tasks
              answers/TASK/   its answers to documents that were new, as Parquet
              README.md       the card of the model, with its scores
              release.json    the entry of the release's history

Promise: every byte is compared with its manifest while it is copied; the folder appears when all of it is there.
Cost: reading what is released once.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import mark_complete
from corpora.store.manifest import Manifest, StoredFile
from corpora.store.places.place import Place
from flows.export.cards.model_card import CARD_FILE, CONFIG_FILE, UNKNOWN, CardFacts, render_model_card
from flows.export.exported import open_new_folder, read_provenance
from flows.run.addresses import Artifact
from flows.run.record.releases import Release, find_release, read_manifests
from flows.run.record.task_scores import read_result
from flows.run.stage_kinds import STAGES
from trainer.start_weights import copy_model, list_model_files
from trainer.tasks.build import RECORD
from trainer.tasks.suites.table import SuiteResult

ENCODER_FOLDER, HEADS_FOLDER, ENTRY_FILE = STAGES["models"].folder, STAGES["tasks"].folder, "release.json"


def export_release(address: str, target: Path) -> dict[str, Json]:
    """Copy the artifacts (stored stage results) of a release to a new folder.

    The model card and the release entry are written next to them.

    Args:
        address: `STORE@NAME`, or for example `STORE@NAME:2` for the second entry in the release's history.
        target: A folder that does not exist or is empty.

    Returns:
        Maps each folder in the target, such as "encoder", to the folder in the store from which it was copied.

    Raises:
        InputError: If there is no such release, or if the target cannot be used.
        Damaged: If a file differs from its description in the store.
    """
    found = find_release(address)
    if found is None:
        raise InputError(f"{address} is no release: give STORE@NAME, or STORE@NAME:2 for the second of its history.")
    place, release = found
    manifests = read_manifests(place, release)
    with open_new_folder(target) as folder:
        folders = {path: manifest for manifest in manifests if (path := _name_folder(manifest, release.recipe))}
        for path, manifest in folders.items():
            (folder / path).parent.mkdir(exist_ok=True)
            copy_model(place, manifest, _list_files(manifest), folder / path)
        (folder / ENTRY_FILE).write_text(json.dumps(asdict(release), indent=1, ensure_ascii=False), encoding="utf-8")
        if ENCODER_FOLDER in folders:
            card = _render_card(place, release, folder, folders)
            (folder / CARD_FILE).write_text(card, encoding="utf-8")
        mark_complete(folder)
    return {path: manifest.folder for path, manifest in folders.items()}


def _name_folder(manifest: Manifest, recipe: str) -> str:
    """Return the target subfolder for an artifact (stored stage result), such as "heads/sentiment".

    Args:
        manifest: Manifest (description) of the artifact.
        recipe: Name of the recipe. The names of its artifacts start with it.

    Returns:
        The subfolder, or "" if artifacts of this kind are not copied.
    """
    folder, name = STAGES[manifest.kind].folder, manifest.name.removeprefix(f"{recipe}-")
    if folder.endswith("/"):
        return folder + name
    return f"{folder}/{name}" if folder and manifest.name != recipe else folder


def _list_files(manifest: Manifest) -> dict[str, StoredFile]:
    """Return the files of an artifact (stored stage result) that other programs can open, by path in the target."""
    if manifest.kind == "models":
        return list_model_files(manifest)
    table = "answers" if STAGES[manifest.kind].has_answers else "files"
    files = (file for part in manifest.parts for file in part.files if file.table == table)
    return {file.path.partition("/")[2]: file for file in files}


def _render_card(place: Place, release: Release, folder: Path, folders: dict[str, Manifest]) -> str:
    """Render the encoder's model card as Markdown, with the scores of its tasks.

    Args:
        place: The store.
        release: The release entry.
        folder: The folder to which the artifacts have been copied.
        folders: Maps each path in this folder to the manifest (description) of its artifact.
    """
    tasks = {path: manifest for path, manifest in folders.items() if manifest.kind == "tasks"}
    results = [read_result(place, manifest, path.partition("/")[2]) for path, manifest in tasks.items()]
    rows = tuple(row for result in results for row in result.rows)
    task_settings: dict[str, Any] = {}
    for path in tasks:
        for record in sorted((folder / path).rglob(RECORD)):
            task = record.parent.relative_to(folder / HEADS_FOLDER).as_posix()
            task_settings[task] = json.loads(record.read_text(encoding="utf-8"))["settings"]
    seeds = tuple(sorted({seed for result in results for seed in result.seeds}))
    facts = CardFacts(
        name=release.name,
        config=json.loads((folder / ENCODER_FOLDER / CONFIG_FILE).read_text(encoding="utf-8")),
        license=UNKNOWN,
        provenance=read_provenance(Artifact(place=place, manifest=folders[ENCODER_FOLDER])),
        result=SuiteResult(suite=release.name, model=ENCODER_FOLDER, seeds=seeds, rows=rows, average=None),
        comparison=None,
        task_settings=task_settings,
    )
    return render_model_card(facts)
