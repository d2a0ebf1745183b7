"""Numbers modulo 2^127 - 1: kernels equal Python's own arithmetic."""

from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples

from corpora.kernels.hash128 import PRIME, join_words, multiply_add, reduce_modulo, split_words

EDGES = [0, 1, 2, 2**63, 2**64 - 1, 2**64, 2**126, 2**127 - 2**64, PRIME - 2, PRIME - 1]
BELOW = st.sampled_from(EDGES) | st.integers(0, PRIME - 1)


@examples(500)
@given(st.sampled_from([PRIME, PRIME + 1, 2 * PRIME - 1, 2 * PRIME, 2 * PRIME + 1]) | st.integers(0, 2**128 - 1))
def test_any_number_of_128_bits_is_reduced(value: int) -> None:
    assert join_words(split_words(value)) == value
    assert join_words(reduce_modulo(*split_words(value))) == value % PRIME


@examples(500)
@given(BELOW, BELOW, BELOW)
@example(PRIME - 1, PRIME - 1, PRIME - 1)
def test_products_and_sums(one: int, other: int, added: int) -> None:
    """Fails if a carry is lost between words."""
    assert (
        join_words(multiply_add(split_words(one), split_words(other), split_words(added)))
        == (one * other + added) % PRIME
    )
