"""Whether what a run leaves with the orchestrator still arrives there, and what happens where it does not.

    recorded(home, ...)     the API of the user's profile, or the embedded server, watched for the time of a run
    leave(call)             something for a page of the run: after some seconds where the API is away, else nothing

Promise: a server that dies, hangs or fails costs a run some of its pages and no result, and does not hold it up for
more than a minute. An embedded one is started anew on its port; one of the user's own is waited for, while the run goes
on. Where that does not help, the run goes on without its record, and all of it is said.

Cost: a look at the server every two seconds.
"""

import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from uuid import UUID

from corpora.errors import InputError
from corpora.store.place_address import without_password
from flows.leaving import leave_at_once
from flows.orchestration.database import check_database, database_of
from flows.orchestration.server import (
    EmbeddedServer,
    ServerFailed,
    answers,
    embedded_server,
    is_of_home,
    starting_turn,
)
from flows.stopping import give_way

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

Tell = Callable[[str], None]
Result = TypeVar("Result")

PAUSE_SECONDS = 1.0  # between two looks of who waits for it
LOOK_SECONDS = 2.0  # between two looks at the server; one takes up to 5 s where it does not answer
SILENT_LOOKS = 5  # in vain, and an embedded server is taken to hang
SILENT_SAID = 2  # in vain, and it is said of a server of the user's own
SILENT_LOST = 6  # in vain, over so many seconds, and the run goes on without a server of the user's own
LOST_SECONDS = 60.0
STARTS = 3  # of an embedded server, in a run
PATIENT_SECONDS = 20.0  # so long what is to be left on a page waits for an API that is away
FREE_BYTES = 4_000_000  # a database takes some
TRIES = 3  # of a call that fails while the API answers

ENDED = "The embedded Prefect server has ended; it is started anew. Pages of this run may lack something."
SILENT = "The embedded Prefect server does not answer; it is started anew. Pages of this run may lack something."


