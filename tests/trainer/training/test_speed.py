"""The speed in a line of the log: what was learned from since the line before, and only the time of that."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_training import as_rank

from trainer import watch
from trainer.learn import STEP_COUNTS, StepResult
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings
from trainer.step_log import StepReport
from trainer.watch import Speed


def test_a_line_has_the_speed_since_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a pause counts, a step is left out or counted twice, or FLOPs stay those of another phase."""
    clock = [0.0]
    measured = {0: None, 1: (1e4, 1e5), 2: (2e4, 2e5)}  # by phase; in 0 this process reads nothing
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(watch, "measure_flops", lambda model, step: measured[step.phase])
    settings = TrainingSettings(phase=(PhaseSettings(steps=1),), peak_tflops=1e-6)
    speed = Speed(settings, as_rank(0, 2))
    state: Any = SimpleNamespace(model=None)

    def take_step(phase: int) -> StepResult:
        clock[0] += 2
        counts = np.array([{"tokens": 50, "masked_tokens": 4}.get(name, 0) for name in STEP_COUNTS])
        step: Any = SimpleNamespace(counts=counts, phase=phase)
        result = StepResult(step=step, phase=phase, rate=0.1, sums=(), norm=torch.ones(()), loss_scale=None)
        speed.on_step(result, state)
        return result

    def read_line(result: StepResult, is_logged: bool = True) -> dict[str, Any]:
        line = StepReport(result=result, losses={}, norm=1.0, extra={}, is_logged=is_logged)
        speed.on_report(line)
        return line.fields

    assert "mfu" not in read_line(take_step(0))
    assert read_line(take_step(1), is_logged=False) == {}
    speed.on_pause()
    clock[0] += 1000
    speed.on_pause_end()
    found = read_line(take_step(1))
    assert (found["tokens_per_second"], found["mfu"]) == (25.0, 0.225)
    assert read_line(take_step(2))["mfu"] == 0.45
    assert [*speed.count_waiting(iter([1, 2]))] == [1, 2]
