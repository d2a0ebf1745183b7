"""`cloze serve`: a recipe on a schedule, until it is stopped.

    timetables.py     when it runs: a cron expression in this machine's time zone, or every so many seconds
    serve_recipe      a Prefect API with schedules, and the service that uses it; again if it goes away
    service.py        the recipe's deployment there, and a runner that waits for its runs
    scheduled_run.py  one run, in a process of its own

Runs of a recipe never overlap: one that is due while another runs waits for it. A run that fails leaves the
schedule as it is. Every process that is started here ends with this one, however it ends; the runs that it left
open are closed by the next process that serves the recipe. If the server goes away with the process that started it,
this one starts another.
"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.places.address import without_password
from corpora.store.places.locks import try_lock
from flows.orchestration.pages.page_artifacts import ui_of
from flows.orchestration.schedules.housekeeping import serving_lock, stamped
from flows.orchestration.schedules.recipe_flow import entrypoint_of
from flows.orchestration.schedules.service import ALIVE_SECONDS, STOPPING, Service
from flows.orchestration.schedules.timetables import check_deployable, given_parameters, timetable
from flows.orchestration.server.embedded import (
    ServerFailed,
    adopt_password,
    answers,
    ask,
    prepare_server,
    start_server,
    use_api,
)
from flows.recipes.recipe import Recipe, settle_recipe
from flows.signals import give_way, last_word


def serve_recipe(
    recipe: Recipe,
    cron: str | None,
    every: int | None,
    home: Path,
    port: int,
    log: Tell,
    store: str | None = None,
    workers: int | None = None,
    run_now: bool = False,
) -> NoReturn:
    """Keep a recipe running on a schedule until SIGTERM or Ctrl-C, which end the process with exit code 0.

    port:  of the server and its UI, if no server of the user's profile answers
    store: the store that the command names, instead of the recipe's own
    log:   is called with each line, after the time
    Raises InputError for what the user can fix, before anything starts.
    """

    def tell(line: str) -> None:
        log(stamped(line))

    timetable(cron, every)
    check_deployable(recipe, workers)
    assert recipe.path is not None
    path, parameters = str(recipe.path.resolve()), given_parameters(recipe, store, workers)
    entrypoint_of(path)
    given = {"name": recipe.name, "path": path, "parameters": parameters, "cron": cron, "every": every}
    given["since"] = datetime.now(UTC).isoformat()
    adopt_password(home, port)  # of others: this one does not serve yet
    with served_alone(home, recipe):
        profile = answering_profile(tell)
        if profile is None:
            prepare_server(home, port, recipe.retention.history_days, tell)
        settle_recipe(recipe)
        service = Service(recipe, given, profile is None, tell)
        with last_word(service.stop, STOPPING, patient=True):
            first = True
            while True:
                try:
                    with api_at_work(profile, home, port, tell):
                        why = service.attend(run_now and first)
                except ServerFailed as error:
                    if first:
                        raise
                    why = str(error)
                give_way()
                first = False
                tell(f"{why}; the schedule continues with the next one.")
                time.sleep(ALIVE_SECONDS)


def answering_profile(tell: Tell) -> str | None:
    """Return the API of the user's profile, if it names one that answers."""
    profile = os.environ.get("CLOZE_PREFECT_API")
    if profile is None or answers(profile):
        return profile
    shown = without_password(profile)
    tell(f"The Prefect API {shown} of your profile does not answer; this uses a server of its own.")
    return None


@contextmanager
def api_at_work(profile: str | None, home: Path, port: int, tell: Tell) -> Iterator[str]:
    """Use the API of a profile during the block, or that of a full server of this home. Raises ServerFailed."""
    with ExitStack() as server:
        if profile is not None:
            wait_for_profile(profile, tell)
        elif started := start_server(home, port, tell):
            server.enter_context(started)
        api = profile or f"http://127.0.0.1:{port}/api"
        use_api(api)
        yield api


def wait_for_profile(address: str, tell: Tell) -> None:
    """Wait until the server of the user's profile answers."""
    while not answers(address):
        time.sleep(ALIVE_SECONDS)
    tell(f"Recording with the Prefect server of your profile: {without_password(address)}")
    ui = ui_of(address)
    if ui and (ui != without_password(address).removesuffix("/api") or ask(f"{ui}/ui-settings") is not None):
        tell(f"The UI: {ui}")


@contextmanager
def served_alone(home: Path, recipe: Recipe) -> Iterator[None]:
    """Serve a recipe during the block. Raises InputError if one of the same name is served already."""
    with serving_lock(home, recipe.name).open("a+", encoding="utf-8") as file:
        if not try_lock(file):
            file.seek(0)
            raise InputError(
                f"A recipe named {recipe.name!r} is on a schedule already: {file.read()}. Give {recipe.path} another "
                "`name`, or stop the other `cloze serve`."
            )
        file.truncate(0)
        file.write(str(recipe.path))
        file.flush()
        yield
