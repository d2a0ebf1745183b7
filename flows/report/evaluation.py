"""The page of a suite: its table with plots, and a comparison with another model.

Promises: one HTML file that loads nothing from any network; the same results give the same bytes.
"""

from collections.abc import Sequence

from markupsafe import Markup

from flows.report.drawing.plot import IN_PAGE, Axis, Plot, around
from flows.report.templates import environment_of_pages
from trainer.tasks.suites import comparing, table
from trainer.tasks.suites.comparing import ComparedTask, SuiteComparison
from trainer.tasks.suites.table import SuiteResult, SuiteRow

WIDTH, HEIGHT = 460.8, 201.6
MOST_TICKS = 20
NUMBERS = frozenset("0123456789+-")  # first characters of a cell that is a number
HALF = 0.3  # share of a row's height that a line across it takes


def evaluation_page(
    result: SuiteResult,
    comparison: SuiteComparison | None,
    sizes: Sequence[Sequence[str]] = (),
    sizes_note: str = "",
) -> str:
    """Return the page. sizes: sizes of models, a head and rows of texts; sizes_note: a remark about them"""
    environment = environment_of_pages()
    environment.tests["number_like"] = lambda cell: cell[:1] in NUMBERS or cell == "one seed"
    compared_tasks = comparison.tasks if comparison else ()
    return environment.get_template("evaluation.html").render(
        result=result,
        head=table.HEAD,
        rows=[table.cells_of(row) for row in result.rows],
        average=table.average_line(result) if result.average is not None else "",
        plot=score_plot(result.rows),
        notes=list(table.notes(result)),
        comparison=comparison,
        compared_head=comparing.HEAD,
        compared_rows=[comparing.compared_cells(each) for each in compared_tasks],
        compared_plot=compared_plot(compared_tasks),
        sizes=sizes,
        sizes_note=sizes_note,
        verdict=list(comparing.verdict_lines(comparison)) if comparison else [],
    )


def score_plot(rows: Sequence[SuiteRow]) -> Markup:
    """Return a plot of seeds, interval and majority of every row."""
    values = [score for row in rows for score in (*row.scores, *(row.interval or ()), *_known(row.majority))]
    plot = _plot(len(rows), values)
    drawn = []
    for place, row in enumerate(rows, 1):
        if row.interval:
            drawn.append(plot.line([(place, 100 * bound) for bound in row.interval], IN_PAGE.bar, 2.0))
        if row.majority is not None:
            level = 100 * row.majority
            drawn.append(plot.line([(place - HALF, level), (place + HALF, level)], IN_PAGE.ink, 1.0, dotted=True))
        drawn.append(plot.dots([(place, 100 * score) for score in row.scores], IN_PAGE.ink, 1.8))
    return plot.picture("scores-of-each-row", drawn)


def compared_plot(tasks: Sequence[ComparedTask]) -> Markup:
    """Return a plot of the median runs of two models."""
    plot = _plot(len(tasks), [score for each in tasks for score in (each.first, each.second)], rows=1)
    drawn = [plot.legend([("this", IN_PAGE.ink, False), ("other", IN_PAGE.bar, False)])]
    for place, each in enumerate(tasks, 1):
        drawn += [
            plot.dots([(place, 100 * score)], colour, 2.4)
            for score, colour in ((each.second, IN_PAGE.bar), (each.first, IN_PAGE.ink))
        ]
    return plot.picture("scores-of-two-models", drawn)


def _known(value: float | None) -> tuple[float, ...]:
    return () if value is None else (value,)


def _plot(number: int, values: Sequence[float], rows: int = 0) -> Plot:
    """Return a plot with rows by number across and scores up, times a hundred."""
    every = max(1, -(-number // MOST_TICKS))
    across = Axis(low=0.5, high=number + 0.5, ticks=[float(row) for row in range(1, number + 1, every)], label="row")
    return Plot(width=WIDTH, height=HEIGHT, across=across, up=around([100 * value for value in values], "score"),
                rows=rows)  # fmt: skip
