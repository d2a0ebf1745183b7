"""What the tests of acquiring share: a server that misbehaves by script, and short waits."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from scripted_server import NewHosts, ScriptedServer, scripted_server

from corpora.acquire.hosts import Hosts
from corpora.acquire.waiting import Patience
from corpora.acquire.wanted import AcquireSettings


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A server with an empty script, asked directly and not through a proxy."""
    monkeypatch.setenv("NO_PROXY", "*")
    with scripted_server() as running:
        yield running


@pytest.fixture
def new_hosts() -> Iterator[NewHosts]:
    """Makes clients that wait for hundredths of a second; `most_seconds` bounds what a server may ask for."""
    with ExitStack() as stack:

        def make(most_seconds: float = 5.0, **settings: Any) -> Hosts:
            patience = Patience(first_seconds=0.01, most_seconds=most_seconds, jitter=lambda: 0.5)
            usual = {"catalogue": "urls", "urls": ("https://example.org/a",), "timeout_seconds": 2.0, "attempts": 4}
            return stack.enter_context(Hosts(AcquireSettings(**{**usual, **settings}), patience))

        yield make
