"""Hosts: HTTP as a polite client speaks it, with one pause for each host, whoever asks.

Promises: a reply that is handed out is one that answers the request, in the file's own bytes (no content encoding).
Redirects are followed. A 429 or 503 holds back every request to that host, for as long as it says, up to five minutes.
What another attempt may fix is a `TransientFault`; what the user must fix is an InputError.
Costs: one connection for each download that is under way; up to 20 stay open for the next one.
"""

import functools
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlsplit

import httpx

from corpora.acquire.fetch_table import AcquireSettings
from corpora.errors import InputError

BUSY = (429, 503)
TRANSIENT = (408, 425, *BUSY)
REFUSALS = {
    401: "it asks for a password: name an address that is open to all, or download the file by hand",
    403: "it does not let this client in: set fetch.user_agent to a name with an address to write to, lower "
    "fetch.connections_per_host, or use another mirror",
    404: "there is no such file: fix the address, the date or the mirror",
    410: "the file is gone for good: choose a newer one",
}

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The timeouts and retries of the client, in seconds.

    first_seconds:  wait before the second attempt, doubled before each further one
    max_seconds:    maximum wait, even if a server asks for a longer one
    silent_seconds: an attempt fails if no byte arrives for this time
    attempts:       number of consecutive failures, without receiving a megabyte, after which a file is given up
    """

    first_seconds: float = 1.0
    max_seconds: float = 300.0
    silent_seconds: float = 60.0
    attempts: int = 8

    def compute_wait(self, failures: int) -> float:
        """Return the seconds to wait after the given number of consecutive failures (1 or more).

        >>> [Patience().compute_wait(failures) for failures in (1, 2, 3, 99)]
        [1.0, 2.0, 4.0, 300.0]
        """
        return min(self.max_seconds, self.first_seconds * 2.0 ** min(failures - 1, 60))

    def parse_retry_after(self, header: str) -> float:
        """Parse a `Retry-After` header (RFC 9110, section 10.2.3) to seconds from now, at most `max_seconds`.

        Return 0 if it is invalid or a time in the past.

        >>> Patience().parse_retry_after("120"), Patience().parse_retry_after("Thu, 01 Jan 1970 00:00:07 GMT")
        (120.0, 0.0)
        """
        try:
            date = None if header.strip().isdecimal() else parsedate_to_datetime(header).timestamp()
            seconds = float(header) if date is None else date - time.time()
        except (ValueError, OverflowError):
            return 0.0
        return min(max(seconds, 0.0), self.max_seconds)


class Stopped(Exception):
    """Raised after a call of `Hosts.stop`. Bytes received so far stay on the disk."""


class Absent(InputError):
    """Raised if the server denies access to a file (status 401 or 403) or does not have it (404 or 410)."""


class TransientFault(Exception):
    """Raised if a request failed but may be repeated.

    Attributes:
        host: The host to which no requests should be sent for some time; "" if there is no need to wait.
        seconds: How long to wait before the next request, as requested by the server.
    """

    def __init__(self, message: str, host: str = "", seconds: float = 0.0) -> None:
        super().__init__(message)
        self.host, self.seconds = host, seconds


class Hosts:
    """A thread-safe HTTP client for all hosts that a source's files are downloaded from. Call `close` when done."""

    def __init__(self, settings: AcquireSettings, patience: Patience | None = None) -> None:
        self.settings = settings
        self.patience = patience or Patience()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._resume_at: dict[str, float] = {}
        self._client = httpx.Client(
            headers={"User-Agent": settings.user_agent, "Accept-Encoding": "identity", "Accept": "*/*"},
            verify=_read_certificates(),
            timeout=self.patience.silent_seconds,
            follow_redirects=True,
        )

    def close(self) -> None:
        """Close all connections to the hosts."""
        self._client.close()

    def stop(self) -> None:
        """Stop all work. Other threads that are waiting or reading raise `Stopped` as soon as possible."""
        self._stopped.set()

    def check_stopped(self) -> None:
        """Raise Stopped if `stop` was called; otherwise return at once."""
        self.wait(0.0)

    def wait(self, seconds: float) -> None:
        """Wait for a number of seconds.

        Raises:
            Stopped: As soon as `stop` is called, or if it was called before.
        """
        if self._stopped.wait(seconds):
            raise Stopped

    def hold_back(self, host: str, seconds: float) -> None:
        """Make all threads wait the given number of seconds before the next request to a host."""
        with self._lock:
            self._resume_at[host] = max(self._resume_at.get(host, 0.0), time.monotonic() + seconds)

    @contextmanager
    def ask(self, url: str, headers: Mapping[str, str] | None = None) -> Iterator[httpx.Response]:
        """Send a GET request and yield the response with its body unread (a context manager).

        Waits first if requests to this host are being throttled. The response's status is 200, or possibly 206 or 416
        if `headers` asks for a range.

        Args:
            url: The URL.
            headers: Request headers in addition to the client's own.

        Raises:
            TransientFault: If the request failed but can be repeated. It may also be raised while the caller reads the
                body.
            InputError: If the URL, the mirror or a certificate has to be corrected. This is Absent if the server
                refuses the file or does not have it.
            Stopped: If `stop` was called.
        """
        while (wait := self._resume_at.get(find_host(url), 0.0) - time.monotonic()) > 0:
            self.wait(wait)
        self.check_stopped()
        with _translate_errors(url), self._client.stream("GET", url, headers=headers) as reply:
            self._check(url, reply)
            yield reply

    def fetch_document(self, url: str) -> bytes:
        """Download a small file into memory and return its bytes, with retries.

        Raises:
            InputError: If it cannot be downloaded. This is Absent if the server refuses the file or does not have it.
            Stopped: If `stop` was called.
        """

        def read() -> bytes:
            with self.ask(url) as reply:
                return reply.read()

        return Attempts(self, url).run(read)

    def _check(self, url: str, reply: httpx.Response) -> None:
        """Check that the caller can use a response's status, and that its body is not compressed.

        Raises:
            TransientFault: If the server is busy or has an internal error (408, 425, 429 or 500 and above).
            Absent: If the server refuses the file or does not have it.
            InputError: For any other unusable status or encoding.
        """
        status = reply.status_code
        if status in TRANSIENT or status >= 500:
            seconds = self.patience.parse_retry_after(reply.headers.get("retry-after", "0"))
            host = find_host(url) if status in BUSY else ""
            raise TransientFault(f"the server answers {status} {reply.reason_phrase}".rstrip(), host, seconds)
        if status in REFUSALS:
            raise Absent(f"{url}: the server answers {status}: {REFUSALS[status]}.")
        if status not in ((200, 206, 416) if "Range" in reply.request.headers else (200,)):
            raise InputError(f"{url}: the server answers {status}, which is not a file. Fix the address or the mirror.")
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity" and status != 416:
            raise InputError(
                f"{url}: the server sends the file in another form (Content-Encoding: {encoding}) although it was "
                "asked for its own bytes, so that it cannot be verified or resumed. Use another mirror."
            )


