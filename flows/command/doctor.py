"""`cloze doctor`: what this machine has and lacks for Cloze, each thing with its one line of remedy.

`machine_checks.py` looks at the machine, `prepare.py` at what is compiled; here are the engine, and what would slow a
recipe's training on the GPUs. `cloze plan` reports engine and GPUs, too: the driver's own tool is
called, so torch is not imported. What a check needs is imported when it runs.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.errors import InputError
from flows.command import arguments
from flows.command.arguments import load_recipe
from flows.command.machine_checks import (
    Finding,
    examine_machine,
    query_gpus,
    read_start_environment,
    render_findings,
    report_failure,
    report_ok,
    report_warning,
)
from flows.command.terminal import console, print_json

if TYPE_CHECKING:
    from flows.recipes.recipe import Recipe
    from trainer.auto_settings import Hardware


_CARD = re.compile(r"(?P<name>.+), (?P<major>\d+)\.(?P<minor>\d+)")


def doctor(
    recipe: arguments.RecipeName = None,
    *,
    store: arguments.RecipeStore = None,
    engine: arguments.Engine = None,
    as_json: arguments.AsJson = False,
) -> int:
    """Check this machine, and say how to fix what is missing.

    With a recipe, also list settings that slow down its training on the GPU.
    """
    from corpora.store.places.place import Place
    from flows.command.prepare import check_database, check_kernels

    place = Place(store) if store else None
    folder, home = Path(place.address) if place is not None and place.is_local else None, arguments.find_home()
    findings = [*examine_machine(home, folder), check_kernels(), check_database(home), *check_engine(engine)]
    if recipe is not None:
        findings += check_training(load_recipe(recipe, store=store))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        console.print(render_findings(findings))
    return 1 if any(finding.ok == "fail" for finding in findings) else 0


def describe_engine(address: str) -> list[str]:
    """Describe a Dask cluster in at most two lines: its state, and what must be done before a run.

    Args:
        address: The address of the Dask scheduler. For "local", the result is an empty list.

    Raises:
        InputError: If the address is malformed.
    """
    lines = []
    for finding in check_engine(address):
        lines += [f"Engine {finding.fact}.", *([f"Before a run: {finding.remedy}."] if finding.remedy else [])]
    return lines


def check_engine(address: str | None) -> list[Finding]:
    """Check whether the Dask cluster at an address can be used.

    Args:
        address: The address of the Dask scheduler, "local", or None.

    Returns:
        A list with one finding; an empty list for None and "local".

    Raises:
        InputError: If the address is malformed.
    """
    from flows.recipes.run_settings import LOCAL_ENGINE, parse_engine

    if address is None or parse_engine(address) == LOCAL_ENGINE:
        return []
    from flows.engines.open_engine import inspect_engine  # with the pool

    try:
        fact, remedy = inspect_engine(address)
    except InputError as error:
        fact, remedy = address, str(error).removesuffix(".")
    return [report_failure("engine", fact, remedy) if remedy else report_ok("engine", fact)]


def find_gpu(environ: Mapping[str, str] | None = None) -> "Hardware | None":
    """Find the least capable of the GPUs that the driver lists.

    Args:
        environ: Environment variables. Their PATH is searched for the driver's tool. If None, those that this process
            was started with are used.

    Returns:
        The GPU; None if there is none, or the driver fails.
    """
    from trainer.auto_settings import Hardware, find_missing_compiler, find_weakest

    environ = read_start_environment() if environ is None else environ
    try:
        lines = query_gpus(environ, "name,compute_cap") or []
    except (OSError, subprocess.SubprocessError):
        return None  # `cloze doctor` reports a driver that fails
    lacks = find_missing_compiler("cuda", environ)
    cards = [
        Hardware(device="cuda", name=each["name"], capability=(int(each["major"]), int(each["minor"])), lacks=lacks)
        for line in lines
        if (each := _CARD.fullmatch(line)) is not None
    ]
    return find_weakest(cards) if cards else None


def find_slow_settings(recipe: "Recipe", seen: "Hardware | None") -> list[str]:
    """Find the training settings of a recipe that are slow on a GPU.

    Args:
        recipe: The recipe.
        seen: The GPU. If None, the only possible line says that training on the device "cuda" will not start.

    Returns:
        One line per setting; an empty list if the recipe has no model.
    """
    from trainer.auto_settings import list_slow_settings

    if recipe.model is None:
        return []
    model, training = recipe.model.settings, recipe.model.training
    if seen is None:
        missing = 'training.device = "cuda": no GPU is seen on this machine, and training will not start on it.'
        return [missing] if training.device == "cuda" else []
    _, hidden_size, heads, _ = model.shape
    return list_slow_settings(training, seen, model.attention_dropout or 0.0, hidden_size // heads)


def check_training(recipe: "Recipe") -> list[Finding]:
    """Check a recipe's training settings on this machine's GPU, and return a warning for each slow setting."""
    return [
        report_warning("training", fact, remedy)
        for line in find_slow_settings(recipe, find_gpu())
        for fact, _, remedy in [line.partition(": ")]
    ]
