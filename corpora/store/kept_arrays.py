"""Arrays that take a while to make, kept on disk next to the machine code of the kernels that read them.

Promise: what is read is what was made, for a name that tells all that it depends on; a file that cannot be read is
made again.

Cost: some 3 ms to read 5 MB.
"""

import hashlib
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from corpora.kernels.compiling import kernel_folder
from corpora.store.files import replaced_file

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


def kept_arrays(name: str, make: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Arrays by name, read-only: made once, then read.

    name: tells all that they depend on, versions of libraries included
    """
    path = kernel_folder() / f"arrays-{hashlib.sha256(name.encode()).hexdigest()[:16]}.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return _read_only({key: stored[key] for key in stored.files})
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        made = make()
    with replaced_file(path) as new, new.open("wb") as written:
        np.savez(written, **made)  # type: ignore[arg-type]  # its own option is next to arrays by name
    return _read_only(made)


def _read_only(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    for array in arrays.values():
        array.flags.writeable = False
    return dict(arrays)
