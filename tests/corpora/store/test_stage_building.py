"""Stages built otherwise: in other groups and orders, by two publishers at once, and parts that fail."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from toy_stage import Job, build_squares, calls_of, toy_stage

from corpora.store.ledger import Account, Ledger, LedgerError
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import (
    PartPlan,
    Stage,
    build_part,
    build_parts,
    build_stage,
    publish_stage,
    survey_stage,
)
from corpora.store.worker_pool import WorkerPool


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
    assert publish_stage(place, stage, survey_stage(place, stage)).to_bytes() == expected
    assert str(tmp_path).encode() not in expected


def test_two_publishers_both_end_right(either_place: Place, calls: Path, tmp_path: Path) -> None:
    stage = toy_stage(parts=3, job=Job(calls=calls, company=2))
    manifests: list[bytes] = []
    with WorkerPool(2) as pool:

        def run() -> None:
            manifests.append(pool.run(build_stage, either_place, stage).to_bytes())

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


def test_a_part_writes_each_table_once_and_a_stage_names_each_part_once(place: Place) -> None:
    def twice(writer: PartWriter, plan: PartPlan) -> Ledger:
        for data in (b"one", b"other"):
            writer.write_file("same.txt", data)
        return Ledger()

    with pytest.raises(AssertionError, match=r"writes same\.txt twice"):
        build_stage(place, toy_stage(parts=1, build=twice))
    stage = toy_stage()
    with pytest.raises(AssertionError, match="two parts of toys/squares have one name"):
        replace(stage, parts=(stage.parts[0], stage.parts[0]))
