"""A store of format 1 brought to format 2 in place.

Format 1 had no digests in its manifests and records, and records did not describe the batches of their tables. Here
every file is compared with the size and sha256 that format 1 kept, the records are written, and last the manifest of
each artifact, in one step. Fingerprints, contents and the files of data stay as they are.

Promise: killed at any point and begun again it ends with the same bytes; what is of format 2 is left alone. A damaged
file is named, and the manifest that names it stays of format 1.

Cost: every file is read once, for its sha256, and decoded for the content of its rows (`content.py`), which takes most
of the time.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from corpora.store.checking import describe_part, side_by_side
from corpora.store.damage import Damaged, digest_in
from corpora.store.manifest import Manifest, Parent, Part, RecordAddress, fingerprint
from corpora.store.part_record import PartRecord, is_record, record_path
from corpora.store.places import Place
from corpora.store.stage import MANIFEST

Advance = Callable[[int, int], None]  # bytes that are done, of so many


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What a migration did.

    artifacts: manifests that are of format 2 now; parts: records
    given_up:  records of parts that no manifest names and whose files are not whole: they are removed, so that the
               parts are built again where they are wanted
    faults:    what is damaged
    left:      manifests that stay of format 1, for they name a damaged file
    """

    artifacts: int
    parts: int
    given_up: tuple[str, ...]
    faults: tuple[Damaged, ...]
    left: tuple[str, ...]


@dataclass(kw_only=True)
class _Stage:
    """What the folder of a stage has: manifests of format 1 by path, records of both formats by address."""

    kind: str
    folder: str
    manifests: dict[str, Manifest] = field(default_factory=dict)
    records: dict[str, Part] = field(default_factory=dict)
    stamped: dict[str, Part] = field(default_factory=dict)
    unreadable: list[Damaged] = field(default_factory=list)
    failed: dict[str, Damaged] = field(default_factory=dict)

    @cached_property
    def addresses(self) -> dict[tuple[str, str], str]:
        """Where the record of each part of each manifest is to be, by the manifest's path and the part's name.

        Settled before anything is written. A part of another artifact keeps that one's record, where there is one; any
        other gets one in its own folder.
        """
        known: dict[str, list[str]] = {}
        for address, part in {**self.records, **self.stamped}.items():
            known.setdefault(_identity(part), []).append(address)
        claims = [(path, manifest, part) for path, manifest in self.manifests.items() for part in manifest.parts]
        addresses: dict[tuple[str, str], str] = {}
        for path, manifest, part in sorted(claims, key=lambda claim: not _is_own(claim[1], claim[2])):
            own = record_path(manifest.fingerprint, part.name)
            same = known.setdefault(_identity(part), [own])
            addresses[path, part.name] = own if own in same else min(same)
        return addresses

    def to_describe(self) -> dict[str, Part]:
        """The parts that have no record of format 2, by the address that it is to have."""
        known = {**self.records, **self.stamped}
        named = {
            self.addresses[path, part.name]: part
            for path, manifest in self.manifests.items()
            for part in manifest.parts
        }
        lost = {
            address: part
            for address, part in named.items()
            if address not in known or _identity(known[address]) != _identity(part)
        }
        return {**self.records, **lost}


def migrate_store(place: Place, advance: Advance = lambda done, total: None) -> Migration:
    """Bring everything in a store to format 2. For one process at a time.

    Raises InputError where the store may not be written, or has something of a later format.
    """
    stages = _read_stages(place)
    wanted = [(stage, address, part) for stage in stages for address, part in stage.to_describe().items()]
    total, done = sum(_size(part) for _, _, part in wanted), 0
    made = side_by_side(lambda item: _describe(place, *item), wanted)
    for (stage, address, part), record in zip(wanted, made, strict=True):
        if isinstance(record, Damaged):
            stage.failed[address] = record
        else:
            stage.stamped[address] = replace(part, record=record)
        done += _size(part)
        advance(done, total)
    written = [path for stage in stages for path in _write_manifests(place, stage)]
    return Migration(
        artifacts=len(written),
        parts=len(wanted) - sum(len(stage.failed) for stage in stages),
        given_up=tuple(path for stage in stages for path in _give_up(place, stage)),
        faults=tuple(fault for stage in stages for fault in _faults(stage)),
        left=tuple(path for stage in stages for path in stage.manifests if path not in written),
    )


