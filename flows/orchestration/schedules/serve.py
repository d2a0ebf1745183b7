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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from prefect.context import refresh_global_settings_context

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.places.address import without_password
from corpora.store.places.locks import try_lock
from flows.orchestration.pages.page_artifacts import ui_of
from flows.orchestration.schedules.housekeeping import serving_lock, stamped
from flows.orchestration.schedules.recipe_flow import entrypoint_of
from flows.orchestration.schedules.service import ALIVE_SECONDS, STOPPING, Service
from flows.orchestration.schedules.timetables import check_deployable, given_parameters, timetable
from flows.orchestration.server.database import check_database, shrink_database, starting_turn
from flows.orchestration.server.embedded import ServerFailed, answers, ask, check_port, embedded_server, keeps_runs_of
from flows.orchestration.server.history import keep_history
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
    with served_alone(home, recipe):
        profile = answering_profile(tell)
        if profile is None:
            check_server_port(home, port)
            if not keeps_runs_of(home, port):
                check_database(home / "prefect")
                shrink_database(home / "prefect", tell)
            keep_history(recipe.retention.history_days)
        settle_recipe(recipe)
        service = Service(recipe, given, profile is None, tell)
        with last_word(service.stop, STOPPING, patient=True):
            serve_on(service, lambda: api_at_work(profile, home, port, tell), tell, run_now)


def serve_on(
    service: Service, server: Callable[[], AbstractContextManager[str]], tell: Tell, run_now: bool
) -> NoReturn:
    """Serve a recipe with a server, and with another if it goes away. Raises ServerFailed if the first fails."""
    first = True
    while True:
        try:
            with server():
                why = service.attend(run_now and first)
        except ServerFailed as error:
            if first:
                raise
            why = str(error)
        give_way()
        first = False
        tell(f"{why}; the schedule continues with the next one.")
        time.sleep(ALIVE_SECONDS)


def check_server_port(home: Path, port: int) -> None:
    """Raise InputError for a port that anything but a server of this home uses."""
    with starting_turn(home / "prefect"):  # waits for a server that has the port and does not answer yet
        if not keeps_runs_of(home, port):
            check_port(port)


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
    with own_api(home, port, tell) if profile is None else profile_api(profile, tell) as api:
        os.environ["PREFECT_API_URL"] = api
        refresh_global_settings_context()  # Prefect read its settings when it was imported
        yield api


@contextmanager
def own_api(home: Path, port: int, tell: Tell) -> Iterator[str]:
    """Yield a full Prefect server of this home: the one that listens on the port, or a new one. Raises ServerFailed."""
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
    """Yield the server of the user's profile, as soon as it answers."""
    while not answers(address):
        time.sleep(ALIVE_SECONDS)
    tell(f"Recording with the Prefect server of your profile: {without_password(address)}")
    ui = ui_of(address)
    if ui and (ui != without_password(address).removesuffix("/api") or ask(f"{ui}/ui-settings") is not None):
        tell(f"The UI: {ui}")
    yield address


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
