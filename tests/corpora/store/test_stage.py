"""Stages: the same manifest whatever happened on the way, and nothing done that is not complete."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from toy_stage import Job, build_squares, calls_of, toy_stage

from corpora.store.damage import Damaged
from corpora.store.digests.content import compute_content
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Parent, compute_fingerprint
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import (
    NotReproducible,
    PartPlan,
    Stage,
    build_part,
    build_parts,
    build_stage,
    list_manifests,
    publish_stage,
    read_manifest,
    read_manifest_at,
    survey_stage,
)
from corpora.store.tables import read_part_table, read_table


def file_of(place: Place, stage: Stage, part: str, table: str = "squares") -> Path:
    return Path(place.to_full_path(f"{stage.folder}/{part}.{table}.arrow"))


def with_job(stage: Stage, job: Job) -> Stage:
    return replace(stage, parts=tuple(replace(plan, job=job) for plan in stage.parts))


def test_a_stage_is_built_published_and_read_back(place: Place) -> None:
    stage = toy_stage(parts=3, per_part=10)
    manifest = build_stage(place, stage)
    kept = [number for number in range(30) if number % 3]
    numbers = pa.Table.from_batches(read_table(place, manifest, "numbers"))
    assert numbers.column("number").to_pylist() == kept
    squares = pa.Table.from_batches(read_table(place, manifest, "squares"))
    assert squares.column("square").to_pylist() == [str(number**2) for number in kept]
    assert manifest.tables == {"numbers": compute_content(numbers), "squares": compute_content(squares)}
    assert manifest.ledger.find_account("numbers") == Account(
        unit="numbers", total=30, outcomes={"dropped: divisible": 10, "kept": 20}
    )
    assert [part.name for part in manifest.parts] == ["part-00", "part-01", "part-02"]
    assert manifest.folder == stage.folder == f"toys/squares/{stage.fingerprint}"
    second = pa.Table.from_batches(read_part_table(place, stage.stage_folder, manifest.parts[1], "numbers"))
    assert second.column("number").to_pylist() == [number for number in range(10, 20) if number % 3]
    assert read_manifest(place, manifest.folder) == manifest
    assert list_manifests(place, "toys", "squares") == [manifest]
    assert list_manifests(place, "toys", "others") == [] and read_manifest(place, "toys/others/0") is None


def test_a_manifest_is_read_once_at_its_address(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if every job of a stage reads the manifest again, or takes another one for the one it was planned by."""
    manifest = build_stage(place, toy_stage())
    reads: list[str] = []
    read = Place.read
    monkeypatch.setattr(Place, "read", lambda self, path, is_final: (reads.append(path), read(self, path))[1])
    assert (
        read_manifest_at(place, manifest.address)
        == read_manifest_at(Place(place.address), manifest.address)
        == manifest
    )
    assert reads == [f"{manifest.folder}/manifest.json"]
    with pytest.raises(Damaged, match="is not the one"):
        read_manifest_at(place, replace(manifest.address, digest="0" * 64))
    with pytest.raises(Damaged, match="it is gone"):
        read_manifest_at(place, replace(manifest.address, folder="toys/squares/other"))


def test_a_manifest_with_other_parts_has_no_address(place: Place) -> None:
    """Fails if some parts of an artifact are read as all of it."""
    manifest = build_stage(place, toy_stage())
    with pytest.raises(AssertionError, match="in no store"):
        _ = manifest.with_parts(manifest.parts[:1]).address


def test_the_fingerprint_of_a_part_is_of_all_that_decides_its_bytes() -> None:
    """Fails if what parts share is taken otherwise than `fingerprint` takes it."""
    for stage in (toy_stage(), replace(toy_stage(), part_settings={"b": [1, 0.5], "a": None})):
        part, settings = stage.parts[1], stage.settings if stage.part_settings is None else stage.part_settings
        facts = {"kind": "toys", "build_version": 1, "settings": settings, "libraries": stage.libraries}
        assert stage.compute_part_fingerprint(part) == compute_fingerprint(**facts, key=part.key, labels=part.labels)
    assert toy_stage().compute_part_fingerprint(toy_stage().parts[1]) == "100de9108fe12b6e519508a0"


