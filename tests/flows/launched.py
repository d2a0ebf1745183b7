"""The command as a user runs it: a process of its own in a session of its own, and what is left of it in /proc.

home = new_home(tmp_path, database)          caches and the orchestrator's database; kernels shared with the tests
done = cloze(home, "run", str(recipe))       waits for its end
process = start(home, "run", str(recipe))    does not
left(process.pid)                            its processes that still live after a while

Whatever is waited for comes within seconds on an idle machine; `PATIENCE` and `LONG` are for one that is busy.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from forking import Forked, can_fork

from corpora.kernels.compiling import make_kernel_folder
from corpora.store.worker_pool import WORKER_NAME
from flows.orchestration.embedded_server import PASSWORD, EmbeddedServer, build_client_environment
from flows.orchestration.server_guard import format_basic_auth

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0  # seconds: for what takes one or two
LONG = 900.0  # for a whole run, with kernels to be compiled
# What holds instruction sets down, of torch, numba, OpenBLAS, numpy and the C library: runs hold them as the tests do.
PROCESSOR = ("ATEN_CPU_", "NUMBA_CPU_", "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_", "GLIBC_TUNABLES")


def new_home(folder: Path, database: Path | None = None) -> Path:
    """A folder for CLOZE_HOME. `database`: a Prefect home with a database in it, which this one begins with."""
    home = folder / "home"
    (home / "prefect").mkdir(parents=True)
    if database is not None:
        shutil.copytree(database, home / "prefect", dirs_exist_ok=True)
    (home / "kernels").symlink_to(make_kernel_folder().parent)
    return home


def environment(home: Path, api: str | None = None) -> dict[str, str]:
    """The environment of a run: this home, and the Prefect API of a user's profile where one is given."""
    plain = {
        "OMP_NUM_THREADS": "1",
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CLOZE_HOME": str(home),
        "PYTHONPATH": f"{ROOT / 'tests' / 'started'}{os.pathsep}{ROOT}",
        **{name: value for name, value in os.environ.items() if name.startswith(PROCESSOR)},
    }
    return {**plain, **build_client_environment(api)} if api else plain


def shared_temporary(folder: Path) -> Path:
    """A folder for TMPDIR in which, as for the second user of a machine, nothing can be put into `runner_storage`."""
    temporary = folder / "shared temporary"
    temporary.mkdir(exist_ok=True)
    (temporary / "runner_storage").touch()
    return temporary


class Site(NamedTuple):
    """A place for runs: a home, and the address of the server that records them."""

    home: Path
    api: str


def with_watch(arguments: tuple[str, ...], api: str | None) -> tuple[str, ...]:
    """Have a run wait for an API that is given: a busy server may take longer to answer than a run asks by itself."""
    is_run = api is not None and arguments[:1] == ("run",) and not {"--watch", "--no-watch"} & {*arguments}
    return (*arguments, "--watch") if is_run else arguments


def start(
    home: Path, *arguments: str, api: str | None = None, more: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    """Start the command in a session of its own; both its streams go to one pipe. `more`: of the environment.

    Where it can be, it is forked by a parent that has imported what it needs: this saves two seconds of a core.
    """
    arguments = with_watch(arguments, api)
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    own = {**environment(home, api), **(more or {})}
    if can_fork(more or {}):
        return Forked(arguments, cwd=home, env=own, **streams)
    command = [sys.executable, "-m", "flows.main", *arguments]
    return subprocess.Popen(command, cwd=home, env=own, start_new_session=True, **streams)


def cloze(
    home: Path, *arguments: str, api: str | None = None, more: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end."""
    process = start(home, *arguments, api=api, more=more)
    said, _ = process.communicate(timeout=LONG)
    return subprocess.CompletedProcess(process.args, process.returncode, said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A living process."""

    pid: int
    parent: int
    name: str
    command: str


def session_processes(session: int) -> list[Running]:
    """The living processes of a session (its leader's children and theirs, while they start none of their own)."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            name, _, facts = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            state, parent, _, its_session = facts.split()[:4]
            if int(its_session) != session or state == "Z":
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while the list was read
        found.append(Running(pid=int(folder.name), parent=int(parent), name=name, command=command))
    return found


def workers(session: int) -> list[Running]:
    """The pool's worker processes."""
    return [process for process in session_processes(session) if process.name == WORKER_NAME]


def left(session: int, seconds: float = PATIENCE) -> list[Running]:
    """The processes of a session that still live after so many seconds; returns as soon as there is none."""
    wait_until(lambda: not session_processes(session), seconds)
    return session_processes(session)


def wait_until(true: Callable[[], bool], seconds: float = PATIENCE, pause: float = 0.05) -> bool:
    """Tell whether something becomes true within so many seconds, with a pause between two looks."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


@contextmanager
def server(home: Path) -> Iterator[str]:
    """A Prefect server of this home, as a user may have one running; gives the address of its API.

    This process knows its password, so that `environment` and `request` have it.
    """
    own = {"PREFECT_HOME": str(home / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    with EmbeddedServer(str(home / "own-server.log"), environment=environment(home) | own) as started:
        yield started.wait(LONG)


def answers(address: str) -> bool:
    """Tell whether a server is up: its API says so."""
    try:
        return httpx.get(f"{address}/health", timeout=2, trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def ask(address: str, what: str, **question: Any) -> list[dict[str, Any]]:
    """All answers of a filter route of the API, page by page: `ask(api, "task_runs", flow_runs={...})`."""
    found: list[dict[str, Any]] = []
    while True:
        page = request(f"{address}/{what}/filter", {**question, "limit": 200, "offset": len(found)}).json()
        found += page
        if len(page) < 200:
            return found


def get(address: str, path: str) -> Any:
    """One answer of the API."""
    return request(f"{address}/{path}", method="GET").json()


def post(address: str, **body: Any) -> Any:
    """The API's answer to what it is given."""
    return request(address, body).json()


def request(address: str, value: Any = None, method: str = "POST") -> httpx.Response:
    """What the API answers, asked again while its database is busy."""
    found: list[httpx.Response] = []
    password = build_client_environment(address).get(PASSWORD)
    headers = {"Authorization": format_basic_auth(password)} if password else {}

    def answered() -> bool:
        found[:] = [httpx.request(method, address, json=value, headers=headers, timeout=PATIENCE, trust_env=False)]
        return found[0].status_code != httpx.codes.SERVICE_UNAVAILABLE

    wait_until(answered)
    return found[0].raise_for_status()
