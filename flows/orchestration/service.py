"""A recipe's deployment on an orchestrator's API, and the runner that starts a process for each of its runs.

Promise: told to stop by a signal, it ends within a minute, whatever the API, the runner and the run do then. The run is
told at once; what waits for answers of the API has END_SECONDS for it. A run that the runner begins after it was told
to stop is ended as well.

An API that fails for a moment (its database is busy: 503) is asked again. A runner that gives up is started anew.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

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
from prefect.deployments.runner import DeploymentApplyError, RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.settings import PREFECT_HOME
from prefect.states import Cancelled, Crashed
from prefect.types.entrypoint import EntrypointType

from corpora.store.locks import SharedLock
from corpora.store.processes import began, children, family, lives, send
from flows.orchestration.journal import flow_called
from flows.orchestration.pages import plain
from flows.orchestration.recording import is_unanswered
from flows.orchestration.scheduled_run import scheduled_run, tell_no_crash
from flows.orchestration.server import ServerFailed, answers
from flows.orchestration.tending import Tending
from flows.orchestration.timetables import Served, when
from flows.stopping import SIGNALS, answer_signals

Tell = Callable[[str], None]
Result = TypeVar("Result")
Started = tuple[int, int]  # a process: its number, and when it was started, for a number is given again

ALIVE_SECONDS = 3.0  # between two looks at whether the API still answers; Prefect prints a trace 14 s after it has gone
ALIVE_MISSES = 3  # so many looks in vain, and it is gone
BUSY_SECONDS = 120.0  # so long an API that fails is asked again
PAUSE_SECONDS = 1.0
SCHEDULED_SECONDS = 150.0  # the server looks for schedules every 5 s and every 60 s
# After the signal a run that still lives is killed, and a runner left behind; then there is time to close what is open
# on the API; and in the end the process ends as by a second signal.
RUN_SECONDS, END_SECONDS, CLOSE_SECONDS, LAST_SECONDS = 30.0, 36.0, 5.0, 50.0
AT_WORK = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)
GONE = "The Prefect server is gone"
STOPPED = "Stopped with its schedule; what is finished is kept."


async def patiently(
    call: Callable[[], Awaitable[Result]], is_there: Callable[[], bool], seconds: float = BUSY_SECONDS
) -> Result:
    """What an API answers, asked again where it fails. Raises ServerFailed, and ConnectionError where it is gone."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await call()
        except (httpx.HTTPError, DeploymentApplyError) as error:
            if not is_unanswered(error):
                raise
            if not await asyncio.to_thread(is_there):
                raise ConnectionError(str(error)) from error
            if time.monotonic() > deadline:
                raise ServerFailed(f"The Prefect server has failed for {seconds:.0f} s ({error}).") from error
        await asyncio.sleep(PAUSE_SECONDS)


