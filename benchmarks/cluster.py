"""How much faster two workers of a cluster are than one: the same recipe, the same bytes, by the clock.

    python -m benchmarks.cluster --megabytes 20 --repeats 3

A Dask scheduler and its workers are started on the loopback, each worker with one thread. The recipe is run on one
worker and on two, in turns, each time into a new store, up to its shards. What is compared is the time of its stages in
one process of this program; the contents must be equal. The ratio is that of the best times. It means something only on
a machine with an idle core for each worker and one for the driver; the load is printed with it.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.pool import Limits
from corpora.store.stage import Stage, build_parts, publish, survey_stage
from flows.engines.choosing import engine_at_work
from flows.engines.contract import RunEngine
from flows.engines.sight import Sight
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe
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
START_SECONDS = 60.0

Times = Mapping[str, float]


def main(arguments: Sequence[str]) -> int:
    """Measure, print a line a stage and the ratio; 1 where the contents differ."""
    parser = argparse.ArgumentParser(prog="benchmarks.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=20.0)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="cloze-cluster-") as name:
        folder = Path(name)
        write_notes(folder / "raw", int(given.megabytes * 1e6))
        return measure(folder, given.repeats)


def measure(folder: Path, repeats: int) -> int:
    """As `main`, of the raw files in a folder."""
    recipe = parse_recipe(RECIPE, folder / "cluster.toml", {})
    lock = resolve(recipe, Lock(), StatCache()).lock
    best: dict[int, Times] = {}
    contents: set[tuple[str, ...]] = set()
    with dask_scheduler(folder) as address:
        for number in [1, 2] * (repeats + 1):  # the first of each compiles kernels and is not counted
            times, content = timed_run(folder, recipe, lock, address, number)
            contents.add(content)
            if number in best and (sum(times.values()) < sum(best[number].values()) or not best[number]):
                best[number] = times
            best.setdefault(number, {})
    for kind, seconds in best[1].items():
        print(f"{kind:14} {seconds:7.2f} s on one worker, {best[2][kind]:7.2f} s on two")
    ratio = sum(best[1].values()) / sum(best[2].values())
    print(
        f"two workers are {ratio:.2f} times as fast as one; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()}"
    )
    return 0 if len(contents) == 1 else 1


def timed_run(folder: Path, recipe: Recipe, lock: Lock, address: str, workers: int) -> tuple[Times, tuple[str, ...]]:
    """The seconds of each kind of stage, and the contents of all stages."""
    place = Place(str(folder / "store"))
    shutil.rmtree(place.address, ignore_errors=True)
    place.write("runs/1/recipe.toml", b"name = 'cluster'")
    times: dict[str, float] = defaultdict(float)
    contents: list[str] = []
    with (
        dask_workers(folder, address, workers),
        engine_at_work(address, 1, Limits(), print, lambda: Sight.of(place, "runs/1/recipe.toml", {})) as engine,
    ):

        def perform(stages: Sequence[Stage]) -> list[Manifest]:
            began = time.perf_counter()
            manifests = [build_on(engine, place, stage) for stage in stages]
            times[stages[0].kind] += time.perf_counter() - began
            contents.extend(manifest.content for manifest in manifests)
            return manifests

        run_recipe(place, replace(recipe, store=place.address), lock, perform)
    return times, tuple(contents)


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
def dask_workers(folder: Path, address: str, number: int) -> Iterator[None]:
    """Workers of one thread each, in one nanny's care, once all have joined."""
    from distributed import Client

    options = ("--nworkers", str(number), "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder))
    with dask_process(folder, "worker", address, *options):
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(number, timeout=START_SECONDS)
        yield


@contextmanager
def dask_process(folder: Path, *arguments: str) -> Iterator[None]:
    """A process of Dask's, ended with the block."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-m", "dask", *arguments], stdout=log, stderr=log, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
