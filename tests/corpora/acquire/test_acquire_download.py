"""One file against a server that misbehaves: the right bytes, or an error that says what is wrong."""

import hashlib
import random
import ssl
import time
from dataclasses import replace
from datetime import datetime
from email.utils import formatdate
from pathlib import Path

import acquire_fixtures
import pytest
from acquire_fixtures import BODY, CHANGED, OTHER, SHA1, get, is_right, names
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from scripted_server import BLOCK, Answer, NewHosts, Site

from corpora.acquire.download import download
from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.http_client import Absent
from corpora.errors import InputError

pytestmark = pytest.mark.server

new_hosts, server = acquire_fixtures.new_hosts, acquire_fixtures.server


def test_a_file_comes_with_its_time_and_in_its_own_bytes(server: Site) -> None:
    url = server.serve("/a", Answer(body=BODY, modified=CHANGED))
    hosts = server.new_hosts(user_agent="cloze-test (mail@example.org)")
    assert is_right(get(url, server.folder / "new" / "raw", hosts, sha1=SHA1), server.folder / "new" / "raw")
    assert (server.folder / "new" / "raw" / "a.bin").stat().st_mtime == 1_700_000_000
    asked = server.asked[0].headers
    assert (asked["user-agent"], asked["accept-encoding"]) == ("cloze-test (mail@example.org)", "identity")


