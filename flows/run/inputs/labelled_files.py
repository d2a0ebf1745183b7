"""The labelled files of a recipe's tasks, looked at before a run begins: hours of training come before they are needed.

Cost: the first FIRST records of each file.
"""

from corpora.errors import InputError
from flows.recipes.recipe import Recipe
from trainer.tasks.data import read_file
from trainer.tasks.registry import read_task

FIRST = 1_000  # records that are read


def check_labelled_files(recipe: Recipe) -> None:
    """Raise InputError where a labelled file is missing, or is not of the form that its task reads."""
    for entry in recipe.tasks:
        for task in entry.suite().tasks:
            kind = read_task(task.task, entry.where)
            files = {task.training.path: (task.training, True)}
            files |= {split.file.path: (split.file, split.labelled) for split in task.splits}
            for path, (file, labelled) in files.items():
                if not read_file(kind, file, labelled, FIRST).examples:
                    raise InputError(f"{entry.where}: {path} has no record that the task {task.name!r} can use.")
