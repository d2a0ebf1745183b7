"""A recipe as a deployment: each recipe is a flow, with the recipe's settings as its parameters.

The entrypoint `flows.orchestration.schedules.recipe_flow.recipes/tickets` is the flow of `recipes/tickets.toml` below
the folder in which a worker works; `cloze serve` gives the whole path. Prefect makes the form of the deployment's page
from the flow: a field for each setting in the recipe, with its type and value. A run applies what differs from the
recipe at that time, as `--set` does; everything else is read from the recipe when the run begins. So a schedule follows
every edit of it.

Any fault of the recipe or of a value ends a run as Failed, with the paragraph that the command would print.
"""

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from prefect import Flow, flow
from prefect.client.schemas.objects import State
from pydantic import BaseModel, ConfigDict, Field, create_model

from corpora.errors import InputError
from corpora.store.settings import toml_table
from flows.orchestration.pages.page_artifacts import flow_called
from flows.orchestration.schedules.scheduled_run import THREADS, begin_here, build, carried_out, run_name, say_failure
from flows.recipes.meanings import SETTINGS
from flows.recipes.recipe import KEYS
from flows.recipes.typed_settings import overrides_of, pairs_of, settings_of

SUFFIX = ".toml"
COMMON = ("set", "worker_processes")
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
    table = recipe_table(path)

    def run_recipe(**given: Any) -> State[Any]:
        begin_here()
        return carried_out(lambda home: build(path, overrides_given(given, path), given.get("worker_processes"), home))

    def tell_failure(flow: Any, flow_run: Any, state: State[Any]) -> None:
        say_failure(state, path, overrides_given(flow_run.parameters, path))

    run_recipe.__name__ = path.stem
    run_recipe.__doc__ = f"A run of {path.name}, with the recipe's settings except those given here."
    run_recipe.__signature__ = signature(table, IN_A_RUN in os.environ)  # type: ignore[attr-defined]
    return flow(
        name=flow_called(str(table.get("name", path.stem))),
        flow_run_name=run_name,
        task_runner=THREADS,
        persist_result=False,
        validate_parameters=False,  # faults are reported as the command reports them
        on_failure=[tell_failure],
        on_crashed=[tell_failure],
    )(run_recipe)


def recipe_table(path: Path) -> dict[str, Any]:
    """Read a recipe's table; empty if it cannot be read, which its run will report."""
    try:
        return toml_table(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def overrides_given(given: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return the given settings of a recipe, as overrides of its current file. Raises InputError."""
    values = {key: value for key, value in given.items() if key not in COMMON and not isinstance(value, BaseModel)}
    return {**overrides_of(values, recipe_table(path)), **pairs_of(given.get("set") or [])}


def signature(table: Mapping[str, Any], whole: bool) -> inspect.Signature:
    """Return the parameters of a recipe's flow. whole: with all tables that a recipe may have, in case of edits"""
    fields = {key: form_field(key, value, key) for key, value in settings_of(table).items()}
    if whole:
        fields |= {key: (Any, None) for key in KEYS if key not in fields}
    more: Any = Field(
        default=[], description="more settings over the recipe, each as key=value: duplicates.threshold=0.7"
    )
    count: Any = Field(default=None, description="worker processes; without a number, one a core")
    fields |= {"set": (list[str], more), "worker_processes": (int | None, count)}
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature(
        [inspect.Parameter(key, kind, annotation=hint, default=value) for key, (hint, value) in fields.items()]
    )


def form_field(key: str, value: Any, at: str) -> tuple[Any, Any]:
    """Return the type of a setting for a form, and its value in the recipe; at: its dotted key."""
    if not isinstance(value, dict):
        return type_of(value), value
    model = model_of(at, value)
    return model, model()


def model_of(at: str, table: Mapping[str, Any]) -> type[BaseModel]:
    """Return a recipe's table as a model: its values are the defaults of the fields, its settings' meaning its text."""
    fields: dict[str, Any] = {}
    for number, (key, value) in enumerate(table.items()):
        hint, default = form_field(key, value, f"{at}.{key}")
        fields[f"field{number}"] = (hint, Field(default=default, alias=key, title=key))
    meaning = inspect.getdoc(SETTINGS[at]) if at in SETTINGS else None
    return create_model(at, __config__=ConfigDict(title=at, extra="allow"), __doc__=meaning, **fields)


def type_of(value: Any) -> Any:
    """Return the type of a value in a form: a number may have a fraction, because `weight = 2` may become 2.5.

    >>> type_of(2), type_of(True), type_of(["en"])
    (<class 'float'>, <class 'bool'>, list[str])
    """
    if isinstance(value, list):
        return list[type_of(value[0])] if value else list[Any]  # type: ignore[misc]
    return float if type(value) is int else type(value)
