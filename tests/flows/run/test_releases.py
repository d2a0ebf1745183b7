"""Releases: histories that lose nothing, addresses that mean what was released, and every way to be damaged."""

import json
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import Run

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.recipes.run_settings import check_release_name
from flows.run.addresses import find_artifacts
from flows.run.record import releases as module
from flows.run.record.releases import (
    Release,
    add_release,
    list_run_artifacts,
    read_current_release,
    read_history,
    roll_back,
)
from flows.run.stage_kinds import STAGES


def entry(place: Place, run: Run, name: str = "prod", kinds: Collection[str] = STAGES) -> Release:
    """An entry that names a run's artifacts, of some kinds."""
    chosen = tuple(artifact for artifact in list_run_artifacts(run.place, run.record) if artifact.kind in kinds)
    return Release(
        name=name, number=0, action="release", recipe=run.recipe.name, run=run.record.run_id, artifacts=chosen,
        who=module.get_user(), when="2026-01-01T00:00:00+00:00", reason="it is good",
    )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, finished: Run) -> Place:
    """A store that shares the finished run's artifacts, and has releases of its own."""
    for folder in Path(finished.place.address).iterdir():
        (tmp_path / folder.name).symlink_to(folder)
    return Place(str(tmp_path))


def test_a_release_is_an_address(place: Place, finished: Run) -> None:
    """Fails if a name does not mean the artifacts of its newest entry, or a number those of its own."""
    first = add_release(place, entry(place, finished, kinds=("corpora", "vocabularies")))
    second = add_release(place, entry(place, finished))
    assert (first.number, second.number) == (1, 2)
    found = {artifact.manifest.folder for artifact in find_artifacts(f"{place.address}@prod")}
    assert found == {finished.manifest(kind).folder for kind in ("corpora", "vocabularies", "shards")}
    assert len(find_artifacts(f"{place.address}@prod:1")) == 2
    [shards] = find_artifacts(f"{place.address}@prod", "shards")
    assert shards.manifest.to_bytes() == finished.outcome.shards.to_bytes()
    with pytest.raises(InputError, match="the release has no models artifact; it has corpora/small"):
        find_artifacts(f"{place.address}@prod", "models")
    with pytest.raises(InputError, match=r"There is no release 'staging' in .*; it has prod"):
        find_artifacts(f"{place.address}@staging")
    with pytest.raises(InputError, match="has no number 7: it has 1 to 2"):
        find_artifacts(f"{place.address}@prod:7")


def test_going_back_adds_to_the_history(place: Place, finished: Run) -> None:
    """Fails if a rollback loses an entry, goes to what holds already, or goes back and forth between two."""
    kinds: list[tuple[str, ...]] = [("corpora",), ("vocabularies",), ("shards",)]
    for one in kinds:
        add_release(place, entry(place, finished, kinds=one))
    back = roll_back(place, "prod", None, "it was not good")
    assert (back.number, back.back_to, back.action, back.reason) == (4, 2, "rollback", "it was not good")
    assert [artifact.kind for artifact in read_current_release(place, "prod").artifacts] == ["vocabularies"]
    assert roll_back(place, "prod", None, "").back_to == 1
    with pytest.raises(InputError, match="there is nothing to go back to"):
        roll_back(place, "prod", None, "")
    assert roll_back(place, "prod", 3, "").artifacts == read_history(place, "prod")[2].artifacts
    assert [one.number for one in read_history(place, "prod")] == [1, 2, 3, 4, 5, 6]
    assert module.list_released_folders(place) == {finished.manifest(kind).folder for [kind] in kinds}


def test_two_release_at_once(place: Place, finished: Run) -> None:
    """Fails if of entries that are written at the same time one is lost, or two have one number."""
    made = entry(place, finished)
    with ThreadPoolExecutor(8) as threads:
        added = list(threads.map(lambda number: add_release(place, replace(made, reason=str(number))), range(16)))
    entries = read_history(place, "prod")
    assert [one.number for one in entries] == list(range(1, 17))
    assert {one.reason for one in entries} == {str(number) for number in range(16)} == {one.reason for one in added}


