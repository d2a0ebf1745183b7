"""Notices: somebody is told that a run failed, stands still, or crossed a bound, by a webhook or a command.

Promise: a notice that cannot be sent is tried again, then said in the log, and changes nothing of the run: not its
state, not its exit code, and not its time by more than SECONDS. The address comes from the environment and is never
shown, for it may be a secret; whoever may set it may name a host of their own network. It is posted to and nothing of
the answer is read but its status; a redirect is not followed, for it leads to a host that nobody named.

    {"event": "failure", "recipe": "news", "run": "20261122T0300...-news", "text": "news failed: ...", ...}

`text` says it all in one paragraph, which is what chat programs show of such an object.
"""

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from flows.recipes.notify import NotifySettings
from flows.recipes.privacy import visible
from flows.run.records import now_text

TRY_SECONDS = 10.0  # for a webhook to answer
WAITS = (0.0, 2.0, 5.0)  # before each try
SECONDS = 45.0  # for all of it
MESSAGE_CHARACTERS = 4_000
ERROR_CHARACTERS = 300
SAID_BYTES = 4_000  # of a command's output, from its end

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What somebody is told. event: failure, stall, bounds, approval or test; text: all of it, in words"""

    event: str
    recipe: str
    text: str
    store: str = ""
    run: str = ""
    report: str = ""
    url: str = ""
    bounds: tuple[str, ...] = ()
    host: str = field(default_factory=socket.gethostname)
    time: str = field(default_factory=now_text)

    def to_bytes(self) -> bytes:
        """A JSON object."""
        shown = visible(self.text, MESSAGE_CHARACTERS)
        return json.dumps({**asdict(self), "text": shown}, ensure_ascii=False).encode("utf-8", "replace")


class NotSent(Exception):
    """A notice did not arrive. Its text says why, without the address. again: whether another try may help"""

    def __init__(self, why: str, again: bool) -> None:
        super().__init__(why)
        self.again = again


def notify(settings: NotifySettings, notice: Notice, folder: Path, tell: Tell) -> bool:
    """Tell who is to be told; whether all of them heard.

    folder: of the recipe, in which the command runs
    tell:   hears of each that could not be told
    """
    if notice.event != "test" and notice.event not in settings.on:
        return True
    ways: list[tuple[str, Callable[[], None]]] = []
    if settings.webhook:
        ways.append((f"the webhook of {settings.webhook}", lambda: post(settings.webhook, notice)))
    if settings.command:
        ways.append((f"the command {settings.command[0]}", lambda: call(settings, notice, folder)))
    sending = [_Sending(name, send) for name, send in ways]
    deadline = time.monotonic() + max(SECONDS, settings.command_seconds + TRY_SECONDS)
    heard = [_heard(one, notice, deadline, tell) for one in sending]
    return all(heard)


def _heard(sending: "_Sending", notice: Notice, deadline: float, tell: Tell) -> bool:
    sending.thread.join(max(0.0, deadline - time.monotonic()))
    if sending.thread.is_alive():
        sending.why = "it takes too long"
    if sending.why:
        tell(f"Nobody could be told of this ({notice.event}) by {sending.name}: {sending.why}.")
    return not sending.why


class _Sending:
    """One way of telling, on a thread of its own: one that hangs holds up neither the other nor the run."""

    def __init__(self, name: str, send: Callable[[], None]) -> None:
        self.name = name
        self.why = "it failed, and its log says how"
        self._send = send
        self.thread = threading.Thread(target=self._try, name="notice", daemon=True)
        self.thread.start()

    def _try(self) -> None:
        why = ""
        for wait in WAITS:
            time.sleep(wait)
            try:
                self._send()
            except NotSent as error:
                why = str(error)
                if not error.again:
                    break
            else:
                why = ""
                break
        self.why = why


def post(variable: str, notice: Notice) -> None:
    """Post a notice to the address that an environment variable holds. Raises NotSent."""
    import httpx

    address = os.environ.get(variable, "").strip()
    if not address:
        raise NotSent("that variable is not set in the environment of this run", again=False)
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL as error:
        raise NotSent("what it holds is no address", again=False) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise NotSent("what it holds is no http or https address", again=False)
    head = {"Content-Type": "application/json", "User-Agent": "cloze"}
    try:
        with httpx.stream("POST", url, content=notice.to_bytes(), headers=head, timeout=TRY_SECONDS) as response:
            status = response.status_code
    except httpx.HTTPError as error:
        raise NotSent(f"it does not answer ({type(error).__name__})", again=True) from error
    if response.is_redirect:
        raise NotSent(f"it answers {status}, a redirect, which is not followed", again=False)
    if not response.is_success:
        raise NotSent(f"it answers {status}", again=status >= 500 or status in (408, 425, 429))


def call(settings: NotifySettings, notice: Notice, folder: Path) -> None:
    """Run the command with a notice on its standard input. Raises NotSent."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                settings.command,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                cwd=folder,
                process_group=0,
            )
        except OSError as error:
            raise NotSent(f"it cannot be started ({error.strerror})", again=False) from error
        try:
            process.communicate(notice.to_bytes(), timeout=settings.command_seconds)
        except subprocess.TimeoutExpired as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise NotSent(f"it took over {settings.command_seconds:g} s and was ended", again=False) from error
        if process.returncode:
            said.seek(max(0, said.seek(0, os.SEEK_END) - SAID_BYTES))
            last = said.read().decode(errors="replace").strip().splitlines()[-1:]
            why = f": {visible(last[0], ERROR_CHARACTERS)}" if last else ""
            raise NotSent(f"it ended with exit code {process.returncode}{why}", again=True)


def settings_at_work(settings: NotifySettings, environment: Mapping[str, str]) -> list[str]:
    """What is said at the start of a run of a `[notify]` that can tell nobody."""
    if settings.webhook and not environment.get(settings.webhook):
        unset = f"notify.webhook names the environment variable {settings.webhook}, which is not set"
        return [f"{unset}: by it nobody is told of anything."]
    return []
