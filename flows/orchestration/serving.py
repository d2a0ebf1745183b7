"""`cloze serve`: a recipe on a schedule, until it is told to stop.

    timetable         when it runs: a cron expression in this machine's time zone, or every so many seconds
    serve_recipe      a Prefect API with schedules, the recipe's deployment there, and a runner that waits for its runs
    scheduled_run.py  one run, in a process of its own

Runs of a recipe never overlap: one that is due while another runs waits for it. A run that fails leaves the
schedule as it is. Every process that is started here ends with this one, however it ends; the runs that it left
open are closed by the next that serves the recipe. Where the server goes away with the process that started it,
this one starts another.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import quote
from uuid import UUID
from zoneinfo import available_timezones

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterNextScheduledStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy, FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.context import refresh_global_settings_context
from prefect.deployments.runner import RunnerDeployment
from prefect.runner import Runner
from prefect.schedules import Cron, Interval, Schedule
from prefect.states import Cancelled, Crashed
from prefect.types.entrypoint import EntrypointType

from corpora.errors import InputError
from corpora.store.locks import SharedLock
from corpora.store.place_address import without_password
from corpora.store.places import Place
from flows.orchestration.database import shrink_database
from flows.orchestration.history import keep_history
from flows.orchestration.recording import look_at_database
from flows.orchestration.scheduled_run import scheduled_run
from flows.orchestration.server import ServerFailed, answers, check_port, embedded_server, keeps_runs_of, starting_turn
from flows.orchestration.tending import Tending
from flows.recipes.recipe import Recipe, settle_recipe
from flows.recipes.retention import RetentionSettings
from flows.stopping import SIGNALS, answer_signals

Tell = Callable[[str], None]

ALIVE_SECONDS = 5.0  # between two looks at whether the API still answers
ALIVE_MISSES = 3  # so many looks in vain, and it is gone
END_SECONDS = 60.0  # for a run to end that was told to; the orchestrator kills it after 30
SCHEDULED_SECONDS = 150.0  # the server looks for schedules every 5 s and every 60 s
FORBIDDEN = "%&<>"  # in the name of a deployment
AT_WORK = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is on a schedule: a recipe's file, and what goes over it in every run.

    kept_in:   the store of its runs
    retention: what is kept of them, as the recipe says when it is first served
    """

    name: str
    path: Path
    overrides: dict[str, str]
    store: str | None
    workers: int | None
    schedule: Schedule
    kept_in: Place
    retention: RetentionSettings


def timetable(cron: str | None, every_seconds: int | None) -> Schedule:
    """The schedule that the command's options mean. Raises InputError."""
    if (cron is None) == (every_seconds is None):
        raise InputError('Say when it is to run: --cron "0 3 * * *", or --every SECONDS (one of the two).')
    if every_seconds is not None:
        if every_seconds < 1:
            raise InputError(f"--every {every_seconds} must be a whole number of seconds from 1 up.")
        return Interval(every_seconds)
    assert cron is not None
    try:
        return Cron(cron, timezone=local_zone())
    except ValueError as error:
        raise InputError(
            f"--cron {cron!r} is not a cron expression: write minute, hour, day of the month, month and day of the "
            'week, as in "0 3 * * *" for every night at three.'
        ) from error


def local_zone() -> str:
    """The name of this machine's time zone; UTC where it has none."""
    name = os.environ.get("TZ") or Path("/etc/localtime").resolve().as_posix().partition("/zoneinfo/")[2]
    return name if name in available_timezones() else "UTC"


def check_deployment_name(recipe: Recipe) -> None:
    """Raises InputError where a recipe's name cannot be a deployment's."""
    if set(recipe.name) & set(FORBIDDEN):
        raise InputError(f"name = {recipe.name!r}: a recipe on a schedule cannot have any of {FORBIDDEN} in its name.")


def served(recipe: Recipe, store: str | None, workers: int | None, schedule: Schedule) -> Served:
    """A recipe on a schedule. Raises InputError where its name cannot be a deployment's."""
    assert recipe.path is not None
    check_deployment_name(recipe)
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers} must be a whole number from 1 up.")
    return Served(
        name=recipe.name,
        path=recipe.path.resolve(),
        overrides=dict(recipe.overrides),
        store=recipe.store if store else None,
        workers=workers,
        schedule=schedule,
        kept_in=Place(recipe.store),
        retention=recipe.retention,
    )


