"""Trained vocabularies equal those of Hugging Face's trainers: in many languages, sizes and settings.

The trainers read the raw text, ours the counts of its words. BpeTrainer is equal as it comes. WordPieceTrainer numbers
the letters that continue a word in the order of a hash map, another in every run, and so breaks ties; where letters at
the limit of the alphabet are equally frequent, it keeps any of them. Both are all that it leaves open: trained with
the letters that it chose, in its order, ours is the same list of tokens.
"""

import bz2
import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tiers import mostly_long
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenizers_train.learning.byte_bpe import SpelledWords, lay_out_words, learn_merges, train_byte_bpe
from tokenizers_train.learning.merges_kernels import NUM_CODES
from tokenizers_train.learning.wordpiece import build_piece_names, spell_letters, train_wordpiece
from tokenizers_train.vocabularies.bert import CONTINUATION, SPECIAL_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.words.bert import BertWords, build_bert_pre_tokenizer
from tokenizers_train.words.counts import count_words
from tokenizers_train.words.gpt2 import Gpt2Words, build_gpt2_pre_tokenizer
from tokenizers_train.words.table import WordCounts

SPECIALS = [*SPECIAL_TOKENS.values()]
BPE_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
LANGUAGES = (
    "arb cym dan deu_1901 eng fra hin hrv jpn lat nld pol por_PT sco spa swe tur vie"  # the Declaration of Human Rights
).split()

# size, min_frequency, limit_alphabet
WORDPIECE_SETTINGS = [(300, 1, 40), (300, 5, 60), (1500, 2, 1000), (30522, 1, 1000)]
BPE_SETTINGS = [(300, 1), (1500, 5), (50265, 2)]


def column(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


def wordpiece_reference(
    texts: list[str], lowercase: bool, settings: VocabularySettings, letters: list[str]
) -> list[str]:
    """WordPieceTrainer's tokens in the order of their ids, with the letters that are given or (none) its own."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = (
        BertWords(lowercase=lowercase).normalizer,
        build_bert_pre_tokenizer(),
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.size,
        min_frequency=settings.min_frequency,
        limit_alphabet=0 if letters else settings.limit_alphabet,
        special_tokens=SPECIALS + letters,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def bpe_reference(texts: list[str], size: int, min_frequency: int) -> tuple[list[str], list[tuple[str, str]]]:
    """BpeTrainer's tokens in the order of their ids with <mask> after them, and its merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = build_gpt2_pre_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1,
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=BPE_SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    merges = [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]
    return [*sorted(ids, key=ids.__getitem__), "<mask>"], merges


def letters_of(tokens: list[str]) -> list[str]:
    """The letters that are at the beginning of a vocabulary, after its special tokens."""
    found = []
    for token in tokens[len(SPECIALS) :]:
        if len(token.removeprefix(CONTINUATION)) > 1:
            break
        found.append(token)
    return found


def letter_totals(counts: WordCounts) -> dict[str, int]:
    """How often each letter occurs."""
    totals: dict[str, int] = {}
    for word, count in zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True):
        for letter in word:
            totals[letter] = totals.get(letter, 0) + count
    return totals


def spell_by(counts: WordCounts, letters: list[str]) -> SpelledWords:
    """The words in letters of a given alphabet with ids in its order; what is not in it is skipped."""
    first, inner = np.full(NUM_CODES, -1, np.int32), np.full(NUM_CODES, -1, np.int32)
    for number, letter in enumerate(letters):
        continues = letter.startswith(CONTINUATION) and letter != CONTINUATION
        (inner if continues else first)[ord(letter[-1])] = number
    return lay_out_words(counts, letters, (first, inner), sum(map(len, counts["word"].to_pylist())))


def assert_equals_left_alone(counts: WordCounts, settings: VocabularySettings, theirs: list[str]) -> None:
    """All that the trainer left alone may choose: letters among equally frequent ones, and the order of letters."""
    letters, totals = letters_of(theirs), letter_totals(counts)
    kept = {letter for letter in letters if not letter.startswith(CONTINUATION) or letter == CONTINUATION}
    dropped = totals.keys() - kept
    assert len(kept) == min(settings.limit_alphabet, len(totals))
    assert min(totals[letter] for letter in kept) >= max((totals[letter] for letter in dropped), default=0)
    assert {*letters} - kept == {CONTINUATION + letter for letter in kept if behind_the_first(letter, counts)}
    room = settings.size - len(SPECIALS) - len(letters)
    merges = learn_merges(spell_by(counts, letters), room, settings.min_frequency)
    assert theirs == SPECIALS + build_piece_names(letters, zip(*merges.T.tolist(), strict=True))


def behind_the_first(letter: str, counts: WordCounts) -> bool:
    return any(letter in word[1:] for word in counts["word"].to_pylist())


