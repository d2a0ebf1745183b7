"""What serves a recipe, without a server: it asks a busy API again, outlives a runner, and ends when it is told."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from launched import PATIENCE, new_home, wait_until
from prefect.deployments.runner import DeploymentApplyError
from prefect.exceptions import PrefectHTTPStatusError
from small_recipe import World

from corpora.errors import InputError
from corpora.store.locks import SharedLock
from corpora.store.processes import began, children, family, lives, send
from flows.command.cli import run_command_line
from flows.orchestration import scheduled_run, service
from flows.orchestration.database import database_of
from flows.orchestration.server import ServerFailed, keeps_runs_of
from flows.orchestration.service import Service, deployment_of, end_orphans, may_pass, patiently, run_processes
from flows.orchestration.serving import check_server_port
from flows.orchestration.timetables import served, timetable
from flows.stopping import SIGNALS


def answered(status: int) -> PrefectHTTPStatusError:
    """What the orchestrator's client raises of an answer."""
    request = httpx.Request("POST", "http://127.0.0.1/api/deployments")
    response = httpx.Response(status, request=request, json={})
    return PrefectHTTPStatusError(f"answered {status}", request=request, response=response)


def refused(why: Exception) -> DeploymentApplyError:
    """As a deployment is refused."""
    error = DeploymentApplyError("Error while applying deployment")
    error.__cause__ = why
    return error


class Asked:
    """A call of an API that fails so often, and is answered then."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times = 0

    async def __call__(self) -> str:
        self.times += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(service, "RUN_SECONDS", 1.0)
    monkeypatch.setattr(service, "END_SECONDS", 2.0)


def test_a_busy_api_is_asked_again() -> None:
    """Fails where a database that is locked for a moment ends a schedule, or a refusal is asked for again and again."""
    asked = Asked(answered(503), refused(answered(503)), httpx.ReadTimeout("slow"))
    assert asyncio.run(patiently(asked, lambda: True)) == "done" and asked.times == 4
    asked = Asked(*[refused(answered(503))] * 100)
    with pytest.raises(ServerFailed, match="The Prefect server has failed for 0 s"):
        asyncio.run(patiently(asked, lambda: True, seconds=0.0))
    asked = Asked(refused(httpx.ConnectError("refused")))
    with pytest.raises(ConnectionError):
        asyncio.run(patiently(asked, lambda: False))
    for error in (answered(422), refused(answered(404))):
        asked = Asked(error)
        with pytest.raises(type(error)):
            asyncio.run(patiently(asked, lambda: True))
        assert asked.times == 1


def test_a_runner_that_gives_up_for_its_api_is_started_anew() -> None:
    """Fails where an hour of a busy API ends a schedule, or a fault of the program is passed over."""
    threshold = RuntimeError("Service exceeded error threshold.")
    assert may_pass(ExceptionGroup("runner", [ExceptionGroup("loops", [threshold])]))
    assert may_pass(answered(503)) and may_pass(httpx.ReadTimeout("slow"))
    assert not may_pass(ExceptionGroup("runner", [threshold, ZeroDivisionError("by zero")]))
    assert not may_pass(RuntimeError("something else"))


class StuckRunner:
    """A runner that neither ends nor stops, and says that it has started."""

    started = True

    async def start(self) -> None:
        await asyncio.sleep(3600)

    async def astop(self) -> None:
        await asyncio.sleep(3600)


DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"told "))
os.write(1, b"ready ")
time.sleep(600)
"""


@pytest.fixture
def run_process() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that looks like a run's; told to end, it says so and goes on."""
    process = subprocess.Popen([sys.executable, "-c", DEAF, "prefect.engine"], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.read(6) == b"ready "
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def stuck(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, list[str]]]:
    """A service whose runner is stuck, and what it says."""
    said: list[str] = []
    monkeypatch.setattr(scheduled_run, "_stopping", threading.Event())
    with (tmp_path / "seat").open("a+") as file:
        what = served(world.recipe(), None, 1, timetable(None, 60))
        made = Service(what, SharedLock(file), "http://127.0.0.1:9/api", True, said.append)
        monkeypatch.setattr(made, "_runner", StuckRunner())
        yield made, said


