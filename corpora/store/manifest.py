"""Manifests: what an artifact is, in one JSON document that carries its own digest.

An artifact is its manifest. `fingerprint` says what was asked (it names the artifact's folder), `content` what came
out. A manifest holds no time, host, duration or absolute path: the same inputs give the same manifest, byte for byte,
anywhere. Times belong to the run.

A part is finished when its record exists: what its line in the manifest says, and digests of every piece of its tables,
by which readers check what they read (`tables.py`). The manifest names the record by its digest, so that a chain of
digests leads from a manifest to every byte.

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
    """Return the first 24 hexadecimal digits of the sha256 of named facts in canonical JSON.

    Raises ValueError for a number that JSON does not have (NaN, infinity).

    >>> compute_fingerprint(a=1, b=[2]) == compute_fingerprint(b=[2], a=1)
    True
    """
    return fingerprint_json({name: to_canonical_json(fact) for name, fact in facts.items()})


def to_canonical_json(value: Json) -> str:
    """Return a value as JSON with sorted keys and no spaces. Raises ValueError for a number that JSON does not have.

    >>> to_canonical_json({"b": [1, None], "a": "ü"})
    '{"a":"ü","b":[1,null]}'
    """
    return _CANONICAL.encode(value)


def fingerprint_json(facts: Mapping[str, str]) -> str:
    """Return what `compute_fingerprint` returns, of facts that are in canonical JSON already.

    Many parts share the settings of their stage, which are then turned into JSON only once.
    """
    pairs = ",".join(f"{_CANONICAL.encode(name)}:{fact}" for name, fact in sorted(facts.items()))
    return hashlib.sha256(f"{{{pairs}}}".encode()).hexdigest()[:24]


def stage_folder(kind: str, name: str) -> str:
    """Return the folder, in a store, of all artifacts of one kind and name. Messages name a stage by it.

    >>> stage_folder("documents", "pages")
    'documents/pages'
    """
    return f"{kind}/{name}"


def _sort_keys(value: Json) -> Json:
    """Return a value with every table in it sorted by key, so that equal values are equal bytes."""
    if isinstance(value, Mapping):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return [_sort_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file of a part.

    path:       relative to the stage's folder, so that a manifest can name files in an older artifact's folder
    table:      the table that it holds rows of; "files" for a file that is not a table
    content:    of its rows
    size_bytes: its size
    sha256:     of its bytes, in hexadecimal digits
    """

    path: str
    table: str
    content: Content
    size_bytes: int
    sha256: str

    def to_json(self) -> dict[str, Json]:
        """Return the form that the manifest holds."""
        fields = {"path": self.path, "table": self.table, "content": str(self.content)}
        return {**fields, "size_bytes": self.size_bytes, "sha256": self.sha256}

    @staticmethod
    def from_json(data: Mapping[str, Json]) -> "StoredFile":
        """Return the file that `to_json` wrote."""
        return StoredFile(**{**data, "content": Content.parse(data["content"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAddress:
    """The path of a part's record, relative to the stage's folder, and the digest that it must have."""

    path: str
    digest: str

    def to_json(self) -> dict[str, str]:
        """Return the form that the manifest holds."""
        return {"path": self.path, "digest": self.digest}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A finished part: the unit of bytes, identity and resume.

    fingerprint: names what was asked for
    labels:      say which split, source or generation it is of
    record:      where its record is; None as long as it is in no store
    """

    name: str
    fingerprint: str
    files: tuple[StoredFile, ...]
    ledger: Ledger
    labels: Mapping[str, str] = field(default_factory=dict)
    record: RecordAddress | None = None

    @property
    def content(self) -> str:
        """One digest of the rows of its tables; a part of a later stage depends on it."""
        return compute_fingerprint(**_to_tables_json(_sum_tables([self])))

    def count_rows(self, table: str) -> int:
        """Return the number of rows of a table in this part; 0 if there is no such table."""
        return sum(file.content.rows for file in self.files if file.table == table)

    def to_json(self) -> dict[str, Json]:
        """Return the form that the manifest and the part's record hold."""
        files = [file.to_json() for file in self.files]
        fields = {"name": self.name, "fingerprint": self.fingerprint, "labels": dict(sorted(self.labels.items()))}
        record = {} if self.record is None else {"record": self.record.to_json()}
        return {**fields, "files": files, "ledger": self.ledger.to_json(), **record}

    @staticmethod
    def from_json(data: Mapping[str, Json]) -> "Part":
        """Return the part that `to_json` wrote."""
        files = tuple(StoredFile.from_json(file) for file in data["files"])
        record = RecordAddress(**data["record"]) if "record" in data else None
        return Part(**{**data, "files": files, "ledger": Ledger.from_json(data["ledger"]), "record": record})

    @property
    def paths(self) -> list[str]:
        """The paths of its files and its record, relative to the stage's folder."""
        return [*(file.path for file in self.files), *([self.record.path] if self.record is not None else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """Something that an artifact was made from: another artifact, or raw input.

    role:        the artifact's kind, or what the raw input is
    name:        its name
    fingerprint: of the artifact, or the sha256 of the raw input
    label:       tells parents of one role and name apart (the generation that one came with); "" if none need it
    """

    role: str
    name: str
    fingerprint: str
    label: str = ""

    @property
    def folder(self) -> str:
        """The folder of the artifact in its store, if the parent is one."""
        return f"{stage_folder(self.role, self.name)}/{self.fingerprint}"

    def to_json(self) -> dict[str, str]:
        """Return the form that the manifest holds."""
        fields = {"role": self.role, "name": self.name, "fingerprint": self.fingerprint}
        return {**fields, "label": self.label} if self.label else fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestAddress:
    """The folder of an artifact in its store, and the digest that its manifest must have. Jobs carry this."""

    folder: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """An artifact: what was asked for, what it was made from, and every part that came out.

    build_version: of the code that builds this kind, raised when its bytes change
    fingerprint:   names what was asked for
    settings:      those that decide its bytes
    libraries:     {name: version} of those that decide its bytes
    facts:         what readers must know and cannot see in the rows (vocabulary size, generations, length)
    digest:        of the file that it was read from; "" if it was not read from one
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
        """The folder, in its store, of all artifacts of this kind and name; the paths of files are relative to it."""
        return stage_folder(self.kind, self.name)

    @property
    def folder(self) -> str:
        """The artifact's own folder in its store."""
        return f"{self.stage_folder}/{self.fingerprint}"

    @property
    def address(self) -> ManifestAddress:
        """The address that `read_manifest_at` takes. The manifest must have been read from a store or published."""
        assert self.digest, f"the manifest of {self.folder} is in no store"
        return ManifestAddress(folder=self.folder, digest=self.digest)

    @cached_property
    def tables(self) -> dict[str, Content]:
        """{table: content} over all parts in order, however the rows were cut into parts."""
        return _sum_tables(self.parts)

    @cached_property
    def content(self) -> str:
        """One digest of the contents of all tables."""
        return compute_fingerprint(**_to_tables_json(self.tables))

    @cached_property
    def ledger(self) -> Ledger:
        """The ledgers of all parts, checked and added up. Raises LedgerError."""
        return sum_ledgers(part.ledger for part in self.parts)

    def as_parent(self, label: str = "") -> Parent:
        """Return this artifact as a parent of another one."""
        return Parent(role=self.kind, name=self.name, fingerprint=self.fingerprint, label=label)

    def count_rows(self, table: str) -> int:
        """Return the number of rows of a table over all parts; 0 if there is no such table."""
        return self.tables.get(table, Content()).rows

    def to_bytes(self) -> bytes:
        """Return the sealed JSON document, with one line per part."""
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
        """Return the manifest that `to_bytes` wrote.

        path: in the store, for messages
        Raises Damaged if the bytes are not a whole manifest, and InputError if it is of another format version.
        """
        with pause_garbage_collection(), explain_parse_errors(path, "a manifest"):
            fields = parse_document(data, path)
            for derived in ("content", "tables", "ledger"):
                del fields[derived]
            fields["parents"] = tuple(Parent(**parent) for parent in fields["parents"])
            fields["parts"] = tuple(Part.from_json(part) for part in fields["parts"])
            return Manifest(**fields, digest=find_digest(data))

    def with_parts(self, parts: tuple[Part, ...]) -> "Manifest":
        """Return the artifact with other parts. It has no digest, because it is in no store."""
        return replace(self, parts=parts, digest="")


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Turn the garbage collector off for the block, if it is on.

    It is for making many objects that all stay, through which it would go again and again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def parse_document(data: bytes, path: str) -> dict[str, Json]:
    """Return the fields of a manifest or a part's record, without digest and format version.

    path: in the store, for messages
    Raises Damaged if the document is not as it was written, and InputError if it is of another format version.
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
    """Raise InputError for a document of format 1: whole JSON without a digest.

    Its part records do not say their version.
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
    """Return the content of each table over parts in order, sorted by name."""
    contents: dict[str, list[Content]] = {}
    for part in parts:
        for file in part.files:
            contents.setdefault(file.table, []).append(file.content)
    return {table: sum_contents(of_table) for table, of_table in sorted(contents.items())}


def _to_tables_json(tables: Mapping[str, Content]) -> dict[str, str]:
    return {table: str(content) for table, content in tables.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """A part, and the checks of its tables by the paths of their files, as `StoredFile.path` has them."""

    part: Part
    checks: Mapping[str, TableChecks]

    def to_bytes(self) -> bytes:
        """Return the sealed JSON document."""
        fields = replace(self.part, record=None).to_json()
        checks = {path: table.to_json() for path, table in self.checks.items()}
        document = {"format_version": FORMAT_VERSION, **fields, "checks": checks}
        return seal(json.dumps(document, ensure_ascii=False).encode())

    @staticmethod
    def from_bytes(data: bytes, path: str, address: str) -> "PartRecord":
        """Return the record that `to_bytes` wrote.

        path:    in the store, for messages
        address: relative to the stage's folder; the part names its record by it
        Raises Damaged if the bytes are not a whole record, and InputError if it is of another format version.
        """
        with explain_parse_errors(path, "the record of a part"):
            fields = parse_document(data, path)
            checks = {name: TableChecks.from_json(table) for name, table in fields.pop("checks").items()}
            return PartRecord(part=_parse_part(fields, data, address), checks=checks)


def part_record_path(artifact: str, name: str) -> str:
    """Return the path of a part's record, relative to the stage's folder.

    artifact: the fingerprint of the artifact that built the part

    >>> part_record_path("77d5", "00000")
    '77d5/parts/00000.json'
    """
    return f"{artifact}/parts/{name}.json"


def is_part_record(path: str) -> bool:
    """Return whether a path of a store is that of a part's record.

    >>> is_part_record("documents/pages/77d5/parts/00000.json"), is_part_record("documents/parts/77d5/manifest.json")
    (True, False)
    >>> is_part_record("documents/pages/parts/manifest.json"), is_part_record("documents/parts/77d5/parts/00000.json")
    (False, True)
    """
    pieces = path.split("/")
    return len(pieces) == _RECORD_PATH_DEPTH and pieces[-2] == "parts" and path.endswith(".json")


def read_part_record(place: Place, stage_folder: str, address: str) -> PartRecord:
    """Read the record at an address, a path relative to the stage's folder.

    Raises FileNotFoundError; Damaged if it is not as it was written; InputError if it is of another format version.
    """
    path = f"{stage_folder}/{address}"
    return place.read_checked(path, lambda data: PartRecord.from_bytes(data, path, address))


def read_part(place: Place, stage_folder: str, address: str) -> Part:
    """Read the part in the record at an address, without its checks. Raises what `read_part_record` raises."""
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
    """Return the checks of a part's tables by the paths of their files; the last few thousand records are cached.

    Raises Damaged if the part's record is missing, or is not the one that the part names.
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
