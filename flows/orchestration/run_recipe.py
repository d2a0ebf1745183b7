"""Runs a recipe, as `cloze run` does.

    prepare_run ─► find_unchanged ─► (the store holds everything: report and release)
                        └► is_watched ─► run_in_flow (`flow.py`) or run_alone (`unwatched_run.py`) ─► carry_out

Both go through the steps in `steps.py`. Faults of the recipe are reported before any server starts, and so are raw
files that cannot be found or hashed.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from corpora.generic_types import Tell
from corpora.store.places.address import without_password
from corpora.store.places.place import Place
from corpora.store.worker_pool import WorkerPool
from flows.engines.open_engine import MAX_FORKS, is_safe_to_fork
from flows.orchestration.late_runs import STOPPED, describe_failure, keep_run, send_late_run
from flows.orchestration.notifications import report_failure
from flows.orchestration.recording import Recording, answering_api, api_of_profile, goes_without, keep_pages, recorded
from flows.orchestration.run_state import RunState, no_advance
from flows.orchestration.steps import find_unchanged, open_workers, prepare_run, record_failure, release_run, report_run
from flows.orchestration.unwatched_run import is_watched, run_alone
from flows.recipes.recipe import Recipe
from flows.recipes.run_settings import LOCAL_ENGINE
from flows.run.policies import default_workers
from flows.run.record.run_status import Advance
from flows.signals import give_way, last_word

NOTHING_NEW = "Nothing is to be built."


def run_recipe(
    recipe: Recipe,
    home: Path,
    tell: Tell,
    workers: int | None = None,
    own_server: bool = False,
    advance: Advance = no_advance,
    watch: bool | None = None,
) -> RunState:
    """Build everything that is missing of a recipe: as a flow of Prefect if somebody watches, else in this process.

    own_server: use the embedded server even if the user's Prefect profile names another
    advance:    called with a stage and how many of its missing parts are built
    watch:      whether it is a flow of Prefect; None: if somebody can see it, or if it takes long (`is_watched`)
    Raises InputError for what the user can fix, and whatever a stage failed with.
    """
    find_api = partial(answering_api, home, own_server)
    with report_failure(recipe, tell) as notifier, fork_workers(recipe, workers, tell) as pool:
        run = prepare_run(recipe, home, tell, workers)
        run.notifier, run.watch = notifier, advance
        with record_failure(run):
            report = find_unchanged(run)
            if report is not None:
                with keep_pages(run.tell, run.pages, find_api):
                    for record, manifest in zip(run.records, run.manifests.values(), strict=True):
                        run.say_stage(record, manifest)
                    report_run(run, report, "nothing new")
                    release_run(run)
                run.tell(NOTHING_NEW)
                return run
            run.watched = is_watched(run, own_server, watch, find_api)
            with open_workers(run, pool):
                if run.watched:
                    with recorded(home, own_server, run.tell, run.pages, import_flow) as mine, keep_failure(run, mine):
                        import_flow()(run)
                    return run
                profile = api_of_profile(own_server)
                if profile and not find_api():
                    shown = without_password(profile)
                    run.tell(goes_without(f"The Prefect API {shown} of your profile does not answer."))
                with keep_pages(run.tell, run.pages, find_api) as mine, keep_failure(run, mine):
                    run_alone(run)
    return run


def import_flow() -> Callable[[RunState], object]:
    """Import Prefect, which reads its settings then, and takes as long as its server half of the time to start."""
    from flows.orchestration.flow import run_in_flow

    return run_in_flow


@contextmanager
def fork_workers(recipe: Recipe, workers: int | None, tell: Tell) -> Iterator[WorkerPool | None]:
    """Open a pool of forks of this process for a run that is about to begin, if forks are safe; else yield None.

    They are until the run starts threads, locks files or calls a server: so this comes first.
    """
    if recipe.engine != LOCAL_ENGINE or not Place(recipe.store).is_local or not is_safe_to_fork():
        yield None
        return
    with WorkerPool(workers or default_workers(), recipe.workers, tell) as pool:
        pool.fork_workers(MAX_FORKS)
        yield pool


@contextmanager
def keep_failure(run: RunState, mine: Recording) -> Iterator[None]:
    """Send or keep a run that fails or is stopped during the block, if it has no flow run that says so."""

    def keep_stopped() -> None:
        if mine.kept is not None:
            keep_run(run.describe_late(STOPPED), run.tell)

    with last_word(keep_stopped):
        try:
            yield
        finally:
            if (error := sys.exception()) is not None and mine.kept is not None:
                give_way()
                send_late_run(mine.api_by_now(), run.describe_late(describe_failure(error)), run.tell)
