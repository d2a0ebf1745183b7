"""Files that are already on the disk: whole ones, continued parts, and downloads that end in the middle."""

import errno
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from email.utils import formatdate
from pathlib import Path

import acquire_fixtures
import pytest
from acquire_fixtures import BODY, CHANGED, OTHER, SHA1, get, is_right
from scripted_server import Answer, NewHosts, Site

from corpora.acquire.download import download, explain_write_faults, open_part
from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.http_client import Stopped
from corpora.errors import InputError
from corpora.sources.contract import StatCache

pytestmark = pytest.mark.server

new_hosts, server = acquire_fixtures.new_hosts, acquire_fixtures.server


def test_what_is_there_already_is_not_downloaded_again(server: Site) -> None:
    (server.folder / "a.bin").write_bytes(BODY)
    for kind in ("sha256", "sha1", "md5"):
        known = {kind: hashlib.new(kind, BODY).hexdigest(), "size_bytes": len(BODY)}
        assert is_right(server.get(server.base + "/a", **known), server.folder)
    assert server.asked == []


def test_what_came_is_known_and_not_hashed_again(server: Site) -> None:
    cache, target = StatCache(), server.folder / "a.bin"
    remote = RemoteFile(url=server.serve("/a", Answer(body=BODY, modified=CHANGED)), name="a.bin")
    landed = download(remote, server.folder, server.new_hosts(), cache)
    assert list(cache.entries) == [landed.path, f"fetched: {target}"] and landed.path == str(target)
    cache.entries[landed.path][-1] = "what the cache says"
    assert cache.hash_file(target) == (len(BODY), "what the cache says")
    target.write_bytes(OTHER)
    assert cache.hash_file(target) == (len(BODY), hashlib.sha256(OTHER).hexdigest())


@pytest.mark.parametrize("there", [OTHER, BODY[:1000], b""])
def test_what_another_fetch_brought_is_replaced_and_no_other_file(server: Site, there: bytes) -> None:
    """Fails if a file of somebody's own is lost because a recipe fetches one of its name."""
    target = server.folder / "a.bin"
    target.write_bytes(there)
    remote = RemoteFile(url=server.serve("/a", Answer(body=BODY)), name="a.bin", sha1=SHA1)
    cache = StatCache()
    with pytest.raises(InputError, match=r"a\.bin is in the way.*Move it away, then fetch again"):
        download(remote, server.folder, server.new_hosts(), cache)
    assert target.read_bytes() == there and len(list(server.folder.iterdir())) == 1
    target.rename(server.folder.with_name("away"))
    assert is_right(download(remote, server.folder, server.new_hosts(), cache), server.folder)
    later = RemoteFile(url=server.serve("/a", Answer(body=OTHER)), name="a.bin", sha1=hashlib.sha1(OTHER).hexdigest())
    assert is_right(download(later, server.folder, server.new_hosts(), cache), server.folder, OTHER)


@pytest.mark.parametrize("taken", ["a.bin", "a.bin.part", "a.bin.part.json", ".a.bin.part.json.tmp"])
@pytest.mark.parametrize("by", ["a file", "a link", "a link that leads nowhere", "a folder", "a pipe", "a hard link"])
def test_nothing_that_no_fetch_wrote_is_written_to(server: Site, taken: str, by: str) -> None:
    """Law: whatever stands where a fetch writes stays as it is, and what a link names too. Every place, every kind."""
    own, place = server.folder / "own.txt", server.folder / taken
    own.write_bytes(OTHER)
    makes: dict[str, Callable[[], object]] = {
        "a file": lambda: place.write_bytes(OTHER),
        "a link": lambda: place.symlink_to(own),
        "a link that leads nowhere": lambda: place.symlink_to(server.folder / "nowhere"),
        "a folder": place.mkdir,
        "a pipe": lambda: os.mkfifo(place),
        "a hard link": lambda: place.hardlink_to(own),
    }
    makes[by]()
    before = os.lstat(place)
    scratch = taken.endswith(".tmp") and by != "a folder"  # of a note that a killed fetch began: it goes with the next
    with nullcontext() if scratch else pytest.raises(InputError, match=r"in the way|Cannot write"):
        server.get(server.serve("/a", Answer(body=BODY, etag='"1"')), sha1=SHA1)
    assert own.read_bytes() == OTHER and not (server.folder / "nowhere").exists()
    assert scratch or os.path.samestat(os.lstat(place), before)


