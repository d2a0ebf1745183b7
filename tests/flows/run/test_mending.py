"""Damage of every kind in a finished store: a run names it, builds that part alone again, and ends as if nothing were.

Bits are flipped in place, so that the file's name, size and times tell nothing of it.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import Run, World, run_lock

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest, Part
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST, Stage, Survey, publish_stage
from flows.run.faults.damage import DamageTracker, run_past_damage
from flows.run.plan_run import plan_run


@pytest.fixture
def whole(finished: Run, tmp_path: Path) -> Run:
    """A copy of the finished run whose store may be damaged."""
    shutil.copytree(finished.place.address, tmp_path / "store")
    return replace(finished, place=Place(str(tmp_path / "store")))


def flip(place: Place, path: str, step: int = 97) -> None:
    """Change a bit of every so many bytes of a file, in place; its times stay. Twice, and it is as it was."""
    file = Path(place.to_full_path(path))
    before, data = file.stat(), bytearray(file.read_bytes())
    for at in range(step // 2, len(data), step):
        data[at] ^= 4
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def again(run: Run) -> tuple[Run, list[str]]:
    """The same recipe run once more on the same store, and what it said."""
    told: list[str] = []
    return run_lock(run.place, run.recipe, run.lock, tell=told.append), told


def built(run: Run) -> dict[str, list[str]]:
    """The parts that a run built, by stage; stages that it published without building any are there, too."""
    return {stage.stage.stage_folder: list(stage.built) for stage in run.stages if not stage.reused}


def forget(run: Run, kind: str) -> None:
    """Remove all artifacts of a kind, so that a run makes them from what is before them."""
    shutil.rmtree(run.place.to_full_path(kind))


def table_file(run: Run, kind: str, table: str) -> tuple[str, str]:
    """The last part of an artifact that has rows of a table: its name, and the path of the file."""
    manifest = run.of(kind)[0].manifest
    found = [(p.name, f.path) for p in manifest.parts for f in p.files if f.table == table and f.content.rows]
    name, path = found[-1]
    return name, f"{manifest.stage_folder}/{path}"


READ = (
    ("documents", "documents", "signatures"),
    ("signatures", "signatures", "verdicts"),
    ("verdicts", "verdicts", "corpora"),
    ("corpora", "documents", "tokens"),
    ("counts", "counts", "vocabularies"),
    ("tokens", "tokens", "shards"),
)


@pytest.mark.parametrize(("kind", "table", "reader"), READ)
def test_a_flipped_bit_of_a_table_costs_its_part_alone(whole: Run, kind: str, table: str, reader: str) -> None:
    """Fails if the run ends, keeps silent, builds more than the part, or ends with other contents."""
    part, path = table_file(whole, kind, table)
    forget(whole, reader)
    flip(whole.place, path)
    mended, told = again(whole)
    [line] = told
    assert line.startswith(f"{path} is damaged: ") and line.endswith("It is built again.")
    stage = "/".join(path.split("/")[:2])
    assert {where: parts for where, parts in built(mended).items() if not where.startswith(reader)} == {stage: [part]}
    assert mended.bytes() == whole.bytes()
    assert mended.place.read(path) == finished_bytes(whole, path)
    [entry] = [s for s in mended.stages if s.stage.stage_folder == stage and not s.reused]
    assert entry.reason.startswith(f"files are missing or damaged in parts {part} ({path.rsplit('/', 1)[-1]}: ")
    last, told = again(whole)
    assert (built(last), told) == ({}, [])


def finished_bytes(run: Run, path: str) -> bytes:
    """Return what a file of the undisturbed run holds."""
    return Place(run.recipe.store).read(path)


@pytest.mark.parametrize("how", ["as it is", "next to a lost part"])
def test_a_flipped_bit_of_a_part_record(whole: Run, how: str) -> None:
    """Fails if what a record says is believed, or it is not written again, by itself from its files."""
    other, part = whole.of("tokens")[0].manifest.parts[:2]
    assert part.record is not None
    path = f"tokens/small/{part.record.path}"
    forget(whole, "shards")
    if how != "as it is":
        whole.place.delete(f"tokens/small/{other.files[0].path}")
    flip(whole.place, path)
    mended, told = again(whole)
    [line] = told
    assert line.startswith(f"{path} is damaged: it") and line.endswith("It is built again.")
    assert built(mended).get("tokens/small", []) == ([] if how == "as it is" else [other.name, part.name])
    assert mended.bytes() == whole.bytes() and mended.place.read(path) == finished_bytes(whole, path)


def test_a_flipped_bit_of_the_vocabulary(whole: Run) -> None:
    """Fails if a file that is no table is read unchecked, or its stage is not found by its path."""
    manifest = whole.outcome.vocabulary
    path = f"{manifest.folder}/tokenizer.json"
    flip(whole.place, path)
    mended, told = again(whole)
    assert told == [f"{path} is damaged: its bytes are not those that were written. It is built again."]
    assert built(mended) == {manifest.stage_folder: [part.name for part in manifest.parts]}
    assert mended.bytes() == whole.bytes() and mended.place.read(path) == finished_bytes(whole, path)


def test_a_manifest_and_a_record_are_damaged_together(whole: Run) -> None:
    """Fails if the record's part is taken from what cannot be believed, or the raw files are not asked."""
    manifest = whole.of("documents")[0].manifest
    record = manifest.parts[2].record
    assert record is not None
    paths = {f"{manifest.folder}/{MANIFEST}", f"{manifest.stage_folder}/{record.path}"}
    for path in paths:
        flip(whole.place, path)
    mended, told = again(whole)
    assert {line.split(" is damaged: ")[0] for line in told} == paths
    assert built(mended) == {manifest.stage_folder: [manifest.parts[2].name]} and mended.bytes() == whole.bytes()


