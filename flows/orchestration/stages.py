"""The stages of a run, whoever runs their tasks: a flow of Prefect, or threads. No orchestrator.

    build_stages                  the run through `run/pipeline.py`, past bad records and files
      StageBuilder.build          stages that do not depend on each other, side by side
        build_stage               the task of a stage: its missing parts, by all workers, and its publication
        train_stage               the task of a stage that a process of its own builds, which takes all cores

What a task does is a function of this file, which returns a `WorkResult`. `flow.py` makes a state of Prefect of that,
and `run_recipe.py` calls the function on a thread. The store decides what is done, so both build the same.

A record that ends its worker and a damaged file do not end the run: it goes through its stages again, without the
record (`run/faults/damage.py`), without the file if it is a raw one (`run/faults/skipped_files.py`), or with the file
built again (`run/faults/damage.py`, too).
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from corpora.errors import FileFault, InputError, raise_all
from corpora.generic_types import Result
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest, Part
from corpora.store.stage import Stage, Survey, build_parts, publish_stage
from corpora.store.worker_pool import PoolClosed, WorkerDied
from flows.engines.contract import TrainingEngine
from flows.orchestration.pages import show_ledger, summarize_manifest
from flows.orchestration.run_state import RunState
from flows.run.faults.damage import MAX_QUARANTINED, add_to_quarantine, explain_deaths
from flows.run.faults.rule_limits import RefusedSources
from flows.run.faults.skipped_files import accept_damage, leave_out
from flows.run.inputs.unread_files import with_lost
from flows.run.pipeline import Outcome, run_recipe
from flows.run.plan_run import explain
from flows.run.policies import RETRIES, group_parts
from flows.run.record.run_record import StageHistory
from flows.run.stage_kinds import STAGES
from flows.signals import wait_if_stopping

if TYPE_CHECKING:
    from trainer.job import TrainingJob
    from trainer.launch import Stop
    from trainer.metrics import Event

Fault = TypeVar("Fault", bound=Exception)


@dataclass(frozen=True, slots=True)
class WorkResult(Generic[Result]):
    """The result of a task or a run.

    Attributes:
        value: The value that the work returned.
        text: A short summary of the result.
        name: The name of the final state.
    """

    value: Result
    text: str
    name: str = "Completed"


class PendingTask(Protocol):
    """A submitted task. The caller can wait for its result."""

    def result(self) -> Any:
        """Wait until the task has ended, and return the result of its work, or raise the exception of its work."""
        ...


class TaskRunner(Protocol):
    """Runs the tasks of a run, as Prefect tasks or on threads."""

    def submit(self, name: str, work: Callable[["StageBuild"], WorkResult[Any]], build: "StageBuild") -> PendingTask:
        """Submit a task that calls `work(build)` on a thread. The call is retried after errors that may be temporary.

        Args:
            name: The name of the task.
            work: The function to call.
            build: Its argument, the pipeline stage to build.

        Returns:
            The pending task.
        """
        ...

    def call_subflow(self, group: str, stages: Sequence[str], work: Callable[[], Result]) -> Result:
        """Call a long-running function, and return its value. In a Prefect flow run, the function becomes a subflow.

        Args:
            group: The group of the pipeline stages, "train" or "tasks".
            stages: Kind and name of each stage, shown on the subflow's page in Prefect's UI.
            work: The function, without arguments.

        Raises:
            Exception: Any exception that `work` raises.
        """
        ...


def is_worth_retrying(error: BaseException | None) -> bool:
    """Return True if a task that raised `error` may succeed when retried.

    Returns False if the user must fix something, or the workers were closed.
    """
    return not isinstance(error, (InputError, PoolClosed))


# The run through its stages


def build_stages(run: RunState, tasks: TaskRunner) -> Outcome:
    """Build the pipeline stages of a run in order, and return its artifacts (the stored results of the stages).

    Skips records that killed their worker process on every attempt and, if the recipe allows it, unreadable raw files.

    Args:
        run: The state of the run. Its lock (the list of raw files) is updated if records or files are skipped.
        tasks: Runs the tasks of the stages.

    Raises:
        Damaged: If an artifact in the store is damaged. The caller starts over to rebuild the artifact.
        InputError: If workers died for a reason other than a record, or a file may not be skipped.
        Exception: Any other exception that a stage raises.
    """
    builder, recipe = StageBuilder(run, tasks), run.recipe
    quarantined = len(run.lock.quarantine)
    while True:
        try:
            return run_recipe(run.place, recipe, run.lock, builder.build, run.warn, not run.damage.damaged)
        except PoolClosed:
            raise
        except WorkerDied as error:
            barred = run.lock.quarantine
            to_blame = run.worker_deaths[error.record] > RETRIES and error.record not in barred
            if not to_blame or len(barred) - quarantined == MAX_QUARANTINED:
                raise InputError(explain_deaths(error)) from error
            run.lock = add_to_quarantine(recipe, run.lock, error, run.tell)
        except RefusedSources as refused:
            run.lock = accept_damage(recipe, run.lock, refused, run.warn)
        except FileFault as fault:
            before = run.lock
            run.lock = leave_out(recipe, before, [fault], run.warn)
            run.file_counts = with_lost(run.file_counts, before, run.lock)


class StageBuilder:
    """Builds groups of independent pipeline stages of a run, and reuses the stages that are complete in the store.

    Args:
        run: The state of the run.
        tasks: Runs the tasks of the stages.
    """

    def __init__(self, run: RunState, tasks: TaskRunner) -> None:
        self._run, self._tasks = run, tasks

    def build(self, stages: Sequence[Stage]) -> list[Manifest]:
        """Build the missing parts (output files) of pipeline stages of one kind.

        Args:
            stages: The stages, which must have the same kind and must not be empty.

        Returns:
            The manifests (descriptions of the stored results), in the order of the stages.

        Raises:
            Exception: Any exception that a task raises.
        """
        kind, started = STAGES[stages[0].kind], time.monotonic()
        builds = self._survey_stages(stages)
        finish = partial(self._build_all, builds, started)
        if kind.is_alone and any(build.survey.manifest is None for build in builds):
            return self._tasks.call_subflow(kind.group, [stage.stage_folder for stage in stages], finish)
        return finish()

    def _survey_stages(self, stages: Sequence[Stage]) -> list["StageBuild"]:
        """Compare each stage with the store, and return, in order, which of its parts exist and which are missing.

        All stages are compared before the first one is built, because the comparison is with the artifacts that existed
        before the run.

        Raises:
            InputError: If damaged files cannot be rebuilt, because raw files are gone or have changed.
        """
        run, mending = self._run, self._run.damage
        for stage in stages:
            mending.rewrite_records(stage)
        builds = [StageBuild(run, stage, mending.survey(stage)) for stage in stages]
        for stage, survey in ((build.stage, build.survey) for build in builds):
            faults = mending.list_faults(stage, survey)
            mending.refuse_changed_inputs(stage, survey)
            history = run.stages.setdefault(stage.folder, StageHistory())
            history.begin(survey, explain(stage, survey, faults), bool(faults or survey.damaged))
            if survey.manifest is None and (notice := stage.facts.get("notice")):
                run.warn(f"{stage.stage_folder}: {notice}")
        for build in builds:
            if not build.is_recorded:
                run.progress.begin(build.stage, len(build.survey.missing))
        return builds

    def _build_all(self, builds: Sequence["StageBuild"], started: float) -> list[Manifest]:
        """Run the tasks of all stages in parallel, and record each stage in order.

        Args:
            builds: The stages.
            started: The time of `time.monotonic()` at which the stages began.

        Returns:
            The manifests, in the order of the stages.
        """
        run, manifests = self._run, list[Manifest]()
        try:
            for build in builds:
                build.submit(self._tasks)
            for build in builds:
                manifest = build.wait()
                run.damage.mark_rebuilt(build.survey, manifest)
                if not build.is_recorded:
                    run.record_stage(manifest, time.monotonic() - started)
                run.move_stage_last(build.stage.folder)
                manifests.append(manifest)
            return manifests
        except FileFault:
            raise_all(collect_faults(builds, FileFault))
            raise
        except Damaged as fault:
            for path, other in {other.path: other for other in collect_faults(builds, Damaged)}.items():
                if path != fault.path:
                    run.damage.mark_damaged(other)
            raise
        except WorkerDied:
            collect_faults(builds, WorkerDied)  # no task is under way when the run goes through its stages again
            raise


class StageBuild:
    """A stage of a run that is being built.

    Attributes:
        run: The state of the run.
        stage: The stage.
        survey: The parts (output files) of the stage that the store already has, and those that are missing.
        distrusted: Paths of damaged files. The stage's task must not read them.
        is_recorded: True if this run already built the stage, and is repeating its stages because another one found
            damage or a bad record.
    """

    def __init__(self, run: RunState, stage: Stage, survey: Survey) -> None:
        self.run, self.stage, self.survey = run, stage, survey
        self.distrusted = frozenset(run.damage.damaged)
        self.is_recorded = survey.manifest is not None and stage.folder in run.manifests
        self._pending: PendingTask | None = None
        self._built: set[str] = set()

    def submit(self, tasks: TaskRunner) -> None:
        """Submit the task of the stage to `tasks`, unless the run's record already contains the stage."""
        wait_if_stopping()  # no task begins while the run is being stopped
        if not self.is_recorded:
            if self.survey.missing:
                self.add_built([])
            work = train_stage if STAGES[self.stage.kind].is_alone else build_stage
            self._pending = tasks.submit(self.stage.stage_folder, work, self)

    def wait(self) -> Manifest:
        """Wait until the stage's task has ended, and return the stage's manifest (description of its stored result).

        Raises what the task raised.
        """
        manifest = self.survey.manifest if self._pending is None else self._pending.result()
        assert isinstance(manifest, Manifest)
        return manifest

    def add_built(self, parts: Sequence[Part]) -> None:
        """Record that parts (output files) of the stage have been built. A part that is built twice is counted once."""
        with self.run.progress_lock:
            self._built.update(part.name for part in parts)
            self.run.advance(self.stage.stage_folder, len(self._built), len(self.survey.missing))