def test_a_survey_tells_the_other_artifacts_that_it_read(place: Place) -> None:
    """Fails if who compares a stage with them has to read them again, or their parts are held."""
    older = build_stage(place, toy_stage(facts={}, parents=()))
    survey = survey_stage(place, toy_stage())
    assert survey.other_manifests == (older.with_parts(()),) and survey.num_reused == 4
    assert survey_stage(place, toy_stage(facts={}, parents=())).other_manifests == ()


@pytest.mark.parametrize("finished", [0, 1, 3, 4])
def test_an_interrupted_build_goes_on_with_the_rest(place: Place, calls: Path, tmp_path: Path, finished: int) -> None:
    stage = toy_stage(job=Job(calls=calls))
    whole = build_stage(Place(str(tmp_path / "uninterrupted")), toy_stage())

    def stop_at(writer: PartWriter, plan: PartPlan) -> Ledger:
        ledger = build_squares(writer, plan)
        if plan is stage.parts[finished]:
            raise KeyboardInterrupt
        return ledger

    if finished < 4:
        with pytest.raises(KeyboardInterrupt):
            build_stage(place, replace(stage, build=stop_at))
    else:
        build_parts(place, stage, stage.parts)  # all finished, not published
    survey = survey_stage(place, stage)
    assert survey.manifest is None and read_manifest(place, whole.folder) is None
    assert list(survey.done) == [plan.name for plan in stage.parts[:finished]]
    assert survey.missing == stage.parts[finished:]
    manifest = build_stage(place, stage)
    assert manifest.to_bytes() == whole.to_bytes()
    stopped = ["part-00", "part-01", "part-02", "part-03"][finished : finished + 1]
    assert calls_of(calls) == sorted(["part-00", "part-01", "part-02", "part-03", *stopped])


def test_a_range_that_is_tried_again_goes_on_where_its_records_stand(place: Place, calls: Path) -> None:
    stage = toy_stage(job=Job(calls=calls))
    worker_stage = replace(stage, parts=())
    first = build_parts(place, worker_stage, stage.parts[:2])
    assert build_parts(place, worker_stage, stage.parts)[:2] == first
    assert calls_of(calls) == ["part-00", "part-01", "part-02", "part-03"]
    file_of(place, stage, "part-02").unlink()
    build_parts(place, worker_stage, stage.parts)
    assert calls_of(calls).count("part-02") == 2 and len(calls_of(calls)) == 5


def test_a_stage_that_lacks_parts_is_not_published(place: Place) -> None:
    stage = toy_stage()
    build_parts(place, stage, stage.parts[1:3])
    with pytest.raises(ValueError, match="lacks 2 parts: part-00, part-03"):
        publish_stage(place, stage, survey_stage(place, stage))
    assert survey_stage(place, stage).manifest is None


@pytest.mark.parametrize("harm", ["delete", "cut short", "lengthen"])
@pytest.mark.parametrize("table", ["numbers", "squares"])
def test_a_damaged_part_is_named_and_only_it_is_rebuilt(place: Place, calls: Path, harm: str, table: str) -> None:
    stage = toy_stage(job=Job(calls=calls))
    before = build_stage(place, stage).to_bytes()
    path = file_of(place, stage, "part-02", table)
    data = path.read_bytes()
    if harm == "delete":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if harm == "cut short" else data + b"\0")
    survey = survey_stage(place, stage)
    assert survey.damaged == ("part-02",)
    assert survey.manifest is None and survey.missing == (stage.parts[2],)
    assert list(survey.done) == ["part-00", "part-01", "part-03"]
    assert build_stage(place, stage).to_bytes() == before
    assert place.read(f"toys/squares/{stage.fingerprint}/manifest.json") == before
    assert path.read_bytes() == data
    assert calls_of(calls) == ["part-00", "part-01", "part-02", "part-02", "part-03"]


def test_a_part_whose_record_is_lost_is_built_again(place: Place, calls: Path) -> None:
    """Its tables could not be checked any more."""
    stage = toy_stage(job=Job(calls=calls))
    before = build_stage(place, stage).to_bytes()
    Path(place.to_full_path(f"toys/squares/{stage.fingerprint}/parts/part-01.json")).unlink()
    survey = survey_stage(place, stage)
    assert survey.damaged == ("part-01",) and list(survey.done) == ["part-00", "part-02", "part-03"]
    assert build_stage(place, stage).to_bytes() == before
    assert len(calls_of(calls)) == 5


