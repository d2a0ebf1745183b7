"""The embedded orchestrator: Prefect's server in a process of its own, for one machine and one run.

It listens on a free port of the loopback, keeps its database in the project's own Prefect home (so `cloze ui`
shows the same runs later), and ends itself when the process that started it is gone, however that ended: it
watches a pipe that the system closes. The first start makes the database, which takes some 20 seconds; servers
of one home start one after another, because two that make its database at once corrupt it.

With a port it is a full server: it also has the UI and the services that schedule runs. Its port is in a file of the
home, so that runs that start no server find it.
"""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from corpora.errors import InputError
from corpora.lean_process import collect_rarely
from flows.environment import LOOPBACK
from flows.orchestration.server.database import check_database, database_fault, shrink_database, starting_turn
from flows.orchestration.server.history import keep_history
from flows.process_exit import leave_garbage
from flows.run.policies import SERVER_START_SECONDS, SERVER_STOP_SECONDS

LOOK_SECONDS = 0.1
ASK_SECONDS = 5.0  # for an answer
PORT_FILE = "server.port"  # in a Prefect home: of the full server that was started last
ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
EPHEMERAL = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
FULL = {"PREFECT_SERVER_API_HOST": "127.0.0.1"}  # the UI asks the API that the settings name


class ServerFailed(InputError):
    """The embedded server did not come up, or not in time."""


class EmbeddedServer:
    """A server that is starting or running; with a port it is a full one."""

    def __init__(self, log_path: str, port: int | None = None, environment: Mapping[str, str] = os.environ) -> None:
        self.log_path = log_path
        # Bound here, so that the address is known before the server is up, and heard from there on.
        with closing(socket.socket()) as bound, open(log_path, "ab") as log:  # noqa: PTH123  a plain handle for the child
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(("127.0.0.1", port or 0))
            number = bound.getsockname()[1]
            self.address = f"http://127.0.0.1:{number}/api"
            self._process = subprocess.Popen(
                [sys.executable, "-m", "flows.orchestration.server.embedded", str(bound.fileno()), str(port or 0)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**environment, **(EPHEMERAL if port is None else {**FULL, "PREFECT_SERVER_API_PORT": str(port)})},
                pass_fds=[bound.fileno()],
                # Ctrl-C reaches all processes of the terminal's group: the server has to outlive what it records.
                process_group=0,
            )

    def wait(self, seconds: float = SERVER_START_SECONDS) -> str:
        """Return its API's address, once it answers. Raises ServerFailed if it ends, and after some seconds."""
        deadline = time.monotonic() + seconds
        while not self.ended:
            if answers(self.address):
                return self.address
            time.sleep(LOOK_SECONDS)
            if time.monotonic() > deadline:
                raise ServerFailed(f"The embedded Prefect server has not started in time; its log is {self.log_path}.")
        raise ServerFailed(
            f"The embedded Prefect server did not start; its log is {self.log_path}.{last_error(self.log_path)}"
        )

    @property
    def ended(self) -> bool:
        """True if its process is gone."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """End it: closing the pipe is enough, and it has a few seconds to write what it holds."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(SERVER_STOP_SECONDS + 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def embedded_server(
    log_path: str, port: int | None = None, environment: Mapping[str, str] = os.environ
) -> Iterator[EmbeddedServer]:
    """Run a server during the block, a full one with a port; it need not answer yet."""
    server = EmbeddedServer(log_path, port, environment)
    try:
        yield server
    finally:
        server.stop()


def last_error(log_path: str) -> str:
    """Return what is wrong with the database of a server that failed; else the last error of its log, if it has one."""
    if fault := database_fault(Path(log_path).parent):
        return f" {' '.join(fault)}"
    lines = Path(log_path).read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if ERROR.match(line)), "")
    return f" The last error there: {last.rstrip('.')}." if last else ""


def answers(address: str) -> bool:
    """Tell whether a Prefect API at this address reports that it is healthy."""
    return _ask(f"{address}/health") is not None


def keeps_runs_of(home: Path, port: int) -> bool:
    """Tell whether a Prefect server of this home answers on a port, whether `cloze ui` or a schedule started it."""
    return _home_of(f"http://127.0.0.1:{port}/api") == str(home / "prefect")


