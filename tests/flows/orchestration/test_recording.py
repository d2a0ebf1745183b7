"""A run continues when the server that records it goes away: with servers made here, and once with a real one."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from launched import LONG, Site, ask, new_home, server, session_processes, start, wait_until
from prefect.states import Completed, Failed, State
from small_recipe import Run, World, fill, new_world, note, prose

from corpora.errors import InputError
from corpora.store.processes import list_children, send_signal
from flows.orchestration import embedded_server as server_module
from flows.orchestration import recording as module
from flows.orchestration.embedded_server import find_last_error, is_answering
from flows.orchestration.flow_end import FlowEnd
from flows.orchestration.late_runs import FOLDER
from flows.orchestration.recording import (
    PageBuffer,
    Recording,
    is_unanswered,
    record_run,
    send_to_api,
    use_recording,
)
from flows.orchestration.run_recipe import run_recipe

GONE = httpx.ConnectError("All connection attempts failed")


class Api:
    """An API that answers, or does not, as it is told. closed: the states that runs were given at their end"""

    def __init__(self) -> None:
        self.up = True
        self.calls = 0
        self.closed: list[str] = []
        self.hang: Callable[[], None] | None = None

    def answers(self, address: str) -> bool:
        return self.up

    def take(self) -> str:
        self.calls += 1
        if not self.up:
            if self.hang is not None:
                self.hang()
                raise httpx.ReadTimeout("timed out")
            raise GONE
        return "taken"

    @contextmanager
    def client(self, sync_client: bool) -> Iterator["Api"]:
        yield self

    def set_flow_run_state(self, id: UUID, state: State[Any], force: bool) -> None:
        self.take()
        self.closed.append(f"{state.name}: {state.message}")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that looks at its API often, gives it up soon, and forgets at the end that it did."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(module, "START_SECONDS", 0.1)
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(module, "exit_without_waiting", lambda: None)
    monkeypatch.setenv("PREFECT_LOGGING_TO_API_ENABLED", "true")


@pytest.fixture
def api(quick: None, monkeypatch: pytest.MonkeyPatch) -> Api:
    """An API that is looked at."""
    made = Api()
    monkeypatch.setattr(module, "is_answering", made.answers)
    monkeypatch.setattr("flows.orchestration.flow_end.get_client", made.client)
    monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__ID", str(uuid4()))
    return made


ADDRESS = "http://127.0.0.1:1/api"


def test_an_embedded_server_that_has_ended_is_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a run waits for a server that nobody starts again, or the line lacks where its log is."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 1e9)
    told: list[str] = []
    server: Any = SimpleNamespace(has_ended=True, log_path="server.log")
    with use_recording(Recording(ADDRESS, told.append, server)):
        assert send_to_api(api_gone) is None
    assert told == [f"The embedded Prefect server has ended; its log is server.log. {module.WITHOUT_SERVER}"]


def test_only_an_api_that_fails_is_forgiven(api: Api) -> None:
    """Fails if an error of our own is taken for one of the server's, and hidden."""

    def refuse(status: int) -> None:
        request = httpx.Request("POST", "http://127.0.0.1:1/api")
        raise httpx.HTTPStatusError("no", request=request, response=httpx.Response(status, request=request))

    told: list[str] = []
    with use_recording(Recording(ADDRESS, told.append)):
        for error, call in ((httpx.HTTPStatusError, lambda: refuse(422)), (KeyError, lambda: {}["a"])):
            with pytest.raises(error):
                send_to_api(call)
        assert told == [] and send_to_api(lambda: refuse(500)) is None
    assert told[0].startswith(f"The Prefect API {ADDRESS} does not answer (no).")
    wrapped = RuntimeError("Failed to reach API")
    wrapped.__cause__ = GONE
    assert is_unanswered(wrapped) and not is_unanswered(RuntimeError("another"))


class Clock:
    """A clock that waits for nobody. An API is away from `stops` until it `continues`."""

    def __init__(self, api: Api, stops: float, continues: float) -> None:
        self._api, self._away, self._now = api, (stops, continues), 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds
        self._api.up = not self._away[0] <= self._now < self._away[1]


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize(
    ("lasts", "away", "closed"), [(10, 20, True), (10, 300, False), (60, 300, False), (400, 300, True)]
)
def test_a_server_that_is_stopped_for_five_minutes_holds_no_run_up(
    api: Api, monkeypatch: pytest.MonkeyPatch, lasts: int, away: int, closed: bool, broken: bool, hangs: bool
) -> None:
    """Fails if a run waits for more than half a minute, ends with the server's error, or is not closed there."""
    clock, end, told = Clock(api, 10, 10 + away), FlowEnd(), list[str]()
    for name, value in {"time": clock, "RETRY_SECONDS": 1.0, "ANSWER_SECONDS": 30.0}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setenv("PREFECT_API_REQUEST_TIMEOUT", "14")
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "1")
    api.hang = (lambda: clock.sleep(29)) if hangs else None

    def work() -> Any:
        for _ in range(0, lasts, 5):
            send_to_api(api.take)
            clock.sleep(5)
        if broken:
            raise InputError("The disk is full.")
        return Completed(message="done")

    def flow() -> Any:
        with suppress(InputError):  # Prefect's engine catches it, to record it
            end.keep(work)
        raise GONE

    with use_recording(Recording(ADDRESS, told.append)):
        with pytest.raises(InputError, match="The disk is full") if broken else nullcontext():
            state = end.call(flow)
            assert state is not None and state.message == "done"
    assert clock.monotonic() <= lasts + 35 and len(told) == (away > 30)
    assert api.closed == [("Failed: InputError: The disk is full." if broken else "Completed: done")] * closed


