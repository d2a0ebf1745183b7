"""What the set-up does beforehand, and that no more than needed is imported to answer at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flows.command import compiling, preparing
from flows.orchestration.database import database_of

HEAVY = ("numba", "pandas", "prefect", "pyarrow", "torch")
HELP = f"""
import contextlib, io, json, sys
from flows.launch import main
said = io.StringIO()
sys.argv = ["cloze", "--help"]
with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
    main()
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    """Fails where the help waits for a library that only a command needs."""
    done = subprocess.run(
        [sys.executable, "-c", HELP],
        env={"CLOZE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        cwd=Path(preparing.__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_what_is_prepared_is_not_prepared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where kernels are compiled twice for one state of the code, not for another, or doctor says otherwise."""
    compiled: list[Path] = []
    first, second = tmp_path / "kernels" / "first", tmp_path / "kernels" / "second"
    folder = first
    monkeypatch.setattr(preparing, "kernel_folder", lambda: folder)
    monkeypatch.setattr(compiling, "compile_kernels", lambda tell: compiled.append(folder))
    database = database_of(tmp_path / "prefect")
    database.parent.mkdir()
    database.touch()
    said: list[str] = []
    for state_of_code in (first, first, second):
        folder = state_of_code
        folder.mkdir(parents=True, exist_ok=True)
        prepared_before = preparing.is_prepared(tmp_path)
        assert preparing.kernels_finding().ok == ("ok" if prepared_before else "warn")
        preparing.prepare(tmp_path, said.append)
        assert preparing.is_prepared(tmp_path) and preparing.kernels_finding().ok == "ok"
    assert compiled == [first, second]
    assert "The kernels are compiled, and the orchestrator has its database." in said


def test_another_checkout_with_the_same_home_is_prepared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where the first run of a second checkout, or of one that was moved, compiles though all was said to be."""
    compiled: list[Path] = []
    monkeypatch.setattr(preparing, "kernel_folder", lambda: tmp_path)
    monkeypatch.setattr(preparing, "PACKAGES", ())
    monkeypatch.setattr(compiling, "compile_kernels", lambda tell: compiled.append(preparing.ROOT))
    database_of(tmp_path / "prefect").parent.mkdir()
    database_of(tmp_path / "prefect").touch()
    for checkout in (tmp_path / "here", tmp_path / "there", tmp_path / "here"):
        monkeypatch.setattr(preparing, "ROOT", checkout)
        preparing.prepare(tmp_path, lambda line: None)
    assert compiled == [tmp_path / "here", tmp_path / "there"]
