"""Compiles the kernels that a run calls, before it calls them, and makes the tables of characters that they read.

`kernel_calls.txt` has the calls, in the order in which a run makes them, so that they can be compiled on all cores:
first those of a run of a folder of text, then what only other runs call.
`flows.command.kernel_calls` writes it.
Cost: some 70 s of one core.

    python -m flows.command.compile_kernels                in the background, next to pip (`bootstrap.py`)
    python -m flows.command.compile_kernels --for-wheel    into corpora/kernels/shipped/python311-0123456789abcdef/

The code of a wheel is for `BASELINE`, not for this machine, and for the Python and the numba that run this: run it with
each Python that the wheel is for, before the wheel is built. What is there for another one stays. A kernel that fits no
more is compiled where it is used, so that a wheel is never wrong, only slower. Cost: one to three minutes of a core for
each Python; 3 MB of the wheel.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from corpora.generic_types import Tell
from corpora.kernels.calls import compile_call, parse_call
from corpora.kernels.compiling import (
    BASELINE,
    ROOT,
    SHIPPED_FOLDER,
    compute_shipped_name,
    compute_source_digest,
    find_shipped_folder,
    make_kernel_folder,
)
from corpora.store.worker_pool import WorkerDied, WorkerPool
from flows.run.policies import count_cores

CALLS = Path(__file__).with_name("kernel_calls.txt")
LINE_SECONDS = 10.0  # between two progress lines


def compile_kernels(tell: Tell, workers: int) -> None:
    """Compile the kernels (Numba functions) for all listed calls, and write the character tables for word splitting.

    This takes only a few seconds if everything is already compiled.

    Args:
        tell: Called with a progress line every LINE_SECONDS.
        workers: The number of worker processes.
    """
    with WorkerPool(workers) as pool:
        _compile_calls(pool, False, tell)


def compile_in_background() -> None:
    """Compile the listed kernels one by one at low priority, until all are compiled or the parent process has ended.

    `bootstrap.py` runs this in a separate process while pip installs packages.
    """
    os.nice(10)
    parent = os.getppid()
    for call in read_calls():
        if os.getppid() != parent:
            break
        compile_call(call)


def read_calls(first: bool = False) -> list[str]:
    """Read the list of kernel calls. Each line has the name of a compiled function and its argument types.

    Args:
        first: True to return only the calls that a run on a folder of text makes.
    """
    parts = CALLS.read_text(encoding="utf-8").split("\n\n")
    return [call for part in parts[: 1 if first else None] for call in part.splitlines()]


def _compile_calls(pool: WorkerPool, first: bool, tell: Tell) -> None:
    """Compile the listed calls on a pool of workers, then write a marker file to record that this was done.

    Args:
        pool: The pool of workers.
        first: True to compile only the calls that a run on a folder of text makes.
        tell: Called with a progress line every LINE_SECONDS.

    Raises:
        WorkerDied: If a worker dies, or the pool is closed.
    """
    calls, last = read_calls(first), time.monotonic()
    with ThreadPoolExecutor(pool.num_workers) as threads:
        for number, _ in enumerate(threads.map(lambda call: pool.run(compile_call, call), calls), start=1):
            if time.monotonic() - last > LINE_SECONDS:
                last = time.monotonic()
                tell(f"  {number} of {len(calls)} calls")
    if not first:
        _write_tables()
    (make_kernel_folder() / compute_marker_name(first)).touch()


def _write_tables() -> None:
    """Write the character property tables for word splitting to the cache, by splitting a short text."""
    import pyarrow as pa  # here: the help of the command asks for this module, and is not to wait for these

    from corpora.text.words import read_word_tables
    from tokenizers_train.vocabularies.settings import ALGORITHMS, VocabularySettings
    from tokenizers_train.words.counts import count_words

    for algorithm in ALGORITHMS:
        count_words(VocabularySettings(algorithm=algorithm).word_rule, pa.array(["A word."], pa.large_string()))
    read_word_tables()


def is_compiled(first: bool = False) -> bool:
    """Return True if the kernels are compiled for the current sources, in the user's cache or in the installed wheel.

    Args:
        first: True to check only the kernels that a run on a folder of text calls.
    """
    folders = (make_kernel_folder(), find_shipped_folder())
    return any(folder is not None and (folder / compute_marker_name(first)).exists() for folder in folders)


def compute_marker_name(first: bool = False) -> str:
    """Compute the name of the marker file that is written once all kernels are compiled.

    The name is "compiled-" and a digest of the listed calls and the sources of their modules, so any change requires a
    new marker.

    Args:
        first: True for the kernels that a run on a folder of text calls.
    """
    calls = read_calls(first)
    modules = sorted({call.partition(":")[0] for call in calls})
    sources = [compute_source_digest(ROOT / f"{module.replace('.', '/')}.py") for module in modules]
    return f"compiled-{hashlib.sha256(repr((calls, sources)).encode()).hexdigest()[:16]}"


@contextmanager
def compile_meanwhile(tell: Tell) -> Iterator[None]:
    """Compile the kernels that a run on a folder of text needs while the block runs, using half of the cores.

    Other kernels are compiled when they are first called. Compiling stops at the end of the block, and the next run
    compiles the rest. Does nothing if all are already compiled.

    Args:
        tell: Called with a message if kernels must be compiled.
    """
    if is_compiled() or is_compiled(first=True):
        yield
        return
    tell("The kernels are not compiled yet: this run compiles what it needs next to its work.")
    with WorkerPool(max(1, count_cores() // 2)) as pool:
        thread = Thread(target=_compile_until_it_ends, args=(pool,), name="compile-kernels")
        thread.start()
        try:
            yield
        finally:
            pool.close()
            thread.join()


def _compile_until_it_ends(pool: WorkerPool) -> None:
    with suppress(WorkerDied):
        _compile_calls(pool, True, lambda line: None)


def compile_for_wheel() -> int:
    """Start a process with empty caches that compiles the kernels for a wheel, and return its exit code.

    The kernels are compiled for the processor BASELINE, not for this machine.
    """
    with tempfile.TemporaryDirectory() as home:
        variables = {**os.environ, "CLOZE_HOME": home, "NUMBA_CPU_NAME": BASELINE, "NUMBA_CPU_FEATURES": ""}
        again = [sys.executable, "-m", "flows.command.compile_kernels", "--into-checkout"]
        return subprocess.run(again, env=variables, check=False).returncode


def compile_into_checkout() -> None:
    """Compile the kernels for the current Python, and copy them to the folder that is packaged into the wheel."""
    compile_kernels(print, count_cores())
    folder = SHIPPED_FOLDER / compute_shipped_name()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    calls = map(parse_call, read_calls())
    kernels = [kernel.compute_path(arguments) for kernel, arguments in calls]  # not what kernels alone call
    for path in (*kernels, *make_kernel_folder().glob("arrays-*.npz"), make_kernel_folder() / compute_marker_name()):
        shutil.copyfile(path, folder / path.name)


if __name__ == "__main__":
    if "--for-wheel" in sys.argv:
        sys.exit(compile_for_wheel())
    compile_into_checkout() if "--into-checkout" in sys.argv else compile_in_background()
