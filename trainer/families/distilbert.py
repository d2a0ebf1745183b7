"""DistilBERT (Sanh et al. 2019): BERT without segments and pairs, half as deep.

By default it is trained to predict masked tokens, like other families. DistilRoBERTa is a "roberta" with 6 layers.
"""

from trainer.families.bert import TOKEN_HEADS, prefix_names
from trainer.families.contract import ClassHeadShape, Family, MaskedHeadShape, Names, Size, TokenHeadShape, name_classes

SIZES = {
    "tiny": Size(2, 128, 2, 512),  # not a published one
    "base": Size(6, 768, 12, 3072),
}

_LAYER = "transformer.layer.{}"
ENCODER = {
    "embeddings.word": ("embeddings.word_embeddings",),
    "embeddings.position": ("embeddings.position_embeddings",),
    "embeddings.norm": ("embeddings.LayerNorm",),
    "layers.{}.attention.query_key_value": (
        f"{_LAYER}.attention.q_lin",
        f"{_LAYER}.attention.k_lin",
        f"{_LAYER}.attention.v_lin",
    ),
    "layers.{}.attention.output": (f"{_LAYER}.attention.out_lin",),
    "layers.{}.attention_norm": (f"{_LAYER}.sa_layer_norm",),
    "layers.{}.widen": (f"{_LAYER}.ffn.lin1",),
    "layers.{}.narrow": (f"{_LAYER}.ffn.lin2",),
    "layers.{}.feed_forward_norm": (f"{_LAYER}.output_layer_norm",),
}

DISTILBERT = Family(
    name="distilbert",
    sizes=SIZES,
    segment_types=0,
    first_weights="normal",
    masked_head=MaskedHeadShape(),
    class_head=ClassHeadShape(activation="relu", dropout=0.2),
    span_head=TokenHeadShape(dropout=0.1),
    names=Names(
        encoder=prefix_names("distilbert", ENCODER),
        heads={
            "masked_head": {
                "bias": "vocab_projector.bias",
                "dense": "vocab_transform",
                "norm": "vocab_layer_norm",
            },
            "class_head": {"pooler.dense": "pre_classifier", "decision": "classifier"},
            "choice_head": {"pooler.dense": "pre_classifier", "decision": "classifier"},
            **TOKEN_HEADS,
        },
        tied={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
        architectures=name_classes("DistilBert"),
        config={
            "vocab_size": "vocab_size",
            "dim": "hidden_size",
            "n_layers": "layers",
            "n_heads": "heads",
            "hidden_dim": "feed_forward_size",
            "activation": "activation",
            "dropout": "dropout",
            "attention_dropout": "attention_dropout",
            "max_position_embeddings": "positions",
            "initializer_range": "deviation",
        },
        defaults={
            "dim": 768,
            "n_layers": 6,
            "n_heads": 12,
            "hidden_dim": 3072,
            "activation": "gelu",
            "dropout": 0.1,
            "attention_dropout": 0.1,
            "max_position_embeddings": 512,
            "pad_token_id": 0,
        },
        written={"sinusoidal_pos_embds": False, "qa_dropout": 0.1, "seq_classif_dropout": 0.2},
        ignored=("distilbert.embeddings.position_ids",),
    ),
)
