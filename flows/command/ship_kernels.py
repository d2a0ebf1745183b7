"""Compile the kernels for a wheel: `python -m flows.command.ship_kernels`, before the wheel is built.

    kernels of `kernel_calls.txt`, tables of characters ─► corpora/kernels/shipped/python311-0123456789abcdef/

The code is for `BASELINE`, not for this machine, and for the Python and the numba that run this; run it with each
Python that the wheel is for. What is there for another one stays. A kernel that fits no more is compiled where it is
used, so that a wheel is never wrong, only slower.
Cost: one to three minutes of a core for each Python; 3 MB of the wheel.
"""

import os
import shutil
import subprocess
import sys
import tempfile

from corpora.kernels.calls import parse_call
from corpora.kernels.compiling import BASELINE, SHIPPED_FOLDER, compute_shipped_name, make_kernel_folder
from flows.command.compile_kernels import compile_kernels, compiled_name, listed_calls
from flows.run.policies import count_cores


def main() -> int:
    """Compile in a process of its own, whose caches are new."""
    with tempfile.TemporaryDirectory() as home:
        variables = {**os.environ, "CLOZE_HOME": home, "NUMBA_CPU_NAME": BASELINE, "NUMBA_CPU_FEATURES": ""}
        return subprocess.run(
            [sys.executable, "-m", "flows.command.ship_kernels", "--here"], env=variables, check=False
        ).returncode


def ship() -> int:
    """Compile what a run calls, and copy it to where the wheel takes it from."""
    compile_kernels(print, count_cores())
    folder = SHIPPED_FOLDER / compute_shipped_name()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    calls = map(parse_call, listed_calls())
    kernels = [kernel.compute_path(arguments) for kernel, arguments in calls]  # not what kernels alone call
    for path in (*kernels, *make_kernel_folder().glob("arrays-*.npz"), make_kernel_folder() / compiled_name()):
        shutil.copyfile(path, folder / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(ship() if "--here" in sys.argv else main())
