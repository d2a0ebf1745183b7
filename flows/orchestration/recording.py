"""Records a run with the orchestrator, and continues without it if it does not answer.

    record_run(home, ...)    uses the API of the user's profile, or the embedded server
    send_to_api(call)        sends something for a page of the run; if the API stays away for some seconds, nothing

Promise: a server that dies, hangs, fails or never comes up costs a run some of its pages and no result. A run waits for
it for START_SECONDS before it begins, and once for ANSWER_SECONDS later; then it says in one line that it continues
without it. If the server answers again at the end of the run, its flow run gets its final state there; a run that began
without a server is sent there as one flow run.

Cost: a request to a server that hangs takes what PREFECT_API_REQUEST_TIMEOUT and PREFECT_CLIENT_MAX_RETRIES let it
(`flows.environment`).
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from corpora.generic_types import Result, Tell
from corpora.store.places.address import without_password
from flows.orchestration.embedded_server import (
    EmbeddedServer,
    ServerFailed,
    find_server_of_home,
    is_answering,
    launch_server,
    use_api,
)
from flows.process_exit import exit_without_waiting
from flows.signals import wait_if_stopping

RETRY_SECONDS = 1.0  # between two tries
START_SECONDS = 60.0  # for a server to answer before a run begins without one
ANSWER_SECONDS = 30.0  # for it to answer later
RETRY_SETTINGS = ("PREFECT_API_REQUEST_TIMEOUT", "PREFECT_CLIENT_MAX_RETRIES")
UNAUTHORIZED = 401  # by a server that was started again, with another password
WITHOUT_SERVER = "The run continues without it; the store lacks nothing."


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTask:
    """A task of a run that had no Prefect server, stored so that it can be reported to a server later.

    Attributes:
        name: The name of the task.
        began: When the task began, in ISO 8601 with the time zone.
        ended: When the task ended, in the same format.
        type: The type of its final state, such as "COMPLETED".
        state: The name of its final state.
        message: The message of its final state.
        attempts: The number of attempts.
        group: The group of the task's stage. It becomes the task's tag; "" for no tag.
    """

    name: str
    began: str
    ended: str
    type: str
    state: str
    message: str
    attempts: int = 1
    group: str = ""


@dataclass(kw_only=True)
class PageBuffer:
    """Collects what a run without a Prefect server would have shown in Prefect's UI.

    The module `late_runs.py` sends it to Prefect when an API answers.

    Attributes:
        artifacts: The Prefect artifacts (tables and Markdown), in the form that Prefect's API accepts, by key.
        lines: The log lines in the form that Prefect's API accepts.
        tasks: The tasks, in the order in which they ended.
    """

    artifacts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    lines: list[Mapping[str, Any]] = field(default_factory=list)
    tasks: list[LateTask] = field(default_factory=list)

    def add_line(self, line: str, level: str) -> None:
        """Add a log line with the current time.

        Args:
            line: The line.
            level: The log level in lower case, such as "info" or "warning".
        """
        number, now = logging.getLevelNamesMapping()[level.upper()], datetime.now(UTC).isoformat()
        self.lines.append({"name": "prefect.flow_runs", "level": number, "message": line, "timestamp": now})


@dataclass
class Recording:
    """The Prefect API that records a run, or a buffer that replaces it.

    Attributes:
        address: The URL of the API; "" if the run has none.
        tell: Called with a message if the run continues without the API.
        server: The embedded server that was started for this run, if any.
        is_lost: True if the run continues without the API, because it stopped answering or never answered.
        buffer: Collects what Prefect's UI would show, if the run started without an API; otherwise None.
        find_api: Function that returns the URL of an API that answers now, or "". None if only `address` can be used.
        lock: Held by the thread that gives up the API.
    """

    address: str
    tell: Tell
    server: EmbeddedServer | None = None
    is_lost: bool = False
    buffer: PageBuffer | None = None
    find_api: Callable[[], str] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_embedded(self) -> bool:
        """True if the server was started only for this run."""
        return self.server is not None

    def find_api_now(self) -> str:
        """Return the URL of a Prefect API to which this run can be reported, if one answers now; otherwise ""."""
        if self.find_api is not None:
            return self.find_api()
        return self.address if is_answering(self.address) else ""

    def send(self, call: Callable[[], Result]) -> Result | None:
        """Call a function that sends a request to the API, and return its result, or None if the API is lost.

        If the API does not answer, the function is called again for up to ANSWER_SECONDS. After that, the run continues
        without the API.

        Args:
            call: The function, without arguments.

        Raises:
            Exception: Any exception of `call`, unless it means that the API does not answer.
        """
        deadline = 0.0
        while not self.is_lost:
            try:
                return call()
            except list_api_errors() as error:
                if not (self.is_lost or is_unanswered(error)):
                    raise
                why = error
            deadline = deadline or time.monotonic() + ANSWER_SECONDS - compute_wait(why)
            self._wait(deadline, f"The Prefect API {without_password(self.address)} does not answer ({why}).")
        return None

    def _wait(self, deadline: float, reason: str) -> None:
        """Wait until the API answers. Gives up after the deadline, or when the server started for this run has ended.

        Args:
            deadline: A point in time as returned by `time.monotonic()`.
            reason: A sentence that tells the user that the API does not answer. It is printed after the deadline.
        """
        while not self.is_lost:
            wait_if_stopping()
            if self.server is not None and self.server.has_ended:
                self.give_up(f"The embedded Prefect server has ended; its log is {self.server.log_path}.")
            elif time.monotonic() >= deadline:
                self.give_up(reason)
            time.sleep(RETRY_SECONDS)
            if is_answering(self.address):
                return

    def send_last(self, call: Callable[[], object]) -> None:
        """Call a function that sends the run's last request to the API.

        If the run continued without the API, the request is sent only if the API answers again.

        Args:
            call: The function, without arguments.
        """
        if self.is_lost and self.find_api_now():
            use_api(self.address)
            self.is_lost = False
        self.send(call)

    def give_up(self, reason: str) -> None:
        """Continue the run without the API. Later requests are dropped, except for that of `send_last`.

        Args:
            reason: A sentence that tells the user the reason.
        """
        with self.lock:
            if self.is_lost:
                return
            self.is_lost = True
        self.tell(f"{reason} {WITHOUT_SERVER}")
        os.environ |= {"PREFECT_LOGGING_TO_API_ENABLED": "false", "PREFECT_CLIENT_MAX_RETRIES": "0"}
        use_api(self.address)


_current_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


def get_recording() -> Recording | None:
    """Return the recording of the current run, or None outside a run."""
    return _current_recording.get()


def send_to_api(call: Callable[[], Result]) -> Result | None:
    """Call a function that sends a request about the current run to Prefect's API, and return its result.

    If the run continues without the API, the result is None, and the function may not be called at all. Outside a run,
    the function is simply called.

    Args:
        call: The function, without arguments. Its exceptions are raised, unless they mean that the API does not answer.
    """
    recording = get_recording()
    return call() if recording is None else recording.send(call)


def list_api_errors() -> tuple[type[Exception], ...]:
    """Return the exception types that Prefect raises if its API fails or does not answer.

    Other errors can have these types as well. Use `is_unanswered` to distinguish them.
    """
    import httpx

    return (httpx.HTTPError, RuntimeError)


def is_unanswered(error: BaseException) -> bool:
    """Return True if an exception, or any of its causes, means that an API failed or did not answer."""
    import httpx

    return any(
        each.response.status_code in (UNAUTHORIZED, *range(500, 600))
        if isinstance(each, httpx.HTTPStatusError)
        else isinstance(each, httpx.TransportError)
        for each in iter_causes(error)
    )


def compute_wait(error: BaseException) -> float:
    """Estimate how many seconds a failed request waited for a response: 0 unless the request timed out."""
    import httpx

    if not any(isinstance(each, httpx.TimeoutException) for each in iter_causes(error)):
        return 0.0
    seconds, retries = (float(os.environ.get(name, 0)) for name in RETRY_SETTINGS)
    return seconds * (1 + retries) + RETRY_SECONDS * retries


def iter_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, its cause, the cause of its cause, and so on. Yields nothing for None."""
    while error is not None:
        yield error
        error = error.__cause__


