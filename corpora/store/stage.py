"""Stages: what is asked for, which parts it is cut into, and how one part is built.

A stage is planned as a `Stage`, a pure value: settings, parents and the list of its parts. A part is a fixed
slice of the input, the unit of bytes, identity and resume; a task builds a range of parts. How parts are
grouped into tasks, how many workers there are, where they run and in which order they finish changes nothing.

    stage = plan(...)                        pure: what is asked
    survey = survey_stage(place, stage)      what the store has of it already
    build_parts(place, stage, missing)       any process, any order, any number of times
    manifest = publish(place, stage)         one step: the manifest's appearance

Only the store says what is done. A finished part has a record of its own, written after its files, so that an
interrupted build goes on where it stopped. A part that another artifact of the same kind and name holds under the
same part fingerprint, be it an older one or one that was never finished, is pointed to, not built again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any

from corpora.store.damage import Damaged, digest_in
from corpora.store.ledger import Ledger
from corpora.store.manifest import (
    Json,
    Manifest,
    ManifestAddress,
    Parent,
    Part,
    RecordAddress,
    fingerprint,
    stage_folder,
)
from corpora.store.part_record import PartRecord, is_record, read_record, record_path
from corpora.store.part_writer import PartWriter
from corpora.store.places import Place

MANIFEST = "manifest.json"
_KEPT = 16  # manifests that a process remembers: those of the artifacts that its stage reads


class NotReproducible(Exception):
    """The same inputs gave other rows: a fault of ours (or of a source that changed under its checksum)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """One part to build.

    key: what determines its bytes, next to the stage's settings and build version (its slice of the input)
    job: what the build function needs to find that input here; determines nothing, enters no identity
    """

    name: str
    key: Json
    job: Any = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One artifact to build: what determines its bytes, its parts, and the function that builds one.

    part_settings are those settings that decide a part's bytes; None means all. A setting that only decides
    which parts there are may be left out, so that parts survive its change.
    """

    kind: str
    name: str
    build_version: int
    settings: Mapping[str, Json]
    parents: tuple[Parent, ...]
    libraries: Mapping[str, str]
    parts: tuple[PartPlan, ...]
    build: "Callable[[PartWriter, PartPlan], Ledger]"
    facts: Mapping[str, Json] = field(default_factory=dict)
    part_settings: Mapping[str, Json] | None = None

    def __post_init__(self) -> None:
        names = {part.name for part in self.parts}
        assert len(names) == len(self.parts), f"two parts of {self.stage_folder} have one name, so one would be lost"

    @cached_property
    def fingerprint(self) -> str:
        """The name of what is asked for."""
        return fingerprint(
            kind=self.kind,
            build_version=self.build_version,
            settings=self.settings,
            parents=[parent.to_json() for parent in self.parents],
            libraries=self.libraries,
        )

    def part_fingerprint(self, part: PartPlan) -> str:
        """The name of one part, the same in every artifact that holds it."""
        settings = self.settings if self.part_settings is None else self.part_settings
        return fingerprint(
            kind=self.kind,
            build_version=self.build_version,
            settings=settings,
            libraries=self.libraries,
            key=part.key,
            labels=part.labels,
        )

    @property
    def stage_folder(self) -> str:
        """The folder of all artifacts of this kind and name in a store; messages call the stage by it."""
        return stage_folder(self.kind, self.name)

    @property
    def folder(self) -> str:
        """The artifact's own folder in a store."""
        return f"{self.stage_folder}/{self.fingerprint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What the store has of a stage: the published manifest if it is whole, finished parts, missing ones.

    damaged: the parts that a manifest promises and whose files are gone, of another size, or known to be damaged
    faults:  manifests and records that were found damaged on the way, and are passed over
    """

    manifest: Manifest | None
    done: Mapping[str, Part]
    missing: tuple[PartPlan, ...]
    damaged: tuple[str, ...] = ()
    pointed: int = 0
    faults: tuple[Damaged, ...] = ()


def library_versions(*names: str) -> dict[str, str]:
    """The installed versions of the libraries that decide a stage's bytes."""
    return {name: version(name) for name in sorted(names)}


def read_manifest(place: Place, folder: str) -> Manifest | None:
    """The manifest in an artifact's folder, or None where nothing is published. Raises Damaged."""
    path = f"{folder}/{MANIFEST}"
    try:
        return Manifest.from_bytes(place.read(path), path)
    except FileNotFoundError:
        return None


