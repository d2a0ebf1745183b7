"""A vocabulary: its settings, its tokens, and the folder that other tools open.

Promise: the files of a `Vocabulary` are a folder that Hugging Face `tokenizers` and transformers'
`AutoTokenizer.from_pretrained` open as a BERT tokenizer (WordPiece) or a RoBERTa tokenizer (byte-level BPE), the
same bytes for the same vocabulary; read back they give an equal one. Files whose rules are neither's are refused
with a word on the rule that differs.

Order of ids, WordPiece: [PAD] [UNK] [CLS] [SEP] [MASK], then [unused0] to [unusedN-1], the letters of the alphabet
by code point, the letters that continue words (##a) by code point, then pieces in the order in which they were
made. [unusedN] are ordinary entries that no text reaches, kept for words added later.
Byte-level BPE: <s> <pad> </s> <unk>, the 256 bytes in the order of their letters, pieces as they were made, <mask>.

Cost: nothing worth a figure; a vocabulary of 30,522 tokens is written and read in a tenth of a second.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from corpora.errors import InputError
from corpora.store.settings import check_choice
from tokenizers_train import bert_tokenizer, roberta_tokenizer
from tokenizers_train.bert_tokenizer import SPECIAL_TOKENS
from tokenizers_train.bert_words import BertWords
from tokenizers_train.gpt2_words import Gpt2Words
from tokenizers_train.roberta_tokenizer import BYTE_LETTERS, Merges
from tokenizers_train.words import WordRule

WORDPIECE, BYTE_BPE = "wordpiece", "byte-bpe"
ALGORITHMS = (WORDPIECE, BYTE_BPE)

_WORDPIECE_ONLY = ("limit_alphabet", "unused", "max_word_length")


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularySettings:
    """What decides a vocabulary, beside the word counts.

    algorithm:       how pieces are learnt: "wordpiece" (BERT), or "byte-bpe" (byte-level BPE: RoBERTa)
    size:            tokens in all, special and unused ones included; fewer where the counts yield no more
    lowercase:       lower-case the text and strip its accents (BERT's uncased models); by default true for
                     wordpiece; byte-bpe keeps every byte
    min_frequency:   two pieces that stand together less often than this are not merged
    limit_alphabet:  wordpiece only: how many different letters are kept, the most frequent ones
    unused:          wordpiece only: number of [unusedN] slots
    max_word_length: wordpiece only: a word with more characters is encoded as [UNK]
    """

    algorithm: str = WORDPIECE
    size: int = 30522
    lowercase: bool | None = None  # never None once the settings are made
    min_frequency: int = 2
    limit_alphabet: int = 1000
    unused: int = 0
    max_word_length: int = 100

    def __post_init__(self) -> None:
        check_choice("vocabulary.algorithm", self.algorithm, ALGORITHMS)
        if self.lowercase is None:
            object.__setattr__(self, "lowercase", self.algorithm == WORDPIECE)
        for name, least in (
            ("min_frequency", 1),
            ("limit_alphabet", 1),
            ("unused", 0),
            ("max_word_length", 1),
        ):
            value = getattr(self, name)
            if value < least:
                raise InputError(f"vocabulary.{name} is {value}; it must be {least} or more.")
        if self.algorithm == BYTE_BPE:
            self._check_byte_bpe()
        elif self.size <= (reserved := len(SPECIAL_TOKENS) + self.unused):
            raise InputError(
                f"vocabulary.size is {self.size}, and {reserved} of them are special or unused tokens: nothing "
                f"would be left to learn. Give a larger size (BERT's is 30522) or lower vocabulary.unused."
            )

    def _check_byte_bpe(self) -> None:
        """Refuse what only WordPiece knows, and a size without room."""
        if self.lowercase:
            raise InputError(
                'vocabulary.lowercase is true, and algorithm = "byte-bpe" keeps every byte of a text: leave the key '
                "out, and let the text itself be lower-cased by a profile of [clean], or choose wordpiece."
            )
        for known in dataclasses.fields(self):
            value = getattr(self, known.name)
            if known.name in _WORDPIECE_ONLY and value != known.default:
                raise InputError(
                    f'vocabulary.{known.name} is {value}, and algorithm = "byte-bpe" has no such thing: its alphabet '
                    "is the 256 bytes, it knows words of any length and has no unused slots. Leave the key out."
                )
        reserved = len(roberta_tokenizer.SPECIAL_TOKENS) + len(BYTE_LETTERS)
        if self.size <= reserved:
            raise InputError(
                f"vocabulary.size is {self.size}, and the special tokens and the single bytes are {reserved}: nothing "
                "would be left to learn. Give a larger size (RoBERTa's is 50265)."
            )

    @property
    def word_rule(self) -> WordRule:
        """How texts become the words that are counted."""
        return _word_rule(self.algorithm, bool(self.lowercase))


def _word_rule(algorithm: str, lowercase: bool) -> WordRule:
    return Gpt2Words() if algorithm == BYTE_BPE else BertWords(lowercase=lowercase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Tokens with their ids, and the rules by which a text becomes words and these become tokens.

    tokens:          token i is tokens[i]; in WordPiece a piece that continues a word begins with ##, in byte-level
                     BPE a token has one letter for each byte (`roberta_tokenizer`)
    algorithm:       "wordpiece" or "byte-bpe"
    lowercase:       WordPiece: whether texts are lower-cased and their accents stripped
    max_word_length: WordPiece: a word with more characters is [UNK]
    merges:          byte-level BPE: the pieces to join, first pair first

    Raises InputError where a token occurs twice, a special token is missing, or a merge names no tokens.
    """

    tokens: tuple[str, ...]
    algorithm: str = WORDPIECE
    lowercase: bool = True
    max_word_length: int = 100
    merges: Merges = field(default=(), repr=False)
    _ids: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert self.algorithm == WORDPIECE or not self.lowercase, "byte-level BPE keeps case"
        ids = {token: number for number, token in enumerate(self.tokens)}
        object.__setattr__(self, "_ids", ids)
        if len(ids) < len(self.tokens):
            twice = next(token for number, token in enumerate(self.tokens) if ids[token] != number)
            raise InputError(f"The token {twice!r} stands twice in the vocabulary: each token has one id.")
        letters = BYTE_LETTERS if self.algorithm == BYTE_BPE else ()
        missing = [token for token in (*self.special_tokens.values(), *letters) if token not in ids]
        if missing:
            family = "RoBERTa" if self.algorithm == BYTE_BPE else "BERT"
            raise InputError(
                f"The vocabulary lacks {', '.join(missing)}: a {family} vocabulary holds "
                f"{' '.join(self.special_tokens.values())}{' and the 256 bytes' if letters else ''}. Add what is "
                "missing."
            )
        for left, right in self.merges:
            if left not in ids or right not in ids or left + right not in ids:
                raise InputError(
                    f"The merge of {left!r} and {right!r} is of tokens that the vocabulary lacks: its tokens and its "
                    "merges belong to different vocabularies. Bring both from one."
                )

    @property
    def size(self) -> int:
        """How many tokens there are; ids run from 0 to size - 1."""
        return len(self.tokens)

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """The special tokens by role: pad, unk, cls, sep, mask."""
        return roberta_tokenizer.SPECIAL_TOKENS if self.algorithm == BYTE_BPE else SPECIAL_TOKENS

    @property
    def special_ids(self) -> dict[str, int]:
        """The ids of the special tokens by role: pad, unk, cls, sep, mask."""
        return {role: self._ids[token] for role, token in self.special_tokens.items()}

    @property
    def word_rule(self) -> WordRule:
        """How texts become words."""
        return _word_rule(self.algorithm, self.lowercase)

    def id_of(self, token: str) -> int:
        """The id of a token. Raises KeyError where there is no such token."""
        return self._ids[token]

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def display(self, number: int) -> str:
        """The token with an id as people read it: `##ing`; in byte-level BPE its text, a space as U+2423."""
        token = self.tokens[number]
        return roberta_tokenizer.display(token) if self.algorithm == BYTE_BPE else bert_tokenizer.display(token)

    def begins_word(self, number: int) -> bool:
        """Whether the token with an id shows that a word begins with it: no ##, or in byte-level BPE a space.

        Which tokens of a text do begin a word, its `word_starts` say: in byte-level BPE a word at the beginning of
        a text, or after a mark, begins with no space.
        """
        token = self.tokens[number]
        return roberta_tokenizer.begins_word(token) if self.algorithm == BYTE_BPE else bert_tokenizer.begins_word(token)

    def tokenizer(self) -> Tokenizer:
        """The Hugging Face tokenizer of this vocabulary: the definition of what its ids are."""
        if self.algorithm == BYTE_BPE:
            return roberta_tokenizer.make_tokenizer(self._ids, self.merges)
        return bert_tokenizer.make_tokenizer(self._ids, self.lowercase, self.max_word_length)

    def files(self) -> dict[str, bytes]:
        """The files of the folder by name; the same bytes for the same vocabulary."""
        if self.algorithm == BYTE_BPE:
            plain = roberta_tokenizer.vocabulary_files(self._ids, self.merges)
            config, special = roberta_tokenizer.configuration(), roberta_tokenizer.special_tokens_map()
        else:
            plain = bert_tokenizer.vocabulary_files(self.tokens)
            config = bert_tokenizer.configuration(self.lowercase, self.max_word_length)
            special = bert_tokenizer.special_tokens_map()
        texts = {
            "tokenizer.json": self.tokenizer().to_str(pretty=True) + "\n",
            **plain,
            "tokenizer_config.json": json.dumps(config, indent=2, sort_keys=True) + "\n",
            "special_tokens_map.json": json.dumps(special, indent=2, sort_keys=True) + "\n",
        }
        return {name: text.encode() for name, text in texts.items()}

    @staticmethod
    def from_files(files: Mapping[str, bytes], where: str = "the vocabulary") -> "Vocabulary":
        """The vocabulary of a folder's files; `where` names it in messages.

        It needs tokenizer.json, or the vocab.json and merges.txt of a RoBERTa folder without one.
        Raises InputError where they are missing, or not those of a BERT WordPiece or RoBERTa tokenizer.
        """
        try:
            if "tokenizer.json" in files:
                return _from_tokenizer(json.loads(files["tokenizer.json"]), where)
            if "vocab.json" in files and "merges.txt" in files:
                merges = roberta_tokenizer.read_merges_text(files["merges.txt"].decode())
                return _byte_bpe(json.loads(files["vocab.json"]), merges)
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{where}: its files are not those of a WordPiece or byte-level BPE tokenizer "
                f"({type(error).__name__}: {error}). Save the tokenizer again with Hugging Face tokenizers or "
                "transformers."
            ) from error
        raise InputError(f"{where} has no tokenizer.json: name a folder that a tokenizer was saved to.")

    def save(self, folder: Path) -> None:
        """Write the files into `folder`, which is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files().items():
            (folder / name).write_bytes(content)


def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary in a folder that `Vocabulary.save` or Hugging Face tools wrote.

    Raises InputError where there is none, or its rules are not those of a BERT WordPiece or RoBERTa tokenizer.
    """
    paths = (folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt"))
    return Vocabulary.from_files({path.name: path.read_bytes() for path in paths if path.is_file()}, where=str(folder))


def _from_tokenizer(content: Any, where: str) -> Vocabulary:
    """The vocabulary that a parsed tokenizer.json tells of, its rules checked."""
    model = content["model"]
    if "merges" in model:
        vocabulary = _byte_bpe(model["vocab"], roberta_tokenizer.read_merges(model["merges"]))
        roberta_tokenizer.check_rules(content, where)
    else:
        vocabulary = Vocabulary(
            tokens=_in_order(model["vocab"]),
            lowercase=content["normalizer"]["lowercase"],
            max_word_length=model["max_input_chars_per_word"],
        )
        bert_tokenizer.check_rules(content, json.loads(vocabulary.tokenizer().to_str()), where)
    added = {token["content"] for token in content["added_tokens"]} - set(vocabulary.special_tokens.values())
    if added:
        raise InputError(
            f"{where}: it has added tokens beside {' '.join(vocabulary.special_tokens.values())}: "
            f"{', '.join(sorted(added))}. They would be found in a text before it is cut into words: put them into "
            "the vocabulary itself, of a WordPiece one in [unusedN] slots."
        )
    return vocabulary


def _byte_bpe(ids: Mapping[str, int], merges: Merges) -> Vocabulary:
    return Vocabulary(tokens=_in_order(ids), algorithm=BYTE_BPE, lowercase=False, merges=merges)


def _in_order(ids: Mapping[str, int]) -> tuple[str, ...]:
    """Tokens by id. Raises InputError where ids have a gap."""
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise InputError("The ids of a vocabulary run from 0 without a gap, and in this one they do not.")
    return tuple(tokens)
