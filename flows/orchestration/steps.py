"""The steps of a run, the same for a flow of Prefect (`flow.py`) and for threads (`run_recipe.py`). No orchestrator.

    prepare_run           finds the raw files, writes the lock and a record that the run began. What the user can fix
                          is reported here, before a server starts
    complete_run          shows the other four:
      build_stages        builds every stage that the store lacks (`stages.py`)
      RunState.judge      compares the metrics of the run with the limits in its recipe (`run_state.py`)
      report_run          writes the record and the report, and sends them to the Prefect server if none answered before
      release_run         gives the artifacts the name that the recipe asks for, if no limit is exceeded

`find_unchanged` is the shortcut if the store holds everything: it reads and judges, and builds nothing.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.sources.contract import RawFile
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.settings import PROCESSES
from corpora.store.stage import Stage
from corpora.store.worker_pool import WorkerPool
from flows.engines.open_engine import open_engine
from flows.engines.worker_checks import SharedPaths
from flows.maintenance.release import release_if_within_bounds
from flows.maintenance.run_records import keep_newest
from flows.orchestration.late_runs import describe_failure, send_late_run
from flows.orchestration.notifications import ActivityMonitor, report_stalls
from flows.orchestration.pages import describe_flow_run, format_report_command, render_lineage, show_artifact
from flows.orchestration.recording import get_recording
from flows.orchestration.run_state import DRIFTED, Judgement, RunState
from flows.orchestration.stages import TaskRunner, WorkResult, build_stages
from flows.recipes.lock import write_lock
from flows.recipes.recipe import Recipe, write_recipe
from flows.recipes.run_settings import LOCAL_ENGINE
from flows.run.estimates.capacity import refuse_without_least_room
from flows.run.faults.damage import DamageTracker, run_past_damage
from flows.run.faults.locks import hold_recipe, remove_leftovers, wait_for_cleanup
from flows.run.inputs.raw_files import check_labelled_files, describe_inputs, fetch_inputs, resolve_inputs
from flows.run.inputs.unread_files import summarize_unread
from flows.run.pipeline import Outcome, run_recipe
from flows.run.plan_run import explain
from flows.run.policies import choose_num_workers, count_cores
from flows.run.record.figures import rebuild_figures, write_figures
from flows.run.record.run_record import StageHistory, begin_run, build_run_id, format_now, get_recipe_path
from flows.run.record.run_status import RunHeartbeat, end_on_failure, follow_schedule, list_artifact_names
from flows.signals import call_on_stop, wait_if_stopping


def prepare_run(
    recipe: Recipe, home: Path, tell: Tell, workers: int | None = None, on_begin: Tell = lambda run_id: None
) -> RunState:
    """Find the raw files of a recipe, write its lock file (which records these files), and record that a run began.

    Args:
        recipe: The recipe.
        home: CLOZE_HOME, the folder of this installation's caches.
        tell: Called with each line of the run's output, to print it.
        workers: The number of worker processes. If None, it depends on the amount of raw files.
        on_begin: Called with the run's id before the run's first line.

    Returns:
        The state of the new run, which has no workers yet.

    Raises:
        InputError: If a raw file is missing or cannot be read, torch is missing, or the disk does not have enough
            space.
    """
    if workers is not None:
        PROCESSES.check("the number of workers", workers)
    if (recipe.tasks or (recipe.model is not None and recipe.engine == LOCAL_ENGINE)) and find_spec("torch") is None:
        raise InputError(
            f"The recipe {recipe.name!r} has a [model], and torch is not installed here to train it: run `make "
            "install` without TORCH=none, or take [model] and [training] out of the recipe."
        )
    recipe = follow_schedule(recipe)
    place, started = Place(recipe.store), format_now()
    run_id = build_run_id(place, recipe.name)
    on_begin(run_id)
    with end_on_failure(RunHeartbeat(place, recipe, run_id, started)) as pulse:
        run = RunState(recipe=recipe, run_id=run_id, started=started, pulse=pulse, print_line=tell)
        pulse.workers = workers or count_cores()
        wait_for_cleanup(place, pulse.wrap_tell(run.tell))
        for finding in check_labelled_files(place, recipe):
            run.warn(finding)
        for line in fetch_inputs(recipe, home, run.tell):
            run.tell(line)
        with hold_recipe(recipe.lock_path, pulse.wrap_tell(run.tell)):
            resolved = resolve_inputs(recipe, home)
            run.lock = replace(resolved.lock, pending=resolved.lock.pending + bool(resolved.added))
            run.file_counts = resolved.unread
            if workers is None:
                pulse.workers = choose_num_workers(run.lock.raw_bytes)
            for line in describe_inputs(recipe, resolved, summarize_unread):
                run.tell(line)
            remove_leftovers(place, home, run.tell)
            new_files = [file for files in resolved.added.values() for file in files]
            refuse_without_least_room(recipe, new_files, pulse.workers)
            begin_run(place, run_id, recipe)
            write_recipe(recipe)
            if recipe.lock_path is not None:
                write_lock(recipe.lock_path, run.lock)
        run.damage.mark_listed(list_artifact_names(recipe))
    return run


@contextmanager
def record_failure(run: RunState) -> Iterator[None]:
    """Record how a run ends if it fails or is stopped during the block.

    Writes the run's record with the state "failed" or "interrupted", and raises the exception again. After a successful
    block, removes the oldest run records beyond the number that the recipe keeps.

    Args:
        run: The run, from `prepare_run`.
    """
    message = "What is finished is kept: the same command resumes from there."
    with call_on_stop(lambda: run.write_record(run.build_record("interrupted")), message):
        try:
            yield
        except BaseException as error:
            wait_if_stopping()
            try:
                run.write_record(run.build_record("failed", describe_failure(error)["message"]))
            except InputError as refused:  # a store that cannot be written does not hide why the run failed
                run.tell(f"The failed run could not be recorded: {refused}")
            raise
        keep_newest(run.place, run.recipe.name, run.recipe.retention.runs, run.tell)


@contextmanager
def open_workers(run: RunState, pool: WorkerPool | None) -> Iterator[None]:
    """Open the worker processes of a run for the block.

    Args:
        run: The run. Its `pool` is set.
        pool: A pool that is already open; if None, the engine in the recipe (local processes or a Dask cluster) is
            opened.
    """
    recipe, workers = run.recipe, run.pulse.workers
    if pool is not None:
        pool.limit_workers(workers)
        pool.tell = run.tell  # in the log of the flow run, too
        run.pool = pool
        yield
        return

    def collect_shared_paths() -> SharedPaths:
        """Return the paths that a cluster's workers must be able to read: the stored recipe and the raw files."""
        files: dict[str, list[RawFile]] = {}
        for generation in run.lock.generations:
            for name, new in generation.items():
                files.setdefault(name, []).extend(new)
        return SharedPaths.from_sources(run.place, get_recipe_path(run.run_id), files)

    with open_engine(recipe.engine, workers, recipe.workers, run.tell, collect_shared_paths) as engine:
        run.pool, run.pulse.workers = engine, engine.num_workers
        yield


