"""Finds what nobody needs in a store, and removes it on request.

Garbage are artifacts that nobody needs; files of parts (file sets) that no remaining artifact has; working folders of
trained models; records of runs beyond the newest. Files that are being written, and everything outside the places that
runs write to, are not garbage. Needed are:

    run under way, or lost     everything with a name that it may use, of any kind
    the last N completed runs of a recipe, and what ran since      the artifacts that they used
    releases                   the artifacts that any entry of their histories names
    readers                    the artifacts that they hold (`corpora.store.leases`)
    all of these               what they were made from

Finished parts that no artifact has are needed until the recipe's newest run has completed. Artifacts with names that no
recorded run has used stay, because nothing is known about them.
Cost: as `read_inventory`, and the records of all runs.

Removal happens in an order in which no existing file ever points to a missing one.

    manifests, those first that are made from others ─► records of parts ─► files ─► records of runs

While manifests are removed, every file that any of them names exists. Then only files are removed that no remaining
manifest names, and the record of a part before its files, so that what has a record is complete. If it is killed at any
point, the store is consistent, and the next clean-up continues: the list of what is being removed is in the file with
which the first one announced itself (`flows/run/faults/locks.py`), and which stays until the removal is complete.

A run that begins during a clean-up waits; nothing that a running one may use is removed. A reader that takes hold of an
artifact before its manifest is gone keeps it, and everything that it names.
Cost: one call of the file system per file, or one request to an object store.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from corpora.errors import InputError
from corpora.store.leases import is_held, remove_unless_held
from corpora.store.manifest import Manifest, is_part_record
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST
from flows.integrity.inventory import read_inventory
from flows.maintenance.run_records import find_old_runs, remove_file
from flows.run.addresses import is_artifact_file
from flows.run.faults.locks import CleanUp, hold_cleanup, list_cleanups
from flows.run.record.releases import list_released_folders
from flows.run.record.run_record import get_removal_mark
from flows.run.record.run_status import ListedRun, find_names_in_use, list_runs
from flows.run.stage_kinds import get_stage_index


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Settings for what a clean-up keeps.

    Attributes:
        keep: Number of completed runs per recipe, counted from the newest, for which artifacts are kept.
        days: Number of days for which a run's artifacts are kept after the run is no longer one of the newest. Readers
            of object stores cannot hold leases, and need this time.
    """

    keep: int = 3
    days: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The content of a store that must not be removed.

    Attributes:
        folders: Folders of the artifacts (stored stage results) that are needed.
        claimed_names: Artifact names that unfinished runs may use. Everything with one of these names is needed.
        unfinished_names: Artifact names. Their finished parts (file sets) are needed even if no manifest (description
            of a result) lists them.
        recorded_names: All artifact names that a run has used or may use.
        keeps_all: True if the names used by an unfinished run are unknown, so that nothing may be removed.
    """

    folders: frozenset[str]
    claimed_names: frozenset[str]
    unfinished_names: frozenset[str]
    recorded_names: frozenset[str]
    keeps_all: bool = False

    def can_remove(self, folder: str) -> bool:
        """Return True if files may be removed from the folder of an artifact (stored stage result).

        Args:
            folder: Path of the folder, `KIND/NAME/FINGERPRINT`.
        """
        name = folder.split("/")[1]
        return not self.keeps_all and name in self.recorded_names and name not in self.claimed_names


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSnapshot:
    """The content of a store at the beginning of a clean-up.

    Attributes:
        place: The store.
        sizes: Maps the path of each finished artifact file to its size in bytes.
        manifests: Maps the folder of each artifact (stored stage result) to its manifest (description).
        needed: The content that must not be removed.
        in_removal: Folders of artifacts that an interrupted clean-up had started to remove.
    """

    place: Place
    sizes: Mapping[str, int]
    manifests: Mapping[str, Manifest]
    needed: Needs
    in_removal: frozenset[str]  # artifacts that a killed clean-up had begun to remove


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """The content of a store that nothing needs, to be removed by a clean-up.

    Attributes:
        artifacts: Folders of artifacts (stored stage results). Each artifact comes before the artifacts that it was
            built from.
        files: Maps the paths of files, which are removed after the manifests (descriptions of artifacts), to their
            sizes in bytes. Records of parts (file sets) come first.
        runs: Ids of the runs. Their records are removed.
        unknown: Folders of artifacts that are kept because no run is known to have used their names.
        size_bytes: Total size of everything that is removed, in bytes.
    """

    artifacts: tuple[str, ...]
    files: Mapping[str, int]
    runs: tuple[str, ...]
    unknown: tuple[str, ...]
    size_bytes: int


def scan_store(place: Place, retention: Retention, now: datetime | None = None) -> StoreSnapshot:
    """Read the manifests and run records of a store, and find out what is needed.

    Manifests are descriptions of stored stage results. Nothing is removed.

    Args:
        place: The store.
        retention: What is kept.
        now: The current time; if None, the clock is read.

    Raises:
        InputError: If a manifest or record is damaged, so that it is unknown what is needed.
    """
    damaged: list[str] = []
    states = list_runs(place, tell=damaged.append)
    holdings = read_inventory(place)
    if damaged or holdings.faults:
        raise InputError(
            f"{damaged[0] if damaged else holdings.faults[0]} So nobody knows what is still needed, and nothing is "
            "removed. After `cloze verify` the next `cloze run` with the recipe builds it again; if no recipe does, "
            "delete the file, and of the record of a run that may go its folder."
        )
    clean_ups = list_cleanups(place)
    newest = max((state.run_id for state in states), default="")
    in_removal = {
        str(folder)
        for present in clean_ups.values()
        if present.is_gone and newest < f"{present.time:%Y%m%dT%H%M%S}"
        for folder in present.report.get("folders", ())
    }
    return StoreSnapshot(
        place=place,
        sizes={path: size for path, size in place.list_files("").items() if is_artifact_file(path)},
        manifests=holdings.manifests,
        needed=find_needed(place, holdings.manifests, retention, now),
        in_removal=frozenset(in_removal),
    )


def list_garbage(snapshot: StoreSnapshot, keep_runs: int, artifacts: Sequence[str]) -> Garbage:
    """List everything that a clean-up removes together with the given artifacts (stored stage results).

    This includes old run records. Nothing is removed here.

    Args:
        snapshot: The content of the store.
        keep_runs: Number of newest runs of each recipe for which records are kept.
        artifacts: Folders of artifacts that are not needed.
    """
    kept = {folder: manifest for folder, manifest in snapshot.manifests.items() if folder not in artifacts}
    files = find_leftovers(snapshot, kept, artifacts)
    runs = find_old_runs(snapshot.place, keep_runs)
    size_bytes = sum(snapshot.sizes[f"{folder}/{MANIFEST}"] for folder in artifacts) + sum(files.values())
    recorded_names = snapshot.needed.recorded_names
    return Garbage(
        artifacts=tuple(artifacts),
        files=files,
        runs=tuple(runs),
        unknown=tuple(folder for folder in snapshot.manifests if folder.split("/")[1] not in recorded_names),
        size_bytes=size_bytes + sum(size for sizes in runs.values() for size in sizes.values()),
    )


def list_unneeded(snapshot: StoreSnapshot) -> list[str]:
    """List the folders of the artifacts (stored stage results) that are not needed.

    Each comes before the artifacts that it was built from.
    """
    folders = [f for f in snapshot.manifests if f not in snapshot.needed.folders and snapshot.needed.can_remove(f)]
    return sorted(folders, key=lambda folder: (-get_stage_index(folder.split("/")[0]), folder))


def find_leftovers(snapshot: StoreSnapshot, kept: Mapping[str, Manifest], removed: Collection[str]) -> dict[str, int]:
    """Find removable files that do not belong to any remaining artifact (stored stage result).

    Args:
        snapshot: The content of the store.
        kept: Maps the folders of the remaining artifacts to their manifests (descriptions).
        removed: Folders of the artifacts whose manifests have been or will be removed.

    Returns:
        Maps paths to sizes in bytes. Records of parts (file sets) come first.
    """
    kept_paths = {f"{m.stage_folder}/{path}" for m in kept.values() for part in m.parts for path in part.paths}
    absent = {*removed, *snapshot.in_removal} - kept.keys()
    paths = [p for p in snapshot.sizes if p not in kept_paths and _is_garbage(p, snapshot.needed, kept, absent)]
    return {path: snapshot.sizes[path] for path in sorted(paths, key=lambda path: (not is_part_record(path), path))}


def _is_garbage(path: str, needed: Needs, kept: Mapping[str, Manifest], absent: Collection[str]) -> bool:
    """Return True if a file that belongs to no remaining artifact (stored stage result) may be removed.

    Args:
        path: Path of the file in the store.
        needed: The content that must not be removed.
        kept: Maps the folders of the remaining artifacts to their manifests (descriptions).
        absent: Folders of artifacts whose manifests have been or will be removed.
    """
    folder = "/".join(path.split("/")[:3])
    if not needed.can_remove(folder) or path == f"{folder}/{MANIFEST}":
        return False
    return folder in kept or folder in absent or folder.split("/")[1] not in needed.unfinished_names


def find_needed(
    place: Place, manifests: Mapping[str, Manifest], retention: Retention, now: datetime | None = None
) -> Needs:
    """Find out what is needed in a store: by unfinished runs, the newest runs, releases and readers.

    Args:
        place: The store.
        manifests: Maps the folder of each artifact (stored stage result) to its manifest (description).
        retention: What is kept.
        now: The current time; if None, the clock is read.

    Raises:
        DamagedRelease: If a release entry cannot be read.
    """
    by_recipe: dict[str, list[ListedRun]] = {}
    for state in list_runs(place):
        by_recipe.setdefault(state.recipe, []).append(state)
    roots = set(list_released_folders(place)) | {folder for folder in manifests if is_held(place, folder)}
    claimed_names, unfinished_names, recorded_names, keeps_all = set[str](), set[str](), set[str](), False
    for states in by_recipe.values():
        kept = select_kept_runs(states, retention, now or datetime.now(UTC))
        roots |= {folder for state in kept if state.record is not None for folder in state.record.folders}
        for number, state in enumerate(states):
            names = find_names_in_use(place, state)
            open_run = state.state == "running" or (state.state == "lost" and number == 0)
            keeps_all |= open_run and names is None
            recorded_names |= set(names or ())
            claimed_names |= set(names or ()) if open_run else set()
            unfinished_names |= set(names or ()) if number == 0 and state.state != "completed" else set()
    return Needs(
        folders=frozenset(with_parents(roots & manifests.keys(), manifests)),
        claimed_names=frozenset(claimed_names),
        unfinished_names=frozenset(unfinished_names),
        recorded_names=frozenset(recorded_names),
        keeps_all=keeps_all,
    )


def select_kept_runs(states: Sequence[ListedRun], retention: Retention, now: datetime) -> list[ListedRun]:
    """Select the runs of a recipe for which artifacts (stored stage results) are kept.

    These are the newest `retention.keep` completed runs, completed runs that were among the newest less than
    `retention.days` ago, and all runs since the oldest of these. If fewer than `retention.keep` runs have completed,
    all runs are kept.

    Args:
        states: The runs of the recipe, newest first.
        retention: What is kept.
        now: The current time.
    """
    completed = [state for state in states if state.state == "completed"]
    keep, since = retention.keep, now - timedelta(days=retention.days)
    stay = [state for n, state in enumerate(completed) if n < keep or _parse_start(completed[n - keep]) > since]
    last = stay[-1].run_id if stay and len(stay) >= keep else ""
    return [state for state in states if state.run_id >= last]


def _parse_start(state: ListedRun) -> datetime:
    """Return the start time of a run, with its time zone, or the latest possible time if it cannot be parsed."""
    try:
        return datetime.fromisoformat(state.started)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)


def with_parents(folders: Collection[str], manifests: Mapping[str, Manifest]) -> set[str]:
    """Return the folders of some artifacts and of everything that they were built from, directly or indirectly.

    Args:
        folders: Folders of artifacts (stored stage results).
        manifests: Maps the folder of each artifact in the store to its manifest (description). Folders that are not in
            it are omitted.
    """
    folders_needed, waiting = set[str](), list(folders)
    while waiting:
        folder = waiting.pop()
        if folder in folders_needed or folder not in manifests:
            continue
        folders_needed.add(folder)
        waiting += [parent.folder for parent in manifests[folder].parents]
    return folders_needed


Advance = Callable[[int], None]  # bytes freed so far


def clear_store(place: Place, retention: Retention, keep_runs: int, advance: Advance = lambda remover: None) -> Garbage:
    """Remove the content of a store that nothing needs.

    Args:
        place: The store.
        retention: What is kept.
        keep_runs: Number of newest runs of each recipe for which records are kept.
        advance: Called after each file with the number of bytes freed so far.

    Returns:
        The removed content. Artifacts (stored stage results) that another process is reading are not removed.

    Raises:
        InputError: If another clean-up is running, or if a manifest (description of an artifact) or record is damaged,
            so that it is unknown what is needed.
    """
    with hold_cleanup(place) as clearing_file:
        snapshot = scan_store(place, retention)
        folders = list_unneeded(snapshot)
        clearing_file.begin([*folders, *snapshot.in_removal])
        remover = _Remover(place, clearing_file, advance)
        removed = [folder for folder in folders if remover.remove_artifact(folder, snapshot)]
        removed_garbage, runs = list_garbage(snapshot, keep_runs, removed), find_old_runs(place, keep_runs)
        for path, size in removed_garbage.files.items():
            remover.remove_file(path, size)
        for run_id, files in runs.items():
            place.write(get_removal_mark(run_id), b"")
            for path, size in {**files, get_removal_mark(run_id): 0}.items():
                remover.remove_file(path, size)
        for path, present in list_cleanups(place).items():
            if present.is_gone:
                remove_file(place, path)
        return removed_garbage


class _Remover:
    """Removes files, and reports the number of bytes freed.

    Args:
        place: The store.
        turn: The running clean-up.
        advance: Called after each file with the number of bytes freed so far.
    """

    def __init__(self, place: Place, turn: CleanUp, advance: Advance) -> None:
        self._place, self._turn, self._advance = place, turn, advance
        self._size_bytes = 0

    def remove_artifact(self, folder: str, snapshot: StoreSnapshot) -> bool:
        """Remove the manifest (description) of an artifact (stored stage result), unless another process is reading it.

        Args:
            folder: Folder of the artifact.
            snapshot: The content of the store, including the size of the manifest.

        Returns:
            True if the manifest was removed, False if another process is reading the artifact.
        """
        self._turn.check_alive()
        if not remove_unless_held(self._place, folder):
            return False
        self._count(snapshot.sizes[f"{folder}/manifest.json"])
        return True

    def remove_file(self, path: str, size: int) -> None:
        """Remove a file.

        Args:
            path: Path of the file in the store.
            size: Size of the file in bytes. It is added to the number of bytes freed.
        """
        self._turn.check_alive()
        remove_file(self._place, path)
        self._count(size)

    def _count(self, size: int) -> None:
        """Add `size` to the number of bytes freed, and report the sum."""
        self._size_bytes += size
        self._advance(self._size_bytes)
