"""Perplexity and bits a byte: by hand."""

import math

import pytest

from trainer.tasks.kinds.next_word import compute_bits_per_byte, compute_perplexity


def test_perplexity_by_hand() -> None:
    assert compute_perplexity(0, 3) == 1
    assert compute_perplexity(math.log(4) + math.log(16), 2) == pytest.approx(8)
    assert compute_perplexity(1e6, 1) == math.inf
    assert compute_bits_per_byte(math.log(2) * 5, 2) == pytest.approx(2.5)
