"""The identity of a machine that builds artifacts: Python, the program, the libraries that decide bytes.

Promise: two machines whose identities are equal make the same bytes of the same inputs. The program is compared by its
sources, because a checkout keeps its version from one release to the next.

Cost: reading the sources, some 20 ms.

The paths that workers must see of a run: the store, and raw files in folders.

Promise: nothing is built before every worker has read a file that the run has just written into its store, and has
found raw files of each source under the same path and of the same size. Files under one path that differ in their bytes
alone go unnoticed: a folder that every machine has for itself is not a shared folder.

Cost: one small read of the store a worker, and a check of SAMPLED raw files of each source.
"""

import hashlib
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

from corpora.errors import InputError
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.contract import RawFile
from corpora.store.places.place import Place

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
    """Return the differences of two identities, in words; "" if there are none.

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


SAMPLED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The files that must be visible.

    store: its address; witness: a file in it; sha256: of that file
    files: size by path of raw files
    """

    store: str
    witness: str
    sha256: str
    files: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(place: Place, witness: str, sources: Mapping[str, Sequence[RawFile]]) -> "Sight":
        """Return the sight of a store, a file of it, and some raw files of each source."""
        digest = hashlib.sha256(place.read(witness)).hexdigest()
        present = [[file for file in files if file.path] for files in sources.values()]
        some = [file for files in present for file in files[:: max(1, len(files) // SAMPLED)]]
        sizes = {file.path: file.size_bytes for file in some}
        return Sight(store=place.address, witness=witness, sha256=digest, files=sizes)


def unseen(sight: Sight) -> str:
    """Return what this machine does not see, in words; "" if it sees everything."""
    if wrong := _store_unseen(sight):
        return wrong
    for path, size in sight.files.items():
        try:
            size_here = parse_raw_path(path).stat().st_size
        except OSError as error:
            return f"the raw file {path} ({error.strerror})"
        if size_here != size:
            return f"the raw file {path} ({size_here:,} bytes there, {size:,} here)"
    return ""


def _store_unseen(sight: Sight) -> str:
    try:
        data = Place(sight.store).read(sight.witness)
    except FileNotFoundError:
        return f"the store {sight.store} (it has nothing there)"
    except InputError as error:
        return f"the store {sight.store} ({error})"
    same = hashlib.sha256(data).hexdigest() == sight.sha256
    return "" if same else f"the store {sight.store} (there is another one under this path)"


def refuse_unseen(blind: Mapping[str, str]) -> None:
    """Raise InputError if a worker does not see something. blind: worker -> what it does not see, or ""."""
    blinded = {worker: what for worker, what in blind.items() if what}
    if blinded:
        worker, what = next(iter(sorted(blinded.items())))
        raise InputError(
            f"{len(blinded)} of {len(blind)} workers of the cluster cannot see files that they need: {worker} does "
            f"not see {what}. A worker cannot read this machine's disk. Keep store and raw files in folders that "
            "every machine has under the same path, or on an object store (s3://BUCKET/PREFIX), whose keys the workers "
            "have in their environment."
        )
