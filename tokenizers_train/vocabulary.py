"""A vocabulary: its settings, its tokens, and the folder that other tools open.

Promise: the files of a `Vocabulary` are a folder that Hugging Face `tokenizers` and transformers'
`AutoTokenizer.from_pretrained` open as a BERT tokenizer, the same bytes for the same vocabulary; read back they
give an equal one. Files whose rules are not BERT's are refused with a word on the rule that differs.

Order of ids: [PAD] [UNK] [CLS] [SEP] [MASK], then [unused0] to [unusedN-1], the letters of the alphabet by code
point, the letters that continue words (##a) by code point, then pieces in the order in which they were made.
[unusedN] are ordinary entries that no text reaches, kept for words added later.

Cost: nothing worth a figure; a vocabulary of 30,522 tokens is written and read in a tenth of a second.
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
            raise InputError(f"vocabulary.algorithm is {self.algorithm!r}; it must be one of: {', '.join(ALGORITHMS)}.")
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
                f"vocabulary.size is {self.size}, and {reserved} of them are special or unused tokens: nothing "
                f"would be left to learn. Give a larger size (BERT's is 30522) or lower vocabulary.unused."
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
    def special_ids(self) -> dict[str, int]:
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

    def files(self) -> dict[str, bytes]:
        """The files of the folder by name; the same bytes for the same vocabulary."""
        special = {f"{role}_token": token for role, token in SPECIAL_TOKENS.items()}
        config = {
            "tokenizer_class": self._tokenizer_class(),
            "do_lower_case": self.lowercase,
            "strip_accents": None,
            "tokenize_chinese_chars": True,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            **special,
        }
        texts = {
            "tokenizer.json": self.tokenizer().to_str(pretty=True) + "\n",
            "vocab.txt": "".join(f"{token}\n" for token in self.tokens),
            "tokenizer_config.json": json.dumps(config, indent=2, sort_keys=True) + "\n",
            "special_tokens_map.json": json.dumps(special, indent=2, sort_keys=True) + "\n",
        }
        return {name: text.encode() for name, text in texts.items()}

    @staticmethod
    def from_files(files: Mapping[str, bytes], where: str = "the vocabulary") -> "Vocabulary":
        """The vocabulary of a folder's files, of which it needs tokenizer.json; `where` names it in messages.

        Raises InputError where that file is missing or not one of a BERT WordPiece tokenizer.
        """
        if "tokenizer.json" not in files:
            raise InputError(f"{where} has no tokenizer.json: name a folder that a tokenizer was saved to.")
        try:
            content = json.loads(files["tokenizer.json"])
            vocabulary = _vocabulary(content, where)
            _check_rules(content, json.loads(vocabulary.tokenizer().to_str()), where)
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{where}: its tokenizer.json is not that of a WordPiece tokenizer ({type(error).__name__}: "
                f"{error}). Save the tokenizer again with Hugging Face tokenizers or transformers."
            ) from error
        return vocabulary

    def save(self, folder: Path) -> None:
        """Write the files into `folder`, which is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files().items():
            (folder / name).write_bytes(content)

    def _tokenizer_class(self) -> str:
        """The class of transformers that keeps our rules: its BertTokenizer forgets another word length."""
        return "BertTokenizer" if self.max_word_length == 100 else "PreTrainedTokenizerFast"


def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary in a folder that `Vocabulary.save` or Hugging Face tools wrote.

    Raises InputError where there is none, or its rules are not those of a BERT WordPiece tokenizer.
    """
    path = folder / "tokenizer.json"
    return Vocabulary.from_files({path.name: path.read_bytes()} if path.is_file() else {}, where=str(folder))


def _vocabulary(content: Any, where: str) -> Vocabulary:
    """The vocabulary that a parsed tokenizer.json tells of."""
    model, normalizer = content["model"], content["normalizer"]
    ids: dict[str, int] = model["vocab"]
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise InputError("The ids of a vocabulary run from 0 without a gap, and in this tokenizer.json they do not.")
    return Vocabulary(
        tokens=tuple(tokens),
        lowercase=normalizer["lowercase"],
        max_word_length=model["max_input_chars_per_word"],
    )


def _check_rules(found: Any, ours: Any, where: str) -> None:
    """Refuse a tokenizer.json that would give other ids than the vocabulary read from it.

    The post-processor and the decoder are not compared: neither has a part in the ids of a sentence.
    """
    for part in ("normalizer", "pre_tokenizer", "model"):
        wanted = {name: value for name, value in ours[part].items() if name != "vocab"}
        given = {name: value for name, value in found[part].items() if name != "vocab"}
        if given != wanted:
            raise InputError(
                f"{where}: its {part} is {given}, and a BERT WordPiece tokenizer has {wanted}. Only such "
                "vocabularies can be used here: name another folder, or train a vocabulary."
            )
    added = {token["content"] for token in found["added_tokens"]} - set(SPECIAL_TOKENS.values())
    if added:
        raise InputError(
            f"{where}: it has added tokens that are none of BERT's five: {', '.join(sorted(added))}. They would be "
            "found in a text before it is cut into words: put them into the vocabulary itself, in [unusedN] slots."
        )
