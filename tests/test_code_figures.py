"""`make figures` counts what it says, of a small checkout, and ends well."""

import doctest
import json
from pathlib import Path

import code_figures
import pytest
from cpu_seconds import KEPT

FILE = '''"""A file where something is read."""


def read_rows(path: str) -> list[str]:
    """Return the rows of a file."""
    # from the first one
    return [
        path,
    ]


def joined(rows: list[str]) -> str:
    return "".join(rows)
'''


def test_figures_of_a_small_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a room's lines, the dearest files or the share of verbs are not those of the files."""
    (tmp_path / "shards" / "reading").mkdir(parents=True)
    (tmp_path / "shards" / "reading" / "rows.py").write_text(FILE)
    (tmp_path / "bootstrap.py").write_text("x = 1\n")
    seconds = tmp_path / ".pytest_cache" / "v" / KEPT
    seconds.parent.mkdir(parents=True)
    seconds.write_text(json.dumps({"collection": 99, **{f"tests/test_{number}.py": number for number in range(12)}}))
    code_figures.main(tmp_path)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:4] == [["6", "shards"], ["6", "reading"], ["1", "bootstrap.py"]]
    assert [line for line in lines if line[1:] and line[1].startswith("tests/test_")] == [
        [f"{number:.1f}", f"tests/test_{number}.py"] for number in range(11, 1, -1)
    ]
    assert lines[-1] == ["2", "50%", "1", "4", "0", "6", f"{1000 / 12:.1f}", "shards"]


def test_the_examples_of_the_figures_hold() -> None:
    result = doctest.testmod(code_figures)
    assert result.attempted and not result.failed
