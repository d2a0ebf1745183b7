"""How a run ended is the same word at every door: `cloze runs`, `status`, the report, the UI, the exit code."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded_run import made_record
from small_recipe import World, new_world, text_of

from flows.command.cli import run_command_line
from flows.command.terminal import console
from flows.orchestration.run_state import Judgement, RunState
from flows.recipes.lock import Lock
from flows.report.page import build_page
from flows.run.record.run_record import RunRecord, SetAside, begin_run, write_run
from flows.run.record.run_status import RunHeartbeat

CROSSED = ("documents is 1 document: the bound is min = 2",)
WITHHELD = ("documents is 1 document and was 9 documents: the bound is fall = 0.1",)
ASIDE = SetAside(kind="damaged record", number=2, place="documents/pages/ab", new=2)
KNOWN = replace(ASIDE, number=1, place="documents/pages/cd", new=0)
# What is on record of a run, the words of all doors, and the name of its state in the UI if it is complete.
STATES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "completed", "Completed"),
    ({"crossed": CROSSED}, "completed, drifted", "Drifted"),
    ({"withheld": WITHHELD}, "completed, drifted, not released", "Drifted"),
    ({"set_aside": (ASIDE, KNOWN)}, "completed, 2 set aside", "Completed"),
    ({"set_aside": (KNOWN,)}, "completed", "Completed"),
    (
        {"crossed": CROSSED, "withheld": WITHHELD, "set_aside": (ASIDE,)},
        "completed, drifted, not released, 2 set aside",
        "Drifted",
    ),
    ({"state": "failed", "error": "No raw file."}, "failed", ""),
    ({"state": "interrupted"}, "interrupted", ""),
]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(console, "width", 200)
    return new_world(tmp_path)


def at_all_doors(world: World, record: RunRecord, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What each door says of a run that is on record; as far as its sentence is about how the run ended."""
    begin_run(world.place, record.run_id, world.recipe())
    write_run(world.place, record, Lock())
    store, said = world.place.address, {}
    for door in (["runs", store], ["runs", store, "--json"], ["status", store], ["status", store, "--json"]):
        assert run_command_line(door, world.folder) == 0
        said[" ".join(door[:1] + door[2:])] = capsys.readouterr().out
    [listed], status = json.loads(said["runs --json"]), json.loads(said["status --json"])["ended"]
    page = text_of(build_page(world.place, record, "text"))
    return {
        "runs": said["runs"].splitlines()[-1].split("small")[1].split("  nothing")[0].strip(),
        "runs --json": listed["outcome"],
        "status": said["status"].partition("00:00: ")[2].partition(".")[0],
        "status --json": status[0]["outcome"],
        "report": page.partition("; began")[0].rpartition("small ")[2].lower(),
    }


@pytest.mark.parametrize(("fields", "words", "name"), STATES, ids=[words for _, words, _ in STATES[:-2]] + ["f", "i"])
def test_every_door_says_the_same(
    fields: dict[str, Any], words: str, name: str, bare: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if a state of a run has another word at one of the doors, or one of them keeps something to itself."""
    record = made_record("20260101T000000000000-small", **fields)
    assert at_all_doors(bare, record, capsys) == dict.fromkeys(
        ("runs", "runs --json", "status", "status --json", "report"), words
    )
    if not name:
        return
    pulse = RunHeartbeat(bare.place, bare.recipe(), record.run_id, record.started)
    run = RunState(recipe=bare.recipe(), run_id=record.run_id, started=record.started, pulse=pulse, print_line=print)
    withheld: Any = SimpleNamespace(crossed=record.withheld) if record.withheld else None
    run.judgement = Judgement(crossed=record.crossed, set_aside=record.set_aside, candidate=withheld)
    run.outcome = SimpleNamespace(shard_sets={}, model=None, tasks={})  # type: ignore[assignment]
    pulse.end()
    assert run.final_state_name == name
    assert (name == "Drifted") == record.is_drifted  # exit code 1
    more = "; ".join(filter(None, [words.removeprefix("completed").removeprefix(", "), *record.all_crossed]))
    assert run.summarize() == "; ".join(filter(None, ["0 examples", more]))
