"""What a run does when the server that records it goes away: with servers made here, and once with a real one."""

import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from launched import LONG, new_home, session_processes, start, wait_until
from prefect.states import Completed
from small_recipe import Run, fill, new_world

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from flows.orchestration import recording as module
from flows.orchestration.recording import FlowEnd, Recording, during, is_unanswered, leave
from flows.orchestration.server import ServerFailed, answers

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

    @property
    def ended(self) -> bool:
        return not self._api.up

    def start_anew(self) -> str:
        self.starts += 1
        if self.starts <= self._dies:
            raise ServerFailed("It did not start.")
        self._api.up = True
        return "http://127.0.0.1:1/api"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """An API, and a module that looks at it often and forgets at the end that it was lost."""
    made = Api()
    monkeypatch.setattr(module, "answers", made.answers)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "LOST_SECONDS", 0.1)
    monkeypatch.setattr(module, "leave_at_once", lambda: None)
    monkeypatch.setenv("PREFECT_LOGGING_TO_API_ENABLED", "true")
    yield made


def test_an_embedded_server_that_ends_is_started_anew(api: Api) -> None:
    """Fails where what is left on a page while the server is away is lost, or fails the run."""
    told: list[str] = []
    server = Server(api)
    with during(Recording("http://127.0.0.1:1/api", told.append, server)):  # type: ignore[arg-type]
        assert leave(api.take) == "taken"
        api.up = False
        assert leave(api.take) == "taken"
    assert (told, server.starts) == ([module.ENDED], 1)


def test_a_server_that_does_not_come_up_is_done_without(api: Api) -> None:
    """Fails where a run ends, or waits, because nobody records it; or where it is not said."""
    told: list[str] = []
    mine = Recording("http://127.0.0.1:1/api", told.append, Server(api, dies=9))  # type: ignore[arg-type]
    with during(mine):
        api.up = False
        assert leave(api.take) is None and mine.lost
        calls = api.calls
        assert leave(api.take) is None and api.calls == calls
    lost = "It did not start. The run goes on without its record there; the store lacks nothing."
    assert told == [module.ENDED, lost]


def test_a_server_that_ends_again_and_again_is_done_without(api: Api) -> None:
    """Fails where a run starts servers for ever."""
    told: list[str] = []
    server = Server(api)
    mine = Recording("http://127.0.0.1:1/api", told.append, server)  # type: ignore[arg-type]
    with during(mine):
        while not mine.lost:
            api.up = False
            leave(api.take)
    assert server.starts == module.STARTS - 1
    assert f"The embedded Prefect server has ended {module.STARTS} times." in told[-1]


def test_a_server_of_the_user_s_own_is_waited_for(api: Api) -> None:
    """Fails where it is not said that it is away or back, or the run does not wait, or waits for ever."""
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        api.up = len(told) < 3

    with during(Recording("http://127.0.0.1:1/api", tell)):
        api.up = False
        assert leave(api.take) == "taken"
        assert wait_until(lambda: len(told) == 2)
        api.up = False
        assert leave(api.take) is None
    away, back, _, lost = told
    assert away.endswith("does not answer any more; waiting for it.") and back.endswith("answers again.")
    assert lost.endswith("is gone. The run goes on without its record there; the store lacks nothing.")


def test_progress_does_not_wait(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a run stands because nobody looks at its bar."""
    monkeypatch.setattr(module, "SILENT_LOST", 1 << 30)
    with during(Recording("http://127.0.0.1:1/api", lambda line: None)):
        api.up = False
        assert leave(api.take, patient=False) is None
    assert api.calls == 1


def test_only_an_api_that_fails_is_forgiven(api: Api) -> None:
    """Fails where an error of our own is taken for one of the server's, and hidden."""

    def refuse(status: int) -> None:
        request = httpx.Request("POST", "http://127.0.0.1:1/api")
        raise httpx.HTTPStatusError("no", request=request, response=httpx.Response(status, request=request))

    told: list[str] = []
    with during(Recording("http://127.0.0.1:1/api", told.append)):
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
    with during(Recording("http://127.0.0.1:1/api", lambda line: None)):
        assert end.whatever(lambda: flow(end, lambda: done)) is done
        with pytest.raises(InputError, match="The disk is full"):
            end.whatever(lambda: flow(end, broken))


def test_a_flow_that_cannot_begin_is_tried_again_and_then_refused(api: Api) -> None:
    """Fails where a server that comes back is no server, or one that does not ends in a traceback."""
    begun: list[int] = []

    def flow() -> Any:
        begun.append(1)
        if len(begun) < 2:
            raise GONE
        return Completed(message="done")

    with during(Recording("http://127.0.0.1:1/api", lambda line: None)):
        assert FlowEnd().whatever(flow).message == "done"
        begun.clear()
        with pytest.raises(InputError, match=r"does not record this run .*Mend what it says there"):
            FlowEnd().whatever(api_gone)


def api_gone() -> Any:
    raise GONE


def servers(session: int) -> list[int]:
    """The embedded server of a run."""
    return [process.pid for process in session_processes(session) if "flows.orchestration.server" in process.command]


@pytest.mark.slow
@pytest.mark.server
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
    assert "The embedded Prefect server has ended while it started; it is started anew.\n" in said
    assert f"{module.ENDED}\n" in said
    assert not [line for line in said if "Traceback" in line or "ERROR" in line or "Error logging" in line], said
    place = Place(world.recipe().store)
    built = [Manifest.from_bytes(place.read(p), p).content for p in place.sizes("") if p.endswith("/manifest.json")]
    assert sorted(built) == sorted(manifest.content for manifest in finished.manifests)


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
