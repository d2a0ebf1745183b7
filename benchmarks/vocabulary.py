"""Vocabularies: counting and training next to tokenizers' trainers, for WordPiece and byte-level BPE.

WordPieceTrainer breaks ties by the order of a hash map, another in every run. Given its letters in our order it
makes the same list of tokens, and that is checked; the report shows how many tokens differ without it. BpeTrainer
needs no help: tokens and merges are equal without it. rustbpe is measured where it is installed.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from benchmarks.measuring import Report, Side, cleaned, main, side_by_side, text_column
from tokenizers_train.learning.byte_bpe import train_byte_bpe
from tokenizers_train.learning.wordpiece import spell_letters, train_wordpiece
from tokenizers_train.vocabularies.bert import SPECIAL_TOKENS
from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.vocabularies.roberta import SPECIAL_TOKENS as ROBERTA_TOKENS
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.bert import BertWords, build_bert_pre_tokenizer
from tokenizers_train.words.counts import count_words
from tokenizers_train.words.gpt2 import build_gpt2_pre_tokenizer
from tokenizers_train.words.table import WordCounts

# GPT-2's words (Radford et al. 2019, the encoder published with the paper), for trainers that take a pattern.
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPECIALS = [*SPECIAL_TOKENS.values()]


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare vocabularies of at most 30,522 and 50,265 tokens from cleaned texts."""
    texts = cleaned(texts)
    return [compare_wordpiece(texts, rounds), compare_byte_bpe(texts, rounds)]


def compare_wordpiece(texts: Sequence[str], rounds: int) -> Report:
    """Compare WordPiece, lower-cased, of BERT's size."""
    settings = VocabularySettings()
    counts = count_words(settings.word_rule, text_column(texts))
    ours = train_wordpiece(counts, settings)
    letters = spell_letters(counts, settings.limit_alphabet).letters
    assert list(ours.tokens) == wordpiece_reference(texts, settings, letters), "tokens differ from the trainer's"
    alone = wordpiece_reference(texts, settings, [])
    apart = len({*ours.tokens} ^ {*alone})
    sides = sides_of(train_wordpiece, settings, texts, lambda: wordpiece_reference(texts, settings, []))
    notes = [
        f"all {ours.size} tokens, from {counts.num_rows} words, equal the trainer's given our order of letters",
        f"left alone it has {len(alone)} tokens, and {apart} are in only one of the two vocabularies",
    ]
    return side_by_side("vocabulary, wordpiece", texts, sides, rounds, notes)


def compare_byte_bpe(texts: Sequence[str], rounds: int) -> Report:
    """Compare byte-level BPE of RoBERTa's size."""
    settings = VocabularySettings(algorithm="byte-bpe", size=50265)
    counts = count_words(settings.word_rule, text_column(texts))
    ours = train_byte_bpe(counts, settings)
    assert list(ours.tokens) == byte_bpe_reference(texts, settings), "tokens differ from the trainer's"
    notes = [f"all {ours.size} tokens, from {counts.num_rows} words, equal the trainer's"]
    sides = sides_of(train_byte_bpe, settings, texts, lambda: byte_bpe_reference(texts, settings))
    if find_spec("rustbpe"):
        theirs = rustbpe_pieces(texts, len(BYTE_LETTERS) + len(ours.merges))
        notes.append(compared_with_rustbpe(ours, theirs))
        sides.append(Side(name="rustbpe", call=lambda _: rustbpe_pieces(texts, len(theirs))))
    return side_by_side("vocabulary, byte-bpe", texts, sides, rounds, notes)


def sides_of(
    train: Callable[[WordCounts, VocabularySettings], Vocabulary],
    settings: VocabularySettings,
    texts: Sequence[str],
    reference: Callable[[], object],
) -> list[Side]:
    """Return our counting and training, together and apart, and the reference's."""
    column = text_column(texts)
    counts = count_words(settings.word_rule, column)
    return [
        Side(name="counting and training", call=lambda _: train(count_words(settings.word_rule, column), settings)),
        Side(name="  counting", call=lambda _: count_words(settings.word_rule, column)),
        Side(name="  training", call=lambda _: train(counts, settings)),
        Side(name="tokenizers' trainer", call=lambda _: reference()),
    ]


def rustbpe_pieces(texts: Sequence[str], size: int) -> list[bytes]:
    """Return the pieces that rustbpe learns, in their order, the single bytes first."""
    tokenizer = import_module("rustbpe").Tokenizer()
    tokenizer.train_from_iterator(iter(texts), size, pattern=GPT2_PATTERN)
    return [bytes(piece) for piece, _ in tokenizer.get_mergeable_ranks()]


def compared_with_rustbpe(ours: Vocabulary, theirs: Sequence[bytes]) -> str:
    """Return how many of the pieces are the same, and in the same order."""
    values = {letter: byte for byte, letter in enumerate(BYTE_LETTERS)}
    learnt = [bytes(values[letter] for letter in left + right) for left, right in ours.merges]
    pieces = theirs[len(BYTE_LETTERS) :]
    same = next(
        (number for number, pair in enumerate(zip(learnt, pieces, strict=False)) if pair[0] != pair[1]), len(pieces)
    )
    return (
        f"rustbpe learns {len(pieces)} pieces where ours are {len(learnt)}: the first {same} are equal, and "
        f"{len({*learnt} ^ {*pieces})} are in only one of the two"
    )


def wordpiece_reference(texts: Sequence[str], settings: VocabularySettings, letters: list[str]) -> list[str]:
    """Return WordPieceTrainer's tokens in the order of their ids."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL_TOKENS["unk"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertWords(lowercase=True).normalizer, build_bert_pre_tokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.size,
        min_frequency=settings.min_frequency,
        limit_alphabet=settings.limit_alphabet,
        special_tokens=SPECIALS + letters,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def byte_bpe_reference(texts: Sequence[str], settings: VocabularySettings) -> list[str]:
    """Return BpeTrainer's tokens in the order of their ids; <mask> comes last, so the trainer gets only the others."""
    *first, mask = ROBERTA_TOKENS.values()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = build_gpt2_pre_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=settings.size - 1,
        min_frequency=settings.min_frequency,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    return [*sorted(ids, key=ids.__getitem__), mask]


if __name__ == "__main__":
    main(benchmark)
