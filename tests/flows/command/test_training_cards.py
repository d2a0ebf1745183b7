"""A plan and the doctor report settings that are slow on the GPUs of this machine."""

from pathlib import Path

from flows.command.doctor import find_gpu, find_slow_settings
from flows.command.plan import find_narrow_settings
from flows.recipes.recipe import Recipe, parse_recipe
from trainer.auto_settings import Hardware

RECIPE = """
store = "store"
source = [{{ kind = "files", name = "notes", path = "raw" }}]
vocabulary.size = 500
shards = {{}}
model.size = "tiny"
[training]
phase = [{{ steps = 1 }}]
{training}
"""


def recipe(folder: Path, training: str = "") -> Recipe:
    return parse_recipe(RECIPE.format(training=training), folder / "recipe.toml", {})


def tool(folder: Path, script: str) -> dict[str, str]:
    """An environment with a driver's tool that says so."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": str(folder)}


def test_the_least_card_is_looked_at(tmp_path: Path) -> None:
    """Fails if a fast card hides a slow one, a name with a comma is cut, or a driver that fails ends a plan."""
    assert find_gpu({"PATH": str(tmp_path)}) is None
    found = find_gpu(tool(tmp_path, 'echo "NVIDIA H200, SXM, 9.0"; echo "Tesla T4, 7.5"'))
    assert found is not None and (found.name, found.capability) == ("Tesla T4", (7, 5)) and "compiler" in found.lacks
    assert find_gpu(tool(tmp_path, "exit 9")) is None and find_gpu(tool(tmp_path, "echo No devices were found")) is None


def test_slow_settings_of_a_recipe(tmp_path: Path) -> None:
    """Fails if a recipe that says nothing is not told what float32 and attention dropout cost on a card."""
    seen = Hardware(device="cuda", name="H200", capability=(9, 0))
    [precision, dropout, shapes] = find_slow_settings(recipe(tmp_path), seen)
    assert "float32" in precision and "H200" in precision and "micro_batch_tokens" in shapes
    assert "model.attention_dropout = 0.1" in dropout
    fast = 'precision = "auto"\nmicro_batch_tokens = 4096'
    [padded] = find_slow_settings(recipe(tmp_path, fast), seen)
    assert "model.attention_dropout = 0.1" in padded and padded.endswith("0 is fast, but trains a different model.")
    assert find_slow_settings(recipe(tmp_path), None) == []
    [missing] = find_slow_settings(recipe(tmp_path, 'device = "cuda"'), None)
    assert "no GPU is seen" in missing


def test_a_plan_tells_what_keeps_a_narrow_model_from_learning(tmp_path: Path) -> None:
    """Fails if a narrow model with the defaults of wide ones is planned without a word, or the tokens of its phases are
    not counted by the length of the examples."""
    rate, weights, tokens = find_narrow_settings(recipe(tmp_path))
    assert "learning_rate = 0.002" in rate and "0.049" in weights and f"at most {32 * 128:,} tokens" in tokens
    settings = "learning_rate = 2e-3\nwarmup_share = 0.06\nbeta2 = 0.98"
    [weights, tokens] = find_narrow_settings(recipe(tmp_path, settings))
    assert "initializer_range" in weights and "tokens" in tokens
