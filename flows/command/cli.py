"""The command line: it finds the file of a command, and turns what goes wrong into a paragraph.

Exit codes: 0 done, 1 the run failed or a check found something wrong, 2 the user's input is wrong (every
InputError, printed by `launch`); a signal as in `flows.signals`.
The file of a command has its arguments, what it does and what it prints. It is imported when the command is called, so
that `cloze --help` answers at once.
"""

import re
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import App, CoercionError, CycloptsError, Parameter, ValidationError

from corpora.errors import InputError
from flows.command import arguments
from flows.command.arguments import load_recipe
from flows.command.help import WELCOME, add_commands
from flows.command.terminal import StandardOutput, console, print_lines

app = App(
    name="cloze",
    help="Raw text dumps in, trained BERT-family encoders out: a watched, resumable, reproducible pipeline.",
    version=lambda: __import__("importlib.metadata").metadata.version("cloze-pipeline"),
    console=StandardOutput(),
    default_parameter=arguments.DEFAULT_PARAMETER,
)

# The commands by the file that has them; those that only call one function are below.
COMMANDS = {
    "run": "run demo",
    "preview": "preview",
    "plan": "plan",
    "runs": "runs status report",
    "trace": "trace",
    "finetune": "finetune",
    "doctor": "doctor",
    "prepare": "prepare",
    "inspect": "inspect",
    "diff": "diff",
    "verify": "verify",
    "dedup": "dedup",
    "releases": "release releases rollback",
    "schedules": "serve deploy",
    "gc": "gc",
    "export": "export",
    "shards": "shards",
    "check": "check",
    "predict": "predict",
    "evaluate": "evaluate",
    "embed": "embed",
    "vocabulary": "vocabulary",
}
MAX_PATH_CHARACTERS = 300  # characters


def run_command_line(given: list[str], home: Path) -> int:
    """Run one command, and return its exit code: the integer that the command returns, or 0 if it returns none.

    Without arguments, prints a short welcome.

    Args:
        given: The command-line arguments, without the program's name.
        home: The CLOZE_HOME folder, which holds caches and the Prefect database.

    Raises:
        InputError: If an argument is empty, unknown, out of range or not UTF-8, if a given path cannot be accessed, or
            if the command raises it.
    """
    arguments.set_home(home)
    if not given:
        print_lines(WELCOME)
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
        if not path or not any(_contains_path(argument, path) for argument in given):
            raise
        shown = str(path)[:MAX_PATH_CHARACTERS]
        raise InputError(f"{shown}: {error.strerror}. Name another path, or change what is there.") from error
    return result if isinstance(result, int) else 0


def _contains_path(argument: str, path: str | Path) -> bool:
    """Return True if an argument, or the value after its `=`, is the given path or a parent folder of it."""
    return Path(path).absolute().is_relative_to(Path(argument.rpartition("=")[2]).absolute())


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
    """Write a new recipe from a template.

    The template is made for a kind of text, or is the recipe of a published model.
    """
    from flows.recipes.recipe_templates import describe_next_steps, write_new_recipe

    path = write_new_recipe(name, template, Path.cwd())
    print_lines(describe_next_steps(path, template))


@app.command
def fetch(
    recipe: arguments.RecipeFile,
    *,
    source: Annotated[str | None, Parameter(help="Fetch only for this source.")] = None,
    limit: Annotated[arguments.Count | None, Parameter(help="Fetch only this many files of each source.")] = None,
    refresh: Annotated[bool, Parameter(help="Look up `latest` and file lists again.", negative=())] = False,
    overrides: arguments.Overrides = None,
) -> None:
    """Download the raw files of a recipe, as a run does by itself."""
    from flows.command.progress import FetchProgress
    from flows.recipes.recipe import write_recipe
    from flows.run.inputs.fetch import FetchOptions
    from flows.run.inputs.raw_files import fetch_inputs

    loaded = load_recipe(recipe, overrides=overrides)
    write_recipe(loaded)
    options = FetchOptions(source=source, limit=limit, refresh=refresh)
    with FetchProgress(console) as progress:
        lines = fetch_inputs(loaded, arguments.find_home(), print_lines, options, progress.advance)
    print_lines(*lines)


app.register_install_completion_command(help="Let the shell complete commands, options and recipes.")


@app.command
def ui(*, port: arguments.Port = 4200) -> int:
    """Open the UI for the runs of this machine; Ctrl-C stops it."""
    from flows.orchestration.embedded_server import serve_ui
    from flows.orchestration.late_runs import send_kept_runs

    serve_ui(port, print_lines, partial(send_kept_runs, tell=print_lines))
    return 0


@app.command
def fill(
    model: arguments.Model,
    text: Annotated[str, Parameter(help="A text with [MASK] in place of each word to guess.")],
    *,
    top: Annotated[arguments.Count, Parameter(help="Words to show for each mask.")] = 5,
    as_json: arguments.AsJson = False,
) -> None:
    """Show the most probable words for each [MASK] of a text."""
    from flows.command.trainer_process import forward_lines, open_model_folder

    with open_model_folder(model) as folder:
        forward_lines(["fill", "--top", str(top), *(["--json"] if as_json else []), "--", str(folder), text], print)


@app.command
def train(
    job: Annotated[Path, Parameter(help="A job's file: job.json of the `work` folder of a model that a run began.")],
    *,
    store: Annotated[str | None, Parameter(help="The store with the shards, if not the one in the job.")] = None,
    work: Annotated[
        str | None, Parameter(help="The folder for checkpoints and the model, if not the one in the job.")
    ] = None,
    start: Annotated[
        str | None, Parameter(help="The folder of the model to begin with, if not the one in the job.")
    ] = None,
    teacher: Annotated[
        str | None, Parameter(help="The folder of the model to learn from, if not the one in the job.")
    ] = None,
    nodes: Annotated[
        arguments.Processes, Parameter(help="Number of machines that train together; each runs this command.")
    ] = 1,
    node_rank: Annotated[arguments.Position, Parameter(help="The number of this machine, from 0.")] = 0,
    rendezvous: Annotated[str, Parameter(help="HOST:PORT of the first machine, where the others meet it.")] = "",
) -> None:
    """Train a model from a job file, outside of a run.

    Run the same command again to resume it.
    """
    from flows.command.train import train_file
    from trainer.launch import Nodes

    machines = Nodes(count=nodes, rank=node_rank, rendezvous=rendezvous)
    places = {"store": store, "work": work, "start": start, "teacher": teacher}
    train_file(job, places, machines, print_lines)


add_commands(app, COMMANDS)
