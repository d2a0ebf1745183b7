"""ALBERT (Lan et al. 2020): small word embeddings, and one set of layer weights that all layers share.

Dropout is 0 by default, as in version 2 of the published models. Version 1 (except xxlarge) has 0.1, which can be set.
Dropout is also applied after the feed-forward part, as in the authors' code; transformers has none there.
"""

from trainer.families.bert import CONFIG, DEFAULTS, FIXED, TOKEN_HEADS, prefix_names
from trainer.families.contract import ClassHeadShape, Family, Names, Size, name_classes

SIZES = {
    "tiny": Size(4, 256, 4, 1024, 128),  # not a published one
    "base": Size(12, 768, 12, 3072, 128),
    "large": Size(24, 1024, 16, 4096, 128),
    "xlarge": Size(24, 2048, 16, 8192, 128),
    "xxlarge": Size(12, 4096, 64, 16384, 128),
}

_LAYER = "encoder.albert_layer_groups.{}.albert_layers.0"
ENCODER = {
    "embeddings.word": ("embeddings.word_embeddings",),
    "embeddings.position": ("embeddings.position_embeddings",),
    "embeddings.segment": ("embeddings.token_type_embeddings",),
    "embeddings.norm": ("embeddings.LayerNorm",),
    "projection": ("encoder.embedding_hidden_mapping_in",),
    "layers.{}.attention.query_key_value": (
        f"{_LAYER}.attention.query",
        f"{_LAYER}.attention.key",
        f"{_LAYER}.attention.value",
    ),
    "layers.{}.attention.output": (f"{_LAYER}.attention.dense",),
    "layers.{}.attention_norm": (f"{_LAYER}.attention.LayerNorm",),
    "layers.{}.widen": (f"{_LAYER}.ffn",),
    "layers.{}.narrow": (f"{_LAYER}.ffn_output",),
    "layers.{}.feed_forward_norm": (f"{_LAYER}.full_layer_layer_norm",),
}

ALBERT = Family(
    name="albert",
    sizes=SIZES,
    activation="gelu-tanh",
    dropout=0.0,
    attention_dropout=0.0,
    pairs=True,
    shared_layers=True,
    shape={"projects": True},
    class_head=ClassHeadShape(pretrained="pair_head.pooler.", dropout=0.1),
    names=Names(
        encoder=prefix_names("albert", ENCODER),
        heads={
            "masked_head": {
                "bias": "predictions.bias",
                "dense": "predictions.dense",
                "norm": "predictions.LayerNorm",
            },
            "pair_head": {"pooler.dense": "albert.pooler", "decision": "sop_classifier.classifier"},
            "class_head": {"pooler.dense": "albert.pooler", "decision": "classifier"},
            "choice_head": {"pooler.dense": "albert.pooler", "decision": "classifier"},
            **TOKEN_HEADS,
        },
        tied={
            "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
            "predictions.decoder.bias": "predictions.bias",
        },
        architectures=name_classes("Albert", pairs="AlbertForPreTraining"),
        config={**CONFIG, "embedding_size": "embedding_size", "num_hidden_groups": "layer_groups"},
        defaults={
            **DEFAULTS,
            "embedding_size": 128,
            "hidden_size": 4096,
            "num_attention_heads": 64,
            "intermediate_size": 16384,
            "hidden_act": "gelu_new",
            "hidden_dropout_prob": 0,
            "attention_probs_dropout_prob": 0,
            "num_hidden_groups": 1,
        },
        activations={"gelu-tanh": "gelu_new"},
        constants={"inner_group_num": 1, "tie_word_embeddings": True},
        written={"classifier_dropout_prob": 0.1},
        fixed=FIXED,
        begin_and_end=True,
        ignored=("albert.embeddings.position_ids", "albert.pooler."),
    ),
)
