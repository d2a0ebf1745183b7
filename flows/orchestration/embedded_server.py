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
    basic,
    describe_ui,
    keep_password,
    new_password,
    password_in_use,
    prove,
    read_password,
)
from flows.process_exit import skip_garbage_collection
from flows.run.policies import SERVER_START_SECONDS, SERVER_STOP_SECONDS

LOOK_SECONDS = 0.1
ASK_SECONDS = 5.0  # for an answer
PORT_FILE = "server.port"  # in a Prefect home: of the full server that was started last
ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
EPHEMERAL = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
FULL = {"PREFECT_SERVER_API_HOST": "127.0.0.1"}  # the UI asks the API that the settings name
OPEN_PATHS = ("/api/health", PROOF_PATH, "/api/admin/version")  # answered without a password; the last, if all is
PASSWORD = "PREFECT_API_AUTH_STRING"  # of the API that Prefect's clients use
_passwords: dict[int, str] = {}  # by port: of servers that this process has started, or that have proved to be ours


class ServerFailed(InputError):
    """The embedded server did not come up, or not in time."""


class EmbeddedServer:
    """A server that runs during a `with` block, a full one with a port; it need not answer yet.

    It has the password that this process knows for its port, if any, so that one which goes away can be replaced.
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
            self._password = _passwords.setdefault(number, new_password())
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
        """Return its API's address, once it answers. Raises ServerFailed if it ends, and after some seconds."""
        deadline = time.monotonic() + seconds
        while not self.ended:
            if is_proved(self._port, self._password):
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


def begin_server(prefect_home: Path, tell: Callable[[str], None], port: int | None = None) -> EmbeddedServer:
    """Start a server of a home, which need not answer yet."""
    first = not database_of(prefect_home).exists()
    which = "embedded " if port is None else ""
    tell(f"Starting the {which}Prefect server{': the first time it makes its database, some 20 s' * first} ...")
    return EmbeddedServer(str(prefect_home / "server.log"), port)


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
    """Tell whether a Prefect server of this home answers on a port, whether `cloze ui` or a schedule started it.

    Its password is known from then on. One that this process has started counts.
    """
    for password in (read_password(home / "prefect", port), _passwords.get(port, "")):
        if password and is_proved(port, password):
            _passwords[port] = password
            return True
    return False


def is_proved(port: int, password: str) -> bool:
    """Tell whether what listens on a port of this machine shows that it knows a password. It is not told it."""
    challenge = secrets.token_hex(16)
    answer = _ask(f"http://127.0.0.1:{port}{PROOF_PATH}?challenge={challenge}")
    return secrets.compare_digest(answer or b"", prove(password, port, challenge).encode())


def own_password(url: str) -> str:
    """Return the password of a server if it proves to be of the home of this process; else ""."""
    parts, home = urlsplit(url), Path(os.environ.get("PREFECT_HOME", "")).parent
    port = parts.port or 80
    return _passwords[port] if parts.hostname == "127.0.0.1" and keeps_runs_of(home, port) else ""


def adopt_password(home: Path, port: int) -> None:
    """Have the next server of this process on a port go on with a password that runs of a schedule know."""
    if in_use := password_in_use(home / "prefect", port):
        _passwords[port] = in_use


def for_clients(address: str) -> dict[str, str]:
    """Return the environment by which Prefect's clients use an API: with the password, if its server is ours."""
    ours = own_password(address)
    return {"PREFECT_API_URL": address, **({PASSWORD: ours} if ours else {})}


def use_api(address: str) -> None:
    """Have the clients of this process use an API. What this process starts does not inherit the password of ours."""
    from prefect.context import refresh_global_settings_context

    own = for_clients(address)
    os.environ |= own
    refresh_global_settings_context()
    if PASSWORD in own:
        del os.environ[PASSWORD]


def server_of_home(home: Path) -> str:
    """Return the API of the full server of this home that was started last; "" if it does not answer."""
    try:
        port = int((home / "prefect" / PORT_FILE).read_text())
    except (OSError, ValueError):
        return ""
    return f"http://127.0.0.1:{port}/api" if keeps_runs_of(home, port) else ""


