"""`cloze runs` and `cloze status`: what ran in a store and what runs there, as the runs themselves have written it."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from recorded_run import of_recipe
from small_recipe import World, new_world

from corpora.store.leases import identify_this_process, read_heartbeat
from corpora.store.places.place import Place
from flows.command.cli import run_command_line
from flows.command.terminal import console
from flows.recipes.lock import Lock
from flows.run.record.run_record import Cost, RunRecord, StageRecord, begin_run, read_run, write_run
from flows.run.record.run_status import RunHeartbeat, StageProgress, get_running_path

BUILT = StageRecord(
    kind="documents", name="pages", folder=f"documents/pages/{24 * '0'}", state="built", reason="new", seconds=1.0,
    parts=5, parts_built=3,
)  # fmt: skip
COST = Cost(cpu_seconds=75.0, bytes_written=12_345, peak_bytes=3_400_000)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A recipe and its store, in which nothing ran; tables have room."""
    monkeypatch.setattr(console, "width", 200)
    world = new_world(tmp_path)
    Path(world.recipe().store).mkdir()
    return world


def record(world: World, second: int, **more: Any) -> RunRecord:
    """Put a run of a second of the year 2026 on record."""
    moment = f"2026-01-01T00:00:{second:02}+00:00"
    made = replace(of_recipe(f"20260101T0000{second:02}000000-small", world.recipe(), started=moment), **more)
    begin_run(world.place, made.run_id, world.recipe())
    write_run(world.place, made, Lock())
    return made


def said(capsys: pytest.CaptureFixture[str], world: World, *arguments: str) -> str:
    """Return what a command prints."""
    assert run_command_line([*arguments], world.folder) == 0
    return capsys.readouterr().out


def test_runs_are_told_newest_first(bare: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a run is not told, out of order, or without what it built and cost."""
    record(bare, 1)
    record(bare, 2, stages=(BUILT, replace(BUILT, kind="corpora", state="reused")), cost=COST, names=("small",))
    record(bare, 3, state="failed")
    told = json.loads(said(capsys, bare, "runs", bare.place.address, "--json"))
    assert [(run["state"], run["new_parts"], run["cpu_seconds"]) for run in told] == [
        ("failed", {}, None),
        ("completed", {"documents": 3}, 75.0),
        ("completed", {}, None),
    ]
    lines = said(capsys, bare, "runs", str(bare.recipe_path), "--limit", "2").splitlines()
    rows = [line.split() for line in lines if "small" in line]
    assert [row[3:5] for row in rows] == [["small", "failed"], ["small", "completed"]]
    assert " ".join(rows[1][5:]) == "3 parts of documents 1.0 s 75.0 s 12.3 kB 3.4 MB"
    assert read_run(bare.place, "20260101T000002000000-small").cost == COST


def test_a_run_is_running_while_its_process_lives_and_lost_after(
    bare: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if a run under way is not told, or one whose process is gone is taken for one."""
    recipe, run_id = bare.recipe(), "20260102T000000000000-small"
    pulse = RunHeartbeat(bare.place, recipe, run_id, "2026-01-02T00:00:00+00:00")
    pulse.advance("documents/pages", 2, 8)
    [told] = json.loads(said(capsys, bare, "status", bare.place.address, "--json"))["running"]
    assert told["pid"] == identify_this_process().pid and told["names"] == ["notes", "pages", "small"]
    assert "running" in said(capsys, bare, "runs", bare.place.address)
    present = read_heartbeat(bare.place, get_running_path(run_id))
    pulse.end()
    assert json.loads(said(capsys, bare, "runs", bare.place.address, "--json")) == []
    assert present is not None
    gone = replace(present.process, began=1)
    fields = {"process": asdict(gone), "beat": "2026-01-02T00:00:00+00:00", "said": dict(present.report)}
    bare.place.write(get_running_path(run_id), json.dumps(fields).encode())
    [lost] = json.loads(said(capsys, bare, "runs", bare.place.address, "--json"))
    assert (lost["state"], lost["recipe"], lost["seconds"]) == ("lost", "small", None)
    assert "Nothing runs here now." in said(capsys, bare, "status", bare.place.address)
    assert "is lost" in said(capsys, bare, "status", bare.place.address)
    record(bare, 5, run_id="20260103T000000000000-small")
    assert "is lost" not in said(capsys, bare, "status", bare.place.address)


def test_time_is_left_once_a_rate_is_known() -> None:
    """Fails if parts that were there before make a rate, or a time is told before there is one."""
    progress = StageProgress(parts=100, built=40, first_built=40, started=0.0)
    assert progress.to_json(10.0) == {"built": 40, "parts": 100, "rate": None, "seconds_left": None}
    progress.built = 60
    assert progress.to_json(10.0) == {"built": 60, "parts": 100, "rate": 2.0, "seconds_left": 20}
    assert progress.to_json(1.0)["rate"] is None


def test_a_store_that_is_not_there_is_said(tmp_path: Path) -> None:
    from corpora.errors import InputError

    for command in ("runs", "status"):
        with pytest.raises(InputError, match=r"There is no store at .*nowhere"):
            run_command_line([command, str(tmp_path / "nowhere")], tmp_path)
    assert Place(str(tmp_path)).list_files("") == {}
