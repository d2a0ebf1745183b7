"""The embedded orchestrator: Prefect's server in a process of its own, for one machine and one run.

It listens on a free port of the loopback, keeps its database in the project's own Prefect home (so `cloze ui`
shows the same runs later), and ends itself when the process that started it is gone, however that ended: it
watches a pipe that the system closes. The first start makes the database, which takes some 20 seconds; servers
of one home start one after another, because two that make its database at once corrupt it.

With a port it is a full server: it also has the UI and the services that schedule runs. Its port and its password are
in files of the home, so that runs that start no server find it. Nobody without the password is answered
(`server_guard.py`).

Before a server opens the database, it is checked: a newer Prefect changes its tables, and an older one cannot use them
any more. It holds the history of runs on the orchestrator's pages for some days, and nothing of any store. Cost: all of
it is read, a second for 500 MB: before `cloze ui` and `cloze serve`.
"""

import http.client
import json
import os
import re
import secrets
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from corpora.errors import InputError
from corpora.lean_process import OWN_CODE, raise_gc_threshold
from corpora.store.places.files import hold_lock
from flows.environment import LOOPBACK
from flows.orchestration.server_guard import (
    PROOF_PATH,
    describe_ui,
    find_password_in_use,
    format_basic_auth,
    generate_password,
    read_password,
    sign_challenge,
    write_password,
)
from flows.process_exit import skip_garbage_collection
from flows.run.policies import SERVER_START_SECONDS, SERVER_STOP_SECONDS

POLL_SECONDS = 0.1
REQUEST_SECONDS = 5.0  # for an answer
PORT_FILE = "server.port"  # in a Prefect home: of the full server that was started last
ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
EPHEMERAL = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
FULL = {"PREFECT_SERVER_API_HOST": "127.0.0.1"}  # the UI asks the API that the settings name
OPEN_PATHS = ("/api/health", PROOF_PATH, "/api/admin/version")  # answered without a password; the last, if all is
PASSWORD = "PREFECT_API_AUTH_STRING"  # of the API that Prefect's clients use
_passwords: dict[int, str] = {}  # by port: of servers that this process has started, or that have proved to be ours


class ServerFailed(InputError):
    """Raised if a Prefect server in a child process does not start in time, or ends."""


class EmbeddedServer:
    """A Prefect server in a child process, which is stopped at the end of a `with` block.

    The constructor starts the process, but does not wait until the server answers: call `wait` for that. If this
    process already knows a password for the port, the server uses the same password, so that it can replace an earlier
    server.

    Args:
        log_path: Path of the file to which the server's output is appended.
        port: Port for the API, the UI and the services that schedule runs. If None, serves only the API, on a free
            port.
        environment: Environment variables of the child process.

    Raises:
        ServerFailed: If the port is in use.

    Attributes:
        address: URL of the server's API.
    """

    def __init__(self, log_path: str, port: int | None = None, environment: Mapping[str, str] = os.environ) -> None:
        self.log_path = log_path
        # Bound here, so that the address is known before the server is up, and heard from there on.
        with closing(socket.socket()) as bound, open(log_path, "ab") as log:  # noqa: PTH123  a plain handle for the child
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                bound.bind(("127.0.0.1", port or 0))
            except OSError as error:
                raise ServerFailed(f"Port {port} is in use ({error.strerror}).") from error
            self._port = number = bound.getsockname()[1]
            self.address = f"http://127.0.0.1:{number}/api"
            self._password = _passwords.setdefault(number, generate_password())
            kind = EPHEMERAL if port is None else {**FULL, "PREFECT_SERVER_API_PORT": str(port)}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "flows.orchestration.embedded_server", str(bound.fileno()), str(port or 0)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**environment, **OWN_CODE, **kind, "PREFECT_SERVER_API_AUTH_STRING": self._password},
                pass_fds=[bound.fileno()],
                # Ctrl-C reaches all processes of the terminal's group: the server has to outlive what it records.
                process_group=0,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, seconds: float = SERVER_START_SECONDS) -> str:
        """Wait until the server answers, and return the URL of its API.

        Args:
            seconds: How long to wait.

        Raises:
            ServerFailed: If the server's process ends, or if it does not answer in time.
        """
        deadline = time.monotonic() + seconds
        while not self.has_ended:
            if can_prove_password(self._port, self._password):
                return self.address
            time.sleep(POLL_SECONDS)
            if time.monotonic() > deadline:
                raise ServerFailed(f"The embedded Prefect server has not started in time; its log is {self.log_path}.")
        raise ServerFailed(
            f"The embedded Prefect server did not start; its log is {self.log_path}.{find_last_error(self.log_path)}"
        )

    @property
    def has_ended(self) -> bool:
        """True if the server's process has ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """Stop the server and wait for its process to end.

        Closes the server's standard input, which makes it shut down. If it is still running some seconds later, it is
        killed.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(SERVER_STOP_SECONDS + 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def launch_server(prefect_home: Path, tell: Callable[[str], None], port: int | None = None) -> EmbeddedServer:
    """Start a Prefect server, and return it without waiting until it answers.

    Args:
        prefect_home: Folder with the server's database and log.
        tell: Called with a message that the server is starting.
        port: Port on which to serve the API and the UI; if None, serves only the API, on a free port.

    Raises:
        ServerFailed: If the port is in use.
    """
    first = not get_database_path(prefect_home).exists()
    kind = "embedded " if port is None else ""
    tell(f"Starting the {kind}Prefect server{': the first time it makes its database, some 20 s' * first} ...")
    return EmbeddedServer(str(prefect_home / "server.log"), port)


def find_last_error(log_path: str) -> str:
    """Find out why a server failed by checking its database and its log.

    Args:
        log_path: The path of the log, which must be in the same folder as the database.

    Returns:
        Text to append to a message, starting with a space: what is wrong with the database, or else the last error in
        the log; "" if nothing is found.
    """
    if fault := find_database_fault(Path(log_path).parent):
        return f" {' '.join(fault)}"
    lines = Path(log_path).read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if ERROR.match(line)), "")
    return f" The last error there: {last.rstrip('.')}." if last else ""


