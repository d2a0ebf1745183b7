"""Segment pairs: kernel and twin alike, fair labels on any documents, every token accounted for."""

import re
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_documents import CLS, FIRST_ID, SEP, documents_of, many_documents, segments
from text_columns import assert_equal
from tiers import examples

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.store.ledger import Ledger
from shards.builders.contract import DocumentTokens
from shards.builders.segments.pairs import PairSettings, build_pairs
from shards.builders.segments.pairs_plain import build_pairs_plain
from shards.builders.segments.plan import SegmentPairs


def build(columns: DocumentTokens, config: PairSettings) -> tuple[SegmentPairs, tuple[Ledger, ...]]:
    return build_pairs(columns, config, cls_id=CLS, sep_id=SEP)


def document_of(columns: DocumentTokens, place: int) -> int:
    sentence = np.searchsorted(columns.sentences, place, side="right") - 1
    return int(np.searchsorted(columns.documents, sentence, side="right")) - 1


shapes = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=8), min_size=1, max_size=6)


@given(
    shapes,
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(5, 40),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.integers(1, 3),
    st.integers(0, 2**64 - 1),
)
@examples(150)
def test_kernel_equals_the_plain_twin(
    documents: list[list[int]], word_share: float, length: int, short: float, copies: int, seed: int
) -> None:
    columns = documents_of(documents, word_share)
    config = PairSettings(length=length, short_sequence_probability=short, copies=copies, seed=seed)
    pairs, ledgers = build(columns, config)
    plain_pairs, plain_ledgers = build_pairs_plain(columns, config, cls_id=CLS, sep_id=SEP)
    assert_equal(pairs, plain_pairs)
    assert ledgers == plain_ledgers


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_kernel_equals_the_plain_twin_on_long_sentences(dtype: npt.DTypeLike) -> None:
    """Sentences longer than an example, cut into pieces; both widths of ids."""
    columns = documents_of([[400, 3, 300], [90, 500], [2, 2, 2]], 0.7)
    columns = columns._replace(ids=columns.ids.astype(dtype))
    config = PairSettings(length=32, copies=4)
    pairs, ledgers = build(columns, config)
    assert pairs.ids.dtype == dtype and len(pairs.label) > 100
    plain, plain_ledgers = build_pairs_plain(columns, config, cls_id=CLS, sep_id=SEP)
    assert_equal(pairs, plain)
    assert ledgers == plain_ledgers


