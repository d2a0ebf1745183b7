"""A run under Prefect: stages built side by side as tasks, and what the run and its page are told of them.

A stage that the store holds whole becomes one task run in the state Reused; any other becomes range tasks and a
publishing task, which leaves the ledger, and samples of what was dropped, as table artifacts. The tasks run on threads
that wait for the workers. A record that ends its worker and a damaged file do not end the run: its page is followed
once more, without the record (`flows/run/quarantine.py`), without the file where it is a raw one
(`flows/run/leaving_out.py`), or with the file built again (`flows/run/mending.py`).
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, State, StateType
from prefect.logging import get_run_logger
from prefect.logging.handlers import APILogWorker
from prefect.runtime import flow_run
from prefect.states import Cancelled
from prefect.task_runners import ThreadPoolTaskRunner

from corpora.errors import InputError, UnreadableFile
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.pool import PoolClosed, WorkerDied
from corpora.store.stage import PartPlan, Stage, Survey
from flows.engines.contract import RunEngine
from flows.orchestration.journal import RunEntry, flow_called, keep, moment, new_id, writing_pages
from flows.orchestration.pages import ProgressBar, show_tags
from flows.orchestration.recording import FlowEnd, leave, recording
from flows.orchestration.reports import keep_store, report_path
from flows.orchestration.shown import (
    conclusion,
    line,
    progress_bar,
    progress_text,
    report_command,
    run_called,
    run_tags,
    show_lineage,
    show_report,
)
from flows.orchestration.tasks import (
    Doing,
    FlowTasks,
    LoneTasks,
    build_range,
    plainly,
    publish_stage,
    reuse_stage,
    state_of,
    train_range,
)
from flows.orchestration.work import Advance, Home, PartsWork, PublishWork, ReuseWork, at_home
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.examples import nothing_said
from flows.run.leaving_out import leave_out
from flows.run.mending import Mending, run_mending
from flows.run.pipeline import Outcome, run_recipe
from flows.run.policies import INTERRUPTED_SECONDS, RECORD_SECONDS, RETRIES, ranges
from flows.run.pulse import StageProgress
from flows.run.quarantine import MOST, no_record_to_blame, quarantine_record
from flows.run.reasons import explain
from flows.run.records import FlowRun, StageHistory, StageRecord
from flows.stopping import answer_signals, give_way, last_word

Fault = TypeVar("Fault", bound=Exception)

DRIFTED = "Drifted"  # the state of a run that is complete and crosses a bound of its recipe
IN_FLOW = FlowTasks()
UNFINISHED = [kind for kind in StateType if kind not in TERMINAL_STATES]
LOOK_SECONDS = 0.2  # between two looks at what the server has of the tasks of a run
SETTLED_LOOKS = 3  # without an unfinished task, and none is on its way any more
CLOSING_SECONDS = 4.0  # for the tasks of a stopped run to be closed: less than `flows.stopping.WORDS_SECONDS`


@dataclass(kw_only=True)
class RunContext:
    """What a run works with: its store, its workers, and who is told how it goes. It stays with the driver."""

    place: Place
    pool: RunEngine
    privacy: str = "text"
    range_size: int | None = None
    tell: Callable[[str], None] = print
    advance: Advance = lambda stage, built, parts: None
    stages: dict[str, StageHistory] = field(default_factory=dict)  # by the artifact's folder
    judge: Callable[[], tuple[str, ...]] = tuple  # what of the finished run crosses the bounds of its recipe, in words
    crossed: tuple[str, ...] = ()
    warm: set[str] = field(default_factory=set)
    deaths: Counter[str] = field(default_factory=Counter)  # of workers, by the record that each was reading
    lock: Lock = field(default_factory=Lock)  # as it is by now
    run_id: str = ""  # by which it is on record, if it is
    flow_run: FlowRun | None = None  # once it has begun
    logged: list[tuple[str, str]] = field(default_factory=list)  # where no orchestrator takes it: when, and what
    mending: Mending = field(init=False)

    def __post_init__(self) -> None:
        self.mending = Mending(tell=self.tell)

    def end(self) -> str:
        """The name of the state that the run ends well in: of one that crosses a bound its own, to filter by."""
        return DRIFTED if self.crossed else "Completed"

    def conclude(self, outcome: Outcome) -> str:
        """What came of the run, in a few words."""
        return "; ".join([conclusion(outcome), *self.crossed])

    @property
    def records(self) -> list[StageRecord]:
        """The stages of the run so far, in the order in which they were done."""
        return [history.record for history in list(self.stages.values()) if history.record is not None]


def run_flow(recipe: Recipe, lock: Lock, context: RunContext) -> Outcome:
    """Run a recipe as a flow of its own, and wait until the server has written it all down.

    The flow's parameters are what a person wants to see of it; the rest it finds around itself, for Prefect
    sends parameters to its server. Where none answers, it is done without one. Raises what a stage raised.
    """
    if recording() is None:
        return run_alone(recipe, lock, context)
    ended = FlowEnd()

    @flow(
        name=flow_called(recipe.name),
        flow_run_name=flow_run_name(recipe.name),
        task_runner=task_runner(context.pool.workers),
        persist_result=False,
    )
    def cloze(recipe_name: str, recipe_toml: str) -> State[Outcome]:
        """One run of a recipe."""
        with closed_when_stopped():
            return ended.keep(
                lambda: state_of(lambda: perform_recipe(recipe, lock, context), context.conclude, context.end)
            )

    state: State[Outcome] | None = ended.whatever(lambda: cloze(recipe.name, recipe.text, return_state=True))
    if state is None:
        return run_alone(recipe, lock, context)
    if state.state_details.flow_run_id is not None:
        wait_until_recorded(state.state_details.flow_run_id)
    outcome = state.result(raise_on_failure=True)
    assert isinstance(outcome, Outcome)
    return outcome


def run_alone(recipe: Recipe, lock: Lock, context: RunContext) -> Outcome:
    """Run a recipe without a server; the next one of this home takes its record from the journal.

    Raises what a stage raised: of such a run the store alone has the record.
    """
    began, id, home = moment(), new_id(), Path(os.environ["PREFECT_HOME"])
    with ThreadPoolExecutor(threads_for(context.pool.workers)) as threads, writing_pages() as pages:
        tasks = LoneTasks(threads)
        lead_to_report(recipe.name, id, context)
        try:
            outcome = perform_recipe(recipe, lock, context, tasks)
        finally:
            threads.shutdown(cancel_futures=True)
    entry = RunEntry(
        id=id,
        name=run_called(recipe.name),
        parameters={"recipe_name": recipe.name, "recipe_toml": recipe.text},
        began=began,
        ended=moment(),
        message=context.conclude(outcome),
        tasks=tuple(tasks.entries),
        pages=tuple(pages),
        tags=tuple(run_tags(recipe, "builds")),
        lines=tuple(context.logged),
    )
    keep(home, entry)
    return outcome


@contextmanager
def closed_when_stopped() -> Iterator[None]:
    """For the time of the block in a flow: a signal stops the process as `flows.stopping` says, and closes the run.

    Prefect takes SIGTERM for itself when it starts a flow, which would end the flow and wait for its tasks.
    """
    answer_signals()
    with last_word(partial(close_flow_run, flow_run.id)):
        yield


def close_flow_run(id: str | None) -> None:
    """Put on record that a flow run and its unfinished tasks were stopped, if there is one: nobody else will.

    A task that has just begun is on its way to the server for a moment, so it is looked for until none comes any more.
    """
    if id is None:  # the run does without the orchestrator
        return
    flow_run_id, deadline, settled = UUID(id), time.monotonic() + CLOSING_SECONDS, 0
    stopped: State[None] = Cancelled(message="Stopped by a signal; what is finished is kept.")
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run_id, stopped, force=True)
        while settled < SETTLED_LOOKS and time.monotonic() < deadline:
            unfinished = client.read_task_runs(**unfinished_tasks(flow_run_id))
            for task_run in unfinished:
                client.set_task_run_state(task_run.id, stopped, force=True)
            settled = 0 if unfinished else settled + 1
            time.sleep(LOOK_SECONDS)


def unfinished_tasks(flow_run_id: UUID) -> Any:
    """What to ask the server for: the task runs of a flow run that are in no final state."""
    # Those alone, and not all: the server answers with 200 at most.
    unfinished = TaskRunFilter(state=TaskRunFilterState(type=TaskRunFilterStateType(any_=UNFINISHED)))
    of_flow = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))
    return {"flow_run_filter": of_flow, "task_run_filter": unfinished}


def flow_run_name(recipe_name: str) -> str:
    """What a flow run of a recipe that begins now is called."""
    return plainly(run_called(recipe_name))


def task_runner(workers: int) -> Any:
    """Where a run's tasks wait for so many workers: threads, for they do nothing themselves."""
    return ThreadPoolTaskRunner(max_workers=threads_for(workers))


