"""The guides are true: what one-document.md, api.md and guide-own-loop.md show is executed, the reference in step.

`make fix` writes the outputs of the executed pages again; read the difference before you keep it.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import list_of_pages
import plots
import program_pages
import pytest
from checkout import ROOT, checkout_files
from page_blocks import PRINTING, blocks

from flows.command import reference
from flows.command.cli import app
from flows.command.help import list_command_names

EXECUTED, API, OWN_LOOP, INDEX = (ROOT / "docs" / name for name in PRINTING)  # OWN_LOOP where torch is installed
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)


def executed_blocks(page: str, folder: Path) -> Iterator[tuple[re.Match[str], str]]:
    """Each Python block that has an output, with what it prints; all in one namespace, run in `folder`."""
    names: dict[str, Any] = {}
    with contextlib.chdir(folder):
        for block in BLOCK.finditer(page):
            line = page.count("\n", 0, block.start("code"))
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + block["code"], "page.md", "exec"), names)
            yield block, printed.getvalue()


@pytest.mark.parametrize(
    ("page", "number"), [(EXECUTED, 10), (API, 4), (INDEX, 1), pytest.param(OWN_LOOP, 6, marks=pytest.mark.slow)]
)
def test_an_executed_page_prints_what_it_says(page: Path, number: int, tmp_path: Path) -> None:
    """Fails if a block of the page does not run, or prints anything else."""
    if page == OWN_LOOP:
        pytest.importorskip("torch")
    text = page.read_text(encoding="utf-8")
    pairs = [(block["output"], printed) for block, printed in executed_blocks(text, tmp_path)]
    assert number == len(pairs) == text.count("```text") - (page == INDEX)  # the picture of its first lines
    assert number == text.count("```python") - 2 * (page == API)
    assert all(printed for _, printed in pairs), "a block that prints nothing shows nothing"
    assert [printed for _, printed in pairs] == [shown for shown, _ in pairs]


@pytest.mark.slow
@pytest.mark.long
def test_all_blocks_of_the_api_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a block without an output, one that trains or reads a folder, does not run; a few steps here."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw" / "tickets").mkdir(parents=True)
    (tmp_path / "raw" / "tickets" / "one.txt").write_text("The printer on the second floor prints every page twice.")
    names: dict[str, Any] = {}
    for block in blocks(API.name, "python"):
        exec(block.text.replace("steps=1000", "steps=2"), names)
    assert len(names["docs"].to_arrow()) + sum(names["docs"].dropped.values()) == 1
    assert names["model"].scores and (tmp_path / "tuned" / "config.json").is_file()


def test_an_output_that_lags_is_noticed(tmp_path: Path) -> None:
    """Fails if the comparison above would pass whatever a block prints."""
    page = "```python\nx = 1 + 1\n```\n\n```python\nprint(x)\n```\n\n```text\n3\n```\n".replace(
        "\n```\n\n```python", "", 1
    )
    [(block, printed)] = executed_blocks(page, tmp_path)
    assert (block["output"], printed) == ("3\n", "2\n")


def test_a_command_of_the_readme_is_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a row that lags behind the program would pass, or is not mended."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    copy = tmp_path / "README.md"
    copy.write_text(page.replace("| `cloze plan` | Show", "| `cloze plans` | Shows"), encoding="utf-8")
    assert program_pages.main(["--check"], copy) == 1 and "README.md lags behind" in capsys.readouterr().err
    assert program_pages.main([], copy) == program_pages.main(["--check"], copy) == 0
    assert copy.read_text(encoding="utf-8") == page
    assert program_pages.main(["--chekc"], copy) == 2


@pytest.mark.parametrize(
    ("generate", "name"),
    [(reference.main, "reference.md"), (list_of_pages.main, "llms.txt"), (plots.main, "images/beside.svg")],
)
def test_what_is_generated_is_in_step(
    generate: Callable[..., int], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if a generated page lags behind the program or the pages, or where one that lags would pass."""
    assert generate(["--check"]) == 0
    copy = tmp_path / name
    target = copy if copy.parent == tmp_path else copy.parent
    copy.parent.mkdir(exist_ok=True)
    assert generate(["--check"], target) == 1
    assert generate([], target) == generate(["--check"], target) == 0
    assert copy.read_bytes() == (ROOT / "docs" / name).read_bytes()
    copy.write_text(copy.read_text(encoding="utf-8").replace("loze", "lose"), encoding="utf-8")
    assert generate(["--check"], target) == 1
    assert capsys.readouterr().err.count(f"{copy.name} lags behind") == 2
    assert generate(["--chekc"], target) == 2


