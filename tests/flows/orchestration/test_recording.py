"""A run continues when the server that records it goes away: with servers made here, and once with a real one."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from launched import LONG, Site, ask, new_home, server, session_processes, start, wait_until
from prefect.states import Completed
from small_recipe import Run, World, fill, new_world, note, prose

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.workers.processes import children, send
from flows.orchestration.runs.run_recipe import execute
from flows.orchestration.server import api_recorder as module
from flows.orchestration.server import embedded as server_module
from flows.orchestration.server.api_recorder import FlowEnd, Recording, during, is_unanswered, leave, recorded
from flows.orchestration.server.database import database_of
from flows.orchestration.server.embedded import EmbeddedServer, answers

GONE = httpx.ConnectError("All connection attempts failed")


class Api:
    """An API that answers, or does not, as it is told."""

    def __init__(self) -> None:
        self.up = True
        self.calls = 0

    def answers(self, address: str) -> bool:
        return self.up

    def take(self) -> str:
        self.calls += 1
        if not self.up:
            raise GONE
        return "taken"


class Server:
    """An embedded server of that API. `dies`: how often it does not come up"""

    def __init__(self, api: Api, dies: int = 0) -> None:
        self._api, self._dies, self.starts = api, dies, 0
        self.ended = False

    def end(self) -> None:
        self.ended, self._api.up = True, False

    def start_anew(self) -> None:
        self.starts += 1
        self.ended, self._api.up = False, self.starts > self._dies


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that looks at its API often, gives it up soon, and forgets at the end that it did."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "START_SECONDS", 0.1)
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(module, "leave_at_once", lambda: None)
    monkeypatch.setenv("PREFECT_LOGGING_TO_API_ENABLED", "true")


@pytest.fixture
def api(quick: None, monkeypatch: pytest.MonkeyPatch) -> Api:
    """An API that is looked at."""
    made = Api()
    monkeypatch.setattr(module, "answers", made.answers)
    return made


ADDRESS = "http://127.0.0.1:1/api"
AWAY = f"The Prefect API {ADDRESS} does not answer. {module.WITHOUT}"
BACK = f"The Prefect API {ADDRESS} answers again; the run is recorded there again."


def test_an_embedded_server_that_ends_is_started_again(api: Api) -> None:
    """Fails where what is left on a page while the server is away is lost, or fails the run."""
    told: list[str] = []
    server = Server(api)
    with during(Recording(ADDRESS, told.append, server)):  # type: ignore[arg-type]
        assert leave(api.take) == "taken"
        server.end()
        assert leave(api.take) == "taken"
    assert (told, server.starts) == ([module.ENDED], 1)


@pytest.mark.parametrize("embedded", [True, False])
def test_a_server_that_does_not_answer_is_done_without_until_it_does(api: Api, embedded: bool) -> None:
    """Fails where a run ends, or waits again and again, because nobody records it; where that is not said, or said
    twice; or where nothing more is recorded by a server that is back."""
    told: list[str] = []
    server = Server(api, dies=1) if embedded else None
    mine = Recording(ADDRESS, told.append, server)  # type: ignore[arg-type]
    with during(mine):
        server.end() if server else setattr(api, "up", False)
        assert leave(api.take) is None and mine.gone
        calls = api.calls
        assert leave(api.take) is None and api.calls == calls
        assert wait_until(lambda: AWAY in told)
        api.up = True
        assert wait_until(lambda: not mine.gone) and leave(api.take) == "taken"
        assert wait_until(lambda: BACK in told)
    assert told == [*([module.ENDED] if embedded else []), AWAY, BACK]


def test_a_server_that_ends_again_and_again_is_done_without(api: Api) -> None:
    """Fails where a run starts servers for ever."""
    told: list[str] = []
    server = Server(api)
    mine = Recording(ADDRESS, told.append, server)  # type: ignore[arg-type]
    with during(mine):
        while not mine.gone:
            server.end()
            leave(api.take)
    assert server.starts == module.STARTS - 1
    assert f"The embedded Prefect server has ended {module.STARTS} times." in told[-1]


def test_progress_does_not_wait(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a run stands because nobody looks at its bar."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 1e9)
    with during(Recording(ADDRESS, lambda line: None)):
        api.up = False
        assert leave(api.take, patient=False) is None
    assert api.calls == 1


def test_only_an_api_that_fails_is_forgiven(api: Api) -> None:
    """Fails where an error of our own is taken for one of the server's, and hidden."""

    def refuse(status: int) -> None:
        request = httpx.Request("POST", "http://127.0.0.1:1/api")
        raise httpx.HTTPStatusError("no", request=request, response=httpx.Response(status, request=request))

    told: list[str] = []
    with during(Recording(ADDRESS, told.append)):
        for error, call in ((httpx.HTTPStatusError, lambda: refuse(422)), (KeyError, lambda: {}["a"])):
            with pytest.raises(error):
                leave(call)
        assert told == [] and leave(lambda: refuse(500)) is None
    assert told[0].startswith("The Prefect API http://127.0.0.1:1/api fails (no).")
    wrapped = RuntimeError("Failed to reach API")
    wrapped.__cause__ = GONE
    assert is_unanswered(wrapped) and not is_unanswered(RuntimeError("another"))


