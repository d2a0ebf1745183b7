"""Heartbeats show which processes are working with a store, and holds show which artifacts are being read.

Heartbeats: a process regularly writes a file to the store that identifies the process and states the time. Promise:
whether a process of this machine (since its last restart) is alive is known for certain. A process of another machine
counts as alive as long as it reports, so clocks matter only for other machines' processes. If one heartbeat cannot be
written, the next one is, and no decision depends on a single one. Cost: one small file, written at most once a second
in a folder, every ten seconds in an object store.

Holds: nobody removes an artifact that a reader holds (`cloze gc`). A hold is the system's shared lock on the artifact's
manifest, so it needs no write permission, and ends with the process, however the process ends. Object stores and some
network file systems do not support locks. There, nothing is held, and artifacts are removed by their age.
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
    """Identifies a process across machines.

    Attributes:
        host: Host name of its machine, for messages.
        machine: Identifies the machine until its next restart, and the process's pid namespace.
        pid: The process id.
        began: Start time in clock ticks since boot. It distinguishes processes that get the same pid one after another.
    """

    host: str
    machine: str
    pid: int
    began: int

    def is_gone(self, silent_seconds: float) -> bool:
        """Return True if the process has ended.

        Args:
            silent_seconds: Time since its last report. It is used only if the process is on another machine. Such a
                process is presumed to have ended after MAX_SILENT_SECONDS.
        """
        here = identify_this_process()
        if self.machine == here.machine:
            return not is_alive(self.pid) or read_start_ticks(self.pid) != self.began
        return silent_seconds > MAX_SILENT_SECONDS


def identify_this_process() -> Process:
    """Build the identity of the calling process, which is unique across machines."""
    pid = os.getpid()
    return Process(
        host=platform.node(),
        machine=f"{read_machine_id()}-{_read_pid_namespace()}",
        pid=pid,
        began=read_start_ticks(pid),
    )


def _read_pid_namespace() -> str:
    """Return the pid namespace of this process, or "" if it is unknown. Each container may have its own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The last report of a process. Processes repeat their reports to show that they are alive.

    Attributes:
        process: The process that reported.
        time: Time of the report according to the clock of the process's machine.
        silent_seconds: Time since the report according to the clock of this machine. Never negative.
        report: The content of the report, as returned by `HeartbeatWriter`'s `build_report`.
    """

    process: Process
    time: datetime
    silent_seconds: float
    report: Mapping[str, Any]

    @property
    def is_gone(self) -> bool:
        """True if the process has ended. See `Process.is_gone`."""
        return self.process.is_gone(self.silent_seconds)


def read_heartbeat(place: Place, path: str) -> Heartbeat | None:
    """Read the last report of a process from a file; None if the file is missing, unreadable or invalid."""
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
    """Writes reports on this process (heartbeats) to a file of a store, from a background thread.

    It reports until `stop` is called or the `with` block ends. A report is written whenever it has changed, and every
    HEARTBEAT_SECONDS otherwise. If a report cannot be written, the writer tries again later.

    Args:
        place: The store.
        path: Path of the file, relative to the store.
        build_report: Returns the current report, which must be JSON-serializable. It is called from the background
            thread and by `write_now`. If it raises an exception in the thread, reporting ends.

    Raises:
        InputError: If the first report cannot be written.
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
        """Write the current report immediately, on the calling thread.

        Raises:
            InputError: If it cannot be written.
        """
        self._write(self._build_report())

    def stop(self, keep: bool = False) -> None:
        """Stop reporting and remove the file. This method is thread-safe and can be called more than once.

        No error is raised if the file cannot be removed.

        Args:
            keep: If True, the file with the last report is not removed.
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
    """A lease on an artifact: protects it from removal while this object exists.

    Pickled copies protect it in their processes, too. If the artifact does not exist, or its file system does not
    support locks (as in object stores), it is not protected, and no error is raised.

    Args:
        place: The store.
        folder: The folder of the artifact in the store, `KIND/NAME/FINGERPRINT`.

    Raises:
        InputError: If the artifact is being removed at this moment.
    """

    def __init__(self, place: Place, folder: str) -> None:
        self._place, self._folder = place, folder
        if place.is_local:
            _lock_shared(self, place.to_full_path(f"{folder}/{MANIFEST}"))

    def __reduce__(self) -> Any:
        return ArtifactHold, (self._place, self._folder)


def _lock_shared(owner: object, path: str) -> None:
    """Hold a shared lock on a file until `owner` is garbage-collected.

    Does nothing if the file does not exist or its file system does not support locks.

    Raises:
        InputError: If another process has an exclusive lock on the file, because it is removing the artifact.
    """
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
    """Remove the manifest of an artifact, unless an `ArtifactHold` protects it.

    Args:
        place: The store.
        folder: The folder of the artifact in the store, `KIND/NAME/FINGERPRINT`.

    Returns:
        True if the manifest was removed or was already missing, False if it is protected.

    Raises:
        FileNotFoundError: If an object store reports that the manifest is missing.
        InputError: If the manifest cannot be removed.
    """
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
    """Return True if an `ArtifactHold` protects the artifact in a folder, `KIND/NAME/FINGERPRINT`.

    The result is False if the store does not support locks, or if there is no such artifact.
    """
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
