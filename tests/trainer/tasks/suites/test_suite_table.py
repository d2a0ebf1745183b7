"""Tables of suites from judged splits that are written by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_suites import suite_task

from corpora.errors import InputError
from trainer.tasks.suites.split_scores import MEANS, JudgedSplit, read_judged, write_judged
from trainer.tasks.suites.suite import Suite
from trainer.tasks.suites.table import build_result, find_median_run, iter_table_lines


def judged(**scores: float) -> JudgedSplit:
    return JudgedSplit(sha256="", examples=4, scores=scores, majority={"accuracy": 0.25})


SUITE = Suite(
    name="two",
    seeds=(1, 2, 3),
    tasks=(
        suite_task("pairs", ("dev", ("accuracy",)), ("mm dev", ("accuracy",)), ("test", ("accuracy",))),
        suite_task("f1", ("dev", ("f1", "accuracy"))),
    ),
    average=True,
)
FOUND = {
    **{("pairs", seed, "dev"): judged(accuracy=score) for seed, score in ((1, 0.5), (2, 0.9), (3, 0.7))},
    **{("pairs", seed, "mm dev"): judged(accuracy=0.1 * seed) for seed in SUITE.seeds},
    **{("pairs", seed, "test"): judged(accuracy=0.0) for seed in SUITE.seeds},
    **{("f1", seed, "dev"): judged(f1=0.8, accuracy=0.4) for seed in SUITE.seeds},
}


def test_the_mean_over_tasks_is_the_benchmarks() -> None:
    """Fails unless a pair of metrics and the two MNLI sets count by their mean, and test does not: (0.45 + 0.6) / 2."""
    result = build_result(SUITE, "model", FOUND)
    assert result.average == pytest.approx((0.45 + 0.6) / 2)
    assert [row.median for row in result.rows] == pytest.approx([0.7, 0.2, 0.0, 0.8, 0.4])
    assert {row.run for row in result.rows if row.task == "pairs"} == {3}, "the run whose dev score is the median"


def test_of_two_runs_in_the_middle_the_lower_one_is_taken() -> None:
    assert find_median_run(SUITE.tasks[0], (1, 2), FOUND) == 1
    assert find_median_run(SUITE.tasks[1], (2, 1), FOUND) == 2, "of equal ones the first"


def test_the_text_has_intervals_where_rows_are_kept() -> None:
    """Fails if seeds have no range, or an interval is drawn of nothing."""
    plain = list(iter_table_lines(build_result(SUITE, "model", FOUND)))
    assert plain[0] == "two: model, seeds 1, 2, 3"
    assert plain[3].split("  ")[0] == "pairs" and "50.0 to 90.0" in plain[3]
    drawn = replace(FOUND["f1", 1, "dev"], statistic=MEANS, columns=("f1",), rows=((0.5,),) * 4)
    known = list(iter_table_lines(build_result(SUITE, "model", {**FOUND, ("f1", 1, "dev"): drawn})))
    assert any("50.0 to 50.0" in line for line in known) and not any("50.0 to 50.0" in line for line in plain)


def test_answers_and_examples_of_different_number_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    write_judged(path, JudgedSplit(sha256="", examples=2, statistic="numbers", rows=((1.0, 2.0),)))
    with pytest.raises(InputError, match="has 1 answers to 2 examples: remove it"):
        read_judged(path)
    path.write_text("{")
    with pytest.raises(InputError, match="is not as it was written"):
        read_judged(path)
