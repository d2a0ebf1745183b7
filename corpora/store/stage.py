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

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from corpora.store.content import Content, content_of
from corpora.store.ledger import Ledger
from corpora.store.manifest import Json, Manifest, Parent, Part, StoredFile, fingerprint, stage_folder
from corpora.store.places import Place

MANIFEST = "manifest.json"


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

    `damaged` names the parts that a manifest promises and whose files are gone or of another size.
    """

    manifest: Manifest | None
    done: Mapping[str, Part]
    missing: tuple[PartPlan, ...]
    damaged: tuple[str, ...] = ()
    pointed: int = 0


def library_versions(*names: str) -> dict[str, str]:
    """The installed versions of the libraries that decide a stage's bytes."""
    return {name: version(name) for name in sorted(names)}


def read_manifest(place: Place, folder: str) -> Manifest | None:
    """The manifest in an artifact's folder, or None where nothing is published."""
    try:
        return Manifest.from_bytes(place.read(f"{folder}/{MANIFEST}"))
    except FileNotFoundError:
        return None


def list_manifests(place: Place, kind: str, name: str) -> list[Manifest]:
    """Every published artifact of a kind and name, in order of fingerprint."""
    paths = sorted(path for path in place.sizes(stage_folder(kind, name)) if path.endswith(f"/{MANIFEST}"))
    return [Manifest.from_bytes(place.read(path)) for path in paths]


def missing_files(sizes: Mapping[str, int], folder: str, part: Part) -> list[str]:
    """The files of a part that are not there or not of their recorded size."""
    return [file.path for file in part.files if sizes.get(f"{folder}/{file.path}") != file.size_bytes]


def survey_stage(place: Place, stage: Stage) -> Survey:
    """Compare what is asked for with what the store holds. Reads one listing and the records, no data."""
    sizes = place.sizes(stage.stage_folder)
    published = read_manifest(place, stage.folder)
    promised = published.parts if published is not None else ()
    damaged = tuple(part.name for part in promised if missing_files(sizes, stage.stage_folder, part))
    if published is not None and not damaged:
        return Survey(manifest=published, done={part.name: part for part in promised}, missing=())
    found = _finished_parts(place, stage, sizes, published)
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
    )


def _finished_parts(
    place: Place, stage: Stage, sizes: Mapping[str, int], published: Manifest | None
) -> dict[str, Part]:
    """Finished parts with all their files, by part fingerprint: this artifact's own before those of others.

    Those of others: what a manifest names, and what an artifact that was never published has finished.
    """
    folder = f"{stage.folder}/"
    manifests = [path for path in sorted(sizes) if path.endswith(f"/{MANIFEST}")]
    whole = tuple(path.removesuffix(MANIFEST) for path in manifests if not path.startswith(folder))
    records = [path for path in sorted(sizes) if _is_record(path) and not path.startswith(whole)]
    unpublished = [path for path in records if not path.startswith(folder)]
    own = [path for path in records if path.startswith(folder)]
    found = [_read_record(place, path) for path in unpublished]
    found += [part for path in whole for part in Manifest.from_bytes(place.read(f"{path}{MANIFEST}")).parts]
    found += published.parts if published is not None else ()
    found += [_read_record(place, path) for path in own]
    return {part.fingerprint: part for part in found if not missing_files(sizes, stage.stage_folder, part)}


def _is_record(path: str) -> bool:
    """Whether a path of a store is the record of a finished part."""
    return path.endswith(".json") and "/parts/" in path


def _read_record(place: Place, path: str) -> Part:
    return Part.from_json(json.loads(place.read(path)))


class PartWriter:
    """Where a build function puts the rows and files of one part.

    place: the store that it reads from; `out`: the store that it writes to, the same one unless a part is built
    again only to be compared
    """

    def __init__(self, place: Place, out: Place, folder: str, artifact: str, part: PartPlan) -> None:
        self.place = place
        self._out = out
        self._folder = folder
        self._artifact = artifact
        self._part = part
        self.files: list[StoredFile] = []

    @contextmanager
    def table(self, table: str, schema: pa.Schema, compression: str | None = "zstd") -> "Iterator[TableSink]":
        """An Arrow IPC file of rows; it exists once the block has ended well."""
        path = self._new_path(f"{self._part.name}.{table}.arrow")
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with self._out.create(f"{self._folder}/{path}") as sink:
            with pa.ipc.new_file(pa.PythonFile(sink, "w"), schema, options=options) as writer:
                rows = TableSink(writer)
                yield rows
            size, digest = sink.size_bytes, sink.sha256()
        self._add(path, table, rows.content, size, digest)

    def file(self, name: str, data: bytes, table: str = "files") -> None:
        """A file of another format, in the artifact's folder; its content is its bytes as one row."""
        path = self._new_path(name)
        with self._out.create(f"{self._folder}/{path}") as sink:
            sink.write(data)
        row = pa.table({"name": pa.array([name]), "data": pa.array([data], pa.large_binary())})
        self._add(path, table, content_of(row), sink.size_bytes, sink.sha256())

    def _new_path(self, name: str) -> str:
        path = f"{self._artifact}/{name}"
        assert path not in {file.path for file in self.files}, f"part {self._part.name} writes {name} twice"
        return path

    def _add(self, path: str, table: str, content: Content, size_bytes: int, sha256: str) -> None:
        file = StoredFile(path=path, table=table, content=content, size_bytes=size_bytes, sha256=sha256)
        self.files.append(file)


