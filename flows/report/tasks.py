"""The tasks of a run for its report: scores with intervals, and what they are compared with.

Promise: every number is drawn from what the artifact keeps of the answers of each seed. The tables are those of
`cloze evaluate`. A model is compared with its baseline, with itself from first weights, and with what was released when
the run began.
Cost: as `flows.run.record.task_scores`.
"""

from corpora.store.stage import read_manifest
from flows.report.run import RunView, View
from flows.run.record.releases import release_before
from flows.run.record.task_scores import comparison_with, comparison_within, result_in, summaries
from trainer.tasks.build import BASELINE, CONTROL, suite_in
from trainer.tasks.suites import comparing, table
from trainer.tasks.suites.comparing import SuiteComparison


def task_views(run: RunView) -> list[View]:
    """Return a view of each task artifact of a run, by its name in the recipe."""
    release = release_before(run.place, run.record.recipe, run.record.started)
    views = []
    for name, tasks in run.of_each("tasks").items():
        suite = suite_in(tasks)
        result = result_in(run.place, tasks, name)
        control = comparison_within(run.place, tasks, CONTROL)
        comparisons = [comparison_within(run.place, tasks, BASELINE)]
        if release is not None:
            released = next((a for a in release.artifacts if (a.kind, a.name) == ("tasks", tasks.name)), None)
            other = read_manifest(run.place, released.folder) if released is not None else None
            if other is not None and other.fingerprint != tasks.fingerprint:
                called = f"{release.name} number {release.number}"
                comparisons.append(comparison_with(run.place, tasks, other, ("this run", called)))
        views.append(
            {
                "name": name or suite.name,
                "seeds": suite.seeds,
                "head": table.HEAD,
                "rows": [table.cells_of(row) for row in result.rows],
                "average": table.average_line(result) if result.average is not None else "",
                "summary": [*summaries(result), *([comparing.worth_line(control)] if control is not None else [])],
                "notes": [*table.notes()],
                "comparisons": [_comparison_view(each) for each in comparisons if each is not None],
                "accounts": tasks.ledger.accounts,
            }
        )
    return views


def _comparison_view(comparison: SuiteComparison) -> View:
    return {
        "names": (comparison.first, comparison.second),
        "head": comparing.HEAD,
        "rows": [comparing.compared_cells(each) for each in comparison.tasks],
        "verdict": [*comparing.verdict_lines(comparison)],
    }
