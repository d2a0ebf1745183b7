"""Masks: kernel and twin alike, a function of the address alone, shares as asked for."""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int64s, UInt16s, UInt64s
from shards.masks import masking
from shards.masks.masking import (
    Masks,
    MaskSettings,
    build_mask_vocabulary,
    draw_masks,
    to_flat_positions,
)
from shards.masks.plain import draw_masks_plain

PAD, CLS, SEP, MASK, UNK = 0, 7, 8, 9, 20
SPECIALS = {"pad": PAD, "cls": CLS, "sep": SEP, "mask": MASK, "unk": UNK}


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary whose special tokens are among the others, as BERT's do."""

    size: int
    special_ids: dict[str, int]


WORDS = Vocabulary(1000, SPECIALS)
FACTS = build_mask_vocabulary(WORDS)
UNITS = ("token", "whole-word", "n-gram", "span")
ORDINARY = np.setdiff1d(np.arange(1000), list(SPECIALS.values()))


@dataclass(frozen=True)
class Batch:
    """Examples as flat columns."""

    ids: UInt16s
    offsets: Int64s
    word_starts: Bytes
    example_ids: UInt64s

    def masks(self, epoch: npt.ArrayLike, config: MaskSettings) -> Masks:
        return draw_masks(self.ids, self.offsets, self.word_starts, self.example_ids, epoch, config, FACTS)

    def plain(self, epoch: int, config: MaskSettings) -> Masks:
        return draw_masks_plain(self.ids, self.offsets, self.word_starts, self.example_ids, epoch, config, FACTS)

    def take(self, rows: list[int]) -> "Batch":
        """The examples of these rows, in this order."""
        spans = [slice(self.offsets[row], self.offsets[row + 1]) for row in rows]
        lengths = [self.offsets[row + 1] - self.offsets[row] for row in rows]
        return Batch(
            ids=np.concatenate([self.ids[span] for span in spans]),
            offsets=np.cumsum([0, *lengths], dtype=np.int64),
            word_starts=np.concatenate([self.word_starts[span] for span in spans]),
            example_ids=self.example_ids[rows],
        )


def batch_of(lengths: list[int], word_share: float = 0.7, special_share: float = 0.03, seed: int = 0) -> Batch:
    """Random examples of these lengths (at least 3) with specials inside, [CLS] and [SEP] around."""
    random = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    ids = random.choice(ORDINARY, offsets[-1]).astype(np.uint16)
    ids[random.random(len(ids)) < special_share] = UNK
    word_starts = (random.random(len(ids)) < word_share).astype(np.uint8)
    starts, ends = offsets[:-1], offsets[1:] - 1
    middles = random.integers(starts + 1, ends)
    for places, token in ((starts, CLS), (middles, SEP), (ends, SEP)):
        ids[places], word_starts[places] = token, 0
    return Batch(ids, offsets, word_starts, random.integers(0, 2**63, len(lengths)).astype(np.uint64))


def rows_of(masks: Masks) -> list[tuple[list[int], list[int]]]:
    """Positions and replacements of every example."""
    spans = [slice(*span) for span in zip(masks.offsets[:-1], masks.offsets[1:], strict=True)]
    return [(masks.positions[span].tolist(), masks.replacements[span].tolist()) for span in spans]


def num_ordinary(batch: Batch) -> Int64s:
    ordinary = FACTS.is_special[batch.ids] == 0
    return np.add.reduceat(ordinary.astype(np.int64), batch.offsets[:-1])


def deviation(found: int, total: int, share: float) -> float:
    """How many standard deviations a count lies from its expectation."""
    return abs(found - total * share) / float(np.sqrt(total * share * (1 - share)))


