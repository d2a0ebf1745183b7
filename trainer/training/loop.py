"""Pre-training: phases and steps, on any number of processes, from the newest checkpoint on.

    job ─► learner ─► resume ─► steps of every phase ─► export
                                  └─► a line of the log, an evaluation, a checkpoint, where one is due

Promise: the examples of a step and their masks are a function of the seed, the shards and the step, whatever the
number of processes and however often the run was killed or stopped. On the same number of processes, on processors,
an interrupted run ends with the very weights of an uninterrupted one; on another, with weights that differ by rounding,
and by dropout where there is any. On GPUs weights differ by rounding in any case, unless `deterministic` is asked for
(`determinism.py`).

Shards are verified meanwhile; the first checkpoint waits for that (`shard_check.py`).

A signal to stop ends the step that a run is in, or the evaluation after it, which is then done when training goes on;
the checkpoint of that step is written, and the processes leave.

No step waits for the device, but with float16, which must know of overflows: the numbers of a line are on their way
while the next step is computed, and the line is said after it (on a processor at once). The first steps of a run are
looked at one by one (`health.py`).
"""

import itertools
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from corpora.errors import InputError
from corpora.kernels.arrays import Float64s, Int64s
from corpora.store.damage import Damaged
from corpora.store.files import unfinished
from corpora.store.randomness import stream
from trainer.finished import described, finish, names_in
from trainer.huggingface.checkpoints import export
from trainer.jobs.job import TrainingJob
from trainer.jobs.phases import readings
from trainer.metrics import MetricsListener, MetricsLog, line, speak
from trainer.settings.rates import decays_begin, learning_rate
from trainer.training.beginning import BegunModel, begun_model
from trainer.training.checkpoint import Checkpoints, Cursor, Saved, read_saved, whole_state
from trainer.training.determinism import compute_reproducibly
from trainer.training.faults import mendable
from trainer.training.feed import STEP_COUNTS, Feed, MicroBatch, Step
from trainer.training.first_steps import FirstSteps
from trainer.training.health import check_vocabulary, examples_said, joined_examples
from trainer.training.learner import Learner
from trainer.training.lines import Noted, Speed, losses_of, named, on_their_way, said
from trainer.training.machine import settle
from trainer.training.optimizers import LossScale, set_weight_decay
from trainer.training.parallel import FIRST_STEPS, PeersLost, Ranks, joined
from trainer.training.seen_counts import SeenCounts
from trainer.training.shard_check import ShardCheck
from trainer.training.tensorboard import TensorBoard
from trainer.training.told import Told


def main(arguments: list[str]) -> int:
    """Train as a job's file says; 0, or 2 where the user can mend what is wrong (a line of the output says it).

    Told to stop: 128 and the signal, after a checkpoint.
    """
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        raise InputError("train takes the path of a job's JSON file, as the training stage writes it.")
    job = TrainingJob.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        with joined(job.training.device) as ranks, mendable(job.training, ranks.count, ranks.device.type):
            told = Training(job, ranks).run()
    except InputError as error:
        of_file = {"path": error.path, "what": error.what} if isinstance(error, Damaged) else {}
        speak(line({"event": "failure", "message": str(error), **of_file}))
        return 2
    except PeersLost as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 1
    return 128 + told.number if told.agreed else 0