def serve_recipe(
    recipe: Recipe,
    schedule: Schedule,
    home: Path,
    port: int,
    tell: Tell,
    store: str | None = None,
    workers: int | None = None,
    run_now: bool = False,
) -> int:
    """Keep a recipe running on a schedule until SIGTERM or Ctrl-C; returns 0.

    port:  of the server and its UI, where no server of the user's profile answers
    store: the store that the command names, over the recipe's own
    Raises InputError for what the user can mend, before anything starts.
    """
    what = served(recipe, store, workers, schedule)
    profile = os.environ.get("CLOZE_PREFECT_API")
    own = profile is None or not answers(profile)
    with seated(home, what, tell) as seat:
        if own:
            check_server_port(home, port)
            if not keeps_runs_of(home, port):
                look_at_database(home / "prefect", tell)
                shrink_database(home / "prefect", tell)
            keep_history(recipe.retention.history_days)
        if own and profile is not None:
            shown = without_password(profile)
            tell(f"The Prefect API {shown} of your profile does not answer; this uses a server of its own.")
        settle_recipe(recipe)
        server: Callable[[], AbstractContextManager[str]]
        server = partial(own_api, home, port, tell) if own else partial(profile_api, str(profile), tell)
        stopped = serve_until_gone(what, seat, server, own, tell, run_now)
        while not stopped:
            tell("The Prefect server is gone; the schedule goes on with the next one.")
            try:
                stopped = serve_until_gone(what, seat, server, own, tell)
            except ServerFailed as error:
                tell(f"{error} Trying again.")
                time.sleep(ALIVE_SECONDS)
    return 0


def serve_until_gone(
    what: Served,
    seat: SharedLock,
    server: Callable[[], AbstractContextManager[str]],
    own: bool,
    tell: Tell,
    run_now: bool = False,
) -> bool:
    """Serve a recipe with a server, until a signal says stop (True) or the server is gone (False)."""
    with server() as api:
        os.environ["PREFECT_API_URL"] = api
        refresh_global_settings_context()  # Prefect read its settings when it was imported
        try:
            return asyncio.run(Service(what, seat, api, own, tell).attend(run_now))
        except httpx.TransportError:
            if answers(api):
                raise
            return False
        finally:
            answer_signals()  # which the loop took for itself


def check_server_port(home: Path, port: int) -> None:
    """Raises InputError for no port, and for one that is in use by anything but a server of this home."""
    if not 0 < port < 1 << 16:
        raise InputError(f"--port {port} must be a whole number from 1 to 65535.")
    with starting_turn(home / "prefect"):  # one that has the port and does not answer yet is waited for
        if not keeps_runs_of(home, port):
            check_port(port)


@contextmanager
def own_api(home: Path, port: int, tell: Tell) -> Iterator[str]:
    """A full Prefect server of this home: the one that listens on the port, or a new one. Raises ServerFailed."""
    tell(f"The UI: http://127.0.0.1:{port}")
    if not keeps_runs_of(home, port):
        first = not (home / "prefect" / "prefect.db").exists()
        tell(f"Starting the Prefect server{': the first time it makes its database, some 20 s' * first} ...")
        try:
            with embedded_server(str(home / "prefect" / "server.log"), port) as server:
                yield server.wait()
            return
        except ServerFailed:
            if not keeps_runs_of(home, port):  # else another process was faster
                raise
    yield f"http://127.0.0.1:{port}/api"


@contextmanager
def profile_api(address: str, tell: Tell) -> Iterator[str]:
    """The server of the user's profile, as soon as it answers."""
    while not answers(address):
        time.sleep(ALIVE_SECONDS)
    tell(f"Recording with the Prefect server of your profile: {without_password(address)}")
    yield address


@contextmanager
def seated(home: Path, what: Served, tell: Tell) -> Iterator[SharedLock]:
    """A part in serving a recipe. Raises InputError where another recipe of the same name is served."""
    path = home / "prefect" / f"serving-{quote(what.name, safe='')}.lock"
    with path.open("a+", encoding="utf-8") as file:
        seat = SharedLock(file)
        if seat.try_alone():
            file.truncate(0)
            file.write(str(what.path))
            file.flush()
        else:
            file.seek(0)
            other = file.read()
            if other != str(what.path):
                raise InputError(
                    f"A recipe named {what.name!r} is on a schedule already: {other}. Give {what.path} another `name`, "
                    "or stop the other `cloze serve`."
                )
            tell("Another `cloze serve` has this recipe on a schedule; from now on this one's schedule counts.")
            seat.share()  # waits until the other has its server and the deployment
        yield seat