def threads_for(workers: int) -> int:
    """How many tasks wait at once."""
    return max(16, 2 * workers)


def perform_recipe(recipe: Recipe, lock: Lock, context: RunContext, tasks: FlowTasks | LoneTasks = IN_FLOW) -> Outcome:
    """Run a recipe inside of the flow run that this is called in, or of none, and show it on that run's page."""
    name = recipe.name
    progress = progress_bar(name)
    progress.show(0.0)
    if flow_run.id is not None:
        show_tags(UUID(flow_run.id), run_tags(recipe, "builds"))
        lead_to_report(name, flow_run.id, context)
    performer = Performer(context, progress, name, tasks)
    context.lock = lock
    with performer.at_work():
        outcome = run_mending(lambda: run_and_judge(recipe, performer), context.mending)
    progress.show(100.0, f"{name}: {conclusion(outcome)}")
    show_lineage(name, list(performer.manifests.values()), report_command(context.place, context.run_id))
    return outcome


def lead_to_report(recipe: str, flow_run_id: str, context: RunContext) -> None:
    """Have the page of a flow run lead to the report of the run, and the report to the page."""
    mine, path = recording(), ""
    mine = None if mine is None or mine.gone else mine
    pages = mine.flow_run_page if mine is not None else ""
    context.flow_run = FlowRun(id=flow_run_id, page=f"{pages}{flow_run_id}" if pages else "")
    if (mine is None or mine.is_own) and context.run_id:
        try:
            keep_store(Path(os.environ["PREFECT_HOME"]), flow_run_id, context.place)
            path = report_path(flow_run_id, context.run_id)
        except OSError as error:
            context.tell(f"The UI will not lead to the report of this run: {error}")
    if context.run_id:
        show_report(recipe, context.place, context.run_id, path)


