"""`cloze serve`: a recipe on a schedule, until it is stopped.

    serve_recipe      a Prefect API with schedules, and the service that uses it; again if it goes away
    Service           the recipe's deployment there, and a runner that waits for its runs
    run_runner        the runner, a process of its own: Prefect's `serve` ─► a process for each run (`scheduled_run.py`)

Runs of a recipe never overlap: one that is due while another runs waits for it. A run that fails leaves the schedule as
it is. Every process that is started here ends with this one, however it ends; the runs that it left open are closed by
the next process that serves the recipe. If the server goes away with the process that started it, this one starts
another. An API that fails for a moment (its database is busy: 503) is asked again.

Promise: after a signal to stop, it ends within some ten seconds, whatever the API and the runner do then: a run ends
itself in that time (`flows.signals`), except one that saves a model, which has RUN_SECONDS. The runner begins no run
meanwhile: it is stopped first. What is left of a runner that was killed ends within seconds, and its runs are closed
before another is started. The runner's folder is in this home: Prefect's own place for it belongs to the first user of
the machine.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx
from prefect import serve
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilterNextScheduledStartTime
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy, State, StateType
from prefect.deployments.runner import DeploymentApplyError, RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, PREFECT_HOME
from prefect.states import Cancelled, Crashed

from corpora.errors import InputError
from corpora.generic_types import Result, Tell
from corpora.lean_process import OWN_CODE
from corpora.store.places.address import without_password
from corpora.store.places.files import try_lock
from corpora.store.places.place import Place
from corpora.store.processes import is_alive, list_children, list_process_tree, read_start_ticks, send_signal
from flows.orchestration.embedded_server import (
    ServerFailed,
    ask,
    build_client_environment,
    is_answering,
    prepare_server,
    restore_password,
    start_server,
    use_api,
)
from flows.orchestration.pages import escape_markdown, find_ui, to_flow_name
from flows.orchestration.recording import is_unanswered
from flows.orchestration.scheduled_run import (
    GIVEN_VARIABLE,
    PARENT_VARIABLE,
    add_timestamps,
    build_entrypoint,
    build_run_parameters,
    build_schedule,
    check_deployable,
    describe_schedule,
    end_with_parent,
    find_next_due,
    get_serving_lock,
    read_runs,
    show_in_status,
)
from flows.recipes.recipe import Recipe, write_recipe
from flows.run.record.run_status import get_schedule_path
from flows.signals import TERM_SECONDS, call_on_stop, end_children, wait_if_stopping, write_to_stderr


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
    """Run a recipe on a schedule until SIGTERM or Ctrl-C, which end the process with exit code 0.

    Args:
        recipe: The recipe. Each run reads it again from its file.
        cron: The schedule as a cron expression.
        every: The number of seconds between two runs. Exactly one of `cron` and `every` must be given.
        home: CLOZE_HOME, the folder of this installation's caches and server.
        port: The port for the server and its UI. It is used if the Prefect API in the user's profile does not answer.
        log: Called with each line. Lines begin with the time.
        store: A store to use instead of the recipe's store, or None.
        workers: The number of worker processes of a run. If None, it depends on the amount of raw files.
        run_now: True to start a run immediately as well.

    Raises:
        InputError: For an error that the user can fix, before anything starts.
        ServerFailed: If the server does not start at first, or then fails for BUSY_SECONDS.
    """

    def tell(line: str) -> None:
        log(add_timestamps(line))

    build_schedule(cron, every)
    check_deployable(recipe, workers)
    assert recipe.path is not None
    path, parameters = str(recipe.path.resolve()), build_run_parameters(recipe, store, workers)
    build_entrypoint(path)
    deployment = {"name": recipe.name, "path": path, "parameters": parameters, "cron": cron, "every": every}
    deployment["since"] = datetime.now(UTC).isoformat()
    restore_password(home, port)  # of others: this one does not serve yet
    with hold_serving_lock(home, recipe):
        profile = find_profile(tell)
        if profile is None:
            prepare_server(home, port, recipe.retention.history_days, tell)
        write_recipe(recipe)
        service = Service(recipe, deployment, profile is None, tell)
        with call_on_stop(service.stop, STOPPING_MESSAGE, patient=True):
            first = True
            while True:
                try:
                    with open_api(profile, home, port, tell):
                        why = service.attend(run_now and first)
                except ServerFailed as error:
                    if first:
                        raise
                    why = str(error)
                wait_if_stopping()
                first = False
                tell(f"{why}; the schedule continues with the next one.")
                time.sleep(CHECK_SECONDS)


def find_profile(tell: Tell) -> str | None:
    """Return the API URL in the user's Prefect profile, or None if there is none or the API does not answer.

    Args:
        tell: Called with a message if the API in the profile does not answer.
    """
    profile = os.environ.get("CLOZE_PREFECT_API")
    if profile is None or is_answering(profile):
        return profile
    address = without_password(profile)
    tell(f"The Prefect API {address} of your profile does not answer; this uses a server of its own.")
    return None


@contextmanager
def open_api(profile: str | None, home: Path, port: int, tell: Tell) -> Iterator[str]:
    """Use the API of a Prefect profile, or of a new Prefect server with the UI, during the block.

    Args:
        profile: The API URL of the profile. The function waits until this API answers. If None, a server is started.
        home: CLOZE_HOME, the folder of this installation's caches and server.
        port: The port of the server to start.
        tell: Called with each line to print.

    Yields:
        The URL of the API.

    Raises:
        ServerFailed: If the server does not start.
    """
    with ExitStack() as server:
        if profile is not None:
            wait_for_profile(profile, tell)
        elif started := start_server(home, port, tell):
            server.enter_context(started)
        api = profile or f"http://127.0.0.1:{port}/api"
        use_api(api)
        yield api


def wait_for_profile(address: str, tell: Tell) -> None:
    """Wait indefinitely until the server of the user's Prefect profile answers.

    Args:
        address: The URL of its API.
        tell: Called with lines that contain this URL and the URL of the UI.
    """
    while not is_answering(address):
        time.sleep(CHECK_SECONDS)
    tell(f"Recording with the Prefect server of your profile: {without_password(address)}")
    ui = find_ui(address)
    if ui and (ui != without_password(address).removesuffix("/api") or ask(f"{ui}/ui-settings") is not None):
        tell(f"The UI: {ui}")


@contextmanager
def hold_serving_lock(home: Path, recipe: Recipe) -> Iterator[None]:
    """Hold a file lock during the block, to show other processes that a recipe is being served.

    Args:
        home: CLOZE_HOME, the folder of this installation's caches and server.
        recipe: The recipe.

    Raises:
        InputError: If a recipe with the same name is already being served.
    """
    with get_serving_lock(home, recipe.name).open("a+", encoding="utf-8") as file:
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


CHECK_SECONDS = 5.0  # between two looks at the runner, and at what the API says is due
MAX_MISSED_CHECKS = 3  # failed looks after which it is gone
BUSY_SECONDS = 120.0  # how long an API that fails is asked again
RETRY_SECONDS = 1.0
RUN_SECONDS = 30.0  # after the signal a run that still lives is killed: it may save a model
CLOSE_SECONDS = 3.0  # for each answer of the API meanwhile
OPEN_STATES = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
STOPPING_MESSAGE = "A run that is under way ends here; what is finished is kept, and the schedule is paused."
STOPPED_MESSAGE = "Stopped with its schedule; what is finished is kept."


def build_deployment(
    name: str, path: str, parameters: dict[str, Any], cron: str | None, every: int | None, since: str
) -> RunnerDeployment:
    """Build a recipe's Prefect deployment. It allows one run at a time, and queues the others.

    The service and its runner both register this deployment with the API, so that they compute the same due times.

    Args:
        name: The name of the recipe.
        path: The path of the recipe's file.
        parameters: The parameters of every run.
        cron: A cron expression.
        every: The number of seconds between two runs. Exactly one of `cron` and `every` must be given.
        since: When the schedule began, in ISO 8601.
    """
    return RunnerDeployment.from_entrypoint(
        build_entrypoint(path),
        name=name,
        flow_name=to_flow_name(name),
        tags=[escape_markdown(f"recipe: {name}")],
        schedules=[build_schedule(cron, every, datetime.fromisoformat(since))],
        parameters=parameters,
        concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
        paused=False,
    )


class Service:
    """Serves one recipe: keeps its runner (the process that starts due runs) alive, and monitors the Prefect API.

    Args:
        recipe: The recipe.
        deployment: The arguments of `build_deployment`, by name.
        owns_server: True if Cloze started the API's server, False if the user did.
        tell: Called with each line to print.
    """

    def __init__(self, recipe: Recipe, deployment: dict[str, Any], owns_server: bool, tell: Tell) -> None:
        self._recipe, self._deployment, self._owns_server, self._tell = recipe, deployment, owns_server, tell
        self._runner: subprocess.Popen[bytes] | None = None
        self._deployment_id: UUID | None = None

    def attend(self, run_now: bool) -> str:
        """Register the recipe's deployment with the API, and start its due runs until the API stops responding.

        Args:
            run_now: True to start a run immediately as well.

        Returns:
            A phrase that explains why the API was abandoned.

        Raises:
            ServerFailed: If the API fails for BUSY_SECONDS.
        """
        with get_client(sync_client=True) as client:
            deployment_id = call_patiently(lambda: build_deployment(**self._deployment).apply())
            assert isinstance(deployment_id, UUID), "this is no coroutine"
            self._deployment_id = deployment_id
            self._ensure_runner(client, deployment_id)
            if run_now:
                key = str(uuid4())  # asked again, it is the same run
                call_patiently(lambda: client.create_flow_run_from_deployment(deployment_id, idempotency_key=key))
            timing = describe_schedule(build_schedule(self._deployment["cron"], self._deployment["every"]))
            self._tell(f"{self._recipe.name} is on its schedule, {timing}; Ctrl-C ends it.")
            facts = {"recipe": self._recipe.name, "when": timing, "next": None, "waiting": 0}
            place, path = Place(self._recipe.store), get_schedule_path(self._recipe.name)
            with show_in_status(place, path, lambda: facts, "schedule", self._tell):
                self._watch(client, deployment_id, facts)
        return "The Prefect server is gone"

    def _watch(self, client: SyncPrefectClient, deployment_id: UUID, facts: dict[str, Any]) -> None:
        """Keep a runner alive and track the next due run, until the API has failed MAX_MISSED_CHECKS times in a row.

        Args:
            client: Client of the Prefect API.
            deployment_id: The id of the deployment.
            facts: The values that `cloze status` reports; "next" and "waiting" are updated in place.
        """
        misses, announced = 0, None
        while misses < MAX_MISSED_CHECKS:
            try:
                due, facts["waiting"] = find_next_due(client, deployment_id)
                self._ensure_runner(client, deployment_id)
                if due is not None and facts["next"] is None and due != announced:
                    self._tell(f"Next run: {due.astimezone():%Y-%m-%d %H:%M:%S %Z}")
                    announced = due
                facts["next"] = due and due.isoformat(timespec="seconds")
                misses = 0
            except httpx.HTTPError:
                misses += 1
            time.sleep(CHECK_SECONDS)

    def _ensure_runner(self, client: SyncPrefectClient, deployment_id: UUID) -> None:
        """Start a runner process if none is alive, after closing flow runs that an earlier runner left unfinished.

        Args:
            client: Client of the Prefect API.
            deployment_id: The id of the recipe's deployment.

        Raises:
            ServerFailed: If the API fails for BUSY_SECONDS.
        """
        if self._runner is not None and self._runner.poll() is None:
            return
        wait_if_stopping()
        if self._runner is not None:
            why = f"The orchestrator's runner has ended (its log is {get_runner_log()})"
            self._tell(f"{why}; the schedule continues with the next one.")
        if self._owns_server:  # other users of a profile's server are not known here
            call_patiently(lambda: close_abandoned_runs(client, deployment_id, since_start=self._runner is None))
        self._runner = start_runner(self._deployment)

    def stop(self) -> None:
        """Stop the runs, the runner process and this process, and pause the deployment. Does not return."""
        if self._runner is not None:
            end_runner(self._runner, self._close_schedule)
        else:
            self._close_schedule()
        end_children(TERM_SECONDS)
        os._exit(0)

    def _close_schedule(self) -> None:
        """Pause the deployment, so that no more runs become due, and cancel unfinished runs.

        Prints a message if the API does not answer. Does nothing before the deployment is registered.
        """
        if self._deployment_id is None:
            return
        try:
            with get_client(sync_client=True, httpx_settings={"timeout": CLOSE_SECONDS}) as client:
                client.pause_deployment(self._deployment_id)
                for run in read_runs(client, self._deployment_id, OPEN_STATES) if self._owns_server else ():
                    client.set_flow_run_state(run.id, Cancelled(message=STOPPED_MESSAGE))
        except (httpx.HTTPError, ObjectNotFound):
            write_to_stderr("The Prefect server went first: its schedule stays until this recipe is served again.")


def close_abandoned_runs(client: SyncPrefectClient, deployment_id: UUID, since_start: bool) -> None:
    """Close the unfinished runs of a deployment that no process is working on, so that they do not block the next run.

    Runs that had begun get the state Crashed.

    Args:
        client: Client of the Prefect API.
        deployment_id: The id of the deployment.
        since_start: True to also cancel all runs that became due while no process served the recipe.
    """
    ran: State[None] = Crashed(message="The process that ran it was gone before it could say so.")
    for run in read_runs(client, deployment_id, OPEN_STATES):
        client.set_flow_run_state(run.id, ran)
    missed: State[None] = Cancelled(message="Missed: the recipe was not served when it was due.")
    past = FlowRunFilterNextScheduledStartTime(before_=datetime.now(UTC))  # type: ignore[arg-type]
    waits = [StateType.SCHEDULED]
    while since_start and (runs := read_runs(client, deployment_id, waits, next_scheduled_start_time=past)):
        for run in runs:
            client.set_flow_run_state(run.id, missed)


def call_patiently(call: Callable[[], Result], seconds: float = BUSY_SECONDS) -> Result:
    """Call a function that sends a request to an API, and return its result. Repeats the call while the API fails.

    Args:
        call: The function, without arguments.
        seconds: How long to keep trying.

    Raises:
        ServerFailed: If the API still fails after this time.
        Exception: Any other exception that the function raises.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (httpx.HTTPError, DeploymentApplyError) as error:
            if not is_unanswered(error):
                raise
            if time.monotonic() > deadline:
                raise ServerFailed(f"The Prefect server has failed for {seconds:.0f} s ({error}).") from error
        time.sleep(RETRY_SECONDS)


