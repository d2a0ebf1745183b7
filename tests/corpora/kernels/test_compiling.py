"""Kernels: compiled once, kept on disk under a name that any change of their sources changes, free of the GIL."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numba
import pytest

import corpora.kernels.compiling
from corpora.errors import InputError
from corpora.kernels.compiling import kernel, kernel_digest, kernel_folder

ROOT = Path(__file__).resolve().parents[3]
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
    spin(1)
    started = time.thread_time()
    spin(10_000_000)
    turns = int(10_000_000 / (time.thread_time() - started))  # about a second of a processor
    other = threading.Thread(target=spin, args=(turns,))
    other.start()
    waits = 0
    while other.is_alive():
        time.sleep(0.001)
        waits += 1
    assert waits > 5  # with the GIL held there would be one wait, of it all


CALLS = "from corpora.counting import grown; print(grown(1), sum(grown.stats.cache_hits.values()))"


class Checkout:
    """A checkout with one kernel, whose code comes in part from another file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("__init__.py", "errors.py", "kernels/__init__.py", "kernels/compiling.py"):
            (root / "corpora" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "corpora" / name, root / "corpora" / name)
        (root / "corpora" / "counting.py").write_text(
            "from corpora.kernels.compiling import kernel\n"
            "from corpora.growth import RATE\n"
            "@kernel\n"
            "def grown(number: int) -> int:\n"
            "    return number + RATE\n"
        )
        self.grow(10)

    def grow(self, rate: int) -> None:
        """Change the file that the kernel's own file imports."""
        (self.root / "corpora" / "growth.py").write_text(f"RATE = {rate}\n")

    def call(self, **environment: str) -> tuple[str, str]:
        """What the kernel gives in a plain process, and how many machine codes were there already."""
        plain = {"PATH": os.environ["PATH"], "HOME": str(self.root / "user"), "PYTHONDONTWRITEBYTECODE": "1"}
        plain |= {name: value for name, value in os.environ.items() if name.startswith("NUMBA_CPU_")}
        command = [sys.executable, "-c", CALLS]
        done = subprocess.run(
            command, env={**plain, **environment}, cwd=self.root, capture_output=True, text=True, check=True
        )
        number, hits = done.stdout.split()
        return number, hits

    def kept(self) -> list[str]:
        """The folders that hold machine code."""
        return sorted({path.parents[1].relative_to(self.root).as_posix() for path in self.root.rglob("*.nbi")})


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.slow
def test_a_plain_process_runs_no_stale_code_and_leaves_the_sources_alone(checkout: Checkout) -> None:
    """Fails where nobody sets the folder, where it is named by the kernel's own file, or changes between processes."""
    before = set((checkout.root / "corpora").rglob("*"))
    assert checkout.call() == ("11", "0")
    first = checkout.kept()
    assert checkout.call() == ("11", "1")
    assert checkout.kept() == first == [f".cloze/kernels/{kernel_digest(checkout.root)}"]
    checkout.grow(20)
    assert checkout.call() == ("21", "0")
    assert len(checkout.kept()) == 2 and kernel_digest(checkout.root) in checkout.kept()[0] + checkout.kept()[1]
    assert set((checkout.root / "corpora").rglob("*")) == before


@pytest.mark.slow
def test_machine_code_is_kept_where_it_can_be(checkout: Checkout) -> None:
    """Fails where CLOZE_HOME is overlooked, or a checkout that cannot be written stops the import."""
    digest = kernel_digest(checkout.root)
    assert checkout.call(CLOZE_HOME="chosen") == ("11", "0")
    assert checkout.kept() == [f"chosen/kernels/{digest}"]
    (checkout.root / ".cloze").touch()  # no folder can be made in its place, whoever asks
    assert checkout.call() == ("11", "0")
    assert checkout.kept() == [f"chosen/kernels/{digest}", f"user/.cache/cloze/kernels/{digest}"]


def test_without_any_folder_for_machine_code_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CLOZE_HOME", str(tmp_path / "file"))
    kernel_folder.cache_clear()
    with pytest.raises(InputError, match=r"file: it cannot be written. Set CLOZE_HOME to a folder that can\.$"):
        kernel_folder()


def test_all_processes_of_the_tests_share_one_folder_of_compiled_kernels() -> None:
    assert numba.config.CACHE_DIR == str(kernel_folder())


FILES = {
    "corpora/words.py": "from corpora.kernels.compiling import kernel\nfrom corpora.limits import LONGEST\n",
    "corpora/limits.py": "import corpora.deeper.tables\nLONGEST = 8\n",
    "corpora/deeper/tables.py": "TABLE = (1, 2)\n",
    "shards/masks.py": "import numpy\nfrom corpora.kernels.compiling import (\n    kernel)\nfrom shards import rates\n",
    "shards/rates.py": "RATE = 0.15\n",
    "shards/late.py": "def f():\n  from corpora.kernels.compiling import kernel\n  from shards.inside import (\n A)\n",
    "shards/inside.py": "A = 1\n",
    "shards/plain.py": "from shards.rates import RATE\n",
    "flows/command/cli.py": "from corpora.kernels.compiling import kernel_digest\n",
    "corpora/kernel.txt": "import kernel\n",
}
DECIDES = {name for name in FILES if name not in ("shards/plain.py", "flows/command/cli.py", "corpora/kernel.txt")}


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


@pytest.mark.parametrize("setting", ["CPU_NAME", "CPU_FEATURES"])
def test_the_digest_knows_a_chosen_processor(house: Path, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    """NUMBA_CPU_NAME and NUMBA_CPU_FEATURES: numba compiles for what they name."""
    before = kernel_digest(house)
    monkeypatch.setattr(numba.config, setting, "another than any")
    assert kernel_digest(house) != before


@pytest.mark.parametrize("changed", ["numba", "llvmlite", "processor"])
def test_the_digest_knows_compiler_and_processor(house: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    before = kernel_digest(house)
    installed = corpora.kernels.compiling.version
    other = {"version": lambda name: "0.0" if name == changed else installed(name), "_processor": lambda: "another one"}
    name = "_processor" if changed == "processor" else "version"
    monkeypatch.setattr(corpora.kernels.compiling, name, other[name])
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
    assert compiling == ["corpora/kernels/compiling.py"]
