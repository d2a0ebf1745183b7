"""What this machine has and lacks for Cloze, each thing with its one line of remedy, for `cloze doctor`.

Every check is a function that looks at one thing and returns a `Finding`; `examine_machine` makes the list, and
`render_findings` the page. Nothing is fixed and nothing is left behind: a folder is probed with a file that is gone
again, a port by binding it for a moment.

The module uses the standard library only and imports nothing of the project, so that it also works if packages are
missing. A full examination takes some tenths of a second.
"""

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distributions, requires
from pathlib import Path
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]

MIN_PYTHONS = ((3, 11, 5), (3, 12, 0), (3, 13, 0))
GB = 1_000_000_000
CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"
DISTRIBUTION = "cloze-pipeline"
SERVER_PORT = 4200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        name: The name of what was checked.
        ok: "ok", "warn" or "fail".
        fact: What was found.
        remedy: How to fix it; "" if nothing needs to be fixed.
    """

    name: str
    ok: Verdict
    fact: str
    remedy: str = ""


def examine_machine(home: Path, store: Path | None, environ: Mapping[str, str] | None = None) -> list[Finding]:
    """Check everything that a run needs: the machine, the folders, the network, and the installed packages.

    Args:
        home: The CLOZE_HOME folder, which holds caches and the Prefect database.
        store: The folder of the store; None if the store is remote or not known yet.
        environ: The environment variables. If None, those that this process was started with are used.

    Returns:
        One finding per check, in a fixed order.
    """
    environ = read_start_environment() if environ is None else environ
    folders = {"home": home, "temporary files": Path(environ.get("TMPDIR") or "/tmp")}
    if store is not None:
        folders["store"] = store
    return [
        check_python(),
        check_platform(),
        check_cores(),
        check_memory(),
        *[check_disk_space(name, folder) for name, folder in folders.items()],
        *[check_writable(name, folder) for name, folder in folders.items()],
        check_server_port(environ),
        check_packages(),
        check_gpus(environ),
    ]


def render_findings(findings: list[Finding]) -> str:
    """Render findings as text for a terminal, followed by the number of findings of each status (ok, warn, fail).

    Each finding takes one line with its status, name and fact, and a second line if it has a remedy.
    """
    width = max((len(finding.name) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.ok:<4}  {finding.name:<{width}}  {finding.fact}")
        if finding.remedy:
            lines.append(f"{'':<4}  {'':<{width}}  -> {finding.remedy}")
    counts = Counter(finding.ok for finding in findings)
    return "\n".join([*lines, f"{counts['ok']} ok, {counts['warn']} to know about, {counts['fail']} to fix"])


def read_start_environment() -> dict[str, str]:
    """Return the environment variables that this process was started with, by name. Later changes are not included."""
    entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


def report_ok(name: str, fact: str) -> Finding:
    """Build a finding with the status "ok".

    Args:
        name: The name of what was checked.
        fact: What was found.
    """
    return Finding(name=name, ok="ok", fact=fact)


def report_warning(name: str, fact: str, remedy: str) -> Finding:
    """Build a finding with the status "warn", for a problem that does not prevent a run.

    Args:
        name: The name of what was checked.
        fact: What was found.
        remedy: How to fix it.
    """
    return Finding(name=name, ok="warn", fact=fact, remedy=remedy)


def report_failure(name: str, fact: str, remedy: str) -> Finding:
    """Build a finding with the status "fail", for a problem that must be fixed before a run.

    Args:
        name: The name of what was checked.
        fact: What was found.
        remedy: How to fix it.
    """
    return Finding(name=name, ok="fail", fact=fact, remedy=remedy)


# The machine


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Check that the pinned packages were tested with a Python version. The check fails if they were not.

    Args:
        version: The version, such as (3, 11, 5).
    """
    fact = ".".join(map(str, version))
    if any(version[:2] == first[:2] and version >= first for first in MIN_PYTHONS):
        return report_ok("python", fact)
    return report_failure("python", fact, "install Python 3.11 (3.11.5 or newer), 3.12 or 3.13")