class Recording:
    """The API that a run is recorded with, and whether it is lost.

    server, prefect_home: of the embedded one, where it is that
    interrupted:          whether the API was away
    """

    def __init__(
        self, address: str, tell: Tell, server: EmbeddedServer | None = None, prefect_home: Path | None = None
    ) -> None:
        self.address, self.shown = address, without_password(address)
        self.interrupted = False
        self._away_since: float | None = None
        self._tell = tell
        self._server = server
        self._prefect_home = prefect_home
        self._starts = 1
        self._lost = threading.Event()
        self._over = threading.Event()
        self._first = threading.Lock()

    @property
    def is_own(self) -> bool:
        """Whether the server is one of this program, for this home."""
        return self._server is not None or is_of_home(self.address)

    @property
    def flow_run_page(self) -> str:
        """What a flow run's id is added to for its page in the UI; "" where that is not known.

        An embedded server has none, and other services than a Prefect server have it elsewhere.
        """
        root = self.shown.removesuffix("/api")
        return f"{root}/runs/flow-run/" if self._server is None and root != self.shown else ""

    @property
    def lost(self) -> bool:
        """Whether the run goes on without the API."""
        return self._lost.is_set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """For the time of the block the server is looked at."""
        thread = threading.Thread(target=self._watch, name="recording", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(LOOK_SECONDS)

    def leave(self, call: Callable[[], Result], patient: bool = True) -> Result | None:
        """Call the API, again where it comes back soon; None where it does not. `patient`: wait for it"""
        for attempt in range(TRIES):
            if self.lost or self._is_given_up(patient):
                return None
            try:
                return call()
            except unanswered() as error:
                if not is_unanswered(error):
                    raise
                why = error
            self._note_away()
            time.sleep(attempt * PAUSE_SECONDS)
            while not (self.lost or self._is_given_up(patient) or self._answers()):
                time.sleep(PAUSE_SECONDS)
        self.lose(f"The Prefect API {self.shown} fails ({why}).")
        return None

    def settle(self) -> bool:
        """Wait until the API answers (True) or is lost (False)."""
        self._note_away()
        while not (self.lost or self._answers()):
            time.sleep(PAUSE_SECONDS)
        return not self.lost

    def _note_away(self) -> None:
        self.interrupted = True
        self._away_since = self._away_since or time.monotonic()

    def _is_given_up(self, patient: bool) -> bool:
        """Whether the API is away, for longer than what is left with it waits."""
        since = self._away_since
        return since is not None and (not patient or time.monotonic() > since + PATIENT_SECONDS)

    def _answers(self) -> bool:
        if not answers(self.address):
            return False
        self._away_since = None
        return True

    def lose(self, why: str) -> None:
        """Go on without the API: what has to be sent to it is let go."""
        with self._first:
            if self.lost:
                return
            self._lost.set()
        self._tell(f"{why} The run goes on without its record there; the store lacks nothing.")
        leave_at_once()
        os.environ["PREFECT_LOGGING_TO_API_ENABLED"] = "false"
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()

    def refuse(self, why: Exception) -> NoReturn:
        """Raises InputError for an API that does not take a run."""
        if self._prefect_home is not None:
            check_database(self._prefect_home, thoroughly=True)
        log = f"; its log is {self._prefect_home / 'server.log'}" if self._prefect_home is not None else ""
        raise InputError(
            f"The Prefect API {self.shown} does not record this run ({why}){log}. Mend what it says there, set "
            "CLOZE_HOME to another folder, or name another Prefect server by PREFECT_API_URL."
        ) from why

    def _watch(self) -> None:
        misses = 0
        while not self._over.wait(LOOK_SECONDS) and not self.lost:
            give_way()  # else a server that is ended with everything else is started anew
            ended = self._server is not None and self._server.ended
            misses = misses + 1 if ended or not self._answers() else self._answered(misses)
            if self._over.is_set():
                return
            if self._server is None:
                self._wait_for(misses)
            elif ended or misses == SILENT_LOOKS:
                self._start_anew(self._server, ENDED if ended else SILENT)
                misses = 0

    def _answered(self, misses: int) -> int:
        if self._server is None and misses >= SILENT_SAID:
            self._tell(f"The Prefect API {self.shown} answers again.")
        return 0

    def _wait_for(self, misses: int) -> None:
        """A server of the user's own does not answer."""
        if misses == SILENT_SAID:
            self._tell(f"The Prefect API {self.shown} does not answer any more; waiting for it.")
        if misses:
            self._note_away()
        since = self._away_since
        if misses >= SILENT_LOST and since is not None and time.monotonic() > since + LOST_SECONDS:
            self.lose(f"The Prefect API {self.shown} is gone.")

    def _start_anew(self, server: EmbeddedServer, line: str) -> None:
        self._note_away()
        if self._starts == STARTS:
            self.lose(f"The embedded Prefect server has ended {STARTS} times.")
            return
        self._starts += 1
        self._tell(line)
        try:
            server.start_anew()
        except ServerFailed as error:
            self.lose(str(error))


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


def recording() -> Recording | None:
    """The recording of the run that this is called in."""
    return _recording.get()


def is_lost() -> bool:
    """Whether the API of the run that this is called in is lost."""
    mine = recording()
    return mine is not None and mine.lost


def _close_client() -> None:
    """Close what the flow that this is called in asks the API with: what it still says then fails at once.

    It would wait for a server that hangs, for a minute each time.
    """
    from prefect.context import SyncClientContext

    if (context := SyncClientContext.get()) is not None:
        context.client._client.close()


def leave(call: Callable[[], Result], patient: bool = True) -> Result | None:
    """Leave something on the pages of the run that this is called in; None where its API is away, or lost.

    patient: wait some seconds for an API that is away
    """
    mine = recording()
    return call() if mine is None else mine.leave(call, patient)


class FlowEnd:
    """How the work of a flow ended, whatever its orchestrator could make of it."""

    def __init__(self) -> None:
        self._begun = False
        self._flow_run_id: str | None = None
        self._state: State[Any] | None = None
        self._error: BaseException | None = None

    def keep(self, work: "Callable[[], State[Any]]") -> "State[Any]":
        """Do the work of the flow."""
        from prefect.runtime import flow_run

        self._begun, self._flow_run_id = True, flow_run.id
        with self:
            self._state = work()
        assert self._state is not None
        return self._state

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._error = error
        if is_lost():
            _close_client()

    def whatever(self, run: "Callable[[], State[Any]]") -> "State[Any]":
        """The state that a flow ends in, or that its work ended in where the API is gone by then.

        A flow that could not begin is tried again. Raises what the work raised, and InputError where none can begin.
        """
        for _ in range(TRIES):
            try:
                return run()
            except unanswered() as error:
                if not (is_unanswered(error) or is_lost()):
                    raise
                why = error
            if self._begun:
                return self._close()
            mine = recording()
            if mine is None or not mine.settle():
                break
        if mine is not None:
            mine.refuse(why)
        raise why

    def _close(self) -> "State[Any]":
        """Put on record how the work ended, as soon as the API takes it; what the work raised is raised."""
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

        mine = recording()
        if mine is not None and self._flow_run_id is not None and mine.settle():
            mine.leave(close)
        if self._error is not None:
            raise self._error from None
        assert self._state is not None
        return self._state


def unanswered() -> tuple[type[Exception], ...]:
    """What Prefect raises where its API does not answer, or fails; and some more (`is_unanswered`)."""
    import httpx

    return (httpx.HTTPError, RuntimeError)


def is_unanswered(error: BaseException | None) -> bool:
    """Whether an error is, or comes from, an API that does not answer, or fails."""
    import httpx

    while error is not None:
        if isinstance(error, httpx.TransportError):
            return True
        if isinstance(error, httpx.HTTPStatusError):
            return error.response.status_code >= 500
        error = error.__cause__
    return False


def api_of_profile(own_server: bool) -> str | None:
    """The API that a run is to be recorded with, where it is not the embedded server's."""
    return None if own_server else os.environ.get("CLOZE_PREFECT_API")


@contextmanager
def recorded(home: Path, own_server: bool, tell: Tell) -> Iterator[Recording]:
    """A Prefect API for the time of the block: the one that the user's profile names, or the embedded server.

    Raises InputError where neither can be had.
    """
    ambient = api_of_profile(own_server)
    with _of_profile(ambient, tell) if ambient is not None else embedded(home, tell) as mine:
        os.environ["PREFECT_API_URL"] = mine.address
        with during(mine):
            yield mine


@contextmanager
def during(mine: Recording) -> Iterator[None]:
    """For the time of the block a run is recorded so."""
    token = _recording.set(mine)
    logging.raiseExceptions = False  # else Prefect prints a line of its own for each that it cannot send
    try:
        with mine.watched():
            yield
    finally:
        logging.raiseExceptions = mine.lost is False
        _recording.reset(token)


@contextmanager
def _of_profile(address: str, tell: Tell) -> Iterator[Recording]:
    if not answers(address):
        raise InputError(
            f"The Prefect API {without_password(address)} of your profile does not answer. Start that server, unset "
            "PREFECT_API_URL, or run with --own-server."
        )
    tell(f"Recording with the Prefect server of your profile: {without_password(address)}")
    yield Recording(address, tell)


@contextmanager
def embedded(home: Path, tell: Tell) -> Iterator[Recording]:
    """The embedded server of a home, once it answers. Raises InputError."""
    prefect_home = home / "prefect"
    look_at_database(prefect_home, tell)
    first = not database_of(prefect_home).exists()
    tell(f"Starting the embedded Prefect server{': the first time it makes its database, some 20 s' * first} ...")
    with embedded_server(str(prefect_home / "server.log")) as server:
        yield Recording(_first_address(server, prefect_home, tell), tell, server, prefect_home)


def look_at_database(prefect_home: Path, tell: Tell) -> None:
    """Raises InputError where a server could not work with the database of a home. Waits for one that starts there."""
    with starting_turn(prefect_home, lambda: tell("Another Prefect server of this home starts first.")):
        check_database(prefect_home)


def _first_address(server: EmbeddedServer, prefect_home: Path, tell: Tell) -> str:
    """The address of a server once it answers; started anew where it ends. Raises InputError."""
    try:
        return server.wait()
    except ServerFailed:
        tell("The embedded Prefect server has ended while it started; it is started anew.")
    try:
        return server.start_anew()
    except ServerFailed as error:
        check_database(prefect_home, thoroughly=True)
        raise InputError(
            f"{error} {_why(prefect_home)} Mend that, set CLOZE_HOME to another folder, or name a Prefect server of "
            "your own by PREFECT_API_URL."
        ) from error


def _why(prefect_home: Path) -> str:
    """Why a server did not start, as far as it can be seen: a full disk, or the last line of its log."""
    free = shutil.disk_usage(prefect_home).free
    if free < FREE_BYTES:
        return f"The disk of {prefect_home} is full ({free:,} bytes are left)."
    lines = (prefect_home / "server.log").read_text(encoding="utf-8", errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), "")
    return f"The last error there: {said}" if said else "It says nothing there."