def collect_faults(builds: Sequence[StageBuild], kind: type[Fault]) -> list[Fault]:
    """Wait for the tasks of all stages, and return their exceptions of type `kind`, in the order of the stages.

    Other exceptions are ignored.
    """
    faults = []
    for build in builds:
        try:
            build.wait()
        except kind as fault:
            faults.append(fault)
        except Exception:  # the caller raises the first
            continue
    return faults


# What the tasks call


def build_stage(build: StageBuild) -> WorkResult[Manifest]:
    """Build the missing parts (output files) of a stage on all workers, and mark the stage as complete in the store.

    If the stage is already complete, it is only shown. Each call to a worker builds some of the parts. If a call fails,
    the remaining calls are still made. A retry does not rebuild finished parts.

    Returns:
        The stage's manifest (description of its stored result), as `publish_and_show` returns it.

    Raises:
        FileFault: For all raw files that cannot be read.
        Exception: The first of any other errors.
    """
    run, stage, parts, faults = build.run, build.stage, list[Part](), list[FileFault]()
    pieces = group_parts(build.survey.missing, run.pool.num_workers)
    with ThreadPoolExecutor(min(len(pieces), 2 * run.pool.num_workers) or 1) as threads:
        futures = [
            threads.submit(run.call_on_worker, build_parts, run.place, stage.without_parts, plans, build.distrusted)
            for plans in pieces
        ]
        for future in as_completed(futures):
            if future.exception() is None:
                build.add_built(future.result())
    for future in futures:
        try:
            parts += future.result()
        except FileFault as fault:
            faults.append(fault)
    raise_all(faults)
    return publish_and_show(build, parts)


