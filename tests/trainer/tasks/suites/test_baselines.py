"""Baselines: each kind of task has them, they are what their names say, and the sentence is true."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from trainer.tasks.registry import read_task
from trainer.tasks.suites.baselines import (
    WIDTH,
    build_bags,
    compute_baseline_scores,
    compute_idf,
    describe_weakness,
    extract_features,
    fit_ridge,
    iter_baseline_lines,
    predict_linear,
)

EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "classes": [{"text": f"{word} {n}", "label": word} for n in range(9) for word in ("good", "bad", "bad")],
    "number": [{"text": f"a {'very ' * (n % 3)}good {n}", "label": n % 3} for n in range(30)],
    "tags": [{"words": ["in", f"w{n}", "Oslo"], "tags": ["O", "O", "B-LOC"]} for n in range(9)],
    "span": [{"question": "where", "context": "in Oslo", "answers": [{"text": "Oslo", "answer_start": 3}]}] * 3,
    "choice": [{"context": f"c{n} rain", "choices": [f"sun {n}", f"rain {n}"], "label": 1} for n in range(9)],
    "similarity": [
        {"text": f"cat {n}", "second": f"{'cat' if n % 2 else 'dog'} {n}", "label": n % 2} for n in range(9)
    ],
    "retrieval": [{"query": f"where is x{n}", "positive": f"x{n} is here"} for n in range(50)],
}
WORDS = {"classes": 1.0, "number": 0.9, "tags": 1.0, "choice": 1.0, "similarity": 0.9, "retrieval": 0.9}


def scores_of(kind: str, rows: Sequence[dict[str, Any]], **settings: Any) -> tuple[str, dict[str, dict[str, float]]]:
    """The first metric of a task, and the scores of its baselines on the rows that they learn from."""
    task = read_task({"kind": kind, **settings})
    examples = [task.make_example(row, True) for row in rows]
    task = task.fit(examples, "rows")
    return task.metrics[0], compute_baseline_scores(task, examples, examples)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_each_kind_has_its_baselines(kind: str) -> None:
    """Fails if an answer has not the form that the task's scores read, or the words of rows are not used."""
    metric, baselines = scores_of(kind, EXAMPLES[kind])
    assert ("majority" in baselines and baselines["majority"][metric] < 1) or kind == "choice"
    if kind in WORDS:
        assert baselines["bag of words"][metric] >= WORDS[kind], baselines


def test_other_forms_of_tasks_have_them_too() -> None:
    pairs = [{"text": f"a{n}", "second": f"a{n}", "label": "same"} for n in range(9)]
    pairs += [{"text": f"a{n}", "second": f"b{n}", "label": "other"} for n in range(8)]
    metric, baselines = scores_of("similarity", pairs, loss="softmax")
    assert baselines["majority"][metric] == pytest.approx(9 / 17) and baselines["bag of words"][metric] == 1
    several = [
        {"text": f"{'red ' * (n % 2)}{'big ' * (n % 3)}x{n}", "label": ["red"] * (n % 2) + ["big"]} for n in range(20)
    ]
    metric, baselines = scores_of("classes", several, multi_label=True)
    assert baselines["bag of words"][metric] > baselines["majority"][metric]
    ranked = [{"text": f"q{n} x", "second": f"q{n} y"} for n in range(40)]
    metric, baselines = scores_of("similarity", ranked, loss="in-batch")
    assert baselines["bag of words"][metric] > 0.95 and baselines["majority"][metric] < 0.3


def test_the_bag_of_words_is_ridge_regression() -> None:
    """Against the normal equations: fails where the gradients do not end at the least squares."""
    texts = [(f"w{n % 7} w{n % 5} w{n % 3}",) for n in range(60)]
    wanted = np.sin(np.arange(60.0))
    features = [extract_features(each) for each in texts]
    rows = build_bags(features, compute_idf(features))
    dense = np.zeros((60, WIDTH + 1))
    dense[np.repeat(np.arange(60), np.diff(rows.starts)), rows.features] = rows.weights
    used = np.flatnonzero(dense.any(0))
    part = dense[:, used]
    exact = np.linalg.solve(part.T @ part + np.eye(len(used)), part.T @ wanted)
    assert fit_ridge(rows, wanted)[used] == pytest.approx(exact, abs=1e-3)
    answers = predict_linear(texts, wanted[:, None], texts)
    assert answers[:, 0] == pytest.approx(
        part @ np.linalg.solve(part.T @ part + np.eye(len(used)), part.T @ (wanted - wanted.mean())) + wanted.mean(),
        abs=1e-3,
    )


def test_what_is_not_learnt_is_told() -> None:
    assert describe_weakness("f1", 0.5, 0.5, 0.1).startswith("learnt nothing: ")
    assert describe_weakness("f1", 0.6, 0.5, 0.1, p=0.3).startswith("hardly learnt anything: ")
    assert describe_weakness("f1", 0.6, 0.5, 0.7, p=0.01).startswith("a bag of words does better: ")
    assert describe_weakness("f1", 0.6, 0.5, 0.1, p=0.01) == describe_weakness("f1", 0.6, None, None) == ""
    lines = list(iter_baseline_lines("f1", 0.5, {"majority": {"f1": 0.5}, "bag of words": {"f1": 0.25}}))
    assert lines[0] == "to compare with f1 0.5: majority 0.5, bag of words 0.25" and "learnt nothing" in lines[1]
