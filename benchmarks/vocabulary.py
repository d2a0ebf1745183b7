"""Vocabularies: counting and training beside tokenizers' trainers, for WordPiece and byte-level BPE.

WordPieceTrainer breaks ties by the order of a hash map, another in every run. Given its letters in our order it
makes the same list of tokens, and that is checked; how many tokens differ where it is left alone is said. BpeTrainer
needs no help: tokens and merges are equal as it comes.
"""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from benchmarks.measuring import Report, Side, cleaned, described, main, size_mb, take_turns, text_column
from tokenizers_train.bert_tokenizer import SPECIAL_TOKENS
from tokenizers_train.bert_words import bert_normalizer, bert_pre_tokenizer
from tokenizers_train.byte_bpe import train_byte_bpe
from tokenizers_train.counts import count_by, count_words
from tokenizers_train.gpt2_words import gpt2_pre_tokenizer
from tokenizers_train.roberta_tokenizer import SPECIAL_TOKENS as ROBERTA_TOKENS
from tokenizers_train.vocabulary import VocabularySettings
from tokenizers_train.wordpiece import spell, train_wordpiece

SPECIALS = [*SPECIAL_TOKENS.values()]


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Vocabularies of at most 30,522 and 50,265 tokens from cleaned texts."""
    texts = cleaned(texts)
    return [compare_wordpiece(texts, rounds), compare_byte_bpe(texts, rounds)]


def compare_wordpiece(texts: Sequence[str], rounds: int) -> Report:
    """WordPiece, lower-cased, of BERT's size."""
    column, settings = text_column(texts), VocabularySettings()
    counts = count_words(column, True)
    ours = train_wordpiece(counts, settings)
    letters = spell(counts, settings.limit_alphabet).letters
    assert list(ours.tokens) == wordpiece_reference(texts, settings, letters), "tokens differ from the trainer's"
    alone = wordpiece_reference(texts, settings, [])
    apart = len({*ours.tokens} ^ {*alone})
    sides = [
        Side(name="counting and training", call=lambda _: train_wordpiece(count_words(column, True), settings)),
        Side(name="  counting", call=lambda _: count_words(column, True)),
        Side(name="  training", call=lambda _: train_wordpiece(counts, settings)),
        Side(name="tokenizers' trainer", call=lambda _: wordpiece_reference(texts, settings, [])),
    ]
    return Report(
        title=described("vocabulary, wordpiece", texts, rounds),
        amounts={"MB": size_mb(texts)},
        rows=take_turns(sides, rounds),
        notes=(
            f"all {ours.size} tokens, from {counts.num_rows} words, equal the trainer's given our order of letters",
            f"left alone it has {len(alone)} tokens, and {apart} are in only one of the two vocabularies",
        ),
    )


def compare_byte_bpe(texts: Sequence[str], rounds: int) -> Report:
    """Byte-level BPE of RoBERTa's size."""
    column, settings = text_column(texts), VocabularySettings(algorithm="byte-bpe", size=50265)
    counts = count_by(settings.word_rule, column)
    ours = train_byte_bpe(counts, settings)
    assert list(ours.tokens) == byte_bpe_reference(texts, settings), "tokens differ from the trainer's"
    sides = [
        Side(
            name="counting and training",
            call=lambda _: train_byte_bpe(count_by(settings.word_rule, column), settings),
        ),
        Side(name="  counting", call=lambda _: count_by(settings.word_rule, column)),
        Side(name="  training", call=lambda _: train_byte_bpe(counts, settings)),
        Side(name="tokenizers' trainer", call=lambda _: byte_bpe_reference(texts, settings)),
    ]
    return Report(
        title=described("vocabulary, byte-bpe", texts, rounds),
        amounts={"MB": size_mb(texts)},
        rows=take_turns(sides, rounds),
        notes=(f"all {ours.size} tokens, from {counts.num_rows} words, equal the trainer's",),
    )


def wordpiece_reference(texts: Sequence[str], settings: VocabularySettings, letters: list[str]) -> list[str]:
    """WordPieceTrainer's tokens in the order of their ids."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL_TOKENS["unk"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = bert_normalizer(True), bert_pre_tokenizer()
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
    """BpeTrainer's tokens in the order of their ids; <mask> comes last, so the trainer is told of the others."""
    *first, mask = ROBERTA_TOKENS.values()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = gpt2_pre_tokenizer()
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
