"""Runs a recipe: resolve its inputs, start the orchestrator, run, record, report.

Faults of the recipe are reported before any server starts, and so are raw files that cannot be found or hashed.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.errors import InputError
from corpora.generic_types import Json, Tell
from corpora.sources.contract import RawFile, StatCache
from corpora.sources.passed_over import Looked
from corpora.store.damage import Damaged
from corpora.store.places.address import without_password
from corpora.store.places.files import disk_refusal, replaced_file
from corpora.store.places.place import Place
from corpora.store.settings import PROCESSES
from corpora.store.workers.pool import WorkerPool
from flows.engines.open_engine import MAX_FORKS, engine_at_work, is_safe_to_fork
from flows.engines.shared_paths import Sight
from flows.maintenance.run_records import keep_newest
from flows.orchestration.pages.page_artifacts import flow_run_at
from flows.orchestration.releases.release import release_by_itself
from flows.orchestration.runs.late_record import STOPPED, end_of_failed, keep_late_run, send_late_run
from flows.orchestration.runs.notifications import LifeSigns, Notifier, failure_reported, stalls_reported
from flows.orchestration.runs.run_state import DRIFTED, RunState, no_advance
from flows.orchestration.runs.unchanged_run import NOTHING_NEW, whole_in_the_store
from flows.orchestration.runs.unwatched_run import is_watched, run_alone
from flows.orchestration.server.api_recorder import (
    answering_api,
    api_of_profile,
    goes_without,
    keep_pages,
    recorded,
)
from flows.recipes.guesses.fitted_defaults import chosen_line, fitted_line
from flows.recipes.lock import Lock, ResolvedLock, read_lock, resolve, write_lock
from flows.recipes.recipe import Recipe, settle_recipe
from flows.recipes.settings.engine import LOCAL
from flows.run.estimates.room import refuse_plainly_without_room
from flows.run.faults.gc_lock import wait_for_clearing
from flows.run.faults.rebuild_damaged import run_past_damage
from flows.run.faults.recipe_lock import clear_up, recipe_held
from flows.run.faults.skipped_files import left_out_lines
from flows.run.inputs.labelled_files import labelled_lines
from flows.run.inputs.start_model import find_start, find_teacher
from flows.run.inputs.unread_files import guess_lines, looked_json, looked_lines, totals_lines
from flows.run.pipeline import Outcome
from flows.run.plan.plan import Planned, plan_run
from flows.run.policies import default_workers, workers_for
from flows.run.record.counts_text import counted
from flows.run.record.figures import keep_figures, recount_figures
from flows.run.record.heartbeat import Advance, Pulse, names_of, unless_begun
from flows.run.record.listed_runs import is_on_schedule
from flows.run.record.run_record import StageRecord, begin_run, new_run_id, now_text, recipe_file
from flows.signals import give_way, last_word

if TYPE_CHECKING:
    from corpora.acquire.download import ProgressCallback
    from flows.run.inputs.fetch import FetchOptions

HASHED_FIELDS = 5  # of a file in `stat_cache`
CarryOut = Callable[[RunState], Outcome]


def execute(
    recipe: Recipe,
    home: Path,
    tell: Tell,
    workers: int | None = None,
    own_server: bool = False,
    advance: Advance = no_advance,
    watch: bool | None = None,
) -> RunState:
    """Build everything that is missing of a recipe: as a flow of Prefect if somebody watches, else in this process.

    own_server: use the embedded server even if the user's Prefect profile names another
    advance:    called with a stage and how many of its missing parts are built
    watch:      whether it is a flow of Prefect; None: if somebody can see it, or if it takes long (`is_watched`)
    Raises InputError for what the user can fix, and whatever a stage failed with.
    """
    with failure_reported(recipe, tell) as notifier, fork_workers(recipe, workers, tell) as pool:
        run = begin(recipe, home, tell, workers)
        run.watch = advance
        with on_record(run):
            if is_reused(run, home, own_server):
                notifier.judged(run.record, run.report_path)
                return run
            run.watched = is_watched(run, home, own_server, watch)
            with at_work(run, pool):
                if run.watched:
                    carry_out_watched(run, home, own_server, notifier)
                else:
                    carry_out_unwatched(run, home, own_server, notifier)
    return run


def carry_out_watched(run: RunState, home: Path, own_server: bool, notifier: Notifier) -> None:
    """Carry out a run as a flow of Prefect; without one if no server answers."""
    with recorded(home, own_server, run.tell, run.pages, _import_flows) as mine:
        try:
            report = carry_out(run, _import_flows(), notifier)
        finally:
            if (error := sys.exception()) is not None and mine.kept is not None:  # it has no flow run
                give_way()
                send_late_run(run, mine.api_by_now(), end_of_failed(error))
        if run.flow_run is None:
            put_on_record(run, mine.api_by_now(), "builds", mine.embedded)
        finish(run, notifier, report)


def carry_out_unwatched(run: RunState, home: Path, own_server: bool, notifier: Notifier) -> None:
    """Carry out a run in this process, and put it on record afterwards however it ends."""
    profile = api_of_profile(own_server)
    if profile and not answering_api(home, own_server):
        run.tell(goes_without(f"The Prefect API {without_password(profile)} of your profile does not answer."))
    with last_word(lambda: keep_late_run(run, STOPPED)):
        with keep_pages(run.tell, run.pages):
            try:
                report = carry_out(run, run_alone, notifier)
            finally:
                error = sys.exception()
                if error is not None:
                    give_way()
                    send_late_run(run, answering_api(home, own_server), end_of_failed(error))
        put_on_record(run, answering_api(home, own_server), "builds")
    finish(run, notifier, report)


def _import_flows() -> CarryOut:
    """Import Prefect, which reads its settings then, and takes as long as its server half of the time to start."""
    from flows.orchestration.runs.run_flow import run_flow

    return run_flow


def execute_below(
    recipe: Recipe,
    home: Path,
    tell: Tell,
    workers: int | None,
    perform: CarryOut,
    begun: Tell = lambda run_id: None,
) -> RunState:
    """Do the same inside a flow run, which has its server. Raises as `execute`.

    perform: runs it as the flow run that this is called in, or as one below that
    begun:   is called with the run's id, before its first line
    """
    with failure_reported(recipe, tell) as notifier:
        run = begin(recipe.on_schedule(), home, tell, workers, begun)
        with on_record(run), at_work(run, None):
            finish(run, notifier, carry_out(run, perform, notifier))
    return run


def begin(
    recipe: Recipe, home: Path, tell: Tell, workers: int | None = None, begun: Tell = lambda run_id: None
) -> RunState:
    """Find the raw files, write the lock, and put the recipe on record. Raises InputError."""
    if workers is not None:
        PROCESSES.check("the number of workers", workers)
    if (recipe.tasks or (recipe.model is not None and recipe.engine == LOCAL)) and find_spec("torch") is None:
        raise InputError(
            f"The recipe {recipe.name!r} has a [model], and torch is not installed here to train it: run `make "
            "install` without TORCH=none, or take [model] and [training] out of the recipe."
        )
    recipe = as_it_runs(recipe)
    place, started = Place(recipe.store), now_text()
    run_id = new_run_id(place, recipe.name)
    begun(run_id)
    with unless_begun(Pulse(place, recipe, run_id, started)) as pulse:
        run = RunState(recipe=recipe, run_id=run_id, started=started, pulse=pulse, terminal=tell)
        pulse.workers = workers or default_workers()
        wait_for_clearing(place, pulse.waiting(run.tell))
        for line in (*labelled_lines(place, recipe), *fetch_inputs(recipe, home, run.tell)):
            run.tell(line)
        with recipe_held(recipe.lock_path, pulse.waiting(run.tell)):
            resolved = resolve_inputs(recipe, home)
            run.lock = replace(resolved.lock, pending=resolved.lock.pending + bool(resolved.added))
            run.looked = resolved.looked
            if workers is None:
                pulse.workers = workers_for(run.lock.raw_bytes)
            for line in input_lines(recipe, resolved, totals_lines):
                run.tell(line)
            clear_up(place, home, run.tell)
            new_files = [file for files in resolved.added.values() for file in files]
            refuse_plainly_without_room(recipe, new_files, pulse.workers)
            begin_run(place, run_id, recipe)
            settle_recipe(recipe)
            if recipe.lock_path is not None:
                write_lock(recipe.lock_path, run.lock)
        run.mending.distrust_listed(names_of(recipe))
    return run


def as_it_runs(recipe: Recipe) -> Recipe:
    """Return a recipe as a schedule runs it, if it is on one: whoever starts a run, the same becomes of its files."""
    return recipe.on_schedule() if is_on_schedule(Place(recipe.store), recipe.name) else recipe


@contextmanager
def on_record(run: RunState) -> Iterator[None]:
    """Write the record of a run that fails or is stopped during the block."""
    kept = "What is finished is kept: the same command resumes from there."
    with last_word(lambda: run.write(run.record_now("interrupted")), kept):
        try:
            yield
        except BaseException as error:
            give_way()
            _record_failure(run, error)
            raise
        keep_newest(run.place, run.recipe.name, run.recipe.retention.runs, run.tell)


def is_reused(run: RunState, home: Path, own_server: bool) -> bool:
    """Tell whether the store holds everything of a run, and its report can be written: then it has ended.

    Else nothing is printed or kept of it yet.
    """
    outcome = whole_in_the_store(run)
    if outcome is None or (report := _report_of_reused(run, outcome)) is None:
        run.stages, run.manifests, run.crossed, run.promotion = {}, {}, (), None
        return False
    for record, manifest in zip(run.records, run.manifests.values(), strict=True):
        run.say_stage(record, manifest)
    put_on_record(run, answering_api(home, own_server), "nothing new")
    run.write(run.record, report)
    if run.promotion is not None:
        release_by_itself(run.promotion, run.tell)
    run.tell(NOTHING_NEW)
    return True


def _report_of_reused(run: RunState, outcome: Outcome) -> str | None:
    """Return the report of a run that built nothing; None if a full run has to repair it, or mark it on its pages."""
    try:
        run.judge(outcome)
        return None if run.end_name == DRIFTED else end_well(run, outcome)
    except Damaged:
        return None


def carry_out(run: RunState, perform: CarryOut, notifier: Notifier) -> str:
    """Carry out a run that has its workers; return its report."""
    notifier.run_id, notifier.page = run.run_id, lambda: run.flow_run.page if run.flow_run is not None else ""
    signs = LifeSigns(run.watch)
    run.watch = signs.advance
    signs.workers = run.pool.signs
    run.pulse.doing = "looks at its stages"
    with stalls_reported(notifier, signs):
        # The figures and the report read what was not read before, and may meet damage as well.
        return run_past_damage(lambda: end_well(run, perform(run)), run.mending)


@contextmanager
def fork_workers(recipe: Recipe, workers: int | None, tell: Tell) -> Iterator[WorkerPool | None]:
    """Open a pool of forks of this process for a run that is about to begin, if forks are safe; else yield None.

    They are until the run starts threads, locks files or calls a server: so this comes first.
    """
    if recipe.engine != LOCAL or not Place(recipe.store).is_local or not is_safe_to_fork():
        yield None
        return
    with WorkerPool(workers or default_workers(), recipe.workers, tell) as pool:
        pool.fork_workers(MAX_FORKS)
        yield pool


@contextmanager
def at_work(run: RunState, pool: WorkerPool | None) -> Iterator[None]:
    """Give a run its workers during the block. pool: one that is open; None: there is none yet"""
    recipe, workers = run.recipe, run.pulse.workers
    if pool is not None:
        pool.limit_workers(workers)
        pool.tell = run.tell  # in the log of the flow run, too
        run.pool = pool
        yield
        return
    with engine_at_work(recipe.engine, workers, recipe.workers, run.tell, lambda: _sight(run)) as engine:
        run.pool, run.pulse.workers = engine, engine.workers
        yield


def end_well(run: RunState, outcome: Outcome) -> str:
    """Keep the figures and the results of a run that succeeded; return its report. Raises Damaged."""
    from flows.report.page import build_page  # only the end of a run needs it

    run.outcome, run.record = outcome, run.record_now("completed")
    keep_figures(run.place, run.record, run.figures)
    recount_figures(run.place)
    return build_page(run.place, run.record, run.recipe.privacy.samples, run.lock)


def put_on_record(run: RunState, api: str, kind: str, embedded: bool = False) -> None:
    """Put a run without a flow run on record: with an API as one, if there is an API by now; else it is kept for one.

    kind: builds, or nothing new
    """
    end = {"type": "COMPLETED", "name": run.end_name, "message": run.conclude(run.outcome)}
    id = send_late_run(run, api, end, kind)
    if id is not None:
        run.record = replace(run.record, flow_run=flow_run_at(api, id, embedded))


def finish(run: RunState, notifier: Notifier, report: str) -> None:
    """Keep the record and the report of a run, and send a notice if it crosses its bounds."""
    run.write(run.record, report)
    if run.promotion is not None:
        release_by_itself(run.promotion, run.tell)
    notifier.judged(run.record, run.report_path)


def _sight(run: RunState) -> Sight:
    """Return what the workers of a cluster must see of a run: its recipe in the store, and its raw files."""
    files: dict[str, list[RawFile]] = {}
    for generation in run.lock.generations:
        for name, new in generation.items():
            files.setdefault(name, []).extend(new)
    return Sight.of(run.place, recipe_file(run.run_id), files)


def _record_failure(run: RunState, why: BaseException) -> None:
    """Keep the record of a failed run; a store that cannot be written does not hide why it failed."""
    try:
        run.write(run.record_now("failed", end_of_failed(why)["message"]))
    except InputError as refused:
        run.tell(f"The failed run could not be recorded: {refused}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Holds what a run would do now. notes: on its raw files, in lines; inputs: files that were found."""

    notes: tuple[str, ...]
    inputs: Mapping[str, Json]
    stages: tuple[Planned, ...]
    lock: Lock