def train_stage(build: StageBuild) -> WorkResult[Manifest]:
    """Build a stage that trains a model, fine-tunes models on a task, or applies a fine-tuned model to documents.

    Each part (output) of such a stage takes a separate process and all cores. A retry resumes the work.

    Returns:
        The stage's manifest (description of its stored result), as `publish_and_show` returns it.

    Raises:
        InputError: For an error that the user can fix.
        TrainingFailed: If the process fails. The message contains the end of its log.
    """
    run, stage, plans = build.run, build.stage, build.survey.missing
    if not plans:
        return publish_and_show(build, [])
    if stage.kind == "models":
        from flows.orchestration.training_task import watch_training  # only a run that trains needs the trainer
        from trainer.launch import train

        def train_somewhere(job: "TrainingJob", on_event: "Callable[[Event], None]", stop: "Stop") -> None:
            engine = run.pool
            if isinstance(engine, TrainingEngine) and engine.train(
                run.place, stage, plans, build.distrusted, on_event, stop
            ):
                return
            train(job, on_event, stop)

        watch_training(stage, plans[0].job, run.advance, train_somewhere)
    elif stage.kind == "tasks":
        from flows.orchestration.training_task import watch_fine_tuning

        for plan in plans:
            watch_fine_tuning(stage, plan.job, run.advance)
    parts = build_parts(run.place, stage, plans, build.distrusted)
    build.add_built(parts)
    return publish_and_show(build, parts)


def publish_and_show(build: StageBuild, parts: Sequence[Part]) -> WorkResult[Manifest]:
    """Mark a stage as complete in the store, and show its record counts on the run's page in Prefect's UI.

    Args:
        build: The stage.
        parts: The parts (output files) that were built by this task.

    Returns:
        The stage's manifest (description of its stored result) and a summary of it. The state's name is "Reused" if the
        stage was already complete, and "Completed" otherwise.
    """
    wait_if_stopping()
    run, whole = build.run, build.survey.manifest
    manifest = whole or publish_stage(run.place, build.stage, build.survey, parts)
    show_ledger(run.place, manifest, run.recipe.privacy.samples)
    if whole:
        text = ": ".join(filter(None, ["whole in the store", summarize_manifest(manifest)]))
        return WorkResult(manifest, text, "Reused")
    return WorkResult(manifest, summarize_manifest(manifest))
