"""A stopped run leaves no task open at the server, however late the server hears of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from flows import signals as stopping
from flows.orchestration.runs import stage_tasks as performing
from flows.orchestration.runs.stage_tasks import CLOSING_SECONDS, LOOK_SECONDS, SETTLED_LOOKS, close_flow_run


class LateServer:
    """A server that hears of a task at each of some looks, by their numbers."""

    def __init__(self, heard: dict[int, UUID]) -> None:
        self.heard = heard
        self.looks = 0
        self.open: set[UUID] = set()
        self.flow_runs: list[UUID] = []

    def set_flow_run_state(self, id: UUID, state: Any, force: bool) -> None:
        self.flow_runs.append(id)

    def read_task_runs(self, **asked: Any) -> list[Any]:
        if self.looks in self.heard:
            self.open.add(self.heard[self.looks])
        self.looks += 1
        return [SimpleNamespace(id=id) for id in self.open]

    def set_task_run_state(self, id: UUID, state: Any, force: bool) -> None:
        assert force and state.is_cancelled()
        self.open.remove(id)


@pytest.mark.parametrize("looks", [(), (0,), (1,), (0, 2, 3)])
def test_a_task_that_the_server_hears_of_late_is_closed(
    monkeypatch: pytest.MonkeyPatch, looks: tuple[int, ...]
) -> None:
    """Fails where what is on its way when a run is stopped stays open for ever."""
    heard = {look: uuid4() for look in looks}
    server, run = LateServer(heard), uuid4()

    @contextmanager
    def client(sync_client: bool) -> Iterator[LateServer]:
        yield server

    monkeypatch.setattr(performing, "get_client", client)
    monkeypatch.setattr(performing, "LOOK_SECONDS", 0.0)
    close_flow_run(str(run))
    assert not server.open and server.flow_runs == [run]
    assert server.looks == max(heard, default=-1) + 1 + SETTLED_LOOKS


def test_closing_ends_within_the_time_of_last_words() -> None:
    """Fails where the process is gone before the looks that close its tasks are over."""
    assert CLOSING_SECONDS + SETTLED_LOOKS * LOOK_SECONDS < stopping.WORDS_SECONDS