def is_of_home(address: str) -> bool:
    """Tell whether the server of an API on this machine belongs to the home of this process."""
    return urlsplit(address).hostname in LOOPBACK and _home_of(address) == os.environ.get("PREFECT_HOME")


def server_of_home(home: Path) -> str:
    """Return the API of the full server of this home that was started last; "" if it does not answer."""
    try:
        port = int((home / "prefect" / PORT_FILE).read_text())
    except (OSError, ValueError):
        return ""
    return f"http://127.0.0.1:{port}/api" if keeps_runs_of(home, port) else ""


def _home_of(address: str) -> str | None:
    """Return the Prefect home that a server reports."""
    settings = ask(f"{address}/admin/settings")
    return settings.get("home") if isinstance(settings, dict) else None


def ask(url: str, body: object = None, seconds: float = ASK_SECONDS) -> Any:
    """Return what an API answers in so many seconds, as JSON; None if it does not, or answers something else.

    body: of the request
    """
    try:
        return json.loads(_ask(url, body, seconds) or b"null")
    except ValueError:
        return None


def _ask(url: str, body: object = None, seconds: float = ASK_SECONDS) -> bytes | None:
    """Return what a server answers; None if it does not, or with an error.

    One on another machine is asked as Prefect asks it: over the proxy and with the key of the environment.
    """
    here = urlsplit(url).hostname in LOOPBACK
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if here else []))
    key = os.environ.get("PREFECT_API_KEY")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with opener.open(request, timeout=seconds) as response:
            return bytes(response.read()) if response.status in (200, 201, 204) else None
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return None


def is_free(port: int) -> bool:
    """Return True if a server can listen on a port of this machine."""
    with suppress(InputError):
        check_port(port)
        return True
    return False


def check_port(port: int) -> None:
    """Raise InputError for a port that is in use."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise InputError(
            f"Port {port} is in use ({error.strerror}): stop what listens there, or take another with --port."
        ) from error


def serve_ui(port: int, tell: Callable[[str], None]) -> NoReturn:
    """Run a full server with its UI until the process is stopped. Raises InputError for a used port or bad database."""
    # Not above: the child has no use for what these import.
    from flows.orchestration.pages.late_runs import send_kept_runs
    from flows.recipes.settings.retention import RetentionSettings

    check_port(port)
    prefect_home = Path(os.environ["PREFECT_HOME"])
    check_database(prefect_home)
    shrink_database(prefect_home, tell)
    log = str(prefect_home / "server.log")
    keep_history(RetentionSettings().history_days)
    with embedded_server(log, port) as server:
        api = server.wait()
        send_kept_runs(prefect_home, api, tell)
        tell(f"The UI: {api.removesuffix('/api')}  (Ctrl-C stops it)")
        while not server.ended:
            time.sleep(LOOK_SECONDS)
    raise ServerFailed(f"The Prefect server has ended; its log is {log}.")


def serve(listener: socket.socket, port: int) -> None:
    """Run the child process: serve, and end when the parent's end of stdin closes.

    listener: is bound to a port, and does not listen yet
    port:     of a full server, with the UI and the services that schedule runs; 0: it is another one
    """
    servers: list[Any] = []

    def watch() -> None:
        while os.read(0, 1024):
            pass
        if servers:
            servers[0].should_exit = True  # it may write what it holds
            time.sleep(SERVER_STOP_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    collect_rarely()
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_HOME

    starting = ExitStack()
    starting.enter_context(starting_turn(PREFECT_HOME.value()))
    app = create_app(ephemeral=not port)
    if port:
        from flows.orchestration.pages.report_server import add_reports

        add_reports(app, PREFECT_HOME.value())
        (PREFECT_HOME.value() / PORT_FILE).write_text(str(port))
    config = uvicorn.Config(
        app,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=SERVER_STOP_SECONDS // 2,  # an open page of the UI would hold it until the end
    )
    servers.append(uvicorn.Server(config))
    threading.Thread(target=_once_started, args=(servers[0], starting), daemon=True).start()
    servers[0].run(sockets=[listener])
    leave_garbage()


def _once_started(server: Any, starting: ExitStack) -> None:
    """Let the next server start once this one answers."""
    while not server.started:
        time.sleep(LOOK_SECONDS)
    starting.close()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