class Service:
    """A recipe's deployment on an API, and the runner that starts a process for each of its runs."""

    def __init__(self, what: Served, seat: SharedLock, api: str, own: bool, tell: Tell) -> None:
        self._what, self._seat, self._api, self._own, self._tell = what, seat, api, own, tell
        self._runner = Runner(name=f"cloze-serve-{os.getpid()}", limit=1, pause_on_shutdown=False)

    async def attend(self, run_now: bool) -> bool:
        """Start the runs that are due, until a signal says stop (True) or the API is gone (False)."""
        async with get_client() as client:
            alone = self._seat.try_alone()
            if not alone:
                self._seat.share()
            deployment_id = await self._runner.aadd_deployment(await deployment_of(self._what))
            if alone and self._own:  # who else runs things with a server of the profile is not known here
                await close_left_open(client, deployment_id)
            self._seat.share()
            if run_now:
                await client.create_flow_run_from_deployment(deployment_id)
            self._tell(f"{self._what.name} is on its schedule, {when(self._what.schedule)}; Ctrl-C ends it.")
            what, mine = self._what, self._what.retention if self._own else None
            tending = Tending(client, deployment_id, what.kept_in, what.name, when(what.schedule), self._tell)
            beside = [self._tell_next(client, deployment_id), tending.go_on(mine)]
            telling = [asyncio.create_task(task) for task in beside]
            stopped = await self._run_until_stopped()
            for task in telling:
                task.cancel()
            if stopped and self._seat.try_alone():
                await self._pause(client, deployment_id)
        return stopped

    async def _pause(self, client: PrefectClient, deployment_id: UUID) -> None:
        """Let no more runs become due: nobody is there for them."""
        try:
            await client.pause_deployment(deployment_id)
        except httpx.TransportError:
            self._tell("The Prefect server went first: its schedule stays until this recipe is served again.")

    async def _run_until_stopped(self) -> bool:
        """Let the runner work; True when a signal has stopped it and its runs, False when the API is gone."""
        told = asyncio.Event()
        running = asyncio.create_task(self._runner.start())
        await asyncio.sleep(0)  # the runner takes SIGTERM for itself as it starts; then we do
        taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in taken:
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        watching = [asyncio.create_task(told.wait()), asyncio.create_task(self._until_gone())]
        await asyncio.wait([running, *watching], return_when=asyncio.FIRST_COMPLETED)
        for task in watching:
            task.cancel()
        if told.is_set():
            self._tell("Stopping; a run that is on its way ends here, what it has finished is kept.")
            for number in taken:
                asyncio.get_running_loop().remove_signal_handler(number)
            answer_signals()  # one more does not wait for the run
            with _one_more_signal(END_SECONDS):
                while not (self._runner.started or running.done()):
                    await asyncio.sleep(0.1)
                await self._runner.astop()
                await running
            return True
        running.cancel()
        [ended] = await asyncio.gather(running, return_exceptions=True)
        if answers(self._api) and ended is not None:
            raise ended
        return False

    async def _until_gone(self) -> None:
        """Return when the API has not answered for a while."""
        misses = 0
        while misses < ALIVE_MISSES:
            await asyncio.sleep(ALIVE_SECONDS)
            misses = 0 if await asyncio.to_thread(answers, self._api) else misses + 1

    async def _tell_next(self, client: PrefectClient, deployment_id: UUID) -> None:
        """Say when the next run is due, as soon as the server has scheduled it; and where it schedules none."""
        begun = time.monotonic()
        while time.monotonic() < begun + SCHEDULED_SECONDS:
            later = FlowRunFilterNextScheduledStartTime(after_=datetime.now(UTC))  # type: ignore[arg-type]
            if runs := await read_runs(client, deployment_id, (StateType.SCHEDULED,), later):
                due = runs[0].next_scheduled_start_time
                assert due is not None
                self._tell(f"Next run: {due.astimezone():%Y-%m-%d %H:%M:%S %Z}")
                return
            await asyncio.sleep(1)
        self._tell(f"The server has scheduled no run for {SCHEDULED_SECONDS:.0f} s: look into its log.")


@contextmanager
def _one_more_signal(seconds: float) -> Iterator[None]:
    """Where the block does not end in time, end this process and its children as a second signal does."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


async def deployment_of(what: Served) -> RunnerDeployment:
    """A recipe's deployment: one run at a time, the others in a queue."""
    limit = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
    return await scheduled_run.ato_deployment(
        name=what.name,
        schedules=[what.schedule],
        parameters={
            "recipe": str(what.path),
            "overrides": what.overrides,
            "store": what.store,
            "workers": what.workers,
        },
        concurrency_limit=limit,
        paused=False,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


async def close_left_open(client: PrefectClient, deployment_id: UUID) -> None:
    """Close the runs of a schedule that nobody has served any more, so that none takes the place of the next.

    What ran is Crashed, what was due meanwhile is Cancelled.
    """
    ran: State[None] = Crashed(message="The process that ran it was gone before it could say so.")
    for run in await read_runs(client, deployment_id, AT_WORK):
        await client.set_flow_run_state(run.id, ran)
    missed: State[None] = Cancelled(message="Missed: the recipe was not served when it was due.")
    past = FlowRunFilterNextScheduledStartTime(before_=datetime.now(UTC))  # type: ignore[arg-type]
    while runs := await read_runs(client, deployment_id, (StateType.SCHEDULED,), past):
        for run in runs:
            await client.set_flow_run_state(run.id, missed)


async def read_runs(
    client: PrefectClient,
    deployment_id: UUID,
    states: tuple[StateType, ...],
    due: FlowRunFilterNextScheduledStartTime | None = None,
) -> list[FlowRun]:
    """Runs of a deployment in some states, those first that are due first; at most as many as the server answers."""
    return await client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment_id])),
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(states))),
            next_scheduled_start_time=due,
        ),
        sort=FlowRunSort.NEXT_SCHEDULED_START_TIME_ASC,
    )


def when(schedule: Schedule) -> str:
    """A schedule in words.

    >>> when(Interval(60)), when(Cron("0 3 * * *", timezone="Europe/Berlin"))
    ('every 60 s', '0 3 * * * (Europe/Berlin)')
    """
    if schedule.interval is not None:
        return f"every {schedule.interval.total_seconds():g} s"
    return f"{schedule.cron} ({schedule.timezone})"
