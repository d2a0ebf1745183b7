"""A small recipe over raw files made by the test, run in this process or on a pool, without Prefect.

world = new_world(tmp_path)
world.put("pages", "a", [page("1", prose(1))])
run = world.run()                  resolves the lock, runs, writes the lock
run.outcome, run.built("tokens"), run.manifests
run.record                         as a run under Prefect records it, for its report

`fill` puts one of every fate into a world of pages and notes; `letters_world` has notes and letters, whose texts
and titles a report shows.
"""

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

from corpora.build import Corpus
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest, Part
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_parts, publish_stage, read_manifest
from flows.engines.contract import RunEngine
from flows.recipes.lock import Lock, read_lock, resolve_raw_files, write_lock
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.faults.damage import DamageTracker, run_past_damage
from flows.run.pipeline import Outcome, run_recipe
from flows.run.plan_run import explain
from flows.run.record.run_record import RunRecord, StageRecord
from flows.run.record.run_status import list_artifact_names
from flows.run.stage_kinds import STAGES, get_stage_index

RECIPE = """
name = "small"
store = "store"

[[source]]
kind = "files"
name = "pages"
path = "raw/pages"
fields = { text = "body", key = "id", revision = "revision", title = "title", group = "author" }

[[source]]
kind = "files"
name = "notes"
path = "raw/notes"
fields = { text = "body", title = "title" }

[documents]
part_bytes = 4000
max_damaged_share = 0.1

# The prose made here has few words, so it says the same things again and again.
[rules]
repetition.enabled = false

[held_out]
share = 0.2

[vocabulary]
size = 400

[shards]
length = 64
copies = 2
"""

NOTES_AND_LETTERS = """
name = "small"
store = "store"
source = [
    { kind = "files", name = "notes", path = "raw/notes", fields = { text = "body", key = "id", title = "title" } },
    { kind = "files", name = "letters", path = "raw/letters" },
]

[rules]
repetition.enabled = false
gopher.min_words = 20
"""  # what the recipes of `letters_world` begin with

LETTERS = (
    NOTES_AND_LETTERS.replace('"title" }', '"title", url = "url", license = "license" }')
    + """
[documents]
max_damaged_share = 0.1

[held_out]
share = 0.2

[vocabulary]
size = 300

[shards]
length = 64
masking = { kind = "dynamic" }
"""
)


def stages_without(*kinds: str) -> tuple[str, ...]:
    """The stages of a recipe that has none of these kinds: it fits nothing, or trains no model.

    Raises ValueError for a kind that is not a stage.
    """
    for kind in kinds:
        get_stage_index(kind)
    missing = {*kinds, *(("tasks", "answers") if "models" in kinds else ())}
    return tuple(kind for kind, described in STAGES.items() if kind not in missing and not described.has_many)


KINDS = stages_without("fits", "models")
SHARED_KINDS = stages_without("fits", "documents", "signatures", "models")  # one artifact each, of all sources

SUBJECTS = ("the keeper", "a young sailor", "the old harbour master", "my neighbour", "the geologist", "our cook",
            "the clerk of the parish", "a travelling painter")  # fmt: skip
VERBS = ("carried", "measured", "painted", "described", "counted", "repaired", "remembered", "studied", "sold", "drew")
OBJECTS = ("a small wooden boat", "the northern lighthouse", "seven grey stones", "the winter tide", "an iron bell",
           "the broken clock", "a basket of apples", "the road to the coast")  # fmt: skip
PLACES = ("near the river", "behind the mill", "on the island", "under the bridge", "in the quiet valley",
          "before the storm", "after the long market day", "with the help of friends")  # fmt: skip


def prose(seed: int, sentences: int = 8) -> str:
    """Plain English that the language step and the quality rules keep; two seeds are no near-duplicates."""
    draw = random.Random(seed)
    pieces = []
    for _ in range(sentences):
        who, what, where = draw.choice(SUBJECTS), draw.choice(OBJECTS), draw.choice(PLACES)
        second, other = draw.choice(VERBS), draw.choice(OBJECTS)
        line = f"{who} {draw.choice(VERBS)} {what} {where} and then {second} {other} for {draw.randrange(2, 999)} days."
        pieces.append(line[0].upper() + line[1:])
    return " ".join(pieces)


