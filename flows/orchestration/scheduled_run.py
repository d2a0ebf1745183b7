"""A recipe on a schedule: when it is due, what its runs are given, and such a run.

    build_schedule, find_next_due   when a recipe is due, and next; `cloze status` finds that in the recipe's store
    build_flow                      a recipe as a flow, with parameters that override the recipe's settings
    build_recipe                    a run of that flow: its steps and tasks are those of any run (`flow.py`)

The entrypoint `flows.orchestration.scheduled_run.recipes/tickets` is the flow of `recipes/tickets.toml` below the
folder in which a worker works; `cloze serve` gives the whole path.

The recipe is read from its current file when the run begins, so a schedule follows every edit of it, and the program is
the one on disk now: the folder of compiled kernels is chosen again before anything that compiles is imported, which is
why this module imports so little. Any fault of the recipe or of a value ends a run as Failed, with the paragraph that
the command would print; a failure is also reported in the log of the command as on a terminal. The process stops as
`flows.signals` says, also when the `cloze serve` that started it is gone.
"""

import json
import os
import shlex
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID
from zoneinfo import available_timezones

import httpx
from prefect import Flow, flow, runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter, FlowRunFilterExpectedStartTime
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.logging import get_run_logger
from prefect.schedules import Cron, Interval, Schedule
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled, Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner

from corpora.errors import InputError
from corpora.store.leases import HeartbeatWriter
from corpora.store.places.place import Place
from corpora.store.settings import PROCESSES, SECONDS, parse_toml
from flows.environment import prepare_environment
from flows.orchestration.pages import LiveArtifact, to_flow_name
from flows.recipes.recipe import Recipe
from flows.recipes.tables import parse_override, split_key
from flows.signals import answer_signals, call_on_stop, stop

# When a recipe is due

FORBIDDEN = "%&<>"  # in the name of a deployment


def build_schedule(cron: str | None, every_seconds: int | None, since: datetime | None = None) -> Schedule:
    """Build a Prefect schedule from the options of a command.

    Args:
        cron: A cron expression, in this machine's time zone.
        every_seconds: The number of seconds between two runs. Exactly one of `cron` and `every_seconds` must be given.
        since: The time at which intervals start. If None, the time at which the schedule is first applied.

    Raises:
        InputError: If both or neither are given, or if a value is invalid.
    """
    if (cron is None) == (every_seconds is None):
        raise InputError('Say when it is to run: --cron "0 3 * * *", or --every SECONDS (one of the two).')
    if every_seconds is not None:
        SECONDS.check("--every", every_seconds)
        return Interval(every_seconds, anchor_date=since)
    assert cron is not None
    try:
        return Cron(cron, timezone=find_time_zone())
    except ValueError as error:
        raise InputError(
            f"--cron {cron!r} is not a cron expression: write minute, hour, day of the month, month and day of the "
            'week, as in "0 3 * * *" for every night at three.'
        ) from error


def find_time_zone() -> str:
    """Return the name of this machine's time zone, such as "Europe/Berlin", or "UTC" if it is unknown."""
    name = os.environ.get("TZ") or Path("/etc/localtime").resolve().as_posix().partition("/zoneinfo/")[2]
    return name if name in available_timezones() else "UTC"


def check_deployable(recipe: Recipe, workers: int | None) -> None:
    """Check that a recipe can become a Prefect deployment.

    Args:
        recipe: The recipe.
        workers: The number of worker processes of each run. If None, it depends on the amount of raw files.

    Raises:
        InputError: If the recipe's name has a character that a deployment name cannot have, or the number of workers is
            out of range.
    """
    if set(recipe.name) & set(FORBIDDEN):
        raise InputError(f"name = {recipe.name!r}: a recipe on a schedule cannot have any of {FORBIDDEN} in its name.")
    if workers is not None:
        PROCESSES.check("--workers", workers)


