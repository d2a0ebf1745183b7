"""Records a run with the orchestrator, and continues without it if it does not answer.

    recorded(home, ...)     the API of the user's profile, or the embedded server
    leave(call)             sends something for a page of the run; if the API stays away for some seconds, nothing

Promise: a server that dies, hangs, fails or never comes up costs a run some of its pages and no result. A run waits for
it for START_SECONDS before it begins, and once for ANSWER_SECONDS later; then it says in one line that it continues
without it. If the server answers again at the end of the run, its flow run gets its final state there; a run that began
without a server is left there as one flow run.

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
    answers,
    begin_server,
    server_of_home,
    use_api,
)
from flows.process_exit import exit_without_waiting
from flows.signals import wait_if_stopping

PAUSE_SECONDS = 1.0  # between two tries
START_SECONDS = 60.0  # for a server to answer before a run begins without one
ANSWER_SECONDS = 30.0  # for it to answer later
HANGING = ("PREFECT_API_REQUEST_TIMEOUT", "PREFECT_CLIENT_MAX_RETRIES")
REFUSED = 401  # by a server that was started again, with another password
WITHOUT = "The run continues without it; the store lacks nothing."


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTask:
    """A task that ended.

    began, ended: ISO 8601 with the zone
    type, state, message: of its final state
    group:        of its stage: its tag
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
class KeptPages:
    """What a run shows that has no server: it is sent when an API answers (`flows.orchestration.late_runs`).

    artifacts: as an API takes them, by key
    lines:     of its log, as an API takes them
    tasks:     in the order in which they ended
    """

    artifacts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    lines: list[Mapping[str, Any]] = field(default_factory=list)
    tasks: list[EndedTask] = field(default_factory=list)

    def add_line(self, line: str, level: str) -> None:
        """Keep a line of the log with the time."""
        number, now = logging.getLevelNamesMapping()[level.upper()], datetime.now(UTC).isoformat()
        self.lines.append({"name": "prefect.flow_runs", "level": number, "message": line, "timestamp": now})


@dataclass
class Recording:
    """The API that a run is recorded with.

    server: the embedded one, if that is used
    lost:   whether the run continues without the API; from its beginning, if none answers in time
    kept:   what is shown meanwhile, if the run has no API from its beginning
    find_api: returns the API that answers by now, if that is not known from the beginning
    """

    address: str
    tell: Tell
    server: EmbeddedServer | None = None
    lost: bool = False
    kept: KeptPages | None = None
    find_api: Callable[[], str] | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def embedded(self) -> bool:
        """True if the server exists only for this run."""
        return self.server is not None

    def api_by_now(self) -> str:
        """Return the address of the API if it answers by now, else ""."""
        if self.find_api is not None:
            return self.find_api()
        return self.address if answers(self.address) else ""

    def leave(self, call: Callable[[], Result]) -> Result | None:
        """Call the API, again if it comes back soon; None if it does not: then it is lost."""
        deadline = 0.0
        while not self.lost:
            try:
                return call()
            except unanswered() as error:
                if not (self.lost or is_unanswered(error)):
                    raise
                why = error
            deadline = deadline or time.monotonic() + ANSWER_SECONDS - waited_for(why)
            self._wait(deadline, f"The Prefect API {without_password(self.address)} does not answer ({why}).")
        return None

    def _wait(self, deadline: float, why: str) -> None:
        """Wait until the API answers; it is lost after a deadline, or if its server has ended."""
        while not self.lost:
            wait_if_stopping()
            if self.server is not None and self.server.ended:
                self.lose(f"The embedded Prefect server has ended; its log is {self.server.log_path}.")
            elif time.monotonic() >= deadline:
                self.lose(why)
            time.sleep(PAUSE_SECONDS)
            if answers(self.address):
                return

    def leave_last(self, call: Callable[[], object]) -> None:
        """Call the API at the end of the run, even if it was lost, if it answers again."""
        if self.lost and self.api_by_now():
            use_api(self.address)
            self.lost = False
        self.leave(call)

    def lose(self, why: str) -> None:
        """Continue without the API to the end of the run; what should be sent to it is dropped."""
        with self.turn:
            if self.lost:
                return
            self.lost = True
        self.tell(f"{why} {WITHOUT}")
        os.environ |= {"PREFECT_LOGGING_TO_API_ENABLED": "false", "PREFECT_CLIENT_MAX_RETRIES": "0"}
        use_api(self.address)


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


def recording() -> Recording | None:
    """Return the recording of the run that this is called in."""
    return _recording.get()


