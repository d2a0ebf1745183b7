"""TensorBoard: each step is shown once, whatever became of the run, and without the package one paragraph says so."""

import sys
from pathlib import Path
from typing import Any

import pytest

from corpora.errors import InputError
from trainer.metrics import MetricsLog
from trainer.tensorboard import FOLDER, TensorBoard, iter_scalars


def scalars(work: Path) -> dict[str, list[tuple[int, float]]]:
    """Return what TensorBoard reads of a run: step and value by tag."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(work / FOLDER), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(e.step, round(e.value, 3)) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def log_of(work: Path, speaks: bool = True) -> MetricsLog:
    """A log that is shown in TensorBoard."""
    pytest.importorskip("tensorboard")
    return MetricsLog(work, speaks, TensorBoard(work) if speaks else None)


def say_steps(log: MetricsLog, first: int, end: int, loss: float = 1.0) -> None:
    """Steps with a loss."""
    for step in range(first, end):
        log.write_event("step", step, masked_loss=loss, phase=0)
    if log._board is not None:
        log._board.flush()


def test_a_run_that_was_cut_shows_each_step_once(tmp_path: Path) -> None:
    """Fails if steps after the checkpoint are shown twice, or those before it are lost."""
    log = log_of(tmp_path)
    log.cut(-1)
    say_steps(log, 1, 8)
    log.flush()
    again = log_of(tmp_path)
    again.cut(4)
    say_steps(again, 5, 10, loss=2.0)
    wanted = [*((step, 1.0) for step in range(1, 5)), *((step, 2.0) for step in range(5, 10))]
    assert scalars(tmp_path)["step/masked_loss"] == wanted
    assert len([*(tmp_path / FOLDER).iterdir()]) == 2  # so there was something to take back


def test_a_run_that_begins_again_shows_nothing_of_before(tmp_path: Path) -> None:
    """Fails if what a damaged run showed stays."""
    log = log_of(tmp_path)
    log.cut(-1)
    say_steps(log, 1, 5)
    again = log_of(tmp_path)
    again.cut(-1)
    say_steps(again, 1, 3, loss=2.0)
    assert scalars(tmp_path)["step/masked_loss"] == [(1, 2.0), (2, 2.0)]


def test_events_are_shown_by_name_components_on_their_own() -> None:
    """Fails if a text or the step becomes a curve, a number is lost, or what was no number becomes one."""
    event: dict[str, Any] = {"event": "evaluation", "step": 3, "masked_loss": 2, "name": "x", "norm": None}
    event["components"] = {"wiki": {"masked_loss": 1.5}}
    (name, values), (component, of_component) = iter_scalars(event)
    assert (name, component, of_component) == ("evaluation", "evaluation of wiki", {"masked_loss": 1.5})
    assert values.keys() == {"masked_loss", "norm"} and values["masked_loss"] == 2 and values["norm"] != values["norm"]
    assert [*iter_scalars({"event": "checkpoint", "step": 3, "seconds": 1.0})] == []


def test_without_the_package_one_paragraph_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a traceback tells it, or nothing does."""
    for name in [*sys.modules]:
        if "tensorboard" in name.split(".")[:3]:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # as where it is not installed
    with pytest.raises(
        InputError, match=r"package tensorboard is missing where the model is trained: install the extra"
    ):
        TensorBoard(tmp_path)
