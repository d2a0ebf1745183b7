"""The command line: each command reads its arguments, calls one module, and shows the result.

Exit codes: 0 done, 1 the run failed or a check found something wrong, 2 the user's input is wrong (every
InputError, printed by `launch`); a signal as in `flows.signals`.
Each command imports what it needs when it runs, so that `cloze --help` answers at once.
"""

import json
import re
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, CoercionError, CycloptsError, Parameter, ValidationError

from corpora.errors import InputError
from corpora.sources.files.endings import KNOWN_ENDINGS
from corpora.store.settings import suggest
from flows.command import arguments
from flows.command.arguments import load_recipe
from flows.command.dedup_commands import duplicates_app
from flows.command.diff import differing_app
from flows.command.export import exporting_app
from flows.command.release_commands import releases_app
from flows.command.run_commands import operations_app
from flows.command.shard_commands import shards_app
from flows.command.tasks.cli import tasks_app
from flows.command.terminal.completion import recipes
from flows.command.terminal.help import WELCOME, arrange
from flows.command.terminal.output import StandardOutput, console, console_for, print_json, say, teller
from flows.command.training.cli import training_app
from flows.command.vocabulary_commands import vocabulary_app

if TYPE_CHECKING:
    from collections.abc import Callable

    from flows.orchestration.run_state import RunState
    from flows.recipes.recipe import Recipe

app = App(
    name="cloze",
    help="Raw text dumps in, trained BERT-family encoders out: a watched, resumable, reproducible pipeline.",
    version=lambda: __import__("importlib.metadata").metadata.version("cloze-pipeline"),
    console=StandardOutput(),
    default_parameter=arguments.Shown,
)

SHOWN_PATH = 300  # characters
_home = Path()

RecipeName = Annotated[
    str | None, Parameter(help="A recipe file, or the name of one that comes with Cloze.", completer=recipes)
]
Source = Annotated[Path | None, Parameter(help=f"A folder of text instead of a recipe: {KNOWN_ENDINGS}.")]

Watch = Annotated[bool | None, Parameter(help="Run as a Prefect flow, or do not; default: if somebody watches.")]


def run_command_line(given: list[str], home: Path) -> int:
    """Run one command; return its exit code: what it returns, 0 where that is nothing. Raises InputError.

    So does what the system refuses of a path that was named, or an argument that is no text where one is needed.
    """
    global _home
    _home = home
    if not given:
        say(WELCOME)
        return 0
    if any(argument == "" or re.fullmatch("--[a-z-]+=", argument) for argument in given):
        raise InputError(
            "An argument is empty, as if a variable of the shell was not set: give it a value, or leave it out."
        )
    try:
        # cyclopts takes a dash for an option
        named = [arguments.STANDARD_INPUT if argument == "-" else argument for argument in given]
        result = app(named, exit_on_error=False, print_error=False, result_action="return_value")
    except (CoercionError, ValidationError) as error:
        raise InputError(str(error)) from error
    except CycloptsError as error:
        raise InputError(f"{error} `cloze --help` lists the commands and their options.") from error
    except (UnicodeEncodeError, TypeError) as error:
        if not re.search("[\udc80-\udcff]", "".join(given)):  # a byte that is no UTF-8
            raise
        raise InputError("An argument is not UTF-8, and text is needed there: write it in UTF-8.") from error
    except OSError as error:
        path = error.filename if isinstance(error.filename, (str, Path)) else ""
        if not path or not any(_holds(argument, path) for argument in given):
            raise
        shown = str(path)[:SHOWN_PATH]
        raise InputError(f"{shown}: {error.strerror}. Name another path, or change what is there.") from error
    return result if isinstance(result, int) else 0


def _holds(argument: str, path: str | Path) -> bool:
    """Return whether an argument, or the value of an option in it, names a path or a folder above it."""
    return Path(path).absolute().is_relative_to(Path(argument.rpartition("=")[2]).absolute())


