"""Manifests: what an artifact is, in one JSON document that carries its own digest.

An artifact is its manifest. `fingerprint` identifies what was requested (and names the artifact's folder), and
`content` what came out. A manifest holds no time, host, duration or absolute path: the same inputs give the same
manifest, byte for byte, anywhere. Times belong to the run.

A part is finished when its record exists. The record contains what the part's line in the manifest says, and digests of
every piece of its tables, with which readers verify what they read (`tables.py`). The manifest names the record by its
digest, so that a chain of digests leads from a manifest to every byte.

Cost of a record: some 120 bytes and 2 microseconds of reading for each record batch and ten of its columns.
"""

import gc
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.damage import Damaged, explain_parse_errors, find_digest, seal, unseal
from corpora.store.digests.arrow_layout import TableChecks
from corpora.store.digests.content import Content, sum_contents
from corpora.store.ledger import Ledger, sum_ledgers
from corpora.store.places.place import Place

FORMAT_VERSION = 2


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_LINE = json.JSONEncoder(ensure_ascii=False)
_RECORD_PATH_DEPTH = 5  # KIND/NAME/FINGERPRINT/parts/RECORD
_MAX_CACHED_RECORDS = 4_096  # records that a process remembers: a shard opens every part of its generation


def compute_fingerprint(**facts: Json) -> str:
    """Return the first 24 hexadecimal digits of the SHA-256 of the keyword arguments, serialized as canonical JSON.

    Raises:
        ValueError: If a number is NaN or infinite.

    >>> compute_fingerprint(a=1, b=[2]) == compute_fingerprint(b=[2], a=1)
    True
    """
    return fingerprint_json({name: to_canonical_json(fact) for name, fact in facts.items()})


def to_canonical_json(value: Json) -> str:
    """Serialize a value as JSON with sorted keys and without spaces.

    Raises:
        ValueError: If a number is NaN or infinite.

    >>> to_canonical_json({"b": [1, None], "a": "ü"})
    '{"a":"ü","b":[1,null]}'
    """
    return _CANONICAL.encode(value)


def fingerprint_json(facts: Mapping[str, str]) -> str:
    """Compute the fingerprint of facts with values that are already serialized with `to_canonical_json`.

    The result is the same as that of `compute_fingerprint`, but settings that many parts share need to be serialized
    only once.
    """
    pairs = ",".join(f"{_CANONICAL.encode(name)}:{fact}" for name, fact in sorted(facts.items()))
    return hashlib.sha256(f"{{{pairs}}}".encode()).hexdigest()[:24]


def stage_folder(kind: str, name: str) -> str:
    """Return the folder, relative to the store, that contains all artifacts of a given kind and name.

    >>> stage_folder("documents", "pages")
    'documents/pages'
    """
    return f"{kind}/{name}"