def is_answering(address: str) -> bool:
    """Return True if the Prefect API at a URL, such as "http://127.0.0.1:4200/api", reports that it is healthy."""
    return _request(f"{address}/health") is not None


def identify_server(home: Path, port: int) -> bool:
    """Return True if a server with the UI that was started for this CLOZE_HOME answers on a port.

    If so, remembers the server's password for later requests. It does not matter whether `cloze ui`, a scheduled run or
    this process started the server.

    Args:
        home: CLOZE_HOME, the folder of this installation's caches and server.
        port: The port on this machine.
    """
    for password in (read_password(home / "prefect", port), _passwords.get(port, "")):
        if password and can_prove_password(port, password):
            _passwords[port] = password
            return True
    return False


def can_prove_password(port: int, password: str) -> bool:
    """Return True if the server on a local port proves that it knows a password. The password itself is not sent."""
    challenge = secrets.token_hex(16)
    answer = _request(f"http://127.0.0.1:{port}{PROOF_PATH}?challenge={challenge}")
    return secrets.compare_digest(answer or b"", sign_challenge(password, port, challenge).encode())


def find_own_password(url: str) -> str:
    """Return the password of the server at a URL if it runs on this machine for this CLOZE_HOME; otherwise ""."""
    parts, home = urlsplit(url), Path(os.environ.get("PREFECT_HOME", "")).parent
    port = parts.port or 80
    return _passwords[port] if parts.hostname == "127.0.0.1" and identify_server(home, port) else ""


def restore_password(home: Path, port: int) -> None:
    """Make the next server that this process starts on a port use the password that active scheduled runs know.

    Does nothing if no `cloze serve` is running for this CLOZE_HOME.

    Args:
        home: CLOZE_HOME, the folder of this installation's caches and server.
        port: The port of the server.
    """
    if in_use := find_password_in_use(home / "prefect", port):
        _passwords[port] = in_use


def build_client_environment(address: str) -> dict[str, str]:
    """Return the environment variables that make Prefect clients use the API at a URL, by name.

    They include the password if Cloze started the API's server on this machine.
    """
    password = find_own_password(address)
    return {"PREFECT_API_URL": address, **({PASSWORD: password} if password else {})}


