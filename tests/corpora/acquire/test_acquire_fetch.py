"""Many files at once: few connections a host, one back-off a host, and nothing lost where one fails."""

import hashlib
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import acquire_fixtures
import pytest
from scripted_server import Answer, NewHosts, ScriptedServer, Site, scripted_server

from corpora.acquire.fetch import NotAllFetched, fetch_files
from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.http_client import Attempts, TransientFault
from corpora.errors import InputError
from corpora.sources.contract import StatCache

pytestmark = pytest.mark.server
new_hosts, server = acquire_fixtures.new_hosts, acquire_fixtures.server


def publish(server: ScriptedServer, num_files: int, **how: Any) -> list[RemoteFile]:
    """Files of 100 kB on the server."""
    return [
        RemoteFile(url=server.serve(f"/{n}", Answer(body=body(n), etag=f'"{n}"', **how)), name=f"{n}.bin")
        for n in range(num_files)
    ]


def body(number: int) -> bytes:
    return number.to_bytes(4, "big") * 25_000


def test_files_come_in_order_by_few_connections(server: Site) -> None:
    files = publish(server, 20, pause=0.005)
    told: dict[str, int] = {}
    landed = fetch_files(
        files,
        server.folder,
        server.new_hosts(connections_per_host=3),
        progress=lambda name, here, whole: told.update({name: here}),
    )
    assert [(file.name, file.sha256) for file in landed] == [
        (f"{n}.bin", hashlib.sha256(body(n)).hexdigest()) for n in range(20)
    ]
    assert server.most_at_once == 3
    assert told == {f"{n}.bin": 100_000 for n in range(20)}


def test_each_host_has_its_own_connections(server: Site) -> None:
    """A host with many files that has not ended one does not hold up another one."""
    fetched = threading.Event()
    with scripted_server() as quick:
        slow = publish(server, 4, until=fetched)
        url = quick.serve("/quick", Answer(body=b"quick"))
        seen: list[str] = []

        def note(name: str, here: int, whole: int | None) -> None:
            if here == whole:
                seen.append(name)
            if name == "quick":
                fetched.set()

        files = [*slow, RemoteFile(url=url, name="quick")]
        fetch_files(files, server.folder, server.new_hosts(connections_per_host=1), progress=note)
        assert seen[0] == "quick" and len(seen) == 5
        assert server.most_at_once == 1


def test_429_for_one_file_holds_back_the_whole_host(server: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts, held, times = server.new_hosts(), threading.Event(), list[float]()
    hold_back = hosts.hold_back

    def noted(host: str, seconds: float) -> None:
        times.append(time.monotonic())
        hold_back(host, seconds)
        held.set()

    monkeypatch.setattr(hosts, "hold_back", noted)
    files = publish(server, 6)
    server.script["/0"].insert(0, Answer(status=429, headers={"Retry-After": "1"}))
    server.script["/1"][0] = Answer(body=body(1), until=held)  # on its way when the 429 comes
    fetch_files(files, server.folder, hosts)
    _, _, *later = sorted(asked.seconds for asked in server.asked)
    assert len(later) == 5 and len(times) == 1
    assert min(later) >= times[0] + 1


def test_a_host_is_held_back_by_the_last_attempt_at_a_file_too(
    new_hosts: NewHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a host that said "too many" is asked for the next file at once because this one is given up."""
    hosts, held = new_hosts(attempts=1), list[tuple[str, float]]()
    monkeypatch.setattr(hosts, "hold_back", lambda host, seconds: held.append((host, seconds)))

    def busy() -> None:
        raise TransientFault("429", "example.org", 3.0)

    with pytest.raises(InputError, match="given up after 1 failed attempts"):
        Attempts(hosts, "https://example.org/a").run(busy)
    assert held == [("example.org", 3.0)]


def test_what_fails_is_named_and_the_others_come(server: Site) -> None:
    files = publish(server, 5)
    server.serve("/1", Answer(status=404))
    server.serve("/3", Answer(status=500))
    cache = StatCache()
    with pytest.raises(NotAllFetched) as failed:
        fetch_files(files, server.folder, server.new_hosts(), cache)
    assert [file.name for file in failed.value.landed] == ["0.bin", "2.bin", "4.bin"]
    assert all((server.folder / file.name).read_bytes() for file in failed.value.landed)
    said = str(failed.value)
    assert "2 of 5 files" in said and "/1: the server answers 404" in said and "/3: given up" in said
    server.serve("/1", Answer(body=body(1)))
    server.serve("/3", Answer(body=body(3)))
    assert len(fetch_files(files, server.folder, server.new_hosts(), cache)) == 5


# A shell starts what it sends to the background with SIGINT ignored, and children inherit that.
INTERRUPTED = """
import signal
import sys
from pathlib import Path
from corpora.acquire.fetch import fetch_files
from corpora.acquire.http_client import Hosts, Patience
from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.fetch_table import AcquireSettings

signal.signal(signal.SIGINT, signal.default_int_handler)
base, folder = sys.argv[1:]
files = [RemoteFile(url=f"{base}/{n}", name=f"{n}.bin") for n in range(4)]
settings = AcquireSettings(catalogue="urls", urls=(base,))
fetch_files(files, Path(folder), Hosts(settings, Patience(silent_seconds=3_600)))
"""


def test_ctrl_c_ends_at_once_and_leaves_parts_to_resume(server: Site) -> None:
    """Also where a server has stalled, which a thread would wait for: here an hour."""
    files = publish(server, 4)
    for n in range(2):
        server.script[f"/{n}"].insert(0, Answer(body=body(n), etag=f'"{n}"', cut=50_000, stall=3_600))
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, server.base, str(server.folder)],
        cwd=Path(__file__).parents[3],
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 120
        while sum(path.stat().st_size for path in server.folder.glob("*.part")) < 100_000:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert b"KeyboardInterrupt" in said
    before = server.num_sent
    landed = fetch_files(files, server.folder, server.new_hosts())
    assert [file.sha256 for file in landed] == [hashlib.sha256(body(n)).hexdigest() for n in range(4)]
    assert sum(asked.range == "bytes=50000-" for asked in server.asked) == 2
    assert server.num_sent - before == 300_000
