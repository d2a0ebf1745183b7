"""A run on a terminal, stopped in every stage: by keys and signals, on its way from raw files to shards.

One recipe is run again and again. Each run goes on from where the one before it was stopped, until it is stopped in the
next stage; the last one ends. One server records them all, but for the run that is stopped while its own starts.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from launched import Site, ask, left, session_processes, wait_until
from small_recipe import KINDS, RECIPE, Run, World, fill, new_world
from terminal import CTRL_C, Terminal, terminal
from tiers import LONG as LONG_TIER

from corpora.store.places.files import hold_lock
from flows.run.record.run_record import list_run_ids, read_run

pytestmark = [pytest.mark.slow, pytest.mark.server]

GONE_SECONDS = 120.0  # only ends a hang: the program's own clock ends it after `flows.signals.STOP_SECONDS`
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
NOISE = ("Traceback", "Logging error", "Error logging", "Exception", "WorkerDied")
KEPT = "What is finished is kept: the same command resumes from there."


def gone(shown: Terminal, number: signal.Signals, said: str = "") -> None:
    """The command is gone within its time, with all that it started; its last line is the one it answered with."""
    assert shown.code(GONE_SECONDS) == CODES[number], shown.shown
    assert not left(shown.pid, 0)
    last = shown.shown.strip().splitlines()[-1]
    assert last.startswith("cloze: stopped by ") and last.endswith(said), shown.shown
    assert not [noise for noise in NOISE if noise in shown.shown], shown.shown


def states(world: World) -> list[str]:
    """How the runs of a store ended."""
    return [read_run(world.place, run_id).state for run_id in list_run_ids(world.place)]


def flow_runs(site: Site, world: World) -> list[dict[str, Any]]:
    return ask(site.api, "flow_runs", flow_runs={"name": {"like_": f"{world.recipe().name} "}})


def by_keyboard(shown: Terminal) -> signal.Signals:
    shown.press(CTRL_C)
    return signal.SIGINT


def by_system(shown: Terminal) -> signal.Signals:
    os.kill(shown.pid, signal.SIGTERM)
    return signal.SIGTERM


def by_system_to_all(shown: Terminal) -> signal.Signals:
    """As a system that shuts down: workers get it too."""
    os.killpg(shown.pid, signal.SIGTERM)
    return signal.SIGTERM


def by_closing_the_terminal(shown: Terminal) -> signal.Signals:
    shown.hang_up()
    return signal.SIGHUP


def halted(shown: Terminal) -> bool:
    """True if every process of the terminal's foreground is stopped."""
    stats = [Path(f"/proc/{process.pid}/stat").read_text() for process in session_processes(shown.pid)]
    fields = [stat.rpartition(")")[2].split() for stat in stats]
    return all(state == "T" for state, _, group, *_ in fields if int(group) == shown.pid)


WAYS = (by_keyboard, by_system, by_keyboard, by_system_to_all, by_closing_the_terminal)


def test_a_run_is_stopped_in_stages_and_ends_the_same(site: Site, tmp_path: Path, finished: Run) -> None:
    """Fails if a stage does not obey, a process stays, the record or the server says less, or contents differ.

    In between all of a run is halted for a while, as by Ctrl-Z, and goes on. In the long tier that is every stage.
    """
    world = fill(new_world(tmp_path / "world", RECIPE.replace('"small"', '"stopped"')))
    command = ("run", str(world.recipe_path), "--workers")
    moments = [*(f"{kind}/" for kind in (KINDS if LONG_TIER else ("documents", "measures")))]
    moments += ["shards/stopped                   built"] if LONG_TIER else []
    ways = [WAYS[number % len(WAYS)] for number in range(len(moments))]
    for number, (moment, way) in enumerate(zip(moments, ways, strict=True)):
        with terminal(site.home, *command, "21"[number % 2], api=site.api) as shown:
            if moment == "measures/":
                shown.wait_for("vocabularies/")
                os.killpg(shown.pid, signal.SIGSTOP)
                assert wait_until(lambda: halted(shown))
                time.sleep(0.5)
                os.killpg(shown.pid, signal.SIGCONT)
            shown.wait_for(moment)
            sent = way(shown)
            if sent == signal.SIGHUP:
                assert shown.code(GONE_SECONDS) == CODES[sent] and not left(shown.pid, 0), moment
            else:
                gone(shown, sent, KEPT)
    assert states(world) == ["interrupted"] * len(moments)
    with terminal(site.home, *command, "2", api=site.api) as shown:
        assert shown.code() == 0, shown.shown
    assert states(world)[-1] == "completed"
    assert world.contents() == sorted(manifest.content for manifest in finished.manifests)
    runs = sorted(flow_runs(site, world), key=lambda run: str(run["start_time"]))
    assert [run["state"]["type"] for run in runs] == ["CANCELLED"] * len(moments) + ["COMPLETED"]
    open_states = {"state": {"type": {"any_": ["PENDING", "RUNNING", "SCHEDULED"]}}}
    ids = {"id": {"any_": [run["id"] for run in runs]}}
    assert not ask(site.api, "task_runs", task_runs=open_states, flow_runs=ids)


@pytest.mark.long
def test_a_run_is_stopped_before_its_first_stage(site: Site, tmp_path: Path) -> None:
    """Fails if imports, a turn that another run has, or a server that starts do not let go."""
    world = fill(new_world(tmp_path / "world"))
    command = ("run", str(world.recipe_path))
    with terminal(site.home, *command, api=site.api) as shown:
        time.sleep(0.3)
        shown.press(CTRL_C)
        gone(shown, signal.SIGINT)
    turn = world.folder / ".small.lock.held"
    with hold_lock(turn), terminal(site.home, *command, api=site.api) as shown:
        shown.wait_for("Another run of this recipe")
        shown.press(CTRL_C)
        gone(shown, signal.SIGINT)
    assert states(world) == []
    with terminal(site.home, *command, "--watch") as shown:
        shown.wait_for("Starting the embedded Prefect server")
        shown.press(CTRL_C)
        gone(shown, signal.SIGINT, KEPT)
    assert states(world) == ["interrupted"]
