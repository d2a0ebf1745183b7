"""How much faster two workers of a cluster are than one: the same recipe, the same bytes, by the clock.

    python -m benchmarks.cluster --megabytes 20 --repeats 3

A Dask scheduler and its workers are started on the loopback. Each worker has one thread and one core, to which it is
pinned with all that it starts, so that one worker is one core's worth whatever a library would like. The recipe is run
on one worker and on two, in turns, each time into a new store, up to its shards; before that a small one, so that
processes are there and kernels loaded. What is compared is the time of its stages; the contents must be equal. The
ratio is that of the best times. It means something only on a machine with an idle core for each worker: the load, and
the cores that the workers had of the clock's time, are printed with it. No run begins that would not end within
--minutes.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.pool import Limits
from corpora.store.processes import cpu_seconds, family, send
from corpora.store.stage import Stage, build_parts, publish, survey_stage
from flows.engines.choosing import engine_at_work
from flows.engines.contract import RunEngine
from flows.engines.sight import Sight
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import parse_recipe
from flows.run.pipeline import run_recipe
from flows.run.policies import ranges

RECIPE = """
name = "cluster"

[[source]]
kind = "files"
name = "notes"
path = "raw"

[documents]
part_bytes = 1_000_000

[rules]
repetition.enabled = false

[vocabulary]
size = 4000

[shards]
length = 128
"""
WORDS = (
    "the of and to that river keeper market light house winter carried measured remembered stones boat quiet before "
    "under walked morning letter harbour painted small grey brother clock silence window garden paper evening"
).split()
WITNESS = "runs/1/recipe.toml"
START_SECONDS, END_SECONDS = 60.0, 10.0
ONE_THREAD = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
WARM_BYTES = 400_000

Times = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A run: seconds by kind of stage, kinds that have several parts, contents, and processor time of the workers."""

    times: Times
    several: frozenset[str]
    contents: tuple[str, ...]
    cpu_seconds: float

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return sum(self.times.values())


