"""Stages as Prefect tasks: thread tasks that hand ranges of parts to one shared pool of worker processes.

Prefect records, retries and shows; the store alone says what is done. Tasks take stages as opaque arguments
(`quote`: Prefect does not look into them), cache nothing and persist nothing. A stage that the store holds whole
becomes one task run in the state Reused; any other becomes range tasks and a publishing task, which leaves the
ledger, and samples of what was dropped, as table artifacts. What the user can mend is the message of a failed state,
not a traceback.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import UUID

from prefect import flow, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, State, StateType
from prefect.futures import PrefectFuture
from prefect.logging import get_run_logger
from prefect.logging.handlers import APILogWorker
from prefect.states import Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.annotations import quote

from corpora.errors import InputError
from corpora.schema import DROPPED, dropped_rows
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.pool import WorkerDied, WorkerPool
from corpora.store.stage import PartPlan, Stage, Survey, build_parts, publish, survey_stage
from corpora.store.tables import read_table
from flows.orchestration.training import watch_training
from flows.recipes.lock import Lock
from flows.recipes.privacy import Privacy
from flows.recipes.recipe import Recipe
from flows.run.pipeline import Outcome, run_recipe
from flows.run.policies import RECORD_SECONDS, RETRIES, RETRY_DELAY_SECONDS, SAMPLES, SAMPLES_EACH, ranges
from flows.run.quarantine import MOST, quarantine_record
from flows.run.reasons import explain
from flows.run.records import StageRecord

Result = TypeVar("Result")
Made = tuple[str, str]  # kind and name of an artifact

UNFINISHED = [kind for kind in StateType if kind not in TERMINAL_STATES]


@dataclass(kw_only=True)
class RunContext:
    """What a run works with: its store, its workers, and who is told how it goes."""

    place: Place
    pool: WorkerPool
    privacy: str = "text"
    range_size: int | None = None
    tell: Callable[[str], None] = print
    advance: Callable[[str, int, int], None] = lambda stage, built, parts: None
    records: list[StageRecord] = field(default_factory=list)
    warm: set[str] = field(default_factory=set)
    deaths: Counter[str] = field(default_factory=Counter)  # of workers, by the record that each was reading
    lock: Lock = field(default_factory=Lock)  # as it is by now


def run_flow(recipe: Recipe, lock: Lock, context: RunContext) -> Outcome:
    """Run a recipe as a flow of its own, and wait until the server has written it all down.

    The flow's parameters are what a person wants to see of it; the rest it finds around itself, for Prefect
    sends parameters to its server. Raises what a stage raised.
    """

    @flow(name="cloze", flow_run_name=flow_run_name(recipe.name), task_runner=task_runner(), persist_result=False)
    def cloze(recipe_name: str, recipe_toml: str) -> State[Outcome]:
        """One run of a recipe."""
        return state_of(lambda: perform_recipe(recipe, lock, context), conclusion)

    state: State[Outcome] = cloze(recipe.name, recipe.text, return_state=True)  # type: ignore[assignment]
    wait_until_recorded(str(state.state_details.flow_run_id))
    outcome = state.result(raise_on_failure=True)
    assert isinstance(outcome, Outcome)
    return outcome


def flow_run_name(recipe_name: str) -> str:
    """What a flow run of a recipe that begins now is called."""
    return f"{recipe_name} {time.strftime('%Y-%m-%d %H:%M:%S')}"


def task_runner() -> Any:
    """Where a run's tasks wait for the workers: threads, for they do nothing themselves."""
    return ThreadPoolTaskRunner(max_workers=16)


def perform_recipe(recipe: Recipe, lock: Lock, context: RunContext) -> Outcome:
    """Run a recipe inside of the flow run that this is called in, and show it on that run's page."""
    name = recipe.name
    progress = create_progress_artifact(0.0, key=slug(f"progress-{name}"), description=f"{name}: parts built")
    assert isinstance(progress, UUID)
    performer = Performer(context, progress)
    outcome = run_with_quarantine(recipe, lock, performer)
    update_progress_artifact(progress, 100.0)
    described = f"{name}: what came from what, and how much of it"
    create_markdown_artifact(lineage(performer.manifests), key=slug(f"lineage-{name}"), description=described)
    return outcome


