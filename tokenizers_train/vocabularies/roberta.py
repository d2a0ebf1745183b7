"""RoBERTa's tokenizer: byte-level BPE over `Gpt2Words`, its special tokens, and the files it is kept in.

Promise: transformers' `AutoTokenizer.from_pretrained` opens the files as a RoBERTa tokenizer: `<s> a </s>`, and
for two texts `<s> a </s></s> b </s>` (Liu et al. 2019, and the tokenizer published with it). No text is unknown
to it, and its ids can be turned into the text again.

A token is written with one letter for each of its bytes, so that files of tokens are text whatever the bytes:
printable ASCII and Latin-1 characters stand for themselves, and the 68 others, in their order, for the letters
from U+0100 on (Radford et al. 2019, the encoder published with it). So the space is written as U+0120.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from corpora.errors import InputError
from corpora.generic_types import Json

Merges: TypeAlias = tuple[tuple[str, str], ...]

SPECIAL_TOKENS: Mapping[str, str] = MappingProxyType(
    {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
)


def _list_byte_letters() -> tuple[str, ...]:
    """Return the character that represents each byte in a token, as 256 characters in the order of the bytes."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


BYTE_LETTERS = _list_byte_letters()
_BYTES = {letter: byte for byte, letter in enumerate(BYTE_LETTERS)}

# Pictures that show white space and control characters: Unicode has a picture of each.
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x20: "\u2423", 0x7F: "\u2421"}


def build_tokenizer(
    ids: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    special_tokens: Mapping[str, str] = SPECIAL_TOKENS,
    additional: Sequence[str] = (),
    add_prefix_space: bool = False,
) -> Tokenizer:
    """Build the Hugging Face byte-level BPE tokenizer of a RoBERTa vocabulary.

    Args:
        ids: Maps each token to its id.
        merges: Pairs of tokens, in the order in which they were learned.
        special_tokens: Maps each role to its token. If cls or sep is missing, the tokenizer adds no tokens around a
            text.
        additional: Special tokens without a role.
        add_prefix_space: Whether to put a space before a text that does not begin with one.

    Raises:
        KeyError: If the cls or sep token is not in `ids`.
    """
    tokenizer = Tokenizer(models.BPE(dict(ids), list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    if "cls" in special_tokens and "sep" in special_tokens:
        cls, sep = special_tokens["cls"], special_tokens["sep"]
        tokenizer.post_processor = processors.RobertaProcessing(
            (sep, ids[sep]), (cls, ids[cls]), trim_offsets=True, add_prefix_space=add_prefix_space
        )
    tokens = [AddedToken(t, normalized=False, special=True, lstrip=r == "mask") for r, t in special_tokens.items()]
    tokens += [AddedToken(token, normalized=False, special=True) for token in additional]
    tokenizer.add_special_tokens(tokens)
    return tokenizer


def build_vocabulary_files(ids: Mapping[str, int], merges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the contents of vocab.json and merges.txt, keyed by file name, in the format of GPT-2 and older tools."""
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merges)]
    return {
        "vocab.json": json.dumps(dict(ids), ensure_ascii=False) + "\n",
        "merges.txt": "".join(f"{line}\n" for line in lines),
    }


def build_config() -> dict[str, Json]:
    """Return the content of tokenizer_config.json for a RoBERTa vocabulary."""
    return {
        "tokenizer_class": "RobertaTokenizer",
        "add_prefix_space": False,
        "trim_offsets": True,
        "errors": "replace",
        "model_input_names": ["input_ids", "attention_mask"],
        **_list_token_names(),
    }


def build_special_tokens_map() -> dict[str, Json]:
    """Return the content of special_tokens_map.json for a RoBERTa vocabulary.

    It maps names such as "cls_token" to RoBERTa's tokens. The entry for <mask> is an object rather than a string: its
    option `lstrip` is true, because the token absorbs the space before it.
    """
    mask = {"content": SPECIAL_TOKENS["mask"], "lstrip": True, "normalized": False}
    return {**_list_token_names(), "mask_token": {**mask, "rstrip": False, "single_word": False}}


def _list_token_names() -> dict[str, Json]:
    """Return RoBERTa's special tokens by the names that transformers uses, such as "cls_token".

    <s> and </s> also appear as bos and eos.
    """
    ends = {"bos_token": SPECIAL_TOKENS["cls"], "eos_token": SPECIAL_TOKENS["sep"]}
    return {**ends, **{f"{role}_token": token for role, token in SPECIAL_TOKENS.items()}}


def parse_merges(merges: Any, origin: str = "The vocabulary") -> Merges:
    """Convert the merges of a parsed tokenizer.json to pairs of tokens.

    Args:
        merges: The merges, each a list of two tokens or, in older files, a string with a space in the middle.
        origin: The name of the vocabulary in the error message.

    Raises:
        InputError: If a merge does not have exactly two pieces.
    """
    pairs = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in merges]
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        raise InputError(f"{origin}: a merge joins two pieces, and one of them is of {wrong}: bring its files again.")
    return tuple(pairs)


def parse_merges_text(text: str, origin: str = "The vocabulary") -> Merges:
    """Parse the text of a merges.txt to pairs of tokens. A first line with the version is skipped.

    `origin` is the name of the vocabulary in the error message.

    Raises:
        InputError: If a line does not have exactly two pieces.

    >>> parse_merges_text("#version: 0.2\\na b\\nab c\\n")
    (('a', 'b'), ('ab', 'c'))
    """
    lines = text.replace("\r\n", "\n").split("\n")
    first = 1 if lines[0].startswith("#version") else 0
    return parse_merges((line for line in lines[first:] if line), origin)


def check_merges(ids: Mapping[str, int], merges: Merges, origin: str) -> None:
    """Check that the two tokens of each merge, and the token that it produces, are in `ids`.

    Args:
        ids: Maps each token to its id.
        merges: Pairs of tokens.
        origin: The name of the vocabulary in the error message.

    Raises:
        InputError: If a merge contains or produces a token that is not in `ids`.
    """
    for left, right in merges:
        if left not in ids or right not in ids or left + right not in ids:
            raise InputError(
                f"{origin}: the merge of {left!r} and {right!r} is of tokens that the vocabulary lacks: its tokens and "
                "its merges belong to different vocabularies. Bring both from one."
            )


def format_token(token: str) -> str:
    """Decode a byte-level BPE token to a readable form.

    White space and control characters are shown as Unicode symbols.

    Bytes that are not a whole character are shown as escapes. Tokens with characters outside the byte alphabet are
    returned unchanged.

    >>> format_token("\u0120the"), format_token("\u00c3\u00a9"), format_token("\u00c3"), format_token("\u010a")
    ('\u2423the', '\u00e9', '\\\\xc3', '\u240a')
    """
    if not all(letter in _BYTES for letter in token):
        return token
    return bytes(_BYTES[letter] for letter in token).decode("utf-8", "backslashreplace").translate(_PICTURES)


def is_word_start(token: str) -> bool:
    """Return whether a byte-level BPE token begins a word, which is true if it starts with the letter for a space."""
    return token.startswith(BYTE_LETTERS[0x20])
