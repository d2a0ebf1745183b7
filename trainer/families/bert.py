"""BERT (Devlin et al. 2018; the smaller sizes Turc et al. 2019, table 1)."""

from trainer.families.contract import ClassHeadShape, Family, Names, Size, name_classes

SIZES = {
    "tiny": Size(2, 128, 2, 512),
    "mini": Size(4, 256, 4, 1024),
    "small": Size(4, 512, 8, 2048),
    "medium": Size(8, 512, 8, 2048),
    "base": Size(12, 768, 12, 3072),
    "large": Size(24, 1024, 16, 4096),
}

# Below "encoder" of ours, theirs below the name of the family; electra and roberta have the same.
ENCODER = {
    "embeddings.word": ("embeddings.word_embeddings",),
    "embeddings.position": ("embeddings.position_embeddings",),
    "embeddings.segment": ("embeddings.token_type_embeddings",),
    "embeddings.norm": ("embeddings.LayerNorm",),
    "layers.{}.attention.query_key_value": (
        "encoder.layer.{}.attention.self.query",
        "encoder.layer.{}.attention.self.key",
        "encoder.layer.{}.attention.self.value",
    ),
    "layers.{}.attention.output": ("encoder.layer.{}.attention.output.dense",),
    "layers.{}.attention_norm": ("encoder.layer.{}.attention.output.LayerNorm",),
    "layers.{}.widen": ("encoder.layer.{}.intermediate.dense",),
    "layers.{}.narrow": ("encoder.layer.{}.output.dense",),
    "layers.{}.feed_forward_norm": ("encoder.layer.{}.output.LayerNorm",),
}

CONFIG = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "intermediate_size": "feed_forward_size",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "max_position_embeddings": "positions",
    "type_vocab_size": "segment_types",
    "initializer_range": "deviation",
    "layer_norm_eps": "norm_epsilon",
}

DEFAULTS = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}

FIXED = {
    "is_decoder": False,
    "direction": "left",  # of a decoder of ours; there were some that read from the right
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
}


TOKEN_HEADS = {"token_head": {"decision": "classifier"}, "span_head": {"decision": "qa_outputs"}}


def prefix_names(name: str, encoder: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return a copy of a table of module names with "PREFIX." in front of each Hugging Face name.

    Args:
        name: The prefix, such as "bert".
        encoder: Maps each of our module names to one or more of Hugging Face's.
    """
    return {ours: tuple(f"{name}.{each}" for each in theirs) for ours, theirs in encoder.items()}


BERT = Family(
    name="bert",
    sizes=SIZES,
    pairs=True,
    class_head=ClassHeadShape(pretrained="pair_head.pooler."),
    names=Names(
        encoder=prefix_names("bert", ENCODER),
        heads={
            "masked_head": {
                "bias": "cls.predictions.bias",
                "dense": "cls.predictions.transform.dense",
                "norm": "cls.predictions.transform.LayerNorm",
            },
            "pair_head": {"pooler.dense": "bert.pooler.dense", "decision": "cls.seq_relationship"},
            "class_head": {"pooler.dense": "bert.pooler.dense", "decision": "classifier"},
            "choice_head": {"pooler.dense": "bert.pooler.dense", "decision": "classifier"},
            **TOKEN_HEADS,
        },
        tied={
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        architectures=name_classes("Bert", pairs="BertForPreTraining", next="BertLMHeadModel"),
        config=CONFIG,
        defaults=DEFAULTS,
        fixed=FIXED,
        ignored=("bert.embeddings.position_ids", "bert.pooler."),
    ),
)
