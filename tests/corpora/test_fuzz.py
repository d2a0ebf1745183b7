"""Every parser against damaged inputs: a short run, and what longer ones found (`fuzzing.py` says how to run them)."""

from pathlib import Path

import pytest
from fuzzing import CASES, TARGETS, fuzz, try_input

FOUND = sorted(path for path in CASES.glob("*/*") if path.is_file())


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_end_in_drops_or_one_paragraph(name: str) -> None:
    """Fails where a parser raises anything but InputError, hangs, or yields what no column can hold."""
    fuzz(name, examples=25, number=1)


@pytest.mark.parametrize("name", TARGETS)
def test_whole_inputs_are_read(name: str) -> None:
    """Fails where fuzzing is of an input that its parser refuses as it is."""
    for data in TARGETS[name].inputs:
        assert try_input(TARGETS[name], data) > 0


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_stays_mended(path: Path) -> None:
    try_input(TARGETS[path.parent.name], path.read_bytes())
