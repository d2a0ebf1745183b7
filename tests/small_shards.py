"""Shards made of a corpus written row by row, for tests of what reads them.

shards, vocabulary = put_shards(place, ShardSettings(length=32))
"""

from collections.abc import Sequence
from typing import NamedTuple

from small_corpus import put_corpus, row, words

from corpora.build import Corpus
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from shards.build import plan_shards
from shards.settings import ShardSettings
from shards.tokens import plan_tokens
from tokenizers_train.build import plan_counts, plan_vocabulary, read_vocabulary
from tokenizers_train.vocabularies.settings import VocabularySettings


class SmallShards(NamedTuple):
    """Two artifacts of a store."""

    shards: Manifest
    vocabulary: Manifest


def put_shards(
    place: Place,
    settings: ShardSettings,
    documents: int = 40,
    gone: Sequence[int] = (),
    vocabulary_size: int = 150,
    name: str | None = None,
) -> SmallShards:
    """Documents in two generations, every fourth held out; those of `gone` are on the delete list.

    name: of the shards, where the place has several
    """
    first = documents * 3 // 5
    rows = [row(n, words(n), generation=1 + (n >= first), held_out=n % 4 == 0) for n in range(documents)]
    corpus = put_corpus(
        place, {"g001-a-00000": rows[:first], "g002-a-00000": rows[first:]}, deleted=[rows[n] for n in gone]
    )
    return shards_of(corpus, settings, vocabulary_size, name)


def shards_of(
    corpus: Corpus, settings: ShardSettings, vocabulary_size: int = 150, name: str | None = None
) -> SmallShards:
    """Shards of a corpus, in its store."""
    place, chosen = corpus.place, VocabularySettings(size=vocabulary_size)
    counts = build_stage(place, plan_counts(corpus, chosen.word_rule))
    vocabulary = build_stage(place, plan_vocabulary("small", counts, chosen, {}))
    tokens = build_stage(place, plan_tokens(corpus, vocabulary, 7))
    words_of = read_vocabulary(place, vocabulary)
    return SmallShards(
        build_stage(place, plan_shards(corpus, tokens, vocabulary, words_of, settings, name)), vocabulary
    )