def build_run_parameters(recipe: Recipe, store: str | None, workers: int | None) -> dict[str, Any]:
    """Build the parameters for all runs of a recipe's Prefect deployment.

    Args:
        recipe: The recipe. Its overrides (settings from the command line) become parameters.
        store: A store to use instead of the recipe's store, or None.
        workers: The number of worker processes. If None, it depends on the amount of raw files.

    Returns:
        A dict with the keys "set" (overrides as "key=value") and "worker_processes". Empty values are omitted.
    """
    pairs = [f"{key}={value}" for key, value in recipe.overrides.items()]
    pairs += [f"store={json.dumps(recipe.store)}"] if store else []
    every = {"set": pairs, "worker_processes": workers}
    return {key: value for key, value in every.items() if value}


def describe_schedule(schedule: Schedule) -> str:
    """Describe a schedule in words.

    >>> describe_schedule(Interval(60)), describe_schedule(Cron("0 3 * * *", timezone="Europe/Berlin"))
    ('every 60 s', '0 3 * * * (Europe/Berlin)')
    """
    if schedule.interval is not None:
        return f"every {schedule.interval.total_seconds():g} s"
    return f"{schedule.cron} ({schedule.timezone})"


def add_timestamps(text: str, run: str = "") -> str:
    """Prefix each line of a message for the log of `cloze serve` with the local time.

    Args:
        text: The message, of one or more lines.
        run: Text to insert after the time, such as "[483910] ", the short id of a run.
    """
    now = f"{datetime.now():%Y-%m-%d %H:%M:%S}"
    return "\n".join(f"{now} {run}{line}" for line in text.split("\n"))


def get_serving_lock(home: Path, name: str) -> Path:
    """Return the path of the file that `cloze serve` locks while it serves a recipe with the given name."""
    return home / "prefect" / f"serving-{quote(name, safe='')}.lock"


@contextmanager
def show_in_status(
    place: Place, path: str, facts: Callable[[], Mapping[str, Any]], what: str, tell: Callable[[str], None]
) -> Iterator[None]:
    """Let `cloze status` report the values that `facts()` returns, during the block.

    If the store cannot be written, a message is printed and the block still runs.

    Args:
        place: The store in which the status file is written.
        path: The path of the status file within the store.
        facts: Called regularly; returns the values to report, by name.
        what: What is reported, "schedule" or "release". It is used in the message if the store cannot be written.
        tell: Called with that message.
    """
    with ExitStack() as stack:
        try:
            presence = stack.enter_context(HeartbeatWriter(place, path, facts))
            stack.enter_context(call_on_stop(presence.stop))
        except InputError as error:
            tell(f"`cloze status` will not show this {what}: {error}")
        yield


def find_next_due(client: SyncPrefectClient, deployment_id: UUID) -> tuple[datetime | None, int]:
    """Find the next scheduled run of a Prefect deployment.

    Args:
        client: Client of the Prefect API.
        deployment_id: The id of the deployment.

    Returns:
        The time at which the next run is due (None if no run is scheduled), and the number of overdue runs.

    Raises:
        httpx.HTTPError: If the API does not answer.
    """
    runs = read_runs(client, deployment_id, [StateType.SCHEDULED])
    times = [run.next_scheduled_start_time for run in runs if run.next_scheduled_start_time is not None]
    to_come = [moment for moment in times if moment > datetime.now(UTC)]
    return (to_come[0] if to_come else None), len(times) - len(to_come)


def read_runs(client: SyncPrefectClient, deployment_id: UUID, states: list[StateType], **due: Any) -> list[FlowRun]:
    """Read the flow runs of a Prefect deployment that are in the given states, in the order in which they are due.

    The server limits how many runs are returned.

    Args:
        client: Client of the Prefect API.
        deployment_id: The id of the deployment.
        states: The state types to include.
        due: Additional fields of Prefect's `FlowRunFilter`, such as `expected_start_time`.
    """
    return client.read_flow_runs(
        deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [deployment_id]}}),
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": states}}, **due}),
        sort=FlowRunSort.NEXT_SCHEDULED_START_TIME_ASC,
    )


# A run of a schedule

MERGED = "Merged"  # the state of a scheduled run that another run covers
PARENT_VARIABLE = "CLOZE_RUNNER"  # in the environment of a run that `cloze serve` began: the process that started it
PARENT_SECONDS = 1.0  # between two checks that the parent still lives
THREADS: Any = ThreadPoolTaskRunner(max_workers=16)  # as in `cloze run`: they wait for the worker processes


