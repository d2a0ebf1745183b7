"""`cloze plan`: what a run would reuse, build and why, without building anything.

The run's own page (`pipeline.run_recipe`) is followed with a function that only looks at stages. It continues as long
as there are manifests. What depends on a missing stage cannot be looked at yet and is listed as following, and so is
what is planned from rows that are lost. Damage is treated as a run would repair it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from pathlib import Path

from corpora.errors import FileFault
from corpora.generic_types import Json
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest, stage_folder
from corpora.store.places.place import Place
from corpora.store.stage import Stage, Survey, read_manifest
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.example_stages import find_word_rules, load_given_vocabularies
from flows.run.faults.damage import DamageTracker
from flows.run.faults.rule_limits import RefusedSources
from flows.run.faults.skipped_files import accept_damage, leave_out
from flows.run.inputs.raw_files import check_labelled_files, describe_inputs, resolve_inputs
from flows.run.inputs.start_model import with_start_model
from flows.run.inputs.unread_files import build_unread_json
from flows.run.pipeline import run_recipe
from flows.run.record.counts_text import format_count, name_parent
from flows.run.record.ledger_balance import list_warnings
from flows.run.record.run_status import follow_schedule, list_artifact_names
from flows.run.source_stages import list_readable
from flows.run.stage_kinds import STAGES

NEW, UNCHANGED = "new", "nothing it depends on has changed"  # the reasons of most stages


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """The plan for one pipeline stage: what a run would do with it.

    Attributes:
        stage: Kind and name of the stage, such as "shards/news".
        state: "reuse", "mend" (rebuild damaged parts), "go on" (resume an unfinished build), "build", or "follows"
            (cannot be planned yet, because it depends on a stage to build).
        parts, missing: Number of all parts (output file sets), and of parts that are not built yet.
        reason: Explanation of the state.
        manifest: Description of the stage's stored result; None if there is no result yet.
        notice: A warning about the stage; "" if there is none.
    """

    stage: str
    state: str
    parts: int
    missing: int
    reason: str
    manifest: Manifest | None = field(default=None, repr=False, compare=False)
    notice: str = field(default="", compare=False)

    def to_json(self) -> dict[str, Json]:
        """Convert the plan to a dict for JSON output, with the keys stage, state, parts, missing and reason."""
        return {name: getattr(self, name) for name in ("stage", "state", "parts", "missing", "reason")}


class _StageMissing(Exception):
    """Raised when planning cannot continue because later stages depend on a stage that does not exist yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The plan of a run: what it would do now.

    Attributes:
        notes: Lines about the raw files for the user.
        inputs: The files that were found, as JSON by source name (`build_unread_json`).
        stages: The stages in the order of the run.
        lock: Content of the lock file (the raw files of each run) that the run would start with.
    """

    notes: tuple[str, ...]
    inputs: Mapping[str, Json]
    stages: tuple[PlannedStage, ...]
    lock: Lock


def plan_recipe(recipe: Recipe, home: Path) -> RunPlan:
    """Find the raw files of a recipe, and plan what a run would do now.

    Builds nothing and writes nothing to the store.

    Args:
        recipe: The recipe.
        home: The CLOZE_HOME folder. It contains the cache of raw file digests.

    Raises:
        InputError: If raw files, labeled files or models are missing, or a run would stop with an InputError.
    """
    recipe = follow_schedule(recipe)
    labelled = [*check_labelled_files(Place(recipe.store), recipe)]
    resolved = resolve_inputs(recipe, home)
    notes = [*describe_inputs(recipe, resolved), *labelled]
    stages = plan_run(Place(recipe.store), recipe, resolved.lock, notes.append)
    inputs = build_unread_json(resolved.unread, recipe.privacy.samples)
    return RunPlan(notes=tuple(notes), inputs=inputs, stages=tuple(stages), lock=resolved.lock)


def plan_run(
    place: Place, recipe: Recipe, lock: Lock, tell: Callable[[str], None] = lambda line: None
) -> list[PlannedStage]:
    """Plan a run of a recipe, one pipeline stage after another.

    This reads descriptions of stored results, deduplication decisions and vocabularies, and writes nothing.

    Args:
        place: The store.
        recipe: The recipe.
        lock: The recipe's lock (the raw files of each run), with the files' current paths.
        tell: Called with a line about each raw file that a run would skip. The lock file is not changed.

    Raises:
        InputError: If a run would stop with an InputError, for example because filter rules drop too many documents.
    """
    recipe = replace(recipe, path=None)
    damage = DamageTracker(place=place, tell=lambda line: None)
    damage.mark_listed(list_artifact_names(recipe))
    while True:
        planned: list[PlannedStage] = []
        try:
            run_recipe(place, recipe, lock, partial(_inspect_stages, place, damage, planned), settle=not damage.damaged)
        except _StageMissing:
            return planned + _list_following(recipe, lock, planned)
        except FileFault as fault:
            lock = leave_out(recipe, lock, [fault], tell)
            continue
        except RefusedSources as refused:
            lock = accept_damage(recipe, lock, refused, tell)
            continue
        except Damaged as fault:
            if fault.path in damage.damaged:  # rows that the next stage is planned from
                return planned + _list_following(recipe, lock, planned)
            damage.mark_damaged(fault)
            continue
        return planned


def _inspect_stages(
    place: Place, damage: DamageTracker, planned: list[PlannedStage], stages: Sequence[Stage]
) -> list[Manifest]:
    """Append the plan for each stage to `planned`, and return the stages' manifests (stored descriptions) in order.

    Args:
        place: The store.
        damage: The damaged files. They count as missing.
        planned: List to append to.
        stages: The stages to inspect.

    Raises:
        _StageMissing: If a stage has no stored result.
    """
    manifests = []
    for stage in stages:
        entry, manifest = _inspect_stage(place, stage, damage)
        planned.append(entry)
        manifests += [manifest] if manifest is not None else []
    if len(manifests) < len(stages):
        raise _StageMissing
    return manifests


def _list_following(recipe: Recipe, lock: Lock, planned: Sequence[PlannedStage]) -> list[PlannedStage]:
    """List the stages that come after those in `planned`, with the state "follows", in the order of the run.

    Args:
        recipe: The recipe.
        lock: The recipe's lock (the raw files of each run).
        planned: The stages that are already planned.
    """
    recipe, _ = with_start_model(recipe, lock)
    parsed = {entry.stage for entry in planned if entry.stage.startswith("documents/")}
    sources = [
        entry for entry in recipe.sources if any(list_readable(lock, entry, files) for files in lock.generations)
    ]
    new = [entry for entry in sources if not parsed or f"documents/{entry.source.name}" in parsed]
    recipe, rules = replace(recipe, sources=tuple(new)), find_word_rules(recipe, load_given_vocabularies(recipe))
    first = takewhile(lambda entry: entry.stage not in parsed, planned)
    settled = [m for m in (entry.manifest for entry in first) if m is not None and m.kind == "corpora"]
    left = len(lock.generations) - sum(manifest.facts["generations"] for manifest in settled)
    looked = Counter(entry.stage for entry in planned)
    looked.subtract(manifest.stage_folder for manifest in settled)
    return [
        PlannedStage(stage=stage, state="follows", parts=0, missing=0, reason="depends on the above")
        for kind, described in STAGES.items()
        for stage in (stage_folder(kind, name) for name in described.list_artifact_names(recipe, rules))
        if looked[stage] < (left if described.is_per_generation else not described.has_many)
    ]


def _inspect_stage(place: Place, stage: Stage, damage: DamageTracker) -> tuple[PlannedStage, Manifest | None]:
    survey = damage.survey(stage)
    faults = damage.list_faults(stage, survey)
    manifest = survey.manifest
    if survey.damaged and not STAGES[stage.kind].is_planned_from:
        manifest = read_manifest(place, stage.folder)
    mend = survey.damaged or faults
    state = "reuse" if survey.manifest else "mend" if mend else "go on" if survey.done else "build"
    entry = PlannedStage(
        stage=stage.stage_folder,
        state=state,
        parts=len(survey.done) + len(survey.missing),
        missing=len(survey.missing),
        reason=explain(stage, survey, faults),
        manifest=survey.manifest,
        notice=" ".join(_iter_notices(stage, manifest)),
    )
    return entry, manifest


def _iter_notices(stage: Stage, manifest: Manifest | None) -> Iterator[str]:
    """Yield the warnings about a stage and, if it is a shard set, about its examples.

    Args:
        stage: The stage.
        manifest: Description of the stage's stored result; None if there is no result yet.
    """
    if stage.facts.get("notice"):
        yield f"{stage.stage_folder}: {stage.facts['notice']}"
    if stage.kind == "shards" and manifest is not None:
        yield from list_warnings(manifest)


def explain(stage: Stage, survey: Survey, faults: Sequence[Damaged] = ()) -> str:
    """Explain in one line why a pipeline stage is reused, resumed, repaired or built, such as "settings: seed 1 -> 2".

    Args:
        stage: The stage.
        survey: The results of the stage that the store contains.
        faults: The damaged files that make the stage's result incomplete.
    """
    if survey.manifest is not None:
        generations = survey.manifest.facts.get("generations", 1) if not stage.parts else 1
        settled = f": {generations} generations are settled" if generations > 1 else ""
        return f"{UNCHANGED}{settled}"
    named = ", ".join(f"{fault.path.removeprefix(f'{stage.folder}/')}: {fault.what}" for fault in faults[:3])
    if survey.damaged:
        parts = f"files are missing or damaged in parts {', '.join(survey.damaged[:3])}"
        return f"{parts} ({named})" if named else parts
    if faults:
        return f"damaged ({named}); resumes from {len(survey.done)} finished parts"
    reason = NEW
    if survey.other_manifests:
        differences = [find_differences(stage, other) for other in survey.other_manifests]
        fewest = min(differences, key=lambda each: sum(map(len, each.values())))
        reason = "; ".join(f"{what}: {', '.join(items)}" for what, items in fewest.items() if items)
    if survey.done and not survey.num_reused:
        return f"{reason}; resumes from {len(survey.done)} finished parts"
    if survey.num_reused:
        return f"{reason}; {format_count(survey.num_reused, 'part is kept', 'parts are kept')}"
    return reason


def find_differences(stage: Stage, other: Manifest) -> dict[str, list[str]]:
    """Find the differences between a stage and an artifact (stored result) of the same kind and name.

    Returns:
        Lists of descriptions under the keys "settings", "new version" (of Cloze's code or a library), "new data" (raw
        files) and "follows" (other changed artifacts that the stage is built from).
    """
    versions = [
        f"{name} {other.libraries.get(name, 'none')} -> {version}"
        for name, version in {**dict.fromkeys(other.libraries, "none"), **stage.libraries}.items()
        if other.libraries.get(name) != version
    ]
    if stage.build_version != other.build_version:
        versions.append(f"build {other.build_version} -> {stage.build_version}")
    changed = [parent for parent in stage.parents if parent not in other.parents]
    stages = [f"{parent.role}/{parent.name}" for parent in changed if parent.role != "raw"]
    return {
        "settings": list_changed_settings(other.settings, stage.settings),
        "new version": versions,
        "new data": [name_parent(parent) for parent in changed if parent.role == "raw"],
        "follows": list(dict.fromkeys(stages)),
    }


def list_changed_settings(before: Json, after: Json, path: str = "") -> list[str]:
    """List the values that differ between two nested settings, as "dotted.key before -> after".

    Args:
        before: The earlier settings, nested as in JSON.
        after: The later settings.
        path: Prefix for the keys, used in recursive calls.

    >>> list_changed_settings({"a": {"b": 1}}, {"a": {"b": 2}})
    ['a.b 1 -> 2']
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = sorted({*before, *after})
        return [
            change
            for key in keys
            for change in list_changed_settings(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
        ]
    return [] if before == after else [f"{path} {_shorten(before)} -> {_shorten(after)}"]


def _shorten(value: Json) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
