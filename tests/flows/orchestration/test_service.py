"""A recipe's service, without a server: it asks a busy API again, ends what it started, and reports mistakes first."""

import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from launched import new_home, wait_until
from prefect.deployments.runner import DeploymentApplyError
from prefect.exceptions import PrefectHTTPStatusError
from small_recipe import World

from corpora.errors import InputError
from corpora.store.processes import is_alive, list_process_tree
from flows.command.cli import run_command_line
from flows.orchestration import serve as service
from flows.orchestration.embedded_server import ServerFailed, get_database_path
from flows.orchestration.serve import call_patiently, end_runner, hold_serving_lock


def answered(status: int) -> PrefectHTTPStatusError:
    """Return the error that the orchestrator's client raises for an answer."""
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

    def __call__(self) -> str:
        self.times += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_a_busy_api_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a database that is locked for a moment ends a schedule, or a refusal is asked for again and again."""
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.0)
    asked = Asked(answered(503), refused(answered(503)), httpx.ReadTimeout("slow"))
    assert call_patiently(asked) == "done" and asked.times == 4
    asked = Asked(*[refused(answered(503))] * 100)
    with pytest.raises(ServerFailed, match="The Prefect server has failed for 0 s"):
        call_patiently(asked, seconds=0.0)
    for error in (answered(422), refused(answered(404))):
        asked = Asked(error)
        with pytest.raises(type(error)):
            call_patiently(asked)
        assert asked.times == 1


BEGUN = "2026-11-21T03:00:00+00:00"
RUN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, getattr(signal, sys.argv[1]))
worker = subprocess.Popen(["sleep", "600"])
print("ready", flush=True)
worker.wait()
"""


@pytest.mark.parametrize(("answer", "seconds"), [("SIG_DFL", 600.0), ("SIG_IGN", 1.0)])
def test_a_stop_ends_a_run_and_what_it_started(answer: str, seconds: float) -> None:
    """Fails if a run that is deaf outlives a stop, a worker of one goes on, or the API is told nothing meanwhile."""
    command = ["sh", "-c", '"$0" -c "$1" "$2" & wait', sys.executable, RUN, answer]
    runner = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert runner.stdout is not None and runner.stdout.readline() == b"ready\n"
    theirs = list_process_tree(runner.pid)
    closed: list[bool] = []
    end_runner(runner, lambda: closed.append(is_alive(runner.pid)), seconds)
    assert len(theirs) == 3 and wait_until(lambda: not any(map(is_alive, theirs))) and closed == [True]
    runner.stdout.close()


def test_a_deployment_is_of_the_flow_of_its_recipe(world: World) -> None:
    """Fails if the runs of all recipes on schedules are of one flow, or two of a recipe run at once."""
    made = service.build_deployment("R%D", str(world.recipe_path), {"worker_processes": 1}, None, 60, BEGUN)
    assert (made.name, made.flow_name, made.tags, made.concurrency_limit) == ("R%D", "R-D", ["recipe: R%D"], 1)


def test_a_recipe_is_served_once(world: World, tmp_path: Path) -> None:
    """Fails if two services of one name take turns at its deployment, or the message does not say who has it."""
    home, recipe = new_home(tmp_path), world.recipe()
    with hold_serving_lock(home, recipe), pytest.raises(InputError, match=f"on a schedule already: {recipe.path}"):
        with hold_serving_lock(home, recipe):
            pass
    with hold_serving_lock(home, recipe):
        pass


def test_mistakes_are_said_before_anything_starts(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a mistake costs the start of a server, or a traceback."""
    monkeypatch.delenv("CLOZE_PREFECT_API", raising=False)
    home, recipe = new_home(tmp_path), str(world.recipe_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        cases = {
            (recipe, "--cron", "61 * * * *"): r"--cron '61 \* \* \* \*' is not a cron expression",
            (recipe, "--every", "60", "--port", port): f"Port {port} is in use",
            (
                recipe,
                "--every",
                "60",
                "--port",
                "70000",
            ): '"70000" for --port. It must be a whole number from 1 to 65,535',
            ("absent.toml", "--every", "60"): "Cannot read the recipe absent.toml",
        }
        for arguments, words in cases.items():
            with pytest.raises(InputError, match=words):
                run_command_line(["serve", *arguments], home)
    assert not get_database_path(home / "prefect").exists()
