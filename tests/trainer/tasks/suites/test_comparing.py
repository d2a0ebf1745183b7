"""Two models compared on judged splits that are written by hand."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_suites import answered, suite_task

from corpora.errors import InputError
from trainer.tasks.kinds.choices import ChoiceExample, ChoiceTask
from trainer.tasks.kinds.next_word import NextTask, TextCost
from trainer.tasks.kinds.tags import TagsTask
from trainer.tasks.kinds.texts import ClassesTask, TextExample
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask, VectorExample
from trainer.tasks.suites.compare import adjust_p_values, compare_models, iter_comparison_lines
from trainer.tasks.suites.split_scores import JudgedSplit, run_paired_randomization, score_predictions
from trainer.tasks.suites.suite import Suite
from trainer.tasks.suites.table import compute_bounds

SUITE = Suite(
    name="three",
    seeds=(1, 2),
    tasks=tuple(suite_task(name, ("dev", ("accuracy",))) for name in ("far", "near", "same")),
    average=False,
)


def found(**right: int) -> dict[tuple[str, int, str], JudgedSplit]:
    return {(task, seed, "dev"): answered(number) for task, number in right.items() for seed in SUITE.seeds}


def test_what_is_told_apart_is_said_and_what_is_not() -> None:
    told = compare_models(SUITE, ("mine", "theirs"), found(far=55, near=40, same=30), found(far=20, near=38, same=30))
    far, near, same = told.tasks
    assert far.is_significant and not near.is_significant and same.p == same.adjusted == 1.0
    first, second = (answered(number) for number in (40, 38))
    own = run_paired_randomization(first.to_array()[:, 0] == first.to_array()[:, 1],
                               second.to_array()[:, 0] == second.to_array()[:, 1], seed=1)  # fmt: skip
    assert near.p == own.p and near.adjusted == min(1.0, 2 * own.p)
    lines = list(iter_comparison_lines(told))
    assert any(
        line.startswith("far dev: mine is better by 58.3 (p 0.0003 after Holm's correction for 3") for line in lines
    )
    assert any(line.startswith("Not distinguished at 0.05: near dev, same dev. Chance alone") for line in lines)
    assert any(
        "over 2 seeds, paired by seed; so few seeds can never show one below about 0.5" in line for line in lines
    )
    back = replace(told, tasks=(replace(far, first=far.second, second=far.first),))
    assert any(line.startswith("far dev: theirs is better by 58.3") for line in iter_comparison_lines(back))


def test_answers_to_other_examples_are_not_compared() -> None:
    first, second = found(far=9, near=9, same=9), found(far=9, near=9, same=9)
    for seed in SUITE.seeds:
        second["near", seed, "dev"] = answered(9, of=59)
    with pytest.raises(InputError, match=r"near dev: one model answered 60 examples and the other 59 of the same file"):
        compare_models(SUITE, ("a", "b"), first, second)


def test_holm_is_as_it_was_published() -> None:
    """Step down: the smallest by the number of all, and none below the one before it; 1 at most."""
    assert adjust_p_values([0.02, 0.01, 0.6, 0.04]) == pytest.approx([0.06, 0.04, 0.6, 0.08])
    assert adjust_p_values([0.3, 0.3, 0.9]) == pytest.approx([0.9, 0.9, 0.9]) and adjust_p_values([]) == []


def test_scores_of_rows_are_those_of_the_task() -> None:
    """For every kind that keeps rows; intervals hold the score, and are drawn of these rows."""
    drawn = random.Random(1)
    texts = [TextExample("x", None, drawn.choice("abc"), ()) for _ in range(50)]
    tags = TagsTask(labels=("B-X", "I-X", "O"), units="spans")
    sentences = [
        tags.make_example({"words": list("abcd"), "tags": drawn.choices(("O", "B-X", "I-X"), k=4)}, True)
        for _ in range(30)
    ]
    choices = [
        ChoiceExample(context="", question="q", choices=("x", "y"), right=drawn.randrange(2), level="")
        for _ in range(40)
    ]
    cases: list[tuple[Any, Any, Any]] = [
        (ClassesTask(labels=("a", "b", "c")), texts, [np.eye(3)[drawn.randrange(3)] for _ in texts]),
        (tags, sentences, [drawn.choices(("O", "B-X", "I-X"), k=4) for _ in sentences]),
        (TagsTask(labels=("B-X", "I-X", "O"), units="words"), sentences, [["O", "B-X", "O", "I-X"] for _ in sentences]),
        (ChoiceTask(), choices, [np.eye(2)[drawn.randrange(2)] for _ in choices]),
    ]
    for task, examples, predictions in cases:
        check_rows(task, examples, predictions, task.metrics[:2])
        judged = JudgedSplit(sha256="", examples=len(examples), **score_predictions(task, examples, predictions))
        for metric in judged.scores:
            assert not judged.can_draw(metric) or judged.score(judged.to_array(), metric) == pytest.approx(
                judged.scores[metric]
            ), (task.kind, metric)
    assert compute_bounds(JudgedSplit(sha256="", examples=1, scores={"f1": 1.0}), "f1") is None


def check_rows(task: Any, examples: Any, predictions: Any, metrics: Sequence[str]) -> None:
    """The rows of answers have the task's scores, and intervals hold these."""
    judged = JudgedSplit(sha256="", examples=len(examples), **score_predictions(task, examples, predictions))
    for metric in metrics:
        assert judged.score(judged.to_array(), metric) == pytest.approx(judged.scores[metric]), (task.kind, metric)
        bounds = compute_bounds(judged, metric)
        assert bounds is not None and bounds[0] < judged.scores[metric] < bounds[1], (task.kind, metric)


def test_vectors_and_next_words_are_drawn_again_as_well() -> None:
    """By pairs, by queries (of which there are fewer than pairs) and by texts; no score at a smaller width is drawn."""
    drawn = random.Random(1)
    pairs = [VectorExample(f"a{number % 9}", f"b{number}", ("c",), drawn.random()) for number in range(40)]
    named = [pair._replace(label=drawn.choice(("no", "yes"))) for pair in pairs]
    vectors = list(np.random.default_rng(1).standard_normal((40, 3, 4)).astype(np.float32))
    check_rows(SimilarityTask(lowest=0.0, highest=1.0), pairs, vectors, ("spearman", "pearson"))
    check_rows(SimilarityTask(loss="softmax", labels=("no", "yes")), named, vectors, ("accuracy", "macro_f1"))
    check_rows(SimilarityTask(loss="in-batch"), pairs, vectors, ("mrr@10",))
    check_rows(SimilarityTask(loss="in-batch", metric="spearman"), pairs, vectors, ("spearman", "pearson"))
    check_rows(RetrievalTask(similarity="dot"), pairs, vectors, ("ndcg@10", "map"))
    lines = ["abc" * drawn.randint(1, 5) for _ in range(40)]
    nats = [TextCost(10 * drawn.random(), drawn.randint(9, 20), drawn.randint(0, 9)) for _ in lines]
    check_rows(NextTask(), lines, nats, ("log_likelihood", "accuracy", "perplexity"))
    narrow = RetrievalTask(widths=(2,))
    judged = JudgedSplit(sha256="", examples=40, **score_predictions(narrow, pairs, vectors))
    assert "ndcg@10_at_2" in judged.scores and compute_bounds(judged, "ndcg@10_at_2") is None
    assert judged.is_grouped and len(judged.rows) == 9
