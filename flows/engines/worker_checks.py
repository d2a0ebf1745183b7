"""Checks that the workers of a cluster fit a run: they have the same programs, and see the same files.

Promises: two machines with equal identities (Python, the program, the libraries that decide bytes) make the same bytes
of the same inputs. The program is compared by its sources, because a checkout keeps its version from one release to the
next. And nothing is built before every worker has read a file that the run has just written into its store, and has
found raw files of each source under the same path and of the same size. Files under one path that differ only in their
bytes go unnoticed: a folder that every machine has for itself is not a shared folder.

Cost: reading the sources, some 20 ms; one small read of the store a worker, and a check of FILES_CHECKED_PER_SOURCE raw
files of each source.
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


def read_identity() -> Identity:
    """Return the version of everything that can affect the bytes of files built by this process, by name.

    These are Python, the processor, Cloze itself (its version and a digest of its sources), libraries, and plugins. The
    version of a missing library is "none".
    """
    plugins = {point.dist.name for group in PLUGINS for point in entry_points(group=group) if point.dist is not None}
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "processor": platform.machine(),
        PROGRAM: f"{_find_version('cloze-pipeline')} ({compute_program_digest(ROOT)[:12]})",
        **{name: _find_version(name) for name in sorted({*LIBRARIES, *plugins})},
    }


def compute_program_digest(root: Path) -> str:
    """Return a hexadecimal SHA-256 digest of the names and contents of all source files that affect output bytes.

    Args:
        root: The root of the checkout.
    """
    digest = hashlib.sha256()
    for path in sorted(path for folder in _SOURCES for path in (root / folder).rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def describe_differences(ours: Identity, theirs: Identity) -> str:
    """Describe how a worker's program versions (from `read_identity`) differ from this machine's; "" if they are equal.

    >>> describe_differences({"python": "3.11", "numpy": "2.4.6"}, {"python": "3.12", "numpy": "2.4.6"})
    'python 3.12 instead of 3.11'
    """
    names = [*ours, *(name for name in theirs if name not in ours)]
    pairs = ((name, theirs.get(name, _ABSENT), ours.get(name, _ABSENT)) for name in names)
    return ", ".join(f"{name} {other} instead of {own}" for name, other, own in pairs if other != own)


def _find_version(name: str) -> str:
    """Return the version of an installed package, or "none" if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return _ABSENT


FILES_CHECKED_PER_SOURCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPaths:
    """Files that every worker of a cluster must be able to read. They are checked before a run builds anything.

    Attributes:
        store: The address of the store.
        probe_file: The path of one file in the store.
        sha256: The digest of the probe file.
        files: The sizes of some raw files in bytes, by path.
    """

    store: str
    probe_file: str
    sha256: str
    files: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def from_sources(place: Place, probe_file: str, sources: Mapping[str, Sequence[RawFile]]) -> "SharedPaths":
        """Select the paths to check: a file in the store, and evenly spaced raw files of each source.

        About FILES_CHECKED_PER_SOURCE raw files are selected per source.

        Args:
            place: The store.
            probe_file: The path of a file in the store.
            sources: The raw files of each source, by source name.
        """
        digest = hashlib.sha256(place.read(probe_file)).hexdigest()
        present = [[file for file in files if file.path] for files in sources.values()]
        sampled = [file for files in present for file in files[:: max(1, len(files) // FILES_CHECKED_PER_SOURCE)]]
        sizes = {file.path: file.size_bytes for file in sampled}
        return SharedPaths(store=place.address, probe_file=probe_file, sha256=digest, files=sizes)


def find_invisible_path(paths: SharedPaths) -> str:
    """Describe the first path that is missing or different on this machine. Returns "" if there is none.

    Args:
        paths: The store and raw files, as seen on the machine that runs the recipe.

    Returns:
        For example, "the raw file /data/a.txt (No such file or directory)".
    """
    if wrong := _find_invisible_store(paths):
        return wrong
    for path, size in paths.files.items():
        try:
            size_here = parse_raw_path(path).stat().st_size
        except OSError as error:
            return f"the raw file {path} ({error.strerror})"
        if size_here != size:
            return f"the raw file {path} ({size_here:,} bytes there, {size:,} here)"
    return ""


def _find_invisible_store(paths: SharedPaths) -> str:
    """Describe why this machine cannot read the run's store. Returns "" if it can.

    Args:
        paths: The store and a file in it, as seen on the machine that runs the recipe.

    Returns:
        For example, "the store /data (it has nothing there)".
    """
    try:
        data = Place(paths.store).read(paths.probe_file)
    except FileNotFoundError:
        return f"the store {paths.store} (it has nothing there)"
    except InputError as error:
        return f"the store {paths.store} ({error})"
    same = hashlib.sha256(data).hexdigest() == paths.sha256
    return "" if same else f"the store {paths.store} (there is another one under this path)"


def check_visible(missing_by_worker: Mapping[str, str]) -> None:
    """Check that all workers of a cluster can read the files that they need.

    Args:
        missing_by_worker: The result of `find_invisible_path` on each worker, by worker address.

    Raises:
        InputError: If a worker cannot read all files.
    """
    missing = {worker: what for worker, what in missing_by_worker.items() if what}
    if missing:
        worker, what = next(iter(sorted(missing.items())))
        raise InputError(
            f"{len(missing)} of {len(missing_by_worker)} workers of the cluster cannot see files that they need: "
            f"{worker} does not see {what}. A worker cannot read this machine's disk. Keep store and raw files in "
            "folders that every machine has under the same path, or on an object store (s3://BUCKET/PREFIX), whose "
            "keys the workers have in their environment."
        )
