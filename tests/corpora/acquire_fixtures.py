"""Fixtures of the tests of acquiring: a server that misbehaves by script, and short waits."""

import gzip
import hashlib
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from scripted_server import Answer, NewHosts, ScriptedServer, Site, scripted_server

from corpora.acquire.download import download
from corpora.acquire.fetch_table import AcquireSettings, RemoteFile
from corpora.acquire.http_client import Hosts, Patience
from corpora.sources.contract import RawFile

BODY = random.Random(1).randbytes(300_000)
OTHER = random.Random(2).randbytes(300_000)
SHA1 = hashlib.sha1(BODY).hexdigest()
CHANGED = formatdate(1_700_000_000, usegmt=True)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, new_hosts: NewHosts, tmp_path: Path) -> Iterator[Site]:
    """A server with an empty script, asked directly and not through a proxy; clients for it, and an empty folder."""
    monkeypatch.setenv("NO_PROXY", "*")
    with scripted_server() as running:
        running.new_hosts, running.folder = new_hosts, tmp_path
        yield running


@pytest.fixture
def new_hosts() -> Iterator[NewHosts]:
    """Makes clients that come back after hundredths of a second, and are patient with a machine that is busy.

    `max_seconds` bounds what a server may ask for.
    """
    with ExitStack() as stack:

        def make(most_seconds: float = 5.0, silent_seconds: float = 120.0, attempts: int = 4, **settings: Any) -> Hosts:
            patience = Patience(
                first_seconds=0.01, max_seconds=most_seconds, silent_seconds=silent_seconds, attempts=attempts
            )
            usual = {"catalogue": "urls", "urls": ("https://example.org/a",)}
            return stack.enter_context(closing(Hosts(AcquireSettings(**{**usual, **settings}), patience)))

        yield make


def get(url: str, folder: Path, hosts: Hosts, **known: object) -> RawFile:
    """Download a file called a.bin of which this is known."""
    return download(RemoteFile(url=url, name="a.bin", **known), folder, hosts)  # type: ignore[arg-type]


def is_right(landed: RawFile, folder: Path, body: bytes = BODY) -> bool:
    """True if the body is there, alone, and its record is right."""
    said = (landed.name, landed.size_bytes, landed.sha256)
    true = ("a.bin", len(body), hashlib.sha256(body).hexdigest())
    return said == true and (folder / "a.bin").read_bytes() == body and names(folder) == ["a.bin"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def dump_names(date: str) -> tuple[str, str]:
    stem = f"testwiki-{date}-pages-articles-multistream"
    return f"{stem}.xml.bz2", f"{stem}-index.txt.bz2"


def publish_dump(server: ScriptedServer, date: str, state: str) -> None:
    """A dump of two files on the server, with its status."""
    files = {}
    for name in dump_names(date):
        body = b"BZh" + name.encode() * 100
        server.serve(f"/dumps/testwiki/{date}/{name}", Answer(body=body, etag=f'"{name}"'))
        sha1 = hashlib.sha1(body).hexdigest()
        files[name] = {"size": len(body), "url": f"/testwiki/{date}/{name}", "sha1": sha1}
    status = {"version": "0.8", "jobs": {"articlesmultistreamdump": {"status": state, "files": files}}}
    server.serve(f"/dumps/testwiki/{date}/dumpstatus.json", Answer(body=json.dumps(status).encode()))


def publish_listing(server: ScriptedServer, *dates: str) -> None:
    links = "".join(f'<a href="{date}/">{date}/</a>\n' for date in dates)
    server.serve("/dumps/testwiki/", Answer(body=f'<html><a href="../">../</a>{links}</html>'.encode()))


def news_names(month: str, num_files: int) -> list[str]:
    return [f"CC-NEWS-{month.replace('-', '')}{n + 1:02}001532-{n:05}.warc.gz" for n in range(num_files)]


def publish_month(server: ScriptedServer, month: str, num_files: int) -> None:
    folder = f"crawl-data/CC-NEWS/{month.replace('-', '/')}"
    names = news_names(month, num_files)
    for name in names:
        server.serve(f"/{folder}/{name}", Answer(body=gzip.compress(name.encode(), mtime=0)))
    paths = "".join(f"{folder}/{name}\n" for name in names)
    server.serve(f"/{folder}/warc.paths.gz", Answer(body=gzip.compress(paths.encode())))
