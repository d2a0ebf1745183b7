"""`cloze verify` lists in the store what is damaged; the next run builds it again, and takes it off the list."""

import io
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from harm import HARMS, contents, harm, meaning, paths_of, reseal
from labelled_world import copied, trainer_here
from rich.console import Console
from small_recipe import Run, World, page, prose, run_lock

from corpora.errors import InputError
from corpora.store.damage import unseal
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from flows.command.verify import verify_store
from flows.run.faults.damage import DAMAGE_LIST, read_damage_list, write_damage_list
from flows.run.plan_run import plan_run
from flows.run.record.figures import rebuild_figures


@pytest.fixture
def console() -> Console:
    """A wide terminal that keeps what is shown."""
    return Console(width=1000, file=io.StringIO(), record=True, highlight=False, soft_wrap=True)


def shown(console: Console) -> list[str]:
    """The lines that were shown since this was asked last."""
    return console.export_text().splitlines()


def again(run: Run, place: Place | None = None) -> tuple[dict[str, list[str]], list[str]]:
    """Run the same recipe once more: the parts that it built, by stage, and the lines that it said."""
    told: list[str] = []
    done = run_lock(place or run.place, run.recipe, run.lock, tell=told.append)
    return {s.stage.stage_folder: list(s.built) for s in done.stages if s.built}, told


def kinds_of_files(store: Place) -> Iterator[list[str]]:
    """The artifacts' files of each kind: of one kind of artifact, and of one table or one name."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for path in contents(store):
        kind, name = path.split("/")[0], path.rsplit("/", 1)[-1]
        if kind != "runs" and "/work/" not in path and not Path(path).name.startswith("."):
            form = "record" if "/parts/" in path else re.sub(r"^.*\.(.*\.arrow)$", r"\1", name)
            kinds.setdefault((kind, form), []).append(path)
    yield from kinds.values()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["files", "records", "manifests"])
def test_one_damage_in_each_kind_of_file(learnt: Run, console: Console, tmp_path: Path, what: str) -> None:
    """Fails if a kind of file is not checked, not listed, or not built again as it was by the next run."""
    run = copied(learnt, tmp_path / "world")
    store = run.place
    for work in [*Path(store.address).glob("*/*/*/work")]:
        shutil.rmtree(work)  # from which models would only be copied
    before = contents(store)
    is_of = {
        "files": lambda path: not path.endswith("manifest.json") and "/parts/" not in path,
        "records": lambda path: "/parts/" in path,
        "manifests": lambda path: path.endswith("manifest.json"),
    }
    kinds = [paths for paths in kinds_of_files(store) if is_of[what](paths[0])]
    assert {paths[0].split("/")[0] for paths in kinds} >= {"documents", "verdicts", "models", "tasks", "answers"}
    harmed = {harm(store, paths[len(paths) // 2], "cut" if n % 2 else "flip") for n, paths in enumerate(kinds)}
    assert len(harmed) >= 12
    assert not verify_store(console, store.address).is_whole
    assert {line.split(": ")[0] for line in shown(console)} >= harmed == set(read_damage_list(store))
    with trainer_here():
        built, _ = again(run)
    assert bool(built) == (what == "files")
    after = contents(store)
    assert {path for path in before if after[path] != before[path]} == set() and DAMAGE_LIST not in after
    assert verify_store(console, store.address).is_whole


@pytest.fixture
def grown(finished: Run, built: World) -> Run:
    """A run of two generations."""
    built.put("pages", "later", [page(str(number), prose(number)) for number in range(300, 306)])
    return built.run()


def test_a_list_is_left_and_taken_back(grown: Run, console: Console) -> None:
    """Fails if a run does not know of what it would not read, or builds more than that, or a plan keeps silent."""
    store, before = grown.place, meaning(grown.place)
    first = harm(store, paths_of(store, f"verdicts/small/{grown.of('verdicts')[0].manifest.fingerprint}/", ".arrow")[0])
    other = harm(store, paths_of(store, "signatures/notes/", ".signatures.arrow")[0], "delete")
    assert again(grown) == ({}, [])
    assert not verify_store(console, store.address).is_whole
    assert {*read_damage_list(store)} == {first, other}
    planned = {entry.stage for entry in plan_run(store, grown.recipe, grown.lock) if entry.state == "mend"}
    assert "signatures/notes" in planned and read_damage_list(store)
    built, told = again(grown)
    assert built == {"verdicts/small": ["verdicts"], "signatures/notes": [Path(other).name.split(".")[0]]}
    assert told == ["`cloze verify` found 2 files damaged. What this recipe makes of them is built again."]
    assert meaning(store) == before and verify_store(console, store.address).is_whole


def test_what_other_recipes_made_stays_on_the_list(grown: Run, console: Console) -> None:
    """Fails if a run distrusts what it never builds, or takes off the list what is still damaged."""
    damaged = {"tokens/other/77/00000.tokens.arrow": "it is gone", "tokens/small/77/00000.tokens.arrow": "it is gone"}
    write_damage_list(grown.place, damaged)
    harm(grown.place, path := paths_of(grown.place, "tokens/small/", ".tokens.arrow")[0])
    verify_store(console, f"{grown.place.address}/tokens/small")
    assert set(read_damage_list(grown.place)) == {path, "tokens/other/77/00000.tokens.arrow"}
    again(grown)
    assert set(read_damage_list(grown.place)) == {"tokens/other/77/00000.tokens.arrow"}
    assert verify_store(console, grown.place.address).is_whole and DAMAGE_LIST not in contents(grown.place)


def test_equal_rows_in_other_bytes_reach_every_manifest(
    grown: Run, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a later generation goes on naming the bytes of before, as another version of pyarrow may change."""
    store, before = grown.place, meaning(grown.place)
    first = grown.of("corpora")[0].manifest
    path = harm(store, paths_of(store, f"{first.folder}/g001-pages-00001", ".documents.arrow")[0])
    verify_store(console, store.address)
    written = PartWriter.create_table

    def write_otherwise(self: PartWriter, table: str, schema: pa.Schema, *_: str, **named: Any) -> Any:
        return written(self, table, schema, **{**named, "compression": "lz4"})

    bytes_before = contents(store)
    monkeypatch.setattr(PartWriter, "create_table", write_otherwise)
    assert again(grown)[0] == {"corpora/small": ["g001-pages-00001"]}
    after = contents(store)
    changed = {name for name in bytes_before if bytes_before[name] != after.get(name)}
    assert path in changed and sum(name.endswith("/manifest.json") for name in changed) == 2
    assert meaning(store) == before and verify_store(console, store.address).is_whole


