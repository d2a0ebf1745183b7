"""Done means complete: a run that is killed again and again ends with the bytes of one that was left alone.

The one left alone needs no orchestrator, for its bytes are the same without one (`test_run_prefect`). Of the others
only the main process is killed, with SIGKILL, so that it can say goodbye to nobody: its pool and its embedded server
must notice by themselves. At work they are killed in turn under a server of their own, without one, and under a server
that goes on.
"""

import os
import random
import signal
from pathlib import Path
from typing import NamedTuple

import pytest
from launched import LONG, Site, cloze, left, new_home, session_processes, start, wait_until, workers
from small_recipe import KINDS, World, fill, first_pages, new_world
from tiers import LONG as LONG_TIER

pytestmark = [pytest.mark.slow, pytest.mark.server]

EARLY, AT_WORK = (3, 7) if LONG_TIER else (1, 2)  # kills while the run comes up, and while it builds


def make_world(folder: Path) -> World:
    """The first generation's raw files, and five of pages more."""
    world = fill(new_world(folder))
    for file in range(25, 30):
        world.put("pages", f"more-{file}", first_pages(file))
    return world


def lock_of(world: World) -> bytes:
    path = world.recipe().lock_path
    assert path is not None
    return path.read_bytes()


def command(world: World, workers: int, watch: bool | None = None) -> list[str]:
    asked = {None: [], True: ["--watch"], False: ["--no-watch"]}[watch]
    return ["run", str(world.recipe_path), "--workers", str(workers), *asked]


class Kill(NamedTuple):
    """A kill: after how many seconds at most, whether the run still ran, its workers, whether it had a
    server, the manifests."""

    seconds: float
    killed: bool
    workers: int
    server: bool
    manifests: int


def finished_parts(world: World) -> int:
    """How many parts have their record; asked so often that it looks nowhere else in the store."""
    return sum(1 for _ in (world.folder / "store").glob("*/*/*/parts/*.json"))


def kill_one(home: Path, api: str | None, world: World, given: list[str], seconds: float, parts: int) -> Kill:
    """Start the command, kill its main process so many seconds after it has built so many parts more, or as soon as
    it has built the next one, and wait until all is quiet."""
    process = start(home, *given, api=api)
    before = finished_parts(world)
    if parts:
        assert wait_until(lambda: finished_parts(world) >= before + parts or process.poll() is not None, LONG)
    reached = finished_parts(world)
    wait_until(lambda: finished_parts(world) > reached, seconds)
    served = any("flows.orchestration.embedded_server" in each.command for each in session_processes(process.pid))
    crew = len(workers(process.pid))
    assert process.stdout is not None
    assert process.poll() is None, f"it ended by itself: {process.stdout.read()}"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    survivors = left(process.pid)
    assert not survivors, (seconds, survivors)
    process.stdout.close()
    return Kill(round(seconds, 1), process.returncode == -signal.SIGKILL, crew, served, len(world.manifests()))


def test_kills_change_no_byte(database: Path, site: Site, tmp_path: Path) -> None:
    """Fails if a half-written file counts as done, a killed run spoils the store, its lock or the
    orchestrator's database, or a process outlives the run that started it."""
    home = new_home(tmp_path, database)
    calm, tried = make_world(tmp_path / "calm"), make_world(tmp_path / "tried")
    calm.run()
    draw = random.Random(20)
    moments = [(draw.uniform(0, 6), 0) for _ in range(EARLY)]
    parts = (1, 5) if LONG_TIER else (12, 12)  # of documents there are ten
    moments += [(draw.uniform(0, 0.3), draw.randint(*parts)) for _ in range(AT_WORK)]
    assert sum(parts for _, parts in moments) < finished_parts(calm) / 2
    found = []
    for number, moment in enumerate(moments):
        way = 0 if number < EARLY else (number - EARLY) % 3
        api, watch = ((None, True), (None, False), (site.api, None))[way]
        found.append(kill_one(home, api, tried, command(tried, 1 + number // 2 % 2, watch), *moment))
    # The kills met runs with workers and a server around them, at many points of the way; else they prove little.
    assert [kill.killed for kill in found] == [True] * len(found), found
    assert sum(kill.workers > 0 for kill in found) >= AT_WORK, found
    assert sum(kill.workers > 0 and kill.server for kill in found) >= AT_WORK // 3, found
    assert sum(kill.workers > 0 and not kill.server for kill in found) >= AT_WORK // 3, found
    assert len({kill.manifests for kill in found}) >= min(3, AT_WORK), found
    assert {kill.manifests for kill in found} & set(range(1, len(KINDS) + 2)), found

    last = cloze(home, *command(tried, 2))
    assert last.returncode == 0, last.stdout
    assert tried.manifests() == calm.manifests() and lock_of(tried) == lock_of(calm)
    assert "nothing is unaccounted for" in last.stdout