def test_a_file_of_which_nothing_is_known_stays_while_the_servers_looks_the_same(server: Site) -> None:
    big = random.Random(5).randbytes(16_000_000)
    url = server.serve("/a", Answer(body=big, modified=CHANGED))
    server.get(url)
    sent = server.num_sent
    assert is_right(server.get(url), server.folder, big)
    assert server.num_sent - sent < len(big)  # its head was looked at
    url = server.serve("/a", Answer(body=BODY, modified=formatdate(1_700_000_001, usegmt=True)))
    with pytest.raises(InputError, match="in the way"):
        server.get(url)


def test_a_part_of_another_address_is_not_continued(server: Site) -> None:
    with pytest.raises(InputError, match="given up"):
        get(server.serve("/a", Answer(body=OTHER, etag='"1"', cut=1_000)), server.folder, server.new_hosts(attempts=1))
    assert is_right(server.get(server.serve("/b", Answer(body=BODY, etag='"1"'))), server.folder)
    assert server.ranges("/b") == [None]


@pytest.mark.parametrize("note", [b"", b"{}", b"[]", b'{"url": 3}', b"\xff", None])
def test_a_part_whose_note_no_fetch_wrote_stays(server: Site, note: bytes | None) -> None:
    (server.folder / "a.bin.part").write_bytes(OTHER[:1000])
    if note is not None:
        (server.folder / "a.bin.part.json").write_bytes(note)
    with pytest.raises(InputError, match="is in the way"):
        server.get(server.serve("/a", Answer(body=BODY, etag='"1"')))
    assert (server.folder / "a.bin.part").read_bytes() == OTHER[:1000]


def test_a_part_that_is_longer_than_its_version_is_begun_anew(server: Site) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"'))
    (server.folder / "a.bin.part").write_bytes(BODY + b"x")
    version = {"url": url, "etag": '"1"', "modified": None, "size_bytes": len(BODY)}
    (server.folder / "a.bin.part.json").write_text(json.dumps(version))
    assert is_right(server.get(url), server.folder)
    assert server.ranges("/a") == [None]


def test_a_part_that_is_whole_needs_no_server(new_hosts: NewHosts, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY)
    version = {"url": "http://127.0.0.1:9/a", "etag": '"1"', "modified": None, "size_bytes": len(BODY)}
    (tmp_path / "a.bin.part.json").write_text(json.dumps(version))
    assert is_right(get("http://127.0.0.1:9/a", tmp_path, new_hosts(), sha1=SHA1), tmp_path)


def test_a_part_has_one_owner(server: Site) -> None:
    remote = RemoteFile(url=server.serve("/a", Answer(body=BODY)), name="a.bin")
    with open_part(server.folder / "a.bin", remote), pytest.raises(InputError, match="by another process"):
        download(remote, server.folder, server.new_hosts())
    assert is_right(download(remote, server.folder, server.new_hosts()), server.folder)