class Training:
    """One run of the trainer, on one of its processes."""

    def __init__(self, job: TrainingJob, ranks: Ranks) -> None:
        compute_reproducibly(job.training, ranks.device)
        self.job = job
        self.ranks = ranks
        self.work = Path(job.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.log = MetricsLog(self.work, ranks.rank == 0, listeners(job, ranks))
        self.shard_check = ShardCheck(job, ranks, self.log)
        self.before_decay = decays_begin(job.training)
        self.checkpoints = Checkpoints(self.work, job.training.keep_checkpoints, ranks, self.before_decay)
        self.found = self.checkpoints.newest(job)
        before = None if self.found[0] is None else read_saved(self.found[0]).choice
        self.settings, self.choice, self.computes = settle(job.training, job.model, ranks, before)
        self.begun = begun_model(job, resumes=self.found[0] is not None)
        self.learner = Learner.of(self.begun.model, self.settings.in_phase(0), ranks)
        self.told = Told(ranks)
        self.step = 0
        self.learnt = 0  # steps of this process
        self.saved = -1  # the step of the newest checkpoint
        self.saved_at = time.monotonic()
        self.end = 0  # of the phase
        self.counts = np.zeros(len(STEP_COUNTS), np.int64)  # of the run
        self.tally = SeenCounts.of(job)
        self.speed = Speed(self.settings, ranks)
        self.first_steps = FirstSteps.of(job, self.learner.terms, ranks)
        self.noted: Noted | None = None  # a step whose line is not said yet
        self.defers = ranks.device.type != "cpu"  # the line to when its numbers have arrived

    def run(self) -> Told:
        """From the newest checkpoint, or from the beginning, to the export; or to where it was told to stop."""
        check_vocabulary(self.job)
        self._resume()
        with self.shard_check, self.checkpoints.closing(), self.told.hearing():
            for phase, settings in enumerate(self.settings.phase):
                begin, self.end = self.end, self.end + settings.steps
                if begin < self.step <= self.end:
                    self._evaluate_late(phase)
                if self.step < self.end and not self.told.agreed:
                    self._run_phase(phase)
            self._tell_written(wait=True)
            if not self.told.agreed:
                self._export()
        return self.told

    def _resume(self) -> None:
        path, faults = self.found
        if path is None:
            self.log.cut(-1)
            self._begin()
        else:
            self._restore(path)
        origin = "begins again: no whole checkpoint is left" if path is None else f"goes on from {path.name}"
        for fault in faults:
            self.log.say("damaged", self.step, message=f"{fault} Training {origin}.")

    def _begin(self) -> None:
        """With the first weights, or with the weights and the optimiser of another run."""
        origin, of_origin = self.job.origin, {}
        if origin is not None:
            saved = self.checkpoints.go_on_from(origin, self.learner.model, self.learner.optimizer)
            if self.learner.settings.precision == "float16" and saved.loss_scale[0] > 1:
                self.learner.scale = LossScale(*saved.loss_scale)
            of_origin = {"continues": origin.path}
        self._seed_dropout()
        steps, parameters = self.settings.steps, self.learner.num_parameters
        begun = {"message": self.begun.said} if self.begun.said else {}
        self.log.say("start", 0, steps=steps, parameters=parameters, **of_origin, **self._machine(), **begun)

    def _restore(self, path: Path) -> None:
        saved = self.checkpoints.load(path, self.learner.model, self.learner.optimizer)
        self.step = self.saved = saved.cursor.step
        assert saved.cursor == cursor_at(self.step, self.job), "slots follow from the step"
        if saved.ranks != self.ranks.count:
            self._seed_dropout()
        self.counts += np.array([saved.counts.get(name, 0) for name in STEP_COUNTS], np.int64)
        self.tally = SeenCounts.restored(saved.seen, self.job, self.ranks)
        self._enter(cursor_at(self.step - 1, self.job).phase)  # of the last step, of which the loss scale is
        self.learner.scale = LossScale(*saved.loss_scale)
        self.log.cut(self.step)
        self.log.say("resume", **asdict(saved.cursor), **self._machine())

    def _machine(self) -> dict[str, Any]:
        return {"processes": self.ranks.count, "device": self.ranks.device.type, "computes": self.computes}

    def _seed_dropout(self) -> None:
        """A generator of its own for every process; from then on its state is saved."""
        torch.manual_seed(int(stream(self.settings.seed, "dropout", self.step, self.ranks.rank)))

    def _run_phase(self, phase: int) -> None:
        self._enter(phase)
        self.feed = Feed(self.job, phase, self.ranks, self.learner.flops)
        cursor = cursor_at(self.step, self.job)
        done = self.step - sum(before.steps for before in self.settings.phase[:phase])
        if self.job.start is not None and self.step == 0:
            with self.speed.aside():
                self._evaluate(phase, self.feed)  # what it was before, to be compared with
        with closing(self.feed.counted_steps(done, cursor.slot, self.step)) as steps:
            for step in self.speed.waiting(steps):
                self._learn(phase, step)
                with self.speed.aside():
                    if self._due(self.settings.evaluate_every):
                        self._evaluate(phase, self.feed)
                    if self._due(self.settings.checkpoint_every) or self._time_is_up() or self._decay_begins():
                        self._save()
                    self._tell_written(wait=False)
                if self.told.agree():
                    return self._save_and_leave()

    def _learn(self, phase: int, step: Step) -> None:
        """One step; and the line of the one before, whose numbers have arrived meanwhile."""
        self.ranks.stands(f"in step {step.number}")
        rate = learning_rate(self.step, self.settings)
        outcome = self.learner.learn(step, rate)
        self.counts += step.counts[: len(STEP_COUNTS)]
        self.speed.totals = self.speed.totals.after(step)
        self.tally.add(phase, [micro_batch.tallies for micro_batch in step.micro_batches])
        self.first_steps.read(step)
        self.step += 1
        self.ranks.stands(f"after step {self.step}")
        self.learnt += 1
        if self.learnt == FIRST_STEPS:
            self.ranks.wait_no_longer_than(self.settings.timeout_seconds)
        self._say_noted()
        if (has_line := self._due(self.settings.log_every)) or self.first_steps.wants(self.step):
            numbers = on_their_way(outcome, self.learner.sick, self.ranks)
            self.noted = Noted(phase, rate, step, numbers, self.speed.totals, has_line)
        due = any(map(self._due, (self.settings.evaluate_every, self.settings.checkpoint_every)))
        if not self.defers or due or self._decay_begins():
            self._say_noted()

    def _decay_begins(self) -> bool:
        """Whether other runs may go on from here, before the rate falls."""
        return self.step in self.before_decay

    def _enter(self, phase: int) -> None:
        """Learn in the precision and with the decay of a phase."""
        settings = self.settings.in_phase(phase)
        if settings.precision != self.learner.settings.precision:
            with torch.random.fork_rng([] if self.ranks.device.type == "cpu" else [self.ranks.device]):
                model = begun_model(self.job, resumes=True).model
            self.learner = self.learner.moved(model, settings)
            self.begun = BegunModel(model=model, said=self.begun.said)  # what it was before takes no memory any more
        set_weight_decay(self.learner.optimizer, settings.weight_decay)

    def _save_and_leave(self) -> None:
        """The last whole step as a checkpoint, where it is none already; the processes leave with it."""
        self._say_noted()
        if self.ranks.rank == 0:
            speak(line({"event": "stopping", "step": self.step}))
        if self.saved != self.step:
            self._save()

    def _due(self, every: int) -> bool:
        """Whether something that is done every so many steps, and at the end of a phase, is to be done now."""
        return self.step == self.end or bool(every and self.step % every == 0)

    def _time_is_up(self) -> bool:
        """Whether a checkpoint is due by the clock; the first process's holds for all."""
        seconds = self.settings.checkpoint_minutes * 60
        own = self.ranks.rank == 0 and time.monotonic() - self.saved_at >= seconds
        return bool(seconds) and self.ranks.any_says(own)

    def _say_noted(self) -> None:
        """The line of the step that is noted, if one is, and what the first steps tell of the run."""
        noted, self.noted = self.noted, None
        if noted is None:
            return
        numbers = noted.read()
        if numbers.sick:
            self._stop()
        number, losses = noted.step.number, noted.losses(numbers, self.learner.terms)
        if noted.has_line:
            scale = {"loss_scale": self.learner.scale.factor} if self.learner.settings.precision == "float16" else {}
            rates = {"learning_rate": noted.rate, "gradient_norm": numbers.norm, **scale}
            counts, speed = said(named(noted.step.counts.tolist())), self.speed.said(noted.totals)
            self.log.say("step", number, phase=noted.phase, **losses, **rates, **counts, **speed)
        for message in self.first_steps.look(noted, losses, numbers.norm):
            self.log.say("warning", number, message=message)

    def _evaluate(self, phase: int, feed: Feed) -> None:
        """Losses on the held-out split, where there is one, next to those of guessing each token by its frequency."""
        self.ranks.stands(f"in the evaluation after step {self.step}")
        self._stop_where_sick()
        began = time.monotonic()
        parts = [self._judged(feed.held_out(component)) for component in range(len(feed.reading.inputs))]
        if self.told.agreed:
            return  # it is done when training goes on
        whole = EvaluationSums(*(np.sum(of_parts, axis=0) for of_parts in zip(*parts, strict=True)))
        if self.ranks.rank == 0 and whole.guessed.any():
            guessed = {
                "unigram_entropy": cross_entropy(whole.guessed, whole.guessed),
                "unigram_loss": cross_entropy(whole.guessed, feed.token_counts + 1),  # none is taken for impossible
            }
            found = {**self._said(whole), **guessed}
            if len(parts) > 1:
                names = [shards.name for shards in feed.reading.inputs]
                found["components"] = {name: self._said(part) for name, part in zip(names, parts, strict=True)}
            self.log.say("evaluation", self.step, phase=phase, **found, seconds=round(time.monotonic() - began, 3))

    def _judged(self, held_out: Iterator[MicroBatch]) -> "EvaluationSums":
        heard = itertools.takewhile(lambda _: not self.told.agree(), held_out)
        return EvaluationSums(*(tensor.cpu().numpy() for tensor in self.learner.judge(heard)))

    def _said(self, judged: "EvaluationSums") -> dict[str, Any]:
        divisors = judged.counts[len(STEP_COUNTS) :].tolist()
        right, words = judged.words.tolist()
        of_words = {"rare_word_accuracy": right / words, "rare_words": words} if words else {}
        losses = losses_of(judged.sums.tolist(), divisors, self.learner.terms)
        return {**losses, **self.learner.model.figures(judged.measures), **of_words, **said(judged.named)}

    def _evaluate_late(self, phase: int) -> None:
        """The evaluation that was due at the step of the checkpoint, where the run was stopped before it was done."""
        [owed, *_] = self.ranks.collect(
            self._due(self.settings.evaluate_every) and not self.log.tells("evaluation", self.step)
        )
        if owed:
            self._evaluate(phase, Feed(self.job, phase, self.ranks))

    def _save(self) -> None:
        self.ranks.stands(f"before the checkpoint of step {self.step}")
        self._say_noted()
        self._stop_where_sick()
        self.shard_check.wait(self.step)
        self.log.flush()
        saved = Saved(
            cursor=cursor_at(self.step, self.job),
            counts=named(self.counts.tolist()),
            loss_scale=(self.learner.scale.factor, self.learner.scale.good_steps),
            ranks=self.ranks.count,
            identity=self.job.identity,
            seen=self.tally.total(self.ranks),
            choice=self.choice,
        )
        self._tell_written(wait=True)
        self.checkpoints.begin(self.learner.model, self.learner.optimizer, saved)
        self.saved, self.saved_at = self.step, time.monotonic()
        self._tell_written(wait=not self.settings.async_checkpoints)

    def _tell_written(self, wait: bool) -> None:
        """Say that the checkpoint is there that was being written, if it is. wait: until it is"""
        if written := self.checkpoints.written(wait):
            seconds = {"seconds": round(written.seconds, 3), "wait_seconds": round(written.wait_seconds, 4)}
            self.log.say("checkpoint", written.step, name=written.name, **seconds)

    def _stop_where_sick(self) -> None:
        if self.ranks.any_says(bool(self.learner.sick.found)):
            self._stop()

    def _stop(self) -> None:
        """Raise InputError, which names the examples of the step that was not finite. All processes must call it."""
        step, number = self.learner.sick.place.tolist()
        first = min(place for place in self.ranks.collect(step) if place >= 0)
        cursor = cursor_at(first - 1, self.job)
        place = first - 1 - (self.end - self.settings.phase[cursor.phase].steps), cursor.slot
        named = self.feed.examples(*place, number) if step == first and number >= 0 else {}
        of_loss = joined_examples(self.ranks.collect(named))
        raise InputError(
            f"The gradient is not finite any more at step {first} (learning rate "
            f"{learning_rate(first - 1, self.settings):.3g}, precision {self.learner.settings.precision}): lower "
            "training.learning_rate, raise training.warmup_steps, or set training.clip_norm. Checkpoints are of "
            f"before. {examples_said(self.job.store, of_loss or self.feed.examples(*place), bool(of_loss))}"
        )

    def _export(self) -> None:
        """The finished model as a folder, made visible in one step."""
        self.shard_check.wait(self.step)
        state = whole_state(self.learner.model)
        counts = named(self.counts.tolist())
        of_run = {"steps": self.step, "parameters": self.learner.num_parameters, "seen": self.tally.total(self.ranks)}
        facts = {**of_run, **counts}
        if self.ranks.rank == 0:
            new = unfinished(self.job.export, alone=True)
            for folder in (new, self.job.export):
                shutil.rmtree(folder, ignore_errors=True)
            new.mkdir()
            export(new, state, self.job.model, self.job.inputs)
            finish(new, {"identity": self.job.identity, **facts}, described(new, names_in(new)))
            new.rename(self.job.export)
            self.checkpoints.clear_damaged()
        self.ranks.wait()
        self.log.say("done", self.step, parameters=self.learner.num_parameters, **counts)


def listeners(job: TrainingJob, ranks: Ranks) -> list[MetricsListener]:
    """Who is told what a run says, besides its log."""
    return [TensorBoard(Path(job.work))] if job.training.tensorboard and ranks.rank == 0 else []


def cursor_at(step: int, job: TrainingJob) -> Cursor:
    """Where a run is after so many steps. Phases on the same shards read on, one where the other ended."""
    phases, done = job.training.phase, step
    for phase, (settings, reading) in enumerate(zip(phases, readings(job), strict=True)):
        if done < settings.steps or phase == len(phases) - 1:
            first = reading.begins[0] if len(reading.inputs) == 1 else 0  # a mixture's slots are the phase's own
            return Cursor(phase=phase, step=step, slot=first + settings.slots_before(done))
        done -= settings.steps
    raise AssertionError("a run has a phase")


class EvaluationSums(NamedTuple):
    """What an evaluation came to, over all processes.

    sums:    [terms, 2], counts: [STEP_COUNTS + terms], as of a step
    guessed: [vocabulary], how often each token was to be guessed
    words:   [2], of those apart from the commonest: how many are guessed, and how many there are
    measures: what else the objective adds up
    """

    sums: Float64s
    counts: Int64s
    guessed: Int64s
    words: Int64s
    measures: Float64s

    @property
    def named(self) -> dict[str, int]:
        """The counts by name."""
        return named(self.counts.tolist())


def cross_entropy(targets: Int64s, weights: Int64s) -> float:
    """Nats a target costs on average under the distribution that the weights are proportional to."""
    there = targets > 0
    shares = targets[there] / targets.sum()
    return float(-(shares * np.log(weights[there] / weights.sum())).sum())