def _credentials(url: str) -> dict[str, str]:
    """Return the header for a request: what is for a server of ours, or for the user's API, is sent there only."""
    here = urlsplit(url).hostname in LOOPBACK
    if here and urlsplit(url).path in OPEN_PATHS:
        return {}
    if ours := own_password(url):
        return {"Authorization": basic(ours)}
    theirs = os.environ.get("PREFECT_API_URL") or os.environ.get("CLOZE_PREFECT_API", "")
    password, key = os.environ.get(PASSWORD), None if here else os.environ.get("PREFECT_API_KEY")  # of Prefect Cloud
    if not (theirs and url.startswith(f"{theirs.rstrip('/')}/") and (password or key)):
        return {}
    return {"Authorization": basic(password) if password else f"Bearer {key}"}


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

    One on another machine is asked as Prefect asks it: over the proxy and with the credentials of the environment.
    """
    here = urlsplit(url).hostname in LOOPBACK
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if here else []))
    headers = {"Content-Type": "application/json", **_credentials(url)}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with opener.open(request, timeout=seconds) as response:
            return bytes(response.read()) if response.status in (200, 201, 204) else None
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return None


def is_free(port: int) -> bool:
    """Return True if a server can listen on a port of this machine."""
    with suppress(OSError):
        socket.create_server(("127.0.0.1", port)).close()
        return True
    return False


def prepare_server(home: Path, port: int, days: float, tell: Callable[[str], None]) -> None:
    """Make ready for a full server of a home, which keeps its history for some days, unless one has the port already.

    Waits for one that starts. Raises InputError for a port that is used by something else, and for a bad database.
    """
    keep_history(days)
    with starting_turn(home / "prefect"):
        if keeps_runs_of(home, port):
            return
        check_port(port)
    check_database(home / "prefect")
    shrink_database(home / "prefect", tell)


def check_port(port: int) -> None:
    """Raise InputError for a port that is in use."""
    if is_free(port):
        return
    if ask(f"http://127.0.0.1:{port}/api/admin/version") is not None:  # to who has no password
        raise InputError(
            f"The Prefect server on port {port} has no password, as those of older versions of Cloze: stop the "
            "`cloze ui` or `cloze serve` that started it, and run this again, or take another port with --port."
        )
    raise InputError(f"Port {port} is in use: stop what listens there, or take another with --port.")


def start_server(home: Path, port: int, tell: Callable[[str], None]) -> EmbeddedServer | None:
    """Return a full server of a home, once it answers; None if one has the port already. Raises ServerFailed."""
    server = None
    if not keeps_runs_of(home, port):
        try:
            with ExitStack() as started:
                server = started.enter_context(begin_server(home / "prefect", tell, port))
                server.wait()
                started.pop_all()
        except ServerFailed:
            if not keeps_runs_of(home, port):  # else another process was faster
                raise
            server = None
    tell(describe_ui(port, _passwords[port]))
    return server


def serve_ui(port: int, tell: Callable[[str], None], once_up: Callable[[Path, str], object]) -> None:
    """Run a full server with its UI until the process is stopped; if one of this home runs, say how to open it.

    once_up: is called with the Prefect home and the address of the API when the server answers
    Raises InputError for a used port or bad database.
    """
    from flows.recipes.run_settings import RetentionSettings  # not above: the child has no use for it

    home = Path(os.environ["PREFECT_HOME"]).parent
    prepare_server(home, port, RetentionSettings().history_days, tell)
    adopt_password(home, port)
    server = start_server(home, port, tell)
    if server is None:
        return
    with server:
        tell("Ctrl-C stops it.")
        once_up(home / "prefect", server.address)
        while not server.ended:
            time.sleep(LOOK_SECONDS)
    raise ServerFailed(f"The Prefect server has ended; its log is {server.log_path}.")


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
    raise_gc_threshold()
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_HOME

    from flows.orchestration.server_guard import Guard

    home, password = PREFECT_HOME.value(), os.environ["PREFECT_SERVER_API_AUTH_STRING"]
    starting = ExitStack()
    starting.enter_context(starting_turn(home))
    app = create_app(ephemeral=not port)
    if port:
        from flows.orchestration.server_guard import add_reports

        add_reports(app, home)
        starting.callback((home / PORT_FILE).write_text, str(port))
        starting.callback(keep_password, home, port, password)
    origins = os.environ.get("PREFECT_SERVER_CORS_ALLOWED_ORIGINS", "")  # the user's, for a proxy
    config = uvicorn.Config(
        Guard(app, listener.getsockname()[1], password, origins),
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=SERVER_STOP_SECONDS // 2,  # an open page of the UI would hold it until the end
    )
    servers.append(uvicorn.Server(config))
    threading.Thread(target=_once_started, args=(servers[0], starting), daemon=True).start()
    servers[0].run(sockets=[listener])
    skip_garbage_collection()


def _once_started(server: Any, starting: ExitStack) -> None:
    """Tell the home of a server and let the next one start, once this one listens: of two on a port, one does not."""
    while not server.started:
        time.sleep(LOOK_SECONDS)
    starting.close()


LOCKED_SECONDS = 10.0  # a server writes for a moment at a time
OF_THE_USER = ("PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL")
SHRINK_BYTES = 32_000_000  # less free space than this stays in the file


def database_of(prefect_home: Path) -> Path:
    """Return the path of a Prefect home's database."""
    return prefect_home / "prefect.db"


def starting_turn(prefect_home: Path) -> AbstractContextManager[None]:
    """Wait for a server's turn to start: no other of its home starts meanwhile."""
    return hold_lock(prefect_home / "starting.lock")


def check_database(prefect_home: Path) -> None:
    """Raise InputError if a server could not work with the database of a home. Waits for one that starts there."""
    with starting_turn(prefect_home):
        fault = database_fault(prefect_home)
    if fault:
        raise InputError(" ".join(fault))


def database_fault(prefect_home: Path) -> tuple[str, str] | None:
    """Return why a server could not work with the database of a home, and what to do about it; None if it can.

    Nothing is checked if there is none yet, or the user's settings name a database of their own.
    """
    path = database_of(prefect_home)
    if any(os.environ.get(name) for name in OF_THE_USER) or not path.exists():
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
            unknown = unknown_revision(database) if fault == "ok" else ""
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


def unknown_revision(database: sqlite3.Connection) -> str:
    """Return the revision of a database's tables if the installed Prefect has no step that leads to it; else "".

    Prefect keeps the revision as Alembic does, and its steps are files that have it in their names.
    """
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
        return ""
    revision = "".join(database.execute("SELECT version_num FROM alembic_version").fetchone() or ())
    folder = "prefect/server/database/_migrations/versions/sqlite"
    steps = list(Path(str(distribution("prefect").locate_file(folder))).glob("*.py"))
    return revision if steps and not any(f"_{revision}_" in step.name for step in steps) else ""


def shrink_database(prefect_home: Path, tell: Callable[[str], None]) -> None:
    """Free the unused space of a home's database, if that is most of a large file and nobody has it open.

    Cost: the database is rewritten.
    """
    path = database_of(prefect_home)
    if any(os.environ.get(name) for name in OF_THE_USER) or not path.exists():
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
    """Make the servers that this process starts keep their history for some days; what the user has set stays."""
    if any(os.environ.get(name) for name in OF_THE_USER):
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
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
