"""A schedule that meets bad files: they are set aside, somebody is told once, and everything else goes on.

The law: whatever is wrong with a file, however many came with it, and whatever is done about it, no night fails, what
is good is in the corpus, and what is put right is in it the next night.
"""

import os
import signal
from pathlib import Path

import pytest
from launched import new_home
from nights import AFTER, FAULTS, Cell, Nights
from served_command import free_port, serving

from corpora.store.leases import HeartbeatWriter
from corpora.store.places.place import Place
from flows.environment import prepare_environment
from flows.orchestration.run_recipe import run_recipe
from flows.recipes.recipe import Recipe
from flows.run.record.run_status import follow_schedule, get_schedule_path

QUICK = [Cell(fault="noise", new=2, after="replaced"), Cell(fault="cut", new=1, after="deleted")]
ALL_BAD = [
    Cell(fault=fault, new=number, bad=number, after=after)
    for fault, number in (("noise", 100), ("cut", 40), ("unreadable", 40), ("growing", 20))
    for after in AFTER
]
MATRIX = [Cell(fault=fault, new=new, after=after) for fault in FAULTS for new in (1, 100) for after in AFTER]


@pytest.mark.slow
@pytest.mark.parametrize("cells", [QUICK, pytest.param(ALL_BAD, marks=pytest.mark.long)], ids=["few", "all"])
def test_bad_files_are_set_aside_and_the_others_go_on(cells: list[Cell], tmp_path: Path) -> None:
    """Fails if a bad file ends a night, is told twice, what became of it does not count, or a person's run differs."""
    nights, home = Nights(tmp_path, cells), prepare_environment(os.environ)

    def night(recipe: Recipe) -> None:
        with nights.written():
            run_recipe(recipe, home, lambda line: None, 1, watch=False)

    night(nights.world.recipe().to_scheduled())
    nights.come()
    night(nights.world.recipe().to_scheduled())
    nights.act()
    night(nights.world.recipe().to_scheduled())
    by_hand = nights.world.recipe()  # which is stricter, but the lock says what is set aside
    night(by_hand if cells is QUICK else by_hand.to_scheduled())
    nights.check()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
def test_the_whole_matrix_through_a_schedule(database: Path, tmp_path: Path) -> None:
    """Fails like the above, of every fault, for one new file and for a hundred, whatever is done about it."""
    nights, home = Nights(tmp_path / "world", MATRIX), new_home(tmp_path, database)
    with serving(home, nights.world, "--every", "86400", port=free_port()) as service:
        service.wait_for_line("is on its schedule")
        for prepare_night in (lambda: None, nights.come, nights.act, lambda: None):
            prepare_night()
            with nights.written():
                state = service.wait_for_run(service.run_now(), "Completed", "Failed", "Crashed", "Drifted")["state"]
            assert state["name"] == "Completed", state["message"]
        nights.check()
        assert f"; {len(MATRIX)} set aside" in " ".join(run["state"]["message"] for run in service.runs("Completed"))
        assert service.stop(signal.SIGTERM) == []


def test_a_run_that_a_person_starts_while_the_recipe_is_on_a_schedule_is_like_its_nights(tmp_path: Path) -> None:
    """Fails if a person's run, or a plan, is ended by what a schedule that runs now would set aside."""
    recipe = Nights(tmp_path, QUICK).world.recipe()
    schedule = HeartbeatWriter(Place(recipe.store), get_schedule_path(recipe.name), dict)
    try:
        served = follow_schedule(recipe)
        assert served.is_scheduled and {entry.on_damage for entry in served.sources} == {"skip"}
    finally:
        schedule.stop()
    assert follow_schedule(recipe) == recipe
