"""Presence: which processes work with a store now, written to a file of the store, which any machine can read.

The file names the process and the time of its last report. Promise: of a process of this machine, as it was started
last, it is certain whether it lives; one of another machine is taken to live as long as it reports. So nothing that is
read here depends on a clock, except for other machines' processes. A presence that cannot be written once is written
next time: nothing that it protects is decided by one beat.

Cost: one small file, written at most once a second in a folder, every ten seconds in an object store.

Holds on artifacts: nobody removes what a reader holds (`cloze gc`).

A hold is the system's shared lock on the artifact's manifest, so it needs no permission to write and ends with the
process, however that goes. Object stores and some network file systems know no locks: there nothing is held, and what
goes is decided by age.
"""

import errno
import fcntl
import json
import os
import platform
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from corpora.errors import InputError
from corpora.store.places.files import NO_LOCK_ERRORS, read_machine_id, remove_empty_folders, try_lock
from corpora.store.places.place import Place
from corpora.store.processes import is_alive, read_start_ticks
from corpora.store.stage import MANIFEST

POLL_SECONDS, OBJECT_POLL_SECONDS = 1.0, 10.0  # between two looks at what there is to report
HEARTBEAT_SECONDS = 20.0  # how often to report that nothing has changed
MAX_SILENT_SECONDS = 600.0  # a process of another machine that did not report for so long is gone
MAX_END_SECONDS = 5.0  # to wait for a beat that is on its way; one that a dead disk holds ends later


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process as other machines identify it.

    machine: tells a machine, since it was started, and what numbers its processes have, from others
    began:   when the system started it, for a number is given again
    """

    host: str
    machine: str
    pid: int
    began: int

    def is_gone(self, silent_seconds: float) -> bool:
        """True if it has ended. silent: seconds since its last report."""
        here = identify_this_process()
        if self.machine == here.machine:
            return not is_alive(self.pid) or read_start_ticks(self.pid) != self.began
        return silent_seconds > MAX_SILENT_SECONDS


def identify_this_process() -> Process:
    """Return the process that asks."""
    pid = os.getpid()
    return Process(
        host=platform.node(),
        machine=f"{read_machine_id()}-{_read_pid_namespace()}",
        pid=pid,
        began=read_start_ticks(pid),
    )


def _read_pid_namespace() -> str:
    """Return what tells containers of one machine apart: in each a number means another process."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A process's last report on itself. heard: when, by its clock; silent: seconds since then, by this machine's"""

    process: Process
    time: datetime
    silent_seconds: float
    report: Mapping[str, Any]

    @property
    def is_gone(self) -> bool:
        """True if the process has ended."""
        return self.process.is_gone(self.silent_seconds)


def read_heartbeat(place: Place, path: str) -> Heartbeat | None:
    """Return what a process reported in a file; None without a file, or if it holds no report."""
    try:
        fields = json.loads(place.read(path))
        time = datetime.fromisoformat(fields["beat"])
        silent_seconds = max(0.0, (datetime.now(UTC) - time).total_seconds())
        return Heartbeat(
            process=Process(**fields["process"]), time=time, silent_seconds=silent_seconds, report={**fields["said"]}
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


class HeartbeatWriter:
    """This process's report on itself in a file of a store, until it ends.

    say: gives what to report, from a thread of its own
    Raises InputError where the file cannot be written at first.
    """

    def __init__(self, place: Place, path: str, build_report: Callable[[], Mapping[str, Any]]) -> None:
        self._place, self._path, self._build_report = place, path, build_report
        self._process = asdict(identify_this_process())
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._report: Mapping[str, Any] = {}
        self._written = 0.0
        self.write_now()
        threading.Thread(target=self._run, name="presence", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def write_now(self) -> None:
        """Have the current report in the file when this returns. Raises InputError where it cannot be written."""
        self._write(self._build_report())

    def stop(self, keep: bool = False) -> None:
        """Report nothing more, and remove the report. May be called again, and from any thread.

        keep: the report remains
        """
        self._stopped.set()
        if keep:
            return
        is_locked = self._lock.acquire(timeout=MAX_END_SECONDS)
        with suppress(FileNotFoundError, InputError):  # what remains names its process, which is gone soon
            self._place.delete(self._path)
        if self._place.is_local:
            remove_empty_folders(Path(self._place.to_full_path(self._path)).parent, Path(self._place.to_full_path("")))
        if is_locked:
            self._lock.release()

    def _run(self) -> None:
        pause = POLL_SECONDS if self._place.is_local else OBJECT_POLL_SECONDS
        while not self._stopped.wait(pause):
            report = self._build_report()
            if report != self._report or time.monotonic() - self._written > HEARTBEAT_SECONDS:
                with suppress(InputError):  # written the next time
                    self._write(report)

    def _write(self, report: Mapping[str, Any]) -> None:
        fields = {"process": self._process, "beat": datetime.now(UTC).isoformat(timespec="seconds"), "said": report}
        with self._lock:
            if not self._stopped.is_set():
                self._place.write(self._path, json.dumps(fields, indent=1, ensure_ascii=False).encode())
                self._report, self._written = report, time.monotonic()


class ArtifactHold:
    """The artifact in a folder is read as long as this lives, or a copy of it in another process.

    Raises InputError where it is being removed.
    """

    def __init__(self, place: Place, folder: str) -> None:
        self._place, self._folder = place, folder
        if place.is_local:
            _lock_shared(self, place.to_full_path(f"{folder}/{MANIFEST}"))

    def __reduce__(self) -> Any:
        return ArtifactHold, (self._place, self._folder)


def _lock_shared(owner: object, path: str) -> None:
    """Have a file locked together with others until its owner is gone; a file that is not there is not."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        os.close(number)
        if error.errno in NO_LOCK_ERRORS:
            return
        if error.errno != errno.EWOULDBLOCK:
            raise
        raise InputError(
            f"{path} is being removed by `cloze gc`: no run needs it any more. Read what the newest run built."
        ) from error
    weakref.finalize(owner, os.close, number)


def remove_unless_held(place: Place, folder: str) -> bool:
    """Remove the manifest of an artifact, unless somebody holds it; return whether it is gone."""
    path = f"{folder}/{MANIFEST}"
    if not place.is_local:
        place.delete(path)
        return True
    try:
        with Path(place.to_full_path(path)).open("rb") as file:
            try:
                if not try_lock(file):
                    return False
            except OSError as error:
                if error.errno not in NO_LOCK_ERRORS:
                    raise
            place.delete(path)  # while it is locked: a reader that opened it meanwhile notices
    except FileNotFoundError:
        return True
    return True


def is_held(place: Place, folder: str) -> bool:
    """True if somebody reads the artifact in a folder; False where nothing can be held."""
    if not place.is_local:
        return False
    try:
        with Path(place.to_full_path(f"{folder}/{MANIFEST}")).open("rb") as file:
            return not try_lock(file)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCK_ERRORS:
            raise
        return False
