"""The page of a suite of tasks: a table of scores, and a comparison with another model.

Promises: one HTML file that loads nothing from any network; the same results give the same bytes.
"""

from flows.report.templates import build_page_environment
from trainer.tasks.suites import compare as comparing
from trainer.tasks.suites import table
from trainer.tasks.suites.compare import SuiteComparison
from trainer.tasks.suites.table import SuiteResult

NUMBER_SIGNS = frozenset("0123456789+-")  # first characters of a cell that is a number


def render_evaluation_page(result: SuiteResult, comparison: SuiteComparison | None) -> str:
    """Render the result of a task suite as the text of an HTML page.

    Args:
        result: Scores of the model on each task.
        comparison: Comparison with another model; None to omit it.
    """
    environment = build_page_environment()
    environment.tests["number_like"] = lambda cell: cell[:1] in NUMBER_SIGNS or cell == "one seed"
    compared_tasks = comparison.tasks if comparison else ()
    return environment.get_template("evaluation.html").render(
        result=result,
        head=table.HEAD,
        rows=[table.format_cells(row) for row in result.rows],
        average=table.format_average(result) if result.average is not None else "",
        unconvincing=table.list_unconvincing(result),
        notes=list(table.iter_notes()),
        comparison=comparison,
        compared_head=comparing.HEAD,
        compared_rows=[comparing.format_cells(each) for each in compared_tasks],
        verdict=list(comparing.iter_conclusions(comparison)) if comparison else [],
    )
