"""Stores of format 1: a store of today is written as format 1 wrote it, and must come back byte for byte."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_stage import toy_stage

from corpora.errors import InputError
from corpora.store.damage import digest_in, seal, unseal
from corpora.store.migration import Migration, migrate_store
from corpora.store.places import Place
from corpora.store.stage import build_parts, build_stage

OTHER = toy_stage(parts=5, name="other")


def contents(place: Place) -> dict[str, bytes]:
    """Every file of a store."""
    root = Path(place.address)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def write_as_format_1(place: Place) -> None:
    """Take from manifests and records what format 1 did not have."""
    for path, data in contents(place).items():
        if path.endswith(".json"):
            fields = unseal(data, path)
            if path.endswith("/manifest.json"):
                fields["format_version"] = 1
                fields["parts"] = [without(part, "record") for part in fields["parts"]]
            else:
                fields = without(fields, "format_version", "checks")
            place.write(path, (json.dumps(fields, indent=1, ensure_ascii=False) + "\n").encode())


def without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


@pytest.fixture
def whole(place: Place) -> dict[str, bytes]:
    """What a store of format 2 has, which `place` has as of format 1.

    Two artifacts, the second of which points to parts of the first and calls one of them otherwise; a third that was
    never published; tokens.
    """
    build_stage(place, toy_stage(parts=3, part_settings={}))
    longer = toy_stage(parts=5, part_settings={}, settings={"again": True})
    pointing = build_stage(place, replace(longer, parts=(replace(longer.parts[0], name="first"), *longer.parts[1:])))
    assert sum(not part.paths[0].startswith(pointing.fingerprint) for part in pointing.parts) == 3
    build_stage(place, OTHER)
    unpublished = toy_stage(parts=2, per_part=7)
    build_parts(place, unpublished, unpublished.parts)
    before = contents(place)
    write_as_format_1(place)
    after = contents(place)
    assert {path for path in before if before[path] != after[path]} == {path for path in before if ".json" in path}
    return before


def test_a_migrated_store_is_one_that_was_built_so(place: Place, whole: dict[str, bytes]) -> None:
    """Fails where any byte of any document differs from what a build writes today."""
    done = migrate_store(place)
    assert contents(place) == whole
    documents = [path for path in whole if path.endswith(".json")]
    manifests = [path for path in documents if path.endswith("/manifest.json")]
    assert done == Migration(
        artifacts=len(manifests), parts=len(documents) - len(manifests), given_up=(), faults=(), left=()
    )


class Killed(BaseException):
    """The process ends here."""


def test_killed_after_any_write_it_ends_right(
    place: Place, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where what was written before a kill is not understood, or is believed to be more than it is."""
    write, old, left = Place.write, contents(place), 0

    def write_some(self: Place, path: str, data: bytes) -> None:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1
        write(self, path, data)

    number = sum(path.endswith(".json") for path in whole)
    for survived in range(number):
        for path, data in old.items():
            write(place, path, data)
        left = survived
        monkeypatch.setattr(Place, "write", write_some)
        with pytest.raises(Killed):
            migrate_store(place)
        monkeypatch.setattr(Place, "write", write)
        stamped = [path for path, data in contents(place).items() if path.endswith(".json") and digest_in(data)]
        assert len(stamped) == survived
        migrate_store(place)
        assert contents(place) == whole
    assert number > 10


def test_a_damaged_file_keeps_its_manifests_as_they_are(place: Place, whole: dict[str, bytes]) -> None:
    """Fails where damage is sealed in, or keeps more than the artifacts that name it from being stamped."""
    folder = toy_stage(part_settings={}).folder  # the later artifact points to its parts
    path = f"{folder}/part-01.numbers.arrow"
    data = whole[path]
    place.write(path, data[:200] + bytes([data[200] ^ 1]) + data[201:])
    old = contents(place)
    done = migrate_store(place)
    assert [fault.path for fault in done.faults] == [path]
    assert f"{folder}/manifest.json" in done.left and (len(done.left), done.artifacts) == (2, 1)
    after = contents(place)
    changed = {name for name in whole if after[name] != whole[name]}
    assert changed == {path, f"{folder}/parts/part-01.json", *done.left}
    assert all(after[name] == old[name] for name in changed)
    place.write(path, data)
    assert migrate_store(place).faults == () and contents(place) == whole


def test_without_its_manifest_a_damaged_part_is_given_up(place: Place, whole: dict[str, bytes]) -> None:
    """Fails where the advice for a damaged file leads to a store that no run can read, or to damage that is used."""
    folder = OTHER.folder
    path = f"{folder}/part-04.squares.arrow"
    place.write(path, b"other bytes")
    assert migrate_store(place).left == (f"{folder}/manifest.json",)
    place.delete(f"{folder}/manifest.json")
    done = migrate_store(place)
    assert (done.given_up, done.faults, done.left) == ((f"{folder}/parts/part-04.json",), (), ())
    build_stage(place, OTHER)
    assert contents(place) == whole


def test_a_lost_record_is_made_from_the_manifest(place: Place, whole: dict[str, bytes]) -> None:
    """Fails where a record that format 1 could do without keeps a store from being stamped."""
    place.delete(f"{OTHER.folder}/parts/part-02.json")
    assert migrate_store(place).faults == ()
    assert contents(place) == whole


def test_a_damaged_document_is_named(place: Place, whole: dict[str, bytes]) -> None:
    """Fails where a manifest with a changed setting, or one that was cut, is sealed."""
    first, second = (path for path in whole if path.endswith("/manifest.json") and not path.startswith(OTHER.folder))
    place.write(first, place.read(first).replace(b'"settings": {', b'"settings": {"divisor": 4,'))
    place.write(second, place.read(second)[:-40])
    done = migrate_store(place)
    assert {fault.path for fault in done.faults} == {first, second}
    assert done.artifacts == 1


def test_a_later_format_is_not_touched(place: Place, whole: dict[str, bytes]) -> None:
    """Fails where a store that a later version wrote is changed by this one."""
    path = next(path for path in whole if path.endswith("/manifest.json"))
    later = json.loads(place.read(path))
    place.write(path, seal(json.dumps({**later, "format_version": 3}, indent=1).encode()))
    old = contents(place)
    with pytest.raises(InputError, match="has format version 3"):
        migrate_store(place)
    assert contents(place) == old