def run_and_judge(recipe: Recipe, performer: "Performer") -> Outcome:
    """Run a recipe, and hold what came out to its bounds; what crosses one is said. Raises what a stage raised."""
    outcome, context = run_with_quarantine(recipe, performer), performer.context
    context.crossed = context.judge()
    for crossed in context.crossed:
        performer.say(f"A bound is crossed: {crossed}.")
    return outcome


def run_with_quarantine(recipe: Recipe, performer: "Performer") -> Outcome:
    """Run a recipe; go on without a record that ended a worker at every attempt, and without files as the recipe says.

    Raises what a stage raised, and InputError where workers ended over anything else.
    """
    context = performer.context
    before = len(context.lock.quarantine)
    while True:
        try:
            return run_recipe(context.place, recipe, context.lock, performer.perform, performer.say)
        except PoolClosed:
            raise
        except WorkerDied as error:
            barred = context.lock.quarantine
            to_blame = context.deaths[error.reading] > RETRIES and error.reading not in barred
            if not to_blame or len(barred) - before == MOST:
                raise InputError(no_record_to_blame(error)) from error
            context.lock = quarantine_record(recipe, context.lock, error, context.tell)
        except UnreadableFile as fault:
            context.lock = leave_out(recipe, context.lock, [fault, *performer.take_unreadable()], performer.say)


