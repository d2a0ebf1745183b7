"""The set-up on a fresh machine: a usual obstacle is one line and exit code 2, and nothing is done twice.

Nothing is downloaded: the environment's Python is a shell script that writes down how it is called, answers for pip
as the test wants, and hands everything else to the real Python.
"""

import ast
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import bootstrap
from flows.command import machine_checks

CHECKOUT = Path(bootstrap.__file__).parent
COMPILE = "-m flows.command.compile_kernels"


NOT_NAMED = {"llvmlite", "wcwidth"}  # comes with numba, with ftfy
OPTIONAL = {"PyYAML", "cloudpickle", "colorama", "scipy"}  # what numba and others import if it is there


@dataclass
class Checkout:
    """A checkout in miniature: two files of pins, and an environment whose Python is a stub."""

    root: Path
    patch: pytest.MonkeyPatch

    def run(self, *arguments: str, **variables: str) -> int:
        """Run the bootstrap here, with these variables."""
        for name in ("TORCH", "TORCH_INDEX"):
            self.patch.delenv(name, raising=False)
        for name, value in variables.items():
            self.patch.setenv(name, value)
        return bootstrap.main(arguments, self.root)

    def calls(self) -> list[str]:
        """How the stubs were called so far: one line for each call that neither looked for pip nor compiles."""
        log = self.root / "calls"
        lines = log.read_text().replace(f"{self.root}", "ROOT").splitlines() if log.exists() else []
        return [line for line in lines if line != COMPILE]

    def stub(self, name: str, *answers: str) -> str:
        """An executable that records its calls, goes through `answers` (cases of shell), else is the real Python."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cases = "\n".join(answers)
        path.write_text(
            f'#!/bin/sh\ncase "$*" in *"import pip"*) exit 0;; *) echo "$*" >> {self.quoted("calls")};; esac\n'
            f'case "$*" in\n{cases}\n*"-m pip"*|*"{COMPILE}"*) exit 0;;\n'
            f'*) exec {shlex.quote(sys.executable)} "$@";; esac\n'
        )
        path.chmod(0o755)
        return str(path)

    def quoted(self, name: str) -> str:
        """The path of a file here as a shell reads it, whatever the name of the temporary folder."""
        return shlex.quote(str(self.root / name))

    def stub_environment(self, *answers: str) -> None:
        """Make `.venv` with a stub for its Python."""
        self.stub(".venv/bin/python", *answers)
        (self.root / ".venv" / "pyvenv.cfg").write_text("version = 3.11\n")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A checkout with a sound environment."""
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "pyproject.toml").write_text("[project]\n")
    (root / "constraints.txt").write_text("setuptools==84.2.1\ntorch==2.13.0\n")
    monkeypatch.setenv("CLOZE_HOME", str(root / "home"))
    made = Checkout(root, monkeypatch)
    made.stub_environment()
    return made