def test_a_flow_that_cannot_begin_is_tried_again_and_then_done_without(api: Api) -> None:
    """Fails if a server that comes back is no server, or one that does not ends the run."""
    begun: list[int] = []

    def flow() -> Any:
        begun.append(1)
        if len(begun) < 2:
            raise GONE
        return Completed(message="done")

    told: list[str] = []
    with use_recording(Recording(ADDRESS, told.append)):
        state = FlowEnd().call(flow)
        assert state is not None and state.message == "done"
        assert FlowEnd().call(api_gone) is None
    assert told == [f"The Prefect API {ADDRESS} does not answer ({GONE}). {module.WITHOUT_SERVER}"]


@pytest.mark.parametrize(
    "end", [Completed(message="done"), Failed(message="full", data=InputError("The disk is full."))]
)
def test_an_api_that_answers_too_late_at_the_end_changes_no_result(api: Api, end: State[Any]) -> None:
    """Fails if Prefect's engine, which takes the error for the flow's own, has its way."""
    late, flow_end = Failed(message="late", data=httpx.ReadTimeout("timed out")), FlowEnd()

    def flow() -> Any:
        flow_end.keep(lambda: end)
        return late

    with use_recording(Recording(ADDRESS, print)):
        state = flow_end.call(flow)
    assert state is end and api.closed == [f"{end.name}: {end.message}"]


def test_a_task_that_ends_by_its_api_is_one_paragraph(api: Api) -> None:
    """Fails if a run ends with the traceback of a request, or without a word of what stays."""

    def work() -> Any:
        raise httpx.ReadTimeout("timed out")

    end = FlowEnd()
    with use_recording(Recording(ADDRESS, print)), pytest.raises(InputError, match="What is finished is kept"):
        end.call(lambda: end.keep(work))
    assert api.closed == ["Failed: ReadTimeout: timed out"]


def api_gone() -> Any:
    raise GONE


def test_a_run_whose_server_does_not_come_up_builds_the_same(
    quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, finished: Run
) -> None:
    """Fails if a slow server ends a run, or changes what it builds, or the run is on record nowhere."""
    home, world = new_home(tmp_path), fill(new_world(tmp_path / "world"))
    monkeypatch.setattr(server_module, "can_prove_password", lambda port, password: False)
    monkeypatch.setattr(server_module, "SERVER_STOP_SECONDS", -1.5)
    monkeypatch.setenv("PREFECT_HOME", str(home / "prefect"))
    told, steps = list[str](), list[tuple[str, int, int]]()
    done = run_recipe(
        world.recipe(), home, told.append, 1, own_server=True, on_progress=lambda *step: steps.append(step)
    )
    slow = f"The embedded Prefect server has not started in time; its log is {home}/prefect/server.log."
    assert [line for line in told if "server" in line and "damaged" not in line][1:] == [module.explain_no_server(slow)]
    assert world.contents() == sorted(manifest.content for manifest in finished.manifests)
    assert done.record.state == "completed" and {stage.state for stage in done.record.stages} == {"built"}
    assert done.record.flow_run is None
    for stage in done.record.stages:  # its progress is told part by part, to the number of its parts
        advances = [(built, parts) for name, built, parts in steps if name == f"{stage.kind}/{stage.name}"]
        assert advances == sorted(advances) and advances[-1] == (stage.parts, stage.parts), stage.name


