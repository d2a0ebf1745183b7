"""Finds what would slow a recipe's training on the GPUs of this machine, for `cloze plan` and `cloze doctor`.

The driver's own tool is called, so torch is not imported. Cost: some hundredths of a second, and nothing where there is
no such tool.
"""

import re
import subprocess
from collections.abc import Mapping

from flows.command.doctor import Finding, first_environment, gpu_lines, warn
from flows.recipes.recipe import Recipe
from trainer.auto_settings import Hardware, compiler_lacks, slow_settings, weakest

_CARD = re.compile(r"(?P<name>.+), (?P<major>\d+)\.(?P<minor>\d+)")


def card(environ: Mapping[str, str] | None = None) -> Hardware | None:
    """Return the least of the GPUs that the driver lists; None if it lists none."""
    environ = first_environment() if environ is None else environ
    try:
        lines = gpu_lines(environ, "name,compute_cap") or []
    except (OSError, subprocess.SubprocessError):
        return None  # `cloze doctor` reports a driver that fails
    lacks = compiler_lacks("cuda", environ)
    cards = [
        Hardware(device="cuda", name=each["name"], capability=(int(each["major"]), int(each["minor"])), lacks=lacks)
        for line in lines
        if (each := _CARD.fullmatch(line)) is not None
    ]
    return weakest(cards) if cards else None


def slow_lines(recipe: Recipe, seen: Hardware | None) -> list[str]:
    """Return what makes the recipe's training slower than it need be on a card, or impossible without one."""
    if recipe.model is None:
        return []
    model, training = recipe.model.settings, recipe.model.training
    if seen is None:
        missing = 'training.device = "cuda": no GPU is seen on this machine, and training will not start on it.'
        return [missing] if training.device == "cuda" else []
    _, hidden_size, heads, _ = model.shape
    return slow_settings(training, seen, model.attention_dropout or 0.0, hidden_size // heads)


def training_findings(recipe: Recipe) -> list[Finding]:
    """Return the same for `cloze doctor`, a finding for each."""
    return [
        warn("training", fact, remedy)
        for line in slow_lines(recipe, card())
        for fact, _, remedy in [line.partition(": ")]
    ]
