"""`cloze serve` as a user starts it: a process in a session of its own, what it says, and its runs on record.

with serving(home, world, "--every", "3600", port=free_port()) as service:
    service.wait_for_line("Report: ")
    run = service.run_now()                 as a person asks for one in the UI
    assert service.stop(signal.SIGTERM) == []
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from forking import Forked
from launched import LONG, PATIENCE, ask, environment, get, left, post, session_processes, shared_temporary, wait_until
from small_recipe import World

from flows.orchestration.embedded_server import identify_server

# The server looks for new schedules, and the runner for runs that are due, every second.
FAST = {"PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "1", "PREFECT_RUNNER_POLL_FREQUENCY": "1"}


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A `cloze serve` that has been started."""

    process: Forked
    recipe: str
    output: Path
    home: Path
    port: int
    profile: str | None

    @property
    def api(self) -> str:
        """The API of its server, whose newest password is known from then on."""
        if self.profile is None:
            identify_server(self.home, self.port)
        return self.profile or f"http://127.0.0.1:{self.port}/api"

    @property
    def said(self) -> str:
        """All that it and its runs have said so far."""
        return self.output.read_text(encoding="utf-8")

    def wait_for(self, true: Callable[[], bool], what: str) -> None:
        """Wait until something is true, while it lives."""
        ended = self.process.poll
        seen = wait_until(lambda: true() or ended() is not None, LONG, pause=0.25)  # each look is work for the server
        assert seen, f"{what}: never\n{self.said}"
        assert ended() is None, self.said

    def wait_for_line(self, line: str, times: int = 1) -> None:
        """Wait until it has said something so often."""
        self.wait_for(lambda: self.said.count(line) >= times, line)

    def runs(self, *states: str) -> list[dict[str, Any]]:
        """The flow runs in these states, in the order in which they began."""
        found = ask(self.api, "flow_runs", flow_runs={"state": {"name": {"any_": list(states)}}})
        return sorted(found, key=lambda run: str(run["start_time"]))

    def run_now(self, **more: Any) -> str:
        """Ask for a run, as a person does in the UI; its id. more: of what is asked"""
        [deployment] = [one for one in ask(self.api, "deployments") if one["name"] == self.recipe]
        address = f"{self.api}/deployments/{deployment['id']}/create_flow_run"
        return str(post(address, idempotency_key=str(uuid4()), **more)["id"])

    def wait_for_run(self, run_id: str, *states: str) -> dict[str, Any]:
        """Wait until a run is in one of some states; the run."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [get(self.api, f"flow_runs/{run_id}")]
            return found[0]["state"]["name"] in states

        self.wait_for(look, f"a run that is {' or '.join(states)}")
        return found[0]

    def engine(self) -> int | None:
        """The process of the run that is under way, if there is one."""
        found = [one.pid for one in session_processes(self.process.pid) if "prefect.engine" in one.command]
        return found[0] if found else None

    def runner(self) -> int:
        """The process that starts the runs."""
        [found] = [one.pid for one in session_processes(self.process.pid) if "flows.orchestration.serve" in one.command]
        return found

    def stop(self, number: signal.Signals) -> list[Any]:
        """Send it a signal; its processes that still live some time after."""
        os.kill(self.process.pid, number)
        self.process.wait(PATIENCE)
        return left(self.process.pid)


@contextmanager
def serving(home: Path, world: World, *arguments: str, port: int, api: str | None = None) -> Iterator[Serving]:
    """A `cloze serve` of a recipe for the time of the block; its session is killed at the end."""
    output = home / f"serve-{world.folder.name}-{time.monotonic_ns()}.log"
    command = ["serve", str(world.recipe_path), "--workers", "1", "--port", str(port), *arguments]
    with output.open("wb") as file:
        own = {**environment(home, api), **FAST, "TMPDIR": str(shared_temporary(home))}
        process = Forked(command, cwd=home, env=own, stdout=file, stderr=subprocess.STDOUT)
    try:
        name = world.recipe().name
        yield Serving(process=process, recipe=name, output=output, home=home, port=port, profile=api)
    finally:
        for survivor in left(process.pid, 0):
            os.kill(survivor.pid, signal.SIGKILL)
        process.wait()