def test_a_damaged_manifest_is_passed_over_and_written_again_from_the_records(place: Place, calls: Path) -> None:
    stage = toy_stage(job=Job(calls=calls))
    before = build_stage(place, stage).to_bytes()
    path = Path(place.to_full_path(f"{stage.folder}/manifest.json"))
    path.write_bytes(path.read_bytes().replace(b"part-01", b"part-11", 1))
    assert [fault.path for fault in survey_stage(place, stage).faults] == [f"{stage.folder}/manifest.json"]
    assert build_stage(place, stage).to_bytes() == before
    assert len(calls_of(calls)) == 4


def test_a_part_that_is_known_to_be_damaged_is_built_again_with_its_size_right(place: Place, calls: Path) -> None:
    """Fails if a damaged part is given up before its replacement is written."""
    stage = toy_stage(job=Job(calls=calls))
    before = build_stage(place, stage).to_bytes()
    distrusted = [f"{stage.folder}/part-02.squares.arrow"]
    survey = survey_stage(place, stage, distrusted)
    assert survey.damaged == ("part-02",) and [plan.name for plan in survey.missing] == ["part-02"]
    build_parts(place, stage, survey.missing, distrusted)
    assert publish_stage(place, stage, survey).to_bytes() == before
    assert calls_of(calls).count("part-02") == 2 and len(calls_of(calls)) == 5


@pytest.mark.parametrize("shift", [1_000_000, 3], ids=["another size", "the same size"])
def test_a_part_rebuilt_with_other_rows_is_refused_every_time(place: Place, shift: int) -> None:
    stage = toy_stage(parts=3, per_part=6)
    manifest = build_stage(place, stage)
    before = manifest.to_bytes()
    file_of(place, stage, "part-02", "numbers").unlink()
    changed = with_job(stage, Job(shift=shift))
    other = build_part(place, changed, changed.parts[2], Place(f"{place.address}-beside"))
    sizes = [[file.size_bytes for file in part.files] for part in (manifest.parts[2], other)]
    assert (sizes[0] == sizes[1]) == (shift == 3)
    for _ in range(2):
        with pytest.raises(NotReproducible, match="part part-02 was built again and holds"):
            build_stage(place, changed)
        assert survey_stage(place, stage).damaged == ("part-02",)  # never taken for whole
    assert place.read(f"toys/squares/{stage.fingerprint}/manifest.json") == before
    assert build_stage(place, stage).to_bytes() == before


def test_the_build_function_reads_from_the_store_and_writes_elsewhere(place: Place, tmp_path: Path) -> None:
    place.write("input.txt", b"read me")

    def copy(writer: PartWriter, plan: PartPlan) -> Ledger:
        writer.write_file("copy.txt", writer.place.read("input.txt"), table="texts")
        return Ledger()

    stage = toy_stage(parts=1, build=copy)
    part = build_part(place, stage, stage.parts[0], Place(str(tmp_path / "beside")))
    file = part.files[0]
    assert (file.table, file.path, file.size_bytes) == ("texts", f"{stage.fingerprint}/copy.txt", 7)
    assert (tmp_path / "beside" / "toys" / "squares" / file.path).read_bytes() == b"read me"
    other = build_part(place, replace(stage, build=lambda w, p: copy_of(w, b"read mE")), stage.parts[0])
    assert other.files[0].content != file.content


def copy_of(writer: PartWriter, data: bytes) -> Ledger:
    writer.write_file("copy.txt", data, table="texts")
    return Ledger()


def test_parts_that_an_older_artifact_holds_are_pointed_to(place: Place, calls: Path, tmp_path: Path) -> None:
    old = build_stage(place, toy_stage(parts=3, job=Job(calls=calls)))
    grown = toy_stage(parts=4, job=Job(calls=calls), parents=(Parent(role="numbers", name="more", fingerprint="1"),))
    survey = survey_stage(place, grown)
    assert (survey.num_reused, [plan.name for plan in survey.missing]) == (3, ["part-03"])
    manifest = build_stage(place, grown)
    assert calls_of(calls) == ["part-00", "part-01", "part-02", "part-03"]
    assert manifest.parts[:3] == old.parts
    assert manifest.parts[3].files[0].path.startswith(f"{grown.fingerprint}/")
    numbers = pa.Table.from_batches(read_table(place, manifest, "numbers"))
    assert numbers.column("number").to_pylist() == [number for number in range(40) if number % 3]
    alone = build_stage(Place(str(tmp_path / "alone")), with_job(grown, Job()))
    assert (manifest.content, manifest.ledger) == (alone.content, alone.ledger)


