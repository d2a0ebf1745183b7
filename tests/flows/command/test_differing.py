"""`cloze diff`: which runs are meant by what is typed, and what is said of them. The figures are made up."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded_run import made_record

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command.cli import run_command_line
from flows.recipes.lock import Lock
from flows.run.addresses import find_run
from flows.run.record.figures import COUNT, SHARE, Figure, write_figures
from flows.run.record.run_record import RunRecord, StageRecord, write_run


def record(place: Place, run_id: str, documents: int, **changes: Any) -> RunRecord:
    """A run on record, with two figures."""
    made = made_record(run_id, **{"recipe": run_id.partition("-")[2], "started": run_id[:8], **changes})
    write_run(place, made, Lock())
    figures = {
        "documents": Figure(value=documents, unit="documents", kind=COUNT),
        "dropped share": Figure(value=0.25, unit="records", kind=SHARE),
    }
    write_figures(place, made, figures)
    return made


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Four runs of notes, of which one failed, and one of another recipe."""
    monkeypatch.chdir(tmp_path)
    place = Place(str(tmp_path / "store"))
    for day, documents, state in ((1, 10, "completed"), (2, 12, "completed"), (3, 1, "failed"), (4, 15, "completed")):
        record(place, f"2026010{day}T120000000000-notes", documents, state=state)
    record(place, "20260105T120000000000-letters", 99)
    return place


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_command_line(["diff", *arguments], Path()) == 0
    return capsys.readouterr().out


def test_two_runs_are_compared_in_the_order_in_which_they_are_named(
    store: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "20260101", "20260104T12").splitlines()
    assert lines[0].startswith("before  20260101  notes, completed, began ")
    assert lines[1].startswith("after   20260104  notes")
    assert ["documents", "10", "15", "+5", "(+50%)"] in [line.split() for line in lines]
    assert "dropped share" not in "".join(lines) and lines[-1] == "1 figure is the same."
    assert ["documents", "15", "10", "-5", "(-33%)"] in [
        line.split() for line in said(capsys, "20260104", "20260101").splitlines()
    ]
    assert "dropped share" in said(capsys, "20260101", "20260104", "--all")


def test_a_run_alone_is_compared_with_the_one_before(store: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the fourth is the second: the third failed. JSON has every figure."""
    found = json.loads(said(capsys, "20260104", "--json"))
    assert (found["before"]["run_id"][:8], found["after"]["run_id"][:8]) == ("20260102", "20260104")
    documents, share = found["figures"]
    assert documents["change"] == 3 and documents["relative"] == 0.25 and share["change"] == 0
    assert "Nothing differs: 2 figures are the same." in said(capsys, "20260104", "20260104")


def test_runs_are_named_by_folder_and_store_too(store: Place, tmp_path: Path) -> None:
    run_id = "20260102T120000000000-notes"
    other = Place(str(tmp_path / "other"))
    record(other, run_id, 7)
    for name in (run_id, "20260102", f"store/runs/{run_id}", store.to_address(f"runs/{run_id}")):
        place, found = find_run(name, "store")
        assert (found.run_id, place.to_address("")) == (run_id, store.to_address("")), name
    assert find_run("store", "elsewhere")[1].recipe == "letters"
    assert find_run(str(tmp_path / "other"), "store")[0].to_address("") == other.to_address("")
    assert find_run("20260102", "other")[0].to_address("") == other.to_address("")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("2026010",), r"5 runs fit '2026010', the newest: 20260101T"),
        (("nothing",), r"There is no run 'nothing' in .*store\."),
        (("20260101",), r"no completed run of the recipe 'notes' before 20260101T"),
        (("none/store",), r"There is no completed run in .*none/store"),
    ],
)
def test_what_names_no_run_is_refused_with_what_does(store: Place, arguments: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        run_command_line(["diff", *arguments], Path())


def test_a_run_that_kept_no_figures_and_has_lost_its_artifacts_is_refused(store: Place) -> None:
    run_id = "20260106T120000000000-notes"
    stage = StageRecord(
        kind="documents",
        name="notes",
        folder="documents/notes/gone",
        state="built",
        reason="new",
        seconds=1.0,
        parts=1,
        parts_built=1,
    )
    write_run(store, replace(record(store, run_id, 1), stages=(stage,)), Lock())
    store.write(f"runs/{run_id}/figures.json", b"{}")
    with pytest.raises(InputError, match=r"has kept no figures, and its artifacts are not all in"):
        run_command_line(["diff", "20260106"], Path())