def find_profile_api(own_server: bool) -> str | None:
    """Return the API URL in the user's Prefect profile, or None if it has none or `own_server` is True."""
    return None if own_server else os.environ.get("CLOZE_PREFECT_API")


def find_answering_api(home: Path, own_server: bool) -> str:
    """Find a Prefect API for a run that does not start a server.

    Args:
        home: CLOZE_HOME, the folder of this installation's caches and server.
        own_server: True to ignore the user's Prefect profile.

    Returns:
        The URL of the profile's API or, if there is none, of the server that `cloze ui` or `cloze serve` started; "" if
        that API does not answer.
    """
    profile = find_profile_api(own_server)
    if profile is None:
        return find_server_of_home(home)
    return profile if is_answering(profile) else ""


@contextmanager
def record_run(
    home: Path, own_server: bool, tell: Tell, buffer: PageBuffer, on_starting: Callable[[], object]
) -> Iterator[Recording]:
    """Record a run in Prefect during the block.

    Uses the API in the user's Prefect profile, or else that of a running UI server that Cloze started, or else starts a
    server, which is stopped when the block ends. If the API does not answer in time, the run is recorded in `buffer`
    instead.

    Args:
        home: CLOZE_HOME, the folder of this installation's caches and server.
        own_server: True to start a new server even if there is another API.
        tell: Called with each line to print.
        buffer: Collects what Prefect's UI would show, if the API does not answer.
        on_starting: Called as soon as the URL of a starting server is known, so that Prefect can be imported in the
            meantime.

    Yields:
        The recording, which is also the result of `get_recording` in the block.
    """
    ambient = find_profile_api(own_server) or (None if own_server else find_server_of_home(home) or None)
    with ExitStack() as servers:
        server = servers.enter_context(launch_server(home / "prefect", tell)) if ambient is None else None
        os.environ["PREFECT_API_URL"] = address = server.address if server is not None else str(ambient)
        on_starting()
        recording = (
            _connect_to_profile(address, tell, buffer) if server is None else _connect_to_embedded(server, tell, buffer)
        )
        use_api(address)
        with use_recording(recording):
            yield recording


