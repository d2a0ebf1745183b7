"""ALBERT's tokenizer: Unigram over `SentencePieceWords`, its special tokens, and the files it is kept in.

Promise: transformers' `AutoTokenizer.from_pretrained` opens the files as an ALBERT tokenizer: `[CLS] a [SEP]`, and
for two texts `[CLS] a [SEP] b [SEP]` with two segments (Lan et al. 2019, and the tokenizer published with it). That
class builds its rules again from the pieces, their scores and tokenizer_config.json; the rules here are those that it
builds, so the folder gives the same ids whichever way it is opened, also when saved again from there.

Ids: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4, then the pieces that were learnt. The special tokens are pieces
of the model too, as in ALBERT's own files, with the score 0: were a text to hold "<pad>", the model would choose it.
To encode documents they have other names (`encoding/documents.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from tokenizers import AddedToken, Tokenizer, decoders, models, processors

from corpora.errors import InputError
from corpora.generic_types import Json
from tokenizers_train.words.sentencepiece import MARK, SentencePieceWords, albert_normalizer, metaspace

ScoredPiece: TypeAlias = tuple[str, float]  # a token and its score, the logarithm of its probability

SPECIAL_TOKENS: Mapping[str, str] = MappingProxyType(
    {"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
)
UNKNOWN_ID = 1  # transformers' class takes it for granted
UNKNOWN_PENALTY = 10.0  # an unknown character scores so much less than the lowest piece, as in tokenizers' Unigram
SPECIAL_IDS = range(len(SPECIAL_TOKENS))


def with_special_tokens(learnt: Iterable[ScoredPiece]) -> tuple[ScoredPiece, ...]:
    """All pieces of a vocabulary by id: the special tokens before those that were learnt."""
    return *((token, 0.0) for token in SPECIAL_TOKENS.values()), *learnt


def make_tokenizer(pieces: Sequence[ScoredPiece], words: SentencePieceWords) -> Tokenizer:
    """The Hugging Face tokenizer of a vocabulary: its pieces by id, the special tokens first.

    Raises InputError where the special tokens do not have the ids 0 to 4.
    """
    first = [token for token, _ in pieces[: len(SPECIAL_IDS)]]
    if first != [*SPECIAL_TOKENS.values()]:
        raise InputError(
            f"The first tokens of the vocabulary are {' '.join(first)}, and an ALBERT vocabulary begins with "
            f"{' '.join(SPECIAL_TOKENS.values())}: transformers takes their ids for granted. Put them first."
        )
    tokenizer = Tokenizer(models.Unigram([*pieces], UNKNOWN_ID, False))
    tokenizer.normalizer = albert_normalizer(words.lowercase, words.strip_accents)
    tokenizer.pre_tokenizer = metaspace()
    tokenizer.decoder = decoders.Metaspace(replacement=MARK, prepend_scheme="always")
    cls, sep = SPECIAL_TOKENS["cls"], SPECIAL_TOKENS["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(token, first.index(token)) for token in (cls, sep)],
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in first])
    return tokenizer


def configuration(words: SentencePieceWords) -> dict[str, Json]:
    """Return the content of tokenizer_config.json: with it, transformers builds the rules again."""
    return {
        "tokenizer_class": "AlbertTokenizer",
        "do_lower_case": words.lowercase,
        "keep_accents": not words.strip_accents,
        "add_prefix_space": True,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **special_tokens_map(),
    }


def special_tokens_map() -> dict[str, Json]:
    """Return the content of special_tokens_map.json; [CLS] and [SEP] have two roles."""
    ends = {"bos_token": SPECIAL_TOKENS["cls"], "eos_token": SPECIAL_TOKENS["sep"]}
    return {**ends, **{f"{role}_token": token for role, token in SPECIAL_TOKENS.items()}}


def display(token: str) -> str:
    """A token as people read it: as it is, U+2581 before what begins a word."""
    return token


def begins_word(token: str) -> bool:
    """True if a token shows that a word begins with it: it has U+2581 before it."""
    return token.startswith(MARK)
