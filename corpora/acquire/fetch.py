"""Many files at once: each host gets its few connections, and one file that fails stops no other.

Promises: downloaded files are whole and verified. Files that could not be downloaded are counted in one error at the
end, which names the first twenty with their reasons. Ctrl-C leaves parts that the next fetch resumes, if the server can
send the rest. The result does not depend on the order in which files arrive. Costs: a thread for each connection, 32 at
most.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

from corpora.acquire.download import ProgressCallback, download, ignore_progress
from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.http_client import Hosts, Stopped, find_host
from corpora.errors import InputError
from corpora.sources.contract import RawFile, StatCache

MAX_THREADS = 32
MAX_SHOWN_FAULTS = 20
STOP_SECONDS = 2.0  # how long a thread may take to put down what it holds when the work is called off


class NotAllFetched(InputError):
    """Raised if some files could not be downloaded. `landed` contains the files that were."""

    def __init__(self, message: str, landed: Sequence[RawFile]) -> None:
        super().__init__(message)
        self.landed = tuple(landed)


def fetch_files(
    files: Sequence[RemoteFile],
    folder: Path,
    hosts: Hosts,
    cache: StatCache | None = None,
    progress: ProgressCallback = ignore_progress,
) -> list[RawFile]:
    """Download files into a folder, using several threads and connections.

    Args:
        files: The files to download.
        folder: Folder to download to. It is created if necessary.
        hosts: HTTP client to download with.
        cache: Cache of sha256 digests by file size, times and inode, to which the files are added. If None, a new one
            is used.
        progress: Called from several threads with a file's name, the number of bytes downloaded so far, and its total
            size, or None if it is unknown.

    Returns:
        The downloaded files, in the order of `files`.

    Raises:
        NotAllFetched: If some files could not be downloaded. It is raised after all other files are done.
    """
    hashes = cache if cache is not None else StatCache()
    landed: dict[str, RawFile] = {}
    faults: dict[str, str] = {}
    by_host: dict[str, list[RemoteFile]] = {}
    for file in files:
        by_host.setdefault(find_host(hosts.settings.to_mirror(file.url)), []).append(file)
    # A lane is one connection to a host, and all lanes of a host share what is left of its files.
    lanes = [lane for own in by_host.values() for lane in [iter(own)] * hosts.settings.connections_per_host]
    left = iter(lanes)

    def work() -> None:
        for lane in left:
            for file in lane:
                try:
                    landed[file.name] = download(file, folder, hosts, hashes, progress)
                except InputError as error:
                    faults[file.name] = str(error)
                except Stopped:
                    return

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(MAX_THREADS, len(lanes), len(files)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        hosts.stop()
        for thread in threads:
            thread.join(STOP_SECONDS / len(threads))
        raise
    assert len(landed) + len(faults) == len(files), "a thread ended before its files did"
    came = [landed[file.name] for file in files if file.name in landed]
    if not faults:
        return came
    named = [f"- {faults[file.name]}" for file in files if file.name in faults]
    more = [f"- and {len(named) - MAX_SHOWN_FAULTS} more"] if len(named) > MAX_SHOWN_FAULTS else []
    raise NotAllFetched(
        f"{len(named)} of {len(files)} files could not be fetched; the others are in {folder}, and the same command "
        "fetches what is missing:\n" + "\n".join([*named[:MAX_SHOWN_FAULTS], *more]),
        came,
    )
