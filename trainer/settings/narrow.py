"""Suitable settings for narrow encoders: random weights, dropout and learning rates by hidden size, and advice.

Published settings are for encoders with a hidden size of 768. With them, an encoder with a hidden size of 128 is no
better than guessing by frequency even after millions of tokens. `cloze new` writes the settings proposed here, and
`cloze.train` uses them if the caller sets nothing else. A recipe that leaves a setting out keeps the general defaults,
so no model in a store changes.

The values were measured: docs/performance.md, "Learning curves".
"""

from collections.abc import Mapping
from typing import Any

from trainer.families.contract import DEVIATION
from trainer.objectives.replaced import REPLACED
from trainer.settings.model import ModelSettings
from trainer.settings.training import TrainingSettings

WIDE = 512  # the hidden size from which on the published numbers suit
MANY_TOKENS = 1_000_000_000  # from which on published narrow models, such as ELECTRA-small, learned with such settings
PUBLISHED_RATE = 1e-4  # of BERT-base, and what `[training]` has if it sets none
MIN_TOKENS = 1_000_000  # after which all six families were below the unigram entropy at a hidden size of 128


def propose_model_settings(model: ModelSettings) -> dict[str, Any]:
    """Return keys of the `[model]` table that suit random weights at this model's hidden size.

    The standard deviation of random weights is 0.02 * sqrt(768 / hidden size), and a table of positions is initialized
    with sinusoids. There is no dropout, because a narrow model cannot memorize a corpus. ELECTRA's generator has a
    hidden size of 128 (or the model's if that is smaller), and the discriminator's loss has weight 10. The result is
    empty for hidden sizes of 512 and above, and for a model that starts from another one.

    >>> propose_model_settings(ModelSettings(family="modernbert", size="mini"))
    {'initializer_range': 0.035, 'dropout': 0.0, 'attention_dropout': 0.0}
    """
    if not _is_narrow(model):
        return {}
    deviation = round(DEVIATION * (768 / model.shape[1]) ** 0.5, 3)
    proposed: dict[str, Any] = {"initializer_range": deviation, "dropout": 0.0, "attention_dropout": 0.0}
    if model.family_row.has_position_table:
        proposed["initial_positions"] = "sinusoidal"
    if model.objective is None and model.family_row.objective == REPLACED:
        generator_size = min(1.0, 128 / model.shape[1])
        proposed["objective"] = {"kind": REPLACED, "generator_size": generator_size, "replaced_weight": 10.0}
    return proposed


def propose_training_settings(model: ModelSettings, training: Mapping[str, Any]) -> dict[str, float]:
    """Return keys of the `[training]` table that suit the pre-training of a model of this hidden size.

    The peak learning rate is 2e-3 up to a hidden size of 128, and then inversely proportional to the hidden size, down
    to 5e-4 at 512. It is divided by the square root of the number of layers that share a set of weights (ALBERT), or by
    2 if there are more than four. The result is empty for hidden sizes of 512 and above, and for a model that starts
    from another one.

    Args:
        model: The settings of the model.
        training: The values in the table. If `warmup_steps` is set, no `warmup_share` is proposed.

    >>> propose_training_settings(ModelSettings(size="mini"), {})
    {'learning_rate': 0.001, 'warmup_share': 0.06, 'beta2': 0.98}
    """
    if not _is_narrow(model):
        return {}
    warmup = {} if "warmup_steps" in training else {"warmup_share": 0.06}
    sharing = min(2.0, (model.shape[0] / model.groups) ** 0.5)
    rate = 2e-3 * min(1, 128 / model.shape[1]) / sharing
    return {"learning_rate": float(f"{rate:.2g}"), **warmup, "beta2": 0.98}


def _is_narrow(model: ModelSettings) -> bool:
    """Return True if a model starts with random weights and has a hidden size below 512."""
    return model.start is None and model.shape[1] < WIDE


def list_narrow_advice(model: ModelSettings, training: TrainingSettings, max_tokens: int | None) -> list[str]:
    """List what keeps a narrow model from learning: general default settings, and too few training tokens.

    Args:
        model: The settings of the model.
        training: The settings of its training.
        max_tokens: Maximum number of tokens that the training reads; None if it is not known.

    Returns:
        One line per finding, as `key = value: explanation`. Empty for wide models, for those that start from another
        model, and for training runs with MANY_TOKENS or more.
    """
    if not _is_narrow(model) or (max_tokens or 0) >= MANY_TOKENS:
        return []
    lines, hidden_size = list[str](), model.shape[1]
    if training.learning_rate <= PUBLISHED_RATE:
        keys = ", ".join(f"{key} = {value:g}" for key, value in propose_training_settings(model, {}).items())
        lines.append(
            f"training.learning_rate = {training.learning_rate:g}: a model {hidden_size} wide hardly learns at a rate "
            f"for wide ones. Set {keys}."
        )
    if model.initializer_range == DEVIATION:
        lines.append(
            f"model.initializer_range = {DEVIATION:g}: a model {hidden_size} wide learns sooner with larger first "
            f"weights. Set it to {propose_model_settings(model)['initializer_range']:g}."
        )
    if max_tokens is not None and max_tokens < MIN_TOKENS:
        lines.append(
            f"training.phase: reads at most {max_tokens:,} tokens. Small encoders of all families needed up to "
            f"{MIN_TOKENS:,} to know more than how frequent each token is."
        )
    return lines
