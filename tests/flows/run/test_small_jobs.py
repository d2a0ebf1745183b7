"""A worker is sent little for one part: it does not grow with the number of parts of any stage."""

import pickle
from dataclasses import replace
from pathlib import Path

from small_recipe import KINDS, new_world, note, page, prose

from corpora.store.stage import build_parts
from flows.recipes.lock import write_lock

SLACK = 64  # bytes: numbers with more digits
ASKED = set(KINDS) - {"measures"}  # whose one part has a key that tells the content of every part before it


def sent(folder: Path, files: int) -> dict[tuple[str, str], int]:
    """By kind of stage and of job: the most that is sent for one part in a run of two generations.

    files: of each source in each generation; a file is a part of documents
    """
    world = new_world(folder)
    for generation in (1, 2):
        for file in range(files):
            first = 1000 * generation + 10 * file
            pages = [page(str(first + n), prose(first + n, 40)) for n in range(3)]
            again = [page("1000", prose(5, 40), revision=2)] if generation == 2 else []
            world.put("pages", f"g{generation}-{file:02d}", pages + again)
            world.put("notes", f"g{generation}-{file:02d}", [note(n, prose(5000 + first + n, 30)) for n in range(3)])
        recipe, lock = world.resolved()
        assert recipe.lock_path is not None
        write_lock(recipe.lock_path, lock)
    run = world.run()
    assert len(run.lock.generations) == 2 and len(run.of("documents")[0].manifest.parts) == files
    found: dict[tuple[str, str], int] = {}
    for stage in (entry.stage for entry in run.stages):
        for plan in stage.parts:
            call = pickle.dumps((build_parts, (run.place, replace(stage, parts=()), [plan]), {}))
            what = (stage.kind, type(plan.job).__name__)
            found[what] = max(found.get(what, 0), len(call))
    return found


def test_what_is_sent_for_a_part_does_not_grow_with_the_parts(tmp_path: Path) -> None:
    """Fails if a job carries a manifest, a list of parts or a list of rows instead of where they are."""
    few, many = sent(tmp_path / "few", 1), sent(tmp_path / "many", 6)
    assert {kind for kind, _ in few} == set(KINDS) and few.keys() == many.keys()
    assert ("corpora", "ChangesJob") in few
    grown = {what: many[what] - few[what] for what in few if many[what] > few[what] + SLACK}
    assert {what: more for what, more in grown.items() if what[0] in ASKED} == {}
