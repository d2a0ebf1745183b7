"""The task runs of a run over thousands of parts, on any number of workers: planned here, and none of them done."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corpora.errors import FileFault
from corpora.store.ledger import Ledger
from corpora.store.manifest import Part
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage
from flows.orchestration.runs.stage_tasks import Performer
from flows.orchestration.runs.work import StageWork, build_range, build_side_by_side
from flows.run.faults.rebuild_damaged import DamageTracker
from flows.run.policies import MOST_TASKS
from flows.run.record.heartbeat import StageProgress
from flows.run.stage_kinds import STAGES


def build_nothing(writer: PartWriter, plan: PartPlan) -> Ledger:
    raise AssertionError("no part is built")


def stage_of(kind: str, name: str, parts: int) -> Stage:
    plans = tuple(PartPlan(name=f"{number:05d}", key=number) for number in range(parts))
    return Stage(
        kind=kind, name=name, build_version=1, settings={}, parents=(), libraries={}, parts=plans, build=build_nothing
    )


class Counted:
    """Counts tasks instead of doing them. pieces: of the ranges of each stage, by its folder"""

    def __init__(self) -> None:
        self.tasks = 0
        self.pieces: dict[str, list[Sequence[PartPlan]]] = {}

    def submit(self, name: str, work: StageWork) -> Any:
        self.tasks += 1
        build: Any = work.act
        assert build.func is build_range
        _, stage, pieces, _ = build.args
        self.pieces.setdefault(stage.folder, []).extend(pieces)
        return SimpleNamespace(result=lambda: [])

    def do(self, name: str, work: StageWork) -> Any:
        self.tasks += 1
        complete: Any = work.act
        return complete.args[1].promised()


def performed(folder: Path, workers: int, groups: Sequence[Sequence[Stage]]) -> Counted:
    """The tasks of a run on so many workers, group of stages by group."""
    place = Place(str(folder))
    run: Any = SimpleNamespace(
        place=place, mending=DamageTracker(place=place, tell=print), stages={}, manifests={}, warm=set(),
        pool=SimpleNamespace(workers=workers), recipe=SimpleNamespace(name="many"),
        advance=lambda stage, built, parts: StageProgress(parts=parts, built=built, first=0),
        end_stage=lambda *ended: None, put_last=lambda folder: None,
    )  # fmt: skip
    tasks = Counted()
    performer = Performer(run, SimpleNamespace(show=lambda *shown: None), tasks)  # type: ignore[arg-type]
    for stages in groups:
        performer.perform(stages)
    return tasks


@pytest.mark.parametrize("workers", [2, 64, 320])
@pytest.mark.parametrize("generations", [1, 30])
def test_a_run_has_about_a_thousand_tasks_and_work_for_every_worker(
    tmp_path: Path, workers: int, generations: int
) -> None:
    """Fails where more cores, or earlier generations that are built anew, make more task runs; or where a bound on
    these leaves a worker without work."""
    each = 2_000 // generations
    names = [f"g{number}" for number in range(generations)]
    groups = [[stage_of(kind, name, each) for name in names] for kind in ("documents", "signatures")]
    groups += [[stage_of(kind, name, each)] for name in names for kind in ("verdicts", "corpora")]
    later = [
        kind
        for kind, described in STAGES.items()
        if not described.is_alone and kind not in {"fits", "documents", "signatures", "verdicts", "corpora"}
    ]
    groups += [[stage_of(kind, "all", 2_000)] for kind in later]
    tasks = performed(tmp_path / "store", workers, groups)
    stages = [stage for group in groups for stage in group]
    assert tasks.tasks <= MOST_TASKS + 2 * len(stages)
    for stage in stages:
        built = [plan.name for piece in tasks.pieces[stage.folder] for plan in piece]
        assert built == [plan.name for plan in stage.parts]
        assert len(tasks.pieces[stage.folder]) > min(workers, each) / 2


def test_pieces_of_a_range_are_all_built() -> None:
    """Fails where a raw file that cannot be read keeps other pieces from being built, or hides another such file."""
    built: list[str] = []

    def build(name: str) -> list[Part]:
        built.append(name)
        if name in "bd":
            raise FileFault(f"{name} cannot be read", "source", name, "0" * 64, name)
        return [Part(name=name, fingerprint=name, files=(), ledger=Ledger())]

    def pieces(names: str) -> list[partial[list[Part]]]:
        return [partial(build, name) for name in names]

    assert [part.name for part in build_side_by_side(pieces("ace"))] == ["a", "c", "e"]
    with pytest.raises(FileFault) as met:
        build_side_by_side(pieces("abcd"))
    assert (met.value.file, [other.file for other in met.value.others]) == ("b", ["d"])
    assert sorted(built) == sorted("aceabcd")