def _describe(place: Place, stage: _Stage, address: str, part: Part) -> RecordAddress | Damaged:
    """Write the record of a part of format 1."""
    try:
        data = describe_part(place, stage.kind, stage.folder, part).to_bytes()
    except Damaged as damage:
        return damage
    place.write(f"{stage.folder}/{address}", data)
    return RecordAddress(path=address, digest=digest_in(data))


def _write_manifests(place: Place, stage: _Stage) -> Iterator[str]:
    """Write those manifests whose parts all have records; their paths."""
    for path, manifest in stage.manifests.items():
        addresses = [stage.addresses[path, part.name] for part in manifest.parts]
        if not stage.failed.keys() & set(addresses):
            records = [stage.stamped[address].record for address in addresses]
            parts = (replace(part, record=record) for part, record in zip(manifest.parts, records, strict=True))
            place.write(path, manifest.with_parts(tuple(parts)).to_bytes())
            yield path


def _give_up(place: Place, stage: _Stage) -> Iterator[str]:
    """Remove the records of parts that no manifest names and whose files are not whole; their paths."""
    for address in sorted(stage.failed.keys() - set(stage.addresses.values())):
        path = f"{stage.folder}/{address}"
        place.delete(path)
        yield path


def _faults(stage: _Stage) -> list[Damaged]:
    """What is damaged, and named by a manifest."""
    named = set(stage.addresses.values())
    return [*stage.unreadable, *(fault for address, fault in stage.failed.items() if address in named)]


def _size(part: Part) -> int:
    return sum(file.size_bytes for file in part.files)


def _is_own(manifest: Manifest, part: Part) -> bool:
    """Whether an artifact built a part itself."""
    return all(file.path.startswith(f"{manifest.fingerprint}/") for file in part.files)


def _identity(part: Part) -> str:
    """What two descriptions of one part have in common; artifacts may call it by different names."""
    return fingerprint(**{name: value for name, value in part.to_json().items() if name not in ("name", "record")})


def _read_stages(place: Place) -> list[_Stage]:
    """The folders of stages, with what is in them; artifacts lie at KIND/NAME/FINGERPRINT."""
    stages: dict[str, _Stage] = {}
    for path in sorted(place.sizes("")):
        pieces = path.split("/")
        if (len(pieces) == 4 and pieces[3] == MANIFEST) or is_record(path):
            folder = "/".join(pieces[:2])
            stage = stages.setdefault(folder, _Stage(kind=pieces[0], folder=folder))
            try:
                _take(place, stage, path)
            except Damaged as damage:
                stage.unreadable.append(damage)
    return list(stages.values())


def _take(place: Place, stage: _Stage, path: str) -> None:
    """Read a manifest or a record of whichever format. Raises Damaged."""
    address = path.removeprefix(f"{stage.folder}/")
    data = place.read(path)
    fields = None if digest_in(data) else _fields_of_format_1(data)
    if fields is None and is_record(path):
        stage.stamped[address] = PartRecord.from_bytes(data, path, address).part
    elif fields is None:
        Manifest.from_bytes(data, path)
    elif is_record(path):
        stage.records[address] = _old_part(fields, path)
    else:
        stage.manifests[path] = _old_manifest(fields, path)


def _fields_of_format_1(data: bytes) -> dict[str, Any] | None:
    """The fields of a manifest or record of format 1, which was plain JSON; None where it is none."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    known = isinstance(fields, dict) and "fingerprint" in fields and fields.pop("format_version", 1) == 1
    return fields if known else None


def _old_part(fields: Mapping[str, Any], path: str) -> Part:
    try:
        return Part.from_json(fields)
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(path, f"it is not what format 1 wrote ({error!r})") from error


def _old_manifest(fields: Mapping[str, Any], path: str) -> Manifest:
    """A manifest whose fields fit each other: nothing else told in format 1 whether it is whole."""
    derived = ("content", "tables", "ledger")
    try:
        parents = tuple(Parent(**parent) for parent in fields["parents"])
        parts = tuple(_old_part(part, path) for part in fields["parts"])
        described = {name: value for name, value in fields.items() if name not in derived}
        manifest = Manifest(**{**described, "parents": parents, "parts": parts})
        asked = {name: fields[name] for name in ("kind", "build_version", "settings", "parents", "libraries")}
        sound = fingerprint(**asked) == manifest.fingerprint and manifest.content == fields["content"]
    except (KeyError, TypeError) as error:
        raise Damaged(path, f"it is not what format 1 wrote ({error!r})") from error
    if not sound:
        raise Damaged(path, "its fingerprint or its content is not that of its fields")
    return manifest
