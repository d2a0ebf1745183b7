"""The settings of a vocabulary in a recipe: of one that is trained, or the place of one that exists."""

import dataclasses
from dataclasses import dataclass

from corpora.errors import InputError
from corpora.store.settings import check_choice, check_range, later_field
from tokenizers_train.vocabularies import albert, bert, roberta
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import WordRule
from tokenizers_train.words.gpt2 import Gpt2Words
from tokenizers_train.words.sentencepiece import SentencePieceWords

WORDPIECE, BYTE_BPE, UNIGRAM = "wordpiece", "byte-bpe", "unigram"
MAX_TOKENS = 10_000_000  # ten times the largest that was published, XLM-V's
ALGORITHMS = (WORDPIECE, BYTE_BPE, UNIGRAM)

_FAMILIES = {WORDPIECE: bert, BYTE_BPE: roberta, UNIGRAM: albert}

# Settings that not every algorithm has.
_ALGORITHMS_WITH = {
    "min_frequency": (WORDPIECE, BYTE_BPE),
    "limit_alphabet": (WORDPIECE,),
    "unused": (WORDPIECE,),
    "max_word_length": (WORDPIECE,),
    "character_coverage": (UNIGRAM,),
    "symbols": (UNIGRAM,),
}


def is_of_algorithm(setting: str, algorithm: str) -> bool:
    """Return whether a setting of a vocabulary, given by its name, applies to an algorithm (one of ALGORITHMS)."""
    return algorithm in _ALGORITHMS_WITH.get(setting, ALGORITHMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularySettings:
    """Settings for training a vocabulary.

    algorithm:          the training algorithm: "wordpiece" (BERT), "byte-bpe" (byte-level BPE: RoBERTa) or "unigram"
                        (ALBERT)
    size:               maximum number of tokens, including special and unused ones; fewer if the text has too few
                        different words
    lowercase:          whether to lower-case the text, as uncased models do (default: true, but false for byte-bpe,
                        which keeps every byte)
    min_frequency:      wordpiece and byte-bpe only: minimum count of two adjacent pieces for them to be merged
    limit_alphabet:     wordpiece only: maximum number of different characters; the most frequent ones are kept
    unused:             wordpiece only: number of [unusedN] tokens, which are reserved for words added later
    max_word_length:    wordpiece only: a word with more characters is encoded as [UNK]
    special_tokens:     further special tokens, in addition to those of the model family
    character_coverage: unigram only: share of all characters of the text that the vocabulary must cover
    symbols:            unigram only: characters that are always a separate token
    strip_accents:      whether to remove combining marks (default: same as `lowercase`). This also removes marks that
                        distinguish words, such as umlauts and the vowel signs of Hindi and Thai, so set it to false to
                        lower-case languages other than English. Not available for byte-bpe
    """

    algorithm: str = WORDPIECE
    size: int = 30522
    lowercase: bool | None = None  # never None once the settings are made
    min_frequency: int = 2
    limit_alphabet: int = 1000
    unused: int = 0
    max_word_length: int = 100
    special_tokens: tuple[str, ...] = later_field(neutral=())
    character_coverage: float = later_field(neutral=0.99995)
    symbols: tuple[str, ...] = later_field(neutral=tuple('()"-.\u2013\u00a3\u20ac'))
    strip_accents: bool | None = later_field(neutral=None)  # None once the settings are made: as `lowercase`

    def __post_init__(self) -> None:
        check_choice("vocabulary.algorithm", self.algorithm, ALGORITHMS)
        if self.lowercase is None:
            object.__setattr__(self, "lowercase", self.algorithm != BYTE_BPE)
        if self.strip_accents == self.lowercase:
            object.__setattr__(self, "strip_accents", None)
        for name, least in (("min_frequency", 1), ("limit_alphabet", 1), ("unused", 0), ("max_word_length", 1)):
            check_range(f"vocabulary.{name}", getattr(self, name), least, remedy=f"; it must be {least} or more.")
        advice = ": it is a share of all characters, from 0.5 to 1 (ALBERT's is 0.99995)."
        check_range("vocabulary.character_coverage", self.character_coverage, 0.5, 1, advice)
        self._check_keys()
        self._check_tokens()
        self._check_size()

    def _check_keys(self) -> None:
        """Check that all settings apply to the algorithm.

        Raises:
            InputError: If a setting that does not apply differs from its default.
        """
        if self.algorithm == BYTE_BPE and self.lowercase:
            raise InputError(
                'vocabulary.lowercase is true, and algorithm = "byte-bpe" keeps every byte of a text: leave the key '
                "out, and let the text itself be lower-cased by a profile of [clean], or choose wordpiece."
            )
        if self.algorithm == BYTE_BPE and self.strip_accents:
            raise InputError(
                'vocabulary.strip_accents is true, and algorithm = "byte-bpe" keeps every byte of a text: leave the '
                "key out, or choose wordpiece or unigram."
            )
        for setting in dataclasses.fields(self):
            value, owners = getattr(self, setting.name), _ALGORITHMS_WITH.get(setting.name, ALGORITHMS)
            if self.algorithm not in owners and value != setting.default:
                raise InputError(
                    f'vocabulary.{setting.name} is {value!r}, and algorithm = "{self.algorithm}" has no such thing: '
                    f"{' and '.join(owners)} alone {'has' if len(owners) == 1 else 'have'} it. Leave the key out."
                )

    def _check_tokens(self) -> None:
        """Check the additional special tokens and the symbols.

        Raises:
            InputError: If a token is empty, occurs twice or may occur in a text as a word, or if a symbol is not a
                single character, is white space or occurs twice.
        """
        for token in self.special_tokens:
            if not token.strip() or self.special_tokens.count(token) > 1 or token in self.family_tokens:
                raise InputError(
                    f"vocabulary.special_tokens names {token!r}, which is empty, named twice or one of the "
                    f"{' '.join(self.family_tokens)} that there are anyway: name further tokens, each once."
                )
            if token.isalnum() or len(token) == 1 or (self.unused and token.startswith("[unused")):
                raise InputError(
                    f"vocabulary.special_tokens names {token!r}, which a text could hold as a word, or which is one of "
                    f'the unused tokens: write it as no text does, as in "[{token.strip("[]").upper()}1]".'
                )
        for symbol in self.symbols:
            if len(symbol) != 1 or symbol.isspace() or self.symbols.count(symbol) > 1:
                raise InputError(
                    f"vocabulary.symbols names {symbol!r}: a symbol is a single character, not white space, named once."
                )

    def _check_size(self) -> None:
        """Check the size of the vocabulary.

        Raises:
            InputError: If the size leaves no room for learned tokens or is above `MAX_TOKENS`.
        """
        reserved = len(self.family_tokens) + len(self.special_tokens) + self.unused
        usual = {WORDPIECE: "BERT's is 30522", BYTE_BPE: "RoBERTa's is 50265", UNIGRAM: "ALBERT's is 30000"}
        what = "special or unused tokens"
        if self.algorithm == BYTE_BPE:
            reserved, what = reserved + len(BYTE_LETTERS), "special tokens and single bytes"
        if self.size <= reserved:
            raise InputError(
                f"vocabulary.size is {self.size}, and {reserved} of them are {what}: nothing would be left to learn. "
                f"Give a larger size ({usual[self.algorithm]})"
                f"{' or lower vocabulary.unused' if self.unused else ''}."
            )
        check_range("vocabulary.size", self.size, 1, MAX_TOKENS)

    @property
    def family_tokens(self) -> tuple[str, ...]:
        """The special tokens of the algorithm's model family (BERT, RoBERTa or ALBERT), such as "[CLS]"."""
        return (*_FAMILIES[self.algorithm].SPECIAL_TOKENS.values(),)

    @property
    def word_rule(self) -> WordRule:
        """The rule that splits text into words, built from these settings."""
        if self.algorithm == WORDPIECE:
            return BertWords(lowercase=bool(self.lowercase), strip_accents=self.strip_accents)
        if self.algorithm == BYTE_BPE:
            return Gpt2Words()
        strip_accents = self.lowercase if self.strip_accents is None else self.strip_accents
        return SentencePieceWords(lowercase=bool(self.lowercase), strip_accents=bool(strip_accents))


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenVocabulary:
    """An existing vocabulary: a folder with a saved tokenizer, or a vocab.txt file.

    path:      path of the folder or file
    lowercase: whether a vocab.txt without a tokenizer.json is uncased (default: as in its tokenizer_config.json; if
               there is none, true if only tokens that begin with [ have capital letters)
    """

    path: str
    lowercase: bool | None = None
