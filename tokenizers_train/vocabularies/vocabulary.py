"""A vocabulary: the tokenizer that it is, and which of its rules the kernels know.

Promise: a `Vocabulary` is a `tokenizer.json` and the names of its special tokens. Its files are a folder that Hugging
Face tokenizers and transformers' `AutoTokenizer.from_pretrained` open, the same bytes for the same vocabulary; read
back they give an equal one. Folders that those tools have written are read, within the bounds of `files`.
`find_word_rule` names a rule only if it is the very rule of the tokenizer, every option of it known; any other
tokenizer is left to tokenizers itself.

Order of ids, WordPiece: [PAD] [UNK] [CLS] [SEP] [MASK], additional special tokens, then [unused0] to [unusedN-1], the
letters of the alphabet by code point, the letters that continue words (##a) by code point, then pieces in the order in
which they were made. [unusedN] are ordinary entries that no text reaches, kept for words added later.
Byte-level BPE: <s> <pad> </s> <unk>, the 256 bytes in the order of their letters, pieces as they were made, additional
special tokens, <mask>. Unigram: <pad> <unk> [CLS] [SEP] [MASK], additional special tokens, pieces, the likeliest first.

Cost: nothing worth a figure; a vocabulary of 30,522 tokens is written and read in a tenth of a second.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken, Tokenizer, models, processors

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import check_folder, mark_complete
from tokenizers_train.vocabularies import albert, bert, roberta
from tokenizers_train.vocabularies.albert import to_definition
from tokenizers_train.vocabularies.files import (
    CONFIG,
    FILES,
    ROLES,
    SPECIALS,
    TOKENIZER,
    collect_ids,
    read_folder_files,
    read_tokenizer_files,
)
from tokenizers_train.vocabularies.roberta import Merges
from tokenizers_train.vocabularies.settings import BYTE_BPE, UNIGRAM, WORDPIECE
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import WordRule
from tokenizers_train.words.gpt2 import Gpt2Words
from tokenizers_train.words.sentencepiece import SentencePieceWords, build_albert_normalizer, build_metaspace

TokenizerContent = Mapping[str, Any]

_MIN_SCORE = -1e100  # of a score; a likely piece has -2, a rare one -20


class TokenStyle(NamedTuple):
    """The functions that interpret the tokens of a vocabulary.

    Attributes:
        format_token: Returns a token in a readable form.
        is_word_start: Returns whether a token begins a word.
    """

    format_token: Callable[[str], str]
    is_word_start: Callable[[str], bool]


def find_style(content: TokenizerContent) -> TokenStyle:
    """Return the functions that interpret the tokens of a parsed tokenizer.json: those of BERT, RoBERTa or ALBERT.

    The pre-tokenizer and the decoder decide which.
    """
    kinds = _collect_types(content.get("pre_tokenizer")) | _collect_types(content.get("decoder"))
    family = roberta if "ByteLevel" in kinds else albert if "Metaspace" in kinds else bert
    return TokenStyle(family.format_token, family.is_word_start)


def find_algorithm(content: TokenizerContent) -> str:
    """Return the algorithm of a parsed tokenizer.json: "wordpiece", "byte-bpe" or "unigram".

    For any other algorithm, the model type of the tokenizers library is returned, such as "BPE" or "WordLevel".
    """
    kind = str(content["model"]["type"])
    if kind == "BPE" and "ByteLevel" in _collect_types(content.get("pre_tokenizer")):
        return BYTE_BPE
    return {"WordPiece": WORDPIECE, "Unigram": UNIGRAM}.get(kind, kind)


def find_word_rule(content: TokenizerContent) -> WordRule | None:
    """Return the word rule of a parsed tokenizer.json, or None if no kernel supports it.

    Vocabularies with an added token that is not special are not supported, because the tokenizers library looks for
    such tokens before it splits a text into words.
    """
    if any(not token["special"] for token in content["added_tokens"]):
        return None
    normalizer, pre_tokenizer = content.get("normalizer"), content.get("pre_tokenizer")
    kind = content["model"]["type"]
    if kind == "WordPiece" and pre_tokenizer == {"type": "BertPreTokenizer"}:
        return _find_bert_rule(normalizer)
    if kind == "BPE" and normalizer is None and _is_plain_bpe(content["model"]):
        return _find_gpt2_rule(pre_tokenizer)
    if kind == "Unigram" and _is_plain_unigram(content["model"]):
        return _find_sentencepiece_rule(normalizer, pre_tokenizer)
    return None


def _find_bert_rule(normalizer: Any) -> WordRule | None:
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        return None
    return BertWords(**{name: value for name, value in normalizer.items() if name != "type"})


def _find_gpt2_rule(pre_tokenizer: Any) -> WordRule | None:
    if not isinstance(pre_tokenizer, dict) or pre_tokenizer.get("type") != "ByteLevel":
        return None
    if not pre_tokenizer.get("use_regex", True):
        return None
    return Gpt2Words(add_prefix_space=pre_tokenizer["add_prefix_space"])


def _find_sentencepiece_rule(normalizer: Any, pre_tokenizer: Any) -> WordRule | None:
    for lowercase in (True, False):
        for strip_accents in (True, False):
            if _build_albert_rules(lowercase, strip_accents) == (normalizer, pre_tokenizer):
                return SentencePieceWords(lowercase=lowercase, strip_accents=strip_accents)
    return None


@cache
def _build_albert_rules(lowercase: bool, strip_accents: bool) -> tuple[Any, Any]:
    """Return the normalizer and the pre-tokenizer of `SentencePieceWords` as in a parsed tokenizer.json. They are
    cached.
    """
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = build_albert_normalizer(lowercase, strip_accents), build_metaspace()
    content = json.loads(tokenizer.to_str())
    return content["normalizer"], content["pre_tokenizer"]


def _is_plain_bpe(model: TokenizerContent) -> bool:
    """Return whether a BPE model, given as parsed JSON, uses no options other than its merges.

    Such options are dropout, a prefix or suffix of pieces, byte fallback, and fusing unknown bytes.
    """
    quirks = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "byte_fallback")
    fuses = model.get("fuse_unk") and model.get("unk_token") is not None
    complete = all(letter in model["vocab"] for letter in roberta.BYTE_LETTERS)
    return not any(model.get(quirk) for quirk in quirks) and (complete or not fuses)


def _is_plain_unigram(model: TokenizerContent) -> bool:
    """Return whether a Unigram model has an unknown token, no byte fallback, and only finite scores up to 0.

    `model` is the model of a tokenizer.json, as parsed JSON.
    """
    suits = model.get("unk_id") is not None and not model.get("byte_fallback")
    return suits and all(_MIN_SCORE < score <= 0 for _, score in model["vocab"])


def _collect_types(part: Any) -> set[str]:
    """Return the types of a pre-tokenizer or decoder, given as parsed JSON, and of everything nested in it."""
    if not isinstance(part, dict):
        return set()
    inner = [*part.get("pretokenizers", ()), *part.get("decoders", ())]
    return {part["type"]}.union(*map(_collect_types, inner))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """A tokenizer: its tokens with their ids, and the rules that split a text into tokens.

    Args:
        definition: The text of tokenizer.json.
        special_tokens: Maps each role (pad, unk, cls, sep, mask) that has a token to this token.
        other_files: Contents of the other files in the folder, by name.

    Raises:
        InputError: If the ids have a gap, or if a token or an id occurs twice.
    """

    definition: str = field(repr=False)
    special_tokens: Mapping[str, str]
    other_files: Mapping[str, bytes] = field(repr=False, compare=False)
    content: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    """The definition, parsed: normalizer, pre_tokenizer, model, added_tokens, ..."""
    tokens: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Token i is tokens[i]."""
    _ids: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _style: TokenStyle = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        content = json.loads(self.definition)
        ids = collect_ids(content, "The vocabulary")
        tokens = sorted(ids, key=ids.__getitem__)
        derived = {"content": content, "tokens": tuple(tokens), "_ids": ids, "_style": find_style(content)}
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def algorithm(self) -> str:
        """Algorithm: "wordpiece", "byte-bpe", "unigram", or another model type of the tokenizers library."""
        return find_algorithm(self.content)

    @property
    def size(self) -> int:
        """The number of tokens. Ids range from 0 to size - 1."""
        return len(self.tokens)

    @property
    def additional_special_tokens(self) -> tuple[str, ...]:
        """The special tokens other than pad, unk, cls, sep and mask, in the order of their ids."""
        named = set(self.special_tokens.values())
        special = {token["content"] for token in self.content["added_tokens"] if token["special"]} - named
        return tuple(sorted(special, key=self.find_id))

    @property
    def special_ids(self) -> dict[str, int]:
        """The ids of all special tokens.

        The keys are the roles (pad, unk, cls, sep, mask) and, for additional special tokens, the tokens themselves. If
        an additional token is spelled like a role, its key is the token in double quotes.
        """
        additional = {f'"{t}"' if t in ROLES else t: self._ids[t] for t in self.additional_special_tokens}
        return {role: self._ids[token] for role, token in self.special_tokens.items()} | additional

    @property
    def merges(self) -> Merges:
        """The merges of a BPE vocabulary, in the order in which they were learned. Empty for other algorithms."""
        return tuple((left, right) for left, right in self.content["model"].get("merges", ()))

    @property
    def word_rule(self) -> WordRule | None:
        """The rule that splits text into words, or None if only the tokenizers library supports it."""
        return find_word_rule(self.content)

    @property
    def lowercase(self) -> bool:
        """Whether the tokenizer lower-cases text."""
        normalizer = self.to_tokenizer().normalizer
        return normalizer is not None and normalizer.normalize_str("A") == "a"

    def find_id(self, token: str) -> int:
        """Return the id of a token.

        Raises:
            KeyError: If the token is not in the vocabulary.
        """
        return self._ids[token]

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def format_token(self, id: int) -> str:
        """Return the token with the given id in a readable form, such as `##ing`.

        A byte-level BPE token is decoded, and a space is shown as U+2423.

        Raises:
            IndexError: If the id is not below `size`.
        """
        return self._style.format_token(self.tokens[id])

    def is_word_start(self, id: int) -> bool:
        """Return whether the token with the given id is marked as the beginning of a word.

        In WordPiece, this is a token without a ## prefix. In byte-level BPE and Unigram, it is a token that starts with
        a space mark. To find which tokens of an encoded text start words, use `EncodedSentences.word_starts`: a
        byte-level BPE word at the start of a text or after punctuation has no space mark.
        """
        return self._style.is_word_start(self.tokens[id])

    def check_roles(self, origin: str) -> None:
        """Check that the vocabulary has the five special tokens (pad, unk, cls, sep, mask).

        Args:
            origin: The name of the vocabulary in the error message.

        Raises:
            InputError: If one of them is missing.
        """
        missing = [role for role in ROLES if role not in self.special_tokens]
        if missing:
            raise InputError(
                f"{origin} has no {' or '.join(missing)} token, and examples for a masked language model need the five "
                f"of {', '.join(ROLES)}. Add them to the tokenizer and name them in its {CONFIG} "
                f"(`{missing[0]}_token`), or choose another vocabulary."
            )

    def with_template(self) -> "Vocabulary":
        """Return a copy of the vocabulary that adds the cls and sep tokens around each encoded text.

        Returns self if the tokenizer already does.

        Raises:
            KeyError: If the vocabulary has no cls or no sep token (see `check_roles`).
        """
        tokenizer, ids = self.to_tokenizer(), self.special_ids
        if tokenizer.encode("").ids == [ids["cls"], ids["sep"]]:
            return self
        cls, sep = self.special_tokens["cls"], self.special_tokens["sep"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0",
            pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
            special_tokens=[(cls, ids["cls"]), (sep, ids["sep"])],
        )
        return replace(self, definition=to_definition(tokenizer))

    def to_tokenizer(self) -> Tokenizer:
        """Build the Hugging Face tokenizer of this vocabulary."""
        return Tokenizer.from_str(self.definition)

    def to_files(self) -> dict[str, bytes]:
        """Return the contents of the vocabulary's files by name: tokenizer.json and the files in `other_files`.

        Equal vocabularies have the same tokenizer.json.
        """
        return {TOKENIZER: self.definition.encode(), **self.other_files}

    @staticmethod
    def from_files(
        files: Mapping[str, bytes], origin: str = "the vocabulary", lowercase: bool | None = None
    ) -> "Vocabulary":
        """Build a vocabulary from the files of a folder: tokenizer.json, or vocab.txt, or vocab.json and merges.txt.

        Args:
            files: Maps file names to contents.
            origin: The name of the folder in error messages.
            lowercase: Whether a vocab.txt without a tokenizer.json is uncased (default: see `read_tokenizer_files`).

        Raises:
            InputError: If files are missing, cannot be read, or contradict each other.
        """
        read = read_tokenizer_files(files, origin, lowercase)
        other_files = read.other_files
        if CONFIG not in other_files:  # bare files: make the folder that other tools open
            other_files = {**_build_config_file(json.loads(read.definition), read.special_tokens), **other_files}
        return Vocabulary(definition=read.definition, special_tokens=read.special_tokens, other_files=other_files)

    def save(self, folder: Path) -> None:
        """Write the vocabulary's files and a complete.json with their checksums to a folder.

        The folder is created if necessary, and existing files are replaced.

        Raises:
            OSError: If a file cannot be written.
            InputError: If the folder has a complete.json that is damaged.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.to_files().items():
            (folder / name).write_bytes(content)
        mark_complete(folder, self.to_files())


def load_vocabulary(path: Path, lowercase: bool | None = None) -> Vocabulary:
    """Load a vocabulary that was saved with `Vocabulary.save` or by Hugging Face tools.

    Args:
        path: A folder, or a single tokenizer.json or vocab.txt.
        lowercase: Whether a vocab.txt without a tokenizer.json is uncased (default: see `read_tokenizer_files`).

    Raises:
        InputError: If the path does not exist, if a file was changed after it was saved, or if the files cannot be read
            as a tokenizer (see `Vocabulary.from_files`).
    """
    check_folder(path if path.is_dir() else path.parent, FILES if path.is_dir() else (path.name,))
    return Vocabulary.from_files(read_folder_files(path), origin=str(path), lowercase=lowercase)


def build_bert_vocabulary(
    tokens: Sequence[str],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    max_word_length: int = 100,
    additional: Sequence[str] = (),
) -> Vocabulary:
    """Build a WordPiece vocabulary from a list of tokens.

    Args:
        tokens: All tokens in the order of their ids, including [PAD], [UNK], [CLS], [SEP] and [MASK].
        lowercase: Whether the tokenizer lower-cases text.
        strip_accents: Whether it removes accents (default: same as `lowercase`).
        max_word_length: Words with more characters than this are unknown.
        additional: Special tokens without a role, which must be in `tokens`.

    Raises:
        InputError: If a token occurs twice or a special token is missing.
    """
    special = bert.SPECIAL_TOKENS
    ids = _number_tokens(tokens, (*special.values(), *additional))
    tokenizer = bert.build_tokenizer(
        ids, lowercase, max_word_length, additional=additional, strip_accents=strip_accents
    )
    config = bert.build_config(lowercase, max_word_length, strip_accents)
    plain = bert.build_vocabulary_files(tokens)
    return _build_vocabulary(tokenizer, special, plain, config, bert.build_special_tokens_map(), additional)


def build_roberta_vocabulary(tokens: Sequence[str], merges: Merges = (), additional: Sequence[str] = ()) -> Vocabulary:
    """Build a byte-level BPE vocabulary from a list of tokens.

    Args:
        tokens: All tokens in the order of their ids, including <s>, <pad>, </s>, <unk>, <mask> and the letters of all
            bytes.
        merges: Pairs of tokens, in the order in which they were learned.
        additional: Special tokens without a role, which must be in `tokens`.

    Raises:
        InputError: If a token occurs twice, if a special token or a byte is missing, or if a merge contains or produces
            an unknown token.
    """
    special = roberta.SPECIAL_TOKENS
    ids = _number_tokens(tokens, (*special.values(), *additional, *roberta.BYTE_LETTERS))
    roberta.check_merges(ids, merges, "The vocabulary")
    tokenizer = roberta.build_tokenizer(ids, merges, additional=additional)
    plain = roberta.build_vocabulary_files(ids, merges)
    config = roberta.build_config()
    return _build_vocabulary(tokenizer, special, plain, config, roberta.build_special_tokens_map(), additional)


def build_albert_vocabulary(
    pieces: Sequence[tuple[str, float]],
    *,
    words: SentencePieceWords | None = None,
    additional: Sequence[str] = (),
) -> Vocabulary:
    """Build a Unigram vocabulary from pieces and their log probabilities.

    The five special tokens get the ids 0 to 4, followed by the additional ones and then the pieces.

    Args:
        pieces: The pieces and their scores in the order of their ids, without special tokens.
        words: The rule that splits text into words (default: lower-case and remove accents).
        additional: Special tokens without a role.

    Raises:
        InputError: If a token occurs twice.
    """
    words = words or SentencePieceWords()
    special = albert.SPECIAL_TOKENS
    scored = albert.with_special_tokens([*((token, 0.0) for token in additional), *pieces])
    _number_tokens([token for token, _ in scored], ())
    tokenizer = albert.build_tokenizer(scored, words)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in additional])
    config = albert.build_config(words)
    return _build_vocabulary(tokenizer, special, {}, config, albert.build_special_tokens_map(), additional)


def _build_vocabulary(
    tokenizer: Tokenizer,
    special_tokens: Mapping[str, str],
    plain: Mapping[str, str],
    config: Mapping[str, Json],
    special_map: Mapping[str, Json],
    additional: Sequence[str],
) -> Vocabulary:
    """Build a vocabulary from a tokenizer, with the other files that transformers reads.

    Args:
        tokenizer: The tokenizer.
        special_tokens: Maps each role to its token.
        plain: Contents of the files for tools that do not read tokenizer.json, by name.
        config: The content of tokenizer_config.json.
        special_map: The content of special_tokens_map.json.
        additional: Special tokens without a role, which are added to these two files.

    Raises:
        InputError: If the ids have a gap, or if a token or an id occurs twice.
    """
    more: dict[str, Json] = {"extra_special_tokens": list(additional)} if additional else {}
    texts = {
        **plain,
        CONFIG: json.dumps({**config, **more}, indent=2, sort_keys=True) + "\n",
        SPECIALS: json.dumps({**special_map, **more}, indent=2, sort_keys=True) + "\n",
    }
    return Vocabulary(
        definition=to_definition(tokenizer),
        special_tokens=dict(special_tokens),
        other_files={name: text.encode() for name, text in texts.items()},
    )


def _build_config_file(content: Mapping[str, Any], special_tokens: Mapping[str, str]) -> dict[str, bytes]:
    """Return {"tokenizer_config.json": content} for a tokenizer that has no such file.

    Args:
        content: The parsed tokenizer.json.
        special_tokens: Maps each role that has a token to this token.
    """
    names = {f"{role}_token": token for role, token in special_tokens.items()}
    config: dict[str, Json] = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    rule = find_word_rule(content)
    if isinstance(rule, BertWords):
        max_word_length = content["model"]["max_input_chars_per_word"]
        config = {**bert.build_config(rule.lowercase, max_word_length, rule.strip_accents), **names}
        config["tokenize_chinese_chars"] = rule.handle_chinese_chars
    elif isinstance(rule, Gpt2Words) and dict(special_tokens) == dict(roberta.SPECIAL_TOKENS):
        config = {**roberta.build_config(), "add_prefix_space": rule.add_prefix_space}
    return {CONFIG: f"{json.dumps(config, indent=2, sort_keys=True)}\n".encode()}


def _number_tokens(tokens: Sequence[str], required: Sequence[str]) -> dict[str, int]:
    """Return the id of each token, which is its index in `tokens`.

    Raises:
        InputError: If a token occurs twice or one of the `required` tokens is missing.
    """
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) < len(tokens):
        twice = next(token for number, token in enumerate(tokens) if ids[token] != number)
        raise InputError(f"The token {twice!r} occurs twice in the vocabulary: each token has one id.")
    missing = [token for token in required if token not in ids]
    if missing:
        raise InputError(
            f"The vocabulary lacks {', '.join(missing)}, which a vocabulary of its kind holds. Add what is missing."
        )
    return ids
