"""A task as a course of the training loop: restarts from several seeds, in each epochs over all items, each judged.

Every epoch goes through all training items once, in an order that is a function of the seed; its last step is smaller
where the batch does not divide them. The loss of a term is its mean over the whole step, whatever the number of
processes and micro-batches. Dropout's numbers follow from seed, step and process, so a restart can resume at any step.

The checkpoint of the best epoch so far is kept: what is exported is read from it.
"""

import gc
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.randomness import stream
from corpora.store.settings import settings_json
from shards.reading.loader import TALLIES
from shards.reading.order import cut, examples_at, share
from trainer.huggingface.checkpoints import Pretrained
from trainer.metrics import MetricsLog
from trainer.settings.training import TrainingSettings
from trainer.tasks.contract import Task, TaskItem
from trainer.tasks.data import EncodedExamples, PackedItems
from trainer.tasks.heads.task_model import (
    TaskModel,
    answers_of,
    batch_of_items,
    build_task_model,
    freeze,
    shortest_first,
    void,
)
from trainer.tasks.settings import FinetuneSettings
from trainer.training.checkpoints.folders import Checkpoints, Cursor, Saved
from trainer.training.learner import STEP_COUNTS, Learner, MicroBatch, Step, counted
from trainer.training.loop import Course, StopSignal
from trainer.training.parallel import FIRST_SECONDS, Ranks
from trainer.training.reports import FirstSteps, Noted, Numbers, Speed, named

SAVE_MINUTES = 5.0  # after which a run is written down within an epoch


class TaskData(NamedTuple):
    """The data of a task.

    task: fitted; training, evaluation: as items of the model; pretrained: the model; baselines: their scores, by name
    """

    task: Task
    training: EncodedExamples
    evaluation: EncodedExamples
    pretrained: Pretrained
    max_length: int
    baselines: Mapping[str, Mapping[str, float]] = MappingProxyType({})


