"""How sure the table is: intervals of one model, tests between two.

Cost: an interval draws 1,000 times, a test 10,000 times; of 10,000 examples with a class each 1 and 20 s.
"""

from trainer.tasks.scores.resampling import bootstrap_interval
from trainer.tasks.suites.judged import JudgedSplit
from trainer.tasks.suites.table import LEVEL

SEED = 1  # of what is drawn


def bounds_of(judged: JudgedSplit, metric: str) -> tuple[float, float] | None:
    """The interval of a score over its examples; None where its rows are not kept."""
    if not judged.can_draw(metric):
        return None
    found = bootstrap_interval(judged.table(), lambda rows: judged.score(rows, metric), seed=SEED, level=LEVEL)
    return found.low, found.high