def run_with_quarantine(recipe: Recipe, lock: Lock, performer: "Performer") -> Outcome:
    """Run a recipe; where a record ended a worker at every attempt, go on without it. Raises what a stage raised."""
    context = performer.context
    context.lock = lock
    for _ in range(MOST):
        try:
            return run_recipe(context.place, recipe, context.lock, performer.perform)
        except WorkerDied as error:
            if context.deaths[error.reading] <= RETRIES or error.reading in context.lock.quarantine:
                raise
            context.lock = quarantine_record(recipe, context.lock, error, context.tell)
    return run_recipe(context.place, recipe, context.lock, performer.perform)


def state_of(work: Callable[[], Result], say: Callable[[Result], str]) -> State[Result]:
    """The state that a piece of work ends in: what came of it in a few words, or the paragraph of an InputError.

    Any other exception is left to Prefect, which records its traceback.
    """
    try:
        result = work()
    except InputError as error:
        return Failed(message=str(error), data=error)
    return Completed(message=say(result), data=result)


@task(
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=RETRIES,
    retry_delay_seconds=RETRY_DELAY_SECONDS,
    retry_condition_fn=lambda _task, _run, state: not is_input_error(state),
)
def build_range(stage: Any, plans: Any, run_context: Any) -> Any:
    """Build a range of parts on the pool; what is finished already is not built again."""
    context: RunContext = run_context
    bare = replace(stage, parts=())

    def build() -> int:
        try:
            return len(context.pool.run(build_parts, context.place, bare, plans))
        except WorkerDied as error:
            context.deaths.update([error.reading] if error.reading else [])
            raise

    return state_of(build, parts_built)


@task(
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=RETRIES,
    retry_delay_seconds=RETRY_DELAY_SECONDS,
    retry_condition_fn=lambda _task, _run, state: not is_input_error(state),
)
def train_range(stage: Any, plans: Any, run_context: Any) -> Any:
    """Train a model in a process of its own, then take it into the store; tried again it goes on from a checkpoint."""
    context: RunContext = run_context

    def train_and_keep() -> int:
        watch_training(stage, slug, context.advance)
        return len(build_parts(context.place, replace(stage, parts=()), plans))

    return state_of(train_and_keep, parts_built)


@task(cache_policy=NO_CACHE, persist_result=False)
def publish_stage(stage: Any, survey: Any, run_context: Any) -> Any:
    """Make the artifact appear, and leave its ledger where people look."""
    context: RunContext = run_context

    def publish_and_show() -> Manifest:
        manifest = publish(context.place, stage, survey)
        leave_artifacts(manifest, context)
        return manifest

    return state_of(publish_and_show, summary)


@task(cache_policy=NO_CACHE, persist_result=False)
def reuse_stage(manifest: Any, context: Any) -> Any:
    """A stage that the store holds whole."""
    leave_artifacts(manifest, context)
    return Completed(name="Reused", message=f"whole in the store: {summary(manifest)}", data=manifest)


def is_input_error(state: State[Any]) -> bool:
    """Whether a task failed for a reason that trying again cannot mend."""
    return isinstance(state.result(raise_on_failure=False), InputError)


class Performer:
    """Builds stages side by side, reuses what is whole, and keeps the run's records."""

    def __init__(self, context: RunContext, progress: UUID) -> None:
        self.context = context
        self.manifests: list[Manifest] = []
        self._progress = progress
        self._planned = self._built = 0

    def perform(self, stages: Sequence[Stage]) -> list[Manifest]:
        """The manifests of these stages, built where they are missing."""
        started = time.monotonic()
        surveys = [survey_stage(self.context.place, stage) for stage in stages]
        # All before the first is built: a stage is compared with what was there, as `cloze plan` compares it.
        reasons = [explain(self.context.place, s, survey) for s, survey in zip(stages, surveys, strict=True)]
        self._planned += sum(len(survey.missing) for survey in surveys)
        builds = [Build(stage, survey, self) for stage, survey in zip(stages, surveys, strict=True)]
        for build in builds:
            if build.survey.missing and build.stage.kind not in self.context.warm:
                self.context.warm.add(build.stage.kind)
                build.warm_up()
        for build in builds:
            build.submit()
        manifests = []
        for build, reason in zip(builds, reasons, strict=True):
            manifest = build.finish()
            self._note(build.stage, build.survey, manifest, reason, time.monotonic() - started)
            manifests.append(manifest)
        self.manifests += manifests
        return manifests

    def advance(self, build: "Build", number: int) -> None:
        """More parts of a stage are there."""
        self._built += number
        build.built += number
        what = build.stage.stage_folder
        self.context.advance(what, build.built, len(build.survey.missing))
        update_progress_artifact(self._progress, 100.0 * self._built / max(1, self._planned))

    def _note(self, stage: Stage, survey: Survey, manifest: Manifest, reason: str, seconds: float) -> None:
        record = StageRecord(
            kind=stage.kind,
            name=stage.name,
            folder=manifest.folder,
            state="reused" if survey.manifest is not None else "built",
            reason=reason,
            seconds=round(seconds, 2),
            parts=len(manifest.parts),
            parts_built=0 if survey.manifest is not None else len(manifest.parts) - len(survey.done),
        )
        self.context.records.append(record)
        said = line(record, manifest)
        self.context.tell(said)
        get_run_logger().info("%s", " ".join(said.split()))
        if notice := manifest.facts.get("notice"):
            self.context.tell(f"{stage.stage_folder}: {notice}")
            get_run_logger().warning("%s/%s: %s", stage.kind, stage.name, notice)