def use_api(address: str) -> None:
    """Make Prefect's clients in this process use the API at a URL, with its password if Cloze started its server.

    Processes that are started later do not inherit the API's password.

    Args:
        address: The URL of the API.
    """
    from prefect.context import refresh_global_settings_context

    environment = build_client_environment(address)
    os.environ |= environment
    refresh_global_settings_context()
    if PASSWORD in environment:
        del os.environ[PASSWORD]


def find_server_of_home(home: Path) -> str:
    """Return the API URL of the UI server most recently started for a CLOZE_HOME, or "" if it does not answer."""
    try:
        port = int((home / "prefect" / PORT_FILE).read_text())
    except (OSError, ValueError):
        return ""
    return f"http://127.0.0.1:{port}/api" if identify_server(home, port) else ""


def _build_auth_header(url: str) -> dict[str, str]:
    """Return the HTTP header that authorizes a request to a URL, as {name: value}; {} if none is needed or known.

    A password is sent only to the server that it belongs to.
    """
    is_local = urlsplit(url).hostname in LOOPBACK
    if is_local and urlsplit(url).path in OPEN_PATHS:
        return {}
    if own_password := find_own_password(url):
        return {"Authorization": format_basic_auth(own_password)}
    user_api = os.environ.get("PREFECT_API_URL") or os.environ.get("CLOZE_PREFECT_API", "")
    key = None if is_local else os.environ.get("PREFECT_API_KEY")  # of Prefect Cloud
    password = os.environ.get(PASSWORD)
    if not (user_api and url.startswith(f"{user_api.rstrip('/')}/") and (password or key)):
        return {}
    return {"Authorization": format_basic_auth(password) if password else f"Bearer {key}"}


def ask(url: str, body: object = None, seconds: float = REQUEST_SECONDS) -> Any:
    """Send a request to an API, and return the response parsed from JSON.

    Args:
        url: The URL to request.
        body: Value to send as JSON with POST. If None, the request is a GET.
        seconds: How long to wait for the response.

    Returns:
        The parsed response, or None if the request fails or the response is not JSON.
    """
    try:
        return json.loads(_request(url, body, seconds) or b"null")
    except ValueError:
        return None


def _request(url: str, body: object = None, seconds: float = REQUEST_SECONDS) -> bytes | None:
    """Send a request, and return the response body, or None if the server does not answer or returns an error.

    Requests to other machines use the proxy and the credentials that Prefect itself would use.

    Args:
        url: The URL to request.
        body: Value to send as JSON with POST. If None, the request is a GET.
        seconds: How long to wait for the response.
    """
    is_local = urlsplit(url).hostname in LOOPBACK
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_local else []))
    headers = {"Content-Type": "application/json", **_build_auth_header(url)}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with opener.open(request, timeout=seconds) as response:
            return bytes(response.read()) if response.status in (200, 201, 204) else None
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return None


def is_port_free(port: int) -> bool:
    """Return True if a server can listen on a local port."""
    with suppress(OSError):
        socket.create_server(("127.0.0.1", port)).close()
        return True
    return False


def prepare_server(home: Path, port: int, days: float, tell: Callable[[str], None]) -> None:
    """Check the port and the database for a server with the UI, and free unused space in the database.

    Skips the checks if a server that was started for this CLOZE_HOME already answers on the port. Waits for a server
    that is just starting.

    Args:
        home: CLOZE_HOME, the folder of this installation's caches and server.
        port: Port that the server will listen on.
        days: Number of days for which the server keeps the history of runs.
        tell: Called with a message if the database is being shrunk.

    Raises:
        InputError: If another program uses the port, or the database is corrupt or incompatible.
    """
    keep_history(days)
    with hold_start_lock(home / "prefect"):
        if identify_server(home, port):
            return
        check_port(port)
    check_database(home / "prefect")
    shrink_database(home / "prefect", tell)


def check_port(port: int) -> None:
    """Check that no program uses a port of this machine.

    Raises:
        InputError: If the port is in use. The message explains how to free it.
    """
    if is_port_free(port):
        return
    if ask(f"http://127.0.0.1:{port}/api/admin/version") is not None:  # to who has no password
        raise InputError(
            f"The Prefect server on port {port} has no password, as those of older versions of Cloze: stop the "
            "`cloze ui` or `cloze serve` that started it, and run this again, or take another port with --port."
        )
    raise InputError(f"Port {port} is in use: stop what listens there, or take another with --port.")


