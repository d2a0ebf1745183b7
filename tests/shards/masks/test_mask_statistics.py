"""Masks as they are in the mean: what the papers say of shares and lengths, each within a stated number of sigma.

Randomness is addressed, so a figure here is the same every time: a bound holds or does not.
"""

from itertools import groupby

import numpy as np
import pytest

from corpora.kernels.arrays import Float64s, Int64s
from shards.masks.masking import (
    Masks,
    MaskSettings,
    ShardVocabulary,
    build_mask_vocabulary,
    compute_length_shares,
    draw_masks,
    to_flat_positions,
)

CLS, SEP, MASK = 0, 1, 2


FACTS = build_mask_vocabulary(ShardVocabulary(500, {"cls": CLS, "sep": SEP, "mask": MASK}))


class Texts:
    """Examples `[CLS] ... [SEP]` of one length. pieces: share of tokens that go on in a word"""

    def __init__(self, num: int, length: int, pieces: float = 0.0) -> None:
        random = np.random.default_rng(num)
        self.num, self.length = num, length
        self.offsets: Int64s = np.arange(num + 1) * length
        self.ids = random.integers(3, 500, num * length).astype(np.uint16)
        self.ids[self.offsets[:-1]], self.ids[self.offsets[1:] - 1] = CLS, SEP
        self.starts = (random.random(num * length) >= pieces).astype(np.uint8)

    def masks(self, settings: MaskSettings) -> Masks:
        names = np.arange(self.num, dtype=np.uint64)
        return draw_masks(self.ids, self.offsets, self.starts, names, 0, settings, FACTS)

    def chosen(self, masks: Masks) -> Int64s:
        """0 or 1 for every token, [examples, length]."""
        flags = np.zeros(len(self.ids), np.int64)
        flags[to_flat_positions(self.offsets, masks)] = 1
        return flags.reshape(self.num, self.length)


def sigmas(found: float, expected: float, variance: float) -> float:
    """How many standard deviations a figure lies from what is expected."""
    return float(abs(found - expected) / np.sqrt(variance))


def chi_square(counts: Float64s, expected: Float64s) -> float:
    """How many standard deviations a chi-square lies from its mean."""
    degrees = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - degrees) / np.sqrt(2 * degrees))


def test_a_probabilistic_count_is_rounded_by_chance_and_true_in_the_mean() -> None:
    """fairseq's int(p n + U): fails where it is always rounded alike, or another number comes out."""
    masks = Texts(8000, 52).masks(MaskSettings(count="probabilistic", rate=0.15))
    counts = np.diff(masks.offsets)  # of 50 ordinary tokens: 7.5
    assert {*counts.tolist()} == {7, 8}
    assert sigmas(counts.sum(), 8000 * 7.5, 8000 * 0.25) < 3


@pytest.mark.parametrize("rate", [0.15, 0.5, 0.77])
def test_independent_tokens_are_binomial_and_do_not_know_of_each_other(rate: float) -> None:
    """Fails if the rate, the spread of the numbers or the share of masked neighbours is another than of coins."""
    texts = Texts(6000, 102)
    chosen = texts.chosen(texts.masks(MaskSettings(count="independent", rate=rate)))[:, 1:-1]
    counts, spread = chosen.sum(1), 100 * rate * (1 - rate)
    assert sigmas(chosen.sum(), 600_000 * rate, 6000 * spread) < 3
    assert sigmas(counts.var(), spread, 2 * spread**2 / 6000 + spread / 6000) < 3
    for distance in (1, 2, 32, 64):
        both, pairs = (chosen[:, distance:] & chosen[:, :-distance]).sum(), 6000 * (100 - distance)
        variance = pairs * (rate**2 - rate**4 + 2 * (rate**3 - rate**4))  # neighbouring pairs share a token
        assert sigmas(both, pairs * rate**2, variance) < 3, distance