@lru_cache(maxsize=_KEPT)
def manifest_at(place: Place, address: ManifestAddress) -> Manifest:
    """The manifest at an address, read once in a process. Raises Damaged where it is gone or another one."""
    path = f"{address.folder}/{MANIFEST}"
    found = read_manifest(place, address.folder)
    if found is None:
        raise Damaged(path, "it is gone")
    if found.digest != address.digest:
        raise Damaged(path, "its digest is not the one that is asked for")
    return found


def list_manifests(place: Place, kind: str, name: str) -> list[Manifest]:
    """Every published artifact of a kind and name, in order of fingerprint. Raises Damaged."""
    paths = sorted(path for path in place.sizes(stage_folder(kind, name)) if path.endswith(f"/{MANIFEST}"))
    return [Manifest.from_bytes(place.read(path), path) for path in paths]


def missing_files(sizes: Mapping[str, int], folder: str, part: Part) -> list[str]:
    """The files of a part, its record among them, that are not there or not of their recorded size."""
    files = [file.path for file in part.files if sizes.get(f"{folder}/{file.path}") != file.size_bytes]
    record = [part.record.path] if part.record is not None and f"{folder}/{part.record.path}" not in sizes else []
    return files + record


def survey_stage(place: Place, stage: Stage, distrusted: Collection[str] = ()) -> Survey:
    """Compare what is asked for with what the store holds. Reads one listing and the records, no data.

    distrusted: paths of files that are known to be damaged; they count as gone
    """
    sizes = {path: size for path, size in place.sizes(stage.stage_folder).items() if path not in distrusted}
    faults: list[Damaged] = []
    published = _sound_manifest(place, f"{stage.folder}/{MANIFEST}", sizes, faults)
    promised = published.parts if published is not None else ()
    damaged = tuple(part.name for part in promised if missing_files(sizes, stage.stage_folder, part))
    if published is not None and not damaged:
        return Survey(manifest=published, done={part.name: part for part in promised}, missing=())
    found = _finished_parts(place, stage, sizes, published, faults)
    done: dict[str, Part] = {}
    for plan in stage.parts:
        part = found.get(stage.part_fingerprint(plan))
        if part is not None:
            done[plan.name] = replace(part, name=plan.name)
    own = f"{stage.fingerprint}/"
    return Survey(
        manifest=None,
        done=done,
        missing=tuple(plan for plan in stage.parts if plan.name not in done),
        damaged=damaged,
        pointed=sum(not file.path.startswith(own) for part in done.values() for file in part.files[:1]),
        faults=tuple(faults),
    )


def _sound_manifest(place: Place, path: str, sizes: Mapping[str, int], faults: list[Damaged]) -> Manifest | None:
    """A manifest that is there and whole; one that is damaged is noted and passed over."""
    if path not in sizes:
        return None
    try:
        return Manifest.from_bytes(place.read(path), path)
    except Damaged as fault:
        faults.append(fault)
        return None


def _sound_record(place: Place, folder: str, path: str, faults: list[Damaged]) -> list[Part]:
    """The part of a record that is whole; one that is damaged is noted and passed over."""
    try:
        return [read_record(place, folder, path.removeprefix(f"{folder}/")).part]
    except Damaged as fault:
        faults.append(fault)
        return []


def _finished_parts(
    place: Place, stage: Stage, sizes: Mapping[str, int], published: Manifest | None, faults: list[Damaged]
) -> dict[str, Part]:
    """Finished parts with all their files, by part fingerprint: this artifact's own before those of others.

    Those of others: what a manifest names, and what an artifact that was never published has finished.
    """
    folder = f"{stage.folder}/"
    manifests = [path for path in sorted(sizes) if path.endswith(f"/{MANIFEST}")]
    whole = tuple(path.removesuffix(MANIFEST) for path in manifests if not path.startswith(folder))
    records = [path for path in sorted(sizes) if is_record(path) and not path.startswith(whole)]
    unpublished = [path for path in records if not path.startswith(folder)]
    own = [path for path in records if path.startswith(folder)]
    found = [part for path in unpublished for part in _sound_record(place, stage.stage_folder, path, faults)]
    others = (_sound_manifest(place, f"{path}{MANIFEST}", sizes, faults) for path in whole)
    found += [part for other in others if other is not None for part in other.parts]
    found += published.parts if published is not None else ()
    found += [part for path in own for part in _sound_record(place, stage.stage_folder, path, faults)]
    return {part.fingerprint: part for part in found if not missing_files(sizes, stage.stage_folder, part)}


