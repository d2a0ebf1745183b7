"""The end of a run on the terminal: the ledger in a few lines, where things are, one example from end to end."""

import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from shutil import which
from urllib.parse import urlsplit

from rich.console import Console

from corpora.build import Corpus
from flows.command.inspect import show_example_trace
from flows.command.terminal.display import show_ledger
from flows.command.trainer_process import model_folder, relay
from flows.orchestration.embedded_server import is_free, server_of_home
from flows.orchestration.run_state import RunState
from flows.recipes.recipe_templates import SampleComparison, compare_contents, read_shipped_contents
from flows.run.addresses import Artifact
from flows.run.record.counts_text import format_count, format_seconds
from flows.run.record.figures import read_stored_manifests
from flows.run.record.task_scores import iter_summaries, read_result
from shards.reading.files.shard_set import ShardSet
from trainer.build import read_events

GAPS = (  # in the style of the documentation; none is in it
    "It returns True when the [MASK] is empty.",
    "The first [MASK] is the name of the file.",
    "If the file does not exist, an [MASK] is raised.",
    "This function returns a new [MASK] with the same shape.",
    "Its default [MASK] is None.",
)
TOP = 4
UI_PORT, MOST_PORTS = 4200, 65_536  # of `cloze ui` without --port
RAW_LINES = 8  # of the example's raw record: the whole tour fits on two screens


def show_summary(console: Console, finished: RunState) -> None:
    """Print the ledger, the time, and where the store and the report are."""
    place, record = finished.place, finished.record
    console.print()
    console.print(show_ledger(read_stored_manifests(place, record)))
    console.print(f"\nTime:    {format_seconds(record.seconds)}, with {format_count(record.workers, 'worker')}")
    console.print(f"Store:   {quote(place.to_address(''))}\nReport:  {quote(finished.report_path)}", markup=False)


def show_tour(console: Console, finished: RunState, home: Path) -> None:
    """Print one example in colour with its masks, its raw bytes, what the model learnt, what to try next.

    home: whose server has the UI
    """
    place, cloze = finished.place, command_name()
    show_sample_comparison(console, compare_contents(finished.outcome.documents, read_shipped_contents()))
    shards = Artifact(place=place, manifest=finished.outcome.shards)
    number = example_of_first_source(finished)
    console.print("\nOne example, and the raw record it came from:\n")
    show_example_trace(console, shards, number, "train", RAW_LINES)
    show_learning(console, finished)
    example = f"{quote(place.to_address(finished.outcome.shards.folder))} {number + 1}"
    tries = {
        f"trace {example}": "the next example, back to its raw record",
        f'fill {quote(place.to_address(""))} "The [MASK] is a list of strings."': "another gap for the model to fill",
        "run --source FOLDER": "your own folder of text, JSON lines, tables, pages or books",
        "run demo": "the same again: everything is reused",
    }
    console.print("\nTry next:")
    console.print(f"  {ui_hint(cloze, home)}", markup=False)
    for arguments, what in tries.items():
        console.print(f"  {cloze} {arguments}    # {what}", markup=False)


def ui_hint(cloze: str, home: Path) -> str:
    """Return the command that opens the UI of a home: on the port on which it runs, else on the first free one."""
    running = urlsplit(server_of_home(home)).port
    port = running or next(filter(is_free, range(UI_PORT, MOST_PORTS)), UI_PORT)
    chosen = "" if port == UI_PORT else f" --port {port}"
    return f"{cloze} ui{chosen}    # the run in the orchestration UI, on http://127.0.0.1:{port}"


def show_sample_comparison(console: Console, compared: Sequence[SampleComparison]) -> None:
    """Show whether the shipped samples gave the same rows as where they were published."""
    console.print("\nThe documents of the shipped samples, against the contents published with Cloze:\n")
    for item in compared:
        verdict = f"differ in {', '.join(item.differing_tables)}" if item.differing_tables else "equal"
        style = "red" if item.differing_tables else "green"
        console.print(f"  {item.source:12} {item.documents:3} documents  {item.content}  [{style}]{verdict}[/{style}]")


def show_learning(console: Console, finished: RunState) -> None:
    """Print the model's results on text it never saw, phase by phase, and gaps that it fills."""
    model, recipe = finished.outcome.model, finished.recipe
    if model is None or recipe.model is None:
        return
    last = {row["phase"]: row for row in read_events(finished.place, model) if row["event"] == "evaluation"}
    console.print(f"\nThe model ({model.ledger.figures['parameters']:,} parameters), on held-out text:\n")
    for phase, row in sorted(last.items()):
        loss, entropy, accuracy = row["masked_loss"], row["unigram_entropy"], row["rare_word_accuracy"]
        words = "none" if accuracy is None else f"{accuracy:.1%}"
        shards = " + ".join(name or recipe.name for name in recipe.model.phases[phase])
        console.print(
            f"  {shards:12} step {row['step']:5,}: {loss:.3f} nats a masked token, {entropy - loss:.3f} below the "
            f"unigram entropy of the same tokens ({entropy:.3f}); {row['masked_accuracy']:.1%} right, "
            f"{words} of the words outside the 100 commonest pieces"
        )
    for name, tasks in finished.outcome.tasks.items():
        for line in iter_summaries(read_result(finished.place, tasks, name)):
            console.print(f"  {line}", markup=False)
    console.print()
    with model_folder(finished.place.to_address(model.folder)) as folder:
        asked = ["fill", "--brief", "--top", str(TOP), "--", str(folder), *GAPS]
        relay(asked, lambda line: console.print(f"  {line}", markup=False, soft_wrap=True))


def example_of_first_source(finished: RunState) -> int:
    """Return the number of an example whose document is of the recipe's first source; 0 if it gave none."""
    source = finished.outcome.documents[0].name
    shard_set = ShardSet(finished.place, finished.outcome.shards)
    for document in Corpus(finished.place, finished.outcome.corpus).iter_documents():
        numbers = shard_set.find_examples_with_document(document.id) if document.source == source else []
        if numbers:
            return numbers[len(numbers) // 2]
    return 0


def command_name() -> str:
    """Return how to call this command from here: by its name where it is on the path, else by its place."""
    program = Path(sys.executable).with_name("cloze")
    if which("cloze") == str(program):
        return "cloze"
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else str(program)