@pytest.mark.parametrize("kind", ["documents", "verdicts", "vocabularies", "tokens"])
def test_a_flipped_bit_of_a_manifest_costs_no_part(whole: Run, kind: str) -> None:
    """Fails if a damaged manifest ends the run, or its parts are not found by their records."""
    manifest = whole.of(kind)[0].manifest
    path = f"{manifest.folder}/{MANIFEST}"
    flip(whole.place, path)
    planned = plan_run(whole.place, whole.recipe, whole.lock)
    [(state, reason)] = [(p.state, p.reason) for p in planned if p.state not in ("reuse", "follows")]
    mended, told = again(whole)
    [line] = told
    assert line.startswith(f"{path} is damaged: it") and line.endswith("It is built again.")
    assert built(mended) == {manifest.stage_folder: []}
    [entry] = [stage for stage in mended.stages if not stage.reused]
    assert (state, reason) == ("mend", entry.reason)
    assert entry.reason.startswith(f"damaged ({MANIFEST}: it")
    assert entry.reason.endswith(f"; resumes from {len(manifest.parts)} finished parts")
    assert mended.place.read(path) == finished_bytes(whole, path)


def test_an_input_that_is_damaged_in_turn_is_built_first(whole: Run) -> None:
    """Fails if a part is built again from what is damaged itself, or the run gives up at the second file."""
    part, tokens = table_file(whole, "tokens", "tokens")
    corpus = f"corpora/small/{whole.outcome.corpus.fingerprint}/{part}.documents.arrow"
    for path in (tokens, corpus):
        flip(whole.place, path)
    forget(whole, "shards")
    mended, told = again(whole)
    assert [line.split(" is damaged: ")[0] for line in told] == [tokens, corpus]
    assert {stage: parts for stage, parts in built(mended).items() if stage != "shards/small"} == {
        "corpora/small": [part],
        "tokens/small": [part],
    }
    assert mended.bytes() == whole.bytes()


