"""One run from its beginning to its end: its state, and the one place that prints its lines.

`prepare_run` in `steps.py` makes it, the stages change it as they end, and `build_record` is the part that is written
into the store.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from corpora.generic_types import Result, Tell
from corpora.sources.passed_over import FileCounts
from corpora.store.manifest import Manifest
from corpora.store.places.address import without_password
from corpora.store.places.place import Place
from corpora.store.worker_pool import WorkerDied
from flows.engines.contract import RunEngine
from flows.maintenance.release import ReleaseCandidate, prepare_candidate
from flows.orchestration.late_runs import LateRun
from flows.orchestration.notifications import Notifier
from flows.orchestration.pages import (
    Progress,
    build_flow_parameters,
    describe_stage,
    log,
    name_run,
    run_tags,
    summarize_outcome,
    to_flow_name,
)
from flows.orchestration.recording import PageBuffer, find_profile_api
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.faults.damage import DamageTracker, describe_unread_records, find_set_aside
from flows.run.faults.locks import change_lock
from flows.run.inputs.unread_files import build_unread_json
from flows.run.pipeline import Outcome
from flows.run.record.figures import (
    Figures,
    compute_final_figures,
    find_figures_before,
    find_run_before,
    list_run_crossings,
)
from flows.run.record.ledger_balance import list_surface_warnings, list_warnings
from flows.run.record.run_record import (
    FlowRun,
    RunRecord,
    SetAside,
    StageHistory,
    StageRecord,
    read_versions,
    write_run,
)
from flows.run.record.run_status import Advance, RunHeartbeat, StageProgress, list_artifact_names
from flows.signals import wait_if_stopping

DRIFTED = "Drifted"  # the state of a run that is complete and crosses a bound of its recipe


def ignore_progress(stage: str, built: int, parts: int) -> None:
    """Do nothing. Used as the `on_progress` callback if the progress of stages is not needed."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result of comparing a run's metrics with the limits in its recipe, once all of its stages are built.

    Attributes:
        figures: The metrics of the run, such as counts and shares of documents.
        crossed: One message for each limit of the recipe that the metrics exceed.
        candidate: The release to add, or None if the recipe names none.
        set_aside: The raw files and records that the run had to skip.
        settled: Folders of earlier runs' artifacts that were reused without checking their files.
    """

    figures: Figures = field(default_factory=dict)
    crossed: tuple[str, ...] = ()
    candidate: ReleaseCandidate | None = None
    set_aside: tuple[SetAside, ...] = ()
    settled: tuple[str, ...] = ()


@dataclass(kw_only=True)
class RunState:
    """The state of one run. It stays in the process that started the run.

    Attributes:
        recipe: The recipe.
        run_id: The id of the run.
        started: When the run began, in ISO 8601 with the time zone.
        pulse: Writes the run's heartbeat to the store, to show that the run is alive.
        print_line: Called with each line that the run prints.
        on_progress: Called with the progress of stages and training: stage, parts (output files) built, and parts in
            total.
        lock: The contents of the lock file, which records the raw files used and skipped.
        file_counts: Counts of the files that were found but not read, by source.
        clock: The time of `time.monotonic()` when the run began.
        stages: The record of each pipeline stage (its state and duration), by artifact folder.
        manifests: The manifest (description of the stored result) of each finished stage, by artifact folder.
        is_watched: True if the run is a Prefect flow run.
        pages: Collects what the run's page in Prefect's UI would have shown, if the run is not a Prefect flow run.
        worker_deaths: The number of worker processes that died while reading a record, by record.
        judgement: The metrics and exceeded limits; set once all stages are built.
        flow_run: The Prefect flow run, once it exists.
        notifier: Sends the run's notifications.
        pool: The workers; set once they are open.
        outcome: The artifacts (stored results); set once all stages are built.
        record: The run record; set once the run has succeeded.
        progress_lock: Held by the thread that records progress.
    """

    recipe: Recipe
    run_id: str
    started: str
    pulse: RunHeartbeat
    print_line: Tell
    on_progress: Advance = ignore_progress
    lock: Lock = field(default_factory=Lock)
    file_counts: Mapping[str, FileCounts] = field(default_factory=dict)
    clock: float = field(default_factory=time.monotonic)
    stages: dict[str, StageHistory] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    is_watched: bool = True
    pages: PageBuffer = field(default_factory=PageBuffer)
    worker_deaths: Counter[str] = field(default_factory=Counter)
    judgement: Judgement = field(default_factory=Judgement)
    flow_run: FlowRun | None = None
    notifier: Notifier = field(init=False, repr=False)
    pool: RunEngine = field(init=False, repr=False)
    outcome: Outcome = field(init=False, repr=False)
    record: RunRecord = field(init=False, repr=False)
    progress_lock: threading.RLock = field(default_factory=threading.RLock)
    _record_lock: threading.Lock = field(default_factory=threading.Lock)
    _is_written: bool = False

    def __post_init__(self) -> None:
        self.place = Place(self.recipe.store)
        self.damage = DamageTracker(place=self.place, tell=self.warn)
        self.progress = Progress(self.recipe)

    def set_notifier(self, notifier: Notifier) -> None:
        """Set the notifier that sends this run's notifications, and give it the run's id and page URL."""
        self.notifier = notifier
        notifier.run_id = self.run_id
        notifier.page = lambda: self.flow_run.page if self.flow_run is not None else ""

    @property
    def records(self) -> list[StageRecord]:
        """Records of the pipeline stages that have ended so far, in the order in which they ended."""
        return [history.record for history in list(self.stages.values()) if history.record is not None]

    @property
    def report_path(self) -> str:
        """Path or URL of the run's report. The report exists once the run has ended."""
        return self.place.to_address(f"runs/{self.run_id}/report.html")

    @property
    def final_state_name(self) -> str:
        """Final state of a successful run: "Drifted" if it exceeds a limit in its recipe, else "Completed"."""
        return DRIFTED if self.build_record("completed").is_drifted else "Completed"

    def summarize(self) -> str:
        """Summarize the run in one line: its outcome, and the limits in its recipe that it exceeds.

        Needs `outcome` and `judgement`, which are set once all stages are built.
        """
        record = self.build_record("completed")
        more = ", ".join(record.outcome[1:])
        return "; ".join([summarize_outcome(self.outcome), *filter(None, [more]), *record.all_crossed])

    def tell(self, text: str, level: str = "info") -> None:
        """Print a line on the terminal, and write it to the log of the Prefect flow run if one exists.

        Args:
            text: The line.
            level: The log level in lower case, such as "info" or "warning".
        """
        self.print_line(text)
        log(" ".join(text.split()), level)

    def warn(self, text: str) -> None:
        """Print a line, and log it as a warning."""
        self.tell(text, "warning")

    def advance(self, stage: str, built: int, parts: int) -> StageProgress:
        """Record the progress of a pipeline stage or its training. Thread-safe.

        Args:
            stage: The stage's folder, `KIND/NAME`, followed by " steps" if training steps are counted.
            built: The number of parts (output files) or steps done so far.
            parts: The total number of parts or steps.

        Returns:
            The progress and speed of the stage.
        """
        with self.progress_lock:
            self.on_progress(stage, built, parts)
            pace = self.pulse.advance(stage, built, parts)
            self.progress.advance(stage, built, pace)
        return pace

    def call_on_worker(self, function: Callable[..., Result], *args: object) -> Result:
        """Call `function(*args)` on a worker process, and return its result.

        Raises:
            WorkerDied: If the worker dies. The record that it was reading is counted in `worker_deaths`.
            Exception: Any exception that the function raises.
        """
        wait_if_stopping()
        try:
            return self.pool.run(function, *args)
        except WorkerDied as error:
            wait_if_stopping()  # it ended with everything else
            self.worker_deaths.update([error.record] if error.record else [])
            raise

    def record_stage(self, manifest: Manifest, seconds: float) -> None:
        """Record that a stage is complete, and print its results.

        Args:
            manifest: The manifest of the finished stage (the description of its stored result).
            seconds: How long the stage took, in seconds.
        """
        self.manifests[manifest.folder] = manifest
        if manifest.kind == "verdicts":  # what it is made of has been judged
            self.settle_generations()
        record = self.stages[manifest.folder].end(manifest, seconds)
        with self.progress_lock:
            self.progress.finish(manifest.stage_folder, record.state)
        self.print_stage(record, manifest)

    def settle_generations(self) -> None:
        """Record in the lock file that the documents of all raw files found so far have been deduplicated.

        Later runs report an error if one of these raw files has disappeared.
        """
        if self.lock.pending:
            number = len(self.lock.generations)
            self.lock = replace(self.lock, pending=0)
            change_lock(
                self.recipe.lock_path,
                self.print_line,
                lambda on_disk: replace(on_disk, pending=max(0, len(on_disk.generations) - number)),
            )

    def move_stage_last(self, folder: str) -> None:
        """Move a stage to the end of the run's record.

        This is used when a run repeats its stages after finding a damaged file, because they then end in a different
        order.

        Args:
            folder: The artifact folder of the stage, which must be in `stages` and `manifests`.
        """
        self.stages[folder] = self.stages.pop(folder)
        self.manifests[folder] = self.manifests.pop(folder)

    def print_stage(self, record: StageRecord, manifest: Manifest) -> None:
        """Print the results of a finished stage in one line, followed by warnings for the user.

        Args:
            record: What the run did with the stage.
            manifest: The description of the stage's stored result.
        """
        self.tell(describe_stage(record, manifest))
        notice = manifest.facts.get("notice")
        if notice and record.state == "reused":  # else it was given before the stage was built
            self.warn(f"{manifest.stage_folder}: {notice}")
        for unread in describe_unread_records(self.place, manifest, self.recipe.privacy.samples):
            self.warn(unread)
        for warning in list_warnings(manifest) if manifest.kind == "shards" else ():
            self.warn(warning)

    def judge(self) -> None:
        """Compute the metrics of a run after its stages are built, and compare them with the limits in its recipe.

        Sets `judgement`.

        Raises:
            Damaged: If an artifact (stored result) cannot be read.
        """
        self.settle_generations()
        self.judgement = Judgement(settled=self.outcome.settled)
        record, recipe = self.build_record("completed"), self.recipe
        figures = compute_final_figures(self.place, record)
        for looks in list_surface_warnings({name: figure.value for name, figure in figures.items()}):
            self.tell(looks)
        before = find_figures_before(self.place, record, self.tell) if recipe.bounds else None
        crossed = list_run_crossings(self.place, recipe.bounds, record, figures, before)
        name = recipe.release.name
        earlier = find_run_before(self.place, record, self.tell)
        known = earlier.set_aside if earlier is not None else ()
        self.judgement = Judgement(
            figures=figures,
            crossed=crossed,
            candidate=prepare_candidate(recipe, record, name, figures) if name else None,
            set_aside=find_set_aside(self.lock, self.outcome.documents, self.file_counts, known),
            settled=self.outcome.settled,
        )

    def build_record(self, state: str, error: str = "") -> RunRecord:
        """Build the record of the run as if it ended now.

        Args:
            state: How the run ended: "completed", "failed" or "interrupted".
            error: Why it failed; "" if it did not.
        """
        recipe, judgement = self.recipe, self.judgement
        return RunRecord(
            run_id=self.run_id,
            recipe=recipe.name,
            recipe_path=str(recipe.path or ""),
            recipe_toml=recipe.text,
            started=self.started,
            seconds=round(time.monotonic() - self.clock, 1),
            workers=self.pulse.workers,
            state=state,
            stages=tuple(self.records),
            versions=read_versions(),
            overrides=recipe.overrides,
            inputs=build_unread_json(self.file_counts, recipe.privacy.samples),
            names=list_artifact_names(recipe),
            crossed=judgement.crossed,
            withheld=judgement.candidate.crossed if judgement.candidate is not None else (),
            set_aside=judgement.set_aside,
            settled=judgement.settled,
            flow_run=self.flow_run,
            watched=self.is_watched,
            error=error,
        )

    def describe_late_run(self, end: Mapping[str, str], kind: str = "builds") -> LateRun:
        """Describe a run that ended without a Prefect flow run, so that it can be reported to Prefect later.

        Args:
            end: The final state as a dict with the keys "type", "name" and "message".
            kind: What the run did: "builds", or "nothing new" if the store already had everything.
        """
        recipe = self.recipe
        return LateRun(
            store=self.place.to_address(""),
            run_id=self.run_id,
            recipe=recipe.name,
            flow=to_flow_name(recipe.name),
            run={
                "name": name_run(recipe.name, self.started),
                "parameters": build_flow_parameters(recipe),
                "tags": run_tags(recipe, kind),
            },
            state=end,
            tasks=tuple(self.pages.tasks),
            artifacts=tuple(self.pages.artifacts.values()),
            lines=tuple(self.pages.lines),
            api=without_password(find_profile_api(own_server=False) or ""),
        )

    def write_record(self, record: RunRecord, report: str | None = None) -> None:
        """Write the run's record and report to the store, unless this was done before, and stop the heartbeat.

        Both the run itself and a signal handler may call this; only the first call writes.

        Args:
            record: The record.
            report: The report as HTML; None writes no report.

        Raises:
            InputError: If the store cannot be written.
        """
        with self._record_lock:
            if not self._is_written:
                cost = self.pulse.measure_cost(sum(stage.bytes_built for stage in record.stages))
                write_run(self.place, replace(record, cost=cost), self.lock, report)
                self._is_written = True
        self.pulse.end()
