"""Done means complete: a run that is killed again and again ends with the bytes of one that was left alone.

Only the main process is killed, with SIGKILL, so that it can say goodbye to nobody: its pool and its embedded
server must notice by themselves.
"""

import os
import random
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from launched import cloze, left, new_home, session_processes, start, wait_until, workers
from small_recipe import RECIPE, World, fill, new_world

from corpora.store.places import Place
from flows.pipeline import STAGES

pytestmark = [pytest.mark.slow, pytest.mark.server]

EARLY, AT_WORK = 3, 7  # kills before the first worker is there, and after
GONE_SECONDS = 20  # the server has 8 to write what it holds; the rest is for a busy machine


def make_world(folder: Path) -> World:
    text = RECIPE.replace("part_bytes = 4000", "part_bytes = 4000\nmax_damaged_share = 0.1")
    world = World(folder=fill(new_world(folder)).folder, text=text)
    world.recipe_path.write_text(text, encoding="utf-8")
    return world


def manifests(world: World) -> Mapping[str, bytes]:
    place = Place(world.recipe().store)
    return {path: place.read(path) for path in place.sizes("") if path.endswith("/manifest.json")}


def command(world: World) -> list[str]:
    return ["run", str(world.recipe_path), "--own-server", "--workers", "2"]


class Kill(NamedTuple):
    """What a kill met: after how many seconds, whether the run still lived, its processes, the store's manifests."""

    seconds: float
    killed: bool
    processes: int
    manifests: int


def kill_one(home: Path, world: World, seconds: float, at_work: bool) -> Kill:
    """Start the command, kill its main process after so many seconds (of work), and wait until all is quiet."""
    process = start(home, *command(world))
    if at_work:
        assert wait_until(lambda: bool(workers(process.pid)), 120)
    time.sleep(seconds)
    alive = len(session_processes(process.pid))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    survivors = left(process.pid, GONE_SECONDS)
    assert not survivors, (seconds, survivors)
    assert process.stdout is not None
    process.stdout.close()
    return Kill(round(seconds, 1), process.returncode == -signal.SIGKILL, alive, len(manifests(world)))


def test_ten_kills_change_no_byte(tmp_path: Path) -> None:
    """Fails where a half-written file counts as done, a killed run spoils the store, its lock or the
    orchestrator's database, or a process outlives the run that started it."""
    home = new_home(tmp_path)
    calm, tried = make_world(tmp_path / "calm"), make_world(tmp_path / "tried")
    warm = make_world(tmp_path / "warm")  # makes the database and compiles what is not compiled yet
    assert cloze(home, *command(warm)).returncode == 0
    begun = time.monotonic()
    process = start(home, *command(calm))
    assert wait_until(lambda: bool(workers(process.pid)), 120)
    before_work = time.monotonic() - begun
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    work = time.monotonic() - begun - before_work

    draw = random.Random(20)
    found = []
    for _ in range(EARLY):
        found.append(kill_one(home, tried, draw.uniform(0, before_work), at_work=False))
    for _ in range(AT_WORK):
        # A run goes on where the one before it stood: short steps meet all stages.
        found.append(kill_one(home, tried, draw.uniform(0, 2.5 * work / AT_WORK), at_work=True))
    # The kills met runs with workers and a server around them, at many points of the way; else they prove little.
    assert [kill.killed for kill in found] == [True] * len(found), found
    assert sum(kill.processes > 2 for kill in found) >= AT_WORK, found
    assert len({kill.manifests for kill in found}) > 3, found
    assert {kill.manifests for kill in found} & set(range(1, len(STAGES) + 2)), found

    last = cloze(home, *command(tried))
    assert last.returncode == 0, last.stdout
    assert manifests(tried) == manifests(calm)
    assert "nothing is unaccounted for" in last.stdout
