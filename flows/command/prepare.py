"""`cloze prepare`: does in advance what the first run would wait for; `make install` and `make develop` call it.

    bytecode     of the packages, if Python may not have written it
    kernels      compiled on all cores, for the calls that runs make, with the tables of characters that they read
                 (`flows.command.compile_kernels`)
    database     of the embedded orchestrator, which its first server makes

Compiled code is shared by all checkouts and environments of a user with the same code to compile.

Promise: what is done is not done again, and a kill in the middle loses at most what was being compiled. Only caches
are left behind.
What no process read for 60 days is removed when kernels are compiled.
Cost: one to two minutes of a core, once for each state of the kernels.
"""

import compileall
import time
from pathlib import Path

from corpora.generic_types import Tell
from corpora.kernels.compiling import ROOT, find_shipped_folder, make_kernel_folder
from corpora.kernels.sealed import read_sealed
from flows.command.arguments import find_home
from flows.command.compile_kernels import compile_kernels, compute_marker_name, is_compiled
from flows.command.machine_checks import Finding, report_failure, report_ok, report_warning
from flows.command.terminal import print_lines
from flows.orchestration.embedded_server import EmbeddedServer, find_database_fault, get_database_path
from flows.run.policies import count_cores

UNUSED_SECONDS = 60 * 86400.0
SEALED = (".kernel", ".npz")
PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer", "flows", "cloze")


def prepare() -> None:
    """Compile kernels and make the UI's database, before a first run."""
    prepare_home(find_home(), print_lines)


def prepare_home(home: Path, tell: Tell) -> None:
    """Prepare a CLOZE_HOME folder: compile the kernels and create the Prefect database, unless that was already done.

    Args:
        home: The CLOZE_HOME folder, which holds caches and the Prefect database.
        tell: Callback that prints a line. It is called with progress messages.

    Raises:
        InputError: If the server that creates the database does not start.
    """
    if is_prepared(home):
        tell("The kernels are compiled, and the orchestrator has its database.")
        return
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=2)
    began = time.monotonic()
    if not get_database_path(home / "prefect").exists():
        tell("Making the database of the embedded orchestrator ...")
        with EmbeddedServer(str(home / "prefect" / "server.log")) as server:
            server.wait()
    for path in find_damaged_kernels():
        path.unlink(missing_ok=True)
        (make_kernel_folder() / compute_marker_name()).unlink(missing_ok=True)
    if not is_compiled():
        _remove_unused(make_kernel_folder().parent)
        workers = count_cores()
        tell(f"Compiling the kernels, once for this state of the code: a minute or two of a core, on {workers} ...")
        compile_kernels(tell, workers)
    tell(f"Prepared in {time.monotonic() - began:.0f} s.")


def is_prepared(home: Path) -> bool:
    """Return True if the kernels are compiled and intact, and the Prefect database of a CLOZE_HOME folder exists."""
    return is_compiled() and not find_damaged_kernels() and get_database_path(home / "prefect").exists()


def _remove_unused(folder: Path) -> None:
    """Remove compiled kernels that were not read for UNUSED_SECONDS, such as those of older sources.

    Args:
        folder: The cache, which has a subfolder for each version of the sources.
    """
    for path in folder.glob("*/*"):
        state = path.stat()
        if max(state.st_atime, state.st_mtime) < time.time() - UNUSED_SECONDS:
            path.unlink(missing_ok=True)


def find_damaged_kernels() -> list[Path]:
    """List the files of compiled kernels and character tables in the user's cache that have a wrong checksum."""
    files = (path for path in sorted(make_kernel_folder().iterdir()) if path.suffix in SEALED)
    return [path for path in files if read_sealed(path) is None]


def check_database(home: Path) -> Finding:
    """Check that a server can use the Prefect database of a CLOZE_HOME folder. A missing database passes."""
    path = get_database_path(home / "prefect")
    if fault := find_database_fault(path.parent):
        return report_failure("UI database", *fault)
    return report_ok("UI database", str(path) if path.exists() else "none yet: the first server makes it")


def check_kernels() -> Finding:
    """Check that the kernels are compiled for the current sources, and intact; otherwise, the finding is a warning."""
    folder, bad = make_kernel_folder(), find_damaged_kernels()
    if bad:
        fact = f"{len(bad)} damaged in {folder}, first {bad[0].name}: a run that needs it compiles it again"
    elif is_compiled():
        return report_ok("compiled kernels", str(find_shipped_folder() or folder))
    else:
        fact = f"none, or not all, in {folder}: the first run compiles them while it works"
    return report_warning("compiled kernels", fact, "cloze prepare")