def check_platform(system: str = sys.platform, processor: str = platform.machine()) -> Finding:
    """Check that the platform is Linux on x86-64, the only tested one. The check fails if it is not.

    Args:
        system: The name of the operating system, as in `sys.platform`.
        processor: The name of the processor, as in `platform.machine()`.
    """
    fact = f"{system} {processor}"
    if (system, processor) == ("linux", "x86_64"):
        return report_ok("platform", fact)
    return report_failure("platform", fact, "use Linux on x86-64 (a container or a virtual machine will do)")


def check_cores() -> Finding:
    """Return a finding that states how many of the machine's cores this process may use."""
    return report_ok("cores", f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}")


def check_memory(root: Path = Path("/")) -> Finding:
    """Check how much memory this process may use: the available memory, or the container's limit if that is lower.

    The finding is a warning below 4 GB.

    Args:
        root: The folder that contains `proc` and `sys`; tests pass a folder other than `/`.
    """
    lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    usable = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    limit_file = root / "sys/fs/cgroup/memory.max"
    limit = limit_file.read_text(encoding="ascii").strip() if limit_file.exists() else "max"
    usable = usable if limit == "max" else min(usable, int(limit))
    fact = f"{usable / GB:.1f} GB usable"
    if usable >= 4 * GB:
        return report_ok("memory", fact)
    return report_warning("memory", fact, "a run needs 4 GB: close other programs or raise the container's limit")


def check_disk_space(name: str, folder: Path, needed_bytes: int = GB) -> Finding:
    """Check the free disk space for a folder, which need not exist yet.

    Args:
        name: The name of the folder in the finding.
        folder: The folder. If it does not exist, the disk of its nearest existing parent is checked.
        needed_bytes: The check fails if there is less free space than this, and warns if there is less than five times
            as much.
    """
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    free = shutil.disk_usage(nearest).free
    fact = f"{free / GB:.1f} GB free for {folder}"
    if free < needed_bytes:
        remedy = f"free {(needed_bytes - free) / GB:.1f} GB there, or choose a folder on another disk"
        return report_failure(f"disk: {name}", fact, remedy)
    if free < 5 * needed_bytes:
        return report_warning(f"disk: {name}", fact, "enough for the demo; a large corpus needs more")
    return report_ok(f"disk: {name}", fact)


# The folders


def check_writable(name: str, folder: Path) -> Finding:
    """Check that a folder can be written to, or created, by writing a temporary file.

    Permission bits are not checked, because they do not reveal a read-only mount and do not apply to root.

    Args:
        name: "home", "temporary files" or "store". Determines the remedy that the finding suggests.
        folder: The folder. If it does not exist, the file is written to its nearest existing parent.
    """
    place = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".probe-"):
            return report_ok(f"write: {name}", str(folder))
    except OSError as error:
        fact = f"{folder} cannot be written ({place}: {error.strerror})"
    remedies = {
        "home": "set CLOZE_HOME to a folder you may write",
        "temporary files": "set TMPDIR to a folder you may write",
        "store": "give the recipe's `store` a folder you may write",
    }
    return report_failure(f"write: {name}", fact, remedies[name])


# The network


def check_server_port(environ: Mapping[str, str]) -> Finding:
    """Check that the port of the Prefect server is free: PREFECT_SERVER_API_PORT, or 4200 if that is not set.

    A port in use is a warning; a variable that is not a port makes the check fail.

    Args:
        environ: The environment variables.
    """
    text = environ.get("PREFECT_SERVER_API_PORT") or str(SERVER_PORT)
    if not (text.isdecimal() and 0 < int(text) < 65536):
        fact = f"PREFECT_SERVER_API_PORT is {text!r}, which is not a port"
        return report_failure("server port", fact, "set it to a number from 1024 to 65535")
    try:
        socket.create_server(("127.0.0.1", int(text))).close()
        return report_ok("server port", f"{text} is free")
    except OSError:
        remedy = "if that is not your orchestration server, open the UI on another: `cloze ui --port PORT`"
        return report_warning("server port", f"{text} is in use", remedy)


