"""`cloze.read(folder)` reads a folder as `cloze run --source folder` does: the law is that there is one way to do it.

What each side gives for ugly folders is compared up to the documents stage, in this process: the same documents,
drops, counts, guesses, rules, and the same files left out.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ugly_folders import KINDS

import cloze
from corpora.errors import FileFault
from corpora.schema import DOCUMENTS, DROPPED
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_parts, publish_stage, survey_stage
from corpora.store.tables import read_table
from flows.command.arguments import find_recipe
from flows.recipes.lock import Lock, resolve_raw_files, write_lock
from flows.run.faults.skipped_files import leave_out
from flows.run.pipeline import make_documents

FILES = 40  # of the kinds with many
QUICK = ("cut_and_whole_packings", "encodings", "four_languages", "odd_field_names", "one_in_twenty_broken")
LONG = (
    *("deep_tree", "damaged_formats", "tables_that_differ", "empty_files", "names", "names_that_are_not_utf8", "links"),
    *("pipes_and_sockets", "many_tiny_files", "damaged_lines", "ragged_tables", "saved_pages", "log_lines", "endings"),
    *("office", "odd_parquet", "a_store_inside", "other_archives", "line_ends", "broken_among_few", "duplicates"),
)
GAUNTLET = Path(__file__).resolve().parents[3] / "shared" / "data" / "gauntlet"


def documents_of_command(folder: Path, *given: str) -> tuple[Place, Lock, list[Manifest]]:
    """The documents stage of `cloze run --source`, in this process; its lock is written. given: of `--set`"""
    recipe = find_recipe(None, folder, overrides=[*given])
    place, lock = Place(recipe.store), resolve_raw_files(recipe, Lock(), StatCache()).lock

    def perform(stages: Any) -> list[Manifest]:
        return [build_here(place, stage) for stage in stages]

    assert recipe.lock_path is not None
    recipe.lock_path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        write_lock(recipe.lock_path, lock)
        try:
            return place, lock, [*make_documents(place, recipe, lock, perform).documents]
        except FileFault as fault:
            lock = leave_out(recipe, lock, [fault], lambda line: None)


def build_here(place: Place, stage: Stage) -> Manifest:
    survey = survey_stage(place, stage)
    build_parts(place, stage, survey.missing)
    return publish_stage(place, stage, survey)


def compare_doors(folder: Path) -> cloze.Documents:
    """Assert that both doors give the same; returns what Python gives."""
    place, lock, [manifest] = documents_of_command(folder)
    docs = cloze.judge(cloze.read(folder, progress=False))
    theirs = pa.Table.from_batches(read_table(place, manifest, "documents", DOCUMENTS.names), DOCUMENTS)
    drops = pa.Table.from_batches(read_table(place, manifest, "dropped", DROPPED.names), DROPPED)
    assert docs.to_arrow().equals(theirs)
    assert docs.dropped_rows().equals(drops)
    assert docs.dropped == {
        name.removeprefix("dropped: "): count
        for name, count in manifest.ledger.find_account("records").outcomes.items()
        if name != "documents" and count
    }
    assert docs._opened.lock.left_out == lock.left_out and docs._opened.lock.guessed == lock.guessed
    assert docs._documents[0].fingerprint == manifest.fingerprint
    return docs


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*QUICK, *(pytest.param(kind, marks=pytest.mark.long) for kind in LONG)])
def test_both_doors_read_an_ugly_folder_alike(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if Python keeps, drops or guesses other things than the command, or stops at what that leaves out."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / kind).mkdir()
    planted = KINDS[kind](tmp_path / kind, FILES)
    docs = compare_doors(tmp_path / kind)
    assert len(docs) >= len(planted.kept) > 0
    assert len(cloze.read(tmp_path / kind, progress=False)) >= len(docs)


@pytest.mark.slow
@pytest.mark.long
def test_both_doors_read_the_gauntlet_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails as the test above, for folders that others made."""
    if not GAUNTLET.is_dir():
        pytest.skip("there is no folder of others' ugly folders next to the checkout")
    monkeypatch.chdir(tmp_path)
    for folder in sorted(path for path in GAUNTLET.iterdir() if path.is_dir()):
        compare_doors(folder)


def test_python_reads_what_the_lock_of_a_store_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if Python forgets what the command has decided for a folder: settings of `--set`, and files left out."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    KINDS["one_in_twenty_broken"](tmp_path / "raw", FILES)
    _, lock, [manifest] = documents_of_command(tmp_path / "raw", "rules.gopher.min_words=30")
    docs = cloze.judge(cloze.read(tmp_path / "raw", store=tmp_path / "store", progress=False))
    assert docs._opened.lock.left_out == lock.left_out != ()
    assert docs._documents[0].fingerprint == manifest.fingerprint
    assert cloze.judge(cloze.read(tmp_path / "raw"))._documents[0].fingerprint != manifest.fingerprint
    stopped = cloze.read(tmp_path / "raw", on_damage="stop", progress=False)
    with pytest.raises(cloze.InputError, match=r'broken.*on_damage = "skip": it is then left out') as refusal:
        len(stopped)
    assert "[[source]]" not in str(refusal.value)


@pytest.mark.server
def test_objects_are_read_as_the_same_files_of_a_folder(tmp_path: Path, s3_store: Place) -> None:
    """Fails if files in an object store are guessed, fitted, dropped or left out otherwise than in a folder."""
    folder = tmp_path / "raw"
    folder.mkdir()
    KINDS["one_in_twenty_broken"](folder, FILES)
    for path in folder.iterdir():
        s3_store.write(f"raw/{path.name}", path.read_bytes())
    here, there = (cloze.judge(cloze.read(each, progress=False)) for each in (folder, s3_store.to_address("raw")))
    assert here.to_arrow().drop_columns("locator").equals(there.to_arrow().drop_columns("locator"))
    assert here.dropped == there.dropped and len(here) > 30
    assert [file.name for file in here._opened.lock.left_out] == [file.name for file in there._opened.lock.left_out]


def test_a_vocabulary_of_a_folder_keeps_the_marks_that_a_run_keeps(tmp_path: Path) -> None:
    """Fails if Python trains a vocabulary that makes one word of two, and the command does not."""
    folder = tmp_path / "f"
    folder.mkdir()
    text = "川のそばの小さな村では、人びとは朝早く起きます。バスが来るまで、ベンチで待ちました。ハスの花も見ました。"
    (folder / "a.txt").write_text(text, encoding="utf-8")
    documents = cloze.read(folder, store=tmp_path / "w", progress=False)
    kept = cloze.train_vocabulary(documents, size=300)
    assert kept.tokenize("バス") != kept.tokenize("ハス")
    bare = cloze.train_vocabulary(documents, size=300, strip_accents=True)
    assert bare.tokenize("バス") == bare.tokenize("ハス")
