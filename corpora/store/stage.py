"""Stages: what is asked for, which parts it is cut into, and how one part is built.

A stage is planned as a `Stage`, a pure value: settings, parents and the list of its parts. A part is a fixed
slice of the input, the unit of bytes, identity and resume; a task builds a range of parts. How parts are
grouped into tasks, how many workers there are, where they run and in which order they finish changes nothing.

    stage = plan(...)                        pure: what is asked
    survey = survey_stage(place, stage)      what the store has of it already
    build_parts(place, stage, missing)       any process, any order, any number of times
    manifest = publish(place, stage)         one step: the manifest's appearance

Only the store says what is done. A finished part has a record of its own, written after its files, so that an
interrupted build resumes where it stopped. If another artifact of the same kind and name, older or never finished,
contains a part with the same fingerprint, that part is referred to and not built again.
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
    """Raised if a rebuilt part has different rows although its inputs are the same.

    The cause is a bug in this program, or a source that changed although its checksum did not.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """The plan for building one part of an artifact: a fixed slice of the stage's input becomes one set of files.

    Attributes:
        name: Name of the part, unique in the stage.
        key: Identifies the part's slice of the input. Together with the stage's settings and build version, it
            determines the part's bytes, so it is part of the fingerprint.
        job: Any data that the build function needs to find the input on this machine. Not part of the fingerprint.
        labels: The split, source or generation (update of the raw files) that the part belongs to. They are part of the
            fingerprint.
        known_fingerprint: The part's fingerprint if the artifact that the stage continues already contains the part,
            otherwise "". If it is given, `key`, `job` and `labels` are not used to find the part.
    """

    name: str
    key: Json
    job: Any = None
    labels: Mapping[str, str] = field(default_factory=dict)
    known_fingerprint: str = ""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The plan for building one artifact: everything that determines its bytes, its parts, and the build function.

    Attributes:
        kind: Kind of the artifact, e.g. "documents".
        name: Name of the artifact. Artifacts of the same kind and name share a folder.
        build_version: Version of the code that builds this kind. It is increased when the code's output changes.
        settings: The settings that determine the artifact's bytes.
        parents: The artifacts and raw inputs from which it is built.
        libraries: Name and version of each library that affects the bytes.
        parts: The parts to build, in order.
        build: Called with a `PartWriter` and a `PartPlan`. It writes the part's files and returns the part's ledger.
        facts: Information for readers that the rows do not contain. Not part of the fingerprint.
        part_settings: The subset of `settings` that is included in the parts' fingerprints (default: all of them). Omit
            a setting that only selects the parts, so that parts are reused after it changes.
        previous: The artifact that this one continues. If given, finished parts are reused only from it, and not from
            other artifacts with this name.
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
        """The artifact's fingerprint, 24 hexadecimal digits.

        It is computed from the kind, build version, settings, parents and libraries. The name and the parts do not
        affect it.
        """
        return compute_fingerprint(
            kind=self.kind,
            build_version=self.build_version,
            settings=self.settings,
            parents=[parent.to_json() for parent in self.parents],
            libraries=self.libraries,
        )

    def compute_part_fingerprint(self, part: PartPlan) -> str:
        """Return the fingerprint of a part: 24 hexadecimal digits.

        It is the same in every artifact that contains the part.
        """
        return part.known_fingerprint or fingerprint_json(
            {**self._shared_facts, "key": to_canonical_json(part.key), "labels": to_canonical_json(part.labels)}
        )

    @cached_property
    def _shared_facts(self) -> dict[str, str]:
        """The facts that are included in the fingerprint of every part, each as canonical JSON."""
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
        """The folder, relative to the store, that contains this stage's artifacts for all settings: `KIND/NAME`."""
        return stage_folder(self.kind, self.name)

    @property
    def folder(self) -> str:
        """The folder of the artifact to build, relative to the store: `KIND/NAME/FINGERPRINT`."""
        return f"{self.stage_folder}/{self.fingerprint}"

    @property
    def without_parts(self) -> "Stage":
        """A copy without `parts` and `previous`, small enough to send to workers. Its fingerprint is the same."""
        return replace(self, parts=(), previous=None)

    def build_placeholder(self) -> Manifest:
        """Return a manifest without parts, so that later stages can already be planned on top of this artifact.

        The manifest has the final fingerprint, but no rows can be read from it.
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
    """The state of a stage in a store, as returned by `survey_stage`: which of its parts (sets of files) exist.

    Attributes:
        manifest: The published manifest; None if it is missing or damaged, or if a file of its parts is missing.
        done: The finished parts by name.
        missing: The plans of the parts that have to be built.
        damaged: Names of the parts in the published manifest with a file that is missing, has the wrong size, or is
            known to be damaged.
        num_reused: Number of finished parts with files in another artifact's folder.
        other_manifests: The other artifacts of this kind and name that were searched for reusable parts. Their `parts`
            are empty here, to save memory.
        faults: The damaged manifests and part records that were ignored.
    """

    manifest: Manifest | None
    done: Mapping[str, Part]
    missing: tuple[PartPlan, ...]
    damaged: tuple[str, ...] = ()
    num_reused: int = 0
    other_manifests: tuple[Manifest, ...] = ()
    faults: tuple[Damaged, ...] = ()


def read_library_versions(*names: str) -> dict[str, str]:
    """Return the installed version of each library by name.

    Raises:
        importlib.metadata.PackageNotFoundError: If a library is not installed.
    """
    return {name: read_version(name) for name in sorted(names)}


def read_manifest(place: Place, folder: str) -> Manifest | None:
    """Read the manifest (description) of an artifact.

    Args:
        place: The store.
        folder: The folder of the artifact in the store, `KIND/NAME/FINGERPRINT`.

    Returns:
        The manifest, or None if no artifact is published there.

    Raises:
        Damaged: If the file is damaged or modified.
        InputError: If the file cannot be read, or was written by an incompatible version of this program.
    """
    path = f"{folder}/{MANIFEST}"
    try:
        return place.read_checked(path, partial(Manifest.from_bytes, path=path))
    except FileNotFoundError:
        return None


@lru_cache(maxsize=_MAX_CACHED_MANIFESTS)
def read_manifest_at(place: Place, address: ManifestAddress) -> Manifest:
    """Read the version of a manifest that is identified by an address. Recent results are cached in this process.

    Args:
        place: The store.
        address: The manifest's folder and digest.

    Raises:
        Damaged: If the manifest is missing or damaged, or has a different digest.
        InputError: If the file cannot be read, or was written by an incompatible version of this program.
    """
    path = f"{address.folder}/{MANIFEST}"
    manifest = read_manifest(place, address.folder)
    if manifest is None:
        raise Damaged(path, "it is gone")
    if manifest.digest != address.digest:
        raise Damaged(path, "its digest is not the one that is asked for")
    return manifest


def read_manifest_address(place: Place, folder: str) -> ManifestAddress:
    """Read the address (folder and digest) of the manifest that is currently published in a folder.

    Only the last bytes of the file are read, and they are not verified. The digest is "" if the file does not end with
    one.

    Raises:
        FileNotFoundError: If no manifest is published in the folder.
        InputError: If the file cannot be read.
    """
    with place.open(f"{folder}/{MANIFEST}") as file:
        start = max(0, file.size() - MAX_SEAL_BYTES)
        return ManifestAddress(folder=folder, digest=find_digest(file.read_at(MAX_SEAL_BYTES, start)))


def list_manifests(place: Place, kind: str, name: str) -> list[Manifest]:
    """Read the manifests (descriptions) of all published artifacts of a kind and name, sorted by fingerprint.

    Args:
        place: The store.
        kind: Kind of the artifacts, e.g. "documents".
        name: Name of the artifacts.

    Raises:
        Damaged: If one of the manifests is damaged or modified.
        InputError: If one cannot be read, or was written by an incompatible version of this program.
    """
    paths = sorted(path for path in place.list_files(stage_folder(kind, name)) if path.endswith(f"/{MANIFEST}"))
    return [place.read_checked(path, partial(Manifest.from_bytes, path=path)) for path in paths]


def list_missing_files(sizes: Mapping[str, int], folder: str, part: Part) -> list[str]:
    """List the files of a part, including its record, that do not exist or do not have the recorded size.

    Args:
        sizes: Size in bytes of each existing file, by its path in the store.
        folder: The folder of the stage in the store, `KIND/NAME`.
        part: The part to look for. The size of its record is not compared.

    Returns:
        Paths relative to `folder`.
    """
    files = [file.path for file in part.files if sizes.get(f"{folder}/{file.path}") != file.size_bytes]
    record = [part.record.path] if part.record is not None and f"{folder}/{part.record.path}" not in sizes else []
    return files + record


def survey_stage(place: Place, stage: Stage, damaged_paths: Collection[str] = ()) -> Survey:
    """Determine which parts of a stage the store already contains. No rows are read.

    If the artifact is published and complete, only its manifest is read. Otherwise, finished parts are also looked up
    in the part records of this artifact, in other artifacts of the same kind and name, and in the part records of
    builds that were never published. If `stage.previous` is set, it is the only other artifact that is searched.

    Args:
        place: The store.
        stage: The stage to look for.
        damaged_paths: Paths, in the store, of files that are known to be damaged. They are treated as missing.

    Raises:
        Damaged: If a missing part can only come from `stage.previous`, and one of its files is missing there.
        InputError: If the store cannot be read, or contains files of an incompatible version of this program.
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
    """Find the first of several stages that is complete in the store.

    A stage is complete if its manifest is intact and every file of its parts exists and has the recorded size.

    Args:
        place: The store.
        stages: Stages of the same kind and name, in order of preference.

    Returns:
        The stage and its manifest, or None if no stage is complete.

    Raises:
        InputError: If the store cannot be read, or a manifest was written by an incompatible version of this program.
    """
    sizes = place.list_files(stages[0].stage_folder) if stages else {}
    found = ((stage, _read_if_complete(place, stage, sizes)) for stage in stages)
    return next(((stage, manifest) for stage, manifest in found if manifest is not None), None)


