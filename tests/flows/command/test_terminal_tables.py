"""Tables fit the terminal at 60, 80, 100 and 175 columns, break no number and no id, and are whole in a pipe."""

import pytest
from recorded_run import made_record
from rich.cells import cell_len
from rich.console import Console, RenderableType

from flows.command.releases import build_releases_table
from flows.command.runs import build_runs_table
from flows.command.terminal import MAX_COLUMNS, build_table, fit_table
from flows.run.addresses import shorten_run_ids
from flows.run.record.releases import Release
from flows.run.record.run_record import Cost, StageRecord
from flows.run.record.run_status import ListedRun
from trainer.tasks.suites.table import align_columns

WIDTHS = (60, 80, 100, 175, MAX_COLUMNS)
NAMES = ("news", "wikipedia-and-bookcorpus-uncased-2026", "百科事典と新聞記事の語彙")


def lines_of(shown: RenderableType, width: int) -> list[str]:
    """The lines of something on a terminal so wide."""
    terminal = Console(width=width, soft_wrap=True, highlight=False)
    with terminal.capture() as captured:
        terminal.print(shown)
    return captured.get().splitlines()


def runs_of(name: str) -> list[ListedRun]:
    """Two runs of a recipe."""
    stages = tuple(
        StageRecord(kind=kind, name="n", folder="", state="built", reason="", seconds=1, parts=1, parts_built=1_000)
        for kind in ("documents", "vocabularies", "shards", "models")
    )
    cost = Cost(cpu_seconds=123_456, bytes_written=987_654_321, peak_bytes=123_456_789_012)
    states = []
    for moment in ("20260101T000000483910", "20260102T000000772041"):
        seconds, state = 654_321.0, "interrupted"
        made = made_record(f"{moment}-{name}", recipe=name, seconds=seconds, state=state, stages=stages, cost=cost)
        states.append(ListedRun(run_id=made.run_id, recipe=name, state=made.state, started=made.started, record=made))
    return states


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_runs_and_releases_fit(name: str, width: int) -> None:
    """Fails if a line is wider than the terminal, or an id or a figure is broken."""
    states = runs_of(name)
    short = shorten_run_ids([state.run_id for state in states])
    entries = [
        Release(
            name=name, number=number, action="release", recipe=name, run=state.run_id, artifacts=(),
            who="somebody-with-a-long-name@a-host-with-a-long-name", when=state.started, reason="why " * 20,
        )
        for number, state in enumerate(states, 1)
    ]  # fmt: skip
    figures = ("181 h 45 min", "34 h 18 min", "987.7 MB", "123.5 GB")
    for shown, whole in ((build_runs_table(states, short, width), figures), (build_releases_table(entries, short), ())):
        lines = lines_of(shown, width)
        assert max(map(cell_len, lines)) <= width
        assert all(any(text in line for line in lines) for text in ("483910", "772041", *whole))
    if width == MAX_COLUMNS:
        assert len(lines_of(build_runs_table(states, short, width), width)) == 3


@pytest.mark.parametrize("width", [20, *WIDTHS])
def test_a_table_without_room_is_a_block_for_each_row(width: int) -> None:
    """Fails if a number or an id is folded as long as it fits by itself, or a cell is lost."""
    rows = [
        ("first", "1,234,567", "text " * 9, "0123456789"),
        ("次", "7", "語" * 50, "a" * 9),
    ]
    table = build_table("name", "count", "what", "id", texts=("name", "what"))
    for row in rows:
        table.add_row(*row)
    lines = lines_of(table, width)
    assert max(map(cell_len, lines)) <= width
    assert all(any(text in line for line in lines) for text in ("1,234,567", "0123456789", "a" * 9))
    assert "".join(lines).count("語") == 50 and "\n".join(lines).count("text") == 9


def test_a_table_of_lines_is_drawn_again_only_where_it_does_not_fit() -> None:
    """Fails if a table of an evaluation is wider than the terminal, or one that fits is changed."""
    rows = [("task", "score"), ("recognizing-textual-entailment " * 3, "61.2"), ("sst2", "93.4")]
    lines = ["glue:", "", *align_columns(rows), "", "a note"]
    assert fit_table(lines, 2, 5, rows, 120) == lines
    fitted = fit_table(lines, 2, 5, rows, 40)
    assert max(map(cell_len, fitted)) <= 40 and "61.2" in "".join(fitted)
    assert fitted[:2] == lines[:2] and fitted[-2:] == lines[-2:]