def test_a_stop_ends_a_run_whatever_the_runner_does(
    stuck: tuple[Service, list[str]], run_process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where a signal waits for a runner that hangs, or a run that it has forgotten goes on.

    Nor may a run be told twice, which is to wait for nothing: it may save what it has trained.
    """
    serving, said = stuck
    timers: list[float] = []
    monkeypatch.setattr(service, "_end_at_last", timers.append)
    monkeypatch.setattr(service, "answer_signals", lambda: None)  # the tests' own stay
    assert run_processes() == [run_process.pid]

    async def stopped() -> Any:
        running = asyncio.create_task(serving._run_until_stopped())
        await asyncio.sleep(0.1)
        signal.raise_signal(signal.SIGTERM)
        return await running

    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        assert asyncio.run(stopped()) is None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    said_by_run, _ = run_process.communicate(timeout=PATIENCE)
    assert (run_process.returncode, said_by_run) == (-signal.SIGKILL, b"told ")
    assert said[0].startswith("Stopping; ") and timers == [service.LAST_SECONDS]
    assert scheduled_run._stopping.is_set(), "whoever stops a run is told that it crashed"


def test_what_a_run_leaves_behind_is_ended() -> None:
    """Fails where a worker outlives a run that was stopped, or a process that only has its number is killed."""
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & sleep 600 & wait"])
    wait_until(lambda: len(family(shell.pid)) == 3)
    first, second = children(shell.pid)
    theirs = {shell.pid: {(first, began(first)), (second, began(second) + 1)}}
    try:
        end_orphans(theirs)
        assert lives(first) and lives(second) and theirs
        shell.kill()
        shell.wait()
        end_orphans(theirs)
        assert wait_until(lambda: not lives(first)) and lives(second) and not theirs
    finally:
        send(second, signal.SIGKILL)


def test_the_last_resort_is_within_a_minute() -> None:
    """Fails where the bounds of an end add up to more than is promised."""
    from flows.stopping import SECONDS

    assert service.END_SECONDS + service.CLOSE_SECONDS < service.LAST_SECONDS
    assert service.LAST_SECONDS + SECONDS <= 60


def test_a_deployment_is_of_the_flow_of_its_recipe(world: World) -> None:
    """Fails where the runs of all recipes on schedules are of one flow, so that nobody tells them apart."""
    deployment = asyncio.run(deployment_of(served(world.recipe(name="R D"), None, 1, timetable(None, 60))))
    assert (deployment.name, deployment.flow_name, deployment.tags) == ("R D", "R D", ["recipe: R D"])


# What is said before anything starts


def test_a_port_is_a_port(tmp_path: Path) -> None:
    """Fails where a number that is none ends in a traceback."""
    for port in (0, -1, 70000):
        with pytest.raises(InputError, match=f"--port {port} must be a whole number from 1 to 65535"):
            check_server_port(tmp_path, port)


def test_another_server_is_not_ours(tmp_path: Path) -> None:
    """Fails where whatever listens on the port counts as a Prefect server of this home."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        answer = b"HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>"

        def serve() -> None:
            client, _ = listener.accept()
            client.recv(4096)
            client.sendall(answer)
            client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        assert not keeps_runs_of(tmp_path, port)
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_mistakes_are_said_before_anything_starts(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where a mistake costs the start of a server, or a traceback."""
    monkeypatch.delenv("CLOZE_PREFECT_API", raising=False)
    home, recipe = new_home(tmp_path), str(world.recipe_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        cases = {
            (recipe, "--cron", "61 * * * *"): r"--cron '61 \* \* \* \*' is not a cron expression",
            (recipe, "--every", "60", "--port", port): f"Port {port} is in use",
            ("absent.toml", "--every", "60"): "Cannot read the recipe absent.toml",
        }
        for arguments, words in cases.items():
            with pytest.raises(InputError, match=words):
                run_command_line(["serve", *arguments], home)
    assert not database_of(home / "prefect").exists()
