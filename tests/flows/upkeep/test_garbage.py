"""`cloze gc`: what no run, release or reader needs goes, and nothing else, whenever it is killed."""

import json
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from small_recipe import Run, World, fill, new_world, page, prose
from tiers import LONG

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from flows.command.cli import run_command_line
from flows.integrity.inventory import find_faults, read_inventory
from flows.maintenance.garbage import (
    Garbage,
    Retention,
    clear_store,
    list_garbage,
    list_unneeded,
    scan_store,
    select_kept_runs,
)
from flows.run.faults.locks import hold_cleanup, wait_for_cleanup
from flows.run.record.releases import Release, add_release, to_released
from flows.run.record.run_record import begin_run, write_run
from flows.run.record.run_status import RunHeartbeat, list_runs, read_store_status
from shards.reading.files.shard_set import ShardSet

ROOT = Path(__file__).resolve().parents[3]
ALL = 500  # records of runs


def put_on_record(world: World, run: Run, second: int, state: str = "completed") -> None:
    """Record a run of a second of the year 2026."""
    run_id = f"20260101T0000{second:02}000000-small"
    record = replace(run.record, run_id=run_id, started=f"2026-01-01T00:00:{second:02}+00:00", state=state)
    begin_run(world.place, run_id, run.recipe)
    write_run(world.place, record, run.lock)


