"""What a run says about the worth of pre-training: from the scores of its tasks, next to those of their controls."""

import pytest

from flows.run.record.task_scores import format_task_worth, iter_task_worth
from trainer.tasks.suites.compare import ComparedTask, SuiteComparison
from trainer.tasks.suites.table import SuiteResult, SuiteRow


def result_of(score: float, words: float | None, p_words: float | None) -> SuiteResult:
    """The result of a task with one score, next to that of a bag of words."""
    row = SuiteRow(
        task="tone", split="dev", metric="f1", scores=(score,), run=1, interval=None, majority=0.0, examples=9,
        averaged=True, words=words, p_words=p_words,
    )  # fmt: skip
    return SuiteResult(suite="tone", model="", seeds=(1,), rows=(row,), average=None)


def control_of(score: float, twin: float, p: float) -> SuiteComparison:
    """The comparison with a control that has the score `twin`."""
    task = ComparedTask(
        task="tone", split="dev", metric="f1", first=score, second=twin, p=p, adjusted=p, over_seeds=None
    )
    return SuiteComparison(first="", second="", seeds=1, tasks=(task,), is_control=True)


@pytest.mark.parametrize(
    ("twin", "p", "words", "p_words", "said"),
    [
        (0.2, 0.001, 0.1, 0.001, "Yes: f1 50.0 on tone; the same model from first weights 20.0 (p 0.001); a bag of"),
        (0.2, 0.001, None, None, "Yes: "),
        (0.2, 0.001, 0.5, 1.0, "No: "),
        (0.2, 0.001, 0.6, 0.001, "No: "),
        (0.5, 1.0, 0.1, 0.001, "No: "),
        (0.6, 0.001, 0.1, 0.001, "No: "),
        (0.4, 0.2, 0.1, 0.001, "Not shown: "),
        (0.2, 0.001, 0.4, 0.2, "Not shown: "),
        (0.2, 0.001, 0.4, None, "Not shown: "),
    ],
)
def test_it_was_worth_it_if_both_controls_are_beaten(
    twin: float, p: float, words: float | None, p_words: float | None, said: str
) -> None:
    """Fails if a difference that chance makes counts, or a bag of words that is as good is passed over."""
    worth = [*iter_task_worth(result_of(0.5, words, p_words), control_of(0.5, twin, p))]
    assert format_task_worth(worth).startswith(said)


def test_without_a_control_nothing_is_shown() -> None:
    """Fails if a score alone passes for worth, or a bag of words that does better is not believed."""
    assert format_task_worth([*iter_task_worth(result_of(0.5, 0.1, 0.001), None)]) == (
        "Not shown: f1 50.0 on tone; a bag of words 10.0 (p 0.001); `control = true` would compare it with the same "
        "model from first weights."
    )
    assert format_task_worth([*iter_task_worth(result_of(0.5, 0.6, 0.001), None)]).startswith("No: ")


def test_several_tasks_are_counted() -> None:
    """Fails if one task answers for another, or nothing is said of none."""
    one = [*iter_task_worth(result_of(0.5, 0.1, 0.001), control_of(0.5, 0.2, 0.001))]
    other = [*iter_task_worth(result_of(0.5, 0.6, 0.001), control_of(0.5, 0.2, 0.001))]
    told = format_task_worth([*one, *other])
    assert told.startswith("Yes for 1 of 2 tasks. tone: yes, f1 50.0; ") and " tone: no, f1 50.0; " in told
    assert format_task_worth([]) == ""
