"""Hosts: HTTP as a polite client speaks it, with one pause for each host, whoever asks.

Promises: a reply that is handed out is one that answers the request, in the file's own bytes (no content encoding).
Redirects are followed. A 429 or 503 holds back every request to that host, for as long as it says, up to the bound of
`waiting.py` (five minutes). What another attempt may fix is a `Later`; what the user must fix is an InputError.
Costs: one connection for each download that is under way; up to 32 stay open for the next one.
"""

import functools
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from urllib.parse import urlsplit

import httpx

from corpora.acquire.waiting import Patience
from corpora.acquire.wanted import AcquireSettings
from corpora.errors import InputError

REDIRECTS = 10
KEPT = 32  # connections that wait for another request
DOCUMENT_BYTES = 64 << 20
BUSY = (429, 503)
PASSING = (408, 425, *BUSY)
REFUSALS = {
    401: "it asks for a password: name an address that is open to all, or download the file by hand",
    403: "it does not let this client in: set fetch.user_agent to a name with an address to write to, lower "
    "fetch.connections_per_host, or use another mirror",
    404: "there is no such file: fix the address, the date or the mirror",
    410: "the file is gone for good: choose a newer one",
}


class Stopped(Exception):
    """The work was called off; what was received stays on the disk."""


class Absent(InputError):
    """The server refuses this file (401, 403) or does not have it (404, 410)."""


class Later(Exception):
    """An attempt failed and another one may do. `host`: the one to leave alone meanwhile, for `seconds`."""

    def __init__(self, message: str, host: str = "", seconds: float | None = None) -> None:
        super().__init__(message)
        self.host, self.seconds = host, seconds


class Hosts:
    """A client for all hosts that a source is fetched from. Safe to use from many threads; close it at the end."""

    def __init__(self, settings: AcquireSettings, patience: Patience | None = None) -> None:
        self.settings = settings
        self.patience = patience or Patience()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._resume_at: dict[str, float] = {}
        self._client = httpx.Client(
            headers={"User-Agent": settings.user_agent, "Accept-Encoding": "identity", "Accept": "*/*"},
            verify=_certificates(),
            timeout=httpx.Timeout(settings.timeout_seconds, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=KEPT),
            follow_redirects=True,
            max_redirects=REDIRECTS,
        )

    def __enter__(self) -> "Hosts":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def stop(self) -> None:
        """Call the work off: what waits or reads on other threads ends with `Stopped`, as soon as it can."""
        self._stopped.set()

    def check_stopped(self) -> None:
        """Raise Stopped where the work was called off."""
        if self._stopped.is_set():
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Wait. Raises Stopped as soon as the work is called off."""
        if self._stopped.wait(seconds):
            raise Stopped

    def hold_back(self, host: str, seconds: float) -> None:
        """Ask nothing of a host for so long."""
        with self._lock:
            self._resume_at[host] = max(self._resume_at.get(host, 0.0), time.monotonic() + seconds)

    @contextmanager
    def ask(self, url: str, headers: Mapping[str, str] | None = None) -> Iterator[httpx.Response]:
        """The reply to a GET, its body unread: 200, 206 or 416. Raises Later, InputError, Stopped.

        A fault of the line while the caller reads the body is a Later as well.
        """
        self._await_turn(host_of(url))
        with _translated(url), self._client.stream("GET", url, headers=headers) as reply:
            self._check(url, reply)
            yield reply

    def document(self, url: str) -> bytes:
        """A catalogue's file, in memory, by as many attempts as are allowed. Raises InputError, Absent, Stopped."""
        tries = Tries(self, url)
        while True:
            try:
                return self._read(url)
            except Later as fault:
                tries.failed(fault)

    def _read(self, url: str) -> bytes:
        with self.ask(url) as reply:
            if reply.status_code != 200:
                raise Later(f"a status of {reply.status_code} to a request for the whole")
            body = bytearray()
            for chunk in reply.iter_raw():
                self.check_stopped()
                body += chunk
                if len(body) > DOCUMENT_BYTES:
                    raise InputError(
                        f"{url} is longer than {DOCUMENT_BYTES} bytes, so it is not a catalogue. Fix the mirror."
                    )
        return bytes(body)

    def _await_turn(self, host: str) -> None:
        """Wait until a host may be asked again. Raises Stopped."""
        while (wait := self._resume_at.get(host, 0.0) - time.monotonic()) > 0:
            self.sleep(wait)
        self.check_stopped()

    def _check(self, url: str, reply: httpx.Response) -> None:
        """Raise Later or InputError unless a reply is one to read."""
        status = reply.status_code
        if status in PASSING or status >= 500:
            seconds = self.patience.asked_for(reply.headers.get("retry-after"))
            host = host_of(url) if status in BUSY else ""
            raise Later(f"the server answers {status} {reply.reason_phrase}".rstrip(), host, seconds)
        if status in REFUSALS:
            raise Absent(f"{url}: the server answers {status}: {REFUSALS[status]}.")
        if status not in (200, 206, 416):
            raise InputError(f"{url}: the server answers {status}, which is not a file. Fix the address or the mirror.")
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity") and status != 416:
            raise InputError(
                f"{url}: the server sends the file in another form (Content-Encoding: {encoding}) although it was "
                "asked for its own bytes, so that it cannot be verified or resumed. Use another mirror."
            )


class Tries:
    """The attempts at one address: failures in a row are counted, and each is followed by a wait."""

    def __init__(self, hosts: Hosts, url: str) -> None:
        self._hosts, self._url = hosts, url
        self._failures = 0

    def progressed(self) -> None:
        """Something was gained: the next failure is the first again."""
        self._failures = 0

    def failed(self, fault: Later) -> None:
        """Wait before the next attempt. Raises InputError where there have been enough, and Stopped."""
        self._failures += 1
        seconds = max(self._hosts.patience.step(self._failures), fault.seconds or 0.0)
        if fault.host:
            self._hosts.hold_back(fault.host, seconds)
        if self._failures >= self._hosts.settings.attempts:
            raise InputError(
                f"{self._url}: given up after {self._failures} failed attempts, the last one because {fault}. What "
                "was received is kept: try again later, use another mirror, or raise fetch.attempts or "
                "fetch.timeout_seconds."
            ) from fault
        if not fault.host:
            self._hosts.sleep(seconds)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates to trust: 0.1 s to read, once a process."""
    return httpx.create_ssl_context()


def host_of(url: str) -> str:
    """Return the host and port that are asked."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Raise faults of the line as Later, addresses and certificates that need fixing as InputError."""
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, UnicodeError) as error:
        raise InputError(f"{url!r} cannot be asked for: {error}. Fix the address.") from error
    except httpx.TooManyRedirects as error:
        raise InputError(
            f"{url}: the server sends this request round in circles. Fix the address or the mirror."
        ) from error
    except httpx.TimeoutException as error:
        raise Later("no bytes came for too long") from error
    except httpx.TransportError as error:
        causes = _causes(error)
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
            raise InputError(
                f"{url}: the server's certificate is not valid here ({error}). Fix this machine's clock or "
                "certificates (SSL_CERT_FILE), or use another mirror."
            ) from error
        unknown = any(isinstance(cause, socket.gaierror) for cause in causes)
        what = "the host's name is not known" if unknown else "the connection failed"
        raise Later(f"{what} ({error or type(error).__name__})") from error


def _causes(error: BaseException) -> list[BaseException]:
    """An exception and those that led to it."""
    causes: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in causes:
        causes.append(following)
        following = following.__cause__ or following.__context__
    return causes
