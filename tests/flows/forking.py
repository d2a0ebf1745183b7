"""A parent that has imported what the command needs and forks for each one, so that the imports are paid for once.

Forked(["run", "small.toml"], cwd=home, env=environment(home), ...) is a Popen like that of a started command: a child
of this process, in a session of its own, with its own folder, environment and streams.

Prefect is not imported before the fork, for it reads its settings when it is. Nothing else that is imported here reads
what differs from one test to another. A command on a terminal, which a console looks for when it is imported, and one
with an environment that Python itself reads are started.
"""

import ctypes
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
LONGEST = 1 << 17  # bytes of a request: arguments and an environment
IMPORTED = (
    "flows.command.cli flows.command.inspect flows.command.trainer_process flows.command.preview "
    "flows.command.progress flows.command.run flows.command.trace "
    "flows.orchestration.run_recipe flows.run.faults.damage "
    # of what Prefect imports, the dear part (which depends on the Python)
    "fsspec griffe httpx jsonschema opentelemetry.trace pendulum prometheus_client pydantic pydantic_settings "
    "starlette websockets.client"
).split()


class Forked(subprocess.Popen[str]):
    """A command that the parent forks. `args`: its arguments alone"""

    def _execute_child(self, args: Sequence[str], *given: Any) -> None:
        """Have the parent fork, in place of an exec. What else Popen gives is said where it is called."""
        cwd, env = given[4:6]
        reading, writing, error = given[9], given[12], given[14]
        streams = [reading if reading >= 0 else _nothing(), writing, error]
        _, asked = parent()
        _adopt(True)  # so that the grandchild of the parent becomes a child of this process
        socket.send_fds(asked, [json.dumps([list(args), str(cwd), dict(env)]).encode()], streams)
        self.pid = int(asked.recv(LONGEST))
        assert asked.recv(LONGEST) == b"alone"
        _adopt(False)
        self._child_created = True
        self._close_pipe_fds(*given[9:15])  # type: ignore[attr-defined]


def can_fork(more: Mapping[str, str]) -> bool:
    """True if nothing that the parent has imported reads these additions to the environment."""
    return all(name.startswith(("PREFECT_", "AWS_")) for name in more)


@cache
def _nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _adopt(orphans: bool) -> None:
    """Set whether this process becomes the parent of descendants whose parent ends."""
    assert ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, int(orphans), 0, 0, 0) == 0


@cache
def parent() -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """Start the parent, which ends with this process; it, and where it is asked."""
    from launched import environment

    from corpora.kernels.compiling import make_kernel_folder

    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, __file__, str(there.fileno())],
        env=environment(make_kernel_folder().parents[1]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[there.fileno()],
    )
    there.close()
    return process, here


def attend(asked: socket.socket) -> None:
    """Fork for each request; a child returns from here when its command has ended."""
    for name in IMPORTED:
        if find_spec(name.partition(".")[0]):
            import_module(name)
    assert "prefect" not in sys.modules and threading.active_count() == 1
    gc.collect()
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(asked, LONGEST, 3)
        if not request:
            return  # the tests have ended
        between = os.fork()
        if between == 0:
            if (child := os.fork()) == 0:
                asked.close()
                return become(*json.loads(request), streams)
            asked.send(str(child).encode())
            os._exit(0)
        os.waitpid(between, 0)
        asked.send(b"alone")
        for stream in streams:
            os.close(stream)


def become(arguments: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> None:
    """Do as `python -m flows.main` does in this folder."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # as Python opens it
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = cwd
    sys.argv = ["cloze", *arguments]
    gc.unfreeze()
    runpy.run_module("flows.main", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    attend(socket.socket(fileno=int(sys.argv[1])))
