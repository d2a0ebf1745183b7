"""Tests what a run does when it is killed and when its store is damaged, on a small store of two generations.

    python -m benchmarks.faults flips --runs 200       a bit flipped in each tenth of every file, one at a time
    python -m benchmarks.faults kills --number 150     SIGKILL at random moments, again and again

Promise: an undisturbed run of the samples that come with Cloze is compared with those that were harmed, artifact by
artifact. Every harm is drawn from a seed and reported where it does not end as it should; the exit code is then 1.

A flip ends as it should where `verify` names that file and no other; where a run that has to read the file names it,
builds its part again and ends with the contents of the undisturbed one; and where a run that does not read it leaves
everything as it is.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, pairwise, zip_longest
from pathlib import Path

from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, PartPlan, Stage, build_parts, publish_stage
from corpora.store.worker_pool import WorkerPool
from flows.integrity.inventory import find_faults, read_inventory
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.faults.damage import DamageTracker, run_past_damage
from flows.run.pipeline import run_recipe
from flows.run.stage_kinds import STAGES, get_stage_index

RECIPE = """
name = "faults"

[[source]]
kind = "wikipedia"
path = "sample:wikipedia/samplewiki-20260101-pages-articles-multistream.xml.bz2"

[[source]]
kind = "bookcorpus"
path = "sample:books"

[[source]]
kind = "stories"
path = "sample:stories/stories.txt"

[documents]
part_bytes = 30_000

[held_out]
share = 0.2

[vocabulary]
size = 600

[shards]
length = 64
target_tokens = 4_000
masking = { kind = "static", unit = "whole-word" }
"""
SECOND = "stories"  # the source that comes with the second generation
WORKERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A recipe, its lock and a store in a folder of their own."""

    folder: Path
    recipe: Recipe
    lock: Lock

    @property
    def place(self) -> Place:
        """The store."""
        return Place(str(self.folder / "store"))

    def manifests(self) -> dict[str, bytes]:
        """Every manifest of the store by its path."""
        place = self.place
        return {path: place.read(path) for path in place.list_files("") if path.endswith(f"/{MANIFEST}")}

    def contents(self) -> dict[str, str]:
        """Return the content of every artifact, by the path of its manifest."""
        return {path: Manifest.from_bytes(data, path).content for path, data in self.manifests().items()}


def new_world(folder: Path) -> World:
    """Make a world in a folder; the samples come in two generations."""
    recipe = parse_recipe(RECIPE, folder / "recipe.toml", {})
    [files] = resolve_raw_files(recipe, Lock(), StatCache()).lock.generations
    first = {name: group for name, group in files.items() if name != SECOND}
    return World(folder=folder, recipe=recipe, lock=Lock(generations=(first, {SECOND: files[SECOND]})))


def run_here(world: World, tell: Callable[[str], None] = print) -> None:
    """Run a world's recipe in this process, without an orchestrator; `tell` is called with damage."""
    _run(world, build_parts, tell)


def run_on_workers(world: World) -> None:
    """Do the same, part by part on a pool of workers."""
    with WorkerPool(WORKERS) as pool, ThreadPoolExecutor(WORKERS) as threads:

        def build(place: Place, stage: Stage, plans: Sequence[PartPlan], distrusted: Collection[str]) -> None:
            list(threads.map(lambda plan: pool.run(build_parts, place, stage, [plan], distrusted), plans))

        _run(world, build, print)


def _run(world: World, build: Callable[..., object], tell: Callable[[str], None]) -> None:
    place, mending = world.place, DamageTracker(place=world.place, tell=tell)

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        manifests = []
        for stage in stages:
            survey = mending.survey(stage)
            build(place, replace(stage, parts=()), survey.missing, tuple(mending.damaged))
            manifests.append(publish_stage(place, stage, survey))
            mending.mark_rebuilt(survey, manifests[-1])
        return manifests

    run_past_damage(lambda: run_recipe(place, world.recipe, world.lock, perform), mending)


# Flips.


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One bit of one file of a store."""

    path: str
    offset: int
    bit: int

    def apply(self, place: Place) -> None:
        """Flip it, in a new file: the existing one may have other names."""
        file = Path(place.to_full_path(self.path))
        data = bytearray(file.read_bytes())
        data[self.offset] ^= 1 << self.bit
        file.unlink()
        file.write_bytes(data)


def drawn_flips(place: Place, regions: int, draw: random.Random) -> list[Flip]:
    """Return for each file of a store one bit in each of its regions, of those that have a byte."""
    flips = []
    for path, size in sorted(place.list_files("").items()):
        bounds = [size * region // regions for region in range(regions + 1)]
        spans = [(first, stop) for first, stop in pairwise(bounds) if first < stop]
        flips += [Flip(path=path, offset=draw.randrange(*span), bit=draw.randrange(8)) for span in spans]
    return flips


def flips(regions: int, runs: int, seed: int, checks: int | None = None) -> int:
    """Flip bits of an undisturbed store; check it, and for some of them run on a copy that has to read the file.

    checks: how many of the drawn flips are tried at all; all where none is given
    """
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="cloze-faults-") as scratch:
        world = new_world(Path(scratch) / "undisturbed")
        run_here(world)
        drawn = _spread(drawn_flips(world.place, regions, draw), checks, draw)
        unnamed = sum(not _verify_names(world, flip) for flip in drawn)
        kinds = Counter(_kind(flip.path) for flip in drawn)
        files = len(world.place.list_files(""))
        print(f"verify: {len(drawn):,} flips in {files:,} files, {unnamed} not named, or others named")
        print("  " + ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())), flush=True)
        tried = _spread(drawn, runs, draw)
        ends = Counter(_run_on(world, flip, Path(scratch) / "harmed") for flip in tried)
    print(f"run: {len(tried):,} flips: {', '.join(f'{number} {end}' for end, number in sorted(ends.items()))}")
    return int(unnamed > 0 or ends[WRONG] > 0)


def _kind(path: str) -> str:
    """Return the kind of a store's file, as the campaign counts it."""
    stage, name = path.split("/")[0], path.rsplit("/", 1)[-1]
    if name == MANIFEST:
        return "manifests"
    return "records" if "/parts/" in path else f"{stage} {name.split('.')[-2] if name.endswith('.arrow') else 'files'}"


