"""Survivors: the bulk form equals the rule, the rule equals its definition, and keeps its promises."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import assert_equal
from tiers import examples

from corpora.duplicates import survivors, sweep
from corpora.duplicates.signatures import compute_band_keys, compute_signatures
from corpora.duplicates.survivors import (
    CONTAINED,
    RULES,
    DuplicateSettings,
    Verdicts,
    judge_duplicates,
    judge_duplicates_plain,
)
from corpora.duplicates.sweep import KEPT, MAX_BLOCK_DOCUMENTS, NO_PLACE, find_shared_rows
from corpora.duplicates.verify import Overlaps, ShingleSets, build_shingle_sets, count_common_plain
from corpora.kernels.arrays import Int64s, UInt64s

UNIVERSE = 9
SETS = st.lists(st.frozensets(st.integers(1, UNIVERSE), max_size=6), max_size=24)
CHOICES = st.builds(
    DuplicateSettings,
    threshold=st.sampled_from([0.2, 0.4, 0.5, 0.8, 1.0]),
    max_bucket_comparisons=st.sampled_from([1, 2, 3, 1000]),
    rule=st.sampled_from(RULES),
)
# Four bands: the first element of a set under each of four fixed orders of the universe, as in MinHash.
ORDERS = np.random.default_rng(11).permuted(np.tile(np.arange(1, UNIVERSE + 1), (4, 1)), axis=1)


def as_sets(sets: Sequence[frozenset[int]]) -> ShingleSets:
    values = [value for one in sets for value in sorted(one)]
    return ShingleSets(np.array(values, np.uint64), np.cumsum([0, *map(len, sets)]))


def min_keys(sets: Sequence[frozenset[int]]) -> UInt64s:
    keys = [[min((order[value - 1] for value in one), default=0) for order in ORDERS] for one in sets]
    return np.array(keys, np.uint64).reshape(-1, 4)


def crowded_hashes(sets: Sequence[frozenset[int]]) -> UInt64s:
    """Set hashes that many different sets share; zero for the empty set alone."""
    return np.array([1 + sum(one) % 3 if one else 0 for one in sets], np.uint64)


def judge(sets: Sequence[frozenset[int]], chosen: DuplicateSettings, num_given: int = 0) -> Verdicts:
    return judge_duplicates(crowded_hashes(sets), min_keys(sets), as_sets(sets), chosen, num_given)


@given(
    sets=SETS,
    chosen=CHOICES,
    block=st.sampled_from([1, 2, 5, MAX_BLOCK_DOCUMENTS]),
    pairs=st.sampled_from([1, 4, 100]),
    given=st.integers(0, 9),
)
@examples(500)
def test_bulk_form_equals_the_rule(
    sets: list[frozenset[int]], chosen: DuplicateSettings, block: int, pairs: int, given: int
) -> None:
    """Whatever the blocks, with hashes that collide, buckets that overflow and documents that are given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survivors, "MAX_BLOCK_DOCUMENTS", block)
        patch.setattr(survivors, "PAIRS_PER_CALL", pairs)
        patch.setattr(sweep, "PAIRS_PER_CALL", pairs)
        bulk = judge(sets, chosen, given)
    assert_equal(bulk, judge_duplicates_plain(crowded_hashes(sets), min_keys(sets), as_sets(sets), chosen, given))
    assert (bulk.survivor[:given] == KEPT).all()


@given(sets=SETS, chosen=CHOICES)
@examples(200)
def test_rule_equals_its_definition_where_all_share_a_band(
    sets: list[frozenset[int]], chosen: DuplicateSettings
) -> None:
    """Without buckets, limits and collapsing: compare with all kept ones before, take the best."""
    survivor: list[int] = []
    for document, own in enumerate(sets):
        similar = [
            (Fraction(len(own & sets[other]), len(own | sets[other])), -other)
            for other in range(document)
            if survivor[other] == KEPT and own | sets[other] and (chosen.rule != CONTAINED or own <= sets[other])
        ]
        best = max((pair for pair in similar if pair[0] >= Fraction(str(chosen.threshold))), default=(0, -KEPT))
        survivor.append(-best[1])
    unlimited = DuplicateSettings(threshold=chosen.threshold, rule=chosen.rule)
    one_bucket = np.zeros((len(sets), 1), np.uint64)
    verdicts = judge_duplicates(crowded_hashes(sets), one_bucket, as_sets(sets), unlimited)
    assert verdicts.survivor.tolist() == survivor