def loop_settings(settings: FinetuneSettings, items: int) -> TrainingSettings:
    """The settings of all restarts over so many items: an epoch ends with an evaluation and a checkpoint."""
    an_epoch = -(-items // (settings.batch or 1))
    return replace(
        settings.training(an_epoch * (settings.epochs or 1)),
        evaluate_every=an_epoch,
        checkpoint_every=an_epoch,
        checkpoint_minutes=SAVE_MINUTES,
        async_checkpoints=False,
        timeout_seconds=FIRST_SECONDS,
    )


class TaskCourse(Course):
    """All restarts of one task, on one of its processes.

    restarts:  of each that has begun its seed, the number of the epoch to keep, from 1 (0: none yet), and the
               scores of each epoch
    best:      the restart whose kept epoch is the best of all; -1: none yet
    best_step: the step after that epoch, of all restarts
    """

    def __init__(
        self,
        data: TaskData,
        settings: FinetuneSettings,
        plan: TrainingSettings,
        ranks: Ranks,
        log: MetricsLog,
        identity: Mapping[str, Json],
        computes: str,
        warnings: Sequence[str],
        write: Callable[["TaskCourse"], None],
    ) -> None:
        """plan: without "auto"; computes: how, in a line; write: the output, on the first process"""
        self.data, self.tuning, self.settings, self.ranks, self.log = data, settings, plan, ranks, log
        self.identity, self._computes, self._warnings, self._write = identity, computes, warnings, write
        self._steps, self._an_epoch = plan.phase[0].steps, plan.evaluate_every  # of a restart, and of an epoch
        self.first_steps = FirstSteps(ranks)
        self.restarts: list[dict[str, Any]] = []
        self.best = -1
        self.best_step = 0
        self._restart = -1

    @property
    def task(self) -> Task:
        """Return the task that is learned."""
        return self.data.task

    @property
    def metric(self) -> str:
        """By which epochs are compared."""
        return self.task.metrics[0]

    @property
    def model(self) -> TaskModel:
        """Return the model that learns."""
        assert isinstance(self.learner.model, TaskModel)
        return self.learner.model

    def enter(self, phase: int) -> None:
        """Begin with the pre-trained model, and heads of a seed."""
        if phase == self._restart:
            return
        if self._restart >= 0:
            del self.learner
            gc.collect()  # a sharded model is in circles: its weights would stay in memory with those of the next
        self._restart, seed = phase, self.settings.seed + phase
        torch.manual_seed(seed)
        model = build_task_model(self.task, self.data.pretrained)
        freeze(model, self.tuning.freeze)
        self.learner = Learner.of(model, replace(self.settings, seed=seed), self.ranks)
        self.restarts = [*self.restarts[:phase], {"seed": seed, "kept": 0, "epochs": []}]

    def begin(self, checkpoints: Checkpoints) -> None:
        """Log what is learnt, how, and from what."""
        self._say_start(0, resumed=False)

    def resume(self, saved: Saved) -> None:
        """Take up what each epoch came to."""
        self.restarts = saved.progress["restarts"]
        self.best, self.best_step = saved.progress["best"], saved.progress["best_step"]
        self._keep_best()
        self._say_start(saved.cursor.step, resumed=True)

    def progress(self) -> dict[str, Json]:
        """Return what each epoch came to, and which is the best."""
        return {"restarts": self.restarts, "best": self.best, "best_step": self.best_step}

    def _keep_best(self) -> None:
        self.kept = frozenset({self.best_step} - {0})

    def cursor(self, step: int) -> Cursor:
        """Return the restart of the step that was learnt last, and its steps."""
        return Cursor(phase=self._restart, step=step, slot=self._within(step))

    def _within(self, step: int) -> int:
        """Steps of the restart, of those of all."""
        return step - self._restart * self._steps

    def _say_start(self, step: int, resumed: bool) -> None:
        for message in self._warnings:
            self.log.say("warning", step, message=message)
        self.log.say(
            "start",
            step,
            steps=self.settings.steps,
            processes=self.ranks.count,
            task=self.task.kind,
            metric=self.metric,
            computes=self._computes,
            resumed=resumed,
            settings=settings_json(self.tuning),
            max_length=self.data.max_length,
            items=len(self.data.training.items),
            training=self.data.training.ledger.to_json(),
            evaluation=self.data.evaluation.ledger.to_json(),
        )

    def steps(self, done: int) -> Generator[Step, None, None]:
        """Yield the steps of a restart, until patience is out."""
        items, batch = self.data.training.items, self.settings.phase[0].batch
        first, size = self._within(done), len(items)
        for number in range(first, self._steps):
            if self._patience_is_out():
                return
            epoch, within = divmod(number, self._an_epoch)
            slots = range(epoch * size + within * batch, epoch * size + min((within + 1) * batch, size))
            torch.manual_seed(int(stream(self.learner.settings.seed, "dropout", number, self.ranks.rank)))
            yield counted(done - first + number + 1, self._micro_batches(slots, items), self.ranks)

    def _patience_is_out(self) -> bool:
        restart, patience = self.restarts[self._restart], self.tuning.patience
        return patience is not None and restart["kept"] > 0 and len(restart["epochs"]) - restart["kept"] >= patience

    def _micro_batches(self, slots: range, items: PackedItems) -> list[MicroBatch]:
        """The share of this process, shortest first: runs of one length are what attention does best."""
        mine = share(slots, self.ranks.rank, self.ranks.count)
        places = np.arange(mine.start, mine.stop, dtype=np.int64)
        examples = shortest_first(items, examples_at(places, len(items), self.learner.settings.seed))
        largest = -(-len(slots) // self.ranks.count)
        size = min(self.settings.micro_batch or largest, largest)
        pieces = cut(range(len(examples)), size, -(-largest // size))
        return [self._micro_batch([items[examples[place]] for place in piece] or [void(items[0])]) for piece in pieces]

    def _micro_batch(self, items: Sequence[TaskItem]) -> MicroBatch:
        real = [item for item in items if item.sequences]
        batch = batch_of_items(items)
        counts = {"sequences": len(real), "tokens": len(batch.ids)}
        terms = self.task.counts(real) if real else (0,) * len(self.task.terms())
        return MicroBatch(
            batch=batch.pinned() if self.ranks.device.type == "cuda" else batch,
            guessed=np.empty(0, np.int64),
            counts=np.array([*(counts.get(name, 0) for name in STEP_COUNTS), *terms], np.int64),
            tallies=np.empty((0, len(TALLIES)), np.int64),
        )

    def line(self, noted: Noted, numbers: Numbers, losses: Mapping[str, float], speed: Speed) -> dict[str, Any]:
        """Return epoch, losses, rate and counts; where there is one term, losses without its name."""
        epoch, counts = self._within(noted.step.number - 1) // self._an_epoch + 1, noted.step.counts.tolist()
        only = f"{self.task.terms()[0].name}_" if len(self.task.terms()) == 1 else None
        return {
            "epoch": epoch,
            "restart": self._restart,
            **{name.removeprefix(only or ""): value for name, value in losses.items() if name != f"{only}loss"},
            "learning_rate": noted.rate,
            "gradient_norm": numbers.norm,
            **{name: count for name, count in named(counts).items() if name in ("sequences", "tokens")},
        }

    def evaluate(self, step: int, stop: StopSignal) -> None:
        """Judge an epoch, and keep it where it is the best so far."""
        began = time.monotonic()
        scores = self.judge()
        epoch = self._within(step) // self._an_epoch
        restart, last = self.restarts[self._restart], self.tuning.keep == "last"
        if last or not restart["kept"] or self._worth(scores) > self._worth(restart["epochs"][restart["kept"] - 1]):
            restart["kept"] = epoch
        restart["epochs"].append({"epoch": epoch, **scores})
        if restart["kept"] == epoch and (last or self._beats_all(scores)):
            self.best, self.best_step = self._restart, step
            self._keep_best()
        examples, seconds = len(self.data.evaluation.examples), round(time.monotonic() - began, 3)
        place = {"epoch": epoch, "restart": self._restart}
        self.log.say("evaluation", step, **place, **scores, sequences=examples, seconds=seconds)

    def judge(self) -> dict[str, float]:
        """Return loss and scores on the evaluation examples; the same on every process."""
        encoded = self.data.evaluation
        answers, sums = answers_of(self.model, self.task, encoded.items, self.ranks, judging=True)
        predictions = self.task.predictions(encoded.examples, encoded.items, answers)
        divisors = self.task.counts(encoded.items)
        losses = [
            term.weight * loss / max(by, 1) for term, loss, by in zip(self.task.terms(), sums, divisors, strict=True)
        ]
        return {"loss": sum(losses), **self.task.scores(encoded.examples, predictions)}

    def _worth(self, epoch: Mapping[str, float]) -> tuple[float, float]:
        """By what epochs are compared: the metric, and of equals the loss; the higher the better."""
        return epoch[self.metric], -epoch["loss"]

    def _beats_all(self, scores: Mapping[str, float]) -> bool:
        """True if an epoch is better than the kept ones of the restarts before."""
        before = (each["epochs"][each["kept"] - 1] for each in self.restarts[: self._restart])
        return all(self._worth(scores) > self._worth(each) for each in before)

    def diverged(self, step: int, micro_batch: int) -> InputError:
        """Return the refusal."""
        return InputError(
            f"At step {step} the loss or the gradient is no longer finite: training has diverged. Lower "
            "learning_rate, raise warmup, or set clip_norm."
        )

    def export(self, step: int) -> None:
        """Write the best epoch as a folder, made visible in one step."""
        del self.learner  # its memory is needed
        gc.collect()
        if self.ranks.rank == 0:
            self._write(self)
        self.ranks.wait()
