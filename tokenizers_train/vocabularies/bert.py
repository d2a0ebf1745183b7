"""BERT's tokenizer: WordPiece over `BertWords`, its special tokens, and the files it is kept in.

Promise: transformers' `AutoTokenizer.from_pretrained` opens the files as a BERT tokenizer: `[CLS] a [SEP]`, and for two
texts `[CLS] a [SEP] b [SEP]` with two segments.
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
    """Build the Hugging Face WordPiece tokenizer of a BERT vocabulary.

    Args:
        ids: Maps each token to its id.
        lowercase: Whether to lower-case the text.
        max_word_length: Words with more characters than this are unknown.
        special_tokens: Maps each role (such as "cls") to its token. It must include unk, cls and sep.
        additional: Special tokens without a role.
        strip_accents: Whether to remove accents (default: same as `lowercase`).
        chinese_characters: Whether each Chinese character is a separate word.

    Raises:
        KeyError: If the cls or sep token is not in `ids`, or a role is missing.
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
    """Return the vocab.txt of a BERT vocabulary, as {"vocab.txt": content}, for tools that do not read tokenizer.json.

    It has one token per line, in the order of `tokens`.
    """
    return {"vocab.txt": "".join(f"{token}\n" for token in tokens)}


def build_config(lowercase: bool, max_word_length: int, strip_accents: bool | None = None) -> dict[str, Json]:
    """Return the content of tokenizer_config.json for a BERT vocabulary.

    Args:
        lowercase: Whether to lower-case the text.
        max_word_length: Words with more characters than this are unknown. If it is not 100, the tokenizer class is
            PreTrainedTokenizerFast, because BertTokenizer would ignore it.
        strip_accents: Whether to remove accents (default: same as `lowercase`).
    """
    return {
        "tokenizer_class": "BertTokenizer" if max_word_length == 100 else "PreTrainedTokenizerFast",
        "do_lower_case": lowercase,
        "strip_accents": strip_accents,
        "tokenize_chinese_chars": True,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **build_special_tokens_map(),
    }


def build_special_tokens_map() -> dict[str, Json]:
    """Return the content of special_tokens_map.json for a BERT vocabulary.

    It maps names such as "cls_token" to BERT's tokens.
    """
    return {f"{role}_token": token for role, token in SPECIAL_TOKENS.items()}


def format_token(token: str) -> str:
    """Return a WordPiece token unchanged, because it is already readable.

    A token that continues a word starts with ##.
    """
    return token


def is_word_start(token: str) -> bool:
    """Return whether a WordPiece token begins a word, which is true if it has no ## prefix."""
    return not token.startswith(CONTINUATION)
