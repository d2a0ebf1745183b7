"""Many files at once: each host gets its few connections, and one file that fails stops no other.

Promises: what came is whole and verified; what did not come is counted in one error at the end, the first twenty named
with their reasons. Ctrl-C leaves parts that the next fetch resumes, where their server can send the rest. The outcome
does not depend on which file came first.
Costs: a thread for each connection, 32 at most.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

from corpora.acquire.download import ProgressCallback, download, no_progress
from corpora.acquire.hosts import Hosts, Stopped, host_of
from corpora.acquire.remote import RemoteFile
from corpora.errors import InputError
from corpora.sources.contract import RawFile, StatCache

THREADS = 32
SHOWN_FAULTS = 20
LAST_SECONDS = 2.0  # how long a thread may take to put down what it holds when the work is called off


class NotAllFetched(InputError):
    """Some files did not come. `landed`: those that did."""

    def __init__(self, message: str, landed: Sequence[RawFile]) -> None:
        super().__init__(message)
        self.landed = tuple(landed)


def fetch_files(
    files: Sequence[RemoteFile],
    folder: Path,
    hosts: Hosts,
    cache: StatCache | None = None,
    progress: ProgressCallback = no_progress,
) -> list[RawFile]:
    """All files, in `folder` under their names, in their order. Raises NotAllFetched when the others are done.

    progress: called from several threads with a file's name, the bytes of it that are here, and its length or None
    """
    work = _Work(files, hosts, folder, cache if cache is not None else StatCache(), progress)
    limit = hosts.settings.connections_per_host * len({work.host(file) for file in files})
    threads = [threading.Thread(target=work.run, daemon=True) for _ in range(min(THREADS, limit, len(files)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        hosts.stop()
        for thread in threads:
            thread.join(LAST_SECONDS / len(threads))
        raise
    return work.result()


class _Work:
    """The files that are still to be fetched, taken one by one as their hosts have a connection left."""

    def __init__(
        self, files: Sequence[RemoteFile], hosts: Hosts, folder: Path, cache: StatCache, progress: ProgressCallback
    ) -> None:
        self._files, self._hosts, self._folder, self._cache, self._progress = files, hosts, folder, cache, progress
        self._waiting = list(files)
        self._busy: dict[str, int] = {}
        self._changed = threading.Condition()
        self._landed: dict[str, RawFile] = {}
        self._faults: dict[str, str] = {}

    def host(self, file: RemoteFile) -> str:
        """Return the host that is asked for a file first."""
        return host_of(self._hosts.settings.at(file.url))

    def run(self) -> None:
        """Do the work of one thread: fetch files, until there are none."""
        while (file := self._take()) is not None:
            try:
                self._landed[file.name] = download(file, self._folder, self._hosts, self._cache, self._progress)
            except InputError as error:
                self._faults[file.name] = str(error)
            except Stopped:
                return
            finally:
                self._give_back(file)

    def _take(self) -> RemoteFile | None:
        """The first file whose host has a connection left; waits for one. None when all are taken."""
        with self._changed:
            while self._waiting:
                for place, file in enumerate(self._waiting):
                    if self._busy.get(self.host(file), 0) < self._hosts.settings.connections_per_host:
                        self._busy[self.host(file)] = self._busy.get(self.host(file), 0) + 1
                        return self._waiting.pop(place)
                self._changed.wait()
        return None

    def _give_back(self, file: RemoteFile) -> None:
        with self._changed:
            self._busy[self.host(file)] -= 1
            self._changed.notify_all()

    def result(self) -> list[RawFile]:
        """The files that came. Raises NotAllFetched."""
        self._hosts.check_stopped()
        landed = [self._landed[file.name] for file in self._files if file.name in self._landed]
        assert len(landed) + len(self._faults) == len(self._files), "a thread ended before its files did"
        if not self._faults:
            return landed
        named = [f"- {self._faults[file.name]}" for file in self._files if file.name in self._faults]
        more = [f"- and {len(named) - SHOWN_FAULTS} more"] if len(named) > SHOWN_FAULTS else []
        raise NotAllFetched(
            f"{len(named)} of {len(self._files)} files could not be fetched; the others are in {self._folder}, and "
            "the same command fetches what is missing:\n" + "\n".join([*named[:SHOWN_FAULTS], *more]),
            landed,
        )
