"""`cloze diff`: the differences between two runs, in the figures that every run keeps.

A run is named by its id, by a unique beginning of its id, by its folder, or by its store, which stands for its newest
completed run. So two runs may be from two stores.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from corpora.errors import InputError
from flows.command.arguments import AsJson
from flows.command.terminal.output import console, say

if TYPE_CHECKING:
    from rich.table import Table

    from corpora.store.places.place import Place
    from flows.report.compared import Compared
    from flows.run.record.figures import Figures
    from flows.run.record.run_record import RunRecord

differing_app = App(name="differing")

Run = Annotated[str, Parameter(help="A run's id or its beginning, a run's folder, or a store: its newest run.")]
OtherRun = Annotated[
    str | None, Parameter(help="The later run; without it, the first is compared with the one before.")
]
MOST = 5  # runs named where several begin alike


@differing_app.command
def diff(
    run: Run = "store",
    other: OtherRun = None,
    *,
    store: Annotated[str, Parameter(help="The store in which ids are looked for.")] = "store",
    whole: Annotated[bool, Parameter(name="--all", help="Show what is the same in both, too.", negative=())] = False,
    as_json: AsJson = False,
) -> int:
    """Show how a run differs from another, or from the one before.

    The figures are those of documents, drops, duplicates, lengths, tokens and losses. A loss is in nats: the mean
    negative natural logarithm of the probability that the model gave the right token.
    """
    from flows.report.compared import Compared

    before, after = _two_runs(run, other, store)
    compared = Compared.of(before.record, before.figures, after.figures)
    if as_json:
        print(json.dumps(_json(before, after, compared), indent=1))
        return 0
    say(*_heading(before, after))
    shown = compared.changes if whole else compared.differing
    if shown:
        console.print(_table(compared, shown))
    if same := len(compared.changes) - len(compared.differing):
        from flows.run.record.counts_text import counted

        equal = f"{counted(same, 'figure is', 'figures are')} the same."
        say(equal if shown else f"Nothing differs: {equal}")
    return 0


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """A recorded run in its store, with its figures."""

    place: "Place"
    record: "RunRecord"
    figures: "Figures"


def _two_runs(first: str, second: str | None, store: str) -> tuple[KeptRun, KeptRun]:
    """Return the earlier and the later run that two names mean. Raises InputError."""
    from flows.run.record.figures import run_before

    place, record = find_run(first, store)
    if second is not None:
        return _kept(place, record), _kept(*find_run(second, store))
    before = run_before(place, record)
    if before is None:
        raise InputError(
            f"There is no completed run of the recipe {record.recipe!r} before {record.run_id} in {place.at('')}. Name "
            "two runs: `cloze runs` lists them."
        )
    return _kept(place, before), _kept(place, record)


def _kept(place: "Place", record: "RunRecord") -> KeptRun:
    """Return a run with its figures. Raises InputError where they can no longer be counted."""
    from flows.run.record.figures import figures_of_run

    figures = figures_of_run(place, record)
    if figures is None:
        raise InputError(
            f"The run {record.run_id} has kept no figures, and its artifacts are not all in {place.at('')} any more to "
            "count them. Name another run: `cloze runs` lists them."
        )
    return KeptRun(place=place, record=record, figures=figures)


def find_run(name: str, store: str) -> "tuple[Place, RunRecord]":
    """Return the run that an id or its beginning, a run's folder, or a store means. Raises InputError.

    store: in which ids are looked up
    """
    from corpora.store.places.place import Place
    from flows.run.record.run_record import list_runs, newest_runs, read_run
    from flows.run.store_address import RUNS, split_address

    if "/" not in name and not Path(name).is_dir():
        place = Place(store)
        return place, read_run(place, _run_id(name, list_runs(place), place))
    place, inside = split_address(name)
    if inside.startswith(f"{RUNS}/"):
        return place, read_run(place, _run_id(inside.split("/")[1], list_runs(place), place))
    newest = next((run for run in newest_runs(place) if run.state == "completed"), None)
    if newest is None:
        raise InputError(f"There is no completed run in {place.at('')}: `cloze run` records one.")
    return place, newest


def _run_id(name: str, run_ids: list[str], place: "Place") -> str:
    """Return the id that a name is, or the only one that it begins."""
    matches = [name] if name in run_ids else [run_id for run_id in run_ids if run_id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(matches[-MOST:])
        raise InputError(f"{len(matches)} runs begin with {name!r}, the newest: {listed}. Give more of the id.")
    raise InputError(
        f"There is no run {name!r} in {place.at('')}. `cloze runs` lists those of a store; --store names another "
        "store, and a run of any store is named by its folder, STORE/runs/RUN."
    )


def _heading(before: KeptRun, after: KeptRun) -> Iterator[str]:
    """Yield lines that name the two runs."""
    several = before.place.address != after.place.address
    for role, run in (("before", before), ("after", after)):
        where = f", in {run.place.at('')}" if several else ""
        record = run.record
        yield f"{role:6}  {record.run_id}  {record.recipe}, {record.state}, began {record.started}{where}"


def _table(compared: "Compared", shown: Any) -> "Table":
    """Return a table with a line for each figure; those shown first of a run are bold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from flows.recipes.settings.privacy import printable
    from flows.report.compared import change_text, figure_text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("figure", overflow="fold")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    first = {change.name for change in compared.headlines}
    for change in shown:
        values = (figure_text(value, change.kind, change.unit) for value in (change.before, change.after))
        style = "bold" if change.name in first else ""
        table.add_row(Text(printable(change.name), style), *values, change_text(change))
    return table


def _json(before: KeptRun, after: KeptRun, compared: "Compared") -> dict[str, Any]:
    """Return the comparison for scripts: every figure, with its change and relative change."""
    runs = {
        role: {"run_id": r.record.run_id, "recipe": r.record.recipe, "state": r.record.state,
               "started": r.record.started, "store": r.place.address}
        for role, r in (("before", before), ("after", after))
    }  # fmt: skip
    rows = [{**asdict(c), "change": c.change, "relative": c.relative} for c in compared.changes]
    return {**runs, "figures": rows}
