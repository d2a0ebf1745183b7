"""One file against a server that misbehaves: the right bytes, or an error that says what is wrong."""

import errno
import hashlib
import json
import os
import random
import resource
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import datetime
from email.utils import formatdate
from pathlib import Path

import acquire_fixtures
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from scripted_server import Answer, NewHosts, ScriptedServer

from corpora.acquire.download import download
from corpora.acquire.hosts import Absent, Hosts, Stopped, _redirected
from corpora.acquire.part import open_part, part_paths, writable
from corpora.acquire.remote import RemoteFile
from corpora.errors import InputError
from corpora.sources.source import RawFile, StatCache

pytestmark = pytest.mark.server
new_hosts, server = acquire_fixtures.new_hosts, acquire_fixtures.server
BODY = random.Random(1).randbytes(300_000)
OTHER = random.Random(2).randbytes(300_000)
SHA1 = hashlib.sha1(BODY).hexdigest()
CHANGED = formatdate(1_700_000_000, usegmt=True)


def get(url: str, folder: Path, hosts: Hosts, **known: object) -> RawFile:
    """Download a file called a.bin of which this is known."""
    return download(RemoteFile(url=url, name="a.bin", **known), folder, hosts)  # type: ignore[arg-type]


def is_right(landed: RawFile, folder: Path, body: bytes = BODY) -> bool:
    """Whether the body is there, alone, and what is said of it is true."""
    said = (landed.name, landed.size_bytes, landed.sha256)
    true = ("a.bin", len(body), hashlib.sha256(body).hexdigest())
    return said == true and (folder / "a.bin").read_bytes() == body and names(folder) == ["a.bin"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_with_its_time_and_in_its_own_bytes(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    url = server.serve("/a", Answer(body=BODY, modified=CHANGED))
    hosts = new_hosts(user_agent="cloze-test (mail@example.org)")
    assert is_right(get(url, tmp_path / "new" / "raw", hosts, sha1=SHA1), tmp_path / "new" / "raw")
    assert (tmp_path / "new" / "raw" / "a.bin").stat().st_mtime == 1_700_000_000
    asked = server.asked[0].headers
    assert (asked["user-agent"], asked["accept-encoding"]) == ("cloze-test (mail@example.org)", "identity")


@pytest.mark.parametrize("body", [b"", b"x"])
def test_files_of_no_and_of_one_byte(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, body: bytes) -> None:
    assert is_right(get(server.serve("/a", Answer(body=body)), tmp_path, new_hosts()), tmp_path, body)


BROKEN = {
    "cut": Answer(body=BODY, etag='"1"', cut=100_000),
    "reset": Answer(body=BODY, etag='"1"', cut=100_000, reset=True),
    "cut among chunks": Answer(body=BODY, etag='"1"', cut=100_000, chunked=True),
    "cut, known by its time": Answer(body=BODY, modified=CHANGED, cut=100_000),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_breaks_off_is_continued_where_it_stands(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, fault: str
) -> None:
    whole = Answer(body=BODY, etag=BROKEN[fault].etag, modified=BROKEN[fault].modified)
    url = server.serve("/a", BROKEN[fault], whole)
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path)
    first, second = server.asked
    assert first.range is None and second.range is not None
    assert second.headers["if-range"] == (whole.etag or whole.modified)
    assert 0 < int(second.range.removeprefix("bytes=").rstrip("-")) <= 100_000


def test_a_stall_is_noticed_and_continued(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    stalled = Answer(body=BODY, etag='"1"', cut=100_000, stall=30)
    url = server.serve("/a", stalled, Answer(body=BODY, etag='"1"'))
    begun = time.monotonic()
    assert is_right(get(url, tmp_path, new_hosts(timeout_seconds=0.3)), tmp_path)
    assert time.monotonic() - begun < 5
    assert server.ranges("/a") == [None, "bytes=100000-"]


def test_a_server_that_never_ends_a_file_is_given_up_and_the_part_is_kept(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"', cut=1_000))
    with pytest.raises(InputError, match=r"given up after 4 failed attempts.*try again later"):
        get(url, tmp_path, new_hosts())
    assert server.ranges("/a") == [None, "bytes=1000-", "bytes=2000-", "bytes=3000-"]
    assert names(tmp_path) == ["a.bin.part", "a.bin.part.json"]
    url = server.serve("/a", Answer(body=BODY, etag='"1"'))
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path)
    assert server.ranges("/a")[-1] == "bytes=4000-"


def test_failures_are_forgotten_when_a_megabyte_is_gained(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    body = random.Random(3).randbytes(12_000_000)
    url = server.serve("/a", Answer(body=body, etag='"1"', cut=1_500_000))
    assert is_right(get(url, tmp_path, new_hosts(attempts=2)), tmp_path, body)
    assert len(server.asked) == 8


def test_429_waits_as_long_as_it_is_told(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    busy = Answer(status=429, headers={"Retry-After": "1"}, body=b"slow down")
    assert is_right(get(server.serve("/a", busy, Answer(body=BODY)), tmp_path, new_hosts()), tmp_path)
    first, second = (asked.seconds for asked in server.asked)
    assert 1.0 <= second - first < 4.0


def test_retry_after_may_be_a_date_and_is_bounded(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    late = Answer(status=503, headers={"Retry-After": formatdate(time.time() + 86_400, usegmt=True)})
    url = server.serve("/a", late, Answer(body=BODY))
    assert is_right(get(url, tmp_path, new_hosts(most_seconds=0.3)), tmp_path)
    first, second = (asked.seconds for asked in server.asked)
    assert 0.29 <= second - first < 4.0


@pytest.mark.parametrize("status", [408, 500, 502, 503])
def test_a_server_in_trouble_is_asked_again_ever_later(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, status: int
) -> None:
    ill = Answer(status=status, body=b"<html>")
    assert is_right(get(server.serve("/a", ill, ill, Answer(body=BODY)), tmp_path, new_hosts()), tmp_path)
    times = [asked.seconds for asked in server.asked]
    assert times[2] - times[1] >= 0.015 and times[1] - times[0] >= 0.0075  # 0.01 and 0.02 s at jitter 0.5


@pytest.mark.parametrize(("status", "said"), [(401, "password"), (403, "user_agent"), (404, "no such"), (410, "gone")])
def test_a_refusal_is_an_error_at_once(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, status: int, said: str
) -> None:
    with pytest.raises(Absent, match=f"answers {status}.*{said}"):
        get(server.serve("/a", Answer(status=status, body=b"<html>")), tmp_path, new_hosts())
    assert len(server.asked) == 1
    assert not (tmp_path / "a.bin").exists()


@pytest.mark.parametrize("promise", [{}, {"sha1": hashlib.sha1(OTHER).hexdigest()}])
def test_a_file_that_changes_between_attempts_is_begun_anew(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, promise: dict[str, str]
) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"', cut=100_000), Answer(body=OTHER, etag='"2"'))
    assert is_right(get(url, tmp_path, new_hosts(), **promise), tmp_path, OTHER)
    assert server.ranges("/a") == [None, "bytes=100000-"]


@pytest.mark.parametrize(
    "second",
    [
        Answer(body=OTHER, etag='"2"', conditions=False),
        Answer(body=OTHER, etag='W/"1"', modified=formatdate(1_700_000_001, usegmt=True), conditions=False),
        Answer(body=OTHER + b"more", etag='"1"'),
        Answer(body=BODY, etag='"1"', content_range="bytes 99999-299998/300000"),
        Answer(body=BODY, etag='"1"', content_range="pages 1-2"),
    ],
    ids=["etag", "weak etag", "length", "wrong place", "no range"],
)
def test_a_range_of_another_version_or_place_is_never_joined(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, second: Answer
) -> None:
    """A server that ignores If-Range, or miscounts: what it sends is told by its own headers."""
    first, final = Answer(body=BODY, etag='"1"', modified=CHANGED, cut=100_000), Answer(body=OTHER, etag='"3"')
    assert is_right(get(server.serve("/a", first, second, final), tmp_path, new_hosts()), tmp_path, OTHER)
    assert server.ranges("/a") == [None, "bytes=100000-", None]


def test_a_weak_etag_is_no_condition(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    """Bytes of one weak ETag may differ (RFC 9110, 8.8.1): the time of the last change decides, or all comes anew."""
    weak = Answer(body=BODY, etag='W/"1"', cut=100_000), Answer(body=BODY, etag='W/"1"')
    assert is_right(get(server.serve("/a", *weak), tmp_path / "a", new_hosts()), tmp_path / "a")
    assert server.ranges("/a") == [None, None]
    timed = (replace(answer, modified=CHANGED) for answer in weak)
    assert is_right(get(server.serve("/b", *timed), tmp_path / "b", new_hosts()), tmp_path / "b")
    assert server.asked[-1].headers["if-range"] == CHANGED


def test_a_server_without_ranges_begins_anew(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"', cut=100_000), Answer(body=BODY, etag='"1"', ranges=False))
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path)
    assert len(server.asked) == 2 and server.num_sent == 400_000


def test_a_version_that_cannot_be_told_is_resumed_only_on_a_promise(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    parts = Answer(body=BODY, cut=100_000), Answer(body=BODY)
    assert is_right(get(server.serve("/a", *parts), tmp_path / "a", new_hosts()), tmp_path / "a")
    assert is_right(get(server.serve("/b", *parts), tmp_path / "b", new_hosts(), sha1=SHA1), tmp_path / "b")
    assert (server.ranges("/a"), server.ranges("/b")) == ([None, None], [None, "bytes=100000-"])


def test_a_promise_catches_two_versions_in_one_part(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    url = server.serve("/a", Answer(body=OTHER, cut=100_000), Answer(body=BODY))
    assert is_right(get(url, tmp_path, new_hosts(), sha1=SHA1), tmp_path)
    assert server.ranges("/a") == [None, "bytes=100000-", None]


def test_416_begins_anew(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    cut = Answer(body=BODY, etag='"1"', cut=100_000)
    url = server.serve("/a", cut, Answer(status=416, etag='"1"', body=OTHER[:50_000]), Answer(body=OTHER[:50_000]))
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path, OTHER[:50_000])
    assert server.ranges("/a") == [None, "bytes=100000-", None]


def test_416_of_a_shorter_file_begins_anew_also_where_no_length_was_known(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    short = Answer(body=OTHER[:50_000], modified=CHANGED, conditions=False)
    url = server.serve("/a", Answer(body=BODY, modified=CHANGED, chunked=True, cut=100_000), short)
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path, OTHER[:50_000])
    assert server.ranges("/a") == [None, "bytes=100000-", None]


def test_416_at_the_end_of_the_file_means_that_all_is_here(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    """The chunks are all here, only the last, empty one was not seen."""
    cut = Answer(body=BODY, etag='"1"', chunked=True, cut=len(BODY))
    assert is_right(get(server.serve("/a", cut, Answer(body=BODY, etag='"1"')), tmp_path, new_hosts()), tmp_path)
    assert server.ranges("/a") == [None, "bytes=300000-"] and server.num_sent == 300_000


def test_wrong_bytes_are_downloaded_once_more(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    assert is_right(
        get(server.serve("/a", Answer(body=OTHER), Answer(body=BODY)), tmp_path, new_hosts(), sha1=SHA1), tmp_path
    )


@pytest.mark.parametrize("kind", ["sha256", "sha1", "md5"])
def test_wrong_bytes_twice_are_an_error_with_both_digests(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, kind: str
) -> None:
    promised, came = hashlib.new(kind, BODY).hexdigest(), hashlib.new(kind, OTHER).hexdigest()
    with pytest.raises(InputError) as failed:
        get(server.serve("/a", Answer(body=OTHER, etag='"1"')), tmp_path, new_hosts(), **{kind: promised})
    assert promised in str(failed.value) and came in str(failed.value) and "--refresh" in str(failed.value)
    assert len(server.asked) == 2
    assert not (tmp_path / "a.bin").exists()


@pytest.mark.parametrize("promise", [{"size_bytes": 300_000}, {"sha1": SHA1}])
def test_an_error_page_under_the_files_name_is_not_the_file(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, promise: dict[str, object]
) -> None:
    page = Answer(body=b"<html>We are sorry</html>", headers={"Content-Type": "text/html"})
    assert is_right(get(server.serve("/a", page, Answer(body=BODY)), tmp_path, new_hosts(), **promise), tmp_path)
    with pytest.raises(InputError, match="promised"):
        get(server.serve("/b", page), tmp_path / "b", new_hosts(), **promise)


def test_an_error_page_of_which_nothing_was_promised_is_told_by_its_beginning(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    url = server.serve("/a", Answer(body=b"<html>We are sorry</html>"))
    with pytest.raises(InputError, match=r"begins with b'<html>.*no .gz file"):
        download(RemoteFile(url=url, name="a.warc.gz"), tmp_path, new_hosts())


def test_a_length_that_is_a_lie_is_no_file(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    """Too long: the body ends early for ever. Too short: caught by the promise."""
    url = server.serve("/long", Answer(body=BODY, length=300_001, etag='"1"', ranges=False))
    with pytest.raises(InputError, match="given up after 4 failed attempts"):
        get(url, tmp_path, new_hosts())
    url = server.serve("/short", Answer(body=BODY, length=200_000, etag='"1"'))
    with pytest.raises(InputError, match="200000 bytes where 300000 were promised"):
        get(url, tmp_path, new_hosts(), size_bytes=300_000)
    with pytest.raises(InputError, match="the sha1 of what came"):
        get(url, tmp_path, new_hosts(), sha1=SHA1)
    assert not (tmp_path / "a.bin").exists()


def test_more_than_was_announced_is_an_error(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    url = server.serve("/a", Answer(body=BODY, chunked=True))
    with pytest.raises(InputError, match="more than the 250000 bytes"):
        get(url, tmp_path, new_hosts(), size_bytes=250_000)


def test_chunks_need_no_length(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    assert is_right(get(server.serve("/a", Answer(body=BODY, chunked=True)), tmp_path, new_hosts()), tmp_path)


def test_chunks_that_end_early_are_not_the_promised_file(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    short, whole = Answer(body=BODY[:1000], chunked=True, etag='"1"'), Answer(body=BODY, etag='"1"')
    assert is_right(get(server.serve("/a", short, whole), tmp_path, new_hosts(), size_bytes=300_000), tmp_path)
    assert server.ranges("/a") == [None, "bytes=1000-"]


def test_a_body_whose_end_nobody_announces_needs_a_promise(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    url = server.serve("/a", Answer(body=BODY, framed=False))
    with pytest.raises(InputError, match="Give its sha256 or its size"):
        get(url, tmp_path / "a", new_hosts())
    assert is_right(get(url, tmp_path / "b", new_hosts(), sha1=SHA1), tmp_path / "b")
    cut = Answer(body=BODY, framed=False, cut=9_999, modified=CHANGED)
    url = server.serve("/c", cut, Answer(body=BODY, modified=CHANGED))
    assert is_right(get(url, tmp_path / "c", new_hosts(), size_bytes=300_000), tmp_path / "c")
    assert server.ranges("/c") == [None, "bytes=9999-"]


def test_a_file_that_is_too_long_is_refused(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    for name, answer in (("/a", Answer(body=BODY)), ("/b", Answer(body=BODY, chunked=True))):
        with pytest.raises(InputError, match=r"fetch.max_bytes = 100000"):
            get(server.serve(name, answer), tmp_path, new_hosts(max_bytes=100_000))
    assert (tmp_path / "a.bin.part").stat().st_size == 0


def test_an_encoded_body_is_refused(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Content-Encoding: gzip"):
        get(server.serve("/a", Answer(body=BODY, headers={"Content-Encoding": "gzip"})), tmp_path, new_hosts())


def test_redirects_are_followed_and_circles_are_not(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    server.serve("/b", Answer(body=BODY, etag='"1"', cut=100_000), Answer(body=BODY, etag='"1"'))
    url = server.serve("/a", Answer(status=302, headers={"Location": "/b"}))
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path)
    assert server.ranges("/b") == [None, "bytes=100000-"]
    with pytest.raises(InputError, match="circles"):
        get(server.serve("/c", Answer(status=301, headers={"Location": "/c"})), tmp_path / "c", new_hosts())
    with pytest.raises(InputError, match="no http address"):
        get(server.serve("/d", Answer(status=301, headers={"Location": "file:///etc/hosts"})), tmp_path, new_hosts())


def test_a_redirect_from_https_to_http_is_refused() -> None:
    reply = httpx.Response(302, headers={"Location": "http://example.org/a"})
    with pytest.raises(InputError, match=r"from https to http://example\.org/a"):
        _redirected("https://example.org/a", reply)
    assert _redirected("http://example.org/a", reply) == "http://example.org/a"


def certificate(folder: Path) -> Path:
    """A certificate for the loopback that nobody vouches for, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    day = datetime(2026, 1, 1)
    made = built.not_valid_before(day).not_valid_after(day.replace(year=2100)).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(made.public_bytes(pem) + secret)
    return folder / "server.pem"


def test_a_certificate_that_is_not_trusted_is_an_error_at_once(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = server.serve("/a", Answer(body=BODY)).replace("http://", "https://")
    with pytest.raises(InputError, match=r"certificate is not valid.*clock"):
        get(url, tmp_path / "raw", new_hosts())
    assert server.asked == []


def test_a_host_that_nobody_answers_at_is_given_up(new_hosts: NewHosts, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"given up after 2 failed attempts.*connection failed"):
        get("http://127.0.0.1:9/a", tmp_path, new_hosts(attempts=2))


def test_what_is_there_already_is_not_downloaded_again(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    (tmp_path / "a.bin").write_bytes(BODY)
    for kind in ("sha256", "sha1", "md5"):
        known = {kind: hashlib.new(kind, BODY).hexdigest(), "size_bytes": len(BODY)}
        assert is_right(get(server.base + "/a", tmp_path, new_hosts(), **known), tmp_path)
    assert server.asked == []


def test_what_came_is_known_and_not_hashed_again(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    cache, target = StatCache(), tmp_path / "a.bin"
    remote = RemoteFile(url=server.serve("/a", Answer(body=BODY, modified=CHANGED)), name="a.bin")
    landed = download(remote, tmp_path, new_hosts(), cache)
    assert list(cache.known) == [landed.path] == [str(target)]
    cache.known[landed.path][-1] = "what the cache says"
    assert cache.sha256(target) == (len(BODY), "what the cache says")
    target.write_bytes(OTHER)
    assert cache.sha256(target) == (len(BODY), hashlib.sha256(OTHER).hexdigest())


@pytest.mark.parametrize("there", [OTHER, BODY[:1000]])
def test_what_is_there_and_is_not_the_file_is_replaced(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, there: bytes
) -> None:
    (tmp_path / "a.bin").write_bytes(there)
    assert is_right(get(server.serve("/a", Answer(body=BODY)), tmp_path, new_hosts(), sha1=SHA1), tmp_path)


def test_a_file_of_which_nothing_is_known_stays_while_the_servers_looks_the_same(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    big = random.Random(5).randbytes(16_000_000)
    url = server.serve("/a", Answer(body=big, modified=CHANGED))
    get(url, tmp_path, new_hosts())
    sent = server.num_sent
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path, big)
    assert server.num_sent - sent < len(big)  # its head was looked at
    url = server.serve("/a", Answer(body=BODY, modified=formatdate(1_700_000_001, usegmt=True)))
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path)


def test_a_part_of_another_address_is_not_continued(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="given up"):
        get(server.serve("/a", Answer(body=OTHER, etag='"1"', cut=1_000)), tmp_path, new_hosts(attempts=1))
    assert is_right(get(server.serve("/b", Answer(body=BODY, etag='"1"')), tmp_path, new_hosts()), tmp_path)
    assert server.ranges("/b") == [None]


@pytest.mark.parametrize("note", [b"", b"{}", b"[]", b'{"url": 3}', b"\xff", None])
def test_a_part_without_a_note_that_can_be_read_is_begun_anew(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path, note: bytes | None
) -> None:
    (tmp_path / "a.bin.part").write_bytes(OTHER[:1000])
    if note is not None:
        (tmp_path / "a.bin.part.json").write_bytes(note)
    assert is_right(get(server.serve("/a", Answer(body=BODY, etag='"1"')), tmp_path, new_hosts()), tmp_path)
    assert server.ranges("/a") == [None]


def test_a_part_that_is_longer_than_its_version_is_begun_anew(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"'))
    (tmp_path / "a.bin.part").write_bytes(BODY + b"x")
    version = {"url": url, "etag": '"1"', "modified": None, "size_bytes": len(BODY)}
    (tmp_path / "a.bin.part.json").write_text(json.dumps(version))
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path)
    assert server.ranges("/a") == [None]


def test_a_part_that_is_whole_needs_no_server(new_hosts: NewHosts, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY)
    version = {"url": "http://127.0.0.1:9/a", "etag": '"1"', "modified": None, "size_bytes": len(BODY)}
    (tmp_path / "a.bin.part.json").write_text(json.dumps(version))
    assert is_right(get("http://127.0.0.1:9/a", tmp_path, new_hosts(), sha1=SHA1), tmp_path)


def test_a_part_has_one_owner(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    remote = RemoteFile(url=server.serve("/a", Answer(body=BODY)), name="a.bin")
    with open_part(tmp_path / "a.bin", remote), pytest.raises(InputError, match="by another process"):
        download(remote, tmp_path, new_hosts())
    assert is_right(download(remote, tmp_path, new_hosts()), tmp_path)


def test_what_the_disk_refuses_is_a_paragraph(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    url = server.serve("/a", Answer(body=BODY))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="a file stands where a folder is needed"):
        get(url, tmp_path / "file", new_hosts())
    (tmp_path / "raw" / "a.bin").mkdir(parents=True)
    with pytest.raises(InputError, match="is in the way"):
        get(url, tmp_path / "raw", new_hosts())
    with pytest.raises(InputError, match=r"the disk is full.*fetch.folder"), writable(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_the_disk_cannot_hold_leaves_what_it_could(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"'))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(InputError, match=r"larger than this file system allows.*What was received is kept"):
            get(url, tmp_path, new_hosts())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path)
    assert server.ranges("/a") == [None, "bytes=100000-"]


def test_work_that_is_called_off_leaves_a_part(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"', pause=0.05), Answer(body=BODY, etag='"1"'))
    hosts = new_hosts()
    threading.Timer(0.3, hosts.stop).start()
    with pytest.raises(Stopped):
        get(url, tmp_path, hosts)
    left = part_paths(tmp_path / "a.bin")[0].stat().st_size
    assert 0 < left < len(BODY)
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path)
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


def test_whatever_a_server_does_the_bytes_are_those_of_one_version(
    server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path
) -> None:
    outcomes: Counter[str] = Counter()
    hosts = new_hosts(attempts=8, most_seconds=0.01)
    for seed in range(60):
        draw = random.Random(seed)
        url = server.serve(f"/{seed}", *(any_answer(draw) for _ in range(draw.randrange(1, 8))))
        promise = {"sha1": hashlib.sha1(BODY[:60_000]).hexdigest()} if seed % 2 else {}
        try:
            landed = get(url, tmp_path / str(seed), hosts, **promise)
        except InputError:
            outcomes["an error"] += 1
            assert not (tmp_path / str(seed) / "a.bin").exists()
            continue
        here = (tmp_path / str(seed) / "a.bin").read_bytes()
        assert here == BODY[:60_000] or (not promise and here == OTHER[:70_000]), seed
        assert landed.sha256 == hashlib.sha256(here).hexdigest()
        outcomes["right, by " + ("a range" if any(server.ranges(f"/{seed}")) else "one reply")] += 1
    assert len(outcomes) == 3 and min(outcomes.values()) >= 5, outcomes


KILLED = """
import sys
from pathlib import Path
from corpora.acquire.download import download
from corpora.acquire.hosts import Hosts
from corpora.acquire.remote import RemoteFile
from corpora.acquire.wanted import AcquireSettings

url, folder = sys.argv[1:]
settings = AcquireSettings(catalogue="urls", urls=(url,))
download(RemoteFile(url=url, name="a.bin"), Path(folder), Hosts(settings))
"""


def test_a_killed_download_is_continued(server: ScriptedServer, new_hosts: NewHosts, tmp_path: Path) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"', pause=0.02), Answer(body=BODY, etag='"1"'))
    part = tmp_path / "a.bin.part"
    process = subprocess.Popen([sys.executable, "-c", KILLED, url, str(tmp_path)], cwd=Path(__file__).parents[3])
    deadline = time.monotonic() + 30
    while not (part.exists() and part.stat().st_size > 100_000) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    left = part.stat().st_size
    assert 100_000 < left < len(BODY)
    time.sleep(0.1)  # the server notices that nobody listens
    before = server.num_sent
    assert is_right(get(url, tmp_path, new_hosts()), tmp_path)
    assert server.num_sent - before == len(BODY) - left
    assert server.ranges("/a") == [None, f"bytes={left}-"]


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "/etc/a", "a\0b", "a\nb", "a\\b", ".a", "a.part", "x" * 250])
def test_a_name_that_leaves_the_folder_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name of a raw file"):
        RemoteFile(url="https://example.org/a", name=name)
