"""Small pre-trained models as folders: random weights, a vocabulary of a few words and all letters."""

from pathlib import Path
from typing import Any

import torch

from corpora.store.checked_folder import COMPLETE_FILE
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_bert_vocabulary, build_roberta_vocabulary
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.huggingface.checkpoints import export
from trainer.model.objective import build_model
from trainer.settings.model import ModelSettings

WORDS = ("good", "bad", "film", "the", "was", "a", "plot", "long", "short", "very", "actor", "scene", ".", ",")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz0123456789'-")


def bert_words() -> Vocabulary:
    pieces = [*LETTERS, *(word for word in WORDS if word not in LETTERS), *(f"##{letter}" for letter in LETTERS)]
    return build_bert_vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces))


def roberta_bytes() -> Vocabulary:
    """Every byte a token."""
    return build_roberta_vocabulary(("<s>", "<pad>", "</s>", "<unk>", *BYTE_LETTERS, "<mask>"))


VOCABULARIES = {
    **dict.fromkeys(("bert", "electra", "albert", "distilbert", "modernbert"), bert_words),
    "roberta": roberta_bytes,
}


def write_model(folder: Path, family: str = "bert", *, pairs: bool = True, **settings: Any) -> Path:
    """Two layers of 32 with 40 positions, started as for pre-training, with its tokenizer; the folder."""
    vocabulary = VOCABULARIES[family]()
    small = {"layers": 2, "hidden_size": 32, "heads": 4, "feed_forward_size": 64, "max_length": 40}
    asked = ModelSettings(family=family, **{**small, **settings})
    inputs = ModelInputs(
        vocab_size=vocabulary.size, special_ids=SpecialIds.from_roles(vocabulary.special_ids), pair_labels=pairs
    )
    torch.manual_seed(0)
    model = build_model(asked, inputs)
    model.init_weights()
    vocabulary.save(folder)
    (folder / COMPLETE_FILE).unlink()  # as the folders of others are: tests change their files
    export(folder, model.state_dict(), asked, inputs)
    return folder
