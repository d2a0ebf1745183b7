"""RoBERTa (Liu et al. 2019)."""

from trainer.families.bert import CONFIG, DEFAULTS, ENCODER, FIXED, SIZES, TOKEN_HEADS, prefix_names
from trainer.families.contract import ClassHeadShape, Family, MaskedHeadShape, Names, name_classes

ROBERTA = Family(
    name="roberta",
    sizes=SIZES,
    segment_types=1,
    position_from_pad=True,
    norm_epsilon=1e-5,
    first_weights="normal",
    masked_head=MaskedHeadShape(activation="gelu"),
    class_head=ClassHeadShape(drops_first=True),
    choice_head=ClassHeadShape(),
    names=Names(
        encoder=prefix_names("roberta", ENCODER),
        heads={
            "masked_head": {"bias": "lm_head.bias", "dense": "lm_head.dense", "norm": "lm_head.layer_norm"},
            "class_head": {"pooler.dense": "classifier.dense", "decision": "classifier.out_proj"},
            "choice_head": {"pooler.dense": "roberta.pooler.dense", "decision": "classifier"},
            **TOKEN_HEADS,
        },
        tied={
            "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
        architectures=name_classes("Roberta", next="RobertaForCausalLM"),
        config=CONFIG,
        defaults={**DEFAULTS, "pad_token_id": 1},
        fixed=FIXED,
        begin_and_end=True,
        ignored=("roberta.embeddings.position_ids", "roberta.pooler."),
    ),
)