def only_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that was written to standard error."""
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_pip_is_called_for_what_builds_then_torch_alone_then_the_project(checkout: Checkout) -> None:
    assert checkout.run("--extra", "dev", "--extra", "trainer") == 0
    pip = "-I -m pip install --only-binary :all: --constraint ROOT/constraints.txt"
    assert checkout.calls() == [
        f"{pip} setuptools ftfy numba numpy pyarrow pycld2 tokenizers xxhash",
        f"{pip} --no-deps torch==2.13.0",
        f"{pip} --no-binary jsonpath-rw --no-build-isolation --editable ROOT[dev,trainer]",
    ]


def test_a_second_run_does_nothing_and_says_nothing(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    assert checkout.run("--extra", "trainer") == 0
    assert "about 470 MB to download, 1.9 GB on disk" in capsys.readouterr().out
    done = checkout.calls()
    assert checkout.run("--extra", "trainer") == checkout.run() == 0, "less than what is in place is in place too"
    assert checkout.calls() == done
    assert capsys.readouterr() == ("", "")


def test_changed_pins_and_a_new_extra_install_again_with_the_earlier_extras(checkout: Checkout) -> None:
    checkout.run("--extra", "trainer")
    checkout.run("--extra", "dev")
    assert checkout.calls()[-1].endswith("ROOT[dev,trainer]")
    done = len(checkout.calls())
    (checkout.root / "constraints.txt").write_text("torch==2.13.1\n")
    checkout.run()
    assert checkout.calls()[done:][1].endswith("torch==2.13.1")
    assert checkout.calls()[-1].endswith("ROOT[dev,trainer]")


def test_torch_can_be_left_out(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    assert checkout.run("--extra", "trainer", TORCH="none") == 0
    assert len(checkout.calls()) == 2 and checkout.calls()[-1].endswith("--editable ROOT")
    assert checkout.run("--extra", "trainer", TORCH="cuda") == 2
    assert "TORCH_INDEX=URL" in only_line(capsys)


def test_torch_comes_from_the_index_named_and_stays_from_there(checkout: Checkout) -> None:
    index = "https://mirror.example/cpu"
    assert checkout.run("--extra", "trainer", TORCH_INDEX=index) == 0
    assert f"--no-deps --index-url {index}" in checkout.calls()[1]
    assert sum(index in call for call in checkout.calls()) == 1, "only torch comes from there"
    assert checkout.run("--extra", "trainer") == 0
    assert len(checkout.calls()) == 3, "the variable need not be repeated"
    checkout.run("--extra", "trainer", TORCH_INDEX="https://mirror.example/gpu")
    assert "--force-reinstall" in checkout.calls()[4]


def test_pip_keeps_to_folders_of_ours(checkout: Checkout) -> None:
    seen = checkout.quoted("seen")
    checkout.stub_environment(f'*"-m pip"*) printf "%s\\n" "$PIP_CACHE_DIR" "$TMPDIR" "$PIP_TARGET" > {seen}; exit 0;;')
    checkout.run(PIP_TARGET="/elsewhere")
    cache, temporary, target = (checkout.root / "seen").read_text().split("\n")[:3]
    assert cache == str(checkout.root / "home" / "pip") and target == ""
    assert temporary.startswith(str(checkout.root / "home")) and not Path(temporary).exists()


def test_the_environment_is_made_where_there_is_none_or_the_checkout_was_moved(checkout: Checkout) -> None:
    venv = checkout.quoted(".venv")
    made = f"mkdir -p {venv}/bin; cp {checkout.quoted('ready')} {venv}/bin/python; exit 0"
    checkout.stub("ready")
    checkout.patch.setattr(sys, "executable", checkout.stub("python", f'*"-m venv"*) {made};;'))
    shutil.rmtree(checkout.root / ".venv")
    assert checkout.run() == 0
    assert checkout.calls()[0] == "-m venv --clear ROOT/.venv"
    stamp = checkout.root / ".venv" / "cloze-stamp.json"
    stamp.write_text(json.dumps({**json.loads(stamp.read_text()), "root": "/where/it/was"}))
    (checkout.root / ".venv" / "pyvenv.cfg").touch()
    assert checkout.run() == 0
    assert checkout.calls().count("-m venv --clear ROOT/.venv") == 2


# Kernels, which are compiled next to pip


def compiling(checkout: Checkout, waiting: str, then: str = "exit 0") -> tuple[str, str]:
    """Answers with which a call of pip ends only once compiling has begun, which then goes on for ever."""
    begun = checkout.quoted("begun")
    return (
        f"*{waiting}*) for n in $(seq 600); do [ -s {begun} ] && {then}; sleep 0.05; done; exit 3;;",
        f'*"{COMPILE}"*) echo $$ > {begun}; exec sleep 600;;',
    )


def is_gone(checkout: Checkout) -> bool:
    """Whether the process that compiled is there no more."""
    try:
        os.kill(int((checkout.root / "begun").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(("torch", "waiting"), [("", "torch==2.13.0"), ("none", "--editable")])
def test_kernels_are_compiled_while_pip_loads_the_rest(checkout: Checkout, torch: str, waiting: str) -> None:
    """Fails if compiling begins after torch, or after the project where torch is left out, or outlives the set-up."""
    checkout.stub_environment(*compiling(checkout, waiting))
    assert checkout.run("--extra", "trainer", TORCH=torch) == 0
    assert is_gone(checkout)


def test_compiling_ends_with_a_set_up_that_fails(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.stub_environment(*compiling(checkout, "--editable", 'echo "ERROR: never seen before" && exit 3'))
    assert checkout.run() == 1
    assert "never seen before" in only_line(capsys)
    assert is_gone(checkout)


def test_kernels_that_cannot_be_compiled_do_not_stop_the_set_up(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cloze prepare`, or the first run, compiles them again and tells why it cannot."""
    tried = checkout.quoted("tried")
    checkout.stub_environment(
        f"*--editable*) for n in $(seq 600); do [ -e {tried} ] && exit 0; sleep 0.05; done; exit 3;;",
        f'*"{COMPILE}"*) echo Traceback; echo Traceback >&2; touch {tried}; exit 1;;',
    )
    assert checkout.run() == 0
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err


