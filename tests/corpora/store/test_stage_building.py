"""Stages built otherwise: in other groups and orders, by two publishers at once, and parts that fail."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from toy_stage import Job, build_squares, calls_of, toy_stage

from corpora.store.digests.content import content_of
from corpora.store.ledger import Account, Ledger, LedgerError
from corpora.store.manifest import Manifest
from corpora.store.part_record import read_record
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import (
    PartPlan,
    Stage,
    build_part,
    build_parts,
    build_stage,
    library_versions,
    publish,
    survey_stage,
)
from corpora.store.workers.pool import WorkerPool


def one_by_one(place: Place, stage: Stage) -> None:
    for plan in stage.parts:
        build_part(place, stage, plan)


def backwards_in_ranges(place: Place, stage: Stage) -> None:
    for start in (4, 1, 0):
        build_parts(place, stage, stage.parts[start : start + 3])


def side_by_side(place: Place, stage: Stage) -> None:
    threads = [threading.Thread(target=build_part, args=(place, stage, plan)) for plan in stage.parts[::-1]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("build", [one_by_one, backwards_in_ranges, side_by_side])
def test_grouping_and_order_of_building_do_not_matter(
    place: Place, tmp_path: Path, build: Callable[[Place, Stage], None]
) -> None:
    stage = toy_stage(parts=6)
    build(place, stage)
    assert survey_stage(place, stage).missing == ()
    expected = build_stage(Place(str(tmp_path / "other" / "folder")), stage).to_bytes()
    assert publish(place, stage, survey_stage(place, stage)).to_bytes() == expected
    assert str(tmp_path).encode() not in expected


def test_two_publishers_on_threads_both_end_right(place: Place, calls: Path, tmp_path: Path) -> None:
    stage = toy_stage(job=Job(calls=calls))
    together = threading.Barrier(2, timeout=120)

    def in_step(writer: PartWriter, plan: PartPlan) -> Ledger:
        together.wait()
        ledger = build_squares(writer, plan)
        together.wait()
        return ledger

    manifests: list[Manifest] = []
    racing = replace(stage, build=in_step)
    threads = [threading.Thread(target=lambda: manifests.append(build_stage(place, racing))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = build_stage(Place(str(tmp_path / "alone")), toy_stage()).to_bytes()
    assert [manifest.to_bytes() for manifest in manifests] == [expected, expected]
    assert calls_of(calls) == sorted(["part-00", "part-01", "part-02", "part-03"] * 2)
    left = {path.suffix for path in Path(place.address).rglob("*") if path.is_file()}
    assert left == {".arrow", ".json"}


def test_two_publishers_on_processes_both_end_right(place: Place, calls: Path, tmp_path: Path) -> None:
    stage = toy_stage(parts=3, job=Job(calls=calls, company=2))
    manifests: list[bytes] = []
    with WorkerPool(2) as pool:

        def run() -> None:
            manifests.append(pool.run(build_stage, place, stage).to_bytes())

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expected = build_stage(Place(str(tmp_path / "alone")), toy_stage(parts=3)).to_bytes()
    assert manifests == [expected, expected]
    assert len(calls_of(calls)) == 6  # both were at work on the same parts


def test_a_part_whose_ledger_does_not_balance_is_not_finished(place: Place) -> None:
    def lose_one(writer: PartWriter, plan: PartPlan) -> Ledger:
        build_squares(writer, plan)
        return Ledger(accounts=(Account(unit="numbers", total=10, outcomes={"kept": 9}),))

    stage = toy_stage(build=lose_one)
    with pytest.raises(LedgerError, match="10 numbers came in and 9 are accounted for"):
        build_stage(place, stage)
    assert survey_stage(place, stage).done == {}


def test_a_table_that_fails_half_way_is_not_there(place: Place) -> None:
    def fail(writer: PartWriter, plan: PartPlan) -> Ledger:
        with writer.table("numbers", pa.schema([("number", pa.int64())])) as rows:
            rows.write(pa.record_batch({"number": [1]}))
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        build_stage(place, toy_stage(build=fail))
    assert place.sizes("") == {}


def test_rows_of_another_schema_are_refused(place: Place) -> None:
    def mistake(writer: PartWriter, plan: PartPlan) -> Ledger:
        with writer.table("numbers", pa.schema([("number", pa.int64())])) as rows:
            rows.write(pa.record_batch({"number": pa.array([1], pa.int32())}))
        return Ledger()

    with pytest.raises(pa.ArrowInvalid, match="schema"):
        build_stage(place, toy_stage(build=mistake))


def test_a_part_writes_each_table_once_and_a_stage_names_each_part_once(place: Place) -> None:
    def twice(writer: PartWriter, plan: PartPlan) -> Ledger:
        for data in (b"one", b"other"):
            writer.file("same.txt", data)
        return Ledger()

    with pytest.raises(AssertionError, match=r"writes same\.txt twice"):
        build_stage(place, toy_stage(parts=1, build=twice))
    stage = toy_stage()
    with pytest.raises(AssertionError, match="two parts of toys/squares have one name"):
        replace(stage, parts=(stage.parts[0], stage.parts[0]))


def test_batches_and_compression_are_the_writers_choice_and_content_is_not(place: Place) -> None:
    def cut(writer: PartWriter, plan: PartPlan) -> Ledger:
        with writer.table("numbers", pa.schema([("number", pa.int64())]), compression=plan.job[0]) as rows:
            rows.write(pa.table({"number": range(100)}).combine_chunks())
        with writer.table("again", pa.schema([("number", pa.int64())]), compression=plan.job[0]) as rows:
            for start in range(0, 100, plan.job[1]):
                rows.write(pa.record_batch({"number": range(start, start + plan.job[1])}))
        return Ledger()

    contents = set()
    for job in (("zstd", 10), (None, 50), ("lz4", 100)):
        part = build_part(place, toy_stage(build=cut), PartPlan(name="p", key=0, job=job))
        contents |= {file.content for file in part.files}
    assert contents == {content_of(pa.table({"number": range(100)}))}


def test_the_record_is_the_part(place: Place) -> None:
    stage = toy_stage(parts=1)
    part = build_part(place, stage, stage.parts[0])
    record = read_record(place, "toys/squares", f"{stage.fingerprint}/parts/part-00.json")
    assert record.part == part
    assert record.part.fingerprint == stage.part_fingerprint(stage.parts[0])


def test_library_versions_are_those_installed() -> None:
    assert library_versions("pyarrow", "numpy") == {"numpy": np.__version__, "pyarrow": pa.__version__}