class Build:
    """One stage of a run while it is built: its range tasks, and how far they are."""

    def __init__(self, stage: Stage, survey: Survey, performer: Performer) -> None:
        self.stage = stage
        self.survey = survey
        self.built = 0
        self._performer = performer
        self._waiting: list[tuple[PrefectFuture[int], int]] = []
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

    def finish(self) -> Manifest:
        """Wait for the ranges, then publish; or say that it is reused."""
        for future, number in self._waiting:
            future.result()
            self._performer.advance(self, number)
        what, context = self.stage.stage_folder, quote(self._context)
        if self.survey.manifest is not None:
            reuse = reuse_stage.with_options(task_run_name=what)
            state = reuse(quote(self.survey.manifest), context, return_state=True)
        else:
            named = publish_stage.with_options(task_run_name=f"{what}: publish")
            state = named(quote(self.stage), quote(self.survey), context, return_state=True)
        manifest = state.result()
        assert isinstance(manifest, Manifest)
        return manifest

    def _submit(self, plans: Sequence[PartPlan]) -> PrefectFuture[int]:
        span = plans[0].name if len(plans) == 1 else f"{plans[0].name}..{plans[-1].name}"
        work = train_range if self.stage.kind == "models" else build_range
        named = work.with_options(task_run_name=f"{self.stage.stage_folder}: {span}")
        return named.submit(quote(self.stage), quote(tuple(plans)), quote(self._context))


def line(record: StageRecord, manifest: Manifest) -> str:
    """One stage as one line for the terminal."""
    what = manifest.stage_folder
    how = f"{record.state} {record.parts_built}/{record.parts} parts" if record.parts_built else record.state
    return f"{what:32} {how:22} {record.seconds:7.1f} s   {summary(manifest)}   ({record.reason})"


def summary(manifest: Manifest) -> str:
    """What came out, in a few words."""
    return ", ".join(f"{content.rows:,} {table}" for table, content in manifest.tables.items())


def leave_artifacts(manifest: Manifest, context: RunContext) -> None:
    """The ledger as a table artifact, and samples of the dropped documents."""
    name = manifest.stage_folder
    described = f"{name}: {summary(manifest)}"
    create_table_artifact(ledger_table(manifest), key=slug(f"ledger-{name}"), description=described)
    for table in ("dropped", "removed"):
        samples = dropped_samples(context.place, manifest, table, Privacy(context.privacy))
        if samples:
            described = f"{name}: samples of the {manifest.rows(table):,} {table}, by reason"
            create_table_artifact(samples, key=slug(f"{table}-{name}"), description=described)


def ledger_table(manifest: Manifest) -> list[dict[str, str]]:
    """Every account and figure of a manifest as rows."""
    rows = []
    for account in manifest.ledger.accounts:
        rows.append({"unit": account.unit, "outcome": "in", "count": f"{account.total:,}"})
        rows += [{"unit": account.unit, "outcome": o, "count": f"{n:,}"} for o, n in account.outcomes.items()]
    rows += [{"unit": name, "outcome": "", "count": f"{n:,}"} for name, n in manifest.ledger.figures.items()]
    return rows or [{"unit": table, "outcome": "rows", "count": f"{c.rows:,}"} for table, c in manifest.tables.items()]