def plan(recipe: Recipe, home: Path) -> RunPlan:
    """Plan what a run would do now, and find new raw files. Builds and writes nothing in the store."""
    recipe = as_it_runs(recipe)
    labelled = [*labelled_lines(Place(recipe.store), recipe)]
    resolved = resolve_inputs(recipe, home)
    notes = [*input_lines(recipe, resolved), *labelled]
    stages = plan_run(Place(recipe.store), recipe, resolved.lock, notes.append)
    inputs = looked_json(resolved.looked, recipe.privacy.samples)
    return RunPlan(notes=tuple(notes), inputs=inputs, stages=tuple(stages), lock=resolved.lock)


def fetch_inputs(
    recipe: Recipe,
    home: Path,
    tell: Tell,
    options: "FetchOptions | None" = None,
    progress: "ProgressCallback | None" = None,
) -> tuple[str, ...]:
    """Fetch missing raw files of the sources that say where from; return a line for each source.

    What `latest` means goes into the lock as soon as it is resolved. Raises InputError.
    """
    tables = {entry.source.name: entry.fetch for entry in recipe.sources if entry.fetch is not None}
    if not tables and options is None:
        return ()
    from corpora.acquire.download import no_progress  # httpx: only if something is fetched
    from flows.run.inputs.fetch import fetch_recipe

    path = recipe.lock_path
    assert path is not None

    def record(fetched: Mapping[str, Json]) -> None:
        with recipe_held(path, tell):
            write_lock(path, replace(read_lock(path), fetched=fetched))

    with stat_cache(home) as cache:
        fetched_before = read_lock(path).fetched
        return fetch_recipe(
            tables,
            path.parent,
            fetched_before,
            record,
            options,
            cache,
            progress or no_progress,
            anywhere=recipe.given_folders,
        ).lines