def main(arguments: Sequence[str]) -> int:
    """Measure, print a line a stage and the ratio; 1 where the contents differ."""
    parser = argparse.ArgumentParser(prog="benchmarks.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=20.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=5.0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="cloze-cluster-") as name:
        folder = Path(name)
        write_notes(folder / "raw", int(given.megabytes * 1e6))
        write_notes(folder / "warm" / "raw", WARM_BYTES, seed=2)
        runs = measure(folder, given.repeats, time.monotonic() + 60.0 * given.minutes)
    for line in told({number: min(found, key=lambda run: run.seconds) for number, found in runs.items()}):
        print(line)
    print(f"{len(runs[2])} runs of each; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0 if len({run.contents for found in runs.values() for run in found}) == 1 else 1


def measure(folder: Path, repeats: int, deadline: float) -> Mapping[int, Sequence[Timed]]:
    """The runs on one worker and on two: as many as are asked for, or as there is time for."""
    runs: dict[int, list[Timed]] = {1: [], 2: []}
    with dask_scheduler(folder) as address:
        for _ in range(repeats):
            began = time.monotonic()
            for number in runs:
                with dask_workers(folder, address, number) as pids:
                    run_on(folder / "warm", address, pids, **{"documents.part_bytes": "20000"})
                    runs[number].append(run_on(folder, address, pids))
            if 2 * time.monotonic() - began > deadline:
                break
    return runs


def told(best: Mapping[int, Timed]) -> Iterator[str]:
    """What one worker and two took, and where two take more than half of one."""
    one, two = best[1], best[2]
    for kind, seconds in one.times.items():
        parts = "" if kind in one.several else " (one part)"
        yield f"{kind:14} {seconds:7.2f} s on one worker, {two.times[kind]:7.2f} s on two{parts}"
    lost = {kind: two.times[kind] - seconds / 2 for kind, seconds in one.times.items()}
    most = sorted(lost, key=lambda kind: -lost[kind])[:3]
    yield f"over half of one worker's time: {', '.join(f'{kind} {lost[kind]:.2f} s' for kind in most)}"
    shared = [sum(run.times[kind] for kind in one.several) for run in (one, two)]
    cores = [run.cpu_seconds / run.seconds for run in (one, two)]
    yield f"the workers had {cores[0]:.2f} cores with one, {cores[1]:.2f} with two, of the time of all stages"
    yield f"stages of several parts: two workers are {shared[0] / shared[1]:.2f} times as fast as one"
    yield f"all stages: two workers are {one.seconds / two.seconds:.2f} times as fast as one"


def run_on(folder: Path, address: str, pids: Sequence[int], **overrides: str) -> Timed:
    """The recipe on the raw files of a folder, into a new store."""
    place = Place(str(folder / "store"))
    recipe = parse_recipe(RECIPE, folder / "cluster.toml", overrides)
    lock = resolve(recipe, Lock(), StatCache()).lock
    shutil.rmtree(place.address, ignore_errors=True)
    place.write(WITNESS, b"name = 'cluster'")
    times: dict[str, float] = defaultdict(float)
    several: set[str] = set()
    contents: list[str] = []
    with engine_at_work(address, 1, Limits(), lambda _: None, lambda: Sight.of(place, WITNESS, {})) as engine:

        def perform(stages: Sequence[Stage]) -> list[Manifest]:
            began = time.perf_counter()
            manifests = [build_on(engine, place, stage) for stage in stages]
            times[stages[0].kind] += time.perf_counter() - began
            several.update(stage.kind for stage in stages if len(stage.parts) > 1)
            contents.extend(manifest.content for manifest in manifests)
            return manifests

        before = spent_by(pids)
        run_recipe(place, replace(recipe, store=place.address), lock, perform)
        spent = spent_by(pids) - before
    return Timed(times=times, several=frozenset(several), contents=tuple(contents), cpu_seconds=spent)


def spent_by(pids: Sequence[int]) -> float:
    """Processor time of workers and all that they started."""
    return cpu_seconds(member for pid in pids for member in family(pid))


def build_on(engine: RunEngine, place: Place, stage: Stage) -> Manifest:
    """A stage, its ranges of parts on the workers at once, as a run hands them out."""
    survey, bare = survey_stage(place, stage), replace(stage, parts=())
    with ThreadPoolExecutor(2 * engine.workers) as threads:
        groups = ranges(survey.missing, engine.workers, None)
        list(threads.map(lambda group: engine.run(build_parts, place, bare, list(group)), groups))
    return publish(place, stage, survey)


def write_notes(folder: Path, size_bytes: int, seed: int = 1) -> None:
    """JSON lines of made-up prose, in files of 2 MB at most."""
    draw, folder_size = random.Random(seed), 0
    folder.mkdir(parents=True)
    while folder_size < size_bytes:
        lines = [json.dumps({"text": _prose(draw)}) for _ in range(min(1000, 1 + (size_bytes - folder_size) // 2000))]
        path = folder / f"notes-{folder_size:012}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        folder_size += path.stat().st_size


def _prose(draw: random.Random) -> str:
    sentences = (" ".join(draw.choices(WORDS, k=draw.randrange(8, 20))).capitalize() + "." for _ in range(24))
    return " ".join(sentences)


@contextmanager
def dask_scheduler(folder: Path) -> Iterator[str]:
    """A scheduler on the loopback; its address."""
    told = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told))
    with dask_process(folder, "scheduler", *options):
        deadline = time.monotonic() + START_SECONDS
        while not (told.exists() and told.read_text().endswith("}")):
            assert time.monotonic() < deadline, "no scheduler came up"
            time.sleep(0.1)
        yield json.loads(told.read_text())["address"]


@contextmanager
def dask_workers(folder: Path, address: str, number: int) -> Iterator[list[int]]:
    """Workers of one thread and one core each, once all have joined; their process ids."""
    from distributed import Client

    options = (address, "--nthreads", "1", "--no-dashboard", "--memory-limit", "0", "--local-directory", str(folder))
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as started:
        pids = [
            started.enter_context(dask_process(folder, "worker", *options, core=cores[worker % len(cores)]))
            for worker in range(number)
        ]
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(number, timeout=START_SECONDS)
        yield pids


@contextmanager
def dask_process(folder: Path, *arguments: str, core: int | None = None) -> Iterator[int]:
    """A process of Dask's, on one core where one is given, ended with the block; its id."""
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    command = [sys.executable, "-m", "dask", *arguments]
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})  # what it starts has the same
    try:
        yield process.pid
    finally:
        left = family(process.pid)
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in left:
            send(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