def page(id: str, body: str, revision: int | None = 1, author: str | None = None) -> dict[str, Any]:
    """A record with a key."""
    return {"id": id, "revision": revision, "title": f"Page {id}", "author": author, "body": body}


def note(number: int, body: str) -> dict[str, Any]:
    """A record without a key: its id is made of its bytes."""
    return {"title": f"Note {number}", "body": body}


def keyed_note(number: int, body: str, **more: Any) -> dict[str, Any]:
    """A note with a key and all that a report tells of a record."""
    fields = {"id": f"n{number}", "url": f"https://example.org/{number}", "license": "CC0"}
    return {**note(number, body), **fields, **more}


def nearly(text: str) -> str:
    """A near-duplicate of a long text: one word more at its end."""
    return f"{text} Indeed."


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """A run's result for one stage."""

    stage: Stage
    manifest: Manifest
    built: tuple[str, ...]
    reason: str

    @property
    def reused(self) -> bool:
        """True if the store held it whole."""
        return self.reason == "nothing it depends on has changed"

    def record(self, seconds: float) -> StageRecord:
        """The stage on record, as if this run had built all of it."""
        return StageRecord(
            kind=self.stage.kind,
            name=self.stage.name,
            folder=self.manifest.folder,
            state="built",
            reason=self.reason,
            seconds=seconds,
            parts=len(self.manifest.parts),
            parts_built=len(self.manifest.parts),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that ended well: its outcome, and every stage in order."""

    place: Place
    recipe: Recipe
    outcome: Outcome
    stages: tuple[StageRun, ...]
    lock: Lock

    @property
    def manifests(self) -> list[Manifest]:
        """Every manifest in the order of the run."""
        return [stage.manifest for stage in self.stages]

    @property
    def corpus(self) -> Corpus:
        """The newest corpus."""
        return Corpus(self.place, self.outcome.corpus)

    def of(self, kind: str) -> list[StageRun]:
        """The stages of one kind."""
        return [stage for stage in self.stages if stage.stage.kind == kind]

    def every(self, kind: str) -> list[Manifest]:
        """The manifests of one kind, those of settled generations first."""
        folders = [*self.outcome.settled, *(stage.manifest.folder for stage in self.stages)]
        found = [
            read_manifest(self.place, folder) for folder in dict.fromkeys(folders) if folder.startswith(f"{kind}/")
        ]
        return [manifest for manifest in found if manifest is not None]

    def manifest(self, kind: str) -> Manifest:
        """The last manifest of a kind."""
        return self.of(kind)[-1].manifest

    def documents(self) -> dict[str, Manifest]:
        """The documents of each source."""
        return {stage.stage.name: stage.manifest for stage in self.of("documents")}

    @property
    def record(self) -> RunRecord:
        """The run on record, as of one worker that built everything; the times are made up."""
        return RunRecord(
            run_id=f"20260101T000000000000-{self.recipe.name}",
            recipe=self.recipe.name,
            recipe_path=str(self.recipe.path),
            recipe_toml=self.recipe.text,
            started="2026-01-01T00:00:00+00:00",
            seconds=4.2,
            workers=1,
            state="completed",
            stages=tuple(stage.record(0.1 * number) for number, stage in enumerate(self.stages, 1)),
            versions={"python": "3.11"},
            overrides=self.recipe.overrides,
            names=list_artifact_names(self.recipe),
            settled=self.outcome.settled,
        )

    def built(self, kind: str) -> list[str]:
        """The parts of one kind that this run built, as source-or-recipe/part."""
        return [f"{stage.stage.name}/{part}" for stage in self.of(kind) for part in stage.built]

    def bytes(self) -> dict[str, bytes]:
        """Every manifest's bytes by its folder."""
        return {manifest.folder: manifest.to_bytes() for manifest in self.manifests}

    def contents(self) -> list[tuple[str, str, str]]:
        """The content of every table of every stage, in the order of the run."""
        return [(m.stage_folder, table, str(content)) for m in self.manifests for table, content in m.tables.items()]


Build = Callable[[Place, Stage, Sequence[PartPlan]], Sequence[Part] | None]


def build_here(place: Place, stage: Stage, plans: Sequence[PartPlan]) -> Sequence[Part]:
    """One part after another, in this process."""
    return build_parts(place, stage, plans)


def build_on(pool: RunEngine, range_size: int = 1) -> Build:
    """Ranges of parts on the workers of an engine, handed out by threads, as the tasks of a real run do it."""

    def build(place: Place, stage: Stage, plans: Sequence[PartPlan]) -> None:
        bare = replace(stage, parts=())
        with ThreadPoolExecutor(pool.num_workers + 1) as threads:
            groups = [plans[first : first + range_size] for first in range(0, len(plans), range_size)]
            list(threads.map(lambda group: pool.run(build_parts, place, bare, list(group)), groups))

    return build


def run_lock(
    place: Place, recipe: Recipe, lock: Lock, build: Build = build_here, tell: Callable[[str], None] = lambda line: None
) -> Run:
    """Run a recipe whose lock is resolved. What is damaged is built again here; `tell` hears of it."""
    done: dict[str, StageRun] = {}
    mending = DamageTracker(place=place, tell=tell)
    mending.mark_listed(list_artifact_names(recipe))

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        for stage in stages:
            mending.rewrite_records(stage)
        surveys = [mending.survey(stage) for stage in stages]
        faults = [mending.list_faults(stage, survey) for stage, survey in zip(stages, surveys, strict=True)]
        reasons = [explain(*looked) for looked in zip(stages, surveys, faults, strict=True)]
        for stage, survey, reason in zip(stages, surveys, reasons, strict=True):
            mending.refuse_changed_inputs(stage, survey)
            if mending.damaged:
                built: Sequence[Part] = build_parts(place, stage, survey.missing, mending.damaged)
            else:
                built = build(place, stage, survey.missing) or []
            manifest = publish_stage(place, stage, survey, built)
            mending.mark_rebuilt(survey, manifest)
            names = tuple(plan.name for plan in survey.missing)
            run = StageRun(stage=stage, manifest=manifest, built=names, reason=reason)
            before = done.pop(stage.folder, run)
            done[stage.folder] = run if survey.manifest is None else before  # in the order of the last attempt
        return [done[stage.folder].manifest for stage in stages]

    def attempt() -> Outcome:
        return run_recipe(place, recipe, lock, perform, tell, settle=not mending.damaged)

    outcome = run_past_damage(attempt, mending)
    return Run(place=place, recipe=recipe, outcome=outcome, stages=tuple(done.values()), lock=lock)


@dataclass(frozen=True, kw_only=True)
class World:
    """A folder with a recipe, its raw files, its lock and its store."""

    folder: Path
    text: str = RECIPE

    @property
    def recipe_path(self) -> Path:
        """The recipe's file."""
        return self.folder / "small.toml"

    @property
    def place(self) -> Place:
        """The store."""
        return Place(self.recipe().store)

    def manifests(self) -> dict[str, bytes]:
        """Every manifest of the store, byte for byte."""
        return {path: self.place.read(path) for path in self.place.list_files("") if path.endswith("/manifest.json")}

    def contents(self) -> list[str]:
        """The contents of all that the store holds."""
        return sorted(Manifest.from_bytes(data, path).content for path, data in self.manifests().items())

    def put(self, source: str, name: str, records: Sequence[Mapping[str, Any]]) -> Path:
        """Write one raw file."""
        path = self.folder / "raw" / source / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        path.write_text(lines, encoding="utf-8")
        return path

    def put_text(self, source: str, name: str, text: str) -> Path:
        """Write one raw file that is a document."""
        path = self.folder / "raw" / source / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def recipe(self, **overrides: str) -> Recipe:
        """The recipe, with `__` for the dots of an override's key."""
        named = {key.replace("__", "."): value for key, value in overrides.items()}
        return parse_recipe(self.text, self.recipe_path, named)

    def resolved(self, **overrides: str) -> tuple[Recipe, Lock]:
        """The recipe, and its lock with what is new among the raw files."""
        recipe = self.recipe(**overrides)
        return recipe, resolve_raw_files(recipe, read_lock(recipe.lock_path), StatCache()).lock

    def run(
        self,
        build: Build = build_here,
        place: Place | None = None,
        tell: Callable[[str], None] = lambda line: None,
        **overrides: str,
    ) -> Run:
        """Resolve, write the lock, run. `tell` hears of damage."""
        recipe, lock = self.resolved(**overrides)
        assert recipe.lock_path is not None
        write_lock(recipe.lock_path, lock)
        return run_lock(place or Place(recipe.store), recipe, lock, build, tell)


def new_world(folder: Path, text: str = RECIPE) -> World:
    """A world in an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    world = World(folder=folder, text=text)
    world.recipe_path.write_text(text, encoding="utf-8")
    return world


PAGE_FILES, PAGES_A_FILE, NOTES = 4, 9, 12


def first_pages(file: int) -> list[dict[str, Any]]:
    """The pages of one raw file of the first generation: distinct, of three authors and of none."""
    numbers = range(file * PAGES_A_FILE, (file + 1) * PAGES_A_FILE)
    return [page(str(n), prose(n), author=f"author {n % 3}" if n % 2 else None) for n in numbers]


def fill(world: World) -> World:
    """The raw files of the first generation.

    Four files of pages and one of notes, with one of every fate: too short, damaged, an exact copy, near copies
    across sources, the same bytes twice, and a page in two revisions.
    """
    for file in range(PAGE_FILES):
        world.put("pages", f"pages-{file}", first_pages(file))
    last = first_pages(PAGE_FILES - 1)
    more = [page("100", prose(100, 40), revision=4), page("100", prose(101), revision=3), page("101", prose(5))]
    world.put("pages", f"pages-{PAGE_FILES - 1}", [*last, *more, page("102", "Too short to stay.")])
    own = [note(n, prose(1000 + n)) for n in range(NOTES)]
    odd = [note(50, nearly(prose(100, 40))), note(51, prose(2000)), note(51, prose(2000)), {"title": "no body"}]
    path = world.put("notes", "notes-0", [*own, *odd])
    assert path.stat().st_size > 4000  # so that the notes are a part of their own
    return world


def notes_and_letters() -> tuple[list[dict[str, Any]], list[str]]:
    """Notes (JSON lines) and letters (text files), with one of every fate: kept, too short, exact and near copy."""
    notes = [keyed_note(number, prose(number, 6 + number % 9)) for number in range(30)]
    notes.append(keyed_note(100, "Too short to stay."))
    notes.append(keyed_note(101, notes[3]["body"], title="An exact copy"))
    twice_told = prose(500, 60)
    notes.append(keyed_note(102, twice_told, title="The first telling"))
    letters = [prose(1000 + number, 12) for number in range(6)]
    letters.append(twice_told + " One more sentence that the other telling does not have, on the last page.")
    return notes, letters


def letters_world(folder: Path, raw: tuple[Sequence[Mapping[str, Any]], Sequence[str]], text: str = LETTERS) -> World:
    """A world of notes and letters."""
    world = new_world(folder, text)
    notes, letters = raw
    world.put("notes", "notes", notes)
    for number, letter in enumerate(letters):
        world.put_text("letters", f"letter-{number}", letter)
    return world


def live_rows(run: Run) -> dict[tuple[bytes, int], str]:
    """(id, revision) -> text of every live row; each pair once."""
    rows = [((document.id, document.revision or 0), document.text) for document in run.corpus.iter_documents()]
    assert len(dict(rows)) == len(rows), "a row is live twice"
    return dict(rows)


def live_texts(run: Run) -> dict[bytes, str]:
    """id -> text of every live document; each id once."""
    rows = [(document.id, document.text) for document in run.corpus.iter_documents()]
    assert len(dict(rows)) == len(rows), "an id is live twice"
    return dict(rows)


def text_of(html: str) -> str:
    """Return what is on a page, in one line."""
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", html[html.index("<body>") :]).split())).replace(" ,", ",")
