"""A run as OpenLineage events: what each stage read and wrote, for the tools that collect lineage.

    START of the run ─► START and COMPLETE of each stage ─► COMPLETE, FAIL or ABORT of the run

Jobs are the recipe and its stages, data sets are artifacts (named without their fingerprint, so that they are the same
from run to run; the version says which) and sources. Counts are those of manifests.

Promise: the same record in the same store gives the same events: ids are made of the run's. A record keeps how long
each stage took and not when it began, so in the events stages follow one another, within the time of the run.
Cost: the manifests of the run.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.sources.bytes.objects import raw_path
from corpora.store.manifest import Manifest
from corpora.store.places.address import is_object_address
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.recipes.recipe import Recipe
from flows.run.pipeline import STAGES
from flows.run.record.ledger_balance import size_bytes
from flows.run.record.run_record import RunRecord, StageRecord, recorded_recipe

SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = {
    "nominalTime": "1-0-1/NominalTimeRunFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "parent": "1-2-0/ParentRunFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "version": "1-0-1/DatasetVersionDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
}
NAMESPACE = "cloze"
ENDS = {"completed": "COMPLETE", "failed": "FAIL", "interrupted": "ABORT"}
_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "urn:cloze:runs")

Event = dict[str, Any]


@dataclass(frozen=True)
class RunLineage:
    """A run on record, and the documents about it."""

    place: Place
    record: RunRecord
    namespace: str = NAMESPACE

    @cached_property
    def started(self) -> datetime:
        """When the run began."""
        return datetime.fromisoformat(self.record.started)

    @cached_property
    def ended(self) -> datetime:
        """When it ended."""
        return self.started + timedelta(seconds=self.record.seconds)

    @cached_property
    def recipe(self) -> Recipe | None:
        """Its recipe; None where this version cannot read it."""
        try:
            return recorded_recipe(self.record, self.place.address)
        except InputError:
            return None


@cache
def producer() -> str:
    """Return the producer of the events."""
    return f"urn:cloze:{version('cloze-pipeline')}"


def facets(**fields: Event | None) -> Event:
    """Return facets by their names, with where each is defined; None is left out."""
    return {
        name: {"_producer": producer(), "_schemaURL": _definition(name), **of}
        for name, of in fields.items()
        if of is not None
    }


def _definition(name: str) -> str:
    return f"https://openlineage.io/spec/facets/{FACETS[name]}.json#/$defs/{FACETS[name].partition('/')[2]}"


def events_of(place: Place, record: RunRecord, namespace: str = NAMESPACE) -> list[Event]:
    """Return the events of a run, in order. Raises Damaged."""
    run = RunLineage(place, record, namespace)
    begun, job = run_of(run), job_of_run(run)
    return [
        _event("START", run.started, begun, job),
        *stage_events(run),
        _event(ENDS[record.state], run.ended, run_of(run, ended=True), job),
    ]


def _event(kind: str, moment: datetime, run: Event, job: Event, inputs: Any = (), outputs: Any = ()) -> Event:
    return {
        "eventType": kind,
        "eventTime": moment.isoformat(timespec="milliseconds"),
        "run": run,
        "job": job,
        "inputs": [*inputs],
        "outputs": [*outputs],
        "producer": producer(),
        "schemaURL": SPEC,
    }


def id_of(*names: str) -> str:
    """Return the UUID of a run or of a stage in it."""
    return str(uuid.uuid5(_IDS, "/".join(names)))


def run_of(run: RunLineage, ended: bool = False) -> Event:
    """Return the run itself, with its times, the program's version, and what ended it."""
    record, error = run.record, None
    if ended and record.state != "completed":
        shown = run.recipe is not None and run.recipe.privacy.samples == "text"
        message = record.error if record.error and shown else f"The run is {record.state}."
        error = {"message": message, "programmingLanguage": "Python"}
    of_run = facets(
        nominalTime=_times(run.started, run.ended),
        processing_engine={"version": version("cloze-pipeline"), "name": "Cloze"},
        errorMessage=error,
    )
    return {"runId": id_of(record.run_id), "facets": of_run}


def _times(first: datetime, last: datetime) -> Event:
    begin, end = (moment.isoformat(timespec="milliseconds") for moment in (first, last))
    return {"nominalStartTime": begin, "nominalEndTime": end}


def job_of_run(run: RunLineage) -> Event:
    """Return the recipe as a job."""
    return {"namespace": run.namespace, "name": run.record.recipe, "facets": facets(jobType=_job_type("RECIPE"))}


