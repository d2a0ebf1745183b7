"""A damaged store under Prefect: the command in a process of its own, with a server."""

import shutil
from pathlib import Path

import pytest
from launched import Site, cloze, new_home
from small_recipe import Run, World, page, prose

from corpora.store.places.place import Place
from flows.run.record.run_record import StageRecord, list_run_ids, read_run

pytestmark = [pytest.mark.slow, pytest.mark.server]


def stages(place: Place) -> dict[str, StageRecord]:
    """The stages of the newest run on record."""
    record = read_run(place, list_run_ids(place)[-1])
    assert record.state == "completed"
    found = {f"{stage.kind}/{stage.name}": stage for stage in record.stages}
    assert len(found) == len(record.stages)
    return found


def flip(file: Path) -> None:
    """Change bits all over a file."""
    data = bytearray(file.read_bytes())
    for at in range(50, len(data), 97):
        data[at] ^= 4
    file.write_bytes(data)


def test_a_run_mends_what_it_meets(finished: Run, built: World, site: Site) -> None:
    """Fails if a worker's word of a damaged file does not reach the run, or its record and report do not say it."""
    store = Path(built.place.address)
    part = finished.manifest("tokens").parts[2]
    [file] = [file.path for file in part.files if file.table == "tokens"]
    path = f"tokens/small/{file}"
    flip(store / path)
    shutil.rmtree(store / "shards")
    done = cloze(site.home, "run", str(built.recipe_path), "--workers", "1", api=site.api)
    assert done.returncode == 0, done.stdout
    said = " ".join(done.stdout.split())
    assert said.count(f"{path} is damaged: ") == 1 and "It is built again." in said
    found = stages(built.place)
    [name] = [stage for stage, record in found.items() if record.state == "built" and stage != "shards/small"]
    mended = found[name]
    assert (name, mended.parts_built, mended.parts) == ("tokens/small", 1, len(finished.manifest("tokens").parts))
    assert mended.reason.startswith(f"files are missing or damaged in parts {part.name} ({Path(file).name}: ")
    shards = found["shards/small"]
    assert (shards.state, shards.parts_built, shards.reason) == ("built", shards.parts, "new")
    [report] = (store / "runs").glob("*/report.html")
    assert f"damaged in parts {part.name}" in report.read_text()
    for manifest in finished.manifests:
        assert (store / manifest.folder / "manifest.json").read_bytes() == manifest.to_bytes()
        for one in (one for p in manifest.parts for one in p.paths):
            assert (store / manifest.stage_folder / one).read_bytes() == Path(
                finished.place.to_full_path(f"{manifest.stage_folder}/{one}")
            ).read_bytes()


def test_damage_in_what_was_settled_is_mended_and_accounted_for(finished: Run, built: World, tmp_path: Path) -> None:
    """Fails if a run that meets damage in an earlier generation counts by the verdicts of that one at its end."""
    signatures = finished.manifest("signatures")
    [file] = [file.path for file in signatures.parts[0].files if file.table == "signatures"]
    flip(Path(built.place.to_full_path(f"{signatures.stage_folder}/{file}")))
    built.put("pages", "later", [page(str(number), prose(number)) for number in range(300, 320)])
    done = cloze(new_home(tmp_path), "run", str(built.recipe_path), "--workers", "1")
    assert done.returncode == 0 and "is damaged: " in done.stdout, done.stdout
    assert "nothing is unaccounted for" in done.stdout, done.stdout
    record = read_run(built.place, list_run_ids(built.place)[-1])
    of_generation = [stage.folder for stage in record.stages if stage.kind == "verdicts"]
    assert of_generation[0] == finished.manifest("verdicts").folder and len(of_generation) == 2
