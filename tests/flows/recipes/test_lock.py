"""recipe.lock: generations of raw files by content, and what is said when a lock or a file is not as it was."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_recipe import World, new_world, note, page, prose

from corpora.errors import InputError
from corpora.sources.contract import RawFile, StatCache
from flows.recipes.lock import Lock, build_store_check, read_lock, resolve_raw_files, write_lock
from flows.recipes.recipe import Recipe, parse_recipe


def raw(name: str, sha256: str = "aa", path: str = "") -> RawFile:
    return RawFile(name=name, sha256=sha256, size_bytes=3, path=path)


@pytest.fixture
def small(tmp_path: Path) -> World:
    """Two sources of one file each."""
    world = new_world(tmp_path)
    world.put("pages", "a", [page("1", prose(1))])
    world.put("notes", "n", [note(1, prose(2))])
    return world


def names(lock: Lock) -> list[dict[str, list[str]]]:
    """Source -> names of its files, for each generation."""
    return [{source: [file.name for file in files] for source, files in g.items()} for g in lock.generations]


def keep(world: World) -> Lock:
    """Resolve and write the lock."""
    recipe, lock = world.resolved()
    assert recipe.lock_path is not None
    write_lock(recipe.lock_path, lock)
    return lock


def test_round_trip(tmp_path: Path) -> None:
    """Fails if the lock loses something on the disk, or keeps a path that is another machine's."""
    generations = ({"a": (raw("x", "01"), raw("ü/y", "02")), "b": (raw("z", "03"),)}, {"a": (raw("w", "04"),)})
    lock = Lock(generations=generations, quarantine=("r1",), vocabulary_generation=2)
    write_lock(tmp_path / "r.lock", lock)
    assert read_lock(tmp_path / "r.lock") == lock
    assert list(tmp_path.iterdir()) == [tmp_path / "r.lock"]
    there = Lock(generations=({"a": (raw("x", path="/secret/x"),)},))
    assert b"secret" not in there.to_bytes()
    assert read_lock(tmp_path / "none.lock") == read_lock(None) == Lock()


def test_new_files_are_a_new_generation(small: World) -> None:
    """Fails if new files join an old generation, or old ones are counted as new."""
    first = resolve_raw_files(small.recipe(), Lock(), StatCache())
    assert [{name: [file.name for file in files] for name, files in first.added.items()}] == names(first.lock)
    assert (
        names(keep(small)) == names(first.lock)
        and resolve_raw_files(small.recipe(), first.lock, StatCache()).added == {}
    )
    small.put("pages", "b", [page("2", prose(3))])
    lock = keep(small)
    assert names(lock) == [{"pages": ["a.jsonl"], "notes": ["n.jsonl"]}, {"pages": ["b.jsonl"]}]
    assert names(keep(small)) == names(lock)


def test_a_file_is_known_by_its_content_wherever_it_lies(small: World) -> None:
    """Fails if a moved file is new, or its new place is not found."""
    keep(small)
    folder = small.folder / "raw" / "pages"
    (folder / "deep").mkdir()
    (folder / "a.jsonl").rename(folder / "deep" / "moved.jsonl")
    lock = keep(small)
    assert names(lock) == [{"pages": ["a.jsonl"], "notes": ["n.jsonl"]}]
    assert lock.generations[0]["pages"][0].path == str(folder / "deep" / "moved.jsonl")


def test_a_changed_file_is_new_and_the_old_one_gone(small: World) -> None:
    """Fails if other content under an old name is taken for the old content."""
    before = keep(small)
    small.put("pages", "a", [page("1", prose(1), revision=2)])
    lock = keep(small)
    assert names(lock) == [{"pages": ["a.jsonl"], "notes": ["n.jsonl"]}, {"pages": ["a.jsonl"]}]
    [old], [new] = lock.generations[0]["pages"], lock.generations[1]["pages"]
    assert old.sha256 == before.generations[0]["pages"][0].sha256 != new.sha256
    assert (old.path, bool(new.path)) == ("", True)


def test_equal_files_are_both_read_in_their_first_generation_alone(small: World) -> None:
    """Fails if a later copy of a known file is read as new data."""
    keep(small)
    small.put("notes", "copy of n", [note(1, prose(2))])
    assert names(keep(small)) == [{"pages": ["a.jsonl"], "notes": ["n.jsonl"]}]


def test_a_source_that_leaves_the_recipe(small: World) -> None:
    """Fails if an empty generation is left behind (nothing can be judged in it), or numbers go astray."""
    keep(small)
    small.put("pages", "b", [page("2", prose(3))])
    two = keep(small)
    start = small.text.index('[[source]]\nkind = "files"\nname = "notes"')
    without_pages = World(folder=small.folder, text=small.text[: small.text.index("[[source]]")] + small.text[start:])
    recipe = without_pages.recipe()
    assert names(resolve_raw_files(recipe, two, StatCache()).lock) == [{"notes": ["n.jsonl"]}]
    only_pages = Lock(generations=(two.generations[1], {"notes": two.generations[0]["notes"]}), vocabulary_generation=2)
    left = resolve_raw_files(recipe, only_pages, StatCache()).lock
    assert (names(left), left.vocabulary_generation) == ([{"notes": ["n.jsonl"]}], 1)


