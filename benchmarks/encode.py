"""Tokenising: `Encoder` beside tokenizers' own encoding with the same vocabulary, which gives the same ids.

WordPiece and byte-level BPE, each with a vocabulary learnt from the text. A new encoder meets every word once (a
part of the tokens stage begins with a new one); one that knows the words shows where it is heading in a large part.
Documents are encoded whole, the cheapest way for the other side.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.measuring import Report, Side, cleaned, described, main, size_mb, take_turns, text_column
from corpora.text.buffers import text_buffers
from tokenizers_train.build import train_vocabulary
from tokenizers_train.counts import count_by
from tokenizers_train.encode import Encoder, text_tokenizer
from tokenizers_train.vocabulary import VocabularySettings

VOCABULARIES = (VocabularySettings(), VocabularySettings(algorithm="byte-bpe", size=50265))


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Ids of cleaned texts, by vocabularies learnt from them."""
    texts = cleaned(texts)
    return [compare(texts, settings, rounds) for settings in VOCABULARIES]


def compare(texts: Sequence[str], settings: VocabularySettings, rounds: int) -> Report:
    """Ids by one vocabulary."""
    column = text_column(texts)
    offsets = text_buffers(column).offsets
    documents = (column, offsets[:-1], offsets[1:])
    vocabulary = train_vocabulary(count_by(settings.word_rule, column), settings)
    known, tokenizer = Encoder(vocabulary), text_tokenizer(vocabulary)
    ours = known.encode_sentences(*documents)
    theirs = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    assert np.array_equal(ours.ids, [number for encoding in theirs for number in encoding.ids]), "ids differ"
    assert np.array_equal(np.diff(ours.offsets), [len(encoding.ids) for encoding in theirs]), "lengths differ"
    sides = [
        Side(name="Encoder, its words known", call=lambda _: known.encode_sentences(*documents)),
        Side(name="Encoder, new", call=lambda _: Encoder(vocabulary).encode_sentences(*documents)),
        Side(
            name="tokenizers encode_batch_fast",
            call=lambda _: tokenizer.encode_batch_fast(texts, add_special_tokens=False),
        ),
        Side(name="tokenizers encode_batch", call=lambda _: tokenizer.encode_batch(texts, add_special_tokens=False)),
    ]
    return Report(
        title=described(f"encode, {settings.algorithm}", texts, rounds),
        amounts={"MB": size_mb(texts), "M tokens": len(ours.ids) / 1e6},
        rows=take_turns(sides, rounds),
        notes=(f"all {len(ours.ids)} ids equal; {vocabulary.size} tokens, {known.num_known} words met",),
    )


if __name__ == "__main__":
    main(benchmark)
