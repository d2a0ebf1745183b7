"""Records a run with the orchestrator, and continues without it if it does not answer.

    recorded(home, ...)     the API of the user's profile, or the embedded server, watched during a run
    leave(call)             sends something for a page of the run; if the API stays away for some seconds, nothing

Promise: a server that dies, hangs, fails or never comes up costs a run some of its pages and no result. A run waits for
it for START_SECONDS before it begins, and for ANSWER_SECONDS later, says in one line that it continues without it, and
is recorded there again as soon as it answers. An embedded one that has ended is started again on its port. A run that
was done without one is left there as one flow run at its end, if it answers then.

Cost: a look at the server every two seconds. A request to one that hangs takes what PREFECT_API_REQUEST_TIMEOUT and
PREFECT_CLIENT_MAX_RETRIES let it (`flows.environment`).
"""

import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from corpora.errors import InputError
from corpora.store.places.address import without_password
from flows.orchestration.server.database import check_database, database_of
from flows.orchestration.server.embedded import (
    EmbeddedServer,
    ServerFailed,
    ServerSlow,
    answers,
    embedded_server,
    server_of_home,
    starting_turn,
)
from flows.process_exit import leave_at_once
from flows.signals import give_way

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

Tell = Callable[[str], None]
Result = TypeVar("Result")

PAUSE_SECONDS = 1.0  # between two looks while waiting for it
LOOK_SECONDS = 2.0  # between two looks at the server; one takes up to 5 s if it does not answer
START_SECONDS = 60.0  # for a server to answer before a run begins without one
ANSWER_SECONDS = 30.0  # for it to answer later
STARTS = 3  # of an embedded server, in a run
FREE_BYTES = 4_000_000  # a database takes some
TRIES = 3  # of a call that fails while the API answers

ENDED = "The embedded Prefect server has ended; it is started again. Pages of this run may lack something."
WITHOUT = "The run continues without it; the store lacks nothing."


