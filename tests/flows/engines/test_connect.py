"""The wait for a scheduler has a bound, whatever listens at its address."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from corpora.errors import InputError
from flows.engines import connect as connecting

pytestmark = pytest.mark.server

HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
LISTENERS = {
    "nothing, ever": (b"", False),
    "closes at once": (b"", True),
    "a web server": (HTTP, True),
    "a web server that stays": (HTTP, False),
    "a shell's server": (b"SSH-2.0-OpenSSH_9.6\r\n", False),
    "zeros": (bytes(1 << 12), False),
    "the beginning of a greeting": (b"\x01\0\0\0\0\0\0\0\xff\0\0\0\0\0\0\0abc", False),
}


@contextmanager
def listening(says: bytes, closes: bool) -> Iterator[str]:
    """Yield the address of what says something to everybody, and then is silent, or closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def serve() -> None:
            with suppress(OSError):  # the test has ended
                while True:
                    kept.append(server.accept()[0])
                    kept[-1].sendall(says)
                    if closes:
                        kept[-1].close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for each in kept:
            each.close()


@pytest.mark.parametrize("listener", LISTENERS)
def test_what_is_no_scheduler_is_told_and_not_waited_for(listener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails (by never ending, or with an error of the library) where an address of something else is given."""
    monkeypatch.setattr(connecting, "CONNECT_SECONDS", 0.2)
    with listening(*LISTENERS[listener]) as address, pytest.raises(InputError, match=f"No Dask scheduler .*{address}"):
        connecting.connect_at_start(address)
