"""The training loop: steps, one after another, from the newest checkpoint on. Pre-training and fine-tuning are courses.

    course ─► resume ─► the steps of every phase ─► export
                          └─► a line of the log, an evaluation, a checkpoint, where one is due

A course defines what is learned: in phases of shards (`pretraining.py`) or in epochs of a task's items
(`trainer.tasks.finetuning.course`).

Promise: on the same number of processes, on processors, an interrupted run ends with the very weights of an
uninterrupted one.

A signal to stop ends the step that a run is in, or the evaluation after it, which is then done when training resumes;
the checkpoint of that step is written, and the processes leave after the same step.

No step waits for the device, but with float16, which must know of overflows: the numbers of a line are on their way
while the next step is computed, and the line is written after it (on a processor at once). The first steps of a run
are looked at one by one (`reports.py`).
"""

import signal
import threading
import time
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import accumulate
from types import FrameType
from typing import Any, NoReturn

import torch

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.randomness import stream
from corpora.store.workers.processes import take_signals
from trainer.auto_settings import Computing
from trainer.metrics import MetricsLog, line, speak
from trainer.settings.training import TrainingSettings, learning_rate
from trainer.training.checkpoints.folders import Checkpoints, Cursor, Newest, Saved
from trainer.training.learner import Learner, Step
from trainer.training.parallel import FIRST_STEPS, Ranks
from trainer.training.reports import FirstSteps, Noted, Numbers, Speed, on_their_way


class Course:
    """A training as the loop runs it. Every process has one, and calls the same methods in the same order.

    settings:    of all steps, without "auto"; a restart is a phase of its own
    learner:     what learns in the phase that was entered last
    first_steps: checks of the first steps
    kept:        steps whose checkpoints are written, and kept for as long as they are named here
    identity:    what decides the weights, as a checkpoint has it
    """

    settings: TrainingSettings
    learner: Learner
    first_steps: FirstSteps
    kept: frozenset[int] = frozenset()
    identity: Mapping[str, Json]

    @abstractmethod
    def enter(self, phase: int) -> None:
        """Have the learner that learns in a phase; where it is the one there is, it stays."""

    @abstractmethod
    def begin(self, checkpoints: Checkpoints) -> None:
        """Prepare for the first step, and log how training begins. checkpoints: used to continue from another run"""

    @abstractmethod
    def resume(self, saved: Saved) -> None:
        """Take up what a checkpoint holds of `progress`, and log that training resumes."""

    def evaluates_first(self, step: int) -> bool:
        """Return whether to evaluate before the next step, and after none."""
        return False

    @abstractmethod
    def steps(self, done: int) -> Generator[Step, None, None]:
        """Yield the steps of the phase, after so many of all."""

    def learnt(self, step: Step) -> None:
        """Count a step that was learnt."""

    @abstractmethod
    def line(self, noted: Noted, numbers: Numbers, losses: Mapping[str, float], speed: Speed) -> dict[str, Any]:
        """Return the fields of a step's line in the log."""

    @abstractmethod
    def evaluate(self, step: int, stop: "StopSignal") -> None:
        """Judge what was learnt, and log it; nothing where the evaluation is stopped."""

    @abstractmethod
    def diverged(self, step: int, micro_batch: int) -> InputError:
        """Return the refusal of a step whose loss or gradient is not finite. All processes must call it.

        micro_batch: of this process, whose loss it was; -1 where it was none
        """

    def check_read(self) -> None:
        """Raise Damaged on all processes unless what was read so far is what was written."""

    @abstractmethod
    def cursor(self, step: int) -> Cursor:
        """Return the place of a run after so many steps."""

    @abstractmethod
    def progress(self) -> dict[str, Json]:
        """Return what a checkpoint holds of the course besides its tensors. All processes must call it."""

    @abstractmethod
    def export(self, step: int) -> None:
        """Write the finished model, made visible in one step."""


