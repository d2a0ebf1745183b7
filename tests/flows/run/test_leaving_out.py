"""A raw file that cannot be read: it ends the run, or is left out by the lock, and is read once it is mended.

The worlds are small: six notes, and files that are damaged in the ways that files are. No run builds what another has.
"""

import bz2
import gzip
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import Run, World, new_world, note, prose, run_lock

from corpora.errors import FileFault, InputError, LostFile, UnreadableFile
from corpora.sources.contract import RawFile, StatCache
from corpora.store.places.place import Place
from flows.recipes.lock import Lock, read_lock, resolve_raw_files, write_lock
from flows.run.faults.skipped_files import describe_left_out, leave_out
from flows.run.inputs.unread_files import summarize_unread
from flows.run.plan_run import plan_run
from flows.run.record.ledger_balance import build_accounts

RECIPE = """
name = "mine"
store = "store"
rules.repetition.enabled = false
vocabulary.size = 300
[[source]]
kind = "files"
name = "notes"
path = "raw/notes"
fields = { text = "body", title = "title" }
on_damage = "skip"
"""
NOTES = "".join(json.dumps(note(number, prose(number))) + "\n" for number in range(6)).encode()
MORE = "".join(json.dumps(note(number, prose(number))) + "\n" for number in range(10, 400)).encode()

DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "cut.jsonl.gz": lambda data: gzip.compress(data)[:-40],  # all but its end can be read
    "flipped.jsonl.bz2": lambda data: bz2.compress(data)[:200] + b"\0" * 50 + bz2.compress(data)[250:],
    "none.jsonl.xz": lambda data: b"not an xz file at all",
    "headless.jsonl.zst": lambda data: b"no frame",
    "footless.parquet": lambda data: b"PAR1" + data[:500],
    "other.warc.gz": lambda data: gzip.compress(b"no archive"),
}


def world_of(folder: Path, **files: bytes) -> World:
    world = new_world(folder, RECIPE)
    raw = folder / "raw" / "notes"
    raw.mkdir(parents=True)
    (raw / "good.jsonl").write_bytes(NOTES)
    for name, data in files.items():
        (raw / name).write_bytes(data)
    return world


def run(world: World, meanwhile: Callable[[], object] = int, **overrides: str) -> tuple[Run, list[str]]:
    """Run as under the orchestrator: without files that cannot be read, where the recipe says so; and what was said.

    meanwhile: happens once the raw files are known
    """
    recipe, lock = world.resolved(**overrides)
    assert recipe.lock_path is not None
    write_lock(recipe.lock_path, replace(lock, pending=1))
    meanwhile()
    said = describe_left_out(recipe, lock)
    while True:
        try:
            ended = run_lock(Place(recipe.store), recipe, lock)
            write_lock(recipe.lock_path, replace(on_disk(world), pending=0))
            return ended, said
        except FileFault as fault:
            lock = leave_out(recipe, lock, [fault], said.append)


def on_disk(world: World) -> Lock:
    return read_lock(world.recipe().lock_path)


@pytest.mark.slow
def test_damaged_files_are_left_out_named_and_read_again_when_mended(tmp_path: Path) -> None:
    """Fails if a damaged file ends the run, goes without a word, changes what else is built, is forgotten by the
    second run, or keeps a generation that is sealed from being what it was."""
    broken = {name: damage(MORE) for name, damage in DAMAGED.items()}
    world = world_of(tmp_path / "broken", **broken)
    first, said = run(world)
    assert sorted(line.partition("unreadable: ")[2].partition(" (")[0] for line in said) == sorted(DAMAGED)
    assert {file.name for file in on_disk(world).left_out} == set(DAMAGED)
    documents = first.documents()["notes"]
    assert documents.ledger.find_account("records").total == 6, (
        "a file of which a part can be read is left out as a whole"
    )
    step = next(step for step in build_accounts(first.manifests).steps if step.unit == "raw files")
    assert (step.total, dict(step.outcomes), step.balances) == (7, {"read": 1, "left out: unreadable": 6}, True)
    whole, _ = run(world_of(tmp_path / "whole"))
    assert first.contents() == whole.contents(), "what is left out is as if it had never been there"

    second, again = run(world)
    assert (
        sorted(again) == sorted(said)
        and second.bytes() == first.bytes()
        and not any(stage.built for stage in second.stages)
    )

    (tmp_path / "broken" / "raw" / "notes" / "cut.jsonl.gz").write_bytes(
        gzip.compress(MORE[:20_000].rpartition(b"\n")[0])
    )
    third, still = run(world)
    generations = on_disk(world).generations
    assert [file.name for file in generations[1]["notes"]] == ["cut.jsonl.gz"] and len(generations) == 2
    assert documents.folder in third.outcome.settled
    assert world.place.read(f"{documents.folder}/manifest.json") == documents.to_bytes()
    assert third.documents()["notes"].ledger.find_account("records").total > 6
    assert len(still) == 5, "bytes that are gone are left out of the first generation, and no news"


