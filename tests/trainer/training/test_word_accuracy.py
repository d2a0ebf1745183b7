"""The accuracy on rarer words, held to its definition."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainer.evaluation import count_right
from trainer.feed import find_commonest, find_rarer_words

MASKED = st.lists(st.tuples(st.integers(0, 11), st.booleans(), st.integers(0, 11)), max_size=40)


@given(st.lists(st.integers(0, 6), min_size=12, max_size=12), st.integers(0, 15), MASKED)
def test_counts_are_those_of_the_definition(
    occurrences: list[int], number: int, masked: list[tuple[int, bool, int]]
) -> None:
    """Fails if a common piece, the middle of a word or a wrong guess counts as a word that was guessed."""
    ranked = sorted(range(12), key=lambda token: (-occurrences[token], token))
    words = [(token, guess) for token, starts, guess in masked if starts and token not in ranked[:number]]
    targets = np.array([token for token, _, _ in masked], np.uint16)
    starts = np.array([starts for _, starts, _ in masked], bool)
    guesses = np.array([guess for _, _, guess in masked], np.int64)
    gathered = SimpleNamespace(targets=targets, word_starts=starts)
    counted = find_rarer_words(gathered, find_commonest(np.array(occurrences), number))  # type: ignore[arg-type]
    found = count_right(counted, targets, guesses).tolist()
    assert found == [sum(token == guess for token, guess in words), len(words)]
