"""Bands: kernel and definition agree, and pairs meet as often as the curve says."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from corpora.duplicates.bands import BandSettings, band_keys, band_keys_plain, probability
from corpora.duplicates.signatures import SignatureSettings, signatures
from corpora.errors import InputError
from corpora.kernels.arrays import UInt32s

SIGNATURES = arrays.arrays(np.uint32, st.tuples(st.integers(0, 4), st.just(24)), elements=st.integers(0, 2**32 - 1))


@given(signature=SIGNATURES, shape=st.sampled_from([(1, 1), (24, 1), (1, 24), (3, 7), (4, 6)]))
@examples(deadline=None)
def test_kernel_equals_the_definition(signature: UInt32s, shape: tuple[int, int]) -> None:
    chosen = BandSettings(bands=shape[0], rows=shape[1])
    keys = band_keys(signature, chosen)
    assert keys.shape == (len(signature), chosen.bands)
    assert np.array_equal(keys, band_keys_plain(signature, chosen))


def test_keys_are_equal_where_runs_are_and_nowhere_else() -> None:
    rng = np.random.default_rng(5)
    signature = rng.integers(0, 3, (300, 12), dtype=np.uint32)
    keys = band_keys(signature, BandSettings(bands=4, rows=3))
    runs = signature.reshape(300, 4, 3)
    equal_runs = (runs[:, None] == runs[None, :]).all(axis=3)
    assert equal_runs.any(axis=(0, 1)).all() and not equal_runs.all()
    assert np.array_equal(keys[:, None] == keys[None, :], equal_runs)


def test_equal_runs_of_different_bands_have_different_keys() -> None:
    assert len(set(band_keys(np.zeros((1, 12), np.uint32), BandSettings(bands=4, rows=3))[0].tolist())) == 4


def planted_pairs(num_pairs: int, common: int, own: int) -> pa.Array:
    """Texts in pairs with exact Jaccard similarity common / (common + 2 * own) of single words."""
    sides = [
        [f"{pair}c{word}" for word in range(common)] + [f"{pair}{side}{word}" for word in range(own)]
        for pair in range(num_pairs)
        for side in "lr"
    ]
    return pa.array([" ".join(side) for side in sides], pa.large_string())


@pytest.mark.parametrize(("common", "own"), [(80, 10), (60, 20), (45, 5)])
def test_planted_pairs_meet_with_the_stated_probability(common: int, own: int) -> None:
    """Within four standard errors of the binomial over 1,500 pairs."""
    sketches = signatures(planted_pairs(1500, common, own), SignatureSettings(shingle_words=1)).signature
    keys = band_keys(sketches, BandSettings())
    found = (keys[::2] == keys[1::2]).any(axis=1).mean()
    stated = probability(common / (common + 2 * own), 18, 7)
    assert abs(found - stated) < 4 * np.sqrt(stated * (1 - stated) / 1500) + 1e-9


def test_probability_at_the_default_threshold() -> None:
    assert probability(0.8, 18, 7) == pytest.approx(0.9856, abs=5e-4)
    assert probability(0.6, 18, 7) == pytest.approx(0.400, abs=5e-4)
    assert (probability(0, 18, 7), probability(1, 18, 7)) == (0, 1)


@pytest.mark.parametrize("wrong", [{"bands": 0}, {"rows": 0}])
def test_settings_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        BandSettings(**wrong)


def test_more_bands_than_the_signature_has_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="need 133 numbers"):
        band_keys(np.zeros((1, 128), np.uint32), BandSettings(bands=19, rows=7))