def test_a_damaged_manifest_of_another_artifact_is_passed_over(whole: Run) -> None:
    """Fails if what this run does not need ends it."""
    other = run_lock(whole.place, *World(folder=whole.recipe.path.parent).resolved(vocabulary__size="300"))  # type: ignore[union-attr]
    path = f"{other.outcome.vocabulary.folder}/{MANIFEST}"
    flip(whole.place, path)
    forget_manifest = f"{whole.outcome.vocabulary.folder}/{MANIFEST}"
    whole.place.delete(forget_manifest)
    mended, told = again(whole)
    [line] = told
    assert line.startswith(f"{path} is damaged: it") and line.endswith("It is passed over.")
    assert built(mended) == {"vocabularies/small": []}


def test_a_file_that_is_damaged_again_ends_the_run(whole: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a disk that loses what it is given is written to for ever."""
    part, path = table_file(whole, "tokens", "tokens")
    forget(whole, "shards")
    flip(whole.place, path)
    publish_here = publish_stage

    def publish_and_lose(place: Place, stage: Stage, survey: Survey, parts: Sequence[Part]) -> Manifest:
        manifest = publish_here(place, stage, survey, parts)
        if part in {plan.name for plan in survey.missing} and stage.kind == "tokens":
            flip(place, path)
        return manifest

    monkeypatch.setattr("small_recipe.publish_stage", publish_and_lose)
    with pytest.raises(InputError, match=r"was built again, and is damaged again: .*disk or the memory") as caught:
        again(whole)
    assert path in str(caught.value)


def test_damage_outside_of_the_run_ends_it() -> None:
    """Fails if a run goes round for ever over a file that no stage of it holds."""

    def read() -> None:
        raise Damaged("elsewhere/other/77/file", "its bytes are not those that were written")

    told: list[str] = []
    with pytest.raises(Damaged, match="elsewhere/other/77/file is damaged"):
        run_past_damage(read, DamageTracker(place=Place("nowhere"), tell=told.append))
    assert len(told) == 1


def test_a_raw_file_that_changed_under_its_digest_is_named(whole: Run, tmp_path: Path) -> None:
    """Fails if documents are built again from other bytes than those that the lock names."""
    folder = tmp_path / "raw"
    shutil.copytree(whole.recipe.path.parent / "raw", folder)  # type: ignore[union-attr]
    _, path = table_file(whole, "documents", "documents")
    placed = {file.sha256: file.path for g in whole.lock.generations for files in g.values() for file in files}
    moved = whole.lock.with_paths(
        {k: v.replace(str(whole.recipe.path.parent / "raw"), str(folder)) for k, v in placed.items()}
    )  # type: ignore[union-attr]
    run = replace(whole, lock=moved)
    forget(run, "signatures")
    flip(run.place, path)
    raw = next(file.path for g in moved.generations for file in g["pages"] if file.name == "pages-3.jsonl")
    flip(Place(str(folder)), str(Path(raw).relative_to(folder)))
    with pytest.raises(InputError, match=r"pages-3\.jsonl has other bytes than .* in the lock.*get it again"):
        again(run)
    flip(Place(str(folder)), str(Path(raw).relative_to(folder)))
    assert again(run)[0].bytes() == whole.bytes()


@pytest.mark.parametrize("what", ["manifest", "table"])
def test_damaged_documents_whose_raw_files_are_gone(whole: Run, what: str) -> None:
    """Fails if an artifact is published without the part that nothing can build, or the remedy is to start again."""
    part, table = table_file(whole, "documents", "documents")
    manifest = whole.documents()["pages"]
    own = f"{manifest.folder}/{MANIFEST}"
    path = own if what == "manifest" else table
    flip(whole.place, path)
    before = whole.place.read(own)
    gone = replace(whole, lock=whole.lock.with_paths({}))
    forget(gone, "signatures")
    said = {
        "manifest": r"raw files of an older generation are gone.* from which it would be built again",
        "table": f"files of part {part} are missing",
    }
    with pytest.raises(InputError, match=said[what]) as caught:
        again(gone)
    assert "ring them back" in str(caught.value) and manifest.folder in str(caught.value)
    assert whole.place.read(own) == before
