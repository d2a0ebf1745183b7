"""The set-up on a fresh machine: every usual obstacle is one line and exit code 2, and nothing is done twice.

Nothing is downloaded: the environment's Python is a shell script that writes down how it is called, answers for pip
as the test wants, and hands everything else to the real Python.
"""

import ast
import fcntl
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

import bootstrap
from flows.command import doctor

CHECKOUT = Path(bootstrap.__file__).parent
PLENTY = 10**13


@dataclass
class Checkout:
    """A checkout in miniature: two files of pins, and an environment whose Python is a stub."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)
    interpreter: str = sys.executable
    version: tuple[int, ...] = (3, 11, 7)

    def run(self, *arguments: str, **variables: str) -> int:
        """Run the bootstrap here, with these variables besides the test's own."""
        environ = {**self.environ, **variables}
        return bootstrap.main(arguments, environ, self.root, self.interpreter, self.version)

    def calls(self) -> list[str]:
        """How the stubs were called so far: one line for each call that was no probe."""
        log = self.root / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def stub(self, path: Path, *answers: str) -> str:
        """An executable that records its calls, goes through `answers` (cases of shell), else is the real Python."""
        path.parent.mkdir(parents=True, exist_ok=True)
        cases = "\n".join(answers)
        path.write_text(
            f'#!/bin/sh\ncase "$*" in *sys.version_info*) ;; *) echo "$*" >> {self.quoted("calls")};; esac\n'
            f'case "$*" in\n{cases}\n*"-m pip"*) exit 0;;\n*) exec {shlex.quote(sys.executable)} "$@";; esac\n'
        )
        path.chmod(0o755)
        return str(path)

    def quoted(self, name: str) -> str:
        """The path of a file here as a shell reads it, whatever the name of the temporary folder."""
        return shlex.quote(str(self.root / name))

    def stub_environment(self, *answers: str) -> None:
        """Make `.venv` with a stub for its Python."""
        self.stub(self.root / ".venv" / "bin" / "python", *answers)
        (self.root / ".venv" / "pyvenv.cfg").write_text("version = 3.11\n")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A checkout with a sound environment, on a machine with room, no proxy, and no other Python on PATH."""
    monkeypatch.setattr("flows.command.doctor.shutil.disk_usage", lambda _: SimpleNamespace(free=PLENTY))
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "pyproject.toml").write_text("[project]\n")
    (root / "constraints.txt").write_text("setuptools==84.2.1\ntorch==2.13.0\n")
    path = tmp_path / "bin"
    path.mkdir()
    for tool in ("sh", "sleep"):
        (path / tool).symlink_to(shutil.which(tool) or "")
    made = Checkout(root=root, environ={"PATH": str(path), "HOME": str(tmp_path)})
    made.stub_environment()
    return made


@pytest.fixture
def proxy() -> Iterator[str]:
    """The address of something on loopback that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def dead_address() -> str:
    """An address on loopback where nothing listens: a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def only_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that was written to standard error."""
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


# What is done


def test_pip_is_called_for_what_builds_then_torch_alone_then_the_project(checkout: Checkout) -> None:
    assert checkout.run("--extra", "dev", "--extra", "trainer") == 0
    pip = "-I -m pip install --only-binary :all: --constraint constraints.txt"
    assert checkout.calls() == [
        f"{pip} setuptools",
        f"{pip} --no-deps torch==2.13.0",
        f"{pip} --no-binary jsonpath-rw,rouge-score --no-build-isolation --editable .[dev,trainer]",
    ]


