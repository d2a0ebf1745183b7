"""XXH3: the kernel has the bits of the library, whatever the length."""

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.kernels.hash128 import join_words, xxh3_128

DATA = np.random.default_rng(7).integers(0, 256, 70_000, dtype=np.uint8)
BLOCKS = (1024, 2048, 4096, 65536)


def kernel_hash(data: bytes, start: int, length: int) -> int:
    return join_words(xxh3_128(np.frombuffer(data, np.uint8), start, length, np.empty(8, np.uint64)))


def test_every_length_to_two_blocks() -> None:
    """Fails if a length is taken for one of another class, or a stripe or a block is read once too often."""
    data = DATA.tobytes()
    lengths = [
        *range(17, 2200),
        *(block + 64 * stripe + by for block in BLOCKS for stripe in (-1, 0, 1) for by in (-1, 0, 1)),
    ]
    for length in lengths:
        assert kernel_hash(data, 5, length) == xxhash.xxh3_128_intdigest(data[5 : 5 + length]), length


@examples(300)
@given(st.binary(max_size=40), st.integers(17, 1300), st.data())
def test_any_bytes_at_any_place(before: bytes, length: int, draw: st.DataObject) -> None:
    """Fails if bytes before or after those that are hashed count."""
    value = draw.draw(st.binary(min_size=1, max_size=64)) * length
    data = before + value[:length] + before
    assert kernel_hash(data, len(before), length) == xxhash.xxh3_128_intdigest(value[:length])


@pytest.mark.parametrize("byte", [0, 255])
def test_bytes_all_alike(byte: int) -> None:
    """Fails if a sum or a product loses its highest bits."""
    for length in (17, 128, 129, 240, 241, 1025, 5000):
        data = bytes([byte]) * length
        assert kernel_hash(data, 0, length) == xxhash.xxh3_128_intdigest(data)
