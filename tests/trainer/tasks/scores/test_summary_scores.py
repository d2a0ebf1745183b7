"""ROUGE: by hand, by the definition of a longest common subsequence, by rouge-score."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from trainer.tasks.scores.summary import common_length, rouge, rouge_scores

WORDS = st.lists(st.sampled_from("abc"), max_size=7)


def test_by_hand() -> None:
    """Gold a b c d, answered a c b: words 3/3 and 3/4, no pair in common, a b or a c as subsequence."""
    found = rouge("A b-c d.", "a C b")
    assert found == pytest.approx({"rouge1": 6 / 7, "rouge2": 0, "rougeL": 4 / 7, "rougeLsum": 4 / 7})


def test_sentences_by_hand() -> None:
    """Lin 2004, section 3.2: w1 w2 and w1 w3 w5 unite to 4 of 5 words; 2 * 4/5 * 4/10 over their sum."""
    assert rouge("w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5")["rougeLsum"] == pytest.approx(8 / 15)


@given(WORDS, WORDS)
def test_the_longest_common_subsequence(one: list[str], other: list[str]) -> None:
    """All subsequences are tried."""
    lengths = [n for n in range(len(one) + 1) if {*combinations(one, n)} & {*combinations(other, n)}]
    assert common_length(one, other) == common_length(other, one) == max(lengths)


TEXTS = st.lists(st.sampled_from(["a", "B", "b1", "cat", "é", "x-y", "\n", "\n", "."]), max_size=25).map(" ".join)


@examples(60)
@given(TEXTS, TEXTS)
def test_equal_to_rouge_score(answer: str, gold: str) -> None:
    module: Any = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = module.RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"])
    expected = {name: score.fmeasure for name, score in scorer.score(gold, answer).items()}
    assert rouge(gold, answer) == pytest.approx(expected)


def test_texts_without_words() -> None:
    assert rouge_scores(["", "…", "a"], ["", "a", "é"]) == dict.fromkeys(("rouge1", "rouge2", "rougeL", "rougeLsum"), 0)