def test_compiling_keeps_no_other_set_up_waiting(checkout: Checkout) -> None:
    """Fails if what compiles has the lock: were the set-up killed, the next one would wait for it."""
    held = checkout.quoted("held")
    look = f"ls -l /proc/$$/fd > {held}; echo $$ > {checkout.quoted('begun')}; exec sleep 600"
    checkout.stub_environment(compiling(checkout, "--editable")[0], f'*"{COMPILE}"*) {look};;')
    assert checkout.run() == 0
    assert "null" in (checkout.root / "held").read_text()
    assert "pyproject.toml" not in (checkout.root / "held").read_text()


def test_what_compiling_needs_is_installed_before(tmp_path: Path) -> None:
    """Fails if a kernel's module imports a package that pip has not loaded by then."""
    program = """
import sys
from corpora.kernels.calls import parse_call
from flows.command.compile_kernels import read_calls
for call in read_calls():
    parse_call(call)
print(*{name.partition(".")[0] for name in sys.modules})
"""
    imported = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    distributions = packages_distributions()
    packages = {name for top in imported for name in distributions.get(top, [])}
    assert {"numba", "numpy", "pyarrow"} <= packages
    assert packages <= {*bootstrap.EARLY, *NOT_NAMED, *OPTIONAL, "cloze-pipeline"}


# Interruptions, and two at once


