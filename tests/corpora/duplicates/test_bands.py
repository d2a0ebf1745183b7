"""Bands: kernel and definition agree, and pairs meet as often as the curve says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from corpora.duplicates.signatures import BandSettings, compute_band_keys, compute_band_keys_plain, compute_probability
from corpora.errors import InputError
from corpora.kernels.arrays import UInt32s

SIGNATURES = arrays.arrays(np.uint32, st.tuples(st.integers(0, 4), st.just(24)), elements=st.integers(0, 2**32 - 1))


@given(signature=SIGNATURES, shape=st.sampled_from([(1, 1), (24, 1), (1, 24), (3, 7), (4, 6)]))
@examples(deadline=None)
def test_kernel_equals_the_definition(signature: UInt32s, shape: tuple[int, int]) -> None:
    chosen = BandSettings(bands=shape[0], rows=shape[1])
    keys = compute_band_keys(signature, chosen)
    assert keys.shape == (len(signature), chosen.bands)
    assert np.array_equal(keys, compute_band_keys_plain(signature, chosen))


def test_keys_are_equal_where_runs_are_and_nowhere_else() -> None:
    rng = np.random.default_rng(5)
    signature = rng.integers(0, 3, (300, 12), dtype=np.uint32)
    keys = compute_band_keys(signature, BandSettings(bands=4, rows=3))
    runs = signature.reshape(300, 4, 3)
    equal_runs = (runs[:, None] == runs[None, :]).all(axis=3)
    assert equal_runs.any(axis=(0, 1)).all() and not equal_runs.all()
    assert np.array_equal(keys[:, None] == keys[None, :], equal_runs)


def test_probability_at_the_default_threshold() -> None:
    assert compute_probability(0.8, 18, 7) == pytest.approx(0.9856, abs=5e-4)
    assert compute_probability(0.6, 18, 7) == pytest.approx(0.400, abs=5e-4)
    assert (compute_probability(0, 18, 7), compute_probability(1, 18, 7)) == (0, 1)


def test_more_bands_than_the_signature_has_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="need 133 numbers"):
        compute_band_keys(np.zeros((1, 128), np.uint32), BandSettings(bands=19, rows=7))
