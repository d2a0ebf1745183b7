"""What calls the trainer: `cloze finetune` and `cloze fill`, which run in a process of their own.

    MODEL ─► its folder ─► python -m trainer ... ─► its lines ─► the terminal

MODEL is a folder with config.json, model.safetensors and tokenizer.json, an artifact of the store, a release
(STORE@NAME), or a store: then its newest model. The process ends with this one, however this one ends; what the user
can mend comes back as the trainer's own paragraph.
"""

import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from corpora.errors import InputError
from corpora.store.settings import bind
from flows.run.addresses import Artifact, find_artifacts, newest
from flows.run.policies import METRIC_SECONDS
from flows.run.releases import release_address
from flows.run.units import counted
from flows.stopping import scratch_folder
from trainer.launch import LOG_LINES, TrainingFailed, events
from trainer.tasks.settings import FinetuneJob, FinetuneSettings, TableSettings

CONFIG = "config.json"
PREFIX = "trainer: "  # before the paragraph that the trainer ends with
MENDABLE = 2  # its exit code then

Event = Mapping[str, Any]


def fill(model: str, text: str, top: int, as_json: bool, tell: Callable[[str], None]) -> None:
    """Tell the most probable tokens for every mask of a text. Raises InputError, or TrainingFailed."""
    with model_folder(model) as folder:
        options = ["--top", str(top), *(["--json"] if as_json else [])]
        with trainer_process(["fill", *options, "--", str(folder), text]) as (output, _):
            for line in output:
                tell(line.decode().rstrip("\n"))


def fill_briefly(model: str, texts: Sequence[str], top: int, tell: Callable[[str], None]) -> None:
    """Tell a line for each text, with the most probable tokens for its masks. Raises as `fill` does."""
    with (
        model_folder(model) as folder,
        trainer_process(["fill", "--brief", "--top", str(top), "--", str(folder), *texts]) as (output, _),
    ):
        for line in output:
            tell(line.decode().rstrip("\n"))


def finetune(
    model: str,
    training: TableSettings,
    evaluation: TableSettings,
    output: Path,
    overrides: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    """Fine-tune a model on a table of labelled texts; the classifier's folder is `output`.

    overrides: settings of `FinetuneSettings` by key, written as in TOML
    tell:      called with a line for every evaluation, and for a step from time to time
    Raises InputError, or TrainingFailed.
    """
    settings = bind(FinetuneSettings, {key: _value(text) for key, text in overrides.items()}, "finetune")
    with model_folder(model) as folder, scratch_folder() as scratch:
        job = FinetuneJob(
            model=str(folder.resolve()),
            output=str(output.resolve()),
            training=training,
            evaluation=evaluation,
            settings=settings,
        )
        path = scratch / "job.json"
        path.write_text(job.to_json(), encoding="utf-8")
        listener = Listener(tell)
        with trainer_process(["finetune", str(path)]) as (said, log):
            for event in events(said, log):
                listener.hear(event)


def _value(text: str) -> Any:
    """A setting's value as TOML writes it; a bare word is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


# The model.


@contextmanager
def model_folder(address: str) -> Iterator[Path]:
    """The folder of the model at an address, on this machine for the time of the block. Raises InputError."""
    if (Path(address) / CONFIG).is_file():
        yield Path(address)
        return
    if "://" not in address and not Path(address).is_dir() and release_address(address) is None:
        raise InputError(
            f"There is no folder {address}: give a model's folder (with {CONFIG}), an artifact's folder in a store, a "
            "store, or a release (STORE@NAME)."
        )
    artifact = newest(find_artifacts(address, "models"))
    if artifact.place.is_local:
        yield Path(artifact.place.full_path(_config_path(artifact))).parent
        return
    with scratch_folder() as scratch:
        _copy(artifact, scratch)
        yield scratch


def _config_path(artifact: Artifact) -> str:
    """Where the model's configuration is in its store. Raises InputError where the artifact has none."""
    for path in _paths(artifact):
        if path.endswith(f"/{CONFIG}"):
            return path
    raise InputError(f"The artifact {artifact.manifest.folder} holds no {CONFIG}: it is no finished model.")


def _copy(artifact: Artifact, folder: Path) -> None:
    """The files next to the model's configuration, from a store that is not on this machine."""
    beside = _config_path(artifact).removesuffix(CONFIG)
    for path in _paths(artifact):
        if path.startswith(beside):
            (folder / path.rpartition("/")[2]).write_bytes(artifact.place.read(path))


def _paths(artifact: Artifact) -> list[str]:
    manifest = artifact.manifest
    return [f"{manifest.stage_folder}/{file.path}" for part in manifest.parts for file in part.files]


# The process.


class Listener:
    """Turns the events of a fine-tuning run into lines for people."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._said = 0.0
        self._steps = 0

    def hear(self, event: Event) -> None:
        """One event. Raises InputError for the trainer's word on what the user can mend."""
        if event["event"] == "failure":
            raise InputError(event["message"])
        if event["event"] == "start":
            self._steps = event["steps"]
            for line in starting(event):
                self._tell(line)
        elif event["event"] != "step" or time.monotonic() - self._said >= METRIC_SECONDS:
            self._said = time.monotonic()
            self._tell(progress(event, self._steps))


def starting(event: Event) -> Iterator[str]:
    """What is said at the beginning: the labels, and what became of the rows of each table."""
    yield f"labels: {', '.join(event['labels'])}"
    for name in ("training", "evaluation"):
        ledger = event[name]
        rows, figures = ledger["accounts"]["rows"], ledger["figures"]
        dropped = [f"{number} {reason}" for reason, number in rows["outcomes"].items() if reason != "given"]
        cut = f"{counted(figures['texts_cut'], 'text')} cut by {counted(figures['tokens_cut'], 'token')}"
        said = [counted(rows["outcomes"]["given"], "row"), counted(figures["tokens"], "token"), *dropped]
        said += [cut] if figures["texts_cut"] else []
        yield f"{name}: {', '.join(said)}"


def progress(event: Event, steps: int) -> str:
    """An event on one line.

    >>> progress({"event": "step", "step": 3, "epoch": 1, "loss": 0.6931}, 9)
    'step 3/9: epoch 1, loss 0.6931'
    """
    shown = ("epoch", "loss", "accuracy", "macro_f1", "matthews", "learning_rate", "output")
    values = (f"{name} {_readable(event[name])}" for name in shown if name in event)
    return f"{event['event']} {event['step']}/{steps}: {', '.join(values)}"


def _readable(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def trainer_process(arguments: Sequence[str]) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """`python -m trainer` for the time of the block: its output, and the file where its errors go.

    Raises InputError with its paragraph, or TrainingFailed, where it ends otherwise than well.
    """
    command = [sys.executable, "-m", "trainer", "--die-with", str(os.getpid()), *arguments]
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}  # a trainer.py of the user's own folder is not ours
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment
        )
        assert process.stdout is not None
        try:
            yield process.stdout, log
            code = process.wait()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if code:
            raise _ended(code, log)


def _ended(code: int, log: IO[bytes]) -> Exception:
    log.seek(0)
    lines = log.read().decode("utf-8", errors="replace").splitlines()
    if code == MENDABLE and lines and lines[-1].startswith(PREFIX):
        return InputError(lines[-1].removeprefix(PREFIX))
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return TrainingFailed("\n".join([f"The trainer {how}; the end of what it said:", *lines[-LOG_LINES:]]))
