"""A small store, built here in this process from files made by the test: every stage from raw text to shards.

store = build_small_store(tmp_path, sources())
store.manifest("shards"), store.record, store.place
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpora.sources.source import StatCache
from corpora.store.ledger import Ledger
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import PartPlan, PartWriter, Stage, build_stage, survey_stage
from flows.lock import Lock, resolve
from flows.pipeline import Outcome, run_recipe
from flows.recipe import Recipe, parse_recipe
from flows.runs import RunRecord, StageRecord
from flows.why import explain

RECIPE = """
name = "small"
store = "store"

[[source]]
kind = "files"
name = "notes"
path = "notes"
fields = { text = "body", key = "id", title = "title", url = "url", license = "license" }

[[source]]
kind = "files"
name = "letters"
path = "letters"

[documents]
max_damaged_share = 0.1

[rules]
repetition.enabled = false
gopher.min_words = 20

[held_out]
share = 0.2

[vocabulary]
size = 300

[shards]
length = 64
masking = { kind = "MASKS" }
"""

Build = Callable[[PartWriter, PartPlan], Ledger]

SUBJECTS = ("the keeper", "a young sailor", "the old harbour master", "my neighbour", "the geologist", "our cook")
VERBS = ("carried", "measured", "painted", "described", "counted", "repaired", "remembered", "studied")
OBJECTS = ("a small wooden boat", "the northern lighthouse", "seven grey stones", "the winter tide", "an iron bell")
PLACES = ("near the river", "behind the mill", "on the island", "under the bridge", "in the quiet valley")


def prose(seed: int, sentences: int) -> str:
    """Plain English sentences that quality rules and the language step keep, different for every seed."""
    draw = random.Random(seed)
    lines = (
        f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {draw.choice(OBJECTS)} and "
        f"{draw.choice(VERBS)} {draw.choice(OBJECTS)} {draw.choice(PLACES)} with {draw.randrange(2, 999)} others."
        for _ in range(sentences)
    )
    return " ".join(line[0].upper() + line[1:] for line in lines)


def note(number: int, body: str, **more: Any) -> dict[str, Any]:
    """One record of the source `notes`."""
    fields = {"id": f"n{number}", "title": f"Note {number}", "url": f"https://example.org/{number}"}
    return {**fields, "license": "CC0", "body": body, **more}


def sources() -> tuple[list[dict[str, Any]], list[str]]:
    """Notes (JSON lines) and letters (text files), with one of every fate: kept, too short, exact and near copy."""
    notes = [note(number, prose(number, 6 + number % 9)) for number in range(30)]
    notes.append(note(100, "Too short to stay."))
    notes.append(note(101, notes[3]["body"], title="An exact copy"))
    nearly = prose(500, 60)
    notes.append(note(102, nearly, title="The first telling"))
    letters = [prose(1000 + number, 12) for number in range(6)]
    letters.append(nearly + " One more sentence that the other telling does not have, on the last page.")
    return notes, letters


@dataclass(frozen=True, kw_only=True)
class SmallStore:
    """A store in which a run has ended well."""

    place: Place
    recipe: Recipe
    record: RunRecord
    outcome: Outcome
    lock: Lock
    manifests: Sequence[Manifest]

    def manifest(self, kind: str) -> Manifest:
        """The last artifact of a kind."""
        return [manifest for manifest in self.manifests if manifest.kind == kind][-1]

    def documents(self) -> Mapping[str, Manifest]:
        """The documents artifacts by source."""
        return {manifest.name: manifest for manifest in self.manifests if manifest.kind == "documents"}


def write_sources(folder: Path, notes: Sequence[Mapping[str, Any]], letters: Sequence[str]) -> None:
    """The raw files."""
    for name in ("notes", "letters"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in notes)
    (folder / "notes" / "notes.jsonl").write_text(lines, encoding="utf-8")
    for number, text in enumerate(letters):
        (folder / "letters" / f"letter-{number}.txt").write_text(text, encoding="utf-8")


def build_small_store(
    folder: Path,
    raw: tuple[Sequence[Mapping[str, Any]], Sequence[str]],
    masks: str = "dynamic",
    lock: Lock | None = None,
    recipe_text: str = RECIPE,
    train: Build | None = None,
) -> SmallStore:
    """Write the raw files, run the recipe stage by stage without Prefect, and record the run.

    lock:  of an earlier run in the same folder; raw files that it does not know make a new generation
    train: builds the part of a model in the place of a training, where the recipe asks for one
    """
    write_sources(folder, *raw)
    recipe = parse_recipe(recipe_text.replace("MASKS", masks), folder / "small.toml", {})
    place = Place(recipe.store)
    records: list[StageRecord] = []
    manifests: list[Manifest] = []

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        built = []
        for planned in stages:
            stage = replace(planned, build=train) if train is not None and planned.kind == "models" else planned
            reason = explain(place, stage, survey_stage(place, stage))
            built.append(build_stage(place, stage))
            records.append(_stage_record(stage, built[-1], reason, 0.1 * (len(records) + 1)))
        manifests.extend(built)
        return built

    resolved = resolve(recipe, lock or Lock(), StatCache()).lock
    outcome = run_recipe(place, recipe, resolved, perform)
    record = RunRecord(
        run_id="20260101T000000000000-small",
        recipe=recipe.name,
        recipe_path=str(recipe.path),
        recipe_toml=recipe.text,
        started="2026-01-01T00:00:00+00:00",
        seconds=4.2,
        workers=1,
        state="completed",
        stages=tuple(records),
        versions={"python": "3.11"},
    )
    return SmallStore(place=place, recipe=recipe, record=record, outcome=outcome, lock=resolved, manifests=manifests)


def _stage_record(stage: Stage, manifest: Manifest, reason: str, seconds: float) -> StageRecord:
    return StageRecord(
        kind=stage.kind,
        name=stage.name,
        folder=manifest.folder,
        state="built",
        reason=reason,
        seconds=seconds,
        parts=len(manifest.parts),
        parts_built=len(manifest.parts),
    )