def test_the_end_of_the_work_counts_and_not_of_its_record(api: Api) -> None:
    """Fails where a run that is finished fails because the server cannot be told, or the error is the server's."""

    def flow(end: FlowEnd, work: Any) -> Any:
        end.keep(work)
        raise GONE

    def broken() -> Any:
        raise InputError("The disk is full.")

    done, end = Completed(message="done"), FlowEnd()
    with during(Recording(ADDRESS, lambda line: None)):
        assert end.whatever(lambda: flow(end, lambda: done)) is done
        with pytest.raises(InputError, match="The disk is full"):
            end.whatever(lambda: flow(end, broken))


def test_a_flow_that_cannot_begin_is_tried_again_and_then_done_without(api: Api) -> None:
    """Fails where a server that comes back is no server, or one that does not ends the run."""
    begun: list[int] = []

    def flow() -> Any:
        begun.append(1)
        if len(begun) < 2:
            raise GONE
        return Completed(message="done")

    told: list[str] = []
    with during(Recording(ADDRESS, told.append)):
        state = FlowEnd().whatever(flow)
        assert state is not None and state.message == "done"
        assert FlowEnd().whatever(api_gone) is None
    assert told == [f"The Prefect API {ADDRESS} does not record this run ({GONE}). {module.WITHOUT}"]


def api_gone() -> Any:
    raise GONE