class StopSignal:
    """Tracks whether any process received a signal to stop: each hears its own, and all leave after the same step."""

    def __init__(self, ranks: Ranks) -> None:
        self.number = signal.SIGTERM
        self.agreed = False
        self._ranks = ranks
        self._received = False

    @property
    def exit_code(self) -> int:
        """0, or 128 and the signal."""
        return 128 + self.number if self.agreed else 0

    def agree(self) -> bool:
        """Return whether any process is to stop by now; all must call it, and all get the same answer.

        Cost: on one process nothing; else a message to every other, between processors: no device is waited for.
        """
        self.agreed = self.agreed or self._ranks.any_says(self._received)
        return self.agreed

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Keep signals from ending this process during the block. Outside the main thread none is caught."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = take_signals(self._hear)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._received, self.number = True, signal.Signals(number)


class TrainingLoop:
    """One run of a course, on one of its processes."""

    def __init__(
        self,
        course: Course,
        ranks: Ranks,
        log: MetricsLog,
        checkpoints: Checkpoints,
        newest: Newest,
        choice: Computing,
    ) -> None:
        """newest: the checkpoint to resume from; choice: how it computes"""
        self.course, self.ranks, self.log = course, ranks, log
        self.checkpoints, self.newest, self.choice = checkpoints, newest, choice
        self.settings = course.settings
        self.step = 0 if newest.saved is None else newest.saved.cursor.step
        self.end = 0  # of the phase
        self.learnt = 0  # steps of this process
        self.saved = -1  # the step of the newest checkpoint
        self.saved_at = time.monotonic()
        self.stop = StopSignal(ranks)
        self.speed = Speed(course.settings, ranks)
        self.noted: Noted | None = None  # a step whose line is not written yet
        self.defers = ranks.device.type != "cpu"  # lines and checkpoints are written while it computes
        self.ends = [*accumulate(phase.steps for phase in course.settings.phase)]
        course.enter(bisect_right(self.ends, max(self.step - 1, 0)))  # of the last step, of which the loss scale is

    def run(self) -> StopSignal:
        """Train from the newest checkpoint, or from the beginning, to the export; or to where a signal stops it."""
        self._resume()
        with self.checkpoints.closing(), self.stop.listening():
            for phase, end in enumerate(self.ends):
                begin, self.end = self.end, end
                if begin < self.step <= end:
                    self._evaluate_late()
                if self.step < end and not self.stop.agreed:
                    self._run_phase(phase, begin)
            self._tell_written(wait=True)
            if not self.stop.agreed:
                self.course.check_read()
                self.course.export(self.step)
                if self.ranks.rank == 0:
                    self.checkpoints.clear_damaged()
        return self.stop

    def _resume(self) -> None:
        path, saved, faults = self.newest
        if path is None or saved is None:
            self.log.cut(-1)
            self.course.begin(self.checkpoints)
            self._seed_dropout()
        else:
            self.checkpoints.load(path, saved, self.course.learner)
            if saved.ranks != self.ranks.count:
                self._seed_dropout()
            self.saved = self.step
            self.log.cut(self.step)
            self.course.resume(saved)
        origin = "starts over: no whole checkpoint is left" if path is None else f"resumes from {path.name}"
        for fault in faults:
            self.log.say("damaged", self.step, message=f"{fault} Training {origin}.")

    def _seed_dropout(self) -> None:
        """Seed a generator of its own for every process; from then on its state is saved."""
        torch.manual_seed(int(stream(self.settings.seed, "dropout", self.step, self.ranks.rank)))

    def _run_phase(self, phase: int, begin: int) -> None:
        self.course.enter(phase)
        self.step = max(self.step, begin)  # the phase before may have ended early
        if self.course.evaluates_first(self.step):
            with self.speed.aside():
                self._evaluate()
        with closing(self.course.steps(self.step)) as steps:
            for step in self.speed.waiting(steps):
                self._learn(step)
                with self.speed.aside():
                    self._do_what_is_due()
                if self.stop.agree():
                    return self._save_and_leave()

    def _do_what_is_due(self) -> None:
        if self._due(self.settings.evaluate_every):
            self._evaluate()
        if self._due(self.settings.checkpoint_every) or self._time_is_up() or self.step in self.course.kept:
            self._save()
        self._tell_written(wait=False)

    def _learn(self, step: Step) -> None:
        """Learn one step; and write the line of the one before, whose numbers have arrived meanwhile."""
        self.ranks.stands(f"in step {step.number}")
        learner, rate = self.course.learner, learning_rate(self.step, self.settings)
        outcome = learner.learn(step, rate)
        self.course.learnt(step)
        self.speed.totals = self.speed.totals.after(step)
        self.course.first_steps.read(step)
        self.step += 1
        self.ranks.stands(f"after step {self.step}")
        self.learnt += 1
        if self.learnt == FIRST_STEPS:
            self.ranks.wait_no_longer_than(self.settings.timeout_seconds)
        self._say_noted()
        if (has_line := self._due(self.settings.log_every)) or self.course.first_steps.wants(self.step):
            numbers = on_their_way(outcome, learner.nonfinite, self.ranks)
            self.noted = Noted(rate, step, numbers, self.speed.totals, has_line)
        due = any(map(self._due, (self.settings.evaluate_every, self.settings.checkpoint_every)))
        if not self.defers or due or self.step in self.course.kept:
            self._say_noted()

    def _save_and_leave(self) -> None:
        """Save the last whole step, where it is not yet; the processes leave with it."""
        self._say_noted()
        if self.ranks.rank == 0:
            speak(line({"event": "stopping", "step": self.step}))
        if self.saved != self.step:
            self._save()

    def _due(self, every: int) -> bool:
        """Return whether something that is done every so many steps, and at the end of a phase, is due now."""
        return self.step == self.end or bool(every and self.step % every == 0)

    def _time_is_up(self) -> bool:
        """Return whether a checkpoint is due by the clock; the first process's holds for all."""
        seconds = self.settings.checkpoint_minutes * 60
        own = self.ranks.rank == 0 and time.monotonic() - self.saved_at >= seconds
        return bool(seconds) and self.ranks.any_says(own)

    def _say_noted(self) -> None:
        """Write the line of the noted step, if any, and warnings about the first steps."""
        noted, self.noted = self.noted, None
        if noted is None:
            return
        numbers = noted.read()
        if numbers.nonfinite:
            self._refuse()
        losses = noted.losses(numbers, self.course.learner.terms)
        if noted.has_line:
            self.log.say("step", noted.step.number, **self.course.line(noted, numbers, losses, self.speed))
        for message in self.course.first_steps.look(noted, losses, numbers.norm):
            self.log.say("warning", noted.step.number, message=message)

    def _evaluate(self) -> None:
        self.ranks.stands(f"in the evaluation after step {self.step}")
        self._stop_where_nonfinite()
        self.course.evaluate(self.step, self.stop)

    def _evaluate_late(self) -> None:
        """Evaluate as was due at the step of the checkpoint, where the run was stopped before that was done."""
        [owed, *_] = self.ranks.collect(
            self._due(self.settings.evaluate_every) and not self.log.tells("evaluation", self.step)
        )
        if owed:
            self._evaluate()

    def _save(self) -> None:
        self.ranks.stands(f"before the checkpoint of step {self.step}")
        self._say_noted()
        self._stop_where_nonfinite()
        self.course.check_read()
        self.log.flush()
        learner = self.course.learner
        saved = Saved(
            cursor=self.course.cursor(self.step),
            loss_scale=(learner.scale.factor, learner.scale.good_steps),
            ranks=self.ranks.count,
            identity=self.course.identity,
            choice=self.choice,
            progress=self.course.progress(),
        )
        self._tell_written(wait=True)
        continues = self.settings.async_checkpoints and self.defers  # a processor has no time for both
        self.checkpoints.begin(learner, saved, self.course.kept, copies=continues)
        self.saved, self.saved_at = self.step, time.monotonic()
        self._tell_written(wait=not continues)

    def _tell_written(self, wait: bool) -> None:
        """Log the checkpoint that was being written, if it is there. wait: until it is"""
        if written := self.checkpoints.written(wait):
            seconds = {"seconds": round(written.seconds, 3), "wait_seconds": round(written.wait_seconds, 4)}
            self.log.say("checkpoint", written.step, name=written.name, **seconds)

    def _stop_where_nonfinite(self) -> None:
        if self.ranks.any_says(bool(self.course.learner.nonfinite.noted)):
            self._refuse()

    def _refuse(self) -> NoReturn:
        """Raise InputError for the first step that was not finite. All processes must call it."""
        step, number = self.course.learner.nonfinite.place.tolist()
        first = min(place for place in self.ranks.collect(step) if place >= 0)
        raise self.course.diverged(first, number if step == first else -1)