class TableSink:
    """Rows being written: counts them and digests their content."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self.content = Content()

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Append rows of the table's schema."""
        self.content += content_of(rows)
        self._writer.write(rows)


def build_part(place: Place, stage: Stage, plan: PartPlan, out: Place | None = None) -> Part:
    """Build one part, check its ledger, and write its record last.

    out: a store of its own for a part that is built again only to be compared
    Raises NotReproducible where a manifest promises this part with other rows: its files are removed again.
    """
    out = out or place
    writer = PartWriter(place, out, stage.stage_folder, stage.fingerprint, plan)
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
    record = json.dumps(part.to_json(), indent=1, ensure_ascii=False).encode()
    out.write(_record_path(stage, plan), record)
    return part


def build_parts(place: Place, stage: Stage, plans: Iterable[PartPlan]) -> list[Part]:
    """Build those of a range of parts that are not finished yet, one after another; returns all of the range."""
    return [_finished_part(place, stage, plan) or build_part(place, stage, plan) for plan in plans]


def _record_path(stage: Stage, plan: PartPlan) -> str:
    return f"{stage.folder}/parts/{plan.name}.json"


def _finished_part(place: Place, stage: Stage, plan: PartPlan) -> Part | None:
    """The part, where this artifact has its record and every file of it."""
    path = _record_path(stage, plan)
    if place.size(path) is None:
        return None
    part = Part.from_json(json.loads(place.read(path)))
    whole = all(place.size(f"{stage.stage_folder}/{file.path}") == file.size_bytes for file in part.files)
    return part if whole and part.fingerprint == stage.part_fingerprint(plan) else None


def _refuse_other_rows(place: Place, stage: Stage, rebuilt: Part) -> None:
    """A part built again must hold the rows that its manifest promised."""
    published = read_manifest(place, stage.folder)
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


def publish(place: Place, stage: Stage) -> Manifest:
    """Make the artifact appear, in one step, once every part is finished.

    Raises ValueError where parts are missing. Two runs that publish one fingerprint both end right: they wrote
    the same bytes.
    """
    survey = survey_stage(place, stage)
    if survey.manifest is not None:
        return survey.manifest
    if survey.missing:
        names = ", ".join(plan.name for plan in survey.missing[:5])
        raise ValueError(f"{stage.folder} lacks {len(survey.missing)} parts: {names}")
    manifest = Manifest(
        kind=stage.kind,
        name=stage.name,
        build_version=stage.build_version,
        fingerprint=stage.fingerprint,
        settings=stage.settings,
        parents=stage.parents,
        libraries=stage.libraries,
        parts=tuple(survey.done[plan.name] for plan in stage.parts),
        facts=stage.facts,
    )
    place.write(f"{manifest.folder}/{MANIFEST}", manifest.to_bytes())
    return manifest


def build_stage(place: Place, stage: Stage) -> Manifest:
    """Everything that is missing of a stage, built here in this process, and published."""
    build_parts(place, stage, survey_stage(place, stage).missing)
    return publish(place, stage)


def open_table(place: Place, stage_folder: str, part: Part, table: str) -> Iterator[pa.RecordBatch]:
    """The record batches of one table of one part. `stage_folder` is its manifest's."""
    for file in part.files:
        if file.table == table:
            with place.open(f"{stage_folder}/{file.path}") as source, pa.ipc.open_file(source) as reader:
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index)


def read_table(place: Place, manifest: Manifest, table: str) -> Iterator[pa.RecordBatch]:
    """The record batches of one table over all parts of an artifact, in order."""
    for part in manifest.parts:
        yield from open_table(place, manifest.stage_folder, part, table)