@app.command
def doctor(
    recipe: RecipeName = None,
    *,
    store: arguments.RecipeStore = None,
    engine: arguments.Engine = None,
    as_json: arguments.AsJson = False,
) -> int:
    """Check this machine, and say how to fix what is missing.

    With a recipe, also say what slows its training on the GPU.
    """
    from corpora.store.places.place import Place
    from flows.command.cluster_findings import engine_findings
    from flows.command.doctor import examine, render
    from flows.command.prepare import database_finding, kernels_finding

    place = Place(store) if store else None
    folder = Path(place.address) if place is not None and place.is_local else None
    findings = [*examine(_home, folder), kernels_finding(), database_finding(_home), *engine_findings(engine)]
    if recipe is not None:
        from flows.command.training.gpu_findings import training_findings

        findings += training_findings(load_recipe(recipe, store=store))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        console.print(render(findings))
    return 1 if any(finding.ok == "fail" for finding in findings) else 0


@app.command
def prepare() -> None:
    """Compile kernels and make the UI's database, before a first run."""
    from flows.command.prepare import prepare as prepare_home

    prepare_home(_home, say)


@app.command
def run(
    recipe: RecipeName = None,
    *,
    source: Source = None,
    store: arguments.RecipeStore = None,
    overrides: arguments.Overrides = None,
    workers: arguments.Workers = None,
    engine: arguments.Engine = None,
    own_server: Annotated[bool, Parameter(help="Use the embedded Prefect server, whatever your profile says.")] = False,
    watch: Watch = None,
) -> int:
    """Build what a recipe asks for; a folder of text needs no recipe.

    What the store has already is reused. A run that was stopped resumes with the same command.
    """
    from flows.command.terminal.summary import show_summary

    finished = _built(lambda: load_recipe(recipe, source, store, overrides, engine), workers, own_server, watch)
    show_summary(console, finished)
    return 1 if finished.record.is_drifted else 0


@app.command
def demo(*, workers: arguments.Workers = None) -> None:
    """Run a small recipe here, from raw files to a model.

    It then shows one example from end to end. Your Prefect profile is not used.
    """
    from flows.command.terminal.summary import show_summary, show_tour

    finished = _built(lambda: load_recipe("demo"), workers, own_server=True)
    show_summary(console, finished)
    show_tour(console, finished, _home)


def _built(
    load: "Callable[[], Recipe]", workers: int | None, own_server: bool, watch: bool | None = None
) -> "RunState":
    """Load a recipe and run it, and show how far it is; a folder's recipe is guessed by kernels, too."""
    from flows.command.compile_kernels import compiled_meanwhile
    from flows.command.terminal.progress import RunProgress
    from flows.orchestration.run_recipe import run_recipe

    with compiled_meanwhile(say), RunProgress(console) as progress:
        return run_recipe(load(), _home, progress.tell, workers, own_server, progress.advance, watch)


