"""The tutorial and the how-tos do what they say: their shell blocks are run in order, as one script a page.

A page's `text` blocks are lines of that output, in their order; figures may differ, and so may a line with "...". The
how-tos share a folder, because a page may use what the one before it made. Training is cut short.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launched import LONG, ROOT, environment, new_home
from served_command import free_port

HOWTOS = ("monthly-dump", "cluster", "continue-checkpoint", "own-task")
SHORTER = {"steps = 2_000": "steps = 30", "epochs=20": "epochs=1"}


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def shapes(text: str) -> Iterator[str]:
    """Yield each line without its figures, its bars and the width of its columns."""
    for line in text.splitlines():
        yield " ".join(re.sub(r"[█▏▎▍▌▋▊▉]+", "", re.sub(r"\d[\d,.]*", "N", line)).split())


def absent_lines(shown: str, printed: str) -> list[str]:
    """Return the lines shown that are not printed after one another."""
    output = iter(shapes(printed))
    return [line for line in shapes(shown) if line and "..." not in line and line not in output]


def run_page(path: Path, folder: Path, home: Path) -> str:
    """Run a page's shell blocks in a folder and return what they print; fails where a command does."""
    script = "\n".join(
        [
            "set -eo pipefail",
            "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT",
            *blocks(path.read_text(encoding="utf-8"), "sh"),
        ]
    )
    for long, short in {**SHORTER, "8786": str(free_port())}.items():
        script = script.replace(long, short)
    own = {
        **environment(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_TARGET": str(folder / "installed"),
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
    }
    own["PYTHONPATH"] += f"{os.pathsep}{folder / 'installed'}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=own, capture_output=True, text=True, timeout=LONG, check=False
    )
    assert done.returncode == 0, f"{path.name}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
def test_the_how_tos_run_as_they_are_written(tmp_path: Path, database: Path) -> None:
    """Fails where a command of a page fails, or prints other lines than the page shows."""
    pytest.importorskip("torch")
    (tmp_path / "work").mkdir()
    (tmp_path / "cloze").symlink_to(ROOT)
    for name in HOWTOS:
        page = ROOT / "docs" / "howto" / f"{name}.md"
        printed = run_page(page, tmp_path / "work", new_home(tmp_path / name, database))
        for shown in blocks(page.read_text(encoding="utf-8"), "text"):
            assert absent_lines(shown, printed) == [], printed


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
def test_the_tutorial_runs_as_it_is_written(tmp_path: Path, database: Path) -> None:
    """Fails where a command of the tutorial fails, or prints other lines than the page shows."""
    pytest.importorskip("torch")
    page = ROOT / "docs" / "tutorial.md"
    printed = run_page(page, tmp_path, new_home(tmp_path, database))
    for shown in blocks(page.read_text(encoding="utf-8"), "text"):
        assert absent_lines(shown, printed) == [], printed


def test_every_how_to_is_run() -> None:
    """Fails where a page is added and left out here."""
    assert {path.stem for path in (ROOT / "docs" / "howto").glob("*.md")} == {*HOWTOS}


def test_a_line_that_is_not_printed_is_noticed() -> None:
    """Fails where any output would do."""
    printed = "12 raw files   in 1 generation\nwiki: 3 pages\ndone\n"
    assert absent_lines("7 raw files in 2 generations\n", printed) == ["N raw files in N generations"]
    assert absent_lines("9 raw files in 1 generation\n...\ndone\n", printed) == []
    assert absent_lines("done\nwiki: 3 pages\n", printed) == ["wiki: N pages"]
