"""Scores of answers: cases from the definition of SQuAD's scripts, and thresholds tried one by one."""

import re
import string
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.tasks.kinds.answers import (
    compute_answer_scores,
    compute_optional_answer_scores,
    find_best_match,
    find_best_threshold,
    normalize_answer,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Cat", "cat"),
        ("a an the", ""),
        ("an anthem, then another", "anthem then another"),  # articles are words
        ("U.S.", "us"),
        ("The-end", "theend"),  # punctuation goes before articles
        ("a\u00a0b\tc\n d", "b c d"),
        ("10,000 %", "10000"),
        ("“Á la” … Éa", "“á la” … éa"),  # ASCII's punctuation alone
        ("", ""),
    ],
)
def test_normal_forms(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("golds", "answer", "exact", "f1"),
    [
        (["the Denver Broncos"], "denver broncos!", 1, 1),
        (["Denver Broncos"], "Broncos", 0, 2 / 3),
        (["a b c", "x y"], "x y z", 0, 4 / 5),
        (["to be or not to be"], "to be be", 0, 2 * 3 / 9),  # bags: to once, be twice
        (["x y", "y"], "y x", 0, 1),  # the two scores are of different gold answers
        (["cat"], "", 0, 0),
        (["cat"], "the", 0, 0),
        ([""], "", 1, 1),
        ([""], "cat", 0, 0),
        ([], "", 1, 1),
        ([], "an", 1, 1),
    ],
)
def test_matches_by_hand(golds: list[str], answer: str, exact: float, f1: float) -> None:
    assert find_best_match(golds, answer) == pytest.approx((exact, f1))


Texts = st.lists(st.sampled_from(["the", "A", "cat", "Cat.", "dog", "-", "é", "a-b", " "]), max_size=5).map(" ".join)


@given(Texts, Texts)
def test_a_match_equals_its_definition(gold: str, answer: str) -> None:
    """Precision and recall of the tokens, and their harmonic mean."""
    wanted, found = (_tokens(text) for text in (gold, answer))
    common = sum((Counter(wanted) & Counter(found)).values())
    precision, recall = common / max(1, len(found)), common / max(1, len(wanted))
    f1 = 2 * precision * recall / (precision + recall) if common else float(wanted == found)
    assert find_best_match([gold], answer) == pytest.approx((float(wanted == found), f1))


def _tokens(text: str) -> list[str]:
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def test_means_over_questions() -> None:
    found = compute_answer_scores([["Paris", "paris, France"], ["in 1066"], ["x"]], ["Paris France", "1066", "y"])
    assert found == pytest.approx({"exact": 1 / 3, "f1": (1 + 2 / 3 + 0) / 3})


GOLDS = [["cat"], ["big dog", "a"], list[str](), list[str]()]
ANSWERS = ["cat", "dog", "", "bird"]
KINDS = ("exact", "f1", "has_answer_exact", "has_answer_f1", "no_answer_exact", "no_answer_f1")


def test_questions_without_answer_by_hand() -> None:
    found = compute_optional_answer_scores(GOLDS, ANSWERS, [0.0] * 4)
    wanted = (2 / 4, (1 + 2 / 3 + 1 + 0) / 4, 1 / 2, (1 + 2 / 3) / 2, 1 / 2, 1 / 2)
    assert tuple(found[kind] for kind in KINDS) == pytest.approx(wanted)


def test_gold_answers_that_are_empty_in_normal_form() -> None:
    """Next to others they do not count; alone they are answered right by nothing, though the question has an answer."""
    found = compute_optional_answer_scores([["cat", "the"], ["the"], ["an"]], ["", "", "cat"], [0.0] * 3)
    assert [found.get(kind) for kind in KINDS] == [pytest.approx(1 / 3)] * 4 + [None] * 2


def test_thresholds_by_hand() -> None:
    """q4 is left unanswered above .5, which is right; above .1 q2 as well, which costs its share of F1."""
    found = compute_optional_answer_scores(GOLDS, ANSWERS, [0.1, 0.5, 0.2, 0.9], threshold=0.4)
    assert (found["exact"], found["f1"]) == pytest.approx((3 / 4, 3 / 4))
    assert (found["best_exact"], found["best_exact_threshold"]) == pytest.approx((3 / 4, 0.1))
    assert (found["best_f1"], found["best_f1_threshold"]) == pytest.approx(((3 + 2 / 3) / 4, 0.5))


@pytest.mark.parametrize("values", [[0.3, 0.8], [0.0, 0.8], [-4.0, 3.0]])
def test_nothing_answered_is_tried(values: list[float]) -> None:
    best = find_best_threshold(np.zeros(2), np.array([False] * 2), np.array([True] * 2), np.array(values))
    assert best.score == 1 and best.value <= 0 and all(value > best.value for value in values)


def official(scores: dict[int, float], has: dict[int, bool], texts: dict[int, str], odds: dict[int, float]) -> float:
    """The best score as `find_best_thresh` of evaluate-v2.0.py is described to find it: question after question."""
    current = best = sum(not has[number] for number in has)
    for number in sorted(odds, key=lambda number: odds[number]):
        current += scores[number] if has[number] else -1 if texts[number] else 0
        best = max(best, current)
    return best / len(has)


Rows = st.lists(
    st.tuples(st.sampled_from(["cat", "cat dog", "the", ""]), st.sampled_from([["cat"], [], ["a"]]), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)


@given(Rows)
def test_the_best_is_that_of_the_official_script(rows: list[tuple[str, list[str], int]]) -> None:
    """Fails if an answer that is nothing in its normal form costs nothing, or equal values are taken at once."""
    texts, golds, odds = zip(*rows, strict=True)
    scores = compute_optional_answer_scores(golds, texts, odds)
    for number, name in enumerate(("exact", "f1")):
        own = {at: find_best_match(golds[at], text)[number] for at, text in enumerate(texts)}
        has = {at: bool(each) for at, each in enumerate(golds)}
        wanted = official(own, has, dict(enumerate(texts)), dict(enumerate(odds)))
        assert scores[f"best_{name}"] == pytest.approx(wanted, abs=1e-12)
