"""A release that waits for a person is seen from the store."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from corpora.store.places.place import Place
from flows.command.operations.display import status_lines
from flows.orchestration.releases.approval import says_who_waits
from flows.orchestration.schedules.housekeeping import said_in_store
from flows.run.record.listed_runs import store_status, waiting_path


def test_a_release_that_waits_is_in_the_status(tmp_path: Path) -> None:
    """Fails where nobody is told which release waits and where to answer, or is told of one that is answered."""
    place, said = Place(str(tmp_path / "store")), list[str]()
    record = SimpleNamespace(recipe="news", run_id="20260102T0304-news")
    promotion: Any = SimpleNamespace(place=place, name="prod", record=record)
    waiting = says_who_waits(promotion, "http://127.0.0.1:4200/runs/1")
    with said_in_store(place, waiting_path("prod"), lambda: waiting, "release", said.append):
        status = store_status(place)
        [waiting] = status.to_json()["waiting"]
        assert (waiting["release"], waiting["recipe"]) == ("prod", "news")
        line = list(status_lines(status))[-1]
        assert line.startswith("news: the release prod of the run 20260102T0304-news waits for approval since 20")
        assert line.endswith(": http://127.0.0.1:4200/runs/1")
    assert store_status(place).waiting == () and said == []
