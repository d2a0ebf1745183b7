"""Kernels: compiled once, kept on disk under a name that any change of their sources changes, shared, checked,
free of the GIL."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import llvmlite
import numba
import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features

import corpora.kernels.compiling
from corpora.errors import InputError
from corpora.kernels.calls import format_call, parse_call
from corpora.kernels.compiling import (
    BASELINE,
    BASELINE_FEATURES,
    compute_shipped_name,
    compute_source_digest,
    kernel,
    make_kernel_folder,
)
from corpora.kernels.sealed import read_sealed, write_sealed

ROOT = Path(__file__).resolve().parents[3]
CALLED = ROOT / "flows" / "command" / "kernel_calls.txt"


@kernel
def spin(turns: int) -> int:
    """A loop that the compiler cannot foresee."""
    state = 1
    for _ in range(turns):
        state = (state * 1103515245 + 12345) % 2147483648
    return state


def test_a_kernel_is_compiled_and_equals_its_source() -> None:
    assert spin(1000) == spin.py_func(1000)  # type: ignore[attr-defined]
    assert spin.numba_object.nopython_signatures  # type: ignore[attr-defined]


@kernel
def turns_until(sign: np.ndarray, turns: np.ndarray, most: int) -> int:
    """Count turns until another thread gives a sign; the arrays may overlap, so it is looked for in each turn."""
    for turn in range(1, most):
        turns[0] = turn
        if sign[0]:
            return turn
    return 0


def test_a_kernel_lets_other_threads_work() -> None:
    """Fails if a kernel holds the GIL: nobody could then give it the sign that ends it before its last turn."""
    sign, turns, ended = np.zeros(1, np.int64), np.zeros(1, np.int64), list[int]()
    assert turns_until(sign, turns, 10) == 0
    turns[0] = 0
    other = threading.Thread(target=lambda: ended.append(turns_until(sign, turns, 50_000_000_000)))
    other.start()
    while not turns[0]:
        time.sleep(0.001)
    sign[0] = 1
    other.join()
    assert ended[0] > 0


def test_numba_is_imported_by_the_first_call() -> None:
    """Fails if a command that calls no kernel pays for it."""
    program = """
import sys, numpy as np, flows.recipes.recipe
from corpora.kernels.packed import lower_word
assert "numba" not in sys.modules
assert lower_word(np.uint64(0x41)) == 0x61 and "numba" in sys.modules"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


CALLS = "from corpora.counting import grown; print(grown(1), sum(grown.numba_object.stats.cache_hits.values()))"


class Checkout:
    """A checkout with two kernels, one for the other, whose code comes in part from another file."""

    def __init__(self, root: Path, user: Path) -> None:
        self.root, self.user = root, user
        here = ROOT / "corpora" / "kernels"
        shutil.copytree(here, root / "corpora" / "kernels", ignore=shutil.ignore_patterns("shipped"))
        (root / "pyproject.toml").touch()
        for name in ("__init__.py", "errors.py"):
            shutil.copy(ROOT / "corpora" / name, root / "corpora" / name)
        (root / "corpora" / "counting.py").write_text(
            "from corpora.kernels.compiling import kernel\n"
            "from corpora.growth import RATE\n"
            "@kernel\n"
            "def _raised(number: int) -> int:\n"
            "    if number < 0:\n"
            "        raise ValueError('below zero')\n"
            "    return number + RATE\n"
            "@kernel\n"
            "def grown(number: int) -> int:\n"
            "    return _raised(number)\n"
        )
        self.grow(10)

    def grow(self, rate: int) -> None:
        """Change the file that the kernels' own file imports."""
        (self.root / "corpora" / "growth.py").write_text(f"RATE = {rate}\n")

    def call(self, calls: str = CALLS, **environment: str) -> list[str]:
        """Return the kernel's output in a plain process, and how many machine codes were there already."""
        plain = {"PATH": os.environ["PATH"], "HOME": str(self.user), "PYTHONDONTWRITEBYTECODE": "1"}
        plain |= {name: value for name, value in os.environ.items() if name.startswith("NUMBA_CPU_")}
        command = [sys.executable, "-c", calls]
        done = subprocess.run(
            command, env={**plain, **environment}, cwd=self.root, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    def kept(self) -> list[Path]:
        """The files of compiled code."""
        return sorted(self.user.parent.rglob("*.kernel"))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "here", tmp_path / "user")


