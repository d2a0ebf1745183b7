"""A run under Prefect: builds stages side by side as tasks, and reports them to the run and its page.

A stage that the store holds whole becomes one task run in the state Reused; any other becomes range tasks and a
publishing task, which leaves the ledger, and samples of what was dropped, as table artifacts. The tasks run on threads
that wait for the workers. A record that ends its worker and a damaged file do not end the run: it goes through its
stages again, without the record (`flows/run/faults/quarantine.py`), without the file if it is a raw one
(`flows/run/faults/skipped_files.py`), or with the file built again (`flows/run/faults/rebuild_damaged.py`).
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, State, StateType
from prefect.logging.handlers import APILogWorker
from prefect.runtime import flow_run
from prefect.states import Cancelled
from prefect.task_runners import ThreadPoolTaskRunner

from corpora.errors import FileFault, InputError
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest, Part
from corpora.store.stage import PartPlan, Stage, Survey
from corpora.store.workers.pool import PoolClosed, WorkerDied
from flows.orchestration.pages.markdown import Living, show_once, show_tags
from flows.orchestration.pages.page_artifacts import (
    conclusion,
    flow_called,
    flow_run_at,
    parameters_of,
    report_command,
    report_shown,
    run_called,
    run_tags,
    show_lineage,
)
from flows.orchestration.runs.run_state import RunState
from flows.orchestration.runs.tasks import (
    Doing,
    FlowTasks,
    LoneTasks,
    answer_range,
    build_range,
    finish_stage,
    learn_range,
    plainly,
    state_of,
    train_range,
)
from flows.orchestration.server.api_recorder import FlowEnd, leave, recording
from flows.orchestration.server.embedded import is_of_home
from flows.run.faults.quarantine import MOST, no_record_to_blame, quarantine_record
from flows.run.faults.rebuild_damaged import run_past_damage
from flows.run.faults.skipped_files import leave_out
from flows.run.inputs.unread_files import with_lost
from flows.run.pipeline import Outcome, run_recipe
from flows.run.plan.plan import explain
from flows.run.policies import PROGRESS_SECONDS, RECORD_SECONDS, RETRIES, even_groups, most_ranges, ranges
from flows.run.record.counts_text import progress_text
from flows.run.record.run_record import StageHistory
from flows.signals import answer_signals, give_way, last_word

Fault = TypeVar("Fault", bound=Exception)

IN_FLOW = FlowTasks()
WORK = {"models": train_range, "tasks": learn_range, "answers": answer_range}  # what the workers do not do
UNFINISHED = [kind for kind in StateType if kind not in TERMINAL_STATES]
LOOK_SECONDS = 0.2  # between two looks at the tasks of a run on the server
SETTLED_LOOKS = 3  # without an unfinished task, after which none is still on its way
CLOSING_SECONDS = 4.0  # for the tasks of a stopped run to be closed: less than `flows.signals.WORDS_SECONDS`


def run_flow(run: RunState) -> Outcome:
    """Carry out a run as a flow of its own, or without one if no server answers. Raises what a stage raised.

    The flow's parameters are what a person wants to see of it; the rest it takes from its context, because Prefect
    sends parameters to its server.
    """
    ended = FlowEnd()
    threads: Any = ThreadPoolTaskRunner(max_workers=threads_for(run.pool.workers))

    @flow(
        name=flow_called(run.recipe.name),
        flow_run_name=plainly(run_called(run.recipe.name)),
        task_runner=threads,
        persist_result=False,
    )
    def cloze(recipe_name: str, recipe_toml: str) -> State[Outcome]:
        """One run of a recipe."""
        with closed_when_stopped():
            return ended.keep(lambda: state_of(lambda: perform_recipe(run), run.conclude, lambda: run.end_name))

    state = ended.whatever(lambda: cloze(**parameters_of(run.recipe), return_state=True))
    if state is None:
        return run_alone(run)
    if state.state_details.flow_run_id is not None:
        wait_until_recorded(state.state_details.flow_run_id)
    outcome: Outcome = state.result(raise_on_failure=True)
    return outcome


def run_alone(run: RunState) -> Outcome:
    """Carry out a run without a server. Raises what a stage raised."""
    with ThreadPoolExecutor(threads_for(run.pool.workers)) as threads:
        try:
            return perform_recipe(run, LoneTasks(threads))
        finally:
            threads.shutdown(cancel_futures=True)


@contextmanager
def closed_when_stopped() -> Iterator[None]:
    """Let a signal during the block, in a flow, stop the process as `flows.signals` says, and close the run.

    Prefect handles SIGTERM itself when it starts a flow: it would end the flow and wait for its tasks.
    """
    answer_signals()
    with last_word(partial(close_flow_run, flow_run.id)):
        yield


def close_flow_run(id: str | None) -> None:
    """Record that a flow run and its unfinished tasks were stopped, if there is one: nobody else will.

    A task that has just begun takes a moment to reach the server, so the search continues until no more arrive.
    """
    if id is None:  # the run has no orchestrator
        return
    stopped: State[None] = Cancelled(message="Stopped by a signal; what is finished is kept.")
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(id), stopped, force=True)
        await_tasks(client, UUID(id), CLOSING_SECONDS, stopped)


def await_tasks(client: SyncPrefectClient, flow_run_id: UUID, seconds: float, end: State[None] | None = None) -> None:
    """Wait until no unfinished task run of a flow run arrives any more, but at most some seconds.

    end: the state that each is put into
    """
    unfinished = TaskRunFilter.model_validate({"state": {"type": {"any_": UNFINISHED}}})
    of_flow = FlowRunFilter.model_validate({"id": {"any_": [flow_run_id]}})
    deadline, settled = time.monotonic() + seconds, 0
    while settled < SETTLED_LOOKS and time.monotonic() < deadline:
        tasks = client.read_task_runs(flow_run_filter=of_flow, task_run_filter=unfinished)
        if end is not None:
            for task in tasks:
                client.set_task_run_state(task.id, end, force=True)
        settled = 0 if tasks else settled + 1
        time.sleep(LOOK_SECONDS)


def threads_for(workers: int) -> int:
    """Return how many tasks wait for the workers at once: they do no work themselves."""
    return max(16, 2 * workers)


def perform_recipe(run: RunState, tasks: FlowTasks | LoneTasks = IN_FLOW) -> Outcome:
    """Carry out a run inside the flow run that this is called in, if any, and show it on that run's page."""
    name, run.manifests = run.recipe.name, {}
    progress = Living(key=f"progress-{name}")
    progress.show(0.0, f"{name}: parts built")
    if isinstance(tasks, FlowTasks):
        show_run(run)
    performer = Performer(run, progress, tasks)
    outcome = run_past_damage(lambda: run_and_judge(performer), run.mending)
    progress.show(100.0, f"{name}: {conclusion(outcome)}")
    show_lineage(name, list(run.manifests.values()), report_command(run.place, run.run_id))
    return outcome


