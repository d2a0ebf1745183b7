"""A real HTTP server on the loopback that answers each request for a path by the next line of a script."""

import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from corpora.acquire.download import download
from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.http_client import Hosts
from corpora.sources.contract import RawFile

BLOCK = 16_384
PATIENCE = 60.0  # seconds that an event is waited for which comes at once
NewHosts = Callable[..., Hosts]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How one request is answered. Without more: the body, whole or by its range, as a good server does.

    cut:           so many bytes of the body are sent, then the connection ends (`reset`: by force), or is held for
                   `stall` seconds
    length:        what Content-Length says instead of the truth
    content_range: what Content-Range says instead of the truth
    ranges:        whether Range is honoured; conditions: whether If-Range is
    framed:        whether the body's end is announced at all
    pause:         seconds between two blocks
    until:         what must have happened before the last block goes
    """

    body: bytes = b""
    status: int = 200
    etag: str | None = None
    modified: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    reset: bool = False
    stall: float = 0.0
    length: int | None = None
    content_range: str | None = None
    ranges: bool = True
    chunked: bool = False
    framed: bool = True
    conditions: bool = True
    pause: float = 0.0
    until: threading.Event | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    seconds: float

    @property
    def range(self) -> str | None:
        """Return the range that was asked for."""
        return self.headers.get("range")


class ScriptedServer(ThreadingHTTPServer):
    """`script[path]` is a list of answers; the last one is given for ever. An unknown path is a 404."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: dict[str, list[Answer]] = {}
        self.asked: list[Asked] = []
        self.num_sent = 0
        self.num_now = self.most_at_once = 0
        self.lock = threading.Lock()
        self.over = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no fault; anything else is one of the script."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def base(self) -> str:
        """The address of its root."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def serve(self, path: str, *answers: Answer) -> str:
        """Answer a path so; its address."""
        self.script[path] = list(answers)
        return self.base + path

    def next_answer(self, path: str) -> Answer:
        with self.lock:
            answers = self.script.get(path, [Answer(status=404, body=b"no such file")])
            return answers.pop(0) if len(answers) > 1 else answers[0]

    def ranges(self, path: str) -> list[str | None]:
        """The ranges that were asked of a path, in order."""
        return [asked.range for asked in self.asked if asked.path == path]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        headers = {key.lower(): value for key, value in self.headers.items()}
        with self.server.lock:
            self.server.asked.append(Asked(path=self.path, headers=headers, seconds=time.monotonic()))
            self.server.num_now += 1
            self.counted = True
            self.server.most_at_once = max(self.server.most_at_once, self.server.num_now)
        try:
            self.answer(self.server.next_answer(self.path), headers)
        except OSError:
            self.close_connection = True  # the client went away
        finally:
            self.leave()

    def leave(self) -> None:
        """Count this request no more: before its last bytes go, for the client may ask for more at once then."""
        with self.server.lock:
            self.server.num_now -= self.counted
            self.counted = False

    def answer(self, answer: Answer, headers: dict[str, str]) -> None:
        status, start = self.place(answer, headers)
        self.send_response(status)
        for key, value in {"ETag": answer.etag, "Last-Modified": answer.modified, **answer.headers}.items():
            if value is not None:
                self.send_header(key, value)
        body = answer.body[start:] if status != 416 else b""
        if status in (206, 416):
            span = f"{start}-{len(answer.body) - 1}" if status == 206 else "*"
            self.send_header("Content-Range", answer.content_range or f"bytes {span}/{len(answer.body)}")
        if answer.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif answer.framed:
            self.send_header("Content-Length", str(len(body) if answer.length is None else answer.length))
        if not body:
            self.leave()
        self.end_headers()
        self.send_body(answer, body)

    def place(self, answer: Answer, headers: dict[str, str]) -> tuple[int, int]:
        """Status, and the first byte to send."""
        condition = headers.get("if-range")
        same = condition is None or not answer.conditions or condition in (answer.etag, answer.modified)
        if answer.status != 200 or "range" not in headers or not answer.ranges or not same:
            return answer.status, 0
        start = int(headers["range"].removeprefix("bytes=").rstrip("-"))
        return (206, start) if start < len(answer.body) else (416, 0)

    def send_body(self, answer: Answer, body: bytes) -> None:
        for start in range(0, len(body[: answer.cut]), BLOCK):
            block = body[: answer.cut][start : start + BLOCK]
            if answer.until and start + BLOCK >= len(body[: answer.cut]):
                answer.until.wait(PATIENCE)
            if start + BLOCK >= len(body):
                self.leave()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if answer.chunked else block)
            with self.server.lock:
                self.server.num_sent += len(block)
            if answer.pause:
                time.sleep(answer.pause)
        if answer.cut is None and answer.chunked:
            self.wfile.write(b"0\r\n\r\n")
        if answer.stall:
            self.server.over.wait(answer.stall)
        if answer.cut is not None or not answer.framed or answer.length is not None:
            self.close_connection = True
        if answer.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


class Site(ScriptedServer):
    """A server with what its tests need besides: makers of clients, and an empty folder for what they download."""

    new_hosts: NewHosts
    folder: Path

    def get(self, url: str, **known: Any) -> RawFile:
        """Download a file called a.bin of which this is known, by a new client."""
        return download(RemoteFile(url=url, name="a.bin", **known), self.folder, self.new_hosts())


@contextmanager
def scripted_server() -> Iterator[Site]:
    """A running server, gone at the end."""
    server = Site()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
