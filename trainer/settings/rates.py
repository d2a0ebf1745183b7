"""The learning rate of every step of a training. No torch."""

from trainer.settings.training import TrainingSettings


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """The rate of a step, counted from 0, under the schedule that it is in."""
    found = settings.stretches
    return next((each for each in reversed(found) if each.first <= step), found[0]).rate(step)


def decays_begin(settings: TrainingSettings) -> frozenset[int]:
    """The steps before which a "wsd" was constant, or nothing: what is learnt until there another run can go on."""
    found = [stretch for stretch in settings.stretches if stretch.schedule.kind == "wsd"]
    return frozenset(stretch.first + stretch.steps - stretch.falling for stretch in found) - {0}
