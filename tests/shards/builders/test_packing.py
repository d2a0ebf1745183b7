"""Full sentences: kernel and twin alike, nothing lost, documents apart, examples filled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_documents import CLS, FIRST_ID, SEP, documents_of, rows, shapes, spelt
from text_columns import assert_equal
from tiers import examples

from corpora.errors import InputError
from corpora.store.ledger import Ledger
from shards.builders.contract import Examples
from shards.builders.pieces.packing import PackSettings, pack_sentences, pack_sentences_plain
from shards.settings import ShardSettings, read_shard_settings


def pack(documents: list[list[int]], **config: int) -> tuple[Examples, tuple[Ledger, ...]]:
    return pack_sentences(documents_of(documents), PackSettings(**config), cls_id=CLS, sep_id=SEP)


@given(
    shapes, st.sampled_from([0.0, 0.3, 1.0]), st.integers(5, 30), st.booleans(), st.integers(1, 3), st.integers(0, 99)
)
@examples(200)
def test_kernel_equals_the_plain_twin(
    documents: list[list[int]], word_share: float, length: int, crosses: bool, copies: int, seed: int
) -> None:
    columns = documents_of(documents, word_share)
    config = PackSettings(length=length, crosses=crosses, copies=copies, seed=seed)
    ours, ledgers = pack_sentences(columns, config, cls_id=CLS, sep_id=SEP)
    plain, plain_ledgers = pack_sentences_plain(columns, config, cls_id=CLS, sep_id=SEP)
    assert_equal(ours, plain)
    assert ledgers == plain_ledgers


@given(shapes, st.integers(5, 30), st.booleans(), st.integers(1, 3))
@examples(100)
def test_every_token_stands_once_in_every_copy(
    documents: list[list[int]], length: int, crosses: bool, copies: int
) -> None:
    """Fails if a token is lost or doubled, an example is too long or spans documents that it may not."""
    columns = documents_of(documents, 0.5)
    config = PackSettings(length=length, crosses=crosses, copies=copies)
    examples, _ = pack_sentences(columns, config, cls_id=CLS, sep_id=SEP)
    for copy in range(copies):
        chosen = [row for row, of in zip(rows(examples), examples.copy, strict=True) if of == copy]
        placed = sorted(id for row in chosen for id in row if id >= FIRST_ID)
        assert placed == columns.ids.tolist()
        assert all(row[0] == CLS and row[-1] == SEP and len(row) <= length for row in chosen)
    held = np.diff(examples.document_offsets)
    assert held.min() >= 1 and (crosses or held.max() == 1)
    assert len(set(examples.example_id.tolist())) == len(held)


def test_worked_by_hand() -> None:
    """Sentences are taken while they fit, a separator is between documents, a long sentence is cut."""
    crossing, [ledger] = pack([[2, 3], [2], [9, 1]], length=10)
    assert spelt(crossing) == ["cxxxxx/xx/", "cxxxxxxxx/", "cxx/"]
    assert [crossing.documents[i:j].tolist() for i, j in [(0, 2), (2, 3), (3, 4)]] == [[0, 1], [2], [2]]
    assert crossing.ordinal.tolist() == [0, 0, 1]
    assert ledger.find_account("tokens").outcomes == {"placed": 17, "truncated": 0, "left_over": 0}
    assert ledger.figures == {"cut_sentences": 1}
    inside, _ = pack([[2, 3], [2], [9, 1]], length=10, crosses=False)
    assert spelt(inside) == ["cxxxxx/", "cxx/", "cxxxxxxxx/", "cxx/"]


def test_a_long_sentence_is_cut_at_a_word() -> None:
    columns = documents_of([[12]])
    columns.word_starts[:] = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    examples, _ = pack_sentences(columns, PackSettings(length=8), cls_id=CLS, sep_id=SEP)
    assert spelt(examples) == ["cxxxxx/", "cxxxxxx/", "cx/"]


def test_later_copies_have_other_neighbours() -> None:
    """Fails if every copy packs the documents in one order."""
    examples, _ = pack([[3]] * 40, length=12, copies=2)
    pairs = [
        {
            tuple(examples.documents[i:j].tolist())
            for i, j, of in zip(examples.document_offsets, examples.document_offsets[1:], examples.copy, strict=False)
            if of == copy
        }
        for copy in range(2)
    ]
    assert all(len(found) == 20 for found in pairs) and len(pairs[0] & pairs[1]) < 5


def test_examples_are_filled() -> None:
    """Full sentences waste little: on average half a sentence of each example, so over 90% of 128 here."""
    random = np.random.default_rng(3)
    examples, _ = pack([random.integers(3, 30, random.integers(1, 20)).tolist() for _ in range(300)], length=128)
    assert examples.boundary.mean() > 0.9 * 128


def test_what_means_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="short_sequence_probability means nothing"):
        read_shard_settings({"input": "full-sentences", "short_sequence_probability": 0.5})
    with pytest.raises(InputError, match=r"it must be one of 'segment-pair', .*'full-sentences'"):
        ShardSettings(input="full")
