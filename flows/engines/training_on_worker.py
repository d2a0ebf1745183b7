"""A training on a worker: the trainer's processes are its children, as in a run that trains by itself.

Each event goes to the listener as a message of the scheduler. Where the task is cancelled (its client stopped, was
killed, or lost the scheduler) the trainer is stopped, and the worker is free when the checkpoint is written. The
part is built here as well, so that the machine of the run needs nothing of a model on an object store.

Checkpoints are in the work folder next to the model; of a store that is no folder, on this machine and as a copy there
(`checkpoint_copies.py`).
"""

import json
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from distributed import get_worker

from corpora.errors import InputError
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_parts
from flows.engines.checkpoint_copies import fetch_copy, keep_copy, remove_copy
from flows.engines.connect import GPU
from flows.engines.on_worker import Answer, answer_of, is_taken_back, unfit
from flows.engines.version_match import Identity
from flows.environment import QUIET
from trainer.build import work_folder
from trainer.jobs.job import TrainingJob
from trainer.launching.launch import train
from trainer.launching.stopping import Stop

BEGAN, LEFT = "began", "left"
LOOK_SECONDS = 0.25


def perform_training(work: bytes, topic: str, wanted: Identity) -> Answer:
    """Train a model and build its part. work: place, stage, plans, and distrusted files, pickled"""
    worker = get_worker()
    task = worker.get_current_task()

    def say(**message: object) -> None:
        worker.log_event(topic, json.dumps(message))

    if (other := unfit(worker, wanted)) is not None:
        return other
    os.environ.update(QUIET)
    say(**{BEGAN: worker.address})
    stop = Stop()
    try:
        with stopped_where(stop, lambda: is_taken_back(worker, task)):
            return answer_of(worker.address, lambda: _train(work, say, stop), [])
    finally:
        say(**{LEFT: worker.address})


def _train(work: bytes, say: Callable[..., None], stop: Stop) -> int:
    place, stage, plans, distrusted = pickle.loads(work)
    if find_spec("torch") is None:
        raise InputError(f"The worker has the resource {GPU} but no torch to train with: install it there.")
    work_here = str(work_folder(place, stage))  # the plans name the folder of the machine that runs the recipe
    here = [replace(plan, job=replace(plan.job, work=work_here)) for plan in plans]
    for plan in here:
        _train_one(place, stage, plan.job, say, stop)
    built = len(build_parts(place, stage, here, distrusted))
    if not place.is_local:
        remove_copy(place, stage)
    return built


def _train_one(place: Place, stage: Stage, job: TrainingJob, say: Callable[..., None], stop: Stop) -> None:
    """Train; for a store that is not a folder from its copy of the newest checkpoint, which each new one replaces."""
    work = Path(job.work)

    def on_event(event: Mapping[str, Any]) -> None:
        if event["event"] == "checkpoint" and not place.is_local:
            keep_copy(place, stage, work)
        say(**event)

    if not place.is_local:
        fetch_copy(place, stage, work)
    train(job, on_event, stop)


@contextmanager
def stopped_where(stop: Stop, wanted: Callable[[], bool]) -> Iterator[None]:
    """Stop a training as soon as that is wanted, for the time of the block."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            if wanted():
                return stop()

    watching = threading.Thread(target=watch, name="stop-of-a-training", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
