"""A small recipe whose model learns a task: is there a boat in the line? Labelled lines, and the recipe's tables."""

import random
from pathlib import Path

from small_recipe import OBJECTS, RECIPE, SUBJECTS, VERBS, World, fill, new_world

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
LABELLED, UNUSABLE = 64, 1  # rows of each file, and how many have no text


def labelled_file(path: Path, seed: int) -> None:
    """Write lines with labels, and one without a text."""
    draw = random.Random(seed)
    lines = ["text\tlabel"]
    for _ in range(LABELLED - UNUSABLE):
        what = draw.choice(OBJECTS[:2])
        text = f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {what}"
        lines.append(f"{text}\t{'boat' if 'boat' in what else 'none'}")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([*lines, "\tboat", ""]), encoding="utf-8")


def tasks_world(folder: Path, text: str = MODEL + RECIPE + TASK) -> World:
    """A world with raw and labelled files."""
    world = fill(new_world(folder, text))
    labelled_file(folder / "labelled" / "train.tsv", 1)
    labelled_file(folder / "labelled" / "dev.tsv", 2)
    return world