def leave(call: Callable[[], Result]) -> Result | None:
    """Leave something on the pages of the run that this is called in; None if its API is lost."""
    mine = recording()
    return call() if mine is None else mine.leave(call)


def unanswered() -> tuple[type[Exception], ...]:
    """Return what Prefect raises if its API does not answer, or fails; and some more (`is_unanswered`)."""
    import httpx

    return (httpx.HTTPError, RuntimeError)


def is_unanswered(error: BaseException) -> bool:
    """Tell whether an error is, or comes from, an API that does not answer, or fails."""
    import httpx

    return any(
        each.response.status_code in (REFUSED, *range(500, 600))
        if isinstance(each, httpx.HTTPStatusError)
        else isinstance(each, httpx.TransportError)
        for each in causes(error)
    )


def waited_for(error: BaseException) -> float:
    """Return for how many seconds a request that failed was without an answer: none, unless the server hangs."""
    import httpx

    if not any(isinstance(each, httpx.TimeoutException) for each in causes(error)):
        return 0.0
    seconds, retries = (float(os.environ.get(name, 0)) for name in HANGING)
    return seconds * (1 + retries) + PAUSE_SECONDS * retries


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it comes from."""
    while error is not None:
        yield error
        error = error.__cause__


def api_of_profile(own_server: bool) -> str | None:
    """Return the API that a run is recorded with, unless it is the embedded server's."""
    return None if own_server else os.environ.get("CLOZE_PREFECT_API")


def answering_api(home: Path, own_server: bool) -> str:
    """Return the API for a run that starts no server: of the profile, or of a server of this home.

    "" if none answers.
    """
    profile = api_of_profile(own_server)
    if profile is None:
        return server_of_home(home)
    return profile if answers(profile) else ""


@contextmanager
def recorded(
    home: Path, own_server: bool, tell: Tell, kept: KeptPages, meanwhile: Callable[[], object]
) -> Iterator[Recording]:
    """Record a run during the block with the API of the user's profile or of an open UI, or with the embedded server.

    If none answers in time, it is recorded with none.
    kept:      is given what the run shows, if it has no API
    meanwhile: is called while the server starts, when Prefect may be imported: it then knows the address
    """
    ambient = api_of_profile(own_server) or (None if own_server else server_of_home(home) or None)
    with ExitStack() as servers:
        server = servers.enter_context(begin_server(home / "prefect", tell)) if ambient is None else None
        os.environ["PREFECT_API_URL"] = address = server.address if server is not None else str(ambient)
        meanwhile()
        mine = _of_profile(address, tell, kept) if server is None else _embedded(server, tell, kept)
        use_api(address)
        with during(mine):
            yield mine


@contextmanager
def keep_pages(tell: Tell, kept: KeptPages, find_api: Callable[[], str]) -> Iterator[Recording]:
    """Keep what a run shows during the block: nobody watches it. find_api: returns the API that answers by then"""
    mine = Recording("", tell, lost=True, kept=kept, find_api=find_api)
    token = _recording.set(mine)
    try:
        yield mine
    finally:
        _recording.reset(token)


@contextmanager
def during(mine: Recording) -> Iterator[None]:
    """Use a recording for the run in the block."""
    token = _recording.set(mine)
    logging.raiseExceptions = False  # else Prefect prints a line of its own for each that it cannot send
    try:
        yield
    finally:
        logging.raiseExceptions = not mine.lost
        if mine.lost:
            exit_without_waiting()
        _recording.reset(token)


def goes_without(why: str) -> str:
    """Return the message for a run that begins without a server."""
    return f"{why} The run continues without one, and builds the same; `cloze runs` will list it."


def _of_profile(address: str, tell: Tell, kept: KeptPages) -> Recording:
    shown, deadline = without_password(address), time.monotonic() + START_SECONDS
    whose = "of your profile" if address == os.environ.get("CLOZE_PREFECT_API") else "that shows the UI"
    while not (answering := answers(address)) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    if answering:
        tell(f"Recording with the Prefect server {whose}: {shown}")
        return Recording(address, tell)
    tell(goes_without(f"The Prefect API {shown} {whose} has not answered for {START_SECONDS:.0f} s."))
    return Recording(address, tell, lost=True, kept=kept)


def _embedded(server: EmbeddedServer, tell: Tell, kept: KeptPages) -> Recording:
    """Wait for the embedded server. One that is not up in time keeps starting."""
    try:
        return Recording(server.wait(START_SECONDS), tell, server)
    except ServerFailed as error:
        tell(goes_without(str(error)))
        return Recording(server.address, tell, server, lost=True, kept=kept)
