"""A vocabulary: its settings, its tokens, and the folder that other tools open.

Promise: `Vocabulary.save` writes a folder that Hugging Face `tokenizers` and `AutoTokenizer.from_pretrained` open
as a BERT tokenizer, the same bytes for the same vocabulary; `load_vocabulary` gives back an equal one. A folder
whose rules are not BERT's is refused with a word on which rule differs, never read as if they were.

Order of ids: [PAD] [UNK] [CLS] [SEP] [MASK], then [unused0] to [unusedN-1], the letters that begin words or stand
alone by code point, the letters that continue words (##a) by code point, then pieces in the order of their
merges, most frequent first. [unusedN] are ordinary entries that no text reaches, kept for words added later.

Cost: nothing worth a figure; a vocabulary of 30,522 tokens saves and loads in a tenth of a second.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, processors

from corpora.errors import InputError
from tokenizers_train.words import bert_normalizer, bert_pre_tokenizer

CONTINUATION = "##"

SPECIAL_TOKENS: Mapping[str, str] = MappingProxyType(
    {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
)

ALGORITHMS = ("wordpiece",)


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularySettings:
    """What decides a vocabulary, beside the word counts.

    algorithm:       how pieces are learnt: "wordpiece"
    size:            tokens in all, special and unused ones included; fewer where the counts yield no more
    lowercase:       lower-case the text and strip its accents (BERT's uncased models)
    min_frequency:   two pieces that stand together less often than this are not merged
    limit_alphabet:  how many different letters are kept, the most frequent ones
    unused:          number of [unusedN] slots
    max_word_length: a word with more characters is encoded as [UNK]
    """

    algorithm: str = "wordpiece"
    size: int = 30522
    lowercase: bool = True
    min_frequency: int = 2
    limit_alphabet: int = 1000
    unused: int = 0
    max_word_length: int = 100

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise InputError(
                f"vocabulary.algorithm is {self.algorithm!r}; it must be one of: {', '.join(ALGORITHMS)}."
            )
        for name, least in (
            ("min_frequency", 1),
            ("limit_alphabet", 1),
            ("unused", 0),
            ("max_word_length", 1),
        ):
            value = getattr(self, name)
            if value < least:
                raise InputError(f"vocabulary.{name} is {value}; it must be {least} or more.")
        reserved = len(SPECIAL_TOKENS) + self.unused
        if self.size <= reserved:
            raise InputError(
                f"vocabulary.size is {self.size}, and {reserved} of them are special or unused tokens: nothing would "
                f"be left to learn. Give a larger size (BERT's is 30522) or lower vocabulary.unused."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Tokens with their ids, and the rules by which a text becomes words.

    tokens:          token i is tokens[i]; a piece that continues a word begins with ##
    algorithm:       "wordpiece"
    lowercase:       whether texts are lower-cased and their accents stripped
    max_word_length: a word with more characters is [UNK]

    Raises InputError where a token occurs twice or a special token is missing.
    """

    tokens: tuple[str, ...]
    algorithm: str = "wordpiece"
    lowercase: bool = True
    max_word_length: int = 100
    _ids: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = {token: number for number, token in enumerate(self.tokens)}
        if len(ids) < len(self.tokens):
            twice = next(token for number, token in enumerate(self.tokens) if ids[token] != number)
            raise InputError(f"The token {twice!r} stands twice in the vocabulary: each token has one id.")
        missing = [token for token in SPECIAL_TOKENS.values() if token not in ids]
        if missing:
            raise InputError(
                f"The vocabulary lacks {', '.join(missing)}: a BERT vocabulary holds "
                f"{' '.join(SPECIAL_TOKENS.values())}. Add what is missing."
            )
        object.__setattr__(self, "_ids", ids)

    @property
    def size(self) -> int:
        """How many tokens there are; ids run from 0 to size - 1."""
        return len(self.tokens)

    @property
    def special(self) -> dict[str, int]:
        """The ids of the special tokens by role: pad, unk, cls, sep, mask."""
        return {role: self._ids[token] for role, token in SPECIAL_TOKENS.items()}

    def id_of(self, token: str) -> int:
        """The id of a token. Raises KeyError where there is no such token."""
        return self._ids[token]

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def tokenizer(self) -> Tokenizer:
        """The Hugging Face tokenizer of this vocabulary: the definition of what its ids are."""
        tokenizer = Tokenizer(
            models.WordPiece(
                dict(self._ids),
                unk_token=SPECIAL_TOKENS["unk"],
                continuing_subword_prefix=CONTINUATION,
                max_input_chars_per_word=self.max_word_length,
            )
        )
        tokenizer.normalizer = bert_normalizer(self.lowercase)
        tokenizer.pre_tokenizer = bert_pre_tokenizer()
        tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
        cls, sep = SPECIAL_TOKENS["cls"], SPECIAL_TOKENS["sep"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0",
            pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
            special_tokens=[(cls, self._ids[cls]), (sep, self._ids[sep])],
        )
        tokenizer.add_special_tokens(
            [AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS.values()]
        )
        return tokenizer

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, vocab.txt, tokenizer_config.json and special_tokens_map.json into `folder`.

        The folder is made where it is missing. The same vocabulary gives the same bytes.
        """
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(self.tokenizer().to_str(pretty=True) + "\n", encoding="utf-8")
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in self.tokens), encoding="utf-8")
        special = {f"{role}_token": token for role, token in SPECIAL_TOKENS.items()}
        config = {
            "tokenizer_class": self._tokenizer_class(),
            "do_lower_case": self.lowercase,
            "strip_accents": None,
            "tokenize_chinese_chars": True,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            **special,
        }
        for name, content in (("tokenizer_config.json", config), ("special_tokens_map.json", special)):
            text = json.dumps(content, indent=2, sort_keys=True) + "\n"
            (folder / name).write_text(text, encoding="utf-8")

    def _tokenizer_class(self) -> str:
        """The class of transformers that keeps our rules: its BertTokenizer forgets another word length."""
        return "BertTokenizer" if self.max_word_length == 100 else "PreTrainedTokenizerFast"


def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary in a folder that `Vocabulary.save` or Hugging Face tools wrote (its tokenizer.json).

    Raises InputError where there is none, or its rules are not those of a BERT WordPiece tokenizer.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"No vocabulary at {folder}: a folder with a tokenizer.json is wanted.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        vocabulary = _vocabulary(content)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is not a tokenizer file ({type(error).__name__}: {error}): save the tokenizer again with "
            "Hugging Face tokenizers or transformers."
        ) from error
    _check_rules(path, content, json.loads(vocabulary.tokenizer().to_str()))
    return vocabulary


def _vocabulary(content: Any) -> Vocabulary:
    """The vocabulary that a parsed tokenizer.json tells of."""
    model, normalizer = content["model"], content["normalizer"]
    ids: dict[str, int] = model["vocab"]
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise InputError(
            "The ids of a vocabulary run from 0 without a gap, and in this tokenizer.json they do not."
        )
    return Vocabulary(
        tokens=tuple(tokens),
        lowercase=normalizer["lowercase"],
        max_word_length=model["max_input_chars_per_word"],
    )


def _check_rules(path: Path, found: Any, ours: Any) -> None:
    """Refuse a tokenizer.json that would give other ids than the vocabulary read from it.

    The post-processor and the decoder are not compared: neither has a part in the ids of a sentence.
    """
    for part in ("normalizer", "pre_tokenizer", "model"):
        wanted = {name: value for name, value in ours[part].items() if name != "vocab"}
        given = {name: value for name, value in found[part].items() if name != "vocab"}
        if given != wanted:
            raise InputError(
                f"{path}: its {part} is {given}, and a BERT WordPiece tokenizer has {wanted}. Only such vocabularies "
                "can be used here: name another folder, or train a vocabulary."
            )
    added = {token["content"] for token in found["added_tokens"]} - set(SPECIAL_TOKENS.values())
    if added:
        raise InputError(
            f"{path}: it has added tokens that are none of BERT's five: {', '.join(sorted(added))}. They are found in "
            "a text before it is cut into words; put them into the vocabulary itself, in [unusedN] slots."
        )
