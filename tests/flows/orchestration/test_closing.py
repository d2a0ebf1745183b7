"""A stopped run leaves no task open at the server, however late the server hears of it."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from flows import signals
from flows.orchestration import flow_end


class LateServer:
    """A server that hears of a task at each of some looks, by their numbers."""

    def __init__(self, heard: tuple[int, ...]) -> None:
        self.heard, self.looks, self.open, self.flow_runs = heard, 0, set[UUID](), list[UUID]()

    def set_flow_run_state(self, id: UUID, state: Any, force: bool) -> None:
        self.flow_runs.append(id)

    def read_task_runs(self, **asked: Any) -> list[Any]:
        self.open |= {uuid4()} if self.looks in self.heard else set()
        self.looks += 1
        return [SimpleNamespace(id=id) for id in self.open]

    def set_task_run_state(self, id: UUID, state: Any, force: bool) -> None:
        assert force and state.is_cancelled()
        self.open.remove(id)


@pytest.mark.parametrize("looks", [(), (0, 2, 3)])
def test_a_task_that_the_server_hears_of_late_is_closed(
    monkeypatch: pytest.MonkeyPatch, looks: tuple[int, ...]
) -> None:
    """Fails if what is on its way when a run is stopped stays open, or the process is gone before it is closed."""
    server, run, settled = LateServer(looks), uuid4(), flow_end.QUIET_POLLS
    assert flow_end.CLOSING_SECONDS + settled * flow_end.POLL_SECONDS < signals.ACTION_SECONDS
    monkeypatch.setattr(flow_end, "get_client", lambda sync_client: nullcontext(server))
    monkeypatch.setattr(flow_end, "POLL_SECONDS", 0.0)
    flow_end.close_flow_run(str(run))
    assert not server.open and server.flow_runs == [run]
    assert server.looks == max(looks, default=-1) + 1 + settled
