"""Runs the trainer in a process of its own, for commands that need no run.

    MODEL ─► its folder ─► python -m trainer ... ─► its lines or events ─► the terminal

MODEL is a folder with config.json, weights and a tokenizer (an older form is converted first), an artifact of the
store, a release (STORE@NAME), or a store: then its newest model. The process ends with this one, however this one ends;
an error that the user can fix comes back as the trainer's own paragraph.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

from corpora.errors import InputError
from corpora.lean_process import OWN_CODE
from flows.run.addresses import Artifact, find_artifacts, has_short_fingerprint, pick_newest
from flows.run.record.releases import parse_release_address
from flows.signals import open_scratch_folder
from trainer.huggingface.sentence_transformers import MODULES
from trainer.huggingface.todays_form import convert_older_folder
from trainer.launch import (
    LOG_LINES,
    TrainingFailed,
    build_command,
    build_environment,
    count_processes,
    describe_exit,
    iter_events,
    parse_input_error,
)
from trainer.metrics import Event
from trainer.settings.training import TrainingSettings
from trainer.start_weights import CONFIG, copy_model, list_model_files

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


# The model.


@contextmanager
def open_model_folder(address: str, kinds: Sequence[str] = ("models", "tasks")) -> Iterator[Path]:
    """Make a model available as a local folder within the block. A model in an object store is copied.

    Args:
        address: A model's folder, its folder in a store, a release, or a store (for its newest model).
        kinds: Kinds of stored results to look for, such as "models". The first kind that exists at the address is used.

    Yields:
        The path of the folder.

    Raises:
        InputError: If there is no model, the model is not finished, or there are models for several tasks.
    """
    if any((Path(address) / name).is_file() for name in (CONFIG, MODULES)):
        yield convert_older_folder(Path(address))
        return
    at_place = "://" in address or Path(address).is_dir() or has_short_fingerprint(address)
    if not at_place and parse_release_address(address) is None:
        raise InputError(
            f"There is no folder {address}: give a model's folder (with {CONFIG}), an artifact's folder in a store, a "
            "store, or a release (STORE@NAME)."
        )
    artifact = _find_artifact(address, kinds)
    files = list_model_files(artifact.manifest)
    if CONFIG not in files:
        raise InputError(f"The artifact {artifact.manifest.folder} has no {CONFIG}: it is not a finished model.")
    if artifact.place.is_local:
        config = f"{artifact.manifest.stage_folder}/{files[CONFIG].path}"
        yield Path(artifact.place.to_full_path(config)).parent
        return
    with open_scratch_folder() as scratch:
        copy_model(artifact.place, artifact.manifest, files, scratch / "model")
        yield scratch / "model"


def _find_artifact(address: str, kinds: Sequence[str]) -> Artifact:
    """Find the newest artifact (stored stage result) of the first of the given kinds that exists at an address.

    Args:
        address: An artifact's folder, a store, or a release.
        kinds: The kinds to look for, in order of preference; "models" must be one of them.

    Raises:
        InputError: If there is no such artifact, or there are models for several tasks.
    """
    refusals = {}
    for kind in kinds:
        try:
            chosen = find_artifacts(address, kind)
        except InputError as refusal:
            refusals[kind] = refusal
            continue
        names = sorted({each.manifest.stage_folder for each in chosen})
        if kind == "tasks" and len(names) > 1:
            raise InputError(f"{address} has models for several tasks: give the folder of one, {' or '.join(names)}.")
        return pick_newest(chosen)
    raise refusals["models"]


# The process.


@contextmanager
def open_trainer(
    arguments: Sequence[str], training: TrainingSettings | None = None
) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Run `python -m trainer` in a child process within the block. The process is killed if it outlives the block.

    Args:
        arguments: The arguments. If `training` is given, the second argument must be the path of the job file.
        training: The settings of a job, which determine the number of processes. If None, one process is started.

    Yields:
        The child's standard output, and the file with its standard error.

    Raises:
        InputError: At the end of the block, if the trainer ended with an error that the user can fix.
        TrainingFailed: At the end of the block, if it ended with another error. The message contains the end of its
            log.
    """
    called = [sys.executable, "-m", "trainer", "--die-with", str(os.getpid()), *arguments]
    variables = {**os.environ, **OWN_CODE}
    if training is not None and (processes := count_processes(training)) > 1:
        called = build_command(Path(arguments[1]), processes, does=arguments[0])
        variables = build_environment(training, processes)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(called, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=variables)
        assert process.stdout is not None
        try:
            yield process.stdout, log
            code = process.wait()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if code:
            raise _build_error(code, log)


def forward_lines(arguments: Sequence[str], tell: Callable[[str], None]) -> None:
    """Run `python -m trainer`, and call a function with each line of its output.

    Raises the same errors as `open_trainer`.

    Args:
        arguments: The arguments of the trainer.
        tell: Called with each line, without its line break.
    """
    with open_trainer(arguments) as (output, _):
        for line in output:
            tell(line.decode().rstrip("\n"))


def iter_trainer_events(*arguments: str, training: TrainingSettings | None = None) -> Iterator[Event]:
    """Run `python -m trainer`, and yield its events: dicts with the key "event" (the kind) and keys that depend on it.

    Raises the same errors as `open_trainer`, during iteration.

    Args:
        arguments: The arguments. If `training` is given, the second argument must be the path of the job file.
        training: The settings of a job, which determine the number of processes. If None, one process is started.
    """
    with open_trainer(arguments, training) as (output, log):
        yield from iter_events(output, log)


@contextmanager
def open_job_file(job: "DataclassInstance") -> Iterator[str]:
    """Write a job for the trainer to a temporary JSON file, which exists within the block.

    Args:
        job: The job, a dataclass that the trainer's command reads.

    Yields:
        The file's path.
    """
    with open_scratch_folder() as scratch:
        path = scratch / "job.json"
        path.write_text(json.dumps(asdict(job), ensure_ascii=False), encoding="utf-8")
        yield str(path)


def _build_error(code: int, log: IO[bytes]) -> Exception:
    """Build the exception for a trainer that ended with a nonzero exit code.

    Args:
        code: The exit code.
        log: The file with the trainer's standard error.

    Returns:
        The InputError that the trainer reported, or else a TrainingFailed with the end of the log.
    """
    log.seek(0)
    lines = log.read().decode("utf-8", errors="replace").splitlines()
    report = [f"The trainer {describe_exit(code)}; the end of its output:", *lines[-LOG_LINES:]]
    return parse_input_error(code, lines) or TrainingFailed("\n".join(report))
