"""Perplexity and bits a byte: by hand."""

import math

import pytest

from corpora.errors import InputError
from trainer.tasks.scores.language import bits_per_byte, perplexity


def test_perplexity_by_hand() -> None:
    assert perplexity(0, 3) == 1
    assert perplexity(math.log(4) + math.log(16), 2) == pytest.approx(8)
    assert perplexity(1e6, 1) == math.inf
    assert bits_per_byte(math.log(2) * 5, 2) == pytest.approx(2.5)


@pytest.mark.parametrize(("nats", "tokens", "said"), [(1, 0, "no tokens"), (math.nan, 1, "is nan"), (-1, 1, "is -1")])
def test_what_is_no_cost_is_refused(nats: float, tokens: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        perplexity(nats, tokens)