def _sort_keys(value: Json) -> Json:
    """Return a copy with all nested mappings sorted by key, so that equal values serialize to equal bytes."""
    if isinstance(value, Mapping):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return [_sort_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """The description of one file in a manifest. The file belongs to a part (a set of files of an artifact).

    Attributes:
        path: Path relative to the stage's folder, `KIND/NAME`. It may point into another artifact's folder.
        table: Name of the table that the rows in the file belong to, or "files" if it is not a table.
        content: Number of rows and a digest of them.
        size_bytes: Size of the file.
        sha256: SHA-256 of the file's bytes, in hexadecimal digits.
    """

    path: str
    table: str
    content: Content
    size_bytes: int
    sha256: str

    def to_json(self) -> dict[str, Json]:
        """Convert this description to the JSON object that is stored in manifests and part records.

        Its keys are the attributes. The value of `content` is its `str`.
        """
        fields = {"path": self.path, "table": self.table, "content": str(self.content)}
        return {**fields, "size_bytes": self.size_bytes, "sha256": self.sha256}

    @staticmethod
    def from_json(data: Mapping[str, Json]) -> "StoredFile":
        """Create a StoredFile from the JSON object that `to_json` returns.

        Raises:
            KeyError, TypeError: If a field is missing or unknown.
            ValueError: If `content` is malformed.
        """
        return StoredFile(**{**data, "content": Content.parse(data["content"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAddress:
    """The location of a part record, the document that marks a part (a set of files) as finished.

    Attributes:
        path: Path relative to the stage's folder, `KIND/NAME`.
        digest: The digest that the record must have.
    """

    path: str
    digest: str

    def to_json(self) -> dict[str, str]:
        """Convert to the JSON object that is stored in manifests, with the keys `path` and `digest`."""
        return {"path": self.path, "digest": self.digest}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A finished part of an artifact: a set of files that are built, resumed and reused together.

    Attributes:
        name: Name of the part, unique in the artifact.
        fingerprint: Hash of what was requested: the part's slice of the input, and the settings and libraries that
            affect it.
        files: The files of the part.
        ledger: Counts of the part's inputs and their outcomes.
        labels: The split, source and generation (update of the raw files) that the part belongs to, if applicable.
        record: The location of the part's record; None if the record has not been written yet.
    """

    name: str
    fingerprint: str
    files: tuple[StoredFile, ...]
    ledger: Ledger
    labels: Mapping[str, str] = field(default_factory=dict)
    record: RecordAddress | None = None

    @property
    def content(self) -> str:
        """A digest of the rows of all tables: 24 hexadecimal digits. The fingerprints of dependent parts include it."""
        return compute_fingerprint(**_to_tables_json(_sum_tables([self])))

    def count_rows(self, table: str) -> int:
        """Return the number of rows of a table; 0 if the part does not have the table."""
        return sum(file.content.rows for file in self.files if file.table == table)

    def to_json(self) -> dict[str, Json]:
        """Convert this part to the JSON object that is stored in manifests and part records.

        Its keys are the attributes. `record` is omitted if it is None.
        """
        files = [file.to_json() for file in self.files]
        fields = {"name": self.name, "fingerprint": self.fingerprint, "labels": dict(sorted(self.labels.items()))}
        record = {} if self.record is None else {"record": self.record.to_json()}
        return {**fields, "files": files, "ledger": self.ledger.to_json(), **record}

    @staticmethod
    def from_json(data: Mapping[str, Json]) -> "Part":
        """Create a Part from the JSON object that `to_json` returns.

        Raises:
            KeyError, TypeError: If a field is missing or unknown.
            ValueError: If the content of a file is malformed.
        """
        files = tuple(StoredFile.from_json(file) for file in data["files"])
        record = RecordAddress(**data["record"]) if "record" in data else None
        return Part(**{**data, "files": files, "ledger": Ledger.from_json(data["ledger"]), "record": record})

    @property
    def paths(self) -> list[str]:
        """The paths of the part's files and its record, relative to the stage's folder."""
        return [*(file.path for file in self.files), *([self.record.path] if self.record is not None else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """An input of an artifact: another artifact, or raw input.

    Attributes:
        role: Kind of the parent artifact, or the role of the raw input.
        name: Name of the artifact or input.
        fingerprint: Fingerprint of the artifact, or SHA-256 of the raw input.
        label: Distinguishes parents with the same role and name, e.g. by generation (update of the raw files). "" if
            that is not needed.
    """

    role: str
    name: str
    fingerprint: str
    label: str = ""

    @property
    def folder(self) -> str:
        """The folder of the parent artifact, relative to its store. Meaningless for raw input."""
        return f"{stage_folder(self.role, self.name)}/{self.fingerprint}"

    def to_json(self) -> dict[str, str]:
        """Convert to the JSON object that is stored in manifests, with the attributes as keys.

        An empty `label` is omitted.
        """
        fields = {"role": self.role, "name": self.name, "fingerprint": self.fingerprint}
        return {**fields, "label": self.label} if self.label else fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestAddress:
    """Identifies one version of a manifest by folder and digest. It is small, so that it can be sent to workers.

    Attributes:
        folder: The folder of the artifact, relative to its store.
        digest: The digest that the manifest must have.
    """

    folder: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The description of an artifact (the result of a stage): what was requested, its inputs, and its files.

    Attributes:
        kind: Kind of the artifact, e.g. "documents".
        name: Name of the artifact.
        build_version: Version of the code that built it.
        fingerprint: Hash of the request, i.e. of everything that determines the artifact's bytes.
        settings: The settings that determine its bytes.
        parents: The artifacts and raw inputs from which it was built.
        libraries: Name and version of each library that affects its bytes.
        parts: The finished parts (sets of files), in order.
        facts: Information for readers that the rows do not contain, e.g. the vocabulary size.
        digest: Digest at the end of the manifest file. "" if the manifest was neither read from a store nor published.
    """

    kind: str
    name: str
    build_version: int
    fingerprint: str
    settings: Mapping[str, Json]
    parents: tuple[Parent, ...]
    libraries: Mapping[str, str]
    parts: tuple[Part, ...]
    facts: Mapping[str, Json] = field(default_factory=dict)
    digest: str = field(default="", compare=False)  # of its file, where it was read from one

    @property
    def stage_folder(self) -> str:
        """The folder, relative to the store, of all artifacts of this kind and name: `KIND/NAME`.

        Paths of files in the manifest are relative to it.
        """
        return stage_folder(self.kind, self.name)

    @property
    def folder(self) -> str:
        """The folder of this artifact, relative to its store: `KIND/NAME/FINGERPRINT`."""
        return f"{self.stage_folder}/{self.fingerprint}"

    @property
    def address(self) -> ManifestAddress:
        """The address to pass to `read_manifest_at`. The manifest must have been read from a store or published."""
        assert self.digest, f"the manifest of {self.folder} is in no store"
        return ManifestAddress(folder=self.folder, digest=self.digest)

    @cached_property
    def tables(self) -> dict[str, Content]:
        """The content (number of rows and a digest of them) of each table over all parts, by table name.

        The contents do not depend on how the rows are divided into parts.
        """
        return _sum_tables(self.parts)

    @cached_property
    def content(self) -> str:
        """A digest of the rows of all tables: 24 hexadecimal digits.

        How the rows are divided into parts does not affect it.
        """
        return compute_fingerprint(**_to_tables_json(self.tables))

    @cached_property
    def ledger(self) -> Ledger:
        """The sum of the ledgers of all parts.

        Raises:
            LedgerError: If the ledger of a part does not balance.
        """
        return sum_ledgers(part.ledger for part in self.parts)

    def as_parent(self, label: str = "") -> Parent:
        """Return a reference to this artifact, for use as a parent of another stage.

        Args:
            label: Distinguishes it from other parents with the same kind and name; "" if that is not needed.
        """
        return Parent(role=self.kind, name=self.name, fingerprint=self.fingerprint, label=label)

    def count_rows(self, table: str) -> int:
        """Return the number of rows of a table, over all parts; 0 if no part has the table."""
        return self.tables.get(table, Content()).rows

    def to_bytes(self) -> bytes:
        """Serialize the manifest as JSON, with one line per part and a digest of the document at the end."""
        data: dict[str, Json] = {
            "kind": self.kind,
            "name": self.name,
            "format_version": FORMAT_VERSION,
            "build_version": self.build_version,
            "fingerprint": self.fingerprint,
            "content": self.content,
            "tables": _to_tables_json(self.tables),
            "settings": _sort_keys(self.settings),
            "parents": [parent.to_json() for parent in self.parents],
            "libraries": dict(sorted(self.libraries.items())),
            "facts": _sort_keys(self.facts),
            "ledger": self.ledger.to_json(),
        }
        described = json.dumps(data, indent=1, ensure_ascii=False).removesuffix("\n}")
        parts = ",\n".join(f"  {_LINE.encode(part.to_json())}" for part in self.parts)
        return seal(f'{described},\n "parts": [\n{parts}\n ]\n}}\n'.encode())

    @staticmethod
    def from_bytes(data: bytes, path: str) -> "Manifest":
        """Parse and verify a manifest from the bytes returned by `to_bytes`.

        Args:
            data: All bytes of the manifest.
            path: Path in the store, for error messages.

        Raises:
            Damaged: If the bytes are not a complete manifest or do not match their digest.
            InputError: If it was written by an incompatible version of this program.
        """
        with pause_garbage_collection(), explain_parse_errors(path, "a manifest"):
            fields = parse_document(data, path)
            for derived in ("content", "tables", "ledger"):
                del fields[derived]
            fields["parents"] = tuple(Parent(**parent) for parent in fields["parents"])
            fields["parts"] = tuple(Part.from_json(part) for part in fields["parts"])
            return Manifest(**fields, digest=find_digest(data))

    def with_parts(self, parts: tuple[Part, ...]) -> "Manifest":
        """Return a copy with the given parts (sets of files).

        The digest of the copy is "", because it is not stored anywhere.
        """
        return replace(self, parts=parts, digest="")


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Disable Python's garbage collector inside the block, and enable it again afterwards if it was enabled.

    This avoids repeated collections while many long-lived objects are created.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def parse_document(data: bytes, path: str) -> dict[str, Json]:
    """Verify and parse a manifest or part record.

    Args:
        data: All bytes of the document.
        path: Path in the store, for error messages.

    Returns:
        The fields of the document, without its digest and format version.

    Raises:
        Damaged: If the document is incomplete or does not match its digest.
        InputError: If its format version is not supported.
    """
    if not find_digest(data):
        _check_not_format_1(data, path)
    fields = unseal(data, path)
    if (version := fields.pop("format_version")) != FORMAT_VERSION:
        raise InputError(
            f"{path} has format version {version}, and this version of the program reads {FORMAT_VERSION}: use the "
            "version that wrote it, or another store."
        )
    return fields


def _check_not_format_1(data: bytes, path: str) -> None:
    """Reject a document of format version 1, which has no digest. Any other document is accepted.

    Part records of that format do not contain a version, so they are recognized by their fields.

    Args:
        data: All bytes of the document. They need not be valid JSON.
        path: Path in the store, for the error message.

    Raises:
        InputError: If the document has format version 1.
    """
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(fields, dict) and "fingerprint" in fields and fields.get("format_version", 1) == 1:
        raise InputError(
            f"{path} is of format 1, and this version reads format {FORMAT_VERSION}: give the recipe another store, "
            "and `cloze run` builds everything there."
        )


def _sum_tables(parts: Sequence[Part]) -> dict[str, Content]:
    """Return the content (number of rows and a digest of them) of each table over the given parts, sorted by name."""
    contents: dict[str, list[Content]] = {}
    for part in parts:
        for file in part.files:
            contents.setdefault(file.table, []).append(file.content)
    return {table: sum_contents(of_table) for table, of_table in sorted(contents.items())}


def _to_tables_json(tables: Mapping[str, Content]) -> dict[str, str]:
    return {table: str(content) for table, content in tables.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """The document that marks a part (a set of files of an artifact) as finished.

    Attributes:
        part: The part.
        checks: The digests of each Arrow file, by the file's path as in `StoredFile.path`.
    """

    part: Part
    checks: Mapping[str, TableChecks]

    def to_bytes(self) -> bytes:
        """Serialize the record as JSON, with a digest of the document at the end."""
        fields = replace(self.part, record=None).to_json()
        checks = {path: table.to_json() for path, table in self.checks.items()}
        document = {"format_version": FORMAT_VERSION, **fields, "checks": checks}
        return seal(json.dumps(document, ensure_ascii=False).encode())

    @staticmethod
    def from_bytes(data: bytes, path: str, address: str) -> "PartRecord":
        """Parse and verify a part record from the bytes returned by `to_bytes`.

        Args:
            data: All bytes of the record.
            path: Path in the store, for error messages.
            address: Path relative to the stage's folder. It becomes the path in `part.record`.

        Raises:
            Damaged: If the bytes are not a complete record or do not match their digest.
            InputError: If it was written by an incompatible version of this program.
        """
        with explain_parse_errors(path, "the record of a part"):
            fields = parse_document(data, path)
            checks = {name: TableChecks.from_json(table) for name, table in fields.pop("checks").items()}
            return PartRecord(part=_parse_part(fields, data, address), checks=checks)


def part_record_path(artifact: str, name: str) -> str:
    """Return the path of the record of a part (a set of files of an artifact), relative to the stage's folder.

    Args:
        artifact: Fingerprint of the artifact that the part was built for.
        name: Name of the part.

    >>> part_record_path("77d5", "00000")
    '77d5/parts/00000.json'
    """
    return f"{artifact}/parts/{name}.json"


def is_part_record(path: str) -> bool:
    """Return True if a path, relative to the store, has the form of a part record's path. No file is read.

    >>> is_part_record("documents/pages/77d5/parts/00000.json"), is_part_record("documents/parts/77d5/manifest.json")
    (True, False)
    >>> is_part_record("documents/pages/parts/manifest.json"), is_part_record("documents/parts/77d5/parts/00000.json")
    (False, True)
    """
    pieces = path.split("/")
    return len(pieces) == _RECORD_PATH_DEPTH and pieces[-2] == "parts" and path.endswith(".json")


def read_part_record(place: Place, stage_folder: str, address: str) -> PartRecord:
    """Read the record of a part: the document that describes the part's files and has the digests of their pieces.

    Args:
        place: The store.
        stage_folder: The folder of the stage in the store, `KIND/NAME`.
        address: Path of the record, relative to `stage_folder`.

    Raises:
        FileNotFoundError: If there is no such record.
        Damaged: If the record is damaged or modified.
        InputError: If it cannot be read, or was written by an incompatible version of this program.
    """
    path = f"{stage_folder}/{address}"
    return place.read_checked(path, lambda data: PartRecord.from_bytes(data, path, address))


def read_part(place: Place, stage_folder: str, address: str) -> Part:
    """Read the description of a part from its record, without the digests of the files' pieces.

    This is faster than `read_part_record`, which also parses the digests.

    Args:
        place: The store.
        stage_folder: The folder of the stage in the store, `KIND/NAME`.
        address: Path of the record, relative to `stage_folder`.

    Raises:
        FileNotFoundError: If there is no such record.
        Damaged: If the record is damaged or modified.
        InputError: If it cannot be read, or was written by an incompatible version of this program.
    """
    path = f"{stage_folder}/{address}"

    def parse(data: bytes) -> Part:
        with explain_parse_errors(path, "the record of a part"):
            fields = parse_document(data, path)
            del fields["checks"]
            return _parse_part(fields, data, address)

    return place.read_checked(path, parse)


def _parse_part(fields: Mapping[str, Json], data: bytes, address: str) -> Part:
    return Part.from_json({**fields, "record": {"path": address, "digest": find_digest(data)}})


def read_checks(place: Place, stage_folder: str, part: Part) -> Mapping[str, TableChecks]:
    """Read the digests with which the Arrow files of a part are verified. The last few thousand results are cached.

    Args:
        place: The store.
        stage_folder: The folder of the stage in the store, `KIND/NAME`.
        part: The part (a set of files); its `record` must not be None.

    Returns:
        Maps the path of each Arrow file, as in `StoredFile.path`, to its digests.

    Raises:
        Damaged: If the part's record is missing, damaged, or not the one that the part refers to.
    """
    assert part.record is not None, f"part {part.name} of {stage_folder} is in no store"
    return _read_checks_at(place, stage_folder, part.record)


@lru_cache(maxsize=_MAX_CACHED_RECORDS)
def _read_checks_at(place: Place, stage_folder: str, record: RecordAddress) -> Mapping[str, TableChecks]:
    path = f"{stage_folder}/{record.path}"
    try:
        stored = read_part_record(place, stage_folder, record.path)
    except FileNotFoundError as error:
        raise Damaged(path, "it is gone") from error
    assert stored.part.record is not None
    if stored.part.record.digest != record.digest:
        raise Damaged(path, "its digest is not the one that the manifest names")
    return stored.checks
