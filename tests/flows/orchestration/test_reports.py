"""Which reports a server of a home shows."""

from pathlib import Path
from uuid import uuid4

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from corpora.store.places.place import Place
from flows.orchestration import server_guard as reports
from flows.orchestration.server_guard import add_reports, get_report_path, read_report, record_store


def test_the_reports_of_a_known_store_are_shown_and_nothing_else(tmp_path: Path) -> None:
    """Fails if a report is not found, or a path leads out of the runs of its store."""
    home, place, known = tmp_path / "home", Place(str(tmp_path / "a store")), str(uuid4())
    home.mkdir()
    record_store(home, known, place)
    place.write("runs/2026-small (new)/report.html", b"the page")
    place.write("runs/2026-small (new)/run.json", b"the record")
    place.write("report.html", b"another")
    assert read_report(home, known, "2026-small (new)") == b"the page"
    for run in ("..", "x/..", "../runs/2026-small (new)", "2025", ""):
        assert read_report(home, known, run) is None
    for flow_run in (str(uuid4()), f"../reports/{known}", ""):
        assert read_report(home, flow_run, "2026-small (new)") is None
    app = FastAPI()
    add_reports(app, home)
    asked = TestClient(app).get
    answer = asked(get_report_path(known, "2026-small (new)"))
    assert answer.content == b"the page" and answer.headers["content-security-policy"].startswith("default-src 'none'")
    for path in (f"{known}/..%2f..%2fx", f"{known}/..", f"{known}/..%2f", f"{known}/1", "1/1"):
        assert asked(f"/cloze/report/{path}/report.html").status_code == 404
    [file] = (home / "reports").iterdir()
    for damaged in ("[]", "{", '{"store": 1}', '{"store": "s3://"}'):
        file.write_text(damaged)
        assert read_report(home, known, "2026-small (new)") is None


def test_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_KEPT_STORES", 3)
    for _ in range(5):
        record_store(tmp_path, str(uuid4()), Place(str(tmp_path)))
    assert len([*(tmp_path / "reports").iterdir()]) == 3
