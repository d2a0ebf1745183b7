"""`cloze release`: puts a run's artifacts under a name, after they are verified and their figures are within bounds.

    the newest completed run ─► verified ─► within the bounds ────────────────────────────► a release
                                    └ not ─► a person approves, in the UI or by --approve ──┘
                                                  └ rejects, or nobody answers ─► no release

The figures are compared with those of the name's current release, and for a new name with those of the run before:
users of a name see the change from one release to the next. Nothing damaged can be released.

Cost: every byte that is released is read once.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from corpora.errors import InputError
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.integrity.inventory import find_artifact_faults
from flows.recipes.recipe import Recipe
from flows.recipes.run_settings import check_release_name
from flows.run.addresses import RUNS_FOLDER, find_run
from flows.run.record.figures import Figures, find_figures_before, get_figures, list_run_crossings
from flows.run.record.releases import (
    Release,
    ReleasedArtifact,
    add_release,
    get_user,
    list_release_names,
    list_run_artifacts,
    read_current_release,
)
from flows.run.record.run_record import (
    RunRecord,
    describe_clock_gap,
    format_now,
    is_ahead,
    iter_newest_runs,
    read_recorded_recipe,
    read_run,
)


class PersonsWord(NamedTuple):
    """A person's decision on a release. who: "" for the one who runs the command"""

    approved: bool
    reason: str = ""
    who: str = ""


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """A run to be released. against: what its figures were compared with, in words"""

    place: Place
    name: str
    recipe: Recipe
    record: RunRecord
    artifacts: tuple[ReleasedArtifact, ...]
    figures: Figures
    crossed: tuple[str, ...]
    against: str

    def release(self, reason: str, verdict: PersonsWord | None = None) -> Release:
        """Add it to the history of its name. verdict: of a person, if the bounds do not hold"""
        entry = Release(
            name=self.name,
            number=0,
            action="release",
            recipe=self.record.recipe,
            run=self.record.run_id,
            artifacts=self.artifacts,
            who=(verdict.who if verdict is not None else "") or get_user(),
            when=format_now(),
            reason=(verdict.reason if verdict is not None else "") or reason,
            approved="bounds" if verdict is None else "person",
            crossed=self.crossed,
            figures={name: figure.value for name, figure in self.figures.items()},
        )
        return add_release(self.place, entry)


def run_of_recipe(recipe: Recipe) -> RunRecord:
    """Return the newest completed run of a recipe in its store.

    Raises InputError if there is none, or a clock that was ahead leaves open which one it is.
    """
    place = Place(recipe.store)
    completed = (run for run in iter_newest_runs(place) if run.recipe == recipe.name and run.state == "completed")
    record = next(completed, None)
    if record is None:
        raise InputError(f"No run of {recipe.name!r} in {place.to_address('')} is complete: `cloze run` comes first.")
    if is_ahead(record):
        raise InputError(
            f"{describe_clock_gap(record)}: a clock was ahead, and a newer run may have a name that comes before. "
            f"Release one by its folder, STORE/{RUNS_FOLDER}/RUN (`cloze runs` lists them), or run the recipe again."
        )
    return record


def run_at(address: str, store: str = "store") -> tuple[Recipe, RunRecord]:
    """Return the run in a folder STORE/runs/RUN, or of an id in a store, and its recipe then. Raises InputError."""
    place, record = find_run(address, store)
    if record.state != "completed":
        raise InputError(f"The run {record.run_id} is {record.state}: only a run that is complete can be released.")
    return read_recorded_recipe(record, place.address), record


def promotion_of(recipe: Recipe, record: RunRecord, name: str, figures: Figures | None = None) -> Promotion:
    """Return what is to be released of a run, verified and compared with its recipe's bounds. Raises InputError.

    figures: of the run, if they are known
    """
    check_release_name("--name", name)
    place = Place(recipe.store)
    artifacts = list_run_artifacts(place, record)
    _verify(place, artifacts)
    figures = figures or get_figures(place, record)
    if figures is None:
        raise InputError(f"Artifacts of the run {record.run_id} are gone: run its recipe again.")
    before, against = _before(place, record, name)
    return Promotion(
        place=place,
        name=name,
        recipe=recipe,
        record=record,
        artifacts=artifacts,
        figures=figures,
        crossed=list_run_crossings(place, recipe.bounds, record, figures, before),
        against=against,
    )


def release_by_itself(promotion: Promotion, tell: Callable[[str], None]) -> None:
    """Release a run if its bounds hold and that is not released already. Raises InputError."""
    name = promotion.name
    for crossing in promotion.crossed:
        tell(f"Not released as {name}: a bound is crossed against {promotion.against}: {crossing}.")
    is_new = name not in list_release_names(promotion.place)
    if promotion.crossed or not (
        is_new or read_current_release(promotion.place, name).artifacts != promotion.artifacts
    ):
        return
    tell(f"Released as {name}, number {promotion.release('its bounds hold').number}.")


def _verify(place: Place, artifacts: tuple[ReleasedArtifact, ...]) -> None:
    """Raise InputError if a file that is to be released is not what was written."""
    for artifact in artifacts:
        manifest = read_manifest(place, artifact.folder)
        assert manifest is not None, "it was read a moment ago"
        if faults := find_artifact_faults(place, manifest):
            raise InputError(
                f"{place.to_address(artifact.folder)} is damaged, so it is not released ({faults[0]}). `cloze verify` "
                "on the store lists what is damaged, and the next `cloze run` builds it again."
            )


def _before(place: Place, record: RunRecord, name: str) -> tuple[tuple[RunRecord, Figures] | None, str]:
    """Return the run to compare a run with, its figures, and what it is."""
    if name in list_release_names(place):
        now = read_current_release(place, name)
        with suppress(FileNotFoundError):
            run = read_run(place, now.run)
            if (figures := get_figures(place, run)) is not None:
                return (run, figures), f"{name} number {now.number}"
    before = find_figures_before(place, record)
    return before, "nothing before it" if before is None else f"the run {before[0].run_id}"
