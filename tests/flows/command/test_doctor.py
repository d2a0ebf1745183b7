"""`cloze doctor` is tested check by check, on a machine made to have, and not to have, what it looks for."""

import ast
import doctest
import importlib.metadata
import locale
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows.command.machine import doctor


@pytest.fixture
def listening() -> Iterator[int]:
    """A port on loopback at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def closed_port() -> int:
    """A port on loopback that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


# The whole


def test_every_finding_that_is_not_ok_has_a_remedy_of_one_line(tmp_path: Path, listening: int) -> None:
    (tmp_path / "file").write_text("")
    environ = {
        "PREFECT_SERVER_API_PORT": str(listening),
        "http_proxy": f"http://127.0.0.1:{closed_port()}",
        "TMPDIR": str(tmp_path / "file"),
    }
    findings = doctor.examine(tmp_path / "file" / "home", tmp_path / "file" / "store", environ)
    troubled = [finding for finding in findings if finding.ok != "ok"]
    assert {"server port", "proxy", "proxy and loopback", "write: temporary files", "write: store"} <= {
        finding.name for finding in troubled
    }
    assert all(finding.remedy and "\n" not in finding.remedy + finding.fact for finding in troubled)
    assert not any(finding.remedy for finding in findings if finding.ok == "ok")


def test_an_examination_leaves_nothing_behind(tmp_path: Path) -> None:
    findings = doctor.examine(tmp_path / "home", tmp_path / "store", {})
    assert {"write: home", "write: store"} <= {finding.name for finding in findings if finding.ok == "ok"}
    assert list(tmp_path.iterdir()) == []


def test_without_a_local_store_there_is_no_finding_about_it(tmp_path: Path) -> None:
    names = [finding.name for finding in doctor.examine(tmp_path, None, {})]
    assert "write: home" in names and "write: store" not in names
    assert len(names) == len(set(names))


def test_the_page_has_a_line_for_each_finding_its_remedy_beneath_and_the_counts() -> None:
    page = doctor.render(
        [
            doctor.Finding(name="python", ok="ok", fact="3.11.7"),
            doctor.Finding(name="gpu", ok="fail", fact="broken", remedy="mend it"),
        ]
    )
    assert page.splitlines() == [
        "ok    python  3.11.7",
        "fail  gpu     broken",
        "              -> mend it",
        "1 ok, 0 to know about, 1 to fix",
    ]


def test_the_environment_judged_is_the_one_the_process_was_started_with() -> None:
    code = (
        "import os; os.environ['no_proxy'] = 'x'; "
        "from flows.command.machine.doctor import first_environment as f; print(f())"
    )
    environ = {"no_proxy": "before", "PATH": "", "PYTHONPATH": str(Path(doctor.__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout)["no_proxy"] == "before"


def test_nothing_of_the_project_and_nothing_installed_is_imported() -> None:
    tree = ast.parse(Path(doctor.__file__).read_text(encoding="utf-8"))
    named = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert "tempfile" in named
    assert {name.partition(".")[0] for name in named} <= sys.stdlib_module_names


def test_the_examples_in_the_docstrings_hold() -> None:
    result = doctest.testmod(doctor)
    assert result.attempted and not result.failed


# The machine


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        ((3, 10, 4), "fail"),
        ((3, 11, 2), "fail"),
        ((3, 11, 5), "ok"),
        ((3, 12, 0), "ok"),
        ((3, 13, 9), "ok"),
        ((3, 14, 0), "fail"),
    ],
)
def test_python_versions(version: tuple[int, ...], verdict: str) -> None:
    assert doctor.python_version(version).ok == verdict


@pytest.mark.parametrize(
    ("system", "processor", "verdict"),
    [("linux", "x86_64", "ok"), ("linux", "aarch64", "fail"), ("darwin", "x86_64", "fail")],
)
def test_platforms(system: str, processor: str, verdict: str) -> None:
    assert doctor.machine(system, processor).ok == verdict


