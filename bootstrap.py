"""Make the environment `.venv` in this checkout and install Cloze into it: `python3 bootstrap.py [--extra dev ...]`.

Needs Python 3.11 (3.11.5 or newer), 3.12 or 3.13 and nothing else; says beforehand what it will download. A usual
obstacle ends in one line that says what mends it, and exit code 2. Run again it does nothing (some 0.1 s) while
pyproject.toml and constraints.txt are unchanged; interrupted, it keeps what is done; started twice, the second waits.

Environment: TORCH_INDEX=URL takes torch from that index (a build for another driver), TORCH=none leaves torch and
the trainer out, CLOZE_HOME moves the folder of caches out of the checkout. Where packages come from is pip's own
configuration. The file keeps to the syntax of Python 3.8, so that an old Python is told what is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent
SUPPORTED = ((3, 11, 5), (3, 12, 0), (3, 13, 0))  # the first of each line that will do, older ones match `*+` wrongly
NAMES = tuple("python{}.{}".format(*first) for first in reversed(SUPPORTED))  # as PATH is searched for them
MB = 1_000_000

# Megabytes to download and on disk, measured with the pins of constraints.txt: Python 3.11, torch for processors.
CORE_MB = (270, 1000)
EXTRAS_MB = {
    "accelerate": (1, 4),
    "dask": (5, 25),
    "tensorboard": (8, 25),
    "dev": (145, 575),
    "documents": (4, 10),
    "grain": (6, 24),
    "onnx": (40, 125),
    "reference": (15, 120),
    "retrieval": (15, 60),
    "sentences": (12, 70),
    "trainer": (200, 900),
}
NEED_TORCH = {"trainer", "accelerate", "sentences", "onnx"}
WITHOUT_WHEELS = ("jsonpath-rw", "rouge-score")  # pure Python that is published as source alone

# What a Python says of itself: its version, and which of the modules it takes to make an environment it has.
PROBE = (
    "import sys, importlib.util as u;"
    "print(*sys.version_info[:3], *[m for m in ('venv', 'ensurepip', 'pip') if u.find_spec(m)])"
)

# What pip says when it fails, and what mends it; the first that matches holds.
REMEDIES = (
    ("No space left on device", "the disk is full: free some space and run the same again, what is done is kept"),
    (
        "ProxyError|Cannot connect to proxy|Tunnel connection failed",
        "the proxy refuses pip: correct or unset HTTPS_PROXY and HTTP_PROXY (pip's own: PIP_PROXY)",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED|SSLError",
        "pip does not trust the package index: name your certificates with PIP_CERT=/path/to/ca.pem",
    ),
    (
        "connection broken by|NewConnectionError|Temporary failure in name resolution|ConnectTimeoutError",
        "the package index cannot be reached: check the network, or name a mirror with PIP_INDEX_URL",
    ),
    (
        "ReadTimeoutError|Read timed out|IncompleteRead|ConnectionResetError",
        "a download broke off: run the same again, what is done is kept",
    ),
    (
        r"No matching distribution found for torch==|The user requested torch==",
        "no binary wheel of torch for this Python here: set TORCH_INDEX=URL, or TORCH=none to leave the trainer out",
    ),
    (
        r"No matching distribution found for (?P<what>\S+)",
        "no binary wheel of {what} for this Python where pip looks: name a fuller index with PIP_INDEX_URL",
    ),
    (
        r"The user requested \(constraint\) (?P<what>\S+)",
        "pip finds no fitting wheel of {what}: name a fuller index with PIP_INDEX_URL, or mend constraints.txt",
    ),
    ("Permission denied: '(?P<what>[^']*)'", "{what} cannot be written: mend its permissions or move the checkout"),
)


class Obstacle(Exception):
    """Something the user can mend; the message is one line: what is wrong, and what mends it."""


@dataclass(frozen=True)
class Request:
    """What is asked for and where: `extras` are pyproject's, `torch_index` is empty for pip's own choice."""

    root: Path
    home: Path
    extras: frozenset[str]
    torch_index: str
    environ: Mapping[str, str]

    @property
    def venv(self) -> Path:
        """The environment's folder."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """The environment's Python."""
        return self.venv / "bin" / "python"


def main(
    arguments: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    root: Path = ROOT,
    interpreter: str = sys.executable,
    version: tuple[int, ...] = sys.version_info[:3],
) -> int:
    """Set everything up; returns 0 when done, 2 when the user can mend what stopped it, else 1 (or 130)."""
    try:
        request = read_request(arguments, environ, root)
        if is_current(request):
            return 0
        if not will_do(version):
            command = [supported_python(version, environ), str(root / "bootstrap.py"), *arguments]
            return subprocess.call(command, env=dict(environ))
        with locked(root) as lock:
            return 0 if is_current(request) else set_up(request, interpreter, lock)
    except Obstacle as obstacle:
        print(f"bootstrap: {obstacle}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bootstrap: interrupted; run the same again, what is done is kept", file=sys.stderr)
        return 130


def read_request(arguments: Sequence[str], environ: Mapping[str, str], root: Path) -> Request:
    """The command line, and the variables that go with it, as a `Request`."""
    parser = argparse.ArgumentParser(prog="bootstrap.py", description="Make .venv and install Cloze into it.")
    parser.add_argument("--extra", action="append", default=[], choices=sorted(EXTRAS_MB))
    extras = frozenset(parser.parse_args(arguments).extra)
    torch = environ.get("TORCH", "")
    if torch not in ("", "none"):
        raise Obstacle(f"TORCH={torch} means nothing here: unset it, or set TORCH=none to leave the trainer out")
    return Request(
        root=root,
        home=Path(environ.get("CLOZE_HOME") or root / ".cloze").absolute(),
        extras=extras - NEED_TORCH if torch == "none" else extras,
        torch_index=environ.get("TORCH_INDEX", ""),
        environ=environ,
    )


def set_up(request: Request, interpreter: str, lock: TextIO) -> int:
    """Check the machine, make the environment, install, and mark it done; returns the exit code."""
    earlier = read_stamp(request)
    request = replace(
        request,
        extras=request.extras | earlier.extras,
        torch_index=request.torch_index or earlier.torch_index,
    )
    check_machine(request)
    announce(request)
    with fresh_folder(temporary_folder(request)):
        return install(request, interpreter, earlier, lock)


def install(request: Request, interpreter: str, earlier: Stamp, lock: TextIO) -> int:
    """Make the environment, let pip fill it, mark it done; returns the exit code."""
    make_environment(request, interpreter, moved=earlier.root not in ("", str(request.root)))
    forget_half_installed(request.venv)
    began, digest = time.monotonic(), pins_digest(request.root)
    for command in pip_commands(request, new_torch=request.torch_index != earlier.torch_index):
        output = run_pip(request, command, lock)
        if output is not None:
            return report_failure(request, output)
    write_stamp(request, digest)
    print(f"bootstrap: installed in {time.monotonic() - began:.0f} s; the command is {request.venv}/bin/cloze")
    return 0


# Whether there is anything to do


@dataclass(frozen=True)
class Stamp:
    """What the last complete run left in the environment; all empty when there was none."""

    root: str = ""
    digest: str = ""
    extras: frozenset[str] = frozenset()
    torch_index: str = ""


def is_current(request: Request) -> bool:
    """Whether the environment already holds what is asked for, as its stamp tells."""
    stamp = read_stamp(request)
    return (
        request.python.exists()
        and stamp.root == str(request.root)
        and stamp.digest == pins_digest(request.root)
        and request.extras <= stamp.extras
        and request.torch_index in ("", stamp.torch_index)
    )


def pins_digest(root: Path) -> str:
    """Digest of the two files that decide what is installed."""
    pins = b"\0".join((root / name).read_bytes() for name in ("pyproject.toml", "constraints.txt"))
    return hashlib.sha256(pins).hexdigest()


def read_stamp(request: Request) -> Stamp:
    """The stamp of the environment; one that cannot be read counts as none, so that all is done again."""
    try:
        fields = json.loads(stamp_file(request).read_text(encoding="utf-8"))
        return Stamp(**{**fields, "extras": frozenset(fields["extras"])})
    except (OSError, ValueError, TypeError, KeyError):
        return Stamp()


def write_stamp(request: Request, digest: str) -> None:
    """Mark the environment as complete for the pins of that digest, in one step and last of all."""
    fields = {
        "root": str(request.root),
        "digest": digest,
        "extras": sorted(request.extras),
        "torch_index": request.torch_index,
    }
    fresh = stamp_file(request).with_suffix(".new")
    fresh.write_text(json.dumps(fields), encoding="utf-8")
    fresh.replace(stamp_file(request))


def stamp_file(request: Request) -> Path:
    """Where the stamp is."""
    return request.venv / "cloze-stamp.json"


@contextlib.contextmanager
def locked(root: Path) -> Iterator[TextIO]:
    """Hold the checkout's lock, waiting for another run to end; the lock lies on pyproject.toml itself.

    The open file is handed to pip, so that a pip whose bootstrap was killed still keeps others out.
    """
    try:
        lock = (root / "pyproject.toml").open("r+", encoding="utf-8")
    except OSError as error:
        raise Obstacle(
            f"{root} cannot be written ({error.strerror}): copy the checkout to a folder of yours"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("bootstrap: another one is at work here; waiting for it to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


# What the machine must have


def check_machine(request: Request) -> None:
    """Raise Obstacle for the first thing that is in the way: platform, folders, disk, proxy."""
    from flows.command.doctor import disk_space, loopback, machine, proxies, writable

    download, disk = sizes_mb(request)
    needed = max(disk + download - size_mb(request.venv), 100) * MB
    for finding in (
        machine(),
        writable("checkout", request.root),
        writable("home", request.home),
        disk_space("environment", request.root, needed),
        disk_space("home", request.home, download * MB),
        proxies(request.environ),
    ):
        if finding.ok == "fail":
            raise Obstacle(f"{finding.fact}: {finding.remedy}")
    warning = loopback(request.environ)
    if warning.ok == "warn":
        print(f"bootstrap: {warning.fact}; for other programs: {warning.remedy}")


def sizes_mb(request: Request) -> tuple[int, int]:
    """Megabytes to download and on disk for what is asked for."""
    chosen = [CORE_MB, *(EXTRAS_MB[extra] for extra in request.extras)]
    return sum(download for download, _ in chosen), sum(disk for _, disk in chosen)


def size_mb(folder: Path) -> int:
    """Megabytes that the files under `folder` take; 0 where it is no folder."""
    return 0 if not folder.is_dir() else sum(path.lstat().st_size for path in folder.rglob("*")) // MB


def announce(request: Request) -> None:
    """Say what is about to be downloaded, how much room it takes, and where it goes."""
    download, disk = sizes_mb(request)
    print(f"bootstrap: installing into {request.venv}: about {download} MB to download, {disk / 1000:.1f} GB on disk")
    if request.extras & NEED_TORCH and not request.torch_index:
        print(
            "bootstrap: 200 MB of that is torch for processors; the build for GPUs, where pip finds that one, is 2.7 GB"
            " and 3.8 GB more on disk (TORCH_INDEX=URL names another index, TORCH=none leaves the trainer out)"
        )
    sys.stdout.flush()


# The environment


def supported_python(version: tuple[int, ...], environ: Mapping[str, str]) -> str:
    """A Python on PATH that runs Cloze, for when this one does not; raises Obstacle where there is none."""
    for name in NAMES:
        found = shutil.which(name, path=environ.get("PATH"))
        if found and will_do(probe(found)[0]):
            return found
    mine = ".".join(map(str, version))
    names = "{}, {} or {} (3.11.5 or newer)".format(*NAMES)
    raise Obstacle(f"this is Python {mine}, and PATH has no {names}: install one of them")


def will_do(version: tuple[int, ...]) -> bool:
    """Whether Cloze runs on a Python of this version; () is none.

    Before 3.11.5 `re` matches possessive groups wrongly (CPython issue 106052), and a wiki page would lose its text.
    """
    return any(version[:2] == first[:2] and version >= first for first in SUPPORTED)


def probe(python: str) -> tuple[tuple[int, ...], frozenset[str]]:
    """Version and modules of a Python; ((), nothing) where the file does not answer as one."""
    try:
        answer = subprocess.run([python, "-I", "-c", PROBE], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return (), frozenset()
    words = answer.stdout.split()
    if answer.returncode or len(words) < 3:
        return (), frozenset()
    return tuple(map(int, words[:3])), frozenset(words[3:])


def make_environment(request: Request, interpreter: str, moved: bool) -> None:
    """Make `.venv` with pip in it, unless a sound one is there.

    A Python whose `ensurepip` was packaged apart still serves when it has a pip of its own to install another.
    """
    version, modules = probe(str(request.python))
    if will_do(version) and "pip" in modules and not moved:
        return
    if request.venv.exists() and not (request.venv / "pyvenv.cfg").is_file():
        raise Obstacle(f"{request.venv} is in the way and no environment of Python's: move it away")
    python, modules = python_with_venv(interpreter, request.environ)
    bare = [] if "ensurepip" in modules else ["--without-pip"]
    call(request, [python, "-m", "venv", "--clear", *bare, str(request.venv)])
    if bare:
        call(request, [python, "-m", "pip", "--python", str(request.python), "install", "pip", "setuptools"])


def python_with_venv(interpreter: str, environ: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """The first Python that can make an environment: this one, else one on PATH; with its modules."""
    others = (shutil.which(name, path=environ.get("PATH")) for name in NAMES)
    for python in filter(None, (interpreter, *others)):
        version, modules = probe(python)
        if will_do(version) and "venv" in modules and modules & {"ensurepip", "pip"}:
            return python, modules
    name = "python{}.{}".format(*sys.version_info[:2])
    raise Obstacle(f"{interpreter} has no venv module: install it (Debian and Ubuntu: apt install {name}-venv)")


def call(request: Request, command: list[str]) -> None:
    """Run a short command to its end; raises Obstacle with its last line where it fails."""
    done = subprocess.run(
        command, env=pip_environment(request), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"
        raise Obstacle(f"{' '.join(command)} failed: {remedy_for(said) or said.splitlines()[-1]}")


def forget_half_installed(venv: Path) -> None:
    """Remove the entries of packages whose installation was cut short, so that pip installs them again.

    pip writes a package's RECORD last; without it pip takes the package for installed all the same.
    """
    for entry in venv.glob("lib/python*/site-packages/*.dist-info"):
        if not (entry / "RECORD").is_file():
            shutil.rmtree(entry)


# pip


def pip_commands(request: Request, new_torch: bool) -> list[list[str]]:
    """The calls of pip in order: what builds the project, torch alone and first, then the project with the rest."""
    install = ["install", "--only-binary", ":all:", "--constraint", "constraints.txt"]
    commands = [[*install, "setuptools"]]
    if request.extras & NEED_TORCH:
        index = ["--index-url", request.torch_index] if request.torch_index else []
        again = ["--force-reinstall"] if index and new_torch else []
        commands.append([*install, "--no-deps", *index, *again, torch_pin(request.root)])
    extras = ",".join(sorted(request.extras))
    sources = ["--no-binary", ",".join(WITHOUT_WHEELS)]
    commands.append([*install, *sources, "--no-build-isolation", "--editable", f".[{extras}]" if extras else "."])
    return commands


def torch_pin(root: Path) -> str:
    """The line of constraints.txt that pins torch."""
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line.strip() for line in lines if line.startswith("torch=="))


def run_pip(request: Request, command: list[str], lock: TextIO) -> str | None:
    """Run one pip command, showing what large files it downloads; returns None, or all it said where it fails."""
    said = []
    with log_file(request).open("a", encoding="utf-8") as log, start_pip(request, command, lock) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            log.write(line)
            if line.startswith("  Downloading ") and line.endswith(" MB)\n"):
                print(f"bootstrap: {line.strip()}", flush=True)
    return "".join(said) if process.returncode else None


def start_pip(request: Request, command: list[str], lock: TextIO) -> subprocess.Popen[str]:
    """The environment's pip at work in the checkout, its two outputs in one; it holds the lock as well."""
    return subprocess.Popen(
        [str(request.python), "-I", "-m", "pip", *command],
        cwd=request.root,
        env=pip_environment(request),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        pass_fds=(lock.fileno(),),
    )


