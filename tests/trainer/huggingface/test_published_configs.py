"""The configurations of checkpoints that people start from, as their authors have published them."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainer.huggingface.config import read_config, settings_of
from trainer.settings.model import ModelSettings

BERT = {
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
    "use_cache": True,
    "vocab_size": 30522,
}
SMALL_BERT = {
    "hidden_size": 128,
    "hidden_act": "gelu",
    "initializer_range": 0.02,
    "vocab_size": 30522,
    "hidden_dropout_prob": 0.1,
    "num_attention_heads": 2,
    "type_vocab_size": 2,
    "max_position_embeddings": 512,
    "num_hidden_layers": 2,
    "intermediate_size": 512,
    "attention_probs_dropout_prob": 0.1,
    "model_type": "bert",
}
CHINESE_BERT = {
    **BERT,
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
    "vocab_size": 21128,
}
ROBERTA = {
    "architectures": ["RobertaForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514,
    "model_type": "roberta",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "vocab_size": 50265,
}
ELECTRA = {
    "architectures": ["ElectraForPreTraining"],
    "attention_probs_dropout_prob": 0.1,
    "embedding_size": 128,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 256,
    "initializer_range": 0.02,
    "intermediate_size": 1024,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "electra",
    "num_attention_heads": 4,
    "num_hidden_layers": 12,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "summary_activation": "gelu",
    "summary_last_dropout": 0.1,
    "summary_type": "first",
    "summary_use_proj": True,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
ALBERT = {
    "architectures": ["AlbertForMaskedLM"],
    "attention_probs_dropout_prob": 0,
    "bos_token_id": 2,
    "classifier_dropout_prob": 0.1,
    "down_scale_factor": 1,
    "embedding_size": 128,
    "eos_token_id": 3,
    "gap_size": 0,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "inner_group_num": 1,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "albert",
    "net_structure_type": 0,
    "num_attention_heads": 12,
    "num_hidden_groups": 1,
    "num_hidden_layers": 12,
    "num_memory_blocks": 0,
    "pad_token_id": 0,
    "type_vocab_size": 2,
    "vocab_size": 30000,
}
DISTILBERT = {
    "activation": "gelu",
    "architectures": ["DistilBertForMaskedLM"],
    "attention_dropout": 0.1,
    "dim": 768,
    "dropout": 0.1,
    "hidden_dim": 3072,
    "initializer_range": 0.02,
    "max_position_embeddings": 512,
    "model_type": "distilbert",
    "n_heads": 12,
    "n_layers": 6,
    "pad_token_id": 0,
    "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2,
    "sinusoidal_pos_embds": False,
    "tie_weights_": True,
    "vocab_size": 30522,
}
MODERNBERT = {
    "architectures": ["ModernBertForMaskedLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 50281,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_dropout": 0.0,
    "classifier_pooling": "mean",
    "cls_token_id": 50281,
    "decoder_bias": True,
    "deterministic_flash_attn": False,
    "embedding_dropout": 0.0,
    "eos_token_id": 50282,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "gradient_checkpointing": False,
    "hidden_activation": "gelu",
    "hidden_size": 768,
    "initializer_cutoff_factor": 2.0,
    "initializer_range": 0.02,
    "intermediate_size": 1152,
    "layer_norm_eps": 1e-05,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "model_type": "modernbert",
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "pad_token_id": 50283,
    "position_embedding_type": "absolute",
    "sep_token_id": 50282,
    "tie_word_embeddings": True,
    "vocab_size": 50368,
}
ETTIN = {
    **MODERNBERT,
    "hidden_size": 256,
    "intermediate_size": 384,
    "local_rope_theta": 160000.0,
    "num_attention_heads": 4,
    "num_hidden_layers": 7,
}
PUBLISHED: dict[str, tuple[dict[str, Any], ModelSettings]] = {
    "bert-base-uncased": (BERT, ModelSettings()),
    "bert_uncased_L-2_H-128_A-2": (
        SMALL_BERT,
        ModelSettings(layers=2, hidden_size=128, heads=2, feed_forward_size=512),
    ),
    "bert-base-chinese": (CHINESE_BERT, ModelSettings()),
    "roberta-base": (ROBERTA, ModelSettings(family="roberta")),
    "distilroberta-base": ({**ROBERTA, "num_hidden_layers": 6}, ModelSettings(family="roberta", layers=6)),
    "electra-small-discriminator": (ELECTRA, ModelSettings(family="electra", size="small")),
    "albert-base-v2": (ALBERT, ModelSettings(family="albert")),
    "distilbert-base-uncased": (DISTILBERT, ModelSettings(family="distilbert")),
    "ModernBERT-base": (MODERNBERT, ModelSettings(family="modernbert")),
    "ettin-encoder-17m": (
        ETTIN,
        ModelSettings(
            family="modernbert", layers=7, hidden_size=256, heads=4, feed_forward_size=384, local_base=160_000.0
        ),
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_is_known(name: str, tmp_path: Path) -> None:
    """Fails where a checkpoint that people start from is refused, or taken for a model of other sizes."""
    config, wanted = PUBLISHED[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    found = settings_of(read_config(path), str(path))
    assert found.shape == wanted.shape and found.embedding == wanted.embedding
    over = ("activation", "positions", "groups", "norm_epsilon", "window", "every_global", "global_base", "local_base")
    for key in (*over, "family", "pooling", "initializer_range"):
        assert getattr(found, key) == getattr(wanted, key), key