def said_contents(store: Place) -> dict[str, str]:
    """What each manifest says its artifact holds."""
    return {path: unseal(store.read(path), path)["content"] for path in paths_of(store, "/manifest.json")}


@pytest.mark.parametrize("what", ["file", "lying record"])
def test_what_an_older_artifact_holds_is_built_for_the_newest(grown: Run, console: Console, what: str) -> None:
    """Fails if a part of an artifact that no run goes through any more stays damaged in it, or in the newest one."""
    store, before, other = grown.place, said_contents(grown.place), "g001-notes-00000"
    assert len(paths_of(store, "tokens/small/", "/manifest.json")) == 2, "the newest points to parts of the first"
    if what == "file":
        harm(store, paths_of(store, "tokens/small/", f"/{other}.tokens.arrow")[0])
    else:
        [record] = paths_of(store, "tokens/small/", f"/parts/{other}.json")
        digest = reseal(store, record, lambda fields: tell_a_lie(fields["checks"]))
        for path in paths_of(store, "tokens/small/", "/manifest.json"):
            reseal(store, path, lambda fields: [
                part["record"].update(digest=digest) for part in fields["parts"] if part["name"] == other
            ])  # fmt: skip
    assert not verify_store(console, store.address).is_whole
    assert again(grown)[0] == {"tokens/small": [other]}
    assert said_contents(store) == before and verify_store(console, store.address).is_whole
    assert DAMAGE_LIST not in contents(store) and again(grown) == ({}, [])


def tell_a_lie(checks: Any) -> None:
    next(iter(checks.values()))["batches"][0]["keys"] = [0, 1]


def test_files_whose_raw_files_are_gone_stay_damaged(grown: Run, console: Console) -> None:
    """Fails if one file that nothing can build ends every run, or an artifact is published without it."""
    store = grown.place
    pages, notes = (
        harm(store, paths_of(store, f"documents/{name}/", ".documents.arrow")[0]) for name in ("pages", "notes")
    )
    verify_store(console, store.address)
    placed = {file.sha256: file.path for g in grown.lock.generations for files in g.values() for file in files}
    left = {digest: path for digest, path in placed.items() if "notes" not in path}
    built, told = again(replace(grown, lock=grown.lock.with_paths(left)))
    assert set(built) == {"documents/pages"} and read_damage_list(store).keys() == {notes}
    assert any(line.startswith(f"{notes} is damaged: ") and "raw files" in line for line in told)
    assert again(grown)[0].keys() == {"documents/notes"} and verify_store(console, store.address).is_whole
    assert pages not in read_damage_list(store)


def test_figures_are_counted_again(store: Place, console: Console) -> None:
    """Fails if figures stay damaged that can be counted, others come out, or a lost release is built again."""
    before = contents(store)
    [figures], [entry] = paths_of(store, "figures.json"), paths_of(store, "releases/prod/")
    harm(store, figures)
    assert not verify_store(console, store.address).is_whole and {*read_damage_list(store)} == {figures}
    rebuild_figures(store)
    assert contents(store) == before
    harm(store, entry)
    assert not verify_store(console, store.address).is_whole
    assert read_damage_list(store) == {} and "restore it from a copy" in "".join(shown(console))


def read_only(*arguments: Any, **named: Any) -> None:
    raise OSError(30, "Read-only file system")


def test_a_store_that_may_not_be_written_is_checked(
    store: Place, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if the check ends because no list can be left, or does not say so."""
    path = harm(store, paths_of(store, "documents/pages/", ".documents.arrow")[0])
    monkeypatch.setattr("corpora.store.places.place.open_with_folder", read_only)
    assert not verify_store(console, store.address).is_whole
    lines = shown(console)
    assert lines[0].startswith(path) and lines[-1].startswith("The next runs do not know of this: ")


@pytest.mark.parametrize("how", [how for how in HARMS if how != "delete"])
def test_a_damaged_list_is_not_believed(grown: Run, console: Console, how: str) -> None:
    """Fails if a run begins with half a list, or the remedy that it names is none."""
    store = grown.place
    harm(store, paths_of(store, "tokens/small/", ".tokens.arrow")[0])
    verify_store(console, store.address)
    whole = store.read(DAMAGE_LIST)
    harm(store, DAMAGE_LIST, how)
    with pytest.raises(
        InputError, match=r"damaged\.json, the list of damaged files, is damaged itself.*`cloze verify`"
    ):
        again(grown)
    assert not verify_store(console, store.address).is_whole and store.read(DAMAGE_LIST) == whole
