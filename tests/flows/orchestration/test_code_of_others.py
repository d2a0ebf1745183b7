"""The folder in which a command is started is the user's own, with texts, notes and scripts of anybody in it: Python
files there are no part of the program, whatever process runs it.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from launched import LONG, ROOT, environment, new_home, wait_until
from served_command import FAST, free_port
from small_recipe import World, fill, new_world

NAMES = ("attr", "cloze", "corpora", "flows", "httpx", "numpy", "prefect", "pyarrow", "torch", "trainer", "uvicorn")
TRAP = "from pathlib import Path\nPath({!r}).write_text(__name__)\nraise SystemExit('code of others')\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A recipe in a folder that has a file for each of many modules; to import one of them leaves `imported`."""
    world = fill(new_world(tmp_path / "world"))
    for name in NAMES:
        (world.folder / f"{name}.py").write_text(TRAP.format(str(tmp_path / "imported")))
    return world


def started(world: World, home: Path, said: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start the command there as its script does, which has its own folder in the path of modules, not this one."""
    with said.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "flows.main", *arguments],
            cwd=world.folder,
            env={**environment(home), **FAST, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def run_watched(world: World, home: Path, said: Path) -> None:
    """Run the recipe to its end, with a server."""
    process = started(world, home, said, "run", world.recipe_path.name, "--own-server", "--watch")
    assert process.wait(LONG) == 0 and "nothing is unaccounted for" in said.read_text(), said.read_text()


def serve(world: World, home: Path, said: Path) -> None:
    """Serve the recipe until its first run has ended."""
    arguments = ("--every", "3600", "--run-now", "--port", str(free_port()))
    process = started(world, home, said, "serve", world.recipe_path.name, *arguments)
    try:
        wait_until(lambda: "Report: " in said.read_text() or process.poll() is not None, LONG)
        assert process.poll() is None, said.read_text()
    finally:
        process.terminate()
        process.wait(LONG)


@pytest.mark.server
@pytest.mark.parametrize("door", [run_watched, pytest.param(serve, marks=pytest.mark.long)])
def test_files_of_the_user_are_not_imported(
    door: Callable[[World, Path, Path], None], world: World, tmp_path: Path, database: Path
) -> None:
    """Fails if the command, its workers, its server or the runs of its schedule import a file of the user's folder."""
    imported = tmp_path / "imported"
    door(world, new_home(tmp_path, database), tmp_path / "said")
    assert not imported.exists(), imported.read_text()


def test_a_command_of_the_user_has_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a script that a recipe names for notices cannot import what lies next to it."""
    from flows.recipes.run_settings import NotifySettings
    from flows.run.record.notifications import OWN_CODE, Notice, call_command

    monkeypatch.setattr(os, "environ", {**os.environ, **OWN_CODE})
    (tmp_path / "ours.py").write_text("HEARD = 'heard'\n")
    (tmp_path / "tell.py").write_text("import ours\nopen('out', 'w').write(ours.HEARD)\n")
    settings = NotifySettings(command=(sys.executable, "tell.py"))
    notice = Notice(event="failed", recipe="small", run="r", text="It failed.")
    assert call_command(settings, notice, tmp_path) == ""
    assert (tmp_path / "out").read_text() == "heard"
