"""Running a recipe: resolve its inputs, bring up the orchestrator, run, record, report.

What is wrong with the recipe is said before any server starts, and so are raw files that cannot be found or hashed.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.acquire.download import ProgressCallback, no_progress
from corpora.errors import InputError
from corpora.sources.contract import RawFile, StatCache
from corpora.sources.passed_over import Looked
from corpora.store.damage import Damaged
from corpora.store.files import disk_refusal, replaced_file
from corpora.store.manifest import Json
from corpora.store.places import Place
from flows.engines.choosing import engine_at_work
from flows.engines.sight import Sight
from flows.orchestration.journal import keep
from flows.orchestration.notifying import LifeSigns, Notifier, failure_told, stall_told
from flows.orchestration.recording import api_of_profile, recorded
from flows.orchestration.reusing import SERVERLESS, reuse_everything
from flows.recipes.engine import LOCAL
from flows.recipes.fitted import fitted_line
from flows.recipes.lock import Lock, ResolvedLock, read_lock, resolve, write_lock
from flows.recipes.privacy import visible
from flows.recipes.recipe import ModelEntry, Recipe, settle_recipe
from flows.run.bounds import crossings
from flows.run.clearing import wait_for_clearing
from flows.run.estimates.kept import estimates_that_fit, keep_with_run
from flows.run.examples import telling_looks
from flows.run.fetching import FetchEntry, FetchOptions, fetch_recipe
from flows.run.figures import Figures, figures_at_end, figures_before, keep_figures
from flows.run.leaving_out import left_out_lines
from flows.run.locks import clear_up, recipe_held
from flows.run.looking import guess_lines, looked_json, looked_lines, totals_lines
from flows.run.mending import run_mending
from flows.run.pipeline import Outcome
from flows.run.planning import Planned, plan_run
from flows.run.policies import default_workers
from flows.run.pulse import Pulse, names_of, unless_begun
from flows.run.records import (
    FlowRun,
    RunRecord,
    StageRecord,
    begin_run,
    machine_versions,
    new_run_id,
    now_text,
    recipe_file,
    write_run,
)
from flows.run.starting import find_start, find_teacher
from flows.run.units import counted
from flows.stopping import give_way, last_word
from flows.upkeep.records import keep_newest

if TYPE_CHECKING:
    from flows.orchestration.performing import RunContext

HASHED_FIELDS = 5  # of a file in `stat_cache`
ERROR_CHARACTERS = 2_000  # of what ended a run, in its record
Tell = Callable[[str], None]
Advance = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that ended well."""

    place: Place
    record: RunRecord
    outcome: Outcome
    model: ModelEntry | None = None

    def shards_of_phase(self, phase: int) -> str:
        """The shard sets that a phase of the training read, by their names in the recipe."""
        assert self.model is not None
        return " + ".join(name or self.record.recipe for name in self.model.phases[phase])

    @property
    def report_path(self) -> str:
        """Where the report is."""
        return self.place.at(f"runs/{self.record.run_id}/report.html")


def execute(
    recipe: Recipe,
    home: Path,
    tell: Tell,
    workers: int | None = None,
    range_size: int | None = None,
    own_server: bool = False,
    advance: Advance = lambda stage, built, parts: None,
) -> Finished:
    """Build everything that is missing of a recipe, under Prefect; where nothing is, no server is started for it.

    own_server: use the embedded server even where the user's Prefect profile names another
    advance:    called with a stage and how many of its missing parts are built
    Raises InputError for what the user can mend, and whatever a stage failed with.
    """
    with failure_told(recipe, tell) as notifier:
        begun = begin(recipe, home, tell, workers)
        with on_record(begun, workers, tell) as ending:
            finished = None if api_of_profile(own_server) else carry_over(ending, home, tell)
            if finished is not None:
                return finished
            with recorded(home, own_server, tell):
                from flows.orchestration.performing import run_flow  # Prefect reads its settings when it is imported

                return carry_out(ending, tell, run_flow, notifier, range_size, advance)