def test_a_second_run_does_nothing_and_says_nothing(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    assert checkout.run("--extra", "trainer") == 0
    assert "MB to download" in capsys.readouterr().out
    done = checkout.calls()
    assert checkout.run("--extra", "trainer") == 0
    assert checkout.run() == 0, "less than what is there is there too"
    assert checkout.calls() == done
    assert capsys.readouterr() == ("", "")


def test_changed_pins_and_a_new_extra_install_again_with_the_earlier_extras(checkout: Checkout) -> None:
    checkout.run("--extra", "trainer")
    checkout.run("--extra", "dev")
    assert checkout.calls()[-1].endswith(".[dev,trainer]")
    done = len(checkout.calls())
    (checkout.root / "constraints.txt").write_text("torch==2.13.1\n")
    checkout.run()
    assert checkout.calls()[done:][1].endswith("torch==2.13.1")
    assert checkout.calls()[-1].endswith(".[dev,trainer]")


def test_torch_can_be_left_out(checkout: Checkout) -> None:
    assert checkout.run("--extra", "trainer", "--extra", "dev", TORCH="none") == 0
    assert len(checkout.calls()) == 2
    assert not any("torch" in call or "trainer" in call for call in checkout.calls())


def test_torch_comes_from_the_index_named_and_stays_from_there(checkout: Checkout) -> None:
    index = "https://mirror.example/cpu"
    assert checkout.run("--extra", "trainer", TORCH_INDEX=index) == 0
    torch = checkout.calls()[1]
    assert f"--no-deps --index-url {index}" in torch
    assert sum(index in call for call in checkout.calls()) == 1, "only torch comes from there"
    assert checkout.run("--extra", "trainer") == 0
    assert len(checkout.calls()) == 3, "the variable need not be repeated"
    checkout.run("--extra", "trainer", TORCH_INDEX="https://mirror.example/gpu")
    assert "--force-reinstall" in checkout.calls()[4]


def test_pip_keeps_to_folders_of_ours(checkout: Checkout) -> None:
    checkout.stub_environment('*"-m pip"*) printf "%s\\n" "$PIP_CACHE_DIR" "$TMPDIR" "$PIP_TARGET" > seen; exit 0;;')
    checkout.run(PIP_TARGET="/elsewhere", CLOZE_HOME=str(checkout.root / "home"))
    cache, temporary, target = (checkout.root / "seen").read_text().split("\n")[:3]
    assert cache == str(checkout.root / "home" / "pip")
    assert temporary.startswith(str(checkout.root / "home" / "tmp"))
    assert not Path(temporary).exists()
    assert target == ""


def test_the_environment_is_made_where_there_is_none(checkout: Checkout) -> None:
    shutil.rmtree(checkout.root / ".venv")
    environment = checkout.quoted(".venv")
    checkout.stub(checkout.root / "ready")
    checkout.interpreter = checkout.stub(
        checkout.root / "python",
        f'*"-m venv"*) mkdir -p {environment}/bin; cp {checkout.quoted("ready")} {environment}/bin/python; exit 0;;',
    )
    checkout.environ["PATH"] += ":/bin:/usr/bin"
    assert checkout.run() == 0
    assert checkout.calls()[0] == f"-m venv --clear {checkout.root}/.venv"


def test_a_python_without_ensurepip_serves_when_it_has_pip(checkout: Checkout) -> None:
    shutil.rmtree(checkout.root / ".venv")
    checkout.interpreter = checkout.stub(
        checkout.root / "python",
        "*sys.version_info*) echo 3 11 7 venv pip; exit 0;;",
        f'*"-m venv"*) exec {shlex.quote(sys.executable)} -m venv --without-pip {checkout.quoted(".venv")};;',
    )
    assert checkout.run() == 1, "the environment without pip is a real one, so its pip is missing"
    assert checkout.calls() == [
        f"-m venv --clear --without-pip {checkout.root}/.venv",
        f"-m pip --python {checkout.root}/.venv/bin/python install pip setuptools",
    ]


def test_an_environment_that_came_with_a_moved_checkout_is_made_anew(checkout: Checkout) -> None:
    checkout.run()
    stamp = checkout.root / ".venv" / "cloze-stamp.json"
    stamp.write_text(json.dumps({**json.loads(stamp.read_text()), "root": "/where/it/was"}))
    checkout.interpreter = checkout.stub(checkout.root / "python", '*"-m venv"*) exit 1;;')
    assert checkout.run() == 2
    assert "-m venv --clear" in checkout.calls()[-1]


def test_another_python_on_path_takes_over(checkout: Checkout) -> None:
    path = Path(checkout.environ["PATH"])
    dead = path / "python3.12"
    dead.write_text("#!/bin/sh\nexit 127\n")
    dead.chmod(0o755)
    checkout.stub(path / "python3.11", "*sys.version_info*) echo 3 11 7; exit 0;;", "*bootstrap.py*) exit 7;;")
    checkout.version = (3, 14, 0)
    assert checkout.run("--extra", "dev") == 7
    assert checkout.calls() == [f"{checkout.root}/bootstrap.py --extra dev"]


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
    said = ""
    checkout.stub_environment(f'*"-m pip"*) while [ ! -e {checkout.quoted("go-on")} ]; do sleep 0.05; done; exit 0;;')
    codes: list[int] = []
    threads = [threading.Thread(target=lambda: codes.append(checkout.run())) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 120
    while "another one is at work here" not in said and time.monotonic() < deadline:
        said += capsys.readouterr().out
        time.sleep(0.01)
    (checkout.root / "go-on").touch()
    for thread in threads:
        thread.join()
    assert codes == [0, 0]
    assert len(checkout.calls()) == 2, "one of the two did the work"
    assert "another one is at work here" in said


def test_a_pip_that_outlives_its_bootstrap_keeps_others_out(checkout: Checkout) -> None:
    checkout.stub_environment('*"-m pip"*) sleep 600; exit 0;;')
    code = f"import sys, bootstrap; from pathlib import Path; bootstrap.main([], root=Path({str(checkout.root)!r}))"
    started = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        env=checkout.environ,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
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


def test_a_dead_proxy(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    assert checkout.run(HTTPS_PROXY=dead_address()) == 2
    line = only_line(capsys)
    assert "does not answer" in line and "unset HTTPS_PROXY" in line
    assert checkout.calls() == []


def test_a_proxy_that_would_catch_loopback_is_told_and_no_obstacle(
    checkout: Checkout, proxy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checkout.run(http_proxy=proxy) == 0
    assert "export no_proxy=127.0.0.1,localhost" in capsys.readouterr().out


def test_no_room(checkout: Checkout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.command.doctor.shutil.disk_usage", lambda _: SimpleNamespace(free=10**8))
    assert checkout.run() == 2
    assert "0.1 GB free" in only_line(capsys)


def test_no_writable_home(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout.root / ".cloze").write_text("in the way")
    assert checkout.run() == 2
    assert "set CLOZE_HOME" in only_line(capsys)
    assert checkout.run(CLOZE_HOME=str(checkout.root / "home")) == 0


def test_a_checkout_that_cannot_be_written(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", refused)
        assert checkout.run() == 2
    line = only_line(capsys)
    assert "Read-only file system" in line and "copy the checkout" in line


def test_something_else_where_the_environment_goes(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(checkout.root / ".venv")
    (checkout.root / ".venv").write_text("mine")
    assert checkout.run() == 2
    assert "move it away" in only_line(capsys)
    assert (checkout.root / ".venv").read_text() == "mine"


def test_a_python_without_venv(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(checkout.root / ".venv")
    checkout.interpreter = checkout.stub(checkout.root / "python", "*sys.version_info*) echo 3 11 7 pip; exit 0;;")
    assert checkout.run() == 2
    assert "-venv)" in only_line(capsys)


@pytest.mark.parametrize("version", [(3, 9, 2), (3, 11, 2), (3, 14, 0)])
def test_no_python_that_will_do(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], version: tuple[int, ...]
) -> None:
    """Also where PATH has a Python of the right name that is too old (Debian 12 has 3.11.2)."""
    checkout.stub(Path(checkout.environ["PATH"]) / "python3.11", "*sys.version_info*) echo 3 11 2 venv pip; exit 0;;")
    checkout.version = version
    assert checkout.run() == 2
    assert f"this is Python {'.'.join(map(str, version))}, " in only_line(capsys)


def test_another_platform(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.command.doctor.machine.__defaults__", ("darwin", "arm64"))
    assert checkout.run() == 2
    assert "darwin arm64" in only_line(capsys)


def test_a_build_of_torch_that_does_not_exist(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    assert checkout.run("--extra", "trainer", TORCH="cuda") == 2
    assert "TORCH=none" in only_line(capsys)


# What pip writes in these cases, shortened (pip 23 and 25)
PIP_SAYS = {
    "OSError: [Errno 28] No space left on device": "free some space",
    "WARNING: Retrying after connection broken by 'ProxyError('Cannot connect to proxy.')'": "HTTPS_PROXY",
    "Could not fetch URL: SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED'))": "PIP_CERT",
    "WARNING: Retrying (total=0) after connection broken by 'NewConnectionError'": "PIP_INDEX_URL",
    "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool: Read timed out.": "run the same again",
    "ERROR: No matching distribution found for torch==2.13.0": "TORCH=none",
    "    The user requested torch==2.13.0\n    The user requested (constraint) torch==2.13.0": "TORCH=none",
    "ERROR: No matching distribution found for numba<0.69": "wheel of numba<0.69",
    "    prefect depends on x\n    The user requested (constraint) x==1.0": "wheel of x==1.0",
    "ERROR: Could not install packages due to an OSError: Permission denied: '/opt/x'": "/opt/x cannot be written",
}


@pytest.mark.parametrize("said", PIP_SAYS)
def test_what_pip_complains_of_becomes_one_line(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    (checkout.root / "said").write_text(said + "\n")
    checkout.stub_environment('*"-m pip"*) while read -r line; do echo "$line"; done < said; exit 1;;')
    assert checkout.run() == 2
    assert PIP_SAYS[said] in only_line(capsys)
    assert not (checkout.root / ".venv" / "cloze-stamp.json").exists()


def test_an_old_python_can_read_the_file() -> None:
    source = (CHECKOUT / "bootstrap.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 8))
    with pytest.raises(SyntaxError):
        ast.parse("match 1:\n    case 1: pass", feature_version=(3, 8))


def test_as_a_command_it_ends_in_one_line_and_code_2(tmp_path: Path) -> None:
    for name in ("bootstrap.py", "pyproject.toml", "constraints.txt", "flows/__init__.py", "flows/command/doctor.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "bootstrap.py"), "--extra", "dev"],
        env={"PATH": "", "https_proxy": dead_address()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / ".venv").exists()


def test_the_pythons_are_the_same_everywhere() -> None:
    """Fails where pyproject.toml, `cloze doctor` or a page names other Pythons than the set-up takes."""
    assert bootstrap.SUPPORTED == doctor.PYTHONS
    first, last = ".".join(map(str, bootstrap.SUPPORTED[0])), bootstrap.SUPPORTED[-1]
    asked = f'requires-python = ">={first},<{last[0]}.{last[1] + 1}"'
    assert asked in (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    oldest, *others, newest = [f"{major}.{minor}" for major, minor, _ in bootstrap.SUPPORTED]
    said = f"Python {', '.join([f'{oldest} ({first} or newer)', *others])} or {newest}"
    assert said in doctor.python_version((3, 10, 0)).remedy
    for name in ("README.md", "CONTRIBUTING.md", "bootstrap.py"):
        assert said in (CHECKOUT / name).read_text(encoding="utf-8"), name