HEALTHY = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args): ...
server = HTTPServer(("127.0.0.1", 0), Healthy)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def stopped() -> Iterator[tuple[str, int]]:
    """The address and the number of a process that answers as an API does, and is stopped (SIGSTOP)."""
    with subprocess.Popen([sys.executable, "-c", HEALTHY], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/api", process.pid
        process.kill()


def test_a_stopped_server_of_the_user_s_own(
    stopped: tuple[str, int], quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Fails where a server that takes connections and answers none holds a run up, as it begins or later."""
    address, pid = stopped
    monkeypatch.setenv("CLOZE_PREFECT_API", address)
    monkeypatch.setattr(server_module, "ASK_SECONDS", 0.1)
    told: list[str] = []
    with recorded(tmp_path, False, told.append) as mine:
        assert mine.settle()
        os.kill(pid, signal.SIGSTOP)
        assert wait_until(lambda: len(told) == 2) and mine.gone and leave(lambda: 1) is None
        os.kill(pid, signal.SIGCONT)
        assert wait_until(lambda: len(told) == 3) and leave(lambda: 1) == 1
        os.kill(pid, signal.SIGSTOP)
    with recorded(tmp_path, False, told.append) as mine:
        assert mine.lost and leave(lambda: 1) is None
    waited = f"The Prefect API {address} of your profile has not answered for 0 s."
    assert "does not answer" in told[1] and "answers again" in told[2] and told[3] == module.goes_without(waited)


class NeverUp(EmbeddedServer):
    """An embedded server that is stopped (SIGSTOP) as it starts."""

    def _start(self) -> "subprocess.Popen[bytes]":
        process = super()._start()
        os.kill(process.pid, signal.SIGSTOP)
        return process


def test_a_run_whose_server_does_not_come_up_builds_the_same(
    quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, finished: Run
) -> None:
    """Fails where a slow server ends a run, or changes what it builds, or the run is on record nowhere."""
    home, world = new_home(tmp_path), fill(new_world(tmp_path / "world"))
    monkeypatch.setattr(server_module, "EmbeddedServer", NeverUp)
    monkeypatch.setattr(server_module, "SERVER_STOP_SECONDS", -1.5)
    monkeypatch.setenv("PREFECT_HOME", str(home / "prefect"))
    told: list[str] = []
    done = execute(world.recipe(), home, told.append, workers=1, own_server=True)
    slow = f"The embedded Prefect server has not started in time; its log is {home}/prefect/server.log."
    assert [line for line in told if "server" in line][1:] == [module.goes_without(slow)]
    assert contents(done.place) == sorted(manifest.content for manifest in finished.manifests)
    assert done.record.state == "completed" and {stage.state for stage in done.record.stages} == {"built"}
    assert done.record.flow_run is None


@pytest.mark.slow
@pytest.mark.server
def test_a_run_that_began_without_its_server_is_shown_once_it_answers(
    quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, built: World, site: Site
) -> None:
    """Fails where a server that comes back while a run works does not show it, or shows it as anything but ended."""
    told: list[str] = []
    monkeypatch.setenv("CLOZE_PREFECT_API", site.api)
    monkeypatch.setenv("PREFECT_HOME", str(site.home / "prefect"))
    monkeypatch.setattr(module, "answers", lambda api: any("builds the same" in line for line in told) and answers(api))
    built.put("notes", "later", [note(7, prose(7000))])
    done = execute(built.recipe(), new_home(tmp_path / "home"), told.append, workers=1)
    assert done.record.flow_run is not None and done.record.stages[0].state == "reused"
    [run] = ask(site.api, "flow_runs", flow_runs={"id": {"any_": [done.record.flow_run.id]}})
    assert run["state"]["name"] == "Completed" and "builds" in run["tags"]


@pytest.mark.parametrize("harm", ["", "junk"])
def test_a_server_that_ends_as_it_starts(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """Fails where it ends a run, is not started again, or the line lacks why: its database, or its last error."""

    class EndsAtOnce(EmbeddedServer):
        def _start(self) -> "subprocess.Popen[bytes]":
            said = "import sys; sys.exit(print('OSError: no room', file=sys.stderr))"
            with log.open("ab") as file:
                return subprocess.Popen(
                    [sys.executable, "-c", said], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file
                )

    (tmp_path / "prefect").mkdir()
    log = tmp_path / "prefect" / "server.log"
    monkeypatch.setattr(server_module, "EmbeddedServer", EndsAtOnce)
    monkeypatch.setattr(module, "START_SECONDS", 60.0)
    if harm:
        database_of(tmp_path / "prefect").write_text(harm)
    told: list[str] = []
    with recorded(tmp_path, True, told.append) as mine:
        assert mine.lost and not mine.api_by_now()
    assert told[1].endswith("has ended while it started; it is started again.")
    assert told[2].startswith(
        f"The embedded Prefect server did not start; its log is {log}. The last error there: OSError: no room"
    )
    assert ("prefect.db is damaged" in told[2]) == bool(harm)
    assert log.read_text().count("no room") == 2


def contents(place: Place) -> list[str]:
    """The contents of all that a store holds."""
    return sorted(
        Manifest.from_bytes(place.read(p), p).content for p in place.sizes("") if p.endswith("/manifest.json")
    )


def servers(session: int) -> list[int]:
    """The embedded server of a run."""
    return [
        process.pid
        for process in session_processes(session)
        if "flows.orchestration.server.embedded" in process.command
    ]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
def test_a_killed_server_costs_no_result(database: Path, tmp_path: Path, finished: Run) -> None:
    """Fails where a run whose server is killed, as it starts and in the middle, fails, stands, or says nothing."""
    home, world = new_home(tmp_path, database), fill(new_world(tmp_path / "world"))
    process = start(home, "run", str(world.recipe_path), "--workers", "1")
    said: list[str] = []
    assert process.stdout is not None
    reading = threading.Thread(target=lambda: said.extend(process.stdout or ()))
    reading.start()
    assert wait_until(lambda: bool(servers(process.pid)), LONG)
    [first] = servers(process.pid)
    os.kill(first, signal.SIGKILL)
    assert wait_until(lambda: any(line.startswith("documents/") for line in said), LONG), said
    [second] = servers(process.pid)
    assert second != first
    os.kill(second, signal.SIGKILL)
    process.wait(LONG)
    reading.join()
    process.stdout.close()
    assert process.returncode == 0, said
    assert "The embedded Prefect server has ended while it started; it is started again.\n" in said
    assert f"{module.ENDED}\n" in said
    assert not [line for line in said if "Traceback" in line or "ERROR" in line or "Error logging" in line], said
    assert contents(Place(world.recipe().store)) == sorted(manifest.content for manifest in finished.manifests)


FIVE_MINUTES = 300.0


@pytest.mark.long
@pytest.mark.server
@pytest.mark.parametrize("whose", ["embedded", "own"])
@pytest.mark.parametrize("when", ["start", "middle"])
def test_a_server_that_is_stopped_for_five_minutes_holds_no_run_up(
    database: Path, tmp_path: Path, finished: Run, whose: str, when: str
) -> None:
    """Fails where a run waits for a server that is stopped (SIGSTOP), or ends for it, or builds something else."""
    home, world = new_home(tmp_path, database), fill(new_world(tmp_path / "world"))
    with server(new_home(tmp_path / "own", database)) if whose == "own" else nullcontext() as api:
        [own] = children(os.getpid()) if whose == "own" else [0]
        if own and when == "start":
            os.kill(own, signal.SIGSTOP)
        process = start(home, "run", str(world.recipe_path), "--workers", "1", api=api)
        said: list[str] = []
        assert process.stdout is not None
        reading = threading.Thread(target=lambda: said.extend(process.stdout or ()))
        reading.start()
        if when == "middle":
            assert wait_until(lambda: any(line.startswith("documents/") for line in said), LONG), said
        if not own:
            assert wait_until(lambda: bool(servers(process.pid)), LONG)
            [own] = servers(process.pid)
        os.kill(own, signal.SIGSTOP)
        goes_on = threading.Timer(FIVE_MINUTES, send, (own, signal.SIGCONT))
        goes_on.start()
        process.wait(LONG)
        held_up = not goes_on.is_alive()
        goes_on.cancel()
        send(own, signal.SIGCONT)
        reading.join()
        process.stdout.close()
    assert process.returncode == 0 and not held_up, said
    assert [line for line in said if "The run continues without" in line], said
    assert not [line for line in said if "Traceback" in line or "ERROR" in line], said
    assert contents(Place(world.recipe().store)) == sorted(manifest.content for manifest in finished.manifests)


class Proxy(BaseHTTPRequestHandler):
    """Answers for whoever is asked, to who has the key."""

    def do_GET(self) -> None:
        known = self.headers["Authorization"] == "Bearer of-mine" and self.path == "http://prefect.example/api/health"
        self.send_response(200 if known else 401)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


def test_a_server_elsewhere_is_asked_by_the_proxy_and_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where runs of a worker do without Prefect Cloud, which answers nobody without a key, or nobody directly."""
    with HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("PREFECT_API_KEY", "of-mine")
        assert answers("http://prefect.example/api")
        assert not answers(f"http://127.0.0.1:{proxy.server_port}/api")  # asked itself, it knows no such path
        monkeypatch.delenv("PREFECT_API_KEY")
        assert not answers("http://prefect.example/api")
        proxy.shutdown()
