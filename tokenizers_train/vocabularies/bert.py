"""BERT's tokenizer: WordPiece over `BertWords`, its special tokens, and the files it is kept in.

Promise: transformers' `AutoTokenizer.from_pretrained` opens the files as a BERT tokenizer: `[CLS] a [SEP]`, and
for two texts `[CLS] a [SEP] b [SEP]` with two segments.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from corpora.generic_types import Json

CONTINUATION = "##"

SPECIAL_TOKENS: Mapping[str, str] = MappingProxyType(
    {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
)


def build_tokenizer(
    ids: Mapping[str, int],
    lowercase: bool,
    max_word_length: int = 100,
    *,
    special_tokens: Mapping[str, str] = SPECIAL_TOKENS,
    additional: Sequence[str] = (),
    strip_accents: bool | None = None,
    chinese_characters: bool = True,
) -> Tokenizer:
    """The Hugging Face tokenizer of a vocabulary (token -> id).

    special_tokens: by role; further: other tokens that no text may yield
    """
    tokenizer = Tokenizer(
        models.WordPiece(
            dict(ids),
            unk_token=special_tokens["unk"],
            continuing_subword_prefix=CONTINUATION,
            max_input_chars_per_word=max_word_length,
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=chinese_characters, strip_accents=strip_accents, lowercase=lowercase
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    cls, sep = special_tokens["cls"], special_tokens["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, ids[cls]), (sep, ids[sep])],
    )
    tokens = (*special_tokens.values(), *additional)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in tokens])
    return tokenizer


def build_vocabulary_files(tokens: Sequence[str]) -> dict[str, str]:
    """The vocabulary alone, as older tools read it."""
    return {"vocab.txt": "".join(f"{token}\n" for token in tokens)}


def build_config(lowercase: bool, max_word_length: int, strip_accents: bool | None = None) -> dict[str, Json]:
    """Return tokenizer_config.json's content. transformers' BertTokenizer forgets a word length other than its own."""
    return {
        "tokenizer_class": "BertTokenizer" if max_word_length == 100 else "PreTrainedTokenizerFast",
        "do_lower_case": lowercase,
        "strip_accents": strip_accents,
        "tokenize_chinese_chars": True,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **build_special_tokens_map(),
    }


def build_special_tokens_map() -> dict[str, Json]:
    """Return the content of special_tokens_map.json."""
    return {f"{role}_token": token for role, token in SPECIAL_TOKENS.items()}


def format_token(token: str) -> str:
    """A token as people read it: as it is, ## before what continues a word."""
    return token


def is_word_start(token: str) -> bool:
    """True if a token shows that a word begins with it: it has no ##."""
    return not token.startswith(CONTINUATION)
