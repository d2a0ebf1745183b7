"""A run that somebody watches: a flow of Prefect, whose tasks are the pieces of work of its stages.

Importing this imports Prefect, which takes two seconds of a core. A run that nobody watches does without
(`unwatched_run.py`).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, State, StateType
from prefect.logging.handlers import APILogWorker
from prefect.runtime import flow_run
from prefect.states import Cancelled
from prefect.task_runners import ThreadPoolTaskRunner

from flows.orchestration.pages.markdown import escape_braces, show_once, show_tags
from flows.orchestration.pages.page_artifacts import (
    flow_called,
    flow_run_at,
    name_run,
    parameters_of,
    report_shown,
    run_tags,
)
from flows.orchestration.runs.flow_tasks import FlowTasks, state_of
from flows.orchestration.runs.run_state import RunState
from flows.orchestration.runs.stage_tasks import perform_recipe, threads_for
from flows.orchestration.runs.unwatched_run import run_alone
from flows.orchestration.server.api_recorder import FlowEnd, leave, recording
from flows.orchestration.server.embedded import own_password
from flows.run.pipeline import Outcome
from flows.run.policies import RECORD_SECONDS
from flows.signals import answer_signals, last_word

UNFINISHED = [kind for kind in StateType if kind not in TERMINAL_STATES]
LOOK_SECONDS = 0.2  # between two looks at the tasks of a run on the server
SETTLED_LOOKS = 3  # without an unfinished task, after which none is still on its way
CLOSING_SECONDS = 4.0  # for the tasks of a stopped run to be closed: less than `flows.signals.WORDS_SECONDS`


def run_flow(run: RunState) -> Outcome:
    """Carry out a run as a flow of its own, or without one if no server answers. Raises what a stage raised.

    The flow's parameters are what a person wants to see of it; the rest it takes from its context, because Prefect
    sends parameters to its server.
    """
    ended = FlowEnd()
    threads: Any = ThreadPoolTaskRunner(max_workers=threads_for(run.pool.workers))

    @flow(
        name=flow_called(run.recipe.name),
        flow_run_name=escape_braces(name_run(run.recipe.name, run.started)),
        task_runner=threads,
        persist_result=False,
    )
    def cloze(recipe_name: str, recipe_toml: str) -> State[Outcome]:
        """One run of a recipe."""
        with closed_when_stopped():
            return ended.keep(lambda: state_of(lambda: perform_in_flow(run), run.conclude, lambda: run.end_name))

    state = ended.whatever(lambda: cloze(**parameters_of(run.recipe), return_state=True))
    if state is None:
        return run_alone(run)
    if state.state_details.flow_run_id is not None:
        wait_until_recorded(state.state_details.flow_run_id)
    outcome: Outcome = state.result(raise_on_failure=True)
    return outcome


def perform_in_flow(run: RunState) -> Outcome:
    """Carry out a run inside the flow run that this is called in, and show it on that run's page."""
    show_run(run)
    return perform_recipe(run, FlowTasks())


def show_run(run: RunState) -> None:
    """Tag the flow run, and link its page to the report of the run, and the report to the page."""
    mine, id = recording(), flow_run.id
    assert mine is not None and id is not None, "a flow run is recorded"
    show_tags(UUID(id), run_tags(run.recipe, "builds"))
    run.flow_run = flow_run_at(mine.address, id, mine.embedded)
    report = report_shown(run.place, run.run_id, id, mine.embedded or bool(own_password(mine.address)), run.tell)
    show_once(f"report-{run.recipe.name}", report, f"{run.recipe.name}: the report of this run")


@contextmanager
def closed_when_stopped() -> Iterator[None]:
    """Let a signal during the block, in a flow, stop the process as `flows.signals` says, and close the run.

    Prefect handles SIGTERM itself when it starts a flow: it would end the flow and wait for its tasks.
    """
    answer_signals()
    with last_word(partial(close_flow_run, flow_run.id)):
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
