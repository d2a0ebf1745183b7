"""Predictions of a fine-tuned model for every record of a file, as lines of JSON; scores where the file has labels.

    MODEL, FILE ─► examples ─► items ─► answers ─► {"line": ..., "label": ..., "probabilities": {...}}

Promise: one line for each record, in the order of the file; one that cannot be used has the reason in place of an
answer. A file is read as that of training was, where it does not say otherwise; one of another task is refused. A label
that training did not have counts as a wrong answer.
"""

from pathlib import Path

from trainer.tasks.contract import Task
from trainer.tasks.data import encode, read_alike, read_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import answers_of
from trainer.tasks.prediction.answer_lines import FileAnswers, answer
from trainer.tasks.saving import Loaded, load_task
from trainer.training.parallel import Ranks, joined


def main(arguments: list[str]) -> int:
    """`predict MODEL FILE.json OUTPUT [--labelled]`: as `answer_lines.answer`."""
    with joined() as ranks:
        return answer(arguments, lambda folder, file, labelled, _: of_folder(folder, file, labelled, ranks))


def of_folder(folder: Path, file: FileSettings, labelled: bool, ranks: Ranks) -> tuple[Task, FileAnswers]:
    """Return the task of a folder's model, and its answers to a file. All processes must call it. Raises InputError."""
    loaded = load_task(folder)
    loaded.model.to(ranks.device)
    return loaded.task, answered(folder, loaded, read_alike(file, loaded.file), labelled, ranks)


def answered(folder: Path, loaded: Loaded, file: FileSettings, labelled: bool, ranks: Ranks) -> FileAnswers:
    """Return the answers of a folder's model to a file. All processes must call it. Raises InputError."""
    examples = read_file(loaded.task, file, labelled)
    encoded = encode(loaded.task, examples, loaded.task.text_encoder(folder, loaded.inputs, loaded.max_length))
    answers, _ = answers_of(loaded.model, loaded.task, encoded.items, ranks)
    return FileAnswers(examples, encoded.ledger, loaded.task.predictions(encoded.examples, encoded.items, answers))