def read_complete_manifests(place: Place, stages: Sequence[Stage]) -> list[Manifest] | None:
    """Read the manifests of several stages, if all of them are complete in the store.

    A stage is complete if its manifest is intact and every file of its parts exists and has the recorded size.

    Args:
        place: The store.
        stages: Stages of any kind and name.

    Returns:
        The manifests in the order of `stages`, or None if a stage is not complete.

    Raises:
        InputError: If the store cannot be read, or a manifest was written by an incompatible version of this program.
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
    """Return the manifest of a stage if the artifact is complete in the store, else None.

    It is not complete if the manifest is missing or damaged, or if a file of its parts is missing or has the wrong
    size. `sizes` has the size in bytes of each file in the stage's folder, by its path in the store.
    """
    manifest = _read_if_sound(place, f"{stage.folder}/{MANIFEST}", sizes, [])
    is_incomplete = manifest is None or any(
        list_missing_files(sizes, stage.stage_folder, part) for part in manifest.parts
    )
    return None if is_incomplete else manifest


def _read_if_sound(place: Place, path: str, sizes: Mapping[str, int], faults: list[Damaged]) -> Manifest | None:
    """Read the manifest at a path; None if it is missing or damaged.

    Args:
        place: The store.
        path: Path of the manifest in the store.
        sizes: Size in bytes of each existing file, by its path in the store.
        faults: The error is appended to this list if the manifest is damaged.
    """
    if path not in sizes:
        return None
    try:
        return place.read_checked(path, partial(Manifest.from_bytes, path=path))
    except Damaged as fault:
        faults.append(fault)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _FinishedParts:
    """Collects the finished parts that a stage can reuse, by fingerprint.

    A part that is added later replaces an earlier one with the same fingerprint. Manifests of other artifacts are read
    one at a time and kept without their parts, to save memory.
    """

    place: Place
    folder: str
    sizes: Mapping[str, int]
    wanted: frozenset[str]
    parts: dict[str, Part] = field(default_factory=dict)
    others: list[Manifest] = field(default_factory=list)
    faults: list[Damaged] = field(default_factory=list)

    def add(self, parts: Iterable[Part]) -> None:
        """Add the given parts to `parts`, except those that the stage does not need and those with missing files."""
        for part in parts:
            if part.fingerprint in self.wanted and not list_missing_files(self.sizes, self.folder, part):
                self.parts[part.fingerprint] = part

    def add_record(self, path: str) -> None:
        """Add the part described by the part record at `path`, relative to the store.

        A damaged record is added to `faults` and skipped.
        """
        try:
            self.add([read_part(self.place, self.folder, path.removeprefix(f"{self.folder}/"))])
        except Damaged as fault:
            self.faults.append(fault)

    def add_manifest(self, path: str) -> None:
        """Add the parts of another artifact. Its manifest is at `path` in the store.

        A damaged manifest is added to `faults` and skipped.
        """
        other = _read_if_sound(self.place, path, self.sizes, self.faults)
        if other is not None:
            self.add(other.parts)
            self.others.append(other.with_parts(()))


def _find_finished_parts(finished: _FinishedParts, stage: Stage, promised: Iterable[Part]) -> None:
    """Find the finished parts that a stage can reuse, and add them to `finished`.

    Parts in the artifact's own folder take precedence over those of other artifacts.

    Args:
        finished: Receives the parts that are found.
        stage: The stage that needs them.
        promised: The parts in the artifact's own manifest, if it is published.
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
    """Find finished parts of other artifacts, published or not, and add them to `finished`.

    `paths` are the paths, in the store, of all files of these artifacts.
    """
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
    """Build one part (a set of files) of an artifact, check that its counts balance, and write its record last.

    Args:
        place: The store to read from.
        stage: The stage that the part belongs to. Its `parts` may be empty.
        plan: The part to build.
        out: The store to write to (default: `place`). Use a different store to rebuild a part only for comparison.
        may_be_published: False if the artifact is known to have no manifest yet. Then the new rows are not compared
            with the published ones.

    Returns:
        The finished part, including the address of its record.

    Raises:
        NotReproducible: If the published manifest has different rows for this part. The new files are deleted.
        LedgerError: If the counts do not balance.

    Exceptions raised by the build function are propagated unchanged.
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
    """Build several parts (sets of files) one after another. Parts already finished in this artifact are skipped.

    Args:
        place: The store.
        stage: The stage that the parts belong to.
        plans: The parts to build.
        damaged_paths: Paths, in the store, of files that are known to be damaged. A part with such a file is rebuilt.

    Returns:
        All parts, in the order of `plans`.

    Raises:
        FileFault: If raw files cannot be read. It is raised after the other parts have been built, and reports all
            such files.

    Any other exception of `build_part` stops the build at once.
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
    """Return a part if this artifact has its record and all of its files, else None.

    Args:
        place: The store.
        stage: The artifact's stage.
        plan: The part's plan. A part that was written from another plan is not returned.
        sizes: Size in bytes of each file of the artifact, by its path in the store.
    """
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
    """Check that a rebuilt part has the same rows as the published one. Do nothing if the part is not published.

    Args:
        place: The store.
        stage: The stage that the part belongs to.
        rebuilt: The new part.

    Raises:
        NotReproducible: If the rows differ. The new files are deleted first.
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
    """Return the parts in the published manifest of the artifact in `folder`; () if it is missing or damaged."""
    try:
        return read_manifest_at(place, read_manifest_address(place, folder)).parts
    except (FileNotFoundError, Damaged):
        return ()


def list_contents(part: Part) -> list[tuple[str, str]]:
    """Return the (table name, content) of each file of a part, both as strings.

    The content of a file is its number of rows and a digest of them. Two builds of a part return equal lists if their
    rows are equal.
    """
    return [(file.table, str(file.content)) for file in part.files]


def publish_stage(place: Place, stage: Stage, survey: Survey, parts: Iterable[Part] = ()) -> Manifest:
    """Write the manifest of a stage after all of its parts are finished. Before that, readers do not see the artifact.

    The manifest is written atomically. If two runs publish the same fingerprint, both succeed, because they write the
    same bytes.

    Args:
        place: The store.
        stage: The stage to publish.
        survey: The result of `survey_stage` from before the build. If it has a manifest, that manifest is returned.
        parts: Results of `build_parts`. Missing parts that are not given here are read from their records.

    Returns:
        The published manifest, including its digest.

    Raises:
        ValueError: If a part is not finished.
        LedgerError: If the ledger of a part does not balance.
        InputError: If the manifest cannot be written.
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
    """Build all missing parts of a stage in this process, publish the artifact, and return its manifest.

    Raises:
        FileFault: If raw files cannot be read.
        NotReproducible: If a rebuilt part has different rows than the published one.
        LedgerError: If the counts of a part do not balance.
        InputError: If the store cannot be read or written, or contains files of an incompatible version of this
            program.

    Exceptions raised by the stage's build function are propagated unchanged.
    """
    survey = survey_stage(place, stage)
    return publish_stage(place, stage, survey, build_parts(place, stage, survey.missing))
