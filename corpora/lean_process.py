"""Makes the processes of commands and workers start faster, by omitting what they do not need.

Python's garbage collector runs after every 700 new objects, which takes a tenth of the time of importing a large
library. And pyarrow imports pandas when it makes its first array from a list, which takes 0.2 s of CPU time, only to
find out whether the list is a Series.
"""

import gc
import sys

GC_THRESHOLD = 200_000  # some 20 MB
# In the environment of a Python that runs our code: a torch.py in the folder of a user's texts is not to be imported.
OWN_CODE = {"PYTHONSAFEPATH": "1"}


def raise_gc_threshold() -> None:
    """Make Python's garbage collector run after every GC_THRESHOLD new objects, instead of every few hundred."""
    gc.set_threshold(GC_THRESHOLD)


def hide_pandas_from_pyarrow() -> None:
    """Prevent pyarrow from importing pandas when it creates its first array.

    Explicit conversions to pandas still work.
    """
    import pyarrow as pa  # not above: the command lists its options without it

    if "pandas" not in sys.modules:
        hidden = _ModuleHider("pandas")
        sys.meta_path.insert(0, hidden)
        pa.array([0])  # pyarrow looks for pandas once
        sys.meta_path.remove(hidden)


class _ModuleHider:
    """An import finder that hides one module: importing it fails. Other modules are left to the next finder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError if `name` is the hidden module.

        Otherwise return None, so that Python asks the next finder.
        """
        if name == self._name:
            raise ModuleNotFoundError(f"{name} is hidden", name=name)
