"""A run as OpenLineage events: what each stage read and wrote, for the tools that collect lineage.

    START of the run ─► START and COMPLETE of each stage ─► COMPLETE, FAIL or ABORT of the run

Jobs are the recipe and its stages, data sets are artifacts (named without their fingerprint, so that they are the same
from run to run; the version says which) and sources. Counts are those of manifests and of the lock.

Promise: the same record in the same store gives the same events: ids are made of the run's. A record keeps how long
each stage took and not when it began, so in the events stages follow one another, within the time of the run.
Cost: the manifests of the run, and the end of one file for each table of theirs.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.errors import InputError
from corpora.sources.bytes.objects import raw_path
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest, Parent
from corpora.store.places.address import is_object_address
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.recipes.settings.privacy import without_folders
from flows.run.pipeline import STAGES
from flows.run.record.ledger_balance import size_bytes
from flows.run.record.run_record import RunRecord, StageRecord, recorded_lock, recorded_recipe

SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = {
    "nominalTime": "1-0-1/NominalTimeRunFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "parent": "1-2-0/ParentRunFacet",
    "sourceCode": "1-0-1/SourceCodeJobFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "version": "1-0-1/DatasetVersionDatasetFacet",
    "schema": "1-2-0/SchemaDatasetFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
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

    @cached_property
    def lock(self) -> Lock:
        """Its lock; an empty one where it cannot be read."""
        try:
            return recorded_lock(self.place, self.record.run_id)
        except InputError:
            return Lock()


@cache
def producer() -> str:
    """Return the producer of the events."""
    return f"urn:cloze:{version('cloze-pipeline')}"


def facets(**fields: Event | None) -> Event:
    """Return facets by their names, with where each is defined: ours by an address of its own. None is left out."""
    return {
        name: {"_producer": producer(), "_schemaURL": _definition(name), **of}
        for name, of in fields.items()
        if of is not None
    }


def _definition(name: str) -> str:
    if name not in FACETS:
        return f"urn:cloze:facets:{name.removeprefix('cloze_')}:1"
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
    """Return the run itself, with its times, versions, and what ended it."""
    record, error = run.record, None
    if ended and record.state != "completed":
        shown = run.recipe is not None and run.recipe.privacy.samples == "text"
        message = record.error if record.error and shown else f"The run is {record.state}."
        error = {"message": message, "programmingLanguage": "Python"}
    of_run = facets(
        nominalTime=_times(run.started, run.ended),
        processing_engine={"version": version("cloze-pipeline"), "name": "Cloze"},
        cloze_run={
            "runId": record.run_id,
            "state": record.state,
            "workers": record.workers,
            "versions": dict(record.versions),
            "crossedBounds": list(record.crossed),
        },
        errorMessage=error,
    )
    return {"runId": id_of(record.run_id), "facets": of_run}


def _times(first: datetime, last: datetime) -> Event:
    begin, end = (moment.isoformat(timespec="milliseconds") for moment in (first, last))
    return {"nominalStartTime": begin, "nominalEndTime": end}


def job_of_run(run: RunLineage) -> Event:
    """Return the recipe as a job, with its text."""
    source = {"language": "toml", "sourceCode": without_folders(run.record.recipe_toml)}
    return {
        "namespace": run.namespace,
        "name": run.record.recipe,
        "facets": facets(jobType=_job_type("RECIPE"), sourceCode=source),
    }


def _job_type(kind: str) -> Event:
    return {"processingType": "BATCH", "integration": "CLOZE", "jobType": kind}


def stage_events(run: RunLineage) -> Iterator[Event]:
    """A start and an end for each stage that the run has finished."""
    moment = run.started
    for stage in run.record.stages:
        begun, moment = moment, min(moment + timedelta(seconds=stage.seconds), run.ended)
        manifest = read_manifest(run.place, stage.folder)
        of, job = _run_of_stage(run, stage, begun, moment), _job_of_stage(run, stage, manifest)
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
        cloze_stage={
            "state": stage.state,
            "reason": stage.reason,
            "seconds": stage.seconds,
            "parts": stage.parts,
            "partsBuilt": stage.parts_built,
        },
    )
    return {"runId": id_of(run.record.run_id, stage.folder), "facets": of_stage}


def _job_of_stage(run: RunLineage, stage: StageRecord, manifest: Manifest | None) -> Event:
    settings: Event | None = None
    if manifest is not None:
        settings = {
            "buildVersion": manifest.build_version,
            "settings": {name: value for name, value in manifest.settings.items() if name not in UNSAID},
            "libraries": dict(manifest.libraries),
        }
    of_job = facets(jobType=_job_type("STAGE"), cloze_settings=settings)
    return {"namespace": run.namespace, "name": f"{run.record.recipe}.{stage.kind}.{stage.name}", "facets": of_job}


# Data sets.

# The table whose rows are counted, where it is not named like the kind of artifact.
MAIN = {"fits": "lines", "corpora": "documents", "vocabularies": "tokens", "shards": "examples", "models": "files"}
UNSAID = ("left_out", "quarantine")  # settings that name raw files


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
    parents_by_name: dict[tuple[str, str], list[tuple[Parent, Manifest | None]]] = {}
    for parent in manifest.parents:
        if parent.role in STAGES:
            read = read_manifest(run.place, f"{parent.role}/{parent.name}/{parent.fingerprint}")
            named = name_in(run.place, f"{parent.role}/{parent.name}")
        else:
            read, named = None, name_of_source(run, manifest.name)
        parents_by_name.setdefault(named, []).append((parent, read))
    return [_input(run, named, parents, manifest) for named, parents in parents_by_name.items()]


def _input(
    run: RunLineage,
    named: tuple[str, str],
    parents: Sequence[tuple[Parent, Manifest | None]],
    of: Manifest,
) -> Event:
    manifests = [manifest for _, manifest in parents if manifest is not None]
    counts = _summed([_statistics(manifest) for manifest in manifests] or [_raw_statistics(run, parents[0][0], of)])
    return {
        "namespace": named[0],
        "name": named[1],
        "facets": facets(
            version={"datasetVersion": ",".join(parent.fingerprint for parent, _ in parents)},
            schema=_schema(run, manifests[-1]) if manifests else None,
        ),
        "inputFacets": facets(inputStatistics=counts),
    }


def output_of(run: RunLineage, stage: StageRecord, manifest: Manifest | None) -> Event:
    """Return the artifact of a stage."""
    namespace, name = name_in(run.place, f"{stage.kind}/{stage.name}")
    of_artifact, statistics = facets(version={"datasetVersion": stage.folder.rpartition("/")[2]}), {}
    if manifest is not None:
        contents = {
            "content": manifest.content,
            "tables": {table: content.rows for table, content in manifest.tables.items()},
            "ledger": manifest.ledger.to_json(),
        }
        of_artifact |= facets(schema=_schema(run, manifest), cloze_contents=contents)
        statistics = facets(outputStatistics=_statistics(manifest))
    return {"namespace": namespace, "name": name, "facets": of_artifact, "outputFacets": statistics}


def _statistics(manifest: Manifest) -> dict[str, int]:
    """Return rows, bytes and files of an artifact; rows are those of its main table."""
    files = sum(len(part.files) for part in manifest.parts)
    rows = manifest.rows(MAIN.get(manifest.kind, manifest.kind))
    return {"rowCount": rows, "size": size_bytes(manifest), "fileCount": files}


def _raw_statistics(run: RunLineage, parent: Parent, of: Manifest) -> dict[str, int]:
    """Return the number of raw files, and their bytes where the lock names them; they have no rows."""
    if files := run.lock.raw_files(of):
        return {"size": sum(file.size_bytes for file in files), "fileCount": len(files)}
    return {"fileCount": int(parent.name.removesuffix(" files"))}


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return counts added up, name by name."""
    return {name: sum(each.get(name, 0) for each in counts) for name in counts[0]}


def _schema(run: RunLineage, manifest: Manifest) -> Event:
    """Return the tables of an artifact with their columns."""
    firsts = {file.table: file.path for part in reversed(manifest.parts) for file in reversed(part.files)}
    fields = [
        {"name": table, "type": "table", "fields": list(_columns(run.place, manifest, path))}
        for table, path in sorted(firsts.items())
        if path.endswith(".arrow")
    ]
    return {"fields": fields}


def _columns(place: Place, manifest: Manifest, path: str) -> Iterator[Mapping[str, str]]:
    """Yield the columns of a table's file."""
    full = f"{manifest.stage_folder}/{path}"
    try:
        with place.open(full) as source:
            schema = pa.ipc.open_file(source).schema
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise Damaged(full, f"its columns cannot be read ({error})") from error
    yield from ({"name": field.name, "type": str(field.type)} for field in schema)


def lineage_document(events: Sequence[Event], lines: bool) -> bytes:
    """Return events as a JSON array, or as a line each, as OpenLineage's file transport writes them."""
    if lines:
        return "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in events).encode()
    return (json.dumps(events, indent=1, ensure_ascii=False) + "\n").encode()
