"""One run of a schedule follows for all that are due, whatever the orchestrator answers."""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID, uuid4

import httpx
import pytest

from flows.orchestration import scheduled_run
from flows.orchestration.pages import JOINER, LiveArtifact
from flows.orchestration.recording import PageBuffer, keep_pages
from flows.orchestration.scheduled_run import RunLog, merge_due_runs, show_next_run


@dataclass(frozen=True, kw_only=True)
class Due:
    """A run that is due."""

    auto_scheduled: bool = True
    parameters: str = "as the schedule says"
    name: str = "small 2026-01-02"
    id: UUID = field(default_factory=uuid4)
    next_scheduled_start_time: datetime | None = None


@dataclass
class Api:
    """An API with runs that are due; the state that each was given, with its message."""

    me: Due
    others: list[Due]
    error: Exception | None = None
    given: dict[UUID, tuple[str, str]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read_flow_run(self, id: UUID) -> Due:
        if self.error is not None:
            raise self.error
        assert id == self.me.id
        return self.me

    def read_flow_runs(self, *, flow_run_filter: Any, **_: Any) -> list[Due]:
        if self.error is not None:
            raise self.error
        assert [kind.value for kind in flow_run_filter.state.type.any_] == ["SCHEDULED"]
        return [self.me, *self.others]

    def set_flow_run_state(self, id: UUID, state: Any) -> None:
        self.given[id] = (state.name, state.message)


def followed(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what a run that begins with an API prints."""
    said: list[str] = []
    here = SimpleNamespace(flow_run=SimpleNamespace(id=str(api.me.id)), deployment=SimpleNamespace(id=str(uuid4())))
    monkeypatch.setattr(scheduled_run, "runtime", here)
    monkeypatch.setattr(scheduled_run, "get_client", lambda sync_client: api)
    merge_due_runs(said.append)
    return said


def test_what_is_due_while_a_run_is_going_is_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if several runs follow one after another, or one that a person asked for, or that differs, is ended."""
    due, asked, other = [Due(), Due()], Due(auto_scheduled=False), Due(parameters="others")
    api = Api(Due(), [*due, asked, other])
    said = followed(api, monkeypatch)
    message = "Due while another run was going; small 2026-01-02 followed."
    assert api.given == {run.id: ("Merged", message) for run in due}
    assert said == ["2 more runs of the schedule became due meanwhile: this one follows for all."]
    assert followed(Api(Due(), []), monkeypatch) == []


def test_a_server_that_fails_fails_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a busy server at the wrong moment costs the run, and not only the merging."""
    [line] = followed(Api(Due(), [Due()], error=httpx.ReadTimeout("slow")), monkeypatch)
    assert line.startswith("Other runs that are due follow each by itself")


@pytest.mark.parametrize(("later", "waiting"), [([60], 0), ([-60, -30, 60, 120], 2), ([-30], 1), ([], 0)])
def test_the_page_of_a_run_says_what_is_next_and_when(
    later: list[int], waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a person has to leave the page of a run to know when the next one is due, or if others wait."""
    now = datetime.now(UTC)
    times = [now + timedelta(minutes=minutes) for minutes in later]
    [me, *others] = [Due(), *(Due(next_scheduled_start_time=moment) for moment in times)]
    here, pages = SimpleNamespace(deployment=SimpleNamespace(id=str(uuid4()))), PageBuffer()
    monkeypatch.setattr(scheduled_run, "runtime", here)
    monkeypatch.setattr(scheduled_run, "get_client", lambda sync_client: Api(me, others))
    with keep_pages(print, pages, str):
        text = show_next_run(LiveArtifact(key="next-run-small"), "small")
    shown = pages.artifacts["next-run-small"]
    [row] = json.loads(shown["data"])
    due = [f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}" for moment in times if moment > now]
    assert row["waiting"] == str(waiting)
    assert row["next run"].replace(JOINER, "") == (due[0] if due else "none")
    assert text == (f"the next run is due at {due[0]}" if due else "")
    assert shown["description"].replace(JOINER, "") == f"small: {text or 'no other run is due'}"
    monkeypatch.setattr(scheduled_run, "get_client", lambda sync_client: Api(me, [], httpx.ReadTimeout("slow")))
    assert show_next_run(LiveArtifact(key="other"), "small") == ""


def test_every_line_of_a_service_has_its_time_and_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a line of a log cannot be told from that of another run, or of another day."""
    log = RunLog()
    log("It begins.")
    log.begin("20260101T000000483910-small")
    log("Two\nlines.")
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    lines = capsys.readouterr().out.splitlines()
    patterns = [rf"{moment} It begins\.", rf"{moment} \[483910\] Two", rf"{moment} \[483910\] lines\."]
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(patterns, lines, strict=True))
