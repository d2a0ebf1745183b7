"""How a flow run ends on record, also if its process is stopped, or its server was away meanwhile.

FlowEnd().call(run)      calls a flow; if no server answers, it is done without
keep_end(work)           in the flow: keeps how its work ended, whatever its orchestrator records
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
from flows.orchestration.recording import is_unanswered, leave, recording
from flows.run.policies import RECORD_SECONDS
from flows.signals import answer_signals, call_on_stop

UNFINISHED = [kind for kind in StateType if kind not in TERMINAL_STATES]
LOOK_SECONDS = 0.2  # between two looks at the tasks of a run on the server
SETTLED_LOOKS = 3  # without an unfinished task, after which none is still on its way
CLOSING_SECONDS = 4.0  # for the tasks of a stopped run to be closed: less than `flows.signals.ACTION_SECONDS`


class FlowEnd:
    """Holds how the work of a flow ended, whatever its orchestrator recorded."""

    def __init__(self) -> None:
        self._begun = False
        self._flow_run_id = ""
        self._state: State[Any] | None = None
        self._error: BaseException | None = None

    def keep(self, work: Callable[[], State[Any]]) -> State[Any]:
        """Do the work of the flow."""
        self._begun, self._flow_run_id = True, str(flow_run.id)
        try:
            state = self._state = work()
        finally:
            self._error = sys.exception()
        return state

    def call(self, run: Callable[[], State[Any]]) -> State[Any] | None:
        """Return the final state of a flow, or of its work if the API is away by then; None if it cannot begin.

        An API that does not answer when the work has ended, but does a moment later, has the flow fail by that: Prefect
        records the error as the flow's own. Raises what the work raised, and InputError if that is such an error.
        """
        token = _end.set(self)
        try:
            state = leave(lambda: None if self._begun else run())
        finally:
            _end.reset(token)
        if not self._begun or (state is not None and not _failed_unanswered(state)):
            return state
        if (mine := recording()) is not None:
            mine.leave_last(self._close)
        if self._error is not None and is_unanswered(self._error):
            raise InputError(
                f"The Prefect API does not answer ({self._error}), and a task of the run ended by that. What is "
                "finished is kept: run the same command again, or with `--own-server` if that API stays away."
            ) from self._error
        if self._error is not None:
            raise self._error from None
        return self._state

    def _close(self) -> None:
        """Record how the work ended."""
        failed: State[None] = Failed(message=f"{type(self._error).__name__}: {self._error}")
        end = failed if self._state is None else self._state.model_copy(update={"data": None})
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(UUID(self._flow_run_id), end, force=True)


_end: ContextVar[FlowEnd | None] = ContextVar("the end of the flow that this is called in", default=None)


def keep_end(work: Callable[[], State[Any]]) -> State[Any]:
    """Do the work of the flow that this is called in, and keep how it ended for who called the flow."""
    end = _end.get()
    return work() if end is None else end.keep(work)


def _failed_unanswered(state: State[Any]) -> bool:
    """Tell whether a flow failed because its API did not answer."""
    error = state.result(raise_on_failure=False) if state.is_failed() else None
    return isinstance(error, Exception) and is_unanswered(error)


@contextmanager
def close_when_stopped() -> Iterator[None]:
    """Let a signal during the block, in a flow, stop the process as `flows.signals` says, and close the run.

    Prefect handles SIGTERM itself when it starts a flow: it would end the flow and wait for its tasks.
    """
    answer_signals()
    with call_on_stop(partial(close_flow_run, flow_run.id)):
        yield


def close_flow_run(id: str | None) -> None:
    """Record that a flow run and its unfinished tasks were stopped, if there is one: nobody else will.

    A task that has just begun takes a moment to reach the server, so the search continues until no more arrive.
    """
    if id is None:  # the run has no orchestrator
        return
    stopped: State[None] = Cancelled(message="Stopped by a signal; what is finished is kept.")
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(id), stopped, force=True)
        await_tasks(client, UUID(id), CLOSING_SECONDS, stopped)


def await_tasks(client: SyncPrefectClient, flow_run_id: UUID, seconds: float, end: State[None] | None = None) -> None:
    """Wait until no unfinished task run of a flow run arrives any more, but at most some seconds.

    end: the state that each is put into
    """
    unfinished = TaskRunFilter.model_validate({"state": {"type": {"any_": UNFINISHED}}})
    of_flow = FlowRunFilter.model_validate({"id": {"any_": [flow_run_id]}})
    deadline, settled = time.monotonic() + seconds, 0
    while settled < SETTLED_LOOKS and time.monotonic() < deadline:
        tasks = client.read_task_runs(flow_run_filter=of_flow, task_run_filter=unfinished)
        if end is not None:
            for task in tasks:
                client.set_task_run_state(task.id, end, force=True)
        settled = 0 if tasks else settled + 1
        time.sleep(LOOK_SECONDS)


def wait_until_recorded(flow_run_id: UUID) -> None:
    """Wait until every task run of a flow run is on record in a final state, but at most RECORD_SECONDS."""
    mine = recording()
    if mine is not None and mine.lost:
        return
    APILogWorker.drain_all(timeout=RECORD_SECONDS)
    with get_client(sync_client=True) as client:
        leave(lambda: await_tasks(client, flow_run_id, RECORD_SECONDS))
