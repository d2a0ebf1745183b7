"""Makes the kept store anew, where what stages write has changed on purpose: `python tests/flows/keep_store.py`.

From the recipe and the raw files of the one before, by the program as it is; then empty `kept_store.RAISED`.
"""

import json
import shutil
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

from kept_store import ARCHIVE, FOLDER, unpacked_store
from small_recipe import World, run_lock

from corpora.duplicates.build import plan_signatures
from corpora.store.damage import seal, unseal
from corpora.store.stage import build_parts
from corpora.tombstones import read_tombstones, write_tombstones
from flows.recipes.lock import write_lock
from flows.run.record.run_record import RunRecord, get_recipe_path, write_run


def keep(folder: Path) -> None:
    """Run the recipe three times: on the first files, with one more, with a forget; and leave a part unpublished."""
    recipe_path, store = unpacked_store(folder)
    world = World(folder=folder, text=recipe_path.read_text(encoding="utf-8"))
    tombstones = read_tombstones(world.place, "small")
    shutil.rmtree(store)
    (folder / "small.lock").unlink()
    later = (folder / "raw" / "pages" / "pages-9.jsonl").rename(folder / "later")
    for day in (1, 2, 3):
        if day == 2:
            later.rename(folder / "raw" / "pages" / "pages-9.jsonl")
        recipe, lock = world.resolved()
        if day == 3:
            write_tombstones(world.place, "small", tombstones)
            lock = replace(lock, generations=(*lock.generations, {}))
        write_lock(folder / "small.lock", lock)
        run = run_lock(world.place, recipe, lock)
        named = f"2026010{day}T000000000000-small"
        record: RunRecord = replace(run.record, run_id=named, started=f"2026-01-0{day}T00:00:00+00:00")
        write_run(world.place, record, lock)
        world.place.write(get_recipe_path(record.run_id), recipe.text.encode())
        if day == 1:
            other = replace(recipe.duplicates, permutations=64, bands=9)
            stage = plan_signatures(run.documents()["pages"], other)
            build_parts(world.place, stage, stage.parts[:1])


def write_archive(folder: Path) -> None:
    """Write what is in a folder as the archive, with no word of where it lay and when."""
    for path in folder.glob("store/runs/*/*.json"):
        text = json.dumps(unseal(path.read_bytes(), path.name), indent=1).replace(str(folder), FOLDER)
        path.write_bytes(seal(text.encode()))
    for work in folder.glob("store/models/*/*/work"):
        shutil.rmtree(work)
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            entry = archive.gettarinfo(path, str(path.relative_to(folder)))
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            with path.open("rb") as data:
                archive.addfile(entry, data)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        keep(Path(home))
        write_archive(Path(home))
