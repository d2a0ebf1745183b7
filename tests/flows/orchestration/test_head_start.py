"""What is built before the orchestrator answers takes nothing from the run, and adds nothing to it."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from corpora.store.ledger import Ledger
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, Survey
from flows.orchestration.runs.head_start import HeadStart

LONG = 30.0


def build_nothing(*_: Any) -> Ledger:
    raise AssertionError("the engine is given what is to be built, and decides")


PLANS = tuple(PartPlan(name=name, key=name) for name in "abc")
STAGE = Stage(
    kind="documents",
    name="few",
    build_version=1,
    settings={},
    parents=(),
    libraries={},
    parts=PLANS,
    build=build_nothing,
)
SURVEY = Survey(manifest=None, done={}, missing=PLANS)


@dataclass
class HeldEngine:
    """An engine whose calls last until they are let go; then each raises."""

    workers: int = 2
    begun: list[str] = field(default_factory=list)
    is_at_work: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)

    def run(self, function: Callable[..., Any], place: Place, stage: Stage, plans: Sequence[PartPlan]) -> Any:
        self.begun += [plan.name for plan in plans]
        self.is_at_work.set()
        self.let_go.wait(LONG)
        raise OSError("the disk is full")

    def signs(self) -> object:
        return ()


@pytest.fixture
def engine() -> HeldEngine:
    return HeldEngine()


def test_the_run_takes_over(engine: HeldEngine, tmp_path: Path) -> None:
    """Fails where a part is begun after the run has, or waited for in vain, or an error comes from elsewhere."""
    ahead = HeadStart([(STAGE, SURVEY)])
    with ahead.begun(Place(str(tmp_path)), engine):
        assert engine.is_at_work.wait(LONG)
        assert ahead.survey_of(STAGE) is SURVEY
        assert ahead.survey_of(STAGE) is None, "a second look is the run's own"
        ahead.wait_for(STAGE, PLANS[1:])  # which are not under way
        waiting = threading.Thread(target=ahead.wait_for, args=(STAGE, PLANS[:1]))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        engine.let_go.set()
        waiting.join(LONG)
        assert not waiting.is_alive()
    assert engine.begun == ["a"]


def test_a_run_that_ends_early_begins_nothing_more(engine: HeldEngine, tmp_path: Path) -> None:
    """Fails where a server that cannot be started leaves parts that are built on and on."""
    ahead = HeadStart([(STAGE, SURVEY)])
    with pytest.raises(KeyboardInterrupt), ahead.begun(Place(str(tmp_path)), engine):
        assert engine.is_at_work.wait(LONG)
        raise KeyboardInterrupt
    engine.let_go.set()
    ahead.wait_for(STAGE, PLANS)
    assert engine.begun == ["a"]
