"""Notifications about a run: it failed, it stalls, or it exceeds limits in its recipe.

    report_failure(recipe, tell)   sends a notification if an exception ends the block
    report_stalls(notifier, ...)   watches from a thread whether the run makes progress during the block

A run that is stopped by a signal sends none: whoever stops it knows. If a process is killed, the one that started it
sends the notice (`scheduled_run.py`). Cost: nothing without a recipient; else a thread that looks every few seconds.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.places.place import Place
from flows.recipes.recipe import Recipe, read_recipe
from flows.recipes.run_settings import parse_notify_settings
from flows.run.inputs.unread_files import describe_set_aside
from flows.run.record.figures import parse_bound
from flows.run.record.notifications import Notice, is_due, list_setting_warnings, notify, read_named, write_named
from flows.run.record.run_record import RunRecord, format_now
from flows.signals import wait_if_stopping

Advance = Callable[[str, int, int], None]

CHECKS_PER_STALL = 20  # at the signs of life in the time after which a run is reported as stalled
MAX_CHECK_SECONDS = 10.0


class Notifier:
    """Sends the notifications about one run, according to the `[notify]` table of its recipe.

    Attributes:
        run_id: The id of the run; "" until it has one.
        page: Function that returns the URL of the run's page in Prefect's UI, or "" if there is none.
        settings: The recipe's `[notify]` settings.
        tell: Called with each line to print.
        recipe: The recipe.
    """

    def __init__(self, recipe: Recipe, tell: Tell) -> None:
        self.run_id = ""
        self.settings = recipe.notify
        self.tell = tell
        self.recipe = recipe
        self.page: Callable[[], str] = str

    def send(self, event: str, text: str, **more: Any) -> bool:
        """Send a notification, and return True if at least one recipient received it.

        Args:
            event: One of the events accepted by `[notify] on`, such as "failure" or "stall".
            text: The text of the notification.
            more: Additional fields of `Notice`, such as `report` or `bounds`. `store`, `run` and `url` replace the
                defaults.
        """
        recipe = self.recipe
        store = Place(recipe.store).to_address("")
        fields = {"store": store, "run": self.run_id, "url": self.page(), **more}
        notice = Notice(event=event, recipe=recipe.name, text=text, **fields)
        folder = recipe.path.parent if recipe.path is not None and recipe.path.parent.is_dir() else Path.cwd()
        return notify(self.settings, notice, folder, self.tell)

    def notify_of_result(self, record: RunRecord, report: str) -> None:
        """Send notifications about a completed run.

        They report exceeded limits, and files and records that the run skipped. Limits are not reported if a recent
        notification contained all of them, and skipped files and records are reported only once.

        Args:
            record: The record of the run.
            report: The path or URL of the run's report.
        """
        if not self.settings.is_enabled:
            return
        place = Place(self.recipe.store)
        reported_before = read_named(place, record.recipe)
        bounds = [*map(parse_bound, record.all_crossed)] if "bounds" in self.settings.on else []
        reported = {bound: reported_before[bound] for bound in bounds if bound in reported_before}
        if any(bound not in reported or is_due(reported[bound]) for bound in bounds):
            crossed = "; ".join(record.all_crossed)
            text = f"The run of {record.recipe} is complete and crosses {len(bounds)} of its bounds. {crossed}."
            if self.send("bounds", text, bounds=record.all_crossed, report=report):
                reported = dict.fromkeys(bounds, format_now())
        elif bounds:
            self.tell(f"No notice: the one of {max(reported.values())} has named the bounds that are crossed.")
        set_aside = {f"{each.kind}: {each.place}": each for each in record.set_aside}
        reported |= {what: reported_before[what] for what in set_aside if what in reported_before}
        new_set_aside = {what: each for what, each in set_aside.items() if what not in reported_before}
        if new_set_aside and "damage" in self.settings.on:
            kinds = describe_set_aside(new_set_aside.values())
            text = f"The run of {record.recipe} is complete and goes on without {kinds}. Its report names them."
            if self.send("damage", text, report=report):
                reported |= dict.fromkeys(new_set_aside, format_now())
        if reported != reported_before:
            try:
                write_named(place, record.recipe, reported)
            except InputError as error:
                self.tell(f"The next run may send this notice again: {error}")


@contextmanager
def report_failure(recipe: Recipe, tell: Tell) -> Iterator[Notifier]:
    """Send a notification if the block raises an exception. The exception is raised again.

    Args:
        recipe: The recipe of the run. Its `[notify]` table determines who is notified.
        tell: Called with each line to print.

    Yields:
        The notifier of the run.
    """
    notifier = Notifier(recipe, tell)
    for line in list_setting_warnings(recipe.notify, os.environ):
        tell(line)
    try:
        yield notifier
    except BaseException as error:
        wait_if_stopping()
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        notifier.send("failure", f"The run of {recipe.name} failed. {reason}")
        raise


def read_recipe_or_notify(path: Path, overrides: Mapping[str, str], tell: Tell) -> Recipe:
    """Read the recipe in a file. If that fails, send a failure notification.

    Args:
        path: The recipe's file.
        overrides: Values that replace settings of the recipe, by key.
        tell: Called with each line to print.

    Raises:
        InputError: If the recipe cannot be read.
    """
    try:
        return read_recipe(path, overrides)
    except InputError as error:
        notify_by_file(path, overrides, str(error), tell)
        raise


def notify_by_file(path: Path, overrides: Mapping[str, str], message: str, tell: Tell) -> None:
    """Send a failure notification according to the `[notify]` table of a recipe, even if the rest is invalid.

    Args:
        path: The recipe's file.
        overrides: Values that replace settings of the recipe, by key.
        message: Why the run failed.
        tell: Called with each line to print.
    """
    try:
        recipe = read_recipe(path, overrides)
        name, settings = recipe.name, recipe.notify
    except InputError:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        name, settings = path.stem, parse_notify_settings(text, overrides)
    notice = Notice(event="failure", recipe=name, text=f"The run of {name} failed. {message}")
    notify(settings, notice, path.parent, tell)


class ActivityMonitor:
    """Collects the signs of a run's progress: the activity of its workers, and the number of output files built.

    Args:
        advance: Callback that receives the arguments of each call of the method `advance`.

    Attributes:
        get_workers_progress: Function that returns a value that changes while workers make progress.
    """

    def __init__(self, advance: Advance) -> None:
        self.get_workers_progress: Callable[[], object] = tuple
        self._advance = advance
        self._built: dict[str, int] = {}

    def advance(self, stage: str, built: int, parts: int) -> None:
        """Record the progress of a stage, and pass it on to the callback.

        Args:
            stage: The pipeline stage's folder, `KIND/NAME`, followed by " steps" if training steps are counted.
            built: The number of parts (output files) or steps done so far.
            parts: The total number of parts or steps.
        """
        self._built[stage] = built
        self._advance(stage, built, parts)

    def snapshot(self) -> object:
        """Return a value that differs from earlier ones as long as the run makes progress."""
        return self.get_workers_progress(), self._built.copy()


@contextmanager
def report_stalls(notifier: Notifier, monitor: ActivityMonitor) -> Iterator[None]:
    """Send a notification whenever the run makes no progress, during the block, for the time set in its recipe.

    One notification is sent for each stall. The run is watched from a background thread.

    Args:
        notifier: The notifier of the run. If it has no recipient, the run is not watched.
        monitor: Collects the signs of progress.
    """
    is_over = threading.Event()
    if notifier.settings.is_enabled and "stall" in notifier.settings.on:
        given = notifier, monitor.snapshot, is_over
        threading.Thread(target=_watch_for_stalls, args=given, name="stalls", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def _watch_for_stalls(notifier: Notifier, snapshot: Callable[[], object], is_over: threading.Event) -> None:
    most = notifier.settings.stall_seconds
    pause = min(MAX_CHECK_SECONDS, most / CHECKS_PER_STALL)
    last_snapshot, unchanged_since, is_reported = snapshot(), time.monotonic(), False
    checked_at = unchanged_since
    while not is_over.wait(pause):
        now, latest = time.monotonic(), snapshot()
        was_suspended = now - checked_at > 10 * pause + 1  # this process, or the machine
        if latest != last_snapshot or was_suspended:
            last_snapshot, unchanged_since, is_reported = latest, now, False
        checked_at = now
        if not is_reported and now - unchanged_since >= most:
            is_reported = True
            name = notifier.recipe.name
            text = f"The run of {name} has shown no progress for {now - unchanged_since:.0f} s. It is still running."
            notifier.tell(text)
            notifier.send("stall", text)
