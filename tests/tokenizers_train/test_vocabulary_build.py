"""The counts and vocabulary stages: what is counted, what is not, and what a source's weight does."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from small_corpus import put_corpus, row, words

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from corpora.store.tables import read_table
from tokenizers_train.build import plan_counts, plan_vocabulary, read_vocabulary
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.words.bert import BertWords
from tokenizers_train.words.counts import count_words
from tokenizers_train.words.gpt2 import Gpt2Words

SETTINGS = VocabularySettings(size=120)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "store"))


def counted(place: Place, corpus: Corpus, settings: VocabularySettings = SETTINGS) -> Counter[str]:
    """Words over all parts."""
    manifest = build_stage(place, plan_counts(corpus, settings.word_rule))
    found = Counter[str]()
    for batch in read_table(place, manifest, "counts"):
        found.update({entry["word"]: entry["count"] for entry in batch.to_pylist()})
    return found


def by_hand(texts: list[str], lowercase: bool = True) -> Counter[str]:
    table = count_words(BertWords(lowercase=lowercase), pa.array(texts, pa.large_string()))
    return Counter({entry["word"]: entry["count"] for entry in table.to_pylist()})


def test_only_live_training_rows_are_counted(place: Place) -> None:
    """Fails if a held-out or deleted document is counted, or a live one is not."""
    rows = [row(n, words(n)) for n in range(8)]
    rows[2], rows[5] = row(2, "heldout heldout", held_out=True), row(5, "deleted deleted")
    corpus = put_corpus(place, {"g001-a-00000": rows[:4], "g001-b-00000": rows[4:]}, deleted=[rows[5]])
    expected = by_hand([words(n) for n in range(8) if n not in (2, 5)])
    assert counted(place, corpus) == expected
    account = build_stage(place, plan_counts(corpus, SETTINGS.word_rule)).ledger.find_account("documents")
    assert (account.total, account.outcomes) == (8, {"counted": 6, "held out": 1, "deleted": 1})


def test_case_is_the_vocabulary_s(place: Place) -> None:
    """Fails if cased words are lower-cased, or the other way round."""
    corpus = put_corpus(place, {"g001-a-00000": [row(1, "River river RIVER")]})
    assert counted(place, corpus) == {"river": 3}
    cased = VocabularySettings(size=120, lowercase=False)
    assert counted(place, corpus, cased) == {"River": 1, "river": 1, "RIVER": 1}


def test_a_part_that_did_not_change_is_not_counted_again(place: Place) -> None:
    """Fails if a new generation's counts build the old parts once more."""
    old = {"g001-a-00000": [row(n, words(n)) for n in range(4)]}
    first = build_stage(place, plan_counts(put_corpus(place, old), SETTINGS.word_rule))
    grown = put_corpus(place, {**old, "g002-a-00000": [row(9, words(9), generation=2)]})
    second = build_stage(place, plan_counts(grown, SETTINGS.word_rule))
    assert second.parts[0] == first.parts[0]
    assert second.parts[1].count_rows("counts") > 0


def test_weights_are_of_sources(place: Place) -> None:
    """Fails if a source's weight is lost: the pair that only it has is merged first, or not at all."""
    corpus = put_corpus(place, {"g001-a-00000": [row(1, "xyxy " * 40)], "g001-b-00000": [row(2, "uvuv " * 30)]})
    counts = build_stage(place, plan_counts(corpus, SETTINGS.word_rule))
    small = VocabularySettings(size=5 + 8 + 1)  # the specials, the letters, one merge
    merged = {}
    for weights in ({}, {"b": 2.0}, {"a": 3.0, "b": 3.0}):
        manifest = build_stage(place, plan_vocabulary("v", counts, small, weights))
        merged[str(weights)] = read_vocabulary(place, manifest).tokens[-1]
    plain, heavy, equal = merged.values()
    assert set(plain.strip("#")) == {"x", "y"} == set(equal.strip("#"))
    assert set(heavy.strip("#")) == {"u", "v"}
    neutral = plan_vocabulary("v", counts, small, {"a": 1.0, "b": 1.0})
    assert neutral.fingerprint == plan_vocabulary("v", counts, small, {}).fingerprint


def test_the_folder_comes_back(place: Place) -> None:
    """Fails if the vocabulary read is not the one trained: tokens, settings, special ids."""
    corpus = put_corpus(place, {"g001-a-00000": [row(n, words(n)) for n in range(6)]})
    counts = build_stage(place, plan_counts(corpus, SETTINGS.word_rule))
    manifest = build_stage(place, plan_vocabulary("v", counts, SETTINGS, {}))
    vocabulary = read_vocabulary(place, manifest)
    [batch] = read_table(place, manifest, "tokens")
    assert list(vocabulary.tokens) == batch.column("token").to_pylist()
    assert manifest.ledger.figures["tokens"] == vocabulary.size <= 120
    assert {vocabulary.tokens[id] for id in vocabulary.special_ids.values()} == {
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    }


def test_a_byte_bpe_folder_comes_back(place: Place) -> None:
    """Fails if byte-level BPE is counted, trained or read by WordPiece's rules."""
    settings = VocabularySettings(algorithm="byte-bpe", size=300)
    corpus = put_corpus(place, {"g001-a-00000": [row(n, words(n)) for n in range(6)]})
    found = counted(place, corpus, settings)
    assert found == Counter(word for n in range(6) for word in Gpt2Words().split(words(n)))
    counts = build_stage(place, plan_counts(corpus, settings.word_rule))
    manifest = build_stage(place, plan_vocabulary("v", counts, settings, {}))
    vocabulary = read_vocabulary(place, manifest)
    [batch] = read_table(place, manifest, "tokens")
    assert list(vocabulary.tokens) == batch.column("token").to_pylist()
    assert vocabulary.algorithm == "byte-bpe" and len(vocabulary.merges) == vocabulary.size - 261 > 10


def test_counts_are_named_by_the_rule_of_words(place: Place) -> None:
    """Fails if an upgrade counts an old corpus again, or two rules share one count."""
    corpus = put_corpus(place, {"g001-a-00000": [row(1, words(1))]})
    kinds = {
        '{"lowercase": true}': SETTINGS,
        '{"lowercase": false}': VocabularySettings(size=120, lowercase=False),
        '{"pre_tokenizer": "gpt2"}': VocabularySettings(algorithm="byte-bpe", size=300),
    }
    planned = {json.dumps(plan_counts(corpus, settings.word_rule).settings): settings for settings in kinds.values()}
    assert planned == kinds


def test_no_words_are_said(place: Place) -> None:
    """Fails if a vocabulary of nothing is trained, or a traceback is all that is said."""
    corpus = put_corpus(place, {"g001-a-00000": [row(1, words(1), held_out=True)]})
    counts = build_stage(place, plan_counts(corpus, SETTINGS.word_rule))
    with pytest.raises(InputError, match="The corpus 'small' has no words to train a vocabulary on"):
        build_stage(place, plan_vocabulary("v", counts, SETTINGS, {}))
