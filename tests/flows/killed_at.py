"""Kills work at moments that depend on nothing but the work: after so many calls of functions of Python.

    killed_at.py dedup FOLDER FOLDER ...

does the work in each folder, in a process of its own that is forked from this one. The first is left alone, and its
calls are counted; the others are killed after equal shares of them, with SIGKILL. Prints how each process ended, and
the most memory that it held, in MB.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copytree

from corpora.duplicates.build import plan_verdicts
from corpora.duplicates.candidates import Input, SplitSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.store.places.place import Place
from corpora.store.stage import build_stage, list_manifests
from corpora.tombstones import Tombstones
from flows.dedup.run import DedupSettings, dedup

TESTS = Path(__file__).resolve().parents[1]


def judge_store() -> None:
    """Build the verdicts on the one source of the store in this folder."""
    place = Place("store")
    [documents], [sketches] = (list_manifests(place, kind, "made0") for kind in ("documents", "signatures"))
    inputs = [Input(generation=1, priority=1, documents=documents, signatures=sketches)]
    build_stage(place, plan_verdicts("made", inputs, DuplicateSettings(), SplitSettings(), Tombstones()))


WORK: dict[str, Callable[[], object]] = {
    "verdicts": judge_store,
    "dedup": lambda: dedup(["in.jsonl"], Path("out"), DedupSettings(), 1),
    "dedup of Parquet": lambda: dedup(["in.parquet"], Path("out"), DedupSettings(), 1),
    "dedup to a file": lambda: dedup(["in.jsonl"], Path("out.jsonl"), DedupSettings(), 1),
}


def counted(work: Callable[[], object], last: int) -> int:
    """Do some work here and return how many functions were called; this process ends with the `last` call."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    work()
    sys.setprofile(None)
    return calls


def compile_kernels(kind: str, folder: str) -> None:
    """Do the work once in a copy of a folder: where kernels are compiled, more functions are called than later."""
    with tempfile.TemporaryDirectory() as copy:
        copytree(folder, copy, dirs_exist_ok=True)
        if (child := os.fork()) == 0:
            os.chdir(copy)
            WORK[kind]()
            os._exit(0)
        os.waitpid(child, 0)


def main(kind: str, folders: list[str]) -> list[tuple[int, int]]:
    """Return of each process its exit status, negative if it was killed, and its memory."""
    compile_kernels(kind, folders[0])
    reading, writing = os.pipe()
    ends, whole = list[tuple[int, int]](), -1
    for number, folder in enumerate(folders):
        if (child := os.fork()) == 0:
            os.chdir(folder)
            calls = counted(WORK[kind], whole * number // len(folders))
            os.write(writing, str(calls).encode())
            os._exit(0)
        _, status, used = os.wait4(child, 0)
        ends.append((os.waitstatus_to_exitcode(status), used.ru_maxrss // 1000))
        whole = whole if number else int(os.read(reading, 20))
    return ends


def started(kind: str, folders: Sequence[Path], scratch: Path) -> list[tuple[int, int]]:
    """Return what this script prints, run with a folder for temporary files."""
    command = [sys.executable, __file__, kind, *map(str, folders)]
    places = os.pathsep.join(str(TESTS.parent / each) for each in (".", "tests", "tests/corpora", "tests/flows"))
    env = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": places}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [(end, used) for end, used in json.loads(done.stdout)]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