@dataclass(frozen=True, kw_only=True)
class History:
    """A store with three runs of two generations and two sizes of the vocabulary, oldest first."""

    world: World
    runs: tuple[Run, ...]

    def copy(self, folder: Path) -> "History":
        """The same elsewhere."""
        shutil.copytree(self.world.folder, folder, symlinks=True)
        return replace(self, world=World(folder=folder))

    @property
    def place(self) -> Place:
        """The store."""
        return self.world.place

    def folders(self, number: int) -> set[str]:
        """Return the folders of the artifacts that a run used."""
        run = self.runs[number]
        return {*run.outcome.settled, *(manifest.folder for manifest in run.manifests)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> History:
    world = fill(new_world(tmp_path_factory.mktemp("history") / "world"))
    first = world.run(vocabulary__size="420")
    put_on_record(world, first, 1)
    world.put("pages", "later", [page(str(n), prose(7000 + n)) for n in range(6)])
    second = world.run(vocabulary__size="420")
    put_on_record(world, second, 2)
    third = world.run()
    put_on_record(world, third, 3)
    return History(world=world, runs=(first, second, third))


@pytest.fixture
def history(made: History, tmp_path: Path) -> History:
    return made.copy(tmp_path / "world")


def collect(place: Place, keep: int = 1, keep_runs: int = ALL) -> Garbage:
    """Remove what nobody needs."""
    return clear_store(place, Retention(keep=keep), keep_runs)


def published(place: Place) -> set[str]:
    """The folders of the artifacts of a store."""
    return set(read_inventory(place).manifests)


def assert_whole(history: History) -> None:
    """Nothing is damaged, and a run of the newest recipe finds everything."""
    assert [str(fault) for fault in find_faults(read_inventory(history.place))] == []
    again = history.world.run()
    assert [stage.manifest.folder for stage in again.stages if not stage.reused] == []


def test_what_the_last_runs_used_stays_and_the_rest_goes(history: History) -> None:
    """Fails if a part goes to which a newer artifact points, where an old one stays, or the count is wrong."""
    before = sum(history.place.list_files("").values())
    seen = scan_store(history.place, Retention(keep=1))
    planned = list_garbage(seen, ALL, list_unneeded(seen))
    found = collect(history.place)
    assert (found.artifacts, found.files, found.size_bytes) == (planned.artifacts, planned.files, planned.size_bytes)
    assert sum(history.place.list_files("").values()) == before - found.size_bytes
    assert published(history.place) == history.folders(2)
    assert set(found.artifacts) == (history.folders(0) | history.folders(1)) - history.folders(2)
    assert found.size_bytes > 0 and not list(history.world.folder.glob("store/**/.*.tmp"))
    assert_whole(history)
    again = collect(history.place)
    assert (again.artifacts, again.files, again.size_bytes) == ((), {}, 0)


def test_three_runs_stay_by_default_and_a_dry_run_removes_nothing(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if a store is cleared before anybody has said so."""
    before = history.place.list_files("")
    for arguments in ([], ["--keep", "1"], ["--keep", "1", "--dry-run", "--json"]):
        assert run_command_line(["gc", history.place.address, *arguments], history.world.folder) == 0
    told = capsys.readouterr().out
    assert told.startswith("0 artifacts, 0 files") and "would go" in told and "add --delete" in told
    assert json.loads(told[told.index("\n{") :])["size_bytes"] > 0
    assert history.place.list_files("") == before
    assert run_command_line(["gc", history.place.address, "--keep", "1", "--delete"], history.world.folder) == 0
    assert "are free" in capsys.readouterr().out
    assert published(history.place) == history.folders(2)


KILLED = """
import os, sys
from corpora.store.places.place import Place
from flows.maintenance.garbage import Retention
from flows.maintenance.garbage import clear_store
left = int(sys.argv[2])
delete = Place.delete
def dying(self, path):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    delete(self, path)
Place.delete = dying
clear_store(Place(sys.argv[1]), Retention(keep=1), 500)
"""


def test_killed_anywhere_the_store_is_whole_and_the_next_ends_what_was_begun(made: History, tmp_path: Path) -> None:
    """Fails if a manifest that is left names a file that is gone, or where something of it stays for ever."""
    whole = made.copy(tmp_path / "whole")
    found = collect(whole.place)
    number = len(found.artifacts) + len(found.files)
    points = [len(found.artifacts) // 2, number - 1]
    if LONG:
        points += [0, len(found.artifacts), (len(found.artifacts) + number) // 2]
    copies = [made.copy(tmp_path / str(point)) for point in points]
    processes = [
        subprocess.Popen([sys.executable, "-c", KILLED, copy.place.address, str(point)], cwd=ROOT)
        for copy, point in zip(copies, points, strict=True)
    ]
    assert [process.wait() for process in processes] == [9] * len(points)
    for copy in copies:
        put_on_record(copy.world, copy.runs[2], 0, "failed")  # an older one says nothing of what was begun
        assert list(find_faults(read_inventory(copy.place))) == []
        collect(copy.place)
        shutil.rmtree(copy.world.folder / "store/runs/20260101T000000000000-small")
        assert copy.place.list_files("") == whole.place.list_files("")
    assert_whole(copies[0])


def test_what_a_run_under_way_may_use_stays(history: History) -> None:
    """Fails if something goes that a run has planned to reuse."""
    before = history.place.list_files("")
    pulse = RunHeartbeat(
        history.place, history.world.recipe(), "20260101T000009000000-small", "2026-01-01T00:00:09+00:00"
    )
    assert collect(history.place).size_bytes == 0
    pulse.end()
    assert history.place.list_files("") == before
    assert collect(history.place).size_bytes > 0


def test_a_run_that_begins_while_a_store_is_cleared_waits(history: History) -> None:
    """Fails if a run looks at what is being taken away."""
    told: list[str] = []
    waits, over = threading.Event(), threading.Event()

    def begin() -> None:
        wait_for_cleanup(history.place, lambda line: (told.append(line), waits.set())[0])
        over.set()

    with hold_cleanup(history.place):
        threading.Thread(target=begin, daemon=True).start()
        assert waits.wait(60) and not over.is_set()
        with pytest.raises(InputError, match="Another `cloze gc`"):
            collect(history.place)
    assert over.wait(60) and len(told) == 1


def test_what_a_reader_holds_stays(history: History) -> None:
    """Fails if the shards of a training loop go, or what they were made from, or where it holds them for ever."""
    old = history.runs[0].manifest("shards")
    reader = ShardSet(history.place, old)
    copy = pickle.loads(pickle.dumps(reader))
    del reader
    collect(history.place)
    assert old.folder in published(history.place)
    assert {f"{p.role}/{p.name}/{p.fingerprint}" for p in old.parents} <= published(history.place)
    assert len([copy[n] for n in range(len(copy))]) > 0
    assert list(find_faults(read_inventory(history.place))) == []
    del copy
    collect(history.place)
    assert published(history.place) == history.folders(2)


def release_of_corpus(history: History) -> Release:
    """A release of the first run's corpus."""
    return Release(
        name="prod", number=0, action="release", recipe="small", run="20260101T000001000000-small", who="me",
        when="2026-01-01", artifacts=(to_released(history.runs[0].manifest("corpora")),),
    )  # fmt: skip


def test_what_was_released_stays(history: History) -> None:
    """Fails if an artifact goes that a release names, or what it was made from, or the record of its run."""
    entry = release_of_corpus(history)
    add_release(history.place, entry)
    collect(history.place, keep_runs=1)
    assert entry.artifacts[0].folder in published(history.place)
    assert history.place.find_size(f"runs/{entry.run}/run.json") is not None
    assert len([*Corpus(history.place, history.runs[0].outcome.corpus).iter_documents()]) > 20, (
        "the texts are there as well"
    )
    assert_whole(history)


def finished_parts(history: History) -> Sequence[Manifest]:
    """Take the manifests of the first run's own artifacts away, as if that run was stopped before it published."""
    own = [manifest for manifest in history.runs[0].manifests if manifest.kind == "shards"]
    for manifest in own:
        history.place.delete(f"{manifest.folder}/manifest.json")
    return own


def test_finished_parts_stay_until_a_run_completes(history: History) -> None:
    """Fails if a failed run cannot go on from what it has finished, or where that stays for ever."""
    [shards] = finished_parts(history)
    put_on_record(history.world, history.runs[2], 8, "failed")
    collect(history.place)
    assert history.place.list_files(shards.folder)
    put_on_record(history.world, history.runs[2], 9)
    collect(history.place)
    assert not history.place.list_files(shards.folder)
    assert_whole(history)


def test_working_folders_of_trained_models_go_and_what_nobody_knows_stays(history: History) -> None:
    """Fails if checkpoints stay for ever, or where a file goes that no run has put there."""
    place = history.place
    [shards] = [manifest for manifest in history.runs[2].manifests if manifest.kind == "shards"]
    work = f"{shards.folder}/work"
    place.write(f"{work}/checkpoint", b"weights")
    kept = ("recipes/small.toml", "verdicts/small/tombstones.json", f"shards/other/{24 * 'a'}/notes", "mine.txt")
    for path in kept:
        place.write(path, b"{}")
    collect(place)
    assert not place.list_files(work)
    assert all(place.find_size(path) == 2 for path in kept)


def test_nothing_goes_where_it_is_not_known_what_is_needed(history: History) -> None:
    """Fails if a store without records, or with a damaged one, is emptied."""
    path = "runs/20260101T000003000000-small/run.json"
    data = history.place.read(path)
    history.place.write(path, data.replace(b"completed", b"failed   "))
    with pytest.raises(InputError, match="damaged"):
        collect(history.place)
    shutil.rmtree(history.world.folder / "store/runs")
    with pytest.raises(InputError, match="No run is on record"):
        run_command_line(["gc", history.place.address, "--delete"], history.world.folder)
    assert published(history.place) == history.folders(0) | history.folders(1) | history.folders(2)


@pytest.mark.server
@pytest.mark.long
def test_an_object_store_is_cleared_as_a_folder(made: History, s3_store: Place, tmp_path: Path) -> None:
    """Fails if what goes from a folder stays in an object store, or a run under way is not seen there."""
    whole = made.copy(tmp_path / "whole")
    for path in made.place.list_files(""):
        s3_store.write(path, made.place.read(path))
    pulse = RunHeartbeat(s3_store, made.world.recipe(), "20260101T000009000000-small", "2026-01-01T00:00:09+00:00")
    assert collect(s3_store).size_bytes == 0
    [running] = read_store_status(s3_store).running
    assert running.recipe == "small"
    pulse.end()
    found, here = collect(s3_store), collect(whole.place)
    assert (found.artifacts, found.files) == (here.artifacts, here.files)
    assert s3_store.list_files("") == whole.place.list_files("")


def test_a_release_waits_for_a_clearing(history: History) -> None:
    """Fails if an artifact is released that is being taken away."""
    adding = threading.Thread(target=add_release, args=(history.place, release_of_corpus(history)), daemon=True)
    with hold_cleanup(history.place):
        adding.start()
        adding.join(1.0)
        assert adding.is_alive() and not history.place.list_files("releases")
    adding.join(60)
    assert not adding.is_alive() and history.place.list_files("releases")


def test_days_count_from_when_a_run_was_followed(made: History) -> None:
    """Fails if the age of a run decides, and not since when nobody new has read what it built."""
    states = list_runs(made.place)
    day = datetime(2026, 1, 3, tzinfo=UTC)  # a day and some seconds after all of them
    assert len(select_kept_runs(states, Retention(keep=1, days=1.0), day)) == 1
    assert len(select_kept_runs(states, Retention(keep=1, days=3.0), day)) == 3
    assert len(select_kept_runs(states, Retention(keep=2, days=0.0), day)) == 2
    assert len(select_kept_runs(states, Retention(keep=9, days=0.0), day)) == 3
    second = datetime(2026, 1, 1, 0, 0, 4, tzinfo=UTC) - timedelta(milliseconds=500)
    assert [state.run_id[13:15] for state in select_kept_runs(states, Retention(keep=1, days=1 / 86_400), second)] == [
        "03",
        "02",
    ]