def test_the_reference_says_what_every_key_means() -> None:
    """Fails if a setting is added without a word in its docstring."""
    page = reference.render_reference()
    rows = [line for line in page.splitlines() if re.match(r"\| `[a-z_.]+` \| \w", line)]
    assert len(rows) > 60
    silent = [line.split("`")[1] for line in rows if line.endswith("|  |")]
    assert silent == []


def planned_commands(page: str) -> list[str]:
    """The commands that a page's tables name, by their first word."""
    return re.findall(r"^\| `cloze ([a-z]+)", page, re.MULTILINE)


def test_what_is_planned_is_not_built() -> None:
    """Fails if a command is built and still listed as planned, or shown in the reference before it is built."""
    planned = planned_commands((ROOT / "docs" / "planned.md").read_text(encoding="utf-8"))
    built = {name.split()[0] for name in list_command_names(app)}
    assert planned and set(planned) & built == set()
    assert set(planned_commands(reference.render_reference())) == built  # so a built command would be found by its row


def link_targets(page: Path) -> list[Path]:
    """The files of the checkout that a page links to."""
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    return [(page.parent / link).resolve() for link in links]


def test_links_between_pages_lead_somewhere() -> None:
    """Fails if a page links to a file that is not in the checkout."""
    pages = [path for path in checkout_files() if path.suffix == ".md"]
    targets = {target: page.name for page in pages for target in link_targets(page)}
    assert len(targets) > 4
    assert {target: page for target, page in targets.items() if not target.exists()} == {}


def test_a_plot_needs_its_row() -> None:
    """Fails if a table may lose a row that is drawn."""
    with pytest.raises(ValueError, match="no row 'blingfire'"):
        plots.pictures(plots.PAGE.read_text(encoding="utf-8").replace("| | blingfire |", "| | another |"))


def test_a_bar_begins_right_of_its_label_and_says_its_number_there() -> None:
    """Fails if a value far below 1 on the logarithmic axis has no bar, or its number covers the label."""
    drawn = plots.bars("times", {"slower": 400.0, "as fast": 1.0, "faster": 0.01}, logarithmic=True)
    widths = [float(width) for width in re.findall(rf'x="{plots.LABELS}" y="\d+" width="([^"]+)"', drawn)]
    assert len(widths) == 3 and widths == sorted(widths, reverse=True) and widths[-1] > 10
    assert all(f'x="{plots.LABELS + width + 4:.1f}"' in drawn for width in widths)


@pytest.mark.slow
def test_the_site_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    """Fails if a link leads nowhere, a page is in no table of contents, or a page fetches something when read."""
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html", "-d", tmp_path / "read"]
    done = subprocess.run(
        [*command, ROOT / "docs", tmp_path / "site"], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    pages = {path: path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > 25
    fetched = r'<(?:script|img|link|iframe)[^>]* (?:src|href)="(?:https?:)?//[^"]*"|@import|url\((?:https?:)?//'
    assert [path.name for path, text in pages.items() if re.search(fetched, text)] == []
    broken = {
        (path.name, link)
        for path, text in pages.items()
        for link in re.findall(r'(?:href|src)="(?![a-z]+:|#)([^"#?]+)', text)
        if not (path.parent / unquote(link)).exists()
    }
    assert broken == set()
    index = (tmp_path / "site" / "searchindex.js").read_text(encoding="utf-8")
    assert all(f'"{page}"' in index for page in ("tutorial", "why", "howto/own-task", "reference"))


def write_outputs(page: Path) -> None:
    """Put what the blocks print now into the page."""
    text = page.read_text(encoding="utf-8")
    pieces, end = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for block, printed in executed_blocks(text, Path(folder)):
            pieces += [text[end : block.start("output")], printed]
            end = block.end("output")
    page.write_text("".join([*pieces, text[end:]]), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for executed in (EXECUTED, API, INDEX, *([OWN_LOOP] if find_spec("torch") else [])):
        write_outputs(executed)
