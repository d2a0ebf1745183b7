"""The provenance of an artifact, back to raw files, and the run that made it.

Promise: the chain is that of the artifact itself, by its parents' fingerprints: what else a run built is not in it. The
run is the first one on record that completed with this artifact, so that later runs change nothing.
Cost: the manifests of the chain, the records of runs up to that one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from corpora.errors import InputError
from corpora.sources.contract import RawFile
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.pipeline import STAGES
from flows.run.record.run_record import DamagedRun, RunRecord, list_runs, read_run, recorded_lock, recorded_recipe
from flows.run.store_address import Artifact


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """An artifact, its ancestors in the order of stages, and the run that built it.

    gone:   ancestors that the store no longer has
    record: of that run; None where none is on record
    recipe: of that run; None where there is none, or it can no longer be read, as `unread` says
    """

    artifact: Artifact
    ancestors: tuple[Manifest, ...]
    gone: tuple[str, ...]
    record: RunRecord | None = None
    recipe: Recipe | None = None
    lock: Lock | None = None
    unread: str = ""

    @property
    def place(self) -> Place:
        """The store."""
        return self.artifact.place

    @property
    def manifest(self) -> Manifest:
        """The artifact's own."""
        return self.artifact.manifest

    @property
    def chain(self) -> tuple[Manifest, ...]:
        """The ancestors, then the artifact."""
        return (*self.ancestors, self.manifest)

    @property
    def names_files(self) -> bool:
        """Return whether raw files may be named: their names may name people."""
        return self.recipe is not None and self.recipe.privacy.samples == "text"

    @cached_property
    def corpus(self) -> Manifest | None:
        """The corpus that it is, or was made from; None where that is gone."""
        return self.manifest if self.manifest.kind == "corpora" else self.parent(self.manifest, "corpora")

    @cached_property
    def verdicts(self) -> Manifest | None:
        """The verdicts on all generations of the corpus; None where they are gone."""
        return self.parent(self.corpus, "verdicts") if self.corpus is not None else None

    @property
    def versions(self) -> dict[str, str]:
        """The versions that the run recorded, and the libraries that decided bytes."""
        libraries = {name: str(number) for each in self.chain for name, number in each.libraries.items()}
        return libraries | dict(self.record.versions if self.record is not None else {})

    def parent(self, manifest: Manifest, kind: str) -> Manifest | None:
        """Return the last parent of a kind; None where it is gone."""
        named = [parent.fingerprint for parent in manifest.parents if parent.role == kind][-1:]
        return next((ancestor for ancestor in self.of_kind(kind) if ancestor.fingerprint in named), None)

    def of_kind(self, kind: str) -> list[Manifest]:
        """Return the members of the chain that are of a kind."""
        return [manifest for manifest in self.chain if manifest.kind == kind]

    def raw_files(self, documents: Manifest) -> tuple[RawFile, ...]:
        """Return the raw files that documents were parsed from; none where the lock does not name them."""
        return self.lock.raw_files(documents) if self.lock is not None else ()


def provenance_of(artifact: Artifact) -> Provenance:
    """Return the provenance of an artifact. Raises Damaged for a manifest that is not what was written."""
    chain, gone = _ancestors(artifact)
    record = _first_run(artifact)
    recipe, lock, unread = None, None, ""
    if record is not None:
        try:
            recipe = recorded_recipe(record, artifact.place.address)
            lock = recorded_lock(artifact.place, record.run_id)
        except InputError as error:
            unread = str(error)
    return Provenance(
        artifact=artifact,
        ancestors=tuple(chain),
        gone=tuple(gone),
        record=record,
        recipe=recipe,
        lock=lock,
        unread=unread,
    )


def _ancestors(artifact: Artifact) -> tuple[list[Manifest], list[str]]:
    """Return the manifests of all ancestors in the order of stages, and the folders of those that are gone."""
    manifests: dict[str, Manifest | None] = {}
    waiting = list(_parent_folders(artifact.manifest))
    while waiting:
        folder = waiting.pop()
        if folder not in manifests:
            ancestor = manifests[folder] = read_manifest(artifact.place, folder)
            waiting += _parent_folders(ancestor) if ancestor is not None else ()
    ordered = sorted(
        (manifest for manifest in manifests.values() if manifest is not None),
        key=lambda manifest: (STAGES.index(manifest.kind), manifest.facts.get("generations", 0), manifest.folder),
    )
    return ordered, sorted(folder for folder, manifest in manifests.items() if manifest is None)


def _parent_folders(manifest: Manifest) -> Iterator[str]:
    """Yield the folders of the artifacts that one was made from."""
    for parent in manifest.parents:
        if parent.role in STAGES:
            yield f"{parent.role}/{parent.name}/{parent.fingerprint}"


def _first_run(artifact: Artifact) -> RunRecord | None:
    """Return the first recorded run that completed with an artifact; else the first that has it. Skips damaged ones."""
    other = None
    for run_id in list_runs(artifact.place):
        try:
            record = read_run(artifact.place, run_id)
        except DamagedRun:
            continue
        if any(stage.folder == artifact.manifest.folder for stage in record.stages):
            if record.state == "completed":
                return record
            other = other or record
    return other