@pytest.mark.parametrize("most", [40, 300])
def test_kernel_equals_the_plain_twin_where_runs_are_too_many(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the share of the sentences that begin a run is another one, or their order."""
    columns, config = many_documents(30, 8, 9), PairSettings(length=40)
    every, _ = build(columns, config)
    monkeypatch.setattr("shards.builders.segments.partners.MAX_RUNS", most)
    pairs, ledgers = build(columns, config)
    plain, plain_ledgers = build_pairs_plain(columns, config, cls_id=CLS, sep_id=SEP)
    assert_equal(pairs, plain)
    assert ledgers == plain_ledgers
    assert pairs.partner.tolist() != every.partner.tolist()


def test_golden() -> None:
    """The bytes of a fixed corpus; a change here asks for a new build version of the shards."""
    pairs, _ = build(many_documents(50, 8, 20), PairSettings(length=64, copies=2))
    digest = sha256(b"".join(column.tobytes() for column in pairs)).hexdigest()
    assert (len(pairs.label), digest[:16]) == (229, "b4a499d0d825ec57")


def test_ledger_counts_what_stands_in_the_examples() -> None:
    columns = many_documents(400, 10, 40)
    pairs, ledgers = build(columns, PairSettings(length=48, copies=3))
    lengths, a_lengths = np.diff(pairs.offsets).astype(np.int64), pairs.boundary.astype(np.int64) - 2
    for copy, ledger in enumerate(ledgers):
        here = pairs.copy == copy
        follows, random = here & (pairs.label == 0), here & (pairs.label == 1)
        account = ledger.find_account("tokens")
        assert account.total == len(columns.ids) == sum(account.outcomes.values())
        assert account.outcomes["placed"] == (lengths[follows] - 3).sum() + a_lengths[random].sum()
        assert account.outcomes["truncated"] == 0
        assert ledger.figures["borrowed"] == (lengths - 3 - a_lengths)[random].sum() > 0
        lengths_of_partners = np.diff(columns.sentences[columns.documents])[pairs.partner[random]]
        long = sum(count for name, count in ledger.figures.items() if re.match(r"partners of (64|128|256|512)-", name))
        assert long == (lengths_of_partners >= 64).sum() > 0
        assert sum(n for name, n in ledger.figures.items() if name.startswith("partners of ")) == random.sum()
        assert (ledger.figures["next"], ledger.figures["random"]) == (follows.sum(), random.sum())


def test_every_token_is_placed_once_or_left_over() -> None:
    """Every B of label 0 begins where A ends, the next chunk where this one ended: after A where B is random."""
    columns = many_documents(200, 12, 50)
    pairs, (ledger,) = build(columns, PairSettings(length=40, short_sequence_probability=0.3))
    expected = dict(enumerate(columns.sentences[columns.documents[:-1]].tolist()))
    skipped = 0
    for index in range(len(pairs.label)):
        a, b = segments(pairs, index)
        assert np.all(np.diff(a) == 1) and np.all(np.diff(b) == 1)
        anchor = int(pairs.anchor[index])
        assert a[0] >= expected[anchor]
        skipped += int(a[0]) - expected[anchor]
        expected[anchor] = int(a[-1]) + 1
        if pairs.label[index] == 0:
            assert b[0] == a[-1] + 1
            expected[anchor] = int(b[-1]) + 1
    ends = columns.sentences[columns.documents[1:]]
    skipped += sum(int(ends[anchor]) - at for anchor, at in expected.items())
    account = ledger.find_account("tokens")
    assert skipped == account.outcomes["left_over"] > 0
    assert account.outcomes["placed"] == len(columns.ids) - skipped
    assert {0, 1} == set(pairs.label.tolist())


@given(shapes, st.sampled_from([0.3, 1.0]), st.integers(5, 40), st.integers(0, 2**64 - 1))
@examples(100)
def test_a_random_next_looks_as_the_true_one(
    documents: list[list[int]], word_share: float, length: int, seed: int
) -> None:
    """Fails if the length, the begin or the end of a random B differs from that of the text after A."""
    columns = documents_of(documents, word_share)
    pairs, _ = build(columns, PairSettings(length=length, seed=seed, copies=3))
    for index in range(len(pairs.label)):
        a, b = segments(pairs, index)
        true = np.arange(a[-1] + 1, a[-1] + 1 + len(b))
        assert document_of(columns, true[-1]) == pairs.anchor[index]
        if pairs.label[index] == 0:
            assert np.array_equal(b, true) and pairs.partner[index] == pairs.anchor[index]
        else:
            assert document_of(columns, b[0]) == document_of(columns, b[-1]) == pairs.partner[index]
            assert pairs.partner[index] != pairs.anchor[index]
            assert look_of(columns, b) == look_of(columns, true)


def look_of(columns: DocumentTokens, text: Int64s) -> tuple[bool, ...]:
    """Return whether a text begins and ends at a word, at a sentence, with a document; and whether it is a run."""
    bounds, ends = set(columns.sentences.tolist()), set(columns.sentences[columns.documents].tolist())
    words = {*np.flatnonzero(columns.word_starts).tolist(), len(columns.ids)}
    first, stop = int(text[0]), int(text[-1]) + 1
    is_whole = first in bounds and stop in bounds
    inside = is_whole or not bounds & {*range(first + 1, stop)}
    return first in words, first in bounds, stop in words, stop in bounds, stop in ends, inside


def test_every_run_that_fits_is_as_probable() -> None:
    """Fails if partners of whole sentences are not drawn from all runs of their length alike."""
    columns = documents_of([[5] * 6 for _ in range(40)], 0.7)
    config = PairSettings(length=23, copies=400, short_sequence_probability=0)
    pairs, _ = build(columns, config)
    random = np.flatnonzero((pairs.label == 1) & (pairs.ordinal == 0))  # the first four sentences: B ends no document
    lengths = np.diff(pairs.offsets)[random].astype(int) - pairs.boundary[random] - 1
    starts = pairs.ids[pairs.offsets[random] + pairs.boundary[random]].astype(np.int64) - FIRST_ID
    sentence = np.searchsorted(columns.sentences, starts[lengths == 5]) % 6
    counts = np.bincount(sentence, minlength=6)
    assert counts[0] == counts[5] == 0  # B begins no document, as no true next does, and ends none
    expected = counts.sum() / 4
    assert expected > 500
    assert ((counts[1:5] - expected) ** 2 / expected).sum() < 3 + 4 * np.sqrt(2 * 3)
    distance = (pairs.partner[random] - pairs.anchor[random]) % 40
    counts = np.bincount(distance, minlength=40)
    assert counts[0] == 0
    expected = len(random) / 39
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 38 + 4 * np.sqrt(2 * 38)


def test_single_words_are_left_over_whatever_their_label() -> None:
    columns = documents_of([[1]] * 50 + [[6]] * 50, 0.0)
    pairs, (ledger,) = build(columns, PairSettings())
    assert len(pairs.label) == 0 and pairs.offsets.tolist() == [0]
    assert ledger.find_account("tokens").outcomes == {"placed": 0, "truncated": 0, "left_over": 350}
    assert ledger.figures["one_word"] == 100


def test_a_single_document_has_no_partner_and_no_label() -> None:
    columns = documents_of([[9, 9, 9, 9]], 0.7)
    pairs, (ledger,) = build(columns, PairSettings(length=16, short_sequence_probability=0))
    assert len(pairs.label) == 0
    assert ledger.find_account("tokens").outcomes["left_over"] == 36
    assert ledger.figures["without_partner"] == 1


def test_no_documents_give_no_examples() -> None:
    pairs, (ledger,) = build(documents_of([], 0.7), PairSettings())
    assert len(pairs.label) == 0 and ledger.find_account("tokens").total == 0


def test_copies_are_built_apart_and_differ() -> None:
    columns = many_documents(100, 10, 30)
    alone, _ = build(columns, PairSettings(copies=1))
    together, _ = build(columns, PairSettings(copies=3))
    num = len(alone.label)
    for name in ("boundary", "label", "anchor", "partner", "ordinal", "copy", "example_id"):
        np.testing.assert_array_equal(getattr(together, name)[:num], getattr(alone, name))
    np.testing.assert_array_equal(together.ids[: len(alone.ids)], alone.ids)
    assert len(np.unique(together.example_id)) == len(together.example_id)
    by_copy = [together.label[together.copy == copy][:50].tolist() for copy in range(3)]
    assert by_copy[0] != by_copy[1] != by_copy[2] != by_copy[0]


def test_another_order_of_documents_changes_only_the_partners() -> None:
    documents = np.random.default_rng(5).integers(1, 20, (60, 7)).tolist()
    forward, backward = documents_of(documents, 1.0), documents_of(documents[::-1], 1.0)
    backward = backward._replace(keys=forward.keys[::-1].copy())
    there, back = (build(columns, PairSettings(length=40, short_sequence_probability=0.2))[0]
                   for columns in (forward, backward))  # fmt: skip
    place = {example: index for index, example in enumerate(back.example_id.tolist())}
    assert sorted(place) == sorted(there.example_id.tolist())
    for index, example in enumerate(there.example_id.tolist()):
        other = place[example]
        assert (there.label[index], there.ordinal[index]) == (back.label[other], back.ordinal[other])
        if there.label[index] == 0:
            lengths = [np.diff(pairs.offsets)[at] for pairs, at in ((there, index), (back, other))]
            assert lengths[0] == lengths[1] and there.boundary[index] == back.boundary[other]


def test_the_target_is_drawn_for_every_chunk() -> None:
    columns = documents_of([[2] * 3000, [2] * 3000], 0.7)
    lengths = {
        share: np.diff(build(columns, PairSettings(length=64, short_sequence_probability=share))[0].offsets)
        for share in (0.0, 0.5, 1.0)
    }
    short = {share: float((lengths[share] < 60).mean()) for share in lengths}
    assert short[0.0] < 0.03  # the ends of the two documents
    assert 0.4 < short[0.5] < 0.5 and short[1.0] > 0.85
    assert len(np.unique(lengths[1.0])) > 25


@pytest.mark.parametrize(
    ("key", "value"),
    [("length", 4), ("length", 65536), ("short_sequence_probability", 1.1), ("copies", 0), ("seed", -1)],
)
def test_settings_out_of_range_name_key_value_and_range(key: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"shards\.{key} = {value} is out of range: it must be between "):
        PairSettings(**{key: value})  # type: ignore[arg-type]
