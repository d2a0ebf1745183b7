"""The labelled files of a recipe's tasks, judged before a run begins: hours of training come before they are needed.

What would make a score meaningless stops the run, unless the task accepts it by its name (`accept`); what is doubtful
is a line. Cost: the files are read whole, as by `cloze check`.
"""

from collections.abc import Iterator

from flows.recipes.recipe import Recipe
from trainer.tasks.checking.check import check_task


def labelled_lines(recipe: Recipe) -> Iterator[str]:
    """Yield what is doubtful in the files of a recipe's tasks.

    Raises InputError where one is missing, is not of the form that its task reads, or spoils the scores.
    """
    for entry in recipe.tasks:
        for task in entry.suite().tasks:
            unlabelled = [split.file.path for split in task.splits if not split.labelled]
            files = [task.training, *(split.file for split in task.splits)]
            report = check_task(task.task, files, unlabelled=unlabelled, max_length=task.settings.max_length)
            accepted = report.accepting(entry.settings.accept)
            accepted.check()
            yield from (f"{entry.where}: {finding.name}: {finding.sentence}" for finding in accepted.findings)
