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
    """Build the Hugging Face tokenizer of a vocabulary.

    ids:                token -> id
    max_word_length:    a word with more characters is unknown
    special_tokens:     role -> token
    additional:         other tokens that no text may yield
    strip_accents:      None: as `lowercase`
    chinese_characters: whether each Chinese character is a word
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
    """Return the text of vocab.txt by its name: the tokens, one a line, for older tools."""
    return {"vocab.txt": "".join(f"{token}\n" for token in tokens)}


def build_config(lowercase: bool, max_word_length: int, strip_accents: bool | None = None) -> dict[str, Json]:
    """Return the content of tokenizer_config.json.

    With another `max_word_length` than 100 the class is PreTrainedTokenizerFast, because BertTokenizer would ignore it.
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
    """Return the content of special_tokens_map.json."""
    return {f"{role}_token": token for role, token in SPECIAL_TOKENS.items()}


def format_token(token: str) -> str:
    """Return a token as people read it: itself, with ## before what continues a word."""
    return token


def is_word_start(token: str) -> bool:
    """Return whether a token begins a word: it has no ## before it."""
    return not token.startswith(CONTINUATION)
