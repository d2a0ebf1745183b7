"""Arrays that are the same in every process of this code: made once, and kept next to the kernels' machine code.

The folder is another one for other sources of kernels and of what they import, for another Python and so other Unicode
tables: so a module that a kernel imports may keep what it makes of its own code and of Python, and of nothing else.

Promise: a file that is damaged is made again. Where none can be written, each process makes its own.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from corpora.kernels.compiling import kernel_folder
from corpora.store.files import replaced_file

Arrays = Mapping[str, npt.NDArray[Any]]


def kept_arrays(name: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays of this name, made where they are not kept yet. They are held to the checksum that they are kept with.

    Cost: 2 ms a megabyte.
    """
    path = kernel_folder() / f"{name}.npz"
    with suppress(OSError, ValueError, EOFError, BadZipFile):  # it is not there, or not what was kept
        with path.open("rb") as file, np.load(file) as kept:
            return dict(kept)
    made = make()
    with suppress(OSError), replaced_file(path) as new, new.open("wb") as sink:
        np.savez(sink, allow_pickle=False, **made)
    return made