@contextmanager
def stat_cache(home: Path) -> Iterator[StatCache]:
    """Yield the cache of files that were hashed before; what is added in the block is kept."""
    path = home / "raw-files.json"
    cache = StatCache(_hashed_before(path))

    def keep() -> None:
        try:
            with replaced_file(path) as new:
                new.write_text(json.dumps(dict(cache.entries)))
        except OSError as error:
            remedy = disk_refusal(error, "set CLOZE_HOME to another folder") or "set CLOZE_HOME to another folder"
            raise InputError(f"Cannot write {path}: {remedy} ({error.strerror}).") from error

    with last_word(keep):
        try:
            yield cache
        finally:
            keep()


def _hashed_before(path: Path) -> dict[str, list[Json]]:
    """Read the file of `stat_cache`; nothing if it cannot be read: then files are hashed again."""
    try:
        entries = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    whole = isinstance(entries, dict) and all(isinstance(e, list) and len(e) == HASHED_FIELDS for e in entries.values())
    return entries if whole else {}


def resolve_inputs(recipe: Recipe, home: Path) -> ResolvedLock:
    """Return the lock with every raw file, and the other files in their folders."""
    with stat_cache(home) as cache:
        resolved = resolve(recipe, read_lock(recipe.lock_path), cache)
        start, teacher = find_start(recipe, cache), find_teacher(recipe, cache)
        return replace(resolved, lock=replace(resolved.lock, start=start, teacher=teacher))


