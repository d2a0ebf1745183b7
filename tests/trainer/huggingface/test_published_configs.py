"""The configurations of checkpoints that people start from, as their authors have published them."""

import json
from pathlib import Path

import pytest
from labelled_cases import cases_of

from trainer.huggingface.config import read_config, to_model_settings
from trainer.settings.model import ModelSettings

CONFIGS = cases_of(__file__, "published_configs")
PUBLISHED = {
    "bert-base-uncased": ModelSettings(),
    "bert_uncased_L-2_H-128_A-2": ModelSettings(layers=2, hidden_size=128, heads=2, feed_forward_size=512),
    "bert-base-chinese": ModelSettings(),
    "roberta-base": ModelSettings(family="roberta"),
    "distilroberta-base": ModelSettings(family="roberta", layers=6),
    "electra-small-discriminator": ModelSettings(family="electra", size="small"),
    "albert-base-v2": ModelSettings(family="albert"),
    "distilbert-base-uncased": ModelSettings(family="distilbert"),
    "ModernBERT-base": ModelSettings(family="modernbert"),
    "ettin-encoder-17m": ModelSettings(
        family="modernbert", layers=7, hidden_size=256, heads=4, feed_forward_size=384, local_base=160_000.0
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_is_known(name: str, tmp_path: Path) -> None:
    """Fails if a checkpoint that people start from is refused, or taken for a model of other sizes."""
    wanted = PUBLISHED[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name]))
    found = to_model_settings(read_config(path), str(path))
    assert found.shape == wanted.shape and found.embedding == wanted.embedding
    over = ("activation", "positions", "groups", "norm_epsilon", "window", "every_global", "global_base", "local_base")
    for key in (*over, "family", "pooling", "initializer_range"):
        assert getattr(found, key) == getattr(wanted, key), key
