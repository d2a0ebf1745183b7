"""Pages and records of crawl archives, made by the tests."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

from corpora.sources.contract import (
    Record,
)

MENU = "<nav><ul><li><a href='/'>Home</a></li><li><a href='/sport'>Sport pages</a></li></ul></nav>"
FOOT = "<footer><p>All rights reserved by the owners of this site.</p></footer>"
SENTENCES = (
    "The council of {0} voted on Monday to mend the old bridge before the winter comes.",
    "Nobody in {0} could remember when the river had last stood so high, the mayor said.",
    "Work begins in the spring, when the water is low enough for the masons to reach the piers.",
)


def html(name: str = "Ayr", more: str = "", head: str = "") -> str:
    body = "".join(f"<p>{sentence.format(name)}</p>\n" for sentence in SENTENCES)
    return (
        f"<!DOCTYPE html>\n<html><head><title>{name} | The Paper</title>{head}</head><body>{MENU}"
        f"<article><h1>The bridge of {name}</h1>{body}{more}</article>{FOOT}</body></html>"
    )


def warc(kind: str, block: bytes = b"", end: str = "\r\n", **more: str) -> bytes:
    """A record without the two line ends after it. A keyword `Target_URI` is the header `WARC-Target-URI`."""
    fields = {"Date": "2024-03-05T06:07:08Z", "Record_ID": f"<urn:{zlib.crc32(block)}>"}
    fields |= {"Content_Length": str(len(block)), **more}
    prefixes = {name: "" if name.startswith("Content") else "WARC-" for name in fields}
    headers = [f"{prefixes[name]}{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return end.join(["WARC/1.0", f"WARC-Type: {kind}", *headers, "", ""]).encode() + block


def page(
    body: bytes | str = "",
    url: str = "https://news.example.org/a",
    status: str = "200 OK",
    http: Sequence[str] = ("Content-Type: text/html; charset=utf-8",),
    **more: str,
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = "\r\n".join([f"HTTP/1.1 {status}", *http, "", ""]).encode()
    return warc("response", head + data, Target_URI=url, Content_Type="application/http; msgtype=response", **more)


def write(path: Path, records: Sequence[bytes]) -> str:
    """An archive: `.gz` with a member for each record, `-one.gz` with one member for all, else plain."""
    ended = [record + b"\r\n\r\n" for record in records]
    if path.name.endswith("-one.warc.gz"):
        path.write_bytes(gzip.compress(b"".join(ended), mtime=0))
    else:
        pack = path.name.endswith(".gz")
        path.write_bytes(b"".join(gzip.compress(record, mtime=0) if pack else record for record in ended))
    return str(path)


def outcome(record: Record) -> str:
    return record.drop.reason if record.drop else "document"
