"""`make test` keeps its own promises: the same tests everywhere, in several processes, the dearest files first."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cpu_seconds import COLLECTION, KEPT, SESSION

TESTS = Path(__file__).parent
ROOT = TESTS.parent

ENDED = """
import os, signal
def test_first(): pass
def test_ends_its_process(): os.kill(os.getpid(), signal.SIGKILL)
def test_fails(): print("what", "it wrote"); assert os.getpid() == 0
def test_last(): pass
"""
SHARED = """
import pytest
@pytest.fixture(scope="session")
def dear():
    yield sum(range(30_000_000))
    print("torn down")
def test_one(dear): assert dear
def test_two(dear): assert dear
"""


def pytest_run(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest over a folder in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of tests, far from the project's settings."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_a.py").write_text(ENDED)
    (folder / "test_b.py").write_text(SHARED)
    return folder


def test_processes_report_all_tests_also_where_one_dies(files: Path) -> None:
    """Fails if a test or its output is lost or told twice, or where the rest of a dead process's file is not run."""
    done = pytest_run(files, "-p", "side_by_side", "--processes", "2", "-v", "-rA")
    assert done.returncode == 1
    assert "4 passed, 2 failed" in done.stdout or "2 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "the process of this test ended with SIGKILL" in done.stdout
    assert done.stdout.count("what it wrote") == 1
    assert done.stdout.count("test_last PASSED") == 1


def test_processes_stop_after_the_first_failure_where_that_is_asked_for(files: Path) -> None:
    done = pytest_run(files, "-p", "side_by_side", "--processes", "1", "-x")
    assert "stopping after 1 failures" in done.stdout and "1 failed, 1 passed" in done.stdout, done.stdout


def test_seconds_of_a_run_are_shown_and_kept(files: Path, tmp_path: Path) -> None:
    """Fails if the file that needs a fixture of the session first pays for it, or the next run cannot read them."""
    plugins = ("-p", "side_by_side", "-p", "cpu_seconds", "--cpu-seconds", "--processes", "1")
    done = pytest_run(files, *plugins, "-p", "cacheprovider", "-o", f"cache_dir={tmp_path}", "test_b.py")
    assert done.returncode == 0, done.stdout
    kept = json.loads((tmp_path / "v" / KEPT).read_text(encoding="utf-8"))
    assert set(kept) == {COLLECTION, SESSION, "test_b.py"} and kept[SESSION] > kept["test_b.py"]
    shown = done.stdout.partition(" CPU seconds ")[2].splitlines()[1:5]
    assert [line.split(maxsplit=1)[1] for line in shown] == [*sorted(kept, key=lambda name: -kept[name]), "in all"]


@pytest.mark.long
def test_the_same_tests_are_collected_on_every_machine(request: pytest.FixtureRequest) -> None:
    """Fails if a test's name depends on the clock, the hash seed, the machine or a folder's order.

    What was collected here is compared with the same collection in a process of its own, in another year.
    """
    here = {item.nodeid for item in request.session.items}
    marked = request.config.option.markexpr
    done = pytest_run(
        ROOT, "-p", "shifted_clock", "--collect-only", "-q", "-m", marked, *request.config.args,
        PYTHONHASHSEED="4711", CLOZE_TESTS=os.environ.get("CLOZE_TESTS", ""),
    )  # fmt: skip
    there = {line for line in done.stdout.splitlines() if "::" in line}
    assert done.returncode == 0, done.stdout[-2000:]
    assert here == there


def test_each_promise_has_its_test() -> None:
    """Fails if docs/tests.md names a test that is gone or that `make test` leaves out."""
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", (ROOT / "docs" / "tests.md").read_text(encoding="utf-8"))
    assert len(named) > 30
    for file, test in named:
        body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
        assert test in functions, f"{file} has no {test}"
        marks = [*functions[test].decorator_list, *(node for node in body if "pytestmark" in ast.unparse(node)[:10])]
        whole = [ast.unparse(mark) for mark in marks if "parametrize" not in ast.unparse(mark)]
        assert not any("mark.long" in mark for mark in whole), f"{test} is long"
