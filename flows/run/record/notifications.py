"""Notices: an address or a command is notified that a run failed, stalled, crossed a bound, or set something aside.

Promise: a notice that cannot be sent is logged, and changes nothing about the run: not its state, not its exit code,
and not its time by more than MAX_SECONDS. The address comes from the environment and is never shown, because it may be
a secret; whoever may set it may name a host of their own network. A redirect is not followed, because it leads to a
host that nobody named. Apprise sends it: the object below is posted to an http address, and its documentation lists
other addresses (`mailto://`, `slack://`).

A bound that stays crossed by one run after the other is named in one notice, and again a day later. If a run was within
it and the next one is not, it is named at once. What is set aside is named once. A notice that nobody got does not
count.

    {"event": "failure", "recipe": "news", "run": "20261122T0300...-news", "text": "news failed: ...", ...}

`text` has everything in one paragraph, which is what chat programs show of such an object.
"""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from corpora.generic_types import Tell
from corpora.lean_process import OWN_CODE
from corpora.store.places.place import Place
from flows.recipes.privacy import to_one_line
from flows.recipes.run_settings import NotifySettings
from flows.run.record.run_record import format_now

MAX_TRIES, WAIT_SECONDS = 3, 2.0  # for an address, and before each further try
MAX_SECONDS = 45.0  # for all of it
REPEAT_AFTER = timedelta(days=1)  # after which a bound that is still crossed is named in a notice again
NOTICES_FOLDER = "notices"  # the folder of a store with what notices named
MESSAGE_CHARACTERS = 4_000
SCHEMES = {"http": "json", "https": "jsons"}  # Apprise's names for an address that a JSON object is posted to
# The object that Apprise posts has fields of its own: these are left out, or have another name.
APPRISE_FIELDS = {"version": "", "title": "", "attachments": "", "type": "", "message": "text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notification about a run, to be sent to a webhook or command.

    Attributes:
        event: One of `flows.recipes.run_settings.NOTIFY_EVENTS`.
        recipe: Name of the recipe.
        text: The whole message.
        store: Address of the store.
        run: Id of the run; "" if there is none.
        report: Path of the report; "" if there is none.
        url: URL of the run in the Prefect UI; "" if there is none.
        bounds: Descriptions of the exceeded limits from the recipe's `[bounds]`.
        host: Name of this machine.
        time: Time of the notification (ISO 8601).
    """

    event: str
    recipe: str
    text: str
    store: str = ""
    run: str = ""
    report: str = ""
    url: str = ""
    bounds: tuple[str, ...] = ()
    host: str = field(default_factory=socket.gethostname)
    time: str = field(default_factory=format_now)

    def to_json(self) -> dict[str, Any]:
        """Convert the notice to a dict to send as JSON. `text` becomes one line of at most MESSAGE_CHARACTERS."""
        shown = to_one_line(self.text, MESSAGE_CHARACTERS).encode("utf-8", "replace").decode()
        return {**asdict(self), "text": shown}


def read_named(place: Place, recipe: str) -> Mapping[str, str]:
    """Read what earlier notifications reported about a recipe's newest run.

    Args:
        place: The store.
        recipe: Name of the recipe.

    Returns:
        The time of the notification (ISO 8601), by description of what was reported. {} if the file is missing or
        malformed, so that everything is reported again.
    """
    try:
        named = json.loads(place.read(f"{NOTICES_FOLDER}/{recipe}.json"))
        return {str(bound): datetime.fromisoformat(moment).isoformat() for bound, moment in named.items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def write_named(place: Place, recipe: str, named: Mapping[str, str]) -> None:
    """Write what notifications reported about a recipe's newest run, for `read_named`.

    Args:
        place: The store.
        recipe: Name of the recipe.
        named: Time of the notification (ISO 8601), by description of what was reported.

    Raises:
        InputError: If the store is not writable.
    """
    place.write(f"{NOTICES_FOLDER}/{recipe}.json", json.dumps(named, indent=1, ensure_ascii=False).encode())


def is_due(moment: str) -> bool:
    """Return True if the last notification about a limit is at least a day old, so that it should be repeated.

    Args:
        moment: Time of the last notification (ISO 8601).
    """
    since = datetime.fromisoformat(moment)
    return datetime.now(UTC) - since.replace(tzinfo=since.tzinfo or UTC) >= REPEAT_AFTER


def notify(settings: NotifySettings, notice: Notice, folder: Path, tell: Tell) -> bool:
    """Send a notification to a recipe's webhook and command, if the settings include its event.

    Both are called in parallel, with a time limit, so that the run is not delayed for long.

    Args:
        settings: The recipe's `[notify]` settings.
        notice: The notification.
        folder: Folder of the recipe. The command runs in it.
        tell: Called with a line to print if the webhook or the command fails.

    Returns:
        True if the webhook or the command succeeded.
    """
    if notice.event not in settings.on:
        return False
    ways: dict[str, Callable[[], str]] = {}
    if settings.webhook:
        ways[f"the webhook of {settings.webhook}"] = lambda: post_notice(settings.webhook, notice)
    if settings.command:
        ways[f"the command {settings.command[0]}"] = lambda: call_command(settings, notice, folder)
    failures = dict.fromkeys(ways, "it takes too long")

    def send(way: str) -> None:
        failures[way] = ways[way]()

    threads = [threading.Thread(target=send, args=(way,), name="notice", daemon=True) for way in ways]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + max(MAX_SECONDS, settings.command_seconds + 1)
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    for way, why in failures.items():
        if why:
            tell(f"This notice could not be sent ({notice.event}) by {way}: {why}.")
    return not all(failures.values())


def post_notice(variable: str, notice: Notice) -> str:
    """Send a notification to the address in an environment variable.

    Args:
        variable: Name of the environment variable.
        notice: The notification.

    Returns:
        The reason why sending failed, such as "it does not answer"; "" on success.
    """
    import logging

    from apprise import Apprise, AppriseAsset, LogCapture

    address = os.environ.get(variable, "").strip()
    if not address:
        return "that variable is not set in the environment of this run"
    asset = AppriseAsset(
        app_id="cloze",
        http_redirects=False,
        default_service_retry=MAX_TRIES - 1,
        default_service_wait=WAIT_SECONDS,
    )
    fields = notice.to_json()
    logging.getLogger("apprise").propagate = False  # its messages may name the address
    with LogCapture(level=logging.WARNING) as log:
        target = Apprise.instantiate(build_apprise_target(address, fields), asset=asset)
        if target is None:
            return "its value is not an address that Apprise knows"
        sent = Apprise(target, asset=asset).notify(body=fields["text"], title=f"{notice.recipe}: {notice.event}")
        status = re.search(r"error=(\d+)", log.getvalue())
    if sent:
        return ""
    return f"it answers {status[1]}" if status else "it does not answer"


def build_apprise_target(address: str, fields: Mapping[str, Any]) -> str | dict[str, Any]:
    """Convert a webhook address to the form that Apprise expects. (Apprise is the library that sends notifications.)

    Args:
        address: URL of a webhook or of an Apprise service.
        fields: The JSON object to post to a webhook.

    Returns:
        For a webhook (http or https), a dict of Apprise's URL fields and the payload. Any other address is returned
        unchanged, or as "" if it is not valid.
    """
    try:
        url = urlsplit(address)
        if url.scheme not in SCHEMES:
            return address
        return {
            "schema": SCHEMES[url.scheme],
            "host": url.hostname or "",
            "port": url.port,
            "user": unquote(url.username) if url.username else None,
            "password": unquote(url.password) if url.password else None,
            "fullpath": url.path,
            "params": dict(parse_qsl(url.query, keep_blank_values=True)),
            "payload": {**{key: value for key, value in fields.items() if key != "text"}, **APPRISE_FIELDS},
        }
    except ValueError:
        return ""


def call_command(settings: NotifySettings, notice: Notice, folder: Path) -> str:
    """Run the command in the settings, and write the notification as JSON to its standard input.

    The command is killed after `settings.command_seconds`.

    Args:
        settings: The recipe's `[notify]` settings.
        notice: The notification.
        folder: Working directory of the command.

    Returns:
        The reason why the command failed, or "" if it succeeded.
    """
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        own = {name: value for name, value in os.environ.items() if name not in OWN_CODE}  # it is the user's code
        process = subprocess.Popen(settings.command, cwd=folder, env=own, process_group=0, **streams)
    except OSError as error:
        return f"it cannot be started ({error.strerror})"
    try:
        process.communicate(json.dumps(notice.to_json(), ensure_ascii=False).encode(), settings.command_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"it took over {settings.command_seconds:g} s and was ended"
    return f"it ended with exit code {process.returncode}" if process.returncode else ""


def list_setting_warnings(settings: NotifySettings, environment: Mapping[str, str]) -> list[str]:
    """Return a list with a warning if the environment variable in `notify.webhook` is not set, otherwise [].

    Args:
        settings: The recipe's `[notify]` settings.
        environment: The environment variables of this process.
    """
    if settings.webhook and not environment.get(settings.webhook):
        unset = f"notify.webhook names the environment variable {settings.webhook}, which is not set"
        return [f"{unset}: so it sends no notices."]
    return []
