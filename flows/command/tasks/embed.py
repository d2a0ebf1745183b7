"""`cloze embed`: vectors of a file's texts, words or tokens, by the trainer's process."""

from collections.abc import Callable
from pathlib import Path

from corpora.errors import InputError
from flows.command.tasks.piped import from_pipe
from flows.command.trainer_process import job_file, model_folder, trainer_events
from flows.run.record.counts_text import counted
from flows.run.task_lines import ledger_line
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.settings import EmbedJob, EmbedSettings


def embed_texts(
    model: str, file: FileSettings, settings: EmbedSettings, output: Path, tell: Callable[[str], None]
) -> None:
    """Write a row for each text, word or token; print what was done. Raises InputError, or TrainingFailed."""
    with model_folder(model) as folder, from_pipe(file) as whole:
        job = EmbedJob(model=str(folder.resolve()), file=whole, output=str(output.resolve()), settings=settings)
        with job_file(job) as path:
            for event in trainer_events("embed", path):
                if event["event"] == "step":
                    tell(f"{counted(event['step'], 'text')} read, {counted(event['rows'], 'vector')} written")
                else:
                    tell(f"read: {ledger_line(event['ledger'])}")
                    tell(f"{output}: {counted(event['rows'], 'vector')} of {counted(event['width'], 'number')}")


def layers_of(option: str) -> tuple[int, ...]:
    """Return layers as the command takes them. Raises InputError.

    >>> layers_of("last"), layers_of("-1,-2")
    ((-1,), (-1, -2))
    """
    try:
        return tuple(-1 if word.strip() == "last" else int(word) for word in option.split(","))
    except ValueError as error:
        raise InputError(
            f"--layers {option}: give numbers separated by commas, 1 for the first and -1 or `last` for the last."
        ) from error
