"""A run for which the store holds everything: it completes without workers, a server or Prefect.

It goes through its stages with a performer that only looks, as `cloze plan` does. If every stage is whole, that was the
run. If anything must be built, repaired, left out or refused, nothing has been printed, and the run is carried out in
full.

Cost: reading the store's manifests and records, and the inputs of plans; some tenths of a second, and the report.
"""

import time
from collections.abc import Sequence

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.stage import Stage
from flows.orchestration.runs.run_state import RunState
from flows.run.faults.rebuild_damaged import DamageTracker
from flows.run.pipeline import Outcome, run_recipe
from flows.run.plan.plan import explain
from flows.run.record.run_record import StageHistory

NOTHING_NEW = "Nothing is to be built."


class Incomplete(Exception):
    """Something of a run is missing, or damaged."""


def whole_in_the_store(run: RunState) -> Outcome | None:
    """Return the outcome of a run whose store holds everything; None if it does not. Prints and writes nothing."""
    stages: dict[str, StageHistory] = {}
    manifests: dict[str, Manifest] = {}
    damage = DamageTracker(place=run.place, tell=lambda line: None, distrusted=dict(run.mending.distrusted))

    def find(stage: Stage) -> Manifest:
        if stage.folder not in manifests:
            clock = time.monotonic()
            survey = damage.survey(stage)
            if survey.manifest is None or survey.faults:
                raise Incomplete
            history = stages[stage.folder] = StageHistory()
            history.begin(survey, explain(stage, survey), damaged=False)
            history.end(survey.manifest, time.monotonic() - clock)
            manifests[stage.folder] = survey.manifest
        return manifests[stage.folder]

    def perform(wanted: Sequence[Stage]) -> list[Manifest]:
        return [find(stage) for stage in wanted]

    try:
        outcome = run_recipe(run.place, run.recipe, run.lock, perform, settle=not damage.distrusted)
    except (Incomplete, InputError):
        return None  # a full run meets the same, and reports it
    run.stages, run.manifests = stages, manifests
    return outcome