class RunLog:
    """Prints messages to the log of `cloze serve` without buffering.

    Each line is prefixed with the time and, once `begin` was called, the run's short id.
    """

    def __init__(self) -> None:
        self._run = ""

    def begin(self, run_id: str) -> None:
        """Prefix all subsequent log lines with the short form of a run id, such as "[483910] "."""
        from flows.run.addresses import shorten_run_ids  # not above: what it imports compiles

        self._run = f"[{shorten_run_ids([run_id])[run_id]}] "

    def __call__(self, text: str) -> None:
        print(add_timestamps(text, self._run), flush=True)


run_log = RunLog()


def name_flow_run() -> str:
    """Build the name of a Prefect flow run that begins now, such as "news 2026-11-29 03:00:00" (local time)."""
    return f"{runtime.deployment.name} {time.strftime('%Y-%m-%d %H:%M:%S')}"


def print_failure(state: State[Any], path: Path, overrides: Mapping[str, str]) -> None:
    """Print the message of a failed run's final state, preceded by a traceback unless the error is an InputError.

    Prefect calls this in the run's process. If that process has died, Prefect calls it in the runner's process, where
    this function also sends the failure notification.

    Args:
        state: The final state of the run.
        path: The path of the recipe.
        overrides: Values that replace settings of the recipe, by key.
    """
    error = state.result(raise_on_failure=False) if state.is_failed() else None
    if isinstance(error, BaseException) and not isinstance(error, InputError):
        run_log("".join(traceback.format_exception(error)).rstrip())
    run_log(f"cloze: {state.message}")
    if state.is_crashed():
        from flows.orchestration.notifications import notify_by_file

        notify_by_file(path, overrides, str(state.message), run_log)


def prepare_process() -> None:
    """Make the current process, which performs a scheduled run, stop on signals.

    It also stops when the `cloze serve` that started it has ended.
    """
    answer_signals()
    if parent := os.environ.get(PARENT_VARIABLE):
        end_with_parent(int(parent), lambda: stop(signal.SIGTERM))


def conclude_run(run: Callable[[Path], tuple[str, str]]) -> State[Any]:
    """Do the work of a scheduled run, and return its final Prefect state: Failed if the work raises InputError.

    Args:
        run: Function that does the work. It is called with CLOZE_HOME, and returns the name and message of the final
            state.
    """
    try:
        name, message = run(prepare_environment(os.environ))
        return Completed(name=name, message=message)
    except InputError as error:
        return Failed(message=str(error), data=error)


def build_recipe(path: Path, overrides: dict[str, str], workers: int | None, home: Path) -> tuple[str, str]:
    """Run a recipe inside the current Prefect flow run, building the artifacts that the store does not have yet.

    Args:
        path: The path of the recipe.
        overrides: Overrides of the recipe's settings, by key.
        workers: The number of worker processes. If None, it depends on the amount of raw files.
        home: CLOZE_HOME, the folder of this installation's caches and server.

    Returns:
        The name and the message of the flow run's final state.

    Raises:
        InputError: For an error that the user can fix.
        Exception: Any exception that a stage raised.
    """
    from flows.orchestration.embedded_server import use_api
    from flows.orchestration.flow import run_in_this_flow
    from flows.orchestration.flow_end import close_when_stopped
    from flows.orchestration.notifications import read_recipe_or_notify
    from flows.orchestration.recording import Recording, use_recording

    use_api(PREFECT_API_URL.value())
    logger = get_run_logger()

    def note(line: str) -> None:
        logger.info("%s", line)
        run_log(line)

    with close_when_stopped():
        merge_due_runs(note)
        recipe = read_recipe_or_notify(path, overrides, note)
        with use_recording(Recording(PREFECT_API_URL.value(), run_log)):
            artifact = LiveArtifact(key=f"next-run-{recipe.name}")
            show_next = partial(show_next_run, artifact, recipe.name)
            run = run_in_this_flow(recipe, home, run_log, workers, run_log.begin, show_next)  # it logs its lines itself
            coming = show_next()
    note(f"Report: {run.report_path}")
    return run.final_state_name, "; ".join(filter(None, [run.summarize(), coming]))