def test_a_run_that_fails_without_its_server_is_kept_for_the_next_ui(
    quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Fails if only runs that end well, or that nobody watches, are kept."""
    home, world = new_home(tmp_path), fill(new_world(tmp_path / "world"))
    (world.folder / "raw" / "pages" / "broken.jsonl.gz").write_bytes(b"no gzip")
    monkeypatch.setattr(server_module, "can_prove_password", lambda port, password: False)
    monkeypatch.setattr(server_module, "SERVER_STOP_SECONDS", -1.5)
    monkeypatch.setenv("PREFECT_HOME", str(home / "prefect"))
    with pytest.raises(InputError, match=r"broken\.jsonl\.gz"):
        run_recipe(world.recipe(), home, print, 1, own_server=True)
    [path] = (home / "prefect" / FOLDER).iterdir()
    assert '"type": "FAILED"' in path.read_text()


@pytest.mark.slow
@pytest.mark.server
def test_a_run_that_began_without_its_server_is_shown_once_it_answers(
    quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, built: World, site: Site
) -> None:
    """Fails if a server that comes back while a run works does not show it, or shows it as anything but ended."""
    told: list[str] = []
    monkeypatch.setenv("CLOZE_PREFECT_API", site.api)
    monkeypatch.setenv("PREFECT_HOME", str(site.home / "prefect"))
    monkeypatch.setattr(
        module, "is_answering", lambda api: any("builds the same" in line for line in told) and is_answering(api)
    )
    built.put("notes", "later", [note(7, prose(7000))])
    done = run_recipe(built.recipe(), new_home(tmp_path / "home"), told.append, workers=1)
    assert done.record.flow_run is not None and done.record.stages[0].state == "reused"
    [run] = ask(site.api, "flow_runs", flow_runs={"id": {"any_": [done.record.flow_run.id]}})
    assert run["state"]["name"] == "Completed" and "builds" in run["tags"]


def test_a_server_that_ends_as_it_starts(quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if it ends a run, or the line lacks why."""
    (tmp_path / "prefect").mkdir()
    (tmp_path / "prefect" / "prefect.db").mkdir()
    monkeypatch.setattr(module, "START_SECONDS", 60.0)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    told: list[str] = []
    with record_run(tmp_path, True, told.append, PageBuffer(), lambda: None) as mine:
        assert mine.is_lost and not mine.find_api_now()
    assert "The embedded Prefect server did not start; its log is " in told[1]
    assert "is damaged, or locked by another process (unable to open database file)" in told[1]
    log = tmp_path / "elsewhere" / "server.log"  # of a server that failed with its database as it should be
    log.parent.mkdir()
    log.write_text("INFO: starting\nOSError: no space left.\n  it was full\n", encoding="utf-8")
    assert find_last_error(str(log)) == " The last error there: OSError: no space left."


def servers(session: int) -> list[int]:
    """The embedded server of a run."""
    return [
        process.pid
        for process in session_processes(session)
        if "flows.orchestration.embedded_server" in process.command
    ]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize(
    ("whose", "when"), [("embedded", "start"), ("embedded", "middle"), ("own", "start"), ("own", "middle")]
)
def test_a_server_that_is_killed_or_stopped_costs_no_result(
    database: Path, tmp_path: Path, finished: Run, whose: str, when: str, number: signal.Signals
) -> None:
    """Fails if a run waits for a server that is gone or stopped, ends for it, says nothing, or builds less."""
    home, world = new_home(tmp_path, database), fill(new_world(tmp_path / "world"))
    before = {*list_children(os.getpid())}
    with server(new_home(tmp_path / "own", database)) if whose == "own" else nullcontext() as api:
        [own] = {*list_children(os.getpid())} - before if whose == "own" else [0]
        if own and when == "start":
            os.kill(own, number)
        process = start(home, "run", str(world.recipe_path), "--workers", "1", "--watch", api=api)
        said: list[str] = []
        assert process.stdout is not None
        reading = threading.Thread(target=lambda: said.extend(process.stdout or ()))
        reading.start()
        if when == "middle":
            assert wait_until(lambda: any(line.startswith("documents/") for line in said), LONG), said
        if not own:
            assert wait_until(lambda: bool(servers(process.pid)), LONG)
            [own] = servers(process.pid)
        send_signal(own, number)
        if (whose, when, number) == ("own", "middle", signal.SIGSTOP):
            assert wait_until(lambda: any("The run continues without" in line for line in said), LONG), said
            send_signal(own, signal.SIGCONT)
        process.wait(LONG)
        send_signal(own, signal.SIGCONT)
        reading.join()
        process.stdout.close()
        if (whose, when, number) == ("own", "middle", signal.SIGSTOP):
            assert [run["state"]["name"] for run in ask(str(api), "flow_runs")] == ["Completed"]
    assert process.returncode == 0, said
    assert len([line for line in said if "The run continues without" in line]) == 1, said
    assert not [line for line in said if "Traceback" in line or "ERROR" in line], said
    assert world.contents() == sorted(manifest.content for manifest in finished.manifests)


class Proxy(BaseHTTPRequestHandler):
    """Answers for whoever is asked, to who has the key."""

    def do_GET(self) -> None:
        known = self.headers["Authorization"] == "Bearer of-mine" and self.path == "http://prefect.example/api/health"
        self.send_response(200 if known else 401)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


def test_a_server_elsewhere_is_asked_by_the_proxy_and_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if runs of a worker do without Prefect Cloud, which answers nobody without a key, or nobody directly."""
    with HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example/api")
        monkeypatch.setenv("PREFECT_API_KEY", "of-mine")
        assert is_answering("http://prefect.example/api")
        assert not is_answering(f"http://127.0.0.1:{proxy.server_port}/api")  # asked itself, it knows no such path
        monkeypatch.delenv("PREFECT_API_KEY")
        assert not is_answering("http://prefect.example/api")
        proxy.shutdown()
