"""Damaged files are rebuilt exactly; what cannot be rebuilt is named, and stays as it is."""

import io
import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from harm import HARMS, contents, harm, meaning, paths_of
from rich.console import Console
from small_recipe import Run, fill, new_world

from corpora.errors import InputError
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import build_part
from flows.command.verify import repair_store, verify_store
from flows.integrity.repair import repair
from flows.maintenance.garbage import Policy
from flows.maintenance.removal import clear_store
from flows.run.record.run_record import RawPaths, recorded_raw_paths, sealed, write_run

FIRST = "corpora/small/37833ba9fa8fc57714f9330b"  # whose parts two later artifacts point to
# Shards of the kept store are of a version that is made no more.
KINDS = ("documents", "signatures", "verdicts", "corpora", "counts", "vocabularies", "measures", "tokens")


@pytest.fixture
def console() -> Console:
    """A wide terminal that keeps what is shown."""
    return Console(width=1000, file=io.StringIO(), record=True, highlight=False, soft_wrap=True)


def shown(console: Console) -> list[str]:
    """The lines that were shown since this was asked last."""
    return console.export_text().splitlines()


@pytest.mark.parametrize(("kind", "how"), [(kind, list(HARMS)[number % 3]) for number, kind in enumerate(KINDS)])
def test_a_damaged_file_of_each_stage_comes_back(store: Place, console: Console, kind: str, how: str) -> None:
    """Fails where a part comes out otherwise, more is written than it, or something keeps its stage from being made."""
    before = meaning(store)
    paths = [path for path in paths_of(store, f"{kind}/") if path.startswith(kind) and not path.endswith(".json")]
    path = harm(store, paths[len(paths) // 2], how)
    assert not verify_store(console, store.address).whole
    assert sum(line.startswith(path) for line in shown(console)) == 1
    assert repair_store(console, store.address).whole
    built = [line for line in shown(console) if line.endswith("is built again")]
    assert len(built) == 1 and built[0].startswith("/".join(path.split("/")[:3]))
    assert meaning(store) == before
    assert verify_store(console, store.address).whole


@pytest.mark.parametrize("how", HARMS)
def test_a_damaged_shard_comes_back(made: Run, console: Console, how: str) -> None:
    """Fails where a shard is not made again exactly, or another part is."""
    store = made.place
    before = meaning(store)
    path = harm(store, paths_of(store, "shards/")[0], how)
    assert not verify_store(console, store.address).whole and repair_store(console, store.address).whole
    built = [line for line in shown(console) if line.endswith("is built again")]
    assert len(built) == 1 and built[0].startswith("/".join(path.split("/")[:3]))
    assert meaning(store) == before and verify_store(console, store.address).whole


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of today that is on record."""
    run = fill(new_world(tmp_path_factory.mktemp("made") / "world")).run()
    write_run(run.place, run.record, run.lock)
    return run


def test_damage_of_every_kind_at_once(store: Place, console: Console) -> None:
    """Fails where damage in an input keeps what is made of it from being repaired, or one repair undoes another."""
    before = meaning(store)
    made = [path for path in before if not path.startswith(("models", "shards")) and "caa3" not in path]
    data = [path for path in made if path.endswith(".arrow")]
    documents = [path for path in before if path.startswith(KINDS) and path.endswith(".json") and "caa3" not in path]
    documents = [path for path in documents if not path.endswith(("tombstones.json", "tokenizer.json"))]
    paths = [*data[::3], *[path for path in documents[::4] if "config" not in path and "special" not in path]]
    for number, path in enumerate(paths):
        harm(store, path, list(HARMS)[number % 3] if not path.endswith("manifest.json") else "flip")
    assert len(paths) > 30 and any(path.endswith("manifest.json") for path in paths)
    assert repair_store(console, store.address).whole
    assert meaning(store) == before and verify_store(console, store.address).whole


def test_the_documents_of_a_store_come_back_without_building(
    store: Place, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where a record or a manifest whose files are whole costs a part."""
    before = contents(store)

    def build_nothing(*arguments: Any, **named: Any) -> None:
        raise AssertionError("a part is built")

    monkeypatch.setattr("flows.integrity.repair.build_part", build_nothing)
    harm(store, paths_of(store, "documents/pages/", "manifest.json")[0])
    harm(store, f"{FIRST}/manifest.json", "cut")
    harm(store, f"{FIRST}/parts/g001-pages-00001.json", "delete")
    harm(store, paths_of(store, "tokens/small/", "/parts/")[0], "cut")
    harm(store, paths_of(store, "models/small/", "/parts/")[0])
    assert repair_store(console, store.address).whole
    assert contents(store) == before


def test_equal_rows_in_other_bytes_reach_every_manifest(
    store: Place, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where a later generation goes on naming the bytes of before, as another version of pyarrow may change."""
    before = contents(store)
    path = harm(store, f"{FIRST}/g001-pages-00001.documents.arrow")
    written = PartWriter.table

    def write_otherwise(self: PartWriter, table: str, schema: pa.Schema, *_: str, **named: Any) -> Any:
        return written(self, table, schema, **{**named, "compression": "lz4"})

    monkeypatch.setattr(PartWriter, "table", write_otherwise)
    assert repair_store(console, store.address).whole
    after = contents(store)
    changed = {name for name in before if before[name] != after[name]}
    manifests = {name for name in changed if name.endswith("/manifest.json")}
    assert path in changed and len(manifests) == 3 and all(name.startswith("corpora/small/") for name in manifests)
    for name in manifests:
        assert json.loads(after[name])["content"] == json.loads(before[name])["content"]
    assert changed - manifests <= {
        name for name in before if name.startswith(f"{FIRST}/") and "g001-pages-00001" in name
    }
    assert verify_store(console, store.address).whole


def test_other_rows_leave_the_store_as_it_is(store: Place, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a part that comes out otherwise takes the place of the damaged one, or ends the other repairs."""
    before = contents(store)
    signed = harm(store, paths_of(store, "signatures/notes/", ".signatures.arrow")[0])
    parsed = harm(store, paths_of(store, "documents/notes/", ".documents.arrow")[0])
    tokens = harm(store, paths_of(store, "tokens/small/", ".tokens.arrow")[0])
    broken = contents(store)

    def build_otherwise(place: Place, stage: Any, plan: Any, out: Place) -> Any:
        part = build_part(place, stage, plan, out)
        if stage.kind != "signatures":
            return part
        other = type(part.files[0])(**{**fields_of(part.files[0]), "table": "other"})
        return type(part)(**{**fields_of(part), "files": (other, *part.files[1:])})

    monkeypatch.setattr("flows.integrity.repair.build_part", build_otherwise)
    assert not repair_store(console, store.address).whole
    after = contents(store)
    assert after[signed] == broken[signed] != before[signed]
    assert (after[parsed], after[tokens]) == (before[parsed], before[tokens])
    [line] = [line for line in shown(console) if "not repaired" in line]
    assert line.startswith(signed) and "built again, holds" in line


def fields_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def test_documents_without_raw_files_stay_damaged(store: Place, console: Console) -> None:
    """Fails where an empty artifact is published for parts that cannot be planned, or the rest is not repaired."""
    for path in paths_of(store, "runs/", "raw.json"):
        paths = recorded_raw_paths(store, path.split("/")[1])
        left = {key: where for key, where in paths.items() if "notes" not in where}
        store.write(path, sealed(RawPaths(paths=left)))
    parsed = harm(store, paths_of(store, "documents/notes/", ".documents.arrow")[0])
    pages = harm(store, paths_of(store, "documents/pages/", ".documents.arrow")[0])
    broken = contents(store)
    assert not repair_store(console, store.address).whole
    after = contents(store)
    assert {path for path in broken if after[path] != broken[path]} == {pages}
    [line] = [line for line in shown(console) if "not repaired" in line]
    assert line.startswith(parsed) and "raw files" in line and "gone" in line


def test_a_part_that_nobody_published_is_given_up(store: Place, console: Console) -> None:
    """Fails where a damaged part of an unfinished artifact is used by the next run, or is a fault for ever."""
    path = harm(store, paths_of(store, "signatures/pages/caa3", ".signatures.arrow")[0])
    assert repair_store(console, store.address).whole
    assert paths_of(store, "signatures/pages/caa3", "/parts/") == []
    assert path in contents(store)
    assert verify_store(console, store.address).whole


def test_what_no_run_made_is_named(store: Place, console: Console) -> None:
    """Fails where a fault that nothing can mend is a traceback, or passes for repaired."""
    for path in paths_of(store, "runs/", "run.json"):
        store.delete(path)
    path = harm(store, paths_of(store, "shards/", ".arrow")[0])
    assert not repair_store(console, store.address).whole
    [line] = [line for line in shown(console) if "not repaired" in line]
    assert line.startswith(path) and "no recorded run" in line


def test_figures_are_counted_again(store: Place, console: Console) -> None:
    """Fails where figures stay damaged that can be counted, others come out, or a lost release is called repaired."""
    before = contents(store)
    [figures] = paths_of(store, "figures.json")
    harm(store, figures)
    assert repair_store(console, store.address).whole
    assert contents(store) == before
    [entry] = paths_of(store, "releases/prod/")
    harm(store, entry)
    assert not repair_store(console, store.address).whole
    assert f"{entry}: " in "".join(shown(console)) and not repair_store(console, store.address).whole


def test_a_damaged_run_cannot_be_made_again(store: Place, console: Console) -> None:
    """Fails where repair says that all is well, or where a run whose record is damaged is followed."""
    before = contents(store)
    run = harm(store, paths_of(store, "runs/20260103", "run.json")[0], "cut")
    store.write(run, b"{")
    path = harm(store, paths_of(store, "documents/pages/", ".documents.arrow")[0])
    assert not repair_store(console, store.address).whole
    lines = shown(console)
    assert sum(line.startswith(f"{run}: ") for line in lines) == 2
    after = contents(store)
    assert {name for name in before if before[name] != after[name]} == {run} and after[path] == before[path]


def test_an_artifact_alone_is_repaired_with_what_it_is_made_from(store: Place, console: Console) -> None:
    """Fails where damage in an input, which is not looked for, keeps a part from being built again."""
    before = meaning(store)
    harm(store, paths_of(store, "documents/notes/", ".documents.arrow")[0])
    path = harm(store, paths_of(store, "signatures/notes/", ".signatures.arrow")[0])
    assert repair_store(console, f"{store.address}/{path.rsplit('/', 1)[0]}")
    assert meaning(store) == before


def test_a_folder_in_the_place_of_a_record_keeps_nothing_else_from_being_repaired(
    store: Place, console: Console
) -> None:
    """Fails where one record that is a folder ends the repair, or is not named with what would mend it."""
    record = Path(store.full_path(paths_of(store, "documents/pages/", "/parts/00003.json")[0]))
    record.unlink()
    record.mkdir()
    other = harm(store, paths_of(store, "verdicts/small/", "manifest.json")[0])
    assert not repair_store(console, store.address).whole
    lines = shown(console)
    assert any(f"{record}" in line and "a folder where a file is: move it away" in line for line in lines)
    assert store.size(other) and not any(other in line and "not repaired" in line for line in lines)
    record.rmdir()
    assert repair_store(console, store.address).whole and verify_store(console, store.address).whole


def test_two_that_repair_at_once(store: Place, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the second does not wait, or repairs what is whole by then. The first waits in the middle until the
    second says that it waits."""
    before = meaning(store)
    harm(store, paths_of(store, "documents/pages/", ".documents.arrow")[0])
    harm(store, paths_of(store, "verdicts/", "manifest.json")[0])
    waits = threading.Event()
    ends: list[bool] = []
    lines: list[str] = []

    class Waiting(Console):
        def print(self, *words: Any, **how: Any) -> None:
            super().print(*words, **how)
            if "waiting for it" in str(words):
                waits.set()

    def repair_in_company(*given: Any) -> list[Any]:
        assert waits.wait(120)
        return repair(*given)

    monkeypatch.setattr("flows.command.verify.repair", repair_in_company)

    def work() -> None:
        own = Waiting(width=1000, file=io.StringIO(), record=True, highlight=False, soft_wrap=True)
        ends.append(repair_store(own, store.address).whole)
        lines.append(own.export_text())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [True, True] and meaning(store) == before
    assert "built again" in lines[0] and "waiting for it" in lines[1] and "built again" not in lines[1]


def read_only(*arguments: Any, **named: Any) -> None:
    raise OSError(30, "Read-only file system")


def test_a_store_that_may_not_be_written_is_checked_alone(
    store: Place, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where a check writes, or a repair ends with a traceback."""
    path = harm(store, paths_of(store, "documents/pages/", ".documents.arrow")[0])
    monkeypatch.setattr("corpora.store.places.place.unfinished", read_only)
    monkeypatch.setattr("flows.run.faults.held_file.held", read_only)
    assert not verify_store(console, store.address).whole
    assert any(line.startswith(path) for line in shown(console))
    with pytest.raises(InputError, match=r"Cannot write .*read-only.*`cloze verify` without --repair"):
        repair_store(console, store.address)
    with pytest.raises(InputError, match=r"Cannot write .*read-only.*`cloze gc` without --delete only reads"):
        clear_store(store, Policy(), 10, print)
