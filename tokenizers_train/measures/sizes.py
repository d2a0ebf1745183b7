"""Fertility against the size of the vocabulary, from one count of words and one training.

Promise: the figures of the vocabularies that training to each size would give, without training again. Both
algorithms that learn merges add pieces in one order, whatever the size: a smaller WordPiece vocabulary is the
beginning of a larger one, and so are the pieces and merges of a byte-level BPE one, <mask> at its end. So one
encoder serves all sizes (`Encoder.beginning`); `beginning` makes the vocabulary that it stands for.
Unigram begins with too many pieces and prunes them, so its vocabularies are not nested: for it there is no curve.

Cost: one training to the largest size, one encoder, and for each size the words that it cuts into more.
"""

from collections.abc import Sequence
from dataclasses import replace

from tokenizers_train.build import train_vocabulary
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import Measures, cut_again, cut_words, measure, unknown_id
from tokenizers_train.vocabularies.settings import BYTE_BPE, WORDPIECE, VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, bert_vocabulary, roberta_vocabulary
from tokenizers_train.words.table import WordCounts

MEASURED_SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 24_000, 32_000, 48_000, 64_000)
NESTED = (WORDPIECE, BYTE_BPE)


def nested_sizes(largest: Vocabulary, settings: VocabularySettings, sizes: Sequence[int] = MEASURED_SIZES) -> list[int]:
    """Those of the sizes, ascending, that a vocabulary trained to the largest of them and of the settings has in it.

    The last is what the counts yield in all, if that is less than the largest size. A size without room for a
    piece next to special tokens and letters is left out.
    """
    least = first_piece(largest, settings)
    return sorted({*(size for size in sizes if least < size < largest.size), min(largest.size, max(sizes))})


def first_piece(vocabulary: Vocabulary, settings: VocabularySettings) -> int:
    """Count the tokens of a vocabulary before the first piece that was made of others."""
    if vocabulary.algorithm == BYTE_BPE:
        return vocabulary.size - len(vocabulary.merges)
    reserved = len(vocabulary.special_ids) + settings.unused
    rest = enumerate(vocabulary.tokens[reserved:], reserved)
    return next((id for id, token in rest if len(token.removeprefix("##")) > 1), vocabulary.size)


def beginning(vocabulary: Vocabulary, settings: VocabularySettings, size: int) -> Vocabulary:
    """The vocabulary that training stopped at `size` would have given, which holds the letters at least."""
    if size >= vocabulary.size:
        return vocabulary
    if vocabulary.algorithm == WORDPIECE:
        return bert_vocabulary(
            vocabulary.tokens[:size],
            lowercase=bool(settings.lowercase),
            strip_accents=settings.strip_accents,
            max_word_length=settings.max_word_length,
            further=settings.special_tokens,
        )
    last = 1 + len(settings.special_tokens)
    tokens = (*vocabulary.tokens[: size - last], *vocabulary.tokens[-last:])
    merges = vocabulary.merges[: len(vocabulary.merges) - (vocabulary.size - size)]
    return roberta_vocabulary(tokens, merges, settings.special_tokens)


def measure_sizes(
    training: WordCounts, measured: WordCounts, settings: VocabularySettings, sizes: Sequence[int] = MEASURED_SIZES
) -> list[tuple[int, Measures]]:
    """Size and figures of each of the `nested_sizes`; none where the algorithm's vocabularies are not nested.

    training: what the vocabularies are trained on (weighted by source)
    measured: the words that they are measured on
    """
    if settings.algorithm not in NESTED:
        return []
    largest = train_vocabulary(training, replace(settings, size=max(*sizes, settings.size)))
    encoder, figures = Encoder(largest), []
    pieces = cut_words(encoder, measured)
    for size in reversed(nested_sizes(largest, settings, sizes)):
        pieces = cut_again(encoder.beginning(size), pieces, size)
        figures.append((size, measure(pieces, unknown_id(largest), size)))
    return figures[::-1]