# The software


def check_packages(constraints: Path = CONSTRAINTS) -> Finding:
    """Check that all required packages are installed, in the tested versions.

    The check fails if a package is missing; another version is a warning.

    Args:
        constraints: The file of pinned versions. If it does not exist, only missing packages are reported.
    """
    again = "run `make demo` (or `python3 bootstrap.py`) once more"
    remedy = again if constraints.is_file() else "install it again, into an environment of its own"
    try:
        required = {_normalize_name(line) for line in requires(DISTRIBUTION) or [] if "extra ==" not in line}
    except PackageNotFoundError:
        return report_failure("packages", f"{DISTRIBUTION} is not installed in {sys.prefix}", remedy)
    installed = {_normalize_name(package.name): package.version for package in distributions()}
    missing = sorted(required - set(installed))
    if missing:
        return report_failure("packages", f"missing: {', '.join(missing)}", remedy)
    if not constraints.is_file():  # an installed wheel: its own requirements are all that is known
        return report_ok("packages", f"{len(installed)} installed, nothing required is missing")
    differing = find_pin_differences(constraints.read_text(encoding="utf-8"), installed)
    if differing:
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        return report_warning("packages", f"not as tested: {', '.join(differing[:3])}{more}", remedy)
    return report_ok("packages", f"{len(installed)} installed, none differs from its pin")


def find_pin_differences(constraints: str, installed: Mapping[str, str]) -> list[str]:
    """List the installed packages with a version other than the pinned one, ignoring labels such as `+cpu`.

    Args:
        constraints: The text of the constraints file, with lines "name==version".
        installed: The installed version of each package, by normalized name.

    >>> find_pin_differences("torch==2.13.0\\nnumpy==2.4.6", {"torch": "2.13.0+cpu", "numpy": "2.5.0"})
    ['numpy 2.5.0 (tested: 2.4.6)']
    """
    differing = []
    for line in constraints.splitlines():
        name, _, pinned = line.partition("==")
        version = installed.get(_normalize_name(name))
        if pinned and version is not None and version.partition("+")[0] != pinned.strip():
            differing.append(f"{name.strip()} {version} (tested: {pinned.strip()})")
    return differing


def _normalize_name(requirement: str) -> str:
    """Return the package name at the beginning of a requirement, normalized according to PEP 503."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def check_gpus(environ: Mapping[str, str]) -> Finding:
    """Check the GPUs and their driver. A machine without a GPU passes; a failing driver results in a warning.

    Args:
        environ: Environment variables. Their PATH is searched for the driver's tool.
    """
    try:
        lines = query_gpus(environ, "name,memory.total,driver_version")
    except (OSError, subprocess.SubprocessError) as error:
        remedy = "repair or reload the driver; until then training runs on the processor"
        return report_warning("gpu", f"the driver's tool fails: {error}", remedy)
    if lines is None:
        return report_ok("gpu", "none seen: training runs on the processor")
    return report_ok("gpu", "; ".join(lines) or "the driver lists none")


def query_gpus(environ: Mapping[str, str], fields: str) -> list[str] | None:
    """Query fields of each GPU from `nvidia-smi`.

    Args:
        environ: Environment variables. Their PATH is searched for the program.
        fields: The fields, separated by commas.

    Returns:
        One line per GPU with its fields, separated by ", "; None if the program is not installed.

    Raises:
        OSError: If the program cannot be started.
        subprocess.SubprocessError: If the program fails, or takes more than 20 seconds.
    """
    tool = shutil.which("nvidia-smi", path=environ.get("PATH") or os.defpath)
    if tool is None:
        return None
    question = [tool, f"--query-gpu={fields}", "--format=csv,noheader"]
    answer = subprocess.run(question, capture_output=True, text=True, timeout=20, check=True).stdout
    return [line.strip() for line in answer.splitlines() if line.strip()]
