"""The record of a finished part: what its line in the manifest says, and digests of every piece of its tables.

A part is finished when its record is there; readers check by it what they read (`tables.py`). The manifest names the
record by its digest, so that a chain of digests leads from a manifest to every byte.

Cost: some 120 bytes and 2 microseconds of reading for each record batch and ten of its columns.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from corpora.store.damage import Damaged, digest_in, document, seal
from corpora.store.digests.arrow_layout import TableChecks
from corpora.store.manifest import FORMAT_VERSION, Json, Part, RecordAddress, open_document
from corpora.store.places.place import Place

_DEPTH = 5  # KIND/NAME/FINGERPRINT/parts/RECORD
_KEPT = 4_096  # records that a process remembers: a shard opens every part of its generation


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """A part, and the checks of its tables by the paths of their files."""

    part: Part
    checks: Mapping[str, TableChecks]

    def to_bytes(self) -> bytes:
        """A sealed JSON document."""
        fields = replace(self.part, record=None).to_json()
        checks = {path: table.to_json() for path, table in self.checks.items()}
        document = {"format_version": FORMAT_VERSION, **fields, "checks": checks}
        return seal(json.dumps(document, ensure_ascii=False).encode())

    @staticmethod
    def from_bytes(data: bytes, path: str, address: str) -> "PartRecord":
        """The record that `to_bytes` wrote; its part knows it by `address`, relative to the stage's folder.

        path: in the store, for messages. Raises Damaged, and InputError for one of another format.
        """
        with document(path, "the record of a part"):
            fields = open_document(data, path)
            checks = {name: TableChecks.from_json(table) for name, table in fields.pop("checks").items()}
            return PartRecord(part=_part_in(fields, data, address), checks=checks)


def record_path(artifact: str, name: str) -> str:
    """Return the path of a part's record, relative to the stage's folder. artifact: the fingerprint of its builder

    >>> record_path("77d5", "00000")
    '77d5/parts/00000.json'
    """
    return f"{artifact}/parts/{name}.json"


def is_record(path: str) -> bool:
    """True if a path of a store is the record of a finished part.

    >>> is_record("documents/pages/77d5/parts/00000.json"), is_record("documents/parts/77d5/manifest.json")
    (True, False)
    >>> is_record("documents/pages/parts/manifest.json"), is_record("documents/parts/77d5/parts/00000.json")
    (False, True)
    """
    pieces = path.split("/")
    return len(pieces) == _DEPTH and pieces[-2] == "parts" and path.endswith(".json")


def read_record(place: Place, stage_folder: str, address: str) -> PartRecord:
    """The record at an address. Raises FileNotFoundError, Damaged, and InputError for one of another format."""
    path = f"{stage_folder}/{address}"
    return PartRecord.from_bytes(place.read(path), path, address)


def read_part(place: Place, stage_folder: str, address: str) -> Part:
    """The part of the record at an address, its checks left unread. Raises what `read_record` raises."""
    path = f"{stage_folder}/{address}"
    data = place.read(path)
    with document(path, "the record of a part"):
        fields = open_document(data, path)
        del fields["checks"]
        return _part_in(fields, data, address)


def _part_in(fields: Mapping[str, Json], data: bytes, address: str) -> Part:
    return Part.from_json({**fields, "record": {"path": address, "digest": digest_in(data)}})


def checks_of(place: Place, stage_folder: str, part: Part) -> Mapping[str, TableChecks]:
    """The checks of a part's tables. Raises Damaged where its record is gone, or not the one that is named."""
    assert part.record is not None, f"part {part.name} of {stage_folder} is in no store"
    return _read_checks(place, stage_folder, part.record)


@lru_cache(maxsize=_KEPT)
def _read_checks(place: Place, stage_folder: str, record: RecordAddress) -> Mapping[str, TableChecks]:
    path = f"{stage_folder}/{record.path}"
    try:
        stored = read_record(place, stage_folder, record.path)
    except FileNotFoundError as error:
        raise Damaged(path, "it is gone") from error
    assert stored.part.record is not None
    if stored.part.record.digest != record.digest:
        raise Damaged(path, "its digest is not the one that the manifest names")
    return stored.checks