@pytest.mark.parametrize(("unit", "longest"), [("whole-word", None), ("n-gram", None), ("n-gram", 5), ("span", None)])
def test_lengths_of_ngrams_are_as_the_papers_say(unit: str, longest: int | None) -> None:
    """p(n) ~ 1/n up to 3, or geometric(0.2) cut off at 10. Fails where long ones are drawn too rarely or too often.

    Each n-gram is chosen by itself, so a run of masked words is one n-gram, or k of them with probability r^(k - 1).
    """
    rate = 0.08
    settings = MaskSettings(unit=unit, longest=longest, count="independent", rate=rate)
    texts = Texts(60, 10_002)
    runs = [
        len(list(group))
        for row in texts.chosen(texts.masks(settings))[:, 1:-30].tolist()  # the last n-gram may be cut short
        for masked, group in groupby(row)
        if masked
    ]
    shares = np.concatenate([[0.0], compute_length_shares(settings)])
    expected, several = np.zeros(60), np.array([1.0])
    for number in range(1, 6):
        several = np.convolve(several, shares)
        expected[: len(several)] += several * (1 - rate) * rate ** (number - 1)
    bins = [*range(1, 13)]
    cells = [n for n in bins if expected[n] * len(runs) > 20]
    found = np.array([sum(run == n for run in runs) for n in cells] + [sum(run not in cells for run in runs)])
    wanted = np.array([*expected[cells], 1 - expected[cells].sum()]) * len(runs)
    assert len(runs) > 8_000 and len(cells) >= 2
    assert abs(chi_square(found, wanted)) < 3


def test_the_mean_length_of_spans_is_the_papers() -> None:
    """Joshi et al. say 3.8 words; Lan et al. give 6/11, 3/11 and 2/11."""
    spans = compute_length_shares(MaskSettings(unit="span"))
    assert round(float(spans @ np.arange(1, 11)), 1) == 3.8
    np.testing.assert_allclose(compute_length_shares(MaskSettings(unit="n-gram")), np.array([6, 3, 2]) / 11)


def test_a_span_is_replaced_as_one_and_spans_are_split_as_asked() -> None:
    """Fails if tokens of one span are of several kinds, as those of n-grams are, or the shares are not of spans."""
    settings = {"rate": 0.02, "count": "independent", "mask_share": 0.5, "random_share": 0.3}
    for unit in ("span", "n-gram"):
        texts = Texts(300, 1_002)
        masks = texts.masks(MaskSettings(unit=unit, longest=4, **settings))  # type: ignore[arg-type]
        places = to_flat_positions(texts.offsets, masks)
        labels = texts.ids[places]
        kinds = np.where(masks.replacements == MASK, 0, np.where(masks.replacements == labels, 2, 1))
        runs = np.split(kinds, np.flatnonzero(np.diff(places) != 1) + 1)
        alike = float(np.mean([len({*run.tolist()}) == 1 for run in runs]))
        firsts = np.array([run[0] for run in runs])
        assert len(runs) > 1_500
        assert alike > 0.95 if unit == "span" else alike < 0.8
        for kind, share in enumerate((0.5, 0.3, 0.2)):
            assert sigmas((firsts == kind).sum(), len(runs) * share, len(runs) * share * (1 - share)) < 3


@pytest.mark.parametrize(("unit", "most"), [("token", 0.0), ("whole-word", 0.01), ("n-gram", 0.015), ("span", 0.035)])
def test_no_place_is_chosen_much_more_often_than_others(unit: str, most: float) -> None:
    """Fails if words near [CLS] or [SEP] are chosen oftener or more rarely by more than a few percent.

    `most` is what the cutting of the last n-gram may do; 4 sigma of a count come on top.
    """
    texts = Texts(20_000, 130)
    counts = texts.chosen(texts.masks(MaskSettings(unit=unit)))[:, 1:-1].sum(0)
    assert counts.sum() == 20_000 * 19
    sigma = np.sqrt(19 / 128 * (1 - 19 / 128) / 20_000) / (19 / 128)
    assert np.abs(counts / counts.mean() - 1).max() < most + 4 * sigma


@pytest.mark.parametrize("unit", ["whole-word", "n-gram", "span"])
def test_words_fill_the_number_of_masks(unit: str) -> None:
    """Fails if the last n-gram is dropped and not cut, or a bound is passed."""
    texts = Texts(3000, 130, pieces=0.3)
    counts = np.diff(texts.masks(MaskSettings(unit=unit)).offsets)
    assert counts.max() == 19 and (counts == 19).mean() > 0.99
    bound = np.diff(texts.masks(MaskSettings(unit=unit, count="independent", max_predictions=12)).offsets)
    assert bound.max() == 12 and bound.mean() > 10


def test_tokens_taken_out_for_the_bound_are_any() -> None:
    """Fails if `max_predictions` keeps the first ones of an example."""
    texts = Texts(10_000, 102)
    chosen = texts.chosen(texts.masks(MaskSettings(count="independent", rate=0.3, max_predictions=20)))[:, 1:-1]
    assert chosen.sum(1).max() == 20
    counts = chosen.sum(0)
    assert abs(chi_square(counts, np.full(100, counts.mean()))) < 4
