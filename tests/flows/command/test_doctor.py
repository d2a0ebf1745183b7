"""`cloze doctor` is tested check by check, on a machine made to have, and not to have, what it looks for."""

import importlib.metadata
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows.command import machine_checks


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


def test_it_needs_no_package() -> None:
    """Fails if the module imports what may be missing."""
    subprocess.run([sys.executable, "-I", "-S", machine_checks.__file__], check=True)


def test_without_more_it_judges_what_the_process_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if what the launcher sets is judged, or a store that is not chosen yet."""
    monkeypatch.setenv("PREFECT_SERVER_API_PORT", "none")
    findings = {finding.name: finding for finding in machine_checks.examine_machine(tmp_path, None)}
    assert "write: store" not in findings and "none" not in findings["server port"].fact


def test_every_finding_that_is_not_ok_has_a_remedy_of_one_line(tmp_path: Path, listening: int) -> None:
    (tmp_path / "file").write_text("")
    environ = {"PREFECT_SERVER_API_PORT": str(listening), "TMPDIR": str(tmp_path / "file")}
    findings = machine_checks.examine_machine(tmp_path / "file" / "home", tmp_path / "file" / "store", environ)
    troubled = [finding for finding in findings if finding.ok != "ok"]
    assert {"server port", "write: temporary files", "write: store"} <= {finding.name for finding in troubled}
    assert all(finding.remedy and "\n" not in finding.remedy + finding.fact for finding in troubled)
    assert not any(finding.remedy for finding in findings if finding.ok == "ok")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_page_has_a_line_for_each_finding_its_remedy_beneath_and_the_counts() -> None:
    page = machine_checks.render_findings(
        [
            machine_checks.Finding(name="python", ok="ok", fact="3.11.7"),
            machine_checks.Finding(name="gpu", ok="fail", fact="broken", remedy="mend it"),
        ]
    )
    assert page.splitlines() == [
        "ok    python  3.11.7",
        "fail  gpu     broken",
        "              -> mend it",
        "1 ok, 0 to know about, 1 to fix",
    ]


# The machine


def test_python_versions() -> None:
    versions = ((3, 10, 4), (3, 11, 2), (3, 11, 5), (3, 12, 0), (3, 13, 9), (3, 14, 0))
    assert [machine_checks.check_python(one).ok for one in versions] == ["fail", "fail", "ok", "ok", "ok", "fail"]


def test_platforms() -> None:
    machines = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "x86_64"))
    assert [machine_checks.check_platform(*one).ok for one in machines] == ["ok", "fail", "fail"]


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
    finding = machine_checks.check_memory(tmp_path)
    assert (finding.ok, finding.fact) == (verdict, f"{fact} GB usable")


@pytest.mark.parametrize(("free", "verdict"), [(9, "fail"), (10, "warn"), (49, "warn"), (50, "ok")])
def test_disk_space_is_asked_of_the_nearest_folder_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, verdict: str
) -> None:
    asked = []

    def usage(folder: Path) -> SimpleNamespace:
        asked.append(folder)
        return SimpleNamespace(free=free)

    monkeypatch.setattr("flows.command.machine_checks.shutil.disk_usage", usage)
    monkeypatch.chdir(tmp_path)
    assert machine_checks.check_disk_space("store", tmp_path / "not" / "yet", needed_bytes=10).ok == verdict
    machine_checks.check_disk_space("store", Path("store"))
    assert [folder.resolve() for folder in asked] == [tmp_path.resolve()] * 2


# The folders


def test_a_folder_is_writable_when_a_file_can_be_written_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert machine_checks.check_writable("home", Path("store")).ok == "ok"
    assert machine_checks.check_writable("home", tmp_path).ok == "ok"
    assert machine_checks.check_writable("home", tmp_path / "a" / "b").ok == "ok"
    refused = machine_checks.check_writable("home", tmp_path / "file" / "b")
    assert refused.ok == "fail"
    assert "Not a directory" in refused.fact and "CLOZE_HOME" in refused.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# The network


def test_the_servers_port(listening: int) -> None:
    used = machine_checks.check_server_port({"PREFECT_SERVER_API_PORT": str(listening)})
    assert used.ok == "warn" and "--port" in used.remedy
    assert machine_checks.check_server_port({"PREFECT_SERVER_API_PORT": str(closed_port())}).ok == "ok"
    assert machine_checks.check_server_port({"PREFECT_SERVER_API_PORT": "70000"}).ok == "fail"


# The software


def test_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constraints = tmp_path / "constraints.txt"
    monkeypatch.setattr(machine_checks, "requires", lambda _: ["pytest>=1", 'nothing-like-it; extra == "dev"'])
    constraints.write_text(f"pytest=={pytest.__version__}\n")
    assert machine_checks.check_packages(constraints).ok == "ok"
    constraints.write_text("pytest==0.1\n")
    assert machine_checks.check_packages(constraints).ok == "warn"
    monkeypatch.setattr(machine_checks, "requires", lambda _: ["pytest>=1", "nothing-like-it"])
    missing = machine_checks.check_packages(constraints)
    assert missing.ok == "fail" and "nothing-like-it" in missing.fact
    monkeypatch.setattr(machine_checks, "requires", _not_installed)
    assert "is not installed" in machine_checks.check_packages(constraints).fact


def _not_installed(name: str) -> list[str]:
    raise importlib.metadata.PackageNotFoundError(name)


def test_the_gpu_is_what_the_drivers_tool_tells(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    assert "on the processor" in machine_checks.check_gpus(environ).fact
    executable(tmp_path / "nvidia-smi", 'echo "Fast One, 1 MiB, 1.0"; echo "Fast Two, 1 MiB, 1.0"')
    assert machine_checks.check_gpus(environ) == machine_checks.Finding(
        name="gpu", ok="ok", fact="Fast One, 1 MiB, 1.0; Fast Two, 1 MiB, 1.0"
    )
    executable(tmp_path / "nvidia-smi", "exit 9")
    assert machine_checks.check_gpus(environ).ok == "warn"