def test_what_the_disk_refuses_is_a_paragraph(server: Site) -> None:
    url = server.serve("/a", Answer(body=BODY))
    (server.folder / "file").write_bytes(b"")
    with pytest.raises(InputError, match="a file is where a folder is needed"):
        get(url, server.folder / "file", server.new_hosts())
    (server.folder / "raw" / "a.bin").mkdir(parents=True)
    with pytest.raises(InputError, match="is in the way"):
        get(url, server.folder / "raw", server.new_hosts())
    with pytest.raises(InputError, match=r"the disk is full.*fetch.folder"), explain_write_faults(server.folder / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_the_disk_cannot_hold_leaves_what_it_could(server: Site) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"'))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(InputError, match=r"larger than is allowed here.*What was received is kept"):
            server.get(url)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert is_right(server.get(url), server.folder)
    assert server.ranges("/a") == [None, "bytes=100000-"]


def test_work_that_is_called_off_leaves_a_part(server: Site) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"', pause=0.05), Answer(body=BODY, etag='"1"'))
    hosts, file = server.new_hosts(), RemoteFile(url=url, name="a.bin")
    with pytest.raises(Stopped):
        download(file, server.folder, hosts, progress=lambda name, here, whole: hosts.stop())
    left = (server.folder / "a.bin.part").stat().st_size
    assert 0 < left < len(BODY)
    assert is_right(server.get(url), server.folder)
    assert server.ranges("/a")[-1] == f"bytes={left}-"


def any_answer(draw: random.Random) -> Answer:
    """One of two versions, each under its own ETag, by a server that may do anything wrong but that."""
    number = draw.randrange(2)
    body = (BODY, OTHER)[number][: 60_000 + 10_000 * number]
    cut = draw.choice([None, draw.randrange(len(body))])
    return Answer(
        body=body,
        status=draw.choice([200] * 8 + [416, 429, 503]),
        etag=draw.choice([f'"{number}"', f'"{number}"', None]),
        cut=cut,
        reset=cut is not None and draw.random() < 0.3,
        ranges=draw.random() < 0.7,
        conditions=draw.random() < 0.7,
        chunked=draw.random() < 0.3,
        content_range=draw.choice([None, None, None, "bytes 7-9/70000"]),
    )


def test_whatever_a_server_does_the_bytes_are_those_of_one_version(server: Site) -> None:
    outcomes: Counter[str] = Counter()
    hosts = server.new_hosts(attempts=8, most_seconds=0.01)
    for seed in range(60):
        draw = random.Random(seed)
        url = server.serve(f"/{seed}", *(any_answer(draw) for _ in range(draw.randrange(1, 8))))
        promise = {"sha1": hashlib.sha1(BODY[:60_000]).hexdigest()} if seed % 2 else {}
        try:
            landed = get(url, server.folder / str(seed), hosts, **promise)
        except InputError:
            outcomes["an error"] += 1
            assert not (server.folder / str(seed) / "a.bin").exists()
            continue
        here = (server.folder / str(seed) / "a.bin").read_bytes()
        assert here == BODY[:60_000] or (not promise and here == OTHER[:70_000]), seed
        assert landed.sha256 == hashlib.sha256(here).hexdigest()
        outcomes["right, by " + ("a range" if any(server.ranges(f"/{seed}")) else "one reply")] += 1
    assert len(outcomes) == 3 and min(outcomes.values()) >= 5, outcomes


KILLED = """
import sys
from pathlib import Path
from corpora.acquire.download import download
from corpora.acquire.http_client import Hosts
from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.fetch_table import AcquireSettings

url, folder = sys.argv[1:]
settings = AcquireSettings(catalogue="urls", urls=(url,))
download(RemoteFile(url=url, name="a.bin"), Path(folder), Hosts(settings))
"""


def test_a_killed_download_is_continued(server: Site) -> None:
    stalled = Answer(body=BODY, etag='"1"', cut=150_000, stall=3_600)
    url = server.serve("/a", stalled, Answer(body=BODY, etag='"1"'))
    part = server.folder / "a.bin.part"
    process = subprocess.Popen([sys.executable, "-c", KILLED, url, str(server.folder)], cwd=Path(__file__).parents[3])
    try:
        deadline = time.monotonic() + 120
        while not (server.num_sent == 150_000 and part.exists() and part.stat().st_size > 100_000):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    left, before = part.stat().st_size, server.num_sent
    assert 100_000 < left < len(BODY)
    assert is_right(server.get(url), server.folder)
    assert server.num_sent - before == len(BODY) - left
    assert server.ranges("/a") == [None, f"bytes={left}-"]
