"""Make the environment `.venv` in this checkout and install Cloze into it: `python3 bootstrap.py [--extra dev ...]`.

Needs Python 3.11 (3.11.5 or newer), 3.12 or 3.13 alone. It says how much it downloads, keeps what is done when it is
interrupted, waits for another one, and takes 0.1 s when all is done. Kernels are compiled while pip loads torch. A
usual obstacle is a line with a remedy, and exit code 2. TORCH_INDEX=URL takes torch from that index, TORCH=none leaves
the trainer out, CLOZE_HOME moves the caches.
"""

from __future__ import annotations  # and the syntax of Python 3.8: an old one has to read this file, to say that it is

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen, call
from typing import Any, TextIO

SUPPORTED = ((3, 11, 5), (3, 12, 0), (3, 13, 0))  # before 3.11.5 `re` is wrong about `*+` (CPython issue 106052)
# MB to download by the pins of constraints.txt, with torch for processors (Python 3.11); four times that on disk.
CORE_MB, DEV, TORCH_MB = 270, {"dev": 152, "docs": 20}, {"accelerate": 1, "onnx": 40, "sentences": 12, "trainer": 200}
EARLY = ("setuptools", "ftfy", "numba", "numpy", "pyarrow", "pycld2", "tokenizers", "xxhash")  # what compiling needs
MB = {"dask": 5, "documents": 4, "grain": 6, "reference": 15, "tensorboard": 8, **DEV, **TORCH_MB}
REMEDIES = {  # what pip says when it fails, and what to do; the first that matches
    "No space left": "the disk is full: free some space, then run the same again; what is done is kept",
    "ProxyError|Tunnel connection failed": "the proxy refuses pip: correct or unset HTTPS_PROXY and HTTP_PROXY",
    "SSLError|CERTIFICATE_VERIFY": "pip does not trust the index: name your certificates in PIP_CERT=/path/to/ca.pem",
    "(?:found for|requested) torch==": "no wheel of torch for this Python: set TORCH_INDEX=URL, or TORCH=none",
    r"(?:found for|\(constraint\)) (\S+)": "no wheel of {} where pip looks: name a fuller index in PIP_INDEX_URL",
    "Connection|resolution|[Tt]imed out|IncompleteRead": "no index: check the network, or set PIP_INDEX_URL",
    r"(?:denied|system|exists|directory): '([^']*)'": "{} cannot be written: move the checkout, or set CLOZE_HOME",
    "No module named '?(?:venv|ensurepip)|ensurepip is not": "no venv here (Debian, Ubuntu: apt install python3-venv)",
}


def main(arguments: Sequence[str], root: Path, version: tuple[int, ...] = sys.version_info[:3]) -> int:
    """Set everything up; returns 0 when done, 2 when the user can change what stopped it, else 1 (or 130)."""
    parser = argparse.ArgumentParser(prog="bootstrap.py", description="Make .venv and install Cloze into it.")
    parser.add_argument("--extra", action="append", default=[], choices=sorted(MB))
    extras = set(parser.parse_args(arguments).extra)
    try:
        if not any(version[:2] == first[:2] and version >= first for first in SUPPORTED):
            raise OSError("this is Python {}.{}.{}: set PYTHON to 3.11.5 or newer, 3.12 or 3.13".format(*version))
        if os.environ.get("TORCH", "") not in ("", "none"):
            raise OSError("TORCH has one value, none, which leaves the trainer out; TORCH_INDEX=URL names an index")
        if pending(root, extras):
            with (root / "pyproject.toml").open("r+", encoding="utf-8") as lock:
                wait_for(lock)
                for earlier, wanted in pending(root, extras):
                    set_up(root, earlier, wanted, lock)
        return 0
    except OSError as error:
        remedy, pip = remedy_for(str(error)), isinstance(error, ChildProcessError)
        line, code = remedy or str(error).splitlines()[-1], 1 if pip and not remedy else 2
    except KeyboardInterrupt:
        line, code = "interrupted; run the same again, what is done is kept", 130
    print(f"bootstrap: {line}", file=sys.stderr)
    return code