def show_run(run: RunState) -> None:
    """Tag the flow run, and link its page to the report of the run, and the report to the page."""
    mine, id = recording(), flow_run.id
    assert mine is not None and id is not None, "a flow run is recorded"
    show_tags(UUID(id), run_tags(run.recipe, "builds"))
    run.flow_run = flow_run_at(mine.address, id, mine.embedded)
    report = report_shown(run.place, run.run_id, id, mine.embedded or is_of_home(mine.address), run.tell)
    show_once(f"report-{run.recipe.name}", report, f"{run.recipe.name}: the report of this run")


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
        except FileFault as fault:
            before = run.lock
            run.lock = leave_out(recipe, before, [fault, *performer.take_unreadable()], run.warn)
            run.looked = with_lost(run.looked, before, run.lock)


class Performer:
    """Builds stages of a run side by side, and reuses what is whole."""

    def __init__(self, run: RunState, progress: Living, tasks: FlowTasks | LoneTasks) -> None:
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
        surveys = [self.run.ahead.survey_of(stage) or mending.survey(self.run.place, stage) for stage in stages]
        # All before the first is built: a stage is compared with what existed, as in `cloze plan`.
        for stage, survey in zip(stages, surveys, strict=True):
            self._begin(stage, survey)
        builds = [Build(stage, survey, self) for stage, survey in zip(stages, surveys, strict=True)]
        try:
            self._build_missing(builds)
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
        if survey.missing and stage.kind == "models" and (notice := stage.facts.get("notice")):
            self.run.warn(f"{stage.stage_folder}: {notice}")
        self._planned += len(survey.missing)

    def _build_missing(self, builds: "Sequence[Build]") -> None:
        missing, most = sum(len(build.survey.missing) for build in builds), most_ranges(self._ranges)
        for build in builds:
            share = most * len(build.survey.missing) // max(1, missing)
            self._ranges += build.submit(share)

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
        self._waiting: list[tuple[Doing, int]] = []
        self._parts: list[Part] = []

    def submit(self, most: int) -> int:
        """Give what is missing to the workers, by at most so many tasks; return how many tasks there are."""
        missing = self.survey.missing
        if not missing:
            return 0
        self._performer.advance(self, 0)
        pieces = ranges(missing, self._run.pool.workers, self._run.range_size)
        if self.stage.kind in WORK:  # its parts take all cores, one after another
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
        name = self.stage.stage_folder if self.survey.manifest is not None else f"{self.stage.stage_folder}: publish"
        manifest = self._performer.tasks.do(
            name, partial(finish_stage, self._run, self.stage, self.survey, self._parts)
        )
        assert isinstance(manifest, Manifest)
        return manifest

    def _submit(self, pieces: Sequence[Sequence[PartPlan]]) -> Doing:
        give_way()  # no task begins while the run is being stopped
        first, last = pieces[0][0].name, pieces[-1][-1].name
        span = first if first == last else f"{first}..{last}"
        distrusted = frozenset(self._run.mending.distrusted)
        if work := WORK.get(self.stage.kind):
            todo = partial(work, self._run, self.stage, pieces[0], distrusted)
        else:
            todo = partial(build_range, self._run, self.stage, pieces, distrusted)
        return self._performer.tasks.submit(f"{self.stage.stage_folder}: {span}", todo)


def _fault_of(doing: Doing) -> Exception | None:
    """Return what a piece of work raises, once it has ended."""
    try:
        doing.result()
    except Exception as error:  # of any kind: the caller looks for one
        return error
    return None


def wait_until_recorded(flow_run_id: UUID) -> None:
    """Wait until every task run of a flow run is on record in a final state, but at most RECORD_SECONDS."""
    mine = recording()
    if mine is not None and mine.lost:
        return
    APILogWorker.drain_all(timeout=RECORD_SECONDS)
    with get_client(sync_client=True) as client:
        leave(lambda: await_tasks(client, flow_run_id, RECORD_SECONDS))
