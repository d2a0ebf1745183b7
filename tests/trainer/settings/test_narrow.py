"""Settings for narrow models: what they are at each hidden size, who gets them, and who is told that he has others."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from corpora.store.settings import bind_settings
from flows.recipes.recipe_templates import read_templates, write_new_recipe
from trainer.settings.model import ModelSettings
from trainer.settings.narrow import list_narrow_advice, propose_model_settings, propose_training_settings
from trainer.settings.training import TrainingSettings

PROPOSED = [  # family, size -> deviation of the first weights, rate
    ("bert", "tiny", 0.049, 2e-3),
    ("bert", "mini", 0.035, 1e-3),
    ("electra", "tiny", 0.049, 2e-3),
    ("albert", "tiny", 0.035, 5e-4),  # four layers share their weights
    ("modernbert", "tiny", 0.049, 2e-3),
]


@pytest.mark.parametrize(("family", "size", "deviation", "rate"), PROPOSED)
def test_narrow_models_get_wider_weights_and_higher_rates(
    family: str, size: str, deviation: float, rate: float
) -> None:
    model = ModelSettings(family=family, size=size)
    assert propose_model_settings(model)["initializer_range"] == deviation
    assert propose_training_settings(model, {}) == {"learning_rate": rate, "warmup_share": 0.06, "beta2": 0.98}
    assert "warmup_share" not in propose_training_settings(model, {"warmup_steps": 10})


def test_positions_and_generators_suit_a_narrow_model() -> None:
    """Fails if rotary positions get a table, or a generator is left so narrow that it learns nothing."""
    assert "initial_positions" not in propose_model_settings(ModelSettings(family="modernbert", size="tiny"))
    electra = propose_model_settings(ModelSettings(family="electra", size="tiny"))
    assert electra["initial_positions"] == "sinusoidal" and electra["objective"]["generator_size"] == 1.0
    own = ModelSettings(family="electra", size="tiny", objective={"kind": "replaced"})
    assert "objective" not in propose_model_settings(own)


@pytest.mark.parametrize(
    "table",
    [
        {"family": "bert", "size": "small"},
        {"family": "modernbert", "size": "base"},
        {"family": "bert", "size": "tiny", "start": "models/mine"},
    ],
)
def test_wide_models_and_those_with_a_start_get_nothing(table: dict[str, Any]) -> None:
    model, training = ModelSettings(**table), bind_settings(TrainingSettings, {"phase": [{"steps": 1}]}, "training")
    assert propose_model_settings(model) == {} == propose_training_settings(model, {})
    assert list_narrow_advice(model, training, 1) == []


def test_a_new_recipe_has_what_is_proposed_for_its_width(tmp_path: Path) -> None:
    """Fails if the model that `cloze new` writes, once its comment signs are gone, is not valid, or has other settings
    than are proposed for it; or if the shards of a template cannot train it."""
    for template in read_templates():
        text = write_new_recipe(template, template, tmp_path).read_text()
        commented = text[text.index("# [model]") : text.index("# What the model is for")]
        tables = tomllib.loads("\n".join(line.removeprefix("#") for line in commented.splitlines()))
        model = bind_settings(ModelSettings, tables["model"], "model")
        training = bind_settings(TrainingSettings, tables["training"], "training")
        proposed = propose_model_settings(model)
        assert model.family == "modernbert" and tables["model"]["initializer_range"] == proposed["initializer_range"]
        assert {**tables["training"], **propose_training_settings(model, {})} == tables["training"]
        assert list_narrow_advice(model, training, None) == []
        assert tomllib.loads(text)["shards"]["input"] == "full-sentences"  # ModernBERT learns from no pairs


def test_the_general_defaults_of_a_narrow_model_are_told() -> None:
    """Fails if a recipe that leaves rate and first weights out, or trains on few tokens, is planned without a word."""
    model = ModelSettings(family="bert", size="tiny")
    training = bind_settings(TrainingSettings, {"phase": [{"steps": 100}]}, "training")
    rate, weights, tokens = list_narrow_advice(model, training, 400_000)
    assert "learning_rate = 0.002, warmup_share = 0.06, beta2 = 0.98" in rate
    assert "Set it to 0.049" in weights and "400,000 tokens" in tokens
    assert len(list_narrow_advice(model, training, None)) == 2
    assert list_narrow_advice(model, training, 10**9) == []  # as published ones have read, which learn with them
