"""Arrays that take a while to make, kept on disk next to the machine code of the kernels that read them.

Promise: what is read is what was made, for a name that tells all that it depends on besides the source that makes it;
an altered file is made again.

Cost: some 8 ms of CPU time to read 5 MB.
"""

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from corpora.kernels.compiling import kernel_folder, shipped_folder, source_digest
from corpora.kernels.sealed import read_sealed, write_sealed

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


def kept_arrays(name: str, source: str, make: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Arrays by name, read-only: made once, then read.

    name: tells all that they depend on, versions of libraries included
    source: the file that makes them; it and what it imports count as well
    """
    digest = hashlib.sha256(f"{name} {source_digest(Path(source))}".encode()).hexdigest()
    path, shipped = kernel_folder() / f"arrays-{digest[:32]}.npz", shipped_folder()
    kept = read_sealed(path)
    if kept is None and shipped is not None:
        kept = read_sealed(shipped / path.name, anyones=True)
    if kept is not None:
        with np.load(io.BytesIO(kept), allow_pickle=False) as stored:
            return _read_only({key: stored[key] for key in stored.files})
    made, written = make(), io.BytesIO()
    np.savez(written, **made)  # type: ignore[arg-type]  # its own option is next to arrays by name
    write_sealed(path, written.getvalue())
    return _read_only(made)


def _read_only(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    for array in arrays.values():
        array.flags.writeable = False
    return dict(arrays)
