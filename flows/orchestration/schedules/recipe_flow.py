"""A recipe as a deployment: each recipe is a flow, whose parameters go over the recipe's settings.

The entrypoint `flows.orchestration.schedules.recipe_flow.recipes/tickets` is the flow of `recipes/tickets.toml` below
the folder in which a worker works; `cloze serve` gives the whole path. Everything that a run is not given is read from
the recipe when the run begins, so a schedule follows every edit of it.

Any fault of the recipe or of a value ends a run as Failed, with the paragraph that the command would print.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import unquote

from prefect import Flow, flow
from prefect.client.schemas.objects import State

from corpora.errors import InputError
from corpora.store.settings import toml_table
from flows.orchestration.pages.page_artifacts import flow_called
from flows.orchestration.schedules.scheduled_run import THREADS, begin_here, build, carried_out, run_name, say_failure
from flows.recipes.tables import key_parts, read_override

# What any run may be given: figures and choices that decide which texts stay, how they are cut, how long a training is.
# None of them names a program, a file, an address or a place to write to, decides who is notified or what is released,
# kept, hidden or bounded, or how much of the machine a run takes. Everything else is refused.
ALLOWED_TABLES = ("clean", "duplicates", "held_out", "language", "lines", "repeated_lines", "rules")
ALLOWED_KEYS = {
    "": ("seed",),
    "vocabulary": ("size", "lowercase", "strip_accents", "min_frequency", "limit_alphabet", "character_coverage"),
    "shards": ("length", "copies", "target_tokens", "seed"),
    "training": ("learning_rate", "warmup_steps", "weight_decay", "clip_norm", "seed", "max_epochs"),
}
GIVEN = "CLOZE_GIVEN"  # in the environment of a run: the settings that `cloze serve` or `cloze deploy` were given
SUFFIX = ".toml"
IN_A_RUN = "PREFECT__FLOW_RUN_ID"  # in the environment of a run's process


def entrypoint_of(path: str) -> str:
    """Return the entrypoint of a recipe's flow. path: of the recipe, from the workers' folder. Raises InputError.

    >>> entrypoint_of("v1.2/tickets.toml")
    'flows.orchestration.schedules.recipe_flow.v1%2E2/tickets'
    """
    if not path.endswith(SUFFIX):
        raise InputError(f"The recipe {path} is not named *{SUFFIX}: a deployment finds it by such a name. Rename it.")
    escaped = path.removesuffix(SUFFIX)
    for sign in "%.:{}$":
        escaped = escaped.replace(sign, f"%{ord(sign):02X}")
    return f"{__name__}.{escaped}"


def __getattr__(name: str) -> Flow[..., Any]:
    """Return the flow of a recipe by the name in its entrypoint."""
    path = Path(unquote(name) + SUFFIX)
    if name.startswith("_") or not (path.is_file() or IN_A_RUN in os.environ):
        raise AttributeError(f"{path.resolve()} is no recipe: start `prefect deploy` in the folder of prefect.yaml.")
    return recipe_flow(path.resolve())


def recipe_flow(path: Path) -> Flow[..., Any]:
    """Return the flow of the recipe in a file."""

    def run_recipe(set: Sequence[str] = (), worker_processes: int | None = None) -> State[Any]:
        begin_here()
        return carried_out(lambda home: build(path, overrides_given(set), worker_processes, home))

    def tell_failure(flow: Any, flow_run: Any, state: State[Any]) -> None:
        try:
            overrides = overrides_given(flow_run.parameters.get("set", ()))
        except InputError:  # the run was refused them: the recipe says whom to notify
            overrides = {}
        say_failure(state, path, overrides)

    run_recipe.__name__ = path.stem
    run_recipe.__doc__ = f"""A run of {path.name}, with the recipe's settings except those given here.

    Args:
        set: more settings over the recipe, each as key=value: duplicates.threshold=0.7
        worker_processes: without a number, one a core
    """
    return flow(
        name=flow_called(recipe_name(path)),
        flow_run_name=run_name,
        task_runner=THREADS,
        persist_result=False,
        on_failure=[tell_failure],
        on_crashed=[tell_failure],
    )(run_recipe)


def recipe_name(path: Path) -> str:
    """Return the name of the recipe in a file; the file's if it cannot be read, which its run will report."""
    try:
        return str(toml_table(path.read_text(encoding="utf-8")).get("name", path.stem))
    except (OSError, ValueError):
        return path.stem


def overrides_given(pairs: Sequence[str]) -> dict[str, str]:
    """Return the settings that a run is given, as overrides of its recipe. Raises InputError.

    Whoever may start runs may give them what is allowed above, and what the command that made the schedule was given.
    """
    given = json.loads(os.environ.get(GIVEN, "[]"))
    for pair in pairs:
        if not (is_allowed(pair) or pair in given):
            raise InputError(
                f"set {pair}: a run of a schedule is not given this setting. Write it into the recipe, or give it to "
                f"`cloze serve` or `cloze deploy` as `--set {quote(pair)}`."
            )
    return dict(read_override(pair, "set") for pair in pairs)


def is_allowed(pair: str) -> bool:
    """Tell whether any run of a schedule may be given a setting.

    >>> is_allowed("duplicates.threshold=0.7"), is_allowed('"notify".command=["a"]'), is_allowed("training={}")
    (True, False, False)
    """
    *parents, key = key_parts(read_override(pair, "set")[0])
    table = parents[0] if parents else ""
    return table in ALLOWED_TABLES or key in ALLOWED_KEYS.get(table, ())