def test_a_failed_run_leaves_no_stamp_and_the_next_one_goes_on(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.stub_environment('*--editable*) echo "ERROR: never seen before"; exit 3;;')
    assert checkout.run() == 1
    line = only_line(capsys)
    assert "never seen before" in line and "bootstrap.log" in line
    checkout.stub_environment()
    assert checkout.run() == 0
    assert len(checkout.calls()) == 4


def test_a_package_cut_short_is_installed_again(checkout: Checkout) -> None:
    packages = checkout.root / ".venv" / "lib" / "python3.11" / "site-packages"
    for name in ("whole", "half"):
        (packages / f"{name}-1.dist-info").mkdir(parents=True)
    (packages / "whole-1.dist-info" / "RECORD").write_text("")
    checkout.run()
    assert [entry.name for entry in packages.iterdir()] == ["whole-1.dist-info"]


def test_the_second_of_two_waits_and_then_finds_it_done(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    printed = ""
    checkout.stub_environment(f'*"-m pip"*) while [ ! -e {checkout.quoted("go-on")} ]; do sleep 0.05; done; exit 0;;')
    codes: list[int] = []
    threads = [threading.Thread(target=lambda: codes.append(bootstrap.main([], checkout.root))) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 120
    while "another one is at work here" not in printed and time.monotonic() < deadline:
        printed += capsys.readouterr().out
        time.sleep(0.01)
    (checkout.root / "go-on").touch()
    for thread in threads:
        thread.join()
    assert codes == [0, 0] and len(checkout.calls()) == 2, "one of the two did the work"
    assert "another one is at work here" in printed


def test_a_pip_that_outlives_its_bootstrap_keeps_others_out(checkout: Checkout) -> None:
    checkout.stub_environment('*"-m pip"*) sleep 600; exit 0;;')
    code = f"import bootstrap; from pathlib import Path; bootstrap.main([], Path({str(checkout.root)!r}))"
    started = subprocess.Popen(
        [sys.executable, "-c", code], cwd=CHECKOUT, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while not checkout.calls():
            assert started.poll() is None
            time.sleep(0.01)
        started.kill()
        started.wait()
        with (checkout.root / "pyproject.toml").open("r+") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.killpg(started.pid, 9)


# Obstacles


def test_a_home_that_cannot_be_written(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout.root / "home").write_text("in the way")
    assert checkout.run() == 2
    assert "set CLOZE_HOME" in only_line(capsys)
    assert checkout.run(CLOZE_HOME=str(checkout.root / "other")) == 0


def test_something_else_where_the_environment_goes(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(checkout.root / ".venv")
    (checkout.root / ".venv").mkdir()
    (checkout.root / ".venv" / "mine").touch()
    assert checkout.run() == 2
    assert "move it away" in only_line(capsys)
    assert (checkout.root / ".venv" / "mine").exists()


@pytest.mark.parametrize("version", [(3, 9, 2), (3, 11, 2), (3, 14, 0)])
def test_a_python_that_will_not_do(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], version: tuple[int, ...]
) -> None:
    assert bootstrap.main([], checkout.root, version) == 2
    assert f"this is Python {'.'.join(map(str, version))}: set PYTHON" in only_line(capsys)


# What pip and venv write in these cases, shortened (pip 23 and 25)
COMPLAINTS = {
    "OSError: [Errno 28] No space left on device": "free some space",
    "WARNING: Retrying after connection broken by 'ProxyError('Cannot connect to proxy.')'": "HTTPS_PROXY",
    "Could not fetch URL: SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED'))": "PIP_CERT",
    "WARNING: Retrying (total=0) after connection broken by 'NewConnectionError'": "PIP_INDEX_URL",
    "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool: Read timed out.": "PIP_INDEX_URL",
    "ERROR: No matching distribution found for torch==2.13.0": "TORCH=none",
    "    The user requested torch==2.13.0\n    The user requested (constraint) torch==2.13.0": "TORCH=none",
    "ERROR: No matching distribution found for numba<0.69": "wheel of numba<0.69",
    "    prefect depends on x\n    The user requested (constraint) x==1.0": "wheel of x==1.0",
    "ERROR: Could not install packages due to an OSError: Permission denied: '/opt/x'": "/opt/x cannot be written",
    "Error: Command '...' returned 1: No module named ensurepip": "python3-venv",
}


@pytest.mark.parametrize("complaint", COMPLAINTS)
def test_what_pip_complains_of_becomes_one_line(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], complaint: str
) -> None:
    (checkout.root / "complaint").write_text(complaint + "\n")
    checkout.stub_environment(f'*"-m pip"*) cat {checkout.quoted("complaint")}; exit 1;;')
    assert checkout.run() == 2
    assert COMPLAINTS[complaint] in only_line(capsys)
    assert not (checkout.root / ".venv" / "cloze-stamp.json").exists()


def test_an_old_python_can_read_the_file() -> None:
    ast.parse((CHECKOUT / "bootstrap.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    with pytest.raises(SyntaxError):
        ast.parse("match 1:\n    case 1: pass", feature_version=(3, 8))


def test_the_pythons_are_the_same_everywhere() -> None:
    """Fails if pyproject.toml, `cloze doctor` or a page names other Pythons than the set-up takes."""
    assert bootstrap.SUPPORTED == machine_checks.MIN_PYTHONS
    first, last = ".".join(map(str, bootstrap.SUPPORTED[0])), bootstrap.SUPPORTED[-1]
    asked = f'requires-python = ">={first},<{last[0]}.{last[1] + 1}"'
    assert asked in (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    oldest, *others, newest = [f"{major}.{minor}" for major, minor, _ in bootstrap.SUPPORTED]
    named = f"Python {', '.join([f'{oldest} ({first} or newer)', *others])} or {newest}"
    assert named in machine_checks.check_python((3, 10, 0)).remedy
    for name in ("README.md", "docs/install.md", "bootstrap.py"):
        assert named in (CHECKOUT / name).read_text(encoding="utf-8"), name