def test_a_renamed_source_starts_again(small: World) -> None:
    """Fails if a run with a lock of other sources' names breaks."""
    keep(small)
    text = small.text.replace('name = "pages"', 'name = "articles"').replace('name = "notes"', 'name = "cards"')
    assert names(replace(small, text=text).run().lock) == [{"articles": ["a.jsonl"], "cards": ["n.jsonl"]}]


def test_a_generation_that_no_run_has_finished_with_forgets_what_is_gone(small: World) -> None:
    """Fails if a file that was deleted or replaced is missed, though nothing was made of it; or one is not, of which
    something was."""
    keep(small)
    small.put("pages", "b", [page("2", prose(2))])
    small.put("pages", "c", [page("3", prose(3))])
    keep(small)
    for name in "abc":
        (small.folder / "raw" / "pages" / f"{name}.jsonl").unlink()
    small.put("pages", "b", [page("4", prose(4))])
    recipe, lock = small.recipe(), read_lock(small.recipe().lock_path)
    finished = resolve_raw_files(recipe, lock, StatCache())
    assert names(finished.lock)[1] == {"pages": ["b.jsonl", "c.jsonl"]} and finished.gone_names == ()
    older = json.dumps({**json.loads(lock.to_bytes()), "digest": "", "unread": [{"sha256": "00"}]}).encode()
    for each in (replace(lock, pending=1, accepted=2), Lock.from_bytes(older, small.folder)):
        left = resolve_raw_files(recipe, each, StatCache())
        assert left.gone_names == ("b.jsonl", "c.jsonl")
        assert names(left.lock) == [*names(lock)[:1], {"pages": ["b.jsonl"]}]
        assert (left.lock.pending, left.lock.accepted) == (0, min(1, each.accepted))


LOCK: dict[str, Any] = {"version": 2, "vocabulary_generation": 1, "quarantine": [], "generations": []}
FILE: dict[str, Any] = {"name": "a", "sha256": "00", "size_bytes": 1}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"3",
        b"{}",
        json.dumps({**LOCK, "version": 1}).encode(),
        json.dumps({**LOCK, "version": 3}).encode(),
        json.dumps({**LOCK, "digest": "77"}).encode(),
        json.dumps({**LOCK, "quarantime": []}).encode(),
        json.dumps({**LOCK, "generations": 3}).encode(),
        json.dumps({**LOCK, "generations": [3]}).encode(),
        json.dumps({**LOCK, "generations": [{"a": [{"name": "x"}]}]}).encode(),
        json.dumps({**LOCK, "generations": [{"a": [{**FILE, "size_bytes": "1"}]}]}).encode(),
        json.dumps({**LOCK, "generations": [{"a": [{**FILE, "extra": 1}]}]}).encode(),
        json.dumps({**LOCK, "vocabulary_generation": "1"}).encode(),
        json.dumps({**LOCK, "vocabulary_generation": 2, "generations": [{"a": [FILE]}]}).encode(),
        json.dumps({**LOCK, "quarantine": [1]}).encode(),
        json.dumps({**LOCK, "pending": 1}).encode(),
        json.dumps({**LOCK, "accepted": -1}).encode(),
    ],
)
def test_a_broken_lock_is_refused_with_a_remedy(tmp_path: Path, data: bytes) -> None:
    """Fails if a lock that was cut, edited or garbled is read as something, or ends in a traceback."""
    (tmp_path / "r.lock").write_bytes(data)
    with pytest.raises(InputError, match=r"r\.lock is not a lock .* Restore it, or delete it to start again"):
        read_lock(tmp_path / "r.lock")
    (tmp_path / "r.lock").write_text(json.dumps({**LOCK, "generations": [{"a": [FILE]}]}))
    assert read_lock(tmp_path / "r.lock").generations == ({"a": (RawFile(path="", **FILE),)},)


@given(st.data())
def test_no_bit_of_a_lock_flips_unseen(data: st.DataObject) -> None:
    """Fails if a lock with a changed bit is read, as anything."""
    lock = Lock(generations=({"pages": (raw("a", "01"), raw("b", "02"))},), quarantine=("01 -1 7",))
    whole = bytearray(lock.to_bytes())
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InputError, match=r"r\.lock is not"):
        Lock.from_bytes(bytes(whole), Path("r.lock"))