BROKEN = {
    "cut": Answer(body=BODY, etag='"1"', cut=100_000),
    "reset": Answer(body=BODY, etag='"1"', cut=100_000, reset=True),
    "cut among chunks": Answer(body=BODY, etag='"1"', cut=100_000, chunked=True),
    "cut, known by its time": Answer(body=BODY, modified=CHANGED, cut=100_000),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_breaks_off_is_continued_where_it_stands(server: Site, fault: str) -> None:
    whole = Answer(body=BODY, etag=BROKEN[fault].etag, modified=BROKEN[fault].modified)
    url = server.serve("/a", BROKEN[fault], whole)
    assert is_right(server.get(url), server.folder)
    first, second = server.asked
    assert first.range is None and second.range is not None
    assert second.headers["if-range"] == (whole.etag or whole.modified)
    assert 0 < int(second.range.removeprefix("bytes=").rstrip("-")) <= 100_000


def test_a_stall_is_noticed_and_continued(server: Site) -> None:
    """Fails if the last block is waited for: it comes in the end, and nothing is asked for again."""
    url = server.serve("/a", Answer(body=BODY, etag='"1"', until=server.over), Answer(body=BODY, etag='"1"'))
    assert is_right(get(url, server.folder, server.new_hosts(silent_seconds=2.0)), server.folder)
    assert server.ranges("/a")[:2] == [None, f"bytes={(len(BODY) - 1) // BLOCK * BLOCK}-"]


def test_a_server_that_never_ends_a_file_is_given_up_and_the_part_is_kept(server: Site) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"', cut=1_000))
    with pytest.raises(InputError, match=r"given up after 4 failed attempts.*try again later"):
        server.get(url)
    assert server.ranges("/a") == [None, "bytes=1000-", "bytes=2000-", "bytes=3000-"]
    assert names(server.folder) == ["a.bin.part", "a.bin.part.json"]
    url = server.serve("/a", Answer(body=BODY, etag='"1"'))
    assert is_right(server.get(url), server.folder)
    assert server.ranges("/a")[-1] == "bytes=4000-"


def test_failures_are_forgotten_when_a_megabyte_is_gained(server: Site) -> None:
    body = random.Random(3).randbytes(12_000_000)
    url = server.serve("/a", Answer(body=body, etag='"1"', cut=1_500_000))
    assert is_right(get(url, server.folder, server.new_hosts(attempts=2)), server.folder, body)
    assert len(server.asked) == 8


def test_retry_after_may_be_a_date_and_is_bounded(server: Site) -> None:
    late = Answer(status=503, headers={"Retry-After": formatdate(time.time() + 86_400, usegmt=True)})
    url = server.serve("/a", late, Answer(body=BODY))
    assert is_right(get(url, server.folder, server.new_hosts(most_seconds=0.3)), server.folder)
    first, second = (asked.seconds for asked in server.asked)
    assert 0.29 <= second - first < 3_600  # a day was asked for


@pytest.mark.parametrize("status", [408, 500, 502, 503])
def test_a_server_in_trouble_is_asked_again_ever_later(server: Site, status: int) -> None:
    ill = Answer(status=status, body=b"<html>")
    assert is_right(server.get(server.serve("/a", ill, ill, Answer(body=BODY))), server.folder)
    times = [asked.seconds for asked in server.asked]
    assert times[2] - times[1] >= 0.02 and times[1] - times[0] >= 0.01


@pytest.mark.parametrize(("status", "said"), [(401, "password"), (403, "user_agent"), (404, "no such"), (410, "gone")])
def test_a_refusal_is_an_error_at_once(server: Site, status: int, said: str) -> None:
    with pytest.raises(Absent, match=f"answers {status}.*{said}"):
        server.get(server.serve("/a", Answer(status=status, body=b"<html>")))
    assert len(server.asked) == 1
    assert not (server.folder / "a.bin").exists()


@pytest.mark.parametrize("promise", [{}, {"sha1": hashlib.sha1(OTHER).hexdigest()}])
def test_a_file_that_changes_between_attempts_is_begun_anew(server: Site, promise: dict[str, str]) -> None:
    url = server.serve("/a", Answer(body=BODY, etag='"1"', cut=100_000), Answer(body=OTHER, etag='"2"'))
    assert is_right(server.get(url, **promise), server.folder, OTHER)
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
def test_a_range_of_another_version_or_place_is_never_joined(server: Site, second: Answer) -> None:
    """A server that ignores If-Range, or miscounts: what it sends is told by its own headers."""
    first, final = Answer(body=BODY, etag='"1"', modified=CHANGED, cut=100_000), Answer(body=OTHER, etag='"3"')
    assert is_right(server.get(server.serve("/a", first, second, final)), server.folder, OTHER)
    assert server.ranges("/a") == [None, "bytes=100000-", None]


def test_a_weak_etag_is_no_condition(server: Site) -> None:
    """Bytes of one weak ETag may differ (RFC 9110, 8.8.1): the time of the last change decides, or all comes again."""
    weak = Answer(body=BODY, etag='W/"1"', cut=100_000), Answer(body=BODY, etag='W/"1"')
    assert is_right(get(server.serve("/a", *weak), server.folder / "a", server.new_hosts()), server.folder / "a")
    assert server.ranges("/a") == [None, None]
    timed = (replace(answer, modified=CHANGED) for answer in weak)
    assert is_right(get(server.serve("/b", *timed), server.folder / "b", server.new_hosts()), server.folder / "b")
    assert server.asked[-1].headers["if-range"] == CHANGED


def test_416_at_the_end_of_the_file_means_that_all_is_here(server: Site) -> None:
    """The chunks are all here, only the last, empty one was not seen."""
    cut = Answer(body=BODY, etag='"1"', chunked=True, cut=len(BODY))
    assert is_right(server.get(server.serve("/a", cut, Answer(body=BODY, etag='"1"'))), server.folder)
    assert server.ranges("/a") == [None, "bytes=300000-"] and server.num_sent == 300_000


@pytest.mark.parametrize("kind", ["sha256", "sha1", "md5"])
def test_wrong_bytes_twice_are_an_error_with_both_digests(server: Site, kind: str) -> None:
    promised, came = hashlib.new(kind, BODY).hexdigest(), hashlib.new(kind, OTHER).hexdigest()
    with pytest.raises(InputError) as failed:
        server.get(server.serve("/a", Answer(body=OTHER, etag='"1"')), **{kind: promised})
    assert promised in str(failed.value) and came in str(failed.value) and "--refresh" in str(failed.value)
    assert len(server.asked) == 2
    assert not (server.folder / "a.bin").exists()


def test_an_error_page_of_which_nothing_was_promised_is_told_by_its_beginning(server: Site) -> None:
    url = server.serve("/a", Answer(body=b"<html>We are sorry</html>"))
    with pytest.raises(InputError, match=r"begins with b'<html>.*no .gz file"):
        download(RemoteFile(url=url, name="a.warc.gz"), server.folder, server.new_hosts())


def test_a_length_that_is_a_lie_is_no_file(server: Site) -> None:
    """Too long: the body ends early for ever. Too short: caught by the promise."""
    url = server.serve("/long", Answer(body=BODY, length=300_001, etag='"1"', ranges=False))
    with pytest.raises(InputError, match="given up after 4 failed attempts"):
        server.get(url)
    url = server.serve("/short", Answer(body=BODY, length=200_000, etag='"1"'))
    with pytest.raises(InputError, match="200000 bytes where 300000 were promised"):
        server.get(url, size_bytes=300_000)
    with pytest.raises(InputError, match="the sha1 of what came"):
        server.get(url, sha1=SHA1)
    assert not (server.folder / "a.bin").exists()


def test_more_than_was_announced_is_an_error(server: Site) -> None:
    url = server.serve("/a", Answer(body=BODY, chunked=True))
    with pytest.raises(InputError, match="more than the 250000 bytes"):
        server.get(url, size_bytes=250_000)


def test_a_body_whose_end_nobody_announces_needs_a_promise(server: Site) -> None:
    url = server.serve("/a", Answer(body=BODY, framed=False))
    with pytest.raises(InputError, match="Give its sha256 or its size"):
        get(url, server.folder / "a", server.new_hosts())
    assert is_right(get(url, server.folder / "b", server.new_hosts(), sha1=SHA1), server.folder / "b")
    cut = Answer(body=BODY, framed=False, cut=9_999, modified=CHANGED)
    url = server.serve("/c", cut, Answer(body=BODY, modified=CHANGED))
    assert is_right(get(url, server.folder / "c", server.new_hosts(), size_bytes=300_000), server.folder / "c")
    assert server.ranges("/c") == [None, "bytes=9999-"]


def test_an_encoded_body_is_refused(server: Site) -> None:
    with pytest.raises(InputError, match="Content-Encoding: gzip"):
        server.get(server.serve("/a", Answer(body=BODY, headers={"Content-Encoding": "gzip"})))


def test_redirects_are_followed_and_circles_are_not(server: Site) -> None:
    server.serve("/b", Answer(body=BODY, etag='"1"', cut=100_000), Answer(body=BODY, etag='"1"'))
    url = server.serve("/a", Answer(status=302, headers={"Location": "/b"}))
    assert is_right(server.get(url), server.folder)
    assert server.ranges("/b") == [None, "bytes=100000-"]
    with pytest.raises(InputError, match="circles"):
        get(server.serve("/c", Answer(status=301, headers={"Location": "/c"})), server.folder / "c", server.new_hosts())
    with pytest.raises(InputError, match="cannot be asked for"):
        server.get(server.serve("/d", Answer(status=301, headers={"Location": "file:///etc/hosts"})))


def test_a_signature_that_a_redirect_adds_is_written_nowhere(server: Site) -> None:
    """Fails if what only this request may know is in a note, a record or an error."""
    signed = "/b?X-Amz-Signature=hunter2"
    server.serve(signed, Answer(body=BODY, etag='"1"', cut=100_000), Answer(status=404))
    url = server.serve("/a", Answer(status=302, headers={"Location": signed}))
    with pytest.raises(InputError, match="no such file") as refused:
        server.get(url)
    written = [str(refused.value), *(path.read_text("latin-1") for path in server.folder.iterdir())]
    assert len(written) == 3 and not any("hunter2" in text for text in written)


def test_the_proxy_of_the_environment_is_asked(server: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.base)
    server.serve("http://no-such-host.invalid/a", Answer(body=b"by the proxy"))
    assert server.new_hosts().fetch_document("http://no-such-host.invalid/a") == b"by the proxy"


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


def test_a_certificate_that_is_not_trusted_is_an_error_at_once(server: Site) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(server.folder))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = server.serve("/a", Answer(body=BODY)).replace("http://", "https://")
    with pytest.raises(InputError, match=r"certificate is not valid.*clock"):
        get(url, server.folder / "raw", server.new_hosts())
    assert server.asked == []


def test_a_host_that_nobody_answers_at_is_given_up(new_hosts: NewHosts, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"given up after 2 failed attempts.*connection failed"):
        get("http://127.0.0.1:9/a", tmp_path, new_hosts(attempts=2))