def show_next_run(artifact: LiveArtifact, recipe: str) -> str:
    """Show on a run's page in Prefect's UI when the next run of its schedule is due, and how many runs are overdue.

    Args:
        artifact: The Prefect artifact to create or update.
        recipe: The name of the recipe.

    Returns:
        A text such as "the next run is due at 2026-11-30 03:00:00 CET"; "" if no run is due, this run belongs to no
        deployment, or the server does not answer.
    """
    if runtime.deployment.id is None:
        return ""
    try:
        with get_client(sync_client=True) as client:
            due, waiting = find_next_due(client, UUID(runtime.deployment.id))
    except httpx.HTTPError:
        return ""
    moment = f"{due.astimezone():%Y-%m-%d %H:%M:%S %Z}" if due is not None else ""
    text = f"the next run is due at {moment}" if moment else ""
    row = {"next run": moment or "none", "waiting": str(waiting)}
    artifact.show([row], f"{recipe}: {text or 'no other run is due'}")
    return text


def merge_due_runs(tell: Callable[[str], None]) -> None:
    """Cancel all other due runs of the current run's schedule, because they would have nothing to do.

    Does not cancel runs that somebody requested, or that have other parameters. If the server does not answer, cancels
    none.

    Args:
        tell: Called with a message if runs were canceled, or if the server does not answer.
    """
    if runtime.deployment.id is None:
        return
    by_now = FlowRunFilterExpectedStartTime(before_=datetime.now(UTC))  # type: ignore[arg-type]
    try:
        with get_client(sync_client=True) as client:
            this_run = client.read_flow_run(UUID(runtime.flow_run.id))
            deployment_id = UUID(runtime.deployment.id)
            due_runs = read_runs(client, deployment_id, [StateType.SCHEDULED], expected_start_time=by_now)
            covered = [
                run
                for run in due_runs
                if run.auto_scheduled and run.id != this_run.id and run.parameters == this_run.parameters
            ]
            merged: State[None] = Cancelled(
                name=MERGED, message=f"Due while another run was going; {this_run.name} followed."
            )
            for run in covered:
                client.set_flow_run_state(run.id, merged)
    except httpx.HTTPError as error:
        tell(f"Other runs that are due follow each by itself: the Prefect server does not say which ({error}).")
        return
    if covered:
        tell(
            f"{len(covered)} more run{'s' * (len(covered) > 1)} of the schedule became due meanwhile: this one follows "
            "for all."
        )


