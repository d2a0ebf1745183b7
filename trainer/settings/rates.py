"""The learning rate of every step of a training. No torch."""

from trainer.settings.training import TrainingSettings


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """Return the rate of a step, counted from 0, under the schedule that it is in."""
    stretches = settings.stretches
    return next((each for each in reversed(stretches) if each.first <= step), stretches[0]).rate(step)


def decays_begin(settings: TrainingSettings) -> frozenset[int]:
    """Return the steps before which a "wsd" was constant: another run can continue what was learnt until there."""
    stretches = [stretch for stretch in settings.stretches if stretch.schedule.kind == "wsd"]
    return frozenset(stretch.first + stretch.steps - stretch.falling for stretch in stretches) - {0}