@app.command
def plan(
    recipe: RecipeName = None,
    *,
    source: Source = None,
    store: arguments.RecipeStore = None,
    overrides: arguments.Overrides = None,
    workers: arguments.Workers = None,
    engine: arguments.Engine = None,
    quick: Annotated[bool, Parameter(help="Skip the sample and the estimates from it.", negative=())] = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Show what a run would build, reuse and cost; build nothing.

    Each stage has the reason. Costs are estimated from a sample.
    """
    from flows.command.cluster_findings import engine_lines
    from flows.command.plan import estimate, show_plan
    from flows.run.estimates.capacity import refuse_without_room
    from flows.run.plan_reach import reach_of
    from flows.run.plan_run import plan_recipe

    loaded = load_recipe(recipe, source, store, overrides, engine)
    planned = plan_recipe(loaded, _home)
    estimates = estimate(loaded, planned, workers, quick)
    if as_json:
        print_json(
            {
                "inputs": planned.inputs,
                "stages": [entry.to_json() for entry in planned.stages],
                "estimates": estimates.to_json(),
                "engine": engine_lines(loaded.engine),
                "reach": reach_of(loaded),
            }
        )
    else:
        show_plan(console, loaded, planned, estimates)
        say(*engine_lines(loaded.engine))
    refuse_without_room(loaded, estimates)


@app.command
def preview(
    source: Annotated[str, Parameter(help="Name of a source of the recipe, or a folder of text.")],
    *,
    recipe: Annotated[str, Parameter(help="The recipe that has the source.")] = "demo",
    overrides: arguments.Overrides = None,
    number: Annotated[arguments.Count, Parameter(name=("--number", "-n"), help="Number of documents to show.")] = 10,
    as_json: arguments.AsJson = False,
) -> None:
    """Show documents of a source before and after every step.

    A document that is dropped has the reason.
    """
    from flows.command.preview import look_at, preview_source
    from flows.command.terminal.display import show_preview
    from flows.recipes.guessed_fields import describe_chosen, describe_fitted

    named = {entry.source.name for entry in load_recipe(recipe).sources}
    folder = Path(source) if source not in named and Path(source).exists() else None
    loaded = load_recipe(None if folder else recipe, folder, overrides=overrides)
    entries = {source if folder else entry.source.name: entry for entry in loaded.sources}
    if source not in entries:
        raise InputError(f"The recipe {recipe!r} has no source {source!r}: {suggest(source, entries)}")
    looked = look_at(loaded, entries[source])
    entry = looked.entry
    if as_json:
        print_json([asdict(item) for item in preview_source(entry, looked.files, number, teller(as_json))])
        return
    if entry.documents.needs_statistics:
        console.print(
            "Repeated lines and selection depend on the whole source: a run applies them, the preview does not."
        )
    for item in preview_source(entry, looked.files, number, say):
        console.print(show_preview(item))
    fitted = describe_fitted(loaded.name, loaded.fitted) if loaded.fitted else ""
    say(*filter(None, [*looked.lines, fitted, describe_chosen(loaded.name, loaded.chosen or {})]))


@app.command
def new(
    name: Annotated[str, Parameter(help="Name of the recipe; it is written to NAME.toml.")],
    *,
    template: Annotated[
        str,
        Parameter(
            help="For a kind of text: general, books, biomedical, patents, clinical, legal, tickets, chats. Of a "
            "published model, sources to weights: bert-base, roberta-base, electra-small, albert-base, distilbert, "
            "modernbert-base."
        ),
    ] = "general",
) -> None:
    """Write a recipe to start from.

    Its rules fit a kind of text, or it is the recipe of a published model.
    """
    from flows.recipes.recipe_templates import describe_next_steps, write_new_recipe

    path = write_new_recipe(name, template, Path.cwd())
    say(describe_next_steps(path, template))


@app.command
def fetch(
    recipe: arguments.RecipeFile,
    *,
    source: Annotated[str | None, Parameter(help="Fetch only for this source.")] = None,
    limit: Annotated[arguments.Count | None, Parameter(help="Fetch only this many files of each source.")] = None,
    refresh: Annotated[bool, Parameter(help="Look up `latest` and file lists again.", negative=())] = False,
    overrides: arguments.Overrides = None,
) -> None:
    """Download the raw files of a recipe; a run does so by itself."""
    from flows.command.terminal.progress import FetchProgress
    from flows.recipes.recipe import write_recipe
    from flows.run.inputs.fetch import FetchOptions
    from flows.run.inputs.raw_files import fetch_inputs

    loaded = load_recipe(recipe, overrides=overrides)
    write_recipe(loaded)
    options = FetchOptions(source=source, limit=limit, refresh=refresh)
    with FetchProgress(console) as progress:
        lines = fetch_inputs(loaded, _home, say, options, progress.advance)
    say(*lines)


@app.command
def inspect(
    address: Annotated[str, Parameter(help="An artifact's folder or short id, a store, or a release: STORE@NAME.")],
    *,
    as_json: arguments.AsJson = False,
) -> None:
    """Show what is in an artifact: ledger, samples, masks in color.

    For a store, or a folder in it, the ledger of each artifact.
    """
    from flows.command.inspect import show_artifact
    from flows.run.addresses import find_artifacts

    artifacts = find_artifacts(address)
    if as_json:
        print_json([json.loads(artifact.manifest.to_bytes()) for artifact in artifacts])
        return
    for artifact in artifacts:
        show_artifact(console, artifact, detailed=len(artifacts) == 1)


@app.command
def trace(
    shards: Annotated[
        str, Parameter(help="A shards artifact (folder or short id), a release (STORE@NAME), or a store.")
    ],
    index: Annotated[arguments.Position | None, Parameter(help="Number of an example.")] = None,
    *,
    document: Annotated[str | None, Parameter(help="A document id instead: find its examples and answers.")] = None,
    split: Annotated[str, Parameter(help="train or held-out.")] = "train",
    as_json: arguments.AsJson = False,
) -> None:
    """Follow an example back to its raw records.

    Or follow a document to its examples and answers, with --document.
    """
    from flows.command.inspect import show_document_trace, show_example_trace
    from flows.command.trace import document_facts, example_facts
    from flows.run.addresses import find_artifacts, newest

    if (index is None) == (document is None):
        raise InputError("Give the number of an example, or --document ID (one of the two).")
    artifact = newest(find_artifacts(shards, "shards"))
    if as_json:
        print_json(example_facts(artifact, index, split) if index is not None else document_facts(artifact, document))
    elif index is not None:
        show_example_trace(console, artifact, index, split)
    else:
        assert document is not None
        show_document_trace(console, artifact, document)


@app.command
def verify(
    address: Annotated[str, Parameter(help="An artifact's folder or short id, or a store.")],
    *,
    rebuild: Annotated[
        bool, Parameter(help="Build the first part of each artifact again, and compare the contents.", negative=())
    ] = False,
    as_json: arguments.AsJson = False,
) -> int:
    """Check every file of a store, and list what is damaged.

    A file is compared with what was written. What is damaged is built again by the next `cloze run` with its recipe.
    """
    from flows.command.verify import rebuild_store, verify_store

    lines = console_for(as_json)
    result = verify_store(lines, address)
    rebuilt = [*rebuild_store(lines, address)] if rebuild and result.whole else []
    if as_json:
        print_json({"whole": result.whole, **asdict(result), "rebuilt": rebuilt})
    return 0 if result.whole and all(each["equal"] for each in rebuilt) else 1


@app.command
def report(
    address: Annotated[str, Parameter(help="A store, or a run's folder (STORE/runs/RUN).")] = "store",
    *,
    run_id: Annotated[str | None, Parameter(name="--run", help="Its id, short or whole; default: the newest.")] = None,
    output: Annotated[Path | None, Parameter(help="Where to write it; default: next to the run's record.")] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Write the HTML report of a run, and print its path."""
    from flows.command.inspect import write_report

    path = write_report(address, run_id, output)
    if as_json:
        print_json({"report": path})
    else:
        say(f"Report: {quote(path)}")


app.command(vocabulary_app)
app.command(shards_app)
app.command(operations_app, name="*")
app.command(differing_app, name="*")
app.command(duplicates_app, name="*")
app.register_install_completion_command(help="Let the shell complete commands, options and recipes.")
app.command(releases_app, name="*")
app.command(exporting_app, name="*")
app.command(training_app, name="*")
app.command(tasks_app, name="*")


@app.command
def ui(*, port: arguments.Port = 4200) -> int:
    """Open the UI on the runs of this machine; Ctrl-C stops it."""
    from flows.orchestration.embedded_server import serve_ui
    from flows.orchestration.late_runs import send_kept_runs

    serve_ui(port, say, partial(send_kept_runs, tell=say))
    return 0


@app.command
def serve(
    recipe: arguments.RecipeFile,
    *,
    cron: arguments.Cron = None,
    every: arguments.Every = None,
    store: arguments.RecipeStore = None,
    overrides: arguments.Overrides = None,
    workers: arguments.Workers = None,
    engine: arguments.Engine = None,
    run_now: Annotated[bool, Parameter(help="Also run once at the start.", negative=())] = False,
    port: arguments.Port = 4200,
) -> int:
    """Run a recipe on a schedule, with the UI; Ctrl-C stops it.

    Every line that it prints has the time, and a line of a run the run's short id.
    """
    loaded = load_recipe(recipe, None, store, overrides, engine)  # first: mistakes in it are said at once
    from flows.orchestration.serve import serve_recipe

    serve_recipe(loaded, cron, every, _home, port, say, store, workers, run_now)


arrange(app)
