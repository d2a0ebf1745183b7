"""What a run says when it is done: the ledger in a few lines, where things are, one example from end to end."""

from pathlib import Path

from rich.console import Console

from corpora.store.stage import read_manifest
from flows.addresses import Artifact
from flows.display import show_ledger
from flows.inspecting import show_example_trace
from flows.running import Finished, stage_times
from shards.reader import ShardSet


def show_closing(console: Console, finished: Finished) -> None:
    """The ledger, the times, and where the store and the report are."""
    place, record = finished.place, finished.record
    manifests = [read_manifest(place, stage.folder) for stage in record.stages]
    console.print()
    console.print(show_ledger([manifest for manifest in manifests if manifest is not None]))
    times = "  ".join(f"{kind} {seconds:.1f}" for kind, seconds in stage_times(record.stages).items())
    console.print(f"\nSeconds: {times}  (all {record.seconds:.1f}, {record.workers} workers)")
    console.print(f"Store:   {place.full_path('')}\nReport:  {finished.report_path}")


def show_tour(console: Console, finished: Finished, home: Path) -> None:
    """One example in colour with its masks, the raw bytes it came from, and what to try next."""
    shards = Artifact(place=finished.place, manifest=finished.outcome.shards)
    number = len(ShardSet(finished.place, finished.outcome.shards)) // 2
    console.print("\nOne example, and the raw record it came from:\n")
    show_example_trace(console, shards, number, "train")
    console.print(
        "\nTry next:\n"
        "  cloze ui                                   the run in the orchestration UI (http://127.0.0.1:4200)\n"
        f"  cloze trace {finished.place.full_path('')} {number + 1}      another example, back to its raw record\n"
        "  cloze run --source FOLDER                  your own folder of .txt or .jsonl files\n"
        "  cloze run demo                             the same again: everything is reused, and it says why\n"
    )