@pytest.mark.slow
def test_checkouts_share_what_is_the_same_and_run_nothing_stale(checkout: Checkout, tmp_path: Path) -> None:
    """Fails if the name of compiled code knows the checkout, the time of a file, or not all that it depends on."""
    before = set((checkout.root / "corpora").rglob("*"))
    assert checkout.call() == ["11", "0"]
    first = checkout.kept()
    assert [path.parents[3] for path in first] == [checkout.user / ".cache"] * 2
    assert first[0].parent.stat().st_mode & 0o777 == 0o700
    assert Checkout(tmp_path / "elsewhere", checkout.user).call() == ["11", "1"]
    checkout.grow(20)
    assert checkout.call() == ["21", "0"]
    assert len(checkout.kept()) == 4 and {*first} < {*checkout.kept()}
    assert set((checkout.root / "corpora").rglob("*")) == before
    raising = "from corpora.counting import grown\ntry: grown(-1)\nexcept ValueError as error: print(error)"
    assert checkout.call(raising) == ["below", "zero"], "what a kernel inside of another raises is kept with it"


@pytest.mark.slow
def test_damaged_code_is_compiled_again_and_replaced(checkout: Checkout) -> None:
    """Fails if a file is loaded unchecked: numba's own ended every run at an empty one, or crashed."""
    checkout.call()
    native = next(path for path in checkout.kept() if path.name.startswith("grown"))
    whole = native.read_bytes()
    flipped = whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:]
    for damage in (b"", whole[:-100], flipped):
        native.write_bytes(damage)
        assert checkout.call() == ["11", "0"]
        assert read_sealed(native) is not None and not list(native.parent.glob(".*"))
    assert checkout.call() == ["11", "1"]


@pytest.mark.slow
def test_machine_code_is_kept_where_it_can_be(checkout: Checkout) -> None:
    """Fails if CLOZE_HOME is overlooked, or a user without a home of their own cannot import a kernel."""
    assert checkout.call(CLOZE_HOME="chosen") == ["11", "0"]
    assert not checkout.kept() == [] == list(checkout.user.rglob("*.kernel"))
    checkout.user.touch()  # no folder can be made in its place, whoever asks
    assert checkout.call() == ["11", "0"]
    assert {path.parents[2].name for path in checkout.kept()} == {"chosen", ".cloze"}


