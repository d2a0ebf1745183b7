"""Finds what nobody needs in a store, from one look at it. Removes nothing.

Artifacts that nobody needs; files of parts that no remaining artifact has; working folders of trained models; records
of runs beyond the newest. Files that are being written right now, and everything outside the places that runs write to,
are not garbage. Needed are:

    run under way, or lost     everything that is called like something it may use, whatever its kind
    the last N completed runs of a recipe, and what ran since      the artifacts that they used
    releases                   the artifacts that any entry of their histories names
    readers                    the artifacts that they hold (`corpora.store.leases`)
    all of these               what they were made from

Finished parts that no artifact has are needed until the recipe's newest run has completed. Artifacts whose names no
recorded run has are not ours to judge, and stay.

Cost: as `read_holdings`, and the records of all runs.

Removes what nobody needs, in an order in which no existing file ever points to a missing one.

    manifests, those first that are made from others ─► records of parts ─► files ─► records of runs

While manifests go, every file that any of them names exists; then only files go that no remaining manifest
names, and the record of a part before its files, so that what has a record is whole. Killed at any point, the store is
whole, and the next clean-up continues: what was about to be removed is in the file that the first one announced itself
with (`flows/run/faults/locks.py`), which stays until it has ended.

A run that begins meanwhile waits; nothing that a running one may use is removed. A reader that takes hold
of an artifact before its manifest is gone keeps it, and all that it names.

Cost: a call of the file system for each file; on an object store a request.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from corpora.errors import InputError
from corpora.store.leases import is_held, remove_unless_held
from corpora.store.manifest import Manifest, is_part_record
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST
from flows.integrity.inventory import read_holdings
from flows.maintenance.run_records import old_runs, remove
from flows.run.addresses import is_artifact_file
from flows.run.faults.locks import CleanUp, hold_cleanup, list_cleanups
from flows.run.record.releases import list_released_folders
from flows.run.record.run_record import get_removal_mark
from flows.run.record.run_status import ListedRun, find_names_in_use, list_runs
from flows.run.stage_kinds import get_stage_index


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A store as a clean-up sees it: its artifacts' finished files with their sizes, and what of that is needed."""

    place: Place
    sizes: Mapping[str, int]
    manifests: Mapping[str, Manifest]
    needed: Needed
    begun: frozenset[str]  # artifacts that a killed clean-up had begun to remove


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """Everything that nobody needs.

    artifacts: folders of artifacts, those first that are made from others
    files:     files that go then, records of parts first, with their sizes
    runs:      ids of runs whose records go
    unknown:   folders of artifacts that stay because no run on record knows their names
    size_bytes: of all that goes
    """

    artifacts: tuple[str, ...]
    files: Mapping[str, int]
    runs: tuple[str, ...]
    unknown: tuple[str, ...]
    size_bytes: int


def look(place: Place, policy: Policy, now: datetime | None = None) -> Look:
    """Look at a store. Raises InputError if damage hides what is needed."""
    damaged: list[str] = []
    states = list_runs(place, tell=damaged.append)
    holdings = read_holdings(place)
    if damaged or holdings.faults:
        raise InputError(
            f"{damaged[0] if damaged else holdings.faults[0]} So nobody knows what is still needed, and nothing is "
            "removed. After `cloze verify` the next `cloze run` with the recipe builds it again; if no recipe does, "
            "delete the file, and of the record of a run that may go its folder."
        )
    clean_ups = list_cleanups(place)
    newest = max((state.run_id for state in states), default="")
    begun = {
        str(folder)
        for present in clean_ups.values()
        if present.is_gone and newest < f"{present.time:%Y%m%dT%H%M%S}"
        for folder in present.report.get("folders", ())
    }
    return Look(
        place=place,
        sizes={path: size for path, size in place.list_files("").items() if is_artifact_file(path)},
        manifests=holdings.manifests,
        needed=find_needed(place, holdings.manifests, policy, now),
        begun=frozenset(begun),
    )


def garbage(seen: Look, keep_runs: int, artifacts: Sequence[str]) -> Garbage:
    """Return everything that goes with some artifacts that nobody needs, given a look at the store."""
    left = {folder: manifest for folder, manifest in seen.manifests.items() if folder not in artifacts}
    files = leftovers(seen, left, artifacts)
    runs = old_runs(seen.place, keep_runs)
    gone = sum(seen.sizes[f"{folder}/{MANIFEST}"] for folder in artifacts) + sum(files.values())
    recorded_names = seen.needed.recorded_names
    return Garbage(
        artifacts=tuple(artifacts),
        files=files,
        runs=tuple(runs),
        unknown=tuple(folder for folder in seen.manifests if folder.split("/")[1] not in recorded_names),
        size_bytes=gone + sum(size for sizes in runs.values() for size in sizes.values()),
    )


