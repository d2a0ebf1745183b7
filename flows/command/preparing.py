"""`cloze prepare`: what the first run would wait for, done beforehand; `make install` and `make develop` call it.

    bytecode     of the packages, where Python may not have written it
    kernels      compiled by building a small store of the shipped samples, with the signatures that runs use
    database     of the embedded orchestrator, which its first server makes

Machine code is kept for the folder of the checkout that it was compiled in: one that was moved, or another with the
same home, is prepared anew.

Promise: what is done is not done again, and a kill in the middle loses at most what was being compiled. Nothing is left
but caches.
Cost: one to two minutes of a core, once for each state of the code.
"""

import compileall
import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from corpora.kernels.compiling import ROOT, kernel_folder
from flows.command.doctor import Finding
from flows.orchestration.database import database_of
from flows.orchestration.recording import embedded

Tell = Callable[[str], None]

PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer", "flows")


def prepare(home: Path, tell: Tell) -> None:
    """Do what is not done yet. Raises InputError."""
    if is_prepared(home):
        tell("The kernels are compiled, and the orchestrator has its database.")
        return
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=2)
    began = time.monotonic()
    if not database_of(home / "prefect").exists():
        tell("Making the database of the embedded orchestrator ...")
        with embedded(home, lambda line: None):
            pass
    if not _done().exists():
        tell("Compiling the kernels, once for this state of the code: one to two minutes of a core ...")
        from flows.command.compiling import compile_kernels  # all of the pipeline, which takes a second to import

        compile_kernels(tell)
        _done().touch()
    tell(f"Prepared in {time.monotonic() - began:.0f} s.")


def is_prepared(home: Path) -> bool:
    """Whether the first run has nothing to wait for."""
    return _done().exists() and database_of(home / "prefect").exists()


def _done() -> Path:
    """A file among the kernels, which are of one state of the code: all are there for this checkout."""
    return kernel_folder() / f"prepared-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:16]}"


def kernels_finding() -> Finding:
    """Whether the kernels of this state of the code are compiled."""
    folder = kernel_folder()
    if _done().exists():
        return Finding(name="compiled kernels", ok="ok", fact=str(folder))
    fact = f"none, or not all, in {folder}: the first run compiles them, for a minute or two"
    return Finding(name="compiled kernels", ok="warn", fact=fact, remedy="cloze prepare")
