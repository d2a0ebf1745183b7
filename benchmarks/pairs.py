"""Segment pairs: `build_pairs` next to its definition `pairs_plain`, which makes the same examples."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.measuring import Report, Side, cleaned, main, side_by_side, size_mb, text_column
from shards.builders.examples import DocumentTokens
from shards.builders.segments.pairs import PairSettings, build_pairs
from shards.builders.segments.pairs_plain import pairs_plain
from shards.builders.segments.plan import SegmentPairs
from shards.documents import ShardRange, documents_plain
from shards.schema import id_type, token_schema
from shards.tokens import tokenise
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.learning.wordpiece import train_wordpiece
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import count_by


class Tokenised(NamedTuple):
    """Documents as tokens, and the vocabulary they were made with."""

    columns: DocumentTokens
    vocabulary: Vocabulary

    def pairs(self, seed: int) -> SegmentPairs:
        """Return examples of up to 128 tokens."""
        return build_pairs(self.columns, PairSettings(seed=seed), **self.ends)[0]

    @property
    def ends(self) -> dict[str, int]:
        """Return the ids at the ends of segments."""
        return {f"{role}_id": self.vocabulary.special_ids[role] for role in ("cls", "sep")}


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Compare examples of up to 128 tokens from cleaned texts, tokenised before; a new seed for every call."""
    texts = cleaned(texts)
    tokenised = tokenise_texts(texts)
    columns, ends = tokenised.columns, tokenised.ends
    ours, ledgers = build_pairs(columns, PairSettings(), **ends)
    plain, plain_ledgers = pairs_plain(columns, PairSettings(), **ends)
    for name, one, other in zip(SegmentPairs._fields, ours, plain, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other), f"{name} differs from the definition's"
    assert ledgers == plain_ledgers, "ledgers differ from the definition's"
    sides = [
        Side(name="build_pairs", call=lambda seed: build_pairs(columns, PairSettings(seed=seed), **ends)),
        Side(
            name="definition (pairs_plain)",
            call=lambda seed: pairs_plain(columns, PairSettings(seed=seed), **ends),
        ),
    ]
    amounts = {"MB": size_mb(texts), "K examples": len(ours.label) / 1000, "M tokens": len(ours.ids) / 1e6}
    notes = [f"all {len(ours.label)} examples and the ledger equal the definition's"]
    return [side_by_side("pairs", texts, sides, rounds, notes, amounts)]


def tokenise_texts(texts: Sequence[str]) -> Tokenised:
    """Return texts tokenised as the tokens stage does it, by a vocabulary learnt from them."""
    column, number = text_column(texts), len(texts)
    vocabulary = train_wordpiece(count_by(BertWords(lowercase=True), column), VocabularySettings())
    ids = np.random.default_rng(0).bytes(16 * number)
    batch = pa.record_batch(
        {
            "id": pa.array([ids[16 * row : 16 * row + 16] for row in range(number)], pa.binary(16)),
            "revision": pa.array(np.zeros(number, np.int64)),
            "source": pa.array(["texts"] * number),
            "held_out": pa.array(np.zeros(number, np.bool_)),
            "language": pa.array(["en"] * number),
            "text": column,
        }
    )
    table = tokenise(batch, Encoder(vocabulary), token_schema(id_type(vocabulary.size)), 42)
    return Tokenised(columns=documents_plain(table, ShardRange()).tokens, vocabulary=vocabulary)


if __name__ == "__main__":
    main(benchmark)