class Performer:
    """Builds stages side by side, reuses what is whole, and keeps the run's records."""

    def __init__(
        self, context: RunContext, progress: ProgressBar, recipe_name: str, tasks: FlowTasks | LoneTasks
    ) -> None:
        self.context = context
        self.tasks = tasks
        self.manifests: dict[str, Manifest] = {}  # by their folders
        self._progress = progress
        self._recipe = recipe_name
        self._paces: dict[str, StageProgress] = {}
        self._planned = self._built = 0
        self._unreadable: list[UnreadableFile] = []

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """For the time of the block tasks find the run's workers, and the page's log tells of damage."""
        context = self.context
        context.mending.tell = self.say
        try:
            with at_home(Home(runner=context.pool, advance=context.advance, deaths=context.deaths)):
                yield
        finally:
            context.mending.tell = context.tell

    def perform(self, stages: Sequence[Stage]) -> list[Manifest]:
        """The manifests of these stages, built where they are missing. Raises what a task raised."""
        started = time.monotonic()
        mending = self.context.mending
        surveys = [mending.survey(self.context.place, stage) for stage in stages]
        # All before the first is built: a stage is compared with what was there, as `cloze plan` compares it.
        for stage, survey in zip(stages, surveys, strict=True):
            self._begin(stage, survey)
        builds = [Build(stage, survey, self) for stage, survey in zip(stages, surveys, strict=True)]
        try:
            self._build_missing(builds)
            return [self._finish(build, started) for build in builds]
        except UnreadableFile:
            self._unreadable += [other for build in builds for other in build.met(UnreadableFile)]
            raise
        except Damaged as fault:
            for other in {other.path: other for build in builds for other in build.met(Damaged)}.values():
                if other.path != fault.path:
                    mending.distrust(other)
            raise

    def take_unreadable(self) -> list[UnreadableFile]:
        """The raw files that could not be read since this was asked last, as far as tasks met them side by side."""
        taken, self._unreadable = self._unreadable, []
        return taken

    def _begin(self, stage: Stage, survey: Survey) -> None:
        mending = self.context.mending
        faults = mending.faults_of(stage, survey)
        mending.refuse_changed_inputs(stage, survey)
        reason = explain(stage, survey, faults)
        history = self.context.stages.setdefault(stage.folder, StageHistory())
        history.begin(survey, reason, bool(faults or survey.damaged))
        self._planned += len(survey.missing)

    def _build_missing(self, builds: "Sequence[Build]") -> None:
        for build in builds:
            if build.survey.missing and build.stage.kind not in self.context.warm:
                self.context.warm.add(build.stage.kind)
                build.warm_up()
        for build in builds:
            build.submit()

    def _finish(self, build: "Build", started: float) -> Manifest:
        known = build.survey.manifest is not None and build.stage.folder in self.manifests
        manifest = build.survey.manifest if known else build.finish()
        assert manifest is not None
        self.context.mending.mended(build.survey, manifest)
        self.manifests[manifest.folder] = manifest
        if not known:
            self._note(build.stage, manifest, time.monotonic() - started)
        return manifest

    def advance(self, build: "Build", number: int) -> None:
        """More parts of a stage are there."""
        self._built += number
        build.built += number
        what = build.stage.stage_folder
        self.context.advance(what, build.built, len(build.survey.missing))
        pace = self._paces.setdefault(what, StageProgress(parts=0, built=0, first=build.built))
        pace.parts, pace.built = len(build.survey.missing), build.built
        said = f"{self._recipe}: {progress_text(f'{what}: parts', pace, time.monotonic())}"
        self._progress.show(100.0 * self._built / max(1, self._planned), said)

    def say(self, said: str) -> None:
        """A line for the terminal, and a warning in the log of the flow run."""
        self.context.tell(said)
        self._log(said, "warning")

    def _log(self, said: str, level: str = "info") -> None:
        if isinstance(self.tasks, LoneTasks):
            self.context.logged.append((moment(), " ".join(said.split())))
        else:
            getattr(get_run_logger(), level)("%s", " ".join(said.split()))

    def _note(self, stage: Stage, manifest: Manifest, seconds: float) -> None:
        record = self.context.stages[stage.folder].end(manifest, seconds)
        said = line(record, manifest)
        self.context.tell(said)
        self._log(said)
        if notice := manifest.facts.get("notice"):
            self.say(f"{stage.stage_folder}: {notice}")
        if stage.kind == "shards" and (empty := nothing_said(stage.name, manifest)):
            self.say(empty)


