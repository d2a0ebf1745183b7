"""The tasks of stages of many parts, planned here and none of them done; and how pieces of a stage fail."""

import threading
from collections.abc import Sequence
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
from corpora.store.worker_pool import PoolClosed, WorkerDied
from flows.orchestration.stages import StageBuild, StageBuilder, WorkResult, build_stage, is_worth_retrying, train_stage
from flows.run.faults.damage import DamageTracker
from flows.run.stage_kinds import STAGES


def build_nothing(writer: PartWriter, plan: PartPlan) -> Ledger:
    raise AssertionError("no part is built")


def stage_of(kind: str, name: str, parts: int) -> Stage:
    plans = tuple(PartPlan(name=f"{number:05d}", key=number) for number in range(parts))
    return Stage(
        kind=kind, name=name, build_version=1, settings={}, parents=(), libraries={}, parts=plans, build=build_nothing
    )


class Counted:
    """Notes tasks and flows below the run instead of doing them."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, Any]] = []
        self.below: list[tuple[str, list[str]]] = []

    def submit(self, name: str, work: Any, build: StageBuild) -> Any:
        self.tasks.append((name, work))
        return SimpleNamespace(result=build.stage.build_placeholder)

    def call_subflow(self, group: str, stages: Sequence[str], work: Any) -> Any:
        self.below.append((group, list(stages)))
        return work()


def make_run(folder: Path, workers: int, call: Any = None) -> Any:
    place = Place(str(folder / "store"))
    return SimpleNamespace(
        place=place, damage=DamageTracker(place=place, tell=print), stages={}, manifests={},
        pool=SimpleNamespace(num_workers=workers), progress_lock=threading.RLock(), call_on_worker=call,
        progress=SimpleNamespace(begin=lambda stage, missing: None), advance=lambda stage, built, parts: None,
        record_stage=lambda *ended: None, move_stage_last=lambda folder: None,
    )  # fmt: skip


ALONE = ("models", "tasks", "answers")


def test_each_stage_is_one_task_and_what_lasts_is_a_flow_below(tmp_path: Path) -> None:
    """Fails if the number of parts decides that of task runs, or training is hidden among the tasks of the run."""
    run, tasks = make_run(tmp_path, workers=64), Counted()
    builder = StageBuilder(run, tasks)  # type: ignore[arg-type]
    for kind in STAGES:
        builder.build([stage_of(kind, "one", 2_000), stage_of(kind, "two", 1)])
    names = [f"{kind}/{name}" for kind in STAGES for name in ("one", "two")]
    assert tasks.tasks == [(name, train_stage if name.startswith(ALONE) else build_stage) for name in names]
    groups = dict(zip(ALONE, ("train", "tasks", "tasks"), strict=True))
    assert tasks.below == [(group, [f"{kind}/one", f"{kind}/two"]) for kind, group in groups.items()]


def part_of(plan: PartPlan) -> Part:
    return Part(name=plan.name, fingerprint=plan.name, files=(), ledger=Ledger())


def built(folder: Path, monkeypatch: pytest.MonkeyPatch, workers: int, parts: int, call: Any) -> list[str]:
    """The parts that the task of a stage builds by calls of workers, in the order in which it publishes them."""
    stage = stage_of("documents", "all", parts)
    run = make_run(folder, workers, lambda function, place, stage, plans, distrusted: call(plans))
    build = StageBuild(run, stage, run.damage.survey(stage))
    monkeypatch.setattr("flows.orchestration.stages.publish_and_show", lambda build, parts: WorkResult(parts, ""))
    published: Any = build_stage(build)
    return [part.name for part in published.value]


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_stage_has_work_for_every_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """Fails if a worker waits while there is work, a part is built twice or not, or their order is lost."""
    together = threading.Barrier(workers, timeout=60)

    def call(plans: Sequence[PartPlan]) -> list[Part]:
        together.wait()
        return [part_of(plan) for plan in plans]

    names = [f"{number:05d}" for number in range(480)]
    assert built(tmp_path, monkeypatch, workers, 480, call) == names


def test_pieces_of_a_stage_are_all_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a raw file that cannot be read keeps other pieces from being built, or hides another such file."""
    done: list[str] = []

    def call(plans: Sequence[PartPlan]) -> list[Part]:
        [plan] = plans
        done.append(plan.name)
        if plan.name in ("00001", "00003"):
            raise FileFault(f"{plan.name} cannot be read", "source", plan.name, "0" * 64, plan.name)
        return [part_of(plan)]

    with pytest.raises(FileFault) as met:
        built(tmp_path, monkeypatch, 1, 5, call)
    assert (met.value.file, [other.file for other in met.value.others]) == ("00001", ["00003"])
    assert sorted(done) == [f"{number:05d}" for number in range(5)]


@pytest.mark.parametrize(
    ("error", "again"),
    [(WorkerDied("killed"), True), (OSError("no space"), True), (RuntimeError("the trainer died"), True),
     (PoolClosed("over"), False), (FileFault("torn", "s", "f", "0" * 64, "f"), False), (None, True)],
)  # fmt: skip
def test_what_is_tried_again(error: Exception | None, again: bool) -> None:
    """Fails if what a person has to fix is tried again, or a dead process is not, by Prefect's tasks or by threads."""
    assert is_worth_retrying(error) is again
