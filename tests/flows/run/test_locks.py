"""A recipe's lock: two runs cannot both add to it at once."""

import errno
import fcntl
import threading
from pathlib import Path

import pytest
from small_recipe import World, first_pages, note, prose

from corpora.errors import InputError
from corpora.store.places.files import to_unfinished_path
from flows.orchestration.steps import prepare_run
from flows.recipes.lock import read_lock
from flows.run.faults.locks import hold_recipe
from flows.run.inputs import raw_files
from flows.run.inputs.raw_files import open_stat_cache

SOON = 120.0  # seconds, on a busy machine


def test_two_runs_make_one_generation_of_a_file(world: World) -> None:
    """Fails if a run decides what is new by a lock that another run is about to write."""
    recipe = world.recipe()
    home, told = world.folder / "home", []
    home.mkdir()
    prepare_run(recipe, home, lambda line: None)
    world.put("pages", "later-1", first_pages(9))
    asked = threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        asked.set()

    with hold_recipe(recipe.lock_path, tell):  # a run that has found `later-1` and is about to say so
        second = threading.Thread(target=lambda: prepare_run(recipe, home, tell))
        second.start()
        assert asked.wait(SOON)
        assert told == ["Another run of this recipe finds its raw files first."]
        found = world.resolved()[1]
        world.put("notes", "later-2", [note(n, prose(5000 + n)) for n in range(3)])
        assert recipe.lock_path is not None
        recipe.lock_path.write_bytes(found.to_bytes())
    second.join(SOON)
    names = [
        {source: [file.name for file in files] for source, files in generation.items()}
        for generation in read_lock(recipe.lock_path).generations[1:]
    ]
    assert names == [{"pages": ["later-1.jsonl"]}, {"notes": ["later-2.jsonl"]}]
    assert not list(world.folder.glob(".*"))


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """Fails if it ends in a traceback."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"Cannot write .*r\.lock: .*copy the recipe to a folder"),
        hold_recipe(tmp_path / "file" / "below" / "r.lock", print),
    ):
        pass


def test_a_file_system_without_locks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a recipe cannot run at all on such a file system, or runs there without a word."""

    def refuse(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    told: list[str] = []
    with hold_recipe(tmp_path / "r.lock", told.append):
        pass
    assert told == [f"The file system of {tmp_path} has no locks: run this recipe only once at a time."]
    assert list(tmp_path.iterdir()) == []


def test_the_next_run_clears_up_after_killed_ones(world: World) -> None:
    """Fails if unfinished files of a store or of the folder for caches stay, or what `fetch` resumes goes."""
    recipe, home, told = world.recipe(), world.folder / "home", list[str]()
    store = Path(recipe.store)
    left = [to_unfinished_path(store / "corpora/small/x/part.arrow"), to_unfinished_path(home / "raw-files.json")]
    kept = [store / "notes.tmp", store / "dump.xml.part", home / ".dump.part.json"]
    for path in (*left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    prepare_run(recipe, home, told.append)
    assert told[-1] == "Removed 2 unfinished files of runs that were killed."
    assert all(path.exists() for path in kept) and not any(path.exists() for path in left)


def test_what_is_known_of_raw_files_may_be_lost_and_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a file of the home folder that holds something else, or finds no room, ends a run in a traceback."""
    path = tmp_path / "raw-files.json"
    for data in ("[1]", "7", "null", '{"/raw": 1}', '{"/raw": [1]}', 100_000 * "[", "", '{"/raw": [1, 2, 3, 4, "aa"]}'):
        path.write_text(data)
        with open_stat_cache(tmp_path) as cache:
            assert len(cache.entries) == data.count('"aa"')

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(raw_files, "replace_file", full)
    with pytest.raises(InputError, match=r"Cannot write .*raw-files.json: the disk is full: free some space, or set"):
        with open_stat_cache(tmp_path):
            pass
