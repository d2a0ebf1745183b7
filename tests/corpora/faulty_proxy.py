"""A proxy in front of an object store that is slow, refuses, answers 503, says nothing or hangs up in the middle."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

BLOCK = 4_096
REASON = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"
BUSY = b"HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(REASON), REASON)


@dataclass(kw_only=True)
class FaultyProxy:
    """A proxy that disturbs connections, one after another; without a fault they are passed on.

    faults: for the next connections: "busy" (a 503), "reset", "cut" (the answer ends after `cut_after` bytes), "silent"
    always: the fault of every connection after those
    pause:  seconds before each block of an answer
    """

    target: tuple[str, int]
    faults: list[str] = field(default_factory=list)
    always: str = ""
    cut_after: int = 600
    pause: float = 0.0
    num_connections: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Take connections until `close`."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self.over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def drop(self, always: str = "reset") -> None:
        """End all connections that are open, and treat new ones so."""
        with self._lock:
            self.always = always
            for client in self._open:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def _next_fault(self) -> str:
        with self._lock:
            self.num_connections += 1
            return self.faults.pop(0) if self.faults else self.always

    def _answer(self, client: socket.socket) -> None:
        with self._lock:
            self._open.append(client)
        fault = self._next_fault()
        with client, suppress(OSError):
            if fault == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif fault == "silent":
                self.over.wait()
            elif fault == "busy":
                client.recv(65_536)
                client.sendall(BUSY)
            else:
                self._pass_on(client, self.cut_after if fault == "cut" else None)

    def _pass_on(self, client: socket.socket, most: int | None) -> None:
        with socket.create_connection(self.target) as server:
            back = threading.Thread(target=self._carry, args=(server, client, most, self.pause), daemon=True)
            back.start()
            self._carry(client, server, None, 0.0)
            back.join()

    def _carry(self, source: socket.socket, sink: socket.socket, most: int | None, pause: float) -> None:
        num_sent = 0
        with suppress(OSError):
            while (block := source.recv(BLOCK)) and (most is None or num_sent < most):
                time.sleep(pause)
                piece = block if most is None else block[: most - num_sent]
                sink.sendall(piece)
                num_sent += len(piece)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def faulty_proxy(endpoint: str) -> Iterator[FaultyProxy]:
    """A running proxy in front of `host:port`, gone at the end."""
    host, _, port = endpoint.partition(":")
    proxy = FaultyProxy(target=(host, int(port)))
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