class Recording:
    """The API that a run is recorded with, and whether the run waits for it.

    server:      the embedded one, if that is used
    lost:        whether the run continues without the API to its end; from its beginning, if none answers in time
    interrupted: whether the API was away
    """

    def __init__(self, address: str, tell: Tell, server: EmbeddedServer | None = None, lost: bool = False) -> None:
        self.address, self.shown = address, without_password(address)
        self.interrupted = False
        self._away_since: float | None = None
        self._tell = tell
        self._server = server
        self._starts = 1
        self._without = ""  # the last message about an API that is away
        self._lost = threading.Event()
        self._over = threading.Event()
        self._turn = threading.Lock()
        if lost:
            self._lost.set()

    @property
    def embedded(self) -> bool:
        """True if the server exists only for this run."""
        return self._server is not None

    @property
    def lost(self) -> bool:
        """True if the run continues without the API to its end, even if that answers again."""
        return self._lost.is_set()

    @property
    def gone(self) -> bool:
        """True if the run continues without the API: until it answers again, or to the end if it is lost."""
        return self.lost or self._is_away_for(ANSWER_SECONDS)

    def _is_away_for(self, seconds: float) -> bool:
        since = self._away_since
        return since is not None and time.monotonic() >= since + seconds

    def api_by_now(self) -> str:
        """Return the address of the API if it answers by now, else ""."""
        address = self.address
        if self._server is not None and self._server.has_address():
            address = self._server.address
        return address if address and answers(address) else ""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the server during the block."""
        thread = threading.Thread(target=self._watch, name="recording", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(LOOK_SECONDS)

    def leave(self, call: Callable[[], Result], patient: bool = True) -> Result | None:
        """Call the API, again if it comes back soon; None if it does not. `patient`: wait for it"""
        for attempt in range(TRIES):
            if self.gone or (not patient and self._is_away_for(0.0)):
                return None
            try:
                return call()
            except unanswered() as error:
                if not is_unanswered(error):
                    raise
                why = error
            self._note_away()
            if patient:
                time.sleep(attempt * PAUSE_SECONDS)
                self.settle()
        self.lose(f"The Prefect API {self.shown} fails ({why}).")
        return None

    def settle(self) -> bool:
        """Wait until the API answers (True), or the run continues without it (False)."""
        while not (self.gone or self._answers()):
            self._note_away()
            time.sleep(PAUSE_SECONDS)
        return not self.gone

    def _note_away(self) -> None:
        self.interrupted = True
        self._away_since = self._away_since or time.monotonic()

    def _answers(self) -> bool:
        if not answers(self.address):
            return False
        self._away_since = None
        return True

    def lose(self, why: str) -> None:
        """Continue without the API to the end of the run; what should be sent to it is dropped."""
        if self.lost:
            return
        self._lost.set()
        self._say_without(why)
        os.environ["PREFECT_LOGGING_TO_API_ENABLED"] = "false"
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()

    def _say_without(self, why: str) -> None:
        """Say once that the run continues without the API, and why."""
        with self._turn:
            if why != self._without:
                self._without = why
                self._tell(f"{why} {WITHOUT}")

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS) and not self.lost:
            give_way()  # else a server that is ended with everything else is started again
            if self._server is not None and self._server.ended:
                self._start_again(self._server)
            elif not self._answers():
                self._note_away()
                if self.gone:
                    self._say_without(f"The Prefect API {self.shown} does not answer.")
            elif self._without:
                self._without = ""
                self._tell(f"The Prefect API {self.shown} answers again; the run is recorded there again.")

    def _start_again(self, server: EmbeddedServer) -> None:
        self._note_away()
        if self._starts == STARTS:
            self.lose(f"The embedded Prefect server has ended {STARTS} times.")
            return
        self._starts += 1
        self._tell(ENDED)
        server.start_anew()


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


def recording() -> Recording | None:
    """Return the recording of the run that this is called in."""
    return _recording.get()


def leave(call: Callable[[], Result], patient: bool = True) -> Result | None:
    """Leave something on the pages of the run that this is called in; None if its API is away, or lost.

    patient: wait some seconds for an API that is away
    """
    mine = recording()
    return call() if mine is None else mine.leave(call, patient)


class FlowEnd:
    """Holds how the work of a flow ended, whatever its orchestrator recorded."""

    def __init__(self) -> None:
        self._begun = False
        self._flow_run_id: str | None = None
        self._state: State[Any] | None = None
        self._error: BaseException | None = None

    def keep(self, work: "Callable[[], State[Any]]") -> "State[Any]":
        """Do the work of the flow."""
        from prefect.runtime import flow_run

        self._begun, self._flow_run_id = True, flow_run.id
        try:
            state = self._state = work()
        finally:
            self._error = sys.exception()
        return state

    def whatever(self, run: "Callable[[], State[Any]]") -> "State[Any] | None":
        """Return the final state of a flow, or of its work if the API is gone by then.

        None if it cannot begin after several tries: then the API is lost. Raises what the work raised, and what Prefect
        raised in a process that it has started itself.
        """
        mine = recording()
        why = "does not answer"
        for _ in range(TRIES):
            if mine is not None and not mine.settle():
                break
            try:
                return run()
            except unanswered() as error:
                if mine is None or not (is_unanswered(error) or mine.gone):
                    raise
                why = f"does not record this run ({error})"
            if self._begun:
                return self._close(mine)
        assert mine is not None
        mine.lose(f"The Prefect API {mine.shown} {why}.")
        return None

    def _close(self, mine: Recording) -> "State[Any]":
        """Record how the work ended, as soon as the API accepts it; raise what the work raised."""
        from prefect.client.orchestration import get_client
        from prefect.states import Failed

        end: State[None]
        if self._state is not None:
            end = self._state.model_copy(update={"data": None})
        else:
            end = Failed(message=f"{type(self._error).__name__}: {self._error}")

        def close() -> None:
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(UUID(self._flow_run_id), end, force=True)

        if self._flow_run_id is not None and mine.settle():
            mine.leave(close)
        if self._error is not None:
            raise self._error from None
        assert self._state is not None
        return self._state


def unanswered() -> tuple[type[Exception], ...]:
    """Return what Prefect raises if its API does not answer, or fails; and some more (`is_unanswered`)."""
    import httpx

    return (httpx.HTTPError, RuntimeError)


def is_unanswered(error: BaseException | None) -> bool:
    """Tell whether an error is, or comes from, an API that does not answer, or fails."""
    import httpx

    while error is not None:
        if isinstance(error, httpx.TransportError):
            return True
        if isinstance(error, httpx.HTTPStatusError):
            return error.response.status_code >= 500
        error = error.__cause__
    return False


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
def recorded(home: Path, own_server: bool, tell: Tell) -> Iterator[Recording]:
    """Record a run during the block with the API of the user's profile, or with the embedded server.

    If none answers in time, it is recorded with none.
    """
    ambient = api_of_profile(own_server)
    with ExitStack() as servers:
        mine = _embedded(home / "prefect", tell, servers) if ambient is None else _of_profile(ambient, tell)
        if not mine.lost:
            os.environ["PREFECT_API_URL"] = mine.address
        with during(mine):
            yield mine


@contextmanager
def during(mine: Recording) -> Iterator[None]:
    """Use a recording for the run in the block."""
    token = _recording.set(mine)
    logging.raiseExceptions = False  # else Prefect prints a line of its own for each that it cannot send
    try:
        with mine.watched():
            yield
    finally:
        logging.raiseExceptions = not mine.gone
        if mine.gone:
            leave_at_once()
        _recording.reset(token)


def goes_without(why: str) -> str:
    """Return the message for a run that begins without a server."""
    return f"{why} The run continues without one, and builds the same; `cloze runs` will list it."


def _of_profile(address: str, tell: Tell) -> Recording:
    shown, deadline = without_password(address), time.monotonic() + START_SECONDS
    while not (answering := answers(address)) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    if answering:
        tell(f"Recording with the Prefect server of your profile: {shown}")
        return Recording(address, tell)
    tell(goes_without(f"The Prefect API {shown} of your profile has not answered for {START_SECONDS:.0f} s."))
    return Recording(address, tell, lost=True)


def _embedded(prefect_home: Path, tell: Tell, servers: ExitStack) -> Recording:
    """Start the embedded server of a home. One that is not up in time keeps starting."""
    first = not database_of(prefect_home).exists()
    tell(f"Starting the embedded Prefect server{': the first time it makes its database, some 20 s' * first} ...")
    server = servers.enter_context(embedded_server(str(prefect_home / "server.log")))
    try:
        return Recording(_first_address(server, tell), tell, server)
    except ServerFailed as error:
        tell(goes_without(f"{error}{_why(error, prefect_home)}"))
        return Recording("", tell, server, lost=True)


def _first_address(server: EmbeddedServer, tell: Tell) -> str:
    """Return the address of a server once it answers; it is started again if it ends. Raises ServerFailed."""
    deadline = time.monotonic() + START_SECONDS
    try:
        return server.wait(START_SECONDS)
    except ServerSlow:
        raise
    except ServerFailed:
        tell("The embedded Prefect server has ended while it started; it is started again.")
    server.start_anew()
    return server.wait(deadline - time.monotonic())


def look_at_database(prefect_home: Path, tell: Tell) -> None:
    """Raise InputError if a server could not work with the database of a home. Waits for one that starts there."""
    with starting_turn(prefect_home, lambda: tell("Another Prefect server of this home starts first.")):
        check_database(prefect_home)


def _why(error: ServerFailed, prefect_home: Path) -> str:
    """Explain why a server did not start, as far as that is visible outside its log: a full disk, or its database."""
    free = shutil.disk_usage(prefect_home).free
    if isinstance(error, ServerSlow):
        return ""
    if free < FREE_BYTES:
        return f" The disk of {prefect_home} is full ({free:,} bytes are left)."
    try:
        check_database(prefect_home)
    except InputError as damage:
        return f" {damage}"
    return ""
