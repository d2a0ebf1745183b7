"""A schedule that meets bad files: they are set aside, somebody is told once, and everything else goes on.

The law: whatever is wrong with a file, however many came with it, and whatever is done about it, no night fails, what
is good is in the corpus, and what is put right is in it the next night.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from launched import new_home
from nights import AFTER, FAULTS, Cell, Nights
from served_command import free_port, serving

from flows.environment import prepare
from flows.orchestration.runs.run_recipe import execute

QUICK = [Cell(fault="noise", new=2, after="replaced"), Cell(fault="cut", new=1, after="deleted")]
MATRIX = [Cell(fault=fault, new=new, after=after) for fault in FAULTS for new in (1, 100) for after in AFTER]


@pytest.fixture
def night() -> Callable[[Nights], list[str]]:
    """A night in this process, as a schedule runs it, without a server; what it says."""
    home = prepare(os.environ)

    def run(nights: Nights) -> list[str]:
        said: list[str] = []
        with nights.written():
            execute(nights.world.recipe().on_schedule(), home, said.append, 1, watch=False)
        return said

    return run


@pytest.mark.slow
def test_bad_files_are_set_aside_and_the_others_go_on(tmp_path: Path, night: Callable[[Nights], list[str]]) -> None:
    """Fails if a bad file ends a night, is told twice, or what became of it does not count."""
    nights = Nights(tmp_path, QUICK)
    night(nights)
    nights.come()
    night(nights)
    nights.act()
    night(nights)
    night(nights)
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