def unneeded(seen: Look) -> list[str]:
    """Return the folders of artifacts that nobody needs, those first that are made from others."""
    folders = [f for f in seen.manifests if f not in seen.needed.folders and seen.needed.may_go(f)]
    return sorted(folders, key=lambda folder: (-get_stage_index(folder.split("/")[0]), folder))


def leftovers(seen: Look, left: Mapping[str, Manifest], removed: Collection[str]) -> dict[str, int]:
    """Return files of no remaining artifact, records of parts first. removed: artifacts whose manifests are gone"""
    named = {f"{m.stage_folder}/{path}" for m in left.values() for part in m.parts for path in part.paths}
    gone = {*removed, *seen.begun} - left.keys()
    paths = [path for path in seen.sizes if path not in named and _is_garbage(path, seen.needed, left, gone)]
    return {path: seen.sizes[path] for path in sorted(paths, key=lambda path: (not is_part_record(path), path))}


def _is_garbage(path: str, needed: Needed, left: Mapping[str, Manifest], gone: Collection[str]) -> bool:
    """Return whether a file that no artifact has may go."""
    folder = "/".join(path.split("/")[:3])
    if not needed.may_go(folder) or path == f"{folder}/{MANIFEST}":
        return False
    return folder in left or folder in gone or folder.split("/")[1] not in needed.unended


def find_needed(place: Place, manifests: Mapping[str, Manifest], policy: Policy, now: datetime | None = None) -> Needed:
    """Find what is needed in a store. manifests: all that it has, by their folders. Raises DamagedRelease."""
    by_recipe: dict[str, list[ListedRun]] = {}
    for state in list_runs(place):
        by_recipe.setdefault(state.recipe, []).append(state)
    roots = set(list_released_folders(place)) | {folder for folder in manifests if is_held(place, folder)}
    claimed, unended, recorded_names, unclear = set[str](), set[str](), set[str](), False
    for states in by_recipe.values():
        kept = kept_runs(states, policy, now or datetime.now(UTC))
        roots |= {folder for state in kept if state.record is not None for folder in state.record.folders}
        for number, state in enumerate(states):
            names = find_names_in_use(place, state)
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


def with_parents(folders: Collection[str], manifests: Mapping[str, Manifest]) -> set[str]:
    """Return artifacts and everything that they were made from, as far as the store has it."""
    folders_needed, left = set[str](), list(folders)
    while left:
        folder = left.pop()
        if folder in folders_needed or folder not in manifests:
            continue
        folders_needed.add(folder)
        left += [parent.folder for parent in manifests[folder].parents]
    return folders_needed


Advance = Callable[[int], None]  # bytes freed so far


def clear_store(place: Place, policy: Policy, keep_runs: int, advance: Advance = lambda freed: None) -> Garbage:
    """Remove what nobody needs; returns what is gone. Raises InputError if another clean-up runs, or for damage."""
    with hold_cleanup(place) as turn:
        seen = look(place, policy)
        wanted = unneeded(seen)
        turn.begin([*wanted, *seen.begun])
        freed = _Freed(place, turn, advance)
        removed = [folder for folder in wanted if freed.artifact(folder, seen)]
        gone, runs = garbage(seen, keep_runs, removed), old_runs(place, keep_runs)
        for path, size in gone.files.items():
            freed.file(path, size)
        for run_id, files in runs.items():
            place.write(get_removal_mark(run_id), b"")
            for path, size in {**files, get_removal_mark(run_id): 0}.items():
                freed.file(path, size)
        for path, present in list_cleanups(place).items():
            if present.is_gone:
                remove(place, path)
        return gone


class _Freed:
    """The files removed so far."""

    def __init__(self, place: Place, turn: CleanUp, advance: Advance) -> None:
        self._place, self._turn, self._advance = place, turn, advance
        self._size_bytes = 0

    def artifact(self, folder: str, seen: Look) -> bool:
        """Remove the manifest of an artifact, unless a reader holds it."""
        self._turn.check_alive()
        if not remove_unless_held(self._place, folder):
            return False
        self._count(seen.sizes[f"{folder}/manifest.json"])
        return True

    def file(self, path: str, size: int) -> None:
        """Remove a file."""
        self._turn.check_alive()
        remove(self._place, path)
        self._count(size)

    def _count(self, size: int) -> None:
        self._size_bytes += size
        self._advance(self._size_bytes)
