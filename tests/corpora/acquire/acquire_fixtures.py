"""Fixtures of the tests of acquiring: a server that misbehaves by script, and short waits."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import ExitStack
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from scripted_server import NewHosts, Site, scripted_server

from corpora.acquire.download import download
from corpora.acquire.hosts import Hosts
from corpora.acquire.remote import RemoteFile
from corpora.acquire.waiting import Patience
from corpora.acquire.wanted import AcquireSettings
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

    `most_seconds` bounds what a server may ask for.
    """
    with ExitStack() as stack:

        def make(most_seconds: float = 5.0, **settings: Any) -> Hosts:
            patience = Patience(first_seconds=0.01, most_seconds=most_seconds)
            usual = {"catalogue": "urls", "urls": ("https://example.org/a",), "timeout_seconds": 120.0, "attempts": 4}
            return stack.enter_context(Hosts(AcquireSettings(**{**usual, **settings}), patience))

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