def _job_type(kind: str) -> Event:
    return {"processingType": "BATCH", "integration": "CLOZE", "jobType": kind}


def stage_events(run: RunLineage) -> Iterator[Event]:
    """A start and an end for each stage that the run has finished."""
    moment = run.started
    for stage in run.record.stages:
        begun, moment = moment, min(moment + timedelta(seconds=stage.seconds), run.ended)
        manifest = read_manifest(run.place, stage.folder)
        of, job = _run_of_stage(run, stage, begun, moment), _job_of_stage(run, stage)
        data = {"inputs": inputs_of(run, manifest), "outputs": [output_of(run, stage, manifest)]}
        yield _event("START", begun, of, job, **data)
        yield _event("COMPLETE", moment, of, job, **data)


def _run_of_stage(run: RunLineage, stage: StageRecord, begun: datetime, ended: datetime) -> Event:
    of_stage = facets(
        nominalTime=_times(begun, ended),
        parent={
            "run": {"runId": id_of(run.record.run_id)},
            "job": {"namespace": run.namespace, "name": run.record.recipe},
        },
    )
    return {"runId": id_of(run.record.run_id, stage.folder), "facets": of_stage}


def _job_of_stage(run: RunLineage, stage: StageRecord) -> Event:
    name = f"{run.record.recipe}.{stage.kind}.{stage.name}"
    return {"namespace": run.namespace, "name": name, "facets": facets(jobType=_job_type("STAGE"))}


# Data sets.

# The table whose rows are counted, where it is not named like the kind of artifact.
MAIN = {"fits": "lines", "corpora": "documents", "vocabularies": "tokens", "shards": "examples", "models": "files"}


def name_in(place: Place, folder: str) -> tuple[str, str]:
    """Return namespace and name of a folder of a store, as OpenLineage names what is in files."""
    if place.is_local:
        return "file", place.full_path(folder)
    bucket, _, path = place.full_path(folder).partition("/")
    return f"s3://{bucket}", path


def name_of_source(run: RunLineage, name: str) -> tuple[str, str]:
    """Return namespace and name of the place of a source's raw files; without a path, the source's name."""
    entries = run.recipe.sources if run.recipe is not None else ()
    paths = (str(getattr(entry.source, "path", "")) for entry in entries if entry.source.name == name)
    path = next(paths, "")
    if not path:
        return run.namespace, f"sources/{name}"
    if is_object_address(path):
        bucket, _, inside = path.removeprefix("s3://").partition("/")
        return f"s3://{bucket}", inside
    return "file", str(Path(str(raw_path(path))).absolute())


def inputs_of(run: RunLineage, manifest: Manifest | None) -> list[Event]:
    """Return what a stage read: artifacts, and raw files. Several generations of one are one data set."""
    if manifest is None:
        return []
    versions: dict[tuple[str, str], list[str]] = {}
    for parent in manifest.parents:
        made = parent.role in STAGES
        named = name_in(run.place, f"{parent.role}/{parent.name}") if made else name_of_source(run, manifest.name)
        versions.setdefault(named, []).append(parent.fingerprint)
    return [
        {
            "namespace": namespace,
            "name": name,
            "facets": facets(version={"datasetVersion": ",".join(fingerprints)}),
        }
        for (namespace, name), fingerprints in versions.items()
    ]


def output_of(run: RunLineage, stage: StageRecord, manifest: Manifest | None) -> Event:
    """Return the artifact of a stage."""
    namespace, name = name_in(run.place, f"{stage.kind}/{stage.name}")
    version_of = facets(version={"datasetVersion": stage.folder.rpartition("/")[2]})
    statistics = facets(outputStatistics=_statistics(manifest)) if manifest is not None else {}
    return {"namespace": namespace, "name": name, "facets": version_of, "outputFacets": statistics}


def _statistics(manifest: Manifest) -> dict[str, int]:
    """Return rows, bytes and files of an artifact; rows are those of its main table."""
    files = sum(len(part.files) for part in manifest.parts)
    rows = manifest.rows(MAIN.get(manifest.kind, manifest.kind))
    return {"rowCount": rows, "size": size_bytes(manifest), "fileCount": files}


def lineage_document(events: Sequence[Event], lines: bool) -> bytes:
    """Return events as a JSON array, or as a line each, as OpenLineage's file transport writes them."""
    if lines:
        return "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in events).encode()
    return (json.dumps(events, indent=1, ensure_ascii=False) + "\n").encode()