def complete_run(run: RunState, tasks: TaskRunner) -> WorkResult[Outcome]:
    """Complete a run: build its stages, compare its metrics with the recipe's limits, and report and release it.

    The run must come from `prepare_run`, and have workers from `open_workers`.

    Args:
        run: The state of the run, which is updated.
        tasks: Runs the tasks of its stages, in a Prefect flow or on threads.

    Returns:
        The artifacts of the run (stored results), with the message and name of its final state.

    Raises:
        InputError: For an error that the user can fix.
        Exception: Any exception that a stage raises.
    """

    def build_and_judge() -> str:
        run.outcome = build_stages(run, tasks)
        run.judge()
        return render_report(run)

    with show_progress(run):
        # A damaged file is built again: from the first stage, with whatever is whole as it is. The figures and the
        # report read what was not read before, and may meet damage as well.
        report = run_past_damage(build_and_judge, run.damage)
    report_run(run, report)
    release_run(run)
    return WorkResult(run.outcome, run.summarize(), run.final_state_name)


@contextmanager
def show_progress(run: RunState) -> Iterator[None]:
    """Show a run's progress on its page in Prefect's UI during the block. Sends a notification if the run stalls.

    If the block fails, the page shows the reason. If it succeeds, the page shows the lineage of the artifacts (which
    one was built from which).

    Args:
        run: The run, with workers from `open_workers`.
    """
    monitor, name = ActivityMonitor(run.on_progress), run.recipe.name
    run.on_progress, monitor.get_workers_progress = monitor.advance, run.pool.get_progress
    run.pulse.doing = "looks at its stages"
    run.progress.show()
    try:
        with report_stalls(run.notifier, monitor):
            yield
    except Exception as error:
        run.progress.fail(describe_failure(error)["message"])
        raise
    run.progress.end(run.summarize())
    page = render_lineage(list(run.manifests.values()), format_report_command(run.place, run.run_id))
    show_artifact(f"lineage-{name}", page, f"{name}: what came from what, and how much of it")