@given(sets=SETS, chosen=CHOICES, num_first=st.integers(0, 24))
@settings(deadline=None)
def test_what_comes_later_changes_nothing_before_it(
    sets: list[frozenset[int]], chosen: DuplicateSettings, num_first: int
) -> None:
    first, all_of_them = judge(sets[:num_first], chosen), judge(sets, chosen)
    for part, whole in zip(first[:4], all_of_them[:4], strict=True):
        assert np.array_equal(part, whole[:num_first])


@given(sets=SETS, chosen=CHOICES, pick=st.integers(0))
@settings(deadline=None)
def test_removed_documents_have_no_say(sets: list[frozenset[int]], chosen: DuplicateSettings, pick: int) -> None:
    """Judged again without one of the removed documents, all others fare as before."""
    before = judge(sets, chosen)
    removed = np.flatnonzero(before.survivor != KEPT)
    if len(removed):
        gone = int(removed[pick % len(removed)])
        after = judge([*sets[:gone], *sets[gone + 1 :]], chosen)
        moved = np.delete(before.survivor, gone)
        assert after.survivor.tolist() == (moved - (moved > gone)).tolist()
        assert np.array_equal(after.similarity, np.delete(before.similarity, gone))
        assert np.array_equal(after.missing, np.delete(before.missing, gone))


@given(sets=SETS, chosen=CHOICES)
@settings(deadline=None)
def test_every_removal_names_a_kept_survivor_that_is_similar_enough(
    sets: list[frozenset[int]], chosen: DuplicateSettings
) -> None:
    verdicts, keys = judge(sets, chosen), min_keys(sets)
    for document, survivor in enumerate(verdicts.survivor.tolist()):
        if survivor == KEPT:
            assert verdicts.similarity[document] == 0 and not verdicts.exact[document]
            continue
        common, union = count_common_plain(as_sets(sets), document, survivor)
        assert survivor < document and verdicts.survivor[survivor] == KEPT
        assert (keys[document] == keys[survivor]).any()
        assert Fraction(common, union) >= Fraction(str(chosen.threshold))
        assert verdicts.similarity[document] == np.float32(common / union)
        assert verdicts.exact[document] == (sets[document] == sets[survivor])
        lost = sets[document] - sets[survivor]
        assert verdicts.missing[document] == np.float32(len(lost) / len(sets[document]))
        assert not lost or chosen.rule != CONTAINED


def in_one_bucket(sets: Sequence[frozenset[int]], **chosen: float) -> Verdicts:
    hashes = np.array([hash(one) & 0xFFFF | 1 for one in sets], np.uint64)
    wanted = DuplicateSettings(**chosen)  # type: ignore[arg-type]
    return judge_duplicates(hashes, np.zeros((len(sets), 1), np.uint64), as_sets(sets), wanted)


def run(start: int, end: int) -> frozenset[int]:
    return frozenset(range(start, end))


def test_no_chain_removes_both_its_ends() -> None:
    """Each is similar to the next (8/10), the first is not to the third (7/11): these two stay."""
    verdicts = in_one_bucket([run(0, 9), run(1, 10), run(2, 11), run(3, 12)], threshold=0.7)
    assert verdicts.survivor.tolist() == [KEPT, 0, KEPT, 2]
    assert verdicts.similarity.tolist() == [0, np.float32(0.8), 0, np.float32(0.8)]


def test_documents_of_the_empty_set_meet_no_other() -> None:
    empty: frozenset[int] = frozenset()
    verdicts = judge([empty, empty, frozenset({1}), frozenset({1}), empty], DuplicateSettings(threshold=0.1))
    assert verdicts.survivor.tolist() == [KEPT, KEPT, KEPT, 2, KEPT]