def assert_wordpiece_equal(texts: list[str], lowercase: bool, settings: VocabularySettings) -> int:
    """Both equalities, with our order of letters and with theirs; returns how many merges were compared."""
    counts = count_words(BertWords(lowercase=lowercase), column(texts))
    letters = spell_letters(counts, settings.limit_alphabet).letters
    ours = list(train_wordpiece(counts, settings).tokens)
    assert ours == wordpiece_reference(texts, lowercase, settings, letters)
    assert_equals_left_alone(counts, settings, wordpiece_reference(texts, lowercase, settings, []))
    return len(ours) - len(SPECIALS) - len(letters)


def assert_bpe_equal(texts: list[str], size: int, min_frequency: int) -> int:
    """Tokens and merges are equal; returns how many merges were compared."""
    counts = count_words(Gpt2Words(), column(texts))
    settings = VocabularySettings(algorithm="byte-bpe", size=size, min_frequency=min_frequency)
    ours = train_byte_bpe(counts, settings)
    tokens, merges = bpe_reference(texts, size, min_frequency)
    assert list(ours.merges) == merges
    assert list(ours.tokens) == tokens
    return len(merges)


def test_many_equally_frequent_pairs() -> None:
    """Runs of one letter, characters of several bytes, and white space between words, of which a small text has all."""
    texts = [f"Words {i % 13}th wordy swords' unwordly,  sworn {i % 7} worlds of thorns\n" for i in range(50)]
    texts += [f"abab{'ab' * (i % 5)} aaa{'a' * (i % 6)} naïve thing{i % 9}s “中文” 😀" for i in range(60)]
    assert assert_wordpiece_equal(texts, True, VocabularySettings(size=160, min_frequency=3)) > 40
    assert assert_bpe_equal(texts, 420, 3) > 70


@pytest.mark.parametrize("language", mostly_long(LANGUAGES, 4))
def test_wordpiece_in_many_languages(language: str, shared: Path) -> None:
    texts = declaration(shared, language)
    for lowercase, (size, min_frequency, limit) in product((True, False), WORDPIECE_SETTINGS):
        settings = VocabularySettings(size=size, lowercase=lowercase, min_frequency=min_frequency, limit_alphabet=limit)
        compared = assert_wordpiece_equal(texts, lowercase, settings)
        assert compared > (50 if language != "jpn" else 5), f"hardly a merge was compared: {settings}"


@pytest.mark.parametrize("language", mostly_long(LANGUAGES, 4))
def test_byte_bpe_in_many_languages(language: str, shared: Path) -> None:
    for size, min_frequency in BPE_SETTINGS:
        assert assert_bpe_equal(declaration(shared, language), size, min_frequency) >= 39


@pytest.mark.slow
@pytest.mark.parametrize(
    "lowercase, name",
    [
        (True, "books"),
        pytest.param(False, "wikipedia", marks=pytest.mark.long),
        pytest.param(False, "books", marks=pytest.mark.long),
        pytest.param(True, "wikipedia", marks=pytest.mark.long),
    ],
)
def test_wordpiece_of_berts_size(lowercase: bool, name: str, shared: Path) -> None:
    texts = {"books": books, "wikipedia": wikipedia}[name](shared)
    assert assert_wordpiece_equal(texts, lowercase, VocabularySettings(lowercase=lowercase)) > 2000


@pytest.mark.long
def test_byte_bpe_of_robertas_size(shared: Path) -> None:
    for texts in (books(shared), wikipedia(shared)):
        assert assert_bpe_equal(texts, 50265, 2) > 2000


def declaration(shared: Path, language: str) -> list[str]:
    """The Declaration of Human Rights, line by line."""
    return (shared / f"data/gold/languages/udhr-{language}.txt").read_text(encoding="utf-8").splitlines()


@lru_cache(maxsize=1)
def books(shared: Path) -> list[str]:
    """The paragraphs of the first ten books."""
    paths = sorted((shared / "data/books/txt").glob("*.txt"))[:10]
    return [text for path in paths for text in path.read_text(encoding="utf-8", errors="replace").split("\n\n")]


@lru_cache(maxsize=1)
def wikipedia(shared: Path) -> list[str]:
    """The lines of a French and a Bulgarian dump as they are: mark-up is text like any other."""
    folder = shared / "data/wikipedia"
    french = _lines(folder / "frwiki-20101103-pages-articles-sample.xml.bz2", "utf-8")
    return [*french, *_lines(folder / "bgwiki-latest-pages-articles-shortened.xml.bz2", "utf-16")]


def _lines(path: Path, encoding: str) -> Iterator[str]:
    with bz2.open(path, "rt", encoding=encoding) as file:
        yield from file
