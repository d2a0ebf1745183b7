"""Heads of WARC records and of HTTP responses: what each line means, and the same as another reader finds."""

import io
import random

import pytest
from fastwarc.warc import WarcRecord

from corpora.sources.bytes.faults import BadRecord
from corpora.sources.web.archived_pages import read_response
from corpora.sources.web.warc import MAX_FIELDS_BYTES, decode_western, parse_record, read_head

BREAKS = [b"\r\n"] * 5 + [b"\n"] * 3 + [b"\r\r\n", b" \r\n"]
NAMES = b"Content-Type|content-type|X|| Y|Content-Encoding|A\xff|\x0bZ|\x0cContent-Type\t".split(b"|")
VALUES = b"text/html; charset=utf-8||\t x \t|\x81\x93\xe9|\xc3\xa9|gzip|a:b|\x0bx\x0c|\0".split(b"|")
OTHERS = [b" goes on", b"\tgoes on ", b"no colon", b" ", b"\x0b"]
STATUS = [
    *[b"HTTP/1.1 200 OK"] * 5,
    *(b"HTTP/2 200", b"HTTP/1.1  200", b"HTTP/1.1 +200 x", b" HTTP/1.1 200", b"HTTP/ 99999", b"HTTP/1.1 00200 x"),
    *(b"HTTP/1.1 2e2", b"", b"GET / HTTP/1.1", b"HTTP/1.1\t200 ok", b"HTTP/1.1 2:00", b"HTTP/1.1 200\x0b"),
]
VERSIONS = [*[b"WARC/1.0"] * 5, *(b"WARC/1.1", b"WARC/0.18", b"WARC/0.", b"WARC/1.2", b"WARC/1.0 ", b"WARC/0.181")]


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        (b"A: b\r\nC:d\n", [(b"A", b"b"), (b"C", b"d")]),
        (b"A : b\t\r\n", [(b"A", b"b")]),
        (b"A: b:c\r\n", [(b"A", b"b:c")]),
        (b"A: b\r\n  c \r\n\td\r\n", [(b"A", b"b c d")]),
        (b"no colon\r\nA: b\r\n", [(b"A", b"b")]),
        (b" of none\r\nA: b\r\n", [(b"", b"of none"), (b"A", b"b")]),
        (b"A: b\r\n \r\nC: d\r\n", [(b"A", b"b")]),
    ],
)
def test_what_lines_mean(lines: bytes, fields: list[tuple[bytes, bytes]]) -> None:
    head = read_head(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\nbody")
    assert (head.first_line, head.fields) == (b"HTTP/1.1 200 OK", fields)


def test_a_field_is_found_in_any_case_and_its_first_value_is_taken() -> None:
    head = read_head(b"WARC/1.0\r\nX: one\r\nx: two\r\n\r\n")
    assert (head.get_first(b"x"), head.get_values(b"x"), head.get_first(b"y")) == (b"one", [b"one", b"two"], b"")
    assert decode_western(b"\x81\x93\xe9") == "\x81\u201c\xe9"


@pytest.mark.parametrize("size", [MAX_FIELDS_BYTES, MAX_FIELDS_BYTES + 1])
def test_a_head_may_be_so_long(size: int) -> None:
    start, end = b"WARC/1.0\r\nA: ", b"\r\nB: c\r\n\r\n"
    data = start + b"x" * (size - len(start) - len(end)) + end
    if size > MAX_FIELDS_BYTES:
        with pytest.raises(BadRecord, match="length exceeded"):
            read_head(data + b"block")
    else:
        assert read_head(data + b"block").size_bytes == size


def field_lines(rng: random.Random) -> bytes:
    lines = b""
    for _ in range(rng.randrange(5)):
        field = rng.choice(NAMES) + b":" + rng.choice([b" ", b"", b"  "]) + rng.choice(VALUES)
        lines += (rng.choice(OTHERS) if rng.random() < 0.1 else field) + rng.choice(BREAKS)
    return lines


def some_record(rng: random.Random) -> bytes:
    block = rng.choice(STATUS) + rng.choice(BREAKS) + field_lines(rng) + rng.choice([b"\r\n", b"\n", b""]) + b"<html>"
    length = b"WARC-Date: %d\r\nContent-Length: %d\r\nWARC-Type: response" % (rng.randrange(9), len(block))
    return rng.choice(VERSIONS) + b"\r\n" + length + rng.choice(BREAKS[:8]) + field_lines(rng) + b"\r\n" + block


def said_by_fastwarc(data: bytes) -> list[object]:
    try:
        record = WarcRecord.from_reader(io.BytesIO(data), quirks_mode=True)
    except OSError:
        return []
    said = [record.headers.get(name, "") for name in ("WARC-Date", "Content-Type")]
    record.is_http = True
    record.parse_http(quirks_mode=True)
    head = record.http_headers
    coding = ",".join(head.get_multiple("Content-Encoding")).lower()
    return [
        *said,
        head.status_code,
        coding if head.status_code else "",
        record.reader.read() if head.status_code else b"",
    ]


def said_by_us(data: bytes) -> list[object]:
    try:
        record = parse_record(data)
    except BadRecord:
        return []
    said = [record.head.get_first(name).decode(errors="replace") for name in (b"warc-date", b"content-type")]
    try:
        response = read_response(record)
    except BadRecord:
        return [*said, None, "", b""]
    return [*said, response.status, response.content_encoding, response.body]


def test_heads_mean_what_another_reader_finds() -> None:
    """Fails if a head that crawlers write, or a strange one, is taken apart in another way than by fastwarc."""
    rng = random.Random(7)
    found = []
    for _ in range(3_000):
        data = some_record(rng)
        found.append(said_by_us(data))
        assert found[-1] == said_by_fastwarc(data), data
    assert 100 < sum(not said for said in found) < 1_500  # heads of no known version
    assert sum(said[2:3] == [200] for said in found) > 500
