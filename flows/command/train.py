"""`cloze train JOB`: a training job from a file, on this machine, without a flow around it.

    job.json ─► trainer.launch ─► the ranks ─► their events, a line each ─► the terminal

It needs only what the trainer needs: if the rest of Cloze's packages is missing, this is the only command. When
stopped, it waits for the checkpoint of the current step; the same command resumes from it.
"""

import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.checked_folder import COMPLETE_FILE
from corpora.store.places.place import Place
from flows.signals import call_on_stop
from trainer.huggingface.config import read_tokenizer_files
from trainer.job import TrainingJob
from trainer.launch import Nodes, Stop, train
from trainer.metrics import Event

LINE_SECONDS = 2.0  # between two lines of steps
SHOWN_FIGURES = (
    "steps parameters processes device computes loss masked_loss masked_accuracy pair_loss pair_accuracy "
    "unigram_entropy learning_rate tokens_per_second name message"
).split()
PLACES = ("store", "work", "start", "teacher")
STOP_NOTICE = "Training ends with the step that it is in, and saves it; a second signal ends it at once."


def run_train_command(arguments: Sequence[str]) -> int:
    """Run `cloze train` with an argument parser from the standard library, for machines without cyclopts.

    Args:
        arguments: The command-line arguments, starting with "train".

    Returns:
        The exit code 0.

    Raises:
        InputError: If the job or a setting is not valid.
        TrainingFailed: If the trainer fails.
        SystemExit: If the arguments are not valid.
    """
    description = (
        "If only the trainer's packages are installed, there is one command: train. Install the others for the rest."
    )
    parser = ArgumentParser(prog="cloze", description=description)
    command = parser.add_subparsers(required=True).add_parser("train")
    command.add_argument("job", type=Path)
    for name in PLACES:
        command.add_argument(f"--{name}")
    command.add_argument("--nodes", type=int, default=1)
    command.add_argument("--node-rank", type=int, default=0)
    command.add_argument("--rendezvous", default="")
    given = parser.parse_args(arguments)
    nodes = Nodes(count=given.nodes, rank=given.node_rank, rendezvous=given.rendezvous)
    places = {name: getattr(given, name) for name in PLACES}
    train_file(given.job, places, nodes, lambda line: print(line, flush=True))
    return 0


def train_file(path: Path, places: Mapping[str, str | None], nodes: Nodes, tell: Callable[[str], None]) -> None:
    """Train the model of a job file, and export it.

    Args:
        path: The job file.
        places: Folders and stores that replace those in the job, keyed by the names in PLACES. If a value is missing or
            None, the job's is used.
        nodes: The machines that train together.
        tell: Called with a line for every event; lines for steps are at least LINE_SECONDS apart.

    Raises:
        InputError: If the file is not a training job, or something that it refers to is missing.
        TrainingFailed: If the trainer fails. The message contains the end of its log.
    """
    job = with_places(read_job(path), places)
    listener, stop = JobListener(tell, job.training.steps), Stop()
    with call_on_stop(stop, STOP_NOTICE, patient=True):
        train(job, listener.on_event, stop, nodes)
    for line in add_tokenizer(job):
        tell(line)
    tell(f"{job.name}: {job.export}")


def add_tokenizer(job: TrainingJob) -> Iterator[str]:
    """Write the tokenizer files next to each exported model. Does nothing if the export is on another machine.

    Args:
        job: The job. Its store contains the vocabulary.

    Yields:
        A warning if the store does not have the vocabulary.
    """
    if not (job.export / COMPLETE_FILE).exists():  # another machine has it
        return
    try:
        files = read_tokenizer_files(Place(job.store), job.vocabulary.folder, job.model.positions)
    except InputError as error:
        yield f"The export has no tokenizer: {error}"
        return
    for name in job.export_folders:
        for file, data in files.items():
            (job.export / name / file).write_bytes(data)


def with_places(job: TrainingJob, places: Mapping[str, str | None]) -> TrainingJob:
    """Return a copy of a job with some of its folders and stores replaced.

    Args:
        job: The job.
        places: The replacements, by the names in PLACES. If a value is missing or None, the job's is used.

    Raises:
        InputError: If a start model or teacher is given, and the job has none to replace.
    """
    store, work, start, teacher = (places.get(name) for name in PLACES)
    if start and job.start is None:
        raise InputError(f"--start {start}: the job begins with random weights, not with a model. Leave it out.")
    if teacher and job.teacher is None:
        raise InputError(f"--teacher {teacher}: the job does not learn from another model. Leave it out.")
    return replace(
        job,
        store=store or job.store,
        work=str(Path(work).resolve()) if work else job.work,
        start=replace(job.start, folder=start) if start and job.start is not None else job.start,
        teacher=replace(job.teacher, folder=teacher) if teacher and job.teacher is not None else job.teacher,
    )


def read_job(path: Path) -> TrainingJob:
    """Read a training job from a file.

    Raises:
        InputError: If the file cannot be read, or is not a training job.
    """
    try:
        return TrainingJob.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"Cannot read the job {path}: {error.strerror}. A job is the job.json in the `work` folder of a model that "
            "a run has begun to train."
        ) from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (ValueError, TypeError, AttributeError, AssertionError) as error:
        raise InputError(f"{path} is not a training job ({error}): give a job.json as a run writes it.") from error


class JobListener:
    """Prints the events of a training run as lines for the user.

    Args:
        tell: Callback that prints a line.
        steps: The total number of training steps.
    """

    def __init__(self, tell: Callable[[str], None], steps: int) -> None:
        self._tell = tell
        self._steps = steps
        self._last = 0.0

    def on_event(self, event: Event) -> None:
        """Print the lines of an event. Steps are reported at most every LINE_SECONDS, except for the last step.

        Args:
            event: A dict with the keys "event" (its kind) and "step", and metrics to show, by name.
        """
        now = time.monotonic()
        if event["event"] != "step" or event["step"] == self._steps or now - self._last >= LINE_SECONDS:
            self._last = now
            for line in iter_event_lines(event):
                self._tell(line)


def iter_event_lines(event: Event) -> Iterator[str]:
    """Yield a line for a training event, and a line for each component if the event evaluates a mixture of sources.

    Args:
        event: A dict with the keys "event" (its kind) and "step", and metrics by name. The metrics in SHOWN_FIGURES are
            shown.

    >>> [*iter_event_lines({"event": "step", "step": 3, "loss": 0.69314, "phase": 0})]
    ['step 3: loss 0.6931']
    """
    yield f"{event['event']} {event['step']}: {_format_figures(event)}"
    for name, part in event.get("components", {}).items():
        yield f"  {name}: {_format_figures(part)}"


def _format_figures(event: Event) -> str:
    return ", ".join(f"{name} {_format_value(event[name])}" for name in SHOWN_FIGURES if event.get(name) is not None)


def _format_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