def get_runner_log() -> Path:
    """Return the path of the log file of the runner (the process that starts due runs)."""
    return Path(PREFECT_HOME.value(), "runner.log")


def start_runner(deployment: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Start the runner (the process that starts due runs), and return its process.

    The runner gets its own process group, so that Ctrl-C does not reach it.

    Args:
        deployment: The arguments of `build_deployment`, by name.
    """
    command = [sys.executable, "-m", "flows.orchestration.serve", json.dumps(deployment), str(os.getpid())]
    with get_runner_log().open("a") as log:
        own = {**os.environ, **OWN_CODE, **build_client_environment(PREFECT_API_URL.value())}
        return subprocess.Popen(command, process_group=0, stderr=log, env=own)


def end_runner(runner: "subprocess.Popen[Any]", meanwhile: Callable[[], None], seconds: float = RUN_SECONDS) -> None:
    """Stop a runner and its runs: send SIGTERM to the runs, wait some seconds, and kill all remaining processes.

    Args:
        runner: The process of the runner.
        meanwhile: Called once after the signal was sent, while the runs are ending.
        seconds: How long to wait before killing.
    """
    send_signal(runner.pid, signal.SIGSTOP)  # it begins no other
    runs = list_children(runner.pid)
    theirs = [(pid, read_start_ticks(pid)) for pid in list_process_tree(runner.pid)[1:]]
    for run in runs:
        send_signal(run, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    meanwhile()
    while any(map(is_alive, runs)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid, when_begun in theirs:
        if is_alive(pid) and read_start_ticks(pid) == when_begun:  # process numbers are reused
            send_signal(pid, signal.SIGKILL)
    runner.kill()
    runner.wait()


def run_runner(deployment: dict[str, Any], parent: int) -> None:
    """Start runs when they are due, until the `cloze serve` process that started this process ends.

    Called in the runner's process.

    Args:
        deployment: The arguments of `build_deployment`, by name.
        parent: The process id of that `cloze serve` process.
    """
    end_with_parent(parent, lambda: os._exit(1))
    use_api(PREFECT_API_URL.value())  # a run gets it from Prefect's settings, the command of a notice does not
    os.environ |= {
        PARENT_VARIABLE: str(os.getpid()),
        GIVEN_VARIABLE: json.dumps(deployment["parameters"].get("set", [])),
    }
    folder = PREFECT_HOME.value() / "runners" / quote(deployment["name"], safe="")
    shutil.rmtree(folder, ignore_errors=True)  # from one that was killed
    folder.mkdir(parents=True)
    tempfile.tempdir = str(folder)
    os.chdir(
        folder
    )  # Prefect looks for the code of a run in the working folder first, and the user's is no place of it
    serve(build_deployment(**deployment), limit=1, pause_on_shutdown=False, print_starting_message=False)


if __name__ == "__main__":
    run_runner(json.loads(sys.argv[1]), int(sys.argv[2]))