def start_server(home: Path, port: int, tell: Callable[[str], None]) -> EmbeddedServer | None:
    """Start a server with the UI for a CLOZE_HOME, wait until it answers, and return it.

    Args:
        home: CLOZE_HOME, the folder of this installation's caches and server.
        port: Port of the server.
        tell: Called with a message that the server is starting, and with a line that explains how to open the UI.

    Returns:
        The server, which the caller must stop; None if a server for this CLOZE_HOME already answers on the port.

    Raises:
        ServerFailed: If the server does not start.
    """
    server = None
    if not identify_server(home, port):
        try:
            with ExitStack() as started:
                server = started.enter_context(launch_server(home / "prefect", tell, port))
                server.wait()
                started.pop_all()
        except ServerFailed:
            if not identify_server(home, port):  # else another process was faster
                raise
            server = None
    tell(describe_ui(port, _passwords[port]))
    return server


def serve_ui(port: int, tell: Callable[[str], None], on_ready: Callable[[Path, str], object]) -> None:
    """Run a server with the UI until this process is stopped.

    If a server for this CLOZE_HOME already answers on the port, only prints how to open it, and returns.

    Args:
        port: Port of the server.
        tell: Called with each line to print.
        on_ready: Called with the folder of Prefect's files and the API URL as soon as the server answers.

    Raises:
        InputError: If another program uses the port, or the database is corrupt or incompatible.
        ServerFailed: If the server does not start, or ends.
    """
    from flows.recipes.run_settings import RetentionSettings  # not above: the child has no use for it

    home = Path(os.environ["PREFECT_HOME"]).parent
    prepare_server(home, port, RetentionSettings().history_days, tell)
    restore_password(home, port)
    server = start_server(home, port, tell)
    if server is None:
        return
    with server:
        tell("Ctrl-C stops it.")
        on_ready(home / "prefect", server.address)
        while not server.has_ended:
            time.sleep(POLL_SECONDS)
    raise ServerFailed(f"The Prefect server has ended; its log is {server.log_path}.")


