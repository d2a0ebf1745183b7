"""The labelled files of a recipe's tasks, judged before a run begins: hours of training come before they are needed.

What would make a score meaningless stops the run, unless the task accepts it by its name (`accept`); what is doubtful
is a line. Files from which the store has a model already, and which have not changed since, were judged then. Cost: the
files are read whole, as by `cloze check`; of those judged earlier the digests are taken.
"""

from collections.abc import Iterator

from corpora.store.damage import Damaged
from corpora.store.places.place import Place
from corpora.store.stage import list_manifests
from flows.recipes.model_and_tasks import TaskEntry
from flows.recipes.recipe import Recipe
from flows.run.inputs.start_model import find_baseline
from trainer.tasks.build import asked_of


def labelled_lines(place: Place, recipe: Recipe) -> Iterator[str]:
    """Yield what is doubtful in the files of a recipe's tasks.

    Raises InputError if one is missing, is not of the form that its task reads, or spoils the scores, or where a
    baseline is missing.
    """
    for entry in recipe.tasks:
        find_baseline(recipe, entry)  # one that is not there is missed before hours of training, too
        if not was_learnt(place, recipe.artifact_name(entry.name), entry):
            yield from judged_lines(entry)


def was_learnt(place: Place, name: str, entry: TaskEntry) -> bool:
    """Return True if an artifact of that name has learnt the same tasks from the same files. Raises InputError."""
    tasks = {task.name: asked_of(task) for task in entry.suite().tasks}
    try:
        return any(manifest.settings["tasks"] == tasks for manifest in list_manifests(place, "tasks", name))
    except Damaged:
        return False  # the run meets the damage itself, and says so


def judged_lines(entry: TaskEntry) -> Iterator[str]:
    """Yield what is doubtful in the files of a task. Raises InputError as `labelled_lines`."""
    from trainer.tasks.checking.check import check_task  # its kernels are not loaded where nothing is judged

    for task in entry.suite().tasks:
        unlabelled = [split.file.path for split in task.splits if not split.labelled]
        files = [task.training, *(split.file for split in task.splits)]
        report = check_task(task.task, files, unlabelled=unlabelled, max_length=task.settings.max_length)
        accepted = report.accept(entry.settings.accept)
        accepted.check(entry.where)
        yield from (f"{entry.where}: {finding.line}" for finding in accepted.findings)
