"""Done means complete: a run that is killed again and again ends with the bytes of one that was left alone.

The one left alone needs no orchestrator, for its bytes are the same without one (`test_run_prefect`). Of the others
only the main process is killed, with SIGKILL, so that it can say goodbye to nobody: its pool and its embedded server
must notice by themselves.
"""

import os
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from launched import LONG, cloze, left, new_home, session_processes, start, wait_until
from small_recipe import KINDS, World, fill, first_pages, new_world

from corpora.store.places import Place

pytestmark = [pytest.mark.slow, pytest.mark.server]

EARLY, AT_WORK = 3, 7  # kills while the run comes up, and while it builds


def make_world(folder: Path) -> World:
    """The first generation's raw files, and five of pages more."""
    world = fill(new_world(folder))
    for file in range(25, 30):
        world.put("pages", f"more-{file}", first_pages(file))
    return world


def manifests(world: World) -> Mapping[str, bytes]:
    place = Place(world.recipe().store)
    return {path: place.read(path) for path in place.sizes("") if path.endswith("/manifest.json")}


def lock_of(world: World) -> bytes:
    path = world.recipe().lock_path
    assert path is not None
    return path.read_bytes()


def command(world: World, workers: int) -> list[str]:
    return ["run", str(world.recipe_path), "--own-server", "--workers", str(workers), "--range-size", "1"]


class Kill(NamedTuple):
    """What a kill met: after how many seconds at most, whether the run still lived, its processes, the manifests."""

    seconds: float
    killed: bool
    processes: int
    manifests: int


def finished_parts(world: World) -> int:
    """How many parts have their record."""
    return sum("/parts/" in path for path in Place(world.recipe().store).sizes(""))


def kill_one(home: Path, world: World, workers: int, seconds: float, parts: int) -> Kill:
    """Start the command, kill its main process so many seconds after it has built so many parts more, or as soon as
    it has built the next one, and wait until all is quiet."""
    process = start(home, *command(world, workers))
    before = finished_parts(world)
    if parts:
        assert wait_until(lambda: finished_parts(world) >= before + parts or process.poll() is not None, LONG)
    reached = finished_parts(world)
    wait_until(lambda: finished_parts(world) > reached, seconds)
    alive = len(session_processes(process.pid))
    assert process.stdout is not None
    assert process.poll() is None, f"it ended by itself: {process.stdout.read()}"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    survivors = left(process.pid)
    assert not survivors, (seconds, survivors)
    process.stdout.close()
    return Kill(round(seconds, 1), process.returncode == -signal.SIGKILL, alive, len(manifests(world)))


def test_ten_kills_change_no_byte(database: Path, tmp_path: Path) -> None:
    """Fails where a half-written file counts as done, a killed run spoils the store, its lock or the
    orchestrator's database, or a process outlives the run that started it."""
    home = new_home(tmp_path, database)
    calm, tried = make_world(tmp_path / "calm"), make_world(tmp_path / "tried")
    calm.run()
    draw = random.Random(20)
    moments = [(draw.uniform(0, 6), 0) for _ in range(EARLY)]
    moments += [(draw.uniform(0, 0.3), draw.randint(1, 5)) for _ in range(AT_WORK)]
    assert sum(parts for _, parts in moments) < finished_parts(calm) / 2
    found = [kill_one(home, tried, 1 + number % 2, *moment) for number, moment in enumerate(moments)]
    # The kills met runs with workers and a server around them, at many points of the way; else they prove little.
    assert [kill.killed for kill in found] == [True] * len(found), found
    assert sum(kill.processes > 2 for kill in found) >= AT_WORK, found  # the run, its server, a worker
    assert len({kill.manifests for kill in found}) > 2, found
    assert {kill.manifests for kill in found} & set(range(1, len(KINDS) + 2)), found

    last = cloze(home, *command(tried, 2))
    assert last.returncode == 0, last.stdout
    assert manifests(tried) == manifests(calm) and lock_of(tried) == lock_of(calm)
    assert "nothing is unaccounted for" in last.stdout
