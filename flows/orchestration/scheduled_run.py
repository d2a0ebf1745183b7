"""One run of a recipe that is on a schedule: Prefect calls `scheduled_run` in a process of its own.

The recipe is read as its file says it now, and the program is what is on the disk now: the folder of compiled
kernels is chosen again before anything that compiles is imported, which is why this module imports so little. How a
run fails is said in the log of the command as on a terminal, and in the state of the run. The process stops as
`flows.stopping` says, also when the one that started it is gone.
"""

import os
import signal
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import deployment
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner

from corpora.errors import InputError
from flows.environment import prepare
from flows.stopping import answer_signals, stop

PARENT_SECONDS = 1.0  # between two looks at whether the parent is still there
THREADS: Any = ThreadPoolTaskRunner(max_workers=16)  # as in `cloze run`: they wait for the worker processes


def run_name() -> str:
    """What a run that begins now is called: as one that `cloze run` starts."""
    return f"{deployment.name} {time.strftime('%Y-%m-%d %H:%M:%S')}"


def tell_failure(flow: Any, flow_run: Any, state: State[Any]) -> None:
    """Say why a run failed, or where its process went: a paragraph, after a traceback where the fault is not a user's.

    Prefect calls this in the process of the run, or in that of the command where the run's process is gone.
    """
    error = state.result(raise_on_failure=False) if state.is_failed() else None
    if isinstance(error, BaseException) and not isinstance(error, InputError):
        say("".join(traceback.format_exception(error)).rstrip())
    say(f"cloze: {state.message}")


@flow(
    name="cloze",
    flow_run_name=run_name,
    task_runner=THREADS,
    persist_result=False,
    on_failure=[tell_failure],
    on_crashed=[tell_failure],
)
def scheduled_run(
    recipe: str, overrides: dict[str, str] | None = None, store: str | None = None, workers: int | None = None
) -> State[Any]:
    """A recipe's run as its schedule or its deployment's page asks for it.

    Args:
        recipe: the recipe's file
        overrides: keys of the recipe and other values for them
        store: a store instead of the recipe's
        workers: worker processes; without a number, one a core
    """
    answer_signals()
    end_with_parent()
    home = prepare(os.environ)
    try:
        return Completed(message=build(Path(recipe), overrides or {}, store, workers, home))
    except InputError as error:
        return Failed(message=str(error), data=error)


def build(path: Path, overrides: dict[str, str], store: str | None, workers: int | None, home: Path) -> str:
    """Build what is missing of a recipe inside of the flow run that this is called in; says what came of it.

    Raises InputError for what the user can mend, and whatever a stage failed with.
    """
    from flows.orchestration.execute import begin, carry_out, on_record
    from flows.orchestration.performing import closed_when_stopped, perform_recipe
    from flows.orchestration.recording import Recording, during
    from flows.orchestration.shown import conclusion
    from flows.recipes.recipe import read_recipe, with_store

    logger = get_run_logger()

    def note(line: str) -> None:
        logger.info("%s", line)
        say(line)

    with closed_when_stopped():
        recipe = read_recipe(path, overrides)
        begun = begin(with_store(recipe, store) if store else recipe, home, note, workers)
        with on_record(begun, workers, note) as ending, during(Recording(PREFECT_API_URL.value(), say)):
            finished = carry_out(ending, say, perform_recipe)  # it logs its stages itself
    note(f"Report: {finished.report_path}")
    return conclusion(finished.outcome)


def say(line: str) -> None:
    """A line for the terminal of `cloze serve`, at once."""
    print(line, flush=True)


def end_with_parent() -> None:
    """Stop this process when its parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        stop(signal.SIGTERM)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
