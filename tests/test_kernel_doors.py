"""No kernel reads outside of a column, whatever its texts, and none is given bytes that are no text."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT, files_below
from kernel_doors import DOORS

PACKAGES = ("corpora", "tokenizers_train", "shards")
INNER = {"corpora.text.buffers.to_text_buffers", "corpora.judging.steps.clean._unescape_suspects"}


def entered(number: int, **environment: str) -> subprocess.CompletedProcess[str]:
    """All doors with so many columns at random, in a process of its own."""
    script = ROOT / "tests/kernel_doors.py"
    return subprocess.run(
        [sys.executable, str(script), str(number)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def asking() -> set[str]:
    """Every function of the packages that asks for the buffers of a column."""
    found = set()
    for path in files_below(*PACKAGES, suffix=".py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "to_text_buffers"
                for inner in ast.walk(node)
            ):
                found.add(f"{module}.{node.name}")
    return found


def test_every_way_into_the_kernels_is_a_door() -> None:
    """A new function that reads a column's buffers belongs to `kernel_doors.DOORS`, which is run on its edges."""
    assert asking() - INNER == {*DOORS}


def test_nothing_outside_of_a_column_is_read() -> None:
    """Both ends of its memory are pages that may not be read: a load past them ends the process."""
    done = entered(12)
    assert (done.returncode, done.stdout.split()[-1]) == (0, "all"), done.stdout.split()[-1] + done.stderr[-3000:]


@pytest.mark.long
def test_nothing_outside_of_an_array_is_read(tmp_path: Path) -> None:
    """Tables and room for what is written as well: every kernel compiled anew, with its bounds checked."""
    done = entered(200, NUMBA_BOUNDSCHECK="1", CLOZE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout.split()[-1]) == (0, "all"), done.stdout.split()[-1] + done.stderr[-3000:]