def test_two_with_one_number_are_both_kept(place: Place, finished: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if two that were written at once without locks, as on an object store, are not both in the history."""
    made = entry(place, finished)
    with monkeypatch.context() as blind:
        blind.setattr(module, "list_release_entries", lambda place, name: [])  # neither sees the other
        for reason in ("mine", "yours"):
            add_release(place, replace(made, reason=reason))
    both = read_history(place, "prod")
    assert [one.number for one in both] == [1, 1]
    assert {one.reason for one in both} == {"mine", "yours"}
    assert read_current_release(place, "prod") == both[-1]
    assert add_release(place, made).number == 2
    folder = Path(place.address) / "releases" / "prod"  # and then what was killed in the middle is no entry
    (folder / ".000003-aaaaaaaa.json.7-8.unfinished").write_bytes(b"{")
    (folder / ".turn").touch()
    assert add_release(place, made).number == 3


HARMS: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "swapped": lambda path: path.write_bytes(path.read_bytes().replace(b"it is good", b"it is fine")),
    "emptied": lambda path: path.write_bytes(b""),
    "renumbered": lambda path: path.rename(path.with_name(path.name.replace("000002-", "000003-"))),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_entry_is_never_passed_over(place: Place, finished: Run, harm: str) -> None:
    """Fails if a name falls back to an older release unasked, or where clean-up goes on without knowing all."""
    for _ in range(2):
        add_release(place, entry(place, finished))
    first, second = sorted((Path(place.address) / "releases" / "prod").glob("0*.json"))
    HARMS[harm](second)
    for use in (
        lambda: find_artifacts(f"{place.address}@prod"),
        lambda: add_release(place, entry(place, finished)),
        lambda: roll_back(place, "prod", 1, ""),
        lambda: module.list_released_folders(place),
    ):
        with pytest.raises(module.DamagedRelease, match=r"releases/prod/00000[23]-.*is damaged: .*the release 'prod'"):
            use()
    for left in first.parent.glob("0*.json"):
        if left != first:
            left.unlink()
    assert read_current_release(place, "prod").number == 1


def test_what_is_gone_or_another_is_said(place: Place, finished: Run) -> None:
    """Fails if a release whose artifact was removed, or built again with other contents, is handed out."""
    made = entry(place, finished)
    gone, *others = made.artifacts
    add_release(
        place,
        replace(
            made,
            artifacts=(replace(gone, folder=gone.folder[:-1] + ("1" if gone.folder.endswith("0") else "0")), *others),
        ),
    )
    with pytest.raises(InputError, match=r"corpora/small/.* is gone, which the release 'prod' \(number 1\) names"):
        find_artifacts(f"{place.address}@prod")
    add_release(place, replace(made, artifacts=(replace(gone, content="0" * 64), *others)))
    with pytest.raises(InputError, match="does not hold what was released as 'prod', number 2"):
        find_artifacts(f"{place.address}@prod")


@pytest.mark.parametrize("name", ["", "a/b", "a@b", "a:b", ".hidden", " a", "a\x1b[31m", "x" * 200, "a?b", "a&b"])
def test_names_that_no_address_could_say_are_refused(name: str) -> None:
    """Fails if something is released under a name that `STORE@NAME` cannot mean."""
    with pytest.raises(InputError, match="--name"):
        check_release_name("--name", name)


def test_a_folder_with_the_sign_is_a_folder(tmp_path: Path) -> None:
    """Fails if a store that is called like an address of a release cannot be named any more."""
    (tmp_path / "me@home").mkdir()
    assert module.parse_release_address(str(tmp_path / "me@home")) is None
    assert module.parse_release_address(str(tmp_path / "me@home@prod")) is not None


@pytest.mark.server
def test_releases_on_an_object_store(s3_store: Place, finished: Run) -> None:
    """Fails if the history of an object store is read or written otherwise."""
    for path in ("corpora", "shards"):
        manifest = finished.manifest(path)
        s3_store.write(f"{manifest.folder}/manifest.json", manifest.to_bytes())
    made = entry(finished.place, finished, kinds=("corpora", "shards"))
    assert [add_release(s3_store, made).number for _ in range(2)] == [1, 2]
    assert module.list_release_names(s3_store) == ["prod"]
    [found] = find_artifacts(f"{s3_store.address}@prod", "shards")
    assert found.manifest == finished.outcome.shards
    assert roll_back(s3_store, "prod", 1, "back").number == 3


def test_commands_list_and_go_back(place: Place, finished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if the commands show another history than there is, or break on what a reason may hold."""
    from flows.command.cli import run_command_line

    assert run_command_line(["releases", place.address], Path()) == 0
    assert "Nothing was released" in capsys.readouterr().out
    for kinds in (("corpora",), ("shards",)):
        add_release(place, replace(entry(place, finished, kinds=kinds), reason="[bold]\x1b[31m/x] 50 %"))
    assert run_command_line(["rollback", "prod", "--store", place.address, "--reason", "worse"], Path()) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"prod is number 3 now: the run {finished.record.run_id} of small.\n")
    assert f"Its address: {place.address}@prod\n" in said
    assert run_command_line(["releases", place.address, "--name", "prod", "--json"], Path()) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(one["number"], one["action"], one["current"]) for one in listed] == [
        (1, "release", False), (2, "release", False), (3, "rollback", True),
    ]  # fmt: skip
    assert run_command_line(["releases", place.address], Path()) == 0
    shown = capsys.readouterr().out
    assert "prod *" in shown and "back to 1" in shown and "[bold]" in shown and "\x1b" not in shown