def build_part(place: Place, stage: Stage, plan: PartPlan, out: Place | None = None) -> Part:
    """Build one part, check its ledger, and write its record last.

    out: a store of its own for a part that is built again only to be compared
    Raises NotReproducible where a manifest promises this part with other rows: its files are removed again.
    """
    out = out or place
    writer = PartWriter(place, out, stage.stage_folder, stage.fingerprint, plan.name)
    ledger = stage.build(writer, plan).check()
    part = Part(
        name=plan.name,
        fingerprint=stage.part_fingerprint(plan),
        files=tuple(writer.files),
        ledger=ledger,
        labels=plan.labels,
    )
    if out is place:
        _refuse_other_rows(place, stage, part)
    address = record_path(stage.fingerprint, plan.name)
    data = PartRecord(part=part, checks=writer.checks).to_bytes()
    out.write(f"{stage.stage_folder}/{address}", data)
    return replace(part, record=RecordAddress(path=address, digest=digest_in(data)))


def build_parts(place: Place, stage: Stage, plans: Iterable[PartPlan], distrusted: Collection[str] = ()) -> list[Part]:
    """Build those of a range of parts that are not finished yet, one after another; returns all of the range.

    distrusted: paths of files that are known to be damaged; a part that has one is not finished
    """
    return [_finished_part(place, stage, plan, distrusted) or build_part(place, stage, plan) for plan in plans]


def _finished_part(place: Place, stage: Stage, plan: PartPlan, distrusted: Collection[str] = ()) -> Part | None:
    """The part, where this artifact has its record and every file of it."""
    address = record_path(stage.fingerprint, plan.name)
    try:
        part = read_record(place, stage.stage_folder, address).part
    except (FileNotFoundError, Damaged):
        return None
    paths = [f"{stage.stage_folder}/{path}" for path in part.paths]
    sizes = {path: size for path in paths if path not in distrusted and (size := place.size(path)) is not None}
    whole = not missing_files(sizes, stage.stage_folder, part)
    return part if whole and part.fingerprint == stage.part_fingerprint(plan) else None


def _refuse_other_rows(place: Place, stage: Stage, rebuilt: Part) -> None:
    """A part built again must hold the rows that its manifest promised."""
    path = f"{stage.folder}/{MANIFEST}"
    there = {path: 0} if place.size(path) is not None else {}
    published = _sound_manifest(place, path, there, [])
    promised = [part for part in published.parts if part.name == rebuilt.name] if published is not None else []
    for part in promised:
        if _rows_of(part) != _rows_of(rebuilt):
            for file in rebuilt.files:
                place.delete(f"{stage.stage_folder}/{file.path}")
            raise NotReproducible(
                f"{stage.folder}: part {part.name} was built again and holds {_rows_of(rebuilt)} "
                f"instead of {_rows_of(part)}"
            )


def _rows_of(part: Part) -> list[tuple[str, str]]:
    return [(file.table, str(file.content)) for file in part.files]


def publish(place: Place, stage: Stage, survey: Survey) -> Manifest:
    """Make the artifact appear, in one step, once every part is finished.

    survey: of before the missing parts were built; those it found done are taken from it
    Raises ValueError where parts are missing. Two runs that publish one fingerprint both end right: they wrote
    the same bytes.
    """
    if survey.manifest is not None:
        return survey.manifest
    built = {plan.name: _finished_part(place, stage, plan) for plan in survey.missing}
    planned = {plan.name for plan in stage.parts}
    lacking = [name for name, part in built.items() if part is None]
    lacking += [name for name in survey.damaged if name not in planned]
    if lacking:
        raise ValueError(f"{stage.folder} lacks {len(lacking)} parts: {', '.join(lacking[:5])}")
    parts = {**survey.done, **{name: part for name, part in built.items() if part is not None}}
    manifest = Manifest(
        kind=stage.kind,
        name=stage.name,
        build_version=stage.build_version,
        fingerprint=stage.fingerprint,
        settings=stage.settings,
        parents=stage.parents,
        libraries=stage.libraries,
        parts=tuple(parts[plan.name] for plan in stage.parts),
        facts=stage.facts,
    )
    data = manifest.to_bytes()
    place.write(f"{manifest.folder}/{MANIFEST}", data)
    return replace(manifest, digest=digest_in(data))


def build_stage(place: Place, stage: Stage) -> Manifest:
    """Everything that is missing of a stage, built here in this process, and published."""
    survey = survey_stage(place, stage)
    build_parts(place, stage, survey.missing)
    return publish(place, stage, survey)
