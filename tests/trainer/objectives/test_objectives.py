"""Families and objectives by name: ours, and those of an installed package, which a model is trained with."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from installed_source import installed_at
from small_training import SmallStore, of, small_job, train_here

from corpora.errors import InputError
from corpora.generic_types import Json
from trainer.settings.model import FAMILIES, ModelSettings, read_objective, to_model_json

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "smoothed_masks"
POINTS = """
[cloze.objectives]
smoothed = smoothed_masks:SmoothedObjective
gone = smoothed_masks:Gone
plain = smoothed_masks:SHALLOW_BERT

[cloze.families]
shallow-bert = smoothed_masks:SHALLOW_BERT
other-bert = smoothed_masks:SHALLOW_BERT
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example as pip would put it: its modules, and what its `pyproject.toml` says of entry points."""
    site = installed_at(Path(shutil.copytree(EXAMPLE, tmp_path / "site")), monkeypatch)
    site.register("smoothed-masks-example", "1.0", POINTS)


def test_the_example_names_its_entry_points() -> None:
    """Fails if the test installs what the example's own file does not."""
    said = (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    for line in ('smoothed = "smoothed_masks:SmoothedObjective"', 'shallow-bert = "smoothed_masks:SHALLOW_BERT"'):
        assert line in said and line.replace('"', "") in POINTS


@pytest.mark.usefixtures("installed")
def test_an_objective_and_a_family_of_a_package_are_trained(store: SmallStore, tmp_path: Path) -> None:
    """Fails if they are not found by the trainer, not told of their settings, or not in the fingerprint."""
    sizes = {"layers": 1, "hidden_size": 32, "heads": 2, "feed_forward_size": 64, "max_length": 32}
    losses = {}
    for smoothing in (0.0, 0.5):
        objective = {"kind": "smoothed", "smoothing": smoothing}
        model = ModelSettings(family="shallow-bert", objective=objective, dropout=0.0, attention_dropout=0.0, **sizes)
        packages = ("smoothed-masks-example 1.0",) * 2
        assert (to_model_json(model)["family_package"], to_model_json(model)["objective_package"]) == packages
        events = train_here(replace(small_job(store, tmp_path / str(smoothing)), model=model))
        steps = of(events, "step")
        assert len(steps) == 6 and "pair_loss" not in steps[0]
        losses[smoothing] = steps[-1]["masked_loss"]
    assert losses[0.5] > losses[0.0] + 0.01


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kind": "words"}, "must be one of 'masked', .*'smoothed'"),
        ({"kind": "gone"}, "gone = smoothed_masks:Gone .* cannot be loaded"),
        ({"kind": "plain"}, "objective 'plain', .* of smoothed-masks-example 1.0, is not a dataclass"),
        ({"kind": "smoothed", "smooth": 1.0}, "model.objective has no key 'smooth': did you mean 'smoothing'"),
        ({"kind": "smoothed", "smoothing": 1.0}, "model.objective.smoothing = 1.0 is out of range"),
        ({"kind": "masked", "smoothing": 0.1}, "model.objective has no key 'smoothing'"),
        ({}, "model.objective does not name its `kind`"),
        ({"kind": 3}, "model.objective does not name its `kind`"),
    ],
)
def test_what_is_wrong_in_an_objective_is_told(table: dict[str, Json], said: str) -> None:
    """Fails if a key that an objective does not have, or a broken package, is taken without a word."""
    with pytest.raises(InputError, match=said):
        read_objective(table, "model.objective")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"family": "berd"},
            "model.family = 'berd' is not known: did you mean 'bert'.* It must be one of 'bert', .*'shallow-bert'",
        ),
        ({"family": "other-bert"}, "'other-bert' of smoothed-masks-example 1.0 is not a `Family` of that name"),
        ({"family": "shallow-bert", "size": "tiny"}, "model.size = 'tiny' is not known: it must be one of 'base'"),
        ({"layer_groups": 5}, "model.layers = 12 is not a multiple of model.layer_groups = 5"),
        ({"hidden_size": 100}, "hidden_size = 100 is not a multiple of model.heads = 12"),
    ],
)
def test_what_is_wrong_in_a_model_is_told(settings: dict[str, Any], said: str) -> None:
    """Fails if a family or a shape that cannot be is taken without a word."""
    with pytest.raises(InputError, match=said):
        ModelSettings(**settings)


def test_settings_of_models_are_free_of_torch() -> None:
    """Fails if a family or an objective of ours leads the flow to torch."""
    code = "import sys, trainer.settings.model, trainer.build; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_of_ours_can_be_asked_for_by_its_name_alone(name: str) -> None:
    """Fails if a row's own values are refused, or it has no base size to begin with."""
    settings = ModelSettings(family=name)
    assert settings.family_row.name == name and {"base", "tiny"} <= {*settings.family_row.sizes}
    for size in settings.family_row.sizes:
        assert ModelSettings(family=name, size=size).shape[1] > 0