@contextmanager
def keep_pages(tell: Tell, buffer: PageBuffer, find_api: Callable[[], str]) -> Iterator[Recording]:
    """During the block, collect in a buffer what Prefect's UI would show about a run that is not a flow run.

    Args:
        tell: Called with each line to print.
        buffer: The buffer to fill.
        find_api: Function that returns the URL of an API that answers now, or "".

    Yields:
        The recording, which is also the result of `get_recording` in the block.
    """
    recording = Recording("", tell, is_lost=True, buffer=buffer, find_api=find_api)
    token = _current_recording.set(recording)
    try:
        yield recording
    finally:
        _current_recording.reset(token)


@contextmanager
def use_recording(recording: Recording) -> Iterator[None]:
    """During the block, make `get_recording` return a recording, so that the current run is sent to its API.

    If the API stopped answering during the block, the process later exits without waiting for Prefect.
    """
    token = _current_recording.set(recording)
    logging.raiseExceptions = False  # else Prefect prints a line of its own for each that it cannot send
    try:
        yield
    finally:
        logging.raiseExceptions = not recording.is_lost
        if recording.is_lost:
            exit_without_waiting()
        _current_recording.reset(token)


def explain_no_server(reason: str) -> str:
    """Build the message that tells the user that a run starts without a Prefect server.

    Args:
        reason: A sentence that explains why there is no server.
    """
    return f"{reason} The run continues without one, and builds the same; `cloze runs` will list it."


def _connect_to_profile(address: str, tell: Tell, buffer: PageBuffer) -> Recording:
    """Wait up to START_SECONDS for the API of a Prefect profile or running server, and return a recording with it.

    If the API does not answer, the returned recording uses `buffer` instead, and its `is_lost` is True.

    Args:
        address: The URL of the API.
        tell: Called with a line about which API is used, or that no API answers.
        buffer: Collects what Prefect's UI would show.
    """
    shown, deadline = without_password(address), time.monotonic() + START_SECONDS
    whose = "of your profile" if address == os.environ.get("CLOZE_PREFECT_API") else "that shows the UI"
    while not (answering := is_answering(address)) and time.monotonic() < deadline:
        time.sleep(RETRY_SECONDS)
    if answering:
        tell(f"Recording with the Prefect server {whose}: {shown}")
        return Recording(address, tell)
    tell(explain_no_server(f"The Prefect API {shown} {whose} has not answered for {START_SECONDS:.0f} s."))
    return Recording(address, tell, is_lost=True, buffer=buffer)


def _connect_to_embedded(server: EmbeddedServer, tell: Tell, buffer: PageBuffer) -> Recording:
    """Wait up to START_SECONDS for the server that was started for this run, and return a recording that uses it.

    If the server does not answer, the returned recording uses `buffer` instead, and its `is_lost` is True. The server
    keeps starting.

    Args:
        server: The server.
        tell: Called with a message if the server does not answer.
        buffer: Collects what Prefect's UI would show.
    """
    try:
        return Recording(server.wait(START_SECONDS), tell, server)
    except ServerFailed as error:
        tell(explain_no_server(str(error)))
        return Recording(server.address, tell, server, is_lost=True, buffer=buffer)
