"""ModernBERT (Warner et al. 2024): rotary positions, gated feed-forward, pre-norm, no biases, windows of 128 tokens."""

from collections.abc import Mapping
from typing import Any

from trainer.families.contract import ClassHeadShape, Family, MaskedHeadShape, Names, Size, TokenHeadShape, name_classes

WINDOW, EVERY_GLOBAL = 128, 3
GLOBAL_BASE, LOCAL_BASE = 160_000.0, 10_000.0


def normalize_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a ModernBERT configuration from the newer format to the older one. One in the older format is copied.

    The newer format lists the kind of each layer (`layer_types`) and nests the bases of rotary embeddings
    (`rope_parameters`). The older format has one key that says how often a layer without a window occurs, and one key
    for each base.

    Raises:
        ValueError: If layers or rotary embeddings are not supported. The argument is the name of the key.
    """
    converted = dict(config)
    if kinds := config.get("layer_types"):
        if not isinstance(kinds, list):
            raise ValueError("layer_types")
        spacings = (config.get("global_attn_every_n_layers"), EVERY_GLOBAL, *range(1, len(kinds) + 1))
        fitting = (every for every in spacings if every and kinds == _list_layer_kinds(len(kinds), every))
        converted["global_attn_every_n_layers"] = next(fitting, None)
        if converted["global_attn_every_n_layers"] is None or len(kinds) != config["num_hidden_layers"]:
            raise ValueError("layer_types")
    for kind, key in (("full_attention", "global_rope_theta"), ("sliding_attention", "local_rope_theta")):
        rotations = config.get("rope_parameters") or {}
        rope = (rotations.get(kind) or {}) if isinstance(rotations, Mapping) else None
        if not isinstance(rope, Mapping) or rope.get("rope_type", "default") != "default":
            raise ValueError("rope_parameters")
        if "rope_theta" in rope:
            converted[key] = rope["rope_theta"]
    return converted


def _list_layer_kinds(layers: int, every: int) -> list[str]:
    return ["sliding_attention" if number % every else "full_attention" for number in range(layers)]


CLASSIFIER = {"pooler.dense": "head.dense", "pooler.norm": "head.norm", "decision": "classifier"}
HEAD = ClassHeadShape(activation="gelu", biases=False, norm=True, pretrained="masked_head.", dropout=0.0)

MODERNBERT = Family(
    name="modernbert",
    sizes={
        "tiny": Size(3, 128, 2, 256),  # this and the next two are not published ones
        "mini": Size(4, 256, 4, 512),
        "small": Size(6, 512, 8, 1024),
        "base": Size(22, 768, 12, 1152),
        "large": Size(28, 1024, 16, 2624),
    },
    max_length=8192,
    segment_types=0,
    norm_epsilon=1e-5,
    dropout=0.0,
    attention_dropout=0.0,
    scales_by_depth=True,
    window=WINDOW,
    every_global=EVERY_GLOBAL,
    rope_bases=(GLOBAL_BASE, LOCAL_BASE),
    pooling="mean",
    shape={"norm_place": "before", "feed_forward": "glu", "position_kind": "rope", "biases": False},
    masked_head=MaskedHeadShape(activation="gelu", biases=False),
    class_head=HEAD,
    token_head=TokenHeadShape(pooler=HEAD, dropout=0.0),
    span_head=TokenHeadShape(pooler=HEAD, dropout=0.0),
    names=Names(
        encoder={
            "embeddings.word": ("model.embeddings.tok_embeddings",),
            "embeddings.norm": ("model.embeddings.norm",),
            "layers.{}.attention_norm": ("model.layers.{}.attn_norm",),
            "layers.{}.attention.query_key_value": ("model.layers.{}.attn.Wqkv",),
            "layers.{}.attention.output": ("model.layers.{}.attn.Wo",),
            "layers.{}.feed_forward_norm": ("model.layers.{}.mlp_norm",),
            "layers.{}.widen": ("model.layers.{}.mlp.Wi",),
            "layers.{}.narrow": ("model.layers.{}.mlp.Wo",),
            "final_norm": ("model.final_norm",),
        },
        heads={
            "masked_head": {"bias": "decoder.bias", "dense": "head.dense", "norm": "head.norm"},
            **dict.fromkeys(("class_head", "choice_head", "token_head", "span_head"), CLASSIFIER),
        },
        tied={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
        architectures=name_classes("ModernBert"),
        config={
            "vocab_size": "vocab_size",
            "hidden_size": "hidden_size",
            "num_hidden_layers": "layers",
            "num_attention_heads": "heads",
            "intermediate_size": "feed_forward_size",
            "hidden_activation": "activation",
            "mlp_dropout": "dropout",
            "attention_dropout": "attention_dropout",
            "max_position_embeddings": "positions",
            "initializer_range": "deviation",
            "norm_eps": "norm_epsilon",
            "local_attention": "window",
            "global_attn_every_n_layers": "every_global",
            "global_rope_theta": "global_base",
            "local_rope_theta": "local_base",
            "classifier_pooling": "pooling",
        },
        defaults={
            "hidden_size": 768,
            "num_hidden_layers": 22,
            "num_attention_heads": 12,
            "intermediate_size": 1152,
            "hidden_activation": "gelu",
            "mlp_dropout": 0.0,
            "attention_dropout": 0.0,
            "max_position_embeddings": 8192,
            "norm_eps": 1e-5,
            "classifier_pooling": "cls",
            "pad_token_id": 50283,
        },
        constants={
            "tie_word_embeddings": True,
            "norm_bias": False,
            "attention_bias": False,
            "mlp_bias": False,
            "decoder_bias": True,
            "classifier_bias": False,
            "classifier_activation": "gelu",
        },
        begin_and_end=True,
        normalize_config=normalize_config,
    ),
)