class Attempts:
    """A retry loop for one URL. It counts consecutive failures and waits after each."""

    def __init__(self, hosts: Hosts, url: str) -> None:
        self._hosts, self._url = hosts, url
        self._failures = 0

    def run(self, attempt: Callable[[], Outcome]) -> Outcome:
        """Call `attempt` until it does not raise TransientFault, and return its result. Waits after each failure.

        Raises:
            InputError: After the allowed number of consecutive failures (`Patience.attempts`).
            Stopped: If `Hosts.stop` was called.
        """
        while True:
            try:
                return attempt()
            except TransientFault as fault:
                self._wait(fault)

    def reset(self) -> None:
        """Set the number of consecutive failures to 0. Call this when enough bytes were received."""
        self._failures = 0

    def _wait(self, fault: TransientFault) -> None:
        """Count a failure, and wait before the next attempt.

        Raises:
            InputError: If no attempt is left.
            Stopped: If `Hosts.stop` was called.
        """
        self._failures += 1
        seconds = max(self._hosts.patience.compute_wait(self._failures), fault.seconds)
        if fault.host:
            self._hosts.hold_back(fault.host, seconds)
        if self._failures >= self._hosts.patience.attempts:
            raise InputError(
                f"{self._url}: given up after {self._failures} failed attempts, the last one because {fault}. What "
                "was received is kept: try again later, or use another mirror."
            ) from fault
        if not fault.host:
            self._hosts.wait(seconds)


@functools.cache
def _read_certificates() -> ssl.SSLContext:
    """Return a TLS context with the trusted certificates. It is cached, because loading takes 0.2 s."""
    return httpx.create_ssl_context()


def find_host(url: str) -> str:
    """Return the host of a URL, with its port if it states one, in lower case: "example.org:8080"."""
    return urlsplit(url).netloc.lower()


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Convert errors of the HTTP library in this block to our own errors, which name `url` (a context manager).

    Raises:
        TransientFault: For a failed connection or a timeout.
        InputError: For an invalid URL or certificate, or endless redirects.
    """
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, UnicodeError) as error:
        raise InputError(f"{url!r} cannot be asked for: {error}. Fix the address.") from error
    except httpx.TooManyRedirects as error:
        raise InputError(
            f"{url}: the server sends this request round in circles. Fix the address or the mirror."
        ) from error
    except httpx.TimeoutException as error:
        raise TransientFault("no bytes came for too long") from error
    except httpx.TransportError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise InputError(
                f"{url}: the server's certificate is not valid here ({error}). Fix this machine's clock or "
                "certificates (SSL_CERT_FILE), or use another mirror."
            ) from error
        raise TransientFault(f"the connection failed ({error or type(error).__name__})") from error