def test_an_edited_lock_is_refused_until_its_digest_is_taken_out(tmp_path: Path) -> None:
    """Fails if an accident passes for an edit, or where the remedy that is named does not help."""
    path = tmp_path / "r.lock"
    lock = Lock(generations=({"a": (raw("x", "01"),)},), quarantine=("01 -1 7",))
    write_lock(path, lock)
    edited = path.read_text().replace('"01 -1 7"', "")
    path.write_text(edited)
    with pytest.raises(InputError, match=r'r\.lock is not as it was .*version control.* last field "digest": ""'):
        read_lock(path)
    digest = json.loads(edited)["digest"]
    for without in (edited.replace(digest, ""), edited.replace(f',\n "digest": "{digest}"', "")):
        path.write_text(without)
        assert read_lock(path) == replace(lock, quarantine=())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Fails if the system's word is passed on without a remedy."""
    with pytest.raises(InputError, match=r"Cannot write .*No such file.*copy the recipe to a folder"):
        write_lock(tmp_path / "none" / "r.lock", Lock())


def put_store(store: Path) -> None:
    """Put files into a store as a run leaves them that could be read as text."""
    for path in ("runs/20260101T000000000000-r/report.html", f"vocabularies/r/{24 * '7'}/vocab.txt"):
        (store / path).parent.mkdir(parents=True)
        (store / path).write_text("no input")
    (store / f"vocabularies/r/{24 * '7'}/manifest.json").write_text("{}")


def looked_at(folder: Path, path: str, store: str) -> Recipe:
    """The recipe of a source and a store."""
    text = f'store = "{store}"\n[[source]]\nkind = "files"\nname = "files"\npath = "{path}"\n[vocabulary]\nsize = 400\n'
    return parse_recipe(text, folder / "r.toml", {})


@pytest.mark.parametrize("path", ["raw", "raw/.", "other/../raw", "linked", "raw/**/*", "raw/*/*/*/*"])
def test_what_a_store_holds_is_no_input(tmp_path: Path, path: str) -> None:
    """Fails if a recipe reads what runs have written, because a store is in a source's folder or linked there."""
    (tmp_path / "other").mkdir()
    for store in ("raw/deep/er/store", "raw/deep/er/that of another recipe", "aside"):
        put_store(tmp_path / store)
    (tmp_path / "raw/deep/er/story").mkdir()
    for text in ("raw/deep/er/story/a.txt", "raw/deep/er/runs.txt"):
        (tmp_path / text).write_text("input")
    (tmp_path / "linked").symlink_to("raw")
    (tmp_path / "raw/deep/er/story/store.txt").symlink_to(tmp_path / f"raw/deep/er/store/vocabularies/r/{24 * '7'}")
    (tmp_path / "raw/deep/er/story/v.txt").symlink_to(tmp_path / f"aside/vocabularies/r/{24 * '7'}/vocab.txt")
    for store in ("raw/deep/er/store", "aside", "linked/deep/er/store", f"{tmp_path}/raw/deep/../deep/er/store"):
        recipe = looked_at(tmp_path, path, store)
        found = resolve_raw_files(recipe, Lock(), StatCache())
        read = [Path(file.path).name for file in found.lock.generations[0]["files"]]
        assert sorted(read) == (["a.txt"] if path.endswith("*/*/*") else ["a.txt", "runs.txt"])
        said = [name for group in found.unread["files"].passed_over for name in group.names]
        assert not any("vocab" in name or "report" in name for name in said)


@pytest.mark.parametrize("path", ["store", "store/../store", "linked", "linked/*", "store/runs", "store/vocabularies"])
def test_a_source_that_is_the_store_is_refused(tmp_path: Path, path: str) -> None:
    """Fails if each run reads what the runs before it have written, as text that the user has given."""
    put_store(tmp_path / "store")
    (tmp_path / "linked").symlink_to("store")
    (tmp_path / "store/inputs").mkdir()
    (tmp_path / "store/inputs/a.txt").write_text("input")
    for store in ("store", "linked", str(tmp_path / "store")):
        with pytest.raises(InputError, match=r"Source 'files': its path .* is in the recipe's own store, .*/store, so"):
            resolve_raw_files(looked_at(tmp_path, path, store), Lock(), StatCache())
        assert (
            resolve_raw_files(looked_at(tmp_path, "store/inputs", store), Lock(), StatCache()).unread["files"].num_read
            == 1
        )


def test_a_source_that_is_the_store_is_refused_in_an_object_store(tmp_path: Path) -> None:
    """Fails if a prefix of objects is both, which is known without asking for them."""
    for path in ("s3://news/store/*", "s3://news/store", "S3://news//store/runs/**"):
        recipe = looked_at(tmp_path, path, "s3://news/store")
        with pytest.raises(InputError, match="is in the recipe's own store, s3://news/store"):
            build_store_check(recipe.sources[0].source, recipe)
