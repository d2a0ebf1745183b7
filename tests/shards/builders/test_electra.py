"""ELECTRA's segments: kernel and twin alike, text in order and once, segments as the authors fill them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_documents import (
    FIRST_ID,
    PAIRED,
    assert_cut_at_words,
    assert_same,
    assert_sound,
    documents_of,
    held,
    rows,
    shapes,
    spelt,
    word_shares,
)
from tiers import examples

from shards.builders.contract import BuiltExamples, Common
from shards.builders.pieces.electra import ElectraInput, build_electra, build_electra_plain


@given(shapes, word_shares, st.integers(5, 30), st.integers(1, 3), st.sampled_from([0.0, 0.05, 0.5, 1.0]))
@examples(80)
def test_kernel_equals_the_plain_twin(
    lengths: list[list[int]], word_share: float, length: int, copies: int, share: float
) -> None:
    """Fails also where a token is lost, doubled or out of order, or documents are joined."""
    columns, common = documents_of(lengths, word_share), Common(length, copies, 7)
    own = ElectraInput(short_sequence_probability=share, one_segment_probability=1 - share)
    built = build_electra(columns, own, common, PAIRED)
    assert_same(built, build_electra_plain(columns, own, common, PAIRED))
    assert assert_sound(columns, built, length, copies) == [columns.ids.tolist()] * copies
    assert {len(documents) for documents in held(built.examples)} == {1}
    assert set(built.examples.second_document.tolist()) == {0} and built.examples.label is None
    assert_cut_at_words(columns, built.examples, length - 2)
    for row, boundary in zip(spelt(built.examples), built.examples.boundary.tolist(), strict=True):
        assert [place for place, sign in enumerate(row, 1) if sign == "/"] in ([boundary, len(row)], [len(row)])
        assert boundary == len(row) or row.count("/") == 2


def built_of(lengths: list[list[int]], length: int, copies: int = 1, **probabilities: float) -> BuiltExamples:
    return build_electra(documents_of(lengths), ElectraInput(**probabilities), Common(length, copies, 7), PAIRED)


def test_worked_by_hand() -> None:
    """The first segment takes sentences up to half of the target, or one more; what is trimmed begins the next example.

    Target 16, half 6: 3 + 2 stay below it, 4 more do not, so by a coin the first segment has 5 or 9 of the 13.
    """
    built = built_of([[3, 2, 4, 9]], 16, 20, short_sequence_probability=0.0, one_segment_probability=0.0)
    found = spelt(built.examples)
    firsts = {copy: row for row, copy in reversed(list(zip(found, built.examples.copy.tolist(), strict=True)))}
    assert set(firsts.values()) == {"cxxxxx/xxxxxxxx/", "cxxxxxxxxx/xxxx/"}
    assert [row for row in found if row not in firsts.values()] == ["cxxxxx/"] * 20
    assert [ledger.figures for ledger in built.ledgers] == [{"one_segment": 1, "cut_sentences": 1}] * 20


def test_a_sentence_never_goes_back_to_the_first_segment() -> None:
    """Fails if a short sentence after a long one jumps over it, as in the authors' script."""
    built = built_of([[2, 9, 1]], 20, 30, short_sequence_probability=0.0, one_segment_probability=0.0)
    assert set(spelt(built.examples)) == {"cxx/xxxxxxxxxx/", "cxxxxxxxxxxx/x/"}
    for row in rows(built.examples):
        own = [id for id in row if id >= FIRST_ID]
        assert own == sorted(own)


def test_shares_are_those_of_the_settings() -> None:
    """Fails unless a tenth of 4,000 examples has one segment and a twentieth a drawn target, to within four sigma."""
    lengths = [[9] * 1_000] * 40
    built = built_of(lengths, 100)
    num = len(built.examples.copy)
    one = built.ledgers[0].figures["one_segment"] / num
    assert num > 3_000 and abs(one - 0.1) < 4 * np.sqrt(0.1 * 0.9 / num) + 1.2 / 91  # the last of a document may be
    short = np.mean(np.diff(built.examples.offsets) < 85) - 40 / num
    assert abs(short - 0.05 * 80 / 96) < 4 * np.sqrt(0.05 / num) + 40 / num


def test_examples_are_full() -> None:
    """Fails unless, with every word a token, all examples of a document but the last have the length."""
    random = np.random.default_rng(3)
    lengths = [random.integers(3, 30, random.integers(1, 40)).tolist() for _ in range(50)]
    built = built_of(lengths, 64, short_sequence_probability=0.0, one_segment_probability=0.0)
    sizes, anchors = np.diff(built.examples.offsets), built.examples.documents
    assert {*sizes[:-1][anchors[1:] == anchors[:-1]].tolist()} <= {63, 64}


def test_copies_differ() -> None:
    """Fails if every copy has the same segments."""
    built = built_of([[5] * 40] * 5, 40, 2)
    one, other = (built.examples.boundary[built.examples.copy == copy].tolist() for copy in (0, 1))
    assert one != other
