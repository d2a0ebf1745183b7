"""The benchmarks that hold no two sides against each other: what they measure, and what they say; nothing is timed."""

import os
from pathlib import Path

import pytest

from benchmarks import first_contact, record
from benchmarks.figures import PAGE, page_with


def test_the_texts_of_the_first_contact_are_the_same_each_time(tmp_path: Path) -> None:
    """Fails where the texts hang on anything but the seed, are alike, or are not as many as asked for."""
    for name in ("one", "two"):
        first_contact.write_texts(tmp_path / name, 30_000)
    files = {name: sorted((tmp_path / name).rglob("*.txt")) for name in ("one", "two")}
    texts = {name: [path.read_text() for path in paths] for name, paths in files.items()}
    assert texts["one"] == texts["two"] and len(texts["one"]) == len(set(texts["one"])) == 23
    assert sum(map(len, texts["one"][:3])) >= 30_000


def test_a_command_is_measured_with_what_it_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where a command's CPU seconds are not its own, or a failed one goes unsaid."""
    asked = first_contact.Step(name="help", arguments=("--help",))
    failed = first_contact.Step(name="nothing", arguments=("report", "nothing-there"))
    environment = {**os.environ, "CLOZE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(PAGE.parents[1])}
    rows = [first_contact.timed(step, tmp_path, environment) for step in (asked, failed)]
    assert rows[0]["code"] == 0 and 0 < rows[0]["cpu"] and rows[1]["code"] == 2
    assert capsys.readouterr().err.startswith("nothing: cloze: ")


def test_the_table_of_the_first_contact_is_that_of_its_record() -> None:
    """Fails where a figure on the page is not on record, or a step is missing from a call."""
    page, calls = PAGE.read_text(encoding="utf-8"), record.read_calls(first_contact.RECORD)
    again = page_with(page, first_contact.table(calls), first_contact.BEGIN, first_contact.END)
    assert again == page and calls
    assert all([row["name"] for row in call["rows"]] == [step.name for step in first_contact.STEPS] for call in calls)
