"""Compiled kernels: one decorator for all of them, and the folder their machine code is kept in.

A kernel is a plain Python function over numpy buffers that numba compiles to machine code. It releases the
GIL, so threads suffice, and its code is cached on disk: the first call of a process costs milliseconds
instead of seconds. numba decides by the kernel's own file whether cached code is stale and overlooks a change
in another file that was compiled into it, so the folder is named by `kernel_digest`: a change anywhere in the
kernels' sources or in what they import, in numba, llvmlite or the processor means another folder.

The folder is set where kernels are declared, so it is the same however a process begins, and the source tree stays as
it is. This is the one place inside the packages that reads an environment variable: `CLOZE_HOME`.

Cost: a process that declares a kernel reads all sources once, in less than a tenth of a second.
"""

import hashlib
import os
import platform
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from corpora.errors import InputError

ROOT = Path(__file__).resolve().parents[2]

Function = TypeVar("Function", bound=Callable[..., object])

_PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer")
_HOUSE = rf"(?:{'|'.join(_PACKAGES)})[\w.]*"
_IMPORTS = re.compile(rf"^\s*(?:from|import) ({_HOUSE})(?: import (\([\w\s,]+|[\w ,]+))?", re.MULTILINE)


def kernel(function: Function) -> Function:
    """Compile a function with numba: cached on disk, without the GIL, types taken from the first call."""
    import numba

    _listen()
    numba.config.CACHE_DIR = str(kernel_folder())  # each time: numba reads its environment again when it compiles
    compiled: Function = numba.njit(cache=True, nogil=True)(function)
    return compiled


def tell_compiling(tell: Callable[[int], None]) -> None:
    """Have somebody told when this process begins (1) and ends (-1) to compile a kernel that is not on disk."""
    global _tell
    _tell = tell


def _tell_nobody(change: int) -> None:
    """Say nothing."""


_tell: Callable[[int], None] = _tell_nobody


@cache
def _listen() -> None:
    """Listen to numba, once in a process: it says when it compiles, not when it finds machine code on disk."""
    from numba.core import event

    passed_on = {"on_start": lambda self, said: _tell(1), "on_end": lambda self, said: _tell(-1)}
    event.register("numba:compile", type("Listener", (event.Listener,), passed_on)())


@cache
def kernel_folder() -> Path:
    """The folder of this code's machine code, made where it is missing: `kernels/DIGEST` in the folder for caches.

    That is `CLOZE_HOME`; else `.cloze` in the checkout, or `~/.cache/cloze` where the checkout cannot be written.
    Raises InputError where none can be written.
    """
    named = os.environ.get("CLOZE_HOME")
    homes = [Path(named).absolute()] if named else [ROOT / ".cloze", Path("~/.cache/cloze").expanduser()]
    digest = kernel_digest(ROOT)
    for folder in (home / "kernels" / digest for home in homes):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise InputError(
        f"Compiled kernels cannot be kept in {homes[-1]}: it cannot be written. Set CLOZE_HOME to a folder that can."
    )


def kernel_digest(root: Path) -> str:
    """Digest (16 hex digits) of everything that decides the machine code of the kernels under `root`."""
    from numba import config

    chosen = repr((config.CPU_NAME, config.CPU_FEATURES))  # for another processor than this machine's
    digest = hashlib.sha256()
    for name, source in sorted(_kernel_sources(root).items()):
        digest.update(name.encode() + b"\0" + source + b"\0")
    for fact in (version("numba"), version("llvmlite"), platform.python_version(), _processor(), chosen):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:16]


def _kernel_sources(root: Path) -> dict[str, bytes]:
    """The files that hold kernels, and the house's files that those import (whose constants are compiled in)."""
    paths = (path for package in _PACKAGES for path in (root / package).rglob("*.py"))
    house = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    found: dict[str, bytes] = {}
    waiting = [name for name, source in house.items() if b"@kernel" in source or b"corpora.kernels.compiling" in source]
    while waiting:
        name = waiting.pop()
        if name in house and name not in found:
            found[name] = house[name]
            for module, names in _IMPORTS.findall(house[name].decode()):
                folder = module.replace(".", "/")
                waiting += [f"{folder}.py", *(f"{folder}/{item}.py" for item in re.findall(r"\w+", names))]
    return found


def _processor() -> str:
    """The processor's model and instruction sets, as far as the machine tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