def pending(root: Path, extras: set[str]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The stamp of the environment, and the one that it is to have, which never asks for less; [] where both agree."""
    stamp, python = root / ".venv" / "cloze-stamp.json", root / ".venv" / "bin" / "python"
    earlier = json.loads(stamp.read_text(encoding="utf-8")) if stamp.exists() and python.exists() else {}
    pins = b"\0".join((root / name).read_bytes() for name in ("pyproject.toml", "constraints.txt"))
    asked = extras - {*TORCH_MB} if os.environ.get("TORCH") == "none" else extras
    wanted = {
        "root": str(root),
        "digest": hashlib.sha256(pins).hexdigest(),
        "extras": sorted(asked.union(earlier.get("extras", []))),
        "torch_index": os.environ.get("TORCH_INDEX") or earlier.get("torch_index", ""),
    }
    return [(earlier, wanted)] if earlier != wanted else []


def wait_for(lock: TextIO) -> None:
    """Hold the checkout's lock, which lies on pyproject.toml, once another run has ended."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("bootstrap: another one is at work here; waiting for it to end", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def set_up(root: Path, earlier: dict[str, Any], wanted: dict[str, Any], lock: TextIO) -> None:
    """Say what will be downloaded, make the environment where there is no sound one, let pip fill it, and stamp it."""
    home, venv = Path(os.environ.get("CLOZE_HOME") or root / ".cloze").absolute(), root / ".venv"
    download, torch = CORE_MB + sum(MB.get(extra, 0) for extra in wanted["extras"]), {*TORCH_MB} & {*wanted["extras"]}
    gpu = "; where pip finds torch for GPUs, 2.7 GB more" if torch and not wanted["torch_index"] else ""
    print(f"bootstrap: about {download} MB to download, {download / 250:.1f} GB on disk, into {venv}{gpu}", flush=True)
    home.mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if k not in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER")}
    with tempfile.TemporaryDirectory(prefix="bootstrap-", dir=home) as scratch:
        environ = {"PIP_CACHE_DIR": str(home / "pip"), **kept, "TMPDIR": scratch, "PIP_NO_INPUT": "1"}
        compiling = []
        try:
            for command in commands(root, earlier, wanted):
                run(command, environ, home / "bootstrap.log", lock)
                if EARLY[-1] in command:
                    compiling.append(begin_compiling(root))
        finally:  # what is compiled is kept; the first run, or `cloze prepare`, does the rest, and tells what fails
            for process in compiling:
                process.terminate()
                process.wait()
    (venv / "cloze-stamp.new").write_text(json.dumps(wanted), encoding="utf-8")
    (venv / "cloze-stamp.new").replace(venv / "cloze-stamp.json")


def commands(root: Path, earlier: dict[str, Any], wanted: dict[str, Any]) -> Iterator[list[str]]:
    """The calls to make: the environment; what builds the project and its kernels; torch alone; the project."""
    venv, python = root / ".venv", str(root / ".venv" / "bin" / "python")
    sound = [python, "-I", "-c", f"import pip, sys; sys.exit(sys.version_info < {SUPPORTED[0]})"]
    if earlier.get("root", str(root)) != str(root) or not Path(python).exists() or call(sound, stderr=DEVNULL):
        if venv.exists() and not (venv / "pyvenv.cfg").is_file():
            raise OSError(f"{venv} is not an environment of Python: move it away")
        yield [sys.executable, "-m", "venv", "--clear", str(venv)]
    for entry in venv.glob("lib/python*/site-packages/*.dist-info"):
        if not (entry / "RECORD").is_file():  # pip writes it last, and without it takes the package for installed
            shutil.rmtree(entry)
    pins = root / "constraints.txt"
    install = [python, "-I", "-m", "pip", "install", "--only-binary", ":all:", "--constraint", str(pins)]
    yield [*install, *EARLY]
    if {*TORCH_MB} & {*wanted["extras"]}:
        index = ["--index-url", wanted["torch_index"]] if wanted["torch_index"] else []
        again = ["--force-reinstall"] if wanted["torch_index"] != earlier.get("torch_index", "") else []
        torch = next(line for line in pins.read_text(encoding="utf-8").splitlines() if line.startswith("torch=="))
        yield [*install, "--no-deps", *index, *again, torch]
    project = f"{root}[{','.join(wanted['extras'])}]".replace("[]", "")
    yield [*install, "--no-binary", "jsonpath-rw", "--no-build-isolation", "--editable", project]


def begin_compiling(root: Path) -> Popen[bytes]:
    """Compile kernels in a process that ends with this one, keeps no lock, says nothing and gives way to others."""
    command = [str(root / ".venv" / "bin" / "python"), "-m", "flows.command.compile_kernels"]
    return Popen(command, cwd=root, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)


def run(command: list[str], environ: Mapping[str, str], log: Path, lock: TextIO) -> None:
    """Run a command, which holds the lock with us; shows large downloads, and ChildProcessError where it fails."""
    lines: list[str] = []
    with Popen(command, env=environ, stdout=PIPE, stderr=STDOUT, text=True, pass_fds=[lock.fileno()]) as process:
        for line in process.stdout or ():
            lines.append(line)
            if line.startswith("  Downloading ") and line.endswith(" MB)\n"):
                print(f"bootstrap: {line.strip()}", flush=True)
    log.write_text("".join(lines), encoding="utf-8")
    if process.returncode:
        errors = " ".join([line.strip() for line in lines if line.startswith("ERROR:")] or lines[-1:])
        summary = f"\npip failed: {errors} (all that it said: {log})"
        raise ChildProcessError("".join(lines) + summary)


def remedy_for(said: str) -> str:
    """The line that says what to do about a complaint; empty where it is not a known one."""
    matches = ((re.search(pattern, said), remedy) for pattern, remedy in REMEDIES.items())
    return next((remedy.format(*match.groups()) for match, remedy in matches if match), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parent))
