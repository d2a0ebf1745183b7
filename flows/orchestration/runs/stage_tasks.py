"""The stages of a run as pieces of work, whoever runs them: the tasks of a Prefect flow, or threads. No orchestrator.

A stage that the store holds whole is one piece of work, in the state Reused; any other is ranges of parts and a
publishing one, which leaves the ledger, and samples of what was dropped, on the run's page. All of it runs on threads
that wait for the workers. A record that ends its worker and a damaged file do not end the run: it goes through its
stages again, without the record (`flows/run/faults/quarantine.py`), without the file if it is a raw one
(`flows/run/faults/skipped_files.py`), or with the file built again (`flows/run/faults/rebuild_damaged.py`).
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from corpora.errors import FileFault, InputError
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest, Part
from corpora.store.stage import PartPlan, Stage, Survey
from corpora.store.workers.pool import PoolClosed, WorkerDied
from flows.orchestration.pages.markdown import Living, show_once
from flows.orchestration.pages.page_artifacts import conclusion, lineage, parts_built, report_command, summary
from flows.orchestration.runs.run_state import RunState
from flows.orchestration.runs.work import (
    PendingWork,
    StageWork,
    TaskRunner,
    build_alone,
    build_range,
    complete_stage,
    fine_tune_range,
    train_range,
)
from flows.run.faults.quarantine import MOST, no_record_to_blame, quarantine_record
from flows.run.faults.rebuild_damaged import run_past_damage
from flows.run.faults.rule_limits import RefusedSources
from flows.run.faults.skipped_files import leave_damage, leave_out
from flows.run.inputs.unread_files import with_lost
from flows.run.pipeline import Outcome, run_recipe
from flows.run.plan.plan import explain
from flows.run.policies import PROGRESS_SECONDS, RETRIES, even_groups, most_ranges, ranges
from flows.run.record.counts_text import progress_text
from flows.run.record.run_record import StageHistory
from flows.run.stage_kinds import STAGES
from flows.signals import give_way

Fault = TypeVar("Fault", bound=Exception)

WATCHED = {"models": train_range, "tasks": fine_tune_range}  # what is built alone, and tells how far it is


def threads_for(workers: int) -> int:
    """Return how many tasks wait for the workers at once: they do no work themselves."""
    return max(16, 2 * workers)


def perform_recipe(run: RunState, tasks: TaskRunner) -> Outcome:
    """Carry out a run, and show on its page how far it is and what came of it. Raises what a stage raised."""
    name, run.manifests = run.recipe.name, {}
    progress = Living(key=f"progress-{name}")
    progress.show(0.0, f"{name}: parts built")
    performer = Performer(run, progress, tasks)
    outcome = run_past_damage(lambda: run_and_judge(performer), run.mending)
    progress.show(100.0, f"{name}: {conclusion(outcome)}")
    made = lineage(list(run.manifests.values()), report_command(run.place, run.run_id))
    show_once(f"lineage-{name}", made, f"{name}: what came from what, and how much of it")
    return outcome


def run_and_judge(performer: "Performer") -> Outcome:
    """Run a recipe, compare its results with the bounds, and report what crosses one. Raises what a stage raised."""
    outcome, run = run_with_quarantine(performer), performer.run
    run.judge(outcome)
    for crossed in run.crossed:
        run.warn(f"A bound is crossed: {crossed}.")
    return outcome


def run_with_quarantine(performer: "Performer") -> Outcome:
    """Run a recipe; continue without a record that ended a worker at every attempt, and without files it may skip.

    Raises what a stage raised, and InputError if workers ended for any other reason.
    """
    run, recipe = performer.run, performer.run.recipe
    quarantined = len(run.lock.quarantine)
    while True:
        try:
            return run_recipe(run.place, recipe, run.lock, performer.perform, run.warn, not run.mending.distrusted)
        except PoolClosed:
            raise
        except WorkerDied as error:
            barred = run.lock.quarantine
            to_blame = run.deaths[error.reading] > RETRIES and error.reading not in barred
            if not to_blame or len(barred) - quarantined == MOST:
                raise InputError(no_record_to_blame(error)) from error
            run.lock = quarantine_record(recipe, run.lock, error, run.tell)
        except RefusedSources as refused:
            run.lock = leave_damage(recipe, run.lock, refused, run.warn)
        except FileFault as fault:
            before = run.lock
            run.lock = leave_out(recipe, before, [fault, *performer.take_unreadable()], run.warn)
            run.looked = with_lost(run.looked, before, run.lock)


class Performer:
    """Builds stages of a run side by side, and reuses what is whole."""

    def __init__(self, run: RunState, progress: Living, tasks: TaskRunner) -> None:
        self.run = run
        self.tasks = tasks
        self._progress = progress
        self._planned = self._built = self._ranges = 0
        self._shown = time.monotonic()
        self._unreadable: list[FileFault] = []

    def perform(self, stages: Sequence[Stage]) -> list[Manifest]:
        """Return the manifests of these stages, after building what is missing. Raises what a task raised."""
        started = time.monotonic()
        mending = self.run.mending
        for stage in stages:
            mending.rewrite_records(stage)
        surveys = [mending.survey(stage) for stage in stages]
        # All before the first is built: a stage is compared with what existed, as in `cloze plan`.
        for stage, survey in zip(stages, surveys, strict=True):
            self._begin(stage, survey)
        builds = [Build(stage, survey, self) for stage, survey in zip(stages, surveys, strict=True)]
        try:
            missing, most = sum(len(build.survey.missing) for build in builds), most_ranges(self._ranges)
            for build in builds:
                self._ranges += build.submit(most * len(build.survey.missing) // max(1, missing))
            return [self._finish(build, started) for build in builds]
        except FileFault:
            self._unreadable += [other for build in builds for other in build.met(FileFault)]
            raise
        except Damaged as fault:
            for other in {other.path: other for build in builds for other in build.met(Damaged)}.values():
                if other.path != fault.path:
                    mending.distrust(other)
            raise

    def take_unreadable(self) -> list[FileFault]:
        """Return the unreadable raw files that parallel tasks met since the last call."""
        taken, self._unreadable = self._unreadable, []
        return taken

    def _begin(self, stage: Stage, survey: Survey) -> None:
        mending = self.run.mending
        faults = mending.faults_of(stage, survey)
        mending.refuse_changed_inputs(stage, survey)
        history = self.run.stages.setdefault(stage.folder, StageHistory())
        history.begin(survey, explain(stage, survey, faults), bool(faults or survey.damaged))
        if survey.manifest is None and (notice := stage.facts.get("notice")):
            self.run.warn(f"{stage.stage_folder}: {notice}")
        self._planned += len(survey.missing)

    def _finish(self, build: "Build", started: float) -> Manifest:
        finished = build.survey.manifest is not None and build.stage.folder in self.run.manifests
        manifest = build.survey.manifest if finished else build.finish()
        assert manifest is not None
        self.run.mending.trust_rebuilt(build.survey, manifest)
        if not finished:
            self.run.end_stage(manifest, time.monotonic() - started)
        self.run.put_last(build.stage.folder)
        return manifest

    def advance(self, build: "Build", number: int) -> None:
        """Count more built parts of a stage, and show the progress."""
        self._built += number
        build.built += number
        what, now = build.stage.stage_folder, time.monotonic()
        pace = self.run.advance(what, build.built, len(build.survey.missing))
        if now - self._shown >= PROGRESS_SECONDS:
            self._shown = now
            text = f"{self.run.recipe.name}: {what}: {progress_text(what, pace.said(now))}"
            self._progress.show(100.0 * self._built / max(1, self._planned), text)


class Build:
    """One stage of a run while it is built: its range tasks and their progress."""

    def __init__(self, stage: Stage, survey: Survey, performer: Performer) -> None:
        self.stage = stage
        self.survey = survey
        self.built = 0
        self._performer, self._run = performer, performer.run
        self._waiting: list[tuple[PendingWork, int]] = []
        self._parts: list[Part] = []

    def submit(self, most: int) -> int:
        """Give what is missing to the workers, by at most so many tasks; return how many tasks there are."""
        missing = self.survey.missing
        if not missing:
            return 0
        self._performer.advance(self, 0)
        pieces = ranges(missing, self._run.pool.workers)
        if STAGES[self.stage.kind].is_alone:  # its parts take all cores, one after another
            pieces = [missing]
        groups = even_groups(pieces, most)
        self._waiting = [(self._submit(group), sum(map(len, group))) for group in groups]
        return len(groups)

    def met(self, kind: type[Fault]) -> list[Fault]:
        """Wait for all ranges that are under way; return the faults of a kind that they ended with."""
        faults = (_fault_of(future) for future, _ in self._waiting)
        return [fault for fault in faults if isinstance(fault, kind)]

    def finish(self) -> Manifest:
        """Wait for the ranges, then publish; or report that the stage is reused."""
        for future, number in self._waiting:
            self._parts += future.result()
            self._performer.advance(self, number)
        give_way()
        complete = partial(complete_stage, self._run, self.stage, self.survey, self._parts)
        name, work = f"{self.stage.stage_folder}: publish", StageWork(act=complete, describe=summary)
        if self.survey.manifest is not None:
            name = self.stage.stage_folder
            work = StageWork(
                act=complete, describe=lambda made: f"whole in the store: {summary(made)}", end_name="Reused"
            )
        manifest = self._performer.tasks.do(name, work)
        assert isinstance(manifest, Manifest)
        return manifest

    def _submit(self, pieces: Sequence[Sequence[PartPlan]]) -> PendingWork:
        give_way()  # no task begins while the run is being stopped
        first, last = pieces[0][0].name, pieces[-1][-1].name
        span = first if first == last else f"{first}..{last}"
        distrusted = frozenset(self._run.mending.distrusted)
        if STAGES[self.stage.kind].is_alone:
            act = partial(WATCHED.get(self.stage.kind, build_alone), self._run, self.stage, pieces[0], distrusted)
        else:
            act = partial(build_range, self._run, self.stage, pieces, distrusted)
        return self._performer.tasks.submit(
            f"{self.stage.stage_folder}: {span}", StageWork(act=act, describe=parts_built)
        )


def _fault_of(pending: PendingWork) -> Exception | None:
    """Return what a piece of work raises, once it has ended."""
    try:
        pending.result()
    except Exception as error:  # of any kind: the caller looks for one
        return error
    return None
