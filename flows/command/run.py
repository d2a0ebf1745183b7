"""`cloze run` and `cloze demo`: a run, its progress, and what it came to.

At its end: the ledger in a few lines, where things are; after a demo one example from end to end.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from shutil import which
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter
from rich.console import Console, Group, RenderableType
from rich.text import Text

from corpora.build import Corpus
from corpora.store.manifest import Manifest
from flows.command import arguments
from flows.command.arguments import load_recipe
from flows.command.compile_kernels import compile_meanwhile
from flows.command.progress import RunProgress
from flows.command.terminal import console, format_left_out, print_lines
from flows.command.trace import print_example_trace
from flows.command.trainer_process import forward_lines, open_model_folder
from flows.orchestration.embedded_server import find_server_of_home, is_port_free
from flows.orchestration.run_recipe import run_recipe
from flows.orchestration.run_state import RunState
from flows.recipes.recipe import Recipe
from flows.recipes.recipe_templates import SampleComparison, compare_contents, read_shipped_contents
from flows.run.addresses import Artifact
from flows.run.record.counts_text import format_count, format_seconds
from flows.run.record.figures import read_stored_manifests
from flows.run.record.ledger_balance import Accounts, build_accounts, list_losses
from flows.run.record.task_scores import (
    compare_within,
    format_task_worth,
    iter_summaries,
    iter_task_worth,
    read_result,
)
from shards.reading.files.shard_set import ShardSet
from trainer.build import read_events
from trainer.tasks.build import CONTROL

Watch = Annotated[bool | None, Parameter(help="Run as a Prefect flow, or do not; default: if somebody watches.")]

MAX_REASONS = 8  # why documents were dropped, in the ledger of a run
BAR_WIDTH = 36

DEMO_SENTENCES = (  # in the style of the documentation; none is in it
    "It returns True when the [MASK] is empty.",
    "The first [MASK] is the name of the file.",
    "If the file does not exist, an [MASK] is raised.",
    "This function returns a new [MASK] with the same shape.",
    "Its default [MASK] is None.",
)
TOP_WORDS = 4
UI_PORT, MAX_PORTS = 4200, 65_536  # of `cloze ui` without --port
MAX_RAW_LINES = 8  # of the example's raw record: the whole tour fits on two screens


def run(
    recipe: arguments.RecipeName = None,
    *,
    source: arguments.Source = None,
    store: arguments.RecipeStore = None,
    overrides: arguments.Overrides = None,
    workers: arguments.Workers = None,
    engine: arguments.Engine = None,
    own_server: Annotated[bool, Parameter(help="Use the embedded Prefect server, whatever your profile says.")] = False,
    watch: Watch = None,
) -> int:
    """Run a recipe, or process a folder of text without a recipe.

    Results that the store already has are reused. To resume a stopped run, run the same command again.
    """
    finished = _run_recipe(lambda: load_recipe(recipe, source, store, overrides, engine), workers, own_server, watch)
    print_summary(console, finished)
    return 1 if finished.record.is_drifted else 0


def demo(*, workers: arguments.Workers = None) -> None:
    """Run a small recipe here, from raw files to a model.

    At the end, it shows one example from end to end. Your Prefect profile is not used.
    """
    finished = _run_recipe(lambda: load_recipe("demo"), workers, own_server=True)
    print_summary(console, finished)
    print_tour(console, finished, arguments.find_home())


def _run_recipe(
    load: Callable[[], Recipe], workers: int | None, own_server: bool, watch: bool | None = None
) -> RunState:
    """Load and run a recipe while missing kernels (Numba functions) are compiled. Shows progress on the terminal.

    Args:
        load: Function that returns the recipe. It is called while kernels are compiled, because guessing a folder's
            recipe needs some of them.
        workers: The number of worker processes; None for the default.
        own_server: True to use the embedded Prefect server, whatever the user's Prefect profile says.
        watch: Whether to run as a Prefect flow. If None, a flow is used if the run trains a model, if it is expected to
            take minutes, or if a Prefect API responds.

    Returns:
        The state of the completed run.

    Raises:
        InputError: For an error that the user can fix.
        Exception: Any exception that a stage of the run raises.
    """
    with compile_meanwhile(print_lines), RunProgress(console) as progress:
        return run_recipe(load(), arguments.find_home(), progress.tell, workers, own_server, progress.advance, watch)


def print_summary(console: Console, finished: RunState) -> None:
    """Print a run's record counts, its duration, and the paths of its store and report.

    Args:
        console: Where to print.
        finished: The run.
    """
    place, record = finished.place, finished.record
    console.print()
    console.print(render_ledger(read_stored_manifests(place, record)))
    console.print(f"\nTime:    {format_seconds(record.seconds)}, with {format_count(record.workers, 'worker')}")
    console.print(f"Store:   {quote(place.to_address(''))}\nReport:  {quote(finished.report_path)}", markup=False)


def print_tour(console: Console, finished: RunState, home: Path) -> None:
    """Print the end of a demo: an example, the model's results, and commands to try next.

    Args:
        console: Where to print.
        finished: The run.
        home: The CLOZE_HOME folder. The UI belongs to its Prefect server.
    """
    place, cloze = finished.place, find_command_name()
    print_sample_comparison(console, compare_contents(finished.outcome.documents, read_shipped_contents()))
    shards = Artifact(place=place, manifest=finished.outcome.shards)
    number = find_first_source_example(finished)
    console.print("\nOne example, and the raw record it came from:\n")
    print_example_trace(console, shards, number, "train", MAX_RAW_LINES)
    print_model_results(console, finished)
    example = f"{quote(place.to_address(finished.outcome.shards.folder))} {number + 1}"
    tries = {
        f"trace {example}": "the next example, back to its raw record",
        f'fill {quote(place.to_address(""))} "The [MASK] is a list of strings."': "another gap for the model to fill",
        "run --source FOLDER": "your own folder of text, JSON lines, tables, pages or books",
        "run demo": "the same again: everything is reused",
    }
    console.print("\nTry next:")
    console.print(f"  {find_ui_command(cloze, home)}", markup=False)
    for words, what in tries.items():
        console.print(f"  {cloze} {words}    # {what}", markup=False)


def find_ui_command(cloze: str, home: Path) -> str:
    """Return the shell command that opens the UI, on the port of a running server or else on the first free port.

    Args:
        cloze: The command that runs `cloze` in the current folder.
        home: The CLOZE_HOME folder. Its Prefect server may be running.
    """
    running = urlsplit(find_server_of_home(home)).port
    port = running or next(filter(is_port_free, range(UI_PORT, MAX_PORTS)), UI_PORT)
    chosen = "" if port == UI_PORT else f" --port {port}"
    return f"{cloze} ui{chosen}    # the run in the orchestration UI, on http://127.0.0.1:{port}"


def print_sample_comparison(console: Console, compared: Sequence[SampleComparison]) -> None:
    """Report whether the built-in samples produced the documents that are published with Cloze.

    Prints one line if they did, and one line for each sample if any of them differs.

    Args:
        console: Where to print.
        compared: The comparison of each sample.
    """
    if not any(item.differing_tables for item in compared):
        number = format_count(len(compared), "shipped sample")
        console.print(f"\nThe documents of {number} are byte for byte those that were published with Cloze.")
        return
    console.print("\nThe documents of the shipped samples, against the contents published with Cloze:\n")
    for item in compared:
        verdict = f"differ in {', '.join(item.differing_tables)}" if item.differing_tables else "equal"
        style = "red" if item.differing_tables else "green"
        console.print(f"  {item.source:12} {item.documents:3} documents  {item.content}  [{style}]{verdict}[/{style}]")


def print_model_results(console: Console, finished: RunState) -> None:
    """Print a model's results on held-out text and on its tasks, and its predictions for DEMO_SENTENCES.

    Prints nothing if the run has no model.

    Args:
        console: Where to print.
        finished: The run.
    """
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
        result, control = read_result(finished.place, tasks, name), compare_within(finished.place, tasks, CONTROL)
        for line in iter_summaries(result):
            console.print(f"  {line}", markup=False)
        worth = format_task_worth([*iter_task_worth(result, control)])
        console.print(f"  Was pre-training worth it? {worth}", markup=False)
    console.print()
    with open_model_folder(finished.place.to_address(model.folder)) as folder:
        asked = ["fill", "--brief", "--top", str(TOP_WORDS), "--", str(folder), *DEMO_SENTENCES]
        forward_lines(asked, lambda line: console.print(f"  {line}", markup=False, soft_wrap=True))


def find_first_source_example(finished: RunState) -> int:
    """Find a training example that contains a document of the recipe's first source.

    Args:
        finished: The run.

    Returns:
        The zero-based index of the example in the training split; 0 if there is none.
    """
    source = finished.outcome.documents[0].name
    shard_set = ShardSet(finished.place, finished.outcome.shards)
    for document in Corpus(finished.place, finished.outcome.corpus).iter_documents():
        numbers = shard_set.find_examples_with_document(document.id) if document.source == source else []
        if numbers:
            return numbers[len(numbers) // 2]
    return 0


def find_command_name() -> str:
    """Return the command that runs this program from the current folder: `cloze` if it is on the PATH, or its path."""
    program = Path(sys.executable).with_name("cloze")
    if which("cloze") == str(program):
        return "cloze"
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else str(program)


def render_ledger(manifests: Sequence[Manifest]) -> RenderableType:
    """Render a run's record counts for the terminal: the counts after each stage, and the main reasons for drops.

    Args:
        manifests: The descriptions of the run's artifacts, in the order in which the run built them.
    """
    accounts = build_accounts(manifests)
    headline = Text(" → ").join(_format_counts(unit, counts) for unit, counts in accounts.headline.items())
    lost = list_losses(accounts.steps)
    lines: list[RenderableType] = [headline, *_draw_bars(lost[:MAX_REASONS])]
    return Group(*lines, *format_left_out(len(lost), MAX_REASONS, "reasons"), _format_balance(accounts))


def _format_counts(unit: str, counts: Mapping[str, int]) -> Text:
    """Format the counts of a unit, such as `37 kept`, or `300 (notes) and 70 (letters) examples`.

    Args:
        unit: The plural noun for what is counted.
        counts: The counts by name; the name is "" if there is only one count.
    """
    each = (Text.assemble((f"{count:,}", "bold"), f" ({name})" if name else "") for name, count in counts.items())
    return Text(" and ").join(each).append(f" {unit.removesuffix('s') if [*counts.values()] == [1] else unit}")


def _format_balance(accounts: Accounts) -> Text:
    """Format a line saying that all record counts balance, or a line for each count that does not.

    A count balances if the number of records read equals the sum over all outcomes. The text is empty if there are no
    counts.
    """
    if accounts.wrong:
        return Text("\n".join(f"✗ {line}" for line in accounts.wrong), "bold red")
    return Text("✓ nothing is unaccounted for" if accounts.steps or accounts.edges else "", "green")


def _draw_bars(counts: Sequence[tuple[str, int]]) -> list[Text]:
    """Draw a bar for each (name, count) pair, one per line. The largest count has the longest bar."""
    most = max((count for _, count in counts), default=1)
    widest = max((len(name) for name, _ in counts), default=0)
    digits = len(f"{most:,}")
    room = min(BAR_WIDTH, max(1, console.width - widest - digits - 6))
    return [
        Text.assemble(f"  {name:{widest}}  {count:>{digits},}  ", ("█" * _scale_bar(count, most, room), "blue"))
        for name, count in counts
    ]


def _scale_bar(count: int, most: int, room: int) -> int:
    """Compute the length of a bar in characters: 0 for zero, `room` for the largest count, at least 1 in between.

    Args:
        count: The count to show.
        most: The largest count.
        room: The length of the longest bar, in characters.
    """
    return max(int(count > 0), round(room * count / max(1, most)))