@pytest.mark.slow
def test_a_damaged_file_that_ended_a_run_does_not_end_the_next_once_it_is_mended(tmp_path: Path) -> None:
    """Fails if the lock keeps asking for bytes that no document was ever made of."""
    cut = gzip.compress(MORE)[:-40]
    for name in ("mended", "removed"):
        world = world_of(tmp_path / name, **{"cut.jsonl.gz": cut})
        with pytest.raises(UnreadableFile, match=r"cut.jsonl.gz cannot be read.*Get it again.*on_damage = \"skip\""):
            run(world, source__notes__on_damage="stop")
        path = tmp_path / name / "raw" / "notes" / "cut.jsonl.gz"
        path.unlink()
        if name == "mended":
            path.write_bytes(gzip.compress(NOTES[:300].rpartition(b"\n")[0]))
        ended, _ = run(world, source__notes__on_damage="stop")
        assert [[f.name for f in g["notes"]] for g in on_disk(world).generations] == [
            ["good.jsonl"],
            *([["cut.jsonl.gz"]] if name == "mended" else []),
        ]
        assert next(ended.corpus.iter_documents())


def test_the_plan_says_what_a_run_would_leave_out_and_writes_nothing(tmp_path: Path) -> None:
    world = world_of(tmp_path, **{"footless.parquet": DAMAGED["footless.parquet"](MORE)})
    recipe, lock = world.resolved()
    said: list[str] = []
    planned = plan_run(Place(recipe.store), recipe, lock, said.append)
    assert planned[0].state == "build" and len(said) == 1 and "footless.parquet" in said[0]
    assert not (tmp_path / "mine.lock").exists() and not (tmp_path / "store").exists()
    with pytest.raises(UnreadableFile, match="footless"):
        plan_run(Place(recipe.store), *world.resolved(source__notes__on_damage="stop"))


def fault_of(world: World, name: str = "bad.jsonl.gz") -> UnreadableFile:
    _, lock = world.resolved()
    found: RawFile = next(f for files in lock.generations for f in files["notes"] if f.name == name)
    return UnreadableFile(f"{found.path} is damaged.", "notes", found.name, found.sha256, found.path)


def test_what_changes_while_it_is_read_is_not_put_on_the_list(tmp_path: Path) -> None:
    """Fails if a file that somebody writes just now is put on the list under bytes that nobody read."""
    world = world_of(tmp_path, **{"bad.jsonl.gz": b"bad"})
    recipe, lock = world.resolved()
    fault = fault_of(world)
    for harm, why in ((lambda path: path.write_bytes(b"other"), "changed while it"), (Path.unlink, "Cannot read")):
        harm(Path(fault.path))
        said: list[str] = []
        after = leave_out(recipe, lock, [fault], said.append)
        assert after.left_out == () and [file.name for file in after.generations[0]["notes"]] == ["good.jsonl"]
        assert (
            len(said) == 1
            and said[0].startswith("notes: left out of this run: bad.jsonl.gz (sha256 ")
            and why in said[0]
        )
        with pytest.raises(LostFile, match=why):
            leave_out(world.recipe(source__notes__on_damage="stop"), lock, [fault], print)


@pytest.mark.parametrize("grows", [True, False])
def test_a_file_that_vanishes_or_grows_is_left_to_a_later_run(grows: bool, tmp_path: Path) -> None:
    """Fails if such a file ends the run, gives documents of bytes that the lock does not name, or is forgotten."""
    more = MORE[: MORE.index(b"\n", 9000) + 1]
    world = world_of(tmp_path, **{"log.jsonl": more, "cut.jsonl.gz": DAMAGED["cut.jsonl.gz"](MORE)})
    path = tmp_path / "raw" / "notes" / "log.jsonl"

    def meanwhile() -> None:
        path.unlink()
        if grows:
            path.write_bytes(more + more[: more.index(b"\n") + 1])

    first, said = run(world, meanwhile)
    assert first.documents()["notes"].ledger.find_account("records").total == 6
    assert [line.split(": ")[1:3] for line in said] == [
        ["left out as unreadable", said[0].split(": ")[2]],
        ["left out of this run", said[1].split(": ")[2]],
    ]
    assert "log.jsonl" in said[1]
    assert "cut.jsonl.gz" in said[0] and ("changed while it was read" if grows else "No such file") in said[1]
    assert [[file.name for file in each["notes"]] for each in on_disk(world).generations] == [
        ["cut.jsonl.gz", "good.jsonl"]
    ]
    path.write_bytes(more)
    second, said = run(world)
    assert second.documents()["notes"].ledger.find_account("records").total == more.count(b"\n") and len(said) == 1
    assert [file.name for file in on_disk(world).generations[1]["notes"]] == ["log.jsonl"]


