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
from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.http_client import Hosts, Stopped, host_of
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
    hashes = cache if cache is not None else StatCache()
    landed: dict[str, RawFile] = {}
    faults: dict[str, str] = {}
    by_host: dict[str, list[RemoteFile]] = {}
    for file in files:
        by_host.setdefault(host_of(hosts.settings.at(file.url)), []).append(file)
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

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(THREADS, len(lanes), len(files)))]
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
    assert len(landed) + len(faults) == len(files), "a thread ended before its files did"
    came = [landed[file.name] for file in files if file.name in landed]
    if not faults:
        return came
    named = [f"- {faults[file.name]}" for file in files if file.name in faults]
    more = [f"- and {len(named) - SHOWN_FAULTS} more"] if len(named) > SHOWN_FAULTS else []
    raise NotAllFetched(
        f"{len(named)} of {len(files)} files could not be fetched; the others are in {folder}, and the same command "
        "fetches what is missing:\n" + "\n".join([*named[:SHOWN_FAULTS], *more]),
        came,
    )