class Build:
    """One stage of a run while it is built: its range tasks, and how far they are."""

    def __init__(self, stage: Stage, survey: Survey, performer: Performer) -> None:
        self.stage = stage
        self.survey = survey
        self.built = 0
        self._performer = performer
        self._waiting: list[tuple[Doing, int]] = []
        self._left = survey.missing

    @property
    def _context(self) -> RunContext:
        return self._performer.context

    def warm_up(self) -> None:
        """Build the first part alone, so that kernels are compiled once and not by every worker."""
        self._performer.advance(self, 0)
        self._submit(self._left[:1]).result()
        self._performer.advance(self, 1)
        self._left = self._left[1:]

    def submit(self) -> None:
        """Give the ranges of what is left to the workers."""
        groups = ranges(self._left, self._context.pool.workers, self._context.range_size)
        self._waiting = [(self._submit(group), len(group)) for group in groups]

    def met(self, kind: type[Fault]) -> list[Fault]:
        """Wait for all ranges that are under way; the faults of a kind that they ended with."""
        ended = [future.result(raise_on_failure=False) for future, _ in self._waiting]
        return [result for result in ended if isinstance(result, kind)]

    def finish(self) -> Manifest:
        """Wait for the ranges, then publish; or say that it is reused."""
        for future, number in self._waiting:
            future.result()
            self._performer.advance(self, number)
        give_way()
        what, place, privacy = self.stage.stage_folder, self._context.place, self._context.privacy
        if self.survey.manifest is not None:
            whole = ReuseWork(place=place, manifest=self.survey.manifest, privacy=privacy)
            manifest = self._performer.tasks.do(reuse_stage, what, whole)
        else:
            ready = PublishWork.of(place, self.stage, self.survey, privacy)
            manifest = self._performer.tasks.do(publish_stage, f"{what}: publish", ready)
        assert isinstance(manifest, Manifest)
        return manifest

    def _submit(self, plans: Sequence[PartPlan]) -> Doing:
        give_way()  # no task begins where the run is being stopped
        span = plans[0].name if len(plans) == 1 else f"{plans[0].name}..{plans[-1].name}"
        work = train_range if self.stage.kind == "models" else build_range
        distrusted = frozenset(self._context.mending.distrusted)
        todo = PartsWork.of(self._context.place, self.stage, plans, distrusted)
        return self._performer.tasks.submit(work, f"{self.stage.stage_folder}: {span}", todo)


def wait_until_recorded(flow_run_id: UUID) -> None:
    """Wait until every task run of a flow run is on record in a final state, or RECORD_SECONDS are over.

    Where the API was away meanwhile, the ends of some are not on their way any more: the wait is short.
    """
    mine = recording()
    if mine is not None and mine.gone:
        return
    seconds = INTERRUPTED_SECONDS if mine is not None and mine.interrupted else RECORD_SECONDS
    deadline = time.monotonic() + seconds
    APILogWorker.drain_all(timeout=seconds)
    with get_client(sync_client=True) as client:
        settled = 0
        while time.monotonic() < deadline and settled < SETTLED_LOOKS:
            left = leave(lambda: client.read_task_runs(**unfinished_tasks(flow_run_id), limit=1))
            settled = 0 if left else settled + 1
            time.sleep(LOOK_SECONDS)
