"""The output of `inspect`, `trace` and `report`: read from the store, drawn by `display`."""

from pathlib import Path

from rich.console import Console

from corpora.errors import InputError
from corpora.schema import DROPPED, iter_dropped
from corpora.store.places.place import Place
from corpora.store.tables import read_table
from flows.command.terminal.display import (
    MOST_LINES,
    show_dropped,
    show_example,
    show_lines,
    show_manifest,
    show_trace,
)
from flows.command.trace import trace_document, trace_number
from flows.recipes.lock import Lock
from flows.report.masked_example import example_masks, labels_of
from flows.run.addresses import RUNS_FOLDER, Artifact, read_vocabulary_for, resolve_run_id, split_address
from flows.run.record.run_record import (
    DamagedRun,
    iter_newest_runs,
    list_run_ids,
    print_to_stderr,
    read_recorded_lock,
    read_recorded_recipe,
    read_run,
)
from flows.run.record.task_scores import iter_scores
from shards.build import SPLITS
from shards.reading.files.shard_set import ShardSet
from tokenizers_train.build import read_vocabulary

EXAMPLES = 3
TOKENS = 200


def show_artifact(console: Console, artifact: Artifact, detailed: bool) -> None:
    """Show an artifact's manifest; in detail, also samples of its contents."""
    console.print(show_manifest(artifact.manifest))
    if not detailed:
        return
    place, manifest = artifact.place, artifact.manifest
    for table in ("dropped", "removed"):
        if manifest.count_rows(table):
            console.print(show_dropped(iter_dropped(read_table(place, manifest, table, DROPPED.names))))
    if manifest.count_rows("lines"):
        console.print(show_lines(read_table(place, manifest, "lines", ("documents", "line"))))
    if manifest.kind == "tasks":
        for score in iter_scores(place, manifest):
            console.print(f"{score.name}: {score.value:.4g} {score.unit}", markup=False)
    if manifest.kind == "vocabularies":
        vocabulary = read_vocabulary(place, manifest)
        console.print(" ".join(map(vocabulary.format_token, range(min(TOKENS, vocabulary.size)))), markup=False)
    if manifest.kind == "shards":
        vocabulary = read_vocabulary_for(artifact)
        for split in SPLITS:
            shard_set = ShardSet(place, manifest, split)
            for index in range(min(EXAMPLES, len(shard_set))):
                example = shard_set[index]
                masks = example_masks(shard_set, example)
                console.print(show_example(example, vocabulary, masks, labels_of(manifest)))


def show_example_trace(console: Console, shards: Artifact, index: int, split: str, raw_lines: int = MOST_LINES) -> None:
    """Show one example, its documents, and the raw bytes they came from."""
    shard_set, traces = trace_number(shards, index, split)
    example = shard_set[index]
    masks = example_masks(shard_set, example)
    console.print(show_example(example, read_vocabulary_for(shards), masks, labels_of(shards.manifest)))
    for item in traces:
        console.print(show_trace(item.trace.role, item.trace.document, item.raw, raw_lines))


def show_document_trace(console: Console, shards: Artifact, id_hex: str) -> None:
    """Show one document, its raw bytes, the numbers of its examples, and its answers."""
    from flows.command.trace import answers_to, raw_bytes

    document, examples = trace_document(shards, id_hex)
    console.print(show_trace("document", document, raw_bytes(shards.place, document)))
    for split, numbers in examples.items():
        listed = ", ".join(map(str, numbers[:50])) or "none"
        more = f" and {len(numbers) - 50} more" if len(numbers) > 50 else ""
        console.print(f"{split} examples: {listed}{more}")
    for folder, answer in answers_to(shards.place, document).items():
        console.print(f"{folder}: {answer}", markup=False)


def write_report(address: str, run_id: str | None, output: Path | None) -> str:
    """Build the report of a recorded run; returns where it is. Raises InputError if there is no run."""
    from flows.report.page import build_page

    place, inside = split_address(address)
    if run_id is None and inside.startswith(f"{RUNS_FOLDER}/"):
        run_id = inside.split("/")[1]
    if not list_run_ids(place):
        raise InputError(f"There is no recorded run in {place.to_address('')}: `cloze run` records one.")
    record = (
        read_run(place, resolve_run_id(run_id, place)) if run_id is not None else next(iter_newest_runs(place), None)
    )
    if record is None:
        raise InputError(f"The record of every run in {place.to_address('')} is damaged: run the recipe once more.")
    samples = read_recorded_recipe(record, place.address).privacy.samples
    page = build_page(place, record, samples, _lock_of(place, record.run_id))
    if output is not None:
        output.write_text(page, encoding="utf-8")
        return str(output)
    path = f"runs/{record.run_id}/report.html"
    place.write(path, page.encode())
    return place.to_address(path)


def _lock_of(place: Place, run_id: str) -> Lock | None:
    """Return the lock of a run for its report, which works without a damaged one."""
    try:
        return read_recorded_lock(place, run_id)
    except DamagedRun as fault:
        print_to_stderr(f"{fault.path} is damaged: {fault.what}. The report names no raw files.")
        return None
