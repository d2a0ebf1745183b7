"""The OpenLineage events of a run: what the object model requires, and the numbers of the ledgers."""

import json
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from small_recipe import Run

from flows.command.cli import run_command_line
from flows.export.lineage import events_of
from flows.run.record.run_record import RunRecord, begin_run, write_run

# What the object model 2-0-2 and the facets' own definitions require, by the name of the definition.
REQUIRED = {
    "NominalTimeRunFacet": {"nominalStartTime": str},
    "ParentRunFacet": {"run": dict, "job": dict},
    "ErrorMessageRunFacet": {"message": str, "programmingLanguage": str},
    "ProcessingEngineRunFacet": {"version": str},
    "JobTypeJobFacet": {"processingType": str, "integration": str},
    "DatasetVersionDatasetFacet": {"datasetVersion": str},
    "OutputStatisticsOutputDatasetFacet": {"rowCount": int},
}
GROUPS = {"inputs": ("facets", "inputFacets"), "outputs": ("facets", "outputFacets")}


def facets_in(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every facet of an event with its name."""
    yield from event["run"]["facets"].items()
    yield from event["job"]["facets"].items()
    for side, groups in GROUPS.items():
        for dataset in event[side]:
            for group in groups:
                yield from dataset.get(group, {}).items()


def check(event: dict[str, Any]) -> None:
    """Hold an event to what its definition requires."""
    assert event["eventType"] in ("START", "COMPLETE", "FAIL", "ABORT")
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert str(uuid.UUID(event["run"]["runId"])) == event["run"]["runId"]
    assert event["schemaURL"] == "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
    assert re.match(r"[a-z]+:\S+$", event["producer"])
    for named in (event["job"], *event["inputs"], *event["outputs"]):
        assert named["namespace"] and named["name"]
    for name, facet in facets_in(event):
        assert facet["_producer"] == event["producer"]
        called = re.fullmatch(
            r"https://openlineage\.io/spec/facets/\d-\d-\d/(\w+)\.json#/\$defs/\1", facet["_schemaURL"]
        )
        assert called is not None, name
        for key, kind in REQUIRED[called[1]].items():
            assert isinstance(facet[key], kind), (name, key)


@pytest.fixture(scope="module")
def events(finished: Run) -> list[dict[str, Any]]:
    return events_of(finished.place, finished.record)


def test_events_are_what_the_object_model_requires(events: list[dict[str, Any]], finished: Run) -> None:
    """Fails where a required key is missing, a stage has no start or end, or an end comes before its start."""
    for event in events:
        check(json.loads(json.dumps(event)))
    moments: dict[str, list[tuple[str, str]]] = {}
    for event in events:
        moments.setdefault(event["run"]["runId"], []).append((event["eventType"], event["eventTime"]))
    assert len(moments) == 1 + len(finished.record.stages)
    for told in moments.values():
        assert [kind for kind, _ in told] == ["START", "COMPLETE"]
        assert told[0][1] <= told[1][1]
    [parent] = {e["run"]["facets"]["parent"]["run"]["runId"] for e in events if "parent" in e["run"]["facets"]}
    assert parent == events[0]["run"]["runId"] == events[-1]["run"]["runId"]


def test_what_one_stage_writes_the_next_one_reads(events: list[dict[str, Any]], finished: Run) -> None:
    """Fails where an input has another name or version than the output it is."""
    written: dict[tuple[str, str], dict[str, Any]] = {}
    read = 0
    for event in events:
        for dataset in event["inputs"]:
            if (known := written.get((dataset["namespace"], dataset["name"]))) is not None:
                assert dataset["facets"] == known["facets"]
                read += event["eventType"] == "START"
        if event["eventType"] == "COMPLETE":
            written |= {(dataset["namespace"], dataset["name"]): dataset for dataset in event["outputs"]}
    parents = [p for m in finished.manifests for p in m.parents]
    assert read == sum(p.role != "raw" for p in parents) > 10
    [shards] = [dataset for dataset in written.values() if "/shards/" in dataset["name"]]
    assert shards["namespace"] == "file" and shards["name"].startswith("/")
    assert shards["outputFacets"]["outputStatistics"]["rowCount"] == finished.outcome.shards.rows("examples")


def test_the_command_writes_the_same_bytes(finished: Run, tmp_path: Path) -> None:
    """Fails where the clock or an order decides a byte, or a run that failed does not say so."""
    shutil.copytree(finished.place.full_path(""), tmp_path / "store")
    place = replace(finished.place, address=str(tmp_path / "store"))
    failed: RunRecord = replace(finished.record, state="failed", error="the disk is full")
    for record in (finished.record, replace(failed, run_id="20260102T000000000000-small")):
        begin_run(place, record.run_id, finished.recipe)
        write_run(place, record, finished.lock)
    for name in ("a.json", "b.json", "c.jsonl"):
        arguments = ["lineage", str(tmp_path / "store"), str(tmp_path / name)]
        assert run_command_line(arguments, tmp_path) == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    array = json.loads((tmp_path / "a.json").read_bytes())
    assert [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()] == array
    assert any(dataset["name"].endswith("raw/pages") for event in array for dataset in event["inputs"])
    run = str(tmp_path / "store" / "runs" / "20260102T000000000000-small")
    assert run_command_line(["lineage", run, str(tmp_path / "f.json")], tmp_path) == 0
    last = json.loads((tmp_path / "f.json").read_bytes())[-1]
    check(last)
    assert (last["eventType"], last["run"]["facets"]["errorMessage"]["message"]) == ("FAIL", "the disk is full")
