"""Finds what is needed in a store, and by whom.

    run under way, or lost     everything that is called like something it may use, whatever its kind
    the last N completed runs of a recipe, and what ran since      the artifacts that they used
    releases                   the artifacts that any entry of their histories names
    readers                    the artifacts that they hold (`corpora.store.leases.reader_lease`)
    all of these               what they were made from

Finished parts that no artifact has are needed until the recipe's newest run has completed. Artifacts whose names no
recorded run has are not ours to judge, and stay.

Cost: the records of all runs are read.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from corpora.store.leases.reader_lease import is_held
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from flows.run.record.listed_runs import ListedRun, names_in_use, run_states
from flows.run.record.releases import released_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How much a clean-up leaves.

    keep: completed runs of each recipe, newest first, whose artifacts stay
    days: what was among those within so many days stays as well; for readers that cannot hold what they read
    """

    keep: int = 3
    days: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Everything that is needed.

    folders:  of artifacts
    claimed:  names under which everything is
    unended:  names under which parts that no artifact has are
    recorded_names: all names in the recorded runs
    everything: a run is under way whose needs are unknown
    """

    folders: frozenset[str]
    claimed: frozenset[str]
    unended: frozenset[str]
    recorded_names: frozenset[str]
    everything: bool = False

    def may_go(self, folder: str) -> bool:
        """Return whether what is in the folder of an artifact, KIND/NAME/FINGERPRINT, may be removed at all."""
        name = folder.split("/")[1]
        return not self.everything and name in self.recorded_names and name not in self.claimed


def find_needed(place: Place, manifests: Mapping[str, Manifest], policy: Policy, now: datetime | None = None) -> Needed:
    """Find what is needed in a store. manifests: all that it has, by their folders. Raises DamagedRelease."""
    by_recipe: dict[str, list[ListedRun]] = {}
    for state in run_states(place):
        by_recipe.setdefault(state.recipe, []).append(state)
    roots = set(released_folders(place)) | {folder for folder in manifests if is_held(place, folder)}
    claimed, unended, recorded_names, unclear = set[str](), set[str](), set[str](), False
    for states in by_recipe.values():
        kept = kept_runs(states, policy, now or datetime.now(UTC))
        roots |= {stage.folder for state in kept if state.record is not None for stage in state.record.stages}
        for number, state in enumerate(states):
            names = _names(place, state)
            open_run = state.state == "running" or (state.state == "lost" and number == 0)
            unclear |= open_run and names is None
            recorded_names |= set(names or ())
            claimed |= set(names or ()) if open_run else set()
            unended |= set(names or ()) if number == 0 and state.state != "completed" else set()
    return Needed(
        folders=frozenset(with_parents(roots & manifests.keys(), manifests)),
        claimed=frozenset(claimed),
        unended=frozenset(unended),
        recorded_names=frozenset(recorded_names),
        everything=unclear,
    )


def kept_runs(states: Sequence[ListedRun], policy: Policy, now: datetime) -> list[ListedRun]:
    """Return those of a recipe's runs, given newest first, whose artifacts stay.

    A run drops out of the last N when N completed ones follow it, and stays for the given days after that.
    """
    completed = [state for state in states if state.state == "completed"]
    since = now - timedelta(days=policy.days)
    stay = [state for n, state in enumerate(completed) if n < policy.keep or _began(completed[n - policy.keep]) > since]
    last = stay[-1].run_id if stay and len(stay) >= policy.keep else ""
    return [state for state in states if state.run_id >= last]


def _began(state: ListedRun) -> datetime:
    try:
        return datetime.fromisoformat(state.started)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)


def _names(place: Place, state: ListedRun) -> Collection[str] | None:
    """Return the names that artifacts of a run may have; None where they are unknown."""
    if state.record is None or state.record.names:
        return names_in_use(place, state)
    return {state.recipe, *(stage.name for stage in state.record.stages)}


def with_parents(folders: Collection[str], manifests: Mapping[str, Manifest]) -> set[str]:
    """Return artifacts and everything that they were made from, as far as the store has it."""
    folders_needed, left = set[str](), list(folders)
    while left:
        folder = left.pop()
        if folder in folders_needed or folder not in manifests:
            continue
        folders_needed.add(folder)
        left += [f"{parent.role}/{parent.name}/{parent.fingerprint}" for parent in manifests[folder].parents]
    return folders_needed