def test_the_limit_is_counted_and_does_not_spare_exact_copies() -> None:
    """Five strangers, then a near-duplicate and a copy of the last, in one bucket where two are compared."""
    strangers = [run(10 * number, 10 * number + 10) for number in range(5)]
    sets = [*strangers, run(40, 50) | {99}, run(40, 50)]
    verdicts = in_one_bucket(sets, max_bucket_comparisons=2)
    assert verdicts.survivor.tolist() == [KEPT, KEPT, KEPT, KEPT, KEPT, KEPT, 4]
    assert verdicts.num_compared == 0 + 1 + 2 + 2 + 2 + 2
    assert verdicts.num_cut == 0 + 0 + 0 + 1 + 2 + 3
    assert in_one_bucket(sets).survivor.tolist() == [KEPT, KEPT, KEPT, KEPT, KEPT, 4, 4]


def test_one_huge_bucket_asks_for_a_bounded_number_of_pairs() -> None:
    """6,000 strangers in one bucket are 18 million pairs; with a limit of 10 there is no need of so many."""
    sets = ShingleSets(np.arange(6000, dtype=np.uint64), np.arange(6001))
    asked = []

    class Counted:
        def load(self, documents: Int64s) -> None:
            asked.append(0)

        def compute_overlaps(self, left: Int64s, right: Int64s) -> Overlaps:
            asked.append(len(left))
            return sets.compute_overlaps(left, right)

    hashes, chosen = np.arange(1, 6001, dtype=np.uint64), DuplicateSettings(max_bucket_comparisons=10)
    verdicts = judge_duplicates(hashes, np.zeros((6000, 1), np.uint64), Counted(), chosen)
    assert (verdicts.survivor == KEPT).all()
    assert verdicts.num_compared == 45 + 10 * 5990
    assert verdicts.num_cut == sum(range(5990))
    assert verdicts.num_compared <= sum(asked) < verdicts.num_compared + MAX_BLOCK_DOCUMENTS * MAX_BLOCK_DOCUMENTS


@given(st.lists(st.integers(0, 40), max_size=80), st.integers(0, 6), st.data())
@examples(60)
def test_shared_rows_are_those_of_keys_that_several_have(keys: list[int], spread: int, data: st.DataObject) -> None:
    """Fails if a key that others have is lost among the bits, or a row comes through that is alone or out."""
    places = [data.draw(st.sampled_from([0, 0, 0, NO_PLACE])) for _ in keys]
    column = np.array([key << 8 * spread for key in keys], np.uint64)
    rows, sizes = find_shared_rows(column, np.array(places, np.int32))
    there = Counter(key for key, place in zip(keys, places, strict=True) if place != NO_PLACE)
    expected = {key: number for key, number in sorted(there.items()) if number > 1}
    assert sizes.tolist() == [*expected.values()]
    assert [keys[row] for row in rows.tolist()] == [key for key, number in expected.items() for _ in range(number)]
    assert len({*rows.tolist()}) == len(rows) and all(places[row] != NO_PLACE for row in rows.tolist())


def edited_texts(num_documents: int) -> list[str]:
    """Texts of 120 words, a third of them copies of an earlier one with up to five words changed."""
    rng = np.random.default_rng(8)
    texts: list[Int64s] = []
    for number in range(num_documents):
        words = rng.integers(0, 5000, 120)
        if number % 3 == 2:
            words = texts[rng.integers(number)].copy()
            num_edits = number // 3 % 6
            words[rng.integers(0, 120, num_edits)] = rng.integers(0, 5000, num_edits)
        texts.append(words)
    return [" ".join(f"w{word}" for word in words) for words in texts]


def test_from_text_to_verdicts() -> None:
    """The whole way: bulk equals plain, and nearly all that comparing all with all removes is found."""
    texts, chosen = pa.array(edited_texts(900), pa.large_string()), DuplicateSettings()
    sketch = compute_signatures(texts, chosen.signature)
    keys = compute_band_keys(sketch.signature, chosen.band)
    store = build_shingle_sets(texts, chosen.shingle_words)
    verdicts = judge_duplicates(sketch.set_hash, keys, store, chosen)
    assert_equal(verdicts, judge_duplicates_plain(sketch.set_hash, keys, store, chosen))
    everything = judge_duplicates(sketch.set_hash, np.zeros((900, 1), np.uint64), store, chosen)
    num_found, num_there = ((each.survivor != KEPT).sum() for each in (verdicts, everything))
    assert num_there > 100
    assert 0.97 * num_there <= num_found <= num_there
    assert verdicts.exact.sum() > 30