def pip_environment(request: Request) -> dict[str, str]:
    """Variables for pip: its folders are ours, and nothing sends the packages elsewhere or waits for an answer."""
    misleading = ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER")
    environ = {name: value for name, value in request.environ.items() if name not in misleading}
    environ.setdefault("PIP_CACHE_DIR", str(request.home / "pip"))
    ours = {"TMPDIR": str(temporary_folder(request)), "PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off"}
    return {**environ, **ours, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def temporary_folder(request: Request) -> Path:
    """Where pip unpacks, on the disk that was checked; one for each checkout that shares a home."""
    return request.home / "tmp" / f"bootstrap-{hashlib.sha256(str(request.root).encode()).hexdigest()[:8]}"


@contextlib.contextmanager
def fresh_folder(folder: Path) -> Iterator[None]:
    """An empty `folder` for as long as the block runs; what an interrupted run left in it goes first."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folder)


def log_file(request: Request) -> Path:
    """Where everything pip says is kept."""
    return request.venv / "bootstrap.log"


def report_failure(request: Request, said: str) -> int:
    """Turn what a failed pip said into an Obstacle, or tell its own error; returns exit code 1."""
    remedy = remedy_for(said)
    if remedy:
        raise Obstacle(remedy)
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")] or said.splitlines()[-1:]
    print(f"bootstrap: pip failed: {' '.join(errors)} (all it said: {log_file(request)})", file=sys.stderr)
    return 1


def remedy_for(said: str) -> str:
    """The line that mends what pip complains of; empty where the complaint is not a known one."""
    for pattern, remedy in REMEDIES:
        found = re.search(pattern, said)
        if found:
            return remedy.format(**found.groupdict())
    return ""


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
