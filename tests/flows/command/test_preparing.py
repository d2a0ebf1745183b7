"""The set-up prepares caches beforehand, and answering at once imports no more than needed."""

import json
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest
from launched import PATIENCE, ROOT

from corpora.kernels.sealed import write_sealed
from corpora.store.worker_pool import WorkerDied
from flows.command import compile_kernels as compiling
from flows.command import prepare as preparing
from flows.orchestration.embedded_server import get_database_path

HEAVY = ("numba", "pandas", "prefect", "pyarrow", "torch")
HELP = f"""
import contextlib, io, json, sys
from flows.main import main
said = io.StringIO()
sys.argv = ["cloze", "--help"]
with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
    main()
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    """Fails if the help waits for a library that only a command needs."""
    done = subprocess.run(
        [sys.executable, "-c", HELP],
        env={"CLOZE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        cwd=Path(preparing.__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of kernels, one of them kept, in a home with a database."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    write_sealed(folder / "a.kernel", b"code")
    get_database_path(tmp_path / "prefect").parent.mkdir()
    get_database_path(tmp_path / "prefect").touch()
    monkeypatch.setattr(preparing, "make_kernel_folder", lambda: folder)
    monkeypatch.setattr(preparing, "PACKAGES", ())
    return folder


def test_what_is_prepared_is_not_prepared_again(tmp_path: Path, kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if kernels are compiled twice for one state of their sources, not for another, or where one that is
    damaged is left, or doctor says otherwise."""
    times: list[Path] = []
    state = kernels / "compiled-1"
    monkeypatch.setattr(preparing, "is_compiled", lambda: state.exists())
    monkeypatch.setattr(preparing, "compute_marker_name", lambda: state.name)
    monkeypatch.setattr(preparing, "compile_kernels", lambda tell, workers: (times.append(state), state.touch()))
    told: list[str] = []
    for name, damage in (("1", b""), ("1", b""), ("2", b""), ("2", b"damage")):
        state = kernels / f"compiled-{name}"
        (kernels / "a.kernel").write_bytes((kernels / "a.kernel").read_bytes() + damage)
        before = preparing.is_prepared(tmp_path)
        finding = preparing.check_kernels()
        assert (finding.ok, "1 damaged in" in finding.fact) == ("ok" if before else "warn", bool(damage))
        preparing.prepare_home(tmp_path, told.append)
        assert preparing.is_prepared(tmp_path) and preparing.check_kernels().ok == "ok"
    assert [path.name for path in times] == ["compiled-1", "compiled-2", "compiled-2"]
    assert "The kernels are compiled, and the orchestrator has its database." in told
    assert not (kernels / "a.kernel").exists()


def test_what_is_not_compiled_is_compiled_next_to_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a run waits for the kernels, is held at its end, or says nothing of them."""
    monkeypatch.setattr(compiling, "is_compiled", lambda first=False: (tmp_path / "compiled").exists())
    begun, closed = Event(), Event()

    class Pool:
        num_workers = 1

        def __init__(self, workers: int) -> None:
            pass

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def run(self, function: object, call: str) -> None:
            begun.set()
            closed.wait(PATIENCE)
            raise WorkerDied("closed")

        def close(self) -> None:
            closed.set()

    monkeypatch.setattr(compiling, "WorkerPool", Pool)
    told: list[str] = []
    with compiling.compile_meanwhile(told.append):
        assert begun.wait(PATIENCE) and not closed.is_set()
    assert len(told) == 1 and not (tmp_path / "compiled").exists()
    (tmp_path / "compiled").touch()
    with compiling.compile_meanwhile(told.append):
        pass
    assert len(told) == 1


@pytest.mark.long
def test_the_listed_calls_are_those_of_a_store() -> None:
    """Fails if a kernel that runs call is not on the list, or of a folder not among its first, and a run waits."""
    code = (
        "from flows.command.kernel_calls import CALLS, record_calls; "
        "texts = ('\\n'.join(record_calls()), CALLS.read_text().rstrip()); "
        "made, listed = ([{*part.split('\\n')} for part in text.split('\\n\\n')] for text in texts); "
        "print([one ^ other for one, other in zip(made, listed, strict=True)])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[set(), set()]"
