"""Finds what nobody needs in a store, from one look at it. Removes nothing.

Artifacts that no run, release or reader needs, as `needed.py` says; files of parts that no remaining artifact has;
working folders of trained models; records of runs beyond the newest. Files that are being written right now, and
everything outside the places that runs write to, are not garbage.

Cost: as `read_holdings`, and the records of all runs.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from corpora.errors import InputError
from corpora.store.manifest import Manifest, is_record
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST
from flows.integrity.inventory import Holdings, read_holdings
from flows.maintenance.needed import Needed, Policy, find_needed
from flows.maintenance.run_records import old_runs
from flows.run.faults.gc_lock import clearings
from flows.run.pipeline import STAGES
from flows.run.record.listed_runs import run_states
from flows.run.store_address import is_of_artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A store as a clean-up sees it: what is in it, and what of that is needed."""

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
    """Look at a store. Raises InputError where damage hides what is needed."""
    damaged: list[str] = []
    states = run_states(place, tell=damaged.append)
    holdings = read_holdings(place)
    if damaged or holdings.faults:
        raise InputError(
            f"{damaged[0] if damaged else holdings.faults[0]} So nobody knows what is still needed, and nothing is "
            "removed. `cloze verify --repair` repairs what it can; where it is the record of a run that may go, "
            "delete its folder."
        )
    clean_ups = clearings(place)
    newest = max((state.run_id for state in states), default="")
    begun = {
        str(folder)
        for present in clean_ups.values()
        if present.is_gone and newest < f"{present.heard:%Y%m%dT%H%M%S}"
        for folder in present.said.get("folders", ())
    }
    return Look(
        place=place,
        sizes=_sizes(holdings),
        manifests=holdings.manifests,
        needed=find_needed(place, holdings.manifests, policy, now),
        begun=frozenset(begun),
    )


def _sizes(holdings: Holdings) -> dict[str, int]:
    """Return the finished files of artifacts, with their sizes."""
    return {path: size for path, size in holdings.place.sizes("").items() if is_of_artifact(path)}


def garbage(seen: Look, keep_runs: int) -> Garbage:
    """Return everything that may go, given a look at the store."""
    artifacts = unneeded(seen)
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
    return sorted(folders, key=lambda folder: (-STAGES.index(folder.split("/")[0]), folder))


def leftovers(seen: Look, left: Mapping[str, Manifest], removed: Collection[str]) -> dict[str, int]:
    """Return files of no remaining artifact, records of parts first. removed: artifacts whose manifests are gone"""
    named = {f"{m.stage_folder}/{path}" for m in left.values() for part in m.parts for path in part.paths}
    gone = {*removed, *seen.begun} - left.keys()
    paths = [path for path in seen.sizes if path not in named and _is_garbage(path, seen.needed, left, gone)]
    return {path: seen.sizes[path] for path in sorted(paths, key=lambda path: (not is_record(path), path))}


def _is_garbage(path: str, needed: Needed, left: Mapping[str, Manifest], gone: Collection[str]) -> bool:
    """Return whether a file that no artifact has may go."""
    folder = "/".join(path.split("/")[:3])
    if not needed.may_go(folder):
        return False
    if folder in left:
        return path != f"{folder}/{MANIFEST}"
    return path != f"{folder}/{MANIFEST}" and (folder in gone or folder.split("/")[1] not in needed.unended)
