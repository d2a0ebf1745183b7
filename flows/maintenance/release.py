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


class ApprovalDecision(NamedTuple):
    """A person's decision on whether to add a release.

    Attributes:
        approved: True if the release may be added.
        reason: Reason to record with the release; may be "".
        who: Name of the person; "" for the user who runs this process.
    """

    approved: bool
    reason: str = ""
    who: str = ""


@dataclass(frozen=True, kw_only=True)
class ReleaseCandidate:
    """A run that can be released under a name.

    Its artifacts (stored stage results) have been verified, and its metrics have been compared with those of another
    run.

    Attributes:
        place: The store.
        name: Name of the release.
        recipe: Recipe of the run.
        record: Record of the run.
        artifacts: The artifacts to release.
        figures: The metrics of the run.
        crossed: One message for each of the recipe's limits that the metrics exceed.
        compared_with: Description of the run that the metrics were compared with.
    """

    place: Place
    name: str
    recipe: Recipe
    record: RunRecord
    artifacts: tuple[ReleasedArtifact, ...]
    figures: Figures
    crossed: tuple[str, ...]
    compared_with: str

    def release(self, reason: str, decision: ApprovalDecision | None = None) -> Release:
        """Add the candidate to the release history of its name, and return the new entry.

        Args:
            reason: Reason to record if the decision has none.
            decision: A person's approval if the candidate's metrics exceed limits set in the recipe; None if they
                exceed none.

        Raises:
            InputError: If a clean-up of the store has removed an artifact (stored stage result) of the candidate.
        """
        entry = Release(
            name=self.name,
            number=0,
            action="release",
            recipe=self.record.recipe,
            run=self.record.run_id,
            artifacts=self.artifacts,
            who=(decision.who if decision is not None else "") or get_user(),
            when=format_now(),
            reason=(decision.reason if decision is not None else "") or reason,
            approved="bounds" if decision is None else "person",
            crossed=self.crossed,
            figures={name: figure.value for name, figure in self.figures.items()},
        )
        return add_release(self.place, entry)


def find_newest_run(recipe: Recipe) -> RunRecord:
    """Find the newest completed run of a recipe in the recipe's store.

    Raises:
        InputError: If there is no such run, or if its start time is in the future. In that case, a newer run may exist.
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


def find_run_at(address: str, store: str = "store") -> tuple[Recipe, RunRecord]:
    """Find a completed run, and return the recipe that it used and its record.

    Args:
        address: A folder STORE/runs/RUN, or the id of a run.
        store: The store that contains the run if `address` is an id.

    Raises:
        InputError: If there is no such run, or if it has not completed.
    """
    place, record = find_run(address, store)
    if record.state != "completed":
        raise InputError(f"The run {record.run_id} is {record.state}: only a run that is complete can be released.")
    return read_recorded_recipe(record, place.address), record


def prepare_candidate(recipe: Recipe, record: RunRecord, name: str, figures: Figures | None = None) -> ReleaseCandidate:
    """Verify the artifacts (stored stage results) of a run, and compare its metrics with the limits set in its recipe.

    All bytes of the artifacts are read. Nothing is released.

    Args:
        recipe: The recipe, which contains the address of the store and the limits.
        record: Record of the run.
        name: Name of the release.
        figures: The metrics of the run; if None, they are read from the store.

    Returns:
        The run as a candidate for a release.

    Raises:
        InputError: If a file is damaged, an artifact no longer exists, or the name is not allowed.
    """
    check_release_name("--name", name)
    place = Place(recipe.store)
    artifacts = list_run_artifacts(place, record)
    _check_undamaged(place, artifacts)
    figures = figures or get_figures(place, record)
    if figures is None:
        raise InputError(f"Artifacts of the run {record.run_id} are gone: run its recipe again.")
    before, against = _find_comparison(place, record, name)
    return ReleaseCandidate(
        place=place,
        name=name,
        recipe=recipe,
        record=record,
        artifacts=artifacts,
        figures=figures,
        crossed=list_run_crossings(place, recipe.bounds, record, figures, before),
        compared_with=against,
    )


def release_if_within_bounds(candidate: ReleaseCandidate, tell: Callable[[str], None]) -> None:
    """Release a candidate unless its metrics exceed a limit that is set in the recipe.

    Nothing is released either if the current release of its name has the same artifacts (stored stage results).

    Args:
        candidate: The candidate.
        tell: Callback that prints a line. Called with a message for each limit that is exceeded, or with the number of
            the new release.

    Raises:
        InputError: If the release cannot be added.
    """
    name = candidate.name
    for crossing in candidate.crossed:
        tell(f"Not released as {name}: a bound is crossed against {candidate.compared_with}: {crossing}.")
    is_new = name not in list_release_names(candidate.place)
    if candidate.crossed or not (
        is_new or read_current_release(candidate.place, name).artifacts != candidate.artifacts
    ):
        return
    tell(f"Released as {name}, number {candidate.release('its bounds hold').number}.")


def _check_undamaged(place: Place, artifacts: tuple[ReleasedArtifact, ...]) -> None:
    """Read all files of some artifacts (stored stage results) to check that none is damaged or missing.

    Args:
        place: The store.
        artifacts: The artifacts. Their manifests must exist.

    Raises:
        InputError: If a file is damaged or missing.
    """
    for artifact in artifacts:
        manifest = read_manifest(place, artifact.folder)
        assert manifest is not None, "it was read a moment ago"
        if faults := find_artifact_faults(place, manifest):
            raise InputError(
                f"{place.to_address(artifact.folder)} is damaged, so it is not released ({faults[0]}). `cloze verify` "
                "on the store lists what is damaged, and the next `cloze run` builds it again."
            )


def _find_comparison(place: Place, record: RunRecord, name: str) -> tuple[tuple[RunRecord, Figures] | None, str]:
    """Find the run to compare a run with: the one currently released under the name, or else the previous run.

    Args:
        place: The store.
        record: Record of the run that is compared.
        name: Name of the release.

    Returns:
        The record and metrics of that run (None if there is none), and a description of it, such as "the run ID".
    """
    if name in list_release_names(place):
        now = read_current_release(place, name)
        with suppress(FileNotFoundError):
            run = read_run(place, now.run)
            if (figures := get_figures(place, run)) is not None:
                return (run, figures), f"{name} number {now.number}"
    before = find_figures_before(place, record)
    return before, "nothing before it" if before is None else f"the run {before[0].run_id}"