def end_with_parent(parent: int, end: Callable[[], object]) -> None:
    """Call `end` from a background thread as soon as the parent of this process has ended.

    Args:
        parent: The parent's process id when this process started.
        end: Function to call, without arguments. Called once.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        end()

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


# The flow of a recipe

# What any run may be given: figures and choices that decide which texts stay, how they are cut, how long a training is.
# None of them names a program, a file, an address or a place to write to, decides who is notified or what is released,
# kept, hidden or bounded, or how much of the machine a run takes. Everything else is refused.
ALLOWED_TABLES = ("clean", "duplicates", "held_out", "language", "lines", "repeated_lines", "rules")
ALLOWED_KEYS = {
    "": ("seed",),
    "vocabulary": ("size", "lowercase", "strip_accents", "min_frequency", "limit_alphabet", "character_coverage"),
    "shards": ("length", "copies", "target_tokens", "seed"),
    "training": ("learning_rate", "warmup_steps", "weight_decay", "clip_norm", "seed", "max_epochs"),
}
GIVEN_VARIABLE = "CLOZE_GIVEN"  # in the environment of a run: the settings that its command was given
SUFFIX = ".toml"
RUN_ID_VARIABLE = "PREFECT__FLOW_RUN_ID"  # in the environment of a run's process


def build_entrypoint(path: str) -> str:
    """Build the entrypoint for prefect.yaml, from which Prefect imports the flow of a recipe.

    Args:
        path: The path of the recipe's file, relative to the workers' working directory, or absolute.

    Raises:
        InputError: If the file extension is not .toml.

    >>> build_entrypoint("v1.2/tickets.toml")
    'flows.orchestration.scheduled_run.v1%2E2/tickets'
    """
    if not path.endswith(SUFFIX):
        raise InputError(f"The recipe {path} is not named *{SUFFIX}: a deployment finds it by such a name. Rename it.")
    escaped = path.removesuffix(SUFFIX)
    for sign in "%.:{}$":
        escaped = escaped.replace(sign, f"%{ord(sign):02X}")
    return f"{__name__}.{escaped}"


def __getattr__(name: str) -> Flow[..., Any]:
    """Return the Prefect flow of a recipe as an attribute of this module, so that Prefect can import it.

    Args:
        name: The recipe's escaped path, as at the end of an entrypoint from `build_entrypoint`.

    Raises:
        AttributeError: If there is no such recipe.
    """
    path = Path(unquote(name) + SUFFIX)
    if name.startswith("_") or not (path.is_file() or RUN_ID_VARIABLE in os.environ):
        raise AttributeError(f"{path.resolve()} is no recipe: start `prefect deploy` in the folder of prefect.yaml.")
    return build_flow(path.resolve())


def build_flow(path: Path) -> Flow[..., Any]:
    """Build the Prefect flow of the recipe in a file.

    The flow's parameters are `set` (overrides as "key=value") and `worker_processes`. The recipe is only read for its
    name; each run reads it again.

    Args:
        path: The path of the recipe's file.
    """

    def run_recipe(set: Sequence[str] = (), worker_processes: int | None = None) -> State[Any]:
        prepare_process()
        return conclude_run(lambda home: build_recipe(path, parse_overrides(set), worker_processes, home))

    def tell_failure(flow: Any, flow_run: Any, state: State[Any]) -> None:
        try:
            overrides = parse_overrides(flow_run.parameters.get("set", ()))
        except InputError:  # the run was refused them: the recipe says whom to notify
            overrides = {}
        print_failure(state, path, overrides)

    run_recipe.__name__ = path.stem
    run_recipe.__doc__ = f"""A run of {path.name}, with the recipe's settings except those given here.

    Args:
        set: more settings over the recipe, each as key=value: duplicates.threshold=0.7
        worker_processes: without a number, one a core
    """
    return flow(
        name=to_flow_name(read_recipe_name(path)),
        flow_run_name=name_flow_run,
        task_runner=THREADS,
        persist_result=False,
        on_failure=[tell_failure],
        on_crashed=[tell_failure],
    )(run_recipe)


def read_recipe_name(path: Path) -> str:
    """Return the name of the recipe in a file, or the file's stem if the recipe cannot be read."""
    try:
        return str(parse_toml(path.read_text(encoding="utf-8")).get("name", path.stem))
    except (OSError, ValueError):
        return path.stem


def parse_overrides(pairs: Sequence[str]) -> dict[str, str]:
    """Parse the settings passed to a scheduled run into values that replace settings of its recipe.

    Settings are allowed if `is_allowed` accepts them, or if they were passed to the command that created the schedule.

    Args:
        pairs: The settings, each as "key=value".

    Returns:
        The value of each setting as text, by key.

    Raises:
        InputError: If a setting is malformed or not allowed.
    """
    allowed_pairs = json.loads(os.environ.get(GIVEN_VARIABLE, "[]"))
    for pair in pairs:
        if not (is_allowed(pair) or pair in allowed_pairs):
            raise InputError(
                f"set {pair}: a run of a schedule is not given this setting. Write it into the recipe, or give it to "
                f"`cloze serve` or `cloze deploy` as `--set {shlex.quote(pair)}`."
            )
    return dict(parse_override(pair, "set") for pair in pairs)


def is_allowed(pair: str) -> bool:
    """Return True if a setting only affects how data are processed, so that anyone who can start runs may set it.

    Args:
        pair: The setting as "key=value".

    Raises:
        InputError: If the setting does not have this form.

    >>> is_allowed("duplicates.threshold=0.7"), is_allowed('"notify".command=["a"]'), is_allowed("training={}")
    (True, False, False)
    """
    *parents, key = split_key(parse_override(pair, "set")[0])
    table = parents[0] if parents else ""
    return table in ALLOWED_TABLES or key in ALLOWED_KEYS.get(table, ())
