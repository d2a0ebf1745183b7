"""What Hugging Face calls the parameters of our models: one table for the encoder, one for each family's heads.

Where our parameter corresponds to several of theirs, ours holds them one upon another (along the first dimension).
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from trainer.model.families import FAMILIES
from trainer.settings import ModelInputs, ModelSettings

# Our module names and theirs, those of the encoder below the name of the family.
EMBEDDINGS = {
    "word": "word_embeddings",
    "position": "position_embeddings",
    "segment": "token_type_embeddings",
    "norm": "LayerNorm",
}
LAYER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "attention.query_key_value": ("attention.self.query", "attention.self.key", "attention.self.value"),
        "attention.output": ("attention.output.dense",),
        "attention_norm": ("attention.output.LayerNorm",),
        "widen": ("intermediate.dense",),
        "narrow": ("output.dense",),
        "feed_forward_norm": ("output.LayerNorm",),
    }
)
PRETRAINING_HEADS = {
    "bert": {
        "masked_head.bias": "cls.predictions.bias",
        "masked_head.dense": "cls.predictions.transform.dense",
        "masked_head.norm": "cls.predictions.transform.LayerNorm",
        "pair_head.pooler.dense": "bert.pooler.dense",
        "pair_head.decision": "cls.seq_relationship",
    },
    "roberta": {
        "masked_head.bias": "lm_head.bias",
        "masked_head.dense": "lm_head.dense",
        "masked_head.norm": "lm_head.layer_norm",
    },
}
# The decoder's weight and bias as some files store them, and what they are tied to.
TIED = {
    "bert": {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "roberta": {
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
}


def huggingface_names(settings: ModelSettings, inputs: ModelInputs) -> dict[str, tuple[str, ...]]:
    """The name there of every parameter of ours; with several, ours holds them one upon another."""
    return {ours: tuple(theirs) for ours, theirs in _names(settings, inputs)}


def _names(settings: ModelSettings, inputs: ModelInputs) -> Iterator[tuple[str, Sequence[str]]]:
    family = settings.family
    for ours, theirs in EMBEDDINGS.items():
        for kind in ("weight", "bias") if ours == "norm" else ("weight",):
            yield f"encoder.embeddings.{ours}.{kind}", [f"{family}.embeddings.{theirs}.{kind}"]
    for layer in range(settings.shape[0]):
        for ours, parts in LAYER.items():
            for kind in ("weight", "bias"):
                names = [f"{family}.encoder.layer.{layer}.{part}.{kind}" for part in parts]
                yield f"encoder.layers.{layer}.{ours}.{kind}", names
    for ours, theirs in PRETRAINING_HEADS[family].items():
        if ours.startswith("pair_head") and not FAMILIES[family].has_pairs(inputs):
            continue
        for kind in ("",) if ours.endswith("bias") else (".weight", ".bias"):
            yield ours + kind, [theirs + kind]