def _spread(drawn: Sequence[Flip], number: int | None, draw: random.Random) -> list[Flip]:
    """Return so many flips, each kind of file as often as the others, while there are any; all in order for None."""
    groups: dict[str, list[Flip]] = {}
    for flip in draw.sample(drawn, len(drawn)):
        groups.setdefault(_kind(flip.path), []).append(flip)
    turns = (flip for turn in zip_longest(*groups.values()) for flip in turn if flip is not None)
    return list(islice(turns, number))


def _verify_names(world: World, flip: Flip) -> bool:
    """Return whether a check of the whole store names only the file of a flip; the flip is reverted."""
    flip.apply(world.place)
    named = {fault.path for fault in find_faults(read_inventory(world.place))}
    flip.apply(world.place)
    if named != {flip.path}:
        print(f"verify names {sorted(named)} where {flip} was flipped", flush=True)
    return named == {flip.path}


MENDED, UNREAD, WRONG = "named and built again", "not read, nothing changed", "WRONG"


def _run_on(world: World, flip: Flip, folder: Path) -> str:
    """Run on a copy of the store where the stages after the harmed file must be built from it; return the outcome."""
    shutil.copytree(world.place.address, folder / "store", copy_function=os.link)
    harmed = replace(world, folder=folder)
    for kind in [*STAGES][get_stage_index(flip.path.split("/")[0]) + 1 :]:
        shutil.rmtree(folder / "store" / kind, ignore_errors=True)
    flip.apply(harmed.place)
    lines: list[str] = []
    run_here(harmed, lines.append)
    named = any(flip.path in line for line in lines)
    whole = not list(find_faults(read_inventory(harmed.place)))
    equal = harmed.contents() == world.contents()
    shutil.rmtree(folder)
    if equal and named == whole and len(lines) == named:
        return MENDED if named else UNREAD
    print(f"{flip}: got {lines}, contents {'equal' if equal else 'DIFFER'}, store {'whole' if whole else 'damaged'}")
    return WRONG


# Kills.


def kills(number: int, seed: int) -> int:
    """Kill runs at random moments `number` times; every store ends as the undisturbed one."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="cloze-faults-") as scratch:
        undisturbed = new_world(Path(scratch) / "undisturbed")
        run_on_workers(undisturbed)  # compiles what is not compiled
        expected = undisturbed.manifests()
        seconds = _time_of_run(Path(scratch) / "timed")
        print(f"an undisturbed run: {len(expected)} manifests, {seconds:.1f} s with {WORKERS} workers", flush=True)
        killed = finished = wrong = 0
        folder = Path(scratch) / "killed"
        while killed < number:
            process = _start(folder)
            try:
                process.wait(draw.uniform(0.3, seconds))
            except subprocess.TimeoutExpired:
                _kill(process)
                killed += 1
                continue
            finished += 1
            wrong += _differs(new_world(folder), expected, process.returncode)
            shutil.rmtree(folder)
        last = _start(folder)
        last.wait()
        wrong += _differs(new_world(folder), expected, last.returncode)
    print(f"{killed} kills, {finished + 1} runs ended between them, {wrong} of these with other manifests")
    return int(wrong > 0)


def _time_of_run(folder: Path) -> float:
    begin = time.monotonic()
    process = _start(folder)
    process.wait()
    return time.monotonic() - begin


def _start(folder: Path) -> "subprocess.Popen[bytes]":
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, "-m", "benchmarks.faults", "run", str(folder)])


def _kill(process: "subprocess.Popen[bytes]") -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def _differs(world: World, expected: dict[str, bytes], code: int) -> bool:
    """Return whether a run that ended by itself left other manifests than an undisturbed one; prints so."""
    manifests = world.manifests()
    differing = sorted(path for path in {*manifests, *expected} if manifests.get(path) != expected.get(path))
    if code or differing:
        print(f"exit code {code}, other manifests: {', '.join(differing) or 'none'}", flush=True)
    return bool(code or differing)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    once = commands.add_parser("run", help="run the recipe once, in a folder")
    once.add_argument("folder", type=Path)
    flipping = commands.add_parser("flips", help="flip bits, one at a time")
    flipping.add_argument("--regions", type=int, default=10)
    flipping.add_argument("--runs", type=int, default=200)
    flipping.add_argument("--seed", type=int, default=1)
    killing = commands.add_parser("kills", help="kill runs at random moments")
    killing.add_argument("--number", type=int, default=150)
    killing.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.command == "run":
        run_on_workers(new_world(given.folder))
        return 0
    if given.command == "flips":
        return flips(given.regions, given.runs, given.seed)
    return kills(given.number, given.seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
