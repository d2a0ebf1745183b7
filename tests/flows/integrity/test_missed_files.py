"""What a store holds is missed once it is gone, by whoever names it, and what is missed can be brought back."""

import io
import re
import shutil

import pytest
from harm import contents, harm, paths_of
from recorded_run import record
from rich.console import Console
from small_recipe import Run, World, run_lock
from tiers import LONG

from corpora.store.places.place import Place
from flows.command.verify import verify_store
from flows.integrity.inventory import Fault, find_faults, read_inventory
from flows.run.faults.damage import read_damage_list
from flows.run.faults.locks import hold_cleanup
from flows.run.record.releases import read_current_release

MAY_BE_GONE = {  # what no test can tell from a store that never had it, and why that is so by design
    r"runs/.*/figures.json": "of a run of an earlier version, which had none",
    r"runs/.*/released/.*": "a second copy, by which the first is missed",
    r"runs/.*/report.html": "drawn again by `cloze report`",
}


def faults(store: Place) -> list[Fault]:
    return list(find_faults(read_inventory(store)))


def missed_paths(whole: dict[str, bytes]) -> list[str]:
    """The files of a store that are missed once they are gone; of others `MAY_BE_GONE` says why they are not.

    Nor are parts that nobody published, whose files are unnamed, and manifests of shards and tokens of earlier runs,
    as after `cloze gc`: the newest, which is the longest, has all of their parts.
    """
    newest: dict[str, str] = {}
    for path in sorted((path for path in whole if path.endswith("/manifest.json")), key=lambda path: len(whole[path])):
        newest[path.rsplit("/", 2)[0]] = path

    def is_missed(path: str) -> bool:
        folder, _, part = path.partition("/parts/")
        if re.match("(shards|tokens)/.*/manifest.json", path):
            return path in newest.values()
        return not (part and f"{folder}/manifest.json" not in whole) and not any(
            re.fullmatch(each, path) for each in MAY_BE_GONE
        )

    return [path for path in whole if is_missed(path)]


def one_of_each_kind(paths: list[str]) -> list[str]:
    """The last file of each kind: of an artifact's kind and its table or name, and of the documents of runs."""
    kinds = {}
    for path in paths:
        kind, name = path.split("/")[0], path.rsplit("/", 1)[-1]
        kinds[kind, "parts" if "/parts/" in path else re.sub(r"^.*\.(.*\.arrow)$", r"\1", name)] = path
    return list(kinds.values())


def test_every_file_of_a_store_is_missed(store: Place) -> None:
    """Fails if a file can be removed without a word, or another is named in its place; a few are so by design."""
    whole = contents(store)
    gone = missed_paths(whole)
    assert len(whole) > 150 and len(whole) - len(gone) < 10
    for path in gone if LONG else one_of_each_kind(gone):
        harm(store, path, "delete")
        named = faults(store)
        assert path in {fault.path for fault in named}, path
        assert all(path.rpartition("/")[0] in f"{fault.path} {fault.what}" for fault in named)
        store.write(path, whole[path])
    assert faults(store) == []


def test_a_released_entry_is_restored_from_its_copy(store: Place) -> None:
    """Fails if the only entry of a release, or its newest, is not missed, or if the remedy does not bring it back."""
    released = read_current_release(store, "prod")
    [path] = paths_of(store, "releases/prod/000001-")
    harm(store, path, "delete")
    [fault] = faults(store)
    assert fault.path == path and fault.what == "it is gone"
    source = re.fullmatch("copy (.*) to its place, or delete that as well: .*", fault.loss)
    assert source is not None
    shutil.copyfile(store.to_full_path(source[1]), store.to_full_path(path))
    assert faults(store) == [] and read_current_release(store, "prod") == released
    harm(store, path, "delete")
    harm(store, source[1], "delete")
    assert faults(store) == []


def test_the_recipe_of_a_run_is_compared_with_its_record(store: Place) -> None:
    """Fails if another recipe passes for the one that ran."""
    [path, *_] = paths_of(store, "/recipe.toml")
    store.write(path, store.read(path) + b"# more\n")
    [fault] = faults(store)
    assert (fault.path, fault.what) == (path, "it is not what was written") and "run.json has its text" in fault.loss


def test_what_is_removed_or_made_just_now_is_not_missed(store: Place) -> None:
    """Fails if a clean-up that was killed, a run under way, or one whose folder is half removed, is called damage."""
    released = {f"{each.folder}/manifest.json" for each in read_current_release(store, "prod").artifacts}
    [manifest, *_] = [path for path in paths_of(store, "models/small/", "manifest.json") if path not in released]
    harm(store, manifest, "delete")
    folder = manifest.removesuffix("/manifest.json")
    assert [fault.path for fault in faults(store)] == [manifest]
    with pytest.raises(KeyboardInterrupt), hold_cleanup(store) as turn:
        turn.begin([folder])
        raise KeyboardInterrupt
    assert faults(store) == []
    run = paths_of(store, "/run.json")[0].rpartition("/")[0]
    for name in ("recipe.toml", "run.json"):
        harm(store, f"{run}/{name}", "delete")
    assert faults(store) == []


def test_a_manifest_that_is_gone_is_written_again_by_a_run(built: World) -> None:
    """Fails if the remedy that `cloze verify` names does not bring an artifact back as it was."""
    run: Run = built.run()
    record(run, "20260101T000000000000-small")
    store, before = run.place, contents(run.place)
    gone = harm(store, f"{run.of('corpora')[0].manifest.folder}/manifest.json", "delete")
    console = Console(file=io.StringIO())
    assert not verify_store(console, store.address).is_whole and {*read_damage_list(store)} == {gone}
    run_lock(store, run.recipe, run.lock)
    assert contents(store) == before and verify_store(console, store.address).is_whole