def render_report(run: RunState) -> str:
    """Write a run's metrics to the store, and return the run's report as HTML. `run.judge` must have been called.

    Prints a warning for each of the recipe's limits that is exceeded, and sets `run.record`.

    Raises:
        Damaged: If an artifact (stored result) cannot be read.
    """
    from flows.report.page import build_page  # only the end of a run needs it

    for crossed in run.judgement.crossed:
        run.warn(f"A bound is crossed: {crossed}.")
    run.record = run.build_record("completed")
    write_figures(run.place, run.record, run.judgement.figures)
    rebuild_figures(run.place)
    return build_page(run.place, run.record, run.recipe.privacy.samples, run.lock)


def report_run(run: RunState, report: str, kind: str = "builds") -> None:
    """Write the record and the report of a run to the store.

    If the run has no Prefect flow run, it is first reported to Prefect, or stored to be reported later.

    Args:
        run: The state of the run.
        report: The report as HTML.
        kind: What the run did: "builds", or "nothing new" if the store already had everything.
    """
    recording = get_recording()
    if run.flow_run is None and recording is not None:
        api = recording.find_api_now()
        end = {"type": "COMPLETED", "name": run.final_state_name, "message": run.summarize()}
        id = send_late_run(api, run.describe_late_run(end, kind), run.tell)
        recording.buffer = None
        if id is not None:
            run.record = replace(run.record, flow_run=describe_flow_run(api, id, recording.is_embedded))
    run.write_record(run.record, report)


def release_run(run: RunState) -> None:
    """Release a run if its recipe names a release and its metrics are within the limits, and send notifications.

    For the notifications, see `Notifier.notify_of_result`. Call `report_run` first.

    Args:
        run: The state of the run, after `RunState.judge`.
    """
    if run.judgement.candidate is not None:
        release_if_within_bounds(run.judgement.candidate, run.tell)
    run.notifier.notify_of_result(run.record, run.report_path)


# A run for which the store holds everything


class _IncompleteRun(Exception):
    """Raised if a part of a run's stored results is missing or damaged."""


def find_unchanged(run: RunState) -> str | None:
    """Check whether the store already holds everything that a run would build.

    Like `cloze plan`, this needs no workers, no server and no Prefect. It takes some tenths of a second, plus the time
    to render the report.

    Args:
        run: The run, from `prepare_run`. If the store holds everything, its stages, manifests, outcome, judgement and
            record are set.

    Returns:
        The run's report as HTML. None if something must be built or repaired, or if the run exceeds a limit in the
        recipe, because this must be shown in Prefect's UI; nothing is printed or written in that case.
    """
    stages: dict[str, StageHistory] = {}
    manifests: dict[str, Manifest] = {}
    damage = DamageTracker(place=run.place, tell=lambda line: None, damaged=dict(run.damage.damaged))

    def find(stage: Stage) -> Manifest:
        if stage.folder not in manifests:
            clock = time.monotonic()
            survey = damage.survey(stage)
            if survey.manifest is None or survey.faults:
                raise _IncompleteRun
            history = stages[stage.folder] = StageHistory()
            history.begin(survey, explain(stage, survey), damaged=False)
            history.end(survey.manifest, time.monotonic() - clock)
            manifests[stage.folder] = survey.manifest
        return manifests[stage.folder]

    def perform(wanted: Sequence[Stage]) -> list[Manifest]:
        return [find(stage) for stage in wanted]

    try:
        run.outcome = run_recipe(run.place, run.recipe, run.lock, perform, settle=not damage.damaged)
        run.stages, run.manifests = stages, manifests
        run.judge()
        if run.final_state_name != DRIFTED:
            return render_report(run)
    except (_IncompleteRun, InputError):  # a full run meets the same, and reports it
        pass
    run.stages, run.manifests, run.judgement = {}, {}, Judgement()
    return None
