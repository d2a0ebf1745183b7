"""Stages: what is asked for, which parts it is cut into, and how one part is built.

A stage is planned as a `Stage`, a pure value: settings, parents and the list of its parts. A part is a fixed
slice of the input, the unit of bytes, identity and resume; a task builds a range of parts. How parts are
grouped into tasks, how many workers there are, where they run and in which order they finish changes nothing.

    stage = plan(...)                        pure: what is asked
    survey = survey_stage(place, stage)      what the store has of it already
    build_parts(place, stage, missing)       any process, any order, any number of times
    manifest = publish(place, stage)         one step: the manifest's appearance

Only the store says what is done. A finished part has a record of its own, written after its files, so that an
interrupted build resumes where it stopped. A part that another artifact of the same kind and name holds under the
same part fingerprint, be it an older one or one that was never finished, is pointed to, not built again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from importlib import metadata
from typing import Any

from corpora.errors import FileFault, raise_all
from corpora.generic_types import Json
from corpora.store.current_record import report_part
from corpora.store.damage import MAX_SEAL_BYTES, Damaged, find_digest
from corpora.store.ledger import Ledger
from corpora.store.manifest import (
    Manifest,
    ManifestAddress,
    Parent,
    Part,
    PartRecord,
    RecordAddress,
    compute_fingerprint,
    fingerprint_json,
    is_part_record,
    part_record_path,
    pause_garbage_collection,
    read_part,
    stage_folder,
    to_canonical_json,
)
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place

MANIFEST = "manifest.json"
read_version = cache(metadata.version)  # of an installed library: each stage asks, and a look takes milliseconds
_MAX_CACHED_MANIFESTS = 16  # manifests that a process remembers: those of the artifacts that its stage reads


class NotReproducible(Exception):
    """The same inputs gave other rows: a fault of ours (or of a source that changed under its checksum)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """One part to build.

    name:   unique in the stage
    key:    what determines its bytes, next to the stage's settings and build version (its slice of the input)
    job:    what the build function needs to find that input here; it determines nothing and enters no identity
    labels: say which split, source or generation the part is of; they are part of its identity
    known_fingerprint: its fingerprint, if the artifact that the stage continues has the part; then only the name is
                       needed
    """

    name: str
    key: Json
    job: Any = None
    labels: Mapping[str, str] = field(default_factory=dict)
    known_fingerprint: str = ""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One artifact to build: what determines its bytes, its parts, and the function that builds one.

    kind, name:    name the stage; artifacts of one kind and name share a folder
    build_version: of the code that builds this kind, raised when its bytes change
    settings:      those that decide the artifact's bytes
    parents:       what it is made from
    libraries:     {name: version} of those that decide its bytes
    build:         writes one part with the writer, and returns its ledger
    facts:         what readers must know and cannot see in the rows; not part of the identity
    part_settings: those settings that decide a part's bytes; None: all. A setting that only decides which parts there
                   are may be left out, so that parts survive its change
    previous:      the artifact that this one continues. Finished parts are looked up there, and in no other of this
                   name
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
    previous: Manifest | None = None

    def __post_init__(self) -> None:
        names = {part.name for part in self.parts}
        assert len(names) == len(self.parts), f"two parts of {self.stage_folder} have one name, so one would be lost"

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint that names what is asked for. The parts do not enter it."""
        return compute_fingerprint(
            kind=self.kind,
            build_version=self.build_version,
            settings=self.settings,
            parents=[parent.to_json() for parent in self.parents],
            libraries=self.libraries,
        )

    def compute_part_fingerprint(self, part: PartPlan) -> str:
        """Return the fingerprint that names one part, the same in every artifact that holds it."""
        return part.known_fingerprint or fingerprint_json(
            {**self._shared_facts, "key": to_canonical_json(part.key), "labels": to_canonical_json(part.labels)}
        )

    @cached_property
    def _shared_facts(self) -> dict[str, str]:
        """What every part's fingerprint is made from, in canonical JSON."""
        settings = self.settings if self.part_settings is None else self.part_settings
        facts = {
            "kind": self.kind,
            "build_version": self.build_version,
            "settings": settings,
            "libraries": self.libraries,
        }
        return {name: to_canonical_json(fact) for name, fact in facts.items()}

    @property
    def stage_folder(self) -> str:
        """The folder, in a store, of all artifacts of this kind and name. Messages name the stage by it."""
        return stage_folder(self.kind, self.name)

    @property
    def folder(self) -> str:
        """The artifact's own folder in a store."""
        return f"{self.stage_folder}/{self.fingerprint}"

    @property
    def without_parts(self) -> "Stage":
        """The stage without its parts: what a worker needs to build one, and what its fingerprint is made of."""
        return replace(self, parts=(), previous=None)

    def build_placeholder(self) -> Manifest:
        """Return a manifest that stands for the artifact as a parent of others before it is built.

        It has the fingerprint and no parts, so nothing can be read from it.
        """
        return Manifest(
            kind=self.kind,
            name=self.name,
            build_version=self.build_version,
            fingerprint=self.fingerprint,
            settings=self.settings,
            parents=self.parents,
            libraries=self.libraries,
            parts=(),
            digest="promised",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The state of a stage in the store.

    manifest:        the published manifest, if it and all files of its parts are there; else None
    done:            finished parts by name
    missing:         parts to build
    damaged:         names of parts that a manifest promises, with files that are missing, of another size, or known to
                     be damaged
    num_reused:      number of finished parts whose files are in another artifact's folder
    other_manifests: manifests of other artifacts of this kind and name that were searched for parts, without their
                     parts
    faults:          manifests and records that turned out to be damaged, and were ignored
    """

    manifest: Manifest | None
    done: Mapping[str, Part]
    missing: tuple[PartPlan, ...]
    damaged: tuple[str, ...] = ()
    num_reused: int = 0
    other_manifests: tuple[Manifest, ...] = ()
    faults: tuple[Damaged, ...] = ()


def read_library_versions(*names: str) -> dict[str, str]:
    """Return the installed versions of the libraries that decide a stage's bytes. Raises PackageNotFoundError."""
    return {name: read_version(name) for name in sorted(names)}


def read_manifest(place: Place, folder: str) -> Manifest | None:
    """Read the manifest in an artifact's folder; None if nothing is published there. Raises Damaged."""
    path = f"{folder}/{MANIFEST}"
    try:
        return place.read_checked(path, partial(Manifest.from_bytes, path=path))
    except FileNotFoundError:
        return None


@lru_cache(maxsize=_MAX_CACHED_MANIFESTS)
def read_manifest_at(place: Place, address: ManifestAddress) -> Manifest:
    """Read the manifest at an address; the last few are cached.

    Raises Damaged if it is missing or has another digest.
    """
    path = f"{address.folder}/{MANIFEST}"
    manifest = read_manifest(place, address.folder)
    if manifest is None:
        raise Damaged(path, "it is gone")
    if manifest.digest != address.digest:
        raise Damaged(path, "its digest is not the one that is asked for")
    return manifest


def read_manifest_address(place: Place, folder: str) -> ManifestAddress:
    """Return the address of the manifest that is in a folder now.

    Reads only its last bytes. Raises FileNotFoundError.
    """
    with place.open(f"{folder}/{MANIFEST}") as file:
        start = max(0, file.size() - MAX_SEAL_BYTES)
        return ManifestAddress(folder=folder, digest=find_digest(file.read_at(MAX_SEAL_BYTES, start)))


def list_manifests(place: Place, kind: str, name: str) -> list[Manifest]:
    """Read every published artifact of a kind and name, in order of fingerprint. Raises Damaged."""
    paths = sorted(path for path in place.list_files(stage_folder(kind, name)) if path.endswith(f"/{MANIFEST}"))
    return [place.read_checked(path, partial(Manifest.from_bytes, path=path)) for path in paths]


def list_missing_files(sizes: Mapping[str, int], folder: str, part: Part) -> list[str]:
    """Return the paths of a part's files and record that are missing, or of another size than recorded.

    sizes:  {path in the store: size} of the files there are; a record only has to exist
    folder: of the stage
    """
    files = [file.path for file in part.files if sizes.get(f"{folder}/{file.path}") != file.size_bytes]
    record = [part.record.path] if part.record is not None and f"{folder}/{part.record.path}" not in sizes else []
    return files + record


def survey_stage(place: Place, stage: Stage, damaged_paths: Collection[str] = ()) -> Survey:
    """Compare what is asked for with what the store holds. Reads no rows.

    It lists the files of the stage's kind and name once and reads the stage's manifest. Only if that is not complete
    does it read more: the manifests of the other artifacts of this name, and the records of its own parts and of those
    of artifacts that were never published. A stage that continues another artifact takes parts only from that one and
    itself.

    damaged_paths: files that are known to be damaged; they count as missing
    Raises Damaged if a part that only the previous artifact can supply is missing files there.
    """
    sizes = {path: size for path, size in place.list_files(stage.stage_folder).items() if path not in damaged_paths}
    faults: list[Damaged] = []
    published = _read_if_sound(place, f"{stage.folder}/{MANIFEST}", sizes, faults)
    promised = published.parts if published is not None else ()
    damaged = tuple(part.name for part in promised if list_missing_files(sizes, stage.stage_folder, part))
    if published is not None and not damaged:
        return Survey(manifest=published, done={part.name: part for part in promised}, missing=())
    fingerprints = {plan.name: stage.compute_part_fingerprint(plan) for plan in stage.parts}
    finished = _FinishedParts(
        place=place, folder=stage.stage_folder, sizes=sizes, wanted=frozenset(fingerprints.values())
    )
    with pause_garbage_collection():
        _find_finished_parts(finished, stage, promised)
    done = {
        name: replace(finished.parts[called], name=name)
        for name, called in fingerprints.items()
        if called in finished.parts
    }
    own_prefix = f"{stage.fingerprint}/"
    missing = tuple(plan for plan in stage.parts if plan.name not in done)
    for part in (
        stage.previous.parts if stage.previous is not None and any(plan.known_fingerprint for plan in missing) else ()
    ):
        for path in list_missing_files(sizes, stage.stage_folder, part):
            raise Damaged(f"{stage.stage_folder}/{path}", "it is gone, or of another size")
    return Survey(
        manifest=None,
        done=done,
        missing=missing,
        damaged=damaged,
        num_reused=sum(not file.path.startswith(own_prefix) for part in done.values() for file in part.files[:1]),
        other_manifests=tuple(finished.others),
        faults=(*faults, *finished.faults),
    )


def find_complete_stage(place: Place, stages: Sequence[Stage]) -> tuple[Stage, Manifest] | None:
    """Return the first of some stages of one kind and name that the store holds complete, with its manifest; else None.

    Complete: its manifest is sound and all files of its parts exist in the right size. Lists the files once.
    """
    sizes = place.list_files(stages[0].stage_folder) if stages else {}
    found = ((stage, _read_if_complete(place, stage, sizes)) for stage in stages)
    return next(((stage, manifest) for stage, manifest in found if manifest is not None), None)


def read_complete_manifests(place: Place, stages: Sequence[Stage]) -> list[Manifest] | None:
    """Return the manifests of all stages if the store holds each of them complete; else None.

    Complete: as for `find_complete_stage`. Lists the files of each kind and name once.
    """
    listed = {folder: place.list_files(folder) for folder in dict.fromkeys(stage.stage_folder for stage in stages)}
    manifests = []
    for stage in stages:
        manifest = _read_if_complete(place, stage, listed[stage.stage_folder])
        if manifest is None:
            return None
        manifests.append(manifest)
    return manifests


def _read_if_complete(place: Place, stage: Stage, sizes: Mapping[str, int]) -> Manifest | None:
    """Return a stage's manifest, if it is sound and every file of its parts is there."""
    manifest = _read_if_sound(place, f"{stage.folder}/{MANIFEST}", sizes, [])
    is_incomplete = manifest is None or any(
        list_missing_files(sizes, stage.stage_folder, part) for part in manifest.parts
    )
    return None if is_incomplete else manifest


def _read_if_sound(place: Place, path: str, sizes: Mapping[str, int], faults: list[Damaged]) -> Manifest | None:
    """Return a manifest, if it exists and is not damaged; damage is added to `faults`."""
    if path not in sizes:
        return None
    try:
        return place.read_checked(path, partial(Manifest.from_bytes, path=path))
    except Damaged as fault:
        faults.append(fault)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _FinishedParts:
    """Finished parts with all their files, by fingerprint, that a stage wants. A part that is added later replaces an
    earlier one. Of the other artifacts one manifest is held at a time.
    """

    place: Place
    folder: str
    sizes: Mapping[str, int]
    wanted: frozenset[str]
    parts: dict[str, Part] = field(default_factory=dict)
    others: list[Manifest] = field(default_factory=list)
    faults: list[Damaged] = field(default_factory=list)

    def add(self, parts: Iterable[Part]) -> None:
        """Add those of some parts that are wanted and have all their files."""
        for part in parts:
            if part.fingerprint in self.wanted and not list_missing_files(self.sizes, self.folder, part):
                self.parts[part.fingerprint] = part

    def add_record(self, path: str) -> None:
        """Add the part of a record; if the record is damaged, note that and ignore it."""
        try:
            self.add([read_part(self.place, self.folder, path.removeprefix(f"{self.folder}/"))])
        except Damaged as fault:
            self.faults.append(fault)

    def add_manifest(self, path: str) -> None:
        """Add the parts of another artifact; if its manifest is damaged, note that and ignore it."""
        other = _read_if_sound(self.place, path, self.sizes, self.faults)
        if other is not None:
            self.add(other.parts)
            self.others.append(other.with_parts(()))


def _find_finished_parts(finished: _FinishedParts, stage: Stage, promised: Iterable[Part]) -> None:
    """Add the finished parts of other artifacts, then those of the artifact's own folder, which take their place.

    Of other artifacts: what a manifest names, and what an artifact that was never published has finished.
    promised: the parts that the artifact's own manifest names
    """
    paths = sorted(finished.sizes)
    own = [path for path in paths if is_part_record(path) and path.startswith(f"{stage.folder}/")]
    if stage.previous is not None:
        finished.add(stage.previous.parts)
        finished.others.append(stage.previous.with_parts(()))
    else:
        _find_parts_of_others(finished, [path for path in paths if not path.startswith(f"{stage.folder}/")])
    finished.add(promised)
    for path in own:
        finished.add_record(path)


def _find_parts_of_others(finished: _FinishedParts, paths: Sequence[str]) -> None:
    """Add the finished parts of all other artifacts. paths: their files"""
    others = [path for path in paths if path.endswith(f"/{MANIFEST}")]
    published = {path.removesuffix(MANIFEST) for path in others}
    for path in paths:
        if is_part_record(path) and path.rpartition("parts/")[0] not in published:
            finished.add_record(path)
    for path in others:
        finished.add_manifest(path)


def build_part(
    place: Place, stage: Stage, plan: PartPlan, out: Place | None = None, may_be_published: bool = True
) -> Part:
    """Build one part, check its ledger, and write its record last.

    out:              a store of its own for a part that is built again only to be compared; None: `place`
    may_be_published: the stage may have a manifest already
    Raises NotReproducible if a manifest promises this part with other rows: the new files are then removed. Raises
    LedgerError, and what the build function raises.
    """
    out = out or place
    report_part(f"{stage.stage_folder}: part {plan.name}")
    writer = PartWriter(place, out, stage.stage_folder, stage.fingerprint, plan.name)
    ledger = stage.build(writer, plan).check()
    part = Part(
        name=plan.name,
        fingerprint=stage.compute_part_fingerprint(plan),
        files=tuple(writer.files),
        ledger=ledger,
        labels=plan.labels,
    )
    if out is place and may_be_published:
        _check_same_rows(place, stage, part)
    address = part_record_path(stage.fingerprint, plan.name)
    data = PartRecord(part=part, checks=writer.checks).to_bytes()
    out.write(f"{stage.stage_folder}/{address}", data, is_final=True)
    return replace(part, record=RecordAddress(path=address, digest=find_digest(data)))


def build_parts(
    place: Place, stage: Stage, plans: Sequence[PartPlan], damaged_paths: Collection[str] = ()
) -> list[Part]:
    """Build those of some parts that are not finished yet, one after another. Return all of them, in the order of
    `plans`.

    Lists the files of the artifact once.
    damaged_paths: files that are known to be damaged; a part that has one is not finished
    Raises one FileFault for all raw files that cannot be read, after the other parts are built.
    """
    listed = place.list_files(stage.folder) if plans else {}
    sizes = {path: size for path, size in listed.items() if path not in damaged_paths}
    is_published = f"{stage.folder}/{MANIFEST}" in sizes
    parts: list[Part] = []
    faults: list[FileFault] = []
    for plan in plans:
        try:
            finished = _read_finished_part(place, stage, plan, sizes)
            parts.append(finished or build_part(place, stage, plan, may_be_published=is_published))
        except FileFault as fault:
            faults.append(fault)
    raise_all(faults)
    return parts


def _read_finished_part(place: Place, stage: Stage, plan: PartPlan, sizes: Mapping[str, int]) -> Part | None:
    """Return the part, if this artifact has its record and every file of it. sizes: of the artifact's files"""
    address = part_record_path(stage.fingerprint, plan.name)
    if f"{stage.stage_folder}/{address}" not in sizes:
        return None
    try:
        part = read_part(place, stage.stage_folder, address)
    except (FileNotFoundError, Damaged):
        return None
    is_complete = not list_missing_files(sizes, stage.stage_folder, part)
    return part if is_complete and part.fingerprint == stage.compute_part_fingerprint(plan) else None


def _check_same_rows(place: Place, stage: Stage, rebuilt: Part) -> None:
    """Raise NotReproducible, and delete the new files, if the manifest promises other rows for a part that was built
    again.
    """
    for part in _read_promised_parts(place, stage.folder):
        if part.name == rebuilt.name and list_contents(part) != list_contents(rebuilt):
            for file in rebuilt.files:
                place.delete(f"{stage.stage_folder}/{file.path}")
            raise NotReproducible(
                f"{stage.folder}: part {part.name} was built again and holds {list_contents(rebuilt)} "
                f"instead of {list_contents(part)}"
            )


def _read_promised_parts(place: Place, folder: str) -> tuple[Part, ...]:
    """Return the parts of a published manifest; none if it is missing or damaged."""
    try:
        return read_manifest_at(place, read_manifest_address(place, folder)).parts
    except (FileNotFoundError, Damaged):
        return ()


def list_contents(part: Part) -> list[tuple[str, str]]:
    """Return (table, content) of each file of a part. Two builds of a part with the same rows have the same list."""
    return [(file.table, str(file.content)) for file in part.files]


def publish_stage(place: Place, stage: Stage, survey: Survey, parts: Iterable[Part] = ()) -> Manifest:
    """Write the manifest, in one step, once every part is finished; until then the artifact does not exist.

    survey: from before the missing parts were built; the parts that it found finished are taken from it
    parts:  those of the missing ones that `build_parts` returned; the records of the others are read
    Raises ValueError if parts are missing. If two runs publish one fingerprint, both succeed: they write the same
    bytes.
    """
    if survey.manifest is not None:
        return survey.manifest
    done = {**survey.done, **{part.name: part for part in parts}}
    unread = [plan for plan in survey.missing if plan.name not in done]
    sizes = place.list_files(stage.folder) if unread else {}
    with pause_garbage_collection():
        late_parts = (_read_finished_part(place, stage, plan, sizes) for plan in unread)
        done |= {part.name: part for part in late_parts if part is not None}
    planned = [plan.name for plan in stage.parts]
    missing = [name for name in dict.fromkeys([*planned, *survey.damaged]) if name not in done]
    if missing:
        raise ValueError(f"{stage.folder} lacks {len(missing)} parts: {', '.join(missing[:5])}")
    manifest = Manifest(
        kind=stage.kind,
        name=stage.name,
        build_version=stage.build_version,
        fingerprint=stage.fingerprint,
        settings=stage.settings,
        parents=stage.parents,
        libraries=stage.libraries,
        parts=tuple(done[name] for name in planned),
        facts=stage.facts,
    )
    data = manifest.to_bytes()
    place.write(f"{manifest.folder}/{MANIFEST}", data, is_final=True)
    return replace(manifest, digest=find_digest(data))


def build_stage(place: Place, stage: Stage) -> Manifest:
    """Build everything that is missing of a stage, in this process, and publish it."""
    survey = survey_stage(place, stage)
    return publish_stage(place, stage, survey, build_parts(place, stage, survey.missing))
