"""The identity of a machine that builds artifacts: Python, the program, the libraries that decide bytes.

Promise: two machines whose identities are equal make the same bytes of the same inputs. The program is compared by its
sources, because a checkout keeps its version from one release to the next.

Cost: reading the sources, some 20 ms.
"""

import hashlib
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "program"
LIBRARIES = (
    *("pyarrow", "tokenizers", "datasketch", "ftfy", "numba", "llvmlite", "numpy", "xxhash", "lxml", "pycld2"),
    *("fastwarc", "dask", "distributed"),
)
PLUGINS = ("cloze.sources", "cloze.steps")  # the entry points of other packages' sources and steps
_SOURCES = ("corpora", "tokenizers_train", "shards", "trainer", "flows/engines")
_ABSENT = "none"

Identity = Mapping[str, str]


def identity() -> Identity:
    """Return this process's identity: name -> version."""
    plugins = {point.dist.name for group in PLUGINS for point in entry_points(group=group) if point.dist is not None}
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "processor": platform.machine(),
        PROGRAM: f"{_version('cloze-pipeline')} ({program_digest(ROOT)[:12]})",
        **{name: _version(name) for name in sorted({*LIBRARIES, *plugins})},
    }


def program_digest(root: Path) -> str:
    """Return a digest of the sources that decide bytes, and of their names."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in _SOURCES for path in (root / folder).rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def differences(ours: Identity, theirs: Identity) -> str:
    """Return the differences of two identities, in words; "" where there are none.

    >>> differences({"python": "3.11", "numpy": "2.4.6"}, {"python": "3.12", "numpy": "2.4.6"})
    'python 3.12 instead of 3.11'
    """
    names = [*ours, *(name for name in theirs if name not in ours)]
    pairs = ((name, theirs.get(name, _ABSENT), ours.get(name, _ABSENT)) for name in names)
    return ", ".join(f"{name} {other} instead of {own}" for name, other, own in pairs if other != own)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return _ABSENT
