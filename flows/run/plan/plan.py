"""`cloze plan`: what a run would reuse, build and why, without building anything.

The run's own page (`pipeline.run_recipe`) is followed with a performer that only looks. It continues as long as
there are manifests; what depends on a missing stage cannot be looked at yet, and is listed as following. So
is what is planned from rows that are lost. Damage on the way is treated as a run would repair it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from corpora.errors import UnreadableFile
from corpora.store.damage import Damaged
from corpora.store.manifest import Json, Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, read_manifest
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.faults.rebuild_damaged import DamageTracker
from flows.run.faults.skipped_files import leave_out
from flows.run.pipeline import run_recipe, stages_after
from flows.run.plan.reasons import explain

PLANNED_FROM_ROWS = ("verdicts", "corpora", "vocabularies")  # the pipeline reads them to plan the next stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Holds what would happen to one stage. `state`: reuse, mend, go on, build, or follows. manifest: if it exists"""

    stage: str
    state: str
    parts: int
    missing: int
    reason: str
    manifest: Manifest | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, Json]:
        """Return a form for scripts."""
        return {name: getattr(self, name) for name in ("stage", "state", "parts", "missing", "reason")}


class _Unbuilt(Exception):
    """The plan cannot look further: a stage is missing."""


def plan_run(
    place: Place, recipe: Recipe, lock: Lock, tell: Callable[[str], None] = lambda line: None
) -> list[Planned]:
    """Plan a run of this recipe, stage by stage. Reads manifests, records, verdicts and vocabularies.

    tell: is called with a line about raw files that a run would leave out; the lock on disk is not changed
    """
    recipe = replace(recipe, path=None)
    damage = DamageTracker(tell=lambda line: None)
    while True:
        planned: list[Planned] = []
        try:
            run_recipe(place, recipe, lock, partial(_look, place, damage, planned))
        except _Unbuilt:
            return planned + _following(recipe, planned)
        except UnreadableFile as fault:
            lock = leave_out(recipe, lock, [fault], tell)
            continue
        except Damaged as fault:
            if fault.path in damage.distrusted:  # rows that the next stage is planned from
                return planned + _following(recipe, planned)
            damage.distrust(fault)
            continue
        return planned


def _look(place: Place, damage: DamageTracker, planned: list[Planned], stages: Sequence[Stage]) -> list[Manifest]:
    """Perform stages by looking at them. Raises _Unbuilt if one has no manifest."""
    manifests = []
    for stage in stages:
        entry, manifest = _look_at(place, stage, damage)
        planned.append(entry)
        manifests += [manifest] if manifest is not None else []
    if len(manifests) < len(stages):
        raise _Unbuilt
    return manifests


def _following(recipe: Recipe, planned: Sequence[Planned]) -> list[Planned]:
    return [
        Planned(stage=stage, state="follows", parts=0, missing=0, reason="depends on the above")
        for stage in following(recipe, planned[-1].stage.split("/")[0])
    ]


def following(recipe: Recipe, kind: str) -> list[str]:
    """The stages that come after those of a kind, by their names."""
    vocabularies = [recipe.artifact_name(entry.name) for entry in recipe.vocabularies]
    sources = [entry.source.name for entry in recipe.sources]
    named = {
        "documents": sources,
        "signatures": sources,
        "counts": vocabularies,
        "vocabularies": vocabularies,
        "measures": vocabularies,
        "tokens": vocabularies,
        "shards": [recipe.artifact_name(entry.name) for entry in recipe.shards],
        "models": [recipe.name] if recipe.model is not None else [],
    }
    return [f"{later}/{name}" for later in stages_after(kind) for name in named.get(later, [recipe.name])]


def _look_at(place: Place, stage: Stage, damage: DamageTracker) -> tuple[Planned, Manifest | None]:
    survey = damage.survey(place, stage)
    faults = damage.faults_of(stage, survey)
    manifest = survey.manifest
    if survey.damaged and stage.kind not in PLANNED_FROM_ROWS:
        manifest = read_manifest(place, stage.folder)
    mend = survey.damaged or faults
    state = "reuse" if survey.manifest else "mend" if mend else "go on" if survey.done else "build"
    entry = Planned(
        stage=stage.stage_folder,
        state=state,
        parts=len(survey.done) + len(survey.missing),
        missing=len(survey.missing),
        reason=explain(stage, survey, faults),
        manifest=survey.manifest,
    )
    return entry, manifest
