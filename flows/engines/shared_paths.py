"""The paths that workers must see of a run: the store, and raw files in folders.

Promise: nothing is built before every worker has read a file that the run has just written into its store, and has
found raw files of each source under the same path and of the same size. Files under one path that differ in their bytes
alone go unnoticed: a folder that every machine has for itself is not a shared folder.

Cost: one small read of the store a worker, and a check of SAMPLED raw files of each source.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corpora.errors import InputError
from corpora.sources.bytes.objects import raw_path
from corpora.sources.contract import RawFile
from corpora.store.places.place import Place

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
    """Return what this machine does not see, in words; "" where it sees everything."""
    if wrong := _store_unseen(sight):
        return wrong
    for path, size in sight.files.items():
        try:
            size_here = raw_path(path).stat().st_size
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
    """Raise InputError where a worker does not see something. blind: worker -> what it does not see, or ""."""
    blinded = {worker: what for worker, what in blind.items() if what}
    if blinded:
        worker, what = next(iter(sorted(blinded.items())))
        raise InputError(
            f"{len(blinded)} of {len(blind)} workers of the cluster cannot see files that they need: {worker} does "
            f"not see {what}. A worker cannot read this machine's disk. Keep store and raw files in folders that "
            "every machine has under the same path, or on an object store (s3://BUCKET/PREFIX), whose keys the workers "
            "have in their environment."
        )