@pytest.mark.parametrize(
    ("limit", "verdict", "fact"), [(None, "ok", "8.2"), ("max\n", "ok", "8.2"), ("1000000000\n", "warn", "1.0")]
)
def test_memory_is_what_is_free_or_the_containers_limit(
    tmp_path: Path, limit: str | None, verdict: str, fact: str
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n")
    if limit is not None:
        (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup/memory.max").write_text(limit)
    finding = doctor.memory(tmp_path)
    assert (finding.ok, finding.fact) == (verdict, f"{fact} GB usable")


@pytest.mark.parametrize(("free", "verdict"), [(9, "fail"), (10, "warn"), (49, "warn"), (50, "ok")])
def test_disk_space_is_asked_of_the_nearest_folder_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, verdict: str
) -> None:
    asked = []

    def usage(folder: Path) -> SimpleNamespace:
        asked.append(folder)
        return SimpleNamespace(free=free)

    monkeypatch.setattr("flows.command.machine.doctor.shutil.disk_usage", usage)
    assert doctor.disk_space("store", tmp_path / "not" / "yet", needed_bytes=10).ok == verdict
    assert asked == [tmp_path]


def test_shared_memory(tmp_path: Path) -> None:
    assert doctor.shared_memory(tmp_path, needed_bytes=1).ok == "ok"
    assert "--shm-size" in doctor.shared_memory(tmp_path, needed_bytes=2**62).remedy
    assert doctor.shared_memory(tmp_path / "none").ok == "warn"


@pytest.mark.parametrize(
    ("encoding", "verdict"), [("UTF-8", "ok"), ("utf8", "ok"), ("ISO-8859-1", "warn"), ("ANSI_X3.4-1968", "warn")]
)
def test_text_encodings(encoding: str, verdict: str) -> None:
    assert doctor.text_encoding(encoding).ok == verdict


def test_the_text_encoding_looked_at_is_the_locales(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locale, "getencoding", lambda: "latin-1")
    assert doctor.text_encoding().ok == ("ok" if sys.flags.utf8_mode else "warn")


# The folders


def test_a_folder_is_writable_when_a_file_can_be_written_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert doctor.writable("home", tmp_path).ok == "ok"
    assert doctor.writable("home", tmp_path / "a" / "b").ok == "ok"
    refused = doctor.writable("home", tmp_path / "file" / "b")
    assert refused.ok == "fail"
    assert "Not a directory" in refused.fact and "CLOZE_HOME" in refused.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_refuses_files_is_not_writable() -> None:
    assert doctor.writable("store", Path("/proc/self")).ok == "fail"


def test_a_relative_folder_is_looked_for_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctor.writable("store", Path("store")).ok == "ok"
    assert doctor.disk_space("store", Path("store"), needed_bytes=1).ok == "ok"


# The network


def test_the_servers_port(listening: int) -> None:
    used = doctor.server_port({"PREFECT_SERVER_API_PORT": str(listening)})
    assert used.ok == "warn" and "--port" in used.remedy
    assert doctor.server_port({"PREFECT_SERVER_API_PORT": str(closed_port())}).ok == "ok"
    assert doctor.server_port({}).fact.startswith("4200")


@pytest.mark.parametrize("text", ["x", "0", "70000", "-1"])
def test_a_port_that_is_none(text: str) -> None:
    assert doctor.server_port({"PREFECT_SERVER_API_PORT": text}).ok == "fail"


def test_a_proxy_is_asked_for_a_connection(listening: int) -> None:
    assert doctor.proxies({}).ok == "ok"
    assert doctor.proxies({"HTTPS_PROXY": f"http://127.0.0.1:{listening}"}).ok == "ok"
    assert doctor.proxies({"http_proxy": f"127.0.0.1:{listening}"}).ok == "ok"
    dead = doctor.proxies({"https_proxy": f"http://me:secret@127.0.0.1:{closed_port()}"})
    assert dead.ok == "fail" and "unset https_proxy" in dead.remedy
    assert "secret" not in dead.fact and "***@127.0.0.1" in dead.fact
    assert doctor.proxies({"https_proxy": "http://127.0.0.1:notaport"}).ok == "fail"


@pytest.mark.parametrize("password", ["secret", "sec/ret", "/secret", "sec@ret", "sec?ret", "sec#ret", "x://secret"])
@pytest.mark.parametrize("scheme", ["", "http://", "https://"])
def test_no_character_of_a_password_is_shown(scheme: str, password: str) -> None:
    """A slash, an @ or a question mark in a password that should have been escaped ends no password."""
    assert doctor.without_password(f"{scheme}me:{password}@host:3128/a?token=b") == f"{scheme}***@host:3128/a?..."


@pytest.mark.parametrize(
    ("no_proxy", "caught"),
    [
        ("", ["127.0.0.1", "localhost"]),
        ("localhost", ["127.0.0.1"]),
        ("example.org, 127.0.0.1", ["localhost"]),
        ("localhost,127.0.0.1", []),
        ("*", []),
        ("host", ["127.0.0.1", "localhost"]),
    ],
)
def test_a_proxy_must_leave_loopback_alone(no_proxy: str, caught: list[str]) -> None:
    finding = doctor.loopback({"http_proxy": "http://proxy.example:3128", "no_proxy": no_proxy})
    assert finding.ok == ("warn" if caught else "ok")
    if caught:
        assert finding.remedy == "export no_proxy=" + ",".join(filter(None, [no_proxy, *caught]))
        environ = {"http_proxy": "http://proxy.example:3128", "no_proxy": finding.remedy.partition("=")[2]}
        assert doctor.loopback(environ).ok == "ok", "the remedy mends it"


def test_without_a_proxy_loopback_is_safe() -> None:
    assert doctor.loopback({"no_proxy": ""}).ok == "ok"


# The software


def test_versions_are_compared_with_their_pins() -> None:
    pins = "# tested\nruamel.yaml==0.19.1\nnumpy==2.4.6\nabsent==1.0\n"
    assert doctor.pin_differences(pins, {"ruamel-yaml": "0.19.1", "numpy": "2.4.6", "other": "9"}) == []
    assert doctor.pin_differences(pins, {"ruamel-yaml": "0.19.2"}) == ["ruamel.yaml 0.19.2 (tested: 0.19.1)"]


def test_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constraints = tmp_path / "constraints.txt"
    monkeypatch.setattr(doctor, "requires", lambda _: ["pytest>=1", 'nothing-like-it; extra == "dev"'])
    constraints.write_text(f"pytest=={pytest.__version__}\n")
    assert doctor.packages(constraints).ok == "ok"
    constraints.write_text("pytest==0.1\n")
    assert doctor.packages(constraints).ok == "warn"
    monkeypatch.setattr(doctor, "requires", lambda _: ["pytest>=1", "nothing-like-it"])
    missing = doctor.packages(constraints)
    assert missing.ok == "fail" and "nothing-like-it" in missing.fact
    monkeypatch.setattr(doctor, "requires", _not_installed)
    assert "is not installed" in doctor.packages(constraints).fact


def _not_installed(name: str) -> list[str]:
    raise importlib.metadata.PackageNotFoundError(name)


def test_the_pins_of_the_checkout_are_exact_and_name_each_package_once() -> None:
    lines = doctor.CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    names = [line.partition("==")[0].lower().replace("_", "-") for line in lines]
    assert len(names) == len(set(names)) > 100
    assert all("==" in line and "+" not in line and "@" not in line for line in lines)


def test_the_gpu_is_what_the_drivers_tool_tells(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    assert "on the processor" in doctor.gpu(environ).fact
    executable(tmp_path / "nvidia-smi", 'echo "Fast One, 1 MiB, 1.0"; echo "Fast Two, 1 MiB, 1.0"')
    assert doctor.gpu(environ) == doctor.Finding(name="gpu", ok="ok", fact="Fast One, 1 MiB, 1.0; Fast Two, 1 MiB, 1.0")
    executable(tmp_path / "nvidia-smi", "exit 9")
    assert doctor.gpu(environ).ok == "warn"


def test_a_gpu_wants_a_compiler(tmp_path: Path) -> None:
    """Fails where training is slower than it need be, and nobody says why."""
    environ = {"PATH": str(tmp_path)}
    assert "none is needed" in doctor.compiler(environ).fact
    executable(tmp_path / "nvidia-smi", "")
    assert (doctor.compiler(environ).ok, "gcc or clang or cc" in doctor.compiler(environ).remedy) == ("warn", True)
    executable(tmp_path / "gcc", "")
    assert doctor.compiler(environ).ok == "ok" and doctor.compiler({**environ, "CC": "icx -O2"}).ok == "warn"


def test_cores_are_those_this_process_may_use() -> None:
    assert doctor.cores().fact.startswith(f"{len(os.sched_getaffinity(0))} of ")
