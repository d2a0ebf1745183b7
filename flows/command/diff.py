"""`cloze diff`: the differences between two runs, in the figures that every run keeps.

A run is named by its id or a short one (`flows.run.addresses`), by its folder, or by its store, which stands for its
newest completed run. So two runs may be from two stores.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command.arguments import AsJson
from flows.command.runs import format_moment
from flows.command.terminal import build_table, console, print_json, print_lines
from flows.recipes.privacy import to_printable
from flows.report.compared import RunComparison, format_change, format_figure
from flows.run.addresses import find_run, shorten_run_ids
from flows.run.record.counts_text import format_count
from flows.run.record.figures import Figures, find_run_before, get_figures
from flows.run.record.run_record import RunRecord, list_run_ids

Run = Annotated[str, Parameter(help="A run's id, short or whole, a run's folder, or a store: its newest run.")]
OtherRun = Annotated[
    str | None, Parameter(help="The later run; without it, the first is compared with the one before.")
]


def diff(
    run: Run = "store",
    other: OtherRun = None,
    *,
    store: Annotated[str, Parameter(help="The store in which ids are looked up.")] = "store",
    whole: Annotated[bool, Parameter(name="--all", help="Also show figures that did not change.", negative=())] = False,
    as_json: AsJson = False,
) -> None:
    """Show how a run differs from another, or from the previous one.

    The figures are about documents, drops, duplicates, lengths, tokens and losses. A loss is in nats: the mean negative
    natural logarithm of the probability that the model assigned to the correct token.
    """
    before, after = _find_two_runs(run, other, store)
    compared = RunComparison.from_figures(before.record, before.figures, after.figures)
    if as_json:
        print_json(_build_json(before, after, compared))
        return
    print_lines(*_iter_heading(before, after))
    shown = compared.changes if whole else compared.differences
    if shown:
        console.print(_build_table(compared, shown))
    if same := len(compared.changes) - len(compared.differences):
        equal = f"{format_count(same, 'figure is', 'figures are')} the same."
        print_lines(equal if shown else f"Nothing differs: {equal}")


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """A recorded run that is being compared.

    Attributes:
        place: The store that contains the run.
        record: The run record.
        figures: The metrics of the run.
    """

    place: Place
    record: RunRecord
    figures: Figures


def _find_two_runs(first: str, second: str | None, store: str) -> tuple[ComparedRun, ComparedRun]:
    """Find the two runs to compare, and return them as (earlier run, later run).

    If both runs are given, `first` is treated as the earlier one.

    Args:
        first: A run's id or folder, or a store (for its newest completed run).
        second: The later run. If None, `first` is the later run, and the earlier one is the previous completed run of
            its recipe.
        store: The address of the store in which run ids are looked up.

    Raises:
        InputError: If a run or the previous run does not exist, or if the metrics of a run are no longer available.
    """
    place, record = find_run(first, store)
    if second is not None:
        return _read_figures(place, record), _read_figures(*find_run(second, store))
    before = find_run_before(place, record)
    if before is None:
        raise InputError(
            f"There is no completed run of the recipe {record.recipe!r} before {record.run_id} in "
            f"{place.to_address('')}. Name two runs: `cloze runs` lists them."
        )
    return _read_figures(place, before), _read_figures(place, record)


def _read_figures(place: Place, record: RunRecord) -> ComparedRun:
    """Read the metrics of a recorded run.

    Args:
        place: The store that contains the run.
        record: The run record.

    Raises:
        InputError: If the run recorded no metrics, and the results of its stages are no longer in the store.
    """
    figures = get_figures(place, record)
    if figures is None:
        raise InputError(
            f"The run {record.run_id} has kept no figures, and its artifacts are not all in {place.to_address('')} any "
            "more to count them. Name another run: `cloze runs` lists them."
        )
    return ComparedRun(place=place, record=record, figures=figures)


def _iter_heading(before: ComparedRun, after: ComparedRun) -> Iterator[str]:
    """Yield one line for each of the two compared runs. The lines name the stores if the stores differ.

    Args:
        before: The earlier run.
        after: The later run.
    """
    several = before.place.address != after.place.address
    for role, run in (("before", before), ("after", after)):
        where = f", in {run.place.to_address('')}" if several else ""
        record = run.record
        short = shorten_run_ids(list_run_ids(run.place))[record.run_id]
        yield f"{role:6}  {short}  {record.recipe}, {record.state}, began {format_moment(record.started)}{where}"


def _build_table(compared: RunComparison, shown: Any) -> Table:
    """Build a table with one row per metric. The most important metrics are bold.

    Args:
        compared: The comparison of the runs.
        shown: The metrics to show, one per row.
    """
    table = build_table("figure", "before", "after", "change")
    first = {change.name for change in compared.headlines}
    for change in shown:
        values = (format_figure(value, change.kind, change.unit) for value in (change.before, change.after))
        style = "bold" if change.name in first else ""
        table.add_row(Text(to_printable(change.name), style), *values, format_change(change))
    return table


def _build_json(before: ComparedRun, after: ComparedRun, compared: RunComparison) -> dict[str, Any]:
    """Build the JSON object of a comparison.

    Args:
        before: The earlier run.
        after: The later run.
        compared: The comparison of their metrics.

    Returns:
        A dict with the keys "before" and "after" (each a run with "run_id", "recipe", "state", "started" and "store"),
        and "figures": a list of metrics with "name", "unit", "kind", the values "before" and "after", and their
        absolute ("change") and relative ("relative") change.
    """
    runs = {
        role: {"run_id": r.record.run_id, "recipe": r.record.recipe, "state": r.record.state,
               "started": r.record.started, "store": r.place.address}
        for role, r in (("before", before), ("after", after))
    }  # fmt: skip
    rows = [{**asdict(c), "change": c.change, "relative": c.relative} for c in compared.changes]
    return {**runs, "figures": rows}
