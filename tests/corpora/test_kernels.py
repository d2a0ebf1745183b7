"""Kernels: compiled once, kept on disk under a name that any change of their sources changes, free of the GIL."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numba
import numpy as np
import pytest

import corpora.kernels
from corpora.kernels import kernel, kernel_digest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer")


@kernel
def spin(turns: int) -> int:
    """A loop that the compiler cannot foresee."""
    state = 1
    for _ in range(turns):
        state = (state * 1103515245 + 12345) % 2147483648
    return state


def test_a_kernel_is_compiled_and_equals_its_source() -> None:
    assert spin(1000) == spin.py_func(1000)  # type: ignore[attr-defined]
    assert isinstance(spin, numba.core.dispatcher.Dispatcher) and spin.nopython_signatures


def test_a_kernel_lets_other_threads_work() -> None:
    started = time.perf_counter()
    spin(10_000_000)
    turns = int(10_000_000 * 0.5 / (time.perf_counter() - started))  # about half a second
    other = threading.Thread(target=spin, args=(turns,))
    other.start()
    waits = []
    while other.is_alive():
        started = time.perf_counter()
        time.sleep(0.001)
        waits.append(time.perf_counter() - started)
    assert len(waits) > 20 and np.median(waits) < 0.1  # with the GIL held there would be one wait, of it all


def test_tests_share_one_folder_of_compiled_kernels() -> None:
    assert os.environ["NUMBA_CACHE_DIR"] == numba.config.CACHE_DIR


@pytest.mark.slow
def test_a_second_process_takes_the_machine_code_from_disk(tmp_path: Path) -> None:
    (tmp_path / "once.py").write_text(
        "from corpora.kernels import kernel\n"
        "@kernel\n"
        "def add(a: int, b: int) -> int:\n"
        "    return a + b\n"
        "assert add(1, 2) == 3\n"
        "print(sum(add.stats.cache_hits.values()), sum(add.stats.cache_misses.values()))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "once.py")]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [run.stdout.split() for run in runs] == [["0", "1"], ["1", "0"]]


def test_the_digest_is_known_before_numba_is_imported() -> None:
    program = "import sys; from corpora.kernels import kernel_digest; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


FILES = {
    "corpora/words.py": "from corpora.kernels import kernel\nfrom corpora.limits import LONGEST\n",
    "corpora/limits.py": "import corpora.deeper.tables\nLONGEST = 8\n",
    "corpora/deeper/tables.py": "TABLE = (1, 2)\n",
    "shards/masks.py": "import numpy\nfrom corpora.kernels import (\n    kernel,\n)\nfrom shards import rates\n",
    "shards/rates.py": "RATE = 0.15\n",
    "shards/late.py": "def f():\n  from corpora.kernels import kernel\n  from shards.inside import (\n    A,\n  )\n",
    "shards/inside.py": "A = 1\n",
    "shards/plain.py": "from shards.rates import RATE\n",
    "flows/cli.py": "from corpora.kernels import kernel_digest\n",
    "corpora/kernel.txt": "import kernel\n",
}
DECIDES = {name for name in FILES if name not in ("shards/plain.py", "flows/cli.py", "corpora/kernel.txt")}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small tree of packages with kernels in it."""
    for name, source in FILES.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return tmp_path / "house"


@pytest.mark.parametrize("name", FILES)
def test_the_digest_knows_the_kernels_and_what_they_import(house: Path, name: str) -> None:
    before = kernel_digest(house)
    path = house / name
    path.write_text(path.read_text() + "# changed\n")
    assert (kernel_digest(house) != before) == (name in DECIDES)


def test_the_digest_knows_a_kernels_place_in_the_house_and_not_the_houses(house: Path, tmp_path: Path) -> None:
    before = kernel_digest(house)
    moved = shutil.move(house, tmp_path / "elsewhere")
    assert kernel_digest(Path(moved)) == before and len(before) == 16
    (tmp_path / "elsewhere/corpora/words.py").rename(tmp_path / "elsewhere/corpora/renamed.py")
    assert kernel_digest(tmp_path / "elsewhere") != before


@pytest.mark.parametrize("changed", ["numba", "llvmlite", "processor"])
def test_the_digest_knows_compiler_and_processor(house: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    before = kernel_digest(house)
    installed = corpora.kernels.version
    other = {"version": lambda name: "0.0" if name == changed else installed(name), "_processor": lambda: "another one"}
    name = "_processor" if changed == "processor" else "version"
    monkeypatch.setattr(corpora.kernels, name, other[name])
    assert kernel_digest(house) != before


def test_the_digest_knows_every_kernel_of_this_checkout(tmp_path: Path) -> None:
    for package in PACKAGES:
        if (ROOT / package).is_dir():
            shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "samples"))
    before = kernel_digest(tmp_path)
    holding = [path for path in tmp_path.rglob("*.py") if "@kernel" in path.read_text()]
    assert len(holding) >= 10
    for path in holding:
        source = path.read_text()
        path.write_text(source + "# changed\n")
        assert kernel_digest(tmp_path) != before, path
        path.write_text(source)
    assert kernel_digest(tmp_path) == before


def test_kernels_are_made_by_one_decorator_only() -> None:
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    compiling = [path.relative_to(ROOT).as_posix() for path in sources if "njit" in path.read_text()]
    assert compiling == ["corpora/kernels.py"]