def test_files_that_cannot_be_opened_are_named_unless_they_are_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if one file without permission ends a run that leaves damage out, or a closed folder becomes empty."""
    world = world_of(tmp_path, **{"secret.jsonl": MORE[:900], "gone.jsonl": MORE[:800]})
    known = StatCache.hash_file

    def sha256(cache: StatCache, path: Path) -> tuple[int, str]:
        if path.name in closed:
            raise (
                PermissionError(13, "Permission denied") if closed[path.name] else FileNotFoundError(2, "No such file")
            )
        return known(cache, path)

    monkeypatch.setattr(StatCache, "hash_file", sha256)
    closed = {"secret.jsonl": True}
    resolved = resolve_raw_files(world.recipe(), Lock(), StatCache())
    assert [file.name for file in resolved.added["notes"]] == ["gone.jsonl", "good.jsonl"]
    [said] = summarize_unread(resolved.unread, "text")[1:]
    assert said.startswith("notes: could not be opened: 1 file without permission (secret.jsonl).")
    assert "secret" not in str(summarize_unread(resolved.unread, "none"))
    with pytest.raises(InputError, match=r"secret.jsonl: Permission denied"):
        resolve_raw_files(world.recipe(source__notes__on_damage="stop"), Lock(), StatCache())
    closed["gone.jsonl"] = False
    with pytest.raises(InputError, match=r"2 of 3 raw files cannot be opened, such as .*Check their permissions"):
        resolve_raw_files(world.recipe(), Lock(), StatCache())
    before = Lock(generations=({"notes": (RawFile(name="a", sha256="00", size_bytes=1, path=""),)},))
    on_schedule = resolve_raw_files(world.recipe().to_scheduled(), before, StatCache())
    assert [file.name for file in on_schedule.added["notes"]] == ["good.jsonl"]
    closed.pop("secret.jsonl")
    assert "1 vanished file (gone.jsonl)" in str(
        summarize_unread(resolve_raw_files(world.recipe(), Lock(), StatCache()).unread, "text")
    )


def test_a_source_of_which_nothing_is_left_ends_the_run(tmp_path: Path) -> None:
    """Fails if wrong settings, by which no file can be read, make an empty corpus."""
    world = world_of(tmp_path, **{"bad.jsonl.gz": b"bad"})
    recipe, lock = world.resolved()
    faults = [fault_of(world), fault_of(world, "good.jsonl")]
    with pytest.raises(InputError, match="none of its raw files can be read"):
        leave_out(recipe, lock, faults, print)


def test_a_file_is_tried_again_when_its_source_is_read_in_another_way(tmp_path: Path) -> None:
    world = world_of(tmp_path, **{"bad.jsonl.gz": b"bad"})
    recipe, lock = world.resolved()
    lock = leave_out(recipe, lock, [fault_of(world)], print)
    assert list(lock.find_left_out(recipe.sources[0].source).values()) == ["bad.jsonl.gz is damaged."]
    other = world.recipe(source__notes__encoding="latin-1")
    assert lock.find_left_out(other.sources[0].source) == {}
    assert Lock.from_bytes(lock.to_bytes(), tmp_path).left_out == lock.left_out


def test_without_the_right_to_show_text_no_name_is_said(tmp_path: Path) -> None:
    world = world_of(tmp_path, **{"ada-lovelace.jsonl.gz": b"bad"})
    recipe, lock = world.resolved(privacy__samples="none")
    said: list[str] = []
    leave_out(recipe, lock, [fault_of(world, "ada-lovelace.jsonl.gz")], said.append)
    assert said and "lovelace" not in said[0] and "sha256" in said[0]


def test_the_fault_travels_from_a_worker() -> None:
    other = LostFile("It is gone.", "notes", "b.gz", "01", "/b.gz")
    fault = UnreadableFile("It is damaged.", "notes", "a.gz", "00", "/a.gz").with_others([other])
    again = pickle.loads(pickle.dumps(fault))
    assert str(again) == str(fault) and again.sha256 == "00" and str(again.others[0]) == "It is gone."
