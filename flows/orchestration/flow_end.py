"""How a flow run ends on record, also if its process is stopped, or its server was away meanwhile.

FlowEnd().call(run)      calls a flow; if no server answers, its work is done without one
keep_end(work)           in the flow: keeps how its work ended, whatever the orchestrator records
close_when_stopped()     in the flow: a signal closes the flow run and its tasks
wait_until_recorded(id)  after it: its tasks are on record
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, State, StateType
from prefect.logging.handlers import APILogWorker
from prefect.runtime import flow_run
from prefect.states import Cancelled, Failed

from corpora.errors import InputError
from flows.orchestration.recording import get_recording, is_unanswered, send_to_api
from flows.run.policies import RECORD_SECONDS
from flows.signals import answer_signals, call_on_stop

UNFINISHED = [kind for kind in StateType if kind not in TERMINAL_STATES]
POLL_SECONDS = 0.2  # between two looks at the tasks of a run on the server
QUIET_POLLS = 3  # without an unfinished task, after which none is still on its way
CLOSING_SECONDS = 4.0  # for the tasks of a stopped run to be closed: less than `flows.signals.ACTION_SECONDS`


class FlowEnd:
    """Remembers how the work of a Prefect flow ended, even if Prefect could not record it.

    Use one instance for each call of a flow.
    """

    def __init__(self) -> None:
        self._has_begun = False
        self._flow_run_id = ""
        self._state: State[Any] | None = None
        self._error: BaseException | None = None

    def keep(self, work: Callable[[], State[Any]]) -> State[Any]:
        """Do the work of the current flow, remember its final state or its exception, and return the state.

        Args:
            work: Function that does the work and returns the final state. Its exceptions are raised again.
        """
        self._has_begun, self._flow_run_id = True, str(flow_run.id)
        try:
            state = self._state = work()
        finally:
            self._error = sys.exception()
        return state

    def call(self, run: Callable[[], State[Any]]) -> State[Any] | None:
        """Call a Prefect flow, and return its final state, or None if it could not begin because no API answers.

        If the API is unreachable when the work ends, returns the state of the work. If the API is back a moment later,
        Prefect may record its own connection error as the flow's state; the actual final state is then recorded
        instead.

        Args:
            run: Function without arguments that calls the flow, and returns its final state.

        Raises:
            InputError: If the work itself failed because the API did not answer.
            Exception: Any exception that the work raised, if the API was unreachable when the work ended.
        """
        token = _current_end.set(self)
        try:
            state = send_to_api(lambda: None if self._has_begun else run())
        finally:
            _current_end.reset(token)
        if not self._has_begun or (state is not None and not _is_unanswered_failure(state)):
            return state
        if (recording := get_recording()) is not None:
            recording.send_last(self._close)
        if self._error is not None and is_unanswered(self._error):
            raise InputError(
                f"The Prefect API does not answer ({self._error}), and a task of the run ended by that. What is "
                "finished is kept: run the same command again, or with `--own-server` if that API stays away."
            ) from self._error
        if self._error is not None:
            raise self._error from None
        return self._state

    def _close(self) -> None:
        """Record the final state of the work with the Prefect API, in place of the state that Prefect recorded."""
        failed: State[None] = Failed(message=f"{type(self._error).__name__}: {self._error}")
        end = failed if self._state is None else self._state.model_copy(update={"data": None})
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(UUID(self._flow_run_id), end, force=True)


_current_end: ContextVar[FlowEnd | None] = ContextVar("the end of the flow that this is called in", default=None)


def keep_end(work: Callable[[], State[Any]]) -> State[Any]:
    """Do the work of the current flow, and return its final state.

    If a `FlowEnd` called the flow, it remembers how the work ended.

    Args:
        work: Function that does the work and returns the final state. An exception is remembered as well, and raised
            again.
    """
    end = _current_end.get()
    return work() if end is None else end.keep(work)


def _is_unanswered_failure(state: State[Any]) -> bool:
    """Return True if a flow failed because its API did not answer."""
    error = state.result(raise_on_failure=False) if state.is_failed() else None
    return isinstance(error, Exception) and is_unanswered(error)


@contextmanager
def close_when_stopped() -> Iterator[None]:
    """Record the current Prefect flow run as stopped if a signal stops the process during the block.

    When Prefect starts a flow, it installs its own SIGTERM handler, which would wait for the flow's tasks. This
    function restores the handlers of `flows.signals`.
    """
    answer_signals()
    with call_on_stop(partial(close_flow_run, flow_run.id)):
        yield


def close_flow_run(id: str | None) -> None:
    """Record that a Prefect flow run and its unfinished tasks were stopped.

    The server may receive a newly started task with a delay, so this is repeated until no unfinished task is left.

    Args:
        id: The id of the flow run. If None, nothing is done.
    """
    if id is None:  # the run has no orchestrator
        return
    stopped: State[None] = Cancelled(message="Stopped by a signal; what is finished is kept.")
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(id), stopped, force=True)
        await_tasks(client, UUID(id), CLOSING_SECONDS, stopped)


def await_tasks(
    client: SyncPrefectClient, flow_run_id: UUID, seconds: float, final_state: State[None] | None = None
) -> None:
    """Wait until a flow run has no unfinished task runs, up to a maximum time.

    Args:
        client: Client of the Prefect API.
        flow_run_id: The id of the flow run.
        seconds: The maximum time to wait.
        final_state: If given, every unfinished task run is set to this state.
    """
    unfinished = TaskRunFilter.model_validate({"state": {"type": {"any_": UNFINISHED}}})
    of_flow = FlowRunFilter.model_validate({"id": {"any_": [flow_run_id]}})
    deadline, quiet = time.monotonic() + seconds, 0
    while quiet < QUIET_POLLS and time.monotonic() < deadline:
        tasks = client.read_task_runs(flow_run_filter=of_flow, task_run_filter=unfinished)
        if final_state is not None:
            for task in tasks:
                client.set_task_run_state(task.id, final_state, force=True)
        quiet = 0 if tasks else quiet + 1
        time.sleep(POLL_SECONDS)


def wait_until_recorded(flow_run_id: UUID) -> None:
    """Wait, at most RECORD_SECONDS, until the server has recorded a final state for every task run of a flow run.

    Returns at once if the server has stopped answering.
    """
    recording = get_recording()
    if recording is not None and recording.is_lost:
        return
    APILogWorker.drain_all(timeout=RECORD_SECONDS)
    with get_client(sync_client=True) as client:
        send_to_api(lambda: await_tasks(client, flow_run_id, RECORD_SECONDS))