@given(
    st.lists(st.integers(3, 70), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from(UNITS),
    st.sampled_from(["exact", "probabilistic", "independent"]),
    st.sampled_from([0.01, 0.15, 0.5, 0.9, 1.0]),
    st.sampled_from([None, 1, 5, 1000]),
    st.integers(0, 2**64 - 1),
)
@examples(300)
def test_kernel_equals_the_plain_twin(
    lengths: list[int],
    word_share: float,
    special_share: float,
    unit: str,
    count: str,
    rate: float,
    cap: int | None,
    seed: int,
) -> None:
    batch = batch_of(lengths, word_share, special_share, seed % 1000)
    longest = 1 + seed % 12 if unit in ("n-gram", "span") and seed % 2 else None
    config = MaskSettings(
        unit=unit, count=count, rate=rate, max_predictions=cap, random_share=0.2, longest=longest, seed=seed
    )
    epoch = seed % 7
    before = batch.ids.copy()
    for left, right in zip(batch.masks(epoch, config), batch.plain(epoch, config), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(batch.ids, before)


@pytest.mark.parametrize("special", [[3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 999], list(range(0, 40, 2))])
def test_special_ids_are_found_however_they_lie(special: list[int]) -> None:
    """Fails if runs of special ids, or many of them, are counted wrongly: then another number is masked."""
    facts = build_mask_vocabulary(Vocabulary(1000, {"mask": special[-1], **{f"<{id}>": id for id in special[:-1]}}))
    random = np.random.default_rng(5)
    offsets = np.arange(41) * 50
    for dtype in (np.uint16, np.uint32):
        ids = random.integers(0, 60, 2000).astype(dtype)
        ids[random.random(2000) < 0.2] = special[-1]
        columns = (ids, offsets, np.ones(2000, np.uint8), np.arange(40, dtype=np.uint64))
        masks, plain = (draw(*columns, 3, MaskSettings(rate=0.4), facts) for draw in (draw_masks, draw_masks_plain))
        assert rows_of(masks) == rows_of(plain) and masks.replacements.dtype == dtype
        assert not np.isin(ids[to_flat_positions(offsets, masks)], special).any() and len(masks.positions) > 300


def test_golden() -> None:
    """The bytes of fixed masks; a change here changes every training run."""
    batch = batch_of([64] * 100)
    digests = {
        unit: sha256(b"".join(c.tobytes() for c in batch.masks(3, MaskSettings(unit=unit)))).hexdigest()[:16]
        for unit in UNITS
    }
    assert digests == {
        "token": "dc4804664426e01d",
        "whole-word": "2fdf849d4527bb34",
        "n-gram": "94c5d298f975d18c",
        "span": "00831548d17b9aec",
    }


@pytest.mark.parametrize("count", ["exact", "probabilistic", "independent"])
@pytest.mark.parametrize("unit", UNITS)
def test_masks_do_not_depend_on_the_batch(unit: str, count: str) -> None:
    batch = batch_of(np.random.default_rng(1).integers(3, 90, 200).tolist())
    config = MaskSettings(unit=unit, count=count)
    whole = rows_of(batch.masks(5, config))
    order = np.random.default_rng(2).permutation(200).tolist()
    assert rows_of(batch.take(order).masks(5, config)) == [whole[row] for row in order]
    for row in (0, 17, 199):
        assert rows_of(batch.take([row]).masks(5, config)) == [whole[row]]


@pytest.mark.parametrize("unit", UNITS)
def test_masks_do_not_depend_on_how_many_are_drawn_at_once(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a piece of a large call takes another's epochs, rates, words or places."""
    batch, config = batch_of([5, 70, 3, 40, 9, 130, 12] * 3), MaskSettings(unit=unit, count="probabilistic")
    epochs, rates = np.arange(21) % 4, np.linspace(0.1, 0.9, 21)
    columns = (batch.ids, batch.offsets, batch.word_starts, batch.example_ids, epochs, config, FACTS, rates)
    whole = draw_masks(*columns)
    for at_once in (1, 90, 600):
        monkeypatch.setattr(masking, "TOKENS_PER_CHUNK", at_once)
        for left, right in zip(draw_masks(*columns), whole, strict=True):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)


def test_the_address_counts() -> None:
    """Another epoch, seed or example id gives other masks, and about as many in common as chance would."""
    batch = batch_of([128] * 300)
    here = batch.masks(0, MaskSettings())
    others = {
        "epoch": batch.masks(1, MaskSettings()),
        "seed": batch.masks(0, MaskSettings(seed=43)),
        "example": Batch(batch.ids, batch.offsets, batch.word_starts, batch.example_ids + np.uint64(1)).masks(
            0, MaskSettings()
        ),
    }
    places = to_flat_positions(batch.offsets, here)
    for name, there in others.items():
        common = len(np.intersect1d(places, to_flat_positions(batch.offsets, there)))
        assert deviation(common, len(places), 0.15) < 4, name


def test_a_static_mask_of_a_copy_is_the_dynamic_one_of_that_epoch() -> None:
    batch = batch_of([40] * 60)
    copies = np.arange(60) % 3
    static = rows_of(batch.masks(copies, MaskSettings(kind="static")))
    for copy in range(3):
        dynamic = rows_of(batch.masks(copy, MaskSettings(kind="dynamic")))
        assert [static[row] for row in range(copy, 60, 3)] == dynamic[copy::3]
    assert static != rows_of(batch.masks(0, MaskSettings()))


@pytest.mark.parametrize(("rate", "cap"), [(0.15, None), (0.15, 7), (0.5, None), (1.0, None)])
def test_the_number_of_masks_is_the_rounded_share(rate: float, cap: int | None) -> None:
    batch = batch_of(np.random.default_rng(3).integers(3, 300, 500).tolist())
    masks = batch.masks(0, MaskSettings(rate=rate, max_predictions=cap))
    ordinary = num_ordinary(batch)
    expected = [min(max(1, round(n * rate)), cap or n) if n else 0 for n in ordinary.tolist()]
    assert np.diff(masks.offsets).tolist() == expected
    assert 0 in ordinary  # examples in which nothing can be masked are among them


@pytest.mark.parametrize("shares", [(0.8, 0.1), (0.0, 1.0), (0.5, 0.25)])
def test_shares_of_mask_random_and_kept(shares: tuple[float, float]) -> None:
    batch = batch_of([128] * 4000, special_share=0)
    masks = batch.masks(2, MaskSettings(mask_share=shares[0], random_share=shares[1]))
    labels = batch.ids[to_flat_positions(batch.offsets, masks)]
    total = len(labels)
    assert total == 4000 * 19
    masked = int((masks.replacements == MASK).sum())
    kept = int((masks.replacements == labels).sum())
    by_chance = shares[1] / len(ORDINARY)  # a random token that is the same token
    for found, share in ((masked, shares[0]), (kept, 1 - sum(shares) + by_chance)):
        assert found == 0 if share == 0 else deviation(found, total, share) < 3
    random = masks.replacements[(masks.replacements != MASK) & (masks.replacements != labels)]
    counts = np.bincount(random, minlength=1000)
    assert counts[list(SPECIALS.values())].sum() == 0
    expected = len(random) / len(ORDINARY)
    score = (((counts[ORDINARY] - expected) ** 2 / expected).sum() - 994) / np.sqrt(2 * 994)
    assert abs(score) < 4


def test_whole_words_are_masked_whole() -> None:
    batch = batch_of([100] * 500, word_share=0.6, special_share=0.02)
    masks = batch.masks(0, MaskSettings(unit="whole-word"))
    chosen = np.zeros(len(batch.ids), bool)
    chosen[to_flat_positions(batch.offsets, masks)] = True
    special = FACTS.is_special[batch.ids] == 1
    continues = (batch.word_starts[1:] == 0) & ~special[1:] & ~special[:-1]
    assert continues.sum() > 10_000
    assert np.all(chosen[1:][continues] == chosen[:-1][continues])
    wanted = [max(1, round(n * 0.15)) for n in num_ordinary(batch).tolist()]
    assert np.all(np.diff(masks.offsets) <= wanted)
    assert (np.diff(masks.offsets) == wanted).mean() > 0.95


def test_a_word_that_exceeds_the_number_is_skipped() -> None:
    """One word of eight pieces among single ones: with two masks wanted, it is never cut."""
    ids = np.array([CLS, *range(100, 108), *range(200, 205), SEP], np.uint16)
    word_starts = np.array([0, 1, *[0] * 7, *[1] * 5, 0], np.uint8)
    example_ids = np.arange(200, dtype=np.uint64)
    many = Batch(np.tile(ids, 200), np.arange(201) * 15, np.tile(word_starts, 200), example_ids)
    rows = rows_of(many.masks(0, MaskSettings(unit="whole-word")))
    assert {len(positions) for positions, _ in rows} == {2}
    assert {place for positions, _ in rows for place in positions} == set(range(9, 14))
    alone = Batch(ids[:9], np.array([0, 9]), word_starts[:9], np.array([1], np.uint64))
    assert rows_of(alone.masks(0, MaskSettings(unit="whole-word"))) == [([], [])]


def test_no_examples_have_no_masks() -> None:
    empty = batch_of([])
    assert rows_of(empty.masks(0, MaskSettings())) == []


def test_kind_none_masks_nothing_and_takes_no_other_setting() -> None:
    batch = batch_of([30] * 5)
    for masks in (batch.masks(0, MaskSettings(kind="none")), batch.plain(0, MaskSettings(kind="none"))):
        assert rows_of(masks) == [([], [])] * 5
    with pytest.raises(InputError, match=r'shards\.masking\.rate means nothing to kind = "none"'):
        MaskSettings(kind="none", rate=0.3)


def test_longest_means_something_to_units_of_words_alone() -> None:
    with pytest.raises(InputError, match=r"shards\.masking\.longest means nothing to unit = 'whole-word'"):
        MaskSettings(unit="whole-word", longest=2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "lazy"),
        ("unit", "word"),
        ("count", "some"),
        ("longest", 0),
        ("rate", 0.0),
        ("rate", 1.5),
        ("mask_share", 1.2),
        ("random_share", 0.3),
        ("max_predictions", 0),
        ("seed", -1),
    ],
)
def test_settings_out_of_range_are_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"shards\.masking\.{key}.* = .* [iI]t must be"):
        MaskSettings(**{key: value})  # type: ignore[arg-type]