@pytest.mark.slow
def test_code_that_came_with_the_program_is_used_where_it_fits(checkout: Checkout) -> None:
    """Fails if compiled code of a wheel is not found, is copied, or is run damaged or where it does not fit."""
    if not all(get_host_cpu_features().get(name) for name in BASELINE_FEATURES):
        pytest.skip(f"this processor has not all instructions of {BASELINE}: run the test on another")
    checkout.call(CLOZE_HOME="made", NUMBA_CPU_NAME=BASELINE, NUMBA_CPU_FEATURES="")
    [made] = (checkout.root / "made" / "kernels").iterdir()
    shipped = checkout.root / "corpora" / "kernels" / "shipped" / compute_shipped_name()
    shipped.mkdir(parents=True)
    [native] = made.glob("grown-*.kernel")
    shutil.copy(native, shipped)
    assert checkout.call() == ["11", "1"]
    assert not list(checkout.user.rglob("*.kernel"))
    assert checkout.call(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == ["11", "0"]
    (shipped / native.name).write_bytes(native.read_bytes()[:-1])
    assert checkout.call() == ["11", "0"]


def test_without_any_folder_for_machine_code_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CLOZE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"file/.* Set CLOZE_HOME to a folder that can be written\.$"):
        make_kernel_folder.__wrapped__()


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a folder that others may write stays open to them, or files of others are read: its code is run."""
    monkeypatch.setenv("CLOZE_HOME", str(tmp_path))
    folder = make_kernel_folder.__wrapped__()
    folder.chmod(0o777)
    write_sealed(folder / "a.kernel", b"code")
    assert make_kernel_folder.__wrapped__() == folder and folder.stat().st_mode & 0o777 == 0o700
    mine, other = os.geteuid(), os.geteuid() + 1
    assert read_sealed(folder / "a.kernel") == b"code"
    monkeypatch.setattr(corpora.kernels.compiling, "_compute_machine_digest", lambda: folder.name)
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert read_sealed(folder / "a.kernel") is None
    with pytest.raises(InputError, match=r"belongs to another user. Set CLOZE_HOME"):
        make_kernel_folder.__wrapped__()
    monkeypatch.setattr(os, "geteuid", lambda: mine)
    assert make_kernel_folder.__wrapped__() == folder


def test_any_byte_cut_or_changed_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_sealed(path, bytes(range(40)))
    whole = path.read_bytes()
    assert read_sealed(path) == bytes(range(40)) and list(tmp_path.iterdir()) == [path]
    for place in range(len(whole)):
        for damage in (whole[:place], whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]):
            path.write_bytes(damage)
            assert read_sealed(path) is None


FILES = {
    "corpora/words.py": "from corpora.kernels.compiling import kernel\nfrom corpora.limits import LONGEST\n",
    "corpora/limits.py": "import corpora.deeper.tables\nLONGEST = 8\n",
    "corpora/deeper/tables.py": "TABLE = (1, 2)\n",
    "shards/masks.py": "from corpora.words import A\nfrom shards import rates\ndef f():\n  import shards.late\n",
    "shards/rates.py": "from shards.rates import (\n  RATE)\n",
    "shards/late.py": "A = 1\n",
    "shards/plain.py": "from shards.rates import RATE\n",
}
READ_BY = {
    "corpora/words.py": {"corpora/words.py", "corpora/limits.py", "corpora/deeper/tables.py"},
    "shards/masks.py": set(FILES) - {"shards/plain.py"},
}


def digests(house: Path) -> dict[str, str]:
    compute_source_digest.cache_clear()
    corpora.kernels.compiling._read_source.cache_clear()
    return {name: compute_source_digest(house / name, house) for name in READ_BY}


def test_the_digest_knows_a_module_and_what_it_imports_and_nothing_else(tmp_path: Path) -> None:
    """Fails if code goes stale, or an edit compiles again what does not depend on it; where the house is, is all
    the same."""
    house = tmp_path / "house"
    for name, source in FILES.items():
        (house / name).parent.mkdir(parents=True, exist_ok=True)
        (house / name).write_text(source)
    before = digests(house)
    for name in FILES:
        whole = (house / name).read_text()
        (house / name).write_text(whole + "# changed\n")
        changed = {module for module, digest in digests(house).items() if digest != before[module]}
        assert changed == {module for module, read in READ_BY.items() if name in read}, name
        (house / name).write_text(whole)
    assert digests(house.rename(tmp_path / "elsewhere")) == before


def test_the_folder_knows_compiler_and_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """NUMBA_CPU_NAME and NUMBA_CPU_FEATURES too: numba compiles for what they name."""
    here, compiling = corpora.kernels.compiling._compute_machine_digest, corpora.kernels.compiling
    names = {here()}
    for owner, name in ((numba.config, "CPU_NAME"), (numba.config, "CPU_FEATURES"), (numba.config, "BOUNDSCHECK"),
                        (numba, "__version__"), (llvmlite, "__version__"), (np, "__version__")):  # fmt: skip
        with monkeypatch.context() as changed:
            changed.setattr(owner, name, "another than any")
            names.add(here())
    monkeypatch.setattr(compiling, "_read_processor", lambda: "another one")
    assert len({*names, here()}) == 8 and all(len(name) == 16 for name in names)


def test_a_call_is_read_as_it_is_written() -> None:
    """Fails if a listed call is of no kernel, is compiled for other types than it was called with, or is listed
    twice."""
    lines = [line for line in CALLED.read_text(encoding="utf-8").splitlines() if line]  # a blank one parts the list
    assert len(lines) == len({*lines}) > 50
    for line in lines:
        kernel, arguments = parse_call(line)
        assert format_call(kernel, arguments) == line
