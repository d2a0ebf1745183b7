"""A release as one folder: encoder, tokenizer, a fine-tuned model for each task, and what these answered.

    FOLDER/   encoder/        the pre-trained model, as transformers opens it, with its tokenizer
              tokenizer/      the files of the vocabulary
              heads/TASK/     the fine-tuned model of a task, which `cloze predict` and transformers open; of a suite
                              a folder for each of its tasks
              answers/TASK/   its answers to documents that were new, as Parquet
              README.md       the card of the model, with its scores
              release.json    the entry of the release's history

Promise: every byte is compared with its manifest as it is copied; the folder appears when all of it is there.
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
from flows.export.cards.model_card import CARD, CONFIG, UNKNOWN, CardFacts, model_card
from flows.export.exported import new_folder, provenance_of
from flows.run.addresses import Artifact
from flows.run.record.releases import Release, manifests_of, release_at
from flows.run.record.task_scores import result_in
from flows.run.stage_kinds import STAGES
from trainer.start_weights import copy_model, list_model_files
from trainer.tasks.build import RECORD
from trainer.tasks.suites.table import SuiteResult

ENCODER, HEADS, ENTRY = STAGES["models"].folder, STAGES["tasks"].folder, "release.json"


def export_release(address: str, target: Path) -> dict[str, Json]:
    """Write a release to a new folder; return which artifact each folder in it is. Raises InputError, or Damaged."""
    named = release_at(address)
    if named is None:
        raise InputError(f"{address} is no release: give STORE@NAME, or STORE@NAME:2 for the second of its history.")
    place, release = named
    manifests = manifests_of(place, release)
    with new_folder(target) as folder:
        folders = {inside: manifest for manifest in manifests if (inside := _folder_of(manifest, release.recipe))}
        for inside, manifest in folders.items():
            (folder / inside).parent.mkdir(exist_ok=True)
            copy_model(place, manifest, _files(manifest), folder / inside)
        (folder / ENTRY).write_text(json.dumps(asdict(release), indent=1, ensure_ascii=False), encoding="utf-8")
        if ENCODER in folders:
            card = _card(place, release, folder, folders)
            (folder / CARD).write_text(card, encoding="utf-8")
        mark_complete(folder)
    return {inside: manifest.folder for inside, manifest in folders.items()}


def _folder_of(manifest: Manifest, recipe: str) -> str:
    """Return where an artifact is put; "" for one of another kind, which `cloze export` writes by itself."""
    folder, name = STAGES[manifest.kind].folder, manifest.name.removeprefix(f"{recipe}-")
    if folder.endswith("/"):
        return folder + name
    return f"{folder}/{name}" if folder and manifest.name != recipe else folder


def _files(manifest: Manifest) -> dict[str, StoredFile]:
    """Return the files of an artifact that others open, by their paths in its folder."""
    if manifest.kind == "models":
        return list_model_files(manifest)
    table = "answers" if STAGES[manifest.kind].has_answers else "files"
    files = (file for part in manifest.parts for file in part.files if file.table == table)
    return {file.path.partition("/")[2]: file for file in files}


def _card(place: Place, release: Release, folder: Path, folders: dict[str, Manifest]) -> str:
    """Return the card of the encoder, with the scores of its tasks."""
    learnt = {inside: manifest for inside, manifest in folders.items() if manifest.kind == "tasks"}
    results = [result_in(place, manifest, inside.partition("/")[2]) for inside, manifest in learnt.items()]
    rows = tuple(row for result in results for row in result.rows)
    tuned: dict[str, Any] = {}
    for inside in learnt:
        for record in sorted((folder / inside).rglob(RECORD)):
            task = record.parent.relative_to(folder / HEADS).as_posix()
            tuned[task] = json.loads(record.read_text(encoding="utf-8"))["settings"]
    seeds = tuple(sorted({seed for result in results for seed in result.seeds}))
    facts = CardFacts(
        name=release.name,
        config=json.loads((folder / ENCODER / CONFIG).read_text(encoding="utf-8")),
        license=UNKNOWN,
        made=provenance_of(Artifact(place=place, manifest=folders[ENCODER])),
        result=SuiteResult(suite=release.name, model=ENCODER, seeds=seeds, rows=rows, average=None),
        comparison=None,
        tuned=tuned,
    )
    return model_card(facts)