def execute_below(recipe: Recipe, home: Path, tell: Tell, workers: int | None = None) -> Finished:
    """The same inside of a flow run, which has its server: it is a flow run below that one. Raises as `execute`."""
    from flows.orchestration.performing import run_flow

    with failure_told(recipe, tell) as notifier:
        begun = begin(recipe, home, tell, workers)
        with on_record(begun, workers, tell) as ending:
            return carry_out(ending, tell, run_flow, notifier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run whose inputs are found and whose recipe is on record."""

    run_id: str
    recipe: Recipe
    lock: Lock
    started: str
    clock: float
    pulse: Pulse
    looked: Mapping[str, Looked] = field(default_factory=dict)


def begin(recipe: Recipe, home: Path, tell: Tell, workers: int | None = None) -> Begun:
    """Find the raw files, write the lock, and put the recipe on record. Raises InputError."""
    if recipe.model is not None and recipe.engine == LOCAL and find_spec("torch") is None:
        raise InputError(
            f"The recipe {recipe.name!r} has a [model], and torch is not installed here to train it: run `make "
            "install` without TORCH=none, or take [model] and [training] out of the recipe."
        )
    started, clock, run_id = now_text(), time.monotonic(), new_run_id(Place(recipe.store), recipe.name)
    with unless_begun(Pulse(Place(recipe.store), recipe, run_id, started)) as pulse:
        wait_for_clearing(Place(recipe.store), pulse.waiting(tell))
        for line in fetch_inputs(recipe, home, tell):
            tell(line)
        with recipe_held(recipe.lock_path, pulse.waiting(tell)):
            resolved = resolve_inputs(recipe, home)
            lock = resolved.lock
            for line in input_lines(recipe, resolved, totals_lines):
                tell(line)
            clear_up(Place(recipe.store), home, tell)
            estimates = estimates_that_fit(home, recipe, resolved, workers or default_workers())
            begin_run(Place(recipe.store), run_id, recipe)
            keep_with_run(Place(recipe.store), run_id, estimates)
            settle_recipe(recipe)
            if recipe.lock_path is not None:
                write_lock(recipe.lock_path, lock)
    return Begun(
        run_id=run_id, recipe=recipe, lock=lock, started=started, clock=clock, pulse=pulse, looked=resolved.looked
    )


class Ending:
    """How a run ends, on record: as who is the first to know says, be it the run or what stops it."""

    def __init__(self, begun: Begun, workers: int) -> None:
        self.begun = begun
        self.workers = begun.pulse.workers = workers
        self.place = Place(begun.recipe.store)
        self.context: RunContext | None = None  # what is known of the run, once it is carried out
        self.figures: Figures | None = None  # once they are counted
        self._first = threading.Lock()
        self._written = False

    @property
    def lock(self) -> Lock:
        """The lock as it is by now."""
        return self.begun.lock if self.context is None else self.context.lock

    def record(self, state: str) -> RunRecord:
        """The record of the run, were it to end now."""
        context = self.context
        if context is None:
            return record_of(self.begun, (), self.workers, state)
        record = record_of(self.begun, context.records, self.workers, state)
        return replace(record, crossed=context.crossed, flow_run=context.flow_run)

    def judge(self, tell: Tell) -> tuple[str, ...]:
        """Count the figures of the run, and hold them to the bounds of its recipe. Raises Damaged."""
        self.figures, crossed = judged(self.place, self.record("completed"), self.begun.recipe, tell)
        return crossed

    def write(self, record: RunRecord, report: str | None = None) -> None:
        """Keep a record and a report, unless one is kept already. Raises InputError."""
        with self._first:
            if not self._written:
                cost = self.begun.pulse.cost(sum(stage.bytes_built for stage in record.stages))
                write_run(self.place, replace(record, cost=cost), self.lock, report)
                self._written = True
        self.begun.pulse.end()


@contextmanager
def on_record(begun: Begun, workers: int | None, tell: Tell) -> Iterator[Ending]:
    """For the time of the block a run is on its way: where it fails or is stopped, its record says so."""
    ending = Ending(begun, workers or default_workers())
    kept = "What is finished is kept: the same command goes on from there."
    with last_word(lambda: ending.write(ending.record("interrupted")), kept):
        ended = False
        try:
            yield ending
            ended = True
        finally:
            if not ended:
                give_way()
                _record_failure(ending, sys.exc_info()[1], tell)
        keep_newest(ending.place, begun.recipe.name, begun.recipe.retention.runs, tell)


def carry_over(ending: Ending, home: Path, tell: Tell) -> Finished | None:
    """A run of which the store holds everything, and the report reads well; None for any other, of which nothing is
    said or kept yet."""
    begun = ending.begun
    if (reused := reuse_everything(ending.place, begun.recipe, begun.lock)) is None:
        return None
    outcome, found = reused
    record = record_of(begun, found.records, ending.workers, "completed")
    record = replace(record, flow_run=FlowRun(id=found.flow_run_id))
    try:
        figures, crossed = judged(ending.place, record, begun.recipe, tell)
        if crossed:
            return None  # it is marked on its pages, by a run in full
        report = figures_and_report(ending.place, record, figures, begun.recipe, begun.lock)
    except Damaged:
        return None  # it is mended by a run in full
    for _, said in found.said:
        tell(said)
    ending.write(record, report)
    keep(home / "prefect", found.entry(outcome, begun.run_id, home / "prefect"))
    tell(SERVERLESS)
    return Finished(place=ending.place, record=record, outcome=outcome, model=begun.recipe.model)


def carry_out(
    ending: Ending,
    tell: Tell,
    run: "Callable[[Recipe, Lock, RunContext], Outcome]",
    notifier: Notifier,
    range_size: int | None = None,
    advance: Advance = lambda stage, built, parts: None,
) -> Finished:
    """Run what has begun, with a pool of workers, and keep its record and report. `run`: how, as a flow."""
    from flows.orchestration.performing import RunContext

    begun = ending.begun
    notifier.run_id = begun.run_id
    signs = LifeSigns(advance)
    begun.pulse.doing = "looks at its stages"
    recipe = begun.recipe
    with (
        stall_told(notifier, signs),
        engine_at_work(recipe.engine, ending.workers, recipe.workers, tell, lambda: _sight(begun)) as pool,
    ):
        ending.workers, signs.workers = pool.workers, pool.signs
        context = ending.context = RunContext(
            place=ending.place,
            pool=pool,
            privacy=begun.recipe.privacy.samples,
            range_size=range_size,
            tell=tell,
            advance=begun.pulse.following(signs.advance),
            judge=lambda: ending.judge(tell),
            lock=begun.lock,
            run_id=begun.run_id,
        )
        outcome, record, report = run_mending(lambda: _run_and_report(ending, context, run), context.mending)
    ending.write(record, report)
    finished = Finished(place=ending.place, record=record, outcome=outcome, model=begun.recipe.model)
    if record.crossed:
        notifier.crossed(record, finished.report_path)
    return finished


def _sight(begun: Begun) -> Sight:
    """What the workers of a cluster must see of a run: its recipe in the store, and its raw files."""
    files: dict[str, list[RawFile]] = {}
    for generation in begun.lock.generations:
        for name, new in generation.items():
            files.setdefault(name, []).extend(new)
    return Sight.of(Place(begun.recipe.store), recipe_file(begun.run_id), files)


def _run_and_report(
    ending: Ending, context: "RunContext", run: "Callable[[Recipe, Lock, RunContext], Outcome]"
) -> tuple[Outcome, RunRecord, str]:
    """Run, count its figures, and write the report; both read what was not read before and may meet damage as well."""
    recipe = ending.begun.recipe
    outcome = run(recipe, context.lock, context)
    record = ending.record("completed")
    assert ending.figures is not None, "the run is judged where it ends"
    return outcome, record, figures_and_report(context.place, record, ending.figures, recipe, context.lock)


def judged(place: Place, record: RunRecord, recipe: Recipe, tell: Tell) -> tuple[Figures, tuple[str, ...]]:
    """The figures of a run that is complete, and what of them crosses the bounds of its recipe. Raises Damaged."""
    figures = figures_at_end(place, record)
    for line in telling_looks({name: figure.value for name, figure in figures.items()}):
        tell(line)
    before = figures_before(place, record, tell) if recipe.bounds else None
    return figures, tuple(str(found) for found in crossings(recipe.bounds, figures, before and before[1]))


def figures_and_report(place: Place, record: RunRecord, figures: Figures, recipe: Recipe, lock: Lock) -> str:
    """Keep the figures of a run that has ended well; its report. Raises Damaged."""
    keep_figures(place, record, figures)
    return report_of(place, record, recipe, lock)


def record_of(begun: Begun, stages: Sequence[StageRecord], workers: int, state: str) -> RunRecord:
    """The record of a run that ends now."""
    recipe = begun.recipe
    return RunRecord(
        run_id=begun.run_id,
        recipe=recipe.name,
        recipe_path=str(recipe.path or ""),
        recipe_toml=recipe.text,
        started=begun.started,
        seconds=round(time.monotonic() - begun.clock, 1),
        workers=workers,
        state=state,
        stages=tuple(stages),
        versions=machine_versions(),
        overrides=recipe.overrides,
        inputs=looked_json(begun.looked, recipe.privacy.samples),
        names=names_of(recipe),
    )


def _record_failure(ending: Ending, why: BaseException | None, tell: Tell) -> None:
    """Keep the record of a failed run; a store that cannot be written does not hide why it failed."""
    said = "" if why is None else visible(str(why) or type(why).__name__, ERROR_CHARACTERS)
    try:
        ending.write(replace(ending.record("failed"), error=said))
    except InputError as error:
        tell(f"The failed run could not be recorded: {error}")


def report_of(place: Place, record: RunRecord, recipe: Recipe, lock: Lock) -> str:
    """The run's HTML report."""
    from flows.report.page import build_page  # which only the end of a run needs
    from flows.report.unchanged import run_with_the_parts

    return build_page(place, record, recipe.privacy.samples, lock, parts_in=run_with_the_parts(place, record))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What a run would do now. notes: of its raw files, in lines; inputs: what was found where they are."""

    notes: tuple[str, ...]
    inputs: Mapping[str, Json]
    stages: tuple[Planned, ...]
    lock: Lock


def plan(recipe: Recipe, home: Path) -> RunPlan:
    """What a run would do now, and what is new among the raw files. Builds and writes nothing in the store."""
    resolved = resolve_inputs(recipe, home)
    notes = input_lines(recipe, resolved)
    stages = plan_run(Place(recipe.store), recipe, resolved.lock, notes.append)
    inputs = looked_json(resolved.looked, recipe.privacy.samples)
    return RunPlan(notes=tuple(notes), inputs=inputs, stages=tuple(stages), lock=resolved.lock)


def fetch_inputs(
    recipe: Recipe,
    home: Path,
    tell: Tell,
    options: FetchOptions | None = None,
    progress: ProgressCallback = no_progress,
) -> tuple[str, ...]:
    """Get the raw files of those sources that say where from, as far as they are not there; a line for each source.

    What `latest` means goes into the lock as soon as it is known. Raises InputError.
    """
    entries = [
        FetchEntry(source=entry.source.name, settings=entry.fetch)
        for entry in recipe.sources
        if entry.fetch is not None
    ]
    if not entries and options is None:
        return ()
    path = recipe.lock_path
    assert path is not None

    def record(fetched: Mapping[str, Json]) -> None:
        with recipe_held(path, tell):
            write_lock(path, replace(read_lock(path), fetched=fetched))

    with stat_cache(home) as cache:
        known = read_lock(path).fetched
        return fetch_recipe(entries, path.parent, known, record, options, cache, progress).lines


@contextmanager
def stat_cache(home: Path) -> Iterator[StatCache]:
    """What is known of files that were hashed before; what is learnt in the block is kept."""
    path = home / "raw-files.json"
    cache = StatCache(_hashed_before(path))

    def keep() -> None:
        try:
            with replaced_file(path) as new:
                new.write_text(json.dumps(dict(cache.known)))
        except OSError as error:
            remedy = disk_refusal(error, "set CLOZE_HOME to another folder") or "set CLOZE_HOME to another folder"
            raise InputError(f"Cannot write {path}: {remedy} ({error.strerror}).") from error

    with last_word(keep):
        try:
            yield cache
        finally:
            keep()


def _hashed_before(path: Path) -> dict[str, list[Json]]:
    """What is in the file of `stat_cache`; nothing where it cannot be read: then files are hashed once more."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    whole = isinstance(found, dict) and all(isinstance(e, list) and len(e) == HASHED_FIELDS for e in found.values())
    return found if whole else {}


def resolve_inputs(recipe: Recipe, home: Path) -> ResolvedLock:
    """The lock with every raw file found, and what else is where they are."""
    with stat_cache(home) as cache:
        resolved = resolve(recipe, read_lock(recipe.lock_path), cache)
        start, teacher = find_start(recipe, cache), find_teacher(recipe, cache)
        return replace(resolved, lock=replace(resolved.lock, start=start, teacher=teacher))


def input_lines(
    recipe: Recipe,
    resolved: ResolvedLock,
    looked_lines: Callable[[Mapping[str, Looked], str], list[str]] = looked_lines,
) -> list[str]:
    """What is said of a run's raw files: how many there are, which are new, and what is passed over.

    looked_lines: the lines of what is passed over
    """
    generations = resolved.lock.generations
    total = sum(len(files) for generation in generations for files in generation.values())
    new = ", ".join(f"{len(files):,} of {name}" for name, files in sorted(resolved.added.items()))
    what = f"new in generation {len(generations)}: {new}" if new else "none is new"
    first = f"{counted(total, 'raw file')} in {counted(len(generations), 'generation')}; {what}."
    looked = looked_lines(resolved.looked, recipe.privacy.samples)
    fitted = fitted_line(recipe.name, recipe.fitted) if recipe.fitted is not None and resolved.added else ""
    lines = [*guess_lines(recipe, resolved), *looked, *left_out_lines(recipe, resolved.lock), fitted]
    start, teacher = resolved.lock.start, resolved.lock.teacher
    begins = f"Training begins with the model in {start.folder} ({start.content})." if start is not None else ""
    learns = f"Training learns from the model in {teacher.folder} ({teacher.content})." if teacher is not None else ""
    return [first, *filter(None, [*lines, begins, learns])]


def stage_times(stages: tuple[StageRecord, ...]) -> dict[str, float]:
    """Seconds of each kind of stage, in the order in which they ran."""
    times: dict[str, float] = {}
    for stage in stages:
        times[stage.kind] = max(times.get(stage.kind, 0.0), stage.seconds)
    return times
