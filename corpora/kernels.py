"""Compiled kernels: one decorator for all of them, and the folder their machine code is kept in.

A kernel is a plain Python function over numpy buffers that numba compiles to machine code. It releases the
GIL, so threads suffice, and its code is cached on disk: the first call of a process costs milliseconds
instead of seconds. numba decides by the kernel's own file whether cached code is stale and overlooks a change
in another file that was compiled into it, so the launcher names the cache folder by `kernel_digest`: a change
anywhere in the kernels' sources or in what they import, in numba, llvmlite or the processor means another
folder.
"""

import hashlib
import platform
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

_PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer")
_HOUSE = rf"(?:{'|'.join(_PACKAGES)})[\w.]*"
_IMPORTS = re.compile(rf"^\s*(?:from|import) ({_HOUSE})(?: import (\([\w\s,]+|[\w ,]+))?", re.MULTILINE)


def kernel(function: Function) -> Function:
    """Compile a function with numba: cached on disk, without the GIL, types taken from the first call."""
    import numba

    compiled: Function = numba.njit(cache=True, nogil=True)(function)
    return compiled


def kernel_digest(root: Path) -> str:
    """Digest (16 hex digits) of everything that decides the machine code of the kernels under `root`."""
    digest = hashlib.sha256()
    for name, source in sorted(_kernel_sources(root).items()):
        digest.update(name.encode() + b"\0" + source + b"\0")
    for fact in (version("numba"), version("llvmlite"), platform.python_version(), _processor()):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:16]


def _kernel_sources(root: Path) -> dict[str, bytes]:
    """The files that hold kernels, and the house's files that those import (whose constants are compiled in)."""
    paths = (path for package in _PACKAGES for path in (root / package).rglob("*.py"))
    house = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    found: dict[str, bytes] = {}
    waiting = [name for name, source in house.items() if b"@kernel" in source or b"corpora.kernels" in source]
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
