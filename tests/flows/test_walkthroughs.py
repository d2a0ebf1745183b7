"""The tutorial and the how-tos do what they say: their shell blocks are run in order, as one script a page.

A page's `text` blocks are lines of that output, in their order; figures may differ, and so may a line with "...". The
how-tos share a folder, because a page may use what the one before it made. Training is cut short.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest
from launched import LONG, ROOT, environment, new_home
from page_blocks import WALKED, blocks
from served_command import free_port

PAGES = {"tutorial": WALKED[:1], "how-tos": WALKED[1:]}
SHORTER = {"steps = 600": "steps = 30", "epochs=10": "epochs=1"}


def shapes(text: str) -> Iterator[str]:
    """Yield each line without its figures, its bars and the width of its columns."""
    for line in text.splitlines():
        yield " ".join(re.sub(r"[█▏▎▍▌▋▊▉]+", "", re.sub(r"\d[\d,.]*", "N", line)).split())


def absent_lines(shown: str, printed: str) -> list[str]:
    """Return the lines shown that are not printed after one another."""
    output = iter(shapes(printed))
    return [line for line in shapes(shown) if line and "..." not in line and line not in output]


def run_page(page: str, folder: Path, home: Path) -> str:
    """Run a page's shell blocks in a folder and return what they print; fails where a command does."""
    last_first = "for job in $(jobs -p | tac); do kill $job && wait $job || true; done"  # a worker, then its scheduler
    script = "\n".join(["set -eo pipefail", f"trap '{last_first}' EXIT", *(block.text for block in blocks(page, "sh"))])
    for long, short in {**SHORTER, "8786": str(free_port())}.items():
        script = script.replace(long, short)
    own, installed = environment(home), str(folder / "installed")
    own |= {"PATH": f"{Path(sys.executable).parent}:{own['PATH']}", "PYTHONPATH": f"{own['PYTHONPATH']}:{installed}"}
    own |= {"PIP_TARGET": installed, "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=own, stdout=PIPE, stderr=STDOUT, text=True, timeout=LONG
    )
    assert done.returncode == 0, f"{page}: {done.stdout[-5000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
@pytest.mark.parametrize("kind", PAGES)
def test_pages_run_as_they_are_written(kind: str, tmp_path: Path, database: Path) -> None:
    """Fails where a command of a page fails, or prints other lines than the page shows."""
    pytest.importorskip("torch")
    (tmp_path / "work").mkdir()
    (tmp_path / "cloze").symlink_to(ROOT)
    for name in PAGES[kind]:
        printed = run_page(name, tmp_path / "work", new_home(tmp_path / Path(name).stem, database))
        for shown in blocks(name, "text"):
            assert absent_lines(shown.text, printed) == [], printed


def test_a_line_that_is_not_printed_is_noticed() -> None:
    """Fails where any output would do."""
    printed = "12 raw files   in 1 generation\nwiki: 3 pages\ndone\n"
    assert absent_lines("7 raw files in 2 generations\n", printed) == ["N raw files in N generations"]
    assert absent_lines("9 raw files in 1 generation\n...\ndone\n", printed) == []
    assert absent_lines("done\nwiki: 3 pages\n", printed) == ["wiki: N pages"]