def dropped_samples(place: Place, manifest: Manifest, table: str, privacy: Privacy) -> list[dict[str, str]]:
    """The first dropped documents of each reason, as far as privacy lets their text be shown."""
    seen = Counter[str]()
    rows: list[dict[str, str]] = []
    for row in dropped_rows(read_table(place, manifest, table, DROPPED.names)):
        reason = f"{row.step}: {row.reason}"
        seen[reason] += 1
        if seen[reason] <= SAMPLES_EACH:
            texts = {"detail": row.detail, "title": row.title, "excerpt": row.excerpt}
            shown = {name: privacy.show(text) for name, text in texts.items()}
            rows.append({"reason": reason, "where": privacy.where(row.locator), **shown})
        if len(rows) >= SAMPLES:
            break
    return rows


def conclusion(outcome: Outcome) -> str:
    """What came of a run, in a few words."""
    examples = sum(manifest.rows("examples") for manifest in outcome.shard_sets.values())
    trained = ", a model trained on them" if outcome.model is not None else ""
    return f"{examples:,} examples{trained}"


def parts_built(number: int) -> str:
    """What a range task did, in a few words."""
    return f"{number} part{'s' * (number != 1)} built"


def lineage(manifests: Sequence[Manifest]) -> str:
    """What came from what, in Markdown: a diagram, and the fingerprint and content of everything."""
    lines = ["```mermaid", *diagram(manifests), "```", ""]
    lines += ["| artifact | fingerprint | content |", "|---|---|---|"]
    for manifest in manifests:
        lines.append(f"| {manifest.stage_folder} | `{manifest.fingerprint}` | `{manifest.content}` |")
    return "\n".join(lines)


def diagram(manifests: Sequence[Manifest]) -> Iterator[str]:
    """The lines of a Mermaid flowchart. All generations of a kind and name are one box, which tells the newest."""
    yield '%%{init: {"flowchart": {"nodeSpacing": 16, "rankSpacing": 28, "padding": 8}}}%%'
    yield "flowchart TD"
    newest = {(m.kind, m.name): m for m in manifests}
    boxes = {what: f"n{number}" for number, what in enumerate(newest)}
    for what, manifest in newest.items():
        told = [f"<b>{manifest.kind}</b>", manifest.name, *summary(manifest).split(", ")]
        yield f'    {boxes[what]}["{"<br/>".join(told)}"]'
    yield from (f"    {boxes[old]} --> {boxes[new]}" for old, new in arrows(manifests))


def arrows(manifests: Sequence[Manifest]) -> list[tuple[Made, Made]]:
    """What was made from what, by kind and name: but for what a way over others says already."""
    known = {m.fingerprint: (m.kind, m.name) for m in manifests}
    parents: dict[Made, dict[Made, None]] = {made: {} for made in known.values()}
    for manifest in manifests:
        made = known[manifest.fingerprint]
        found = (known[parent.fingerprint] for parent in manifest.parents if parent.fingerprint in known)
        parents[made].update((parent, None) for parent in found if parent != made)
    behind: dict[Made, set[Made]] = {}  # each kind comes after those it is made from, so theirs are known
    for made, direct in parents.items():
        behind[made] = {further for parent in direct for further in (parent, *behind[parent])}
    return [
        (parent, made)
        for made, direct in parents.items()
        for parent in direct
        if not any(parent in behind[other] for other in direct)
    ]


def slug(text: str) -> str:
    """A key that Prefect takes for an artifact: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def wait_until_recorded(flow_run_id: str) -> None:
    """Wait until every task run of a flow run is on record in a final state, or RECORD_SECONDS are over."""
    deadline = time.monotonic() + RECORD_SECONDS
    APILogWorker.drain_all(timeout=RECORD_SECONDS)
    with get_client(sync_client=True) as client:
        of_flow = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))  # type: ignore[list-item]
        # The unfinished ones are asked for, not all: the server answers with 200 at most.
        unfinished = TaskRunFilter(state=TaskRunFilterState(type=TaskRunFilterStateType(any_=UNFINISHED)))
        settled = 0
        while time.monotonic() < deadline and settled < 3:
            left = client.read_task_runs(flow_run_filter=of_flow, task_run_filter=unfinished, limit=1)
            settled = 0 if left else settled + 1
            time.sleep(0.2)
