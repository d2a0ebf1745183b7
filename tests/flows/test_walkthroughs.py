"""The tutorial and the how-tos do what they say: their shell blocks are run in order, as one script a page.

A page's `text` blocks are lines of that output, in their order; figures may differ, and so may a line with "...". The
how-tos share a folder, because a page may use what the one before it made. Training is cut short, unless
CLOZE_TUTORIAL=FOLDER asks for the tutorial at full length, with its figures compared.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest
from launched import LONG, ROOT, environment, new_home
from page_blocks import WALKED, blocks
from served_command import free_port

PAGES = {"tutorial": WALKED[:1], "how-tos": WALKED[1:]}
FIGURE = re.compile(r"\d[\d,.]*")
WHOLE = os.environ.get("CLOZE_TUTORIAL", "")
SHORTER = {"steps = 300": "steps = 30", "epochs=10": "epochs=1", "epochs=6": "epochs=1"}
ANSWER = re.compile(r"worth it\? (Yes|No|Not shown):")  # depends on how long was trained


def shape(line: str) -> str:
    """Return a line without its figures, its answer, its bars and the width of its columns."""
    return " ".join(re.sub(r"[█▏▎▍▌▋▊▉]+", "", FIGURE.sub("N", ANSWER.sub("worth it?", line))).split())


def pairs(shown: str, printed: str) -> Iterator[tuple[str, str | None]]:
    """Yield each line shown with the next one printed that is like it but for figures; None: there is none."""
    output = iter(printed.splitlines())
    for line in shown.splitlines():
        if line and "..." not in line:
            yield line, next((other for other in output if shape(other) == shape(line)), None)


def absent_lines(shown: str, printed: str) -> list[str]:
    """Return the lines shown that are not printed after one another."""
    return [shape(line) for line, other in pairs(shown, printed) if other is None]


def strayed(shown: str, printed: str) -> list[tuple[str, str]]:
    """Return the lines shown with those printed that have another figure, by more than a tenth of the greater."""
    return [(line, other) for line, other in pairs(shown, printed) if other and not near(figures(line), figures(other))]


def figures(line: str) -> list[float]:
    """Return the figures of a line but for its seconds."""
    plain = "" if line.startswith("Time:") else re.sub(r"[\d.,]+ s\b", "", line)
    return [float(figure.replace(",", "").rstrip(".")) for figure in FIGURE.findall(plain)]


def near(first: list[float], second: list[float]) -> bool:
    """True where no figure differs by more than a tenth: packages of other versions have other texts."""
    return all(abs(one - other) <= 0.1 * max(one, other) for one, other in zip(first, second, strict=True))


def run_page(page: str, folder: Path, home: Path, shorter: Mapping[str, str] = SHORTER, limit: float = LONG) -> str:
    """Run a page's shell blocks in a folder and return what they print; fails where a command does."""
    last_first = "for job in $(jobs -p | tac); do kill $job && wait $job || true; done"  # a worker, then its scheduler
    lines = [block.text for block in blocks(page, "sh")]
    script = "\n".join(["set -eo pipefail", f"trap '{last_first}' EXIT", *lines])
    for long, short in {**shorter, "8786": str(free_port())}.items():
        script = script.replace(long, short)
    own, installed = environment(home), str(folder / "installed")
    found = [path for path in own["PYTHONPATH"].split(":") if Path(path).name != "started"]  # it hides pandas
    own |= {"PATH": f"{Path(sys.executable).parent}:{own['PATH']}", "PYTHONPATH": ":".join([*found, installed])}
    own |= {"PIP_TARGET": installed, "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=own, stdout=PIPE, stderr=STDOUT, text=True, timeout=limit
    )
    assert done.returncode == 0, f"{page}: {done.stdout[-5000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
@pytest.mark.parametrize("kind", PAGES)
def test_pages_run_as_they_are_written(kind: str, tmp_path: Path, database: Path) -> None:
    """Fails if a command of a page fails, or prints other lines than the page shows."""
    pytest.importorskip("torch")
    (tmp_path / "work").mkdir()
    (tmp_path / "cloze").symlink_to(ROOT)
    for name in PAGES[kind]:
        printed = run_page(name, tmp_path / "work", new_home(tmp_path / Path(name).stem, database))
        for shown in blocks(name, "text"):
            assert absent_lines(shown.text, printed) == [], printed


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
@pytest.mark.skipif(not WHOLE, reason="takes twenty minutes: CLOZE_TUTORIAL=FOLDER, a new one, runs it there")
def test_the_tutorial_gives_its_figures_at_full_length(tmp_path: Path, database: Path) -> None:
    """Fails if a figure of the page is a tenth off, or a score more than two standard errors; keeps the folder."""
    pytest.importorskip("torch")
    folder = Path(WHOLE).resolve()
    folder.mkdir(parents=True)
    printed = run_page("tutorial.md", folder, new_home(tmp_path / "home", database), {}, limit=5 * LONG)
    for shown in blocks("tutorial.md", "text"):
        assert absent_lines(shown.text, printed) == strayed(shown.text, printed) == [], printed
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    shares = [float(share) for share in re.findall(r"^\| model with.* \| ([\d.]+)% \|$", page, re.MULTILINE)]
    reached = [100 * float(share) for share in re.findall(r"^done .* accuracy ([\d.]+),", printed, re.MULTILINE)]
    assert len(ANSWER.findall(page)) == 2 and ANSWER.findall(page) == ANSWER.findall(printed)
    assert len(shares) == 2 and reached[::-1] == pytest.approx(shares, abs=5)


def test_a_line_that_is_not_printed_is_noticed() -> None:
    """Fails if any output would do."""
    printed = "12 raw files   in 1 generation\nwiki: 3 pages\ndone\n"
    assert absent_lines("7 raw files in 2 generations\n", printed) == ["N raw files in N generations"]
    assert absent_lines("9 raw files in 1 generation\n...\ndone\n", printed) == []
    assert absent_lines("done\nwiki: 3 pages\n", printed) == ["wiki: N pages"]
    assert strayed("12 files   3 pages   7.1 s\n", "12 files 3 pages 99.5 s\n") == []
    assert strayed("loss 1.206, 1,084 kept", "loss 1.406, 1,084 kept") == [
        ("loss 1.206, 1,084 kept", "loss 1.406, 1,084 kept")
    ]