class RunsLeft(Runner):
    """A runner that leaves it to the service to end the processes of its runs, and works in this home.

    It would ask its API about each run before it ends it, and forgets one that has only just begun. Its folder would
    be in one for all users of the machine, which belongs to the first of them.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, limit=1, pause_on_shutdown=False)
        self._tmp_dir = PREFECT_HOME.value() / "runner_storage" / str(uuid4())

    async def cancel_all(self) -> None:
        """End no run."""


class Service:
    """What serves a recipe with an API. own: whether the API is of a server of this home"""

    def __init__(self, what: Served, seat: SharedLock, api: str, own: bool, tell: Tell) -> None:
        self._what, self._seat, self._api, self._own, self._tell = what, seat, api, own, tell
        self._runner = RunsLeft(f"cloze-serve-{os.getpid()}")

    async def attend(self, run_now: bool) -> str | None:
        """Start the runs that are due, until a signal says stop (None), or this cannot go on: why, in words."""
        async with get_client() as client:
            deployment_id = await self._take_place(client)
            if run_now:
                key = str(uuid4())  # asked again, it is the same run
                await self._ask(lambda: client.create_flow_run_from_deployment(deployment_id, idempotency_key=key))
            self._tell(f"{self._what.name} is on its schedule, {when(self._what.schedule)}; Ctrl-C ends it.")
            what, mine = self._what, self._what.retention if self._own else None
            tending = Tending(client, deployment_id, what.kept_in, what.name, when(what.schedule), self._tell)
            beside = [self._tell_next(client, deployment_id), tending.go_on(mine)]
            telling = [asyncio.create_task(task) for task in beside]
            why = await self._run_until_stopped()
            for task in telling:
                task.cancel()
            if why is None:
                await self._close(client, deployment_id)
        return why

    async def _ask(self, call: Callable[[], Awaitable[Result]]) -> Result:
        return await patiently(call, lambda: answers(self._api))

    async def _take_place(self, client: PrefectClient) -> UUID:
        """Put the recipe on its schedule; the first of those who serve it closes what was left open."""
        alone = self._seat.try_alone()
        if not alone:
            self._seat.share()
        deployment = await deployment_of(self._what)
        deployment_id = await self._ask(lambda: self._runner.aadd_deployment(deployment))
        if alone and self._own:  # who else runs things with a server of the profile is not known here
            await self._ask(lambda: close_left_open(client, deployment_id))
        self._seat.share()
        return deployment_id

    async def _close(self, client: PrefectClient, deployment_id: UUID) -> None:
        """Where nobody else serves the recipe, close what ran, and let no more runs become due."""
        if not self._seat.try_alone():
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await client.pause_deployment(deployment_id)
                for run in await read_runs(client, deployment_id, AT_WORK) if self._own else ():
                    await client.set_flow_run_state(run.id, Cancelled(message=STOPPED))
        except (TimeoutError, httpx.HTTPError, ObjectNotFound):
            self._tell("The Prefect server went first: its schedule stays until this recipe is served again.")

    async def _run_until_stopped(self) -> str | None:
        """Let the runner work until a signal has stopped it and its runs (None), or it cannot go on: why, in words."""
        told = asyncio.Event()

        def hear() -> None:
            if not told.is_set():
                self._tell("Stopping; a run that is on its way ends here, what it has finished is kept.")
                _end_at_last(LAST_SECONDS)
            told.set()

        running = asyncio.create_task(self._runner.start())
        await asyncio.sleep(0)  # the runner takes SIGTERM for itself as it starts; then we do
        taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in taken:
            asyncio.get_running_loop().add_signal_handler(number, hear)
        watching = [asyncio.create_task(told.wait()), asyncio.create_task(self._until_gone())]
        await asyncio.wait([running, *watching], return_when=asyncio.FIRST_COMPLETED)
        gone = watching[1].done()
        if not told.is_set():
            running.cancel()
            await asyncio.wait([running, watching[0]], return_when=asyncio.FIRST_COMPLETED)
        for task in watching:
            task.cancel()
        if told.is_set():
            for number in taken:
                asyncio.get_running_loop().remove_signal_handler(number)
            answer_signals()  # one more does not wait for the run
            await self._stop(running)
            return None
        return GONE if gone else _why_ended(running)

    async def _stop(self, running: "asyncio.Task[None]") -> None:
        """End the runs, and the runner if that can be done in time."""
        tell_no_crash()
        stopping = asyncio.create_task(self._stop_runner(running))
        begun, told, theirs = time.monotonic(), set[int](), dict[int, set[Started]]()
        while not (stopping.done() and running.done()) and time.monotonic() < begun + END_SECONDS:
            late = time.monotonic() > begun + RUN_SECONDS
            for pid in run_processes():
                theirs.setdefault(pid, set()).update((one, began(one)) for one in family(pid))
                if late or pid not in told:  # told twice, a run waits for nothing
                    told.add(pid)
                    send(pid, signal.SIGKILL if late else signal.SIGTERM)
            end_orphans(theirs)
            await asyncio.wait([stopping, running], timeout=0.2, return_when=asyncio.ALL_COMPLETED)
        end_orphans(theirs)
        for task in (stopping, running):
            task.cancel()
        ended = [task for task in (stopping, running) if task.done() and not task.cancelled()]
        for error in filter(None, [task.exception() for task in ended]):
            self._tell(f"The orchestrator's runner has not ended well ({without_group(error)}).")

    async def _stop_runner(self, running: "asyncio.Task[None]") -> None:
        while not (self._runner.started or running.done()):
            await asyncio.sleep(0.1)
        if not running.done():
            await self._runner.astop()

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
            with suppress(httpx.HTTPError):  # it is asked again
                if runs := await read_runs(client, deployment_id, (StateType.SCHEDULED,), later):
                    due = runs[0].next_scheduled_start_time
                    assert due is not None
                    self._tell(f"Next run: {due.astimezone():%Y-%m-%d %H:%M:%S %Z}")
                    return
            await asyncio.sleep(PAUSE_SECONDS)
        self._tell(f"The server has scheduled no run for {SCHEDULED_SECONDS:.0f} s: look into its log.")


def run_processes() -> list[int]:
    """The processes of runs that this one has started."""
    found = []
    for pid in children(os.getpid()):
        with suppress(OSError):  # it ends meanwhile
            if b"prefect.engine" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def end_orphans(theirs: dict[int, set[Started]]) -> None:
    """Kill what processes that are gone have started. theirs: the processes of each, as they were seen while it lived

    What is left of a run holds the pipe to which the run has written, and the runner reads that to its end.
    """
    for pid in [pid for pid in theirs if not lives(pid)]:
        for one, when_begun in theirs.pop(pid):
            if lives(one) and began(one) == when_begun:
                send(one, signal.SIGKILL)


def _end_at_last(seconds: float) -> None:
    """End this process and its children as a second signal does, if it still lives then."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()


def _why_ended(running: "asyncio.Task[None]") -> str:
    """Why a runner has ended by itself, in words. Raises what it raised, but for what may pass."""
    if not running.done() or running.cancelled() or (error := running.exception()) is None:
        return "The orchestrator's runner has ended"
    if not may_pass(error):
        raise error
    return f"The orchestrator's runner has given up ({without_group(error)})"


def may_pass(error: BaseException) -> bool:
    """Whether a runner that ended so may go on if it is started anew: its API failed for long."""
    if isinstance(error, BaseExceptionGroup):
        return all(may_pass(each) for each in error.exceptions)
    return is_unanswered(error) or str(error) == "Service exceeded error threshold."


def without_group(error: BaseException) -> BaseException:
    """What is in a group of errors first."""
    return without_group(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def deployment_of(what: Served) -> RunnerDeployment:
    """A recipe's deployment, of the flow of its name: one run at a time, the others in a queue."""
    limit = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
    return await scheduled_run.with_options(name=flow_called(what.name)).ato_deployment(
        name=what.name,
        tags=[plain(f"recipe: {what.name}")],
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
