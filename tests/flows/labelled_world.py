"""A small recipe whose model learns a task: is there a boat in the line? Labelled lines, and the recipe's tables."""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_recipe import OBJECTS, RECIPE, SUBJECTS, VERBS, Run, World, fill, new_world

MODEL = """
model = { layers = 1, hidden_size = 32, heads = 2, feed_forward_size = 64, max_length = 64 }
training.learning_rate = 1e-3
training.phase = [{ steps = 2, batch = 4 }]
"""
TASK = """
[[task]]
name = "boat"
task = "classes"
train = "labelled/train.tsv"
evaluate = "labelled/dev.tsv"
epochs = 8
batch = 8
learning_rate = 1e-2
max_length = 24
seeds = [1, 2]
max_unusable = 0.1
answers = "predict"
"""
TEXT = MODEL + RECIPE + TASK
FIRST = "20260102T000000000000-small"  # the run on record
LABELLED, UNUSABLE = 64, 1  # rows of each file, and how many have no text


def labelled_file(path: Path, seed: int, names: tuple[str, ...] = ("boat",)) -> None:
    """Write lines with labels, and one without a text. names: of the things that are labels where they are met"""
    draw = random.Random(seed)
    lines = ["text\tlabel"]
    for _ in range(LABELLED - UNUSABLE):
        what = draw.choice(OBJECTS[: len(names) + 1])
        text = f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {what}"
        lines.append(f"{text}\t{next((name for name in names if name in what), 'none')}")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([*lines, "\tboat", ""]), encoding="utf-8")


def tasks_world(folder: Path) -> World:
    """A world with raw and labelled files."""
    world = fill(new_world(folder, TEXT))
    labelled_file(folder / "labelled" / "train.tsv", 1)
    labelled_file(folder / "labelled" / "dev.tsv", 2)
    return world


def copied(run: Run, folder: Path) -> Run:
    """Return a run of such a world as of a copy of its folder."""
    world = world_of(run)
    shutil.copytree(world.folder, folder)
    return replace(run, place=replace(world, folder=folder).place, recipe=replace(world, folder=folder).recipe())


def world_of(run: Run) -> World:
    """Return the world of a run."""
    assert run.recipe.path is not None
    return World(folder=run.recipe.path.parent, text=TEXT)


@contextmanager
def trainer_here() -> Iterator[None]:
    """Have the trainer's commands done by this process, without the seconds in which another one imports torch."""
    from trainer.__main__ import main

    def run(path: Path, log: Path, training: Any, on_event: Any, stop: Any, *_: Any, does: Any = ("train",)) -> int:
        return main([does[0], str(path), *does[1:]])

    def events(*arguments: str, training: Any = None) -> Iterator[Any]:
        assert main([*arguments]) == 0
        return iter(())

    with pytest.MonkeyPatch.context() as patch:
        for module in ("trainer.launch", "trainer.tasks.build"):
            patch.setattr(f"{module}.run_trainer", run)
        for module in ("suite_runs", "finetune"):
            patch.setattr(f"flows.command.{module}.iter_trainer_events", events)
        patch.setattr("flows.command.trainer_process.forward_lines", lambda arguments, tell: main([*arguments]))
        yield
