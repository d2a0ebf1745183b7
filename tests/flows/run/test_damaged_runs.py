"""Files of recorded runs that are damaged: what is said of them, and that everything else goes on."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_recipe import Run
from tiers import examples

from corpora.sources.contract import RawFile
from corpora.store.places.place import Place
from flows.command.runs import write_report
from flows.integrity.rebuilt_part import find_stage
from flows.recipes.lock import Lock
from flows.run.addresses import Artifact, pick_newest
from flows.run.record import run_record
from flows.run.record.run_record import (
    DamagedRun,
    RunRecord,
    build_run_id,
    iter_newest_runs,
    iter_raw_files,
    read_run,
    write_run,
)

FILES = ("run.json", "raw.json", "recipe.lock")
OLD, NEW = "20260101T000000000000-small", "20260102T000000000000-small"


@pytest.fixture
def kept(finished: Run, tmp_path: Path) -> Run:
    """A copy of the finished run with two runs on record, of one lock."""
    shutil.copytree(finished.place.address, tmp_path / "store")
    place = Place(str(tmp_path / "store"))
    for run_id in (OLD, NEW):
        write_run(place, replace(finished.record, run_id=run_id), finished.lock)
    return replace(finished, place=place)


def damage(place: Place, path: str) -> None:
    """Flip a bit in the middle of a file."""
    data = bytearray(place.read(path))
    data[len(data) // 2] ^= 1
    place.write(path, bytes(data))


def first_raw(run: Run) -> str:
    """The digest of some raw file."""
    return run.lock.generations[0]["pages"][0].sha256


@pytest.mark.parametrize("name", ["run.json", "raw.json"])
def test_who_looks_for_a_raw_file_goes_to_the_run_before(kept: Run, name: str) -> None:
    """Fails if the trace of an example ends at a damaged record of some run, or says nothing of it."""
    told: list[str] = []
    run, _ = next(iter_raw_files(kept.place, first_raw(kept), told.append))
    assert (run.run_id, told) == (NEW, [])
    damage(kept.place, f"runs/{NEW}/{name}")
    run, _ = next(iter_raw_files(kept.place, first_raw(kept), told.append))
    assert run.run_id == OLD
    [line] = told
    assert line.startswith(f"runs/{NEW}/{name} is damaged: ") and line.endswith("That run is passed over.")


def test_listing_finding_and_reporting_go_on(kept: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if one damaged record keeps a person from the artifacts and the report of the others."""
    damage(kept.place, f"runs/{NEW}/run.json")
    assert run_record.list_run_ids(kept.place) == [OLD, NEW]
    assert [record.run_id for record in iter_newest_runs(kept.place)] == [OLD]
    artifacts = [Artifact(place=kept.place, manifest=manifest) for manifest in kept.manifests]
    assert pick_newest(artifacts).manifest == kept.manifests[-1]
    assert find_stage(kept.place, artifacts[0].manifest).fingerprint == artifacts[0].manifest.fingerprint
    assert write_report(kept.place.address, None, None).endswith(f"runs/{OLD}/report.html")
    with pytest.raises(DamagedRun, match=NEW):
        write_report(kept.place.address, NEW, None)
    assert capsys.readouterr().err.count(f"runs/{NEW}/run.json is damaged") >= 3


def test_a_report_does_without_a_damaged_lock(kept: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if the lock of a run, which names raw files alone, keeps its report from being written."""
    damage(kept.place, f"runs/{NEW}/recipe.lock")
    assert write_report(kept.place.address, None, None).endswith(f"runs/{NEW}/report.html")
    assert "The report names no raw files." in capsys.readouterr().err


def test_no_clock_makes_a_later_run_the_older_one(kept: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a run that begins after one of a clock that was ahead has a name that comes before it."""
    place, ahead = kept.place, "20460101T000000000000-other"
    assert ahead > build_run_id(place, "small") > NEW
    write_run(place, replace(kept.record, run_id=ahead, started="2046-01-01T00:00:00+00:00"), kept.lock)
    assert next(iter_newest_runs(place)).run_id == ahead
    assert "yet to come by this machine's clock: it is taken for newer" in capsys.readouterr().err
    place.write(run_record.get_recipe_path(build_run_id(place, "small")), b"a run that is lost")
    assert build_run_id(place, "small").partition("T")[2] > "000002"
    write_run(place, replace(kept.record, run_id=build_run_id(place, "small")), kept.lock)
    assert next(iter_newest_runs(place)).started == kept.record.started and capsys.readouterr().err == ""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A store that holds the record of one small run."""
    place = Place(str(tmp_path_factory.mktemp("small")))
    file = RawFile(name="a.jsonl", sha256="01" * 32, size_bytes=7, path="/raw/a.jsonl")
    stage = run_record.StageRecord(
        kind="tokens", name="small", folder="tokens/small/77", state="built", reason="new", seconds=0.1, parts=1,
        parts_built=1,
    )  # fmt: skip
    record = RunRecord(
        run_id=NEW, recipe="small", recipe_path="", recipe_toml="", started="", seconds=1.0, workers=1,
        state="completed", stages=(stage,),
    )  # fmt: skip
    write_run(place, record, Lock(generations=({"pages": (file,)},)))
    return place


@examples(200)
@given(st.data())
def test_no_bit_of_a_run_flips_unseen(small: Place, data: st.DataObject) -> None:
    """Fails if a changed bit of a sealed file passes for a file of before files were sealed."""
    place, run = small, NEW
    name = data.draw(st.sampled_from(FILES))
    path = f"runs/{run}/{name}"
    whole = place.read(path)
    changed = bytearray(whole)
    bit = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    place.write(path, bytes(changed))
    with pytest.raises(DamagedRun, match=f"{name} is damaged: .* Nothing makes the record of a run again"):
        (read_run if name == "run.json" else run_record.read_recorded_lock)(place, run)
    place.write(path, whole)
