"""The embedded orchestrator: Prefect's server in a process of its own, for one machine and one run.

It listens on a free port of the loopback, keeps its database in the project's own Prefect home (so `cloze ui`
shows the same runs later), and ends itself when the process that started it is gone, however it went: it
watches a pipe that the system closes. The first start makes the database, which takes some 20 seconds.
"""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from corpora.errors import InputError
from flows.policies import SERVER_START_SECONDS, SERVER_STOP_SECONDS


class ServerFailed(Exception):
    """The embedded server did not come up."""


class EmbeddedServer:
    """A server that is starting or running."""

    def __init__(self, log_path: str) -> None:
        self._log_path = log_path
        with open(log_path, "ab") as log:  # noqa: PTH123  a plain handle for the child
            self._process = subprocess.Popen(
                [sys.executable, "-m", "flows.orchestrator"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"},
            )

    def wait(self) -> str:
        """The address of its API, once it answers. Raises ServerFailed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        deadline = time.monotonic() + SERVER_START_SECONDS
        while line and time.monotonic() < deadline and self._process.poll() is None:
            address = f"http://127.0.0.1:{int(line)}/api"
            if answers(address):
                return address
            time.sleep(0.1)
        raise ServerFailed(f"The embedded Prefect server did not start; its log is {self._log_path}.")

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
def embedded_server(log_path: str) -> Iterator[str]:
    """A server for the time of the block; gives the address of its API. Raises ServerFailed."""
    server = EmbeddedServer(log_path)
    try:
        yield server.wait()
    finally:
        server.stop()


def answers(address: str) -> bool:
    """Whether a Prefect API at this address says that it is healthy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{address}/health", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def serve_ui(port: int, tell: Callable[[str], None]) -> int:
    """Prefect's full server with its UI on the recorded runs, in the foreground. Raises InputError for a used port."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise InputError(
            f"Port {port} is in use ({error.strerror}): stop what listens there, or take another with --port."
        ) from error
    environment = {**os.environ, "PREFECT_SERVER_API_PORT": str(port), "PREFECT_SERVER_API_HOST": "127.0.0.1"}
    tell(f"The UI: http://127.0.0.1:{port}  (Ctrl-C stops it)")
    command = [sys.executable, "-m", "prefect", "server", "start"]
    return subprocess.run(command, env=environment, check=False).returncode


def serve() -> None:
    """The child: print the port, serve, and end when the parent's end of stdin closes."""
    servers: list[Any] = []

    def watch() -> None:
        sys.stdin.buffer.read()
        if servers:
            servers[0].should_exit = True  # it may write what it holds
            time.sleep(SERVER_STOP_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    import uvicorn
    from prefect.server.api.server import create_app

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(ephemeral=True), log_level="warning", lifespan="on")
    servers.append(uvicorn.Server(config))
    print(listener.getsockname()[1], flush=True)
    servers[0].run(sockets=[listener])


if __name__ == "__main__":
    serve()
