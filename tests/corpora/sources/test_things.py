"""Every thing that a text holds, through the reader of every format: a table of cases, with one decision for a row."""

import tomllib
from pathlib import Path
from typing import Any

import program_pages
from checkout import ROOT
from reader_columns import COLUMNS, read_cell

from corpora.sources.files.office.pdf import can_read_pdf

CASES = Path(__file__).parents[1] / "cases" / "things.toml"
ABOUT = ("says", "absent")


def table_of_things() -> dict[str, dict[str, Any]]:
    """The rows of the table, by their things."""
    return tomllib.loads(CASES.read_text(encoding="utf-8"))


def test_every_thing_is_read_as_the_table_says() -> None:
    """Fails if a reader makes of a thing what its sibling does not: a formula that is a hole, a reading in a sentence,
    text that is not shown. Each case is a whole file, read by its source and cleaned."""
    wrong, num_cases = [], 0
    for thing, cells in table_of_things().items():
        for column, cases in cells.items():
            if column in ABOUT or (column == "PDF" and not can_read_pdf()):
                continue
            for given, expected, *rest in cases:
                parts = rest[0] if rest else {}
                texts = [expected] if isinstance(expected, str) else expected
                found = read_cell(column, given, parts)
                num_cases += 1
                if found != (texts, parts.get("drops", []), parts.get("hidden", 0)):
                    wrong.append(f"{thing}, {column}: {given!r}\n    is {found}\n    and should be {texts}")
    assert not wrong, "\n".join(wrong)
    assert num_cases > 200


def test_the_table_has_every_cell() -> None:
    """Fails if a row says of a format neither what it makes of the thing nor that it does not have it."""
    for thing, cells in table_of_things().items():
        named = [*(name for name in cells if name not in ABOUT), *cells["absent"]]
        assert sorted(named) == sorted(COLUMNS), thing


def test_the_guide_shows_the_table() -> None:
    """Fails if docs/guide-sources.md lags behind the cases: `make fix` writes it again."""
    page = (ROOT / "docs" / "guide-sources.md").read_text(encoding="utf-8")
    assert page.count("| in the text |") == 1
    assert program_pages.replace_things(page) == page
