"""A run that tells somebody: how it failed, that it stands still, which bounds it crossed.

    failure_told(recipe, tell)   for the time of the block whatever ends it with an exception is told
    stall_told(notifier, ...)    for the time of the block a thread looks for signs of life

A run that is stopped by a signal tells nobody: who stops it knows. Of a process that is killed the one that started it
tells (`scheduled_run.py`). Cost: nothing where nobody is to be told; else a thread that looks every few seconds.
"""

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from corpora.errors import InputError
from corpora.store.files import replaced_file
from corpora.store.places import Place
from corpora.store.settings import bind
from flows.recipes.notify import NotifySettings, notify_of_file
from flows.recipes.recipe import Recipe, read_recipe
from flows.run.notices import Notice, Tell, notify, settings_at_work
from flows.run.records import RunRecord
from flows.stopping import give_way

Advance = Callable[[str, int, int], None]

LOOKS = 20  # at the signs of life in the time after which a run is said to stand still
MOST_LOOK_SECONDS = 10.0


class Notifier:
    """Who is told of a run. run_id: as soon as it has one"""

    def __init__(self, recipe: Recipe, tell: Tell) -> None:
        self.run_id = ""
        self._recipe = recipe
        self._tell = tell

    @property
    def settings(self) -> NotifySettings:
        """Those of the recipe."""
        return self._recipe.notify

    def failed(self, error: BaseException) -> None:
        """The run failed."""
        self._send("failure", f"The run of {self._recipe.name} failed. {in_a_paragraph(error)}")

    def stands_still(self, seconds: float) -> None:
        """The run shows no sign of life."""
        said = f"The run of {self._recipe.name} has shown no progress for {seconds:.0f} s. It is still running."
        self._tell(said)
        self._send("stall", said)

    def crossed(self, record: RunRecord, report: str) -> None:
        """The run is complete, and crosses bounds of its recipe."""
        told = "; ".join(record.crossed)
        text = f"The run of {record.recipe} is complete and crosses {len(record.crossed)} of its bounds. {told}."
        self._send("bounds", text, bounds=record.crossed, report=report)

    def _send(self, event: str, text: str, bounds: tuple[str, ...] = (), report: str = "") -> None:
        notice = Notice(
            event=event,
            recipe=self._recipe.name,
            text=text,
            store=Place(self._recipe.store).at(""),
            run=self.run_id,
            bounds=bounds,
            report=report,
        )
        notify(self.settings, notice, folder_of(self._recipe), self._tell)


def folder_of(recipe: Recipe) -> Path:
    """The folder in which a recipe's command runs."""
    return recipe.path.parent if recipe.path is not None and recipe.path.parent.is_dir() else Path.cwd()


def in_a_paragraph(error: BaseException) -> str:
    """An error for people, without its traceback."""
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"


@contextmanager
def failure_told(recipe: Recipe, tell: Tell) -> Iterator[Notifier]:
    """For the time of the block: whoever is to be told hears of what ends it with an exception, which is raised on."""
    notifier = Notifier(recipe, tell)
    for line in settings_at_work(recipe.notify, os.environ):
        tell(line)
    ended = False
    try:
        yield notifier
        ended = True
    finally:
        error = sys.exception()
        if not ended and error is not None:
            give_way()
            notifier.failed(error)


def read_or_tell(path: Path, overrides: Mapping[str, str], home: Path, tell: Tell) -> Recipe:
    """The recipe in a file; where it cannot be read, whoever is to be told hears of it. Raises InputError."""
    try:
        recipe = read_recipe(path, overrides)
    except InputError as error:
        tell_by_file(path, overrides, home, str(error), tell)
        raise
    keep_notify(recipe, path, home, tell)
    return recipe


def tell_by_file(path: Path, overrides: Mapping[str, str], home: Path, message: str, tell: Tell) -> None:
    """Tell who is to be told by a recipe's file that its run failed, whatever is wrong with the file.

    It counts what the file says, and where that cannot be read, what it said when it was read last.
    """
    kept = notify_kept(path, home)
    name, settings = kept if kept is not None else (path.stem, NotifySettings())
    in_file = notify_of_file(path)
    if in_file is not None and not any(key.partition(".")[0] == "notify" for key in overrides):
        settings = in_file
    if settings.somebody:
        notice = Notice(event="failure", recipe=name, text=f"The run of {name} failed. {message}")
        notify(settings, notice, path.parent, tell)


def keep_notify(recipe: Recipe, path: Path, home: Path, tell: Tell) -> None:
    """Keep who is to be told of a recipe, for a day on which its file cannot be read."""
    kept = _kept_at(path, home)
    data = json.dumps({"recipe": recipe.name, "path": str(path), "notify": asdict(recipe.notify)}).encode()
    try:
        if not kept.exists() or kept.read_bytes() != data:
            kept.parent.mkdir(exist_ok=True)
            with replaced_file(kept) as new:
                new.write_bytes(data)
    except OSError as error:
        tell(f"Who is to be told where {path} cannot be read could not be kept: {error.strerror}.")


def notify_kept(path: Path, home: Path) -> tuple[str, NotifySettings] | None:
    """The name of a recipe, and who was to be told of it, when its file was read last; None where it never was."""
    try:
        fields = json.loads(_kept_at(path, home).read_bytes())
        return str(fields["recipe"]), bind(NotifySettings, fields["notify"], "notify")
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None


def _kept_at(path: Path, home: Path) -> Path:
    return home / "prefect" / "notify" / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"


class LifeSigns:
    """LifeSigns of life of a run: what its workers work on, and how far its stages and its training are."""

    def __init__(self, advance: Advance) -> None:
        self.workers: Callable[[], object] = tuple
        self._advance = advance
        self._built: dict[str, int] = {}

    def advance(self, stage: str, built: int, parts: int) -> None:
        """More of a stage is there; said on."""
        self._built[stage] = built
        self._advance(stage, built, parts)

    def look(self) -> object:
        """A value that changes as long as the run goes on."""
        return self.workers(), self._built.copy()


@contextmanager
def stall_told(notifier: Notifier, signs: LifeSigns) -> Iterator[None]:
    """For the time of the block: where signs of life stay the same for long, somebody is told, once each time."""
    settings = notifier.settings
    if not settings.somebody or "stall" not in settings.on:
        yield
        return
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(notifier, signs.look, over), name="stalls", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()


def _watch(notifier: Notifier, signs: Callable[[], object], over: threading.Event) -> None:
    most = notifier.settings.stall_seconds
    pause = min(MOST_LOOK_SECONDS, most / LOOKS)
    seen, since, told = signs(), time.monotonic(), False
    looked = since
    while not over.wait(pause):
        now, found = time.monotonic(), signs()
        if found != seen or now - looked > 10 * pause + 1:  # we were stopped ourselves, or the machine slept
            seen, since, told = found, now, False
        looked = now
        if not told and now - since >= most:
            told = True
            notifier.stands_still(now - since)
