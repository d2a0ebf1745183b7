"""Pieces of work as tasks of a Prefect flow run.

Prefect records, retries and shows; the store alone decides what is done. A task takes the function that it calls
(`quote`: Prefect does not look into it), caches nothing and persists nothing. What the user can fix is the message of a
failed state, not a traceback.
"""

from collections.abc import Callable
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from prefect.utilities.annotations import quote

from corpora.errors import InputError
from corpora.generic_types import Result
from flows.orchestration.pages.markdown import escape_braces
from flows.orchestration.runs.work import PendingWork, StageWork
from flows.run.policies import RETRIES, RETRY_DELAY_SECONDS


def state_of(
    act: Callable[[], Result], describe: Callable[[Result], str], end_name: Callable[[], str]
) -> State[Result]:
    """Do a piece of work and return its final state, which for an InputError has its paragraph.

    Any other exception is left to Prefect, which records its traceback.
    """
    try:
        result = act()
    except InputError as error:
        return Failed(message=str(error), data=error)
    return Completed(name=end_name(), message=describe(result), data=result)


@task(cache_policy=NO_CACHE, persist_result=False)
def do_work(work: Any) -> Any:
    """Do a piece of work."""
    return state_of(work.act, work.describe, lambda: work.end_name)


def is_worth_another_try(task: Any, task_run: Any, state: State[Any]) -> bool:
    """Return whether trying a failed task again may help: not if the user has to fix something."""
    return not isinstance(state.result(raise_on_failure=False), InputError)


class FlowTasks:
    """Runs work as tasks of the flow run that this is called in."""

    def submit(self, name: str, work: StageWork) -> PendingWork:
        """Begin a piece of work on a thread; it is tried again if that may help."""
        tried_again = do_work.with_options(
            task_run_name=escape_braces(name),
            retries=RETRIES,
            retry_delay_seconds=RETRY_DELAY_SECONDS,
            retry_condition_fn=is_worth_another_try,
        )
        return tried_again.submit(quote(work))

    def do(self, name: str, work: StageWork) -> Any:
        """Do a piece of work. Raises what it raised."""
        return do_work.with_options(task_run_name=escape_braces(name))(quote(work), return_state=True).result()
