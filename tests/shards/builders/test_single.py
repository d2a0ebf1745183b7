"""Single sequences: kernel and twin alike, a document an example, nothing lost without a count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_documents import (
    SINGLE,
    assert_cut_at_words,
    assert_same,
    assert_sound,
    documents_of,
    held,
    shapes,
    spelt,
    word_shares,
)
from tiers import examples

from corpora.errors import InputError
from shards.builders.contract import Common
from shards.builders.pieces.single import SingleInput, build_single, build_single_plain
from shards.settings import read_shard_settings


@given(shapes, word_shares, st.integers(5, 30), st.integers(1, 3), st.integers(1, 3))
@examples(100)
def test_kernel_equals_the_plain_twin(
    lengths: list[list[int]], word_share: float, length: int, copies: int, least: int
) -> None:
    columns, own, common = documents_of(lengths, word_share), SingleInput(min_tokens=least), Common(length, copies, 7)
    built = build_single(columns, own, common, SINGLE)
    assert_same(built, build_single_plain(columns, own, common, SINGLE))
    tokens = assert_sound(columns, built, length, copies)
    assert all(copy == (columns.ids.tolist() if least == 1 else copy) for copy in tokens)
    assert all(len(documents) == 1 for documents in held(built.examples))
    assert all(len(spelling) >= least + 2 for spelling in spelt(built.examples))
    assert_cut_at_words(columns, built.examples, length - 2)


def test_worked_by_hand() -> None:
    """A document that fits is one example; a longer one is cut at words; what is short is counted."""
    columns = documents_of([[2, 3], [1], [9]])
    columns.word_starts[-4:] = 0
    built = build_single(columns, SingleInput(), Common(8, 2, 7), SINGLE)
    assert spelt(built.examples) == ["cxxxxx/", "cx/", "cxxxx/", "cxxxxx/"] * 2
    assert built.examples.ordinal.tolist() == [0, 0, 0, 1] * 2 and built.examples.boundary.tolist()[:2] == [7, 3]
    assert built.ledgers[0].figures == {"too_short": 0, "cuts": 1}
    longer = build_single(columns, SingleInput(min_tokens=5), Common(8, 1, 7), SINGLE)
    assert spelt(longer.examples) == ["cxxxxx/", "cxxxxx/"]
    assert longer.ledgers[0].find_account("tokens").outcomes == {"placed": 10, "truncated": 0, "left_over": 5}
    assert longer.ledgers[0].figures == {"too_short": 2, "cuts": 1}


def test_a_bound_that_no_example_could_keep_is_refused() -> None:
    with pytest.raises(InputError, match=r"shards.min_tokens = 31 is out of range"):
        read_shard_settings({"input": "single", "length": 32, "min_tokens": 31})
