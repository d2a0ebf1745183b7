"""Every parser against damaged inputs: a short run, and what longer ones found (`fuzzing.py` says how to run them)."""

import encodings.aliases
from pathlib import Path

import pytest
from fuzz_inputs import ENTRIES, HTML, TARGETS, in_encoding
from fuzzing import CASES, fuzz, try_input, warm_up
from tiers import a_few, count_examples

FOUND = sorted(path for path in CASES.glob("*/*") if path.is_file())
ODD_ENCODINGS = (
    "idna",
    "oem",
    "punycode",
    "raw_unicode_escape",
    "undefined",
    "unicode_escape",
    "utf-8\\x00",
    "x" * 999,
)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_end_in_drops_or_one_paragraph(name: str) -> None:
    """Fails if a parser raises anything but InputError, hangs, or yields what no column can hold."""
    fuzz(TARGETS[name], inputs=count_examples(25), number=1)


@pytest.mark.parametrize("name", TARGETS)
def test_whole_inputs_are_read(name: str) -> None:
    """Fails if fuzzing is of an input that its parser refuses as it is."""
    warm_up(TARGETS[name])
    for whole in TARGETS[name].inputs:
        assert try_input(TARGETS[name], whole.pack(whole.data)) > 0, whole.data[:200]


def test_every_encoding_that_python_knows_may_be_named() -> None:
    """Fails if a name in a file leads to a codec that is none of a text, or raises what is not looked for."""
    for name in (*ODD_ENCODINGS, *a_few(sorted({*encodings.aliases.aliases.values()}), 10)):
        for target, data in in_encoding(name.encode(), HTML, ENTRIES):
            try_input(TARGETS[target], data)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_stays_mended(path: Path) -> None:
    warm_up(TARGETS[path.parent.name])
    try_input(TARGETS[path.parent.name], path.read_bytes())
