"""Thirty kinds of folders as people have them: none fails, every loss is on the first screen, all else is kept.

In the short tier they are run in this process, small, without workers and without an orchestrator; in the long tier by
the command line, with a hundred thousand tiny files, a large one, and a million tiny ones.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from launched import cloze, new_home
from planted_texts import marks
from rich.console import Console
from ugly_folders import KINDS, Planted

from corpora.build import Corpus
from corpora.generic_types import Result
from corpora.store.places.place import Place
from corpora.store.stage import list_manifests
from flows.command.run import print_summary
from flows.orchestration import steps
from flows.orchestration.notifications import Notifier
from flows.orchestration.recording import keep_pages
from flows.orchestration.run_recipe import run_on_threads
from flows.orchestration.run_state import RunState
from flows.run.inputs.folder_defaults import build_folder_recipe

SMALL = {"vocabulary.size": "1500"}
FILES = 300  # of the kinds with many


class HereEngine:
    """Workers that are this process."""

    num_workers = 1

    def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return function(*arguments)

    def get_progress(self) -> object:
        return None


@contextmanager
def engine_here(*_: object) -> Iterator[HereEngine]:
    yield HereEngine()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def make(kind: str, folder: Path, size: int) -> Planted:
    folder.mkdir(parents=True)
    return KINDS[kind](folder, size)


def run_here(folder: Path, home: Path, **overrides: str) -> tuple[RunState, str]:
    """Run a folder as the command does; what is on the screen in the end."""
    screen: list[str] = []
    recipe = build_folder_recipe(folder, folder.parent / "store", overrides)
    finished = steps.prepare_run(recipe, home, screen.append, 1)
    finished.notifier = Notifier(recipe, screen.append)
    with keep_pages(screen.append, finished.pages, str), steps.open_workers(finished, None):
        run_on_threads(finished)
    console = Console(file=io.StringIO(), width=200)
    print_summary(console, finished)
    assert isinstance(console.file, io.StringIO)
    return finished, "\n".join([*screen, console.file.getvalue()])


def kept_marks(texts: Iterator[str]) -> Counter[str]:
    """How many documents have each planted text; each has one, and has it once."""
    found = [marks(text) for text in texts]
    assert all(len(of_one) == 1 for of_one in found), found
    return Counter(of_one[0] for of_one in found)


def check(planted: Planted, texts: Iterator[str], screen: str) -> None:
    assert kept_marks(texts) == Counter(f"QX{number:06d}" for number in planted.kept), screen
    assert [said for said in (*planted.said, planted.fitted) if said not in screen] == [], screen
    assert "nothing is unaccounted for" in screen
    assert all(sign.isprintable() or sign == "\n" for sign in screen)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_ugly_folder_is_read_and_every_loss_is_on_the_screen(
    kind: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a file, name or link ends the run, a loss goes without a word, or a text is lost or comes twice."""
    monkeypatch.setattr(steps, "open_engine", engine_here)
    monkeypatch.setenv("PREFECT_HOME", str(home))
    planted = make(kind, tmp_path / kind, FILES)
    sets = {key: value for key, _, value in (text.partition("=") for text in planted.overrides)}
    run, screen = run_here(tmp_path / kind, home, **SMALL, **sets)
    check(planted, (document.text for document in Corpus(run.place, run.outcome.corpus).iter_documents()), screen)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_command_reads_an_ugly_folder_twice(kind: str, tmp_path: Path) -> None:
    """Fails if the command ends with another code than 0, or its second run builds or says something else."""
    sizes = {"many_tiny_files": 100_000, "one_large_file": 40_000}
    planted = make(kind, tmp_path / kind, sizes.get(kind, FILES))
    run_twice(planted, tmp_path / kind)


@pytest.mark.long
def test_a_million_tiny_files_are_read(tmp_path: Path) -> None:
    planted = make("many_tiny_files", tmp_path / "tiny", 1_000_000)
    run_twice(planted, tmp_path / "tiny")


def run_twice(planted: Planted, folder: Path) -> None:
    """Run a folder by the command, and again; check what is kept and what is on the screen."""
    home = new_home(folder.parent)
    store = Place(str(home / "store"))
    given = [f"--set={text}" for text in planted.overrides]
    first = cloze(home, "run", "--source", str(folder), *given)
    assert first.returncode == 0, first.stdout
    [corpus] = list_manifests(store, "corpora", folder.name)
    check(planted, (document.text for document in Corpus(store, corpus).iter_documents()), first.stdout)
    second = cloze(home, "run", "--source", str(folder))
    assert second.returncode == 0 and "Nothing is to be built" in second.stdout, second.stdout
    assert [said for said in planted.said if said not in second.stdout] == [], second.stdout