def test_a_pointed_part_keeps_the_name_it_has_here(place: Place) -> None:
    stage = toy_stage(parts=2)
    build_stage(place, stage)
    first, second = stage.parts
    renamed = replace(
        stage,
        settings={**stage.settings, "more": 1},
        part_settings=stage.settings,
        parts=(replace(second, name="a"), replace(first, name="b")),
    )
    manifest = build_stage(place, renamed)
    assert [part.name for part in manifest.parts] == ["a", "b"]
    assert [part.files[0].path.split("/")[1][:8] for part in manifest.parts] == ["part-01.", "part-00."]


def test_a_damaged_older_part_is_not_pointed_to(place: Place, calls: Path) -> None:
    old = toy_stage(parts=3, job=Job(calls=calls))
    build_stage(place, old)
    middle = replace(old, parents=(Parent(role="numbers", name="middle", fingerprint="2"),))
    file_of(place, old, "part-01").unlink()
    build_stage(place, middle)  # builds part-01 again, in its own folder
    new = replace(old, parents=(Parent(role="numbers", name="new", fingerprint="3"),))
    survey = survey_stage(place, new)
    assert (survey.missing, survey.num_reused) == ((), 3)  # the whole one of the two is found
    assert calls_of(calls) == ["part-00", "part-01", "part-01", "part-02"]


def test_a_published_artifact_is_damaged_when_the_older_one_it_points_to_is_gone(place: Place, calls: Path) -> None:
    old = toy_stage(parts=2, job=Job(calls=calls))
    build_stage(place, old)
    new = replace(old, parents=())
    before = build_stage(place, new)
    shutil.rmtree(place.to_full_path(f"toys/squares/{old.fingerprint}"))
    assert survey_stage(place, new).damaged == ("part-00", "part-01")
    after = build_stage(place, new)
    assert after.content == before.content
    assert all(file.path.startswith(new.fingerprint) for part in after.parts for file in part.files)
    assert survey_stage(place, new).manifest == after


CHANGES: dict[str, dict[str, Any]] = {
    "kind": {"kind": "games"},
    "build version": {"build_version": 2},
    "a setting": {"settings": {"per_part": 10, "rule": {"divisor": 3, "keep": ["more"]}}},
    "one more setting": {"settings": {"per_part": 10, "rule": {"divisor": 3, "keep": ["rest"]}, "new": None}},
    "a parent": {"parents": (Parent(role="numbers", name="all", fingerprint="1" * 24),)},
    "a parent's role": {"parents": (Parent(role="digits", name="all", fingerprint="0" * 24),)},
    "one parent less": {"parents": ()},
    "a library's version": {"libraries": {"pyarrow": "2", "numpy": "2"}},
    "one library more": {"libraries": {"pyarrow": "1", "numpy": "2", "numba": "3"}},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_fingerprints_change_with_what_was_asked(change: dict[str, Any]) -> None:
    one, other = toy_stage(), toy_stage(**change)
    assert one.fingerprint != other.fingerprint
    plan = one.parts[0]
    same_part = one.compute_part_fingerprint(plan) == other.compute_part_fingerprint(plan)
    assert same_part == ("parents" in change)  # a part's key says what it is of; the parents name the whole


def test_fingerprints_do_not_change_with_anything_else() -> None:
    one = toy_stage()
    other = toy_stage(
        job=Job(shift=1, company=9),
        settings={"rule": {"keep": ["rest"], "divisor": 3}, "per_part": 10},
        libraries={"numpy": "2", "pyarrow": "1"},
        build=copy_of,
        facts={"other": 2},
    )
    assert other.fingerprint == one.fingerprint
    assert list(map(other.compute_part_fingerprint, other.parts)) == list(map(one.compute_part_fingerprint, one.parts))
    renamed = replace(one.parts[0], name="renamed")
    assert one.compute_part_fingerprint(renamed) == one.compute_part_fingerprint(one.parts[0])


def test_a_stage_without_parts_is_a_whole_artifact(place: Place) -> None:
    stage = toy_stage(parts=0)
    manifest = build_stage(place, stage)
    assert (manifest.parts, manifest.tables, manifest.ledger) == ((), {}, Ledger())
    assert survey_stage(place, stage).manifest == manifest
    assert list(read_table(place, manifest, "numbers")) == []