def input_lines(
    recipe: Recipe,
    resolved: ResolvedLock,
    looked_lines: Callable[[Mapping[str, Looked], str], list[str]] = looked_lines,
) -> list[str]:
    """Return the lines about a run's raw files: how many there are, which are new, and what is passed over.

    looked_lines: makes the lines about files that are passed over
    """
    generations = resolved.lock.generations
    total = sum(len(files) for generation in generations for files in generation.values())
    new = ", ".join(f"{len(files):,} of {name}" for name, files in sorted(resolved.added.items()))
    what = f"new in generation {len(generations)}: {new}" if new else "none is new"
    first = f"{counted(total, 'raw file')} in {counted(len(generations), 'generation')}; {what}."
    looked = looked_lines(resolved.looked, recipe.privacy.samples)
    number = counted(len(resolved.gone), "raw file is gone that", "raw files are gone that")
    gone = f"{number} no run has finished with: the lock forgets about them." if resolved.gone else ""
    fitted = fitted_line(recipe.name, recipe.fitted) if recipe.fitted is not None and resolved.added else ""
    chosen = chosen_line(recipe.name, recipe.chosen or {})
    lines = [*guess_lines(recipe, resolved), *looked, *left_out_lines(recipe, resolved.lock), gone, fitted, chosen]
    start, teacher = resolved.lock.start, resolved.lock.teacher
    begins = f"Training begins with the model in {start.folder} ({start.content})." if start is not None else ""
    learns = f"Training learns from the model in {teacher.folder} ({teacher.content})." if teacher is not None else ""
    return [first, *filter(None, [*lines, begins, learns])]


def stage_times(stages: tuple[StageRecord, ...]) -> dict[str, float]:
    """Return the seconds of each kind of stage, in the order in which they ran."""
    times: dict[str, float] = {}
    for stage in stages:
        times[stage.kind] = max(times.get(stage.kind, 0.0), stage.seconds)
    return times