def run_server(listener: socket.socket, port: int) -> None:
    """Run the server in the child process until it is stopped or its standard input is closed.

    Args:
        listener: Socket that is bound to a port, but does not listen yet.
        port: Port for the API, the UI and the services that schedule runs; 0 to serve only the API.
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
    raise_gc_threshold()
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_HOME

    from flows.orchestration.server_guard import Guard

    home, password = PREFECT_HOME.value(), os.environ["PREFECT_SERVER_API_AUTH_STRING"]
    starting = ExitStack()
    starting.enter_context(hold_start_lock(home))
    app = create_app(ephemeral=not port)
    if port:
        from flows.orchestration.server_guard import add_reports

        add_reports(app, home)
        starting.callback((home / PORT_FILE).write_text, str(port))
        starting.callback(write_password, home, port, password)
    origins = os.environ.get("PREFECT_SERVER_CORS_ALLOWED_ORIGINS", "")  # the user's, for a proxy
    config = uvicorn.Config(
        Guard(app, listener.getsockname()[1], password, origins),
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=SERVER_STOP_SECONDS // 2,  # an open page of the UI would hold it until the end
    )
    servers.append(uvicorn.Server(config))
    threading.Thread(target=_release_when_started, args=(servers[0], starting), daemon=True).start()
    servers[0].run(sockets=[listener])
    skip_garbage_collection()


def _release_when_started(server: Any, starting: ExitStack) -> None:
    """Wait until a server listens, then close `starting`, so that the start lock is free for the next server."""
    while not server.started:
        time.sleep(POLL_SECONDS)
    starting.close()


LOCKED_SECONDS = 10.0  # a server writes for a moment at a time
USER_DATABASE_SETTINGS = ("PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL")
SHRINK_BYTES = 32_000_000  # less free space than this stays in the file


def get_database_path(prefect_home: Path) -> Path:
    """Return the path of the server's database in the folder of Prefect's files."""
    return prefect_home / "prefect.db"


def hold_start_lock(prefect_home: Path) -> AbstractContextManager[None]:
    """Hold a lock during the block, so that servers that share a folder of Prefect's files start one at a time.

    Waits until the lock is free.
    """
    return hold_lock(prefect_home / "starting.lock")


def check_database(prefect_home: Path) -> None:
    """Check that a server can use the database in a Prefect home (the folder of Prefect's files).

    Waits for a server that is just starting.

    Raises:
        InputError: If the database is damaged, locked, or was written by a newer version of Prefect.
    """
    with hold_start_lock(prefect_home):
        fault = find_database_fault(prefect_home)
    if fault:
        raise InputError(" ".join(fault))


def find_database_fault(prefect_home: Path) -> tuple[str, str] | None:
    """Find out why a server could not use the database in a Prefect home (the folder of Prefect's files).

    Checks nothing if there is no database yet, or if the user's settings name another database.

    Returns:
        Two sentences, which describe the problem and its solution; None if the database can be used.
    """
    path = get_database_path(prefect_home)
    if any(os.environ.get(name) for name in USER_DATABASE_SETTINGS) or not path.exists():
        return None
    anew = (
        f"move the folder {path.parent} away, and the next run makes a new one: it holds the history of runs, and "
        "nothing of any store. Or set CLOZE_HOME to another folder."
    )
    try:
        with closing(sqlite3.connect(path, timeout=LOCKED_SECONDS, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")  # as for a write
            database.execute("ROLLBACK")
            fault = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            unknown = find_unknown_revision(database) if fault == "ok" else ""
    except sqlite3.DatabaseError as error:
        fault = str(error)
    if fault != "ok":
        fault = " ".join(fault.split())
        said = f"The orchestrator's database {path} is damaged, or locked by another process ({fault})."
        return said, f"If `fuser {path}` names a process, end that one. Else {anew}"
    if unknown:
        said = (
            f"The orchestrator's database {path} was written by a newer Prefect than {version('prefect')}, which is "
            f"installed here and lacks its revision {unknown}."
        )
        return said, f"Use it with the installation that wrote it. Else {anew}"
    return None


def find_unknown_revision(database: sqlite3.Connection) -> str:
    """Return a database's schema revision if the installed Prefect is too old to know it; otherwise "".

    Prefect stores the revision with Alembic, and the name of each migration file contains its revision.

    Args:
        database: A connection to Prefect's database.
    """
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
        return ""
    revision = "".join(database.execute("SELECT version_num FROM alembic_version").fetchone() or ())
    folder = "prefect/server/database/_migrations/versions/sqlite"
    steps = list(Path(str(distribution("prefect").locate_file(folder))).glob("*.py"))
    return revision if steps and not any(f"_{revision}_" in step.name for step in steps) else ""


def shrink_database(prefect_home: Path, tell: Callable[[str], None]) -> None:
    """Shrink the database file in a Prefect home (folder) if the file is large and mostly unused space.

    Does nothing if another process has the database open, or if the user's settings name another database.

    Args:
        prefect_home: Folder with the database.
        tell: Called with a message before the database is rewritten.
    """
    path = get_database_path(prefect_home)
    if any(os.environ.get(name) for name in USER_DATABASE_SETTINGS) or not path.exists():
        return
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path, 1.0, isolation_level=None)) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")  # first, so it is refused if another has it open
        names = ("freelist_count", "page_count", "page_size")
        free, pages, size = (int(database.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
        if free * size >= SHRINK_BYTES and 2 * free > pages:
            tell(f"Shrinking the orchestrator's database by {free * size / 1e6:,.0f} MB.")
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


DAY = 86_400
EVENT_DAYS = 2.0  # events are most of the history's bytes, and nobody looks at old ones


def keep_history(days: float) -> None:
    """Set the number of days for which servers that this process starts later keep the history of runs.

    Changes the environment variables of this process, except those that are already set. Does nothing if the user's
    settings name another database.
    """
    if any(os.environ.get(name) for name in USER_DATABASE_SETTINGS):
        return
    settings = {
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(round(days * DAY)),
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ORPHAN_CLEANUP_LOOP_SECONDS": "3600",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": f"PT{round(min(days, EVENT_DAYS) * DAY)}S",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)


if __name__ == "__main__":
    run_server(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
