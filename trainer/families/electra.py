"""ELECTRA (Clark et al. 2020; sizes from table 6, and BERT's tiny size for CPUs).

In the smaller sizes, the embeddings and the hidden states have different sizes, and a matrix projects one to the other.
"""

from trainer.families.bert import CONFIG, DEFAULTS, ENCODER, FIXED, TOKEN_HEADS, prefix_names
from trainer.families.contract import ClassHeadShape, Family, MaskedHeadShape, Names, Size, name_classes

ELECTRA = Family(
    name="electra",
    sizes={
        "tiny": Size(2, 128, 2, 512, 64),
        "small": Size(12, 256, 4, 1024, 128),
        "base": Size(12, 768, 12, 3072),
        "large": Size(24, 1024, 16, 4096),
    },
    generators={"tiny": 1 / 2, "small": 1 / 4, "base": 1 / 3, "large": 1 / 4},
    objective="replaced",
    masked_head=MaskedHeadShape(activation="gelu"),
    class_head=ClassHeadShape(drops_first=True, activation="gelu"),
    choice_head=ClassHeadShape(activation="gelu", dropout=0.1),
    names=Names(
        encoder=prefix_names("electra", {**ENCODER, "projection": ("embeddings_project",)}),
        heads={
            "replaced_head": {
                "dense": "discriminator_predictions.dense",
                "decision": "discriminator_predictions.dense_prediction",
            },
            "masked_head": {
                "bias": "generator_lm_head.bias",
                "dense": "generator_predictions.dense",
                "norm": "generator_predictions.LayerNorm",
            },
            "class_head": {"pooler.dense": "classifier.dense", "decision": "classifier.out_proj"},
            "choice_head": {"pooler.dense": "sequence_summary.summary", "decision": "classifier"},
            **TOKEN_HEADS,
        },
        tied={"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
        architectures=name_classes("Electra", replaced="ElectraForPreTraining"),
        config={**CONFIG, "embedding_size": "embedding_size"},
        defaults={
            **DEFAULTS,
            "embedding_size": 128,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
        fixed=FIXED,
        ignored=("electra.embeddings.position_ids",),
    ),
)
